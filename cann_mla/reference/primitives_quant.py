"""aclnnAscendQuant and aclnnAscendQuantV3: quantisation with scales that are given.

``y = saturate(round(x * scale + offset))``, the scale taken twice in square root mode; every operation is rounded to
float32.

Source: CANN's pages of the operators, and their kernels for the order of the operations.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from cann_mla.dtypes import INT4, INT8, INT32, Array, DType, pack_4bit
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rounding import cast_saturating, widen
from cann_mla.reference.settings import check_settings, compute_type

ROUND_MODES = {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


@np.errstate(all="ignore")
def ascend_quant(
    x: Array,
    scale: Array,
    offset: Array | None = None,
    *,
    out: DType = INT8,
    axis: int = -1,
    sqrt_mode: bool = False,
    round_mode: str = "round",
    precision: str = "device",
) -> Array:
    """Quantise with one scale for all, or one for each index of an axis.

    Parameters
    ----------
    x : ndarray of FP32, FP16 or BF16
    scale : ndarray of FP32, FP16 or BF16
        Shape (1,) or (x.shape[axis],), or as many axes as `x`, all but `axis` of size 1. It multiplies.
    offset : ndarray, shape of `scale`, optional
    out : DType
        INT8; INT4; INT32, eight INT4 an element, low nibble first; HIFLOAT8, FLOAT8_E5M2 or FLOAT8_E4M3FN, which
        have a rounding of their own.
    axis : int
    sqrt_mode : bool
        Multiply by the scale twice.
    round_mode : {"round", "floor", "ceil", "trunc"}
        round: ties to even.
    precision : {"device", "exact"}

    Returns
    -------
    ndarray in the form of `out`, shape of `x`; for INT32 an eighth of its last axis

    Raises
    ------
    ValueError
        If the rounding is unknown, or the scale does not fit.
    """
    compute = compute_type(precision)
    factor = _along(scale, x, axis, compute)
    values = widen(x, compute) * factor
    if sqrt_mode:
        values *= factor
    if offset is not None:
        values += _along(offset, x, axis, compute)
    if out not in (INT8, INT4, INT32):
        return cast_saturating(values, out)
    if round_mode not in ROUND_MODES:
        raise ValueError(f"roundMode {round_mode!r} is none of {', '.join(ROUND_MODES)}")
    whole = ROUND_MODES[round_mode](values)
    return cast_saturating(whole, INT8) if out is INT8 else _to_int4(whole, packed=out is INT32)


def _along(factor: Array, x: Array, axis: int, compute: np.dtype[Any]) -> Array:
    """A factor shaped to multiply `x`."""
    values = widen(factor, compute)
    if values.ndim == 1 and values.size != 1:
        shape = [1] * x.ndim
        shape[axis] = values.size
        values = values.reshape(shape)
    if values.size not in (1, x.shape[axis]) or np.broadcast_shapes(values.shape, x.shape) != x.shape:
        raise ValueError(f"a scale of shape {factor.shape} does not fit axis {axis} of x, whose shape is {x.shape}")
    return values


def _to_int4(whole: Array, *, packed: bool) -> Array:
    elements: Array = np.clip(np.nan_to_num(whole, nan=0.0), -8, 7).astype(np.int8).astype(ml_dtypes.int4)
    if not packed:
        return elements
    words: Array = pack_4bit(elements).view(np.int32)
    return words.reshape(*elements.shape[:-1], elements.shape[-1] // 8)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    result = ascend_quant(
        arguments["x"],
        arguments["scale"],
        arguments.get("offset"),
        out=outputs["y"][1],
        axis=int(arguments.get("axis", -1)),
        sqrt_mode=bool(arguments.get("sqrt_mode", False)),
        round_mode=arguments.get("round_mode", "round"),
        precision=precision,
    )
    return {"y": result}

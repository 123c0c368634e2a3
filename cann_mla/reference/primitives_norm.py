"""aclnnRmsNorm, aclnnDynamicQuant and aclnnDynamicQuantV2.

Source: CANN's pages of the operators; dynamic quantisation as the 950 kernel computes it, from which the A2 and
A3 kernels differ by one unit here and there.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from cann_mla.dtypes import INT4, INT8, INT32, Array, DType, pack_4bit
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rounding import cast_saturating, largest, widen
from cann_mla.reference.settings import check_settings, compute_type, is_950

_FOUR_BITS = (INT4, INT32)
_SMALLEST_STEP = 1e-12


@np.errstate(all="ignore")
def rms_norm(x: Array, gamma: Array, *, epsilon: float = 1e-6, precision: str = "device") -> tuple[Array, Array]:
    """RmsNorm over the trailing axes that `gamma` covers.

    Parameters
    ----------
    x : ndarray of FP16, BF16 or FP32
    gamma : ndarray, shape of the trailing axes of `x`
        Type of `x`, or FP32.
    epsilon : float
    precision : {"device", "exact"}

    Returns
    -------
    y : ndarray, shape and type of `x`
    rstd : ndarray of float32
        1 / sqrt(mean(x^2) + epsilon), with one for every normalised axis.

    Both are float64 in ``exact`` precision.
    """
    compute = compute_type(precision)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    wide = widen(x, compute)
    mean = np.square(wide).sum(axis=axes, keepdims=True) * compute.type(1.0 / gamma.size)
    rstd = compute.type(1) / np.sqrt(mean + compute.type(epsilon))
    y = wide * rstd * widen(gamma, compute)
    return (y if precision == "exact" else y.astype(x.dtype)), rstd


@np.errstate(all="ignore")
def dynamic_quant(
    x: Array,
    *,
    out: DType = INT8,
    smooth_scales: Array | None = None,
    group_index: Array | None = None,
    precision: str = "device",
) -> tuple[Array, Array]:
    """Quantise every row with a scale of its own.

    Parameters
    ----------
    x : ndarray of FP16 or BF16, shape (..., H)
    out : DType
        INT8, INT4, INT32 (eight INT4 an element, low nibble first), HIFLOAT8, FLOAT8_E5M2 or FLOAT8_E4M3FN.
    smooth_scales : ndarray, shape (H,) or (E, H), optional
        Multiplied in first.
    group_index : ndarray of int, shape (E,), optional
        End row of each group, for smooth scales of shape (E, H).
    precision : {"device", "exact"}

    Returns
    -------
    y : ndarray in the form of `out`, shape (..., H)
        For INT32 (..., H / 8). A row of zeros gives zeros.
    scale : ndarray of float32 (``exact``: float64), shape (...)
        Dequantisation scale.
    """
    values = _smoothed(x, smooth_scales, group_index, compute_type(precision))
    top = values.dtype.type(_largest(out))
    maximum = np.abs(values).max(axis=-1, keepdims=True, initial=0)
    scale = maximum / top if precision == "exact" else maximum * (values.dtype.type(1) / top)
    return _cast(np.where(scale == 0, 0, values / scale), out), scale[..., 0]


@np.errstate(all="ignore")
def dynamic_quant_asymmetric(
    x: Array,
    *,
    out: DType = INT8,
    smooth_scales: Array | None = None,
    group_index: Array | None = None,
    soc: str = "Ascend910B",
    precision: str = "device",
) -> tuple[Array, Array, Array]:
    """Quantise every row with a scale and an offset of its own: y = rint(x / scale + offset).

    Parameters as for :func:`dynamic_quant`; `out` is INT8, INT4 or INT32. The smallest value of a row becomes the
    smallest integer.

    Returns
    -------
    y, scale, offset : ndarray
        `scale` and `offset` have the shape of `x` without its last axis.
    """
    values = _smoothed(x, smooth_scales, group_index, compute_type(precision))
    number = values.dtype.type
    top = number(_largest(out))
    steps = 2 * top + 1
    highest, lowest = values.max(axis=-1, keepdims=True), values.min(axis=-1, keepdims=True)
    if precision == "exact" or not is_950(soc):
        scale = np.maximum((highest - lowest) / steps, number(_SMALLEST_STEP))
    else:
        scale = (highest - lowest) * (number(1) / steps)
    offset = top - highest / scale
    scaled = values / scale if precision == "exact" or is_950(soc) else values * (number(1) / scale)
    return _cast(scaled + offset, out), scale[..., 0], offset[..., 0]


def _smoothed(x: Array, smooth: Array | None, group_index: Array | None, compute: np.dtype[Any]) -> Array:
    values = widen(x, compute)
    if smooth is None:
        return values
    factors = widen(smooth, compute)
    if group_index is not None:
        rows = np.arange(x.size // x.shape[-1])
        group = np.minimum(np.searchsorted(group_index, rows, side="right"), smooth.shape[0] - 1)
        factors = factors[group].reshape(x.shape)
    smoothed: Array = values * factors
    return smoothed


def _largest(out: DType) -> float:
    return 7.0 if out in _FOUR_BITS else largest(out)


def _cast(values: Array, out: DType) -> Array:
    if out in _FOUR_BITS:
        elements: Array = np.clip(np.rint(np.nan_to_num(values, nan=0.0)), -8, 7).astype(np.int8).astype(ml_dtypes.int4)
        return elements if out is INT4 else _packed_in_int32(elements)
    return cast_saturating(values, out)


def _packed_in_int32(elements: Array) -> Array:
    words: Array = pack_4bit(elements).view(np.int32)
    return words.reshape(*elements.shape[:-1], elements.shape[-1] // 8)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    if symbol == "aclnnRmsNorm":
        epsilon = arguments.get("epsilon", 1e-6)
        y, rstd = rms_norm(arguments["x"], arguments["gamma"], epsilon=epsilon, precision=precision)
        return {"y": y, "rstd": rstd}
    given = {name: arguments.get(name) for name in ("smooth_scales", "group_index")}
    kind = outputs["y"][1]
    if "offset" in outputs:
        y, scale, offset = dynamic_quant_asymmetric(arguments["x"], out=kind, soc=soc, precision=precision, **given)
        return {"y": y, "scale": scale, "offset": offset}
    y, scale = dynamic_quant(arguments["x"], out=kind, precision=precision, **given)
    return {"y": y, "scale": scale}

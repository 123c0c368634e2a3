"""aclnnQuantMatmulV3 to V5 and WeightNz: products of eight-bit operands whose sums are scaled.

NZ weights come as the logical row-major matrix, so that the NZ variants are the same function.

Source: CANN's pages of the operators, and the goldens of their tests for the order of the operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import (
    BF16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FP32,
    HIFLOAT8,
    INT8,
    INT32,
    INT64,
    UINT64,
    Array,
    DType,
    dtype,
)
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.matmul import product
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings, compute_type, is_950

_FLOATS = (FLOAT8_E4M3FN, FLOAT8_E5M2, HIFLOAT8)


@np.errstate(all="ignore")
def quant_matmul(
    x1: Array,
    x2: Array,
    *,
    x2_scale: Array,
    out: DType,
    x1_scale: Array | None = None,
    x2_offset: Array | None = None,
    bias: Array | None = None,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    soc: str = "Ascend910B",
    precision: str = "device",
) -> Array:
    """Product of eight-bit operands with one scale a column and, if given, one a row.

    Parameters
    ----------
    x1 : ndarray of INT8, HIFLOAT8, FLOAT8_E4M3FN or FLOAT8_E5M2, shape (..., m, k); (..., k, m) with `transpose_x1`
    x2 : ndarray, shape (..., k, n); (..., n, k) with `transpose_x2`
        INT8 goes with INT8, HIFLOAT8 with itself.
    x2_scale : ndarray, shape (n,) or (1,)
        FP32 or BF16; INT64 or UINT64 hold a float32 in their low word, of which 19 bits count, and may hold an offset
        as a signed integer of nine bits, from bit 37. On Ascend950 19 bits count as well of a single scale for INT8
        operands, without `x1_scale` and floating bias.
    out : DType
        INT32 (nothing is scaled), FP32, BF16 or FP16; INT8, for which scaled sums are rounded to nine bits,
        saturating, before the offset is added.
    x1_scale : ndarray of FP32, shape (m,) or, for floating operands, (1,), optional
        Where both scales are single ones, and there is no bias, their product counts with 19 bits.
    x2_offset : ndarray of FP32, shape (n,) or (1,), optional
        For INT8. Rounded to nine bits; wins over the one in `x2_scale`.
    bias : ndarray, shape (n,) or (batch, 1, n), optional
        INT32 is added to the integers, FP32, BF16 and FP16 to the scaled values; to the sums of floating operands
        without `x1_scale`.
    soc : str
    precision : {"device", "exact"}

    Returns
    -------
    ndarray of `out`, shape (..., m, n); float64 in ``exact`` precision, unless an integer type

    Raises
    ------
    NotImplementedError
        For an offset with another output than INT8, and for scales of blocks.
    """
    if x2_offset is not None and out is not INT8:
        raise NotImplementedError(f"an offset belongs to INT8 output; there is no reference for it with {out}")
    if any(scale is not None and scale.ndim > 1 for scale in (x1_scale, x2_scale)) or _is_exponent(x2_scale):
        raise NotImplementedError("quant_matmul has a reference for scales of one dimension, of FP32, BF16 or packed")
    left = np.swapaxes(x1, -1, -2) if transpose_x1 else x1
    right = np.swapaxes(x2, -1, -2) if transpose_x2 else x2
    compute, floating = compute_type(precision), dtype(x1.dtype) in _FLOATS
    total = _sums(left, right, compute if floating else np.dtype(np.float64))
    early = bias is not None and (x1_scale is None if floating else dtype(bias.dtype) is INT32)
    if bias is not None and early:
        total = total + widen(bias, total.dtype)
    if out is INT32:
        return total.astype(np.int64).astype(np.int32)
    late = None if early else bias
    factor = _scale_values(x2_scale)
    if precision == "device" and factor.size == 1 and late is None:
        if not floating and is_950(soc) and x1_scale is None:
            factor = _upper_19_bits(factor)
        elif floating and x1_scale is not None and x1_scale.size == 1:
            factor, x1_scale = _upper_19_bits(factor * x1_scale), None
    scaled: Array = total.astype(compute, copy=False) * factor.astype(compute)
    if out is INT8:
        offset = _offset_values(x2_scale) if x2_offset is None else widen(x2_offset, compute)
        requantised: Array = np.clip(_to_nine_bits(scaled) + _to_nine_bits(offset), -128, 127)
        return requantised.astype(np.int8)
    if x1_scale is not None:
        scaled *= x1_scale.astype(compute)[:, None]
    if late is not None:
        scaled += widen(late, compute)
    return scaled if precision == "exact" else scaled.astype(out.numpy)


def _is_exponent(scale: Array) -> bool:
    return dtype(scale.dtype) not in (FP32, BF16, INT64, UINT64)


def _sums(x1: Array, x2: Array, kind: np.dtype[Any]) -> Array:
    """Sums of products; of integers exact in float64, which holds every int32."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    left, right = np.broadcast_to(x1, (*batch, *x1.shape[-2:])), np.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    total = np.empty((*batch, x1.shape[-2], x2.shape[-1]), kind)
    for index in np.ndindex(*batch):
        total[index] = product(left[index], right[index], kind)
    return total


def _scale_values(scale: Array) -> Array:
    if dtype(scale.dtype) in (INT64, UINT64):
        return _upper_19_bits(scale.view(np.uint64).astype(np.uint32).view(np.float32))
    return widen(scale)


def _upper_19_bits(scale: Array) -> Array:
    """Scales as the output stage of the matrix unit holds them."""
    kept: Array = np.ascontiguousarray(scale, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return kept.view(np.float32)


def _offset_values(scale: Array) -> Array:
    """Offsets that packed scales carry, as float32."""
    if dtype(scale.dtype) not in (INT64, UINT64):
        return np.zeros(1, np.float32)
    bits = (scale.view(np.uint64) >> np.uint64(37)).astype(np.int64) & 0x1FF
    signed: Array = (bits ^ 0x100) - 0x100
    return signed.astype(np.float32)


def _to_nine_bits(values: Array) -> Array:
    """To the nearest signed integer of nine bits, ties to even."""
    rounded: Array = np.clip(np.rint(values), -256, 255)
    return rounded


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    shape, out = outputs["out"]
    result = quant_matmul(
        arguments["x1"],
        arguments["x2"],
        x2_scale=arguments["x2_scale"] if "x2_scale" in arguments else arguments["scale"],
        x1_scale=arguments.get("x1_scale", arguments.get("pertoken_scale")),
        x2_offset=arguments.get("offset", arguments.get("x2_offset")),
        bias=arguments.get("bias"),
        transpose_x1=bool(arguments.get("transpose_x1", False)),
        transpose_x2=bool(arguments.get("transpose_x2", False)),
        out=out,
        soc=soc,
        precision=precision,
    )
    return {"out": result.reshape(shape)}

"""aclnnMm, aclnnMatmul, aclnnQuantMatmul and their NZ variants.

NZ weights come as the logical row-major matrix, so that the NZ variants are the same function.

Source: CANN's pages of the operators and their host code (which type a product is computed in).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import BF16, FP16, FP32, INT8, INT32, INT64, UINT64, Array, DType, dtype
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.matmul import product
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings, compute_type

KEEP, ALLOW_DOWN, USE_FP16, USE_HF32, GROUPED = range(5)


@np.errstate(all="ignore")
def matmul(self: Array, mat2: Array, *, out: DType, cube_math_type: int = KEEP, precision: str = "device") -> Array:
    """Product of two tensors by NumPy's rules for ``@``, one-dimensional operands and batches included.

    Parameters
    ----------
    self, mat2 : ndarray of FP16, BF16 or FP32
    out : DType
        FP16, BF16 or FP32.
    cube_math_type : int
        0 keep the type, 1 and 3 compute FP32 as HF32, 2 compute in FP16, 4 FP32 with grouped additions (the same
        value here).
    precision : {"device", "exact"}

    Returns
    -------
    ndarray of `out`; float64 in ``exact`` precision

    Notes
    -----
    Unless FP32 is asked for, the result leaves the matrix unit in the type computed in, and a second rounding
    takes it to `out`.
    """
    if precision == "exact":
        exact: Array = widen(self, np.float64) @ widen(mat2, np.float64)
        return exact
    first, second = dtype(self.dtype), dtype(mat2.dtype)
    kind = _compute_kind(first, second, cube_math_type)
    one_term = self.shape[-1] == 1 and first is second is out
    hf32 = cube_math_type in (ALLOW_DOWN, USE_HF32) and FP32 in (first, second) and BF16 not in (first, second)
    if hf32 and not one_term:
        left, right = _to_hf32(widen(self)), _to_hf32(widen(mat2))
    else:
        left, right = widen(widen(self).astype(kind.numpy)), widen(widen(mat2).astype(kind.numpy))
    accumulated: Array = np.asarray(left @ right)
    if out is FP32 and cube_math_type != USE_FP16:
        return accumulated
    return widen(accumulated.astype(kind.numpy)).astype(out.numpy)


def _compute_kind(first: DType, second: DType, cube_math_type: int) -> DType:
    if first is second and first in (FP16, BF16):
        return first
    return FP16 if cube_math_type == USE_FP16 else FP32


def _to_hf32(values: Array) -> Array:
    """Keep eleven mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded: Array = bits + np.uint32(0x7FF) + ((bits >> 12) & np.uint32(1))
    kept: Array = rounded & np.uint32(0xFFFFF000)
    return kept.view(np.float32).reshape(values.shape)


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
    precision: str = "device",
) -> Array:
    """Product of INT8 operands with one scale a column and, if given, one a row.

    Parameters
    ----------
    x1 : ndarray of INT8, shape (..., m, k); (..., k, m) with `transpose_x1`
    x2 : ndarray of INT8, shape (..., k, n); (..., n, k) with `transpose_x2`
    x2_scale : ndarray, shape (n,) or (1,)
        FP32 or BF16; INT64 or UINT64 hold a float32 in their low word, of which 19 bits count, and may hold an offset
        as a signed integer of nine bits, from bit 37.
    out : DType
        INT32 (nothing is scaled), BF16 or FP16; INT8, for which scaled sums are rounded to nine bits, saturating,
        before the offset is added.
    x1_scale : ndarray of FP32, shape (m,), optional
    x2_offset : ndarray of FP32, shape (n,) or (1,), optional
        For INT8. Rounded to nine bits; wins over the one in `x2_scale`.
    bias : ndarray, shape (n,) or (batch, 1, n), optional
        INT32 is added to the integers, FP32, BF16 and FP16 to the scaled values.

    Returns
    -------
    ndarray of `out`, shape (..., m, n); float64 in ``exact`` precision, unless an integer type

    Raises
    ------
    NotImplementedError
        For an offset with another output than INT8.
    """
    if x2_offset is not None and out is not INT8:
        raise NotImplementedError(f"an offset belongs to INT8 output; there is no reference for it with {out}")
    left = np.swapaxes(x1, -1, -2) if transpose_x1 else x1
    right = np.swapaxes(x2, -1, -2) if transpose_x2 else x2
    total = _integer_product(left, right)
    if bias is not None and dtype(bias.dtype) is INT32:
        total += bias
        bias = None
    if out is INT32:
        return total.astype(np.int64).astype(np.int32)
    compute = compute_type(precision)
    scaled: Array = total.astype(compute) * _scale_values(x2_scale).astype(compute)
    if out is INT8:
        offset = _offset_values(x2_scale) if x2_offset is None else widen(x2_offset, compute)
        requantised: Array = np.clip(_to_nine_bits(scaled) + _to_nine_bits(offset), -128, 127)
        return requantised.astype(np.int8)
    if x1_scale is not None:
        scaled *= x1_scale.astype(compute)[:, None]
    if bias is not None:
        scaled += widen(bias, compute)
    return scaled if precision == "exact" else scaled.astype(out.numpy)


def _integer_product(x1: Array, x2: Array) -> Array:
    """Exact sums, as float64, which holds every int32."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    left, right = np.broadcast_to(x1, (*batch, *x1.shape[-2:])), np.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    total = np.empty((*batch, x1.shape[-2], x2.shape[-1]), np.float64)
    for index in np.ndindex(*batch):
        total[index] = product(left[index], right[index], np.dtype(np.float64))
    return total


def _scale_values(scale: Array) -> Array:
    if dtype(scale.dtype) in (INT64, UINT64):
        low: Array = scale.view(np.uint64).astype(np.uint32) & np.uint32(0xFFFFE000)
        return low.view(np.float32)
    return widen(scale)


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
    if symbol in ("aclnnMm", "aclnnMatmul", "aclnnMatmulWeightNz"):
        result = matmul(
            arguments["self"],
            arguments["mat2"],
            out=out,
            cube_math_type=arguments.get("cube_math_type", KEEP),
            precision=precision,
        )
        return {"out": result.reshape(shape)}
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
        precision=precision,
    )
    return {"out": result.reshape(shape)}

"""aclnnMm, aclnnMatmul and aclnnMatmulWeightNz.

NZ weights come as the logical row-major matrix, so that the NZ variant is the same function.

Source: CANN's pages of the operators and their host code (which type a product is computed in).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import BF16, FP16, FP32, Array, DType, dtype
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings

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


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    shape, out = outputs["out"]
    result = matmul(
        arguments["self"],
        arguments["mat2"],
        out=out,
        cube_math_type=arguments.get("cube_math_type", KEEP),
        precision=precision,
    )
    return {"out": result.reshape(shape)}

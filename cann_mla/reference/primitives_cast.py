"""aclnnCast, and the operators that change a weight's storage but not its elements.

Source: CANN's pages of the operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import BOOL, FP64, HIFLOAT8, Array, DType, dtype, hifloat8_encode
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings


@np.errstate(all="ignore")
def cast(self: Array, out: DType) -> Array:
    """Elements in another type.

    Floating to narrower floating: nearest even, overflow to infinity. Floating to integer: towards zero, NaN to
    0; what lies outside the integer's range is undefined on the device and saturates here. Integer to narrower
    integer wraps. Anything to BOOL: whether it is non-zero.

    Parameters
    ----------
    self : ndarray
        Any CANN type in its NumPy form.
    out : DType
    """
    source = dtype(self.dtype)
    if source is out:
        return np.array(self)
    floating = source is HIFLOAT8 or self.dtype.kind in "fV"
    values: Array = widen(self, np.float64) if floating else self
    if out is BOOL:
        return np.asarray(values != 0)
    if out is HIFLOAT8:
        return hifloat8_encode(values.astype(np.float64), saturate=False)
    if floating and out.numpy.kind in "iu":
        return _truncate(values, out)
    if floating and source is not FP64:
        values = values.astype(np.float32)  # what narrow types round from
    return values.astype(out.numpy)


def _truncate(values: Array, out: DType) -> Array:
    limits = np.iinfo(out.numpy)
    whole: Array = np.trunc(np.nan_to_num(values, nan=0.0))
    inside: Array = np.clip(whole, limits.min, limits.max).astype(out.numpy)
    inside[whole >= limits.max] = limits.max  # the largest int64 is no float64
    return inside


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`.

    aclnnTransMatmulWeight and aclnnNpuFormatCast move elements into or out of FRACTAL_NZ; by the convention that
    an NZ operand is given as its logical matrix, they return what they got.
    """
    check_settings(soc, precision)
    if symbol == "aclnnTransMatmulWeight":
        return {"mm_weight": arguments["mm_weight"].copy()}
    if symbol == "aclnnNpuFormatCast":
        return {"dst_tensor": arguments["src_tensor"].copy()}
    return {"out": cast(arguments["self"], outputs["out"][1])}

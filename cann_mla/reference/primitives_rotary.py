"""aclnnRotaryPositionEmbedding, aclnnInterleaveRope and aclnnInplacePartialRotaryMul.

Source: CANN's pages of the operators. The arithmetic is float32 with one rounding at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rope import HALF, INTERLEAVE, INTERLEAVE_HALF, rotate
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings, compute_type, is_950


@np.errstate(all="ignore")
def rotary_position_embedding(
    x: Array, cos: Array, sin: Array, *, mode: int = HALF, soc: str = "Ascend950", precision: str = "device"
) -> Array:
    """Rotate the last axis.

    Parameters
    ----------
    x : ndarray of FP16, BF16 or FP32, shape (..., D)
    cos, sin : ndarray, broadcastable to `x`
    mode : int
        See :mod:`cann_mla.reference.rope`. On A2 and A3 whatever is not 1 is computed as 0.
    soc : str
    precision : {"device", "exact"}

    Returns
    -------
    ndarray, shape and type of `x`; float64 in ``exact`` precision
    """
    if not is_950(soc) and mode != INTERLEAVE:
        mode = HALF
    return _rotated(x, cos, sin, mode, precision)


@np.errstate(all="ignore")
def interleave_rope(x: Array, cos: Array, sin: Array, *, precision: str = "device") -> Array:
    """Rotate pairs x[2i], x[2i + 1] of the last axis; results go out as halves.

    Parameters
    ----------
    x : ndarray, shape (B, N, S, D)
    cos, sin : ndarray, shape (B, 1, S or 1, D)
    """
    return _rotated(x, cos, sin, INTERLEAVE_HALF, precision)


@np.errstate(all="ignore")
def inplace_partial_rotary_mul(
    x: Array, cos: Array, sin: Array, *, partial_slice: Sequence[int] | None = None, precision: str = "device"
) -> Array:
    """Rotate pairs within ``x[..., start:end]``; the rest stays, bit for bit.

    Parameters
    ----------
    x : ndarray of FP16, BF16 or FP32, shape (B, S, N, D)
    cos, sin : ndarray, last axis end - start, broadcastable
    partial_slice : (start, end), optional
        Without it, or empty: the whole axis. start = end changes nothing.

    Returns
    -------
    ndarray, shape and type of `x`; float64 in ``exact`` precision
    """
    start, end = partial_slice if partial_slice is not None and len(partial_slice) else (0, x.shape[-1])
    result = widen(x, np.float64) if precision == "exact" else x.copy()
    if start != end:
        result[..., start:end] = _rotated(x[..., start:end], cos, sin, INTERLEAVE, precision)
    return result


def _rotated(x: Array, cos: Array, sin: Array, mode: int, precision: str) -> Array:
    compute = compute_type(precision)
    rotated = rotate(widen(x, compute), widen(cos, compute), widen(sin, compute), mode)
    return rotated if precision == "exact" else rotated.astype(x.dtype)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    x, cos, sin = arguments["x"], arguments["cos"], arguments["sin"]
    if symbol == "aclnnInplacePartialRotaryMul":
        part = arguments.get("partial_slice")
        return {"x": inplace_partial_rotary_mul(x, cos, sin, partial_slice=part, precision=precision)}
    if symbol == "aclnnInterleaveRope":
        return {"out": interleave_rope(x, cos, sin, precision=precision)}
    mode = arguments.get("mode", HALF)
    return {"out": rotary_position_embedding(x, cos, sin, mode=mode, soc=soc, precision=precision)}

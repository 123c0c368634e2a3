"""Rotary position embedding in the four arrangements that CANN's operators know.

A rotation turns pairs (a, b) into (a cos - b sin, b cos + a sin). The modes, with the numbers that
aclnnRotaryPositionEmbedding gives them, differ in where the two members of a pair lie:

====  ===================  ===============================  ==========================
mode  name                 pair comes in as                 goes out as
====  ===================  ===============================  ==========================
0     half                 x[i], x[D/2 + i]                 the same
1     interleave           x[2i], x[2i + 1]                 the same
2     quarter              mode 0 within each half          the same
3     interleave-half      x[2i], x[2i + 1]                 y[i], y[D/2 + i]
====  ===================  ===============================  ==========================

Source: CANN's page of aclnnRotaryPositionEmbedding; MlaProlog rotates in mode 3.
"""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import Array

HALF, INTERLEAVE, QUARTER, INTERLEAVE_HALF = range(4)


def rotate(v: Array, cos: Array, sin: Array, mode: int) -> Array:
    """v * cos + partner(v) * sin: two products and one sum, each rounded to the type of `v`.

    Parameters
    ----------
    v : ndarray of float32 or float64, shape (..., D)
        D even, for mode 2 a multiple of 4.
    cos, sin : ndarray, broadcastable to `v`, same type
        One factor for each element of the output; halves or pairs of them need not be equal.
    mode : int
        See the table of the module.

    Returns
    -------
    ndarray, shape and type of `v`

    Raises
    ------
    ValueError
        If there is no such mode.
    """
    if mode == INTERLEAVE_HALF:
        v = np.concatenate([v[..., 0::2], v[..., 1::2]], axis=-1)
    partner = np.empty_like(v)
    for first, second in _pairs(v.shape[-1], mode):
        partner[..., first], partner[..., second] = -v[..., second], v[..., first]
    rotated: Array = v * cos
    rotated += partner * sin
    return rotated


def _pairs(width: int, mode: int) -> list[tuple[slice, slice]]:
    """Where first and second members of the pairs lie."""
    half, quarter = width // 2, width // 4
    if mode in (HALF, INTERLEAVE_HALF):
        return [(slice(0, half), slice(half, None))]
    if mode == INTERLEAVE:
        return [(slice(0, None, 2), slice(1, None, 2))]
    if mode == QUARTER:
        return [
            (slice(0, quarter), slice(quarter, half)),
            (slice(half, 3 * quarter), slice(3 * quarter, None)),
        ]
    raise ValueError(f"rotary mode must be 0 half, 1 interleave, 2 quarter or 3 interleave-half, got {mode}")

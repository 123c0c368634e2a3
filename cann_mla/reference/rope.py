"""Rotary position embedding of DeepSeek's MLA: pairs come in interleaved, go out as halves."""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import Array


def rotate_interleaved(v: Array, cos: Array, sin: Array) -> Array:
    """Rotate pairs (v[2i], v[2i+1]); first results fill the first half of the output, second ones the second.

    ::

        out[i]       = v[2i]   * cos[i]       - v[2i+1] * sin[i]
        out[h + i]   = v[2i+1] * cos[h + i]   + v[2i]   * sin[h + i]        h = width / 2

    The two halves of the tables are used as they are, equal or not.

    Parameters
    ----------
    v : ndarray of float32 or float64, shape (..., width)
    cos, sin : ndarray, broadcastable to `v`, same type

    Returns
    -------
    ndarray, shape and type of `v`
    """
    half = v.shape[-1] // 2
    even, odd = v[..., 0::2], v[..., 1::2]
    out = np.empty_like(v)
    out[..., :half] = even * cos[..., :half] - odd * sin[..., :half]
    out[..., half:] = odd * cos[..., half:] + even * sin[..., half:]
    return out

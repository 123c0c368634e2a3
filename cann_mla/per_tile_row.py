"""The 656-byte cache row of kvCacheQuantMode 3 ("per tile").

====================  =======================================================================
bytes [0, 512)        compressed key, one byte an element: INT8, FLOAT8_E4M3FN or HIFLOAT8
bytes [512, 640)      rotated key, 64 little-endian BF16
bytes [640, 656)      four little-endian float32 dequantisation scales; scale j belongs to
                      elements [128 j, 128 j + 128) of the payload
====================  =======================================================================

The accessors return views, so writing to them writes the cache.

Source: ``aclnnMlaPrologV3WeightNz``, ckvkrRepoMode 1 and quantScaleRepoMode 1.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from cann_mla.dtypes import Array

PAYLOAD_BYTES, ROPE_BYTES, SCALE_BYTES = 512, 128, 16
ROW_BYTES = PAYLOAD_BYTES + ROPE_BYTES + SCALE_BYTES
TILE = 128


def payload(cache: Array) -> Array:
    """Compressed key, shape (..., 512), element type of the cache.

    Parameters
    ----------
    cache : ndarray, shape (..., 656)
        One-byte elements; the last axis must be contiguous.
    """
    return _require_rows(cache)[..., :PAYLOAD_BYTES]


def rope(cache: Array) -> Array:
    """Rotated key, shape (..., 64), bfloat16. Parameters as :func:`payload`."""
    part = _require_rows(cache)[..., PAYLOAD_BYTES : PAYLOAD_BYTES + ROPE_BYTES]
    return part.view(np.dtype(ml_dtypes.bfloat16))


def scales(cache: Array) -> Array:
    """Dequantisation scales, shape (..., 4), float32. Parameters as :func:`payload`."""
    return _require_rows(cache)[..., PAYLOAD_BYTES + ROPE_BYTES :].view(np.float32)


def _require_rows(cache: Array) -> Array:
    if cache.ndim == 0 or cache.shape[-1] != ROW_BYTES or cache.itemsize != 1:
        raise ValueError(
            f"a per-tile cache has {ROW_BYTES} one-byte elements in its last dimension; "
            f"got shape {cache.shape}, {cache.dtype}"
        )
    return cache

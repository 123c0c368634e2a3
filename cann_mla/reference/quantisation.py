"""The quantisations of the MlaProlog family: static, dynamic per row, per tile, and MX.

All take float32 (``device``) or float64 (``exact``) values. Steps and their order are those of the kernels,
which differ between products: A2 and A3 multiply by a reciprocal where 950 divides.
"""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import FLOAT8_E4M3FN, FLOAT8_E8M0, INT8, Array, DType
from cann_mla.reference.matmul import MX_BLOCK
from cann_mla.reference.rounding import (
    E4M3_MAX,
    cast_saturating,
    largest,
    to_bfloat16_ties_away,
    to_int8_through_half,
    widen,
)
from cann_mla.reference.settings import is_950

TILE = 128
_SMALLEST_TILE_MAXIMUM = 1e-4


def quantise_static(values: Array, scale: Array, kind: DType) -> Array:
    """cast(values * scale): the scale is that of quantisation, the reciprocal of a dequantisation scale.

    Parameters
    ----------
    values : ndarray, shape (T, C)
    scale : ndarray of float32, shape (1,) for per tensor, (C,) for per channel
    kind : DType
        INT8, FLOAT8_E4M3FN or HIFLOAT8.
    """
    return cast_saturating(values * scale.astype(values.dtype), kind)


def quantise_rows(values: Array, kind: DType, soc: str) -> tuple[Array, Array]:
    """Dynamic quantisation, one scale a row; no guard against rows of zeros (scale 0, elements 0).

    Parameters
    ----------
    values : ndarray, shape (..., C)
    kind : DType
        INT8, FLOAT8_E4M3FN or HIFLOAT8, for which a row's maximum becomes 127, 448 or 32768.
    soc : str

    Returns
    -------
    elements : ndarray in the form of `kind`, shape (..., C)
    scale : ndarray, shape (..., 1), type of `values`
        Dequantisation scale.
    """
    top = values.dtype.type(largest(kind))
    maximum = np.abs(values).max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if _is_exact(values):
            scale = maximum / top
            return cast_saturating(values / scale, kind), scale
        if is_950(soc):
            scale = maximum * (np.float32(1.0) / top)
            return cast_saturating(values / scale, kind), scale
        return cast_saturating(values * (top / maximum), kind), maximum / top


def quantise_query(query: Array, kind: DType, soc: str) -> tuple[Array, Array]:
    """As :func:`quantise_rows`, but on A2 and A3 elements go to INT8 through half, ties away from zero."""
    if is_950(soc) or _is_exact(query):
        return quantise_rows(query, kind, soc)
    maximum = np.abs(query).max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return to_int8_through_half(query * (np.float32(127.0) / maximum)), maximum / np.float32(127.0)


def quantise_tiles(values: Array, kind: DType, alpha: float) -> tuple[Array, Array]:
    """Quantise tiles of 128 columns.

    INT8 clips each tile at ``alpha`` times its maximum first; the eight-bit floats do not clip, and take a
    maximum below 1e-4 for 1e-4.

    Parameters
    ----------
    values : ndarray, shape (T, C)
    kind : DType
    alpha : float
        kNopeClipAlpha; without effect unless `kind` is INT8.

    Returns
    -------
    elements : ndarray in the form of `kind`, shape (T, C)
    scales : ndarray, shape (T, C / 128), type of `values`
        Dequantisation scales.
    """
    compute = values.dtype.type
    tiles = values.reshape(values.shape[0], -1, TILE)
    maximum = np.abs(tiles).max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reciprocal_top = compute(1.0) / compute(largest(kind))
        if kind is INT8:
            bound = maximum * compute(alpha)
            scale = bound * reciprocal_top
            # The kernel's order, which shows for a negative alpha: the upper bound first, the lower one last.
            clipped = np.maximum(np.minimum(tiles, bound), -bound)
            scaled = clipped * (compute(1.0) / scale)
        else:
            scale = np.maximum(maximum, compute(_SMALLEST_TILE_MAXIMUM)) * reciprocal_top
            scaled = tiles / scale
    return cast_saturating(scaled, kind).reshape(values.shape), scale[..., 0]


def quantise_mx(values: Array) -> tuple[Array, Array]:
    """MX quantisation to FLOAT8_E4M3FN with one FLOAT8_E8M0 scale for 32 columns.

    The values are rounded to BF16 first (ties away from zero). The scale is 2^(E - 8 - 127), where E is the
    largest biased exponent of the block: maxima land in [256, 512), and what exceeds 448 saturates.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (T, C)

    Returns
    -------
    elements : ndarray of FLOAT8_E4M3FN, shape (T, C)
    scales : ndarray of FLOAT8_E8M0, shape (T, C / 32)
        Byte 0 for a block of zeros, 255 (NaN) for one that holds an infinity or NaN.
    """
    blocks = values.reshape(values.shape[0], -1, MX_BLOCK)
    if _is_exact(values):
        exponent = _biased_exponent(np.abs(blocks).max(axis=-1))
    else:
        rounded = to_bfloat16_ties_away(blocks)
        exponent = ((rounded.view(np.uint16) & 0x7F80).max(axis=-1) >> 7).astype(np.int32)
        blocks = widen(rounded)
    byte = np.where(exponent == 255, 255, np.maximum(exponent - 8, 0))
    inverse = np.ldexp(blocks.dtype.type(1.0), 127 - byte)
    inverse[exponent == 0] = 0  # a block of zeros and subnormals becomes zeros
    scaled = blocks * inverse[..., None]
    if not _is_exact(values):
        scaled = widen(scaled.astype(rounded.dtype))  # the multiplication is one of BF16
    elements = cast_saturating(np.clip(scaled, -E4M3_MAX, E4M3_MAX), FLOAT8_E4M3FN).copy()
    elements[exponent == 255] = 0
    return elements.reshape(values.shape), byte.astype(np.uint8).view(FLOAT8_E8M0.numpy)


def _biased_exponent(magnitude: Array) -> Array:
    """Exponent field of float32 and BF16: 0 below 2^-126, 255 for infinities and NaN."""
    _, exponent = np.frexp(magnitude)
    biased = np.clip(exponent.astype(np.int32) + 126, 0, 254)
    biased[magnitude == 0] = 0
    biased[~np.isfinite(magnitude)] = 255
    return biased


def _is_exact(values: Array) -> bool:
    return values.dtype == np.float64

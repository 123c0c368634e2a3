"""The steps of MlaProlog on a block of tokens. T tokens, H heads, arrays row-major.

``through_bfloat16`` marks the places where the kernel stores BF16 between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import INT8, Array
from cann_mla.per_tile_row import ROW_BYTES, payload, rope, scales
from cann_mla.reference.matmul import product, scale_mx_columns, scale_mx_rows
from cann_mla.reference.mla_prolog_modes import Modes
from cann_mla.reference.quantisation import (
    quantise_mx,
    quantise_query,
    quantise_rows,
    quantise_static,
    quantise_tiles,
)
from cann_mla.reference.rope import INTERLEAVE_HALF, rotate
from cann_mla.reference.rounding import through_bfloat16, to_bfloat16
from cann_mla.reference.settings import is_950


def dequantise(accumulated: Array, token_scale: Array, channel_scale: Array, modes: Modes) -> Array:
    """Apply one scale a token (T, 1) and one a channel (1, M), in place.

    950 starts with the channel, A2 and A3 with the token.
    """
    first, second = token_scale.astype(modes.compute), channel_scale.astype(modes.compute)
    if is_950(modes.soc):
        first, second = second, first
    accumulated *= first
    accumulated *= second
    return accumulated


def project_tokens(x: Array, x_scale: Array | None, w: Array, w_scale: Array | None, modes: Modes) -> Array:
    """x @ w for one of the two down-projections, dequantised; shape (T, M), type ``modes.compute``."""
    if modes.weight <= 1:
        return through_bfloat16(product(x, w, modes.compute), modes.precision)
    x_scale = modes.needed(x_scale, "dequant_scale_x")
    w_scale = modes.needed(w_scale, "dequant_scale_w_dq and dequant_scale_w_dkv_kr")
    if modes.mx:
        rows, columns = scale_mx_rows(x, x_scale, modes.compute), scale_mx_columns(w, w_scale, modes.compute)
        return product(rows, columns, modes.compute)
    return dequantise(product(x, w, modes.compute), x_scale, w_scale, modes)


@dataclass(frozen=True)
class Latent:
    """The normalised query c_q, ready for its up-projection.

    Attributes
    ----------
    operand : ndarray, shape (T, Hcq)
        What enters the product: BF16, INT8, FLOAT8_E4M3FN or HIFLOAT8 elements; for MX their scaled values.
    norm : ndarray, shape (T, Hcq)
        What queryNormOut holds.
    scale : ndarray or None
        Dequantisation scales: (T, 1), for MX FLOAT8_E8M0 of (T, Hcq / 32), None where c_q stays BF16.
    """

    operand: Array
    norm: Array
    scale: Array | None


def quantise_latent(c_q: Array, smooth: Array | None, modes: Modes) -> Latent:
    """Quantise the normalised query, shape (T, Hcq), after multiplying by the smooth scales (1, Hcq)."""
    if modes.weight == 0:
        stored = modes.stored(c_q)
        return Latent(stored, stored, None)
    if modes.mx:
        elements, scale = quantise_mx(c_q)
        return Latent(scale_mx_rows(elements, scale, modes.compute), elements, scale)
    if smooth is not None:
        c_q = c_q * smooth.astype(modes.compute)
    elements, scale = quantise_rows(c_q, modes.element, modes.soc)
    return Latent(elements, elements, scale)


def project_latent(latent: Latent, w: Array, w_scale: Array | None, modes: Modes) -> Array:
    """c_q @ w for some columns of weightUqQr; shape (T, M), type ``modes.compute``."""
    if latent.scale is None:
        return through_bfloat16(product(latent.operand, w, modes.compute), modes.precision)
    w_scale = modes.needed(w_scale, "dequant_scale_w_uq_qr")
    if modes.mx:
        return product(latent.operand, scale_mx_columns(w, w_scale, modes.compute), modes.compute)
    return dequantise(product(latent.operand, w, modes.compute), latent.scale, w_scale, modes)


def absorb_head(q_c: Array, w_uk: Array, modes: Modes) -> tuple[Array, Array | None]:
    """Query of one head, shape (T, Hckv), and with kvCacheQuantMode 1 its scales (T, 1)."""
    query = product(through_bfloat16(q_c, modes.precision), w_uk, modes.compute)
    if modes.cache != 1:
        return modes.stored(query), None
    return quantise_query(through_bfloat16(query, modes.precision), modes.element, modes.soc)


def rotate_query(
    q_r: Array, cos: Array, sin: Array, scale: Array | None, quant_scale_ckv: Array | None, modes: Modes
) -> Array:
    """Rotated query of some heads, shape (T, H, Dr).

    With a quantised query its scores must be multiplied by ``scale / quantScaleCkv`` afterwards; the rotated
    part, which is not quantised, is divided by it beforehand.
    """
    rotated = rotate(q_r, cos[:, None], sin[:, None], INTERLEAVE_HALF)
    if scale is None:
        return modes.stored(rotated)
    ckv = modes.needed(quant_scale_ckv, "quant_scale_ckv").reshape(-1)[0].astype(modes.compute)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = ckv / scale
        return modes.stored(through_bfloat16(rotated, modes.precision) * factor)


def key_rows(
    normed: Array,
    rotated: Array,
    quant_scale_ckv: Array | None,
    quant_scale_ckr: Array | None,
    k_nope_clip_alpha: Array | None,
    modes: Modes,
) -> tuple[Array, Array | None]:
    """Rows for kvCache, shape (T, 512) or (T, 656), and for krCache, shape (T, 64).

    The second is None with kvCacheQuantMode 3, whose kvCache rows hold everything.

    Parameters
    ----------
    normed : ndarray, shape (T, 512)
        Compressed key after RmsNorm.
    rotated : ndarray, shape (T, 64)
        Rotated key.
    """
    if modes.cache == 0:
        return modes.stored(normed), modes.stored(rotated)
    if modes.cache == 3:
        return _per_tile_rows(normed, rotated, k_nope_clip_alpha, modes), None
    ckv = modes.needed(quant_scale_ckv, "quant_scale_ckv").reshape(-1)
    if modes.cache == 1:
        return quantise_static(normed, ckv[:1], modes.element), modes.stored(rotated)
    ckr = modes.needed(quant_scale_ckr, "quant_scale_ckr").reshape(-1)
    rotated = through_bfloat16(rotated, modes.precision)
    return quantise_static(normed, ckv, modes.element), quantise_static(rotated, ckr, modes.element)


def _per_tile_rows(normed: Array, rotated: Array, k_nope_clip_alpha: Array | None, modes: Modes) -> Array:
    clip = 1.0
    if modes.element is INT8:
        clip = float(modes.needed(k_nope_clip_alpha, "k_nope_clip_alpha").reshape(-1)[0])
    elements, tile_scales = quantise_tiles(normed, modes.element, clip)
    rows = np.empty((normed.shape[0], ROW_BYTES), modes.element.numpy)
    payload(rows)[...] = elements
    rope(rows)[...] = to_bfloat16(rotated.astype(np.float32))
    scales(rows)[...] = tile_scales
    return rows

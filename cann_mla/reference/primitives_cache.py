"""aclnnKvRmsNormRopeCache and aclnnScatterPaKvCache.

Source: CANN's pages of the operators and their kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array, dtype
from cann_mla.formats import nz_block_columns
from cann_mla.reference.cache import Rows, scatter, token_rows
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.rope import INTERLEAVE_HALF, rotate
from cann_mla.reference.rounding import cast_saturating, widen
from cann_mla.reference.settings import check_settings, compute_type, is_950


class KvCaches(NamedTuple):
    """Outputs of kv_rms_norm_rope_cache.

    Attributes
    ----------
    k_cache, ckv_cache : ndarray
        New arrays, as the call leaves the caches.
    k_rope : ndarray, shape (B, 1, S, Dk)
    c_kv : ndarray, shape (B, 1, S, Dv)
        Both zero unless asked for; the device leaves them alone then.
    """

    k_cache: Array
    ckv_cache: Array
    k_rope: Array
    c_kv: Array


@np.errstate(all="ignore")
def kv_rms_norm_rope_cache(
    *,
    kv: Array,
    gamma: Array,
    cos: Array,
    sin: Array,
    index: Array,
    k_cache: Array,
    ckv_cache: Array,
    k_rope_scale: Array | None = None,
    c_kv_scale: Array | None = None,
    k_rope_offset: Array | None = None,
    c_kv_offset: Array | None = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    soc: str = "Ascend910B",
    precision: str = "device",
) -> KvCaches:
    """Normalise the compressed key, rotate the rest, and write both into their caches.

    Parameters
    ----------
    kv : ndarray of FP16 or BF16, shape (B, 1, S, Dv + Dk)
    gamma : ndarray, shape (Dv,)
    cos, sin : ndarray, shape (B, 1, S or 1, Dk)
    index : ndarray of int64
        Norm: (B, S), row of the batch's cache. PA, PA_BNSD, PA_NZ: (B * S,), slot. PA_BLK_BNSD, PA_BLK_NZ:
        (B * ceil(S / BlockSize),), a slot in the block of every page. Negative ones skip.
    k_cache, ckv_cache : ndarray, last axis Dk and Dv
        Norm: (B, 1, Sc, .); else (BlockNum, BlockSize, 1, .). Not modified.
    k_rope_scale, c_kv_scale : ndarray of FP32, optional
        Given for caches of eight bits: elements are cast(value * scale + offset).
    k_rope_offset, c_kv_offset : ndarray of FP32, optional
        A2 and A3 ignore them.
    cache_mode : str
        Unknown names act as Norm.

    Returns
    -------
    KvCaches
        BF16 and FP16 arrays are float64 in ``exact`` precision.
    """
    compute, width = compute_type(precision), gamma.shape[0]
    wide = widen(kv, compute)
    mean = np.square(wide[..., :width]).mean(axis=-1, keepdims=True)
    c_kv = wide[..., :width] / np.sqrt(mean + compute.type(epsilon)) * widen(gamma, compute)
    k_rope = rotate(wide[..., width:], widen(cos, compute), widen(sin, compute), INTERLEAVE_HALF)
    if not is_950(soc):
        k_rope_offset = c_kv_offset = None
    k_rows = _cache_elements(k_rope, k_cache, k_rope_scale, k_rope_offset, precision)
    ckv_rows = _cache_elements(c_kv, ckv_cache, c_kv_scale, c_kv_offset, precision)
    shape = kv.shape[0], kv.shape[2]
    return KvCaches(
        _with_rows(k_cache, k_rows, _rows(cache_mode, shape, k_cache, index), cache_mode),
        _with_rows(ckv_cache, ckv_rows, _rows(cache_mode, shape, ckv_cache, index), cache_mode),
        _output(k_rope, kv, precision, is_output_kv),
        _output(c_kv, kv, precision, is_output_kv),
    )


def _cache_elements(values: Array, cache: Array, scale: Array | None, offset: Array | None, precision: str) -> Array:
    """Values as the cache holds them."""
    kind = dtype(cache.dtype)
    if kind.bits != 8:
        return values if precision == "exact" else values.astype(cache.dtype)
    if scale is not None:
        values = values * scale.astype(values.dtype)
    if offset is not None:
        values = values + offset.astype(values.dtype)
    return cast_saturating(values, kind)


def _rows(mode: str, shape: tuple[int, int], cache: Array, index: Array) -> Rows:
    if mode in ("PA", "PA_BNSD", "PA_NZ"):
        return index.reshape(-1).astype(np.int64)
    if mode in ("PA_BLK_BNSD", "PA_BLK_NZ"):
        return token_rows("PA_BLK_BSND", shape, cache.shape[1], index.astype(np.int64) // cache.shape[1], None)
    rows = index.reshape(shape).astype(np.int64)
    start = np.arange(shape[0])[:, None] * cache.shape[2]
    return np.where(rows < 0, -1, start + rows).reshape(-1)


def _with_rows(cache: Array, values: Array, rows: Rows, mode: str) -> Array:
    written = widen(cache, np.float64) if values.dtype == np.float64 else np.array(cache, order="C")
    c0 = nz_block_columns(cache.dtype) if mode.endswith("_NZ") else None
    scatter(written, rows, values.reshape(-1, values.shape[-1]), c0=c0)
    return written


def _output(values: Array, kv: Array, precision: str, asked_for: bool) -> Array:
    stored = values if precision == "exact" else values.astype(kv.dtype)
    return stored if asked_for else np.zeros_like(stored)


def scatter_pa_kv_cache(
    token: Array, cache: Array, slot_mapping: Array, *, cache_mode: str = "Norm", scatter_mode: str = "None"
) -> Array:
    """Copy tokens into the slots of a paged cache.

    Parameters
    ----------
    token : ndarray, shape (T, N, D)
        Key or value.
    cache : ndarray
        (BlockNum, BlockSize, N, D); PA_NZ: (BlockNum, N * D / C0, BlockSize, C0), its second axis possibly cut in
        two; NHSD: (BlockNum, N, BlockSize, D). Not modified.
    slot_mapping : ndarray of int32 or int64, shape (T,)
        Block * BlockSize + row; negative ones skip. Surplus slots or tokens are ignored.
    cache_mode : {"Norm", "PA_NZ"}
        Empty stands for Norm.
    scatter_mode : {"None", "NHSD"}
        Empty stands for None.

    Raises
    ------
    NotImplementedError
        For the compressing modes Alibi, Rope, Omni and Nct.
    """
    if scatter_mode not in ("", "None", "NHSD"):
        raise NotImplementedError(f"scatter_pa_kv_cache has no reference for scatterMode {scatter_mode}")
    count = min(token.shape[0], slot_mapping.size)
    slots = slot_mapping.reshape(-1)[:count].astype(np.int64)
    kept = slots >= 0
    slots, token = slots[kept], token[:count][kept]
    written = np.array(cache, order="C")
    if cache_mode == "PA_NZ":
        block_size, c0 = cache.shape[-2:]
        blocks = written.reshape(cache.shape[0], -1, block_size, c0)
        blocks[slots // block_size, :, slots % block_size] = token.reshape(token.shape[0], -1, c0)
    elif scatter_mode == "NHSD":
        written[slots // cache.shape[2], :, slots % cache.shape[2]] = token
    else:
        written.reshape(-1, *cache.shape[2:])[slots] = token
    return written


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    if symbol == "aclnnKvRmsNormRopeCache":
        given = {name: value for name, value in arguments.items() if name not in ("k_rope", "c_kv")}
        return kv_rms_norm_rope_cache(soc=soc, precision=precision, **given)._asdict()
    modes = {name: arguments[name] for name in ("cache_mode", "scatter_mode") if name in arguments}
    written = {}
    for token, cache in (("key", "key_cache"), ("value", "value_cache")):
        if token in arguments and cache in arguments:
            written[cache] = scatter_pa_kv_cache(arguments[token], arguments[cache], arguments["slot_mapping"], **modes)
    return written

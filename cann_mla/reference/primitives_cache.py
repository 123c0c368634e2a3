"""aclnnKvRmsNormRopeCache, its version 2, and aclnnScatterPaKvCache.

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
    k_rope : ndarray, shape (B, N, S, Dk)
    c_kv : ndarray, shape (B, N, S, Dv)
        What the buffers held before, where the call does not write them.
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
    v: Array | None = None,
    k_rope: Array | None = None,
    c_kv: Array | None = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    soc: str = "Ascend910B",
    precision: str = "device",
) -> KvCaches:
    """Normalise the compressed key, rotate the rest, and write both into their caches.

    With `v` (version 2) the key alone is normalised, its first channels are rotated, and `v` goes into its cache as
    it is.

    Parameters
    ----------
    kv : ndarray of FP16 or BF16, shape (B, 1, S, Dv + Dk); with `v`, (B, N, S, Dk)
    gamma : ndarray, shape (Dv,); with `v`, (Dk,)
    cos, sin : ndarray, shape (B, N, S or 1, Dr)
        Dr is Dk, or with `v` the number of channels that rotate.
    index : ndarray of int64
        Norm: (B, S), row of the batch's cache. PA, PA_BNSD, PA_NZ: (B * S,), slot. PA_BLK_BNSD, PA_BLK_NZ:
        (B * ceil(S / BlockSize),), a slot in the block of every page. Negative ones skip.
    k_cache, ckv_cache : ndarray, last axis Dk and Dv
        Norm: (B, N, Sc, .); else (BlockNum, BlockSize, N, .). Not modified.
    k_rope_scale, c_kv_scale : ndarray of FP32, optional
        Given for caches of eight bits: elements are cast(value * scale + offset). Shapes (D,), (N, D) or (1,).
    k_rope_offset, c_kv_offset : ndarray of FP32, optional
        A2 and A3 ignore them, unless there is a `v`.
    v : ndarray, shape (B, N, S, Dv), optional
    k_rope, c_kv : ndarray, optional
        Content of the output buffers before the call; zeros without. They are written if `is_output_kv` asks for it,
        but never on A2 and A3 in Norm mode with caches that are not quantised.
    cache_mode : str
        Unknown names act as Norm.

    Returns
    -------
    KvCaches
        BF16 and FP16 arrays are float64 in ``exact`` precision.
    """
    compute = compute_type(precision)
    key, value = _key_and_value(widen(kv, compute), gamma, cos, sin, v, epsilon)
    if not is_950(soc) and v is None:
        k_rope_offset = c_kv_offset = None
    k_rows = _cache_elements(key, k_cache, k_rope_scale, k_rope_offset, precision)
    ckv_rows = _cache_elements(value, ckv_cache, c_kv_scale, c_kv_offset, precision)
    shape = kv.shape[0], kv.shape[2]
    quantised = k_rope_scale is not None or c_kv_scale is not None
    written = is_output_kv and (is_950(soc) or quantised or cache_mode.startswith("PA"))
    return KvCaches(
        _with_rows(k_cache, k_rows, _rows(cache_mode, shape, k_cache, index), cache_mode),
        _with_rows(ckv_cache, ckv_rows, _rows(cache_mode, shape, ckv_cache, index), cache_mode),
        _output(key, kv.dtype, precision, k_rope, written),
        _output(value, kv.dtype, precision, c_kv, written),
    )


def _key_and_value(
    kv: Array, gamma: Array, cos: Array, sin: Array, v: Array | None, epsilon: float
) -> tuple[Array, Array]:
    """What goes into the two caches, not rounded."""
    width = gamma.shape[0]
    mean = np.square(kv[..., :width]).mean(axis=-1, keepdims=True)
    normed = kv[..., :width] / np.sqrt(mean + kv.dtype.type(epsilon)) * widen(gamma, kv.dtype)
    cosine, sine = widen(cos, kv.dtype), widen(sin, kv.dtype)
    if v is None:
        return rotate(kv[..., width:], cosine, sine, INTERLEAVE_HALF), normed
    rotating = cos.shape[-1]
    rotated = rotate(normed[..., :rotating], cosine, sine, INTERLEAVE_HALF)
    return np.concatenate([rotated, normed[..., rotating:]], axis=-1), widen(v, kv.dtype)


def _cache_elements(values: Array, cache: Array, scale: Array | None, offset: Array | None, precision: str) -> Array:
    """Values as the cache holds them."""
    kind = dtype(cache.dtype)
    if kind.bits != 8:
        return values if precision == "exact" else values.astype(cache.dtype)
    if scale is not None:
        values = values * _a_head(scale, values.dtype)
    if offset is not None:
        values = values + _a_head(offset, values.dtype)
    return cast_saturating(values, kind)


def _a_head(factor: Array, compute: np.dtype[Any]) -> Array:
    """A factor of shape (D,) or (N, D), to go with values of shape (B, N, S, D)."""
    return factor.reshape(-1, 1, factor.shape[-1]).astype(compute)


def _rows(mode: str, shape: tuple[int, int], cache: Array, index: Array) -> Rows:
    if mode in ("PA", "PA_BNSD", "PA_NZ"):
        return index.reshape(-1).astype(np.int64)
    if mode in ("PA_BLK_BNSD", "PA_BLK_NZ"):
        return token_rows("PA_BLK_BSND", shape, cache.shape[1], index.astype(np.int64) // cache.shape[1], None)
    rows = index.reshape(shape).astype(np.int64)
    start = np.arange(shape[0])[:, None] * cache.shape[2]
    return np.where(rows < 0, -1, start + rows).reshape(-1)


def _with_rows(cache: Array, values: Array, rows: Rows, mode: str) -> Array:
    """The cache with the rows of every token, head by head."""
    written = widen(cache, np.float64) if values.dtype == np.float64 else np.array(cache, order="C")
    c0 = nz_block_columns(cache.dtype) if mode.endswith("_NZ") else None
    heads, width = values.shape[1], values.shape[-1]
    by_head = written.swapaxes(1, 2) if mode.startswith("PA") else written
    if c0 is not None:  # a block's memory holds one head after the other
        by_head = written.reshape(cache.shape[0], heads, cache.shape[1], width)
    for head in range(heads):
        own = np.ascontiguousarray(by_head[:, head])
        scatter(own[:, :, None], rows, values[:, head].reshape(-1, width), c0=c0)
        by_head[:, head] = own
    return written


def _output(values: Array, kind: np.dtype[Any], precision: str, before: Array | None, written: bool) -> Array:
    stored = values if precision == "exact" else values.astype(kind)
    if written:
        return stored
    return np.zeros_like(stored) if before is None else widen(before, stored.dtype)


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
    if symbol in ("aclnnKvRmsNormRopeCache", "aclnnKvRmsNormRopeCacheV2"):
        return kv_rms_norm_rope_cache(soc=soc, precision=precision, **arguments)._asdict()
    modes = {name: arguments[name] for name in ("cache_mode", "scatter_mode") if name in arguments}
    written = {}
    for token, cache in (("key", "key_cache"), ("value", "value_cache")):
        if token in arguments and cache in arguments:
            written[cache] = scatter_pa_kv_cache(arguments[token], arguments[cache], arguments["slot_mapping"], **modes)
    return written

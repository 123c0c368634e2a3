"""aclnnMlaPrologV3WeightNz: from hidden states to the query of MLA and the rows of its caches.

For every token x, with N heads of D + Dr columns::

    c_q    = alpha_q * gamma_cq * RmsNorm(x W_dq)               optionally quantised, optionally an output
    u      = c_q W_uqqr                                         head n: q_c[n] (D columns), q_r[n] (Dr)
    query[n]      = q_c[n] W_uk[n]                              optionally quantised
    query_rope[n] = ROPE(q_r[n])
    k      = x W_dkvkr                                          k_c (Hckv columns), k_r (Dr)
    kv_cache row  = alpha_kv * gamma_ckv * RmsNorm(k_c)         optionally quantised
    kr_cache row  = ROPE(k_r)                                   optionally quantised

Sources: CANN's documentation of the operator for the formulas; its device kernels (arch22 for A2 and A3,
arch35 for 950) for rounding points and order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import BF16, FLOAT8_E8M0, Array, dtype
from cann_mla.formats import nz_block_columns
from cann_mla.reference.cache import Rows, scatter, token_rows
from cann_mla.reference.matmul import MX_BLOCK
from cann_mla.reference.mla_prolog_modes import Modes
from cann_mla.reference.mla_prolog_steps import (
    Latent,
    absorb_head,
    key_rows,
    project_latent,
    project_tokens,
    quantise_latent,
    rotate_query,
)
from cann_mla.reference.rms_norm import rms_norm
from cann_mla.reference.rope import INTERLEAVE_HALF, rotate
from cann_mla.reference.rounding import widen

# Blocks keep memory bounded, and the data of a step in the caches of the processor.
_TOKENS_AT_ONCE = 2048
_HEADS_AT_ONCE = 8


@dataclass(frozen=True)
class Operands:
    """Operands and attributes of MlaPrologV3, as :func:`mla_prolog_v3` takes them; the modes aside."""

    token_x: Array
    weight_dq: Array
    weight_uq_qr: Array
    weight_uk: Array
    weight_dkv_kr: Array
    rmsnorm_gamma_cq: Array
    rmsnorm_gamma_ckv: Array
    rope_sin: Array
    rope_cos: Array
    kv_cache: Array
    kr_cache: Array
    cache_index: Array | None = None
    dequant_scale_x: Array | None = None
    dequant_scale_w_dq: Array | None = None
    dequant_scale_w_uq_qr: Array | None = None
    dequant_scale_w_dkv_kr: Array | None = None
    quant_scale_ckv: Array | None = None
    quant_scale_ckr: Array | None = None
    smooth_scales_cq: Array | None = None
    actual_seq_len: Array | None = None
    k_nope_clip_alpha: Array | None = None
    rmsnorm_epsilon_cq: float = 1e-5
    rmsnorm_epsilon_ckv: float = 1e-5
    cache_mode: str = "PA_BSND"
    qc_qr_scale: float = 1.0
    kc_scale: float = 1.0


class MlaPrologResult(NamedTuple):
    """Outputs of MlaProlog; None where the scenario or the caller does without.

    Attributes
    ----------
    query : ndarray, shape (T, N, Hckv) or (B, S, N, Hckv)
    query_rope : ndarray, shape (T, N, Dr) or (B, S, N, Dr)
    kv_cache, kr_cache : ndarray
        New arrays, as the call leaves the caches.
    dequant_scale_q_nope : ndarray of float32, shape (T, N, 1) or (B*S, N, 1)
    query_norm : ndarray, shape (T, Hcq) or (B, S, Hcq)
    dequant_scale_q_norm : ndarray of float32, shape (T, 1); for MX of FLOAT8_E8M0, shape (T, Hcq / 32)
    """

    query: Array
    query_rope: Array
    kv_cache: Array
    kr_cache: Array
    dequant_scale_q_nope: Array | None = None
    query_norm: Array | None = None
    dequant_scale_q_norm: Array | None = None


@np.errstate(all="ignore")  # infinities and NaN are values here, as on the device
def mla_prolog_v3(
    *,
    weight_quant_mode: int = 0,
    kv_cache_quant_mode: int = 0,
    query_norm: bool = False,
    soc: str = "Ascend910B",
    precision: str = "device",
    **operands: Any,
) -> MlaPrologResult:
    """Reference of aclnnMlaPrologV3WeightNz.

    Parameters
    ----------
    weight_quant_mode, kv_cache_quant_mode : int
        The scenario. queryQuantMode, ckvkrRepoMode and quantScaleRepoMode follow from them.
    query_norm : bool
        Whether queryNormOut (and, where c_q is quantised, dequantScaleQNormOut) is asked for.
    soc : {"Ascend910B", "Ascend910_93", "Ascend950"}
    precision : {"device", "exact"}
        ``exact`` computes in float64 and rounds nowhere between two steps. The quantisations are part of the
        operator and stay: c_q is quantised before its up-projection, outputs are quantised; what is declared
        BF16 or FLOAT comes back as float64.
    **operands
        The fields of :class:`Operands`.

    Returns
    -------
    MlaPrologResult

    Raises
    ------
    ValueError
        If the modes are no scenario, an operand that the scenario needs is missing, or a cache index lies
        outside the cache (a negative one skips its token).
    TypeError
        If an operand is unknown or missing.
    """
    o = Operands(**operands)
    modes = Modes(weight_quant_mode, kv_cache_quant_mode, soc, precision)
    token_shape = o.token_x.shape[:-1]
    tokens = int(np.prod(token_shape, dtype=np.int64))
    room = _Room(o, modes, tokens, query_norm)
    kv_cache, kr_cache = _writable_caches(o, modes)
    rows = None  # a cache without blocks has none, and the device then leaves the key path out
    if kv_cache.size:
        rows = token_rows(o.cache_mode, token_shape, _block_size(o), o.cache_index, o.actual_seq_len)
    for first in range(0, tokens, _TOKENS_AT_ONCE):
        block = _TokenBlock(o, modes, slice(first, min(first + _TOKENS_AT_ONCE, tokens)))
        block.fill_query(room)
        if rows is not None:
            block.fill_caches(kv_cache, kr_cache, rows)
    return room.result(token_shape, kv_cache, kr_cache)


def _block_size(o: Operands) -> int:
    return o.kv_cache.shape[1] if o.cache_mode.startswith("PA_") else 0


def _writable_caches(o: Operands, modes: Modes) -> tuple[Array, Array]:
    """Copies to write to; of BF16 caches, in float64 where nothing is to be rounded."""

    def copy(cache: Array) -> Array:
        return widen(cache, np.float64) if modes.exact and dtype(cache.dtype) is BF16 else np.array(cache, order="C")

    return copy(o.kv_cache), copy(o.kr_cache)


class _Room:
    """Outputs that are filled block by block."""

    def __init__(self, o: Operands, modes: Modes, tokens: int, query_norm: bool) -> None:
        heads, _, latent_kv = o.weight_uk.shape
        latent_q = o.weight_dq.shape[1]
        quantised = modes.cache == 1
        query = (tokens, heads, latent_kv)
        self.query = np.empty(query, modes.element.numpy) if quantised else modes.bfloat16_output(query)
        self.query_rope = modes.bfloat16_output((tokens, heads, o.rope_cos.shape[-1]))
        self.query_scale = np.empty((tokens, heads, 1), modes.compute) if quantised else None
        self.norm: Array | None = None
        self.norm_scale: Array | None = None
        if not query_norm:
            return
        if modes.weight == 0:
            self.norm = modes.bfloat16_output((tokens, latent_q))
            return
        self.norm = np.empty((tokens, latent_q), modes.element.numpy)
        if modes.mx:
            self.norm_scale = np.empty((tokens, latent_q // MX_BLOCK), FLOAT8_E8M0.numpy)
        else:
            self.norm_scale = np.empty((tokens, 1), modes.compute)

    def result(self, token_shape: tuple[int, ...], kv_cache: Array, kr_cache: Array) -> MlaPrologResult:
        """The outputs under the shapes that the operator declares."""
        return MlaPrologResult(
            query=self.query.reshape(*token_shape, *self.query.shape[1:]),
            query_rope=self.query_rope.reshape(*token_shape, *self.query_rope.shape[1:]),
            kv_cache=kv_cache,
            kr_cache=kr_cache,
            dequant_scale_q_nope=self.query_scale,
            query_norm=None if self.norm is None else self.norm.reshape(*token_shape, self.norm.shape[-1]),
            dequant_scale_q_norm=self.norm_scale,
        )


class _TokenBlock:
    """A run of tokens on its way through the operator."""

    def __init__(self, o: Operands, modes: Modes, tokens: slice) -> None:
        self.o, self.modes, self.tokens = o, modes, tokens
        self.x = o.token_x.reshape(-1, o.token_x.shape[-1])[tokens]
        self.x_scale = None if o.dequant_scale_x is None else o.dequant_scale_x[tokens]
        width = o.rope_cos.shape[-1]
        self.cos = widen(o.rope_cos.reshape(-1, width)[tokens], modes.compute)
        self.sin = widen(o.rope_sin.reshape(-1, width)[tokens], modes.compute)

    def fill_query(self, room: _Room) -> None:
        """Write query, its rotated part and queryNorm of these tokens."""
        o, modes = self.o, self.modes
        c = project_tokens(self.x, self.x_scale, o.weight_dq, o.dequant_scale_w_dq, modes)
        c_q = rms_norm(c, o.rmsnorm_gamma_cq, o.rmsnorm_epsilon_cq, o.qc_qr_scale)
        latent = quantise_latent(c_q, o.smooth_scales_cq, modes)
        if room.norm is not None:
            room.norm[self.tokens] = latent.norm
        if room.norm_scale is not None:
            room.norm_scale[self.tokens] = latent.scale
        heads = o.weight_uk.shape[0]
        for first in range(0, heads, _HEADS_AT_ONCE):
            self._fill_heads(latent, range(first, min(first + _HEADS_AT_ONCE, heads)), room)

    def _fill_heads(self, latent: Latent, heads: range, room: _Room) -> None:
        o, modes = self.o, self.modes
        nope = o.weight_uk.shape[1]
        width = nope + self.cos.shape[-1]
        columns = slice(heads.start * width, heads.stop * width)
        scale = o.dequant_scale_w_uq_qr
        if scale is not None:
            scale = scale[columns] if modes.mx else scale[:, columns]
        u = project_latent(latent, o.weight_uq_qr[:, columns], scale, modes).reshape(-1, len(heads), width)
        for n in heads:
            query, query_scale = absorb_head(u[:, n - heads.start, :nope], o.weight_uk[n], modes)
            room.query[self.tokens, n] = query
            if room.query_scale is not None:
                room.query_scale[self.tokens, n] = query_scale
        group = slice(heads.start, heads.stop)
        group_scale = None if room.query_scale is None else room.query_scale[self.tokens, group]
        room.query_rope[self.tokens, group] = rotate_query(
            u[..., nope:], self.cos, self.sin, group_scale, o.quant_scale_ckv, modes
        )

    def fill_caches(self, kv_cache: Array, kr_cache: Array, rows: Rows) -> None:
        """Write the key rows of these tokens."""
        o, modes = self.o, self.modes
        k = project_tokens(self.x, self.x_scale, o.weight_dkv_kr, o.dequant_scale_w_dkv_kr, modes)
        split = o.rmsnorm_gamma_ckv.shape[0]
        normed = rms_norm(k[:, :split], o.rmsnorm_gamma_ckv, o.rmsnorm_epsilon_ckv, o.kc_scale)
        rotated = rotate(k[:, split:], self.cos, self.sin, INTERLEAVE_HALF)
        kv_rows, kr_rows = key_rows(normed, rotated, o.quant_scale_ckv, o.quant_scale_ckr, o.k_nope_clip_alpha, modes)
        self._scatter(kv_cache, rows, kv_rows, o.kv_cache)
        if kr_rows is not None:
            self._scatter(kr_cache, rows, kr_rows, o.kr_cache)

    def _scatter(self, cache: Array, rows: Rows, values: Array, declared: Array) -> None:
        c0 = nz_block_columns(declared.dtype) if self.o.cache_mode.endswith("_NZ") else None
        scatter(cache, rows[self.tokens], values, c0=c0)

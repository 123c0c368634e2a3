"""AtbMLA: decoding over a paged cache of latent keys.

Every query head attends to one latent key of 512 channels, which are the values too, and 64 rotated ones::

    s_j = qkScale (qNope . ctKV_j + qRope . kRope_j)     out = sum_j softmax(s)_j ctKV_j     lse = max + ln(sum)

With cache mode 2 latent queries and keys are INT8: their product is multiplied by qkDescale[h], numerators are
quantised to INT8 a row and stripe, and the second product is multiplied by pvDescale[h].

Several new tokens of a sequence are the last keys of it. With 128 heads, or INT8 and several tokens, the kernel
hides later tokens from earlier ones by itself and reads no mask; otherwise only a mask hides anything.

Source: ATB's kernels of multi_latent_attention for masks, stripes and points of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.atb_attention import output_buffer
from cann_mla.reference.atb_lengths import Sequence, length_list, sequences
from cann_mla.reference.atb_pages import PagedRows
from cann_mla.reference.atb_softmax import Scores, StripedSoftmax, scores_for
from cann_mla.reference.attention_numbers import Floats, round_to_fp16, widen
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings

SPEC, MASK_FREE = 1, 2
CALC_TYPE_SPEC, CALC_TYPE_RING, CALC_TYPE_SPEC_AND_RING = 1, 2, 3
KROPE_CTKV, INT8_NZCACHE, NZCACHE = 1, 2, 3
BLOCK = 128

_MANY_HEADS = 128
_MOST_ROWS = 1 << 13  # heads times tokens whose scores exist at once
_INVERSE_127 = np.float32(1) / np.float32(127)


class MlaResult(NamedTuple):
    """Output (N, H, 512) in the 16-bit type of the query, lse (N, H, 1) in that type or, for INT8, float32."""

    atten_out: Array
    lse: Array


class _QuantisedScores(Scores):
    """Scores of INT8 queries and keys; numerators quantised so that a row's largest in a stripe becomes 127."""

    work = np.float32

    def __init__(self, scale: float, pv_descale: Floats) -> None:
        super().__init__(scale)
        self._pv_descale = pv_descale

    def product(self, numerators: Floats, below: Floats, values: Floats) -> Floats:
        """Through half to INT8, nearest even both times."""
        # A row that sees nothing of the stripe has numerators of 0 and keeps them.
        step = np.maximum(np.exp(below) * _INVERSE_127, np.finfo(np.float32).tiny)
        elements = np.rint(round_to_fp16(numerators / step))
        product: Floats = (elements @ values) * (self._pv_descale * step)
        return product


class _ExactQuantisedScores(Scores):
    """The same without quantisation of the numerators."""

    def __init__(self, scale: float, pv_descale: Floats) -> None:
        super().__init__(scale)
        self._pv_descale = pv_descale

    def product(self, numerators: Floats, below: Floats, values: Floats) -> Floats:
        """Second product with the scale of the values."""
        product: Floats = (numerators @ values) * self._pv_descale
        return product


class _Operands(NamedTuple):
    q_nope: Array
    q_rope: Array
    ct_kv: Array
    k_rope: Array
    block_tables: Array
    mask: Array | None
    qk_descale: Array | None
    pv_descale: Array | None
    qk_scale: float
    mask_type: int
    cache_mode: int
    precision: str
    causal: bool


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def mla(
    *,
    q_nope: Array,
    q_rope: Array,
    ct_kv: Array,
    k_rope: Array,
    block_tables: Array,
    context_lens: Array,
    mask: Array | None = None,
    q_seq_len: Array | None = None,
    qk_descale: Array | None = None,
    pv_descale: Array | None = None,
    atten: Array | None = None,
    lse: Array | None = None,
    head_num: int = 0,
    qk_scale: float = 1.0,
    kv_head_num: int = 1,
    mask_type: int = 0,
    calc_type: int = 0,
    cache_mode: int = KROPE_CTKV,
    precision: str = "device",
) -> MlaResult:
    """Latent attention of new tokens over a paged cache.

    Parameters
    ----------
    q_nope : ndarray of float16, bfloat16 or int8, shape (N, H, 512)
    q_rope : ndarray of float16 or bfloat16, shape (N, H, 64)
    ct_kv : ndarray
        Cache mode 1: (blocks, 128, 1, 512). Mode 2: int8, (blocks, 16, 128, 32). Mode 3: (blocks, 32, 128, 16).
    k_rope : ndarray
        Mode 1: (blocks, 128, 1, 64). Modes 2 and 3: (blocks, 4, 128, 16).
    block_tables : ndarray of int32, shape (B, most blocks)
    context_lens : ndarray of int32, shape (B,)
        Keys of every sequence, those of the new tokens included. Rows of sequences without keys keep what they have.
    mask : ndarray, type of q_rope
        Mask type 1 (SPEC): (N, >= most keys), added to the scaled scores. Mask type 2 (MASK_FREE):
        (125 + 2 qLen, 128) or (B, 125 + 2 qLen, 128), a template that lies on the last keys: token i of a
        sequence gets row ``last - 1 + i``, where `last` keys lie in the last block, and 128 rows further down
        for the block before it.
    q_seq_len : ndarray of int32, shape (B,)
        New tokens of every sequence, for calc types 1 and 3; otherwise one each.
    qk_descale, pv_descale : ndarray of float32, shape (H,)
        For cache mode 2.
    atten, lse : ndarray, optional
        Content of the output buffers before the call; zeros without. Not modified.
    head_num, qk_scale, kv_head_num, mask_type, calc_type, cache_mode
        As the C parameters.
    precision : {"device", "exact"}

    Returns
    -------
    MlaResult
        float64 in ``exact`` precision.

    Raises
    ------
    ValueError
        If operands are missing or contradict each other.
    NotImplementedError
        For calc type 4 (prefill), which ATB's C function cannot reach.
    """
    if calc_type not in (0, CALC_TYPE_SPEC, CALC_TYPE_RING, CALC_TYPE_SPEC_AND_RING):
        raise NotImplementedError(f"AtbMLA refuses calcType {calc_type} when the operation is made; use AtbMLAPreFill")
    if cache_mode not in (KROPE_CTKV, INT8_NZCACHE, NZCACHE):
        raise ValueError(f"cacheMode is 1, 2 or 3, not {cache_mode}")
    if q_nope.shape[1] != head_num or kv_head_num != 1:
        raise ValueError(f"headNum {head_num} for {q_nope.shape[1]} heads, kvHeadNum {kv_head_num}: the latter is 1")
    if cache_mode == INT8_NZCACHE and (qk_descale is None or pv_descale is None):
        raise ValueError("cacheMode 2 needs qkDescale and pvDescale")
    if mask_type in (SPEC, MASK_FREE) and mask is None:
        raise ValueError(f"maskType {mask_type} needs a mask")
    speculative = calc_type in (CALC_TYPE_SPEC, CALC_TYPE_SPEC_AND_RING)
    if speculative and q_seq_len is None:
        raise ValueError(f"calcType {calc_type} needs qSeqLen")
    contexts = length_list(context_lens)
    new_tokens = length_list(q_seq_len) if speculative and q_seq_len is not None else [1] * len(contexts)
    if sum(new_tokens) > q_nope.shape[0]:
        raise ValueError(f"{sum(new_tokens)} new tokens by the lengths, {q_nope.shape[0]} in qNope")
    operands = _Operands(
        q_nope, q_rope, ct_kv, k_rope, block_tables, mask, qk_descale, pv_descale, qk_scale, mask_type, cache_mode,
        precision, head_num == _MANY_HEADS or (cache_mode == INT8_NZCACHE and max(new_tokens, default=1) > 1),
    )  # fmt: skip
    placed = sequences(new_tokens, contexts)
    if operands.causal and any(0 < s.kv_length < s.query_length for s in placed):
        raise ValueError("the keys of a sequence include its new tokens: contextLens must not be below qSeqLen")
    return _attend_all(operands, placed, atten, lse)


def _attend_all(operands: _Operands, placed: list[Sequence], atten: Array | None, lse: Array | None) -> MlaResult:
    exact, quantised = operands.precision == "exact", operands.cache_mode == INT8_NZCACHE
    kind = np.dtype(np.float64) if exact else operands.q_rope.dtype
    tokens, heads, width = operands.q_nope.shape
    result = MlaResult(
        output_buffer("attenOut", atten, (tokens, heads, width), kind),
        output_buffer("lse", lse, (tokens, heads, 1), np.dtype(np.float32) if quantised and not exact else kind),
    )
    for sequence in placed:
        if sequence.kv_length == 0:
            continue
        rows = slice(sequence.query_start, sequence.query_start + sequence.query_length)
        heads_at_once = max(1, _MOST_ROWS // sequence.query_length)
        for first in range(0, heads, heads_at_once):
            part = slice(first, min(first + heads_at_once, heads))
            output, logarithm = _attend_sequence(operands, sequence, rows, part)
            count = part.stop - part.start
            result.atten_out[rows, part] = output.reshape(count, -1, width).swapaxes(0, 1)
            result.lse[rows, part, 0] = logarithm.reshape(count, -1).T
    return result


def _attend_sequence(operands: _Operands, sequence: Sequence, rows: slice, heads: slice) -> tuple[Floats, Floats]:
    """Output and lse of (1, heads * new tokens) rows."""
    scores = _scores(operands, sequence.query_length, heads)
    # Heads outside, tokens inside: rows of the only key head.
    nope, rope = (
        np.ascontiguousarray(widen(part[rows, heads], scores.work).swapaxes(0, 1)).reshape(1, -1, part.shape[2])
        for part in (operands.q_nope, operands.q_rope)
    )
    state = StripedSoftmax(scores)
    for latent, rotated, term in _stripes(operands, sequence, scores):
        products = nope @ latent.T
        if operands.qk_descale is not None and operands.cache_mode == INT8_NZCACHE:
            products *= _a_row(operands.qk_descale[heads], sequence.query_length, scores)
        products += rope @ rotated.T
        if term is not None:
            term = np.tile(term, (heads.stop - heads.start, 1))
        state.add(scores.logits(products, term), latent[None])
    return state.result()


def _scores(operands: _Operands, new_tokens: int, heads: slice) -> Scores:
    if operands.cache_mode != INT8_NZCACHE:
        return scores_for(operands.q_rope.dtype, operands.qk_scale, operands.precision, half=False)
    kind = _ExactQuantisedScores if operands.precision == "exact" else _QuantisedScores
    assert operands.pv_descale is not None
    return kind(operands.qk_scale, _a_row(operands.pv_descale[heads], new_tokens, kind))


def _a_row(a_head: Array, new_tokens: int, scores: Scores | type[Scores]) -> Floats:
    """A factor a head as a column of all rows."""
    return np.repeat(widen(a_head, scores.work), new_tokens)[:, None]


def _stripes(operands: _Operands, sequence: Sequence, scores: Scores) -> Iterator[tuple[Floats, Floats, Floats | None]]:
    """Latent keys, rotated keys and mask term (tokens, columns) of a stripe: a page, or four in the causal kernel."""
    stripe = 4 * BLOCK if operands.causal else BLOCK
    table = operands.block_tables[sequence.number]
    blocked = operands.cache_mode != KROPE_CTKV
    latent, rotated = (PagedRows(cache, table, blocked=blocked) for cache in (operands.ct_kv, operands.k_rope))
    for start in range(0, sequence.kv_length, stripe):
        stop = min(start + stripe, sequence.kv_length)
        term = _mask_term(operands, sequence, start, stop, scores)
        yield latent.values(start, stop, scores.work), rotated.values(start, stop, scores.work), term


def _mask_term(operands: _Operands, sequence: Sequence, start: int, stop: int, scores: Scores) -> Floats | None:
    """What is added for every new token: (tokens, columns)."""
    tokens = sequence.query_length
    if operands.causal:
        last_seen = np.arange(sequence.kv_length - tokens, sequence.kv_length)[:, None]
        hidden = np.arange(start, stop) > last_seen
        return np.where(hidden, -np.inf, 0).astype(scores.work) if hidden.any() else None
    if operands.mask is None or operands.mask_type not in (SPEC, MASK_FREE) or operands.cache_mode == INT8_NZCACHE:
        return None
    if operands.mask_type == SPEC:
        rows = operands.mask.reshape(-1, operands.mask.shape[-1])[sequence.query_start :]
        return widen(rows[:tokens, start:stop], scores.work)
    template = operands.mask.reshape(-1, BLOCK)
    last_block = (sequence.kv_length - 1) // BLOCK * BLOCK
    in_last = sequence.kv_length - last_block
    term = np.zeros((tokens, stop - start), scores.work)
    for block, first_row in ((last_block, in_last - 1), (last_block - BLOCK, in_last - 1 + BLOCK)):
        # The block before the last matters only where the new tokens reach back into it.
        if start <= block < stop and (block == last_block or in_last < tokens - 1):
            columns = min(block + BLOCK, stop) - block
            part = widen(template[first_row : first_row + tokens, :columns], scores.work)
            term[:, block - start : block - start + columns] = part
    return term


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    result = mla(precision=precision, **arguments)
    named = {"atten": result.atten_out, "lse": result.lse}
    return {name: array for name, array in named.items() if name in outputs}

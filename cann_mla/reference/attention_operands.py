"""What follows from the parameters of a call before any number is computed: sizes, sequences, masks.

Source: aclnnFusedInferAttentionScoreV5; CANN's tiling code for the decode path of A2, which ignores modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import INT4, INT32, Array, unpack_4bit
from cann_mla.reference.attention_layouts import Layouts, heads_first, parse_layouts
from cann_mla.reference.attention_lengths import Span, packed_spans, padded_spans, per_batch_spans
from cann_mla.reference.attention_masks import DEFAULT, UNBOUNDED, MaskRule, SequenceMask
from cann_mla.reference.attention_parameters import AttentionParameters
from cann_mla.reference.attention_sources import cache_shape


@dataclass(frozen=True)
class AttentionOperands:
    """A call with everything that its shapes, lengths and modes imply.

    Attributes
    ----------
    given : AttentionParameters
    layouts : Layouts
    query : ndarray, (batch, heads, tokens, width)
        View; packed layouts have one batch.
    keys, values : list of ndarray
        In the caller's layout; INT32 words already taken apart.
    key_heads : int
    key_width, value_width : int
        Head widths of key (without rope) and value.
    prefix : int
        Rows of the shared prefix in use; 0 without one.
    query_spans, key_spans : list of Span
        Rows of each sequence; those of a paged cache count from 0.
    masks : list of SequenceMask
    """

    given: AttentionParameters
    layouts: Layouts
    query: Array
    keys: list[Array]
    values: list[Array]
    key_heads: int
    key_width: int
    value_width: int
    prefix: int
    query_spans: list[Span]
    key_spans: list[Span]
    masks: list[SequenceMask]

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.given.num_heads

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.given.num_heads // self.key_heads


def resolve_operands(given: AttentionParameters, soc: str) -> AttentionOperands:
    """Sizes, sequences and masks of a call.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    layouts = parse_layouts(given.input_layout)
    key_heads = given.num_key_value_heads or given.num_heads
    if given.num_heads <= 0 or key_heads <= 0 or given.num_heads % key_heads:
        raise ValueError(f"numHeads {given.num_heads} must be a positive multiple of numKeyValueHeads {key_heads}")
    query = heads_first(given.query, layouts.inputs, given.num_heads)
    keys, values = _lists(given)
    key_width = _head_width(keys[0], layouts, key_heads, given)
    value_width = _head_width(values[0], layouts, key_heads, given)
    window = _window(given, soc, layouts, query, key_width == value_width)
    query_spans = _query_spans(given, layouts, query, window.ignores_query_lengths)
    key_spans = _key_spans(given, layouts, keys, key_heads, len(query_spans))
    prefix = _prefix_length(given, layouts, key_heads)
    masks = window.rule.for_sequences(
        [s.count for s in query_spans],
        [prefix + s.count for s in key_spans],
        [0 if layouts.packed else s.start for s in query_spans],
        [0 if layouts.packed else s.start for s in key_spans],
    )
    return AttentionOperands(
        given,
        layouts,
        query,
        keys,
        values,
        key_heads,
        key_width,
        value_width,
        prefix,
        query_spans,
        key_spans,
        masks,
    )


def _lists(given: AttentionParameters) -> tuple[list[Array], list[Array]]:
    """Key and value as lists; INT32 becomes INT4 where both are INT32."""
    keys = [given.key] if isinstance(given.key, np.ndarray) else list(given.key)
    values = [given.value] if isinstance(given.value, np.ndarray) else list(given.value)
    if not keys or len(keys) != len(values):
        raise ValueError(
            f"key and value are lists of equal, non-zero length; got {len(keys)} and {len(values)} entries"
        )
    if keys[0].dtype == INT32.numpy and values[0].dtype == INT32.numpy:
        return [int4_from_words(k) for k in keys], [int4_from_words(v) for v in values]
    return keys, values


def int4_from_words(words: Array) -> Array:
    """INT4 elements out of INT32 words, eight a word, lowest nibble first; the last axis grows by 8."""
    shape = (*words.shape[:-1], words.shape[-1] * 8)
    return unpack_4bit(np.ascontiguousarray(words).view(np.uint8), INT4, shape)


def _head_width(array: Array, layouts: Layouts, heads: int, given: AttentionParameters) -> int:
    if given.block_table is not None:
        return cache_shape(array, heads, given.block_size).width
    return int(heads_first(array, layouts.inputs, heads).shape[-1])


@dataclass(frozen=True)
class _Window:
    rule: MaskRule
    ignores_query_lengths: bool


def _window(given: AttentionParameters, soc: str, layouts: Layouts, query: Array, equal_widths: bool) -> _Window:
    """Mask rule after the modes that some paths ignore."""
    mode, pre, next_ = given.sparse_mode, given.pre_tokens, given.next_tokens
    single_row = layouts.inputs in ("BSH", "BSND", "BNSD") and query.shape[2] == 1
    # The decode path of A2 and A3 applies the mask as it is and looks at neither modes nor query lengths.
    decode = soc != "Ascend950" and single_row and equal_widths and given.query_rope is None
    if decode:
        mode = DEFAULT
    padded = _padding(given.query_padding_size) is not None or _padding(given.kv_padding_size) is not None
    antiquantised = _first(given.key).dtype != given.query.dtype
    if decode or (padded and mode == DEFAULT) or (antiquantised and single_row):
        pre = next_ = UNBOUNDED
    pre, next_ = (max(-UNBOUNDED, min(UNBOUNDED, tokens)) for tokens in (pre, next_))
    return _Window(MaskRule(mode, given.atten_mask, pre, next_, single_row), decode)


def _first(operand: Array | Sequence[Array]) -> Array:
    return operand if isinstance(operand, np.ndarray) else operand[0]


def _query_spans(given: AttentionParameters, layouts: Layouts, query: Array, ignore_lengths: bool) -> list[Span]:
    batches, _, tokens, _ = query.shape
    if layouts.packed:
        return packed_spans(given.actual_seq_lengths, tokens)
    if ignore_lengths:
        return padded_spans(None, batches, [tokens] * batches)
    return padded_spans(given.actual_seq_lengths, batches, [tokens] * batches, _padding(given.query_padding_size))


def _key_spans(
    given: AttentionParameters, layouts: Layouts, keys: list[Array], heads: int, sequences: int
) -> list[Span]:
    if given.block_table is not None:
        size = cache_shape(keys[0], heads, given.block_size).block_size
        return per_batch_spans(given.actual_seq_lengths_kv, sequences, given.block_table.shape[1] * size)
    views = [heads_first(k, layouts.inputs, heads) for k in keys]
    if layouts.packed:
        spans = packed_spans(given.actual_seq_lengths_kv, views[0].shape[2])
        if len(spans) != sequences:
            raise ValueError(f"actualSeqLengthsKv has {len(spans)} entries, actualSeqLengths {sequences}")
        return spans
    if len(keys) > 1:
        if len(keys) != sequences:
            raise ValueError(f"the tensor list has {len(keys)} entries, the query {sequences} batches")
        tokens = [v.shape[2] for v in views]
    else:
        tokens = [views[0].shape[2]] * sequences
    return padded_spans(given.actual_seq_lengths_kv, sequences, tokens, _padding(given.kv_padding_size))


def _padding(size: Array | None) -> int | None:
    return None if size is None or np.asarray(size).size == 0 else int(np.asarray(size).reshape(-1)[0])


def _prefix_length(given: AttentionParameters, layouts: Layouts, heads: int) -> int:
    """Rows of the shared prefix in use; packed layouts ignore it."""
    if given.key_shared_prefix is None or layouts.packed:
        return 0
    prefix = given.key_shared_prefix
    if prefix.dtype == INT32.numpy:
        prefix = int4_from_words(prefix)
    rows = int(heads_first(prefix, layouts.inputs, heads).shape[2])
    length = int(given.actual_shared_prefix_len[0]) if given.actual_shared_prefix_len else rows
    if not 0 <= length <= rows:
        raise ValueError(f"actualSharedPrefixLen {length} is outside 0..{rows}")
    return length

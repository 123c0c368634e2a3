"""Packed E8M0 scales of MXFP8 attention, put in the order of rows and groups.

Query and key have a scale for 32 elements of the width, packed in pairs ``(..., width / 64, 2)``. The value
has a scale for 32 rows, packed in pairs ``(..., rows / 64, width, 2)``; each sequence starts on a pair of
its own. Paged caches keep their scales in pages of the same layout.

Source: aclnnFusedInferAttentionScoreV5, ``dequantScaleQuery``; the MXFP8 test suite of CANN for the packing.
"""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.attention_dequantisation import ParameterRows
from cann_mla.reference.attention_operands import AttentionOperands
from cann_mla.reference.attention_sources import PagedRows, RowSource

_PAIR_ROWS = 64
_ROWS_EACH = 32


def query_scales(operands: AttentionOperands) -> RowSource:
    """Scales of the query: (T, Nq, D/64, 2), or (Nk, T, G, D/64, 2) where few rows share a key head."""
    scales = operands.given.dequant_scale_query
    assert scales is not None
    starts = [span.start for span in operands.query_spans]
    if scales.ndim == 5:
        key_heads, tokens, group = scales.shape[:3]
        by_head = scales.transpose(0, 2, 1, 3, 4).reshape(1, key_heads * group, tokens, -1)
        return ParameterRows(by_head, starts)
    if scales.ndim != 4:
        raise ValueError(f"dequantScaleQuery of MXFP8 has 4 or 5 dimensions, got shape {scales.shape}")
    return ParameterRows(scales.reshape(*scales.shape[:2], -1).transpose(1, 0, 2)[None], starts)


def key_scales(operands: AttentionOperands) -> RowSource:
    """Scales of the key, plain (T, Nk, D/64, 2) or in the pages of the cache."""
    scales = operands.given.key_antiquant_scale
    assert scales is not None
    if operands.given.block_table is None:
        starts = [span.start for span in operands.key_spans]
        return ParameterRows(scales.reshape(*scales.shape[:2], -1).transpose(1, 0, 2)[None], starts)
    if scales.ndim == 6:
        # (blocks, heads, block / 16, D / 64, 16, 2)
        blocks, heads, high, pairs, low, two = scales.shape
        pages = scales.transpose(0, 1, 2, 4, 3, 5).reshape(blocks, heads, high * low, pairs * two)
    else:
        pages = _pages(scales, operands.keys[0]).reshape(*_pages(scales, operands.keys[0]).shape[:3], -1)
    return PagedRows(pages, operands.given.block_table, operands.key_heads, pages.shape[2])


def value_scales(operands: AttentionOperands) -> RowSource:
    """Scales of the value, plain (T/64, Nk, D, 2) or in the pages of the cache, by groups of 32 rows."""
    scales = operands.given.value_antiquant_scale
    assert scales is not None
    if operands.given.block_table is None:
        # (pairs, heads, width, 2) -> (heads, pairs * 2, width)
        pairs, heads, width, two = scales.shape
        by_group = scales.transpose(1, 0, 3, 2).reshape(1, heads, pairs * two, width)
        sizes = [-(-span.count // _PAIR_ROWS) * 2 for span in operands.key_spans]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist()
        return ParameterRows(by_group, starts, _ROWS_EACH)
    if scales.ndim == 6:
        # (blocks, heads, D / 16, block / 64, 16, 2)
        blocks, heads, high, pairs, low, two = scales.shape
        pages = scales.transpose(0, 1, 3, 5, 2, 4).reshape(blocks, heads, pairs * two, high * low)
    else:
        paired = _pages(scales, operands.values[0])
        blocks, heads, pairs, width, two = paired.shape
        pages = paired.transpose(0, 1, 2, 4, 3).reshape(blocks, heads, pairs * two, width)
    return _GroupedPages(PagedRows(pages, operands.given.block_table, operands.key_heads, pages.shape[2]))


def _pages(scales: Array, cache: Array) -> Array:
    """Scales with the axes (blocks, heads, ...), out of those of a cache with heads or rows second."""
    return scales.transpose(0, 2, 1, 3, 4) if cache.ndim == 3 else scales


class _GroupedPages:
    """Paged rows of which each stands for 32 rows of the operand."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.width = source.width

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        first, last = start // _ROWS_EACH, -(-stop // _ROWS_EACH)
        groups = self._source.rows(sequence, heads, first, last)
        return groups[:, np.arange(start, stop) // _ROWS_EACH - first]

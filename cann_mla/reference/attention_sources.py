"""Where keys and values come from: plain operands, tensor lists, paged caches, behind a shared prefix.

Every source answers one question: the rows [start, stop) of a sequence for some heads, as an array
(heads, rows, width) of the operand's own type. Rows count the shared prefix first.

Source: aclnnFusedInferAttentionScoreV5, "page attention" and "keySharedPrefix".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.attention_layouts import heads_first
from cann_mla.reference.attention_lengths import Span


class RowSource(Protocol):
    """Rows of one operand (key, value or rope), by sequence."""

    width: int

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Rows [start, stop) of a sequence, shape (heads, rows, width); a view where it can be one."""


class PlainRows:
    """A single operand in one of the layouts; `spans` say where each sequence lies."""

    def __init__(self, array: Array, order: str, heads: int, spans: list[Span]) -> None:
        self._array = heads_first(array, order, heads)
        self._spans = spans
        self.width = self._array.shape[-1]

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Rows of the span of a sequence; a view."""
        span = self._spans[sequence]
        own: Array = self._array[span.batch, heads, span.start + start : span.start + stop]
        return own


class ListRows:
    """A tensor list: one operand of batch 1 a sequence, of differing lengths."""

    def __init__(self, arrays: list[Array], order: str, heads: int, spans: list[Span]) -> None:
        self._arrays = [heads_first(a, order, heads)[0] for a in arrays]
        self._spans = spans
        self.width = self._arrays[0].shape[-1]

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Rows of a sequence's own entry; a view."""
        offset = self._spans[sequence].start
        own: Array = self._arrays[sequence][heads, offset + start : offset + stop]
        return own


class PagedRows:
    """A paged cache in one of its three layouts, told apart by rank.

    ``(blocks, block, heads * width)``, ``(blocks, heads, block, width)`` or the blocked NZ form
    ``(blocks, heads, width / c, block, c)`` with c elements in 32 bytes.
    """

    def __init__(self, cache: Array, block_table: Array, heads: int, block_size: int) -> None:
        self._table = np.asarray(block_table, np.int64)
        self._blocks = _cache_view(cache, heads, block_size)  # (blocks, heads, block, c-groups, c)
        self._block = self._blocks.shape[2]
        self.width = self._blocks.shape[3] * self._blocks.shape[4]

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Rows of a sequence, gathered from its blocks; a copy.

        Raises
        ------
        ValueError
            If a block that holds one of the rows is not in the table or not in the cache.
        """
        if stop <= start:
            return np.empty((len(range(*heads.indices(self._blocks.shape[1]))), 0, self.width), self._blocks.dtype)
        first, last = start // self._block, -(-stop // self._block)
        ids = self._table[sequence, first:last]
        if ids.size < last - first or ids.min() < 0 or ids.max() >= self._blocks.shape[0]:
            raise ValueError(
                f"blockTable row {sequence}, entries {first}..{last - 1}, must name {last - first} blocks of the "
                f"{self._blocks.shape[0]} in the cache; it holds {ids.tolist()}"
            )
        gathered = self._blocks[:, heads][ids]
        rows: Array = gathered.transpose(1, 0, 2, 3, 4).reshape(gathered.shape[1], -1, self.width)
        return rows[:, start - first * self._block : stop - first * self._block]


class PrefixedRows:
    """A shared prefix in front of each sequence's own rows."""

    def __init__(self, prefix: Array, length: int, own: RowSource) -> None:
        self._prefix = prefix  # (heads, rows, width)
        self._length = length
        self._own = own
        self.width = own.width

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Rows of the prefix, of the sequence, or of both joined."""
        if stop <= self._length:
            return self._prefix[heads, start:stop]
        own = self._own.rows(sequence, heads, max(start - self._length, 0), stop - self._length)
        if start >= self._length:
            return own
        return np.concatenate([self._prefix[heads, start : self._length], own], axis=1)


@dataclass(frozen=True)
class CacheShape:
    """Sizes of a paged cache."""

    blocks: int
    block_size: int
    width: int


def cache_shape(cache: Array, heads: int, block_size: int) -> CacheShape:
    """Sizes of a paged cache in any of its layouts."""
    view = _cache_view(cache, heads, block_size)
    return CacheShape(view.shape[0], view.shape[2], view.shape[3] * view.shape[4])


def _cache_view(cache: Array, heads: int, block_size: int) -> Array:
    """View of a paged cache with the axes (blocks, heads, block, groups, c); one group where the width is whole."""
    if cache.ndim == 5:
        view: Array = cache.transpose(0, 1, 3, 2, 4)
    elif cache.ndim == 4:
        # (blocks, block, 1, width) is the same memory as (blocks, 1, block, width)
        swapped = heads == 1 and cache.shape[1] == block_size and cache.shape[2] == 1
        view = (cache.transpose(0, 2, 1, 3) if swapped else cache)[:, :, :, None, :]
    elif cache.ndim == 3 and cache.shape[2] % heads == 0:
        blocks, block, width = cache.shape
        view = cache.reshape(blocks, block, heads, width // heads).transpose(0, 2, 1, 3)[:, :, :, None, :]
    else:
        raise ValueError(f"a paged cache of {heads} heads has 3, 4 or 5 dimensions, got shape {cache.shape}")
    if view.shape[1] != heads or (block_size > 0 and view.shape[2] != block_size):
        raise ValueError(
            f"paged cache of shape {cache.shape} is read as {view.shape[1]} heads and blocks of {view.shape[2]} rows, "
            f"but numKeyValueHeads is {heads} and blockSize {block_size}"
        )
    return view

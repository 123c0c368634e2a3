"""Reading ATB's paged caches, in either of their two arrangements."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.attention_numbers import Floats, widen


class PagedRows:
    """Rows of one sequence in a paged cache.

    Parameters
    ----------
    cache : ndarray
        (blocks, block size, heads, width), or with `blocked` (blocks, heads * width / C0, block size, C0), C0
        being 32 bytes of elements.
    table : ndarray of int32
        The sequence's blocks in order.
    blocked : bool
    """

    def __init__(self, cache: Array, table: Array, *, blocked: bool) -> None:
        self._cache, self._table, self._blocked = cache, table, blocked
        self._block_size = int(cache.shape[2 if blocked else 1])

    def read(self, start: int, stop: int) -> Array:
        """Rows of [start, stop): (rows, heads * width).

        Raises
        ------
        ValueError
            If the table is too short or names a block that the cache does not have.
        """
        size = self._block_size
        first, last = start // size, -(-stop // size)
        blocks = self._table[first:last]
        if blocks.size < last - first or (blocks.size and not 0 <= blocks.min() <= blocks.max() < len(self._cache)):
            raise ValueError(
                f"rows {start} to {stop} need {last} blocks of {size} rows; the table has {self._table.tolist()} "
                f"and the cache {len(self._cache)} blocks"
            )
        pages = self._cache[blocks]
        if self._blocked:
            pages = pages.transpose(0, 2, 1, 3)
        return pages.reshape(blocks.size * size, -1)[start - first * size : stop - first * size]

    def values(self, start: int, stop: int, work: Any) -> Floats:
        """The same, widened."""
        return widen(np.ascontiguousarray(self.read(start, stop)), work)

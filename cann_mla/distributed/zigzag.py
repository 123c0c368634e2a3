"""Causal sequences split over ranks so that every rank has the same work.

Each sequence is cut into 2P chunks. Rank r takes chunk r and chunk 2P-1-r: what the early one saves under the causal
mask, the late one costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.checks import whole, whole_numbers


@dataclass(frozen=True)
class ZigZag:
    """The split of packed sequences over ranks.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each sequence, at least 1; the sequences are packed one after the other.
    ranks : int
        P.

    Raises
    ------
    TypeError
        If a length, or the number of ranks, is no integer.
    ValueError
        If there is no sequence, a sequence has no token, or there is no rank.

    Notes
    -----
    Chunks of a sequence differ by one token at most; those of a sequence shorter than 2P may be empty, the first one
    never is. A rank keeps its tokens chunk by chunk: of all sequences the early chunk, then of all sequences the late
    one.
    """

    lengths: tuple[int, ...]
    ranks: int

    def __init__(self, lengths: Sequence[int], ranks: int) -> None:
        object.__setattr__(self, "lengths", whole_numbers("lengths", lengths))
        object.__setattr__(self, "ranks", whole("ranks", ranks))
        if min(self.lengths, default=0) < 1:
            raise ValueError(f"every sequence needs a token, and there must be one; got lengths {list(self.lengths)}")
        if self.ranks < 1:
            raise ValueError(f"ranks must be at least 1, not {ranks}")

    def chunks(self, rank: int) -> tuple[int, int]:
        """Numbers of the early and the late chunk of a rank."""
        whole("rank", rank, 0, self.ranks - 1)
        return rank, 2 * self.ranks - 1 - rank

    def start(self, sequence: int, chunk: int) -> int:
        """Token of a sequence that a chunk starts with; for chunk 2P, the length."""
        return -(-chunk * self.lengths[sequence] // (2 * self.ranks))

    def chunk_lengths(self, chunk: int) -> tuple[int, ...]:
        """Tokens of a chunk, for each sequence."""
        whole("chunk", chunk, 0, 2 * self.ranks - 1)
        return tuple(self.start(s, chunk + 1) - self.start(s, chunk) for s in range(len(self.lengths)))

    def chunk_rows(self, chunk: int) -> npt.NDArray[np.int64]:
        """Where the tokens of a chunk lie among the packed tokens of all sequences."""
        return self._rows(chunk, chunk + 1)

    def rows_before(self, chunk: int) -> npt.NDArray[np.int64]:
        """Where the tokens of all chunks before this one lie, ``start(sequence, chunk)`` for each sequence."""
        return self._rows(0, chunk)

    def _rows(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Rows of chunks `first` up to, not including, `end`, sequence by sequence."""
        offsets = np.cumsum((0, *self.lengths))
        return np.concatenate(
            [offsets[s] + np.arange(self.start(s, first), self.start(s, end)) for s in range(len(self.lengths))]
        )

    def rows(self, rank: int) -> npt.NDArray[np.int64]:
        """Where the tokens of a rank lie among the packed tokens: ``x[split.rows(rank)]`` is its shard of `x`."""
        return np.concatenate([self.chunk_rows(chunk) for chunk in self.chunks(rank)])

    def tokens(self, rank: int) -> int:
        """Tokens of a rank."""
        return sum(sum(self.chunk_lengths(chunk)) for chunk in self.chunks(rank))

    def work(self, rank: int) -> int:
        """Pairs of a query of the rank and a key it sees."""
        spans = (
            (self.start(s, chunk), self.start(s, chunk + 1))
            for chunk in self.chunks(rank)
            for s in range(len(self.lengths))
        )
        return sum((end * (end + 1) - start * (start + 1)) // 2 for start, end in spans)

    def join(self, shards: Sequence[npt.NDArray[Any]], axis: int = 0) -> npt.NDArray[Any]:
        """The packed tokens again, from the shards of all ranks; `axis` is that of the tokens."""
        if len(shards) != self.ranks:
            raise ValueError(f"{len(shards)} shards were given for {self.ranks} ranks")
        rows = np.concatenate([self.rows(rank) for rank in range(self.ranks)])
        if sum(shard.shape[axis] for shard in shards) != len(rows):
            sizes = [shard.shape[axis] for shard in shards]
            raise ValueError(f"the shards have {sizes} tokens; the sequences have {len(rows)}")
        return np.take(np.concatenate(shards, axis), np.argsort(rows), axis)

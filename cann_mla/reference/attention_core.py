"""The blocked softmax that every version of FusedInferAttentionScore shares.

Scores exist for one tile of rows and one block of columns at a time, so memory does not grow with the
length of the sequences. Blocks that the mask hides altogether are skipped.

Source: online softmax (Milakov and Gimelshein, 2018); aclnnFusedInferAttentionScoreV5 for mask, position
bias, sink and the rows that see nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array
from cann_mla.reference.attention_masks import SequenceMask
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.attention_numerics import Numerics

# (heads, first row, last row) -> rows of every head of the group, (key heads, query heads each, rows, width)
QueryReader = Callable[[slice, int, int], Floats]
# (heads, first column, last column) -> keys and values, (key heads, columns, width)
KeyValueReader = Callable[[slice, int, int], tuple[Floats, Floats]]

# Elements and rows of a tile's scores, columns of its blocks: small enough for the caches of two cores, large
# enough for the matrix products.
_TILE_ELEMENTS = 1 << 19
_TILE_ROWS = 512
_BLOCK_COLUMNS = (512, 1024)
# Up to here all columns are one block.
_WHOLE_ELEMENTS = 1 << 18
_MOST_COLUMNS = 8192
# Elements of a block's scores that are worth a thread of their own, and how many threads share a block.
_PIECE_ELEMENTS = 1 << 17
MOST_WORKERS = min(4, os.cpu_count() or 1)
# Bytes of widened keys and values that may be kept over the tiles of one group of heads.
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class SequenceProblem:
    """One sequence: its sizes and what is needed to compute it.

    Attributes
    ----------
    key_heads, group : int
        Key-value heads, and query heads that share each.
    read_query, read_key_value : callable
        Operands, dequantised, in the type of the numerics.
    mask : SequenceMask
        Carries the number of rows and columns, both at least 1.
    bias : ndarray, shape (key heads, group, rows or 1, columns), or None
    sink : ndarray, shape (key heads, group), or None
        Score of a virtual column without value.
    zero_masked_rows : bool
        Whether a row whose every column the user mask hides gives 0 (``innerPrecise`` bit 1) instead of the
        average of the values.
    value_width : int
    """

    key_heads: int
    group: int
    read_query: QueryReader
    read_key_value: KeyValueReader
    mask: SequenceMask
    bias: Array | None
    sink: Array | None
    zero_masked_rows: bool
    value_width: int

    @property
    def rows(self) -> int:
        """Query rows."""
        return self.mask.rows

    @property
    def columns(self) -> int:
        """Prefix plus key rows."""
        return self.mask.columns


@dataclass(frozen=True)
class Tile:
    """Result of a tile of rows: output (heads, rows, width) and lse (heads, rows) of some query heads."""

    heads: slice
    rows: slice
    output: Floats
    lse: Floats


def attend(problem: SequenceProblem, numerics: Numerics, pool: Executor) -> Iterator[Tile]:
    """Attention of one sequence, tile by tile.

    Parameters
    ----------
    problem : SequenceProblem
    numerics : Numerics
    pool : Executor
        Threads for the part beside the matrix products.

    Yields
    ------
    Tile
        Covers every query head and row once. Rows that see nothing have output 0 and lse infinite.
    """
    rows_a_tile = max(1, min(problem.rows, _TILE_ROWS // problem.group))
    columns = numerics.block_columns or _free_block(rows_a_tile * problem.group, problem.columns)
    scores_a_head = rows_a_tile * problem.group * min(columns, problem.columns)
    heads_a_tile = min(problem.key_heads, max(1, _TILE_ELEMENTS // scores_a_head))
    scratch = np.empty(heads_a_tile * scores_a_head, numerics.work)
    for first_head in range(0, problem.key_heads, heads_a_tile):
        heads = slice(first_head, min(first_head + heads_a_tile, problem.key_heads))
        read = _kept(problem, heads, rows_a_tile)
        for first_row in range(0, problem.rows, rows_a_tile):
            rows = slice(first_row, min(first_row + rows_a_tile, problem.rows))
            blocks = _blocks(problem.mask.visible_columns(rows.start, rows.stop), columns)
            operands = ((*block, *read(*block)) for block in blocks)
            yield _attend_tile(problem, numerics, heads, rows, operands, scratch, pool)


def _free_block(rows: int, columns: int) -> int:
    """Columns of a block where the numerics leave the choice.

    Small problems are one block, so that their numerators are rounded relative to the final maximum.
    """
    if columns <= _MOST_COLUMNS and rows * columns <= _WHOLE_ELEMENTS:
        return columns
    fewest, most = _BLOCK_COLUMNS
    return max(fewest, min(most, _TILE_ELEMENTS // rows))


def _kept(problem: SequenceProblem, heads: slice, rows_a_tile: int) -> Callable[[int, int], tuple[Floats, Floats]]:
    """Reader of keys and values for one group of heads, which widens them once if several tiles need them."""
    if rows_a_tile < problem.rows:
        first = problem.read_key_value(heads, 0, 1)
        a_column = sum(part.shape[0] * part.shape[2] * part.itemsize for part in first)
        if a_column * problem.columns <= _KEPT_BYTES:
            keys, values = problem.read_key_value(heads, 0, problem.columns)
            return lambda start, stop: (keys[:, start:stop], values[:, start:stop])
    return lambda start, stop: problem.read_key_value(heads, start, stop)


class _OnlineSoftmax:
    """Running maximum, sum and output of a tile; all with a last axis of 1 or the value's width."""

    def __init__(self, numerics: Numerics, pool: Executor) -> None:
        self._numerics = numerics
        self._pool = pool
        self.maximum: Floats | None = None
        self.total: Floats
        self.output: Floats

    def add(self, scores: Floats, values: Floats) -> None:
        """Take in a block; `scores` is used up."""
        previous, numerics = self.maximum, self._numerics
        maximum, total, gain = self._soften(scores)
        product = scores @ values
        if previous is None:
            self.total, self.output = total, numerics.first(product, gain)
        else:
            decay = np.exp(previous - maximum)
            self.total = self.total * decay + total
            self.output = numerics.accumulate(self.output, decay, product, gain)
        self.maximum = maximum

    def _soften(self, scores: Floats) -> tuple[Floats, Floats, Floats | None]:
        """Turn scores into weights; gives new running maxima, row sums, and the gain of the product.

        Rows are independent, so that large blocks are shared out to the cores: next to the matrix products,
        which use them all, the exponentials of one core would take as long again.
        """

        def soften(rows: slice) -> tuple[Floats, Floats, Floats | None]:
            previous = None if self.maximum is None else self.maximum[:, rows]
            return _soften(self._numerics, scores[:, rows], previous)

        rows = scores.shape[1]
        pieces = max(1, min(MOST_WORKERS, scores.size // _PIECE_ELEMENTS))
        if pieces == 1:
            return soften(slice(None))
        cuts = [rows * i // pieces for i in range(pieces + 1)]
        slices = [slice(start, stop) for start, stop in pairwise(cuts) if start < stop]
        maxima, totals, gains = zip(*self._pool.map(soften, slices), strict=True)
        gain = None if gains[0] is None else np.concatenate(gains, axis=1)
        return np.concatenate(maxima, axis=1), np.concatenate(totals, axis=1), gain

    def add_sink(self, sink: Floats) -> None:
        """Take in a column without value."""
        assert self.maximum is not None
        maximum = np.maximum(self.maximum, sink)
        decay = np.exp(self.maximum - maximum)
        self.total = self.total * decay + np.exp(sink - maximum)
        self.output = self.output * decay
        self.maximum = maximum


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _soften(numerics: Numerics, scores: Floats, previous_max: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    """Turn scores of some rows into weights, in place."""
    block_max = numerics.ceiling(scores.max(axis=-1, keepdims=True))
    maximum = block_max if previous_max is None else np.maximum(previous_max, block_max)
    scores -= maximum - scores.dtype.type(numerics.shift)
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    weights, gain = numerics.weights(scores, block_max, maximum)
    if weights is not scores:
        scores[...] = weights
    return maximum, total, gain


def _attend_tile(
    problem: SequenceProblem,
    numerics: Numerics,
    heads: slice,
    rows: slice,
    blocks: Iterator[tuple[int, int, Floats, Floats]],
    scratch: Floats,
    pool: Executor,
) -> Tile:
    """Result of a tile; `blocks` gives first and last column, keys and values of each block."""
    query = problem.read_query(heads, rows.start, rows.stop)
    key_heads, group, count, width = query.shape
    flat_query = query.reshape(key_heads, group * count, width)
    state = _OnlineSoftmax(numerics, pool)
    for start, stop, keys, values in blocks:
        shape = (key_heads, group * count, stop - start)
        products = scratch[: shape[0] * shape[1] * shape[2]].reshape(shape)
        np.matmul(flat_query, keys.swapaxes(-1, -2), out=products)
        scores = numerics.logits(products, _bias_block(problem, heads, rows, start, stop, numerics))
        by_row = scores.reshape(key_heads, group, count, stop - start)
        problem.mask.hide(by_row, rows.start, start, numerics.hidden)
        state.add(scores, values)
    if state.maximum is None:
        nothing = np.zeros((key_heads * group, count, problem.value_width), numerics.work)
        return _tile(problem, heads, rows, nothing, np.full(nothing.shape[:2], np.inf, numerics.work))
    return _finish(problem, heads, rows, state, numerics)


def _finish(problem: SequenceProblem, heads: slice, rows: slice, state: _OnlineSoftmax, numerics: Numerics) -> Tile:
    """Divide by the row sums and clear the rows that saw nothing."""
    assert state.maximum is not None
    count = rows.stop - rows.start
    empty = np.broadcast_to(
        problem.mask.rows_outside_window(rows.start, rows.stop), (state.maximum.size // count, count)
    ).copy()
    if problem.zero_masked_rows:
        empty |= state.maximum.reshape(-1, count) <= numerics.ceiling(np.asarray(numerics.hidden, state.maximum.dtype))
    if problem.sink is not None:
        sink = widen(problem.sink[heads], numerics.work)
        state.add_sink(np.repeat(sink, count, axis=1)[..., None])
    assert state.maximum is not None
    quotient = state.output / state.total
    if numerics.output_gain != 1.0:
        quotient *= quotient.dtype.type(numerics.output_gain)
    output = quotient.reshape(-1, count, quotient.shape[-1])
    lse = (state.maximum + np.log(state.total)).reshape(-1, count)
    output[empty] = 0
    lse[empty] = np.inf
    return _tile(problem, heads, rows, output, lse)


def _tile(problem: SequenceProblem, heads: slice, rows: slice, output: Floats, lse: Floats) -> Tile:
    return Tile(slice(heads.start * problem.group, heads.stop * problem.group), rows, output, lse)


def _blocks(columns: tuple[int, int], size: int) -> Iterator[tuple[int, int]]:
    """Blocks on a grid that starts at column 0, cut to the visible range."""
    begin, end = columns
    for start in range(begin // size * size, end, size):
        if max(start, begin) < end:
            yield max(start, begin), min(start + size, end)


def _bias_block(
    problem: SequenceProblem, heads: slice, rows: slice, start: int, stop: int, numerics: Numerics
) -> Floats | None:
    if problem.bias is None:
        return None
    bias = problem.bias[heads, :, :, start:stop]
    count = rows.stop - rows.start
    part = widen(bias[:, :, rows] if bias.shape[2] > 1 else bias, numerics.work)
    shape = (part.shape[0], part.shape[1], count, part.shape[3])
    spread: npt.NDArray[np.floating] = np.broadcast_to(part, shape).reshape(shape[0], -1, shape[3])
    return spread

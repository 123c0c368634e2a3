"""Attention over packed sequences as ATB's prefill kernels walk through it: tiles of rows, stripes of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.atb_lengths import Sequence
from cann_mla.reference.atb_softmax import STRIPE, Scores, attend
from cann_mla.reference.attention_numbers import Floats, widen

BLOCK = 128

_TILE_ELEMENTS = 1 << 18
_KEPT_BYTES = 64 << 20
_BF16_MASK_FACTOR = -3e38


class Operands(NamedTuple):
    """Packed operands whose queries and keys may come in parts, token first: (T, heads, width)."""

    queries: tuple[Array, ...]
    keys: tuple[Array, ...]
    value: Array

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return int(self.queries[0].shape[1] // self.keys[0].shape[1])


class Mask(Protocol):
    """What a kernel does with the columns of a row. Rows and columns count from the start of a sequence."""

    def end(self, last_row: int, columns: int) -> int:
        """Columns that a tile ending before `last_row` looks at."""

    def term(self, heads: slice, rows: slice, columns: slice, work: Any) -> Floats | None:
        """What is added to scaled scores, (rows, columns) or (heads, rows, columns)."""


class NoMask:
    """Every row sees every column."""

    def end(self, last_row: int, columns: int) -> int:
        """All."""
        return columns

    def term(self, heads: slice, rows: slice, columns: slice, work: Any) -> Floats | None:
        """Nothing."""
        return None


class SlidingTemplate:
    """Triangular: a template of 512 by 512 lies along the diagonal, anchored at the top left corner.

    Blocks of 128 right of the diagonal are skipped, whatever the template says there. BF16 templates are
    multiplied by -3e38 (1 hides), FP16 templates are added as they are (-10000 hides).

    Parameters
    ----------
    mask : ndarray of float16 or bfloat16
        Read from its first element in rows of 512, whatever its shape.
    placed : list of Sequence
        Whose lengths decide how much of the template is read.

    Raises
    ------
    ValueError
        If there is no mask, or it is smaller than what the kernel reads.
    """

    def __init__(self, mask: Array | None, placed: list[Sequence], work: Any) -> None:
        if mask is None:
            raise ValueError(f"a triangular mask type needs a mask of shape ({STRIPE}, {STRIPE})")
        rows = min(STRIPE, max((s.query_length for s in placed), default=0))
        columns = min(STRIPE, max((s.kv_length for s in placed), default=0))
        if mask.size < (rows - 1) * STRIPE + columns:
            raise ValueError(
                f"the kernel reads the mask in rows of {STRIPE}; shape {mask.shape} ends before row {rows - 1}, "
                f"column {columns - 1}; give one of shape ({STRIPE}, {STRIPE})"
            )
        template = np.zeros((STRIPE, STRIPE), work)
        taken = min(template.size, mask.size)
        template.reshape(-1)[:taken] = mask_values(mask.reshape(-1)[:taken], work)
        for block in range(0, STRIPE, BLOCK):
            template[block : block + BLOCK, block + BLOCK :] = -np.inf
        self._template = template

    def end(self, last_row: int, columns: int) -> int:
        """To the end of the block on the diagonal."""
        return min(columns, -(-last_row // BLOCK) * BLOCK)

    def term(self, heads: slice, rows: slice, columns: slice, work: Any) -> Floats | None:
        """The template where the stripe touches the diagonal; a tile of rows lies within one 512 of it."""
        below = rows.start - columns.start
        if below >= STRIPE:
            return None
        return self._template[below : below + rows.stop - rows.start, : columns.stop - columns.start]


def output_buffer(name: str, content: Array | None, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """An output as the call finds it: a copy of what it holds, or zeros.

    Raises
    ------
    ValueError
        If the content has another shape.
    """
    if content is None:
        return np.zeros(shape, kind)
    if content.shape != shape:
        raise ValueError(f"{name} has shape {content.shape}, the operands give {shape}")
    return np.array(content, kind, order="C")


def mask_values(mask: Array, work: Any) -> Floats:
    """What a mask adds to scores: BF16 times -3e38, FP16 as it is."""
    values = np.array(widen(mask, work))
    if mask.dtype != np.float16:
        values *= values.dtype.type(_BF16_MASK_FACTOR)
    return values


def attend_sequence(
    operands: Operands, sequence: Sequence, mask: Mask, scores: Scores
) -> Iterator[tuple[slice, slice, Floats, Floats]]:
    """Attention of one sequence, tile by tile; nothing if it has no keys.

    Yields
    ------
    heads, rows : slice
        Query heads and packed query rows of the tile.
    output, lse : ndarray, shapes (heads, rows, value width) and (heads, rows)
        Type ``scores.work``, not rounded.
    """
    if sequence.kv_length == 0:
        return
    # Tiles start at multiples of a block and lie within one 512 of the diagonal.
    rows_a_tile = max(BLOCK, STRIPE // operands.group // BLOCK * BLOCK)
    elements = min(rows_a_tile, sequence.query_length) * operands.group * min(STRIPE, sequence.kv_length)
    heads_a_tile = max(1, _TILE_ELEMENTS // elements)
    for first_head in range(0, operands.value.shape[1], heads_a_tile):
        kv_heads = slice(first_head, min(first_head + heads_a_tile, operands.value.shape[1]))
        read = _key_value_reader(operands, sequence, kv_heads, scores.work)
        heads = slice(kv_heads.start * operands.group, kv_heads.stop * operands.group)
        for first in range(0, sequence.query_length, rows_a_tile):
            rows = slice(first, min(first + rows_a_tile, sequence.query_length))
            packed = slice(sequence.query_start + rows.start, sequence.query_start + rows.stop)
            query = _read(operands.queries, packed, heads, scores.work)
            count = rows.stop - rows.start
            stripes = _stripes(rows, heads, sequence.kv_length, mask, operands.group, scores.work)
            parts = ((*read(start, stop), term) for start, stop, term in stripes)
            output, lse = attend(query.reshape(-1, operands.group * count, query.shape[-1]), parts, scores)
            yield heads, packed, output.reshape(-1, count, output.shape[-1]), lse.reshape(-1, count)


def _stripes(
    rows: slice, heads: slice, columns: int, mask: Mask, group: int, work: Any
) -> Iterator[tuple[int, int, Floats | None]]:
    """First and last column of every stripe, and what is added to its scores."""
    end = mask.end(rows.stop, columns)
    for start in range(0, end, STRIPE):
        stop = min(start + STRIPE, end)
        term = mask.term(heads, rows, slice(start, stop), work)
        if term is not None and term.ndim == 2:
            term = np.tile(term, (group, 1))
        elif term is not None:
            term = term.reshape(-1, group * term.shape[1], term.shape[2])
        yield start, stop, term


def _key_value_reader(
    operands: Operands, sequence: Sequence, heads: slice, work: Any
) -> Callable[[int, int], tuple[Floats, Floats]]:
    """Reader of a stripe's keys and values, which widens them once if they are few enough to be kept."""

    def read(start: int, stop: int) -> tuple[Floats, Floats]:
        columns = slice(sequence.kv_start + start, sequence.kv_start + stop)
        return _read(operands.keys, columns, heads, work), _read((operands.value,), columns, heads, work)

    width = sum(part.shape[2] for part in (*operands.keys, operands.value))
    if sequence.kv_length * (heads.stop - heads.start) * width * np.dtype(work).itemsize > _KEPT_BYTES:
        return read
    keys, values = read(0, sequence.kv_length)
    return lambda start, stop: (keys[:, start:stop], values[:, start:stop])


def _read(parts: tuple[Array, ...], rows: slice, heads: slice, work: Any) -> Floats:
    """Parts side by side, widened: (heads, rows, width)."""
    count, width = rows.stop - rows.start, sum(part.shape[2] for part in parts)
    joined = np.empty((heads.stop - heads.start, count, width), work)
    first = 0
    for part in parts:
        joined[:, :, first : first + part.shape[2]] = widen(part[rows, heads], work).swapaxes(0, 1)
        first += part.shape[2]
    return joined

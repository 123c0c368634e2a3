"""Paged caches and their block tables, from plain arrays.

Row s of sequence b lies in block ``table[b, s // block_size]`` at row ``s % block_size``. A block holds its rows
in one of three forms, which operators tell apart by the number of axes.

Source: CANN's documentation of aclnnFusedInferAttentionScore to V5, paged attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array, dtype
from cann_mla.ops.sequence_lengths import Lengths

CACHE_LAYOUTS = ("BnBsH", "BnBsND", "BnNBsD", "NZ")
_NZ_BITS = 256


def block_table(
    lengths: Lengths, block_size: int, *, blocks: Lengths | None = None, width: int | None = None
) -> npt.NDArray[np.int32]:
    """A block table for sequences of known lengths.

    Parameters
    ----------
    lengths : sequence of int
        Rows of each sequence in the cache.
    block_size : int
        Rows of a block.
    blocks : sequence of int, optional
        Numbers of free blocks, used in this order. Default: 0, 1, 2...
    width : int, optional
        Blocks a sequence in the table; default: as many as the longest sequence needs, at least one.

    Returns
    -------
    ndarray of int32, shape (B, width)
        Places that no row needs are 0; operators do not read them.

    Raises
    ------
    ValueError
        If `blocks` are too few or not all different, or `width` is too small.
    """
    needed = blocks_needed(lengths, block_size)
    wide = max([1, *needed]) if width is None else width
    if needed and wide < max(needed):
        raise ValueError(f"width={width}, but the longest of the lengths {list(lengths)} needs {max(needed)} blocks")
    free = list(range(sum(needed)) if blocks is None else map(int, blocks))
    if len(free) < sum(needed) or len(set(free)) < len(free):
        raise ValueError(f"{sum(needed)} different blocks are needed; {len(set(free))} were given")
    table = np.zeros((len(needed), wide), np.int32)
    used = 0
    for row, count in zip(table, needed, strict=True):
        row[:count] = free[used : used + count]
        used += count
    return table


def blocks_needed(lengths: Lengths, block_size: int) -> list[int]:
    """Number of blocks that each sequence takes.

    Raises
    ------
    ValueError
        If the block size is not positive or a length is negative.
    """
    if block_size <= 0 or any(n < 0 for n in lengths):
        raise ValueError(f"block_size={block_size}, lengths {list(lengths)}: a size is positive, no length negative")
    return [-(-int(n) // block_size) for n in lengths]


def paged_cache(
    sequences: Sequence[Array],
    table: npt.NDArray[np.int32],
    block_size: int,
    *,
    layout: str = "BnNBsD",
    block_count: int | None = None,
) -> Array:
    """Lay rows of sequences into a paged cache.

    Parameters
    ----------
    sequences : sequence of ndarray, each (S, N, D)
        Keys, values or rope parts; S may differ.
    table : ndarray of int32, shape (B, blocks a sequence)
        As :func:`block_table` makes it.
    block_size : int
    layout : {"BnBsH", "BnBsND", "BnNBsD", "NZ"}
        (Bn, Bs, N*D), (Bn, Bs, N, D) as MlaPrologV3 and AtbMLA take it, (Bn, N, Bs, D), or (Bn, N, D/c, Bs, c) with
        c elements in 32 bytes: 16 for FP16 and BF16, 32 for 8-bit types.
    block_count : int, optional
        Blocks of the cache; default: as many as the table names.

    Returns
    -------
    ndarray
        What no row was laid into is 0.

    Raises
    ------
    ValueError
        If shapes differ, the layout is unknown, the table has no place for a row, names a block twice or one that
        the cache lacks, or NZ does not fit D.
    """
    _check_layout(layout)
    first = sequences[0]
    if any(s.ndim != 3 or s.shape[1:] != first.shape[1:] or s.dtype != first.dtype for s in sequences):
        shapes = ", ".join(str(s.shape) for s in sequences)
        raise ValueError(f"sequences of shapes {shapes}; all must be (S, N, D) of the same N, D and type")
    slots = _slots([len(s) for s in sequences], table, block_size)
    used = np.concatenate(slots) if slots else np.zeros(0, int)
    if len(np.unique(used)) != len(used):
        raise ValueError("the block table gives two rows the same place")
    count = int(table.max()) + 1 if block_count is None else block_count
    if used.size and (used.max() >= count * block_size or used.min() < 0):
        raise ValueError(f"the block table names block {used.max() // block_size}; the cache has {count}")
    rows = np.zeros((count * block_size, *first.shape[1:]), first.dtype)
    for slot, sequence in zip(slots, sequences, strict=True):
        rows[slot] = sequence
    return _to_layout(rows.reshape(count, block_size, *first.shape[1:]), layout)


def from_paged_cache(
    cache: Array, table: npt.NDArray[np.int32], lengths: Lengths, *, layout: str = "BnNBsD", heads: int = 1
) -> list[Array]:
    """Inverse of :func:`paged_cache`: the rows of each sequence, shape (S, N, D).

    Parameters
    ----------
    cache, table, layout
        As :func:`paged_cache` makes and takes them.
    lengths : sequence of int
    heads : int
        N, for ``BnBsH``, whose shape does not tell.

    Raises
    ------
    ValueError
        If the layout is unknown or does not fit the cache, or the table has no place for a row.
    """
    blocks = _from_layout(cache, layout, heads)
    rows = blocks.reshape(-1, *blocks.shape[2:])
    return [rows[slot] for slot in _slots(lengths, table, blocks.shape[1])]


def _slots(lengths: Lengths, table: npt.NDArray[np.int32], block_size: int) -> list[npt.NDArray[Any]]:
    """Row of the flat cache of each row of each sequence."""
    needed = blocks_needed(lengths, block_size)
    if table.ndim != 2 or len(table) != len(needed) or table.shape[1] < max(needed, default=0):
        raise ValueError(f"a block table of shape {table.shape} for {len(needed)} sequences that need {needed} blocks")
    positions = [np.arange(n) for n in lengths]
    return [
        row[p // block_size].astype(np.int64) * block_size + p % block_size
        for row, p in zip(table, positions, strict=True)
    ]


def _to_layout(blocks: Array, layout: str) -> Array:
    """From (Bn, Bs, N, D)."""
    count, size, heads, width = blocks.shape
    if layout == "BnBsH":
        return blocks.reshape(count, size, heads * width)
    if layout == "BnBsND":
        return blocks
    if layout == "BnNBsD":
        return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))
    inner = _NZ_BITS // dtype(blocks.dtype).bits
    if width % inner:
        raise ValueError(f"NZ keeps {inner} elements of {blocks.dtype} together; {width} is no multiple of that")
    split = blocks.reshape(count, size, heads, width // inner, inner)
    return np.ascontiguousarray(split.transpose(0, 2, 3, 1, 4))


def _from_layout(cache: Array, layout: str, heads: int) -> Array:
    """To (Bn, Bs, N, D)."""
    _check_layout(layout)
    axes = {"BnBsH": 3, "BnBsND": 4, "BnNBsD": 4, "NZ": 5}[layout]
    if cache.ndim != axes:
        raise ValueError(f"a cache of shape {cache.shape} is not {layout}, which has {axes} axes")
    if layout == "BnBsH":
        blocks: Array = cache.reshape(*cache.shape[:2], heads, -1)
    elif layout == "BnBsND":
        blocks = cache
    elif layout == "BnNBsD":
        blocks = cache.transpose(0, 2, 1, 3)
    else:
        count, own_heads, _, size, _ = cache.shape
        blocks = cache.transpose(0, 3, 1, 2, 4).reshape(count, size, own_heads, -1)
    return blocks


def _check_layout(layout: str) -> None:
    if layout not in CACHE_LAYOUTS:
        raise ValueError(f"layout={layout!r} is no cache layout; known are {', '.join(CACHE_LAYOUTS)}")

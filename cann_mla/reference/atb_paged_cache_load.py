"""AtbPagedCacheLoad: gather pages of a key and a value cache into contiguous rows.

Source: ATB's kernels of paged_cache_load.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array
from cann_mla.reference.atb_lengths import length_list
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings

NZ, ND = 0, 1


class LoadedCache(NamedTuple):
    """Keys and values as the call leaves them; new arrays."""

    key: Array
    value: Array


def paged_cache_load(
    *,
    key_cache: Array,
    value_cache: Array,
    block_tables: Array,
    context_lens: Array,
    key: Array,
    value: Array,
    seq_starts: Array | None = None,
    kv_cache_cfg: int = ND,
    is_seq_lens_cumsum_type: bool = False,
    has_seq_starts: bool = False,
) -> LoadedCache:
    """Copy the rows of every sequence, sequences back to back.

    Parameters
    ----------
    key_cache, value_cache : ndarray of any type
        ND: (blocks, block size, heads, width). NZ: (blocks, heads * width / C0, block size, C0), C0 being 32
        bytes of elements.
    block_tables : ndarray of int32, shape (B, most blocks)
        Rows of a negative block are skipped: their places in the output stay as they are.
    context_lens : ndarray of int32
        (B,), or (B + 1,) sums with `is_seq_lens_cumsum_type`, the first of which is where output begins.
    key, value : ndarray
        Content of the outputs: ND (rows, heads, width), NZ (rows, heads * width). Not modified.
    seq_starts : ndarray of int32, shape (B,)
        With `has_seq_starts`: first row of every sequence, counted in whole blocks (rounded down).
    kv_cache_cfg : int
        0 NZ, 1 ND.

    Returns
    -------
    LoadedCache

    Raises
    ------
    ValueError
        If an operand is missing, or lengths run past the tables or the outputs.
    """
    if has_seq_starts and seq_starts is None:
        raise ValueError("hasSeqStarts needs seqStarts")
    starts = length_list(seq_starts) if has_seq_starts and seq_starts is not None else [0] * block_tables.shape[0]
    lengths, first_row = length_list(context_lens), 0
    if is_seq_lens_cumsum_type:
        first_row, lengths = lengths[0], np.diff(lengths).tolist()
    block_size = key_cache.shape[2 if kv_cache_cfg == NZ else 1]
    blocks, rows = _places(block_tables, lengths, starts, block_size)
    targets = first_row + np.arange(blocks.size)
    if blocks.size and (first_row < 0 or targets[-1] >= min(len(key), len(value))):
        raise ValueError(f"contextLens need {targets[-1] + 1} output rows, key has {len(key)}, value {len(value)}")
    if blocks.size and blocks.max() >= min(len(key_cache), len(value_cache)):
        raise ValueError(f"blockTables name block {blocks.max()}, the caches have {len(key_cache)}")
    kept = blocks >= 0
    places = blocks[kept], rows[kept], targets[kept]
    return LoadedCache(
        _gathered(key_cache, key, *places, kv_cache_cfg), _gathered(value_cache, value, *places, kv_cache_cfg)
    )


Indices = npt.NDArray[np.int64]


def _places(tables: Array, lengths: list[int], starts: list[int], block_size: int) -> tuple[Indices, Indices]:
    """Block and row within it of every output row."""
    if len(lengths) > tables.shape[0] or len(starts) < len(lengths):
        raise ValueError(f"{len(lengths)} lengths for {tables.shape[0]} rows of blockTables and {len(starts)} starts")
    blocks, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for table, length, start in zip(tables, lengths, starts, strict=False):
        position = np.arange(length)
        page = start // block_size + position // block_size
        if length and page[-1] >= table.size:
            raise ValueError(f"{length} rows from row {start} need {page[-1] + 1} blocks, the table has {table.size}")
        blocks.append(table[page].astype(np.int64))
        rows.append(position % block_size)
    return np.concatenate(blocks), np.concatenate(rows)


def _gathered(cache: Array, output: Array, blocks: Indices, rows: Indices, targets: Indices, cfg: int) -> Array:
    # NZ: an index on either side of a slice brings the rows to the front.
    taken = cache[blocks, :, rows] if cfg == NZ else cache[blocks, rows]
    loaded = np.array(output, order="C")
    loaded[targets] = taken.reshape(len(targets), *output.shape[1:])
    return loaded


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    return paged_cache_load(**arguments)._asdict()

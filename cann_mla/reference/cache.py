"""Where MlaProlog writes a token in a key cache, and the writing itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array

CACHE_MODES = ("PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND")

Rows = npt.NDArray[np.int64]


def token_rows(
    mode: str,
    token_shape: tuple[int, ...],
    block_size: int,
    cache_index: Array | None,
    actual_seq_len: Array | None,
) -> Rows:
    """Row of the cache for every token, counted over all blocks; negative where the token is skipped.

    Parameters
    ----------
    mode : str
        One of CACHE_MODES.
    token_shape : tuple of int
        (T,) or (B, S).
    block_size : int
        Rows in a block; not used by BSND and TND, where token t has row t.
    cache_index : ndarray of int64, optional
        PA_BSND and PA_NZ: the row of every token. PA_BLK_BSND and PA_BLK_NZ: the block of every
        ``block_size`` tokens of a sequence, sequences one after the other.
    actual_seq_len : ndarray of int32, optional
        Inclusive prefix sums of the lengths; for PA_BLK_* with tokens of shape (T,). Tokens past the last sum
        belong to the last sequence.

    Returns
    -------
    ndarray of int64, shape (T,)

    Raises
    ------
    ValueError
        For an unknown mode, or where an operand that the mode needs is missing or too short.
    """
    tokens = int(np.prod(token_shape, dtype=np.int64))
    if mode not in CACHE_MODES:
        raise ValueError(f"cache_mode must be one of {', '.join(CACHE_MODES)}, got {mode!r}")
    if mode in ("BSND", "TND"):
        return np.arange(tokens, dtype=np.int64)
    if cache_index is None:
        raise ValueError(f"cache_mode {mode} needs cache_index")
    index = cache_index.reshape(-1).astype(np.int64)
    if mode in ("PA_BSND", "PA_NZ"):
        if index.size != tokens:
            raise ValueError(f"cache_mode {mode} needs one entry of cache_index a token: {tokens}, not {index.size}")
        return index
    entry, position = _block_of_tokens(token_shape, block_size, actual_seq_len)
    if tokens and int(entry.max()) >= index.size:
        raise ValueError(f"cache_index has {index.size} entries, the sequences take {int(entry.max()) + 1} blocks")
    blocks = index[entry]
    return np.where(blocks < 0, np.int64(-1), blocks * block_size + position % block_size)


def _block_of_tokens(token_shape: tuple[int, ...], block_size: int, actual_seq_len: Array | None) -> tuple[Rows, Rows]:
    """Entry of cache_index, and position in its sequence, for every token."""
    if len(token_shape) == 2:
        batch, length = token_shape
        position = np.tile(np.arange(length, dtype=np.int64), batch)
        sequence = np.repeat(np.arange(batch, dtype=np.int64), length)
        return sequence * -(-length // block_size) + position // block_size, position
    if actual_seq_len is None:
        raise ValueError("PA_BLK_BSND and PA_BLK_NZ with tokens of shape (T,) need actual_seq_len")
    ends = actual_seq_len.reshape(-1).astype(np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    blocks_before = np.concatenate([[0], np.cumsum(-(-(ends - starts) // block_size))[:-1]])
    token = np.arange(token_shape[0], dtype=np.int64)
    sequence = np.minimum(np.searchsorted(ends, token, side="right"), ends.size - 1)
    position = token - starts[sequence]
    return blocks_before[sequence] + position // block_size, position


def scatter(cache: Array, rows: Rows, values: Array, *, c0: int | None = None) -> None:
    """Write one row a token into a cache, in place; the last of several tokens with one row stays.

    Parameters
    ----------
    cache : ndarray, shape (BlockNum, BlockSize, 1, W), (B, S, 1, W) or (T, 1, W)
        Dense. With `c0`, a block's memory is laid out as (W / C0, BlockSize, C0).
    rows : ndarray of int64, shape (T,)
        Negative ones are skipped.
    values : ndarray, shape (T, W), type of the cache
    c0 : int, optional
        Given for the NZ modes: 32 bytes' worth of elements of the cache's declared type.

    Raises
    ------
    ValueError
        If a row lies past the end of the cache, which a device would not notice.
    """
    width = cache.shape[-1]
    limit = cache.size // width
    if rows.size and int(rows.max()) >= limit:
        raise ValueError(
            f"cache row {int(rows.max())} lies outside the cache, shape {cache.shape}, which has {limit} rows"
        )
    kept = rows >= 0
    rows, values = rows[kept], values[kept]
    if c0 is None:
        cache.reshape(-1, width)[rows] = values
        return
    block_size = cache.shape[1]
    blocks = cache.reshape(-1, width // c0, block_size, c0)
    blocks[rows // block_size, :, rows % block_size] = values.reshape(-1, width // c0, c0)

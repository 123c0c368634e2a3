"""AtbSelfAttentionPrefixEncoder: prompts that attend to a paged cache with a common beginning in it.

The last keys of a sequence are those of its queries: query i sees keys up to kvLen - qLen + i. What a query
adds to its scaled scores comes from a template, laid along that diagonal in blocks of 128::

    NORM_COMPRESS   on the diagonal: mask[0:128, 0:128] (times -3e38 for BF16); before it: nothing
    ALIBI_COMPRESS  slopes[h] t, with t = mask[0:128, 0:128] on the diagonal, and d blocks before it
                    t = mask[128:256, 0:128] + 128 (d - 1)
    ..._SQRT        the same with sqrt(mask[128:256, 0:128] ** 2 + 128 (d - 1)) before the diagonal

Source: ATB's kernel unpad_flashattention_bf16_prefix_cache. It walks in stripes of 128 to 512 columns,
depending on the length; here they always have 512, which moves last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.atb_attention import BLOCK, Operands, attend_sequence, mask_values, output_buffer
from cann_mla.reference.atb_lengths import length_list, sequences
from cann_mla.reference.atb_pages import PagedRows
from cann_mla.reference.atb_softmax import scores_for
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings

NORM_COMPRESS, ALIBI_COMPRESS, ALIBI_COMPRESS_SQRT, CAUSAL = 3, 4, 5, 9
_ALIBI_ROWS = 256


class _DiagonalBlocks:
    """A mask out of blocks of 128 by 128, by their distance from the diagonal.

    Parameters
    ----------
    prefix : int
        Keys before those of the queries; a multiple of 128.
    block : callable
        Block on the diagonal (0) or so many blocks before it.
    slopes : ndarray, shape (heads,), or None
        Factor of every head.
    """

    def __init__(self, prefix: int, block: Callable[[int], Floats], slopes: Floats | None) -> None:
        self._prefix, self._block, self._slopes = prefix, block, slopes

    def end(self, last_row: int, columns: int) -> int:
        """To the end of the block on the diagonal."""
        return min(columns, self._prefix + -(-last_row // BLOCK) * BLOCK)

    def term(self, heads: slice, rows: slice, columns: slice, work: Any) -> Floats | None:
        """Blocks put together; -inf right of the diagonal."""
        first, last = rows.start // BLOCK, -(-rows.stop // BLOCK)
        if self._slopes is None and columns.stop <= self._prefix + first * BLOCK:
            return None
        total = np.full(((last - first) * BLOCK, columns.stop - columns.start), -np.inf, work)
        for row_block in range(first, last):
            for start in range(columns.start, columns.stop, BLOCK):
                before = row_block + (self._prefix - start) // BLOCK
                if before >= 0:
                    place = slice((row_block - first) * BLOCK, (row_block - first + 1) * BLOCK)
                    width = min(BLOCK, columns.stop - start)
                    offset = start - columns.start
                    total[place, offset : offset + width] = self._block(before)[:, :width]
        total = total[: rows.stop - rows.start]
        if self._slopes is None:
            return total
        return np.where(np.isneginf(total), total, self._slopes[heads, None, None] * total)


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def self_attention_prefix_encoder(
    *,
    query: Array,
    key: Array,
    value: Array,
    block_tables: Array,
    seq_len: Array,
    kv_seq_len: Array,
    mask: Array | None = None,
    slopes: Array | None = None,
    attn: Array | None = None,
    mask_type: int = CAUSAL,
    head_num: int,
    kv_head_num: int = 0,
    qk_scale: float = 1.0,
    precision: str = "device",
) -> Array:
    """Attention of prompts whose first keys may have been in the cache before.

    Parameters
    ----------
    query : ndarray of float16 or bfloat16, shape (T, H, D) or (T, H * D)
    key, value : ndarray, same type, shape (blocks, block size, Hk, D) or (blocks, block size, Hk * D)
    block_tables : ndarray of int32, shape (B, most blocks)
    seq_len, kv_seq_len : ndarray of int32, shape (B,)
        Queries, and keys including the prefix; their difference is a multiple of 128.
    mask : ndarray, same type
        (128, 128) for mask type 3, (256, 256) for 4 and 5.
    slopes : ndarray of float32, shape (H,)
        For mask types 4 and 5.
    attn : ndarray, shape of `query`, optional
        Content of the output buffer before the call, which rows beyond the lengths keep; zeros without.
    mask_type : int
        3 NORM_COMPRESS, 4 ALIBI_COMPRESS, 5 ALIBI_COMPRESS_SQRT, 9 causal without a mask.
    head_num, kv_head_num : int
        H and Hk; 0 for the latter stands for H.
    precision : {"device", "exact"}

    Returns
    -------
    ndarray
        Shape of `query`, in its type or float64.

    Raises
    ------
    ValueError
        If operands are missing or contradict each other.
    """
    queries = query.reshape(query.shape[0], head_num, -1)
    key_heads, width = kv_head_num or head_num, queries.shape[2]
    if key.shape[2:] not in ((key_heads, width), (key_heads * width,)):
        raise ValueError(f"key of shape {key.shape} does not hold {key_heads} heads of {width}")
    placed = sequences(length_list(seq_len), length_list(kv_seq_len))
    if sum(s.query_length for s in placed) > query.shape[0]:
        raise ValueError(f"seqLen {length_list(seq_len)} exceeds the {query.shape[0]} rows of query")
    scores = scores_for(query.dtype, qk_scale, precision, half=False)
    block, factor = _blocks(mask_type, mask, slopes, head_num, scores.work)
    kind = np.dtype(np.float64) if precision == "exact" else query.dtype
    output = output_buffer("attnOut", attn, query.shape, kind).reshape(queries.shape)
    for sequence in placed:
        prefix = sequence.kv_length - sequence.query_length
        if prefix < 0 or prefix % BLOCK:
            raise ValueError(
                f"sequence {sequence.number}: {sequence.kv_length} keys for {sequence.query_length} queries; the "
                f"prefix between them must be a multiple of {BLOCK}"
            )
        table = block_tables[sequence.number]
        keys, values = (
            PagedRows(cache, table, blocked=False).read(0, sequence.kv_length).reshape(-1, key_heads, width)
            for cache in (key, value)
        )
        own = Operands((queries,), (keys,), values)
        rule = _DiagonalBlocks(prefix, block, factor)
        for heads, rows, part, _ in attend_sequence(own, sequence._replace(kv_start=0), rule, scores):
            output[rows, heads] = part.swapaxes(0, 1)
    return output.reshape(query.shape)


def _blocks(
    mask_type: int, mask: Array | None, slopes: Array | None, heads: int, work: Any
) -> tuple[Callable[[int], Floats], Floats | None]:
    """Block by distance, and factors of the heads."""
    if mask_type == CAUSAL:
        diagonal = np.triu(np.full((BLOCK, BLOCK), -np.inf, work), 1)
    elif mask_type == NORM_COMPRESS:
        if mask is None or mask.shape != (BLOCK, BLOCK):
            raise ValueError(f"maskType 3 needs a mask of shape ({BLOCK}, {BLOCK})")
        diagonal = mask_values(mask, work)
    elif mask_type in (ALIBI_COMPRESS, ALIBI_COMPRESS_SQRT):
        return _alibi_blocks(mask_type, mask, slopes, heads, work)
    else:
        raise ValueError(f"maskType {mask_type} is not one of 3, 4, 5 and 9")
    nothing = np.zeros((BLOCK, BLOCK), work)
    return lambda before: nothing if before else diagonal, None


def _alibi_blocks(
    mask_type: int, mask: Array | None, slopes: Array | None, heads: int, work: Any
) -> tuple[Callable[[int], Floats], Floats]:
    if mask is None or mask.shape != (_ALIBI_ROWS, _ALIBI_ROWS) or slopes is None or slopes.size < heads:
        raise ValueError(f"maskType {mask_type} needs a mask of ({_ALIBI_ROWS}, {_ALIBI_ROWS}) and {heads} slopes")
    wide = widen(mask, work)
    diagonal, lower = wide[:BLOCK, :BLOCK], wide[BLOCK:, :BLOCK]

    def block(before: int) -> Floats:
        if before == 0:
            return diagonal
        further = BLOCK * (before - 1)
        return np.sqrt(lower * lower + further) if mask_type == ALIBI_COMPRESS_SQRT else lower + further

    return block, widen(slopes.reshape(-1)[:heads], work)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    return {"attn": self_attention_prefix_encoder(precision=precision, **arguments)}

"""AtbPagedCacheLoad: rows of a paged key and value cache, one after the other.

Notation: B sequences; Bn blocks of Bs rows in the cache; Nk heads of D channels; c elements in 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import dtype
from cann_mla.ops.atb_operands import check_block_tables, check_blocked, check_operand, lengths_of_sequences
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

_NZ, _ND = 0, 1
_NZ_BITS = 256


@dataclass(frozen=True)
class PagedCacheLoadResult:
    """The rows.

    Attributes
    ----------
    key, value : Tensor
        The tensors that were given, or new ones.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes both.
    """

    key: Tensor
    value: Tensor

    def close(self) -> None:
        """Close both tensors."""
        self.key.close()
        self.value.close()

    def __enter__(self) -> PagedCacheLoadResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def paged_cache_load(
    key_cache: Operand,
    value_cache: Operand,
    block_tables: Operand,
    context_lens: Sequence[int],
    *,
    stream: Stream,
    seq_starts: Sequence[int] | None = None,
    layout: str = "ND",
    key: Tensor | None = None,
    value: Tensor | None = None,
) -> PagedCacheLoadResult:
    """Copy rows of sequences out of a paged cache: AtbPagedCacheLoad.

    Parameters
    ----------
    key_cache, value_cache : Tensor or ndarray of INT8, FP16 or BF16
        ND: (Bn, Bs, Nk, D), of one dtype; D may differ. NZ: (Bn, Nk * D / c, Bs, c), c being 16, or 32 for
        INT8; an INT8 key cache may go with a value cache of 16 bits. Tensors for NZ have the format FRACTAL_NZ.
    block_tables : Tensor or ndarray of INT32, shape (B, blocks a sequence)
        Rows of a negative block are skipped: their places in `key` and `value` keep what they have, 0 in new ones.
    context_lens : sequence of int
        Rows of every sequence.
    stream : Stream
        Where the call is queued.
    seq_starts : sequence of int, optional
        First row of every sequence, a multiple of Bs. For ND. Default: 0.
    layout : {"ND", "NZ"}
        Of the caches.
    key, value : Tensor, optional
        Where the rows go: (R, Nk, D) for ND, (R, Nk * D) for NZ, with R at least the sum of `context_lens`. Both or
        none.

    Returns
    -------
    PagedCacheLoadResult

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or lengths contradict each other; if a start is no multiple of Bs, which the kernel would
        round down.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbPagedCacheLoad`` and its kernels.
    """
    if layout not in ("ND", "NZ"):
        raise ValueError(f"layout={layout!r}; it is 'ND' or 'NZ'")
    blocked = layout == "NZ"
    check_rank("key_cache", key_cache, 4)
    check_rank("value_cache", value_cache, 4)
    if blocked:
        for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
            inner = _NZ_BITS // dtype(cache.dtype).bits
            check_operand(name, cache, dtype(cache.dtype), (*cache.shape[:3], inner))
            check_blocked(name, cache)
    elif dtype(key_cache.dtype) is not dtype(value_cache.dtype):
        raise ValueError(
            f"key_cache is {dtype(key_cache.dtype)}, value_cache {dtype(value_cache.dtype)}; ND wants one dtype"
        )
    lengths = lengths_of_sequences("context_lens", context_lens, 0)
    block_size = key_cache.shape[2 if blocked else 1]
    starts = _starts(seq_starts, lengths, block_size, blocked)
    ends = [start + length if length else 0 for start, length in zip(starts, lengths, strict=True)]
    blocks = min(key_cache.shape[0], value_cache.shape[0])
    check_block_tables(block_tables, ends, block_size, blocks, holes=True)
    if (key is None) != (value is None):
        raise ValueError("give both key and value, or neither")
    with OperatorCall("AtbPagedCacheLoad", stream) as call:
        caches = {"key_cache": key_cache, "value_cache": value_cache}
        call.give(
            {
                **caches,
                "block_tables": block_tables,
                "context_lens": np.array(lengths, np.int32),
                # ATB's C function counts its tensors wrongly without starts, for ND.
                "seq_starts": None if blocked else np.array(starts, np.int32),
                "kv_cache_cfg": _NZ if blocked else _ND,
                "is_seq_lens_cumsum_type": False,
                "has_seq_starts": not blocked,
            },
            packed=tuple(caches) if blocked else (),
        )
        result = PagedCacheLoadResult(
            *(
                call.output(
                    name, given, _rows_shape(name, given, cache, sum(lengths), blocked), dtype(cache.dtype).name
                )
                for name, given, cache in (("key", key, key_cache), ("value", value, value_cache))
            )
        )
        if key is None and _may_have_holes(block_tables):
            for tensor in (result.key, result.value):
                tensor.copy_from(np.zeros(tensor.shape, tensor.dtype.numpy), stream=stream)
        call.run()
    return result


def _starts(seq_starts: Sequence[int] | None, lengths: tuple[int, ...], block_size: int, blocked: bool) -> list[int]:
    if seq_starts is None:
        return [0] * len(lengths)
    if blocked:
        raise ValueError("seq_starts are for caches in ND only")
    starts = list(lengths_of_sequences("seq_starts", seq_starts, 0))
    if len(starts) != len(lengths):
        raise ValueError(f"seq_starts has {len(starts)} sequences, context_lens {len(lengths)}")
    if uneven := [start for start in starts if start % block_size]:
        raise ValueError(
            f"seq_starts holds {uneven}; the kernel starts at whole blocks of {block_size} rows and would round down"
        )
    return starts


def _rows_shape(name: str, given: Tensor | None, cache: Operand, rows: int, blocked: bool) -> tuple[int, ...]:
    """Shape of an output; one that is given may have more rows than are needed."""
    if rows == 0:
        raise ValueError("context_lens add up to 0 rows; there is nothing to load")
    if given is not None:
        check_rank(name, given, 2 if blocked else 3)
        rows = max(rows, given.shape[0])
    if not blocked:
        return rows, cache.shape[2], cache.shape[3]
    return rows, cache.shape[1] * cache.shape[3]


def _may_have_holes(tables: Operand) -> bool:
    return not isinstance(tables, np.ndarray) or bool((tables < 0).any())

"""What one rank has: its queries on the device, the result of their attention so far, and keys as messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cann_mla.distributed.exchange import Buffer, Exchange
from cann_mla.distributed.zigzag import ZigZag
from cann_mla.ops.ring_mla import (
    NATURAL_SCALE,
    NOPE_SIZE,
    ROPE_SIZE,
    VALUE_SIZE,
    RingMlaResult,
    ring_mla,
    ring_mla_mask,
)
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

Array = npt.NDArray[Any]
KEY_NAMES = ("key_split1", "key_split2", "value")
KEY_SIZES = (NOPE_SIZE, ROPE_SIZE, VALUE_SIZE)


class KeyLayout(NamedTuple):
    """How keys and values lie in a message: key_split1, key_split2 and value one after the other.

    Attributes
    ----------
    tokens, heads : int
    dtype : np.dtype
        float16 or bfloat16.
    """

    tokens: int
    heads: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size of the message."""
        return self.tokens * self.heads * sum(KEY_SIZES) * self.dtype.itemsize

    def pack(self, keys: Sequence[Array]) -> Buffer:
        """A message of key_split1, key_split2 and value.

        Raises
        ------
        ValueError
            If one of them has another shape or dtype than the layout.
        """
        message = np.empty(self.nbytes, np.uint8)
        for name, given, place in zip(KEY_NAMES, keys, self.arrays(message), strict=True):
            if given.shape != place.shape or given.dtype != place.dtype:
                raise ValueError(
                    f"{name} must be {place.dtype} {list(place.shape)} on this rank, "
                    f"not {given.dtype} {list(given.shape)}"
                )
            place[...] = given
        return message

    def arrays(self, message: Buffer) -> list[Array]:
        """Views of key_split1, key_split2 and value in a message, each (tokens, heads, size)."""
        ends = np.cumsum([self.tokens * self.heads * size for size in KEY_SIZES])
        parts = np.split(message.view(self.dtype), ends[:-1])
        return [p.reshape(self.tokens, self.heads, size) for p, size in zip(parts, KEY_SIZES, strict=True)]


class ShardAttention:
    """The queries of one rank, and their attention over the keys seen so far.

    Parameters
    ----------
    split : ZigZag
    exchange : Exchange
        Of as many ranks as the split.
    query_split1, query_split2 : ndarray of float16 or bfloat16, shapes (T, H, 128), (T, H, 64)
        Rows ``split.rows(exchange.rank)`` of the queries.
    stream : Stream
        Where the kernels are queued.
    qk_scale : float
        Default 192 ** -0.5.

    Raises
    ------
    ValueError
        If the split is over another number of ranks, or the queries are not those of the rank.

    Notes
    -----
    The device holds the queries, the result and the keys of one step. ``close()`` (or ``with``) frees them.
    """

    def __init__(
        self,
        split: ZigZag,
        exchange: Exchange,
        query_split1: Array,
        query_split2: Array,
        *,
        stream: Stream,
        qk_scale: float = NATURAL_SCALE,
    ) -> None:
        if split.ranks != exchange.size:
            raise ValueError(f"the split is over {split.ranks} ranks, the exchange has {exchange.size}")
        self.split, self.exchange, self.stream = split, exchange, stream
        self.dtype = query_split1.dtype
        self._scale = qk_scale
        self._chunks = split.chunks(exchange.rank)
        tokens = split.tokens(exchange.rank)
        for name, query in (("query_split1", query_split1), ("query_split2", query_split2)):
            if len(query) != tokens:
                raise ValueError(f"{name} has {len(query)} tokens; rank {exchange.rank} owns {tokens} by the split")
        self._results: list[RingMlaResult | None] = [None, None]
        self._queries: list[tuple[Tensor, ...]] = []
        self._owned = ExitStack()
        with ExitStack() as owned:
            self._mask = owned.enter_context(Tensor.from_numpy(ring_mla_mask(self.dtype), device=stream.device))
            early = sum(split.chunk_lengths(self._chunks[0]))
            for part, chunk in ((slice(early), self._chunks[0]), (slice(early, None), self._chunks[1])):
                padded = [_pad(query[part], split.chunk_lengths(chunk)) for query in (query_split1, query_split2)]
                self._queries.append(self.upload(padded, owned))
            self._owned = owned.pop_all()

    def layouts(self, tokens: Sequence[int], key_split1: Array) -> list[KeyLayout]:
        """Messages of `tokens` keys from each rank, all with as many heads as the keys of this one."""
        if key_split1.ndim != 3:
            raise ValueError(f"key_split1 must have the shape (T, Hk, {NOPE_SIZE}), not {key_split1.shape}")
        return [KeyLayout(n, key_split1.shape[1], self.dtype) for n in tokens]

    def upload(self, arrays: Sequence[Array], owner: ExitStack) -> tuple[Tensor, ...]:
        """Copy arrays to the device, in the order of the stream; the tensors close with their owner."""
        made = (Tensor.from_numpy(array, device=self.stream.device, stream=self.stream) for array in arrays)
        return tuple(owner.enter_context(tensor) for tensor in made)

    def attend(self, query: int, keys: Sequence[Tensor], kv_lengths: Sequence[int], *, causal: bool = False) -> None:
        """Queue attention of the early (0) or late (1) chunk of queries over keys, merged with what there is.

        Parameters
        ----------
        query : int
        keys : key_split1, key_split2 and value
        kv_lengths : sequence of int
            Keys of each sequence; a sequence without keeps its rows.
        causal : bool
            Whether the keys are those of the same chunk.
        """
        query_split1, query_split2 = self._queries[query]
        key_split1, key_split2, value = keys
        self._results[query] = ring_mla(
            query_split1,
            query_split2,
            key_split1,
            key_split2,
            value,
            seq_len=[max(n, 1) for n in self.split.chunk_lengths(self._chunks[query])],
            kv_seq_len=kv_lengths,
            stream=self.stream,
            causal=causal,
            mask=self._mask if causal else None,
            previous=self._results[query],
            qk_scale=self._scale,
        )

    def result(self) -> tuple[Array, Array]:
        """Wait for the stream and copy the result.

        Returns
        -------
        output : ndarray, shape (T, H, 128)
            In the dtype of the queries, rows as theirs.
        softmax_lse : ndarray of float32, shape (H, T)

        Raises
        ------
        RuntimeError
            If the queries have not attended to anything yet.
        """
        self.stream.synchronize()
        outputs, lses = [], []
        for chunk, result in zip(self._chunks, self._results, strict=True):
            if result is None:
                raise RuntimeError("there is no result yet; call ring_attention or all_gather_attention first")
            real = _real_rows(self.split.chunk_lengths(chunk))
            outputs.append(result.output.to_numpy()[real])
            lses.append(result.softmax_lse.to_numpy()[:, real])
        return np.concatenate(outputs), np.concatenate(lses, axis=1)

    def close(self) -> None:
        """Free what is on the device."""
        for result in self._results:
            if result is not None:
                result.close()
        self._results = [None, None]
        self._owned.close()

    def __enter__(self) -> ShardAttention:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _real_rows(lengths: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which rows hold a token, if a sequence without any has one row all the same: ATB wants a query of each."""
    return np.repeat([n > 0 for n in lengths], [max(n, 1) for n in lengths])


def _pad(queries: Array, lengths: Sequence[int]) -> Array:
    real = _real_rows(lengths)
    padded = np.zeros((len(real), *queries.shape[1:]), queries.dtype)
    padded[real] = queries
    return padded

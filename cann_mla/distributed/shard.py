"""What one rank has: its queries on the device, and the result of their attention over the keys seen so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cann_mla.checks import instance
from cann_mla.distributed.exchange import Array, Exchange
from cann_mla.distributed.schedule import block_calls
from cann_mla.distributed.zigzag import ZigZag
from cann_mla.dtypes import dtype
from cann_mla.ops.call import check_rank
from cann_mla.ops.ring_mla import (
    NATURAL_SCALE,
    NOPE_SIZE,
    ROPE_SIZE,
    VALUE_SIZE,
    RingMlaResult,
    ring_mla,
)
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

KEY_NAMES = ("key_split1", "key_split2", "value")
KEY_SIZES = (NOPE_SIZE, ROPE_SIZE, VALUE_SIZE)


class KeyLayout(NamedTuple):
    """Sizes of the keys and values of a rank: key_split1, key_split2 and value, each (tokens, heads, size).

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
    def shapes(self) -> list[tuple[int, int, int]]:
        """Shapes of key_split1, key_split2 and value."""
        return [(self.tokens, self.heads, size) for size in KEY_SIZES]

    def check(self, keys: Sequence[Array | Tensor]) -> None:
        """Refuse other keys.

        Raises
        ------
        TypeError, ValueError
            If one of them is no operand, or has another shape or dtype than the layout.
        """
        for name, given, shape in zip(KEY_NAMES, keys, self.shapes, strict=True):
            check_rank(name, given, 3)
            if tuple(given.shape) != shape or dtype(given.dtype) != dtype(self.dtype):
                raise ValueError(
                    f"{name} must be {self.dtype} {list(shape)} on this rank, not {given.dtype} {list(given.shape)}"
                )


class ShardAttention:
    """The queries of one rank, and their attention over the keys seen so far.

    Parameters
    ----------
    split : ZigZag
    exchange : Exchange
        Of as many ranks as the split. It decides where keys wait for their turn: with :class:`.MpiExchange` in host
        memory, with :class:`.HcclExchange` on the device.
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
        exchange: Exchange[Any],
        query_split1: Array,
        query_split2: Array,
        *,
        stream: Stream,
        qk_scale: float = NATURAL_SCALE,
    ) -> None:
        instance("split", split, ZigZag)
        instance("stream", stream, Stream)
        if split.ranks != exchange.size:
            raise ValueError(f"the split is over {split.ranks} ranks, the exchange has {exchange.size}")
        self.split, self.exchange, self.stream = split, exchange, stream
        for name, query in (("query_split1", query_split1), ("query_split2", query_split2)):
            instance(name, query, np.ndarray)
            check_rank(name, query, 3)
        self.dtype = query_split1.dtype
        self._heads = query_split1.shape[1]
        self._unfinished = False
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
            early = sum(split.chunk_lengths(self._chunks[0]))
            for part, chunk in ((slice(early), self._chunks[0]), (slice(early, None), self._chunks[1])):
                padded = [_pad(query[part], split.chunk_lengths(chunk)) for query in (query_split1, query_split2)]
                made = (Tensor.from_numpy(query, device=stream.device, stream=stream) for query in padded)
                self._queries.append(tuple(owned.enter_context(tensor) for tensor in made))
            self._owned = owned.pop_all()

    def layouts(self, tokens: Sequence[int], keys: Sequence[Array | Tensor]) -> list[KeyLayout]:
        """Keys of each rank, `tokens` of them, all with as many heads as those of this one, which are checked."""
        check_rank(KEY_NAMES[0], keys[0], 3)
        heads = keys[0].shape[1]
        layouts = [KeyLayout(n, heads, self.dtype) for n in tokens]
        layouts[self.exchange.rank].check(keys)
        if heads < 1 or self._heads % heads:
            raise ValueError(f"{heads} heads of keys do not divide {self._heads} heads of queries")
        return layouts

    @contextmanager
    def all_keys(self) -> Iterator[None]:
        """What happens inside takes in the keys of all ranks, or leaves no result that could be taken for one."""
        self._unfinished = True
        yield
        self._unfinished = False

    def own(self, keys: Sequence[Array | Tensor], owner: ExitStack) -> list[Any]:
        """The keys of this rank as blocks of the exchange."""
        return [self.exchange.own(key, owner, self.stream) for key in keys]

    def room(self, layout: KeyLayout, owner: ExitStack) -> list[Any]:
        """Blocks for the keys of another rank."""
        return [self.exchange.room(shape, layout.dtype, owner) for shape in layout.shapes]

    def operands(self, keys: Sequence[Any], rows: slice, owner: ExitStack) -> tuple[Tensor, ...]:
        """Some rows of blocks as operands of a kernel."""
        return tuple(self.exchange.operand(key, rows, owner, self.stream) for key in keys)

    def attend_shard(self, source: int, keys: Sequence[Any], owner: ExitStack) -> None:
        """Queue causal attention over the keys of a rank, in blocks of the exchange: two or three calls."""
        lengths = [self.split.chunk_lengths(chunk) for chunk in self.split.chunks(source)]
        early = sum(lengths[0])
        parts = (slice(early), slice(early, None))
        calls = block_calls(self.exchange.rank, source, self.split.ranks)
        used = sorted({call.kv for call in calls if any(lengths[call.kv])})
        tensors = {kv: self.operands(keys, parts[kv], owner) for kv in used}
        for call in calls:
            if call.kv in tensors:
                self.attend(call.query, tensors[call.kv], lengths[call.kv], causal=call.causal)

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
            If the queries have not attended to anything yet, or only to some of the keys because of an error.
        """
        if self._unfinished:
            raise RuntimeError(
                "the keys of some ranks are missing from the result, because passing them on ended with an error; "
                "make a new ShardAttention"
            )
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

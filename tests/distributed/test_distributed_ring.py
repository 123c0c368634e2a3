"""The ring and the all-gather over P ranks, with either kind of exchange, give what one call over all tokens gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cann_mla
from cann_mla.distributed import ShardAttention, ZigZag, all_gather_attention, ring_attention, ring_context

SIZES = (1, 2, 3, 4, 8)


def attend(problem: Any, attention_of_keys: Callable[..., None], context_parts: Any = None) -> Callable[..., Any]:
    """The body of a rank: (output, lse) of its rows."""

    def body(exchange: Any) -> Any:
        split = ZigZag(problem.lengths, exchange.size)
        rows = split.rows(exchange.rank)
        with cann_mla.Device(exchange.rank % 2), cann_mla.Stream() as stream:
            queries = [q[rows] for q in problem.queries]
            with ShardAttention(split, exchange, *queries, stream=stream) as attention:
                attention_of_keys(attention, *(k[rows] for k in problem.keys))
                for part_rows, lengths in context_parts or ():
                    ring_context(attention, *(k[part_rows[exchange.rank]] for k in problem.context), lengths)
                return attention.result()

    return body


@pytest.mark.parametrize("ranks", SIZES)
def test_the_ring_equals_one_call(ranks: int, on_ranks: Any, problem: Any) -> None:
    given = problem([300, 41])
    given.check(on_ranks(ranks, attend(given, ring_attention)), merges=2 * ranks)


@pytest.mark.parametrize("ranks", SIZES)
def test_the_all_gather_equals_one_call(ranks: int, on_ranks: Any, problem: Any) -> None:
    given = problem([300, 41])
    given.check(on_ranks(ranks, attend(given, all_gather_attention)), merges=2 * ranks)


@pytest.mark.parametrize("variant", [ring_attention, all_gather_attention])
def test_sequences_shorter_than_the_chunks(variant: Any, on_ranks: Any, problem: Any) -> None:
    given = problem([1, 3, 70, 5])
    given.check(on_ranks(4, attend(given, variant)), merges=8)
    given = problem([1])
    given.check(on_ranks(3, attend(given, variant)), merges=1)


@pytest.mark.parametrize("kind", ["BF16", "FP16"])
def test_fewer_heads_of_keys(kind: str, on_ranks: Any, problem: Any) -> None:
    given = problem([150, 90], heads=6, kv_heads=2, kind=kind)
    given.check(on_ranks(2, attend(given, ring_attention)), merges=4)


def test_context_in_two_chunks_of_unequal_parts(on_ranks: Any, problem: Any) -> None:
    given = problem([60, 33], context=(20, 7))
    # Rows of the context: 0..19 of the first sequence, 20..26 of the second. Chunk one is 0..11 and 20..26, spread
    # over three ranks; chunk two is 12..19, all of it on rank 1.
    first = ([[0, 1, 2, 20], [3, 4, 5, 6, 7, 8, 9, 10, 11], [21, 22, 23, 24, 25, 26]], [(3, 1), (9, 0), (0, 6)])
    second = ([[], list(range(12, 20)), []], [(0, 0), (8, 0), (0, 0)])
    given.check(on_ranks(3, attend(given, ring_attention, [first, second])), merges=10)


def test_no_rank_sends_more_than_the_shards_of_others(on_threads: Any, problem: Any) -> None:
    given = problem([160])  # 8 chunks of 20: every rank has 40 tokens of 2 heads of 320 values of 2 bytes

    def body(exchange: Any) -> int:
        attend(given, ring_attention)(exchange)
        return int(exchange.sent)

    assert on_threads(4, body) == [3 * 40 * 2 * 320 * 2] * 4


def test_refusals(on_ranks: Any, problem: Any) -> None:
    given = problem([8])
    q, k = given.queries, given.keys

    def body(exchange: Any) -> None:
        with cann_mla.Device(0), cann_mla.Stream() as stream:
            with pytest.raises(ValueError, match="split is over 2 ranks, the exchange has 1"):
                ShardAttention(ZigZag([8], 2), exchange, *q, stream=stream)
            with pytest.raises(ValueError, match="query_split1 has 8 tokens; rank 0 owns 9"):
                ShardAttention(ZigZag([9], 1), exchange, *q, stream=stream)
            with ShardAttention(ZigZag([8], 1), exchange, *q, stream=stream) as attention:
                with pytest.raises(RuntimeError, match="no result yet"):
                    attention.result()
                with pytest.raises(ValueError, match=r"value must be bfloat16 \[8, 2, 128\] on this rank"):
                    ring_attention(attention, k[0], k[1], k[1])
                with pytest.raises(ValueError, match=r"key_split1 has shape \(8, 256\); it must have 3 dimensions"):
                    ring_attention(attention, k[0].reshape(8, -1), *k[1:])
                with pytest.raises(ValueError, match="1 ranks of 1 sequences"):
                    ring_context(attention, *k, [(4, 4)])
                with pytest.raises(TypeError, match=r"lengths\[0\]\[0\] takes an integer; got float 8\.0"):
                    ring_context(attention, *k, [[8.0]])
                with pytest.raises(ValueError, match="hold a negative one"):
                    ring_context(attention, *k, [[-8]])
                with pytest.raises(TypeError, match="value must be a Tensor or a NumPy array, not NoneType"):
                    ring_attention(attention, *k[:2], None)
                with pytest.raises(ValueError, match="3 heads of keys do not divide 2 heads of queries"):
                    ring_attention(attention, *(part[:, [0, 0, 0]] for part in k))

    on_ranks(1, body)


@pytest.mark.parametrize("variant", [ring_attention, all_gather_attention])
def test_what_was_interrupted_leaves_no_result(variant: Any, on_ranks: Any, problem: Any) -> None:
    given = problem([8])

    def body(exchange: Any) -> None:
        with (
            cann_mla.Device(0),
            cann_mla.Stream() as stream,
            ShardAttention(ZigZag([8], 1), exchange, *given.queries, stream=stream) as attention,
        ):
            ring_attention(attention, *given.keys)
            attention.attend_shard = interrupt  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                variant(attention, *given.keys)
            with pytest.raises(RuntimeError, match="keys of some ranks are missing"):
                attention.result()

    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    on_ranks(1, body)

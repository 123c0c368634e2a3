"""Attention over keys that go round a ring: a rank computes with those of one rank while the next ones come in.

A rank holds its own keys, those of the step, those that come in, and its result; never those of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from cann_mla.checks import whole_numbers
from cann_mla.distributed.exchange import Array
from cann_mla.distributed.shard import KeyLayout, ShardAttention
from cann_mla.tensor import Tensor

AttendStep = Callable[[int, Sequence[Any], ExitStack], None]
"""Queue the calls of a step, given the rank the keys come from, the keys, and an owner for tensors."""


def ring_attention(
    attention: ShardAttention, key_split1: Array | Tensor, key_split2: Array | Tensor, value: Array | Tensor
) -> None:
    """Let the queries of all ranks attend to the keys of all ranks, causally. Every rank calls it.

    Parameters
    ----------
    attention : ShardAttention
        Takes the result, merged with what it has.
    key_split1, key_split2, value : ndarray or Tensor, shapes (T, Hk, 128), (T, Hk, 64), (T, Hk, 128)
        Rows ``split.rows(rank)`` of the keys, in the dtype of the queries. Hk divides H. Contiguous arrays go out as
        they are with an exchange over host memory, dense tensors with one over device memory; others are copied first.

    Raises
    ------
    TypeError, ValueError
        If shapes or dtypes contradict the split; no message has gone out then.
    ExchangeError
        If a message does not come, or not in time (:class:`.ExchangeTimeoutError`).
    CannError
        If a kernel fails.

    Notes
    -----
    Each rank makes 2P + 1 calls of ``AtbRingMLA`` over equally many pairs of tokens. Each merge rounds the output to
    16 bits.
    """
    split, keys = attention.split, (key_split1, key_split2, value)
    layouts = attention.layouts([split.tokens(rank) for rank in range(split.ranks)], keys)
    _go_round(attention, layouts, keys, attention.attend_shard)


def ring_context(
    attention: ShardAttention,
    key_split1: Array | Tensor,
    key_split2: Array | Tensor,
    value: Array | Tensor,
    lengths: Sequence[Sequence[int]],
) -> None:
    """Let all queries also attend to a chunk of context that lies before all of them. Every rank calls it.

    Call it for each chunk of a long context: only one chunk is in memory, a part of it on each rank.

    Parameters
    ----------
    attention : ShardAttention
        Takes the result, merged with what it has.
    key_split1, key_split2, value : ndarray or Tensor
        The part of the chunk that this rank brings, sequence by sequence; see :func:`ring_attention`.
    lengths : sequence, one for each rank, of a sequence of int, one for each sequence
        Keys that each rank brings. Any split will do, also 0 for a rank or a sequence.

    Raises
    ------
    As :func:`ring_attention`.
    """
    sequences = len(attention.split.lengths)
    lengths = [whole_numbers(f"lengths[{rank}]", of_rank) for rank, of_rank in enumerate(lengths)]
    if min((n for of_rank in lengths for n in of_rank), default=0) < 0:
        raise ValueError(f"lengths {lengths} hold a negative one")
    if [len(of_rank) for of_rank in lengths] != [sequences] * attention.split.ranks:
        raise ValueError(f"lengths must hold {attention.split.ranks} ranks of {sequences} sequences, not {lengths}")
    keys = (key_split1, key_split2, value)
    layouts = attention.layouts([sum(of_rank) for of_rank in lengths], keys)

    def attend(source: int, keys: Sequence[Any], owner: ExitStack) -> None:
        if any(lengths[source]):
            tensors = attention.operands(keys, slice(None), owner)
            for query in (0, 1):
                attention.attend(query, tensors, lengths[source])

    _go_round(attention, layouts, keys, attend)


def _go_round(
    attention: ShardAttention, layouts: Sequence[KeyLayout], own: Sequence[Array | Tensor], attend: AttendStep
) -> None:
    """P steps: start to pass the keys on, queue the kernels over them, then wait for both."""
    exchange = attention.exchange
    with attention.all_keys(), ExitStack() as everything:
        holding = everything.enter_context(ExitStack())
        held = attention.own(own, holding)
        for step in range(exchange.size):
            source = (exchange.rank - step) % exchange.size
            arriving = everything.enter_context(ExitStack())
            coming: list[Any] = []
            pending = None
            if step < exchange.size - 1:
                coming = attention.room(layouts[source - 1], arriving)
                pending = exchange.pass_on(held, coming, step)
            with ExitStack() as owner:
                attend(source, held, owner)
            if pending is not None:
                pending.wait()
            attention.stream.synchronize()
            holding.close()  # before there is room for more
            held, holding = coming, arriving

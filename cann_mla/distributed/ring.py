"""Attention over keys that go round a ring: a rank computes with those of one rank while the next ones come in.

A rank holds its own keys, those of the step, those that come in, and its result; never those of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from cann_mla.distributed.schedule import ring_schedule
from cann_mla.distributed.shard import Array, KeyLayout, ShardAttention

AttendStep = Callable[[int, list[Array], ExitStack], None]
"""Queue the calls of a step, given the rank the keys come from, the keys, and an owner for tensors."""


def ring_attention(attention: ShardAttention, key_split1: Array, key_split2: Array, value: Array) -> None:
    """Let the queries of all ranks attend to the keys of all ranks, causally. Every rank calls it.

    Parameters
    ----------
    attention : ShardAttention
        Takes the result, merged with what it has.
    key_split1, key_split2, value : ndarray, shapes (T, Hk, 128), (T, Hk, 64), (T, Hk, 128)
        Rows ``split.rows(rank)`` of the keys, in the dtype of the queries. Hk divides H.

    Raises
    ------
    ValueError
        If shapes or dtypes contradict the split.
    ExchangeError
        If a message does not come, or not in time (:class:`.ExchangeTimeoutError`).
    CannError
        If a kernel fails.

    Notes
    -----
    Each rank makes 2P + 1 calls of ``AtbRingMLA`` over equally many pairs of tokens. Each merge rounds the output to
    16 bits.
    """
    split, rank = attention.split, attention.exchange.rank
    layouts = attention.layouts([split.tokens(r) for r in range(split.ranks)], key_split1)
    calls = {step.source: step.calls for step in ring_schedule(rank, split.ranks)}

    def attend(source: int, keys: list[Array], owner: ExitStack) -> None:
        lengths = [split.chunk_lengths(chunk) for chunk in split.chunks(source)]
        early = sum(lengths[0])
        parts = (slice(early), slice(early, None))
        used = [kv for kv in {call.kv for call in calls[source]} if any(lengths[kv])]
        uploaded = {kv: attention.upload([key[parts[kv]] for key in keys], owner) for kv in used}
        for call in calls[source]:
            if call.kv in uploaded:
                attention.attend(call.query, uploaded[call.kv], lengths[call.kv], causal=call.causal)

    _go_round(attention, layouts, (key_split1, key_split2, value), attend)


def ring_context(
    attention: ShardAttention,
    key_split1: Array,
    key_split2: Array,
    value: Array,
    lengths: Sequence[Sequence[int]],
) -> None:
    """Let all queries also attend to a chunk of context that lies before all of them. Every rank calls it.

    Call it for each chunk of a long context: only one chunk is in memory, a part of it on each rank.

    Parameters
    ----------
    attention : ShardAttention
        Takes the result, merged with what it has.
    key_split1, key_split2, value : ndarray
        The part of the chunk that this rank brings, sequence by sequence; see :func:`ring_attention`.
    lengths : sequence, one for each rank, of a sequence of int, one for each sequence
        Keys that each rank brings. Any split will do, also 0 for a rank or a sequence.

    Raises
    ------
    As :func:`ring_attention`.
    """
    sequences = len(attention.split.lengths)
    if [len(of_rank) for of_rank in lengths] != [sequences] * attention.split.ranks:
        raise ValueError(f"lengths must hold {attention.split.ranks} ranks of {sequences} sequences, not {lengths}")
    layouts = attention.layouts([sum(of_rank) for of_rank in lengths], key_split1)

    def attend(source: int, keys: list[Array], owner: ExitStack) -> None:
        if any(lengths[source]):
            tensors = attention.upload(keys, owner)
            for query in (0, 1):
                attention.attend(query, tensors, lengths[source])

    _go_round(attention, layouts, (key_split1, key_split2, value), attend)


def _go_round(
    attention: ShardAttention, layouts: Sequence[KeyLayout], own: Sequence[Array], attend: AttendStep
) -> None:
    """P steps: start to pass the keys on, queue the kernels over them, then wait for both."""
    exchange = attention.exchange
    held = layouts[exchange.rank].pack(own)
    for step in range(exchange.size):
        source = (exchange.rank - step) % exchange.size
        last = step == exchange.size - 1
        coming = np.empty(0 if last else layouts[source - 1].nbytes, np.uint8)
        pending = None if last else exchange.pass_on(held, coming, step)
        with ExitStack() as owner:
            attend(source, layouts[source].arrays(held), owner)
        if pending is not None:
            pending.wait()
        attention.stream.synchronize()  # frees the keys on the device before the next ones are copied there
        held = coming

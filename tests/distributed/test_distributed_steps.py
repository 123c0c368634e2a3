"""One rank alone, with an exchange that notes what happens: the order of a step, and what a rank holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np

import cann_mla
from cann_mla.distributed import HostBlocks, ShardAttention, ZigZag, ring_attention

RANKS, RANK = 16, 5


class Notes(HostBlocks):
    """An exchange whose messages are all zeros."""

    def __init__(self) -> None:
        self.rank, self.size = RANK, RANKS
        self.events: list[str] = []
        self.received: list[int] = []
        self.device_bytes: list[int] = []

    def pass_on(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray], step: int) -> Notes:
        self.events.append(f"send {step}")
        self.received.append(sum(block.nbytes for block in received))
        self.device_bytes.append(cann_mla.load().cannMlaSimDeviceBytes(0))
        for block in received:
            block[:] = 0
        return self

    def all_gather(self, sent: Sequence[np.ndarray], received: Sequence[Sequence[np.ndarray]]) -> Notes:
        raise AssertionError("the ring gathers nothing")

    def wait(self) -> None:
        self.events.append("wait")


class NotedAttention(ShardAttention):
    def attend(self, query: int, keys: Any, kv_lengths: Any, *, causal: bool = False) -> None:
        self.exchange.events.append("kernel")  # type: ignore[attr-defined]
        super().attend(query, keys, kv_lengths, causal=causal)


def go_round(tokens: int) -> tuple[Notes, int]:
    """The notes, and the most host memory that the ring took beyond what it was given."""
    notes, split = Notes(), ZigZag([tokens], RANKS)
    queries, keys = ([np.ones((split.tokens(RANK), 1, n), np.float16) for n in s] for s in ((128, 64), (128, 64, 128)))
    with (
        cann_mla.Device(0),
        cann_mla.Stream() as stream,
        NotedAttention(split, notes, *queries, stream=stream) as attention,
    ):
        tracemalloc.start()
        ring_attention(attention, *keys)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return notes, peak


def test_messages_are_under_way_while_the_kernels_run() -> None:
    first = ["send 0", "kernel", "kernel", "kernel", "wait"]
    between = [event for step in range(1, RANKS - 1) for event in (f"send {step}", "kernel", "kernel", "wait")]
    assert go_round(64)[0].events == [*first, *between, "kernel", "kernel"]


def test_a_rank_holds_one_shard_and_one_that_comes() -> None:
    small, large = (tokens // RANKS * 320 * 2 for tokens in (2048, 16384))  # a shard: 320 values of 2 bytes a token
    small_notes, small_peak = go_round(2048)
    large_notes, large_peak = go_round(16384)
    assert small_notes.received == [small] * (RANKS - 1)
    assert large_notes.received == [large] * (RANKS - 1)
    # Host: the keys of the step, those that come, and a copy on its way to the device. All keys would be 16 shards.
    assert large_peak - small_peak < 3 * (large - small)
    # Device: nothing stays of the keys of a step. The results are there from step 1 on.
    assert len(set(large_notes.device_bytes[1:])) == 1

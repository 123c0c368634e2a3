"""Ranks as threads of one process, and what all of them together must compute."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla.distributed import HcclExchange, HostBlocks, ZigZag
from cann_mla.dtypes import dtype
from cann_mla.reference.ring_mla import ring_mla

SECONDS = 60  # before a test that hangs fails
SCALE = 192**-0.5


class Received:
    def __init__(self, box: queue.Queue[Any], blocks: Sequence[np.ndarray], step: int) -> None:
        self._box, self._blocks, self._step = box, blocks, step

    def wait(self) -> None:
        step, message = self._box.get(timeout=SECONDS)
        assert step == self._step
        for place, sent in zip(self._blocks, message, strict=True):
            assert place.shape == sent.shape
            place[:] = sent


class Gathered:
    def __init__(self, ring: Ring, received: Sequence[Sequence[np.ndarray]]) -> None:
        self._ring, self._received = ring, received

    def wait(self) -> None:
        self._ring.barrier.wait(SECONDS)
        for blocks, shard in zip(self._received, self._ring.shards, strict=True):
            for place, sent in zip(blocks, shard, strict=True):
                place[:] = sent


class Ring:
    """What the ranks share."""

    def __init__(self, size: int) -> None:
        self.boxes: list[queue.Queue[Any]] = [queue.Queue() for _ in range(size)]
        self.shards: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)


@dataclass
class ThreadExchange(HostBlocks):
    """An Exchange between threads, that remembers how many bytes it sent."""

    ring: Ring
    rank: int
    sent: int = 0

    @property
    def size(self) -> int:
        return len(self.ring.boxes)

    def pass_on(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray], step: int) -> Received:
        self.sent += sum(block.nbytes for block in sent)
        self.ring.boxes[(self.rank + 1) % self.size].put((step, [block.copy() for block in sent]))
        return Received(self.ring.boxes[self.rank], received, step)

    def all_gather(self, sent: Sequence[np.ndarray], received: Sequence[Sequence[np.ndarray]]) -> Gathered:
        self.ring.shards[self.rank] = [block.copy() for block in sent]
        return Gathered(self.ring, received)


def run_on_threads(size: int, body: Callable[[ThreadExchange], Any]) -> list[Any]:
    ring = Ring(size)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(body, [ThreadExchange(ring, rank) for rank in range(size)]))


def run_over_hccl(
    size: int,
    body: Callable[[Any], Any],
    *,
    timeout: float = SECONDS,
    kind: type[HcclExchange] = HcclExchange,
) -> list[Any]:
    """The ranks take the two devices in turn; each thread has its own current."""
    with cann_mla.Device(0):
        root_info = HcclExchange.root_info()

    def on_rank(rank: int) -> Any:
        with cann_mla.Device(rank % 2), kind(root_info, rank, size, timeout=timeout) as exchange:
            return body(exchange)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(on_rank, range(size)))


@pytest.fixture
def on_threads() -> Callable[..., list[Any]]:
    """``on_threads(P, body)``: what ``body(exchange)`` returns on each of P ranks; messages go over host memory."""
    return run_on_threads


@pytest.fixture
def on_hccl() -> Callable[..., list[Any]]:
    """The same over HCCL; `timeout` is that of the exchange, `kind` its class."""
    return run_over_hccl


@pytest.fixture(params=[run_on_threads, run_over_hccl], ids=["host", "hccl"])
def on_ranks(request: pytest.FixtureRequest) -> Any:
    """Both, one after the other."""
    return request.param


@dataclass
class Problem:
    """Packed operands of all sequences; ``context`` lies before them."""

    lengths: tuple[int, ...]
    queries: list[np.ndarray]
    keys: list[np.ndarray]
    context_lengths: tuple[int, ...]
    context: list[np.ndarray]

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """One call over all keys in float64, by the reference, merged with one over the context if there is any."""
        element = self.queries[0].dtype
        hidden = 1.0 if element == ml_dtypes.bfloat16 else -1e4
        mask = np.triu(np.full((512, 512), hidden), 1).astype(element)
        heads = {"head_num": self.queries[0].shape[1], "kv_head_num": self.keys[0].shape[1], "qk_scale": SCALE}
        result = ring_mla(
            **self._operands(self.keys), seq_len=np.array(self.lengths, np.int32), mask=mask, mask_type=1,
            calc_type=1, precision="exact", **heads,
        )  # fmt: skip
        if any(self.context_lengths):
            result = ring_mla(
                **self._operands(self.context), seq_len=np.array([self.lengths, self.context_lengths], np.int32),
                prev_out=result.output, prev_lse=result.softmax_lse, mask_type=0, calc_type=0, precision="exact",
                **heads,
            )  # fmt: skip
        return result.output, result.softmax_lse

    def check(self, shards: Sequence[Any], merges: int) -> None:
        """Compare the (output, lse) of all ranks with `expected`.

        An output below 4 is rounded to 16 bits once, and once more by each merge (B3 of the specification). The FP16
        kernel also rounds scores: as products below 64, then scaled, below 4, twice.
        """
        split = ZigZag(self.lengths, len(shards))
        output = split.join([output for output, _ in shards]).astype(np.float64)
        lse = split.join([lse for _, lse in shards], axis=1)
        expected, expected_lse = self.expected()
        half = self.queries[0].dtype == np.float16
        np.testing.assert_allclose(output, expected, rtol=0, atol=2**-7 + merges**0.5 * 2**-9)
        np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=2**-6 * SCALE + 2 * 2**-10 if half else 1e-3)

    def _operands(self, keys: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        names = ("query_split1", "query_split2", "key_split1", "key_split2", "value")
        return dict(zip(names, (*self.queries, *keys), strict=True))


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """``problem(lengths, heads=2, kv_heads=2, kind="BF16", context=())``: random operands."""

    def make(
        lengths: Sequence[int], *, heads: int = 2, kv_heads: int = 2, kind: str = "BF16", context: Sequence[int] = ()
    ) -> Problem:
        rng = np.random.default_rng(3)

        def normal(tokens: int, heads: int, sizes: Sequence[int]) -> list[np.ndarray]:
            return [rng.standard_normal((tokens, heads, size)).astype(dtype(kind).numpy) for size in sizes]

        return Problem(
            tuple(lengths),
            normal(sum(lengths), heads, (128, 64)),
            normal(sum(lengths), kv_heads, (128, 64, 128)),
            tuple(context),
            normal(sum(context), kv_heads, (128, 64, 128)),
        )

    return make

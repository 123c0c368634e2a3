"""Caches that kernels fill and read row by row: other rows are nobody's business, the same rows need an order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import simulator

BLOCKS, BLOCK, HEADS, WIDTH = 4, 128, 1, 64


@pytest.fixture
def other(device: cann_mla.Device) -> Iterator[cann_mla.Stream]:
    device.use()
    with cann_mla.Stream() as opened:
        yield opened


def half(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float16)


class Cache:
    """Key and value caches that nobody has written yet."""

    def __init__(self) -> None:
        shape = (BLOCKS, BLOCK, HEADS, WIDTH)
        self.key, self.value = (cann_mla.Tensor.empty(shape, "FP16") for _ in range(2))
        self.kept: list[Any] = []

    def scatter(self, slots: list[int]) -> cann_mla.Plan:
        """Writes one token to every slot."""
        key, value = (self._keep(cann_mla.Tensor.from_numpy(half(len(slots), HEADS, WIDTH))) for _ in range(2))
        mapping = self._keep(cann_mla.Tensor.from_numpy(np.array(slots, np.int32)))
        operands = {"key": key, "keyCacheRef": self.key, "slotMapping": mapping, "value": value}
        plan = cann_mla.operator("aclnnScatterPaKvCache").prepare(
            **operands, valueCacheRef=self.value, cacheModeOptional="Norm"
        )
        return self._keep(plan)

    def attend(self, blocks: list[int], length: int) -> cann_mla.Plan:
        """One query over the rows that a block table names."""
        paged = (BLOCKS, BLOCK, HEADS * WIDTH)
        caches = [self._keep(cache.view(paged, storage_shape=paged)) for cache in (self.key, self.value)]
        table = self._keep(cann_mla.Tensor.from_numpy(np.array([blocks], np.int32)))
        query = self._keep(cann_mla.Tensor.from_numpy(half(1, 1, HEADS * WIDTH)))
        out = self._keep(cann_mla.Tensor.empty((1, 1, HEADS * WIDTH), "FP16"))
        plan = cann_mla.operator("aclnnFusedInferAttentionScoreV3").prepare(
            query=query, key=[caches[0]], value=[caches[1]], actualSeqLengthsKvOptional=[length],
            blockTableOptional=table, numHeads=HEADS, scaleValue=1.0, preTokens=2**31 - 1, nextTokens=2**31 - 1,
            inputLayout="BSH", numKeyValueHeads=HEADS, sparseMode=0, innerPrecise=0, blockSize=BLOCK, antiquantMode=0,
            softmaxLseFlag=False, keyAntiquantMode=0, valueAntiquantMode=0, attentionOut=out,
        )  # fmt: skip
        return self._keep(plan)

    def _keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def close(self) -> None:
        """Close the caches and what worked on them."""
        for thing in (*reversed(self.kept), self.key, self.value):
            thing.close()


def rules(
    *steps: tuple[str, list[int], int], streams: tuple[cann_mla.Stream, cann_mla.Stream], event: bool
) -> list[str]:
    """What is found when two steps run on two streams, with or without an event between them.

    A step is ``("scatter", slots, 0)`` or ``("attend", blocks, rows)``. Rows 0 to 7 were written before.
    """
    with simulator.watch() as watch:
        cache = Cache()
        cache.scatter(list(range(8))).run(streams[0])
        streams[0].synchronize()
        plans = [
            cache.scatter(numbers) if what == "scatter" else cache.attend(numbers, rows)
            for what, numbers, rows in steps
        ]
        # The plans are ready, so that nothing but the event can order the launches.
        with streams[1].record() as between:
            plans[0].run(streams[0])
            if event:
                streams[0].record(between)
                streams[1].wait(between)
            plans[1].run(streams[1])
        for stream in streams:
            stream.synchronize()
        cache.close()
    return sorted({finding.rule for finding in watch.findings})


WRITE_8, WRITE_7, WRITE_200 = ("scatter", [8], 0), ("scatter", [7], 0), ("scatter", [200], 0)
READ_8 = ("attend", [0], 8)  # rows 0 to 7


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (WRITE_8, WRITE_200, []),
        (WRITE_8, WRITE_8, ["unordered-access"]),
        (READ_8, WRITE_8, []),
        (WRITE_8, READ_8, []),
        (WRITE_7, READ_8, ["unordered-access"]),
        (READ_8, WRITE_7, ["unordered-access"]),
        (READ_8, READ_8, []),
        (WRITE_8, ("attend", [0], 9), ["unordered-access"]),
    ],
)
def test_rows_of_two_streams(
    stream: cann_mla.Stream, other: cann_mla.Stream, first: tuple, second: tuple, expected: list[str]
) -> None:
    found = rules(first, second, streams=(stream, other), event=False)
    if ("attend", [0], 9) in (first, second):  # the reader may come first, and then finds the row unwritten as well
        found = [rule for rule in found if rule != "uninitialised-read"]
    assert found == expected
    assert rules(first, second, streams=(stream, other), event=True) == []


def test_a_row_that_nobody_wrote_is_read(stream: cann_mla.Stream) -> None:
    with simulator.watch() as watch:
        cache = Cache()
        cache.scatter(list(range(8))).run(stream)
        cache.attend([0], 8).run(stream)
        stream.synchronize()
        assert watch.findings == []
        cache.attend([0], 9).run(stream)
        stream.synchronize()
        cache.close()
    assert {finding.rule for finding in watch.findings} == {"uninitialised-read"}
    # Row 8 of key and of value, 64 FP16 wide, starts at byte 8 * 128.
    assert all("byte 1024 " in finding.what for finding in watch.findings)


def test_host_fetches_a_sparsely_filled_cache(stream: cann_mla.Stream) -> None:
    with simulator.watch() as watch:
        cache = Cache()
        cache.scatter([3]).run(stream)
        stream.synchronize()
        cache.key.to_numpy()
        cache.close()
        empty = Cache()
        assert watch.findings == []
        empty.key.to_numpy()
        empty.close()
    assert [finding.rule for finding in watch.findings] == ["uninitialised-read"]


def test_writing_all_of_a_cache_against_one_row(stream: cann_mla.Stream, other: cann_mla.Stream) -> None:
    with simulator.watch() as watch:
        cache = Cache()
        cache.scatter([3]).run(stream)
        cache.key.memory.fill(0, stream=other)
        other.synchronize()
        stream.synchronize()
        cache.close()
    assert [finding.rule for finding in watch.findings] == ["unordered-access"]

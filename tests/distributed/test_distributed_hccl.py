"""What is particular to the exchange over HCCL: memory, overlap, and what a rank says when another does not answer."""

from __future__ import annotations

import time
from contextlib import ExitStack
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla.distributed import (
    ExchangeError,
    ExchangeTimeoutError,
    HcclExchange,
    ShardAttention,
    ZigZag,
    ring_attention,
)
from cann_mla.distributed.hccl import HcclPending

SHARD = 256 * 320 * 2  # bytes of 256 keys of one head


def tensors(*arrays: np.ndarray) -> list[cann_mla.Tensor]:
    return [cann_mla.Tensor.from_numpy(array) for array in arrays]


def in_ring(exchange: HcclExchange, *arrays: np.ndarray) -> list[np.ndarray]:
    """Pass arrays on to the next rank, and return those of the one before."""
    with cann_mla.Stream() as stream, ExitStack() as owner:
        sent = [exchange.own(array, owner, stream) for array in arrays]
        received = [exchange.room(array.shape, array.dtype, owner) for array in arrays]
        exchange.pass_on(sent, received, 0).wait()
        return [tensor.to_numpy() for tensor in received]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_gets_what_the_one_before_has(ranks: int, on_hccl: Any) -> None:
    def body(exchange: HcclExchange) -> list[np.ndarray]:
        values = np.full((3, 5), exchange.rank, np.float16)
        return in_ring(exchange, values, np.empty((0, 5), np.float16), values + 10)

    for rank, (first, empty, second) in enumerate(on_hccl(ranks, body)):
        assert empty.shape == (0, 5)
        np.testing.assert_array_equal(first, np.full((3, 5), (rank - 1) % ranks))
        np.testing.assert_array_equal(second, np.full((3, 5), (rank - 1) % ranks + 10))


def test_rows_are_views_of_what_came(on_hccl: Any) -> None:
    def body(exchange: HcclExchange) -> None:
        values = np.arange(30, dtype=np.float16).reshape(6, 1, 5)
        with cann_mla.Stream() as stream, ExitStack() as owner:
            (block,) = tensors(values)
            assert exchange.own(block, owner, stream) is block
            rows = exchange.operand(block, slice(2, 5), owner, stream)
            assert rows.address == block.address + 2 * 5 * 2
            assert rows.layout.offset == 0  # ATB would not look at it
            np.testing.assert_array_equal(rows.to_numpy(), values[2:5])
            with pytest.raises(ValueError, match="dense tensors in device memory"):
                exchange.own(block.transpose(2, 1, 0), owner, stream)

    on_hccl(1, body)


class NotedExchange(HcclExchange):
    """Notes the bytes in use on its device whenever a message goes out."""

    __slots__ = ("device_bytes",)

    def pass_on(self, sent: Any, received: Any, step: int) -> HcclPending:
        self.device_bytes.append(cann_mla.load().cannMlaSimDeviceBytes(cann_mla.current_device()))
        return super().pass_on(sent, received, step)


def test_a_device_holds_the_shard_of_the_step_and_the_one_that_comes(on_hccl: Any) -> None:
    ranks = 2  # one on each device
    split = ZigZag([256 * ranks], ranks)

    def body(exchange: NotedExchange) -> tuple[int, int, int]:
        exchange.device_bytes = []
        queries, keys = ([np.ones((256, 1, n), np.float16) for n in s] for s in ((128, 64), (128, 64, 128)))
        with cann_mla.Stream() as stream, ShardAttention(split, exchange, *queries, stream=stream) as attention:
            ring_attention(attention, *tensors(*keys))  # once before, for what stays on a device: the mask
            own = tensors(*keys)
            before = cann_mla.load().cannMlaSimDeviceBytes(cann_mla.current_device())
            exchange.device_bytes.clear()
            ring_attention(attention, *own)
            after = cann_mla.load().cannMlaSimDeviceBytes(cann_mla.current_device())
        return before, max(exchange.device_bytes), after

    for before, during, after in on_hccl(ranks, body, kind=NotedExchange):
        assert during - before == SHARD  # no copy of the own keys, room for those that come
        assert after == before


def test_keys_still_being_computed_are_waited_for(on_hccl: Any) -> None:
    def body(exchange: HcclExchange) -> np.ndarray:
        values = np.full((1000, 1, 128), exchange.rank + 1, np.float16)
        with cann_mla.Stream() as stream, ExitStack() as owner:
            tensor, gate = cann_mla.Tensor.empty(values.shape, "FP16"), cann_mla.Event()
            stream.wait(gate)
            source = cann_mla.HostMemory(values.nbytes)
            source.array(np.float16, values.shape)[:] = values
            tensor.memory.write(source, stream=stream)  # queued behind an event that comes later
            sent = exchange.own(tensor, owner, stream)
            received = exchange.room(values.shape, values.dtype, owner)
            pending = exchange.pass_on([sent], [received], 0)
            with cann_mla.Stream() as other:
                other.record(gate)
                pending.wait()
            return received.to_numpy()

    for rank, came in enumerate(on_hccl(2, body)):
        np.testing.assert_array_equal(came, np.full((1000, 1, 128), 2 - rank))


def test_a_message_that_never_comes(on_hccl: Any) -> None:
    given_up: list[float] = []

    def body(exchange: HcclExchange) -> None:
        if exchange.rank == 1:
            while not given_up:
                time.sleep(0.01)
            return
        start = time.monotonic()
        with pytest.raises(ExchangeTimeoutError, match=r"rank 0 of 2 waited 0\.5 s.* in step 0 of the ring"):
            in_ring(exchange, np.zeros(4, np.float16))
        given_up.append(time.monotonic() - start)

    on_hccl(2, body, timeout=0.5)
    assert 0.5 <= given_up[0] < 20


def test_an_interrupted_wait_is_given_up_at_once(on_hccl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cann_mla.distributed.hccl, "time", SimpleNamespace(sleep=interrupt, monotonic=time.monotonic))
    over = Event()
    took: list[float] = []

    def body(exchange: HcclExchange) -> None:
        if exchange.rank == 1:
            over.wait(20)
            return
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            in_ring(exchange, np.zeros(4, np.float16))
        exchange.close()
        took.append(time.monotonic() - start)
        over.set()

    on_hccl(2, body, timeout=30)
    assert took[0] < 10


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), 3e6, "5", True, None])
def test_no_time_to_wait(timeout: Any) -> None:
    with cann_mla.Device(0), pytest.raises((TypeError, ValueError), match="timeout"):
        HcclExchange(HcclExchange.root_info(), 0, 1, timeout=timeout)


def test_a_rank_that_ends(on_hccl: Any) -> None:
    def body(exchange: HcclExchange) -> None:
        if exchange.rank == 0:
            with pytest.raises(ExchangeError, match=r"rank 0 of 2 failed in step 0(.|\n)*rank 1 is gone"):
                in_ring(exchange, np.zeros(4, np.float16))

    on_hccl(2, body)


def test_a_message_of_another_size(on_hccl: Any) -> None:
    def body(exchange: HcclExchange) -> None:
        with pytest.raises(ExchangeError, match=r"do not call the same operation|is gone"):
            in_ring(exchange, np.zeros(4 + exchange.rank, np.float16))

    on_hccl(2, body)


def test_a_rank_that_never_comes() -> None:
    with cann_mla.Device(0):
        root_info = HcclExchange.root_info()
        with pytest.raises(ExchangeTimeoutError, match=r"rank 1 of 2 waited 0\.3 s for the other ranks"):
            HcclExchange(root_info, 1, 2, timeout=0.3)


def test_refusals() -> None:
    with cann_mla.Device(0):
        root_info = HcclExchange.root_info()
        with pytest.raises(ValueError, match="root_info has 3 bytes, not 4108"):
            HcclExchange(b"abc", 0, 1)
        with pytest.raises(ExchangeError, match=r"HCCL_E_PARA(.|\n)*rootInfo is not from HcclGetRootInfo"):
            HcclExchange(bytes(4108), 0, 1)
        with pytest.raises(ValueError, match="rank"):
            HcclExchange(root_info, 2, 2)
        with pytest.raises(ValueError, match="timeout is 0; allowed is above 0"):
            HcclExchange(root_info, 0, 1, timeout=0)
        with HcclExchange(root_info, 0, 1) as exchange:
            pass
        with pytest.raises(cann_mla.ClosedError):
            in_ring(exchange, np.zeros(4, np.float16))
        with pytest.raises(ExchangeError, match="HCCL_E_TCP_CONNECT"):  # one root info, one communicator
            HcclExchange(root_info, 0, 1)


def test_nothing_is_left_behind(on_hccl: Any) -> None:
    library = cann_mla.load()

    def live() -> list[int]:
        lib = cann_mla.c
        kinds = (lib.CANN_MLA_SIM_HCCL_COMM, lib.CANN_MLA_SIM_STREAM, lib.CANN_MLA_SIM_EVENT)
        return [library.cannMlaSimLiveHandles(kind) for kind in kinds]

    with cann_mla.Device(0), cann_mla.Device(1):
        on_hccl(2, lambda exchange: in_ring(exchange, np.zeros(4, np.float16)))  # makes the default streams
        before = live()
        on_hccl(2, lambda exchange: in_ring(exchange, np.zeros(4, np.float16)))
        assert live() == before

"""Device and pinned memory: copies, ownership, and when memory that streams need is really freed."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import cann_mla
from cann_mla import ClosedError, DeviceMemory, HostMemory, Stream, c


def bytes_in_use() -> int:
    return c.cannMlaSimDeviceBytes(0)


def test_write_and_read_back(device: cann_mla.Device) -> None:
    with DeviceMemory(16) as memory:
        memory.write(np.arange(16, dtype=np.uint8))
        memory.write(np.array([200, 201], np.uint8), offset=3)
        back = np.zeros(16, np.uint8)
        memory.read(back)
    assert back.tolist() == [0, 1, 2, 200, 201, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]


def test_fill(device: cann_mla.Device) -> None:
    with DeviceMemory(8) as memory:
        memory.fill(0xAB)
        back = np.zeros(8, np.uint8)
        memory.read(back)
    assert set(back.tolist()) == {0xAB}


def test_copy_between_device_memories(device: cann_mla.Device) -> None:
    with DeviceMemory(4) as source, DeviceMemory(8) as target:
        source.write(np.array([1, 2, 3, 4], np.uint8))
        target.fill(0)
        target.copy_from(source)
        back = np.zeros(8, np.uint8)
        target.read(back)
    assert back.tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_asynchronous_round_trip_through_pinned_memory(device: cann_mla.Device, stream: Stream) -> None:
    with DeviceMemory(1024) as memory, HostMemory(1024) as source, HostMemory(1024) as target:
        numbers = source.array(np.int32)
        numbers[:] = np.arange(256)
        memory.write(source, stream=stream)
        memory.read(target, stream=stream)
        stream.synchronize()
        assert (target.array(np.int32) == np.arange(256)).all()
        del numbers


@pytest.mark.parametrize(("offset", "size"), [(-1, 4), (5, 4), (0, 9)])
def test_copy_that_does_not_fit_is_refused(device: cann_mla.Device, offset: int, size: int) -> None:
    with DeviceMemory(8) as memory, pytest.raises(ValueError, match=f"{size} bytes at offset {offset} do not fit"):
        memory.write(np.zeros(size, np.uint8), offset=offset)


def test_strided_host_array_is_refused_with_advice(device: cann_mla.Device) -> None:
    with DeviceMemory(8) as memory, pytest.raises(ValueError, match="ascontiguousarray"):
        memory.write(np.zeros((4, 4), np.uint8)[:, ::2])


def test_read_only_target_is_refused(device: cann_mla.Device) -> None:
    target = np.zeros(8, np.uint8)
    target.flags.writeable = False
    with DeviceMemory(8) as memory, pytest.raises(ValueError, match="read-only"):
        memory.read(target)


def test_closing_twice_is_allowed_and_use_after_close_is_not(device: cann_mla.Device) -> None:
    memory = DeviceMemory(8)
    memory.close()
    memory.close()
    assert memory.closed
    with pytest.raises(ClosedError, match="this DeviceMemory has been closed"):
        memory.fill(0)


def test_empty_memory_is_refused(device: cann_mla.Device) -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        DeviceMemory(0)
    with pytest.raises(ValueError, match="at least 1 byte"):
        HostMemory(0)


def test_unknown_policy_is_refused(device: cann_mla.Device) -> None:
    with pytest.raises(ValueError, match="'HUGE' is unknown"):
        DeviceMemory(8, policy="HUGE")


def test_impossible_size_is_an_error_of_cann(device: cann_mla.Device) -> None:
    with pytest.raises(cann_mla.CannError) as caught:
        DeviceMemory(1 << 50)
    assert caught.value.api == "aclrtMalloc"
    assert caught.value.status_name != "unknown status"
    assert f"allocate {1 << 50} bytes on device 0" in str(caught.value)


def test_memory_is_freed_by_the_garbage_collector_and_by_close(device: cann_mla.Device) -> None:
    before = bytes_in_use()
    memory = DeviceMemory(1 << 20)
    assert bytes_in_use() >= before + (1 << 20)
    del memory
    gc.collect()
    assert bytes_in_use() == before


def test_pinned_memory_with_views_cannot_be_closed(device: cann_mla.Device) -> None:
    memory = HostMemory(64)
    view = memory.array(np.float32, (2, 3))
    assert view.shape == (2, 3)
    part = view[1:]
    del view
    with pytest.raises(BufferError, match="still look at this pinned memory"):
        memory.close()
    del part
    memory.close()


def test_array_keeps_pinned_memory_alive(device: cann_mla.Device) -> None:
    view = HostMemory(64).array()
    gc.collect()
    view[:] = 7
    assert view.sum() == 7 * 64


def test_memory_closed_under_queued_work_outlives_it(device: cann_mla.Device, stream: Stream) -> None:
    before = bytes_in_use()
    memory = DeviceMemory(1 << 20)
    memory.fill(1, stream=stream)
    memory.close()
    assert bytes_in_use() > before
    stream.synchronize()
    assert bytes_in_use() == before


def test_memory_closed_on_an_idle_device_is_freed_at_once(device: cann_mla.Device, stream: Stream) -> None:
    before = bytes_in_use()
    memory = DeviceMemory(1 << 20)
    memory.fill(1, stream=stream)
    stream.synchronize()
    memory.close()
    assert bytes_in_use() == before


def test_memory_stays_flat_without_a_synchronisation(device: cann_mla.Device, stream: Stream) -> None:
    size = 1 << 16
    before = bytes_in_use()
    most = 0
    for step in range(3000):
        memory = DeviceMemory(size)
        memory.fill(1, stream=stream)
        memory.close()
        most = max(most, bytes_in_use() - before)
        if step % 50 == 0:  # unseen by the stream's owner: the simulator's worker keeps up, however slow it is
            assert c.aclrtSynchronizeStream(stream.handle) == 0
    assert most < 200 * size
    stream.synchronize()
    assert bytes_in_use() == before


def test_closing_the_stream_frees_what_it_kept(device: cann_mla.Device) -> None:
    before = bytes_in_use()
    stream = Stream()
    memory = DeviceMemory(1 << 16)
    memory.fill(1, stream=stream)
    memory.close()
    stream.close()
    assert bytes_in_use() == before


def test_full_device_waits_for_memory_that_streams_still_hold(device: cann_mla.Device, stream: Stream) -> None:
    _, total = device.memory()
    half = total * 3 // 5
    first = DeviceMemory(half)
    with HostMemory(1 << 24) as source:
        small = DeviceMemory(1 << 24)
        for _ in range(8):
            small.write(source, stream=stream)
        first.close()  # still held, because the stream is busy
        second = DeviceMemory(half)
        second.close()
        small.close()
        stream.synchronize()


def test_pinned_memory_in_use_on_another_device_outlives_the_copy(device: cann_mla.Device) -> None:
    before = c.cannMlaSimHostBytes()
    with cann_mla.Device(1) as other, Stream(other) as far:
        device.use()
        source = HostMemory(1 << 20)
        target = DeviceMemory(1 << 20, device=other)
        target.write(source, stream=far)
        source.close()
        assert c.cannMlaSimHostBytes() > before
        far.synchronize()
        assert c.cannMlaSimHostBytes() == before
    device.use()

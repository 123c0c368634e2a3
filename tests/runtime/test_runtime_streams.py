"""Devices, contexts, streams and events."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cann_mla
from cann_mla import CannError, ClosedError, Context, Device, DeviceMemory, Event, Stream, c


def test_device_is_current_and_counts(device: Device) -> None:
    device.use()
    assert cann_mla.current_device() == 0
    assert Device.count() == 2
    free, total = device.memory()
    assert 0 < free <= total


def test_stream_is_done_after_synchronize(device: Device, stream: Stream) -> None:
    memory = DeviceMemory(1 << 20)
    memory.fill(3, stream=stream)
    stream.synchronize()
    assert stream.query()
    assert not stream.busy


def test_synchronize_with_a_timeout(device: Device, stream: Stream) -> None:
    memory = DeviceMemory(1 << 20)
    memory.fill(3, stream=stream)
    stream.synchronize(timeout=60.0)
    assert not stream.busy


def test_closed_stream_raises_before_a_null_reaches_c(device: Device) -> None:
    stream = Stream()
    stream.close()
    stream.close()
    for use in (stream.synchronize, stream.query, stream.record):
        with pytest.raises(ClosedError, match="this Stream has been closed"):
            use()
    with DeviceMemory(8) as memory, pytest.raises(ClosedError):
        memory.fill(0, stream=stream)


def test_events_order_streams(device: Device) -> None:
    with Stream() as first, Stream() as second, DeviceMemory(1 << 22) as memory:
        target = np.zeros(1 << 22, np.uint8)
        memory.fill(1, stream=first)
        memory.fill(2, stream=first)
        event = first.record()
        second.wait(event)
        memory.read(target, stream=second)
        second.synchronize()
        assert event.query()
        assert (target == 2).all()


def test_elapsed_time_is_not_negative(device: Device, stream: Stream) -> None:
    with DeviceMemory(1 << 20) as memory:
        start = stream.record()
        memory.fill(1, stream=stream)
        end = stream.record()
        end.synchronize()
        assert 0.0 <= end.elapsed_ms(start) < 60_000.0
        start.close()
        end.close()


def test_closed_event_raises(device: Device, stream: Stream) -> None:
    event = Event()
    event.close()
    with pytest.raises(ClosedError, match="this Event has been closed"):
        stream.record(event)


def test_default_stream_is_not_destroyed_by_close(device: Device) -> None:
    for _ in range(2):
        with Stream.from_handle(0) as default, DeviceMemory(16) as memory:
            memory.fill(1, stream=default)
            default.synchronize()


def test_stream_made_by_c_can_be_wrapped(device: Device) -> None:
    raw = c.new("aclrtStream *")
    assert c.aclrtCreateStream(raw) == 0
    with Stream.from_handle(raw[0]) as wrapped:
        wrapped.synchronize()
    assert c.aclrtDestroyStream(raw[0]) == 0


def test_another_thread_needs_the_device(device: Device) -> None:
    seen: list[object] = []

    def work() -> None:
        try:
            DeviceMemory(8)
        except CannError as error:
            seen.append(error)
        device.use()
        with DeviceMemory(8) as memory:
            seen.append(memory.device)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert isinstance(seen[0], CannError)
    assert "call device.use() in every thread" in str(seen[0])
    assert seen[1] == 0


def test_object_of_another_device_is_refused(device: Device) -> None:
    with Device(1) as other:
        device.use()
        with Stream(other) as far, DeviceMemory(8) as near:
            assert (far.device, near.device) == (1, 0)
            assert cann_mla.current_device() == 0
            with pytest.raises(ValueError, match="the stream is on device 1 and the memory on device 0"):
                near.fill(0, stream=far)
    device.use()


def test_work_on_a_device_that_is_not_current(device: Device) -> None:
    with Device(1) as other:
        device.use()
        with DeviceMemory(8, device=other) as memory:
            memory.write(np.arange(8, dtype=np.uint8))
            back = np.zeros(8, np.uint8)
            memory.read(back)
            assert back.tolist() == list(range(8))
        assert cann_mla.current_device() == 0


def test_unopened_device_is_refused(device: Device) -> None:
    with pytest.raises(ValueError, match=r"open it with cann_mla.Device\(1\)"):
        DeviceMemory(8, device=1)


def test_closing_a_device_closes_what_is_on_it() -> None:
    cann_mla.load("sim")
    device = Device(1)
    stream, event, memory = Stream(), Event(), DeviceMemory(64)
    memory.fill(1, stream=stream)
    device.close()
    assert stream.closed
    assert event.closed
    assert memory.closed
    assert c.cannMlaSimDeviceBytes(1) == 0
    with pytest.raises(ClosedError, match="open the device again"):
        device.use()


def test_device_opened_twice_is_given_back_by_the_last() -> None:
    cann_mla.load("sim")
    first, second = Device(1), Device(1)
    memory = DeviceMemory(64)
    first.close()
    assert not memory.closed
    second.close()
    assert memory.closed


def test_own_context(device: Device) -> None:
    with Context(device) as context, Stream() as stream, DeviceMemory(16) as memory:
        memory.fill(1, stream=stream)
        stream.synchronize()
        assert context.device == 0
    device.use()
    assert cann_mla.current_device() == 0

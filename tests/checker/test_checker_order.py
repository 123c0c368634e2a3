"""The order of streams and host: who comes after whom, by which means, and what is found where nothing orders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from catalogue.steps import NBYTES, cast, destroy, malloc, memory, moved, new_event, new_stream, streams, tensor

import cann_mla
from cann_mla import c, simulator
from cann_mla.binding import abi

pytestmark = pytest.mark.usefixtures("device")
D2D, D2H, H2D = c.ACL_MEMCPY_DEVICE_TO_DEVICE, c.ACL_MEMCPY_DEVICE_TO_HOST, c.ACL_MEMCPY_HOST_TO_DEVICE


def found(program: Callable[[], None]) -> list[str]:
    """Rules that a program breaks; every finding once."""
    with simulator.watch() as watch:
        program()
    assert all(finding.count == 1 for finding in watch.findings)
    return [finding.rule for finding in watch.findings]


def write(address: Any, stream: Any) -> None:
    c.aclrtMemsetAsync(address, NBYTES, 1, NBYTES, stream)


def settle() -> None:
    """Let the streams get done: what nothing orders is found without any bytes being raced for."""
    time.sleep(0.03)


def record(stream: Any) -> Any:
    event = new_event()
    c.aclrtRecordEvent(event, stream)
    return event


def notified(first: Any, second: Any) -> None:
    notify = c.new("aclrtNotify *")
    c.aclrtCreateNotify(notify, 0)
    c.aclrtRecordNotify(notify[0], first)
    c.aclrtWaitAndResetNotify(notify[0], second, 0)


def through_the_host(first: Any, _second: Any) -> None:
    c.aclrtSynchronizeStream(first)


def by_an_event(first: Any, second: Any) -> None:
    c.aclrtStreamWaitEvent(second, record(first))


def by_a_third_stream(first: Any, second: Any) -> None:
    third = new_stream()
    by_an_event(first, third)
    by_an_event(third, second)


def by_a_stream_that_waited(first: Any, _second: Any) -> None:
    """The host waits for another stream, which has waited for the first."""
    third = new_stream()
    by_an_event(first, third)
    c.aclrtSynchronizeStream(third)
    c.aclrtDestroyStream(third)


def by_nothing(_first: Any, _second: Any) -> None:
    settle()


def by_the_wrong_stream(first: Any, second: Any) -> None:
    c.aclrtSynchronizeStream(second)
    by_an_event(second, first)
    settle()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (notified, []),
        (through_the_host, []),
        (by_an_event, []),
        (by_a_third_stream, []),
        (by_a_stream_that_waited, []),
        (by_nothing, ["unordered-access"]),
        (by_the_wrong_stream, ["unordered-access"]),
    ],
)
def test_means_of_order(order: Callable[[Any, Any], None], expected: list[str]) -> None:
    def program() -> None:
        with memory(NBYTES) as (shared,), streams(2) as (first, second):
            write(shared, first)
            order(first, second)
            write(shared, second)

    assert found(program) == expected


def test_event_recorded_before_the_write() -> None:
    def program() -> None:
        with memory(NBYTES) as (shared,), streams(2) as (first, second):
            event = record(first)
            write(shared, first)
            settle()
            c.aclrtStreamWaitEvent(second, event)
            write(shared, second)

    assert found(program) == ["unordered-access"]


def test_event_waited_for_before_it_is_recorded() -> None:
    """Its stream stops until the record comes, so what follows the wait follows the record."""

    def program() -> None:
        with memory(NBYTES) as (shared,), streams(2) as (first, second):
            event = new_event()
            c.aclrtStreamWaitEvent(second, event)
            write(shared, second)
            write(shared, first)
            c.aclrtRecordEvent(event, first)

    assert found(program) == []


def test_the_finding_names_both_sides() -> None:
    with simulator.watch() as watch, memory(NBYTES, NBYTES) as (source, shared), streams(2) as (first, second):
        x, y = tensor(source), tensor(shared)
        cast(x, y, first)
        settle()
        write(shared, second)
        c.aclrtSynchronizeStream(first)
        destroy(x, y)
    (finding,) = watch.findings
    assert finding.object.kind == "device memory"
    assert "[4, 8] FP32" in finding.object.text
    assert finding.made.api == "aclrtMalloc"
    assert finding.broken.api == "aclrtMemsetAsync"
    assert "aclnnCast on stream" in finding.what
    assert "as out" in finding.what
    assert "bytes 0 to 127" in finding.what
    assert finding.broken.stream is not None


def test_host_writes_what_a_stream_still_reads() -> None:
    def program() -> None:
        host = np.zeros(NBYTES, np.uint8)
        with memory(NBYTES, NBYTES) as (source, target), streams() as (stream,):
            c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, D2D, stream)
            settle()
            c.aclrtMemcpy(source, NBYTES, c.address(host), NBYTES, H2D)

    assert found(program) == ["unordered-access"]


def test_host_reads_another_part() -> None:
    def program() -> None:
        host = np.zeros(NBYTES, np.uint8)
        with memory(2 * NBYTES) as (shared,), streams() as (stream,):
            write(shared, stream)
            c.aclrtMemcpy(c.address(host), NBYTES, moved(shared, NBYTES), NBYTES, D2H)

    assert found(program) == []


def test_a_stream_waits_for_a_host_function_that_writes() -> None:
    host, started = np.zeros(NBYTES, np.uint8), threading.Event()
    context = c.new("aclrtContext *")

    def program() -> None:
        with memory(NBYTES, NBYTES) as (source, target), streams() as (stream,):
            c.aclrtGetCurrentContext(context)

            def copy(_: Any) -> None:
                started.wait()
                c.aclrtSetCurrentContext(context[0])
                c.aclrtMemcpy(source, NBYTES, c.address(host), NBYTES, H2D)

            function = abi().ffi.callback("void(void *)", copy)
            c.aclrtLaunchHostFunc(stream, function, c.NULL)
            c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, D2D, stream)
            started.set()
            c.aclrtSynchronizeStream(stream)

    assert found(program) == []


def test_parts_of_one_workspace() -> None:
    """A block cut into one workspace for each stream is no shared workspace."""

    def program() -> None:
        size = 1 << 25
        with memory(*[NBYTES] * 3) as (source, a, b), streams(2) as (first, second):
            block = malloc(2 * size, None)
            x, outputs = tensor(source), [tensor(address, dtype=c.ACL_FLOAT16) for address in (a, b)]
            for i, (y, stream) in enumerate(zip(outputs, (first, second), strict=True)):
                needed, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
                c.aclnnCastGetWorkspaceSize(x, c.ACL_FLOAT16, y, needed, executor)
                c.aclnnCast(moved(block, i * size), needed[0], executor[0], stream)
            c.aclrtSynchronizeDevice()
            c.aclrtFree(block)
            destroy(x, *outputs)

    assert found(program) == []


def test_waiting_in_vain_is_told_once() -> None:
    """A wait whose record never comes: the stream is synchronised with a limit, aborted and used on."""

    def program() -> None:
        with streams(2) as (first, second):
            event = record(first)
            c.aclrtStreamWaitEvent(second, event)
            c.aclrtResetEvent(event, second)
            c.aclrtStreamWaitEvent(second, event)
            assert c.aclrtSynchronizeStreamWithTimeout(second, 20) == c.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
            c.aclrtStreamAbort(second)
            c.aclrtDestroyEvent(event)

    assert found(program) == ["event-never-recorded"]


def test_a_record_that_comes_in_time() -> None:
    def program() -> None:
        with streams(2) as (first, second):
            event = new_event()
            c.aclrtStreamWaitEvent(second, event)
            c.aclrtRecordEvent(event, first)
            c.aclrtSynchronizeStream(second)
            c.aclrtDestroyEvent(event)

    assert found(program) == []


def test_work_of_a_destroyed_stream() -> None:
    def destroyed(*, waited_for: bool) -> Callable[[], None]:
        def program() -> None:
            with memory(NBYTES) as (shared,):
                stream, other = new_stream(), new_stream()
                write(shared, stream)
                if waited_for:
                    by_an_event(stream, other)
                    c.aclrtSynchronizeStream(other)
                c.aclrtDestroyStream(stream)
                c.aclrtDestroyStream(other)

        return program

    assert found(destroyed(waited_for=True)) == []
    assert found(destroyed(waited_for=False)) == ["stream-destroyed-with-work"]


def test_what_strict_mode_did_not_see_is_not_held_against_a_program() -> None:
    """Neither the accesses nor the synchronisations from before it was switched on, nor from in between."""
    found_by: list[simulator.Watch] = []
    with memory(NBYTES) as (shared,), streams(2) as (first, second):
        for _ in range(2):
            write(shared, first)
            c.aclrtSynchronizeStream(first)
            with simulator.watch() as watch:
                write(shared, second)
                settle()
            c.aclrtSynchronizeStream(second)
            found_by.append(watch)
    assert [watch.findings for watch in found_by] == [[], []]


def test_many_threads_with_streams_of_their_own(device: cann_mla.Device) -> None:
    """Each thread orders its own work; what they share is only read."""
    failures: list[BaseException] = []

    def work(shared: Any) -> None:
        try:
            device.use()
            with streams(3) as mine:
                for step in range(30):
                    first, second = mine[step % 3], mine[(step + 1) % 3]
                    target = malloc()
                    c.aclrtMemcpyAsync(target, NBYTES, shared, NBYTES, D2D, first)
                    by_an_event(first, second)
                    write(target, second)
                    c.aclrtSynchronizeStream(second)
                    c.aclrtFree(target)
        except BaseException as error:
            failures.append(error)
            raise

    with simulator.watch() as watch, memory(NBYTES) as (shared,):
        threads = [threading.Thread(target=work, args=(shared,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert [finding.text for finding in watch.findings] == []

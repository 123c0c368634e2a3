"""Legal programs of several streams and threads that look suspicious. None may be reported."""

from __future__ import annotations

import threading

import numpy as np

from cann_mla import c, simulator
from cann_mla.binding import abi
from catalogue.steps import (
    NBYTES,
    cast,
    destroy,
    malloc,
    memory,
    moved,
    new_event,
    new_stream,
    plan_cast,
    run_cast,
    streams,
    tensor,
)

DEVICE_TO_DEVICE, DEVICE_TO_HOST = c.ACL_MEMCPY_DEVICE_TO_DEVICE, c.ACL_MEMCPY_DEVICE_TO_HOST


def disjoint_rows_from_two_streams() -> None:
    """Two streams write rows of one cache that are not the same."""
    with memory(NBYTES, NBYTES, 2 * NBYTES) as (a, b, cache), streams(2) as (first, second):
        c.aclrtMemcpyAsync(cache, NBYTES, a, NBYTES, DEVICE_TO_DEVICE, first)
        c.aclrtMemcpyAsync(moved(cache, NBYTES), NBYTES, b, NBYTES, DEVICE_TO_DEVICE, second)


def interleaved_columns_from_two_streams() -> None:
    """Two streams write the left and the right half of a matrix: their ranges overlap, their bytes do not."""
    with memory(NBYTES, 2 * NBYTES, 1024, 1024) as (a, matrix, *workspaces), streams(2) as (first, second):
        x = tensor(a)
        left, right = (tensor(matrix, strides=(16, 1), storage=(4, 16), offset=offset) for offset in (0, 8))
        for y, stream, workspace in zip((left, right), (first, second), workspaces, strict=True):
            run_cast(plan_cast(x, y), stream, workspace)
        destroy(x, left, right)


def readers_on_two_streams() -> None:
    """Two streams read the same memory."""
    with memory(*[NBYTES] * 3) as (a, b, d), streams(2) as (first, second):
        c.aclrtMemcpyAsync(b, NBYTES, a, NBYTES, DEVICE_TO_DEVICE, first)
        c.aclrtMemcpyAsync(d, NBYTES, a, NBYTES, DEVICE_TO_DEVICE, second)


def order_through_a_chain_of_events() -> None:
    """First, second and third stream in a row; waiting for the third is waiting for all."""
    with memory(NBYTES) as (target,), streams(3) as (first, second, third):
        source, events = malloc(), [new_event(), new_event()]
        c.aclrtMemsetAsync(source, NBYTES, 1, NBYTES, first)
        c.aclrtRecordEvent(events[0], first)
        c.aclrtStreamWaitEvent(second, events[0])
        c.aclrtRecordEvent(events[1], second)
        c.aclrtStreamWaitEvent(third, events[1])
        c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, third)
        c.aclrtSynchronizeStream(third)
        c.aclrtFree(source)
        for event in events:
            c.aclrtDestroyEvent(event)


def event_recorded_again() -> None:
    """One event for every step of a pipeline between two streams."""
    with memory(NBYTES, NBYTES) as (a, b), streams(2) as (first, second):
        event = new_event()
        for value in range(3):
            c.aclrtMemsetAsync(a, NBYTES, value, NBYTES, first)
            c.aclrtRecordEvent(event, first)
            c.aclrtStreamWaitEvent(second, event)
            c.aclrtMemcpyAsync(b, NBYTES, a, NBYTES, DEVICE_TO_DEVICE, second)
            c.aclrtRecordEvent(event, second)
            c.aclrtStreamWaitEvent(first, event)
        c.aclrtSynchronizeDevice()
        c.aclrtDestroyEvent(event)


def loop_that_waits_before_the_first_record() -> None:
    """Each round waits until its buffer is free again; in the first there is nothing to wait for."""
    with memory(*[NBYTES] * 4) as (source, target, *buffers), streams(2) as (loading, working):
        filled, emptied = ([c.new("aclrtEvent *") for _ in buffers] for _ in range(2))
        for event in filled + emptied:
            c.aclrtCreateEventExWithFlag(event, c.ACL_EVENT_SYNC)
        for buffer, ready, free in zip(buffers, filled, emptied, strict=True):
            c.aclrtStreamWaitEvent(loading, free[0])
            c.aclrtMemcpyAsync(buffer, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, loading)
            c.aclrtRecordEvent(ready[0], loading)
            c.aclrtStreamWaitEvent(working, ready[0])
            c.aclrtMemcpyAsync(target, NBYTES, buffer, NBYTES, DEVICE_TO_DEVICE, working)
        c.aclrtSynchronizeDevice()
        for event in filled + emptied:
            c.aclrtDestroyEvent(event[0])


def freed_behind_an_abort() -> None:
    """A stream hangs; aborting it stops what ran, so that its memory may go."""
    source, target, stream = malloc(), malloc(), new_stream()
    x, y = tensor(source), tensor(target)
    with simulator.inject("kernel:aclnnCast#1=hang"):
        cast(x, y, stream)
        c.aclrtSynchronizeStreamWithTimeout(stream, 10)
        c.aclrtStreamAbort(stream)
    c.aclrtFree(source)
    c.aclrtFree(target)
    c.aclrtDestroyStream(stream)
    destroy(x, y)


def freed_after_an_event() -> None:
    """The host waits for an event behind the last user, not for the whole stream."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        source, event = malloc(), new_event()
        c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, stream)
        c.aclrtRecordEvent(event, stream)
        c.aclrtMemsetAsync(target, NBYTES, 0, NBYTES, stream)
        c.aclrtSynchronizeEvent(event)
        c.aclrtFree(source)
        c.aclrtSynchronizeStream(stream)
        c.aclrtDestroyEvent(event)


def waiting_by_queries() -> None:
    """The host asks again and again until the event is reached, then until the stream is empty."""
    reached, state = c.new("aclrtEventRecordedStatus *"), c.new("aclrtStreamStatus *")
    with memory(NBYTES) as (target,), streams() as (stream,):
        source, event, host = malloc(), new_event(), np.zeros(NBYTES, np.uint8)
        c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, stream)
        c.aclrtRecordEvent(event, stream)
        while reached[0] != c.ACL_EVENT_RECORDED_STATUS_COMPLETE:
            c.aclrtQueryEventStatus(event, reached)
        c.aclrtFree(source)
        c.aclrtMemsetAsync(target, NBYTES, 0, NBYTES, stream)
        state[0] = c.ACL_STREAM_STATUS_NOT_READY
        while state[0] != c.ACL_STREAM_STATUS_COMPLETE:
            c.aclrtStreamQuery(stream, state)
        c.aclrtMemcpy(c.address(host), NBYTES, target, NBYTES, DEVICE_TO_HOST)
        c.aclrtDestroyEvent(event)


def waiting_through_a_host_function() -> None:
    """The stream itself tells the host, by a function it calls, that a copy is done."""
    done = threading.Event()
    tell = abi().ffi.callback("void(void *)", lambda _: done.set())
    with memory(NBYTES) as (target,), streams() as (stream,):
        source, host = malloc(), np.zeros(NBYTES, np.uint8)
        c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, stream)
        c.aclrtLaunchHostFunc(stream, tell, c.NULL)
        done.wait()
        c.aclrtMemcpy(c.address(host), NBYTES, target, NBYTES, DEVICE_TO_HOST)
        c.aclrtFree(source)
        c.aclrtSynchronizeStream(stream)


def work_handed_from_thread_to_thread() -> None:
    """One thread launches, another one waits and frees: threads agree among themselves."""
    context, source = c.new("aclrtContext *"), malloc()
    c.aclrtGetCurrentContext(context)

    def finish() -> None:
        c.aclrtSetCurrentContext(context[0])
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(source)

    with memory(NBYTES) as (target,), streams() as (stream,):
        c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, stream)
        other = threading.Thread(target=finish)
        other.start()
        other.join()


def default_stream() -> None:
    """The null stream is the default stream of the device."""
    with memory(NBYTES, NBYTES) as (a, b):
        x, y = tensor(a), tensor(b)
        cast(x, y, c.NULL)
        c.aclrtSynchronizeStream(c.NULL)
        destroy(x, y)


def pageable_source_reused_at_once() -> None:
    """An asynchronous copy from pageable memory returns when it has read its source; pinned memory has to wait."""
    pinned, host = c.new("void **"), np.zeros(NBYTES, np.uint8)
    c.aclrtMallocHost(pinned, NBYTES)
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        c.aclrtMemcpyAsync(a, NBYTES, c.address(host), NBYTES, c.ACL_MEMCPY_HOST_TO_DEVICE, stream)
        host[:] = 1
        c.aclrtMemcpyAsync(b, NBYTES, pinned[0], NBYTES, c.ACL_MEMCPY_HOST_TO_DEVICE, stream)
        c.aclrtSynchronizeStream(stream)
        c.aclrtFreeHost(pinned[0])


def memory_freed_behind_its_stream() -> None:
    """Teardown in the order of the samples' other half: stream first, then the memory."""
    stream, source, target = new_stream(), malloc(), malloc()
    c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, DEVICE_TO_DEVICE, stream)
    c.aclrtSynchronizeStream(stream)
    c.aclrtDestroyStream(stream)
    c.aclrtFree(source)
    c.aclrtFree(target)


HABITS_OF_ORDER = (
    disjoint_rows_from_two_streams,
    interleaved_columns_from_two_streams,
    readers_on_two_streams,
    order_through_a_chain_of_events,
    event_recorded_again,
    loop_that_waits_before_the_first_record,
    freed_behind_an_abort,
    freed_after_an_event,
    waiting_by_queries,
    waiting_through_a_host_function,
    work_handed_from_thread_to_thread,
    default_stream,
    pageable_source_reused_at_once,
    memory_freed_behind_its_stream,
)

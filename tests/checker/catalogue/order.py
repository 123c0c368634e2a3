"""Programs about the order of streams and threads, each wrong in one way when asked to be, and right otherwise."""

from __future__ import annotations

from threading import Thread

import numpy as np

from cann_mla import c
from catalogue.steps import (
    NBYTES,
    cast,
    destroy,
    malloc,
    memory,
    new_event,
    new_notify,
    new_stream,
    plan_cast,
    run_cast,
    streams,
    tensor,
)


def unordered_access(wrong: bool) -> None:
    """One stream writes what another reads, and no event lies between."""
    with memory(NBYTES) as (target,), streams(2) as (writer, reader):
        shared = malloc()  # made
        c.aclrtMemsetAsync(shared, NBYTES, 1, NBYTES, writer)
        event = new_event()
        c.aclrtRecordEvent(event, writer)
        if not wrong:
            c.aclrtStreamWaitEvent(reader, event)
        kind = c.ACL_MEMCPY_DEVICE_TO_DEVICE
        c.aclrtMemcpyAsync(target, NBYTES, shared, NBYTES, kind, reader)  # broken
        c.aclrtSynchronizeDevice()
        c.aclrtDestroyEvent(event)
        c.aclrtFree(shared)


def unordered_operators(wrong: bool) -> None:
    """Two operators write one output from two streams."""
    with memory(NBYTES) as (source,), streams(2) as (first, second):
        shared = malloc()  # made
        x, y = tensor(source), tensor(shared)
        cast(x, y, first)
        if not wrong:
            c.aclrtSynchronizeStream(first)
        cast(x, y, second)  # broken
        c.aclrtSynchronizeDevice()
        destroy(x, y)
        c.aclrtFree(shared)


def shared_workspace(wrong: bool) -> None:
    """Two launches on two streams are given one workspace."""
    with memory(NBYTES, NBYTES, NBYTES) as (source, a, b), streams(2) as (first, second):
        x = tensor(source)
        y, z = (tensor(address, dtype=c.ACL_FLOAT16) for address in (a, b))
        planned = plan_cast(x, y, c.ACL_FLOAT16)
        workspace = malloc(planned.workspace_size, None)  # made
        run_cast(planned, first, workspace)
        if not wrong:
            c.aclrtSynchronizeStream(first)
        run_cast(plan_cast(x, z, c.ACL_FLOAT16), second, workspace)  # broken
        c.aclrtSynchronizeDevice()
        destroy(x, y, z)
        c.aclrtFree(workspace)


def read_before_writer(wrong: bool) -> None:
    """A result is fetched while its writer may still be queued: aclrtMemcpy does not wait for streams."""
    host = np.zeros(NBYTES, np.uint8)
    with memory(NBYTES) as (source,), streams() as (stream,):
        result = malloc()  # made
        x, y = tensor(source), tensor(result)
        cast(x, y, stream)
        if not wrong:
            c.aclrtSynchronizeStream(stream)
        c.aclrtMemcpy(c.address(host), NBYTES, result, NBYTES, c.ACL_MEMCPY_DEVICE_TO_HOST)  # broken
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)
        c.aclrtFree(result)


def event_never_recorded(wrong: bool) -> None:
    """A stream waits for an event that nobody has recorded."""
    with streams(2) as (first, second):
        event = new_event()  # made
        if not wrong:
            c.aclrtRecordEvent(event, first)
        c.aclrtStreamWaitEvent(second, event)  # broken
        if wrong:
            c.aclrtSynchronizeStreamWithTimeout(second, 10)
            c.aclrtRecordEvent(event, first)  # or the stream would wait for ever
        c.aclrtSynchronizeDevice()
        c.aclrtDestroyEvent(event)


def notify_never_recorded(wrong: bool) -> None:
    """A notify is recorded once, and waited for twice."""
    with streams(2) as (first, second):
        notify = new_notify()  # made
        c.aclrtRecordNotify(notify, first)
        c.aclrtWaitAndResetNotify(notify, second, 0)
        c.aclrtSynchronizeStream(second)  # or both records might come before the first wait, and count once
        if not wrong:
            c.aclrtRecordNotify(notify, first)
        c.aclrtWaitAndResetNotify(notify, second, 0)  # broken
        if wrong:
            c.aclrtSynchronizeStreamWithTimeout(second, 10)
            c.aclrtRecordNotify(notify, first)  # or the stream would wait for ever
        c.aclrtSynchronizeDevice()
        c.aclrtDestroyNotify(notify)


def stream_destroyed_with_work(wrong: bool) -> None:
    """A stream is destroyed with a copy queued on it."""
    with memory(NBYTES, NBYTES) as (a, b):
        x, y = tensor(a), tensor(b)
        stream = new_stream()  # made
        cast(x, y, stream)
        if not wrong:
            c.aclrtSynchronizeStream(stream)
        c.aclrtDestroyStream(stream)  # broken
        destroy(x, y)


def thread_without_device(wrong: bool) -> None:
    """A new thread works with a stream before it has chosen a device."""
    context = c.new("aclrtContext *")
    c.aclrtGetCurrentContext(context)

    def work() -> None:
        if not wrong:
            c.aclrtSetCurrentContext(context[0])
        c.aclrtMemsetAsync(address, NBYTES, 0, NBYTES, stream)  # broken

    with memory(NBYTES) as (address,), streams() as (stream,):
        thread = Thread(target=work)
        thread.start()
        thread.join()
        c.aclrtSynchronizeStream(stream)

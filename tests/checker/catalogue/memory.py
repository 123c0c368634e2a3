"""Programs about memory, each wrong in one way when asked to be, and right otherwise."""

from __future__ import annotations

import numpy as np

from cann_mla import c
from cann_mla.atb import AtbContext
from catalogue.steps import (
    NBYTES,
    RingMla,
    cast,
    destroy,
    malloc,
    memory,
    memory_pool,
    moved,
    new_event,
    one_length,
    plan_cast,
    pool_malloc,
    run_cast,
    streams,
    tensor,
)


def freed_in_use(wrong: bool) -> None:
    """Memory is freed while a copy that reads it waits on the stream; aclrtFree does not wait."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        source = malloc()  # made
        x, y = tensor(source), tensor(target)
        cast(x, y, stream)
        if not wrong:
            c.aclrtSynchronizeStream(stream)
        c.aclrtFree(source)  # broken
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)


def workspace_freed_in_use(wrong: bool) -> None:
    """The workspace of a launch is freed before the stream has passed the launch."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b, dtype=c.ACL_FLOAT16)
        planned = plan_cast(x, y, c.ACL_FLOAT16)
        workspace = malloc(planned.workspace_size, None)  # made
        run_cast(planned, stream, workspace)
        if not wrong:
            c.aclrtSynchronizeStream(stream)
        c.aclrtFree(workspace)  # broken
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)


def use_after_free(wrong: bool) -> None:
    """An operator is launched on memory that is gone."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        source = malloc()  # made
        x, y = tensor(source), tensor(target)
        if wrong:
            c.aclrtFree(source)
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        if not wrong:
            c.aclrtFree(source)
        destroy(x, y)


def copy_after_free(wrong: bool) -> None:
    """A result is fetched from memory that is gone."""
    source, host = malloc(), np.zeros(NBYTES, np.uint8)  # made
    if wrong:
        c.aclrtFree(source)
    c.aclrtMemcpy(c.address(host), NBYTES, source, NBYTES, c.ACL_MEMCPY_DEVICE_TO_HOST)  # broken
    if not wrong:
        c.aclrtFree(source)


def pool_memory_used_behind_its_free(wrong: bool) -> None:
    """One stream gives memory back to its pool; another one, which waits for that, still uses it."""
    with memory_pool() as pool, streams(2) as (first, second):
        address, event = pool_malloc(pool, first), new_event()  # made
        if wrong:
            c.aclrtMemPoolFreeAsync(address, first)
        c.aclrtRecordEvent(event, first)
        c.aclrtStreamWaitEvent(second, event)
        c.aclrtMemsetAsync(address, NBYTES, 0, NBYTES, second)  # broken
        if not wrong:
            c.aclrtMemPoolFreeAsync(address, second)
        c.aclrtSynchronizeDevice()
        c.aclrtDestroyEvent(event)


def double_free(wrong: bool) -> None:
    """Memory is freed twice."""
    address = malloc()  # made
    c.aclrtFree(address)
    if wrong:
        c.aclrtFree(address)  # broken


def double_free_to_a_pool(wrong: bool) -> None:
    """Memory of a pool is freed at once, and then in the order of its stream."""
    with memory_pool() as pool, streams() as (stream,):
        address = pool_malloc(pool, stream)  # made
        c.aclrtFree(address)
        if wrong:
            c.aclrtMemPoolFreeAsync(address, stream)  # broken


def host_pointer_for_device(wrong: bool) -> None:
    """A tensor carries the address of a NumPy array where the kernel wants device memory."""
    host = np.zeros(NBYTES, np.uint8)
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x = tensor(c.address(host) if wrong else a)  # made
        y = tensor(b)
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)


def device_pointer_for_host(wrong: bool) -> None:
    """ATB reads the sequence lengths on the host, and they lie on the device."""
    host = np.ones(1, np.int32)
    with memory(32, 2 * NBYTES) as (address, query):
        context = AtbContext()
        lengths = tensor(address if wrong else c.address(host), (1,), c.ACL_INT32)  # made
        operation = RingMla(context, lengths, query)  # broken
        operation.destroy()
        context.close()


def atb_operand_freed_in_use(wrong: bool) -> None:
    """The query of an ATB operation is freed while the operation waits on the stream."""
    with streams() as (stream,):
        context, query = AtbContext(), malloc(2 * NBYTES)  # made
        _lengths, seq_len = one_length()
        operation = RingMla(context, seq_len, query)
        operation.run(stream)
        if not wrong:
            c.aclrtSynchronizeStream(stream)
        c.aclrtFree(query)  # broken
        c.aclrtSynchronizeStream(stream)
        operation.destroy()
        context.close()


def atb_operand_never_written(wrong: bool) -> None:
    """The query of an ATB operation has no content."""
    with streams() as (stream,):
        context, query = AtbContext(), malloc(2 * NBYTES, None if wrong else 0)  # made
        _lengths, seq_len = one_length()
        operation = RingMla(context, seq_len, query)
        operation.run(stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(query)
        operation.destroy()
        context.close()


def out_of_bounds_write(wrong: bool) -> None:
    """The output has more elements than there is memory behind it."""
    with memory(2 * NBYTES) as (source,), streams() as (stream,):
        target = malloc(NBYTES)  # made
        shape = (8, 8) if wrong else (4, 8)
        x, y = tensor(source, shape), tensor(target, shape)
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(target)
        destroy(x, y)


def read_past_the_end(wrong: bool) -> None:
    """The input has more elements than there is memory behind it."""
    with memory(2 * NBYTES) as (target,), streams() as (stream,):
        source = malloc(NBYTES)  # made
        shape = (8, 8) if wrong else (4, 8)
        x, y = tensor(source, shape), tensor(target, shape)
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(source)
        destroy(x, y)


def uninitialised_read(wrong: bool) -> None:
    """An operator reads memory that nobody has written."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        source = malloc(byte=None if wrong else 0)  # made
        x, y = tensor(source), tensor(target)
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(source)
        destroy(x, y)


def workspace_too_small(wrong: bool) -> None:
    """The workspace that is passed is half of what phase one asked for."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b, dtype=c.ACL_FLOAT16)
        planned = plan_cast(x, y, c.ACL_FLOAT16)
        size = planned.workspace_size // 2 if wrong else planned.workspace_size
        workspace = malloc(size, None)  # made
        c.aclnnCast(workspace, planned.workspace_size, planned.executor, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(workspace)
        destroy(x, y)


def workspace_size_understated(wrong: bool) -> None:
    """Phase two is told of a smaller workspace than phase one asked for."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b, dtype=c.ACL_FLOAT16)
        planned = plan_cast(x, y, c.ACL_FLOAT16)  # made
        workspace = malloc(planned.workspace_size, None)
        size = planned.workspace_size // 2 if wrong else planned.workspace_size
        c.aclnnCast(workspace, size, planned.executor, stream)  # broken
        if wrong:  # the launch was refused, and did not consume the executor
            c.aclDestroyAclOpExecutor(planned.executor)
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(workspace)
        destroy(x, y)


def misaligned_address(wrong: bool) -> None:
    """A tensor begins 4 bytes into its memory; the device wants 32-byte steps."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        source = malloc(2 * NBYTES)
        x, y = tensor(moved(source, 4 if wrong else 32)), tensor(target)  # made
        cast(x, y, stream)  # broken
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(source)
        destroy(x, y)


def view_leaves_storage(wrong: bool) -> None:
    """Rows of the view are 16 elements apart, and the storage ends after the second row."""
    x = tensor(strides=(16, 1), storage=(4, 8) if wrong else (4, 16))  # made and broken
    destroy(x)


def overlapping_copy(wrong: bool) -> None:
    """A copy within one memory whose source and target share bytes."""
    address = malloc(2 * NBYTES)  # made
    target = moved(address, 64 if wrong else NBYTES)
    c.aclrtMemcpy(target, NBYTES, address, NBYTES, c.ACL_MEMCPY_DEVICE_TO_DEVICE)  # broken
    c.aclrtFree(address)


def copy_exceeds_buffer(wrong: bool) -> None:
    """More is copied than the memory holds; destMax says what the caller believes."""
    host = np.zeros(2 * NBYTES, np.uint8)
    address = malloc(NBYTES)  # made
    size = 2 * NBYTES if wrong else NBYTES
    c.aclrtMemcpy(address, size, c.address(host), size, c.ACL_MEMCPY_HOST_TO_DEVICE)  # broken
    c.aclrtFree(address)


def wrong_copy_direction(wrong: bool) -> None:
    """The kind says host to device, the pointers say the reverse."""
    host = np.zeros(NBYTES, np.uint8)
    address = malloc()  # made
    kind = c.ACL_MEMCPY_HOST_TO_DEVICE if wrong else c.ACL_MEMCPY_DEVICE_TO_HOST
    c.aclrtMemcpy(c.address(host), NBYTES, address, NBYTES, kind)  # broken
    c.aclrtFree(address)

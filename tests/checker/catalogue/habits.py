"""Legal programs that look suspicious: the habits of CANN's samples and of those who call it. None may be reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla import c
from catalogue.steps import (
    NBYTES,
    Attention,
    cast,
    destroy,
    malloc,
    memory,
    moved,
    plan_cast,
    run_cast,
    streams,
    tensor,
)

DEVICE_TO_DEVICE, DEVICE_TO_HOST = c.ACL_MEMCPY_DEVICE_TO_DEVICE, c.ACL_MEMCPY_DEVICE_TO_HOST


def tensors_destroyed_right_after_phase_two() -> None:
    """Executor and tensors go before the stream is done: phase two has taken from them what it needs."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b)
        cast(x, y, stream)
        destroy(x, y)


def lists_destroyed_right_after_phase_two() -> None:
    """The list destroys its members; arrays and scalars are copied when they are made."""
    with streams() as (stream,):
        attention = Attention()
        attention.run(stream)
        c.aclDestroyTensorList(attention.keys)
        c.aclDestroyTensorList(attention.values)
        c.aclrtSynchronizeStream(stream)
        attention.destroy()


def plans_run_in_another_order() -> None:
    """Two phases one, then their phases two the other way round."""
    with memory(NBYTES, NBYTES, NBYTES) as (a, b, d), streams() as (stream,):
        x, y, z = tensor(a), tensor(b), tensor(d)
        first, second = plan_cast(x, y), plan_cast(x, z)
        run_cast(second, stream)
        run_cast(first, stream)
        destroy(x, y, z)


def planned_only_to_know_the_workspace() -> None:
    """An executor that never runs is given back."""
    x, y = tensor(shape=(0, 8)), tensor(shape=(0, 8))
    c.aclDestroyAclOpExecutor(plan_cast(x, y).executor)
    destroy(x, y)


def repeatable_executor_on_new_addresses() -> None:
    """One plan, run again and again without waiting; the old memory goes when the stream has passed it."""
    with memory(NBYTES, NBYTES, NBYTES) as (a, b, d), streams() as (stream,):
        x, y = tensor(a), tensor(b)
        planned = plan_cast(x, y)
        c.aclSetAclOpExecutorRepeatable(planned.executor)
        run_cast(planned, stream)
        c.aclSetInputTensorAddr(planned.executor, 0, x, d)
        run_cast(planned, stream)
        c.aclrtSynchronizeStream(stream)
        c.aclDestroyAclOpExecutor(planned.executor)
        destroy(x, y)


def one_workspace_for_the_launches_of_a_stream() -> None:
    """Launches on one stream run one after the other, so they may share a workspace."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b, dtype=c.ACL_FLOAT16)
        workspace = malloc(plan_and_forget(x, y), None)
        for _ in range(3):
            run_cast(plan_cast(x, y, c.ACL_FLOAT16), stream, workspace)
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(workspace)
        destroy(x, y)


def plan_and_forget(x: Any, y: Any) -> int:
    """The workspace that a cast to FP16 needs."""
    planned = plan_cast(x, y, c.ACL_FLOAT16)
    c.aclDestroyAclOpExecutor(planned.executor)
    return planned.workspace_size


def workspace_larger_than_needed() -> None:
    """One workspace for all operators, as large as the largest of them needs."""
    with memory(NBYTES, NBYTES) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b)
        workspace = malloc(1 << 20, None)
        c.aclnnCast(workspace, 1 << 20, plan_cast(x, y).executor, stream)
        c.aclrtSynchronizeStream(stream)
        c.aclrtFree(workspace)
        destroy(x, y)


def only_the_written_rows_are_read() -> None:
    """A buffer for many rows of which some are filled: reading those is reading what was written."""
    with memory(NBYTES) as (target,), streams() as (stream,):
        cache, host = malloc(8 * NBYTES, None), np.zeros(NBYTES, np.uint8)
        c.aclrtMemcpy(moved(cache, NBYTES), 7 * NBYTES, c.address(host), NBYTES, c.ACL_MEMCPY_HOST_TO_DEVICE)
        x, y = tensor(moved(cache, NBYTES)), tensor(target)
        cast(x, y, stream)
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)
        c.aclrtFree(cache)


def copies_of_unwritten_bytes_between_devices_memories() -> None:
    """Moving a half-filled buffer as a whole is no use of its content; using a copied hole would be."""
    with memory(2 * NBYTES) as (target,):
        half, host = malloc(2 * NBYTES, None), np.zeros(NBYTES, np.uint8)
        c.aclrtMemset(half, 2 * NBYTES, 0, NBYTES)
        c.aclrtMemcpy(target, 2 * NBYTES, half, 2 * NBYTES, DEVICE_TO_DEVICE)
        c.aclrtMemcpy(c.address(host), NBYTES, target, NBYTES, DEVICE_TO_HOST)
        c.aclrtFree(half)


def direction_left_to_the_runtime() -> None:
    """The kind that lets the runtime look at the pointers."""
    host = np.zeros(NBYTES, np.uint8)
    with memory(NBYTES) as (address,):
        c.aclrtMemcpy(address, NBYTES, c.address(host), NBYTES, c.ACL_MEMCPY_DEFAULT)
        c.aclrtMemcpy(c.address(host), NBYTES, address, NBYTES, c.ACL_MEMCPY_DEFAULT)


def output_on_its_input() -> None:
    """An operator that works in place is given one memory twice."""
    with memory(NBYTES) as (address,), streams() as (stream,):
        x, y = tensor(address), tensor(address)
        cast(x, y, stream)
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)


def null_is_destroyed() -> None:
    """Destroying nothing is allowed, so cleanup code need not ask."""
    c.aclDestroyTensor(c.NULL)
    c.aclDestroyTensorList(c.NULL)
    c.aclDestroyIntArray(c.NULL)


HABITS = (
    tensors_destroyed_right_after_phase_two,
    lists_destroyed_right_after_phase_two,
    plans_run_in_another_order,
    planned_only_to_know_the_workspace,
    repeatable_executor_on_new_addresses,
    one_workspace_for_the_launches_of_a_stream,
    workspace_larger_than_needed,
    only_the_written_rows_are_read,
    copies_of_unwritten_bytes_between_devices_memories,
    direction_left_to_the_runtime,
    output_on_its_input,
    null_is_destroyed,
)

"""The catalogue of defects: small programs that are wrong in one way, each with its corrected twin.

Every program is a function that takes ``wrong``: called with False it is the corrected twin. ``python -m catalogue
wrong`` runs all of them in one process, ``right`` all the twins; names behind that choose some.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from catalogue import lifetime, memory, order, process


class Thing(NamedTuple):
    """An object that a finding is about: its kind, and the C function that makes it."""

    kind: str
    made: str


class Defect(NamedTuple):
    """One line of the catalogue: what has to be found in a program, about what, and the C call that breaks the rule.

    ``program`` is wrong when it is given True, and right when it is given False. Where it makes the object and where
    it breaks the rule is marked in its source.
    """

    rule: str
    program: Callable[[bool], None]
    thing: Thing | None
    broken: str

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.program.__name__

    def line_of(self, mark: str) -> tuple[str, int] | None:
        """File and line of the program that has the mark in its comment; None if there is no such line."""
        file, first, lines = _source(self.program)
        for number, line in enumerate(lines, first):
            if mark in line.partition("  # ")[2].split():
                return file, number
        return None

    def holds(self, file: str, line: int) -> bool:
        """Whether a line of source belongs to the program."""
        own, first, lines = _source(self.program)
        return file == own and first <= line < first + len(lines)


@cache
def _source(program: Callable[[bool], None]) -> tuple[str, int, list[str]]:
    lines, first = inspect.getsourcelines(program)
    return str(inspect.getsourcefile(program)), first, lines


TENSOR = Thing("aclTensor", "aclCreateTensor")
LIST = Thing("aclTensorList", "aclCreateTensorList")
ARRAY = Thing("aclIntArray", "aclCreateIntArray")
EXECUTOR = Thing("aclOpExecutor", "aclnnCastGetWorkspaceSize")
QUANTISER = Thing("aclOpExecutor", "aclnnDynamicQuantGetWorkspaceSize")
OPERATION = Thing("atb::Operation", "AtbRingMLAGetWorkspaceSize")
MEMORY = Thing("device memory", "aclrtMalloc")
POOL_MEMORY = Thing("device memory", "aclrtMemPoolMallocAsync")
NOTIFY = Thing("notify", "aclrtCreateNotify")
PINNED = Thing("pinned host memory", "aclrtMallocHost")
STREAM = Thing("stream", "aclrtCreateStream")
EVENT = Thing("event", "aclrtCreateEvent")
PROCESS = Thing("process", "aclInit")

CATALOGUE = (
    #      rule                   program                                 about      broken by
    Defect("double-destroy", lifetime.double_destroy, TENSOR, "aclDestroyTensor"),
    Defect("double-destroy", lifetime.double_destroy_of_a_list_member, TENSOR, "aclDestroyTensor"),
    Defect("double-destroy", lifetime.member_of_two_lists, TENSOR, "aclDestroyTensorList"),
    Defect("double-destroy", lifetime.double_destroy_of_a_stream, STREAM, "aclrtDestroyStream"),
    Defect("use-after-destroy", lifetime.use_after_destroy, TENSOR, "aclnnCastGetWorkspaceSize"),
    Defect("use-after-destroy", lifetime.use_after_destroy_in_a_list, TENSOR, "aclCreateTensorList"),
    Defect("use-after-destroy", lifetime.use_after_destroy_of_an_event, EVENT, "aclrtStreamWaitEvent"),
    Defect("destroyed-list-member", lifetime.destroyed_list_member, TENSOR, "aclDestroyTensor"),
    Defect("leaked-list", lifetime.leaked_list, LIST, "aclFinalize"),
    Defect("tensor-destroyed-between-phases", lifetime.tensor_destroyed_between_phases, TENSOR, "aclDestroyTensor"),
    Defect("tensor-destroyed-between-phases", lifetime.list_destroyed_between_phases, TENSOR, "aclDestroyTensorList"),
    Defect("executor-used-twice", lifetime.executor_used_twice, EXECUTOR, "aclnnCast"),
    Defect("executor-never-run", lifetime.executor_never_run, EXECUTOR, "aclFinalize"),
    Defect("repeatable-executor-leaked", lifetime.repeatable_executor_leaked, EXECUTOR, "aclFinalize"),
    Defect("refresh-of-null-operand", lifetime.refresh_of_null_operand, QUANTISER, "aclSetInputTensorAddr"),
    Defect("operation-outlives-context", lifetime.operation_outlives_context, OPERATION, "atb::DestroyContext"),
    Defect("freed-in-use", memory.freed_in_use, MEMORY, "aclrtFree"),
    Defect("freed-in-use", memory.workspace_freed_in_use, MEMORY, "aclrtFree"),
    Defect("freed-in-use", memory.atb_operand_freed_in_use, MEMORY, "aclrtFree"),
    Defect("use-after-free", memory.use_after_free, MEMORY, "aclnnCast"),
    Defect("use-after-free", memory.copy_after_free, MEMORY, "aclrtMemcpy"),
    Defect("use-after-free", memory.pool_memory_used_behind_its_free, POOL_MEMORY, "aclrtMemsetAsync"),
    Defect("double-free", memory.double_free_to_a_pool, POOL_MEMORY, "aclrtMemPoolFreeAsync"),
    Defect("double-free", memory.double_free, MEMORY, "aclrtFree"),
    Defect("host-pointer-for-device", memory.host_pointer_for_device, TENSOR, "aclnnCast"),
    Defect("device-pointer-for-host", memory.device_pointer_for_host, TENSOR, "AtbRingMLAGetWorkspaceSize"),
    Defect("out-of-bounds-write", memory.out_of_bounds_write, MEMORY, "aclnnCast"),
    Defect("uninitialised-read", memory.uninitialised_read, MEMORY, "aclnnCast"),
    Defect("uninitialised-read", memory.atb_operand_never_written, MEMORY, "AtbRingMLA"),
    Defect("workspace-too-small", memory.workspace_too_small, MEMORY, "aclnnCast"),
    Defect("workspace-too-small", memory.workspace_size_understated, EXECUTOR, "aclnnCast"),
    Defect("misaligned-address", memory.misaligned_address, TENSOR, "aclnnCast"),
    Defect("view-leaves-storage", memory.read_past_the_end, MEMORY, "aclnnCast"),
    Defect("view-leaves-storage", memory.view_leaves_storage, TENSOR, "aclCreateTensor"),
    Defect("overlapping-copy", memory.overlapping_copy, MEMORY, "aclrtMemcpy"),
    Defect("copy-exceeds-buffer", memory.copy_exceeds_buffer, MEMORY, "aclrtMemcpy"),
    Defect("wrong-copy-direction", memory.wrong_copy_direction, MEMORY, "aclrtMemcpy"),
    Defect("unordered-access", order.unordered_access, MEMORY, "aclrtMemcpyAsync"),
    Defect("unordered-access", order.unordered_operators, MEMORY, "aclnnCast"),
    Defect("shared-workspace", order.shared_workspace, MEMORY, "aclnnCast"),
    Defect("read-before-writer", order.read_before_writer, MEMORY, "aclrtMemcpy"),
    Defect("event-never-recorded", order.event_never_recorded, EVENT, "aclrtStreamWaitEvent"),
    Defect("event-never-recorded", order.notify_never_recorded, NOTIFY, "aclrtWaitAndResetNotify"),
    Defect("stream-destroyed-with-work", order.stream_destroyed_with_work, STREAM, "aclrtDestroyStream"),
    Defect("thread-without-device", order.thread_without_device, None, "aclrtMemsetAsync"),
    Defect("leak", process.leaked_memory, MEMORY, "aclFinalize"),
    Defect("leak", process.leaked_host_memory, PINNED, "aclFinalize"),
    Defect("leak", process.leaked_tensor, TENSOR, "aclFinalize"),
    Defect("leak", process.leaked_living_list, LIST, "aclFinalize"),
    Defect("leak", process.leaked_array, ARRAY, "aclFinalize"),
    Defect("leak", process.leaked_event, EVENT, "aclFinalize"),
    Defect("init-twice", process.init_twice, PROCESS, "aclInit"),
)

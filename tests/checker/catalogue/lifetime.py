"""Programs about the lives of handles, each wrong in one way when asked to be, and right otherwise.

The call that makes the object is on the line marked ``made``, the call that breaks the rule on the line marked
``broken``: that is where a finding has to point.
"""

from __future__ import annotations

from cann_mla import c
from cann_mla.atb import AtbContext
from catalogue.steps import (
    NBYTES,
    Attention,
    Planned,
    RingMla,
    destroy,
    memory,
    new_event,
    new_stream,
    one_length,
    plan_cast,
    run_cast,
    streams,
    tensor,
    tensor_list,
)


def double_destroy(wrong: bool) -> None:
    """A tensor is destroyed twice."""
    x = tensor()  # made
    c.aclDestroyTensor(x)
    if wrong:
        c.aclDestroyTensor(x)  # broken


def double_destroy_of_a_stream(wrong: bool) -> None:
    """A stream is destroyed twice."""
    stream = new_stream()  # made
    c.aclrtDestroyStream(stream)
    if wrong:
        c.aclrtDestroyStream(stream)  # broken


def double_destroy_of_a_list_member(wrong: bool) -> None:
    """The list has destroyed its member, and then the member is destroyed."""
    x = tensor()  # made
    c.aclDestroyTensorList(tensor_list(x))
    if wrong:
        c.aclDestroyTensor(x)  # broken


def use_after_destroy(wrong: bool) -> None:
    """Phase one is given a tensor that is gone."""
    with memory(128, 128) as (a, b):
        x = tensor(a)  # made
        y = tensor(b)
        if wrong:
            c.aclDestroyTensor(x)
        planned = plan_cast(x, y)  # broken
        if not wrong:
            c.aclDestroyAclOpExecutor(planned.executor)
            c.aclDestroyTensor(x)
        c.aclDestroyTensor(y)


def use_after_destroy_of_an_event(wrong: bool) -> None:
    """A stream is to wait for an event that is gone."""
    with streams() as (stream,):
        event = new_event()  # made
        c.aclrtRecordEvent(event, stream)
        c.aclrtSynchronizeStream(stream)
        if wrong:
            c.aclrtDestroyEvent(event)
        c.aclrtStreamWaitEvent(stream, event)  # broken
        if not wrong:
            c.aclrtSynchronizeStream(stream)
            c.aclrtDestroyEvent(event)


def use_after_destroy_in_a_list(wrong: bool) -> None:
    """A list is made of a tensor that is gone."""
    x = tensor()  # made
    if wrong:
        c.aclDestroyTensor(x)
    c.aclDestroyTensorList(tensor_list(x))  # broken


def member_of_two_lists(wrong: bool) -> None:
    """Two lists own one tensor, and both destroy it."""
    x = tensor()  # made
    lists = [tensor_list(x), tensor_list(x if wrong else tensor())]
    for each in lists:
        c.aclDestroyTensorList(each)  # broken


def destroyed_list_member(wrong: bool) -> None:
    """A tensor is destroyed while the list that owns it lives."""
    x = tensor()  # made
    members = tensor_list(x, tensor())
    if wrong:
        c.aclDestroyTensor(x)  # broken
    c.aclDestroyTensorList(members)


def leaked_list(wrong: bool) -> None:
    """The members of a list are destroyed, and the list never: what CANN's sample of attention V4 does."""
    x = tensor()
    members = tensor_list(x)  # made
    if wrong:
        c.aclDestroyTensor(x)
    else:
        c.aclDestroyTensorList(members)


def tensor_destroyed_between_phases(wrong: bool) -> None:
    """The executor of phase one still needs the tensor in phase two."""
    with memory(128, 128) as (a, b), streams() as (stream,):
        x = tensor(a)  # made
        y = tensor(b)
        planned = plan_cast(x, y)
        if wrong:
            c.aclDestroyTensor(x)  # broken
        run_cast(planned, stream)
        c.aclrtSynchronizeStream(stream)
        destroy(y) if wrong else destroy(x, y)


def list_destroyed_between_phases(wrong: bool) -> None:
    """The keys go with their list, before phase two."""
    with streams() as (stream,):
        attention = Attention()  # made
        if wrong:
            c.aclDestroyTensorList(attention.keys)  # broken
        attention.run(stream)
        c.aclrtSynchronizeStream(stream)
        if not wrong:
            c.aclDestroyTensorList(attention.keys)
        c.aclDestroyTensorList(attention.values)
        attention.destroy()


def executor_used_twice(wrong: bool) -> None:
    """Phase two has consumed the executor, and runs again."""
    with memory(128, 128) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b)
        planned = plan_cast(x, y)  # made
        run_cast(planned, stream)
        if wrong:
            run_cast(planned, stream)  # broken
        else:
            run_cast(plan_cast(x, y), stream)
        c.aclrtSynchronizeStream(stream)
        destroy(x, y)


def executor_never_run(wrong: bool) -> None:
    """Phase one only asks for the size of the workspace, and the executor stays."""
    with memory(128, 128) as (a, b):
        x, y = tensor(a), tensor(b)
        planned = plan_cast(x, y)  # made
        if not wrong:
            c.aclDestroyAclOpExecutor(planned.executor)
        destroy(x, y)


def repeatable_executor_leaked(wrong: bool) -> None:
    """A repeatable executor is not consumed by phase two; somebody has to destroy it."""
    with memory(128, 128) as (a, b), streams() as (stream,):
        x, y = tensor(a), tensor(b)
        planned = plan_cast(x, y)  # made
        c.aclSetAclOpExecutorRepeatable(planned.executor)
        for _ in range(2):
            run_cast(planned, stream)
        c.aclrtSynchronizeStream(stream)
        if not wrong:
            c.aclDestroyAclOpExecutor(planned.executor)
        destroy(x, y)


def refresh_of_null_operand(wrong: bool) -> None:
    """An operand that was null in phase one is given an address; the other operands may be."""
    with memory(128, 128, 32, 128) as (a, b, s, other):
        x, y, scale = tensor(a, dtype=c.ACL_FLOAT16), tensor(b, dtype=c.ACL_INT8), tensor(s, (4,))
        smooth = tensor(other, (8,), c.ACL_FLOAT16)
        planned = Planned()
        c.aclnnDynamicQuantGetWorkspaceSize(x, c.NULL, y, scale, *planned.cells)  # made
        c.aclSetAclOpExecutorRepeatable(planned.executor)
        if wrong:
            c.aclSetInputTensorAddr(planned.executor, 1, smooth, other)  # broken
        else:
            c.aclSetInputTensorAddr(planned.executor, 0, x, other)
        c.aclDestroyAclOpExecutor(planned.executor)
        destroy(x, y, scale, smooth)


def operation_outlives_context(wrong: bool) -> None:
    """An ATB context is destroyed before an operation that was set up in it."""
    context = AtbContext()
    with memory(NBYTES * 2) as (query,):
        _lengths, seq_len = one_length()
        operation = RingMla(context, seq_len, query)  # made
        if wrong:
            context.close()  # broken
        operation.destroy()
        context.close()

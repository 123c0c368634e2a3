"""Programs about what a process leaves behind, each wrong in one way when asked to be, and right otherwise."""

from __future__ import annotations

from cann_mla import c
from catalogue.steps import NBYTES, malloc, new_event, tensor, tensor_list


def leaked_memory(wrong: bool) -> None:
    """Device memory is never freed."""
    address = malloc(NBYTES)  # made
    if not wrong:
        c.aclrtFree(address)


def leaked_tensor(wrong: bool) -> None:
    """A tensor is never destroyed."""
    x = tensor()  # made
    if not wrong:
        c.aclDestroyTensor(x)


def leaked_living_list(wrong: bool) -> None:
    """A list is never destroyed, and its member lives on with it."""
    members = tensor_list(tensor())  # made
    if not wrong:
        c.aclDestroyTensorList(members)


def leaked_event(wrong: bool) -> None:
    """An event is never destroyed."""
    event = new_event()  # made
    if not wrong:
        c.aclrtDestroyEvent(event)


def leaked_array(wrong: bool) -> None:
    """An array of sequence lengths is never destroyed."""
    lengths = c.aclCreateIntArray(c.new("int64_t[]", [3, 5]), 2)  # made
    if not wrong:
        c.aclDestroyIntArray(lengths)


def leaked_host_memory(wrong: bool) -> None:
    """Pinned host memory is never freed."""
    address = c.new("void **")
    c.aclrtMallocHost(address, 64)  # made
    if not wrong:
        c.aclrtFreeHost(address[0])


def init_twice(wrong: bool) -> None:
    """The process has initialised ACL already."""
    if wrong:
        c.aclInit(c.NULL)  # broken

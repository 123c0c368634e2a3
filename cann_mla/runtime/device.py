"""Devices and contexts, and which of them is current in a thread."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

from cann_mla.binding import abi
from cann_mla.checks import instance, whole
from cann_mla.errors import CannError, failure
from cann_mla.libraries import Library, load
from cann_mla.runtime.current import current_context, on_context
from cann_mla.runtime.owner import Living, Owner
from cann_mla.runtime.pending import PendingWork, Wait

_NO_CONTEXT_ADVICE = (
    "No device is current in this thread: make one with cann_mla.Device(0), or call device.use() in every thread "
    "that works with it"
)


class DeviceState:
    """What all objects on one device share; internal.

    Attributes
    ----------
    id : int
    context : cdata or None
        The device's default context.
    users : int
        Open :class:`Device` objects.
    children : Living of Owner
        Everything that has to be closed before the device is given back.
    streams : Living of PendingWork
    """

    __slots__ = ("children", "context", "id", "library", "streams", "users")

    def __init__(self, library: Library, number: int, context: Any) -> None:
        self.library = library
        self.id = number
        self.context = context
        self.users = 0
        self.children: Living[Owner] = Living()
        self.streams: Living[PendingWork] = Living()


open_devices: dict[int, DeviceState] = {}
"""State of every device the process works with, by number."""
_devices: Living[Device] = Living()
_lock = Lock()


def _give_up_in_child() -> None:
    """In a forked process every object counts as closed: its device belongs to the parent."""
    global _lock
    _lock = Lock()
    for state in open_devices.values():
        state.context = None
        for child in state.children:
            child._handle = None
    for device in _devices:
        device._handle = None
    open_devices.clear()


os.register_at_fork(after_in_child=_give_up_in_child)


def current_state() -> DeviceState:
    """State of the device that is current in this thread."""
    library = load()
    number = abi().ffi.new("int32_t *")
    if status := library.aclrtGetDevice(number):
        raise failure(library, "aclrtGetDevice", "find the current device", status, advice=_NO_CONTEXT_ADVICE)
    with _lock:
        state = open_devices.get(number[0])
        if state is None:  # somebody called aclrtSetDevice through cann_mla.c, or another package did
            state = open_devices[number[0]] = DeviceState(library, number[0], current_context(library))
        return state


def state_of(device: Device | int | None) -> DeviceState:
    """State of a device given as an object or a number; None means the current one."""
    if device is None:
        return current_state()
    if isinstance(device, Device):
        device.handle  # noqa: B018  raises if closed
        return device._state
    instance("device", device, Device, int)
    state = open_devices.get(whole("device", device))
    if state is None:
        raise ValueError(f"device {device} is not open; open it with cann_mla.Device({device})")
    return state


def current_device() -> int:
    """Number of the device that is current in this thread.

    Raises
    ------
    CannError
        If there is none.
    """
    return current_state().id


class Device(Owner):
    """A device, current in the thread that opens it.

    Parameters
    ----------
    number : int
        Index among the visible devices.

    Attributes
    ----------
    id : int

    Notes
    -----
    The first device of a process loads the library (:func:`cann_mla.load`) and calls ``aclInit``. Another thread
    calls :meth:`use` before it works with the device. Closing the last :class:`Device` of a number waits for its
    streams and closes every object that is left on it, then gives the device back; the thread goes back to the device
    that was current before.

    Raises
    ------
    BufferError
        By ``close()``, while NumPy arrays look at pinned memory of the device; it stays open then.
    """

    __slots__ = ("_before", "_state")
    _closed_hint = "open the device again with cann_mla.Device"

    def __init__(self, number: int = 0) -> None:
        number = whole("number", number, -(2**31), 2**31 - 1)
        library = load()
        library.initialise()
        before = current_context(library)
        library.check(library.aclrtSetDevice(number), "aclrtSetDevice", f"open device {number}")
        try:
            context = current_context(library)
        except CannError:
            library.aclrtResetDevice(number)
            raise
        with _lock:
            state = open_devices.setdefault(number, DeviceState(library, number, context))
            state.context = context
            state.users += 1
        self._state = state
        self._before = next((s for s in list(open_devices.values()) if s.context == before and s is not state), None)
        self._handle = context
        _devices.add(self)

    @property
    def id(self) -> int:
        """Number of the device."""
        return self._state.id

    def __repr__(self) -> str:
        return f"<Device {self._state.id}{' (closed)' if self.closed else ''}>"

    @staticmethod
    def count() -> int:
        """How many devices there are."""
        library = load()
        library.initialise()
        count = abi().ffi.new("uint32_t *")
        library.check(library.aclrtGetDeviceCount(count), "aclrtGetDeviceCount", "count devices")
        return int(count[0])

    def use(self) -> None:
        """Make the device current in the calling thread."""
        library = self._state.library
        status = library.aclrtSetCurrentContext(self.handle)
        library.check(status, "aclrtSetCurrentContext", f"use device {self.id}")

    def synchronize(self) -> None:
        """Wait for everything queued on the device.

        Raises
        ------
        CannError
            With the fault of a kernel, if one failed.
        """
        library = self._state.library
        waits = [Wait(stream) for stream in list(self._state.streams)]
        with on_context(library, self.handle):
            if status := library.aclrtSynchronizeDevice():
                launches = [name for wait in waits for name in wait.launches]
                error = failure(library, "aclrtSynchronizeDevice", "synchronize", status, launches=launches)
                for wait in waits:
                    wait.failed()
                raise error
        for wait in waits:
            wait.passed()

    def memory(self) -> tuple[int, int]:
        """Free and total device memory in bytes."""
        library, ffi = self._state.library, abi().ffi
        free, total = ffi.new("size_t *"), ffi.new("size_t *")
        with on_context(library, self.handle):
            status = library.aclrtGetMemInfo(abi().lib.ACL_HBM_MEM, free, total)
            library.check(status, "aclrtGetMemInfo", "ask for free memory")
        return int(free[0]), int(total[0])

    def _check_close(self) -> None:
        if self._state.users == 1:
            for child in self._state.children:
                child._check_close()

    def _release(self, handle: Any) -> None:
        state = self._state
        with _lock:
            state.users -= 1
            last = state.users == 0
        library = state.library
        faults = self._close_children(handle) if last else []
        status = library.aclrtResetDevice(state.id)
        if status:
            faults.append(failure(library, "aclrtResetDevice", f"close device {state.id}", status))
        before = self._before
        if before is not None and before.context is not None:
            try:
                _fall_back(library, before.context)
            except CannError as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def _close_children(self, context: Any) -> list[CannError]:
        """Close what is left on the device, all of it, and tell what came to light."""
        state, faults = self._state, []
        with on_context(state.library, context):
            for child in sorted(state.children, key=lambda child: child.teardown_rank):
                try:
                    child.close()
                except CannError as fault:
                    faults.append(fault)
        with _lock:
            open_devices.pop(state.id, None)
        state.context = None
        return faults


class Context(Owner):
    """A context of its own on a device, current in the thread that makes it.

    Parameters
    ----------
    device : Device or int, optional
        Default: the current device.

    Notes
    -----
    A device has a default context already; most programs need no other.
    """

    __slots__ = ("_state",)

    def __init__(self, device: Device | int | None = None) -> None:
        state = state_of(device)
        library = state.library
        made = abi().ffi.new("aclrtContext *")
        library.check(library.aclrtCreateContext(made, state.id), "aclrtCreateContext", "make a context")
        self._state = state
        self._handle = made[0]
        state.children.add(self)

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def use(self) -> None:
        """Make the context current in the calling thread."""
        library = self._state.library
        library.check(library.aclrtSetCurrentContext(self.handle), "aclrtSetCurrentContext", "use a context")

    def _release(self, handle: Any) -> None:
        library = self._state.library
        library.check(library.aclrtDestroyContext(handle), "aclrtDestroyContext", "close a context")
        if self._state.context is not None:
            _fall_back(library, self._state.context)


def _fall_back(library: Library, context: Any) -> None:
    """Leave a thread that has lost its context with another one."""
    if current_context(library) is None:
        library.check(library.aclrtSetCurrentContext(context), "aclrtSetCurrentContext", "switch device back")

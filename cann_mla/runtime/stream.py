"""Streams and events."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cann_mla.binding import abi
from cann_mla.checks import instance
from cann_mla.errors import CannError, failure
from cann_mla.runtime.current import current_context, on_context
from cann_mla.runtime.device import Device, DeviceState, state_of
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.pending import PendingWork, Wait

if TYPE_CHECKING:
    from types import TracebackType

    from cann_mla.runtime.memory import DeviceMemory

_LONGEST_WAIT = 2_000_000  # seconds; C counts milliseconds in 32 bits


def _milliseconds(timeout: float) -> int:
    """A time to wait in seconds as C takes it, rounded up."""
    instance("timeout", timeout, int, float)
    if not 0 <= timeout <= _LONGEST_WAIT:
        raise ValueError(f"timeout is {timeout}; allowed is 0 to {_LONGEST_WAIT} seconds, or None to wait for ever")
    return math.ceil(timeout * 1000)


class Stream(PendingWork):
    """A queue of work on a device.

    Parameters
    ----------
    device : Device or int, optional
        Default: the current device.
    priority, flags : int
        As for ``aclrtCreateStreamWithConfig``; flags are the ``ACL_STREAM_*`` numbers of :mod:`cann_mla.c`.

    Notes
    -----
    Work runs in the order in which it was queued, and later than the call that queues it returns. What the queued
    work needs is kept alive until the stream has passed it; see :mod:`cann_mla.runtime.pending`. Any thread may use
    the stream; one that launches operators on it has made its device current before (:meth:`Device.use`).
    """

    __slots__ = ("_owned", "_state", "_workspace")

    def __init__(self, device: Device | int | None = None, *, priority: int = 0, flags: int = 0) -> None:
        state = state_of(device)
        library = state.library
        made = abi().ffi.new("aclrtStream *")
        with on_context(library, state.context if device is not None else None):
            context = current_context(library)
            status = library.aclrtCreateStreamWithConfig(made, priority, flags)
            library.check(status, "aclrtCreateStreamWithConfig", "make a stream")
            self._set_up(state, context, made[0], owned=True)

    def _set_up(self, state: DeviceState, context: Any, handle: Any, owned: bool) -> None:
        super().__init__(state.library, context)
        self._state = state
        self._owned = owned
        self._workspace: DeviceMemory | None = None
        self._handle = handle
        state.children.add(self)
        state.streams.add(self)

    @classmethod
    def from_handle(cls, handle: Any, device: Device | int | None = None) -> Stream:
        """Wrap a stream that somebody else owns, given as a cffi pointer or an address.

        ``close()`` then leaves the stream alone. The default stream of a device is the null handle,
        ``Stream.from_handle(0)``.
        """
        ffi = abi().ffi
        instance("handle", handle, int, ffi.CData)
        stream = cls.__new__(cls)
        state = state_of(device)
        pointer = ffi.cast("aclrtStream", handle)
        with on_context(state.library, state.context if device is not None else None):
            stream._set_up(state, current_context(state.library), pointer, owned=False)
        return stream

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def __repr__(self) -> str:
        return f"<Stream on device {self._state.id}{' (closed)' if self.closed else ''}>"

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until everything queued so far is done.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Raises
        ------
        CannError
            With the fault of a kernel, or status 507046 when the time is up. It names what was queued since the
            last synchronisation that succeeded. After a timeout the work goes on: wait again, or :meth:`abort` it;
            a ``with`` block of the stream that is left by this error aborts.
        """
        library, handle = self._library, self.handle
        limit = None if timeout is None else _milliseconds(timeout)
        wait = Wait(self)
        with on_context(library, self._context):
            if limit is None:
                api, status = "aclrtSynchronizeStream", library.aclrtSynchronizeStream(handle)
            else:
                api = "aclrtSynchronizeStreamWithTimeout"
                status = library.aclrtSynchronizeStreamWithTimeout(handle, limit)
            self._end(wait, api, "synchronize", status)
        wait.passed()
        self._workspace = None

    def _end(self, wait: Wait, api: str, phase: str, status: int) -> None:
        """Raise what a wait has brought to light."""
        if status:
            error = failure(self._library, api, phase, status, launches=wait.launches)
            wait.failed()
            raise error

    def query(self) -> bool:
        """Whether everything queued so far is done. Does not wait.

        Raises
        ------
        CannError
            With the fault of a kernel, if one failed.
        """
        handle, status = self.handle, abi().ffi.new("aclrtStreamStatus *")
        wait = Wait(self)
        with on_context(self._library, self._context):
            self._end(wait, "aclrtStreamQuery", "query", self._library.aclrtStreamQuery(handle, status))
        done = bool(status[0] == abi().lib.ACL_STREAM_STATUS_COMPLETE)
        if done:
            wait.passed()
        else:
            wait.failed()
        return done

    def record(self, event: Event | None = None) -> Event:
        """Queue an event: it is reached when everything queued so far is done.

        Parameters
        ----------
        event : Event, optional
            Default: a new one.
        """
        event = Event(self._state.id) if event is None else event
        instance("event", event, Event)
        with on_context(self._library, self._context):
            status = self._library.aclrtRecordEvent(event.handle, self.handle)
            self._library.check(status, "aclrtRecordEvent", "record an event")
        return event

    def wait(self, event: Event) -> None:
        """Let work queued from now on wait until an event, of any stream, is reached. The caller does not wait."""
        instance("event", event, Event)
        with on_context(self._library, self._context):
            status = self._library.aclrtStreamWaitEvent(self.handle, event.handle)
            self._library.check(status, "aclrtStreamWaitEvent", "wait for an event")
            self._launches.append("aclrtStreamWaitEvent")
            self.keep(event)

    def abort(self) -> None:
        """Drop what is queued and stop what runs, for a stream that no longer gets on. It can be used again.

        What the dropped work should have written is undefined.

        Raises
        ------
        CannError
            If CANN refuses.
        """
        library = self._library
        with on_context(library, self._context):
            library.check(library.aclrtStreamAbort(self.handle), "aclrtStreamAbort", "abort")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        timed_out = isinstance(error, CannError) and error.status == abi().lib.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        if timed_out and not self.closed:
            self.abort()  # closing waits for the queued work, which has just been given up
        super().__exit__(kind, error, trace)

    def workspace(self, nbytes: int) -> DeviceMemory:
        """Memory that work queued on this stream may use; the launches queued between two synchronisations share it.

        It is freed when the stream is synchronised or closed.
        """
        from cann_mla.runtime.memory import DeviceMemory

        memory = self._workspace
        if memory is None or memory.nbytes < nbytes:
            memory = self._workspace = DeviceMemory(nbytes, device=self._state.id)
        return memory

    def _release(self, handle: Any) -> None:
        library = self._library
        with on_context(library, self._context):
            wait = Wait(self)
            fault = None  # one that nobody has seen yet; the stream goes all the same
            if status := library.aclrtSynchronizeStream(handle):
                details = {"launches": wait.launches}
                fault = failure(library, "aclrtSynchronizeStream", "close a stream", status, **details)
            wait.passed()
            self._workspace = None  # not before the queued work has passed
            self._kept.clear()
            with self._reclaiming:
                try:
                    if self._owned:
                        library.check(library.aclrtDestroyStream(handle), "aclrtDestroyStream", "close a stream")
                finally:
                    self._destroy_events()
        if fault is not None:
            raise fault


class Event(Owner):
    """A point in a stream's queue.

    Parameters
    ----------
    device : Device or int, optional
        Default: the current device.

    Notes
    -----
    Recorded by :meth:`Stream.record`; :meth:`Stream.wait` orders streams by it.
    """

    __slots__ = ("_library", "_state")
    teardown_rank = 1

    def __init__(self, device: Device | int | None = None) -> None:
        state = state_of(device)
        library = state.library
        made = abi().ffi.new("aclrtEvent *")
        self._library = library
        self._state = state
        with on_context(library, state.context if device is not None else None):
            library.check(library.aclrtCreateEvent(made), "aclrtCreateEvent", "make an event")
            self._handle = made[0]
        state.children.add(self)

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the event is reached, at most `timeout` seconds.

        Raises
        ------
        CannError
            With the fault of a kernel before it, or status 507047 when the time is up.
        """
        library = self._library
        if timeout is None:
            api, status = "aclrtSynchronizeEvent", library.aclrtSynchronizeEvent(self.handle)
        else:
            api = "aclrtSynchronizeEventWithTimeout"
            status = library.aclrtSynchronizeEventWithTimeout(self.handle, _milliseconds(timeout))
        library.check(status, api, "synchronize")

    def query(self) -> bool:
        """Whether the event has been reached."""
        status = abi().ffi.new("aclrtEventRecordedStatus *")
        code = self._library.aclrtQueryEventStatus(self.handle, status)
        self._library.check(code, "aclrtQueryEventStatus", "query")
        return bool(status[0] == abi().lib.ACL_EVENT_RECORDED_STATUS_COMPLETE)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from another event to this one. Both must have been reached."""
        instance("start", start, Event)
        result = abi().ffi.new("float *")
        status = self._library.aclrtEventElapsedTime(result, start.handle, self.handle)
        self._library.check(status, "aclrtEventElapsedTime", "measure")
        return float(result[0])

    def _release(self, handle: Any) -> None:
        with on_context(self._library, self._state.context):
            self._library.check(self._library.aclrtDestroyEvent(handle), "aclrtDestroyEvent", "close an event")

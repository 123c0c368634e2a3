"""What a stream has still to do, and what must stay alive until it has done it.

Nothing is recorded about the operands of a launch. Instead, memory that is freed while streams of its device are
busy is handed to those streams, and goes when each has passed the work that was queued then. So a launch costs one
append of a name, and a loop without a synchronisation keeps no more than the last few buffers it freed.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

from cann_mla.binding import abi
from cann_mla.libraries import Library
from cann_mla.runtime.current import on_context
from cann_mla.runtime.owner import Owner

REMEMBERED_LAUNCHES = 512
_KEPT_BEFORE_AN_EVENT = 16


class Wait:
    """The work that was queued when a synchronisation began. Ends with :meth:`passed` or :meth:`failed`."""

    __slots__ = ("_kept", "_launches", "_sealed", "_stream")

    def __init__(self, stream: PendingWork) -> None:
        self._stream = stream
        with stream._reclaiming:
            stream._waits.append(self)  # first, so that the stream is busy throughout
            self._launches, stream._launches = stream._launches, deque(maxlen=REMEMBERED_LAUNCHES)
            self._kept, stream._kept = stream._kept, []
            self._sealed, stream._sealed = stream._sealed, deque()

    @property
    def launches(self) -> tuple[str, ...]:
        """Names of what was queued."""
        return tuple(self._launches)

    def passed(self) -> None:
        """The stream has done the work: let go of what it needed."""
        self._end()

    def failed(self) -> None:
        """The stream may still be at it."""
        stream = self._stream
        with stream._reclaiming:
            stream._launches.extendleft(reversed(self._launches))
            stream._kept[:0] = self._kept
            stream._sealed.extendleft(reversed(self._sealed))
            self._sealed = deque()
        self._end()

    def _end(self) -> None:
        self._stream._waits.remove(self)
        for event, _ in self._sealed:
            self._stream._events.append(event)
        self._kept, self._sealed = [], deque()


class PendingWork(Owner):
    """A stream's memory of its queue; the base of :class:`~cann_mla.runtime.stream.Stream`."""

    __slots__ = ("_context", "_events", "_kept", "_launches", "_library", "_reclaiming", "_sealed", "_waits")
    teardown_rank = 0

    def __init__(self, library: Library, context: Any) -> None:
        self._library = library
        self._context = context
        self._launches: deque[str] = deque(maxlen=REMEMBERED_LAUNCHES)
        self._waits: list[Wait] = []
        self._kept: list[Any] = []
        self._sealed: deque[tuple[Any, list[Any]]] = deque()
        self._events: list[Any] = []
        self._reclaiming = Lock()

    @property
    def busy(self) -> bool:
        """Whether work was queued that is not known to be done."""
        return bool(self._launches or self._waits)

    def keep(self, thing: Any) -> None:
        """Keep an object alive until the stream has passed everything queued so far."""
        self._kept.append(thing)

    def reclaim(self, *, wait: bool = False) -> None:
        """Let go of what the stream has passed; with `wait`, of everything kept, when it has passed."""
        if self.closed or not (self._kept or self._sealed):
            return
        with self._reclaiming, on_context(self._library, self._context):
            stream = self._handle
            if stream is None:  # closed by another thread meanwhile; from here on it waits for the lock
                return
            if self._kept and (wait or not self._sealed or len(self._kept) >= _KEPT_BEFORE_AN_EVENT):
                self._seal(stream)
            self._let_go(wait)

    def _let_go(self, wait: bool) -> None:
        library = self._library
        status = abi().ffi.new("aclrtEventRecordedStatus *")
        while self._sealed:
            event = self._sealed[0][0]
            if wait:
                library.check(library.aclrtSynchronizeEvent(event), "aclrtSynchronizeEvent", "wait for memory")
            else:
                library.check(library.aclrtQueryEventStatus(event, status), "aclrtQueryEventStatus", "free memory")
                if status[0] != abi().lib.ACL_EVENT_RECORDED_STATUS_COMPLETE:
                    return
            self._sealed.popleft()
            self._events.append(event)

    def _seal(self, stream: Any) -> None:
        """Put an event behind everything queued; what is kept now goes when it has been reached."""
        library = self._library
        if self._events:
            event = self._events.pop()
        else:
            made = abi().ffi.new("aclrtEvent *")
            library.check(library.aclrtCreateEvent(made), "aclrtCreateEvent", "free memory")
            event = made[0]
        kept, self._kept = self._kept, []
        if status := library.aclrtRecordEvent(event, stream):
            self._events.append(event)
            self._kept[:0] = kept
            kept = []  # or the exception's frames would hold on to it
        else:
            self._sealed.append((event, kept))
        library.check(status, "aclrtRecordEvent", "free memory")

    def drop_pooled_events(self) -> None:
        """Destroy the events that wait to be used again."""
        with self._reclaiming, on_context(self._library, self._context):
            self._destroy_events()

    def _destroy_events(self) -> None:
        events, self._events = self._events, []
        for status in [self._library.aclrtDestroyEvent(event) for event in events]:
            self._library.check(status, "aclrtDestroyEvent", "close a stream")

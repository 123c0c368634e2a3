"""The one way in which a Python object owns a C handle."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from cann_mla.errors import ClosedError

_Self = TypeVar("_Self", bound="Owner")
_Thing = TypeVar("_Thing", bound="Owner")


class Owner:
    """Owns one C handle, kept in ``_handle``; None there means closed."""

    __slots__ = ("__weakref__", "_handle")

    _handle: Any
    _closed_hint = "make a new one, or close it later"
    _is_finalizing = staticmethod(sys.is_finalizing)  # here, because this module's names may go before its objects
    teardown_rank = 5
    """Order in which what is left on a device is closed with it: streams first, contexts last."""

    @property
    def handle(self) -> Any:
        """The C handle, as a cffi pointer; still owned by this object.

        Raises
        ------
        ClosedError
            If the object is closed.
        """
        handle = self._handle
        if handle is None:
            raise ClosedError(f"this {type(self).__name__} has been closed; {self._closed_hint}")
        return handle

    @property
    def closed(self) -> bool:
        """Whether the object has given up its handle."""
        return self._handle is None

    def close(self) -> None:
        """Give the handle back to C. Closing twice is allowed."""
        if self._handle is not None:
            self._check_close()
        handle, self._handle = self._handle, None
        if handle is not None:
            self._release(handle)

    def _check_close(self) -> None:
        """Raise if the object cannot be closed yet; it stays open then."""

    def _release(self, handle: Any) -> None:
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        self.handle  # noqa: B018  raises if closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # None: closed, or never finished. At exit, a leak is better than a call into a half-dead runtime.
        if getattr(self, "_handle", None) is not None and not self._is_finalizing():
            self.close()


class Living(Generic[_Thing]):
    """Owners that are known for as long as they live. Other threads may add some while one looks through them."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: WeakValueDictionary[int, _Thing] = WeakValueDictionary()

    def add(self, thing: _Thing) -> None:
        """Know one more."""
        self._by_id[id(thing)] = thing

    def __iter__(self) -> Iterator[_Thing]:
        # valuerefs is one step for other threads; iterating over a WeakSet is not
        return iter([thing for reference in self._by_id.valuerefs() if (thing := reference()) is not None])


cached: Living[Owner] = Living()
"""What the package keeps on a device to be quicker next time; it may be closed, and is made again when it is needed."""

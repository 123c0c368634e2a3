"""The one way in which a Python object owns a C handle."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, TypeVar

from cann_mla.errors import ClosedError

_Self = TypeVar("_Self", bound="Owner")


class Owner:
    """Owns one C handle.

    The slot ``_handle`` is empty when the object is closed, so that code that must be fast can read it without a
    check and turn the AttributeError into :class:`ClosedError` afterwards.
    """

    __slots__ = ("__weakref__", "_handle")

    _handle: Any
    _closed_hint = "make a new one, or close it later"
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
        try:
            return self._handle
        except AttributeError:
            raise ClosedError(f"this {type(self).__name__} has been closed; {self._closed_hint}") from None

    @property
    def closed(self) -> bool:
        """Whether the object has given up its handle."""
        return not hasattr(self, "_handle")

    def close(self) -> None:
        """Give the handle back to C. Closing twice is allowed."""
        try:
            handle = self._handle
            del self._handle
        except AttributeError:
            return
        self._release(handle)

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
        if not sys.is_finalizing():  # at exit, a leak is better than a call into a half-dead runtime
            self.close()

"""Which context is current in a thread, and changing it for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cann_mla.binding import abi
from cann_mla.libraries import Library


def current_context(library: Library) -> Any:
    """The calling thread's context, or None."""
    ffi = abi().ffi
    context = ffi.new("aclrtContext *")
    if library.aclrtGetCurrentContext(context):
        library.recent_error_text()  # having none is no error, so leave no text behind
        return None
    return None if context[0] == ffi.NULL else context[0]


@contextmanager
def on_context(library: Library, context: Any) -> Iterator[None]:
    """Make a context current for a block, in the calling thread only; None leaves the current one."""
    before = None if context is None else current_context(library)
    if context is None or before == context:
        yield
        return
    library.check(library.aclrtSetCurrentContext(context), "aclrtSetCurrentContext", "switch device")
    try:
        yield
    finally:
        if before is not None:
            library.aclrtSetCurrentContext(before)

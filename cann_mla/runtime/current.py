"""Which context is current in a thread, and changing it for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cann_mla.binding import abi
from cann_mla.errors import CannError
from cann_mla.libraries import Library


def current_context(library: Library) -> Any:
    """The calling thread's context, or None.

    Raises
    ------
    CannError
        If CANN cannot tell.
    """
    ffi = abi().ffi
    context = ffi.new("aclrtContext *")
    status = library.aclrtGetCurrentContext(context)
    if status == abi().lib.ACL_ERROR_RT_CONTEXT_NULL:
        library.recent_error_text()  # having none is no error, so leave no text behind
        return None
    library.check(status, "aclrtGetCurrentContext", "find the current context")
    return None if context[0] == ffi.NULL else context[0]


@contextmanager
def on_context(library: Library, context: Any) -> Iterator[None]:
    """Make a context current for a block, in the calling thread only; None leaves the current one.

    The block is done even if CANN cannot tell what was current before: it may give something back.
    """
    try:
        before = None if context is None else current_context(library)
    except CannError:
        before = None
    if context is None or before == context:
        yield
        return
    library.check(library.aclrtSetCurrentContext(context), "aclrtSetCurrentContext", "switch device")
    try:
        yield
    finally:
        if before is not None:
            library.check(library.aclrtSetCurrentContext(before), "aclrtSetCurrentContext", "switch device back")

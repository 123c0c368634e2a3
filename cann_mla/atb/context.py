"""atb::Context, a C++ object, without a C++ compiler: mangled names, and one virtual function by its slot."""

from __future__ import annotations

import threading
from typing import Any

from cann_mla.binding import abi
from cann_mla.errors import SymbolNotFoundError, failure
from cann_mla.libraries import Library
from cann_mla.runtime.current import on_context
from cann_mla.runtime.device import Device, DeviceState, state_of
from cann_mla.runtime.owner import Living, Owner, cached
from cann_mla.runtime.stream import Stream

# The Itanium ABI's names of functions in namespace atb; the same with both ABIs of std::string.
_FUNCTIONS = {
    "CreateContext": ("_ZN3atb13CreateContextEPPNS_7ContextE", "int32_t(*)(atb_Context **)"),
    "DestroyContext": ("_ZN3atb14DestroyContextEPNS_7ContextE", "int32_t(*)(atb_Context *)"),
    "DestroyOperation": ("_ZN3atb16DestroyOperationEPNS_9OperationE", "int32_t(*)(atb_Operation *)"),
}
# Virtual functions of atb::Context by place in its table: two destructors come first.
_SET_EXECUTE_STREAM, _GET_EXECUTE_STREAM = 2, 3


def atb_function(library: Library, name: str) -> Any:
    """A C++ function of namespace atb.

    Raises
    ------
    SymbolNotFoundError
        If the loaded libraries have no ATB.
    """
    symbol, kind = _FUNCTIONS[name]
    address = library.address(symbol)
    if address is None:
        since = "8.1, in its package nnal: source nnal/atb/set_env.sh, which sets ATB_HOME_PATH"
        raise SymbolNotFoundError(f"atb::{name}", map(str, library.files), since, repr(library))
    return abi().ffi.cast(kind, address)


def destroy_operation(library: Library, operation: Any, phase: str) -> None:
    """Call atb::DestroyOperation, and raise :class:`~cann_mla.CannError` if it refuses."""
    library.check(atb_function(library, "DestroyOperation")(operation), "AtbDestroyOperation", phase)


class AtbContext(Owner):
    """An atb::Context: what ATB operations are set up in, and the stream they run on.

    Parameters
    ----------
    device : Device or int, optional
        Where it lies. Default: the current device.

    Raises
    ------
    SymbolNotFoundError
        If the loaded libraries have no ATB.
    CannError
        If ATB refuses.

    Notes
    -----
    A context has one stream at a time, so two threads must not share one; :meth:`cann_mla.atb.AtbOperator.prepare`
    takes one that belongs to its thread and device by itself. Operations end before their context, so closing it
    closes the plans made with it.
    """

    __slots__ = ("_state", "plans")
    teardown_rank = 2
    _state: DeviceState
    plans: Living[Owner]

    def __init__(self, device: Device | int | None = None) -> None:
        state = state_of(device)
        library, made = state.library, abi().ffi.new("atb_Context **")
        create = atb_function(library, "CreateContext")
        self._state = state
        self.plans = Living()
        with on_context(library, state.context):
            if status := create(made):
                raise failure(library, "AtbCreateContext", "make a context", status)
            self._handle = made[0]
        state.children.add(self)

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def use_stream(self, stream: Stream) -> None:
        """Let operations run on a stream from now on.

        Raises
        ------
        CannError
            If ATB refuses.
        RuntimeError
            If the loaded ATB lays out atb::Context otherwise than known, so that another function was called.
        """
        ffi, context, handle = abi().ffi, self.handle, stream.handle
        table = ffi.cast("void ***", context)[0]
        set_stream = ffi.cast("int32_t(*)(atb_Context *, void *)", table[_SET_EXECUTE_STREAM])
        get_stream = ffi.cast("void *(*)(atb_Context *)", table[_GET_EXECUTE_STREAM])
        if status := set_stream(context, handle):
            raise failure(self._state.library, "AtbContext::SetExecuteStream", "set the stream", status)
        if get_stream(context) != handle:
            raise RuntimeError(
                "atb::Context of the loaded ATB does not give back the stream it was set to: its virtual functions "
                f"are in another order than those of ATB 8.0 to 8.5 ({', '.join(map(str, self._state.library.files))})"
            )

    def destroy_operation(self, operation: Any) -> None:
        """Destroy an operation that a call of a C function has made (``atb_Operation *``); plans do it by themselves.

        Raises
        ------
        CannError
            If ATB refuses.
        """
        destroy_operation(self._state.library, operation, "destroy an operation")

    def _release(self, handle: Any) -> None:
        for plan in self.plans:
            plan.close()
        library = self._state.library
        status = atb_function(library, "DestroyContext")(handle)
        library.check(status, "AtbDestroyContext", "close a context")


_of_thread = threading.local()


def thread_context(state: DeviceState) -> AtbContext:
    """The calling thread's own context on a device; made at first use, closed with the device."""
    contexts: dict[int, AtbContext] = _of_thread.__dict__.setdefault("contexts", {})
    found = contexts.get(state.id)
    if found is None or found.closed or found._state is not state:
        found = contexts[state.id] = AtbContext(state.id)
        cached.add(found)
    return found

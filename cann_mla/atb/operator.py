"""ATB operators: ``AtbOperator`` -> ``AtbPlan`` (create and setup) -> ``run`` (execute)."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any

from cann_mla.arguments import convert
from cann_mla.atb.context import AtbContext, destroy_operation, thread_context
from cann_mla.binding import abi
from cann_mla.headers import Role, Signature
from cann_mla.libraries import Library
from cann_mla.plan import Plan
from cann_mla.runtime.current import on_context
from cann_mla.runtime.device import DeviceState, current_state
from cann_mla.runtime.memory import DeviceMemory, HostMemory
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor, closings, data_pointer
from cann_mla.two_phase import Operator

_ffi = abi().ffi
_NULL = _ffi.NULL

HOST_OPERANDS: dict[str, frozenset[str]] = {
    "AtbRingMLA": frozenset({"seqLen"}),
    "AtbMLA": frozenset({"contextLens", "qSeqLen"}),
    "AtbMLAPreFill": frozenset({"qSeqLen", "kvSeqLen"}),
    "AtbSelfAttentionPrefixEncoder": frozenset({"seqLen", "kvSeqLen"}),
}
"""The operands that ATB reads on the host, in setup; their aclTensor carries a host address."""


class AtbOperator(Operator):
    """An ATB operator. Get one with :func:`cann_mla.operator`.

    As :class:`~cann_mla.Operator`, with two differences: phase one also makes an operation, which can be set up again
    for other operands, and what ATB reads on the host (:data:`HOST_OPERANDS`) must be tensors made with ``host=True``.
    """

    _last_roles = (Role.WORKSPACE_SIZE, Role.EXECUTOR, Role.CONTEXT)
    _last_words = "workspace size, operation and context"

    def __init__(self, library: Library, signature: Signature, run: Signature, first: Any, second: Any) -> None:
        self._read(library, signature, run, first, second)
        if len(self._resolved.with_role(*self._last_roles)) != len(self._last_roles):
            raise TypeError(f"{signature.name} does not end with {self._last_words}")

    def prepare(  # type: ignore[override]
        self, /, *unnamed: Any, repeatable: bool = False, context: AtbContext | None = None, **arguments: Any
    ) -> AtbPlan:
        """Create the operation and set it up: check parameters and operands, ask for the workspace.

        Parameters
        ----------
        repeatable : bool
            Keep the operation after a run, so that it can run again and be set up again; close the plan at the end.
        context : AtbContext, optional
            Default: one that belongs to the calling thread and the operands' device.
        **arguments
            By C name.

        Returns
        -------
        AtbPlan
            To be run in the same thread.

        Raises
        ------
        CannError
            If creating or setting up returns a status other than 0. Check ``phase`` 2 too: tilings that fail are only
            reported by :meth:`AtbPlan.run`.
        TypeError, ValueError, OverflowError
            If an argument is unknown, missing or cannot be passed, or lies in the wrong memory; nothing was called.
        ClosedError
            If an operand is closed.
        SymbolNotFoundError
            If the loaded libraries do not have the operator.
        """
        if unnamed:
            raise TypeError(f"{self.name} takes its arguments by their C names: {', '.join(self._index)}")
        plan = object.__new__(AtbPlan)
        plan.operator = self
        plan._repeatable = repeatable
        plan._handle = None
        plan._set_up(context, arguments)
        return plan

    def _call_first(self, arguments: Mapping[str, Any], context: AtbContext, operation: Any) -> tuple[int, int]:
        """Phase one on an operation cell; the workspace size and the status."""
        owned: dict[str, Owner] = {}
        row = self._template.copy()
        for name, value in convert(self._resolved, arguments, owned).items():
            row[self._index[name]] = value
        size = _ffi.new("uint64_t *")
        status = self._first(*row, size, operation, context.handle)
        return int(size[0]), int(status)

    def check_memory(self, arguments: Mapping[str, Any]) -> None:
        """Refuse tensors on the wrong side: ATB would follow a device address on the host, or the reverse.

        Raises
        ------
        ValueError
        """
        host = HOST_OPERANDS.get(self.name, frozenset())
        for name, value in arguments.items():
            if not isinstance(value, Tensor) or value.closed or value.memory is None:
                continue
            if name in host and isinstance(value.memory, DeviceMemory):
                raise ValueError(
                    f"{self.name}: {name} lies on the device, but ATB reads it on the host; "
                    "make it with Tensor.from_numpy(array, host=True)"
                )
            if name not in host and isinstance(value.memory, HostMemory):
                raise ValueError(f"{self.name}: {name} lies on the host, but the kernel reads it on the device")


class AtbPlan(Plan):
    """An ATB operation, set up and waiting to be run. Made by :meth:`AtbOperator.prepare`.

    Unless it was prepared with ``repeatable=True`` it ends with its run.
    """

    __slots__ = ("_context", "_repeatable")
    teardown_rank = 1
    _closed_hint = "prepare it with repeatable=True to run it again"
    operator: AtbOperator
    _context: AtbContext
    _repeatable: bool

    def set_up(self, **arguments: Any) -> None:
        """Set the operation up again, for other operands.

        The operation keeps the parameters it was created with; parameters that say otherwise are ignored by ATB, or
        make it refuse the number of tensors.

        Parameters
        ----------
        **arguments
            By C name, all of them.

        Raises
        ------
        As :meth:`AtbOperator.prepare`. After a refusal the operation cannot run until it is set up well.
        """
        self.handle  # noqa: B018  raises if closed
        self._set_up(self._context, arguments)

    def run(self, stream: Stream, workspace: DeviceMemory | None = None) -> None:
        """Execute: queue the operator on a stream. Returns before it is done.

        Parameters and exceptions as for :meth:`cann_mla.Plan.run`.
        """
        self._check(stream, workspace)
        if workspace is None and self.workspace_size:
            workspace = stream.workspace(self.workspace_size)
        try:
            self._context.use_stream(stream)
            self._launch(self.handle, stream, workspace)
        finally:
            if not self._repeatable:
                self.close()

    def _launch(self, executor: Any, stream: Stream, workspace: DeviceMemory | None) -> None:
        size = 0 if workspace is None else workspace.nbytes
        status = self.operator._second(data_pointer(workspace), size, executor, self._context.handle)
        if status:
            raise self.operator._failure("launch", status, self.arguments)
        stream._launches.append(self.operator.name)

    def _set_up(self, context: AtbContext | None, arguments: Mapping[str, Any]) -> None:
        operator = self.operator
        operator.check_memory(arguments)
        state = _device_of(arguments)
        chosen = thread_context(state) if context is None else context
        cell = _ffi.new("atb_Operation **", _NULL if self._handle is None else self._handle)
        with on_context(state.library, state.context):
            size, status = operator._call_first(arguments, chosen, cell)
        if status:
            error = operator._failure("GetWorkspaceSize", status, arguments)
            if self._handle is None and cell[0] != _NULL:
                self._release(cell[0])
            raise error
        self._handle = cell[0]
        self._context = chosen
        chosen.plans.add(self)
        self._names, self._values = tuple(arguments), tuple(arguments.values())
        self.workspace_size = size
        self._thread = get_ident()
        self._closings = closings[0]
        state.children.add(self)

    def _release(self, handle: Any) -> None:
        destroy_operation(self.operator._library, handle, f"close a plan of {self.operator.name}")


def _device_of(arguments: Mapping[str, Any]) -> DeviceState:
    """The device that the operands lie on, else the current one."""
    for value in arguments.values():
        if isinstance(value, Tensor) and value._state is not None:
            return value._state
    return current_state()

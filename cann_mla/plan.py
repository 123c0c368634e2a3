"""Phase one, done: a plan that waits to be run."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from cann_mla.binding import abi
from cann_mla.checks import instance
from cann_mla.errors import ClosedError, failure
from cann_mla.runtime.device import open_devices
from cann_mla.runtime.memory import DeviceMemory
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor, TensorList, closings, data_pointer

if TYPE_CHECKING:
    from cann_mla.two_phase import Operator

_NULL = abi().ffi.NULL


class Plan(Owner):
    """Phase one, done: an executor that waits to be run. Made by :meth:`Operator.prepare`.

    Attributes
    ----------
    operator : Operator
    workspace_size : int
        Bytes of device memory that :meth:`run` needs.

    Notes
    -----
    C allows one run a plan, unless the plan is repeatable, and wants it in the thread that prepared it. Closing a
    plan that never ran destroys its executor. The operands must stay open until :meth:`run` has returned.
    """

    __slots__ = ("_closings", "_names", "_thread", "_values", "operator", "workspace_size")
    _closed_hint = "a plan runs once; prepare it with repeatable=True to run it again"
    operator: Operator
    workspace_size: int
    _names: tuple[str, ...]
    _values: tuple[Any, ...]
    _thread: int
    _closings: int

    def __new__(cls) -> Plan:
        """Refused: only phase one makes plans."""
        raise TypeError("a Plan is made by Operator.prepare")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as they were given, by C name."""
        return dict(zip(self._names, self._values, strict=True))

    def __repr__(self) -> str:
        state = "done" if self.closed else f"workspace {self.workspace_size}"
        return f"<Plan {self.operator.name}, {state}>"

    def run(self, stream: Stream, workspace: DeviceMemory | None = None) -> None:
        """Phase two: queue the operator on a stream. Returns before it is done.

        Parameters
        ----------
        stream : Stream
        workspace : DeviceMemory, optional
            At least ``workspace_size`` bytes; freed by the caller whenever it likes. Default: memory that the
            stream provides and keeps until it has passed this launch.

        Raises
        ------
        CannError
            If phase two returns a status other than 0. Faults of the kernel itself come later, from
            :meth:`Stream.synchronize`.
        ClosedError
            If the plan has run already, or the stream or an operand is closed.
        RuntimeError
            In another thread than the one that prepared it.
        ValueError
            If the stream is on another device than the operands, or the workspace is too small.
        """
        if (
            self.workspace_size
            or workspace is not None
            or self._closings != closings[0]
            or self._thread != get_ident()
            or len(open_devices) > 1
            or type(stream) is not Stream
        ):
            self._run_checked(stream, workspace)
            return
        operator = self.operator
        executor, queue = self._handle, stream._handle
        if executor is None or queue is None:
            executor, queue = self.handle, stream.handle  # one of them raises
        self._handle = None
        status = operator._second(_NULL, 0, executor, queue)
        if status:
            raise operator._failure("launch", status, self.arguments)
        stream._launches.append(operator.name)

    def _run_checked(self, stream: Stream, workspace: DeviceMemory | None) -> None:
        self._check(stream, workspace)
        if workspace is None and self.workspace_size:
            workspace = stream.workspace(self.workspace_size)
        executor, self._handle = self._handle, None
        self._launch(executor, stream, workspace)

    def _launch(self, executor: Any, stream: Stream, workspace: DeviceMemory | None) -> None:
        operator = self.operator
        size = 0 if workspace is None else workspace.nbytes
        status = operator._second(data_pointer(workspace), size, executor, stream.handle)
        if status:
            raise operator._failure("launch", status, self.arguments)
        stream._launches.append(operator.name)

    def _check(self, stream: Stream, workspace: DeviceMemory | None) -> None:
        instance("stream", stream, Stream)
        self.handle, stream.handle  # noqa: B018  raise if closed
        name = self.operator.name
        if self._thread != get_ident():
            raise RuntimeError(f"this plan of {name} was prepared in another thread; CANN wants both phases in one")
        for argument, value in self.arguments.items():
            if isinstance(value, Owner) and value.closed:
                raise ClosedError(f"{name}: argument {argument} was closed between prepare and run")
        device = stream.device
        for argument, value in self.arguments.items():
            if isinstance(value, Tensor | TensorList) and (other := value.devices - {device}):
                raise ValueError(
                    f"{name}: the stream is on device {device}, argument {argument} on device {min(other)}; "
                    "use a stream of the tensors' device"
                )
        if workspace is not None:
            instance("workspace", workspace, DeviceMemory)
            workspace.handle  # noqa: B018  raises if closed
            if workspace.nbytes < self.workspace_size:
                raise ValueError(f"{name}: workspace has {workspace.nbytes} bytes; it needs {self.workspace_size}")
            if workspace.device != device:
                raise ValueError(f"{name}: the stream is on device {device}, the workspace on {workspace.device}")

    def _release(self, handle: Any) -> None:
        library = self.operator._library
        status = library.aclDestroyAclOpExecutor(handle)
        library.check(status, "aclDestroyAclOpExecutor", f"close a plan of {self.operator.name}")

    def __del__(self) -> None:
        if self._handle is not None:  # a plan always has one, so this is quicker than the question the base asks
            super().__del__()


class RepeatablePlan(Plan):
    """A plan that may run any number of times, on addresses that may change. ``close()`` ends it.

    Made by :meth:`Operator.prepare` with ``repeatable=True``; CANN allows it for operators without copies between
    host and device, and refuses it for the others.
    """

    __slots__ = ("_refreshed",)
    _refreshed: dict[str, Tensor | TensorList]

    def _make_repeatable(self) -> None:
        self._refreshed = {}
        library = self.operator._library
        status = library.aclSetAclOpExecutorRepeatable(self._handle)
        if status:
            error = failure(library, "aclSetAclOpExecutorRepeatable", f"repeat {self.operator.name}", status)
            self.close()
            raise error

    def run(self, stream: Stream, workspace: DeviceMemory | None = None) -> None:
        """Phase two, as :meth:`Plan.run`; the plan can be run again, also before this run is done."""
        self._check(stream, workspace)
        if workspace is None and self.workspace_size:
            workspace = stream.workspace(self.workspace_size)
        self._launch(self._handle, stream, workspace)

    def set_tensor(self, name: str, tensor: Tensor | TensorList) -> None:
        """Let the plan work on another tensor of the same shape, strides, type and format.

        Parameters
        ----------
        name : str
            C name of an operand that was not null in phase one.
        tensor : Tensor or TensorList
            Only its address is taken; the plan keeps its memory alive.

        Raises
        ------
        ValueError
            If the operand was null or is no tensor, or the tensor differs in more than its address.
        """
        executor = self.handle
        position, handles, layouts = self._operand(name)
        given = [(tensor.layout, tensor.memory)] if isinstance(tensor, Tensor) else tensor.members()
        if [layout for layout, _ in given] != layouts:
            raise ValueError(
                f"{name} was prepared as {layouts}; a tensor with another layout ({tensor.describe()}) needs a new plan"
            )
        library = self.operator._library
        for offset, (handle, (_, memory)) in enumerate(zip(handles, given, strict=True)):
            status = library.aclSetTensorAddr(executor, position + offset, handle, data_pointer(memory))
            library.check(status, "aclSetTensorAddr", f"set {name} of {self.operator.name}")
        self._refreshed[name] = tensor

    def _operand(self, name: str) -> tuple[int, list[Any], list[Any]]:
        """Position of an operand among all tensors in C order, its aclTensors and their layouts."""
        position, arguments = 0, self.arguments
        for parameter in self.operator.signature.operands:
            if parameter.pointee not in ("aclTensor", "aclTensorList"):
                if parameter.name == name:
                    raise ValueError(
                        f"{name} is no tensor: host arguments, arrays of lengths among them, are fixed at phase one; "
                        "build a new plan"
                    )
                continue
            value = arguments.get(parameter.name)
            if parameter.name == name:
                if value is None:
                    raise ValueError(f"{name} was null in phase one; only operands that were given can be changed")
                if isinstance(value, Tensor):
                    return position, [value.handle], [value.layout]
                return position, list(value.member_handles), list(value.layouts)
            position += len(value) if isinstance(value, TensorList) else 1
        raise ValueError(f"{self.operator.name} has no tensor {name}")

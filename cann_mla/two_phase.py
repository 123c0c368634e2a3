"""The two-phase call: ``Operator`` -> ``Plan`` (phase one) -> ``run`` (phase two).

The way through both phases is kept short: ``binding/phase_one.c`` puts plain arguments in C order and calls phase
one, :meth:`Operator._finish` and :meth:`Plan.run` do the rest. Whatever is unusual (a conversion, a mistake, a
workspace, a second device) goes another way, which takes longer and explains itself.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import get_ident
from typing import Any

from cann_mla.arguments import STRINGS, convert, describe, document
from cann_mla.binding import abi
from cann_mla.binding._phase_one import phase_one
from cann_mla.errors import CannError, ClosedError, failure
from cann_mla.headers import HeaderSet, Role, Signature, read, shipped
from cann_mla.libraries import Library, SharedObject, load
from cann_mla.operands import BoolArray, FloatArray, IntArray, Scalar, ScalarList
from cann_mla.prototypes import shipped_symbols
from cann_mla.runtime.device import _states as _open_devices
from cann_mla.runtime.memory import DeviceMemory
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor, TensorList, closings, data_pointer

_KINDS = (Tensor, TensorList, IntArray, FloatArray, BoolArray, Scalar, ScalarList)
_MISSING = object()
_ffi = abi().ffi
_NULL = _ffi.NULL
_new = object.__new__


class Operator:
    """An aclnn operator. Get one with :func:`cann_mla.operator`.

    Attributes
    ----------
    name : str
        C name, which is the name of phase two.
    signature : Signature
        Phase one, with the role of each parameter.

    Notes
    -----
    Arguments are given by their C names, in any order; those the header marks optional may be left out, and None
    is a null pointer. Tensors and the objects of :mod:`cann_mla.operands` are borrowed; a Python sequence given
    for an array or list becomes one that the plan owns. An operator may be used by many threads at once.
    """

    def __init__(self, library: Library, signature: Signature, run: Signature, first: Any, second: Any) -> None:
        self.name = run.name
        self.signature = signature
        self.__doc__ = document(signature, run)
        self._library = library
        self._first = first
        self._second = second
        self._resolved = library.prototypes.resolve(signature)
        operands = self._resolved.operands
        if self._resolved.parameters != operands + self._resolved.with_role(Role.WORKSPACE_SIZE, Role.EXECUTOR):
            raise TypeError(
                f"{signature.name} does not end with the workspace size and the executor: it is no aclnn operator"
            )
        self._index = {p.name: i for i, p in enumerate(operands)}
        self._template = [_NULL if p.optional and p.type.endswith("*") else _MISSING for p in operands]
        self._spare: list[tuple[Any, Any]] = []
        if not any(p.type == "float" for p in operands):  # cffi does not check the range of those
            parts = (first, self._index, tuple(self._template), _KINDS, STRINGS, _NULL, self._spare, self._finish)
            self.prepare = phase_one((*parts, self.prepare))  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<Operator {self.name}({', '.join(self._index)})>"

    def prepare(self, /, repeatable: bool = False, **arguments: Any) -> Plan:
        """Phase one: check the arguments, choose the kernel, ask for the workspace.

        Parameters
        ----------
        repeatable : bool
            Make a plan that may run more than once, on addresses that :meth:`Plan.set_tensor` changes.
        **arguments
            By C name.

        Returns
        -------
        Plan
            To be run in the same thread.

        Raises
        ------
        CannError
            If phase one returns a status other than 0.
        TypeError, ValueError, OverflowError
            If an argument is unknown, missing or cannot be passed; nothing was called then.
        ClosedError
            If an operand is closed.
        SymbolNotFoundError
            If the loaded library does not have the operator.
        """
        owned: dict[str, Owner] = {}
        cells = self._spare.pop() if self._spare else (_ffi.new("uint64_t *"), _ffi.new("aclOpExecutor **"))
        row = self._template.copy()
        for name, value in convert(self._resolved, arguments, owned).items():
            row[self._index[name]] = value
        status = self._first(*row, *cells)
        plan = self._finish(status, tuple(arguments), tuple(arguments.values()), cells)
        plan._owned = owned
        if repeatable:
            plan._make_repeatable()
        return plan

    def _finish(self, status: int, names: tuple[str, ...], values: tuple[Any, ...], cells: tuple[Any, Any]) -> Plan:
        """Make the plan, after phase one was called."""
        if status:
            raise self._failure("GetWorkspaceSize", status, dict(zip(names, values, strict=True)))
        plan: Plan = _new(Plan)
        plan.operator = self
        plan._names = names
        plan._values = values
        plan._owned = None
        plan._refreshed = None
        plan.workspace_size = cells[0][0]
        plan._handle = cells[1][0]
        plan._thread = get_ident()
        plan._closings = closings[0]
        self._spare.append(cells)
        return plan

    def __call__(self, stream: Stream, workspace: DeviceMemory | None = None, **arguments: Any) -> None:
        """Both phases: queue the operator on a stream.

        Parameters
        ----------
        stream : Stream
        workspace : DeviceMemory, optional
            Default: memory that the stream provides.
        **arguments
            By C name.

        Raises
        ------
        As :meth:`prepare` and :meth:`Plan.run`.
        """
        self.prepare(**arguments).run(stream, workspace)

    def _failure(self, phase: str, status: int, arguments: Mapping[str, Any]) -> CannError:
        api = self.signature.name if phase == "GetWorkspaceSize" else self.name
        return failure(self._library, api, phase, status, arguments=describe(self.signature, arguments))


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

    __slots__ = (
        "_closings",
        "_names",
        "_owned",
        "_refreshed",
        "_thread",
        "_values",
        "operator",
        "workspace_size",
    )
    _closed_hint = "a plan runs once; prepare it with repeatable=True to run it again"
    operator: Operator
    workspace_size: int
    _names: tuple[str, ...]
    _values: tuple[Any, ...]
    _owned: dict[str, Owner] | None
    _refreshed: dict[str, Any] | None
    _thread: int
    _closings: int

    def __init__(self) -> None:
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
            or self._refreshed is not None
            or self._closings != closings[0]
            or self._thread != get_ident()
            or len(_open_devices) > 1
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
        executor, queue = self.handle, stream.handle
        self._check(stream, workspace)
        if workspace is None and self.workspace_size:
            workspace = stream.workspace(self.workspace_size)
        address = data_pointer(workspace)
        if self._refreshed is None:
            self._handle = None
        operator = self.operator
        status = operator._second(address, 0 if workspace is None else workspace.nbytes, executor, queue)
        if status:
            raise operator._failure("launch", status, self.arguments)
        stream._launches.append(operator.name)

    def _check(self, stream: Stream, workspace: DeviceMemory | None) -> None:
        name = self.operator.name
        if self._thread != get_ident():
            raise RuntimeError(f"this plan of {name} was prepared in another thread; CANN wants both phases in one")
        for argument, value in self.arguments.items():
            if isinstance(value, Owner) and value.closed:
                raise ClosedError(f"{name}: argument {argument} was closed between prepare and run")
        device = stream.device
        for argument, value in self.arguments.items():
            if isinstance(value, Tensor) and value.device not in (None, device):
                raise ValueError(
                    f"{name}: the stream is on device {device}, argument {argument} on device {value.device}; "
                    "use a stream of the tensors' device"
                )
        if workspace is not None:
            if workspace.nbytes < self.workspace_size:
                raise ValueError(f"{name}: workspace has {workspace.nbytes} bytes; it needs {self.workspace_size}")
            if workspace.device != device:
                raise ValueError(f"{name}: the stream is on device {device}, the workspace on {workspace.device}")

    def _make_repeatable(self) -> None:
        library = self.operator._library
        status = library.aclSetAclOpExecutorRepeatable(self._handle)
        if status:
            error = failure(library, "aclSetAclOpExecutorRepeatable", f"repeat {self.operator.name}", status)
            self.close()
            raise error
        self._refreshed = {}

    def set_tensor(self, name: str, tensor: Tensor | TensorList) -> None:
        """Let a repeatable plan work on another tensor of the same shape, strides, type and format.

        Parameters
        ----------
        name : str
            C name of an operand that was not null in phase one.
        tensor : Tensor or TensorList
            Only its address is taken; the plan keeps its memory alive.

        Raises
        ------
        ValueError
            If the plan is not repeatable, the operand was null, or the tensor differs in more than its address.
        """
        if self._refreshed is None:
            raise ValueError("only a plan prepared with repeatable=True can take other tensors")
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
        position = 0
        for parameter in self.operator.signature.operands:
            if parameter.pointee not in ("aclTensor", "aclTensorList"):
                continue
            value: Any = (self._owned or {}).get(parameter.name) or self.arguments.get(parameter.name)
            if parameter.name == name:
                if value is None:
                    raise ValueError(f"{name} was null in phase one; only operands that were given can be changed")
                if isinstance(value, Tensor):
                    return position, [value.handle], [value.layout]
                return position, list(value.member_handles), list(value.layouts)
            position += len(value) if isinstance(value, TensorList) else 1
        raise ValueError(f"{self.operator.name} has no tensor {name}")

    def _release(self, handle: Any) -> None:
        library = self.operator._library
        status = library.aclDestroyAclOpExecutor(handle)
        library.check(status, "aclDestroyAclOpExecutor", f"close a plan of {self.operator.name}")


_operators: dict[str, Operator] = {}


def operator(name: str) -> Operator:
    """Find an operator by its C name.

    Parameters
    ----------
    name : str
        Name of phase two: ``"aclnnMlaPrologV3WeightNz"``.

    Returns
    -------
    Operator
        Bound with the prototype of the installed header where there is one. That the loaded library lacks the
        symbols shows only when it is called.

    Raises
    ------
    LookupError
        If no header, shipped or installed, declares the operator.
    """
    found = _operators.get(name)
    if found is None:
        library = load()
        try:
            signature = library.prototypes.signature(f"{name}GetWorkspaceSize")
            run = library.prototypes.signature(name)
        except LookupError as error:
            known = [s for s in shipped_symbols() if f"{s}GetWorkspaceSize" in set(shipped_symbols())]
            close = difflib.get_close_matches(name, known, 3)
            raise LookupError(f"{error}{'; did you mean ' + ', '.join(close) + '?' if close else ''}") from None
        found = _operators[name] = _bind(library, signature, run)
    return found


def _bind(library: Library, signature: Signature, run: Signature) -> Operator:
    return Operator(library, signature, run, getattr(library, signature.name), getattr(library, run.name))


def load_headers(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    library: str | os.PathLike[str] | None = None,
    roles: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Operator]:
    """Read aclnn headers at run time and bind the operators in them. No compiler is needed.

    Parameters
    ----------
    paths : path or iterable of path
        Header files, or folders of them.
    library : path, optional
        The shared library that has the operators. Default: the libraries that are loaded already, custom
        operator packages among them.
    roles : mapping, optional
        Corrections where a prototype does not tell what a parameter is for: operator -> parameter -> role, with
        "optional" behind it where null is allowed, as in ``{"aclnnX": {"state": "inplace optional"}}``.

    Returns
    -------
    dict of str to Operator
        By C name; the same Python face as :func:`operator` gives, which from now on finds them too.

    Raises
    ------
    HeaderError
        If a header cannot be read, with file, line and reason.
    LookupError
        If `library` cannot be loaded, or a header has no operator.
    """
    files = list(_header_files([paths] if isinstance(paths, str | os.PathLike) else paths))
    headers: HeaderSet = read(files, known=shipped.load(), roles=roles)
    if not headers.operators:
        raise LookupError(f"no operator in {', '.join(map(str, files))}: it takes both phases of one")
    loaded = load()
    source = None if library is None else SharedObject(Path(library))
    if source is not None and not source.open():
        raise LookupError(f"{library} cannot be loaded: {source.refusal}")
    for header in headers.headers:
        loaded.prototypes.add(header)
    bound = {}
    for name, pair in headers.operators.items():
        first, second = (loaded.bind(s.name, source) for s in (pair.get_workspace, pair.run))
        bound[name] = _operators[name] = Operator(loaded, pair.get_workspace, pair.run, first, second)
    return bound


def _header_files(paths: Iterable[str | os.PathLike[str]]) -> Iterable[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from sorted(path.rglob("*.h"))
        else:
            yield path

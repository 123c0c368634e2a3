"""Operators, by name: ``Operator`` -> ``Plan`` (phase one) -> ``run`` (phase two).

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
from typing import Any, Literal, TypeVar, overload

from cann_mla.arguments import STRINGS, convert, describe, document
from cann_mla.binding import abi, compiled
from cann_mla.errors import CannError, failure
from cann_mla.headers import HeaderSet, Role, Signature, read, shipped
from cann_mla.libraries import Library, load
from cann_mla.operands import BoolArray, FloatArray, IntArray, Scalar, ScalarList
from cann_mla.plan import Plan, RepeatablePlan
from cann_mla.prototypes import shipped_symbols
from cann_mla.runtime.memory import DeviceMemory
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.stream import Stream
from cann_mla.shared_object import SharedObject
from cann_mla.tensor import Tensor, TensorList, closings

_KINDS = (Tensor, TensorList, IntArray, FloatArray, BoolArray, Scalar, ScalarList)
_MISSING = object()
_ffi = abi().ffi
_NULL = _ffi.NULL
_new = object.__new__
_Plan = TypeVar("_Plan", bound=Plan)


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
    is a null pointer. Where C wants an integer, True and False are 1 and 0, as everywhere in Python. Tensors and the
    objects of :mod:`cann_mla.operands` are borrowed; a Python sequence given for an array or list becomes one that
    the plan owns. An operator may be used by many threads at once.
    """

    _last_roles: tuple[Role, ...] = (Role.WORKSPACE_SIZE, Role.EXECUTOR)
    _last_words = "the workspace size and the executor: it is no aclnn operator"

    def __init__(self, library: Library, signature: Signature, run: Signature, first: Any, second: Any) -> None:
        self._read(library, signature, run, first, second)
        self._spare: list[tuple[Any, Any]] = []
        if not any(p.type == "float" for p in self._resolved.operands):  # cffi does not check the range of those
            parts = (first, self._index, tuple(self._template), _KINDS, STRINGS, _NULL, self._spare, self._finish)
            self.prepare = compiled("_phase_one").phase_one((*parts, self.prepare))  # type: ignore[method-assign]

    def _read(self, library: Library, signature: Signature, run: Signature, first: Any, second: Any) -> None:
        """Make the tables of the prototype."""
        self.name = run.name
        self.signature = signature
        self.__doc__ = document(signature, run)
        self._library = library
        self._first = first
        self._second = second
        self._resolved = library.prototypes.resolve(signature)
        operands = self._resolved.operands
        if self._resolved.parameters != operands + self._resolved.with_role(*self._last_roles):
            raise TypeError(f"{signature.name} does not end with {self._last_words}")
        self._index = {p.name: i for i, p in enumerate(operands)}
        self._template = [_NULL if p.optional and p.type.endswith("*") else _MISSING for p in operands]

    def __repr__(self) -> str:
        return f"<Operator {self.name}({', '.join(self._index)})>"

    @overload
    def prepare(self, /, *, repeatable: Literal[False] = False, **arguments: Any) -> Plan: ...
    @overload
    def prepare(self, /, *, repeatable: Literal[True], **arguments: Any) -> RepeatablePlan: ...
    def prepare(self, /, *unnamed: Any, repeatable: bool = False, **arguments: Any) -> Plan:
        """Phase one: check the arguments, choose the kernel, ask for the workspace.

        Parameters
        ----------
        repeatable : bool
            Make a :class:`RepeatablePlan`, which may run more than once, on addresses that can be changed.
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
        if unnamed:
            raise TypeError(f"{self.name} takes its arguments by their C names: {', '.join(self._index)}")
        owned: dict[str, Owner] = {}
        cells = self._spare.pop() if self._spare else (_ffi.new("uint64_t *"), _ffi.new("aclOpExecutor **"))
        row = self._template.copy()
        for name, value in convert(self._resolved, arguments, owned).items():
            row[self._index[name]] = value
        status = self._first(*row, *cells)
        values = tuple(owned.get(name, value) for name, value in arguments.items())
        if not repeatable:
            return self._finish(status, tuple(arguments), values, cells)
        plan = self._finish(status, tuple(arguments), values, cells, RepeatablePlan)
        plan._make_repeatable()
        return plan

    def _finish(
        self,
        status: int,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        cells: tuple[Any, Any],
        kind: type[_Plan] = Plan,  # type: ignore[assignment]
    ) -> _Plan:
        """Make the plan, after phase one was called."""
        if status:
            raise self._failure("GetWorkspaceSize", status, dict(zip(names, values, strict=True)))
        plan = _new(kind)
        plan.operator = self
        plan._names = names
        plan._values = values
        plan.workspace_size = cells[0][0]
        plan._handle = cells[1][0]
        plan._thread = get_ident()
        plan._closings = closings[0]
        self._spare.append(cells)
        return plan

    def __call__(self, /, stream: Stream, workspace: DeviceMemory | None = None, **arguments: Any) -> None:
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
        CannError
            If either phase returns a status other than 0. Mistakes raise as in :meth:`prepare` and :meth:`Plan.run`.
        """
        self.prepare(**arguments).run(stream, workspace)

    def _failure(self, phase: str, status: int, arguments: Mapping[str, Any]) -> CannError:
        api = self.signature.name if phase == "GetWorkspaceSize" else self.name
        return failure(self._library, api, phase, status, arguments=describe(self.signature, arguments))


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
    kind = Operator
    if signature.with_role(Role.CONTEXT):
        from cann_mla.atb import AtbOperator  # which builds on this module

        kind = AtbOperator
    return kind(library, signature, run, getattr(library, signature.name), getattr(library, run.name))


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

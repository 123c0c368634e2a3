"""Header files: reading them, alone and as one unit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from cann_mla.headers.cdef import Cdef, cdef
from cann_mla.headers.model import Constant, Header, HeaderError, Problem, Signature
from cann_mla.headers.parser import parse
from cann_mla.headers.roles import Overrides, pair, with_roles

_LARGEST = 4 << 20
"""Bytes; the largest header of CANN has 300,000."""


def root() -> Path:
    """Folder of the shipped headers: ``cann_mla/include`` of an installed package, ``headers`` of a
    checkout.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / "include"
    return installed if installed.is_dir() else package.parent / "headers"


@lru_cache
def overrides() -> Overrides:
    """The data file that decides roles where a prototype cannot."""
    table: Overrides = json.loads((root() / "roles.json").read_text(encoding="utf-8"))
    return table


class HeaderSet:
    """Several headers as one unit.

    Parameters
    ----------
    headers : iterable of Header
        In any order; those that others include come first in ``self.headers``.
    known : HeaderSet, optional
        Headers whose types these use without including them, usually the shipped ones.

    Attributes
    ----------
    functions : dict of str to Signature
        By symbol. Of several prototypes of one symbol the last counts.
    conflicts : list of tuple of Signature
        Pairs of prototypes of one symbol that differ in their types.
    operators : dict of str to Operator
        By C name of the operator (the symbol of phase two).
    unpaired : list of Signature
        Phases of operators whose other half is in none of the headers.
    constants : dict of str to int
        Named numbers, enumerators among them.
    """

    def __init__(self, headers: Iterable[Header], known: HeaderSet | None = None) -> None:
        self.headers = tuple(_included_first({h.path: h for h in headers}))
        self.functions: dict[str, Signature] = {}
        self.conflicts: list[tuple[Signature, Signature]] = []
        for signature in (s for h in self.headers for s in h.signatures):
            earlier = self.functions.get(signature.name)
            if earlier is not None and _types(earlier) != _types(signature):
                self.conflicts.append((earlier, signature))
            self.functions[signature.name] = signature
        self.operators, self.unpaired = pair(self.functions.values())
        self.constants: dict[str, int] = {k: v for h in self.headers for k, v in h.constants.items()}
        self._known = known

    @property
    def types(self) -> set[str]:
        """Names of the types that are declared here or in the known headers."""
        own = {d.name for h in self.headers for d in h.declarations if not isinstance(d, Constant | Signature)}
        return own | (self._known.types if self._known else set())

    def cdef(self) -> Cdef:
        """C text for ``FFI.cdef``; without what the known headers declare.

        Raises
        ------
        HeaderError
            A prototype uses a type that is declared nowhere.
        """
        return cdef(self.headers, self._known.types | self._known.constants.keys() if self._known else ())


def read(
    paths: Iterable[Path | str],
    *,
    known: HeaderSet | None = None,
    roles: Overrides | None = None,
    cplusplus: bool = True,
) -> HeaderSet:
    """Read header files as one unit.

    Parameters
    ----------
    paths : iterable of path
        The files.
    known : HeaderSet, optional
        Headers whose types these use, usually ``shipped.load()``.
    roles : mapping, optional
        Operator -> parameter -> role where the prototypes cannot tell; added to the shipped table.
    cplusplus : bool
        Whether ``__cplusplus`` counts as defined.

    Raises
    ------
    HeaderError
        With the problems of all the files.
    OSError
        A file cannot be opened.
    """
    headers = [scan(path, roles=roles, cplusplus=cplusplus) for path in paths]
    problems = [problem for header in headers for problem in header.problems]
    if problems:
        raise HeaderError(problems)
    return HeaderSet(headers, known)


def read_header(path: Path | str, *, name: str | None = None, cplusplus: bool = True) -> Header:
    """Read one header file, with the roles of its parameters filled in.

    Parameters
    ----------
    path : path
        The file.
    name : str, optional
        What messages call it (default: the path).
    cplusplus : bool
        Whether ``__cplusplus`` counts as defined.

    Raises
    ------
    HeaderError
        Something in it could not be read. ``scan`` returns what could be read together with the problems.
    OSError
        The file cannot be opened.
    """
    header = scan(path, name=name, cplusplus=cplusplus)
    if header.problems:
        raise HeaderError(header.problems)
    return header


def scan(
    path: Path | str, *, name: str | None = None, roles: Overrides | None = None, cplusplus: bool = True
) -> Header:
    """Read one header file as far as it can be read; what was refused is in ``problems``."""
    shown = name or str(path)
    size = Path(path).stat().st_size
    if size > _LARGEST:
        return Header(shown, problems=[Problem(shown, 1, "", f"{size} bytes; a header has at most {_LARGEST}")])
    header = parse(Path(path).read_text(encoding="utf-8", errors="replace"), shown, cplusplus=cplusplus)
    table = {**overrides(), **(roles or {})}
    header.declarations = [with_roles(d, table) if isinstance(d, Signature) else d for d in header.declarations]
    return header


def _types(signature: Signature) -> list[str]:
    return [signature.restype, *(p.type for p in signature.parameters)]


def _included_first(read: dict[str, Header]) -> Iterator[Header]:
    """The headers, each behind those it includes."""
    places: dict[str, list[str]] = {}
    for path in read:
        places.setdefault(path.rpartition("/")[2], []).append(path)
    done: set[str] = set()
    for first in read:
        stack = [first]
        while stack:
            path = stack[-1]
            included = (_find(include, path, places) for include in read[path].includes)
            waiting = next((i for i in included if i and i not in done and i not in stack), None)
            if waiting is not None:
                stack.append(waiting)
                continue
            stack.pop()
            if path not in done:
                done.add(path)
                yield read[path]


def _find(include: str, path: str, places: dict[str, list[str]]) -> str | None:
    """Which of the headers an ``#include`` in ``path`` means: the nearest whose path ends like it."""
    found = [p for p in places.get(include.rpartition("/")[2], ()) if f"/{p}".endswith(f"/{include}")]
    here = path.split("/")
    return max(found, key=lambda p: sum(a == b for a, b in zip(p.split("/"), here, strict=False)), default=None)

"""How two forms of a prototype differ, and a whole installation from the shipped headers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from cann_mla.headers import shipped
from cann_mla.headers.files import HeaderSet
from cann_mla.headers.model import Parameter, Signature

_SIMULATOR = "sim/"
"""Headers of the simulator's own functions, which no CANN has."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a comparison.

    Parameters
    ----------
    symbol : str
        The function.
    kind : str
        ``changed`` (other argument types), ``renamed`` (other names, same ABI), ``missing`` (the installed
        headers lack it), ``not exported`` (no library has the symbol), ``only exported`` (a library has it,
        no header) or ``new`` (the shipped headers lack it).
    details : tuple of str
        What differs.
    """

    symbol: str
    kind: str
    details: tuple[str, ...] = ()


def same_abi(first: Signature, second: Signature) -> bool:
    """Whether one compiled call serves both: the types agree but for ``const`` of what a pointer points
    to.
    """
    return _abi(first) == _abi(second)


def _abi(signature: Signature) -> list[str]:
    types = [signature.restype, *(p.type for p in signature.parameters)]
    return [" ".join(word for word in t.replace("*", " * ").split() if word != "const") for t in types]


def differences(old: Signature, new: Signature) -> list[str]:
    """What one has to know to go from one form of a prototype to the other, a line each.

    Empty if the two are alike in names and types.
    """
    lines: list[str] = []
    if old.restype != new.restype:
        lines.append(f"returns {new.restype}, not {old.restype}")
    if len(old.parameters) != len(new.parameters):
        lines.append(f"{len(new.parameters)} arguments, not {len(old.parameters)}")
    before = [(p.name, p.type) for p in old.parameters]
    after = [(p.name, p.type) for p in new.parameters]
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += _replaced(old.parameters[i:j], new.parameters[k:m], i, k)
    return lines


def _replaced(gone: tuple[Parameter, ...], come: tuple[Parameter, ...], i: int, k: int) -> list[str]:
    if len(gone) == len(come):
        pairs = zip(gone, come, strict=True)
        return [f"argument {k + n + 1}: {b.declaration}, not {a.declaration}" for n, (a, b) in enumerate(pairs)]
    lines = [f"without {p.declaration} (was argument {i + n + 1})" for n, p in enumerate(gone)]
    return lines + [f"argument {k + n + 1} is new: {p.declaration}" for n, p in enumerate(come)]


def compare(
    installed: HeaderSet, exported: Iterable[str] | None = None, *, own: HeaderSet | None = None
) -> list[Change]:
    """Compare the shipped headers with those of an installation and with the symbols of its libraries.

    Parameters
    ----------
    installed : HeaderSet
        Headers of the installation; an empty set if it brings none.
    exported : iterable of str, optional
        Symbols its libraries export; without them nothing is said about libraries.
    own : HeaderSet, optional
        What to compare with; the shipped headers by default.

    Returns
    -------
    list of Change
        By symbol; functions that agree are left out.
    """
    own = own or shipped.load()
    symbols = None if exported is None else set(exported)
    changes: list[Change] = []
    for name, mine in own.functions.items():
        if mine.header.startswith(_SIMULATOR):
            continue
        theirs = installed.functions.get(name)
        if theirs is None and installed.functions:
            since = f"shipped as {mine.header}:{mine.line}" + (f", since CANN {mine.since}" if mine.since else "")
            changes.append(Change(name, "missing", (since,)))
        elif theirs is not None and (lines := differences(mine, theirs)):
            where = f"{theirs.header}:{theirs.line}"
            kind = "renamed" if same_abi(mine, theirs) else "changed"
            changes.append(Change(name, kind, (*lines, where)))
        if symbols is not None and name not in symbols:
            changes.append(Change(name, "not exported", (f"since CANN {mine.since}",) if mine.since else ()))
    for name, theirs in installed.functions.items():
        if name not in own.functions:
            changes.append(Change(name, "new", (f"{theirs.header}:{theirs.line}",)))
    if symbols is not None and installed.functions:
        declared = own.functions.keys() | installed.functions.keys()
        prefixes = ("aclnn", "acl", "Atb", "Hccl")
        only = sorted(s for s in symbols - declared if s.startswith(prefixes))
        changes += [Change(s, "only exported") for s in only]
    return sorted(changes, key=lambda c: (c.symbol, c.kind))

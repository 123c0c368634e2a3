"""Which prototype a symbol is bound with, and the Python callable for it.

The installed header wins. Without one the CANN release decides (``headers/legacy`` holds superseded forms), and
otherwise the shipped header. A prototype that is the shipped one goes through the compiled binding, any other
through a function pointer of the type its header gives; no compiler is needed for either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cann_mla.binding import abi
from cann_mla.discovery import release_key
from cann_mla.headers import AliasType, EnumType, Header, RecordType, Signature, read_header, shipped
from cann_mla.headers.compare import differences

_OPERATORS = ("aclnn", "Atb")
_PHASE_ONE = "GetWorkspaceSize"


@dataclass(frozen=True)
class Difference:
    """A symbol whose prototype is not the shipped one.

    Attributes
    ----------
    symbol : str
    shipped, bound : str
        The two prototypes as C text.
    origin : str
        The header that won, or the release that decided.
    changes : tuple of str
        The difference in words.
    """

    symbol: str
    shipped: str
    bound: str
    origin: str
    changes: tuple[str, ...]


class Prototypes:
    """Prototypes of one library.

    Parameters
    ----------
    folders : iterable of Path
        Header folders of the installation, in order of priority: those that hold ``aclnnop``, and those of custom
        packages, which hold the headers themselves.
    version : str or None
        Release of the installed CANN.
    """

    def __init__(self, folders: Iterable[Path] = (), version: str | None = None) -> None:
        self._folders = tuple(folders)
        self._version = version
        self._signatures: dict[str, Signature] = {}
        self._headers: dict[str, Header] = {}
        self.differences: dict[str, Difference] = {}

    def add(self, header: Header) -> None:
        """Take the prototypes of a header that the caller named; they win over all others."""
        for signature in header.signatures:
            self._signatures[signature.name] = signature
            self._headers[signature.name] = header

    def knows(self, symbol: str) -> bool:
        """Whether any header declares the symbol."""
        return symbol in _compiled() or (symbol.startswith(_OPERATORS) and self._find(symbol) is not None)

    def signature(self, symbol: str) -> Signature:
        """The prototype that a symbol is bound with.

        Raises
        ------
        LookupError
            If no header declares the symbol.
        """
        found = self._find(symbol)
        if found is None:
            places = ", ".join([str(shipped.root()), *map(str, self._folders)])
            raise LookupError(f"no header declares {symbol}; searched {places}")
        return found

    def _find(self, symbol: str) -> Signature | None:
        known = self._signatures.get(symbol)
        if known is not None:
            return known
        ours = shipped_signature(symbol)
        origin = ""
        if (known := self._installed(symbol)) is not None:
            origin = known.header
        elif (known := self._superseded(symbol)) is not None:
            origin = f"CANN {self._version}, which has no header of its own"
        else:
            known = ours
        if known is not None:
            self._signatures[symbol] = known
        if known is not None and ours is not None and (changes := differences(ours, known)):
            prototypes = ours.prototype(), known.prototype()
            self.differences[symbol] = Difference(symbol, *prototypes, origin, tuple(changes))
        return known

    def _installed(self, symbol: str) -> Signature | None:
        for path in self._candidates(symbol):
            header = read_header(path)
            for signature in header.signatures:
                if signature.name == symbol:
                    self._headers[symbol] = header
                    return signature
        return None

    def _candidates(self, symbol: str) -> Iterator[Path]:
        """Installed headers that mention a symbol: the one with the shipped name first, then any other."""
        if not symbol.startswith(_OPERATORS):
            return
        mention = re.compile(rb"\b%b\s*\(" % re.escape(symbol.encode()))
        origin = _compiled().get(symbol)
        for folder in self._folders:
            named = folder / origin[1] if origin else None
            if named is not None and named.is_file():
                yield named
                continue
            for path in sorted((*folder.glob("*.h"), *folder.glob("aclnnop/**/*.h"), *folder.glob("atb/*.h"))):
                if mention.search(path.read_bytes()):
                    yield path

    def _superseded(self, symbol: str) -> Signature | None:
        if self._version is None or symbol not in _compiled():
            return None
        release = release_key(self._version)
        for signature in shipped.legacy().get(symbol, ()):
            if signature.until is not None and release < release_key(signature.until):
                return signature
        return None

    def since(self, symbol: str) -> str | None:
        """First CANN release known to have a symbol; None if the oldest known already has it."""
        found = self._find(symbol)
        return found.since if found else None

    def function(self, symbol: str, address: Any, *, apart: bool = False) -> Callable[..., Any]:
        """A Python callable for a symbol at an address; with `apart`, one that leaves the compiled binding alone."""
        lib, ffi = abi().lib, abi().ffi
        compiled = _compiled().get(symbol)
        may_differ = symbol.startswith(_OPERATORS) and bool(self._folders or self._version)
        if may_differ or symbol in self._signatures or compiled is None:
            pointer = self.pointer_type(self.signature(symbol))
            if apart or compiled is None or pointer != ffi.typeof(getattr(lib, symbol)):
                bound: Callable[..., Any] = ffi.cast(pointer, address)
                return bound
        lib.cann_mla_table[compiled[0]] = address
        function: Callable[..., Any] = getattr(lib, symbol)
        return function

    def resolve(self, signature: Signature) -> Signature:
        """A prototype in types the compiled binding has: those only its own header declares are replaced."""
        header = self._headers.get(signature.name)
        parameters = tuple(replace(p, type=_known_type(p.type, header)) for p in signature.parameters)
        return replace(signature, restype=_known_type(signature.restype, header), parameters=parameters)

    def pointer_type(self, signature: Signature) -> Any:
        """The cffi type of a pointer to a function."""
        if signature.variadic:
            raise TypeError(f"{signature.name} takes a variable number of arguments, which is not supported")
        known = self.resolve(signature)
        types = [p.type for p in known.parameters]
        return abi().ffi.typeof(f"{known.restype}(*)({', '.join(types) or 'void'})")


def _known_type(text: str, header: Header | None) -> str:
    """A type in words the compiled binding has: aliases replaced, own enums as int, own structs as void."""
    ffi = abi().ffi
    declared = {d.name: d for d in header.declarations} if header else {}
    for _ in range(16):
        try:
            ffi.typeof(text)
            return text
        except ffi.error:
            unknown = [word for word in re.findall(r"[A-Za-z_]\w*", text) if word in declared]
        for word in unknown:
            declaration = declared[word]
            if isinstance(declaration, AliasType):
                text = re.sub(rf"\b{word}\b", declaration.type, text)
            elif isinstance(declaration, EnumType):
                text = re.sub(rf"\b{word}\b", "int", text)
            elif isinstance(declaration, RecordType) and text.endswith("*"):
                text = re.sub(rf"\b{word}\b", "void", text)
        if not unknown:
            break
    raise TypeError(f"the type {text!r} cannot be passed: neither the shipped headers nor its own one tell what it is")


@lru_cache
def _compiled() -> dict[str, tuple[int, str]]:
    """Symbol -> index in the table of the compiled binding, and the shipped header it is from."""
    lib, ffi = abi().lib, abi().ffi
    found: dict[str, tuple[int, str]] = {}
    while (symbol := lib.cann_mla_symbols[len(found)]) != ffi.NULL:
        origin = lib.cann_mla_origins[len(found)]
        found[ffi.string(symbol).decode()] = (len(found), ffi.string(origin).decode())
    return found


def shipped_symbols() -> tuple[str, ...]:
    """Every C function of the shipped headers."""
    return tuple(_compiled())


def shipped_signature(symbol: str) -> Signature | None:
    """The shipped prototype of a symbol, or None."""
    compiled = _compiled().get(symbol)
    if compiled is None:
        return None
    return next(s for s in _shipped_header(compiled[1]).signatures if s.name == symbol)


@lru_cache
def _shipped_header(name: str) -> Header:
    return read_header(shipped.root() / name, name=name, cplusplus=False)

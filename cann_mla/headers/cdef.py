"""Declarations as plain C text, the form in which cffi takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from cann_mla.headers.aggregates import record_body
from cann_mla.headers.model import (
    AliasType,
    Constant,
    Declaration,
    EnumType,
    Header,
    HeaderError,
    Problem,
    RecordType,
    Signature,
    declare,
)

_FIXED = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_BUILTIN = {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"}
_KNOWN = _FIXED | _BUILTIN | {"const", "struct", "union", "enum", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t"}
_WORD = re.compile(r"[A-Za-z_]\w*")


class Cdef(NamedTuple):
    """C text for ``FFI.cdef`` and the functions in it.

    ``text`` has typedefs, enums, structs, constants and prototypes, each once, in an order in which every
    name is declared before it is used. ``functions`` are the prototypes in the same order.
    """

    text: str
    functions: tuple[Signature, ...]


def cdef(headers: Iterable[Header], known: Iterable[str] = ()) -> Cdef:
    """Write the declarations of headers for cffi.

    Parameters
    ----------
    headers : iterable of Header
        In an order in which a header comes after those it includes.
    known : iterable of str
        Types that are declared elsewhere, for example by an earlier ``cdef`` of the same ``FFI``.

    Raises
    ------
    HeaderError
        A prototype uses a type that is declared nowhere, or two declarations of one name differ.
    """
    types = _KNOWN | set(known)
    lines: list[str] = []
    functions: list[Signature] = []
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for header in headers:
        for declaration in header.declarations:
            line = declaration_text(declaration)
            earlier = seen.get(declaration.name)
            if isinstance(declaration, RecordType) and declaration.fields is None and declaration.name in types:
                continue
            if earlier is not None and declaration.name:
                if earlier != line:
                    why = f"{declaration.name} was declared differently before"
                    problems.append(Problem(header.path, declaration.line, line, why))
                continue
            seen[declaration.name] = line
            missing = _undeclared(declaration, types)
            if missing:
                why = f"the type {missing[0]} is declared in none of the headers given"
                problems.append(Problem(header.path, declaration.line, line, why))
                continue
            if isinstance(declaration, Signature):
                functions.append(declaration)
            elif not isinstance(declaration, Constant):
                types.add(declaration.name)
            lines.append(line)
    if problems:
        raise HeaderError(problems)
    return Cdef("\n".join(lines) + "\n", tuple(functions))


def _undeclared(declaration: Declaration, types: set[str]) -> list[str]:
    if isinstance(declaration, Signature):
        texts = [declaration.restype, *(p.type for p in declaration.parameters)]
    elif isinstance(declaration, AliasType):
        texts = [declaration.type]
        if declaration.type.startswith(("struct ", "union ")):
            return []
    elif isinstance(declaration, RecordType) and declaration.fields:
        own = {declaration.name}
        texts = [t for _, t in declaration.fields if "{" not in t]
        return [w for t in texts for w in _WORD.findall(t) if w not in types and w not in own]
    else:
        return []
    return [w for text in texts for w in _WORD.findall(text) if w not in types]


def declaration_text(declaration: Declaration) -> str:
    """One declaration as one line of C."""
    if isinstance(declaration, Signature):
        return declaration.prototype() + ";"
    if isinstance(declaration, Constant):
        return f"#define {declaration.name} {declaration.value}"
    if isinstance(declaration, AliasType):
        return f"typedef {declare(declaration.type, declaration.name)};"
    if isinstance(declaration, EnumType):
        values = ", ".join(f"{name} = {value}" for name, value in declaration.values)
        return f"typedef enum {{ {values} }} {declaration.name};" if declaration.name else f"enum {{ {values} }};"
    if declaration.fields is None:
        return f"typedef {declaration.kind} {declaration.name} {declaration.name};"
    body = record_body(declaration.fields)
    return f"typedef {declaration.kind} {declaration.name} {{ {body} }} {declaration.name};"

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
        Types, constants and enumerators that are declared elsewhere, for example by an earlier ``cdef`` of the
        same ``FFI``; they are left out.

    Raises
    ------
    HeaderError
        A declaration uses a type that is declared nowhere, or two declarations of one name differ.
    """
    known = set(known)
    types = _KNOWN | known
    texts: dict[str, str] = {}
    lines: list[str] = []
    functions: list[Signature] = []
    problems: list[Problem] = []
    for header in headers:
        for declaration in header.declarations:
            if not _is_new(declaration, known, texts):
                continue
            line = declaration_text(declaration)
            why = _conflict(declaration, line, types, texts)
            if why == _REPEATED:
                continue
            if why:
                problems.append(Problem(header.path, declaration.line, line, why))
                continue
            texts[declaration.name] = line
            lines.append(line)
            if isinstance(declaration, Signature):
                functions.append(declaration)
            elif not isinstance(declaration, Constant):
                types.add(declaration.name)
    if problems:
        raise HeaderError(problems)
    return Cdef("\n".join(lines) + "\n", tuple(functions))


_REPEATED = "repeated"


def _is_new(declaration: Declaration, known: set[str], texts: dict[str, str]) -> bool:
    """Whether a declaration says something that was not said elsewhere."""
    if isinstance(declaration, Signature):
        return True
    if isinstance(declaration, EnumType) and all(name in known for name, _ in declaration.values):
        return False
    forward = isinstance(declaration, RecordType) and declaration.fields is None
    return declaration.name not in known and not (forward and declaration.name in texts)


def _conflict(declaration: Declaration, line: str, types: set[str], texts: dict[str, str]) -> str:
    """Why a declaration cannot be written, or that it was written already, or nothing."""
    missing = [word for word in _undeclared(declaration, types) if word not in texts]  # sizes may be constants
    if missing:
        return f"the type {missing[0]} is declared in none of the headers given"
    earlier = texts.get(declaration.name) if declaration.name else None
    if earlier is None or earlier == f"typedef struct {declaration.name} {declaration.name};" != line:
        return ""  # a struct may be declared before it is defined
    return _REPEATED if earlier == line else f"{declaration.name} was declared differently before"


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

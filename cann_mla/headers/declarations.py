"""One declaration at a time: what it declares is added to the reading."""

from __future__ import annotations

from collections.abc import Sequence

from cann_mla.headers.aggregates import enumerators, fields
from cann_mla.headers.declarator import (
    CPlusPlusError,
    Token,
    UnreadableError,
    declarator,
    join,
    parameters,
    split_arguments,
)
from cann_mla.headers.expression import evaluate
from cann_mla.headers.model import AliasType, Constant, EnumType, RecordType, Signature
from cann_mla.headers.reading import Reading

_STORAGE = {"extern", "static", "inline", "constexpr", "thread_local", "__extension__", "__inline__", '"C"'}
_TRAILING = {"noexcept", "override", "final"}
_ONLY_CPLUSPLUS = {"static_assert", "_Static_assert", "template", "friend", "explicit"}
_TAGS = {"struct", "union", "enum", "class"}


def read_statement(reading: Reading, start: int, end: int) -> None:
    """Read a declaration that has no block; ``end`` is its semicolon.

    Raises
    ------
    UnreadableError
        It is none that is known.
    """
    reading.begin(start, end)
    tokens = reading.tokens[start:end]
    first = tokens[0][1]
    if first == "using":
        _using(reading, tokens, start)
    elif first in _ONLY_CPLUSPLUS or ("w", "operator") in tokens:
        reading.ignore(f"C++ {first}", join(tokens[:6]), start)
    elif first == "typedef":
        _typedef(reading, tokens[1:], start)
    else:
        leading, trailing = 0, len(tokens)
        while leading < trailing and tokens[leading][1] in _STORAGE:
            leading += 1
        while leading < trailing and tokens[trailing - 1][1] in _TRAILING:
            trailing -= 1
        _object_or_function(reading, tokens[leading:trailing], start, end)


def read_enum(reading: Reading, start: int, brace: int, end: int, behind: int) -> None:
    """Read an enum with its block; the indices are of its start, both braces and the final semicolon."""
    reading.begin(start, behind)
    head = [t for _, t in reading.tokens[start:brace]]
    tag, alias, extra = _names(head, reading.tokens[end + 1 : behind])
    scoped = "class" in head or "struct" in head
    name = reading.qualified(alias or tag) if alias or tag else ""
    values = enumerators(reading.tokens[brace + 1 : end], reading.names, f"{name}_" if scoped else "")
    reading.add(EnumType(name, tuple(values), reading.line(start)))
    reading.names.update(values)
    _aliases(reading, extra, name, start)


def read_record(reading: Reading, start: int, brace: int, end: int, behind: int) -> None:
    """Read a struct or union with its block; the indices are as for an enum."""
    reading.begin(start, behind)
    head = [t for _, t in reading.tokens[start:brace]]
    if ":" in head or "<" in head:
        raise CPlusPlusError("a derived class or a template")
    tag, alias, extra = _names(head, reading.tokens[end + 1 : behind])
    if not (tag or alias):
        raise UnreadableError("a struct without a name")
    members = tuple(fields(reading.tokens[brace + 1 : end], reading.names))
    name = reading.qualified(alias or tag)
    reading.add(RecordType(name, "union" if "union" in head else "struct", members, reading.line(start)))
    _aliases(reading, extra, name, start)


def _names(head: Sequence[str], trailing: Sequence[Token]) -> tuple[str, str, list[str]]:
    """Tag, first typedef name and further ones (with their ``*``) of an enum, struct or union."""
    words = head[: head.index(":")] if ":" in head else head
    words = [t for t in words if t not in _TAGS and t not in ("typedef", "const", "static")]
    tag = words[-1] if words else ""
    names = [join(part) for part in split_arguments(trailing) if part]
    if names and "typedef" not in head:
        raise UnreadableError("a type and a variable in one declaration")
    plain = [n for n in names if n.isidentifier()]
    others = [n for n in names if n not in plain[:1]]
    if tag and plain and tag != plain[0]:
        others.append(tag)
    return tag, plain[0] if plain else "", others


def _aliases(reading: Reading, extra: Sequence[str], name: str, start: int) -> None:
    for alias in extra:
        target = f"{name} {'*' * alias.count('*')}".rstrip()
        reading.add(AliasType(reading.qualified(alias.lstrip("*")), target, reading.line(start)))


def _using(reading: Reading, tokens: Sequence[Token], start: int) -> None:
    if len(tokens) < 4 or tokens[2][1] != "=":
        reading.ignore("C++ using", join(tokens[1:]), start)
        return
    name = reading.qualified(tokens[1][1])
    try:
        _, type_text = declarator(tokens[3:])
    except UnreadableError as error:
        reading.ignore(f"C++ using ({error})", name, start)
        return
    reading.add(AliasType(name, type_text, reading.line(start)))


def _typedef(reading: Reading, tokens: Sequence[Token], start: int) -> None:
    line = reading.line(start)
    first, *more = split_arguments(tokens)
    name, type_text = declarator(first)
    if name is None:
        raise UnreadableError("a typedef without a name")
    tag = tokens[0][1] if tokens[0][1] in ("struct", "union") else ""
    if tag and type_text == name:
        reading.add(RecordType(name, tag, None, line))
    else:
        shown = f"{tag} {type_text}" if tag and not type_text.startswith("const") else type_text
        reading.add(AliasType(reading.qualified(name), shown, line))
    base = type_text.rstrip("* ")
    for extra in more:
        other, pointer = declarator([("w", "void"), *extra])
        if other is None:
            raise UnreadableError("a typedef without a name")
        stars = pointer.removeprefix("void").strip()
        reading.add(AliasType(reading.qualified(other), f"{base} {stars}".rstrip(), line))


def _object_or_function(reading: Reading, tokens: Sequence[Token], start: int, end: int) -> None:
    if not tokens:
        raise UnreadableError("a declaration of nothing")
    if tokens[0][1] in _TAGS and len(tokens) == 2:
        if tokens[0][1] != "enum":
            kind = "union" if tokens[0][1] == "union" else "struct"
            reading.add(RecordType(reading.qualified(tokens[1][1]), kind, None, reading.line(start)))
        return
    texts = [t for _, t in tokens]
    opening = texts.index("(") if "(" in texts else -1
    assignment = texts.index("=") if "=" in texts else -1
    if opening > 0 and (assignment < 0 or opening < assignment):
        _function(reading, tokens, opening, start, end)
    elif assignment > 0:
        _constant(reading, tokens, assignment, start)
    else:
        name, _ = declarator(tokens)
        reading.ignore("variable", name or "", start)


def _constant(reading: Reading, tokens: Sequence[Token], assignment: int, start: int) -> None:
    name, _ = declarator(tokens[:assignment])
    if name is None:
        raise UnreadableError("a constant without a name")
    try:
        value = evaluate(join(tokens[assignment + 1 :]), reading.names)
    except ValueError:
        reading.ignore("variable", reading.qualified(name), start)
        return
    reading.names[name] = value
    reading.add(Constant(reading.qualified(name), value, reading.line(start)))


def _function(reading: Reading, tokens: Sequence[Token], opening: int, start: int, end: int) -> None:
    if not reading.c_linkage:
        reading.ignore("C++ function", reading.name_in(start, end), start)
        return
    if tokens[-1] != ("p", ")"):
        raise UnreadableError(f"{tokens[-1][1]!r} was not expected behind the parameters")
    name, restype = declarator(tokens[:opening])
    found, variadic = parameters(tokens[opening + 1 : -1], references=reading.in_extern_c)
    if name is None:
        raise UnreadableError("a name and a type were expected before the parenthesis")
    line = next(reading.line(i) for i in range(start, end) if reading.tokens[i][1] == name)
    since, until = reading.releases(end)
    reading.add(Signature(name, restype, found, reading.header.path, line, since, until, variadic))

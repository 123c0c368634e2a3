"""Bodies of enums, structs and unions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence

from cann_mla.headers.declarator import (
    CPlusPlusError,
    Token,
    UnreadableError,
    declarator,
    join,
    split_arguments,
)
from cann_mla.headers.expression import evaluate

_DEEPEST = 8
_MEMBER_FUNCTION = {
    ("w", "virtual"),
    ("w", "operator"),
    ("p", "~"),
    ("w", "public"),
    ("w", "private"),
    ("w", "protected"),
}


def enumerators(tokens: Sequence[Token], names: MutableMapping[str, int], prefix: str = "") -> list[tuple[str, int]]:
    """Read ``A = 1, B, ...``.

    Parameters
    ----------
    tokens : sequence of tokens
        What stands between the braces.
    names : mapping
        Values of constants that may be used.
    prefix : str
        Put before each name (for enumerators that C++ scopes).
    """
    own: dict[str, int] = {}
    known = ChainMap(own, names)  # no copy: a header may have thousands of enums
    values: list[tuple[str, int]] = []
    value = -1
    for part in split_arguments(tokens):
        if not part:
            continue
        (kind, name), *rest = part
        if kind != "w":
            raise UnreadableError(f"{name!r} cannot name an enumerator")
        if rest:
            if rest[0][1] != "=":
                raise UnreadableError(f"'=' or ',' was expected behind {name}")
            try:
                value = evaluate(join(rest[1:]), known)
            except ValueError as error:
                raise UnreadableError(f"the value of {name} cannot be read ({error})") from None
        else:
            value += 1
        own[name] = value
        values.append((prefix + name, value))
    return values


def fields(tokens: Sequence[Token], names: Mapping[str, int], depth: int = 0) -> list[tuple[str, str]]:
    """Read the members of a struct or union: pairs of name and C type.

    A member without a name (an anonymous union) has the name ``""`` and its whole text as type.
    """
    if depth > _DEEPEST:
        raise UnreadableError("structs are nested too deeply")
    members: list[tuple[str, str]] = []
    for part in split_arguments(tokens, ";"):
        if not part:
            continue
        brace = next((i for i, t in enumerate(part) if t == ("p", "{")), None)
        if brace is not None and part[0][1] in ("struct", "union"):
            members.append(_nested(part, brace, names, depth))
            continue
        if brace is not None or any(t in _MEMBER_FUNCTION for t in part) or _calls(part):
            raise CPlusPlusError("it has member functions")
        if ("p", ":") in part:
            raise UnreadableError("bit fields are not read")
        declaration = split_arguments(part, "=")[0]
        first, *more = split_arguments(declaration)
        name, type_text = declarator(first)
        if name is None:
            raise UnreadableError("a member without a name")
        members.append((name, _sized(type_text, names)))
        for extra in more:
            # only plain names: "int *a, *b" does not occur in an ABI header and would need the base type
            # again
            if len(extra) != 1 or type_text.endswith(("*", "]")):
                raise UnreadableError("several members in one declaration")
            members.append((extra[0][1], type_text))
    return members


def _calls(part: Sequence[Token]) -> bool:
    """Whether a member is a function: a word before the first parenthesis (a function pointer has ``(*``
    there).
    """
    opening = next((i for i, t in enumerate(part) if t == ("p", "(")), None)
    return opening is not None and opening + 1 < len(part) and part[opening + 1][1] != "*"


def _nested(part: Sequence[Token], brace: int, names: Mapping[str, int], depth: int) -> tuple[str, str]:
    if part[-1][1] == "}":
        name, body = "", part[brace + 1 : -1]
    elif part[-1][0] == "w" and part[-2][1] == "}":
        name, body = part[-1][1], part[brace + 1 : -2]
    else:
        raise UnreadableError("a nested struct or union was expected to end with '}' and a name")
    inner = fields(body, names, depth + 1)
    return name, f"{part[0][1]} {{ {record_body(inner)} }}"


def record_body(members: Sequence[tuple[str, str]]) -> str:
    """Members as C text, on one line."""
    return " ".join(f"{declare_member(name, type_text)};" for name, type_text in members)


def declare_member(name: str, type_text: str) -> str:
    """One member as C text without the semicolon."""
    if "{" in type_text:
        return f"{type_text} {name}".rstrip()
    if "(*)" in type_text:
        return type_text.replace("(*)", f"(*{name})", 1)
    base, bracket, size = type_text.partition("[")
    return f"{base}{'' if base.endswith('*') else ' '}{name}{bracket}{size}"


def _sized(type_text: str, names: Mapping[str, int]) -> str:
    """Replace the array sizes by numbers."""
    base, *sizes = type_text.split("[")
    return base + "".join(f"[{_size(size[:-1], names)}]" for size in sizes)


def _size(text: str, names: Mapping[str, int]) -> int:
    try:
        return evaluate(text, names)
    except ValueError as error:
        raise UnreadableError(f"the array size {text!r} cannot be read ({error})") from None

"""Types and parameters: from tokens to C text in normal form."""

from __future__ import annotations

from collections.abc import Sequence

from cann_mla.headers.model import Parameter

_QUALIFIERS = {
    "const",
    "volatile",
    "register",
    "restrict",
    "__restrict",
    "__restrict__",
    "__const",
    "mutable",
}
_BUILTIN = {"void", "bool", "_Bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"}
_TAGS = {"struct", "union", "enum", "class"}
_DEEPEST = 8
"""Function pointers nested deeper than this are refused; headers have one level."""

Token = tuple[str, str]
"""Kind ("w", "n", "s", "p", "?") and text."""


class UnreadableError(ValueError):
    """The tokens are no C declaration this reader knows; the message says why."""


class CPlusPlusError(UnreadableError):
    """The tokens are understood, but are C++ that has no C spelling."""


def split_arguments(tokens: Sequence[Token], separator: str = ",") -> list[Sequence[Token]]:
    """Cut tokens at the separators that stand in no bracket."""
    parts: list[Sequence[Token]] = []
    depth = start = 0
    for index, (kind, text) in enumerate(tokens):
        if kind != "p":
            continue
        if text in "([{":
            depth += 1
        elif text in ")]}":
            depth -= 1
        elif text == separator and depth == 0:
            parts.append(tokens[start:index])
            start = index + 1
    parts.append(tokens[start:])
    return parts


def parameters(
    tokens: Sequence[Token], depth: int = 0, *, references: bool = False
) -> tuple[tuple[Parameter, ...], bool]:
    """Read what stands between the parentheses of a prototype.

    Parameters
    ----------
    tokens : sequence of tokens
        Without the parentheses.
    depth : int
        How many function pointers the parameters stand in.
    references : bool
        Whether C++ references are read as the pointers they are in the ABI (in an ``extern "C"`` block).

    Returns
    -------
    tuple
        The parameters, and whether ``...`` ends them.
    """
    if not tokens or [t for _, t in tokens] == ["void"]:
        return (), False
    parts = split_arguments(tokens)
    variadic = [t for _, t in parts[-1]] == ["..."]
    if variadic:
        parts.pop()
    found = tuple(_parameter(part, position, depth, references) for position, part in enumerate(parts))
    names = {p.name for p in found}
    if len(names) != len(found):
        raise UnreadableError("two parameters have one name")
    return found, variadic


def _parameter(tokens: Sequence[Token], position: int, depth: int, references: bool) -> Parameter:
    if references:
        tokens = [(kind, "*" if (kind, text) == ("p", "&") else text) for kind, text in tokens]
    declaration, *default = split_arguments(tokens, "=")
    name, type_text = declarator(declaration, depth, parameter=True)
    if type_text == "void":
        raise UnreadableError("a parameter cannot be void")
    text = join(default[0]) if default else None
    return Parameter(name or f"arg{position}", type_text, default=text)


def declarator(tokens: Sequence[Token], depth: int = 0, *, parameter: bool = False) -> tuple[str | None, str]:
    """Read a type with the name it declares.

    Parameters
    ----------
    tokens : sequence of tokens
        For example those of ``const aclTensor *const value[]``.
    depth : int
        How many function pointers this one stands in.
    parameter : bool
        Whether C's rules for parameters hold: an array is a pointer, outermost ``const`` says nothing.

    Returns
    -------
    tuple
        Name (None if the declaration has none) and type in normal form.
    """
    if depth > _DEEPEST:
        raise UnreadableError("function pointers are nested too deeply")
    base, constant, index = _base(tokens)
    stars: list[str] = []
    while index < len(tokens) and tokens[index][0] == "p" and tokens[index][1] in ("*", "&"):
        if tokens[index][1] == "&":
            raise CPlusPlusError("a C++ reference")
        index += 1
        star = "*"
        while index < len(tokens) and tokens[index][1] in _QUALIFIERS:
            star = "*const" if tokens[index][1] == "const" else star
            index += 1
        stars.append(star)
    if index < len(tokens) and tokens[index] == ("p", "("):
        return _function_pointer(tokens, index, _join_type(base, constant, stars), depth)
    name = None
    if index < len(tokens) and tokens[index][0] == "w":
        name = tokens[index][1]
        index += 1
    sizes = _array(tokens, index)
    if parameter:
        if len(sizes) > 1:  # C passes a pointer to the inner array
            inner = "".join(f"[{size}]" for size in sizes[1:])
            return name, f"{_join_type(base, constant, stars)} (*){inner}"
        if sizes:
            stars.append("*")
        elif stars:
            stars[-1] = "*"
        else:
            constant = False
        sizes = []
    return name, _join_type(base, constant, stars) + "".join(f"[{size}]" for size in sizes)


def _base(tokens: Sequence[Token]) -> tuple[str, bool, int]:
    """Read the type name; returns it, whether it is const, and the index behind it (and behind its
    ``const``).
    """
    builtin: list[str] = []
    name = ""
    constant = False
    index = 0
    while index < len(tokens):
        kind, text = tokens[index]
        if text in _QUALIFIERS:
            constant = constant or text in ("const", "__const")
        elif text in _BUILTIN and not name:
            builtin.append("bool" if text == "_Bool" else text)
        elif (text in _TAGS and not name and not builtin) or (text == "typename" and not name):
            pass
        elif kind == "w" and not name and not builtin:
            name, index = _qualified_name(tokens, index)
            continue
        elif text == "::" and not name and not builtin:
            name, index = _qualified_name(tokens, index + 1)
            continue
        else:
            break
        index += 1
    if index < len(tokens) and tokens[index] == ("p", "<"):
        raise CPlusPlusError(f"{name} is a C++ template")
    if not name and not builtin:
        raise UnreadableError("a type was expected")
    return name or " ".join(builtin), constant, index


def _qualified_name(tokens: Sequence[Token], index: int) -> tuple[str, int]:
    """Read ``name`` or ``space::name``; the C spelling of the latter is ``space_name``, without ``std``."""
    parts: list[str] = []
    while True:
        if index >= len(tokens) or tokens[index][0] != "w":
            raise UnreadableError("a name was expected after '::'")
        parts.append(tokens[index][1])
        index += 1
        if index >= len(tokens) or tokens[index][1] != "::":
            break
        index += 1
    if parts[0] == "std":
        parts.pop(0)
        if not (parts and (parts[-1].endswith("_t"))):
            raise CPlusPlusError(f"std::{'::'.join(parts)} is a C++ type")
    return "_".join(parts), index


def _array(tokens: Sequence[Token], index: int) -> list[str]:
    """Read ``[8][N]`` up to the end of the tokens; returns the text of each size."""
    sizes: list[str] = []
    while index < len(tokens):
        if tokens[index] != ("p", "["):
            raise UnreadableError(_surplus(tokens, index))
        end = index + 1
        while end < len(tokens) and tokens[end][1] != "]":
            end += 1
        if end == len(tokens):
            raise UnreadableError("a bracket is not closed")
        sizes.append(join(tokens[index + 1 : end]))
        index = end + 1
    return sizes


def _surplus(tokens: Sequence[Token], index: int) -> str:
    kind, text = tokens[index]
    previous = tokens[index - 1][1] if index else ""
    if kind == "w":
        return f"{previous!r} and {text!r} follow one another; one of them may be a macro that is not known"
    return f"{text!r} was not expected"


def _function_pointer(tokens: Sequence[Token], index: int, result: str, depth: int) -> tuple[str | None, str]:
    """Read ``(*name)(parameters)`` behind the result type."""
    index += 1
    if index >= len(tokens) or tokens[index][1] != "*":
        raise UnreadableError("'(' was not expected")
    index += 1
    while index < len(tokens) and tokens[index][1] in _QUALIFIERS:
        index += 1
    name = None
    if index < len(tokens) and tokens[index][0] == "w":
        name = tokens[index][1]
        index += 1
    if [t for _, t in tokens[index : index + 2]] != [")", "("] or tokens[-1][1] != ")":
        raise UnreadableError("this is no pointer to a function")
    found, variadic = parameters(tokens[index + 2 : -1], depth + 1)
    types = [p.type for p in found] + (["..."] if variadic else [])
    gap = "" if result.endswith("*") else " "
    return name, f"{result}{gap}(*)({', '.join(types) or 'void'})"


def _join_type(base: str, constant: bool, stars: Sequence[str]) -> str:
    text = f"const {base}" if constant else base
    if not stars:
        return text
    pointers = stars[0]
    for star in stars[1:]:
        pointers += " " + star if pointers.endswith("const") else star
    return f"{text} {pointers}"


def join(tokens: Sequence[Token]) -> str:
    """Tokens as text again, for messages and default values."""
    text = ""
    for kind, token in tokens:
        if text and kind in "wns" and (text[-1].isalnum() or text[-1] in "_\"'"):
            text += " "
        text += token
    return text

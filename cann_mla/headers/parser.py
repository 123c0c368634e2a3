"""The structure of a header: blocks that are entered, and declarations one after the other.

A declaration is read, or listed as ignored with the reason (C++ that no C caller can use), or refused with
file, line and reason. The parser goes on behind a refused declaration, so that one report names all of them.
Blocks are followed with an explicit stack, never by recursion.
"""

from __future__ import annotations

from collections.abc import Callable

from cann_mla.headers.declarations import read_enum, read_record, read_statement
from cann_mla.headers.declarator import UnreadableError
from cann_mla.headers.lexer import tokenize
from cann_mla.headers.model import Header
from cann_mla.headers.reading import Reading

_MOST_PROBLEMS = _DEEPEST = 200
_QUALIFIERS = ("typedef", "extern", "static", "const")


def parse(text: str, path: str, *, cplusplus: bool = True) -> Header:
    """Read a header.

    Parameters
    ----------
    text : str
        The header.
    path : str
        Its name, for messages.
    cplusplus : bool
        Whether ``__cplusplus`` counts as defined in ``#if``: headers in the wild are C++, the shipped ones
        are read as C. The C++ that stands outside such blocks is understood either way.

    Returns
    -------
    Header
        With the problems in ``problems``; nothing is raised. Parameters have no roles yet (``with_roles``).
    """
    tokens = tokenize(text, path, cplusplus=cplusplus)
    header = Header(path, list(tokens.constants), tokens.includes, tokens.ignored, tokens.problems)
    reading = Reading(tokens, header)
    index = 0
    while index < len(reading.tokens):
        text_here = reading.tokens[index][1]
        if text_here == "}":
            if not reading.leave():
                reading.refuse(index, index + 1, "this brace closes nothing")
            index += 1
        elif text_here == ";":
            index += 1
        else:
            index = _declaration(reading, index)
        count, line = reading.unclosed
        if len(header.problems) > _MOST_PROBLEMS or count > _DEEPEST:
            what = "problems" if count <= _DEEPEST else "nested blocks"
            tokens.refuse(line or 1, "", f"more than {_MOST_PROBLEMS} {what}; the rest was not read")
            return header
    count, line = reading.unclosed
    if count:
        tokens.refuse(line, "{", f"{count} blocks are never closed, the last is this")
    return header


def _declaration(reading: Reading, start: int) -> int:
    """Read the declaration that starts at ``start``; returns the index behind it."""
    depth = 0
    for index in range(start, len(reading.tokens)):
        kind, text = reading.tokens[index]
        if kind != "p":
            continue
        if text in "([":
            depth += 1
        elif text in ")]":
            depth -= 1
        elif depth > 0:
            continue
        elif text == ";":
            try:
                read_statement(reading, start, index)
            except UnreadableError as error:
                reading.give_up(error, start, index)
            return index + 1
        elif text == "{":
            return _block(reading, start, index)
        elif text == "}":
            reading.refuse(start, index, "a semicolon is missing")
            return index
    end = len(reading.tokens)
    why = "a parenthesis is never closed" if depth > 0 else "the text ends inside this declaration"
    reading.refuse(start, end, why)
    return end


def _block(reading: Reading, start: int, brace: int) -> int:
    """Read what starts at ``start`` and has its first brace at ``brace``; returns the index behind it."""
    head = [text for _, text in reading.tokens[start:brace]]
    if head == ["extern", '"C"']:
        reading.enter("", start)
        return brace + 1
    if "namespace" in head[:2]:
        names = [t for t in head if t not in ("::", "namespace", "inline")]
        reading.enter("_".join(names) or "anonymous", start)
        return brace + 1
    end = _closing_brace(reading, brace)
    first = next((t for t in head if t not in _QUALIFIERS), "")
    if first == "enum":
        return _aggregate(reading, start, brace, end, read_enum)
    if first in ("struct", "union") and "(" not in head:
        return _aggregate(reading, start, brace, end, read_record)
    name = reading.name_in(start, brace)
    if first in ("class", "template"):
        reading.ignore(f"C++ {first}", name, start)
        return end + 1
    if "(" in head and ("=" not in head or "operator" in head or head.index("(") < head.index("=")):
        reading.ignore("function body", name, start)
        return end + 1
    if "=" in head or "<" in head or "constexpr" in head:
        reading.ignore("variable", name, start)
    else:
        reading.refuse(start, end, "this block is of no kind that is known")
    return _end_of_statement(reading, end + 1)


def _aggregate(
    reading: Reading, start: int, brace: int, end: int, read: Callable[[Reading, int, int, int, int], None]
) -> int:
    behind = _end_of_statement(reading, end + 1)
    try:
        if behind >= len(reading.tokens) or reading.tokens[behind][1] != ";":
            raise UnreadableError("a semicolon is missing behind the closing brace")
        read(reading, start, brace, end, behind)
    except UnreadableError as error:
        reading.give_up(error, start, behind, type_only=True)
    return behind


def _closing_brace(reading: Reading, opening: int) -> int:
    """Index of the brace that closes the one at ``opening``; the number of tokens if there is none."""
    depth = 0
    for index in range(opening, len(reading.tokens)):
        text = reading.tokens[index][1]
        if text == "{":
            depth += 1
        elif text == "}":
            depth -= 1
            if depth == 0:
                return index
    reading.refuse(opening, opening + 10, "this block is never closed")
    return len(reading.tokens)


def _end_of_statement(reading: Reading, index: int) -> int:
    """Index of the next semicolon, or of the brace before it, from ``index`` on."""
    while index < len(reading.tokens) and reading.tokens[index][1] not in (";", "{", "}"):
        index += 1
    return index

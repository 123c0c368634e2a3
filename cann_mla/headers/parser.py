"""Tokens to declarations.

A declaration is read, or listed as ignored with the reason (C++ that no C caller can use), or refused with
file, line and reason. The reader goes on behind a refused declaration, so that one report names all of them.
Blocks are followed with an explicit stack, never by recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from cann_mla.headers.lexer import DROP, DROP_CALL, DROPPED_MACROS, KEEP, Tokens, tokenize
from cann_mla.headers.model import (
    AliasType,
    Constant,
    Declaration,
    EnumType,
    Header,
    Ignored,
    RecordType,
    Signature,
)

_LEADING = {
    "extern",
    "static",
    "inline",
    "constexpr",
    "explicit",
    "friend",
    "__extension__",
    "__inline__",
    "thread_local",
    '"C"',
}
_TRAILING = {"noexcept", "override", "final"}
_CLASSES = ("class", "template")
_MOST_PROBLEMS = 200
_ReadBlock = Callable[[int, int, int, int], None]
"""Called with the index of the first token, of both braces and of the final semicolon."""


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
        With the problems in ``problems``; nothing is raised.
    """
    tokens = tokenize(text, path, cplusplus=cplusplus)
    header = Header(path, list(tokens.constants), tokens.includes, tokens.ignored, tokens.problems)
    _Parser(tokens, header).run()
    return header


class _Parser:
    def __init__(self, tokens: Tokens, header: Header) -> None:
        self._source = tokens
        self._header = header
        self._names = {c.name: c.value for c in tokens.constants}
        self._kept_macros = {name for name, what in tokens.macros.items() if what == KEEP}
        self._scopes: list[tuple[str, int]] = []  # namespace name ("" for extern "C") and line
        self._external = 0
        self._offsets: list[int] = []
        self._span = (0, 0)  # of the declaration that is being read
        self._tokens = self._without_decoration()

    def run(self) -> None:
        tokens, index = self._tokens, 0
        while index < len(tokens):
            text = tokens[index][1]
            if text == ";":
                index += 1
            elif text == "}":
                if self._scopes:
                    self._external -= self._scopes.pop()[0] == ""
                else:
                    self._refuse(index, index + 1, "this brace closes nothing")
                index += 1
            else:
                index = self._declaration(index)
            if len(self._source.problems) > _MOST_PROBLEMS:
                self._source.refuse(
                    self._source.line(0), "", f"more than {_MOST_PROBLEMS} problems; the rest was not read"
                )
                return
        if self._scopes:
            why = f"{len(self._scopes)} blocks are never closed, the last is this"
            self._source.refuse(self._scopes[-1][1], "{", why)

    def _without_decoration(self) -> list[Token]:
        """The tokens without attributes and without the macros that only decorate."""
        source, kept = self._source, []
        texts, kinds, macros = source.texts, source.kinds, source.macros
        index, count = 0, len(texts)
        while index < count:
            text = texts[index]
            if kinds[index] == "w" and (text in DROPPED_MACROS or macros.get(text) in (DROP, DROP_CALL)):
                index += 1
                if index < count and texts[index] == "(" and macros.get(text) != DROP:
                    index = self._behind(index)
                continue
            if text == "[" and index + 1 < count and texts[index + 1] == "[":
                index = self._behind(index)
                continue
            kept.append((kinds[index], text))
            self._offsets.append(source.starts[index])
            index += 1
        return kept

    def _behind(self, index: int) -> int:
        """Index behind the bracket that closes the one at ``index``, in the undecorated tokens."""
        texts, opening = self._source.texts, self._source.texts[index]
        closing = ")" if opening == "(" else "]"
        depth, start = 0, index
        while index < len(texts):
            if texts[index] == opening:
                depth += 1
            elif texts[index] == closing:
                depth -= 1
                if depth == 0:
                    return index + 1
            index += 1
        self._source.refuse(self._source.line(start), " ".join(texts[start - 1 : start + 20]), "this is never closed")
        return index

    # What stands between two declarations

    def _declaration(self, start: int) -> int:
        """Read the declaration that starts at ``start``; returns the index behind it."""
        tokens = self._tokens
        depth, index = 0, start
        while index < len(tokens):
            kind, text = tokens[index]
            if kind == "p":
                if text in "([":
                    depth += 1
                elif text in ")]":
                    depth -= 1
                elif depth <= 0 and text == ";":
                    self._try(start, index, self._plain)
                    return index + 1
                elif depth <= 0 and text == "{":
                    return self._block(start, index)
                elif depth <= 0 and text == "}":
                    self._refuse(start, index, "a semicolon is missing")
                    return index
            index += 1
        why = "a parenthesis is never closed" if depth > 0 else "the text ends inside this declaration"
        self._refuse(start, index, why)
        return index

    def _try(self, start: int, end: int, read: Callable[[int, int], None]) -> None:
        self._span = (self._offsets[start], self._offsets[end] + 1)
        try:
            self._refuse_macros(start, end)
            read(start, end)
        except UnreadableError as error:
            self._refuse(start, end, str(error))

    def _refuse_macros(self, start: int, end: int) -> None:
        """Refuse a declaration in which a macro stands that is not expanded."""
        found = next((t for _, t in self._tokens[start:end] if t in self._kept_macros), None)
        if found is not None:
            raise UnreadableError(f"the macro {found} is not expanded")

    def _refuse(self, start: int, end: int, why: str) -> None:
        self._source.refuse(self._line(start), join(self._tokens[start : min(end, start + 60)]), why)

    def _line(self, index: int) -> int:
        return self._source.line_at(self._offsets[index])

    def _close(self, opening: int) -> int:
        """Index of the brace that closes the one at ``opening``; the number of tokens if there is none."""
        depth, tokens = 0, self._tokens
        for index in range(opening, len(tokens)):
            text = tokens[index][1]
            if text == "{":
                depth += 1
            elif text == "}":
                depth -= 1
                if depth == 0:
                    return index
        self._refuse(opening, opening + 10, "this block is never closed")
        return len(tokens)

    def _semicolon(self, index: int) -> int:
        """Index of the next semicolon (or brace that ends the enclosing block) from ``index`` on."""
        while index < len(self._tokens) and self._tokens[index][1] not in (";", "{", "}"):
            index += 1
        return index

    # Declarations with a block

    def _block(self, start: int, brace: int) -> int:
        """Read what starts at ``start`` and has its first brace at ``brace``; returns the index behind it."""
        head = [text for _, text in self._tokens[start:brace]]
        if head == ["extern", '"C"']:
            return self._enter("", start, brace)
        if "namespace" in head[:2]:
            return self._enter(
                "_".join(t for t in head[1:] if t not in ("::", "namespace")) or "anonymous", start, brace
            )
        end = self._close(brace)
        first = next((t for t in head if t not in ("typedef", "extern", "static", "const")), "")
        behind = self._semicolon(end + 1)
        if first == "enum":
            self._aggregate(start, brace, end, behind, self._enum)
        elif first in ("struct", "union") and "(" not in head:
            self._aggregate(start, brace, end, behind, self._record)
        elif first in _CLASSES:
            self._ignore(f"C++ {first}", self._name_in(head), start)
            return end + 1
        elif "(" in head and ("=" not in head or "operator" in head or head.index("(") < head.index("=")):
            self._ignore("function body", self._name_in(head), start)
            return end + 1
        elif "=" in head or "<" in head or "constexpr" in head:
            self._ignore("variable", self._name_in(head), start)
        else:
            self._refuse(start, end, "this block is of no kind that is known")
        return behind

    def _enter(self, name: str, start: int, brace: int) -> int:
        self._scopes.append((name, self._line(start)))
        self._external += name == ""
        return brace + 1

    def _name_in(self, head: Sequence[str]) -> str:
        """The word a reader would call the declaration by: the one before the first bracket, else the
        last.
        """
        stop = next((i for i, t in enumerate(head) if t in ("(", ":", "=", "<")), len(head))
        words = [t for t in head[:stop] if t[0].isalpha() or t[0] == "_"]
        return self._qualified(words[-1]) if words else ""

    def _qualified(self, name: str) -> str:
        return "_".join([space for space, _ in self._scopes if space] + [name])

    def _ignore(self, what: str, name: str, start: int) -> None:
        self._header.ignored.append(Ignored(what, name, self._line(start)))

    @property
    def _c_linkage(self) -> bool:
        return self._external > 0 or not self._scopes

    def _aggregate(self, start: int, brace: int, end: int, behind: int, read: _ReadBlock) -> None:
        try:
            if behind >= len(self._tokens) or self._tokens[behind][1] != ";":
                raise UnreadableError("a semicolon is missing behind the closing brace")
            self._span = (self._offsets[start], self._offsets[behind] + 1)
            self._refuse_macros(start, behind)
            read(start, brace, end, behind)
        except UnreadableError as error:
            if self._c_linkage and not isinstance(error, CPlusPlusError):
                self._refuse(start, behind, str(error))
            else:
                self._ignore(f"C++ type ({error})", self._name_in([t for _, t in self._tokens[start:brace]]), start)

    def _enum(self, start: int, brace: int, end: int, behind: int) -> None:
        head = [t for _, t in self._tokens[start:brace]]
        tag, alias, extra = self._names_of(head, end, behind)
        scoped = "class" in head or "struct" in head
        name = self._qualified(alias or tag) if alias or tag else ""
        values = enumerators(self._tokens[brace + 1 : end], self._names, f"{name}_" if scoped else "")
        self._add(EnumType(name, tuple(values), self._line(start)))
        self._names.update(values)
        self._aliases(extra, name, start)

    def _record(self, start: int, brace: int, end: int, behind: int) -> None:
        head = [t for _, t in self._tokens[start:brace]]
        if ":" in head or "<" in head:
            raise CPlusPlusError("a derived class or a template")
        tag, alias, extra = self._names_of(head, end, behind)
        if not (tag or alias):
            raise UnreadableError("a struct without a name")
        kind = "union" if "union" in head else "struct"
        members = tuple(fields(self._tokens[brace + 1 : end], self._names))
        name = self._qualified(alias or tag)
        self._add(RecordType(name, kind, members, self._line(start)))
        self._aliases(extra, name, start)

    def _names_of(self, head: Sequence[str], end: int, behind: int) -> tuple[str, str, list[str]]:
        """Tag, first typedef name and further ones (with their ``*``) of an enum, struct or union."""
        words = head[: head.index(":")] if ":" in head else head
        words = [t for t in words if t not in ("typedef", "enum", "struct", "union", "class", "const", "static")]
        tag = words[-1] if words else ""
        trailing = split_arguments(self._tokens[end + 1 : behind])
        names = [join(part) for part in trailing if part]
        if names and "typedef" not in head:
            raise UnreadableError("a type and a variable in one declaration")
        plain = [n for n in names if n.isidentifier()]
        others = [n for n in names if n not in plain[:1]]
        if tag and plain and tag != plain[0]:
            others.append(tag)
        return tag, plain[0] if plain else "", others

    def _aliases(self, extra: Sequence[str], name: str, start: int) -> None:
        for alias in extra:
            stars = alias.count("*")
            target = f"{name} {'*' * stars}".rstrip()
            self._add(AliasType(self._qualified(alias.lstrip("*")), target, self._line(start)))

    def _add(self, declaration: Declaration) -> None:
        self._header.declarations.append(declaration)
        self._header.spans[declaration.name] = self._span

    # Declarations that end with a semicolon

    def _plain(self, start: int, end: int) -> None:
        tokens = self._tokens[start:end]
        first = tokens[0][1]
        if first == "using":
            self._using(tokens, start)
        elif first in ("static_assert", "_Static_assert", "template", "friend") or ("w", "operator") in tokens:
            self._ignore(f"C++ {first}", join(tokens[:6]), start)
        elif first == "typedef":
            self._typedef(tokens[1:], start)
        else:
            while tokens and tokens[0][1] in _LEADING:
                tokens = tokens[1:]
            while tokens and tokens[-1][1] in _TRAILING:
                tokens = tokens[:-1]
            self._object_or_function(tokens, start)

    def _using(self, tokens: Sequence[Token], start: int) -> None:
        if len(tokens) > 3 and tokens[2][1] == "=":
            self._alias(tokens[1][1], tokens[3:], start)
        else:
            self._ignore("C++ using", join(tokens[1:]), start)

    def _typedef(self, tokens: Sequence[Token], start: int) -> None:
        first, *more = split_arguments(tokens)
        name, type_text = declarator(first)
        if name is None:
            raise UnreadableError("a typedef without a name")
        if tokens[0][1] in ("struct", "union") and type_text == name:
            self._add(RecordType(name, tokens[0][1], None, self._line(start)))
        else:
            if tokens[0][1] in ("struct", "union"):
                type_text = f"{tokens[0][1]} {type_text}" if not type_text.startswith("const") else type_text
            self._add(AliasType(self._qualified(name), type_text, self._line(start)))
        for extra in more:
            if extra and extra[0][1] == "*":
                base = type_text.rstrip("* ")
                other, _ = declarator([("w", "void"), *extra])
                self._add(
                    AliasType(self._qualified(other or ""), base + " " + "*" * (len(extra) - 1), self._line(start))
                )
            else:
                self._add(AliasType(self._qualified(join(extra)), type_text, self._line(start)))

    def _alias(self, name: str, tokens: Sequence[Token], start: int) -> None:
        try:
            _, type_text = declarator(tokens)
        except UnreadableError as error:
            self._ignore(f"C++ using ({error})", self._qualified(name), start)
            return
        self._add(AliasType(self._qualified(name), type_text, self._line(start)))

    def _object_or_function(self, tokens: Sequence[Token], start: int) -> None:
        if not tokens:
            raise UnreadableError("a declaration of nothing")
        if tokens[0][1] in ("struct", "union", "enum", "class") and len(tokens) == 2:
            kind = "union" if tokens[0][1] == "union" else "struct"
            if tokens[0][1] != "enum":
                self._add(RecordType(self._qualified(tokens[1][1]), kind, None, self._line(start)))
            return
        texts = [t for _, t in tokens]
        opening = texts.index("(") if "(" in texts else -1
        assignment = texts.index("=") if "=" in texts else -1
        if opening > 0 and (assignment < 0 or opening < assignment):
            self._function(tokens, opening, start)
        elif assignment > 0:
            self._constant(tokens, assignment, start)
        else:
            declarator(tokens)
            self._ignore("variable", tokens[-1][1], start)

    def _constant(self, tokens: Sequence[Token], assignment: int, start: int) -> None:
        name, _ = declarator(tokens[:assignment])
        try:
            value = evaluate(join(tokens[assignment + 1 :]), self._names)
        except ValueError:
            self._ignore("variable", self._qualified(name or ""), start)
            return
        if name is None:
            raise UnreadableError("a constant without a name")
        self._names[name] = value
        self._add(Constant(self._qualified(name), value, self._line(start)))

    def _function(self, tokens: Sequence[Token], opening: int, start: int) -> None:
        if not self._c_linkage:
            self._ignore("C++ function", self._name_in([t for _, t in tokens]), start)
            return
        if tokens[-1] != ("p", ")"):
            raise UnreadableError(f"{tokens[-1][1]!r} was not expected behind the parameters")
        external = self._external > 0
        try:
            name, restype = declarator(tokens[:opening])
            found, variadic = parameters(tokens[opening + 1 : -1], references=external)
        except CPlusPlusError as error:
            if external:
                raise
            self._ignore(f"C++ function ({error})", self._name_in([t for _, t in tokens]), start)
            return
        if name is None:
            raise UnreadableError("a name and a type were expected before the parenthesis")
        line = self._line(self._index_of(start, name))
        since, until = self._releases(start, tokens)
        self._add(Signature(name, restype, found, self._header.path, line, since, until, variadic))

    def _index_of(self, start: int, name: str) -> int:
        index = start
        while self._tokens[index][1] != name:
            index += 1
        return index

    def _releases(self, start: int, tokens: Sequence[Token]) -> tuple[str | None, str | None]:
        index = start + len(tokens)
        while index < len(self._tokens) and self._tokens[index][1] != ";":
            index += 1
        return self._source.releases.get(self._line(min(index, len(self._tokens) - 1)), (None, None))

"""The state of reading one header: what is left of its text, where we are, what was found."""

from __future__ import annotations

from collections.abc import Sequence

from cann_mla.headers.declarator import CPlusPlusError, Token, UnreadableError, join
from cann_mla.headers.lexer import DROP, DROP_CALL, DROPPED_MACROS, KEEP, Tokens
from cann_mla.headers.model import Declaration, Header, Ignored


class Reading:
    """Tokens without decoration, the blocks that are open, and what was made of it so far.

    Attributes
    ----------
    tokens : list of tokens
        Those that declarations consist of; an index into it is what the methods mean by ``start`` and ``end``.
    names : dict of str to int
        Constants and enumerators that are known by now.
    header : Header
        The result.
    """

    def __init__(self, source: Tokens, header: Header) -> None:
        self.header = header
        self.names = {c.name: c.value for c in source.constants}
        self.tokens: list[Token] = []
        self._source = source
        self._offsets: list[int] = []
        self._kept_macros = {name for name, what in source.macros.items() if what == KEEP}
        self._scopes: list[tuple[str, int]] = []  # name of a namespace ("" for extern "C") and line
        self._external = 0
        self._span = (0, 0)  # of the declaration that is being read
        self._drop_decoration()

    # Open blocks

    @property
    def in_extern_c(self) -> bool:
        """Whether an ``extern "C"`` block is open."""
        return self._external > 0

    @property
    def c_linkage(self) -> bool:
        """Whether a function here has C linkage; outside all blocks that is taken for granted."""
        return self._external > 0 or not self._scopes

    @property
    def unclosed(self) -> tuple[int, int]:
        """Number of open blocks and line of the innermost."""
        return (len(self._scopes), self._scopes[-1][1]) if self._scopes else (0, 0)

    def enter(self, name: str, start: int) -> None:
        """Open a namespace, or with an empty name an ``extern "C"`` block."""
        self._scopes.append((name, self.line(start)))
        self._external += name == ""

    def leave(self) -> bool:
        """Close the innermost block; False if none is open."""
        if not self._scopes:
            return False
        self._external -= self._scopes.pop()[0] == ""
        return True

    def qualified(self, name: str) -> str:
        """C spelling of a name that is declared here: ``atb_Status`` for ``Status`` in ``namespace atb``."""
        return "_".join([space for space, _ in self._scopes if space] + [name])

    # Results

    def line(self, index: int) -> int:
        """Line of a token."""
        return self._source.line_at(self._offsets[index])

    def releases(self, index: int) -> tuple[str | None, str | None]:
        """The releases in the remark on the line of a token."""
        return self._source.releases.get(self.line(index), (None, None))

    def begin(self, start: int, end: int) -> None:
        """Start a declaration; refuse it if a macro stands in it that is not expanded."""
        self._span = (self._offsets[start], self._offsets[end] + 1)
        found = next((t for _, t in self.tokens[start:end] if t in self._kept_macros), None)
        if found is not None:
            raise UnreadableError(f"the macro {found} is not expanded")

    def add(self, declaration: Declaration) -> None:
        """Note a declaration that was read."""
        self.header.declarations.append(declaration)
        self.header.spans[declaration.name] = self._span

    def ignore(self, what: str, name: str, start: int) -> None:
        """Note text that is understood and of no use to a C caller."""
        self.header.ignored.append(Ignored(what, name, self.line(start)))

    def refuse(self, start: int, end: int, why: str) -> None:
        """Note text that cannot be read."""
        self._source.refuse(self.line(start), join(self.tokens[start : min(end, start + 60)]), why)

    def give_up(self, error: UnreadableError, start: int, end: int, *, type_only: bool = False) -> None:
        """Note a declaration that failed: ignored if it is C++ that no C caller can need, else refused.

        A C++ type is that anywhere, anything else only outside ``extern "C"``.
        """
        cplusplus = isinstance(error, CPlusPlusError) and (type_only or not self.in_extern_c)
        if cplusplus or not self.c_linkage:
            self.ignore(f"C++ ({error})", self.name_in(start, end), start)
        else:
            self.refuse(start, end, str(error))

    def name_in(self, start: int, end: int) -> str:
        """What a reader would call the declaration: its last word before the first bracket."""
        words: list[str] = []
        for kind, text in self.tokens[start:end]:
            if text in ("(", ":", "=", "<", "{", ";"):
                break
            if kind == "w":
                words.append(text)
        return self.qualified(words[-1]) if words else ""

    # Decoration

    def _drop_decoration(self) -> None:
        """Take over the tokens without attributes and without the macros that only decorate."""
        source = self._source
        texts, kinds, starts, macros = source.texts, source.kinds, source.starts, source.macros
        index, count = 0, len(texts)
        while index < count:
            text = texts[index]
            if kinds[index] == "w" and (text in DROPPED_MACROS or macros.get(text) in (DROP, DROP_CALL)):
                index += 1
                if index < count and texts[index] == "(" and macros.get(text) != DROP:
                    index = self._behind(texts, index)
            elif text == "[" and index + 1 < count and texts[index + 1] == "[":
                index = self._behind(texts, index)
            else:
                self.tokens.append((kinds[index], text))
                self._offsets.append(starts[index])
                index += 1

    def _behind(self, texts: Sequence[str], start: int) -> int:
        """Index behind the bracket that closes the one at ``start``."""
        opening = texts[start]
        closing = ")" if opening == "(" else "]"
        depth = 0
        for index in range(start, len(texts)):
            if texts[index] == opening:
                depth += 1
            elif texts[index] == closing:
                depth -= 1
                if depth == 0:
                    return index + 1
        shown = " ".join(texts[max(start - 1, 0) : start + 20])
        self._source.refuse(self._source.line(start), shown, "this is never closed")
        return len(texts)

"""Header text to tokens: comments, directives and conditionals are dealt with here.

Everything runs in time proportional to the length of the text. Macros are not expanded: those that only carry
visibility, deprecation or linkage are dropped, those that stand for a number become constants, and the parser
refuses a declaration in which any other one appears.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from cann_mla.headers.expression import evaluate
from cann_mla.headers.model import Constant, Ignored, Problem

DROPPED_MACROS = {
    "ACL_FUNC_VISIBILITY",
    "ACLNN_API",
    "ACL_DEPRECATED",
    "ACL_DEPRECATED_MESSAGE",
    "ACL_DUMP_API",
    "ACL_DUMP_WEAK",
    "ATB_VISIBILITY",
    "FUNC_VISIBILITY",
    "GE_FUNC_VISIBILITY",
    "HCCL_API",
    "OP_API_FUNC_VISIBILITY",
    "__attribute__",
    "__attribute",
    "__declspec",
    "_declspec",
    "alignas",
}
"""Names that are removed, with a parenthesis behind them, before a declaration is read."""

DROP, DROP_CALL, KEEP = "drop", "drop with its arguments", "keep"
"""What happens to a macro of the header itself where it is used; a declaration with one that is kept is
refused.
"""

_PREDEFINED = {"__GNUC__": 12, "__linux__": 1, "__x86_64__": 1, "__STDC_VERSION__": 201112}

_COMMENT_OR_QUOTE = re.compile(r"""/[*/]|["']""")
_LINE_COMMENT = re.compile(r"//(?:[^\n\\]|\\\r?\n|\\)*")  # goes on behind a backslash at the end of the line
_STRINGS = {'"': re.compile(r'"(?:[^"\\\n]|\\.)*"'), "'": re.compile(r"'(?:[^'\\\n]|\\.)*'")}
_TOKEN = re.compile(
    r"""(?:\s|\\\r?\n)*
    (?: ([A-Za-z_]\w*)
      | (::|\.\.\.|->|<<|>>|[-{}()\[\];:,*&=<>~+/%|^!?]|\.(?!\d))
      | (\.?\d(?:[eEpP][+-]|'?[\w.])*)
      | ("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)
      | (\S)
      | \Z)""",
    re.VERBOSE,
)
_KINDS = "?wpns?"
_DIRECTIVES = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\)*", re.MULTILINE)
_DEEPEST = 200
_MOST_TOKENS = 200_000
"""The largest header of CANN has a tenth of them."""
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([A-Za-z_]\w*)?(.*)", re.DOTALL)
_DEFINE = re.compile(r"\s*([A-Za-z_]\w*)(\()?(.*)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))|\b__has_\w+\s*\([^()]*\)")
_RELEASES = re.compile(r"(?:since (\S+))?\s*(?:until (\S+))?\Z")
_DECORATION = re.compile(r"\s*(?:__attribute__\b|_?_declspec\b|\[\[|extern\b|inline\b|static\b|\Z)[^{};]*\Z")


@dataclass(slots=True)
class Tokens:
    """The tokens of a header that survive the preprocessor.

    ``kinds`` is "w" (word), "n" (number), "s" (string), "p" (punctuation) or "?" (a character C does not
    have).
    """

    path: str
    texts: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    newlines: list[int] = field(default_factory=list)
    releases: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)
    macros: dict[str, str] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def line_at(self, offset: int) -> int:
        """Line (from 1) of an offset into the text."""
        return bisect_right(self.newlines, offset - 1) + 1

    def line(self, index: int) -> int:
        """Line (from 1) of a token; the last line for an index behind the end."""
        return self.line_at(self.starts[index]) if index < len(self.starts) else len(self.newlines) + 1

    def refuse(self, line: int, text: str, why: str) -> None:
        """Note a piece of text that could not be read."""
        shown = " ".join(text[:400].split())
        self.problems.append(Problem(self.path, line, shown if len(shown) <= 120 else shown[:117] + "...", why))


def tokenize(text: str, path: str, *, cplusplus: bool = False) -> Tokens:
    """Split a header into tokens.

    Parameters
    ----------
    text : str
        The header.
    path : str
        Its name, for messages.
    cplusplus : bool
        Whether ``__cplusplus`` is defined while ``#if`` blocks are decided.
    """
    tokens = Tokens(path)
    text = text.removeprefix("\ufeff")
    tokens.newlines = [m.start() for m in re.finditer("\n", text)]
    text = _blank_comments(text, tokens)
    conditions = _Conditions(tokens, cplusplus)
    position = 0
    for match in _DIRECTIVES.finditer(text):
        if conditions.active:
            _cut(text, position, match.start(), tokens)
        conditions.directive(match.group(), match.start())
        position = match.end()
        if conditions.depth > _DEEPEST:
            tokens.refuse(tokens.line_at(match.start()), match.group(), f"more than {_DEEPEST} nested conditionals")
            return tokens
    if conditions.active:
        _cut(text, position, len(text), tokens)
    conditions.finish()
    return tokens


def _cut(text: str, start: int, end: int, tokens: Tokens) -> None:
    """Append the tokens between two offsets; too many of them are refused."""
    texts, kinds, starts = tokens.texts, tokens.kinds, tokens.starts
    for match in _TOKEN.finditer(text, start, end):
        group = match.lastindex
        if group is None:
            return
        texts.append(match.group(group))
        kinds.append(_KINDS[group])
        starts.append(match.start(group))
        if len(texts) > _MOST_TOKENS:
            tokens.refuse(tokens.line(-1), texts[-1], f"more than {_MOST_TOKENS} tokens; no header is that long")
            del texts[:], kinds[:], starts[:]
            return


def _blank_comments(text: str, tokens: Tokens) -> str:
    """Replace comments by blanks of the same length, so that offsets and lines stay; note the releases they
    give.
    """
    pieces: list[str] = []
    done = position = 0
    unclosed = dict.fromkeys(_STRINGS, 0)  # up to where no string of this quote can be closed
    while match := _COMMENT_OR_QUOTE.search(text, position):
        start, opening = match.span()[0], match.group()
        if opening in _STRINGS:
            position = start + 1
            if start >= unclosed[opening]:
                string = _STRINGS[opening].match(text, start)
                if string:
                    position = string.end()
                else:
                    unclosed[opening] = _line_end(text, start)
            continue
        if opening == "/*":
            end = text.find("*/", start + 2)
            if end < 0:
                tokens.refuse(tokens.line_at(start), text[start : start + 80], "this comment is never closed")
                end = len(text) - 2
            position = end + 2
        else:
            line = _LINE_COMMENT.match(text, start)
            position = line.end() if line else start + 2
        comment = text[start:position]
        releases = _RELEASES.match(comment[2:].removesuffix("*/").strip())
        if releases and (releases.group(1) or releases.group(2)):
            tokens.releases[tokens.line_at(start)] = (releases.group(1), releases.group(2))
        blank = re.sub(r"[^\n]", " ", comment) if "\n" in comment else " " * len(comment)
        pieces += (text[done:start], blank)
        done = position
    pieces.append(text[done:])
    return "".join(pieces)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


class _Conditions:
    """The ``#if`` stack, the macros and the constants that directives define."""

    def __init__(self, tokens: Tokens, cplusplus: bool) -> None:
        self._tokens = tokens
        self._values = dict(_PREDEFINED)
        if cplusplus:
            self._values["__cplusplus"] = 201703
        self._defined: set[str] = set(self._values)
        self._stack: list[tuple[bool, bool, int]] = []  # enclosing text active, a branch was taken, line
        self.active = True

    @property
    def depth(self) -> int:
        """How many conditionals are open."""
        return len(self._stack)

    def directive(self, text: str, offset: int) -> None:
        line = self._tokens.line_at(offset)
        match = _DIRECTIVE.match(text.replace("\\\r\n", " ").replace("\\\n", " "))
        word, rest = (match.group(1) or "", match.group(2)) if match else ("", "")
        if word in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self._conditional(word, rest, line, text)
        elif not self.active or word in ("pragma", "line", "warning", ""):
            return
        elif word == "define":
            self._define(rest, line)
        elif word == "undef":
            self._defined.discard(rest.strip())
            self._values.pop(rest.strip(), None)
            self._tokens.macros.pop(rest.strip(), None)
        elif word in ("include", "include_next", "import"):
            self._tokens.includes.append(rest.strip().strip('<>"'))
        else:
            self._tokens.refuse(line, text, f"the directive #{word} cannot be followed")

    def finish(self) -> None:
        if self._stack:
            line = self._stack[-1][2]
            self._tokens.refuse(line, "#if", f"{len(self._stack)} conditionals are never closed, the last is this")

    def _conditional(self, word: str, rest: str, line: int, text: str) -> None:
        if word in ("if", "ifdef", "ifndef"):
            taken = self.active and self._decide(word, rest, line, text)
            self._stack.append((self.active, taken, line))
            self.active = taken
            return
        if not self._stack:
            self._tokens.refuse(line, text, f"#{word} without #if")
            return
        enclosing, taken, opened = self._stack.pop()
        if word == "endif":
            self.active = enclosing
            return
        self.active = enclosing and not taken and (word == "else" or self._decide("if", rest, line, text))
        self._stack.append((enclosing, taken or self.active, opened))

    def _decide(self, word: str, rest: str, line: int, text: str) -> bool:
        if word != "if":
            return (rest.split()[:1] != [] and rest.split()[0] in self._defined) == (word == "ifdef")
        plain = _DEFINED.sub(lambda m: str(int((m.group(1) or m.group(2) or "") in self._defined)), rest)
        try:
            return bool(evaluate(plain, self._values, unknown=0))
        except ValueError as error:
            self._tokens.refuse(line, text, f"this condition cannot be decided ({error})")
            return False

    def _define(self, rest: str, line: int) -> None:
        match = _DEFINE.match(rest)
        if match is None:
            self._tokens.refuse(line, "#define" + rest, "#define without a name")
            return
        name, arguments, body = match.group(1), match.group(2), match.group(3).strip()
        self._defined.add(name)
        macros = self._tokens.macros
        if arguments:
            body = body.partition(")")[2]
            macros[name] = DROP_CALL if _DECORATION.match(body) else KEEP
            self._tokens.ignored.append(Ignored("function-like macro", name, line))
            return
        try:
            value = evaluate(body, self._values)
        except ValueError:
            decoration = _DECORATION.match(body) or body in DROPPED_MACROS or macros.get(body) == DROP
            macros[name] = DROP if decoration else KEEP
            if body:
                self._tokens.ignored.append(Ignored("macro", name, line))
            return
        self._values[name] = value
        self._tokens.constants.append(Constant(name, value, line))

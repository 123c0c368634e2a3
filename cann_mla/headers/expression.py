"""Integer constant expressions of C, without recursion."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()&|^~!<>])([uUlL]*)"
)

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << b if 0 <= b < 64 else _refuse("shift by more than a word")),
    ">>": (8, lambda a, b: a >> b if 0 <= b < 64 else _refuse("shift by more than a word")),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, lambda a, b: a // b if b else _refuse("division by zero")),
    "%": (10, lambda a, b: a % b if b else _refuse("division by zero")),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}
_UNARY_LEVEL = 11
_LARGEST = 1 << 64
_LONGEST = 4096


def _refuse(why: str) -> int:
    raise ValueError(why)


def evaluate(text: str, names: Mapping[str, int], *, unknown: int | None = None) -> int:
    """Value of an integer constant expression.

    Parameters
    ----------
    text : str
        The expression; suffixes ``U`` and ``L`` are accepted.
    names : mapping
        Values of the identifiers in it.
    unknown : int, optional
        Value of an identifier that is in no mapping (``#if`` says 0); without it such a name is an error.

    Raises
    ------
    ValueError
        The text is no such expression; the message says why.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"the expression has more than {_LONGEST} characters")
    values: list[int] = []
    operators: list[str] = []  # binary operators, "(" and unary operators as "u-"
    operand_next = True
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{text[position : position + 20].strip()!r} is not part of an integer expression")
        token, position = match.group(1), match.end()
        if operand_next:
            if token == "(":
                operators.append(token)
            elif token in _UNARY:
                operators.append("u" + token)
            else:
                values.append(_operand(token, names, unknown))
                operand_next = False
        elif token == ")":
            _reduce(values, operators, 0)
            if not operators:
                raise ValueError("unbalanced parenthesis")
            operators.pop()
        elif token in _BINARY:
            _reduce(values, operators, _BINARY[token][0])
            operators.append(token)
            operand_next = True
        else:
            raise ValueError(f"{token!r} follows a value")
    if operand_next:
        raise ValueError("the expression is not complete")
    _reduce(values, operators, 0)
    if operators:
        raise ValueError("unbalanced parenthesis")
    return values[0]


def _operand(token: str, names: Mapping[str, int], unknown: int | None) -> int:
    if token[0].isdigit():
        if len(token) > 40:
            raise ValueError("the number is too large")
        octal = len(token) > 1 and token[0] == "0" and token.isdigit()
        return int(token, 8) if octal else int(token, 0)
    if token in names:
        return names[token]
    if unknown is None or not (token[0].isalpha() or token[0] == "_"):
        raise ValueError(f"the value of {token!r} is not known")
    return unknown


def _reduce(values: list[int], operators: list[str], level: int) -> None:
    """Apply the operators on the stack that bind at least as tightly as ``level``."""
    while operators and operators[-1] != "(":
        operator = operators[-1]
        if operator[0] == "u" and len(operator) == 2:
            values[-1] = _UNARY[operator[1]](values[-1])
        else:
            own, apply = _BINARY[operator]
            if own < level:
                return
            right = values.pop()
            values[-1] = apply(values[-1], right)
            if abs(values[-1]) > _LARGEST:
                raise ValueError("the value does not fit 64 bits")
        operators.pop()

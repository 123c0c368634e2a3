"""Checks of plain Python arguments, so that a wrong one is named before anything is done with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

_INT64 = 2**63


def whole(name: str, value: Any, low: int = -_INT64, high: int = _INT64 - 1) -> int:
    """An integer from `low` to `high`, as a plain int.

    Raises
    ------
    TypeError
        If the value is no integer; True, 1.0 and "1" are none.
    ValueError
        If it is out of range.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} takes an integer; got {value!r}")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} takes an integer; got {type(value).__name__} {shortened(value)}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is {shortened(number)}; allowed is {low} to {high}")
    return number


def finite(name: str, value: Any) -> float:
    """A finite number, as a plain float.

    Raises
    ------
    TypeError
        If the value is no number; True and "1" are none.
    ValueError
        If it is infinite or no number at all.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} takes a number; got {type(value).__name__} {shortened(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {shortened(value)}; it must be finite")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, as a plain bool; nothing else is taken for one.

    Raises
    ------
    TypeError
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} takes True or False; got {type(value).__name__} {shortened(value)}")
    return bool(value)


def whole_numbers(name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """Several int64 numbers, such as the sizes of a shape.

    Raises
    ------
    TypeError, ValueError
        If `values` is no sequence, or one of them is no int64.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} takes a sequence of integers; got {type(values).__name__} {shortened(values)}")
    return tuple(whole(f"{name}[{position}]", value) for position, value in enumerate(values))


def instance(name: str, value: Any, *kinds: type) -> None:
    """Refuse what is none of the kinds.

    Raises
    ------
    TypeError
    """
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} takes a {wanted}; got {type(value).__name__}")


def shortened(value: Any) -> str:
    """The value for a message, whatever its length."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

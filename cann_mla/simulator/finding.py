"""A finding of strict mode, and its parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FoundObject:
    """The object that a finding is about.

    Attributes
    ----------
    kind : str
        ``"aclTensor"``, ``"device memory"``, ...
    handle : str or None
        Handle or address, in hexadecimal.
    text : str
        What it is like: ``"[2, 16] BF16 ND"``.
    """

    kind: str
    handle: str | None
    text: str


@dataclass(frozen=True)
class Call:
    """A call of the C interface.

    Attributes
    ----------
    api : str
        The C function.
    thread : int
        Number of the calling thread, from 1; 0 if there was none.
    stream : int or None
        Id of the stream that the call is about.
    where : tuple of str
        Lines that led to the call, innermost first: ``"train.py:12 in step"``, or frames of the C stack.
    """

    api: str
    thread: int
    stream: int | None
    where: tuple[str, ...]


@dataclass(frozen=True)
class FailedCall:
    """The first call of the process, or of the watch, that failed in strict mode.

    Attributes
    ----------
    api : str
        The C function.
    status : int
        What it returned.
    text : str
        The error text.
    where : tuple of str
        As in :class:`Call`.
    """

    api: str
    status: int
    text: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """A rule of CANN that the program broke.

    Attributes
    ----------
    rule : str
        Stable id, such as ``"use-after-destroy"``.
    group : {"lifetime", "memory", "order", "process", "semantic"}
    what : str
        What happened.
    object : FoundObject or None
    made : Call or None
        The call that made the object.
    broken : Call or None
        The call that broke the rule.
    first_failure : FailedCall or None
        The first call of the process, or of the watch, that failed before.
    rule_text, fix : str
        What CANN demands, and what to do.
    count : int
        How often it was met at these places.
    advice : bool
        Legal, though hardly meant: does not fail a program.
    text : str
        All of it as a paragraph.
    """

    rule: str
    group: str
    what: str
    object: FoundObject | None
    made: Call | None
    broken: Call | None
    first_failure: FailedCall | None
    rule_text: str
    fix: str
    count: int
    advice: bool
    text: str

    def __str__(self) -> str:
        return self.text


_PARTS: dict[str, Callable[..., Any]] = {
    "object": FoundObject,
    "made": Call,
    "broken": Call,
    "first_failure": FailedCall,
}


def parse(document: str, text: str) -> Finding:
    """Read a finding from the simulator's JSON and its text."""
    values: dict[str, Any] = json.loads(document)
    for key, kind in _PARTS.items():
        if values[key] is not None:
            values[key] = kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values[key].items()})
    return Finding(**values, text=text)

"""What a benchmark is, how time and memory are taken, and the list of all of them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class SkipError(Exception):
    """The benchmark cannot run here; the text says what is missing."""


@dataclass
class Measurement:
    """One line: a value, what it is relative to, and the limit it has to keep.

    `better` is ``"higher"`` or ``"lower"``; a line without a limit is shown and never missed.
    """

    name: str
    value: float | None
    unit: str
    of: str
    limit: float | None
    better: str
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def missed(self) -> bool:
        """Whether the value breaks its limit."""
        if self.limit is None or self.value is None:
            return False
        return self.value < self.limit if self.better == "higher" else self.value > self.limit


# name -> module that yields its lines with `lines()`; imported when it is asked for
BENCHMARKS: dict[str, str] = {
    "import": "cann_mla.bench.imports",
    "calls": "cann_mla.bench.calls",
    "strict": "cann_mla.bench.strict",
    "packing": "cann_mla.bench.packing",
    "headers": "cann_mla.bench.headers",
    "mla_prolog": "cann_mla.bench.mla_prolog",
    "mla_prolog_quant": "cann_mla.bench.mla_prolog_quant",
    "attention": "cann_mla.bench.attention",
    "ring_mla": "cann_mla.bench.ring_mla",
    "ring_mla_ranks": "cann_mla.bench.ring_mla_ranks",
}


def run(names: list[str] | None = None) -> Iterator[Measurement]:
    """Measure the named benchmarks (all without names), line by line.

    Raises
    ------
    ValueError
        An unknown name; the text lists the known ones.
    """
    for name in names or list(BENCHMARKS):
        if name not in BENCHMARKS:
            raise ValueError(f"unknown benchmark {name!r}; known are {', '.join(BENCHMARKS)}")
        lines: Callable[[], Iterator[Measurement]] = importlib.import_module(BENCHMARKS[name]).lines
        try:
            yield from lines()
        except SkipError as why:
            yield Measurement(name, None, "", "", None, "higher", {"skipped": str(why)})


def seconds(call: Callable[[], object], *, repeat: int = 3, at_least: float = 0.0) -> float:
    """Best time of one call, after a warm-up: at least `repeat` runs and `at_least` seconds of them."""
    call()
    best, spent, count = float("inf"), 0.0, 0
    while count < repeat or spent < at_least:
        started = time.perf_counter()
        call()
        taken = time.perf_counter() - started
        best, spent, count = min(best, taken), spent + taken, count + 1
    return best


def paired_seconds(
    first: Callable[[], object], second: Callable[[], object], *, repeat: int = 3
) -> tuple[float, float]:
    """Best times of two calls measured in turn, so that a slow spell of the machine meets both."""
    first(), second()
    best = [float("inf"), float("inf")]
    for _ in range(repeat):
        for index, call in enumerate((first, second)):
            started = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - started)
    return best[0], best[1]


def peak_growth(call: Callable[[], object]) -> int:
    """Bytes by which the resident memory of this process grew at most while `call` ran (Linux).

    Raises
    ------
    SkipError
        The system does not let a process reset its peak.
    """
    status = Path("/proc/self/status")
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _field(status.read_text(), "VmRSS")
    except OSError as error:
        raise SkipError(f"peak memory needs Linux's /proc/self/clear_refs: {error}") from error
    call()
    return _field(status.read_text(), "VmHWM") - before


def _field(text: str, name: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name + ":"))

"""Named, versioned precision standards of the Ascend field.

They disagree with one another on the same data, so a verdict means little without the standard's name,
its version and what it leaves out. In the formulas `a` is the result under test and `g` the golden.

A standard grades the differing elements chunk by chunk (`_grade`) and judges the sums of all (`_verdict`); no
standard ever holds a second copy of an output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import DType, dtype, hifloat8_decode

CHUNK = 1 << 20
Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

# mantissa bits and smallest normal exponent: what a unit in the last place is
_ULP: Mapping[str, tuple[int, int]] = {
    "FP16": (10, -14), "BF16": (7, -126), "FP32": (23, -126), "FP64": (52, -1022),
    "FLOAT8_E4M3FN": (3, -6), "FLOAT8_E5M2": (2, -14),
}  # fmt: skip
INTEGERS = frozenset(["INT4", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"])
CODES_8BIT = frozenset(["FLOAT8_E4M3FN", "FLOAT8_E5M2", "HIFLOAT8"])
QUANTISED = INTEGERS | CODES_8BIT | {"FLOAT8_E8M0", "FLOAT4_E2M1"}


def ulp(values: Doubles, dtype_name: str) -> Doubles:
    """One unit in the last place of each value, as a float of type `dtype_name` has it."""
    mantissa, smallest = _ULP[dtype_name]
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    exponent = np.where(values == 0, smallest, np.maximum(exponent - 1, smallest))
    return np.asarray(np.ldexp(1.0, exponent - mantissa), np.float64)


def as_double(array: NDArray[Any], kind: DType) -> Doubles:
    """Values of an array in its NumPy form, as float64."""
    if array.dtype == np.float64:
        return array
    if kind.name == "HIFLOAT8":
        return hifloat8_decode(array).astype(np.float64)
    if kind.numpy.isbuiltin != 1 and array.dtype == kind.numpy and kind.name != "BF16":
        array = array.astype(np.float32)
    with np.errstate(invalid="ignore"):  # bytes that nobody wrote may spell a signalling NaN
        return array.astype(np.float64)


class Chunk:
    """Some elements of result and golden, with the views that standards share.

    `positions` are their flat indices in the output.
    """

    def __init__(self, actual: NDArray[Any], golden: NDArray[Any], positions: NDArray[np.int64], kind: DType) -> None:
        self.raw_actual, self.raw_golden, self.positions, self.kind = actual, golden, positions, kind

    @cached_property
    def a(self) -> Doubles:
        """The result as float64."""
        return as_double(self.raw_actual, self.kind)

    @cached_property
    def g(self) -> Doubles:
        """The golden as float64."""
        return as_double(self.raw_golden, self.kind)

    @cached_property
    def same(self) -> Bools:
        """Equal values; NaN equals NaN, an infinity equals itself."""
        return np.asarray((self.a == self.g) | (np.isnan(self.a) & np.isnan(self.g)))

    @cached_property
    def diff(self) -> Doubles:
        """|a - g|; 0 where `same`, infinite where a NaN or an infinity stands on one side only."""
        with np.errstate(invalid="ignore"):
            diff = np.abs(self.a - self.g)
        diff[self.same] = 0.0
        diff[~np.isfinite(diff)] = np.inf
        return diff

    def relative(self, denominator: Doubles) -> Doubles:
        """diff / denominator, with 0/0 read as 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.diff / denominator
        return np.where(self.diff == 0, 0.0, np.where(np.isnan(ratio), np.inf, ratio))


@dataclass
class Grade:
    """One chunk's elements: which fail, how badly, and what the verdict sums or takes the largest of."""

    bad: Bools
    severity: Doubles  # 1 is the edge of what passes
    sums: dict[str, float] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)


@dataclass
class Totals:
    """All chunks of one output."""

    count: int = 0
    graded: int = 0
    bad: int = 0
    equal: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: int = 0  # flat index of the most severe element
    severity: float = -1.0
    sums: dict[str, float] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    @property
    def share_ok(self) -> float:
        """Share of elements that pass."""
        return 1.0 - self.bad / self.count if self.count else 1.0

    def mean(self, key: str) -> float:
        """A sum divided by the number of elements."""
        return self.sums.get(key, 0.0) / self.count if self.count else 0.0

    def largest(self, key: str) -> float:
        """A maximum over all chunks."""
        return self.maxima.get(key, 0.0)

    def add(self, chunk: Chunk, grade: Grade) -> None:
        """Take a chunk and its grade."""
        self.bad += int(np.count_nonzero(grade.bad))
        self.graded += chunk.a.size
        self.equal += int(np.count_nonzero(chunk.same))
        self.max_abs = max(self.max_abs, float(chunk.diff.max(initial=0.0)))
        self.max_rel = max(self.max_rel, float(chunk.relative(np.abs(chunk.g)).max(initial=0.0)))
        if grade.severity.size:
            index = int(grade.severity.argmax())
            if grade.severity[index] > self.severity:
                self.severity, self.worst = float(grade.severity[index]), int(chunk.positions[index])
        for key, value in grade.sums.items():
            self.sums[key] = self.sums.get(key, 0.0) + value
        for key, value in grade.maxima.items():
            self.maxima[key] = max(self.maxima.get(key, -np.inf), value)


@dataclass
class Judgement:
    """What a standard says of one output. `worst` is an index into the output."""

    ok: bool
    standard: str
    reason: str
    max_abs: float
    max_rel: float
    share_ok: float
    share_equal: float
    worst: tuple[int, ...]


class Standard(ABC):
    """One rule with a name and a version; a changed rule takes a new version."""

    name: str
    dtypes: Collection[str]
    version: int = 1
    source: str
    masks: str = "nothing"
    nonfinite: str = "NaN equals NaN, an infinity equals itself; any other NaN or infinity fails"

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}/{self.version}"

    def covers(self, dtype_name: str) -> bool:
        """Whether the standard says anything about outputs of this dtype."""
        return dtype_name in self.dtypes

    @abstractmethod
    def _grade(self, chunk: Chunk) -> Grade: ...

    @abstractmethod
    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        """Empty if the output passes, else why it does not."""

    def judge(self, actual: NDArray[Any], golden: NDArray[Any], dtype_name: str) -> Judgement:
        """Compare one output.

        Parameters
        ----------
        actual, golden
            Arrays of one shape in the dtype's NumPy form; the golden may also be float64.
        dtype_name
            The output's dtype.

        Raises
        ------
        ValueError
            The shapes differ, or the standard does not cover the dtype.
        """
        if actual.shape != golden.shape:
            raise ValueError(f"result of shape {actual.shape} against golden of shape {golden.shape}")
        if not self.covers(dtype_name):
            raise ValueError(f"{self.label} says nothing about {dtype_name}")
        totals = Totals(actual.size)
        for chunk in _differing(actual, golden, dtype(dtype_name)):
            totals.add(chunk, self._grade(chunk))
        totals.equal += actual.size - totals.graded
        reason = self._verdict(totals, dtype_name)
        worst = np.unravel_index(totals.worst, actual.shape) if totals.count else ()
        return Judgement(
            not reason,
            self.label,
            reason,
            totals.max_abs,
            totals.max_rel,
            totals.share_ok,
            totals.equal / totals.count if totals.count else 1.0,
            tuple(map(int, worst)),
        )


def _differing(actual: NDArray[Any], golden: NDArray[Any], kind: DType) -> Iterator[Chunk]:
    """The elements whose bits differ: equal ones add nothing to any error, and most outputs are equal."""
    flat_actual, flat_golden = actual.reshape(-1), golden.reshape(-1)
    comparable = actual.dtype == golden.dtype
    bits = np.dtype(f"u{actual.dtype.itemsize}")
    for start in range(0, flat_actual.size, CHUNK):
        part_actual, part_golden = (flat[start : start + CHUNK] for flat in (flat_actual, flat_golden))
        if not comparable:
            yield Chunk(part_actual, part_golden, np.arange(start, start + part_actual.size), kind)
            continue
        at = np.flatnonzero(part_actual.view(bits) != part_golden.view(bits))
        if at.size:
            yield Chunk(part_actual[at], part_golden[at], at + start, kind)


def share_reason(totals: Totals, least: float) -> str:
    """Why a share of passing elements is too small, or nothing."""
    if totals.count == 0 or totals.count - totals.bad >= least * totals.count:
        return ""
    return f"{totals.bad} of {totals.count} elements are off, share ok {totals.share_ok:.6g} < {least:g}"

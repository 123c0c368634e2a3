"""The rules themselves, one class a rule; the numbers are tables of their publishers.

Sources: opbase "mixed tolerance" (Chinese page) and MERE/MARE (English page), msprobe, ATB's tests,
CANN's operator test kit (TTK), the pytest of ops-transformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cann_mla.validate.standards import (
    CODES_8BIT,
    INTEGERS,
    QUANTISED,
    Chunk,
    Doubles,
    Grade,
    Standard,
    Totals,
    share_reason,
    ulp,
)

_FLOATS = frozenset({"FP16", "BF16", "FP32"})


def _graded(error: Doubles, bound: Doubles | float, **extra: dict[str, float]) -> Grade:
    """Elements pass where error <= bound."""
    with np.errstate(divide="ignore", invalid="ignore"):
        severity = np.where(error == 0, 0.0, error / bound)
    return Grade(error > bound, severity, **extra)


def _sum(values: Doubles) -> float:
    return float(values.sum())


def _max(values: Doubles) -> float:
    return float(values.max(initial=0.0))


# dtype -> rtol, atol, limit
_MIXED: Mapping[str, tuple[float, float, float]] = {
    "FP16": (2.0**-9, 2.0**-9, 0.1),
    "BF16": (2.0**-6, 2.0**-6, 1.0),
    "FP32": (2.0**-10, 2.0**-16, 0.01),
    "FP64": (2.0**-10, 2.0**-16, 0.01),  # not published: judged as FP32
    "FLOAT8_E4M3FN": (2.0**-2, 2.0**-4, 1.0),
    "FLOAT8_E5M2": (2.0**-1, 2.0**-3, 0.1),
}


class MixedTolerance(Standard):
    """|a-g| <= atol + rtol |g| for 99 % of the elements, and |a-g| <= limit for all.

    The published limit is "a number or 32 ULP" and does not say of what. `limit="golden"` reads it as the
    larger of the number and 32 units in the last place of the golden element; `limit="one"`, as TTK does,
    of 1.0.
    """

    source = "opbase, precision standard for operators (mixed tolerance)"
    dtypes = frozenset(_MIXED)
    SHARE = 0.99

    def __init__(self, name: str, limit: str) -> None:
        self.name, self.limit = name, limit

    def _grade(self, chunk: Chunk) -> Grade:
        name = chunk.kind.name
        rtol, atol, limit = _MIXED[name]
        scale = np.abs(chunk.g) if self.limit == "golden" else np.ones_like(chunk.g)
        beyond = chunk.diff > np.maximum(limit, 32 * ulp(scale, name))
        with np.errstate(invalid="ignore"):
            grade = _graded(chunk.diff, atol + rtol * np.abs(np.where(np.isfinite(chunk.g), chunk.g, 0.0)))
        grade.sums["beyond"] = float(np.count_nonzero(beyond))
        return grade

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        beyond = int(totals.sums.get("beyond", 0))
        if beyond:
            return f"{beyond} elements beyond the limit, largest difference {totals.max_abs:.6g}"
        return share_reason(totals, self.SHARE)


_MERE: Mapping[str, float] = {
    "FP16": 2.0**-10,
    "BF16": 2.0**-7,
    "FP32": 2.0**-13,
    "FLOAT8_E4M3FN": 2.0**-3,
    "FLOAT8_E5M2": 2.0**-2,
}


class MeanAndMaxRelative(Standard):
    """r = |a-g| / (|g| + 1e-7): mean(r) < T and max(r) < 10 T."""

    name = "mere-mare"
    source = "opbase, precision standard (English page); TTK stat_rel_err"
    dtypes = frozenset(_MERE)

    def _grade(self, chunk: Chunk) -> Grade:
        with np.errstate(invalid="ignore"):
            relative = chunk.relative(np.abs(chunk.g) + 1e-7)
        bound = 10 * _MERE[chunk.kind.name]
        grade = _graded(relative, bound)
        grade.bad = ~(relative < bound)
        grade.sums["r"] = _sum(relative)
        grade.maxima["r"] = _max(relative)
        return grade

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        bound = _MERE[dtype_name]
        if not totals.largest("r") < 10 * bound:
            return f"max relative error {totals.largest('r'):.6g}, below {10 * bound:g} is wanted"
        if not totals.mean("r") < bound:
            return f"mean relative error {totals.mean('r'):.6g}, below {bound:g} is wanted"
        return ""


class DoubleThousandth(Standard):
    """|a-g| / |g| < 0.001 for 99.9 % of the elements."""

    name = "double-thousandth"
    dtypes = _FLOATS
    source = "msprobe, double thousandth"

    def _grade(self, chunk: Chunk) -> Grade:
        relative = chunk.relative(np.abs(chunk.g))
        grade = _graded(relative, 0.001)
        grade.bad = ~(relative < 0.001)
        return grade

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 0.999)


class AtbSingle(Standard):
    """|a-g| <= e max(1, |g|) for all; e follows from the number of accumulations.

    Without a number the bound of short sums is taken. Fewer than 2048 accumulations: 2^-8, 2^-7, 2^-11 for
    FP16, BF16, FP32; more: 2^-7, 2^-6, 2^-10, and 2^-14 for FP32 from 16384 on (as published).
    """

    name = "atb-single"
    dtypes = _FLOATS
    source = "ascend-transformer-boost, new single-benchmark rule of its operator tests"

    def __init__(self, accumulations: int = 0) -> None:
        self.accumulations = accumulations

    def bound(self, dtype_name: str) -> float:
        """The factor e for a dtype."""
        long = self.accumulations >= 2048
        if dtype_name == "FP32":
            return 2.0**-14 if self.accumulations >= 16384 else 2.0**-10 if long else 2.0**-11
        return {"FP16": 2.0**-8, "BF16": 2.0**-7}[dtype_name] * (2 if long else 1)

    def _grade(self, chunk: Chunk) -> Grade:
        size = np.maximum(1.0, np.abs(np.where(np.isfinite(chunk.g), chunk.g, 0.0)))
        return _graded(chunk.diff, self.bound(chunk.kind.name) * size)

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 1.0)


class AtbShare(Standard):
    """Share of |a-g| > max(0.005 |g|, 0.005) at most 0.001 (FP16) or 0.005 (BF16)."""

    name = "atb-share"
    dtypes = frozenset({"FP16", "BF16"})
    source = "ascend-transformer-boost, old rule of its operator tests"

    def _grade(self, chunk: Chunk) -> Grade:
        finite = np.where(np.isfinite(chunk.g), chunk.g, 0.0)
        return _graded(chunk.diff, np.maximum(0.005 * np.abs(finite), 0.005))

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 0.995 if dtype_name == "BF16" else 0.999)


class Quantised(Standard):
    """Quantised and exact outputs.

    INT8, INT4: |a-g| <= 1 for all. FP8, HIFLOAT8: bit patterns as int8 differ by at most 1 for 99.9 %; equal
    values (the two zeros) count as equal. Other integers, BOOL, E8M0, FP4: equal.
    """

    name = "quantised"
    dtypes = QUANTISED
    source = "TTK, quantised and exact comparison"

    def _grade(self, chunk: Chunk) -> Grade:
        name = chunk.kind.name
        if name in CODES_8BIT and chunk.raw_golden.dtype == chunk.kind.numpy:
            codes = [x.view(np.int8).astype(np.int16) for x in (chunk.raw_actual, chunk.raw_golden)]
            steps = np.where(chunk.same, 0, np.abs(codes[0] - codes[1])).astype(np.float64)
            return _graded(steps, 1.0)
        if name in INTEGERS:
            exact = np.where(chunk.raw_actual == chunk.raw_golden, 0.0, np.maximum(chunk.diff, 1.0))
            return _graded(exact, 1.0 if name in ("INT8", "INT4") else 0.0)
        return _graded(chunk.diff, 0.0)

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 0.999 if dtype_name in CODES_8BIT else 1.0)


class UlpDistance(Standard):
    """|a-g| in units in the last place of g.

    FP32: mean < 64, or share of more than 32 ULP below 5 %. FP16, BF16, FP8: share of more than 1 ULP below
    0.1 %.
    """

    name = "ulp"
    dtypes = _FLOATS | {"FLOAT8_E4M3FN", "FLOAT8_E5M2"}
    source = "msprobe, ULP standard (the parts that need no second device)"

    def _grade(self, chunk: Chunk) -> Grade:
        name = chunk.kind.name
        distance = chunk.relative(ulp(np.abs(chunk.g), name))
        grade = _graded(distance, 32.0 if name == "FP32" else 1.0)
        grade.sums["ulp"] = _sum(distance)
        return grade

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        far, mean = totals.bad / max(totals.count, 1), totals.mean("ulp")
        if dtype_name == "FP32":
            return "" if mean < 64 or far < 0.05 else f"mean {mean:.4g} ULP, share beyond 32 ULP {far:.4g}"
        return "" if far < 0.001 else f"share beyond 1 ULP {far:.4g}, below 0.001 is wanted"


# dtype -> rtol, small value, atol, largest finite value. BF16's atol is as published; it looks like a slip.
_THRESHOLD: Mapping[str, tuple[float, float, float, float]] = {
    "FP16": (2.0**-10, 2.0**-10, 2.0**-16, 65504.0),
    "BF16": (2.0**-8, 2.0**-10, 1e-16, 3.3895313892515355e38),
    "FP32": (2.0**-20, 2.0**-20, 2.0**-30, 3.4028234663852886e38),
}


class AbsoluteThreshold(Standard):
    """Relative error at most rtol, absolute error at most atol where |g| is small; all elements."""

    name = "absolute-threshold"
    source = "msprobe, absolute threshold standard"
    nonfinite = "infinities are clipped to the dtype's range on both sides; NaN equals NaN"
    dtypes = frozenset(_THRESHOLD)

    def _grade(self, chunk: Chunk) -> Grade:
        rtol, small, atol, largest = _THRESHOLD[chunk.kind.name]
        a, g = (np.clip(side, -largest, largest) for side in (chunk.a, chunk.g))
        diff = np.where(chunk.same, 0.0, np.abs(a - g))
        diff[np.isnan(diff)] = np.inf
        size = np.where(np.isnan(g), 0.0, np.abs(g))
        return _graded(diff, np.where(size <= small, atol, rtol * size))

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 1.0)


_ACCUMULATIVE: Mapping[str, float] = {"FP16": 2.0**-8, "BF16": 2.0**-7, "FP32": 2.0**-11}


class Accumulative(Standard):
    """Error, absolute where |g| <= 1, relative above: all at most 2^-8, 2^-7, 2^-11 (FP16, BF16, FP32)."""

    name = "accumulative"
    source = "msprobe, accumulative standard"
    dtypes = frozenset(_ACCUMULATIVE)

    def _grade(self, chunk: Chunk) -> Grade:
        size = np.maximum(1.0, np.abs(np.where(np.isfinite(chunk.g), chunk.g, 0.0)))
        return _graded(chunk.diff, _ACCUMULATIVE[chunk.kind.name] * size)

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        return share_reason(totals, 1.0)


@dataclass
class Isclose(Standard):
    """|a-g| <= atol + rtol |g| for a share of the elements.

    A failing element's relative error stays below `max_rel`; it divides by max(|a|, |g|, 2^-14 / 0.005).
    """

    name: str
    source: str
    tolerances: dict[str, tuple[float, float]]  # dtype -> rtol, atol
    share: float = 1.0
    max_rel: float | None = None

    def __post_init__(self) -> None:
        self.dtypes = frozenset(self.tolerances)

    def _grade(self, chunk: Chunk) -> Grade:
        rtol, atol = self.tolerances[chunk.kind.name]
        size = np.abs(np.where(np.isfinite(chunk.g), chunk.g, 0.0))
        grade = _graded(chunk.diff, atol + rtol * size)
        if self.max_rel is not None and grade.bad.any():
            floor = np.maximum(np.maximum(np.abs(chunk.a), np.abs(chunk.g)), 2.0**-14 / 0.005)
            failing = chunk.relative(np.where(np.isfinite(floor), floor, 1.0))[grade.bad]
            grade.maxima["failing"] = _max(failing)
        return grade

    def _verdict(self, totals: Totals, dtype_name: str) -> str:
        if self.max_rel is not None and not totals.largest("failing") < self.max_rel:
            found = totals.largest("failing")
            return f"relative error {found:.6g} of a failing element, below {self.max_rel:g} is wanted"
        return share_reason(totals, self.share)


_PYTEST = {"FP16": (0.005, 2.5e-5), "FP32": (0.005, 2.5e-5), "BF16": (2.0**-7, 1e-4)}
_WIDE = dict.fromkeys(_FLOATS, (0.05, 0.05))

DEFAULT = "mixed-tolerance/1"
STANDARDS: dict[str, Standard] = {
    standard.label: standard
    for standard in (
        MixedTolerance("mixed-tolerance", "golden"),
        MixedTolerance("mixed-tolerance-ttk", "one"),
        MeanAndMaxRelative(),
        DoubleThousandth(),
        AtbSingle(),
        AtbShare(),
        Quantised(),
        UlpDistance(),
        AbsoluteThreshold(),
        Accumulative(),
        Isclose("ops-transformer-pytest", "ops-transformer pytest; TTK MLA asset", _PYTEST, 0.995, 10.0),
        Isclose("mla-prolog-pytest", "mla_prolog_v2 pytest: allclose(rtol=0.05, atol=0.05)", _WIDE),
    )
}


def find_standard(name: str) -> Standard:
    """A standard by ``name``, ``name/version``, or, for atb-single, ``atb-single/1:accumulations``.

    Raises
    ------
    ValueError
        No such standard; the text lists all.
    """
    label, _, option = name.partition(":")
    label = label if "/" in label else f"{label}/1"
    if label not in STANDARDS:
        raise ValueError(f"unknown standard {name!r}; known are {', '.join(STANDARDS)}")
    if not option:
        return STANDARDS[label]
    if label != "atb-single/1" or not option.isdigit():
        raise ValueError(f"{name!r}: only atb-single/1 takes an option, its number of accumulations")
    return AtbSingle(int(option))


def standard_for(standard: Standard, dtype_name: str) -> Standard:
    """The rule that really judges: `Quantised` for quantised outputs, else `standard` or the default one.

    Raises
    ------
    ValueError
        Neither covers the dtype.
    """
    quantised = STANDARDS["quantised/1"]
    for candidate in (quantised, standard) if dtype_name in QUANTISED else (standard, STANDARDS[DEFAULT]):
        if candidate.covers(dtype_name):
            return candidate
    raise ValueError(f"no standard covers {dtype_name}")

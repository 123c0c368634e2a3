"""Compare outputs with a golden: by standard, by section where one tensor holds several types, and bit for
bit where the operator's contract says that nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla import per_tile_row
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.standard_rules import standard_for
from cann_mla.validate.standards import Judgement, Standard

Array = NDArray[Any]
GRANULE = 16  # bytes; every cache row, and every C0 run of an NZ cache, is a whole number of these


@dataclass
class Golden:
    """What an output should hold. `untouched` marks the granules that the call must leave as they were."""

    array: Array
    untouched: NDArray[np.bool_] | None = None


@dataclass
class OutputResult:
    """One output under one standard: its sections (usually one, named ""), and what was changed unasked."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sections: dict[str, Judgement] = field(default_factory=dict)
    disturbed: int = 0
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether every section passes and nothing was changed unasked."""
        return not self.reason and not self.disturbed and all(part.ok for part in self.sections.values())

    @property
    def worst(self) -> tuple[str, Judgement] | None:
        """The section that decides: a failing one, else the one with the smallest share."""
        if not self.sections:
            return None
        return min(self.sections.items(), key=lambda item: (item[1].ok, item[1].share_ok, -item[1].max_abs))

    def explain(self) -> str:
        """Why the output fails, in words; empty if it passes."""
        parts = [self.reason] if self.reason else []
        if self.disturbed:
            parts.append(f"{self.disturbed} stretches of {GRANULE} bytes changed that no token writes")
        parts += [f"{label} {part.reason}".strip() for label, part in self.sections.items() if not part.ok]
        return f"{self.name}: {'; '.join(parts)}" if parts else ""

    def as_json(self) -> dict[str, Any]:
        """The output's entry in a result line."""
        found = self.worst
        if found is None:
            return {"max_abs": None, "max_rel": None, "share_ok": 0.0, "reason": self.reason}
        parts = self.sections.values()
        record: dict[str, Any] = {
            "max_abs": max(part.max_abs for part in parts),
            "max_rel": max(part.max_rel for part in parts),
            "share_ok": min(part.share_ok for part in parts),
            "share_equal": min(part.share_equal for part in parts),
            "standard": found[1].standard,
            "worst": list(found[1].worst),
            "ok": self.ok,
        }
        if len(self.sections) > 1:
            record["sections"] = {
                label: {
                    "max_abs": part.max_abs,
                    "share_ok": part.share_ok,
                    "standard": part.standard,
                    "ok": part.ok,
                }
                for label, part in self.sections.items()
            }
        if self.disturbed:
            record["disturbed"] = self.disturbed
        if not self.ok:
            record["reason"] = self.explain()
        return record


def compare_output(
    case: Case,
    name: str,
    spec: TensorSpec,
    actual: Array | None,
    golden: Golden,
    initial: Array | None,
    standard: Standard,
) -> OutputResult:
    """Judge one output or in-place operand.

    Parameters
    ----------
    actual
        The result in NumPy form; None if the run did not give it.
    golden
        What it should be, same shape; in the output's dtype or float64.
    initial
        What the operand held before the call; needed where `golden.untouched` is given.
    standard
        The standard asked for; quantised outputs go to the quantised standard (`standard_for`).
    """
    result = OutputResult(name, spec.shape, spec.dtype)
    if actual is None:
        result.reason = "not among the results"
    elif actual.shape != golden.array.shape:
        result.reason = f"shape {list(actual.shape)}, the golden has {list(golden.array.shape)}"
    else:
        for label, dtype_name, result_part, golden_part in _sections(case, name, spec, actual, golden.array):
            rule = standard_for(standard, dtype_name)
            result.sections[label] = rule.judge(result_part, golden_part, dtype_name)
        if golden.untouched is not None and initial is not None:
            changed = differing_granules(actual, initial)
            result.disturbed = int(np.count_nonzero(changed & golden.untouched))
    return result


def differing_granules(left: Array, right: Array) -> NDArray[np.bool_]:
    """Per stretch of `GRANULE` bytes of memory order (or per element, where rows are not whole stretches)."""
    rows = left.shape[-1] * left.itemsize if left.ndim else left.itemsize
    width = GRANULE if rows % GRANULE == 0 else left.itemsize
    raw = [np.ascontiguousarray(side).reshape(-1).view(np.uint8).reshape(-1, width) for side in (left, right)]
    return np.asarray((raw[0] != raw[1]).any(axis=1))


def all_passed(results: Sequence[OutputResult]) -> bool:
    """Whether every output passes."""
    return all(result.ok for result in results)


def _sections(
    case: Case, name: str, spec: TensorSpec, actual: Array, golden: Array
) -> Iterator[tuple[str, str, Array, Array]]:
    """(label, dtype, result, golden) for each type that the tensor holds."""
    if not is_per_tile_cache(case, name, spec) or golden.dtype != actual.dtype:
        yield "", spec.dtype, actual, golden
        return
    sides = [np.ascontiguousarray(side) for side in (actual, golden)]
    for label, dtype_name, part in (
        ("payload", spec.dtype, per_tile_row.payload),
        ("rope", "BF16", per_tile_row.rope),
        ("scales", "FP32", per_tile_row.scales),
    ):
        yield label, dtype_name, part(sides[0]), part(sides[1])


def is_per_tile_cache(case: Case, name: str, spec: TensorSpec) -> bool:
    """MlaPrologV3's cache rows of 656 bytes: payload, rope and scales in one tensor of one-byte elements."""
    return (
        name == "kvCacheRef"
        and case.attrs.get("kvCacheQuantMode") == 3
        and spec.shape[-1:] == (per_tile_row.ROW_BYTES,)
    )

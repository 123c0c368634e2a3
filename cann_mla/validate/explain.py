"""What is wrong with a result: try the usual suspects and say which one makes the numbers agree.

A suspect is a mistake that people make, played on the reference (`cann_mla.validate.suspects`): operands as the
mistaken operator would have read them, or outputs as it would have written them. The suspect whose golden agrees
with the result is the likely cause. A file of expected outputs is explained in the same way as a result: which
mistake made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import dtype
from cann_mla.validate.cases import Case
from cann_mla.validate.compare import Golden, OutputResult, compare_output
from cann_mla.validate.golden import NoGoldenError, reference_golden, write_only_caches
from cann_mla.validate.signatures import Roles
from cann_mla.validate.standards import Standard, as_double
from cann_mla.validate.suspects import Array, Arrays, suspects

_ALIKE = 1 / 32  # of a row's largest element: far above rounding, far below the distance of two tokens' rows
_ROWS_TRIED = 64


@dataclass(frozen=True)
class Finding:
    """How well a suspect explains a result. `explains` lists failing outputs that now agree."""

    text: str
    explains: tuple[str, ...]
    remaining: tuple[str, ...]
    share_ok: float


def disagreeing(
    case: Case, arrays: Arrays, outputs: Arrays, golden: Mapping[str, Golden], standard: Standard
) -> list[str]:
    """Those outputs, of the ones given, that are not within the standard of the golden."""
    given = {name: g for name, g in golden.items() if name in outputs}
    return [r.name for r in _compare(case, arrays, outputs, given, standard) if not r.ok]


def explain(
    case: Case,
    arrays: Arrays,
    roles: Roles,
    outputs: Arrays,
    standard: Standard,
    *,
    precision: str = "device",
) -> list[Finding]:
    """Findings that make at least one failing output agree, the best first.

    Parameters
    ----------
    case, arrays, roles
        The case and its operands as the operator was given them.
    outputs
        What the operator returned, or what a file expects of it, in NumPy form. An output that is not there is
        not explained.
    standard
        The standard that the result failed.
    precision
        Precision of the reference.

    Returns
    -------
    list of Finding
        Empty if the result passes, or if no suspect explains anything.

    Raises
    ------
    NoGoldenError
        The reference does not have the operator.
    """
    golden = reference_golden(case, arrays, roles, precision)
    failing = disagreeing(case, arrays, outputs, golden, standard)
    if not failing:
        return []
    caches = [name for name in failing if name in write_only_caches(case, roles)]
    findings = list(_moved(arrays, outputs, golden, caches, failing))
    moved = {name for finding in findings for name in finding.explains}
    findings += _unwritten(arrays, outputs, golden, [name for name in failing if name not in moved])
    for suspect in suspects(case, arrays):
        try:
            changed = reference_golden(suspect.case, suspect.arrays, roles, precision)
        except (NoGoldenError, ValueError, IndexError, TypeError):
            continue  # the reference refuses this reading, so nobody computed with it
        if suspect.outputs is not None:
            changed = {n: Golden(suspect.outputs(n, g.array)) for n, g in changed.items()}
        results = _compare(case, arrays, outputs, {n: changed[n] for n in failing if n in changed}, standard)
        finding = _finding(suspect.text, results)
        if finding.explains:
            findings.append(finding)
    return sorted(findings, key=lambda f: (len(f.remaining), -len(f.explains), -f.share_ok))


def _compare(
    case: Case, arrays: Arrays, outputs: Arrays, golden: Mapping[str, Golden], standard: Standard
) -> list[OutputResult]:
    specs = dict(case.specs())
    return [
        compare_output(case, n, specs[n], outputs.get(n), Golden(g.array), arrays.get(n), standard)
        for n, g in golden.items()
        if n in specs
    ]


def _finding(text: str, results: list[OutputResult]) -> Finding:
    shares = [part.share_ok for r in results for part in r.sections.values()]
    agree = tuple(r.name for r in results if r.ok)
    remain = tuple(r.name for r in results if not r.ok)
    return Finding(text, agree, remain, float(np.mean(shares)) if shares else 0.0)


def _moved(
    arrays: Arrays, outputs: Arrays, golden: Mapping[str, Golden], caches: list[str], failing: list[str]
) -> Iterator[Finding]:
    """Cache rows that are not where the golden has them and stand somewhere else: other indices were used."""
    texts, moved = [], []
    for name in caches:
        before, result, wanted = (_rows(array) for array in (arrays[name], outputs[name], golden[name].array))
        if result.shape != wanted.shape:
            continue
        needed, written = (np.flatnonzero((side != before).any(axis=1)) for side in (wanted, result))
        missing = [row for row in needed if not _alike(result[row : row + 1], wanted[row])[0]]
        places = [(row, _place(result, wanted[row], written)) for row in missing[:_ROWS_TRIED]]
        found = [(row, place) for row, place in places if place is not None]
        if found:
            moved.append(name)
            row, place = (_index(int(number), outputs[name].shape) for number in found[0])
            texts.append(f"{name}{row} is found at {place} ({len(found)} of {len(places)} rows looked for)")
    if moved:
        rest = tuple(name for name in failing if name not in moved)
        text = f"cache rows went elsewhere, as if other cache indices had been used: {'; '.join(texts)}"
        yield Finding(text, tuple(moved), rest, 0.0)


def _rows(array: Array) -> Array:
    """Rows of the last axis, in double."""
    values = array if array.dtype == np.float64 else as_double(array, dtype(array.dtype))
    return np.nan_to_num(values).reshape(-1, array.shape[-1])


def _alike(rows: Array, wanted: Array) -> Array:
    scale = np.abs(wanted).max(initial=0.0)
    return np.asarray(np.abs(rows - wanted).max(axis=1, initial=0.0) <= _ALIKE * scale)


def _place(result: Array, wanted: Array, written: Array) -> int | None:
    """The written row that holds `wanted`."""
    hits = np.flatnonzero(_alike(result[written], wanted))
    return int(written[hits[0]]) if hits.size else None


def _index(row: int, shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(row, shape[:-1]))}]"


def _unwritten(arrays: Arrays, outputs: Arrays, golden: Mapping[str, Golden], failing: list[str]) -> Iterator[Finding]:
    """A stretch at the end of outputs that still holds what was there before the call."""
    texts, unwritten = [], []
    for name in failing:
        if name not in outputs or name not in arrays or outputs[name].shape != golden[name].array.shape:
            continue
        result, before = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (outputs[name], arrays[name]))
        wanted = np.ascontiguousarray(golden[name].array.astype(outputs[name].dtype)).reshape(-1).view(np.uint8)
        written = np.flatnonzero(result != before)
        needed = np.flatnonzero(wanted != before)
        end = int(written[-1]) + 1 if written.size else 0
        if needed.size and needed[-1] >= end and needed[-1] - end >= 16:
            size = outputs[name].itemsize
            unwritten.append(name)
            texts.append(f"{name}: nothing written from element {-(-end // size)} of {outputs[name].size} on")
    if unwritten:
        rest = tuple(name for name in failing if name not in unwritten)
        yield Finding("; ".join(texts), tuple(unwritten), rest, 0.0)

"""What is wrong with an operator: try the usual suspects and say which one makes the numbers agree.

A suspect is a mistake that people make, played on the reference: operands as the mistaken operator would have
read them, or outputs as it would have written them. The suspect whose golden agrees with the result is the
likely cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import dtype
from cann_mla.formats import nz_unpack
from cann_mla.validate.arrays import is_logical_matrix, to_storage
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.compare import Golden, OutputResult, compare_output
from cann_mla.validate.golden import NoGoldenError, reference_golden
from cann_mla.validate.signatures import Roles
from cann_mla.validate.standards import Standard, as_double

Array = NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Suspect:
    """A mistake: case and operands as the mistaken operator sees them, and what it does to its outputs."""

    text: str
    case: Case
    arrays: Arrays
    outputs: Callable[[str, Array], Array] | None = None


@dataclass(frozen=True)
class Finding:
    """How well a suspect explains a result. `explains` lists failing outputs that now agree."""

    text: str
    explains: tuple[str, ...]
    remaining: tuple[str, ...]
    share_ok: float


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
        What the operator returned, in NumPy form.
    standard
        The standard that the result failed.

    Returns
    -------
    list of Finding
        Empty if the result passes, or if no suspect explains anything.
    """
    golden = reference_golden(case, arrays, roles, precision)
    failing = [r.name for r in _compare(case, arrays, outputs, golden, standard) if not r.ok]
    if not failing:
        return []
    findings = list(_unwritten(arrays, outputs, golden, failing))
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


def suspects(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Every mistake that this case leaves room for."""
    for family in (_formats, _scales, _scalars, _rope, _masks, _indices, _output_layouts):
        yield from family(case, arrays)


def _with(arrays: Arrays, **changed: Array) -> dict[str, Array]:
    return {**arrays, **changed}


def _formats(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, spec in case.specs():
        if is_logical_matrix(spec):
            blocks = to_storage(arrays[name], spec)
            if blocks.size == spec.numel:
                as_rows = blocks.reshape(spec.shape)
                yield Suspect(f"{name}: FRACTAL_NZ read as ND", case, _with(arrays, **{name: as_rows}))
                as_blocks = nz_unpack(arrays[name].reshape(-1), spec.shape)
                text = f"{name}: given in ND order, read as FRACTAL_NZ"
                yield Suspect(text, case, _with(arrays, **{name: as_blocks}))
        elif len(spec.shape) == 2 and spec.shape[0] == spec.shape[1] and spec.numel > 1 and "ask" not in name:
            yield Suspect(f"{name}: transposed", case, _with(arrays, **{name: arrays[name].T.copy()}))


def _scales(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, spec in case.specs():
        if "scale" not in name.lower() or name.endswith("OutOptional") or not spec.numel:
            continue
        kind = dtype(spec.dtype)
        if kind.numpy.kind == "i" or spec.dtype == "UINT64":
            continue
        values = as_double(arrays[name], kind)
        with np.errstate(all="ignore"):
            readings = {
                "missing": np.ones_like(values),
                "applied twice": values * values,
                "inverted": 1 / values,
            }
            for text, reading in readings.items():
                changed = reading.astype(np.float32).astype(kind.numpy)
                yield Suspect(f"{name}: {text}", case, _with(arrays, **{name: changed}))


def _scalars(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, value in case.attrs.items():
        if isinstance(value, float) and ("scale" in name.lower()) and value not in (0.0, 1.0):
            for text, reading in (
                ("missing", 1.0),
                ("applied twice", value * value),
                ("inverted", 1 / value),
            ):
                changed = replace(case, attrs={**case.attrs, name: reading})
                yield Suspect(f"{name}: {text}", changed, arrays)


def _rope(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    pairs = [("ropeSin", "ropeCos"), ("sin", "cos"), ("rope_sin", "rope_cos")]
    for sine, cosine in pairs:
        if sine in arrays and cosine in arrays:
            swapped = _with(arrays, **{sine: arrays[cosine], cosine: arrays[sine]})
            yield Suspect(f"{sine} and {cosine} swapped", case, swapped)
            yield Suspect(f"{sine}: wrong sign", case, _with(arrays, **{sine: -arrays[sine]}))
            for order, text in ((_interleave, "left interleaved"), (_deinterleave, "de-interleaved twice")):
                yield Suspect(f"rotated outputs {text}", case, arrays, _on_rope(order))
    if "weightUqQr" in arrays and "weightDkvKr" in arrays:
        text = "rope input taken as two halves instead of pairs"
        yield Suspect(text, case, _with(arrays, **_half_split_inputs(case, arrays)))


def _half_split_inputs(case: Case, arrays: Arrays) -> dict[str, Array]:
    """Operands with their rope columns reordered: pairing them gives the two halves of the old order."""
    spec = case.tensors["weightUk"]
    assert isinstance(spec, TensorSpec)
    heads, width = spec.shape[0], spec.shape[1]
    rope = 64
    order = np.arange(rope).reshape(2, -1).T.reshape(-1)
    query = np.arange(heads * (width + rope)).reshape(heads, width + rope)
    query[:, width:] = query[:, width:][:, order]
    key = np.arange(arrays["weightDkvKr"].shape[-1])
    key[-rope:] = key[-rope:][order]
    changed = {
        "weightUqQr": arrays["weightUqQr"][..., query.reshape(-1)],
        "weightDkvKr": arrays["weightDkvKr"][..., key],
    }
    for name, columns in (
        ("dequantScaleWUqQrOptional", query.reshape(-1)),
        ("dequantScaleWDkvKrOptional", key),
    ):
        if name in arrays:
            scale = arrays[name]
            axis = 1 if scale.shape[0] == 1 else 0
            changed[name] = np.take(scale, columns, axis=axis)
    return changed


def _on_rope(order: Callable[[Array], Array]) -> Callable[[str, Array], Array]:
    def change(name: str, array: Array) -> Array:
        is_rope = "rope" in name.lower() or name.startswith("kr")
        return order(array) if is_rope and array.shape[-1] == 64 else array

    return change


def _interleave(array: Array) -> Array:
    return array[..., np.arange(array.shape[-1]).reshape(2, -1).T.reshape(-1)]


def _deinterleave(array: Array) -> Array:
    return array[..., np.arange(array.shape[-1]).reshape(-1, 2).T.reshape(-1)]


def _masks(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    name = next((n for n, s in case.specs() if "mask" in n.lower() and s.numel), None)
    mode = case.attrs.get("sparseMode")
    if name is not None and arrays[name].dtype.kind in "biu":
        inverted = (arrays[name] == 0).astype(arrays[name].dtype)
        yield Suspect(f"{name}: inverted", case, _with(arrays, **{name: inverted}))
        yield Suspect(f"{name}: ignored", case, _with(arrays, **{name: np.zeros_like(arrays[name])}))
        if arrays[name].ndim >= 2 and arrays[name].shape[-1] == arrays[name].shape[-2]:
            flipped = np.swapaxes(arrays[name], -1, -2).copy()
            yield Suspect(f"{name}: rows and columns swapped", case, _with(arrays, **{name: flipped}))
    if mode in (2, 3):
        other = replace(case, attrs={**case.attrs, "sparseMode": 5 - mode})
        corners = {2: "bottom-right", 3: "top-left"}
        yield Suspect(f"causal mask anchored at the {corners[mode]} corner", other, arrays)


def _indices(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, spec in case.specs():
        if spec.dtype in ("INT32", "INT64") and any(w in name.lower() for w in ("index", "slot")) and spec.numel:
            for step, text in ((1, "one row late"), (-1, "one row early")):
                used = arrays[name] >= 0
                moved = np.where(used, np.maximum(arrays[name] + step, 0), arrays[name]).astype(arrays[name].dtype)
                yield Suspect(f"{name}: cache rows written {text}", case, _with(arrays, **{name: moved}))


def _output_layouts(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Heads against tokens: the two axes before the last, in the memory of the other order."""

    def swapped(_: str, array: Array) -> Array:
        return np.swapaxes(array, -2, -3).reshape(array.shape) if array.ndim >= 3 else array

    yield Suspect("outputs: heads and tokens transposed", case, arrays, swapped)


def _unwritten(arrays: Arrays, outputs: Arrays, golden: Mapping[str, Golden], failing: list[str]) -> Iterator[Finding]:
    """A stretch at the end of an output that still holds what was there before the call."""
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
            text = f"{name}: nothing written from element {-(-end // size)} of {outputs[name].size} on"
            yield Finding(text, (name,), (), end / result.size)

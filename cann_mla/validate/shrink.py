"""Make a failing case small: as long as it still fails in the same way, smaller sizes and fewer operands.

Nothing here knows an operator. A size is replaced wherever it stands, in shapes, attributes and index ranges; a
replacement that the operator refuses does not fail in the same way and is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from math import prod

from cann_mla.validate.cases import Case, TensorSpec

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails, *, seconds: float = 60.0) -> Case:
    """The smallest case found that still fails.

    Parameters
    ----------
    case
        A case for which `fails` is true.
    fails
        Whether a changed case fails in the same way. It is called once a candidate.
    seconds
        Time after which no further candidate is tried.
    """
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in candidates(case):
            if time.monotonic() > deadline:
                return case
            if fails(candidate):
                case, progress = candidate, True
                break
    return case


def weight(case: Case) -> int:
    """Elements of all operands: what shrinking makes smaller."""
    return sum(spec.numel for _, spec in case.specs())


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    for size in sorted(_sizes(case), reverse=True):
        for smaller in _smaller(size):
            for way in _WAYS:
                changed = _resized(case, size, smaller, way)
                if weight(changed) < weight(case):
                    yield changed
    for name, operand in case.tensors.items():
        if isinstance(operand, list) and len(operand) > 1:
            yield _with_tensor(case, name, operand[: len(operand) // 2])
        if operand is not None and name.endswith("Optional"):
            yield _with_tensor(case, name, None)


def _sizes(case: Case) -> set[int]:
    return {size for _, spec in case.specs() for size in spec.shape if size > 1}


def _smaller(size: int) -> list[int]:
    return sorted({n for n in (1, 16, size // 4, size // 2) if 0 < n < size})


@dataclass(frozen=True)
class _Way:
    """Where a size is replaced: together with its multiples, or in one place of the shapes only.

    Two sizes that are equal by chance can only be told apart by their place.
    """

    multiples: bool = False
    axis: int | None = None

    def value(self, value: int, size: int, smaller: int) -> int:
        if value == size:
            return smaller
        if self.multiples and value > size and value % size == 0:
            return value // size * smaller
        return value

    def shape(self, shape: tuple[int, ...], size: int, smaller: int) -> tuple[int, ...]:
        axes = range(len(shape)) if self.axis is None else {self.axis % len(shape)} if shape else ()
        return tuple(self.value(n, size, smaller) if i in axes else n for i, n in enumerate(shape))


_WAYS = (_Way(), _Way(multiples=True), _Way(axis=0), _Way(axis=-1))


def _resized(case: Case, size: int, smaller: int, way: _Way) -> Case:
    changed = deepcopy(case)
    for _, spec in changed.specs():
        spec.shape = way.shape(spec.shape, size, smaller)
        if spec.storage_shape is not None:
            spec.storage_shape = way.shape(spec.storage_shape, size, smaller)
        _fit_data(spec, size, smaller, way)
    for name, value in changed.attrs.items():
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            changed.attrs[name] = way.value(value, size, smaller)
        elif isinstance(value, list):
            changed.attrs[name] = [way.value(entry, size, smaller) for entry in value]
    return changed


def _fit_data(spec: TensorSpec, size: int, smaller: int, way: _Way) -> None:
    if spec.data is None:
        return
    if spec.data["dist"] == "permutation":
        spec.data = {**spec.data, "high": way.value(spec.data["high"], size, smaller)}
    elif spec.data["dist"] == "values":
        kept = spec.data["values"][: prod(spec.shape)]
        values = [way.value(n, size, smaller) if isinstance(n, int) else n for n in kept]
        spec.data = {**spec.data, "values": values}


def _with_tensor(case: Case, name: str, operand: list[TensorSpec] | None) -> Case:
    return replace(case, tensors={**case.tensors, name: operand})

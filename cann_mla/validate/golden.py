"""What a case's outputs should be: from the reference, or from a file beside the case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import DType, dtype
from cann_mla.validate.arrays import from_file, logical_matrix, read_npz
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.compare import Golden, differing_granules
from cann_mla.validate.data import DataError, fill
from cann_mla.validate.signatures import Roles
from cann_mla.validate.standards import as_double

Array = NDArray[Any]
PRECISIONS = ("device", "exact")

# Operators that leave outputs, or rows of them, as they found them: their reference wants to know what was there.
_KEEPS_ROWS = frozenset(
    (
        "AtbMLA", "AtbMLAPreFill", "AtbRingMLA", "AtbSelfAttentionPrefixEncoder",
        "aclnnKvRmsNormRopeCache", "aclnnKvRmsNormRopeCacheV2",
    )
)  # fmt: skip


class NoGoldenError(Exception):
    """There is nothing to compare a result with; the text says why."""


def run_reference(case: Case, arrays: Mapping[str, Array], roles: Roles, precision: str) -> dict[str, Array]:
    """Outputs and in-place operands of a case by C name, as `cann_mla.reference` computes them.

    Raises
    ------
    NoGoldenError
        The reference does not have the operator, or not this variant of it.
    ValueError
        The reference refuses the operands.
    """
    from cann_mla.reference import evaluate

    tensors: dict[str, Any] = {}
    outputs: dict[str, tuple[tuple[int, ...], DType]] = {}
    # ATB's weights and caches are declared by their blocks, of other sizes than 16 rows: they go as they are.
    is_atb = case.op.startswith("Atb")
    for name, operand in case.tensors.items():
        if operand is None:
            continue
        if name in roles.outputs and isinstance(operand, TensorSpec):
            outputs[name] = (operand.shape, dtype(operand.dtype))
            if case.op in _KEEPS_ROWS:
                tensors[name] = arrays[name]
        elif isinstance(operand, TensorSpec) and is_atb:
            tensors[name] = arrays[name]
        elif isinstance(operand, TensorSpec):
            tensors[name] = logical_matrix(arrays[name], operand)
        else:
            tensors[name] = [logical_matrix(arrays[f"{name}.{i}"], entry) for i, entry in enumerate(operand)]
    try:
        return evaluate(
            case.op, tensors, case.attrs, soc=case.soc or "Ascend910B", precision=precision, outputs=outputs
        )
    except NotImplementedError as error:
        raise NoGoldenError(str(error)) from error


def reference_golden(case: Case, arrays: Mapping[str, Array], roles: Roles, precision: str) -> dict[str, Golden]:
    """The reference's outputs, and which stretches of the caches no token writes.

    A cache is only written, never read, by the operators that take it in place. The reference gets noise in
    its place; what still holds the noise afterwards is what the call must leave alone.
    """
    caches = write_only_caches(case, roles)
    noise = {name: _noise(name, spec) for name, spec in caches.items()}
    results = run_reference(case, {**arrays, **noise}, roles, precision)
    golden: dict[str, Golden] = {}
    for name, array in results.items():
        if name in noise:
            golden[name] = _restore(array, noise[name], arrays[name])
        else:
            golden[name] = Golden(array)
    return golden


def file_golden(case: Case, arrays: Mapping[str, Array], roles: Roles) -> dict[str, Golden]:
    """The outputs that `expected_npz` holds; a stretch equal to the operand's old bytes must stay so.

    Raises
    ------
    DataError
        The file holds no output at all, or one that does not fit the case.
    """
    assert case.expected_npz is not None
    specs = dict(case.specs())
    golden: dict[str, Golden] = {}
    for name, bits in read_npz(case.folder / case.expected_npz).items():
        if name in specs:
            array = from_file(name, bits, specs[name])
            is_cache = name in write_only_caches(case, roles) or specs[name].alias is not None
            golden[name] = Golden(array, ~differing_granules(array, arrays[name]) if is_cache else None)
    if not any(roles.is_written(name.split(".")[0]) for name in golden):
        written = ", ".join(name for name in specs if roles.is_written(name.split(".")[0]))
        raise DataError(f"{case.expected_npz} holds no output of the case: arrays are named after {written}")
    return golden


def write_only_caches(case: Case, roles: Roles) -> dict[str, TensorSpec]:
    """In-place operands that an operator writes and does not read: those that their names call caches."""
    return {
        name: operand
        for name, operand in case.tensors.items()
        if name in roles.inplace and "cache" in name.lower() and isinstance(operand, TensorSpec) and operand.numel
    }


def _noise(name: str, spec: TensorSpec) -> Array:
    """Values that no operator computes by chance: random, finite, of every magnitude the dtype has."""
    bits = dtype(spec.dtype).bits
    if bits not in (8, 16, 32, 64):
        return fill(
            {"dist": "integers", "low": 0, "high": 2},
            seed=-1,
            name=name,
            shape=spec.shape,
            dtype_name=spec.dtype,
        )
    count = spec.numel * bits // 8
    words = np.random.Philox(key=0x5EED).random_raw(-(-count // 8)).view(np.uint8)[:count]
    words = words & np.uint8(0xBF)  # the second bit of an exponent stays clear: no NaN, no infinity
    return np.asarray(words.view(dtype(spec.dtype).numpy)).reshape(spec.shape)


def _restore(golden: Array, noise: Array, initial: Array) -> Golden:
    """Put the old content back where the noise survived."""
    kind = dtype(initial.dtype)
    if golden.dtype == noise.dtype:
        untouched = ~differing_granules(golden, noise)
        width = golden.nbytes // untouched.size
        raw = golden.copy().reshape(-1).view(np.uint8).reshape(-1, width)
        raw[untouched] = np.ascontiguousarray(initial).reshape(-1).view(np.uint8).reshape(-1, width)[untouched]
        return Golden(raw.reshape(-1).view(golden.dtype).reshape(golden.shape), untouched)
    kept = golden == as_double(noise, kind)  # exact precision: float64
    restored = np.where(kept, as_double(initial, kind), golden)
    width = golden.size // differing_granules(noise, noise).size
    return Golden(restored, kept.reshape(-1, width).all(axis=1))


def output_names(roles: Roles, names: Iterable[str]) -> list[str]:
    """Those of `names` that a call writes: pure outputs and in-place operands, in the given order."""
    return [name for name in names if name in roles.outputs or name in roles.inplace]

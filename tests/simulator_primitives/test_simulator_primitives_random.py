"""Parameter sets with up to three things wrong: every one is answered, none crashes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case, TensorSpec, load
from cann_mla.validate.run import run_case
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.verify import CannotRunError

DATA = Path(__file__).parents[1] / "data/primitives"
BASES = [case for file in sorted(DATA.glob("*.json")) for case in load(file) if isinstance(case, Case)]
PRODUCTS = ["Ascend910B", "Ascend910_93", "Ascend950"]
DTYPES = ["FP32", "FP16", "BF16", "INT8", "INT32", "INT64", "UINT8", "BOOL", "HIFLOAT8", "FLOAT8_E4M3FN", "FP64"]
STATUSES = {0, 161001, 161002, 361001, 561000, 561002, 561103}
FAULTS = {207000, 507015}


def random_data(rng: random.Random, name: str, dtype: str) -> dict[str, Any]:
    if dtype.startswith(("INT", "UINT", "BOOL")):
        return {"dist": "integers", "low": 0 if dtype[0] in "UB" else -3, "high": rng.choice([1, 40])}
    return {"dist": "uniform", "low": -2, "high": 2}


def mutate_shape(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = list(shape)
    kind = rng.randrange(5)
    if not sizes or kind == 0:
        sizes.insert(rng.randrange(len(sizes) + 1), rng.choice([0, 1, 2]))
    elif kind == 1:
        del sizes[rng.randrange(len(sizes))]
    else:
        i = rng.randrange(len(sizes))
        sizes[i] = max(0, rng.choice([0, 1, sizes[i] - 1, sizes[i] + 1, sizes[i] * 2, sizes[i] // 2]))
    return tuple(sizes)


def mutate_tensor(rng: random.Random, spec: TensorSpec) -> TensorSpec | None:
    shape, dtype, layout = spec.shape, spec.dtype, spec.format
    kind = rng.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        dtype = rng.choice(DTYPES)
    elif kind == 2:
        layout = rng.choice(["ND", "FRACTAL_NZ"])
        shape = shape if len(shape) >= 2 else (3, 5)
    else:
        shape = mutate_shape(rng, shape)
    if layout == "FRACTAL_NZ" and len(shape) < 2:
        layout = "ND"
    return TensorSpec(shape, dtype, layout)


def mutate_attr(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([-1, 0, 1, 2, 3, 4, 5, 64])
    if isinstance(value, list):
        return rng.choice([[], [0], [0, 0], [2, 6], [-1, 3], [4, 2], [0, 100000]])
    if isinstance(value, str) and value.isupper() and value in DTYPES:
        return rng.choice(DTYPES)
    if isinstance(value, str):
        return rng.choice(["", "Norm", "PA", "PA_NZ", "PA_BLK_NZ", "NHSD", "Nct", "Alibi", "other"])
    return value


def mutated(rng: random.Random) -> Case:
    base = rng.choice(BASES)
    tensors, attrs = dict(base.tensors), dict(base.attrs)
    for _ in range(rng.randrange(4)):
        if attrs and rng.random() < 0.2:
            name = rng.choice(sorted(attrs))
            attrs[name] = mutate_attr(rng, attrs[name])
        else:
            name = rng.choice(sorted(tensors))
            spec = tensors[name]
            if isinstance(spec, TensorSpec):
                tensors[name] = mutate_tensor(rng, spec)
    for name, operand in tensors.items():
        if isinstance(operand, TensorSpec):
            data = random_data(rng, name, operand.dtype)
            tensors[name] = TensorSpec(
                operand.shape,
                operand.dtype,
                operand.format,
                operand.storage_shape if operand.shape else None,
                data=data,
            )
    return Case(base.id, base.op, rng.choice(PRODUCTS), tensors, attrs)


def answer(case: Case) -> tuple[int | None, str]:
    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output, given=None)
    outcome = run_case(case, arrays, roles, "sim")
    return outcome.status, outcome.message


def sweep(seed: int, count: int) -> set[int | None]:
    rng = random.Random(seed)
    seen = set()
    for _ in range(count):
        case = mutated(rng)
        try:
            status, message = answer(case)
        except (CannotRunError, ValueError):  # no such operand in Python: nothing reached the simulator
            continue
        assert status in STATUSES | FAULTS, (case, message)
        assert status == 0 or message.startswith(case.op) or status in FAULTS, (case, message)
        seen.add(status)
    return seen


def test_500_sets_are_answered() -> None:
    assert sweep(1, 500) >= {0, 161001, 161002}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 12))
def test_5000_sets_are_answered(seed: int) -> None:
    assert 0 in sweep(seed, 500)

"""Arguments nobody should pass: the library answers with a status and a text, or computes; it never crashes."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

import cann_mla
from cann_mla.validate.cases import Case, parse
from cann_mla.validate.status_only import phase_statuses

FOLDER = Path(__file__).parents[1] / "data/attention_verdicts"
ROWS = [
    json.loads(line)
    for name in ("fused_infer_attention", "ring_attention_update")
    for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()
]
STATUSES = {0, 161001, 161002, 361001, 561000, 561002, 561103}
SIZES = (0, 1, 2, 3, 16, 64, 2048, 2**31, 2**40, 2**62)
NUMBERS = (0, 1, 2, 3, 4, 9, -1, 64, 2**31 - 1, -(2**31), 2**32 + 1, 2**63 - 1, -(2**63))
DTYPES = ("FP16", "BF16", "FP32", "INT8", "INT4", "UINT64", "BOOL", "FLOAT8_E4M3FN", "HIFLOAT8", "INT32")
LAYOUTS = ("BSH", "BSND", "BNSD", "TND", "NTD_TND", "BNSD_NBSD", "NSD", "", "nonsense")
COUNT = 400


def change_tensor(rng: random.Random, tensor: dict[str, Any]) -> None:
    shape = tensor["shape"]
    tensor.pop("strides", None)
    tensor.pop("storage_shape", None)
    match rng.randrange(5):
        case 0:
            tensor["dtype"] = rng.choice(DTYPES)
        case 1 if shape:
            shape[rng.randrange(len(shape))] = rng.choice(SIZES)
        case 2 if shape:
            shape.pop(rng.randrange(len(shape)))
        case 3:
            shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 2, 16)))
        case _:
            rng.shuffle(shape)


def change_operand(rng: random.Random, tensors: dict[str, Any]) -> None:
    name = rng.choice(sorted(tensors))
    value = tensors[name]
    if rng.random() < 0.1:
        tensors[name] = None
    elif isinstance(value, list) and value:
        change_tensor(rng, rng.choice(value))
    elif isinstance(value, dict):
        change_tensor(rng, value)


def change_attribute(rng: random.Random, attrs: dict[str, Any]) -> None:
    name = rng.choice(sorted(attrs))
    value = attrs[name]
    if isinstance(value, bool):
        attrs[name] = not value
    elif isinstance(value, int):
        attrs[name] = rng.choice(NUMBERS)
    elif isinstance(value, str):
        attrs[name] = rng.choice(LAYOUTS)
    elif isinstance(value, list):
        attrs[name] = [*value[: rng.randrange(len(value) + 1)], rng.choice(NUMBERS)]


def change(rng: random.Random, row: dict[str, Any]) -> Case:
    changed = copy.deepcopy(row) | {"expect": {"status": "any"}}
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.5:
            change_operand(rng, changed["tensors"])
        elif changed["attrs"]:
            change_attribute(rng, changed["attrs"])
    return parse(changed)


@pytest.mark.parametrize("seed", range(4))
def test_random_parameter_sets(seed: int, device: cann_mla.Device) -> None:
    rng = random.Random(seed)
    for _ in range(COUNT // 4):
        case = change(rng, rng.choice(ROWS))
        outcome = phase_statuses(case, "sim")
        assert outcome.status in STATUSES, case
        assert outcome.status == 0 or outcome.message, case

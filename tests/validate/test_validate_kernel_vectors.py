"""Vectors of ATB's kernels are declared as the operation's table wants them; other cases stay as they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.kernel_vectors import declared

CACHE = TensorSpec((6, 16, 128, 32), "INT8")
SCALE = TensorSpec((1,), "BF16")


def vector(op: str = "AtbMLA", cache_mode: int = 2, **more: int) -> Case:
    return Case("v", op, "Ascend910B", {}, {"cacheMode": cache_mode, **more}, expected_npz="v.expected.npz")


@pytest.mark.parametrize(("op", "name"), [
    ("AtbMLA", "ctKV"), ("AtbMLA", "kRope"), ("AtbMLAPreprocess", "kvCache"), ("AtbMLAPreprocess", "kvCacheOut1"),
])  # fmt: skip
@pytest.mark.parametrize("cache_mode", [2, 3])
def test_an_nz_cache_says_nz_over_the_same_bytes(op: str, name: str, cache_mode: int) -> None:
    assert declared(vector(op, cache_mode), name, CACHE) == replace(CACHE, format="FRACTAL_NZ")


@pytest.mark.parametrize("case", [
    vector(cache_mode=1),
    replace(vector(), expected_npz=None),  # about the status: ATB answers 13 to it
    replace(vector(), status=13),
    vector("AtbRingMLA"),
])  # fmt: skip
def test_any_other_case_stays_as_it_is_written(case: Case) -> None:
    assert declared(case, "ctKV", CACHE) == CACHE


def test_other_operands_stay() -> None:
    assert declared(vector(), "qNope", CACHE) == CACHE
    assert declared(vector("AtbMLAPreprocess", quantMode=0), "ctkvScale", SCALE) == SCALE
    assert declared(vector("AtbMLAPreprocess", 3, quantMode=1), "ctkvScale", SCALE) == SCALE


def test_scales_of_an_int8_cache_say_fp16_where_each_token_has_a_scale() -> None:
    case = vector("AtbMLAPreprocess", quantMode=1)
    for name in ("ctkvScale", "qNopeScale"):
        assert declared(case, name, SCALE) == replace(SCALE, dtype="FP16")

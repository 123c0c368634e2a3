"""Casts and weight layouts, against the examples of the specification (ids in comments)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    FLOAT8_E4M3FN,
    FP16,
    FP32,
    HIFLOAT8,
    INT8,
    INT32,
    INT64,
    UINT8,
    DType,
    hifloat8_encode,
)
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_cast import cast


@pytest.mark.parametrize(
    ("values", "source", "out", "expected"),
    [
        ([1 + 2**-8, 1 + 3 * 2**-8, 1.1, 2.3], np.float32, BF16, [1.0, 1.015625, 1.1015625, 2.296875]),  # CA1
        ([2049, 2051, 70000], np.float32, FP16, [2048, 2052, np.inf]),  # CA2
        ([2.7, -2.7, np.nan], np.float32, INT32, [2, -2, 0]),  # CA3
        ([1e30, -1e30, 3e9], np.float32, INT32, [2**31 - 1, -(2**31), 2**31 - 1]),
        ([1e30], np.float32, INT64, [2**63 - 1]),
        ([16777217], np.int32, FP32, [16777216]),  # CA4
        ([300, -129], np.int32, INT8, [44, 127]),  # wraps
        ([0.0, 0.5, -2], np.float32, BOOL, [False, True, True]),
        ([True, False], np.bool_, FP16, [1, 0]),
        ([2.5, 257.0], ml_dtypes.bfloat16, UINT8, [2, 255]),  # 257 is BF16 256
        ([1.0625, 1e9], np.float32, HIFLOAT8, [1.125, np.inf]),
        ([1.0625, 17.0], np.float32, FLOAT8_E4M3FN, [1.0, 16.0]),
    ],
)
def test_cast_examples(values: list[Any], source: Any, out: DType, expected: list[Any]) -> None:
    result = cast(np.array(values, source), out)
    assert result.dtype == out.numpy
    if out is HIFLOAT8:
        result = cast(result, FP32)
    assert result.astype(object if out is INT64 else np.float64).tolist() == expected


@pytest.mark.parametrize("kind", [k for k in DTYPES if k.numpy_form is not None], ids=str)
def test_one_survives_every_type(kind: DType) -> None:
    one = hifloat8_encode(np.ones(2, np.float32)) if kind is HIFLOAT8 else np.ones(2, np.float32).astype(kind.numpy)
    assert (cast(one, kind).view(np.uint8) == one.view(np.uint8)).all()
    if kind.numpy.kind != "c":
        assert (cast(cast(one, FP32), kind).view(np.uint8) == one.view(np.uint8)).all()


def test_by_c_name() -> None:
    got = evaluate(
        "aclnnCast",
        {"self": np.array([2.7], np.float32)},
        {"dtype": 3},
        soc="Ascend910B",
        outputs={"out": ((1,), INT32)},
    )
    assert got["out"].tolist() == [2]


def test_layout_changes_keep_the_logical_matrix() -> None:
    weight = np.arange(6, dtype=np.int8).reshape(2, 3)
    got = evaluate("aclnnTransMatmulWeight", {"mmWeightRef": weight}, {}, soc="Ascend910B", outputs={})
    np.testing.assert_array_equal(got["mmWeightRef"], weight)
    got = evaluate(
        "aclnnNpuFormatCast", {"srcTensor": weight}, {}, soc="Ascend910B", outputs={"dstTensor": ((2, 3), INT8)}
    )
    np.testing.assert_array_equal(got["dstTensor"], weight)

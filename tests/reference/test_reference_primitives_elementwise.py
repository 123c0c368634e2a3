"""aclnnAbs, aclnnAmax, aclnnMul, aclnnDiv and aclnnAscendQuant against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import (
    BF16,
    BOOL,
    FP16,
    FP32,
    FP64,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    DType,
    dtype,
    unpack_4bit,
)  # fmt: skip
from cann_mla.reference.evaluate import evaluate
from cann_mla.reference.primitives_elementwise import absolute, amax, div, mul, promoted
from cann_mla.reference.primitives_quant import ascend_quant

Array = np.ndarray[Any, Any]


def array(values: Any, kind: DType) -> Array:
    return np.array(values, kind.numpy)


@pytest.mark.parametrize(
    ("first", "second", "meeting"),
    [
        (FP16, FP16, FP16), (FP16, BF16, FP32), (BF16, FP32, FP32), (FP32, FP64, FP64), (INT64, FP16, FP16),
        (BOOL, BF16, BF16), (INT8, UINT8, INT16), (UINT8, INT64, INT64), (INT16, INT8, INT16), (BOOL, INT8, INT8),
    ],
)  # fmt: skip
def test_two_types_meet_in_one(first: DType, second: DType, meeting: DType) -> None:
    assert promoted(first, second) is meeting
    assert promoted(second, first) is meeting


def test_abs() -> None:
    np.testing.assert_array_equal(absolute(array([-128, 127, -1], INT8)), array([-128, 127, 1], INT8))
    np.testing.assert_array_equal(absolute(array([200], UINT8)), array([200], UINT8))
    assert not np.signbit(absolute(array([-0.0], BF16)).astype(float)).any()
    np.testing.assert_array_equal(absolute(array([-np.inf, -2.5], FP32)), array([np.inf, 2.5], FP32))
    np.testing.assert_array_equal(absolute(array([True, False], BOOL)), array([True, False], BOOL))


def test_amax() -> None:
    x = array([[1, 5, 3], [4, -7, 2]], FP16)
    np.testing.assert_array_equal(amax(x, [1], keep_dim=True), array([[5], [4]], FP16))
    np.testing.assert_array_equal(amax(x, [-2]), array([4, 5, 3], FP16))
    np.testing.assert_array_equal(amax(x), array(5, FP16))
    assert amax(x, [0, 1], keep_dim=True).shape == (1, 1)
    np.testing.assert_array_equal(amax(array([-5, -3], BF16), [0]).astype(float), -3)
    assert np.isnan(amax(array([1, np.nan], FP32)))


def test_products_round_to_the_type_they_meet_in() -> None:
    left = array([256, 1.0078125], BF16)
    np.testing.assert_array_equal(mul(left, left, out=BF16).astype(float), [65536, 1.015625])
    # (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14: rounded to BF16 first, then cast.
    np.testing.assert_array_equal(mul(left[1:], left[1:], out=FP32), array([1.015625], FP32))
    # Mixed with FP32 nothing is lost.
    np.testing.assert_array_equal(
        mul(left[1:], left[1:].astype(np.float32), out=FP32), array([1 + 2**-6 + 2**-14], FP32)
    )
    np.testing.assert_array_equal(mul(array([300.0], FP16), array([300.0], FP16), out=FP32), array([np.inf], FP32))


def test_integers_become_the_floating_type_first() -> None:
    # 2^24 + 1 has no FP32; to even it is 2^24.
    large = array([[16777217], [16777219]], INT32)
    product = mul(large, array([[1.0, 0.5]], FP32), out=FP32)
    np.testing.assert_array_equal(product, array([[16777216, 8388608], [16777220, 8388610]], FP32))


def test_integer_products_wrap() -> None:
    np.testing.assert_array_equal(mul(array([100], INT8), array([3], INT8), out=INT8), array([44], INT8))
    assert mul(array([65536], INT32), array([65536], INT32), out=INT32).tolist() == [0]
    assert mul(array([200], UINT8), array([-2], INT8), out=INT16).tolist() == [-400]


def test_quotients() -> None:
    np.testing.assert_array_equal(
        div(array([1, -1, 0], FP32), array([0, 0, 0], FP32), out=FP32), array([np.inf, -np.inf, np.nan], FP32)
    )
    assert div(array([1], INT32), array([3], INT32), out=FP32)[0] == np.float32(1) / np.float32(3)
    # 1 / 3 in BF16: 0.333984375 is its nearest eight bits.
    assert float(div(array([1], BF16), array([3], BF16), out=BF16)[0]) == 0.333984375
    assert float(div(array([1], BF16), array([3], BF16), out=FP32)[0]) == 0.333984375
    np.testing.assert_array_equal(
        div(array([127], FP32), array([[2.0], [0.5]], FP32), out=FP32), array([[63.5], [254]], FP32)
    )


def test_exact_rounds_nothing() -> None:
    third = div(array([1], BF16), array([3], BF16), out=BF16, precision="exact")
    assert third.dtype == np.float64
    assert third[0] == 1 / 3
    assert mul(array([16777217], INT32), array([1], FP32), out=FP32, precision="exact")[0] == 16777217


@pytest.mark.parametrize(
    ("x", "scale", "more", "y"),
    [
        ([1, 2, 3], [0.5], {"round_mode": "round"}, [0, 1, 2]),
        ([1, 2, 3], [0.5], {"round_mode": "floor"}, [0, 1, 1]),
        ([1, 2, 3], [0.5], {"round_mode": "ceil"}, [1, 1, 2]),
        ([-3, 1, 3], [0.5], {"round_mode": "trunc"}, [-1, 0, 1]),
        ([1, 2, 3], [2], {"sqrt_mode": True}, [4, 8, 12]),
        ([200, -200, np.nan], [1], {}, [127, -128, 0]),
        ([1, 2, 3], [1, 2, 4], {"offset": array([0.5, 0, -2.5], FP32)}, [2, 4, 10]),
    ],
)
def test_ascend_quant(x: Any, scale: Any, more: dict[str, Any], y: list[int]) -> None:
    got = ascend_quant(array(x, FP32), array(scale, FP32), **more)
    np.testing.assert_array_equal(got, array(y, INT8))


def test_ascend_quant_along_the_axis_of_tokens() -> None:
    x, scale = array([[1, 2], [10, 20]], BF16), array([3, 0.25], BF16)
    np.testing.assert_array_equal(ascend_quant(x, scale, axis=0), array([[3, 6], [2, 5]], INT8))
    np.testing.assert_array_equal(ascend_quant(x, scale[:, None], axis=-2), array([[3, 6], [2, 5]], INT8))
    np.testing.assert_array_equal(ascend_quant(x, scale), array([[3, 0], [30, 5]], INT8))
    with pytest.raises(ValueError, match="does not fit axis"):
        ascend_quant(x, array([1, 2, 3], FP32))
    with pytest.raises(ValueError, match="'nearest' is none of"):
        ascend_quant(x, scale, round_mode="nearest")


def test_ascend_quant_to_four_bits() -> None:
    x = array([[9, -9, 1, 2, 3, 4, 5, 6]], FP32)
    four = ascend_quant(x, array([1], FP32), out=INT4)
    np.testing.assert_array_equal(four.astype(int), [[7, -8, 1, 2, 3, 4, 5, 6]])
    words = ascend_quant(x, array([1], FP32), out=INT32)
    assert words.shape == (1, 1)
    assert int(words.view(np.uint32)[0, 0]) == 0x65432187
    assert dtype(words.dtype) is INT32
    np.testing.assert_array_equal(
        unpack_4bit(words.view(np.uint8).reshape(-1), INT4, (1, 8)).astype(int), four.astype(int)
    )


def test_by_their_symbols() -> None:
    x = array([[3, -6]], FP32)
    fp32 = {"out": ((1, 2), FP32)}
    shared: dict[str, Any] = {"soc": "Ascend910B"}
    assert evaluate("aclnnAbs", {"self": x}, {}, outputs=fp32, **shared)["out"].tolist() == [[3, 6]]
    largest = evaluate(
        "aclnnAmax", {"self": x}, {"dim": [1], "keepDim": True}, outputs={"out": ((1, 1), FP32)}, **shared
    )
    assert largest["out"].tolist() == [[3]]
    two = array([2], FP32)
    assert evaluate("aclnnDiv", {"self": x, "other": two}, {}, outputs=fp32, **shared)["out"].tolist() == [[1.5, -3]]
    assert evaluate("aclnnMul", {"self": x, "other": two}, {}, outputs=fp32, **shared)["out"].tolist() == [[6, -12]]
    inplace = evaluate("aclnnInplaceMul", {"selfRef": x, "other": two}, {}, outputs={}, **shared)
    assert inplace["selfRef"].tolist() == [[6, -12]]
    attrs = {"sqrtMode": False, "roundMode": "round", "dstType": 2, "axis": 0}
    tensors = {"x": x, "scale": two, "offset": None}
    quantised = evaluate("aclnnAscendQuantV3", tensors, attrs, outputs={"y": ((1, 2), INT8)}, **shared)
    assert quantised["y"].tolist() == [[6, -12]]

"""RmsNorm and dynamic quantisation, against the examples of the specification (ids in comments)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import FLOAT8_E4M3FN, FLOAT8_E5M2, FP32, HIFLOAT8, INT4, INT8, INT32, DType, unpack_4bit
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_norm import dynamic_quant, dynamic_quant_asymmetric, rms_norm
from cann_mla.reference.rounding import widen

bf16 = ml_dtypes.bfloat16


def half(*values: float) -> np.ndarray:
    return np.array([values], np.float16)


@pytest.mark.parametrize(
    ("x", "gamma", "epsilon", "rstd", "y"),
    [
        ([3, 3, 3, 3], [1, 2, -4, 0.5], 7, 0.25, [0.75, 1.5, -3, 0.375]),  # RN1
        ([2, 2, 2, 2], [1, 2, 3, 4], 0, 0.5, [1, 2, 3, 4]),  # RN2
        ([0, 0], [1, 1], 1e-6, 999.99994, [0, 0]),  # RN3
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float16, bf16])
def test_rms_norm_examples(
    x: list[float], gamma: list[float], epsilon: float, rstd: float, y: list[float], kind: Any
) -> None:
    normed, root = rms_norm(np.array(x, kind), np.array(gamma, kind), epsilon=epsilon)
    assert normed.dtype == kind
    assert root.dtype == np.float32
    assert root.tolist() == [np.float32(rstd)]
    assert normed.astype(float).tolist() == y


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (bf16, [0.365234375, 0.73046875, 1.09375, 1.4609375]),
        (np.float16, [0.365234375, 0.73046875, 1.095703125, 1.4609375]),
    ],
)
def test_rn6_one_rounding_at_the_end(kind: Any, expected: list[float]) -> None:
    x = np.array([1, 2, 3, 4], kind)
    assert rms_norm(x, np.ones(4, kind), epsilon=1e-6)[0].astype(float).tolist() == expected
    assert rms_norm(x, np.ones(4, np.float32), epsilon=1e-6)[0].astype(float).tolist() == expected


def test_rn7_several_axes_are_normalised_together() -> None:
    y, rstd = rms_norm(np.ones((2, 2, 2), np.float32), np.full((2, 2), 3, np.float32), epsilon=0)
    assert rstd.shape == (2, 1, 1)
    assert (rstd == 1).all()
    assert (y == 3).all()


@pytest.mark.parametrize(
    ("x", "scale", "y"),
    [
        ([127, 0.5, 1.5, 2.5, -0.5, -1.5], 1, [127, 0, 2, 2, 0, -2]),  # DQ1
        ([254, 1, 3, -5], 2, [127, 0, 2, -2]),  # DQ2
        ([0, 0], 0, [0, 0]),  # DQ3
        ([1, -2, 3.30078125, 0.25], np.float32(0.025990404), [38, -77, 127, 10]),  # DQ4
    ],
)
def test_dynamic_quant_examples(x: list[float], scale: float, y: list[int]) -> None:
    elements, scales = dynamic_quant(half(*x))
    assert elements.tolist() == [y]
    assert scales.shape == (1,)
    assert scales[0] == scale


def test_dq5_smooth_scales_come_first() -> None:
    elements, scales = dynamic_quant(half(2, -1), smooth_scales=np.array([63.5, 127], np.float16))
    assert elements.tolist() == [[127, -127]]
    assert scales.tolist() == [1]


def test_groups_have_smooth_scales_of_their_own() -> None:
    x = np.ones((3, 2), np.float16)
    smooth = np.array([[127, 0], [0, 254]], np.float16)
    elements, scales = dynamic_quant(x, smooth_scales=smooth, group_index=np.array([1, 3]))
    assert elements.tolist() == [[127, 0], [0, 127], [0, 127]]
    assert scales.tolist() == [1, 2, 2]


def test_dq7_asymmetric() -> None:
    elements, scale, offset = dynamic_quant_asymmetric(half(0, 255, 127.5, 100))
    assert elements.tolist() == [[-128, 127, 0, -28]]
    assert scale.tolist() == [1]
    assert offset.tolist() == [-128]


def test_asymmetric_four_bits() -> None:
    elements, scale, offset = dynamic_quant_asymmetric(half(0, 15, 7, 1), out=INT4, soc="Ascend950")
    assert elements.astype(int).tolist() == [[-8, 7, -1, -7]]
    assert (scale.tolist(), offset.tolist()) == ([1], [-8])


@pytest.mark.parametrize(("kind", "top"), [(HIFLOAT8, 32768), (FLOAT8_E5M2, 57344), (FLOAT8_E4M3FN, 448), (INT4, 7)])
def test_other_types_have_their_own_top(kind: DType, top: float) -> None:
    elements, scales = dynamic_quant(half(4, -1, 0, 4), out=kind)
    expected = [top, -2 if kind is INT4 else -top / 4, 0, top]  # -1.75 in four bits
    assert widen(elements).tolist() == [expected]
    np.testing.assert_allclose(scales, [4 / top], rtol=1e-6)


def test_int32_packs_eight_elements_low_nibble_first() -> None:
    packed, _ = dynamic_quant(half(7, 1, 2, 3, -1, -7, 0, 4), out=INT32)
    assert packed.shape == (1, 1)
    elements = unpack_4bit(packed.view(np.uint8), INT4, (8,))
    assert elements.astype(int).tolist() == [7, 1, 2, 3, -1, -7, 0, 4]


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (2, 0, 4)])
def test_nothing_to_quantise(shape: tuple[int, ...]) -> None:
    elements, scales = dynamic_quant(np.zeros(shape, np.float16))
    assert elements.shape == shape
    assert scales.shape == shape[:-1]


def test_by_c_name() -> None:
    x = np.array([[2, 2]], np.float16)
    got = evaluate(
        "aclnnRmsNorm",
        {"x": x, "gamma": np.array([1, 3], np.float16)},
        {"epsilon": 0.0},
        soc="Ascend950",
        outputs={"yOut": ((1, 2), INT8), "rstdOut": ((1, 1), FP32)},
    )
    assert got["yOut"].tolist() == [[1, 3]]
    assert got["rstdOut"].tolist() == [[0.5]]
    row = ((1,), FP32)
    got = evaluate(
        "aclnnDynamicQuantV2",
        {"x": half(0, 255)},
        {"dstType": 2},
        soc="Ascend910B",
        outputs={"yOut": ((1, 2), INT8), "scaleOut": row, "offsetOut": row},
    )
    assert got["yOut"].tolist() == [[-128, 127]]
    assert got["offsetOut"].tolist() == [-128]
    got = evaluate(
        "aclnnDynamicQuant",
        {"x": half(127, 1)},
        {},
        soc="Ascend910B",
        outputs={"yOut": ((1, 2), INT8), "scaleOut": row},
    )
    assert set(got) == {"yOut", "scaleOut"}

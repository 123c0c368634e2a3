"""RmsNorm and DynamicQuant: rows whose roots and scales are exact, ties, rows of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("dtype", "x", "gamma", "epsilon", "rstd", "y"),
    [
        ("FP32", [3, 3, 3, 3], [1, 2, -4, 0.5], 7, 0.25, [0.75, 1.5, -3, 0.375]),
        ("FP16", [2, 2, 2, 2], [1, 2, 3, 4], 0, 0.5, [1, 2, 3, 4]),
        ("BF16", [0, 0], [1, 1], 1e-6, 999.99994, [0, 0]),
        ("BF16", [3, 4], [1, 1], 1e-6, 0.2828427, [0.84765625, 1.1328125]),
        ("FP16", [3, 4], [1, 1], 1e-6, 0.2828427, [0.8486328125, 1.1318359375]),
        ("BF16", [1, 7], [1, 1], 0, 0.2, [0.2001953125, 1.3984375]),
        ("FP16", [1, 7], [1, 1], 0, 0.2, [0.199951171875, 1.400390625]),
        ("BF16", [1, 2, 3, 4], [1, 1, 1, 1], 1e-6, 0.36514837, [0.365234375, 0.73046875, 1.09375, 1.4609375]),
        ("FP16", [1, 2, 3, 4], [1, 1, 1, 1], 1e-6, 0.36514837, [0.365234375, 0.73046875, 1.095703125, 1.4609375]),
    ],
)
def test_rms_norm(
    run: Any, t: Any, out: Any, soc: str, dtype: str, x: Any, gamma: Any, epsilon: float, rstd: float, y: Any
) -> None:
    operands = {"x": t(dtype, x), "gamma": t(dtype, gamma), "yOut": out(dtype, len(x)), "rstdOut": out("FP32", 1)}
    result = run("aclnnRmsNorm", soc, {"epsilon": epsilon}, **operands)
    assert result.numbers("yOut") == y
    assert result.numbers("rstdOut")[0] == pytest.approx(rstd, rel=2**-23)


def test_rms_norm_over_two_axes(run: Any, t: Any, out: Any) -> None:
    operands = {"x": t("FP32", np.ones((2, 2, 2))), "gamma": t("FP32", np.full((2, 2), 3))}
    outputs = {"yOut": out("FP32", 2, 2, 2), "rstdOut": out("FP32", 2, 1, 1)}
    result = run("aclnnRmsNorm", attrs={"epsilon": 0}, **operands, **outputs)
    assert result.numbers("rstdOut") == [[[1]], [[1]]]
    assert set(np.ravel(result.numbers("yOut"))) == {3}


def test_gamma_may_be_wider_than_x(run: Any, t: Any, out: Any) -> None:
    operands = {"x": t("FP16", [1, 1]), "gamma": t("FP32", [1 + 2**-12, 3]), "yOut": out("FP16", 2)}
    result = run("aclnnRmsNorm", attrs={"epsilon": 0}, **operands, rstdOut=out("FP32", 1))
    assert result.numbers("yOut") == [1, 3]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"gamma": ("BF16", 4)}, 161002),
        ({"gamma": ("FP16", 3)}, 561002),
        ({"epsilon": -1.0}, 561002),
        ({"rstdOut": None}, 161001),
        ({"yOut": ("FP16", 2, 5)}, 561002),
    ],
)
def test_refusals_of_rms_norm(run: Any, out: Any, soc: str, changes: Any, status: int) -> None:
    shapes: dict[str, Any] = {"x": ("FP16", 2, 4), "gamma": ("FP16", 4), "yOut": ("FP16", 2, 4)}
    shapes |= {"rstdOut": ("FP32", 2, 1)} | changes
    attrs = {"epsilon": shapes.pop("epsilon", 1e-6)}
    operands = {name: out(*shape) if shape else None for name, shape in shapes.items()}
    assert run("aclnnRmsNorm", soc, attrs, **operands).status == status


@pytest.mark.parametrize(
    ("row", "smooth", "scale", "expected"),
    [
        ([127, 0.5, 1.5, 2.5, -0.5, -1.5], None, 1, [127, 0, 2, 2, 0, -2]),
        ([254, 1, 3, -5], None, 2, [127, 0, 2, -2]),  # 0.5, 1.5 and -2.5 go to the even neighbour
        ([0, 0, 0, 0], None, 0, [0, 0, 0, 0]),
        ([1, -2, 3.30078125, 0.25], None, 0.025990404, [38, -77, 127, 10]),
        ([2, -1], [63.5, 127], 1, [127, -127]),
    ],
)
@pytest.mark.parametrize("op", ["aclnnDynamicQuant", "aclnnDynamicQuantV2"])
def test_a_row_becomes_int8(
    run: Any, t: Any, out: Any, soc: str, op: str, row: Any, smooth: Any, scale: float, expected: Any
) -> None:
    operands = {"x": t("FP16", [row]), "yOut": out("INT8", 1, len(row)), "scaleOut": out("FP32", 1)}
    operands["smoothScalesOptional"] = t("FP16", smooth) if smooth else None
    result = run(op, soc, {"dstType": 2} if op.endswith("V2") else {}, **operands)
    assert result.numbers("yOut") == [expected]
    assert result.numbers("scaleOut")[0] == pytest.approx(scale, rel=2**-22)


def test_with_an_offset_the_whole_range_is_used(run: Any, t: Any, out: Any, soc: str) -> None:
    operands = {"x": t("FP16", [[0, 255, 127.5, 100]]), "yOut": out("INT8", 1, 4), "scaleOut": out("FP32", 1)}
    result = run("aclnnDynamicQuantV2", soc, {"dstType": 2}, **operands, offsetOut=out("FP32", 1))
    assert (result.numbers("scaleOut"), result.numbers("offsetOut")) == ([1], [-128])
    assert result.numbers("yOut") == [[-128, 127, 0, -28]]


def test_four_bits_leave_the_low_nibble_first(run: Any, t: Any, out: Any) -> None:
    operands = {"x": t("BF16", [[7, -7, 3, 0.5, 1, 2, -1, -2]]), "scaleOut": out("FP32", 1)}
    result = run("aclnnDynamicQuantV2", attrs={"dstType": 3}, **operands, yOut=out("INT32", 1, 1))
    assert result.numbers("scaleOut") == [1]
    assert np.array(result.numbers("yOut")).astype(np.int32).tobytes() == bytes([0x97, 0x03, 0x21, 0xEF])


def test_each_group_has_its_own_smooth_scales(run: Any, t: Any, out: Any) -> None:
    operands = {"x": t("FP16", np.full((3, 2), 127)), "smoothScalesOptional": t("FP16", [[1, 0.5], [2, 1]])}
    operands |= {"groupIndexOptional": t("INT32", [1, 3]), "yOut": out("INT8", 3, 2), "scaleOut": out("FP32", 3)}
    result = run("aclnnDynamicQuantV2", attrs={"dstType": 2}, **operands)
    assert result.numbers("scaleOut") == [1, 2, 2]
    assert result.numbers("yOut") == [[127, 64], [127, 64], [127, 64]]


@pytest.mark.parametrize(("dtype", "largest"), [("HIFLOAT8", 32768), ("FLOAT8_E4M3FN", 448)])
def test_floats_of_8_bits_are_scaled_to_their_largest(run: Any, t: Any, out: Any, dtype: str, largest: int) -> None:
    operands = {"x": t("BF16", [[2, -1, 0, 0.5]]), "yOut": out(dtype, 1, 4), "scaleOut": out("FP32", 1)}
    result = run("aclnnDynamicQuant", "Ascend950", **operands)
    assert result.numbers("scaleOut")[0] == pytest.approx(2 / largest, rel=2**-22)
    assert result.outputs["yOut"].view(np.uint8)[0, 2] == 0


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"x": ("FP32", 2, 4)}, 161002),
        ({"x": ("FP16", 4)}, 161002),
        ({"scaleOut": ("BF16", 2)}, 161002),
        ({"yOut": None}, 161001),
        ({"smoothScalesOptional": ("FP16", 5)}, 161002),
    ],
)
def test_refusals_of_dynamic_quant(run: Any, out: Any, soc: str, changes: Any, status: int) -> None:
    shapes: dict[str, Any] = {"x": ("FP16", 2, 4), "yOut": ("INT8", 2, 4), "scaleOut": ("FP32", 2)} | changes
    operands = {name: out(*shape) if shape else None for name, shape in shapes.items()}
    assert run("aclnnDynamicQuant", soc, **operands).status == status

"""Products, quotients, magnitudes, largest elements, quantisation with a given scale: by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

NAN, INF = float("nan"), float("inf")


# ---- products and quotients ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "x", "b", "y", "c", "expected"),
    [
        ("FP32", [[1, 2], [3, 4]], "FP32", [[10], [100]], "FP32", [[10, 20], [300, 400]]),
        ("INT32", [[16777217, 3]], "FP32", [[0.5], [2]], "FP32", [[8388608, 1.5], [33554432, 6]]),
        ("FP16", [2049, 3], "FP16", [1, 3], "FP32", [2048, 9]),  # 2049 is no FP16
        ("FP16", [300], "FP16", [300], "FP32", [INF]),  # the product is FP16 before it is FP32
        ("FP16", [300], "BF16", [300], "FP32", [90000]),  # and here FP32 at once
        ("BF16", [257], "FP32", [1], "FP32", [256]),
        ("INT8", [100, -128], "INT8", [2, -1], "INT8", [-56, -128]),
        ("UINT8", [200], "INT8", [2], "INT16", [400]),
        ("BOOL", [1, 1, 0], "BOOL", [1, 0, 0], "BOOL", [1, 0, 0]),
        ("FP64", [1 + 2**-40], "FP32", [3], "FP64", [3 + 3 * 2**-40]),
    ],
)
def test_products(run: Any, t: Any, out: Any, soc: str, a: str, x: Any, b: str, y: Any, c: str, expected: Any) -> None:
    result = run("aclnnMul", soc, self=t(a, x), other=t(b, y), out=out(c, *np.shape(expected)))
    assert result.numbers("out") == expected, result.message


def test_a_product_in_place(run: Any, t: Any, soc: str) -> None:
    result = run("aclnnInplaceMul", soc, selfRef=t("FP32", [[1, 2, 3], [4, 5, 6]]), other=t("FP32", [1, 10, 100]))
    assert result.numbers("selfRef") == [[1, 20, 300], [4, 50, 600]]


def test_a_product_of_strided_views_into_one(run: Any, t: Any, out: Any, soc: str) -> None:
    turned = t("FP32", [[1, 2, 3], [4, 5, 6]], strides=(1, 2), storage_shape=(3, 2))
    into = out("FP32", 2, 3, strides=(8, 1), storage_shape=(2, 8))
    result = run("aclnnMul", soc, self=turned, other=t("INT32", 2), out=into)
    assert result.numbers("out") == [[2, 4, 6], [8, 10, 12]]


@pytest.mark.parametrize(
    ("a", "x", "b", "y", "c", "expected"),
    [
        ("FP32", [[127]], "FP32", [[2], [0], [-4]], "FP32", [[63.5], [INF], [-31.75]]),
        ("INT32", [7, -7], "INT32", [2, 2], "FP32", [3.5, -3.5]),
        ("INT8", [1], "UINT8", [4], "FP16", [0.25]),
        ("BF16", [1], "BF16", [3], "FP32", [0.333984375]),
        ("BF16", [1], "FP32", [3], "FP32", [float(np.float32(1) / np.float32(3))]),
        ("FP64", [1], "FP64", [3], "FP64", [1 / 3]),
        ("BOOL", [1, 0], "BOOL", [1, 1], "FP32", [1, 0]),
    ],
)
def test_quotients(run: Any, t: Any, out: Any, soc: str, a: str, x: Any, b: str, y: Any, c: str, expected: Any) -> None:
    result = run("aclnnDiv", soc, self=t(a, x), other=t(b, y), out=out(c, *np.shape(expected)))
    assert result.numbers("out") == expected, result.message


@pytest.mark.parametrize("op", ["aclnnMul", "aclnnDiv"])
@pytest.mark.parametrize(
    ("self", "other", "result", "status"),
    [
        (None, ("FP32", 3), ("FP32", 3), 161001),
        (("FP32", 3), None, ("FP32", 3), 161001),
        (("FP32", 3), ("FP32", 3), None, 161001),
        (("UINT16", 3), ("FP32", 3), ("FP32", 3), 161002),
        (("FP32", 3), ("FP32", 4), ("FP32", 3), 161002),
        (("FP32", 3), ("FP32", 1), ("FP32", 1), 161002),
        (("FP32", *[1] * 9), ("FP32", 1), ("FP32", *[1] * 9), 161002),
        (("FP32", 0, 3), ("FP32", 1, 3), ("FP32", 0, 3), 0),
    ],
)
def test_refusals_of_products_and_quotients(
    run: Any, out: Any, soc: str, op: str, self: Any, other: Any, result: Any, status: int
) -> None:
    operands = {
        name: out(*given) if given else None
        for name, given in zip(("self", "other", "out"), (self, other, result), strict=True)
    }
    assert run(op, soc, **operands).status == status


@pytest.mark.parametrize(
    ("op", "a", "b", "c", "a2", "a5"),
    [
        ("aclnnMul", "FP32", "FP32", "INT32", 161002, 0),  # Ascend950 does not ask
        ("aclnnMul", "FP32", "INT32", "BOOL", 161002, 0),
        ("aclnnDiv", "FP32", "FP32", "INT32", 161002, 161002),
        ("aclnnDiv", "INT8", "INT8", "INT32", 0, 161002),  # A2 and A3 ask about INT8, not about the quotient
        ("aclnnDiv", "INT32", "INT32", "BOOL", 161002, 161002),
    ],
)
def test_what_a_result_may_become(run: Any, out: Any, op: str, a: str, b: str, c: str, a2: int, a5: int) -> None:
    operands = {"self": out(a, 3), "other": out(b, 3), "out": out(c, 3)}
    assert run(op, "Ascend910B", **operands).status == a2
    assert run(op, "Ascend950", **operands).status == a5


# ---- magnitudes and largest elements ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("FP32", [-1.5, 0, -INF], [1.5, 0, INF]),
        ("FP16", [-65504, 2], [65504, 2]),
        ("BF16", [-3], [3]),
        ("INT8", [-128, -5, 7], [-128, 5, 7]),
        ("INT64", [-(2**40)], [2**40]),
        ("UINT8", [200], [200]),
        ("BOOL", [1, 0], [1, 0]),
    ],
)
def test_magnitudes(run: Any, t: Any, out: Any, soc: str, dtype: str, values: Any, expected: Any) -> None:
    assert run("aclnnAbs", soc, self=t(dtype, values), out=out(dtype, len(values))).numbers("out") == expected


@pytest.mark.parametrize(
    ("dim", "keep", "expected"),
    [
        ([-1], True, [[[3], [6]], [[9], [0]]]),
        ([0], False, [[7, 8, 9], [4, 5, 6]]),
        ([0, 2], False, [9, 6]),
        ([], False, 9),
        ([2, 0, 1], True, [[[9]]]),
    ],
)
def test_largest_elements(run: Any, t: Any, out: Any, soc: str, dim: Any, keep: bool, expected: Any) -> None:
    values = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [-1, -2, 0]]]
    for dtype in ("FP32", "BF16", "INT32"):
        attrs = {"dim": dim, "keepDim": keep}
        result = run("aclnnAmax", soc, attrs, self=t(dtype, values), out=out(dtype, *np.shape(expected)))
        assert result.numbers("out") == expected


@pytest.mark.parametrize(
    ("self", "dim", "result", "status"),
    [
        (("FP32", 2, 3), [2], ("FP32", 2), 161002),
        (("FP32", 2, 3), [-3], ("FP32", 2), 161002),
        (("FP32", 2, 3), [1, -1], ("FP32", 2), 161002),
        (("FP32", 2, 0), [1], ("FP32", 2), 161002),
        (("FP32", 0, 3), [1], ("FP32", 0), 0),
        (("FP32", 2, 3), [1], ("FP32", 2, 1), 161002),
        (("FP32", 2, 3), [1], ("FP16", 2), 161002),
        (("UINT16", 2, 3), [1], ("UINT16", 2), 161002),
        (None, [1], ("FP32", 2), 161001),
        (("FP32", 2, 3), None, ("FP32", 2), 161001),
        (("FP32", 2, 3), [1], None, 161001),
    ],
)
def test_refusals_of_the_largest(run: Any, out: Any, soc: str, self: Any, dim: Any, result: Any, status: int) -> None:
    operands = {name: out(*given) if given else None for name, given in (("self", self), ("out", result))}
    assert run("aclnnAmax", soc, {"dim": dim, "keepDim": False}, **operands).status == status


@pytest.mark.parametrize(
    ("self", "result", "status"),
    [
        (("FP32", 3), ("FP16", 3), 161002),
        (("FP32", 3), ("FP32", 4), 161002),
        (("UINT16", 3), ("UINT16", 3), 161002),
        (None, ("FP32", 3), 161001),
        (("FP32", 0), ("FP32", 0), 0),
    ],
)
def test_refusals_of_magnitudes(run: Any, out: Any, soc: str, self: Any, result: Any, status: int) -> None:
    operands = {name: out(*given) if given else None for name, given in (("self", self), ("out", result))}
    assert run("aclnnAbs", soc, **operands).status == status


# ---- quantisation with a given scale ---------------------------------------------------------------


QUANT = {"sqrtMode": False, "roundMode": "round", "dstType": 2, "axis": -1}


@pytest.mark.parametrize(
    ("x", "scale", "offset", "attrs", "expected"),
    [
        ([[1, 2, 3]], [0.5], None, {}, [[0, 1, 2]]),
        ([[1, 2, 3]], [0.5], None, {"roundMode": "floor"}, [[0, 1, 1]]),
        ([[1, 2, 3]], [0.5], None, {"roundMode": "ceil"}, [[1, 1, 2]]),
        ([[1, 2, -3]], [0.5], None, {"roundMode": "trunc"}, [[0, 1, -1]]),
        ([[1, 2, 3]], [2], None, {"sqrtMode": True}, [[4, 8, 12]]),
        ([[200, -200, NAN]], [1], None, {}, [[127, -128, 0]]),
        ([[1, 3]], [1], [0.5], {}, [[2, 4]]),  # 1.5 and 3.5 are ties
        ([[1, 2], [3, 4]], [1, 10], None, {}, [[1, 20], [3, 40]]),
        ([[1, 2], [3, 4]], [1, 10], None, {"axis": 0}, [[1, 2], [30, 40]]),
        ([[1, 2], [3, 4]], [[1], [10]], None, {"axis": -2}, [[1, 2], [30, 40]]),
        ([[0, 0]], [INF], None, {"axis": 0}, [[0, 0]]),
    ],
)
def test_quantisation(
    run: Any, t: Any, out: Any, soc: str, x: Any, scale: Any, offset: Any, attrs: Any, expected: Any
) -> None:
    operands = {"x": t("FP32", x), "scale": t("FP32", scale), "offset": t("FP32", offset) if offset else None}
    result = run("aclnnAscendQuantV3", soc, QUANT | attrs, **operands, y=out("INT8", *np.shape(expected)))
    assert result.numbers("y") == expected, result.message


def test_quantisation_to_4_bits_saturates(run: Any, t: Any, out: Any, soc: str) -> None:
    """Eight in an INT32, the first in its lowest bits: 7, -8, 1, 2, 3, 4, -1, 0."""
    operands = {"x": t("FP16", [[9, -9, 1, 2, 3, 4, -1, 0]]), "scale": t("FP16", [1])}
    result = run("aclnnAscendQuantV3", soc, QUANT | {"dstType": 3}, **operands, y=out("INT32", 1, 1))
    assert np.array(result.numbers("y"), np.int32).view(np.uint32).tolist() == [[0x0F432187]]


@pytest.mark.parametrize(
    ("changes", "attrs", "status"),
    [
        ({"x": None}, {}, 161001),
        ({"scale": None}, {}, 161001),
        ({"y": None}, {}, 161001),
        ({"x": ("INT8", 4, 6)}, {}, 161002),
        ({"scale": ("FP16", 6)}, {}, 0),  # FP32 takes any
        ({"x": ("FP16", 4, 6)}, {}, 161002),  # FP16 takes its own
        ({"scale": ("FP32", 5)}, {}, 161002),
        ({"scale": ("FP32", 4)}, {"axis": 0}, 0),
        ({"scale": ("FP32", 4, 6)}, {}, 161002),
        ({"offset": ("FP32", 1)}, {}, 161002),
        ({"offset": ("FP16", 6)}, {}, 161002),
        ({"y": ("INT8", 4, 5)}, {}, 161002),
        ({"y": ("INT32", 4, 1)}, {"dstType": 3}, 161002),
        ({"y": ("INT4", 4, 6)}, {"dstType": 29}, 0),
        ({}, {"dstType": 3}, 161002),
        ({}, {"axis": 2}, 161002),
        ({}, {"roundMode": "nearest"}, 161002),
        ({"x": ("FP32", 2, 4, 6), "y": ("INT8", 2, 4, 6), "scale": ("FP32", 2)}, {"axis": 0}, 161002),
        ({"x": ("FP32", 0, 6), "y": ("INT8", 0, 6)}, {}, 0),
    ],
)
def test_refusals_of_quantisation(run: Any, out: Any, soc: str, changes: Any, attrs: Any, status: int) -> None:
    given = {"x": ("FP32", 4, 6), "scale": ("FP32", 6), "offset": None, "y": ("INT8", 4, 6)} | changes
    operands = {name: out(*what) if what else None for name, what in given.items()}
    assert run("aclnnAscendQuantV3", soc, QUANT | attrs, **operands).status == status


@pytest.mark.parametrize(("mode", "status"), [("round", 0), ("hybrid", 161002), ("floor", 161002)])
def test_8_bit_floats_are_only_rounded(run: Any, out: Any, mode: str, status: int) -> None:
    operands = {"x": out("FP32", 4, 6), "scale": out("FP32", 6), "y": out("FLOAT8_E4M3FN", 4, 6)}
    attrs = QUANT | {"dstType": 36, "roundMode": mode}
    assert run("aclnnAscendQuantV3", "Ascend950", attrs, **operands).status == status
    assert run("aclnnAscendQuantV3", "Ascend910B", attrs, **operands).status == 161002


@pytest.mark.parametrize(
    ("op", "operands", "words"),
    [
        ("aclnnMul", {"self": ("COMPLEX64", 3), "other": ("COMPLEX64", 3), "out": ("COMPLEX64", 3)}, "COMPLEX64"),
        ("aclnnAbs", {"self": ("COMPLEX64", 3), "out": ("FP32", 3)}, "COMPLEX64"),
    ],
)
def test_what_has_no_kernel_faults_with_a_text(run: Any, out: Any, op: str, operands: Any, words: str) -> None:
    result = run(op, **{name: out(*what) for name, what in operands.items()})
    assert result.status == 207000
    assert words in result.message


# ---- what primitives.md lists as not computed ------------------------------------------------------


KEYS = {
    "key": ("BF16", 4, 1, 512),
    "keyCacheRef": ("BF16", 2, 16, 1, 512),
    "slotMapping": ("INT32", 4),
    "value": ("BF16", 4, 1, 64),
    "valueCacheRef": ("BF16", 2, 16, 1, 64),
}
NCT = {"cacheModeOptional": "Norm", "scatterModeOptional": "Nct", "stridesOptional": [2, 2], "offsetsOptional": [0, 0]}


@pytest.mark.parametrize(
    ("op", "attrs", "operands", "word"),
    [
        ("aclnnScatterPaKvCache", NCT, KEYS, "Nct"),
        (
            "aclnnAscendQuantV3",
            QUANT | {"dstType": 34, "roundMode": "hybrid"},
            {"x": ("FP32", 4, 6), "scale": ("FP32", 6), "y": ("HIFLOAT8", 4, 6)},
            "hybrid",
        ),
        ("aclnnCast", {"dtype": "FP32"}, {"self": ("COMPLEX64", 3), "out": ("FP32", 3)}, "COMPLEX64"),
    ],
)
def test_what_is_not_computed_says_so(run: Any, out: Any, op: str, attrs: Any, operands: Any, word: str) -> None:
    given = {name: out(*what) for name, what in operands.items()}
    result = run(op, "Ascend950", attrs, **given)
    assert result.status == 207000, result.message
    assert word in result.message
    assert "the simulator has no kernel for it" in result.message


@pytest.mark.parametrize("blocked", ["self", "out"])
def test_products_of_blocks_say_so(run: Any, out: Any, soc: str, blocked: str) -> None:
    shapes = {"self": (32, 64), "mat2": (64, 32), "out": (32, 32)}
    operands = {n: out("FP16", *s, format="FRACTAL_NZ" if n == blocked else "ND") for n, s in shapes.items()}
    result = run("aclnnMm", soc, {"cubeMathType": 0}, **operands)
    assert result.status == 207000, result.message
    assert "FRACTAL_NZ in self, out" in result.message

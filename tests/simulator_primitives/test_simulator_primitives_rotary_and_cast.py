"""Rotations of four numbers by hand, the pairs of each mode, what stays outside a slice; casts between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

X, COS, SIN = [1, 2, 3, 4], [1, 2, 3, 4], [10, 20, 30, 40]
INF = float("inf")


def row(values: Any) -> Any:
    return np.reshape(values, (1, 1, 1, -1))


def rotate(run: Any, t: Any, out: Any, mode: int, soc: str, dtype: str, values: tuple[Any, Any, Any]) -> Any:
    x, cos, sin = (t(dtype, row(v)) for v in values)
    operands = {"x": x, "cos": cos, "sin": sin, "out": out(dtype, *x.shape)}
    return run("aclnnRotaryPositionEmbedding", soc, {"mode": mode}, **operands).numbers("out")[0][0][0]


@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0, [-29, -76, 39, 96]), (1, [-19, 24, -111, 136]), (2, [-19, 24, -111, 136]), (3, [-19, -74, 36, 136])],
)
def test_modes_on_950(run: Any, t: Any, out: Any, dtype: str, mode: int, expected: Any) -> None:
    assert rotate(run, t, out, mode, "Ascend950", dtype, (X, COS, SIN)) == expected


def test_quarters_turn_two_by_two(run: Any, t: Any, out: Any) -> None:
    values = (np.arange(1, 9), np.zeros(8), np.ones(8))
    assert rotate(run, t, out, 2, "Ascend950", "FP32", values) == [-3, -4, 1, 2, -7, -8, 5, 6]


@pytest.mark.parametrize("mode", [0, 2, 3])
def test_a2_takes_every_mode_but_1_for_half(run: Any, t: Any, out: Any, mode: int) -> None:
    assert rotate(run, t, out, mode, "Ascend910B", "FP32", (X, COS, SIN)) == [-29, -76, 39, 96]


def test_a_tie_goes_to_even(run: Any, t: Any, out: Any, soc: str) -> None:
    values = ([5, 0, 0, 0], [1.015625] * 4, [0] * 4)
    assert rotate(run, t, out, 0, soc, "BF16", values) == [5.0625, 0, 0, 0]


def test_angles_serve_all_heads(run: Any, t: Any, out: Any, soc: str) -> None:
    operands = {"x": t("FP32", [[[[1, 2]], [[3, 4]]]]), "cos": t("FP32", row([0, 0])), "sin": t("FP32", row([1, 1]))}
    result = run("aclnnRotaryPositionEmbedding", soc, {"mode": 0}, **operands, out=out("FP32", 1, 2, 1, 2))
    assert result.numbers("out") == [[[[-2, 1]], [[-4, 3]]]]


def test_turning_back_gives_x(run: Any, t: Any, out: Any, soc: str) -> None:
    angles = np.tile(np.random.default_rng(5).uniform(0, 6, 32), 2)
    x = np.random.default_rng(6).standard_normal(64)
    there = rotate(run, t, out, 0, soc, "FP32", (x, np.cos(angles), np.sin(angles)))
    back = rotate(run, t, out, 0, soc, "FP32", (there, np.cos(angles), -np.sin(angles)))
    assert np.allclose(back, x, atol=1e-6)


def test_interleave_rope_sorts_even_before_odd(run: Any, t: Any, out: Any, soc: str) -> None:
    j = np.arange(64)
    operands = {"x": t("FP16", row(j)), "out": out("FP16", 1, 1, 1, 64)}
    plain = run("aclnnInterleaveRope", soc, **operands, cos=t("FP16", row(j * 0 + 1)), sin=t("FP16", row(j * 0)))
    assert plain.numbers("out")[0][0][0] == [*range(0, 64, 2), *range(1, 64, 2)]
    turned = run("aclnnInterleaveRope", soc, **operands, cos=t("FP16", row(j * 0)), sin=t("FP16", row(j * 0 + 1)))
    assert turned.numbers("out")[0][0][0] == [*range(-1, -65, -2), *range(0, 64, 2)]


@pytest.mark.parametrize(
    ("dtype", "x", "part", "angles", "expected"),
    [
        ("FP32", [9, 9, 1, 2, 3, 4], [2, 6], (COS, SIN), [9, 9, -19, 24, -111, 136]),
        ("BF16", [7, 5, 0, 0, 0, 3], [1, 5], ([1.015625] * 4, [0] * 4), [7, 5.0625, 0, 0, 0, 3]),
    ],
)
def test_a_slice_turns_in_place(
    run: Any, t: Any, soc: str, dtype: str, x: Any, part: Any, angles: Any, expected: Any
) -> None:
    operands = {"xRef": t(dtype, row(x)), "cos": t(dtype, row(angles[0])), "sin": t(dtype, row(angles[1]))}
    attrs = {"rotary_mode": 1, "partialSlice": part}
    assert run("aclnnInplacePartialRotaryMul", soc, attrs, **operands).numbers("xRef")[0][0][0] == expected


@pytest.mark.parametrize(
    ("attrs", "status"),
    [({"rotary_mode": 0}, 561002), ({"partialSlice": [0, 3]}, 561002), ({"partialSlice": [0, 10]}, 561002)],
)
def test_refusals_of_a_slice(run: Any, t: Any, soc: str, attrs: Any, status: int) -> None:
    operands = {"xRef": t("FP16", row(np.arange(8))), "cos": t("FP16", row(X)), "sin": t("FP16", row(X))}
    attrs = {"rotary_mode": 1, "partialSlice": [0, 4]} | attrs
    assert run("aclnnInplacePartialRotaryMul", soc, attrs, **operands).status == status


@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        ("FP32", [1 + 2**-8, 1 + 3 * 2**-8, 1.1, 2.3], "BF16", [1.0, 1.015625, 1.1015625, 2.296875]),
        ("FP32", [2049, 2051, 70000], "FP16", [2048, 2052, INF]),
        ("FP32", [2.7, -2.7], "INT32", [2, -2]),
        ("INT32", [16777217], "FP32", [16777216]),
        ("BOOL", [0, 1], "FP16", [0, 1]),
        ("FP16", [0, -2, 0.5], "BOOL", [0, 1, 1]),
        ("INT64", [5, -7], "BF16", [5, -7]),
        ("FP64", [1 + 2**-30], "FP32", [1]),
    ],
)
def test_casts(run: Any, t: Any, out: Any, soc: str, source: str, values: Any, target: str, expected: Any) -> None:
    operands = {"self": t(source, values), "out": out(target, len(values))}
    assert run("aclnnCast", soc, {"dtype": target}, **operands).numbers("out") == expected


@pytest.mark.parametrize("dtype", ["HIFLOAT8", "FLOAT8_E4M3FN"])
def test_casts_to_8_bits_and_back(run: Any, t: Any, out: Any, dtype: str) -> None:
    values = [0, 1, -2, 0.5, 16, -1.5]
    there = run("aclnnCast", "Ascend950", {"dtype": dtype}, self=t("FP32", values), out=out(dtype, 6))
    assert there.numbers("out") == values


def test_a_cast_of_a_strided_view(run: Any, t: Any, out: Any, soc: str) -> None:
    source = t("FP32", [[1, 2, 3], [4, 5, 6]], strides=(1, 2), storage_shape=(3, 2))
    assert run("aclnnCast", soc, {"dtype": "INT32"}, self=source, out=out("INT32", 2, 3)).numbers("out") == [
        [1, 2, 3],
        [4, 5, 6],
    ]


@pytest.mark.parametrize(("self", "status"), [(None, 161001), (("FP32", 4), 161002)])
def test_refusals_of_cast(run: Any, out: Any, soc: str, self: Any, status: int) -> None:
    operands = {"self": out(*self) if self else None, "out": out("FP16", 3)}
    assert run("aclnnCast", soc, {"dtype": "FP16"}, **operands).status == status


def test_complex_casts_fault_with_a_text(run: Any, out: Any) -> None:
    result = run("aclnnCast", attrs={"dtype": "FP32"}, self=out("COMPLEX64", 3), out=out("FP32", 3))
    assert result.status == 207000
    assert "COMPLEX64" in result.message

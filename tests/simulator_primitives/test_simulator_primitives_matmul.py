"""Matrix products whose every sum can be written down: where results are rounded, and in which dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

INF = float("inf")


@pytest.mark.parametrize(
    ("dtype", "left", "right", "to", "expected"),
    [
        ("FP16", [[1, 2], [3, 4]], [[5, 6], [7, 8]], "FP16", [[19, 22], [43, 50]]),
        ("BF16", [[256, 1]], [[1], [1]], "BF16", [[256]]),  # 257 lies between two, the even one wins
        ("BF16", [[256, 1]], [[1], [1]], "FP32", [[257]]),
        ("BF16", [[256, 3]], [[1], [1]], "BF16", [[260]]),
        ("FP32", [[2048, 1]], [[1], [1]], "FP16", [[2048]]),
        ("FP32", [[2048, 3]], [[1], [1]], "FP16", [[2052]]),
        ("FP32", [[70000, 0]], [[1], [1]], "FP16", [[INF]]),
        ("FP32", [[1 + 2**-13, 0]], [[1], [0]], "FP32", [[1 + 2**-13]]),
    ],
)
@pytest.mark.parametrize("op", ["aclnnMm", "aclnnMatmul"])
def test_products_are_rounded_once(
    run: Any, t: Any, out: Any, op: str, dtype: str, left: Any, right: Any, to: str, expected: Any
) -> None:
    operands = {"self": t(dtype, left), "mat2": t(dtype, right), "out": out(to, *np.shape(expected))}
    result = run(op, attrs={"cubeMathType": 0}, **operands)
    assert result.numbers("out") == expected


def test_hf32_drops_the_low_bits(run: Any, t: Any, out: Any) -> None:
    operands = {"self": t("FP32", [[1 + 2**-13, 0]]), "mat2": t("FP32", [[1], [0]]), "out": out("FP32", 1, 1)}
    assert run("aclnnMm", attrs={"cubeMathType": 3}, **operands).numbers("out") == [[1.0]]


def test_an_empty_sum_is_zero(run: Any, t: Any, out: Any, soc: str) -> None:
    operands = {"self": out("FP16", 2, 0), "mat2": out("FP16", 0, 3), "out": t("FP16", np.ones((2, 3)))}
    result = run("aclnnMatmul", soc, {"cubeMathType": 0}, **operands)
    assert result.numbers("out") == [[0, 0, 0], [0, 0, 0]]


def test_batches_and_vectors(run: Any, t: Any, out: Any) -> None:
    batched = {"self": t("FP16", [[[1, 2]], [[3, 4]]]), "mat2": t("FP16", [[10], [1]]), "out": out("FP16", 2, 1, 1)}
    assert run("aclnnMatmul", attrs={"cubeMathType": 0}, **batched).numbers("out") == [[[12]], [[34]]]
    vectors = {"self": t("FP16", [1, 2, 3]), "mat2": t("FP16", [4, 5, 6]), "out": out("FP16")}
    assert run("aclnnMatmul", attrs={"cubeMathType": 0}, **vectors).numbers("out") == 32


def test_a_transposed_view_is_a_transposed_matrix(run: Any, t: Any, out: Any) -> None:
    rng = np.random.default_rng(3)
    left, right = rng.integers(-8, 8, (5, 7)), rng.integers(-8, 8, (7, 4))
    mat2 = t("FP16", right, strides=(1, 7), storage_shape=(4, 7))
    result = run("aclnnMm", attrs={"cubeMathType": 0}, self=t("FP16", left), mat2=mat2, out=out("FP16", 5, 4))
    assert result.numbers("out") == (left @ right).tolist()


def test_a_weight_in_blocks_gives_the_same(run: Any, t: Any, out: Any, soc: str) -> None:
    rng = np.random.default_rng(4)
    left, right = rng.integers(-8, 8, (5, 33)), rng.integers(-8, 8, (33, 18))
    mat2 = t("BF16", right, format="FRACTAL_NZ")
    operands = {"self": t("BF16", left), "mat2": mat2, "out": out("BF16", 5, 18)}
    result = run("aclnnMatmulWeightNz", soc, {"cubeMathType": 0}, **operands)
    exact = t("BF16", left @ right)
    same = run("aclnnCast", soc, {"dtype": "BF16"}, self=t("FP32", left @ right), out=out("BF16", *exact.shape))
    assert result.numbers("out") == same.numbers("out")


PLAIN = {"transposeX1": False, "transposeX2": False}
X1, X2 = [[1, 2], [3, -4]], [[5, 6], [7, -8]]  # the product is [[19, -10], [-13, 50]]


@pytest.mark.parametrize("to", ["BF16", "FP16"])
def test_both_scales_multiply(run: Any, t: Any, out: Any, soc: str, to: str) -> None:
    operands = {"x1": t("INT8", X1), "x2": t("INT8", X2), "out": out(to, 2, 2)}
    scales = {"scale": t("FP32", [0.5, 0.25]), "pertokenScaleOptional": t("FP32", [2, 4])}
    assert run("aclnnQuantMatmulV4", soc, PLAIN, **operands, **scales).numbers("out") == [[19, -5], [-26, 50]]


def test_a_transposed_weight_of_v5(run: Any, t: Any, out: Any, soc: str) -> None:
    operands = {"x1": t("INT8", X1), "x2": t("INT8", [[5, 7], [6, -8]]), "out": out("BF16", 2, 2)}
    scales = {"x2Scale": t("FP32", [0.5, 0.25]), "x1Scale": t("FP32", [2, 4])}
    result = run("aclnnQuantMatmulV5", soc, PLAIN | {"transposeX2": True, "groupSize": 0}, **operands, **scales)
    assert result.numbers("out") == [[19, -5], [-26, 50]]


@pytest.mark.parametrize(("transpose", "x2"), [(False, X2), (True, [[5, 7], [6, -8]])])
def test_an_int8_weight_in_blocks(run: Any, t: Any, out: Any, soc: str, transpose: bool, x2: Any) -> None:
    operands = {"x1": t("INT8", X1), "x2": t("INT8", x2, format="FRACTAL_NZ"), "out": out("BF16", 2, 2)}
    scales = {"x2Scale": t("FP32", [0.5, 0.25]), "x1Scale": t("FP32", [2, 4])}
    result = run(
        "aclnnQuantMatmulWeightNz", soc, PLAIN | {"transposeX2": transpose, "groupSize": 0}, **operands, **scales
    )
    assert result.numbers("out") == [[19, -5], [-26, 50]]


def test_int32_out_is_the_bare_sum(run: Any, t: Any, out: Any, soc: str) -> None:
    operands = {"x1": t("INT8", X1), "x2": t("INT8", X2), "out": out("INT32", 2, 2)}
    result = run("aclnnQuantMatmulV3", soc, PLAIN, scale=t("FP32", [0.5, 0.25]), **operands)
    assert result.numbers("out") == [[19, -10], [-13, 50]]


@pytest.mark.parametrize(("dtype", "expected"), [("INT32", 6), ("FP32", 7)])
def test_an_integer_bias_comes_before_the_scales(run: Any, t: Any, out: Any, dtype: str, expected: int) -> None:
    operands = {"x1": t("INT8", [[10]]), "x2": t("INT8", [[1]]), "out": out("BF16", 1, 1)}
    scales = {"scale": t("FP32", [0.25]), "pertokenScaleOptional": t("FP32", [2]), "bias": t(dtype, [2])}
    assert run("aclnnQuantMatmulV4", attrs=PLAIN, **operands, **scales).numbers("out") == [[expected]]


@pytest.mark.parametrize(("to", "expected"), [("INT32", 33032193), ("BF16", 33030144)])
def test_sums_above_24_bits(run: Any, t: Any, out: Any, to: str, expected: int) -> None:
    long = np.array([[127] * 2048 + [1]])
    operands = {"x1": t("INT8", long), "x2": t("INT8", long.T), "out": out(to, 1, 1)}
    assert run("aclnnQuantMatmulV3", attrs=PLAIN, scale=t("FP32", [1]), **operands).numbers("out") == [[expected]]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"self": None}, 161001),
        ({"self": ("INT8", 2, 3)}, 161002),
        ({"self": ("FP16", 1, 2, 3)}, 161002),
        ({"mat2": ("FP16", 4, 5)}, 161002),
        ({"cubeMathType": 5}, 161002),
        ({"out": ("FP16", 2, 4)}, 161002),
    ],
)
def test_refusals_of_mm(run: Any, out: Any, soc: str, changes: Any, status: int) -> None:
    shapes: dict[str, Any] = {"self": ("FP16", 2, 3), "mat2": ("FP16", 3, 5), "out": ("FP16", 2, 5)} | changes
    attrs = {"cubeMathType": shapes.pop("cubeMathType", 0)}
    operands = {name: out(*shape) if shape else None for name, shape in shapes.items()}
    assert run("aclnnMm", soc, attrs, **operands).status == status


def test_what_has_no_kernel_says_so(run: Any, t: Any, out: Any) -> None:
    """Phase one agrees with CANN; the stream reports a fault that names the dtype."""
    operands = {"x1": out("INT4", 2, 64), "x2": out("INT4", 64, 8), "out": out("BF16", 2, 8)}
    scales = {"scale": out("FP32", 8), "pertokenScaleOptional": out("FP32", 2)}
    result = run("aclnnQuantMatmulV4", attrs=PLAIN, **operands, **scales)
    assert result.status == 207000
    assert "INT4" in result.message


# ---- INT8 output, and 8-bit floats -----------------------------------------------------------------


def packed(scale: float, offset: int = 0) -> int:
    """A scale as UINT64, as CANN describes it: 19 bits of FP32, an offset of nine bits from bit 37, bit 46."""
    return int(np.float32(scale).view(np.uint32)) & 0xFFFFE000 | (offset & 0x1FF) << 37 | 1 << 46


@pytest.mark.parametrize(
    ("total", "scale", "offset", "expected"),
    [
        (10, packed(0.25), None, 2),  # 2.5 is a tie
        (100, packed(1, -7), None, 93),
        (1000, packed(1, -200), None, 55),  # 1000 is 255 in nine bits
        (-1000, packed(1, 255), None, -1),
        (100, packed(1, -7), 27.0, 127),  # the operand, not what is packed
    ],
)
def test_int8_out_passes_through_nine_bits(
    run: Any, t: Any, out: Any, soc: str, total: int, scale: int, offset: Any, expected: int
) -> None:
    operands = {"x1": t("INT8", [[total // 10] * 10]), "x2": t("INT8", [[1]] * 10), "out": out("INT8", 1, 1)}
    operands |= {"scale": t("UINT64", [scale]), "offset": t("FP32", [offset]) if offset else None}
    assert run("aclnnQuantMatmulV3", soc, PLAIN, **operands).numbers("out") == [[expected]]


@pytest.mark.parametrize(
    ("first", "second"),
    [("HIFLOAT8", "HIFLOAT8"), ("FLOAT8_E4M3FN", "FLOAT8_E4M3FN"), ("FLOAT8_E5M2", "FLOAT8_E4M3FN")],
)
@pytest.mark.parametrize("transpose", [False, True])
def test_8_bit_floats_on_950(run: Any, t: Any, out: Any, first: str, second: str, transpose: bool) -> None:
    """[[0.5, 2], [-4, 1]] times [[1, 1.5], [0.25, -8]] is [[1, -15.25], [-3.75, -14]]."""
    x2 = np.array([[1, 1.5], [0.25, -8]])
    operands = {"x1": t(first, [[0.5, 2], [-4, 1]]), "x2": t(second, x2.T if transpose else x2)}
    operands |= {"x1Scale": t("FP32", [2, 0.5]), "x2Scale": t("FP32", [1, 4]), "bias": t("FP32", [0.5, 1])}
    attrs = PLAIN | {"transposeX2": transpose, "groupSize": 0}
    for dtype in ("FP32", "BF16"):
        result = run("aclnnQuantMatmulV5", "Ascend950", attrs, **operands, out=out(dtype, 2, 2))
        assert result.numbers("out") == [[2.5, -121], [-1.375, -27]], result.message


def test_one_scale_for_all_rows_of_8_bit_floats(run: Any, t: Any, out: Any) -> None:
    operands = {"x1": t("FLOAT8_E4M3FN", [[1, 2], [3, 4]]), "x2": t("FLOAT8_E4M3FN", [[1, 0], [0, 1]])}
    operands |= {"x1Scale": t("FP32", [10]), "x2Scale": t("FP32", [0.5]), "out": out("FP32", 2, 2)}
    result = run("aclnnQuantMatmulV5", "Ascend950", PLAIN | {"groupSize": 0}, **operands)
    assert result.numbers("out") == [[5, 10], [15, 20]], result.message


def test_the_bias_of_8_bit_floats_comes_before_a_packed_scale(run: Any, t: Any, out: Any) -> None:
    operands = {"x1": t("HIFLOAT8", [[1, 2]]), "x2": t("HIFLOAT8", [[3, 0], [0, 4]]), "bias": t("FP32", [1, -2])}
    operands |= {"x2Scale": t("UINT64", [packed(0.5)]), "out": out("FP16", 1, 2)}
    result = run("aclnnQuantMatmulV5", "Ascend950", PLAIN | {"groupSize": 0}, **operands)
    assert result.numbers("out") == [[2, 3]], result.message


@pytest.mark.parametrize("dtype", ["HIFLOAT8", "FLOAT8_E4M3FN"])
def test_an_8_bit_float_weight_in_blocks(run: Any, t: Any, out: Any, dtype: str) -> None:
    operands = {"x1": t(dtype, [[0.5, 2], [-4, 1]]), "x2": t(dtype, [[1, 1.5], [0.25, -8]], format="FRACTAL_NZ")}
    operands |= {"x1Scale": t("FP32", [2, 0.5]), "x2Scale": t("FP32", [1, 4]), "out": out("FP32", 2, 2)}
    result = run("aclnnQuantMatmulWeightNz", "Ascend950", PLAIN | {"groupSize": 0}, **operands)
    assert result.numbers("out") == [[2, -122], [-1.875, -28]], result.message


def test_a_single_scale_has_19_bits_on_950(run: Any, t: Any, out: Any, soc: str) -> None:
    """257 (1 + 2^-11) is more than a tie of BF16; without the last bit of the scale it is one, and goes to even."""
    operands = {"x1": t("INT8", [[127, 127, 3]]), "x2": t("INT8", [[1], [1], [1]]), "out": out("BF16", 1, 1)}
    result = run("aclnnQuantMatmulV3", soc, PLAIN, **operands, scale=t("FP32", [1 + 2**-11]))
    assert result.numbers("out") == [[256 if soc == "Ascend950" else 258]]


@pytest.mark.parametrize(
    ("x1_scale", "x2_scale", "expected"),
    [
        ([1 + 2**-11], [1], [2048, 4096]),
        ([1 + 2**-10], [2], [4100, 8200]),
        ([1 + 2**-11], [1, 1], [2049, 4098]),
    ],
)
def test_so_has_the_product_of_two_single_ones(
    run: Any, t: Any, out: Any, x1_scale: Any, x2_scale: Any, expected: Any
) -> None:
    operands = {"x1": t("FLOAT8_E4M3FN", [[64]]), "x2": t("FLOAT8_E4M3FN", [[32, 64]]), "out": out("FP32", 1, 2)}
    scales = {"x1Scale": t("FP32", x1_scale), "x2Scale": t("FP32", x2_scale)}
    result = run("aclnnQuantMatmulV5", "Ascend950", PLAIN | {"groupSize": 0}, **operands, **scales)
    assert result.numbers("out") == [expected]

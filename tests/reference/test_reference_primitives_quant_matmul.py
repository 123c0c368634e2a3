"""Scaled products of eight-bit operands, against the examples of the specification (ids in comments)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import BF16, FLOAT8_E4M3FN, FLOAT8_E5M2, FP16, FP32, INT8, INT32, DType, dtype, hifloat8_encode
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_quant_matmul import quant_matmul

bf16 = ml_dtypes.bfloat16


def array(values: Any, kind: Any) -> np.ndarray:
    return np.array(values, kind)


def values(result: np.ndarray) -> Any:
    return result.astype(np.float64).tolist()


X1, X2 = array([[1, 2], [3, -4]], np.int8), array([[5, 6], [7, -8]], np.int8)
X2_SCALE, X1_SCALE = array([0.5, 0.25], np.float32), array([2, 4], np.float32)


@pytest.mark.parametrize("out", [BF16, FP16])
def test_qm1_scales_of_rows_and_columns(out: DType) -> None:
    result = quant_matmul(X1, X2, x2_scale=X2_SCALE, x1_scale=X1_SCALE, out=out)
    assert dtype(result.dtype) is out
    assert values(result) == [[19, -5], [-26, 50]]


def test_qm2_integers_are_not_scaled() -> None:
    result = quant_matmul(X1, X2, x2_scale=X2_SCALE, out=INT32)
    assert result.dtype == np.int32
    assert result.tolist() == [[19, -10], [-13, 50]]


def test_qm3_transposed_operands() -> None:
    plain = quant_matmul(X1, X2, x2_scale=X2_SCALE, x1_scale=X1_SCALE, out=BF16)
    swapped = quant_matmul(
        X1.T, X2.T, x2_scale=X2_SCALE, x1_scale=X1_SCALE, transpose_x1=True, transpose_x2=True, out=BF16
    )
    assert values(plain) == values(swapped)


@pytest.mark.parametrize(("kind", "expected"), [(np.int32, 6), (np.float32, 7)])
def test_qm4_integer_bias_is_scaled_and_floating_bias_is_not(kind: type, expected: float) -> None:
    result = quant_matmul(
        array([[10]], np.int8),
        array([[1]], np.int8),
        x2_scale=array([0.25], np.float32),
        x1_scale=array([2], np.float32),
        bias=array([2], kind),
        out=BF16,
    )
    assert values(result) == [[expected]]


@pytest.mark.parametrize(("out", "expected"), [(INT32, 33032193), (BF16, 33030144)])
def test_qm6_exact_before_the_float32_stage(out: DType, expected: int) -> None:
    x1, x2 = np.full((1, 2049), 127, np.int8), np.full((2049, 1), 127, np.int8)
    x1[0, -1] = x2[-1, 0] = 1
    assert values(quant_matmul(x1, x2, x2_scale=array([1], np.float32), out=out)) == [[expected]]


def test_packed_scale_keeps_19_bits() -> None:
    scale = np.float32(1 + 2**-10 + 2**-20)
    packed = scale.reshape(1).view(np.uint32).astype(np.uint64)
    result = quant_matmul(array([[1]], np.int8), array([[1]], np.int8), x2_scale=packed, out=FP16)
    assert values(result) == [[1 + 2**-10]]


def test_batches_are_broadcast() -> None:
    result = quant_matmul(np.stack([X1, 2 * X1]), X2[None], x2_scale=X2_SCALE, out=INT32)
    assert result.tolist() == [[[19, -10], [-13, 50]], [[38, -20], [-26, 100]]]


def packed(scale: float, offset: int = 0) -> Any:
    """A scale as UINT64, with an offset in its nine bits from 37."""
    bits = int(np.float32(scale).view(np.uint32)) | (offset & 0x1FF) << 37 | 1 << 46
    return np.array([bits], np.uint64)


@pytest.mark.parametrize(
    ("total", "scale", "offset", "y"),
    [
        (10, packed(0.25), None, 2),  # 2.5, a tie, to even
        (10, packed(0.75), None, 8),  # 7.5 as well
        (-10, packed(0.25), None, -2),
        (100, packed(1.0, offset=-7), None, 93),
        (100, packed(1.0, offset=-7), 27.5, 127),  # an operand wins; 27.5 rounds to 28, and 128 saturates
        (1000, packed(1.0), -200.0, 55),  # 1000 saturates at 255 before the offset is added
        (-1000, packed(1.0, offset=255), None, -1),
        (100, np.array([0.25], np.float32), None, 25),
    ],
)
def test_int8_output_saturates_at_nine_bits_first(total: int, scale: Any, offset: float | None, y: int) -> None:
    x1 = np.full((1, 10), total // 10, np.int8)
    given = None if offset is None else np.array([offset], np.float32)
    for precision in ("device", "exact"):
        got = quant_matmul(
            x1, np.ones((10, 1), np.int8), x2_scale=scale, x2_offset=given, out=INT8, precision=precision
        )
        assert got.dtype == np.int8
        assert got.tolist() == [[y]]


def test_an_offset_needs_int8_output() -> None:
    with pytest.raises(NotImplementedError, match="belongs to INT8 output"):
        quant_matmul(X1, X2, x2_scale=X2_SCALE, x2_offset=np.ones(2, np.float32), out=BF16)
    tensors = {"x1": X1, "x2": X2, "scale": packed(1.0), "offset": np.array([1, -1], np.float32)}
    got = evaluate("aclnnQuantMatmulV4", tensors, {}, soc="Ascend910B", outputs={"out": ((2, 2), INT8)})
    assert got["out"].tolist() == [[20, -11], [-12, 49]]


@pytest.mark.parametrize(
    ("symbol", "tensors"),
    [
        ("aclnnQuantMatmulV4", {"scale": X2_SCALE, "pertokenScaleOptional": X1_SCALE}),
        ("aclnnQuantMatmulV5", {"x2Scale": X2_SCALE, "x1Scale": X1_SCALE}),
        ("aclnnQuantMatmulWeightNz", {"x2Scale": X2_SCALE, "x1Scale": X1_SCALE}),
    ],
)
def test_every_version_names_its_scales(symbol: str, tensors: dict[str, np.ndarray]) -> None:
    got = evaluate(symbol, {"x1": X1, "x2": X2, **tensors}, {}, soc="Ascend910B", outputs={"out": ((2, 2), BF16)})
    assert values(got["out"]) == [[19, -5], [-26, 50]]


# ---- operands of eight-bit floats, Ascend950 ------------------------------------------------------


def eight_bits(x: np.ndarray, name: str) -> np.ndarray:
    if name == "HIFLOAT8":
        return hifloat8_encode(x.astype(np.float32))
    return x.astype({"E4M3": FLOAT8_E4M3FN, "E5M2": FLOAT8_E5M2}[name].numpy)


@pytest.mark.parametrize(("first", "second"), [("E4M3", "E4M3"), ("E4M3", "E5M2"), ("HIFLOAT8", "HIFLOAT8")])
def test_floats_are_scaled_as_integers_are(first: str, second: str) -> None:
    x1, x2 = eight_bits(X1, first), eight_bits(X2, second)
    scales = {"x2_scale": X2_SCALE, "x1_scale": X1_SCALE}
    assert values(quant_matmul(x1, x2, **scales, out=FP32)) == [[19, -5], [-26, 50]]
    bias = array([1, -1], np.float32)
    assert values(quant_matmul(x1, x2, **scales, bias=bias, out=FP32)) == [[20, -6], [-25, 49]]


def test_a_bias_of_floats_without_a_scale_of_rows_is_scaled_too() -> None:
    x1, x2, bias = eight_bits(X1, "E4M3"), eight_bits(X2, "E4M3"), array([1, -1], np.float32)
    assert values(quant_matmul(x1, x2, x2_scale=X2_SCALE, bias=bias, out=FP32)) == [[10, -2.75], [-6, 12.25]]
    # For integers it is not.
    assert values(quant_matmul(X1, X2, x2_scale=X2_SCALE, bias=bias, out=FP32)) == [[10.5, -3.5], [-5.5, 11.5]]


def test_two_single_scales_of_floats_are_one_of_19_bits() -> None:
    # (1 + 2^-6)^2 = 1 + 2^-5 + 2^-12, of which the last term is lost; but not with a bias.
    x1, x2 = eight_bits(X1, "E4M3"), eight_bits(X2, "E4M3")
    single = {"x2_scale": array([1 + 2**-6], np.float32), "x1_scale": array([1 + 2**-6], np.float32)}
    merged = quant_matmul(x1, x2, **single, out=FP32)
    assert values(merged) == [[19 * (1 + 2**-5), -10 * (1 + 2**-5)], [-13 * (1 + 2**-5), 50 * (1 + 2**-5)]]
    apart = quant_matmul(x1, x2, **single, bias=array([0, 0], np.float32), out=FP32)
    assert values(apart)[0] == [19 * (1 + 2**-6) ** 2, -10 * (1 + 2**-6) ** 2]
    assert values(quant_matmul(x1, x2, **single, out=FP32, precision="exact")) == values(apart)


@pytest.mark.parametrize(("soc", "expected"), [("Ascend910B", 19 * (1 + 2**-11)), ("Ascend950", 19)])
def test_a_single_scale_of_integers_has_19_bits_on_950(soc: str, expected: float) -> None:
    scale = array([1 + 2**-11], np.float32)
    assert values(quant_matmul(X1, X2, x2_scale=scale, out=FP32, soc=soc))[0][0] == expected
    # Not with a scale of rows.
    rows = array([1, 1], np.float32)
    assert values(quant_matmul(X1, X2, x2_scale=scale, x1_scale=rows, out=FP32, soc=soc))[0][0] == 19 * (1 + 2**-11)


@pytest.mark.parametrize(
    "scale", [np.ones((2, 1), np.float32), np.full(2, 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)]
)
def test_scales_of_blocks_have_no_reference(scale: np.ndarray) -> None:
    with pytest.raises(NotImplementedError, match="scales of one dimension"):
        quant_matmul(X1, X2, x2_scale=scale, out=BF16)

"""Products, against the examples of the specification (ids in comments)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import BF16, FP16, FP32, INT8, INT32, DType, dtype
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_matmul import GROUPED, KEEP, USE_FP16, USE_HF32, matmul, quant_matmul

bf16 = ml_dtypes.bfloat16


def array(values: Any, kind: Any) -> np.ndarray:
    return np.array(values, kind)


def values(result: np.ndarray) -> Any:
    return result.astype(np.float64).tolist()


def test_mm1_small_integers() -> None:
    a, b = array([[1, 2], [3, 4]], np.float16), array([[5, 6], [7, 8]], np.float16)
    result = matmul(a, b, out=FP16)
    assert result.dtype == np.float16
    assert values(result) == [[19, 22], [43, 50]]


@pytest.mark.parametrize(
    ("row", "out", "expected"),
    [([256, 1], BF16, 256), ([256, 1], FP32, 257), ([256, 3], BF16, 260)],  # MM2, MM3
)
def test_bfloat16_products_round_once_on_the_way_out(row: list[int], out: DType, expected: float) -> None:
    assert values(matmul(array([row], bf16), array([[1], [1]], bf16), out=out)) == [[expected]]


@pytest.mark.parametrize(("row", "expected"), [([2048, 1], 2048), ([2048, 3], 2052), ([70000, 0], np.inf)])
def test_mm4_float32_to_half(row: list[int], expected: float) -> None:
    assert values(matmul(array([row], np.float32), array([[1], [1]], np.float32), out=FP16)) == [[expected]]


@pytest.mark.parametrize(("kind", "expected"), [(KEEP, 1 + 2**-13), (1, 1.0), (USE_HF32, 1.0), (GROUPED, 1 + 2**-13)])
def test_mm5_hf32_drops_mantissa_bits(kind: int, expected: float) -> None:
    a, b = array([[1 + 2**-13, 0]], np.float32), array([[1], [0]], np.float32)
    assert values(matmul(a, b, out=FP32, cube_math_type=kind)) == [[expected]]


def test_a_single_term_is_multiplied_without_hf32() -> None:
    a, b = array([[1 + 2**-13]], np.float32), array([[1]], np.float32)
    assert values(matmul(a, b, out=FP32, cube_math_type=USE_HF32)) == [[1 + 2**-13]]


def test_computing_in_half_rounds_operands_and_result() -> None:
    a, b = array([[2049, 1]], np.float32), array([[1], [2]], np.float32)
    # 2049 becomes 2048; 2048 + 2 = 2050 is a half
    assert values(matmul(a, b, out=FP32, cube_math_type=USE_FP16)) == [[2050]]


def test_two_roundings_where_the_result_has_another_type() -> None:
    """259 leaves the matrix unit as BF16 260, which half then holds; one rounding would give 259."""
    a, b = array([[256, 3]], bf16), array([[1], [1]], bf16)
    assert values(matmul(a, b, out=FP16)) == [[260]]


def test_mm6_no_terms() -> None:
    result = matmul(np.zeros((2, 0), np.float16), np.zeros((0, 3), np.float16), out=FP16)
    assert values(result) == [[0, 0, 0], [0, 0, 0]]


def test_mm7_mm8_batches_and_vectors() -> None:
    a = array([[[1, 2]], [[3, 4]]], np.float16)
    assert values(matmul(a, array([[10], [1]], np.float16), out=FP16)) == [[[12]], [[34]]]
    dot = matmul(array([1, 2, 3], np.float16), array([4, 5, 6], np.float16), out=FP16)
    assert dot.shape == ()
    assert dot == 32


def test_exact_precision_rounds_nothing() -> None:
    result = matmul(array([[256, 1]], bf16), array([[1], [1]], bf16), out=BF16, precision="exact")
    assert result.dtype == np.float64
    assert values(result) == [[257]]


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


@pytest.mark.parametrize("symbol", ["aclnnMm", "aclnnMatmul", "aclnnMatmulWeightNz"])
def test_matmul_by_c_name(symbol: str) -> None:
    operands = {"self": array([[256, 1]], bf16), "mat2": array([[1, 1], [1, 1]], bf16)}
    got = evaluate(symbol, operands, {"cubeMathType": 0}, soc="Ascend910B", outputs={"out": ((1, 2), FP32)})
    assert values(got["out"]) == [[257, 257]]

"""Products, against the examples of the specification (ids in comments)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import BF16, FP16, FP32, DType
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_matmul import GROUPED, KEEP, USE_FP16, USE_HF32, matmul

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


@pytest.mark.parametrize("symbol", ["aclnnMm", "aclnnMatmul", "aclnnMatmulWeightNz"])
def test_matmul_by_c_name(symbol: str) -> None:
    operands = {"self": array([[256, 1]], bf16), "mat2": array([[1, 1], [1, 1]], bf16)}
    got = evaluate(symbol, operands, {"cubeMathType": 0}, soc="Ascend910B", outputs={"out": ((1, 2), FP32)})
    assert values(got["out"]) == [[257, 257]]

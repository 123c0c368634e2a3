import numpy as np
import pytest

from cann_mla.dtypes import FLOAT8_E4M3FN, HIFLOAT8, INT8, DType
from cann_mla.reference.quantisation import (
    quantise_mx,
    quantise_query,
    quantise_rows,
    quantise_static,
    quantise_tiles,
)
from cann_mla.reference.rounding import widen

PRODUCTS = ("Ascend910B", "Ascend910_93", "Ascend950")


def row(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


def test_static_scale_multiplies_per_tensor_and_per_channel() -> None:
    values = row(1.0, -2.0, 0.3)
    assert quantise_static(values, np.array([10], np.float32), INT8).tolist() == [[10, -20, 3]]
    assert quantise_static(values, np.array([10, 100, 1], np.float32), INT8).tolist() == [[10, -128, 0]]


@pytest.mark.parametrize("soc", PRODUCTS)
def test_the_largest_magnitude_of_a_row_becomes_the_largest_code(soc: str) -> None:
    values = np.array([[1, -2, 0.5, 4], [0.25, 0.125, 0, -0.25]], np.float32)
    elements, scale = quantise_rows(values, INT8, soc)
    np.testing.assert_allclose(scale[:, 0], [4 / 127, 0.25 / 127], rtol=1e-6)
    assert elements[0].tolist()[0::3] == [32, 127]  # 1 * 127 / 4 = 31.75
    assert elements[1].tolist() == [127, 64, 0, -127]  # 63.5 ties to even
    assert scale.shape == (2, 1)


@pytest.mark.parametrize(("kind", "top"), [(FLOAT8_E4M3FN, 448.0), (HIFLOAT8, 32768.0)])
def test_float_kinds_have_their_own_top(kind: DType, top: float) -> None:
    elements, scale = quantise_rows(row(7.0, -3.5, 0.0), kind, "Ascend950")
    np.testing.assert_allclose(scale, [[7.0 / top]], rtol=1e-6)
    assert widen(elements).tolist() == [[top, -top / 2, 0.0]]


def test_a2_divides_the_maximum_and_950_multiplies_by_a_rounded_reciprocal() -> None:
    """9 / 127 rounded once is 9511493 * 2^-27; 9 times the rounded 1 / 127, rounded, is one unit less."""
    assert quantise_rows(row(9.0, 1.0), INT8, "Ascend910B")[1][0, 0] == 9511493 * 2.0**-27
    assert quantise_rows(row(9.0, 1.0), INT8, "Ascend950")[1][0, 0] == 9511492 * 2.0**-27
    assert quantise_rows(row(9.0, 1.0).astype(np.float64), INT8, "Ascend950")[1][0, 0] == 9 / 127


def test_query_goes_through_half_on_a2_only() -> None:
    # maximum 127: the factor is 1, so elements show their rounding
    query = row(127.0, 2.5, 64.49, -64.49, 3.5)
    assert quantise_query(query, INT8, "Ascend910_93")[0].tolist() == [[127, 3, 65, -65, 4]]
    assert quantise_query(query, INT8, "Ascend950")[0].tolist() == [[127, 2, 64, -64, 4]]
    exact = quantise_query(query.astype(np.float64), INT8, "Ascend910B")
    assert exact[0].tolist() == [[127, 2, 64, -64, 4]]
    assert exact[1].dtype == np.float64


@pytest.mark.parametrize("soc", PRODUCTS)
@pytest.mark.parametrize("quantise", [quantise_rows, quantise_query])
def test_rows_of_zeros_and_nan_become_zeros(soc: str, quantise) -> None:  # type: ignore[no-untyped-def]
    elements, scale = quantise(np.array([[0, 0, 0], [1, np.nan, 2]], np.float32), INT8, soc)
    assert elements.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert scale[0, 0] == 0
    assert np.isnan(scale[1, 0])


def test_int8_tiles_are_clipped_at_alpha() -> None:
    values = np.zeros((1, 256), np.float32)
    values[0, :4] = [10, 5, -10, 1]
    elements, scales = quantise_tiles(values, INT8, alpha=0.5)
    assert elements[0, :5].tolist() == [127, 127, -127, 25, 0]  # 1 * 127 / 5 = 25.4
    np.testing.assert_allclose(scales, [[5 / 127, 0]], rtol=1e-6)
    assert not elements[0, 128:].any()


def test_a_negative_alpha_leaves_the_lower_bound_alone() -> None:
    values = np.zeros((1, 128), np.float32)
    values[0, :3] = [10, -10, 1]
    elements, scales = quantise_tiles(values, INT8, alpha=-0.5)
    # bound -5: min(v, -5) is at most -5, max(that, 5) is 5 everywhere, and 5 / (-5 / 127) = -127.
    assert (elements == -127).all()
    np.testing.assert_allclose(scales, [[-5 / 127]], rtol=1e-6)


def test_tiles_have_scales_of_their_own() -> None:
    values = np.repeat(np.array([[1, 2, 4, 8]], np.float32), 128, axis=1)
    elements, scales = quantise_tiles(values, INT8, alpha=1.0)
    assert (elements == 127).all()
    np.testing.assert_allclose(scales, [[1 / 127, 2 / 127, 4 / 127, 8 / 127]], rtol=1e-6)


def test_float_tiles_ignore_alpha_and_have_a_floor() -> None:
    values = np.zeros((1, 256), np.float32)
    values[0, 0] = 896.0
    elements, scales = quantise_tiles(values, FLOAT8_E4M3FN, alpha=0.1)
    assert widen(elements)[0, 0] == 448.0
    np.testing.assert_allclose(scales, [[2.0, 1e-4 / 448]], rtol=1e-6)


@pytest.mark.parametrize("form", [np.float32, np.float64])
def test_mx_scale_comes_from_the_exponent_of_the_maximum(form: type) -> None:
    values: np.ndarray = np.zeros((1, 160), form)
    values[0, 0:3] = [1.0, -0.5, 2.0**-9]  # exponent 127: byte 119, elements times 2^8
    values[0, 32:34] = [1.9375, 1.75]  # 496 saturates, 448 does not
    values[0, 96] = np.inf
    values[0, 128] = 2.0**-120  # exponent 7: the byte stops at 0
    elements, scales = quantise_mx(values)
    assert scales.view(np.uint8).tolist() == [[119, 119, 0, 255, 0]]
    assert widen(elements)[0, :3].tolist() == [256.0, -128.0, 0.5]
    assert widen(elements)[0, 32:34].tolist() == [448.0, 448.0]
    assert not widen(elements)[0, 64:128].any()
    assert widen(elements)[0, 128] == 128.0


def test_mx_rounds_to_bfloat16_with_ties_away_first() -> None:
    values = np.zeros((1, 32), np.float32)
    # 2 - 2^-8 is halfway between BF16 neighbours; away from zero it becomes 2, with the next exponent
    values[0, 0] = 2 - 2.0**-8
    _, scales = quantise_mx(values)
    assert scales.view(np.uint8).tolist() == [[120]]


def test_mx_blocks_of_subnormals_become_zeros() -> None:
    values = np.full((1, 32), 2.0**-130, np.float32)
    elements, scales = quantise_mx(values)
    assert not elements.view(np.uint8).any()
    assert scales.view(np.uint8).tolist() == [[0]]

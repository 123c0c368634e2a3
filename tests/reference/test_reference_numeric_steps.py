"""RmsNorm, rotary embedding and products, against values worked out by hand."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import FLOAT8_E4M3FN, FLOAT8_E8M0
from cann_mla.reference.matmul import product, scale_mx_columns, scale_mx_rows
from cann_mla.reference.rms_norm import rms_norm
from cann_mla.reference.rope import INTERLEAVE_HALF, rotate

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def gamma(*values: float) -> np.ndarray:
    return np.resize(np.array(values, ml_dtypes.bfloat16), 64)


def test_rms_norm_of_a_constant_row() -> None:
    x = np.full((2, 64), 2.0, np.float32)
    x[1] *= -1
    np.testing.assert_array_equal(rms_norm(x, gamma(3.0), 0.0), np.full((2, 64), 3.0) * [[1], [-1]])
    np.testing.assert_allclose(rms_norm(x, gamma(1.0, 2.0), 5.0)[0, :2], [2 / 3, 4 / 3], rtol=1e-6)


def test_rms_norm_applies_alpha_unless_it_is_one() -> None:
    x = np.full((1, 64), 2.0, np.float64)
    assert rms_norm(x, gamma(1.0), 0.0, alpha=0.5)[0, 0] == 0.5
    assert rms_norm(x, gamma(1.0), 0.0, alpha=1 + 1e-8)[0, 0] == 1.0


def test_rms_norm_keeps_its_input() -> None:
    x = np.arange(64, dtype=np.float32)[None]
    rms_norm(x, gamma(1.0), 0.0, alpha=2.0)
    np.testing.assert_array_equal(x, np.arange(64)[None])


def test_rotation_takes_pairs_apart() -> None:
    v = np.arange(8, dtype=np.float32)
    one, zero = np.ones(8, np.float32), np.zeros(8, np.float32)
    assert rotate(v, one, zero, INTERLEAVE_HALF).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert rotate(v, zero, one, INTERLEAVE_HALF).tolist() == [-1, -3, -5, -7, 0, 2, 4, 6]


def test_rotation_uses_both_halves_of_the_tables() -> None:
    v = np.array([1, 10, 2, 20], np.float32)
    cos, sin = np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7, 8], np.float32)
    # even (1, 2), odd (10, 20): 1*1 - 10*5, 2*2 - 20*6, 10*3 + 1*7, 20*4 + 2*8
    assert rotate(v, cos, sin, INTERLEAVE_HALF).tolist() == [-49, -116, 37, 96]


def test_rotation_keeps_lengths_of_pairs() -> None:
    angle = np.linspace(0, 3, 32)
    cos, sin = np.tile(np.cos(angle), 2), np.tile(np.sin(angle), 2)
    v = np.random.default_rng(1).standard_normal(64)
    out = rotate(v, cos, sin, INTERLEAVE_HALF)
    np.testing.assert_allclose(np.hypot(out[:32], out[32:]), np.hypot(v[0::2], v[1::2]), rtol=1e-12)


def test_int8_products_are_exact_beyond_float32() -> None:
    """-128 * -128 * 7168 + 1 is not a float32, and no partial sum may lose its one."""
    x = np.full((1, 7168), -128, np.int8)
    w = np.full((7168, 2), -128, np.int8)
    x[0, 0], w[0] = 1, [1, -1]
    total = 7167 * 16384
    assert product(x, w, FLOAT64).tolist() == [[total + 1, total - 1]]
    assert product(x, w, FLOAT32).tolist() == [[np.float32(total + 1), np.float32(total - 1)]]


def test_random_int8_products_match_integers() -> None:
    rng = np.random.default_rng(7)
    x, w = rng.integers(-128, 128, (5, 3000), np.int8), rng.integers(-128, 128, (3000, 7), np.int8)
    np.testing.assert_array_equal(product(x, w, FLOAT64), x.astype(np.int64) @ w.astype(np.int64))


def test_mx_scales_are_powers_of_two_by_row_and_by_column() -> None:
    ones = np.ones((2, 64), FLOAT8_E4M3FN.numpy)
    scales = np.array([[127, 130], [126, 0]], np.uint8).view(FLOAT8_E8M0.numpy)
    rows = scale_mx_rows(ones, scales, FLOAT64)
    assert rows[:, [0, 31, 32, 63]].tolist() == [[1, 1, 8, 8], [0.5, 0.5, 2.0**-127, 2.0**-127]]
    np.testing.assert_array_equal(scale_mx_columns(ones.T, scales, FLOAT64), rows.T)


def test_far_out_mx_scales_do_not_overflow_float32() -> None:
    """448 * 2^127 is no float32, but together with a scale of 2^-127 it is an ordinary number."""
    x = np.full((1, 32), 448, FLOAT8_E4M3FN.numpy)
    w = np.ones((32, 1), FLOAT8_E4M3FN.numpy)
    up = np.array([[254]], np.uint8).view(FLOAT8_E8M0.numpy)
    down = np.array([[0]], np.uint8).view(FLOAT8_E8M0.numpy)
    y = scale_mx_rows(x, up, FLOAT32) @ scale_mx_columns(w, down, FLOAT32)
    assert y.tolist() == [[448.0 * 32]]


def test_mx_scale_255_is_nan() -> None:
    ones = np.ones((1, 64), FLOAT8_E4M3FN.numpy)
    scales = np.array([[255, 127]], np.uint8).view(FLOAT8_E8M0.numpy)
    scaled = scale_mx_rows(ones, scales, FLOAT32)
    assert np.isnan(scaled[0, :32]).all()
    assert (scaled[0, 32:] == 1).all()


@pytest.mark.parametrize("compute", [FLOAT32, FLOAT64])
def test_products_come_back_in_the_type_asked_for(compute: np.dtype) -> None:
    x = np.ones((2, 4), ml_dtypes.bfloat16)
    result = product(x, x.T, compute)
    assert result.dtype == compute
    assert (result == 4).all()

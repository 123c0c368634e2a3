import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cann_mla.dtypes import BF16, FLOAT8_E4M3FN, HIFLOAT8, INT8, hifloat8_decode
from cann_mla.reference.rounding import (
    cast_saturating,
    to_bfloat16,
    to_bfloat16_ties_away,
    to_int8_through_half,
    widen,
)

ALL_CODES = np.arange(256, dtype=np.uint8)


def codes(values: list[float], kind: type = np.float32) -> list[int]:
    return list(cast_saturating(np.array(values, kind), FLOAT8_E4M3FN).view(np.uint8))


@pytest.mark.parametrize("form", [np.float32, np.float64])
def test_e4m3_rounds_to_nearest_even_and_saturates(form: type) -> None:
    assert codes([0.0, 1.0, -1.0, 448.0, 2.0**-9], form) == [0x00, 0x38, 0xB8, 0x7E, 0x01]
    assert codes([1.0625, 1.1875], form) == [0x38, 0x3A]  # halfway: to the even mantissa
    assert codes([2.0**-10, 1.5 * 2.0**-9], form) == [0x00, 0x02]  # the same among subnormals
    assert codes([460.0, 465.0, 1e30, np.inf, -np.inf], form) == [0x7E, 0x7E, 0x7E, 0x7E, 0xFE]
    assert codes([np.nan, -0.0], form) == [0x00, 0x80]


def test_e4m3_sees_what_a_float32_holds_below_its_upper_half() -> None:
    just_above_tie = np.nextafter(np.float32(1.0625), np.float32(2))
    assert codes([float(just_above_tie)]) == [0x39]


@given(hnp.arrays(np.float32, 64, elements=st.floats(-448, 448, width=32)))
def test_e4m3_agrees_with_ml_dtypes_where_nothing_saturates(values: np.ndarray) -> None:
    ours = cast_saturating(values, FLOAT8_E4M3FN)
    np.testing.assert_array_equal(ours.view(np.uint8), values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


@given(hnp.arrays(np.float32, 64, elements=st.floats(width=32)))
def test_e4m3_of_float32_agrees_with_float64(values: np.ndarray) -> None:
    double = cast_saturating(values.astype(np.float64), FLOAT8_E4M3FN)
    np.testing.assert_array_equal(cast_saturating(values, FLOAT8_E4M3FN).view(np.uint8), double.view(np.uint8))


def test_int8_rounds_to_nearest_even_and_saturates() -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.4, 1e9, -128.5, -1e9, np.nan, np.inf], np.float32)
    expected = [0, 2, 2, 0, -2, 126, 127, 127, -128, -128, 0, 127]
    assert cast_saturating(values, INT8).tolist() == expected


def test_hifloat8_saturates_and_drops_nan() -> None:
    values = np.array([1.0625, 1e9, -np.inf, np.nan], np.float32)
    assert cast_saturating(values, HIFLOAT8).view(np.uint8).tolist() == [0x09, 0x6E, 0xEE, 0x00]


def test_no_saturating_cast_to_other_types() -> None:
    with pytest.raises(TypeError, match="BF16"):
        cast_saturating(np.zeros(1, np.float32), BF16)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.5, 3),  # ties away from zero
        (-2.5, -3),
        (64.49, 65),  # half has steps of 1/16 here: 64.5, which then goes up
        (64.46, 64),
        (2.4995, 3),
        (2.498, 2),
        (-126.48, -127),
        (0.49999997, 1),
        (0.25, 0),
        (127.0, 127),
        (np.nan, 0),
    ],
)
def test_int8_through_half_rounds_twice(value: float, expected: int) -> None:
    assert to_int8_through_half(np.array([value], np.float32))[0] == expected


def test_bfloat16_ties() -> None:
    tie = np.array([1 + 2.0**-8, -(1 + 2.0**-8), 1 + 3 * 2.0**-8], np.float32)
    assert to_bfloat16(tie).astype(float).tolist() == [1.0, -1.0, 1.015625]
    assert to_bfloat16_ties_away(tie).astype(float).tolist() == [1.0078125, -1.0078125, 1.015625]


def test_bfloat16_specials_survive_ties_away() -> None:
    specials = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, 3e38], np.float32)
    rounded = to_bfloat16_ties_away(specials).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(rounded), [False, False, True, True, False, False])
    assert rounded[[0, 1, 4]].tolist() == [np.inf, -np.inf, 0.0]


@pytest.mark.parametrize("shape", [(256,), (2, 128), (255,), (3, 85), (4, 8, 8), (0, 4), (4, 0), ()])
def test_widening_eight_bit_floats(shape: tuple[int, ...]) -> None:
    bits = np.resize(ALL_CODES, shape)
    e4m3 = bits.view(FLOAT8_E4M3FN.numpy)
    np.testing.assert_array_equal(widen(e4m3), e4m3.astype(np.float32))
    np.testing.assert_array_equal(widen(bits.view(HIFLOAT8.numpy)), hifloat8_decode(bits))


def test_widening_a_strided_view_of_a_large_matrix() -> None:
    bits = np.resize(ALL_CODES, (700, 512))[:, 128:384]
    e4m3 = bits.view(FLOAT8_E4M3FN.numpy)
    np.testing.assert_array_equal(widen(e4m3), e4m3.astype(np.float32))


def test_widening_bfloat16_and_int8_to_float64() -> None:
    assert widen(np.array([1.5, -3.0], ml_dtypes.bfloat16), np.float64).tolist() == [1.5, -3.0]
    assert widen(np.array([-128], np.int8), np.float64).dtype == np.float64

"""Widening and rounding against NumPy's and ml_dtypes' own conversions."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import hifloat8_decode, hifloat8_encode
from cann_mla.reference.attention_numbers import (
    round_fractions_to_fp16,
    round_to_bf16,
    round_to_e4m3,
    round_to_fp16,
    round_to_hifloat8,
    round_to_int8,
    upper_19_bits,
    widen,
)

ALL_FP16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_every_fp16_value_widens_to_itself() -> None:
    with np.errstate(invalid="ignore"):
        assert np.array_equal(widen(ALL_FP16, np.float32), ALL_FP16.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.int8])
def test_widening_keeps_values(kind: type) -> None:
    array = np.arange(-8, 8).astype(kind)
    assert np.array_equal(widen(array, np.float64), np.arange(-8, 8))


def fp16_neighbours() -> np.ndarray:
    """Values on, just below, halfway to and just above every finite float16."""
    finite = ALL_FP16[np.isfinite(ALL_FP16)].astype(np.float32)
    with np.errstate(over="ignore"):
        upper = np.nextafter(finite.astype(np.float16), np.float16(np.inf)).astype(np.float32)
    upper = np.where(np.isfinite(upper), upper, finite)
    halfway = (finite + upper) / 2
    nudges = [np.nextafter(halfway, np.float32(side)) for side in (-np.inf, np.inf)]
    values: np.ndarray = np.concatenate([finite, halfway, *nudges])
    return values[np.abs(values) <= 65504]


def test_rounding_to_fp16_is_that_of_numpy() -> None:
    values = fp16_neighbours()
    assert np.array_equal(round_to_fp16(values.copy()), values.astype(np.float16).astype(np.float32))


def test_fractions_round_as_others_do_down_to_the_normal_range() -> None:
    values = fp16_neighbours()
    values = values[(values >= 2.0**-14) & (values <= 1)]
    assert np.array_equal(round_fractions_to_fp16(values.copy()), values.astype(np.float16).astype(np.float32))


def test_small_fractions_become_multiples_of_the_smallest_fp16() -> None:
    step = 2.0**-24
    values = np.array([0.4 * step, 0.6 * step, 1.4 * step, 100.6 * step], np.float32)
    assert np.array_equal(round_fractions_to_fp16(values), np.array([0, 1, 1, 101]) * step)


def test_eight_bit_roundings_saturate() -> None:
    values = np.array([-1e6, -0.5, 0.5, 1.5, 1e6], np.float32)
    assert round_to_int8(values).tolist() == [-128, 0, 0, 2, 127]
    assert round_to_e4m3(values).tolist() == [-448, -0.5, 0.5, 1.5, 448]
    assert round_to_hifloat8(values).tolist() == [-32768, -0.5, 0.5, 1.5, 32768]
    assert round_to_bf16(np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)).tolist() == [1.0, 1 + 2**-6]


def test_hifloat8_widens_by_its_codes() -> None:
    coded = hifloat8_encode(np.array([0.75, -3.0], np.float32))
    assert widen(coded, np.float64).tolist() == hifloat8_decode(coded).tolist() == [0.75, -3.0]


def test_dequantisation_scale_loses_its_13_low_bits() -> None:
    bits = np.array([0x3F801FFF], np.uint32)
    assert upper_19_bits(bits.view(np.float32)) == 1.0
    assert upper_19_bits(bits.astype(np.uint64) | np.uint64(7 << 32)) == 1.0
    with pytest.raises(ValueError, match="one element"):
        upper_19_bits(np.ones(2, np.float32))

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cann_mla import dtypes
from cann_mla.dtypes import (
    DTYPES,
    FLOAT4_E2M1,
    HIFLOAT8_NUMPY,
    INT4,
    dtype,
    from_bits,
    hifloat8_decode,
    hifloat8_encode,
    pack_4bit,
    to_bits,
    unpack_4bit,
)

ALL_CODES = np.arange(256, dtype=np.uint8)


# ---- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "bits"),
    [
        ("FP32", 0, 32),
        ("FP16", 1, 16),
        ("INT8", 2, 8),
        ("INT64", 9, 64),
        ("FP64", 11, 64),
        ("BOOL", 12, 8),
        ("BF16", 27, 16),
        ("INT4", 29, 4),
        ("HIFLOAT8", 34, 8),
        ("FLOAT8_E5M2", 35, 8),
        ("FLOAT8_E4M3FN", 36, 8),
        ("FLOAT8_E8M0", 37, 8),
        ("FLOAT4_E2M1", 40, 4),
    ],
)
def test_codes_are_those_of_acl_data_type(name: str, code: int, bits: int) -> None:
    assert dtype(name).code == code
    assert dtype(code).name == name
    assert dtype(name).bits == bits


@pytest.mark.parametrize("kind", [d for d in DTYPES if d.numpy_form is not None], ids=str)
def test_every_way_to_name_a_type_finds_it(kind: dtypes.DType) -> None:
    assert dtype(kind) is dtype(kind.name) is dtype(kind.code) is dtype(kind.numpy) is kind
    assert hash(kind) == hash(dtype(kind.name))


def test_numpy_scalar_types_are_accepted() -> None:
    assert dtype(np.float16).name == "FP16"
    assert dtype(ml_dtypes.bfloat16).name == "BF16"


def test_hifloat8_is_not_mistaken_for_uint8() -> None:
    assert dtype(HIFLOAT8_NUMPY).name == "HIFLOAT8"
    assert dtype(np.dtype(np.uint8)).name == "UINT8"


@pytest.mark.parametrize(
    ("name", "numel", "size"), [("INT4", 5, 3), ("BF16", 3, 6), ("UINT1", 9, 2), ("FLOAT6_E3M2", 4, 3)]
)
def test_storage_is_packed_and_rounded_up(name: str, numel: int, size: int) -> None:
    assert dtype(name).storage_bytes(numel) == size


@pytest.mark.parametrize(
    ("name", "code"),  # aclDataType as acl_base.h numbers it
    [("ACL_FLOAT", 0), ("FLOAT", 0), ("ACL_FLOAT16", 1), ("FLOAT16", 1), ("ACL_DOUBLE", 11), ("ACL_BF16", 27)],
)
def test_names_of_c_are_understood(name: str, code: int) -> None:
    assert dtype(name).code == code


def test_unknown_types_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"BFLOAT16.*known names.*BF16"):
        dtype("BFLOAT16")
    with pytest.raises(ValueError, match="code 5"):
        dtype(5)
    with pytest.raises(TypeError, match="datetime64"):
        dtype(np.dtype("M8[s]"))


def test_types_without_numpy_form_or_width_say_so() -> None:
    with pytest.raises(TypeError, match="FLOAT4_E1M2 has no NumPy form"):
        _ = dtype("FLOAT4_E1M2").numpy
    with pytest.raises(TypeError, match="no fixed width"):
        dtype("STRING").storage_bytes(1)


# ---- HiFloat8 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0x00, 0.0),
        (0x01, 2.0**-22),
        (0x07, 2.0**-16),
        (0x08, 1.0),
        (0x0F, 1.875),
        (0x10, 2.0),
        (0x18, 0.5),
        (0x20, 4.0),
        (0x30, 0.25),
        (0x40, 16.0),
        (0x60, 256.0),
        (0x6E, 32768.0),
        (0x6F, np.inf),
        (0x7E, 2.0**-15),
        (0x7F, 1.5 * 2.0**-15),
        (0x88, -1.0),
        (0xEF, -np.inf),
    ],
)
def test_hifloat8_values(code: int, value: float) -> None:
    assert hifloat8_decode(np.array([code], np.uint8))[0] == value


def test_hifloat8_nan() -> None:
    assert np.isnan(hifloat8_decode(np.array([0x80], np.uint8))[0])


@pytest.mark.parametrize("form", [np.float64, np.float32, ml_dtypes.bfloat16])
def test_every_hifloat8_code_survives_a_round_trip(form: type) -> None:
    encoded = hifloat8_encode(hifloat8_decode(ALL_CODES).astype(form), saturate=False)
    assert encoded.dtype == HIFLOAT8_NUMPY
    np.testing.assert_array_equal(encoded.view(np.uint8), ALL_CODES)


def test_hifloat8_codes_differ_in_value() -> None:
    values = hifloat8_decode(ALL_CODES)
    assert len(set(values[~np.isnan(values)].tolist())) == 255


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1.0625, 0x09),  # halfway from 1 to 1.125, away from zero
        (-1.0625, 0x89),
        (1.0546875, 0x08),
        (2.0**-23, 0x01),
        (-(2.0**-24), 0x00),
        (-0.0, 0x00),
        (15.5, 0x40),  # halfway from 15 to 16
        (40959.0, 0x6E),
        (40960.0, 0x6E),
        (np.inf, 0x6E),
        (-np.inf, 0xEE),
        (np.nan, 0x00),
    ],
)
@pytest.mark.parametrize("form", [np.float64, np.float32])
def test_hifloat8_rounding_and_saturation(value: float, code: int, form: type) -> None:
    assert hifloat8_encode(np.array([value], form)).view(np.uint8)[0] == code


@pytest.mark.parametrize(
    ("value", "code"), [(40960.0, 0x6F), (-1e9, 0xEF), (np.nan, 0x80), (np.inf, 0x6F), (40959.0, 0x6E)]
)
def test_hifloat8_without_saturation(value: float, code: int) -> None:
    assert hifloat8_encode(np.array([value], np.float32), saturate=False).view(np.uint8)[0] == code


def test_hifloat8_sees_every_bit_of_float64() -> None:
    assert hifloat8_encode(np.array([np.nextafter(2.0**-23, 0)])).view(np.uint8)[0] == 0
    assert hifloat8_encode(np.array([np.nextafter(1.0625, 0)])).view(np.uint8)[0] == 0x08


@given(st.floats(-40000, 40000))
def test_hifloat8_takes_the_nearest_value(value: float) -> None:
    values = hifloat8_decode(ALL_CODES).astype(np.float64)
    finite = values[np.isfinite(values)]
    chosen = float(hifloat8_decode(hifloat8_encode(np.array([value])))[0])
    distance = np.abs(finite - value).min()
    assert abs(chosen - value) == distance
    ties = finite[np.abs(finite - value) == distance]
    assert abs(chosen) == np.abs(ties).max()


@given(hnp.arrays(np.float32, 16, elements=st.floats(width=32, allow_nan=True)))
def test_hifloat8_of_float32_agrees_with_float64(values: np.ndarray) -> None:
    for saturate in (True, False):
        np.testing.assert_array_equal(
            hifloat8_encode(values, saturate), hifloat8_encode(values.astype(np.float64), saturate)
        )


def test_hifloat8_refuses_integers() -> None:
    with pytest.raises(TypeError, match=r"int64.*convert"):
        hifloat8_encode(np.array([1]))
    with pytest.raises(TypeError, match="int8"):
        hifloat8_decode(np.array([1], np.int8))


# ---- four bits ------------------------------------------------------------------------------------


def test_low_nibble_comes_first() -> None:
    elements = np.array([-8, 7, -1], np.int8).astype(ml_dtypes.int4)
    np.testing.assert_array_equal(pack_4bit(elements), [0x78, 0x0F])
    values = np.array([0.5, -6.0], ml_dtypes.float4_e2m1fn)  # codes 0x1 and 0xF
    np.testing.assert_array_equal(pack_4bit(values), [0xF1])


@given(hnp.arrays(np.int8, hnp.array_shapes(min_dims=0, max_dims=3), elements=st.integers(-8, 7)))
def test_int4_round_trip(values: np.ndarray) -> None:
    elements = values.astype(ml_dtypes.int4)
    unpacked = unpack_4bit(pack_4bit(elements), INT4, elements.shape)
    np.testing.assert_array_equal(unpacked.astype(np.int8), values)


def test_every_float4_survives_packing() -> None:
    elements = np.arange(16, dtype=np.uint8).view(FLOAT4_E2M1.numpy)
    np.testing.assert_array_equal(unpack_4bit(pack_4bit(elements), "FLOAT4_E2M1", (16,)).view(np.uint8), np.arange(16))


def test_4bit_size_and_type_are_checked() -> None:
    with pytest.raises(ValueError, match=r"cannot hold 5 elements.*pass 3 bytes"):
        unpack_4bit(np.zeros(2, np.uint8), INT4, (5,))
    with pytest.raises(TypeError, match="int8"):
        pack_4bit(np.zeros(2, np.int8))
    with pytest.raises(TypeError, match="INT8"):
        unpack_4bit(np.zeros(1, np.uint8), "INT8", (2,))


# ---- bit patterns ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "bits"),
    [
        (np.array([1.0, -2.0], ml_dtypes.bfloat16), np.array([0x3F80, 0xC000], np.uint16)),
        (np.array([448.0], ml_dtypes.float8_e4m3fn), np.array([0x7E], np.uint8)),
        (np.array([1.0], ml_dtypes.float8_e8m0fnu), np.array([127], np.uint8)),
        (np.array([1.5], np.float16), np.array([1.5], np.float16)),
        (np.array([[1, 2, 3, 4]], np.int8).astype(ml_dtypes.int4), np.array([[0x21, 0x43]], np.uint8)),
    ],
)
def test_bit_patterns_both_ways(array: np.ndarray, bits: np.ndarray) -> None:
    kind = dtype(array.dtype)
    held = to_bits(array, kind)
    assert held.dtype == bits.dtype
    np.testing.assert_array_equal(held, bits)
    back = from_bits(held, kind, array.shape)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back.astype(np.float32), array.astype(np.float32))


def test_odd_4bit_arrays_are_held_flat() -> None:
    assert to_bits(np.zeros((3, 3), ml_dtypes.int4)).shape == (5,)


def test_bit_patterns_refuse_the_wrong_type() -> None:
    with pytest.raises(TypeError, match="BF16, not FP16"):
        to_bits(np.zeros(1, ml_dtypes.bfloat16), "FP16")
    with pytest.raises(TypeError, match="held as uint16, got float32"):
        from_bits(np.zeros(1, np.float32), "BF16")
    with pytest.raises(ValueError, match="shape in elements"):
        from_bits(np.zeros(1, np.uint8), "INT4")

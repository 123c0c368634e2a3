"""Element types on their way into and out of the attention kernels' arithmetic.

Widening to float32 or float64 is exact for every operand type. NumPy's own conversion of float16 works
element by element; the two functions here that replace it use integer arithmetic on whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import (
    BF16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FP16,
    HIFLOAT8,
    Array,
    dtype,
    hifloat8_decode,
    hifloat8_encode,
)

Floats: TypeAlias = npt.NDArray[np.floating]
Rounding: TypeAlias = Callable[[Any], Any]

with np.errstate(invalid="ignore"):
    _FP16_VALUES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
_E4M3_MAX = 448.0
_E5M2_MAX = 57344.0


def widen(array: Array, work: npt.DTypeLike) -> Floats:
    """Values of an operand as float32 or float64; exact."""
    if array.dtype == HIFLOAT8.numpy:
        values: Floats = hifloat8_decode(array)
    elif array.dtype == FP16.numpy and work == np.float32:
        values = _FP16_VALUES[np.ascontiguousarray(array).view(np.uint16)]
    else:
        values = array
    return values.astype(work, copy=False)


def round_to_fp16(values: Floats) -> Floats:
    """Round float32 values to the nearest float16, ties to even, in place; for magnitudes up to 65504."""
    # Below 2^-14 float16 has a fixed step of 2^-24, which is the step of float32 between 0.5 and 1.
    tiny = np.abs(values) < np.float32(2.0**-14)
    if tiny.any():
        values[tiny] = np.copysign(np.abs(values[tiny]) + np.float32(0.5) - np.float32(0.5), values[tiny])
    return _round_to_11_bits(values)


def round_fractions_to_fp16(values: Floats) -> Floats:
    """Same for values in [0, 1], in fewer passes: softmax numerators."""
    _round_to_11_bits(values)
    values += np.float32(0.5)
    values -= np.float32(0.5)
    return values


def _round_to_11_bits(values: Floats) -> Floats:
    bits = values.view(np.uint32)
    half = bits >> np.uint32(13)
    half &= np.uint32(1)
    half += np.uint32(0x0FFF)
    bits += half
    bits &= np.uint32(0xFFFFE000)
    return values


def round_to_bf16(values: Floats) -> Floats:
    """Round float32 values to the nearest bfloat16, ties to even, in place."""
    np.copyto(values, values.astype(BF16.numpy))
    return values


def round_to_e4m3(values: Floats) -> Floats:
    """Round to FLOAT8_E4M3FN, ties to even, saturating at 448."""
    return np.clip(values, -_E4M3_MAX, _E4M3_MAX).astype(FLOAT8_E4M3FN.numpy).astype(np.float32)


def round_to_e5m2(values: Floats) -> Floats:
    """Round to FLOAT8_E5M2, ties to even, saturating at 57344."""
    return np.clip(values, -_E5M2_MAX, _E5M2_MAX).astype(FLOAT8_E5M2.numpy).astype(np.float32)


def round_to_hifloat8(values: Floats) -> Floats:
    """Round to HIFLOAT8, ties away from zero, saturating at 32768."""
    return hifloat8_decode(hifloat8_encode(values))


def round_to_int8(values: Floats) -> Floats:
    """Round to INT8, ties to even, saturating; the values stay float32."""
    return np.clip(np.rint(values), -128, 127)


ROUNDINGS: dict[str, Rounding] = {
    "FP16": round_to_fp16,
    "BF16": round_to_bf16,
    "INT8": round_to_int8,
    "FLOAT8_E4M3FN": round_to_e4m3,
    "FLOAT8_E5M2": round_to_e5m2,
    "HIFLOAT8": round_to_hifloat8,
}


def rounding_to(element: np.dtype[Any]) -> Rounding:
    """Rounding of the device to an element type."""
    return ROUNDINGS[dtype(element).name]


def upper_19_bits(scale: Array) -> np.float32:
    """Dequantisation scale as the matrix unit holds it: a float32 without its 13 low mantissa bits.

    Parameters
    ----------
    scale : ndarray of uint64 or a floating type, one element
        UINT64 carries the bits of a float32 in its low half.
    """
    if scale.size != 1:
        raise ValueError(f"a dequantisation scale has one element, got shape {scale.shape}")
    flat = np.ascontiguousarray(scale).reshape(-1)
    bits = flat.astype(np.uint32) if flat.dtype == np.uint64 else flat.astype(np.float32).view(np.uint32)
    value: np.float32 = (bits & np.uint32(0xFFFFE000)).view(np.float32)[0]
    return value

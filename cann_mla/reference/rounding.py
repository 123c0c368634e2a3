"""Widening of narrow element types and rounding back, as Ascend's cast instructions do it.

Rounding modes have the names of the instruction set: RINT is to nearest even, ROUND is to nearest with ties
away from zero. Casts to 8 bits saturate, and turn NaN into zero.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import (
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    HIFLOAT8,
    INT8,
    Array,
    DType,
    dtype,
    hifloat8_decode,
    hifloat8_encode,
)

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
E4M3_MAX = 448.0
E5M2_MAX = 57344.0
HIFLOAT8_MAX = 32768.0

_LOOK_UP_BYTES = 1 << 17

Float32 = npt.NDArray[np.float32]


# ---- widening -------------------------------------------------------------------------------------


def _pairs(values: Float32) -> npt.NDArray[np.complex64]:
    """Values of two neighbouring bytes at once: one look-up serves two elements."""
    pair = np.empty((256, 256, 2), np.float32)
    pair[..., 0] = values[None, :]
    pair[..., 1] = values[:, None]
    return pair.view(np.complex64).reshape(-1)


_ALL_BYTES = np.arange(256, dtype=np.uint8)
_PAIRS = {
    FLOAT8_E4M3FN: _pairs(_ALL_BYTES.view(FLOAT8_E4M3FN.numpy).astype(np.float32)),
    HIFLOAT8: _pairs(hifloat8_decode(_ALL_BYTES)),
}


def widen(array: Array, compute: npt.DTypeLike = np.float32) -> Array:
    """Values of an array of any CANN type, in `compute` (float32 or float64). Exact up to 24 bits.

    A new array, unless the given one has that type already.
    """
    kind = dtype(array.dtype)
    if kind in _PAIRS:
        wide = _look_up(_PAIRS[kind], array.view(np.uint8))
    else:
        wide = array.astype(np.float32) if array.dtype == BFLOAT16 else array
    return wide.astype(compute, copy=False)


def _look_up(pairs: npt.NDArray[np.complex64], byte: npt.NDArray[np.uint8]) -> Array:
    if byte.size == 0 or byte.ndim == 0 or byte.shape[-1] % 2:
        return pairs.view(np.float32)[0:512:2].take(byte)
    values = np.empty(byte.shape, np.float32)
    # Some rows at a time: the look-up widens its indices, which should not leave the processor's cache.
    sources, targets = byte.reshape(-1, byte.shape[-1]), values.reshape(-1, byte.shape[-1]).view(np.complex64)
    step = max(1, _LOOK_UP_BYTES // byte.shape[-1])
    for first in range(0, sources.shape[0], step):
        index = np.ascontiguousarray(sources[first : first + step]).view(np.uint16)
        pairs.take(index, out=targets[first : first + step], mode="clip")
    return values


# ---- to BF16 --------------------------------------------------------------------------------------


def to_bfloat16(values: Float32) -> Array:
    """RINT: nearest even."""
    return values.astype(BFLOAT16)


def to_bfloat16_ties_away(values: Float32) -> Array:
    """ROUND: nearest, ties away from zero."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    upper: Array = ((bits + np.uint32(0x8000)) >> 16).astype(np.uint16)
    upper[np.isnan(values)] = 0x7FC0
    return upper.view(BFLOAT16)


def through_bfloat16(values: Array, precision: str) -> Array:
    """Value after a store as BF16 and a load; unchanged in ``exact`` precision."""
    return values if precision == "exact" else widen(to_bfloat16(values))


# ---- to eight bits --------------------------------------------------------------------------------


def cast_saturating(values: Array, kind: DType) -> Array:
    """Cast to INT8, FLOAT8_E4M3FN, FLOAT8_E5M2 (RINT) or HIFLOAT8 (ROUND), saturating, NaN to zero.

    Parameters
    ----------
    values : ndarray of float32 or float64
    kind : DType

    Returns
    -------
    ndarray in the NumPy form of `kind`, same shape
    """
    if kind is INT8:
        return _to_int8(np.rint(values))
    if kind is FLOAT8_E4M3FN:
        return _to_e4m3(values)
    if kind is FLOAT8_E5M2:
        finite: Array = np.clip(np.nan_to_num(values, nan=0.0), -E5M2_MAX, E5M2_MAX)
        return finite.astype(kind.numpy)
    if kind is HIFLOAT8:
        return hifloat8_encode(values, saturate=True)
    raise TypeError(f"no saturating cast to {kind.name}; INT8, FLOAT8_E4M3FN, FLOAT8_E5M2 and HIFLOAT8 have one")


def to_int8_through_half(values: Float32) -> npt.NDArray[np.int8]:
    """FLOAT to half, then half to INT8, both ROUND: how A2 and A3 quantise the query.

    Rounding twice moves values just below a tie up to it, and from there away from zero.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    half = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).reshape(values.shape)
    return _to_int8(np.trunc(half + np.copysign(np.float32(0.5), half)))


def _to_int8(integral: Array) -> npt.NDArray[np.int8]:
    nan = np.isnan(integral)
    clipped = np.clip(integral, -128, 127)
    if nan.any():
        clipped[nan] = 0
    return clipped.astype(np.int8)


def _e4m3_of(values: npt.NDArray[np.float64]) -> Array:
    """Round in float64: to a multiple of the step of the binade, at least 2^-9."""
    finite = np.clip(np.nan_to_num(values, nan=0.0, posinf=E4M3_MAX, neginf=-E4M3_MAX), -E4M3_MAX, E4M3_MAX)
    _, exponent = np.frexp(finite)
    step = np.ldexp(1.0, np.maximum(exponent - 4, -9))
    rounded: Array = np.rint(finite / step) * step
    return rounded.astype(np.float32).astype(FLOAT8_E4M3FN.numpy)


def _e4m3_table() -> npt.NDArray[np.uint8]:
    """Code of every upper half of a float32 whose last bit says whether anything was cut off."""
    with np.errstate(invalid="ignore"):
        upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    return _e4m3_of(upper).view(np.uint8)


_E4M3_BY_UPPER_HALF = _e4m3_table()


def _to_e4m3(values: Array) -> Array:
    if values.dtype == np.float64:
        return _e4m3_of(values)
    # Cut to the upper half with rounding to odd: eight bits of precision are more than twice the four of the
    # result, so rounding the odd-rounded value to nearest even is rounding once.
    bits = np.ascontiguousarray(values).view(np.uint32)
    odd = ((bits & np.uint32(0xFFFF)) + np.uint32(0xFFFF)) & np.uint32(0x10000)
    key = ((bits | odd) >> 16).astype(np.uint16)
    codes: Array = _E4M3_BY_UPPER_HALF.take(key, mode="clip")
    return codes.view(FLOAT8_E4M3FN.numpy).reshape(values.shape)


def largest(kind: DType) -> float:
    """Largest magnitude that dynamic quantisation maps a row's maximum to."""
    return {INT8: 127.0, FLOAT8_E4M3FN: E4M3_MAX, FLOAT8_E5M2: E5M2_MAX, HIFLOAT8: HIFLOAT8_MAX}[kind]

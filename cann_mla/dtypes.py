"""Element types: aclDataType, their NumPy forms, and the codecs NumPy and ml_dtypes do not have.

=================  ==========================================================================
CANN type          NumPy form
=================  ==========================================================================
FP16, FP32, ...    the NumPy type of the same width
BF16, FLOAT8_*     the type of the same name in ``ml_dtypes``
INT4, FLOAT4_E2M1  ``ml_dtypes.int4`` / ``float4_e2m1fn``, one element an item; two a byte only in
                   device memory and in files (:func:`pack_4bit`, :func:`unpack_4bit`)
HIFLOAT8           the structured type ``[("hifloat8", "u1")]``, so that it cannot be mistaken for
                   UINT8; ``array.view(np.uint8)`` gives the bits
=================  ==========================================================================

Sources: ``acl/acl_base.h`` (codes); the HiFloat8 paper's table of prefix codes (codec).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class DType:
    """One element type of CANN.

    Attributes
    ----------
    name : str
        Name as case files spell it, such as ``"BF16"``.
    code : int
        Value of ``aclDataType``.
    bits : int
        Width of an element in device memory; 0 for STRING, which has none.
    numpy_form : numpy.dtype or None
        See the table of the module; None where NumPy has no form.
    """

    name: str
    code: int
    bits: int
    numpy_form: np.dtype[Any] | None = None

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy form of the type.

        Raises
        ------
        TypeError
            If the type has none.
        """
        if self.numpy_form is None:
            raise TypeError(f"{self.name} has no NumPy form; keep its bytes in a uint8 array instead")
        return self.numpy_form

    @property
    def is_4bit(self) -> bool:
        """Whether two elements share a byte in device memory."""
        return self.bits == 4

    def storage_bytes(self, numel: int) -> int:
        """Bytes that `numel` dense elements take in device memory, the last byte filled up.

        Raises
        ------
        TypeError
            For STRING, whose elements have no fixed width.
        """
        if self.bits == 0:
            raise TypeError(f"{self.name} elements have no fixed width, so {numel} of them have no size")
        return (numel * self.bits + 7) // 8

    def __repr__(self) -> str:
        return self.name


# What names a type: itself, its name, its aclDataType code, or its NumPy form.
DTypeLike: TypeAlias = DType | str | int | np.dtype[Any] | type

HIFLOAT8_NUMPY = np.dtype([("hifloat8", "u1")])

FP32 = DType("FP32", 0, 32, np.dtype(np.float32))
FP16 = DType("FP16", 1, 16, np.dtype(np.float16))
INT8 = DType("INT8", 2, 8, np.dtype(np.int8))
INT32 = DType("INT32", 3, 32, np.dtype(np.int32))
UINT8 = DType("UINT8", 4, 8, np.dtype(np.uint8))
INT16 = DType("INT16", 6, 16, np.dtype(np.int16))
UINT16 = DType("UINT16", 7, 16, np.dtype(np.uint16))
UINT32 = DType("UINT32", 8, 32, np.dtype(np.uint32))
INT64 = DType("INT64", 9, 64, np.dtype(np.int64))
UINT64 = DType("UINT64", 10, 64, np.dtype(np.uint64))
FP64 = DType("FP64", 11, 64, np.dtype(np.float64))
BOOL = DType("BOOL", 12, 8, np.dtype(np.bool_))
STRING = DType("STRING", 13, 0)
COMPLEX64 = DType("COMPLEX64", 16, 64, np.dtype(np.complex64))
COMPLEX128 = DType("COMPLEX128", 17, 128, np.dtype(np.complex128))
BF16 = DType("BF16", 27, 16, np.dtype(ml_dtypes.bfloat16))
INT4 = DType("INT4", 29, 4, np.dtype(ml_dtypes.int4))
UINT1 = DType("UINT1", 30, 1)
COMPLEX32 = DType("COMPLEX32", 33, 32)
HIFLOAT8 = DType("HIFLOAT8", 34, 8, HIFLOAT8_NUMPY)
FLOAT8_E5M2 = DType("FLOAT8_E5M2", 35, 8, np.dtype(ml_dtypes.float8_e5m2))
FLOAT8_E4M3FN = DType("FLOAT8_E4M3FN", 36, 8, np.dtype(ml_dtypes.float8_e4m3fn))
FLOAT8_E8M0 = DType("FLOAT8_E8M0", 37, 8, np.dtype(ml_dtypes.float8_e8m0fnu))
FLOAT6_E3M2 = DType("FLOAT6_E3M2", 38, 6)
FLOAT6_E2M3 = DType("FLOAT6_E2M3", 39, 6)
FLOAT4_E2M1 = DType("FLOAT4_E2M1", 40, 4, np.dtype(ml_dtypes.float4_e2m1fn))
FLOAT4_E1M2 = DType("FLOAT4_E1M2", 41, 4)

DTYPES: tuple[DType, ...] = (
    FP32, FP16, INT8, INT32, UINT8, INT16, UINT16, UINT32, INT64, UINT64, FP64, BOOL, STRING, COMPLEX64,
    COMPLEX128, BF16, INT4, UINT1, COMPLEX32, HIFLOAT8, FLOAT8_E5M2, FLOAT8_E4M3FN, FLOAT8_E8M0, FLOAT6_E3M2,
    FLOAT6_E2M3, FLOAT4_E2M1, FLOAT4_E1M2,
)  # fmt: skip

_BY_NAME = {d.name: d for d in DTYPES}
_BY_CODE = {d.code: d for d in DTYPES}
_BY_NUMPY = {d.numpy_form: d for d in DTYPES if d.numpy_form is not None}


# Where C's name, without ACL_, is another one.
_C_NAMES = {"FLOAT": "FP32", "FLOAT16": "FP16", "DOUBLE": "FP64"}


def dtype(given: DTypeLike) -> DType:
    """Find a type by its name (C's own too, as ``"ACL_FLOAT"``), its aclDataType code, its NumPy form, or itself.

    Raises
    ------
    ValueError
        If no type has that name or code.
    TypeError
        If no type has that NumPy form.
    """
    if isinstance(given, DType):
        return given
    if given is None or isinstance(given, bool):  # NumPy would take None for float64
        raise TypeError(f"a dtype is a DType, its name, its code or its NumPy form; got {given}")
    if isinstance(given, str):
        name = given.removeprefix("ACL_")
        name = _C_NAMES.get(name, name)
        if name in _BY_NAME:
            return _BY_NAME[name]
    if isinstance(given, int):
        if given not in _BY_CODE:
            raise ValueError(f"no aclDataType has the code {given}; known codes: {sorted(_BY_CODE)}")
        return _BY_CODE[given]
    try:
        form = np.dtype(given)
    except TypeError:
        raise ValueError(f"unknown dtype {given!r}; known names: {', '.join(_BY_NAME)}") from None
    if form not in _BY_NUMPY:
        raise TypeError(f"NumPy type {form} is not the form of a CANN type; known: {', '.join(map(str, _BY_NUMPY))}")
    return _BY_NUMPY[form]


# ---- four bits ------------------------------------------------------------------------------------


def pack_4bit(array: Array) -> npt.NDArray[np.uint8]:
    """Pack INT4 or FLOAT4_E2M1 elements two a byte, low nibble first.

    Parameters
    ----------
    array : ndarray of ml_dtypes.int4 or ml_dtypes.float4_e2m1fn
        Any shape; packed in row-major order.

    Returns
    -------
    ndarray of uint8, shape (ceil(numel / 2),)
        With an odd number of elements the last high nibble is 0.
    """
    if not dtype(array.dtype).is_4bit:
        raise TypeError(f"pack_4bit takes ml_dtypes.int4 or float4_e2m1fn, got {array.dtype}")
    nibbles = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8(0x0F)
    packed: npt.NDArray[np.uint8] = nibbles[0::2].copy()
    packed[: nibbles.size // 2] |= nibbles[1::2] << 4
    return packed


def unpack_4bit(packed: Array, element: DTypeLike, shape: tuple[int, ...]) -> Array:
    """Inverse of :func:`pack_4bit`.

    Parameters
    ----------
    packed : ndarray of uint8
        Exactly ``ceil(prod(shape) / 2)`` bytes, any shape.
    element : DType or str
        INT4 or FLOAT4_E2M1.
    shape : tuple of int
        Shape in elements.
    """
    kind = dtype(element)
    if not kind.is_4bit:
        raise TypeError(f"unpack_4bit gives INT4 or FLOAT4_E2M1, not {kind.name}")
    numel = int(np.prod(shape, dtype=np.int64))
    if packed.dtype != np.uint8 or packed.size != (numel + 1) // 2:
        raise ValueError(
            f"{packed.size} items of {packed.dtype} cannot hold {numel} elements of {kind.name} "
            f"(shape {shape}); pass {(numel + 1) // 2} bytes as uint8"
        )
    flat = np.ascontiguousarray(packed).reshape(-1)
    nibbles = np.empty(2 * flat.size, np.uint8)
    nibbles[0::2] = flat & 0x0F
    nibbles[1::2] = flat >> 4
    if kind is INT4:
        signed: Array = (nibbles ^ 8).astype(np.int8) - np.int8(8)
        return signed.astype(kind.numpy)[:numel].reshape(shape)
    return nibbles.view(kind.numpy)[:numel].reshape(shape)


# ---- HiFloat8 -------------------------------------------------------------------------------------

_HIFLOAT8_NAN, _HIFLOAT8_INF, _HIFLOAT8_MAX = 0x80, 0x6F, 0x6E


def _hifloat8_value(code: int) -> float:
    """Value of one HiFloat8 code, read off the table of prefix codes."""
    if code == _HIFLOAT8_NAN:
        return float("nan")
    sign = -1.0 if code & 0x80 else 1.0
    low = code & 0x7F
    if low == _HIFLOAT8_INF:
        return sign * float("inf")
    # prefix 11, 10, 01, 001: width of the exponent field (sign of the exponent first), then of the mantissa
    for first, exponent_bits, mantissa_bits in ((0x60, 4, 1), (0x40, 3, 2), (0x20, 2, 3), (0x10, 1, 3)):
        if low >= first:
            field = (low - first) >> mantissa_bits
            leading = 1 << (exponent_bits - 1)
            magnitude = leading + field % leading
            exponent = -magnitude if field >= leading else magnitude
            mantissa = low % (1 << mantissa_bits)
            return sign * 2.0**exponent * (1 + mantissa / (1 << mantissa_bits))
    if low >= 0x08:
        return sign * (1 + (low - 0x08) / 8)
    return sign * 2.0 ** (low - 23) if low else 0.0


_HIFLOAT8_VALUES = np.array([_hifloat8_value(code) for code in range(256)], np.float32)
_CODES_BY_VALUE = np.array(sorted(set(range(0x80)) - {_HIFLOAT8_INF}, key=_hifloat8_value), np.uint8)
_SORTED_VALUES = _HIFLOAT8_VALUES[_CODES_BY_VALUE].astype(np.float64)
# Halfway to the next value, which belongs to the next value: ties go away from zero.
_MIDPOINTS = (_SORTED_VALUES[1:] + _SORTED_VALUES[:-1]) / 2
# Halfway from 2^15 to 1.5 * 2^15, whose code means infinity.
_OVERFLOW = 40960.0


def _hifloat8_by_search(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    magnitude = np.abs(values)
    codes = _CODES_BY_VALUE[np.searchsorted(_MIDPOINTS, magnitude, side="right")]
    codes[magnitude >= _OVERFLOW] = _HIFLOAT8_INF
    negative = np.signbit(values) & (codes != 0)
    codes[negative] |= 0x80
    codes[np.isnan(values)] = _HIFLOAT8_NAN
    return codes


def _hifloat8_table() -> npt.NDArray[np.uint8]:
    """Code of every upper half of a float32.

    The upper half decides alone: every midpoint has at most four mantissa bits, and whether a value
    reaches it does not depend on what is cut off. (A NaN whose payload is cut off is seen to apart.)
    """
    with np.errstate(invalid="ignore"):
        upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    return _hifloat8_by_search(upper)


_HIFLOAT8_BY_UPPER_HALF = _hifloat8_table()


def hifloat8_encode(values: npt.ArrayLike, saturate: bool = True) -> Array:
    """Round to HiFloat8: nearest value, ties away from zero.

    Parameters
    ----------
    values : array_like of float
        Any shape; float32, bfloat16 and float16 go through a table, float64 through a search.
    saturate : bool
        True: overflow and infinities become +-32768 and NaN becomes +0, as on a core in saturation mode.
        False: overflow becomes an infinity and NaN stays.

    Returns
    -------
    ndarray of HIFLOAT8_NUMPY, same shape
        Magnitudes below 2^-23 become +0; there is no -0.
    """
    array = np.asarray(values)
    if array.dtype == np.float64:
        codes = _hifloat8_by_search(array)
    elif array.dtype == BF16.numpy:
        codes = _HIFLOAT8_BY_UPPER_HALF[array.view(np.uint16)]
    elif array.dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        single = np.ascontiguousarray(array, np.float32)
        codes = _HIFLOAT8_BY_UPPER_HALF.take((single.view(np.uint32) >> 16).astype(np.uint16), mode="clip")
        codes[np.isnan(single)] = _HIFLOAT8_NAN
    else:
        raise TypeError(f"hifloat8_encode takes a floating-point array, got {array.dtype}; convert it first")
    codes = np.asarray(codes)
    if saturate:
        codes[codes == _HIFLOAT8_NAN] = 0
        overflowed = (codes & 0x7F) == _HIFLOAT8_INF
        codes[overflowed] -= _HIFLOAT8_INF - _HIFLOAT8_MAX
    return codes.view(HIFLOAT8_NUMPY).reshape(array.shape)


def hifloat8_decode(array: Array) -> npt.NDArray[np.float32]:
    """Values of HiFloat8 elements (structured form, or their bits as uint8); exact in float32."""
    return _HIFLOAT8_VALUES[_byte_view(array)]


def _byte_view(array: Array) -> npt.NDArray[np.uint8]:
    if array.dtype not in (HIFLOAT8_NUMPY, np.dtype(np.uint8)):
        raise TypeError(f"expected HIFLOAT8 elements or their bits as uint8, got {array.dtype}")
    return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)


# ---- bit patterns, as .npz files hold them --------------------------------------------------------


def to_bits(array: Array, element: DTypeLike | None = None) -> Array:
    """Array as a ``.npz`` file holds it.

    Parameters
    ----------
    array : ndarray
        NumPy form of a CANN type.
    element : DType or str, optional
        Checked against the array where given.

    Returns
    -------
    ndarray
        Types that NumPy has: the array itself. BF16: uint16. FP8, E8M0, HIFLOAT8: uint8. Four-bit types:
        uint8, two elements a byte, low nibble first; the last dimension halved where it is even, else flat.
    """
    kind = dtype(array.dtype)
    if element is not None and dtype(element) is not kind:
        raise TypeError(f"array of {array.dtype} is {kind.name}, not {dtype(element).name}")
    if kind.is_4bit:
        packed = pack_4bit(array)
        halved = array.ndim > 0 and array.shape[-1] % 2 == 0
        return packed.reshape(*array.shape[:-1], array.shape[-1] // 2) if halved else packed
    return array if _is_plain(kind) else np.ascontiguousarray(array).view(_bits_type(kind)).reshape(array.shape)


def from_bits(bits: Array, element: DTypeLike, shape: tuple[int, ...] | None = None) -> Array:
    """Inverse of :func:`to_bits`; shares memory where it can.

    Parameters
    ----------
    bits : ndarray
    element : DType or str
    shape : tuple of int, optional
        Shape in elements; needed for four-bit types, else the shape of `bits`.
    """
    kind = dtype(element)
    shape = bits.shape if shape is None and not kind.is_4bit else shape
    if shape is None:
        raise ValueError(f"{kind.name} is packed two a byte: give the shape in elements")
    if kind.is_4bit:
        return unpack_4bit(bits, kind, shape)
    expected = kind.numpy if _is_plain(kind) else np.dtype(_bits_type(kind))
    if bits.dtype != expected:
        raise TypeError(f"{kind.name} is held as {expected}, got {bits.dtype}")
    return np.ascontiguousarray(bits).view(kind.numpy).reshape(shape)


def _is_plain(kind: DType) -> bool:
    """Whether NumPy itself has the type, so that a file can hold it as it is."""
    return kind.numpy.isbuiltin == 1


def _bits_type(kind: DType) -> type[np.unsignedinteger[Any]]:
    return np.uint16 if kind.bits == 16 else np.uint8

"""Operand data as a function of seed, tensor name and shape alone, the same on every machine.

Random bits come from NumPy's Philox, keyed by SHA-256 of seed, name and shape; a bit generator's stream is
frozen between NumPy releases, while `Generator.normal` is not. Everything after the bits is additions,
products and table lookups, which IEEE 754 fixes to the last place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import DType, dtype, from_bits, hifloat8_encode

CHUNK = 1 << 18  # elements made at a time: the temporaries stay in cache
DEFAULT_NORMAL: Mapping[str, Any] = {"dist": "normal"}
DEFAULT_ZEROS: Mapping[str, Any] = {"dist": "zeros"}
_FLOATS = frozenset(
    ["FP16", "BF16", "FP32", "FP64", "FLOAT8_E4M3FN", "FLOAT8_E5M2", "FLOAT8_E8M0", "HIFLOAT8", "FLOAT4_E2M1"]
)


class DataError(ValueError):
    """A description of data that cannot fill the tensor it belongs to."""


def default_data(name: str, dtype_name: str, *, output: bool) -> Mapping[str, Any]:
    """What fills a tensor whose case says nothing: normal for floats, zeros for caches and outputs.

    Integers get zeros too: what an index or a length may be, only its operator knows.
    """
    lower = name.lower()
    is_cache = "cache" in lower and "index" not in lower
    return DEFAULT_NORMAL if dtype_name in _FLOATS and not (output or is_cache) else DEFAULT_ZEROS


def fill(data: Mapping[str, Any], *, seed: int, name: str, shape: tuple[int, ...], dtype_name: str) -> NDArray[Any]:
    """Make one operand.

    Parameters
    ----------
    data
        The `data` object of the case format.
    seed, name, shape
        With `data`, all that the values depend on. Entry i of a list is named ``name.i``.
    dtype_name
        The operand's dtype; random values are rounded to it, half to even (HIFLOAT8: ties away from zero),
        saturating for integers. FLOAT8_E8M0 has no sign and takes the magnitude.

    Returns
    -------
    The array in its NumPy form (`cann_mla.dtypes`), of shape `shape`.

    Raises
    ------
    DataError
        `data` does not fit the shape or the dtype.
    """
    kind = dtype(dtype_name)
    dist = data["dist"]
    if dist in ("normal", "uniform", "integers"):
        return _random(data, _generator(seed, name, shape), shape, kind)
    if dist == "zeros":
        return np.zeros(shape, kind.numpy)
    if dist == "ones":
        return _cast(np.ones(shape, np.float32), kind)
    if dist == "permutation":
        return _cast(_permutation(data["high"], _generator(seed, name, shape), shape), kind)
    if dist == "triu":
        return _triu(data["value"], shape, kind)
    if dist == "numpy_randomstate":
        return _randomstate(data, shape, kind)
    values = data["values"]
    if dist == "raw":
        return _raw(values, name, shape, kind)
    if len(values) != prod(shape):
        raise DataError(f"{name}: {len(values)} values for shape {list(shape)}")
    return _values(values, kind).reshape(shape)


def _generator(seed: int, name: str, shape: tuple[int, ...]) -> np.random.Philox:
    text = f"{seed}\n{name}\n{','.join(map(str, shape))}"
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return np.random.Philox(key=int.from_bytes(digest[:16], "little"))


def _words(bits: np.random.Philox, count: int) -> Iterator[tuple[slice, NDArray[np.uint32]]]:
    """32 random bits an element, chunk by chunk: the low half of each 64-bit word first."""
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        words = bits.random_raw((size + 1) // 2).astype("<u8", copy=False).view("<u4")
        yield slice(start, start + size), words[:size]


def _random(data: Mapping[str, Any], bits: np.random.Philox, shape: tuple[int, ...], kind: DType) -> NDArray[Any]:
    out = np.empty(prod(shape), kind.numpy)
    values: NDArray[Any]
    for where, words in _words(bits, out.size):
        if data["dist"] == "normal":
            values = _normal(words, float(data.get("mean", 0)), float(data.get("std", 1)))
        elif data["dist"] == "uniform":
            low, high = float(data["low"]), float(data["high"])
            values = low + (high - low) * (words * 2.0**-32)
        else:
            values = _integers(words, int(data["low"]), int(data["high"]))
        out[where] = _cast(values, kind)
    return out.reshape(shape)


@lru_cache(maxsize=1)
def _quantiles() -> NDArray[np.float32]:
    """Normal quantiles at i/65536, in steps of 2**-20 so that the last place of libm's log cannot show."""
    normal = NormalDist()
    lower = [normal.inv_cdf(i / 65536 if i else 2.0**-18) for i in range(32768)]
    steps = np.rint(np.array(lower) * 2.0**20)
    return (np.concatenate([steps, [0.0], -steps[::-1]]) * 2.0**-20).astype(np.float32)


def _normal(words: NDArray[np.uint32], mean: float, std: float) -> NDArray[np.float32]:
    """The quantile function, linear between 65,537 knots; |z| ends at 4.5."""
    knots = _quantiles()
    index = words >> np.uint32(16)
    fraction = (words & np.uint32(0xFFFF)).astype(np.float32) * np.float32(2.0**-16)
    left = knots[index]
    z = left + (knots[index + 1] - left) * fraction
    return np.asarray(z if (mean, std) == (0.0, 1.0) else np.float32(mean) + np.float32(std) * z, np.float32)


def _integers(words: NDArray[np.uint32], low: int, high: int) -> NDArray[np.int64]:
    if not 0 < high - low <= 2**32:
        raise DataError(f"integers: low {low}, high {high}; low < high <= low + 2**32 is wanted")
    scaled = words.astype(np.uint64) * np.uint64(high - low) >> np.uint64(32)
    return np.asarray(scaled.astype(np.int64) + low)


def _permutation(high: int, bits: np.random.Philox, shape: tuple[int, ...]) -> NDArray[np.int64]:
    order = np.argsort(bits.random_raw(high), kind="stable") if high else np.empty(0, np.int64)
    out = np.full(prod(shape), -1, np.int64)
    count = min(high, out.size)
    out[:count] = order[:count]
    return out.reshape(shape)


def _triu(value: float, shape: tuple[int, ...], kind: DType) -> NDArray[Any]:
    if len(shape) < 2:
        raise DataError(f"triu: a matrix has a diagonal, shape {list(shape)} has none")
    matrix = _cast(np.triu(np.full(shape[-2:], value, np.float32), 1), kind)
    return np.array(np.broadcast_to(matrix, shape))


def _randomstate(data: Mapping[str, Any], shape: tuple[int, ...], kind: DType) -> NDArray[Any]:
    state = np.random.RandomState(data["seed"])
    if data["method"] == "randint":
        drawn = state.randint(data["low"], data["high"], size=shape, dtype=np.dtype(data.get("dtype", "int64")))
        return _cast(np.asarray(drawn), kind)
    return _cast(np.asarray(state.uniform(data["low"], data["high"], size=shape), np.float32), kind)


def _raw(values: list[int], name: str, shape: tuple[int, ...], kind: DType) -> NDArray[Any]:
    packed = kind.bits == 4
    count = (prod(shape) + 1) // 2 if packed else prod(shape)
    if len(values) != count:
        raise DataError(f"{name}: {len(values)} bit patterns for shape {list(shape)} of {kind.name}, {count} wanted")
    words = np.array(values, np.uint64).astype(np.dtype(f"u{max(kind.bits // 8, 1)}"))
    return words.view(kind.numpy).reshape(shape) if kind.numpy.isbuiltin == 1 else from_bits(words, kind, shape)


def _values(values: list[Any], kind: DType) -> NDArray[Any]:
    if all(isinstance(value, int) for value in values):
        return _cast(np.array(values, np.int64) if values else np.zeros(0, np.int64), kind)
    return _cast(np.array(values, np.float64), kind)


def _cast(values: NDArray[Any], kind: DType) -> NDArray[Any]:
    """Round to the operand's dtype: half to even, saturating for integers."""
    if kind.name == "HIFLOAT8":
        return hifloat8_encode(values.astype(np.float32))
    if kind.name == "BOOL":
        return np.asarray(values != 0)
    if kind.numpy.isbuiltin != 1:
        return _cast_extended(values, kind)
    if kind.numpy.kind in "iu" and values.dtype.kind == "f":
        limits = np.iinfo(kind.numpy)
        return np.asarray(np.clip(np.rint(values), limits.min, limits.max)).astype(kind.numpy)
    return values.astype(kind.numpy)


def _cast_extended(values: NDArray[Any], kind: DType) -> NDArray[Any]:
    if kind.name == "INT4":
        return np.asarray(np.clip(np.rint(values), -8, 7)).astype(np.int8).astype(kind.numpy)
    if kind.name == "FLOAT8_E8M0":
        values = np.abs(values)
    with np.errstate(over="ignore"):  # beyond the largest value: the dtype's own infinity or NaN
        return values.astype(np.float32).astype(kind.numpy)

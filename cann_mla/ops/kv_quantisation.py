"""Quantised keys and values: parameters from data, and INT4 in words.

An operator gives back ``(stored + offset) * scale``: the offset is added to what is stored, before the scale.

Source: CANN's documentation of aclnnFusedInferAttentionScore to V5, ``keyAntiquantMode`` and ``antiquantScale``.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import INT4, Array, DTypeLike, dtype, pack_4bit, unpack_4bit

INT4_A_WORD = 8
_RANGES = {"INT8": (-128, 127), "INT4": (-8, 7)}
# Granularity -> antiquant mode, axes of (B, N, S, D) that share a parameter, whether it is float32.
_GRANULARITIES: dict[str, tuple[int, tuple[int, ...], bool]] = {
    "per_tensor": (0, (0, 1, 2, 3), False),
    "per_channel": (0, (0, 2), False),
    "per_token": (1, (1, 3), True),
    "per_head": (2, (0, 2, 3), False),
    "per_token_head": (3, (3,), True),
}


@dataclass(frozen=True)
class KvQuantisation:
    """Scale and offset of a key or value, and what they make of it.

    Attributes
    ----------
    scale : ndarray
        Shape by granularity: (1,), (1, N, 1, D) per channel, (1, B, S) per token, (N,) per head, (B, N, S) per
        token and head. With more than one query row, Atlas A2 and A3 want per channel as (N, D): ``scale[0, :, 0]``.
    offset : ndarray of the same shape and type, or None
        None for symmetric quantisation.
    mode : int
        For ``key_antiquant_mode`` or ``value_antiquant_mode``.
    element : str
        ``INT8`` or ``INT4``.
    reduced : tuple of int
        Axes of (B, N, S, D) that share a parameter.
    """

    scale: Array
    offset: Array | None
    mode: int
    element: str
    reduced: tuple[int, ...]

    @classmethod
    def of(
        cls,
        data: Array,
        granularity: str,
        *,
        symmetric: bool = True,
        element: str = "INT8",
        query_dtype: DTypeLike = "FP16",
    ) -> KvQuantisation:
        """Parameters that cover the data.

        Symmetric, the largest magnitude is stored as 127 (INT4: 7); asymmetric, the smallest value as -128 (-8)
        and the largest as 127 (7).

        Parameters
        ----------
        data : ndarray, shape (B, N, S, D)
            Key or value with heads before rows; transpose other layouts (and packed results back).
        granularity : {"per_tensor", "per_channel", "per_token", "per_head", "per_token_head"}
        symmetric : bool
        element : {"INT8", "INT4"}
        query_dtype : DType or str
            Type of scale and offset, except per token: those are FP32.

        Raises
        ------
        ValueError
            If granularity or element is unknown, or the data have other than four axes.
        """
        if granularity not in _GRANULARITIES or element not in _RANGES:
            raise ValueError(
                f"granularity={granularity!r}, element={element!r}; known are {', '.join(_GRANULARITIES)} "
                f"and {', '.join(_RANGES)}"
            )
        if data.ndim != 4:
            raise ValueError(f"data of shape {data.shape}; it must be (B, N, S, D)")
        mode, reduced, single = _GRANULARITIES[granularity]
        kind = dtype("FP32" if single else query_dtype).numpy
        low, high = _RANGES[element]
        values = data.astype(np.float64)
        if symmetric:
            scale = _usable(np.abs(values).max(axis=reduced, keepdims=True) / high, kind)
            return cls(_shaped(scale, mode, reduced), None, mode, element, reduced)
        bottom, top = values.min(axis=reduced, keepdims=True), values.max(axis=reduced, keepdims=True)
        scale = _usable((top - bottom) / (high - low), kind)
        offset = (bottom / scale.astype(np.float64) - low).astype(kind)
        return cls(_shaped(scale, mode, reduced), _shaped(offset, mode, reduced), mode, element, reduced)

    def quantise(self, data: Array) -> Array:
        """What to store for data of shape (B, N, S, D): INT8, or INT4 unpacked. Rounds to even, saturates."""
        scale, offset = self._spread(data)
        stored = np.rint(data.astype(np.float64) / scale - offset)
        return np.clip(stored, *_RANGES[self.element]).astype(np.int8).astype(dtype(self.element).numpy)

    def dequantise(self, stored: Array) -> npt.NDArray[np.float32]:
        """What the operator makes of the stored numbers, shape (B, N, S, D)."""
        scale, offset = self._spread(stored)
        return ((stored.astype(np.float64) + offset) * scale).astype(np.float32)

    def for_output(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
        """Factor and summand of ``round(x * factor + summand)``, which stores the same numbers.

        That is the form of ``quant_scale2`` and ``quant_offset2``; parameters must be per tensor or per channel,
        taken over attention outputs (B, N, S, D).

        Raises
        ------
        ValueError
            If there is a parameter for each token or head.
        """
        if self.mode != 0:
            raise ValueError("outputs are quantised per tensor or per channel only")
        factor = (1 / self.scale.astype(np.float64)).astype(np.float32)
        return factor, None if self.offset is None else -self.offset.astype(np.float32)

    def _spread(self, data: Array) -> tuple[Array, Array | float]:
        """Scale and offset with the axes of the data."""
        shape = tuple(1 if axis in self.reduced else size for axis, size in enumerate(data.shape))
        scale = self.scale.reshape(shape).astype(np.float64)
        return scale, 0.0 if self.offset is None else self.offset.reshape(shape).astype(np.float64)


def _usable(scale: Array, kind: np.dtype[np.generic]) -> Array:
    """Round to the type that is stored; a constant or all-zero part gets the scale 1."""
    rounded: Array = scale.astype(kind)
    rounded[rounded.astype(np.float64) == 0] = 1
    return rounded


def _shaped(parameter: Array, mode: int, reduced: tuple[int, ...]) -> Array:
    """The shape that CANN's documentation gives for the mode."""
    if mode == 0 and len(reduced) < 4:
        return parameter
    kept = parameter.reshape([n for axis, n in enumerate(parameter.shape) if axis not in reduced] or [1])
    return kept[None] if mode == 1 else kept


def pack_int4(stored: Array) -> npt.NDArray[np.int32]:
    """Pack INT4 into INT32 words of eight, the lowest nibble first, as operators take them.

    Parameters
    ----------
    stored : ndarray of int4, or of integers from -8 to 7
        The last axis must be a multiple of 8.

    Returns
    -------
    ndarray of int32
        With a last axis an eighth as long.

    Raises
    ------
    ValueError
        If the last axis does not fit, or a number is out of range.
    """
    if not stored.ndim or stored.shape[-1] % INT4_A_WORD:
        raise ValueError(f"an array of shape {stored.shape}; its last axis must be a multiple of {INT4_A_WORD}")
    numbers = stored.astype(np.int64)
    if np.any((numbers < -8) | (numbers > 7)):
        raise ValueError(f"INT4 holds -8 to 7; found {numbers.min()} to {numbers.max()}")
    words = pack_4bit(numbers.astype(np.int8).astype(ml_dtypes.int4)).view("<i4")
    return words.astype(np.int32).reshape(*stored.shape[:-1], stored.shape[-1] // INT4_A_WORD)


def unpack_int4(words: npt.NDArray[np.int32]) -> Array:
    """Inverse of :func:`pack_int4`, as ``ml_dtypes.int4``.

    Raises
    ------
    ValueError
        If the words are not INT32.
    """
    if words.dtype != np.int32:
        raise ValueError(f"INT4 comes in INT32 words, not {words.dtype}")
    shape = (*words.shape[:-1], words.shape[-1] * INT4_A_WORD)
    return unpack_4bit(np.ascontiguousarray(words, "<i4").reshape(-1).view(np.uint8), INT4, shape)

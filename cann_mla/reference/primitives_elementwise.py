"""aclnnAbs, aclnnAmax, aclnnMul, aclnnInplaceMul and aclnnDiv.

Operands of two types meet in one, by :func:`promoted`; FP16 and BF16 are then computed in float32 and rounded once to
the type they met in. A result of another type than that is cast, which is a second rounding.

Source: CANN's pages of the operators, and their host code for the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cann_mla.dtypes import BF16, BOOL, FP16, FP32, FP64, INT8, INT16, UINT8, Array, DType, dtype
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.primitives_cast import cast
from cann_mla.reference.rounding import widen
from cann_mla.reference.settings import check_settings

_FLOATING = (FP64, FP32, FP16, BF16)


def promoted(first: DType, second: DType) -> DType:
    """The type in which two operands meet.

    The same one stays. FP16 and BF16 meet in FP32, otherwise the wider of two floating types wins; a floating type
    wins over an integer of any width; BOOL loses against all; INT8 and UINT8 meet in INT16, and otherwise the wider
    integer wins.
    """
    if first is second:
        return first
    floating = [kind for kind in _FLOATING if kind in (first, second)]
    if floating:
        return FP32 if len(floating) == 2 and FP16 in floating and BF16 in floating else floating[0]
    if BOOL in (first, second):
        return second if first is BOOL else first
    if {first, second} == {INT8, UINT8}:
        return INT16
    return first if first.bits > second.bits else second


@np.errstate(all="ignore")
def absolute(self: Array) -> Array:
    """Magnitude of every element, in its own type; the smallest integer has none and stays.

    Parameters
    ----------
    self : ndarray of a floating type, a signed or unsigned integer, or BOOL
    """
    return self.copy() if dtype(self.dtype) in (BOOL, UINT8) else np.abs(self)


def amax(self: Array, dim: Sequence[int] = (), *, keep_dim: bool = False) -> Array:
    """Largest element over axes.

    Parameters
    ----------
    self : ndarray
    dim : sequence of int
        Axes, negative ones counted from the end; none stands for all.
    keep_dim : bool
        Whether reduced axes stay, with size 1.

    Returns
    -------
    ndarray of the type of `self`
        NaN where there is one.
    """
    axes = tuple(int(axis) for axis in dim) or None
    largest: Array = np.asarray(np.max(self, axis=axes, keepdims=keep_dim))
    return largest


@np.errstate(all="ignore")
def mul(self: Array, other: Array, *, out: DType, precision: str = "device") -> Array:
    """Product of every pair of elements of two arrays that broadcast.

    Parameters
    ----------
    self, other : ndarray of a floating type, an integer or BOOL
        An integer that meets a floating type is rounded to it first; integer products wrap.
    out : DType
    precision : {"device", "exact"}

    Returns
    -------
    ndarray of `out`; float64 in ``exact`` precision if `out` is a floating type
    """
    if precision == "exact" and out in _FLOATING:
        return np.multiply(widen(self, np.float64), widen(other, np.float64))
    kind = promoted(dtype(self.dtype), dtype(other.dtype))
    left, right = (_computable(operand, kind) for operand in (self, other))
    return cast(_stored(left * right, kind), out)


@np.errstate(all="ignore")
def div(self: Array, other: Array, *, out: DType, precision: str = "device") -> Array:
    """Quotient of every pair of elements of two arrays that broadcast; by 0 as IEEE 754 has it.

    Parameters
    ----------
    self, other : ndarray of a floating type, an integer or BOOL
        Where none is of a floating type, both become FP32.
    out : DType
        A floating type.
    precision : {"device", "exact"}

    Returns
    -------
    ndarray of `out`; float64 in ``exact`` precision
    """
    if precision == "exact":
        return np.divide(widen(self, np.float64), widen(other, np.float64))
    kind = promoted(dtype(self.dtype), dtype(other.dtype))
    kind = kind if kind in _FLOATING else FP32
    left, right = (_computable(operand, kind) for operand in (self, other))
    return cast(_stored(left / right, kind), out)


def _computable(operand: Array, kind: DType) -> Array:
    """An operand in a type, FP16 and BF16 held as float32."""
    meeting = operand if dtype(operand.dtype) is kind else cast(operand, kind)
    return widen(meeting) if kind in (FP16, BF16) else meeting


def _stored(values: Array, kind: DType) -> Array:
    return values.astype(kind.numpy, copy=False)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    self = arguments["self"]
    if symbol == "aclnnAbs":
        return {"out": absolute(self)}
    if symbol == "aclnnAmax":
        return {"out": amax(self, arguments.get("dim", ()), keep_dim=bool(arguments.get("keep_dim", False)))}
    if symbol == "aclnnInplaceMul":
        return {"self": mul(self, arguments["other"], out=dtype(self.dtype), precision=precision)}
    compute = div if symbol == "aclnnDiv" else mul
    return {"out": compute(self, arguments["other"], out=outputs["out"][1], precision=precision)}

"""Matrix products of narrow operands: what Ascend's cube unit computes, up to the order of summation."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import INT8, Array, dtype
from cann_mla.reference.rounding import widen

MX_BLOCK = 32

# Products of int8 summed over this many terms stay below 2^24, where float32 is exact in any order.
_EXACT_INT8_TERMS = 1024


def product(x: Array, w: Array, compute: np.dtype[Any]) -> Array:
    """x @ w with operands of any CANN type, accumulated and returned in `compute`.

    Two INT8 operands give the exact integer, rounded once (to nearest even) to `compute`.

    Parameters
    ----------
    x : ndarray, shape (T, K)
    w : ndarray, shape (K, M), same element type, or both already widened
    compute : numpy.dtype
        float32 or float64.

    Returns
    -------
    ndarray of `compute`, shape (T, M)
    """
    if dtype(x.dtype) is INT8 and dtype(w.dtype) is INT8:
        return _int8_product(x, w, compute)
    result: Array = widen(x, compute) @ widen(w, compute)
    return result


def _int8_product(x: Array, w: Array, compute: np.dtype[Any]) -> Array:
    total = np.zeros((x.shape[0], w.shape[1]), np.float64)
    for first in range(0, x.shape[1], _EXACT_INT8_TERMS):
        part = slice(first, first + _EXACT_INT8_TERMS)
        total += x[:, part].astype(np.float32) @ w[part].astype(np.float32)
    return total.astype(compute, copy=False)


def scale_mx_rows(x: Array, scales: Array, compute: np.dtype[Any]) -> Array:
    """Values of an MX operand whose blocks of 32 lie along the rows.

    Parameters
    ----------
    x : ndarray of FLOAT8_E4M3FN, shape (T, K)
    scales : ndarray of FLOAT8_E8M0, shape (T, K / 32)
        A byte stands for 2^(byte - 127); 255 is NaN.
    compute : numpy.dtype
        float32 or float64.

    Returns
    -------
    ndarray, shape (T, K)
        Exact. In `compute`, or in float64 where a scale is so far out that float32 could not hold the result.
    """
    factors = _mx_factors(scales, compute)
    values = widen(x, factors.dtype)
    values.reshape(x.shape[0], -1, MX_BLOCK)[...] *= factors[:, :, None]
    return values


def scale_mx_columns(w: Array, scales: Array, compute: np.dtype[Any]) -> Array:
    """Values of an MX weight whose blocks of 32 lie along the columns.

    Parameters
    ----------
    w : ndarray of FLOAT8_E4M3FN, shape (K, M)
    scales : ndarray of FLOAT8_E8M0, shape (M, K / 32)
        Output column first. Everything else as for :func:`scale_mx_rows`.
    """
    factors = _mx_factors(scales, compute)
    values = widen(w, factors.dtype)
    values.reshape(-1, MX_BLOCK, w.shape[1])[...] *= np.ascontiguousarray(factors.T)[:, None, :]
    return values


def _mx_factors(scales: Array, compute: np.dtype[Any]) -> Array:
    byte = scales.view(np.uint8).astype(np.int32)
    # Elements lie in [2^-9, 448]; with these scales the products are normal numbers of float32.
    tame = bool(((byte >= 10) & (byte <= 245)).all())
    factors = np.ldexp(np.ones((), compute if tame else np.float64), byte - 127)
    factors[byte == 255] = np.nan
    return factors

"""RmsNorm over the last axis."""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.rounding import widen

_LANES = 64
_SKIPPED_ALPHA = float(np.finfo(np.float32).eps)


def rms_norm(x: Array, gamma: Array, epsilon: float, alpha: float = 1.0) -> Array:
    """alpha * gamma * x / sqrt(mean(x^2) + epsilon), in the type of `x`.

    Parameters
    ----------
    x : ndarray of float32 or float64, shape (T, C)
        C a multiple of 64.
    gamma : ndarray of BF16, shape (C,)
    epsilon, alpha : float
        Narrowed to the type of `x`. A factor within 2^-23 of 1 is not applied.

    Returns
    -------
    ndarray, shape (T, C), type of `x`

    Notes
    -----
    Order of operations as in the MlaProlog kernel: sum of squares in 64 lanes, times 1/C, plus epsilon, root;
    x divided by it, times gamma, times alpha.
    """
    compute = x.dtype.type
    mean = _sum_of_squares(x) * compute(1.0 / x.shape[-1])
    root = np.sqrt(mean + compute(epsilon))
    normed: Array = x / root[:, None]
    normed *= widen(gamma, x.dtype)
    if abs(alpha - 1.0) >= _SKIPPED_ALPHA:
        normed *= compute(alpha)
    return normed


def _sum_of_squares(x: Array) -> Array:
    """64 running sums, then a tree over the lanes, as the vector unit adds."""
    lanes: Array = np.square(x).reshape(x.shape[0], -1, _LANES).sum(axis=1)
    while lanes.shape[-1] > 1:
        lanes = lanes[:, 0::2] + lanes[:, 1::2]
    return lanes[:, 0]

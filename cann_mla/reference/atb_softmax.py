"""The striped softmax of ATB's attention kernels, and the two ways in which they hold scores.

A kernel walks over the columns in stripes, at most 512 of them at once, and keeps a running maximum, sum and
output. Kernels with float32 scores and kernels with float16 scores differ in what they round:

================  ==================================  ==========================================
step              float32 scores                      float16 scores
================  ==================================  ==========================================
query . key       accumulated in float32              the same, then rounded to float16
times the scale   float32                             scale and product rounded to float16
plus the mask     float32                             rounded to float16
minus maximum     float32                             rounded to float16
exponential       float32                             float32
row sum           float32                             float32
numerators        rounded to the operands' type       rounded to float16
second product    accumulated in float32              accumulated in float32
================  ==================================  ==========================================

Source: online softmax (Milakov and Gimelshein, 2018); ATB's kernels for stripes and rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array
from cann_mla.reference.attention_numbers import Floats, round_fractions_to_fp16

STRIPE = 512
_FP16_OVERFLOW = 65520.0

# Keys (heads, columns, width), values (heads, columns, value width), what is added to the scaled scores.
Stripe = tuple[Floats, Floats, Floats | None]


class Scores:
    """Scores in float64, nothing rounded.

    Parameters
    ----------
    scale : float
        Factor of the products of queries and keys.
    """

    work: npt.DTypeLike = np.float64

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def logits(self, products: Floats, term: Floats | None) -> Floats:
        """Scaled products plus `term`; in place."""
        products *= products.dtype.type(self._scale)
        if term is not None:
            products += term
        return products

    def difference(self, values: Floats, maximum: Floats) -> Floats:
        """Values minus the running maximum; in place."""
        values -= maximum
        return values

    def weights(self, numerators: Floats) -> Floats:
        """Numerators as the second product takes them; in place."""
        return numerators

    def product(self, numerators: Floats, below: Floats, values: Floats) -> Floats:
        """Second product of a stripe; `below` is its row maxima minus the running ones."""
        product: Floats = self.weights(numerators) @ values
        return product


class SingleScores(Scores):
    """Scores in float32, numerators rounded to the type of the operands."""

    work = np.float32

    def __init__(self, scale: float, operand: np.dtype[Any]) -> None:
        super().__init__(scale)
        self._round = round_fractions_to_fp16 if operand == np.float16 else _round_fractions_to_bf16

    def weights(self, numerators: Floats) -> Floats:
        """Round to nearest even."""
        return self._round(numerators)


class HalfScores(Scores):
    """Scores in float16, held in float32 arrays: single operations round the same way twice or once."""

    work = np.float32

    def __init__(self, scale: float) -> None:
        super().__init__(float(np.float16(scale)))

    def logits(self, products: Floats, term: Floats | None) -> Floats:
        """Round after each of the three steps."""
        _to_half(products)
        products *= np.float32(self._scale)
        _to_half(products)
        if term is not None:
            products += term
            _to_half(products)
        return products

    def difference(self, values: Floats, maximum: Floats) -> Floats:
        """Round the difference."""
        values -= maximum
        return _to_half(values)

    def weights(self, numerators: Floats) -> Floats:
        """Round to nearest even."""
        return round_fractions_to_fp16(numerators)


def scores_for(operand: np.dtype[Any], scale: float, precision: str, *, half: bool) -> Scores:
    """How a kernel holds its scores.

    Parameters
    ----------
    operand : numpy.dtype
        float16 or bfloat16.
    scale : float
    precision : {"device", "exact"}
    half : bool
        Whether the kernel for float16 operands keeps float16 scores.
    """
    if precision == "exact":
        return Scores(scale)
    return HalfScores(scale) if half and operand == np.float16 else SingleScores(scale, operand)


class StripedSoftmax:
    """Running maximum, sum and output over stripes; leading axes (heads, rows)."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._maximum: Floats | None = None
        self._total: Floats
        self._output: Floats

    def add(self, logits: Floats, values: Floats) -> None:
        """Take in a stripe.

        Parameters
        ----------
        logits : ndarray, shape (heads, rows, columns)
            Used up.
        values : ndarray, shape (heads, columns, value width)
        """
        highest = logits.max(axis=-1, keepdims=True)
        maximum = highest if self._maximum is None else np.maximum(highest, self._maximum)
        numerators = self._scores.difference(logits, maximum)
        np.exp(numerators, out=numerators)
        # A product with ones sums a row as fast as the matrix unit would.
        total = numerators @ np.ones((numerators.shape[-1], 1), numerators.dtype)
        product = self._scores.product(numerators, highest - maximum, values)
        if self._maximum is None:
            self._total, self._output = total, product
        else:
            decay = np.exp(self._scores.difference(self._maximum, maximum))
            self._total = self._total * decay + total
            self._output *= decay
            self._output += product
        self._maximum = maximum

    def result(self) -> tuple[Floats, Floats]:
        """Output (heads, rows, value width), not rounded, and lse (heads, rows)."""
        assert self._maximum is not None
        lse = np.log(self._total) + self._maximum
        return self._output / self._total, lse[..., 0]


def attend(query: Floats, stripes: Iterable[Stripe], scores: Scores) -> tuple[Floats, Floats]:
    """Attention of one tile of rows over its stripes.

    Parameters
    ----------
    query : ndarray, shape (heads, rows, width)
        Type ``scores.work``, as everything in `stripes`.
    stripes : iterable of (keys, values, term)
        At least one; `term` broadcasts to (heads, rows, columns).
    scores : Scores

    Returns
    -------
    output : ndarray, shape (heads, rows, value width)
    lse : ndarray, shape (heads, rows)
    """
    state = StripedSoftmax(scores)
    scratch = np.empty(0, scores.work)
    for keys, values, term in stripes:
        shape = (*query.shape[:2], keys.shape[1])
        size = shape[0] * shape[1] * shape[2]
        if scratch.size < size:
            scratch = np.empty(size, scores.work)
        products = scratch[:size].reshape(shape)
        np.matmul(query, keys.swapaxes(-1, -2), out=products)
        state.add(scores.logits(products, term), values)
    return state.result()


def _round_fractions_to_bf16(values: Floats) -> Floats:
    """Round float32 values in [0, 1] to the nearest bfloat16, ties to even, in place."""
    bits = values.view(np.uint32)
    half = bits >> np.uint32(16)
    half &= np.uint32(1)
    half += np.uint32(0x7FFF)
    bits += half
    bits &= np.uint32(0xFFFF0000)
    return values


def _to_half(values: Array) -> Array:
    """Round float32 values to float16 in place, ties to even; magnitudes beyond it become infinite.

    Adding and subtracting 1.5 * 2^13 times the power of two at or below a value leaves the 11 bits of float16;
    below 2^-14, where its step stays the same, so does the power.
    """
    power = (values.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    np.clip(power, np.float32(2.0**-14), np.float32(2.0**15), out=power)
    power *= np.float32(1.5 * 2.0**13)
    values += power
    values -= power
    # A NaN anywhere hides the others from the comparison; it then counts as an overflow.
    if not (values.max(initial=0) < _FP16_OVERFLOW and values.min(initial=0) > -_FP16_OVERFLOW):
        over = np.abs(values) >= np.float32(_FP16_OVERFLOW)
        values[over] = np.copysign(np.float32(np.inf), values[over])
    return values

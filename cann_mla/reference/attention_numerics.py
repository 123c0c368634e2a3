"""How an attention kernel computes: precision of scores, of the softmax and of the weights.

One object a kernel family. :mod:`cann_mla.reference.attention_core` runs the blocked softmax and asks the
object at every point where kernels differ:

=====================  ==============================================================
``logits``             scores out of products, with position bias
``ceiling``            what a block contributes to the running maximum
``shift``              subtracted from the running maximum before exponentiation
``weights``            the numerators as the second product takes them, and a gain for the product
``accumulate``         the running output
``output_gain``        what remains to be applied to the quotient
=====================  ==============================================================

Sources: CANN's vector kernels (arch22, arch35) and the goldens published beside them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cann_mla.reference.attention_numbers import (
    ROUNDINGS,
    Floats,
    Rounding,
    round_fractions_to_fp16,
    round_to_fp16,
    round_to_int8,
    rounding_to,
)

# Score of a hidden column in the kernels with a float32 softmax.
HIDDEN = -1.0e12
_FP16_MAX = 65504.0
_LN2 = np.float32(0.6931471806)
_INVERSE_LN2 = np.float32(1.4426950409)


class Numerics:
    """Computation without any intermediate rounding, in float64.

    Attributes
    ----------
    work : numpy dtype
        Type of scores and accumulators.
    block_columns : int or None
        Columns a block of the online softmax covers; None where no result depends on it.
    hidden : float
        Score of a hidden column.
    output_gain : float
        What the quotient of output and row sum is multiplied by.
    shift : float
        Subtracted from the running maximum before exponentiation, and nowhere else.
    """

    work: npt.DTypeLike = np.float64
    block_columns: int | None = None
    hidden = HIDDEN

    def __init__(self, output_gain: float = 1.0, shift: float = 0.0) -> None:
        self.output_gain = output_gain
        self.shift = shift

    def logits(self, products: Floats, bias: Floats | None) -> Floats:
        """Scores out of query-key products; may work in place."""
        if bias is not None:
            products += bias
        return products

    def ceiling(self, block_max: Floats) -> Floats:
        """Contribution of a block's row maxima to the running maximum."""
        return block_max

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Numerators as the second product takes them, and the factor (a column) that its result needs."""
        return numerators, None

    def accumulate(self, output: Floats, decay: Floats, product: Floats, gain: Floats | None) -> Floats:
        """Running output after another block; `output` may be reused."""
        output *= decay
        output += product if gain is None else product * gain
        return output

    def first(self, product: Floats, gain: Floats | None) -> Floats:
        """Running output after the first block."""
        return product if gain is None else product * gain


class FloatNumerics(Numerics):
    """FP16 or BF16 operands: float32 softmax, numerators rounded to the operand type.

    The rounding is a plain one, as in CANN's goldens. The MLA decode kernel of A2 and A3 keeps its running
    maxima at powers of two (an exponent addition instead of a multiplication): it rounds numerators that
    carry a factor near 1, which moves last bits in both directions, not values.
    """

    work = np.float32

    def __init__(self, operand: np.dtype[Any]) -> None:
        super().__init__()
        self._round = round_fractions_to_fp16 if operand == np.float16 else rounding_to(operand)

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Round to the operand type."""
        return self._round(numerators), None


class Int8Numerics(Numerics):
    """INT8 query, key and value with one scale each (deqScale1, quantScale1, deqScale2).

    Integer products are exact in float32 (at most 1024 columns or 512 dimensions of int8 by int8).
    """

    work = np.float32
    block_columns = 1024
    hidden = -_FP16_MAX

    def __init__(self, scale: float, deq_scale1: np.float32, quant_scale1: np.float32, deq_scale2: np.float32) -> None:
        super().__init__(float(deq_scale2))
        self._scale = np.float32(np.float16(scale))
        self._deq_scale1 = deq_scale1
        self._quant_scale1 = np.float32(np.float16(quant_scale1))

    def logits(self, products: Floats, bias: Floats | None) -> Floats:
        """Scale products and bias in FP16."""
        products *= self._deq_scale1
        scores = _to_fp16(products) * self._scale
        if bias is not None:
            scores = _to_fp16(scores) + bias
        return _to_fp16(scores)

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Quantise by quantScale1, through FP16."""
        scaled = _to_fp16(numerators) * self._quant_scale1
        return round_to_int8(_to_fp16(scaled)), None


class LatentInt8Numerics(Numerics):
    """Fully quantised latent attention of A2 and A3: numerators scaled to 127 a row and block, FP16 output.

    The products of a block leave the matrix unit divided by 1024, and the running output is kept in FP16.
    """

    work = np.float32
    block_columns = 512
    _REDUCTION = np.float32(1024)

    def __init__(self, value_scale: float) -> None:
        super().__init__(value_scale * float(self._REDUCTION) / 127.0)

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Quantise so that the largest of each row and block becomes 127, through FP16."""
        peak = np.exp(block_max - running_max) + np.float32(np.finfo(np.float64).eps)
        numerators *= np.float32(127) / peak
        return round_to_int8(_to_fp16(numerators)), peak

    def accumulate(self, output: Floats, decay: Floats, product: Floats, gain: Floats | None) -> Floats:
        """Add in FP16."""
        kept = _to_fp16(output * _to_fp16(decay.copy()))
        return _to_fp16(kept + self.first(product, gain))

    def first(self, product: Floats, gain: Floats | None) -> Floats:
        """Take the first block, in FP16."""
        assert gain is not None
        product /= self._REDUCTION
        return _to_fp16(_to_fp16(product) * _to_fp16(gain.copy()))


class LatentNumerics(Numerics):
    """Fully quantised latent attention of 950: numerators scaled to the largest value of the type a row and block."""

    work = np.float32
    block_columns = 128
    _LARGEST: ClassVar[dict[str, float]] = {"INT8": 127.0, "FLOAT8_E4M3FN": 448.0, "HIFLOAT8": 32768.0}

    def __init__(self, operand_name: str, value_scale: float) -> None:
        super().__init__(value_scale / self._LARGEST[operand_name])
        self._round = ROUNDINGS[operand_name]
        self._largest = np.float32(self._LARGEST[operand_name])

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Quantise so that the largest of each row and block fills the type."""
        peak = np.exp(block_max - running_max) + np.float32(np.finfo(np.float64).eps)
        numerators *= self._largest / peak
        return self._round(numerators), peak


class EightBitNumerics(Numerics):
    """FP8 or HIFLOAT8 numerators of 950, lifted by the P scale so that they use the type's range.

    Lifting is a change of the running maximum: exp(x - (m - ln pScale)) = pScale * exp(x - m).
    """

    work = np.float32
    block_columns = 256

    def __init__(self, rounding: Rounding, p_scale: float) -> None:
        super().__init__()
        self._round = rounding
        self._lift = np.float32(math.log(p_scale))

    def ceiling(self, block_max: Floats) -> Floats:
        """Lower the maximum, which lifts the numerators."""
        lowered: Floats = block_max - self._lift
        return lowered

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Round to the eight-bit type."""
        return self._round(numerators), None


class MicroscalingNumerics(Numerics):
    """MXFP8 of 950: running maxima raised to a multiple of ln 2, numerators lifted by the P scale.

    The kept maximum leaves the P scale out, so the row sum, and with it softmaxLse, has it in.
    """

    work = np.float32
    block_columns = 256

    def __init__(self, rounding: Rounding, p_scale: float) -> None:
        super().__init__(shift=math.log(p_scale))
        self._round = rounding

    def ceiling(self, block_max: Floats) -> Floats:
        """Raise the maximum to a multiple of ln 2."""
        raised: Floats = np.ceil(block_max * _INVERSE_LN2) * _LN2
        return raised

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Round to the eight-bit type."""
        return self._round(numerators), None


class PerTensorEightBitNumerics(Numerics):
    """FP8 or HIFLOAT8 operands with one scale each (deqScale1, quantScale1, deqScale2).

    Blocks are half as long for wide heads, whose keys would not fit otherwise.
    """

    work = np.float32
    hidden = -_FP16_MAX

    def __init__(self, rounding: Rounding, quant_scale1: np.float32, deq_scale2: np.float32, key_width: int) -> None:
        super().__init__(float(deq_scale2))
        self.block_columns = 128 if key_width <= 128 else 64
        self._round = rounding
        self._quant_scale1 = quant_scale1

    def weights(self, numerators: Floats, block_max: Floats, running_max: Floats) -> tuple[Floats, Floats | None]:
        """Multiply by quantScale1 and round to the eight-bit type."""
        numerators *= self._quant_scale1
        return self._round(numerators), None


def _to_fp16(values: Floats) -> Floats:
    """Round to FP16 in place, saturating as the fixed-point pipe does."""
    single = values.astype(np.float32, copy=False)
    np.clip(single, -_FP16_MAX, _FP16_MAX, out=single)
    return round_to_fp16(single)

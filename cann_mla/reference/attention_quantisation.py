"""Which quantisation a call uses, and what it means for operands and numerics.

The element types and a few attributes decide:

==========================  =========================================================================
none                        query, key and value of one FP16 or BF16 type; every scale is ignored
antiquantisation            FP16 or BF16 query, narrower key and value: (x + offset) * scale
per tensor                  all INT8 (or FP8, HIFLOAT8): deqScale1, quantScale1, deqScale2
latent (MLA)                rope present, ``dequantScaleQuery`` a row, one scale for key and value
FP8 a token and head        ``queryQuantMode`` 3, ``keyAntiquantMode`` 3, ``valueAntiquantMode`` 2
MXFP8                       ``queryQuantMode`` 6, key 6, value 8: E8M0 scales for groups of 32
per block                   modes 7: 128 query rows, 256 key rows a scale
==========================  =========================================================================

Scales that multiply an operand are applied to it; in exact precision nothing else is needed. Where device
kernels round differently, the numerics of :mod:`cann_mla.reference.attention_numerics` say so.

Source: aclnnFusedInferAttentionScoreV5, quantisation tables; the FP8 and MXFP8 goldens of CANN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import BF16, FP16, INT8, Array, dtype
from cann_mla.reference.attention_dequantisation import (
    CHANNEL,
    GROUP,
    GROUP_WIDTH,
    HEAD,
    PAGED_TOKEN_HEAD,
    TOKEN,
    Dequantiser,
    ParameterRows,
    antiquant_parameter,
    merged_halves,
)
from cann_mla.reference.attention_layouts import heads_first
from cann_mla.reference.attention_lengths import Span
from cann_mla.reference.attention_microscaling import key_scales, query_scales, value_scales
from cann_mla.reference.attention_numbers import ROUNDINGS, upper_19_bits
from cann_mla.reference.attention_numerics import (
    EightBitNumerics,
    FloatNumerics,
    Int8Numerics,
    LatentInt8Numerics,
    LatentNumerics,
    MicroscalingNumerics,
    Numerics,
    PerTensorEightBitNumerics,
)
from cann_mla.reference.attention_operands import AttentionOperands

_LATENT_OR_TOKEN_MODE, _MICROSCALING_MODE, _BLOCK_MODE = 3, 6, 7
_QUERY_BLOCK, _KEY_BLOCK = 128, 256
_PLAIN = (FP16.numpy, BF16.numpy)


@dataclass(frozen=True)
class Quantisation:
    """How a call's operands become numbers.

    Attributes
    ----------
    numerics : Numerics
    score_scale : float
        Factor of the products of dequantised query and key; 1.0 where the numerics apply it themselves.
    query, query_rope, key, value : Dequantiser or None
        None: the operand's values are used as they are.
    """

    numerics: Numerics
    score_scale: float
    query: Dequantiser | None = None
    query_rope: Dequantiser | None = None
    key: Dequantiser | None = None
    value: Dequantiser | None = None


def select_quantisation(operands: AttentionOperands, soc: str, exact: bool) -> Quantisation:
    """Quantisation of a call.

    Raises
    ------
    ValueError
        If a scale is missing or has a shape that its mode does not know.
    """
    query_type, key_type = operands.given.query.dtype, operands.keys[0].dtype
    if query_type == key_type and query_type in _PLAIN:
        return Quantisation(Numerics() if exact else FloatNumerics(query_type), operands.given.scale_value)
    if query_type in _PLAIN:
        return _antiquantisation(operands, exact)
    if operands.given.dequant_scale_query is None:
        return _per_tensor(operands, exact)
    if operands.given.query_rope is not None and operands.given.query_quant_mode == _LATENT_OR_TOKEN_MODE:
        return _latent(operands, soc, exact)
    if operands.given.query_quant_mode == _MICROSCALING_MODE:
        return _microscaling(operands, exact)
    if operands.given.query_quant_mode == _BLOCK_MODE:
        return _per_block(operands, exact)
    return _token_and_head(operands, exact)


def _antiquantisation(operands: AttentionOperands, exact: bool) -> Quantisation:
    o = operands
    key_mode, value_mode = o.given.key_antiquant_mode, o.given.value_antiquant_mode
    key_scale, value_scale = o.given.key_antiquant_scale, o.given.value_antiquant_scale
    key_offset, value_offset = o.given.key_antiquant_offset, o.given.value_antiquant_offset
    if key_scale is None:
        key_mode = value_mode = TOKEN if o.given.antiquant_mode == 1 else CHANNEL
        key_scale, value_scale = merged_halves(o.given.antiquant_scale)
        key_offset, value_offset = merged_halves(o.given.antiquant_offset)
    # The kernels for INT8 keep the dequantised values in FP32; those for other types go through FP16.
    narrow = o.keys[0].dtype != INT8.numpy

    def dequantiser(scale: Array | None, offset: Array | None, mode: int, width: int) -> Dequantiser:
        if scale is None:
            raise ValueError(
                f"key of {dtype(o.keys[0].dtype).name} under a query of {dtype(o.given.query.dtype).name} "
                "needs antiquantScale, or keyAntiquantScale and valueAntiquantScale"
            )
        parts = [
            None if p is None else antiquant_parameter(p, mode, o.key_heads, width, o.key_spans, o.given.block_table)
            for p in (scale, offset)
        ]
        assert parts[0] is not None
        return Dequantiser(parts[0], parts[1], GROUP_WIDTH if mode == GROUP else 1, narrow)

    return Quantisation(
        Numerics() if exact else FloatNumerics(o.given.query.dtype),
        o.given.scale_value,
        key=dequantiser(key_scale, key_offset, key_mode, o.key_width),
        value=dequantiser(value_scale, value_offset, value_mode, o.value_width),
    )


def _per_tensor(operands: AttentionOperands, exact: bool) -> Quantisation:
    o = operands
    if o.given.deq_scale1 is None or o.given.quant_scale1 is None or o.given.deq_scale2 is None:
        raise ValueError(
            f"a query of {dtype(o.given.query.dtype).name} needs deqScale1, quantScale1 and deqScale2, "
            "or dequantScaleQuery"
        )
    deq_scale1, deq_scale2 = upper_19_bits(o.given.deq_scale1), upper_19_bits(o.given.deq_scale2)
    quant_scale1 = np.float32(np.asarray(o.given.quant_scale1, np.float32).reshape(-1)[0])
    folded = o.given.scale_value * float(deq_scale1)
    if exact:
        return Quantisation(Numerics(float(quant_scale1) * float(deq_scale2)), folded)
    if o.given.query.dtype == INT8.numpy:
        return Quantisation(Int8Numerics(o.given.scale_value, deq_scale1, quant_scale1, deq_scale2), 1.0)
    rounding = ROUNDINGS[dtype(o.given.query.dtype).name]
    return Quantisation(PerTensorEightBitNumerics(rounding, quant_scale1, deq_scale2, o.key_width), folded)


def _latent(operands: AttentionOperands, soc: str, exact: bool) -> Quantisation:
    """Latent attention: the rope product is scaled together with the rest, so its operand comes divided."""
    o = operands
    assert o.given.dequant_scale_query is not None
    key_scale, value_scale = (
        _one(o.given.key_antiquant_scale, "keyAntiquantScale"),
        _one(o.given.value_antiquant_scale, "valueAntiquantScale"),
    )
    order = "BSND" if o.layouts.inputs == "BSH" else o.layouts.inputs
    scales = heads_first(o.given.dequant_scale_query[..., None], order, o.heads)
    by_row = Dequantiser(ParameterRows(scales, [span.start for span in o.query_spans]))
    name = dtype(o.given.query.dtype).name
    if exact:
        numerics = Numerics(value_scale)
    elif name == "INT8" and soc != "Ascend950":
        numerics = LatentInt8Numerics(value_scale)
    else:
        numerics = LatentNumerics(name, value_scale)
    return Quantisation(numerics, o.given.scale_value * key_scale, query=by_row, query_rope=by_row)


def _token_and_head(operands: AttentionOperands, exact: bool) -> Quantisation:
    o = operands
    assert o.given.dequant_scale_query is not None
    if o.given.key_antiquant_scale is None or o.given.value_antiquant_scale is None:
        raise ValueError("an FP8 query with dequantScaleQuery needs keyAntiquantScale and valueAntiquantScale")
    starts = [span.start for span in o.query_spans]
    spans, table = o.key_spans, o.given.block_table
    key_scale = antiquant_parameter(
        o.given.key_antiquant_scale, PAGED_TOKEN_HEAD, o.key_heads, o.key_width, spans, table
    )
    value_scale = antiquant_parameter(o.given.value_antiquant_scale, HEAD, o.key_heads, o.value_width, spans, table)
    return Quantisation(
        _eight_bit(o, exact),
        o.given.scale_value,
        query=Dequantiser(ParameterRows(o.given.dequant_scale_query[None, :, :, None], starts)),
        key=Dequantiser(key_scale),
        value=Dequantiser(value_scale),
    )


def _per_block(operands: AttentionOperands, exact: bool) -> Quantisation:
    o = operands
    assert o.given.dequant_scale_query is not None
    if o.given.key_antiquant_scale is None or o.given.value_antiquant_scale is None:
        raise ValueError("queryQuantMode 7 needs dequantScaleQuery, keyAntiquantScale and valueAntiquantScale")

    def by_block(scales: Array, spans: list[Span], rows_each: int) -> Dequantiser:
        if scales.ndim == 4:
            return Dequantiser(_block_rows(scales, None, rows_each))
        # Packed sequences start on a block of their own: T / rows_each + sequence.
        return Dequantiser(
            _block_rows(scales[None], [s.start // rows_each + i for i, s in enumerate(spans)], rows_each)
        )

    return Quantisation(
        _eight_bit(o, exact),
        o.given.scale_value,
        query=by_block(o.given.dequant_scale_query, o.query_spans, _QUERY_BLOCK),
        key=by_block(o.given.key_antiquant_scale, o.key_spans, _KEY_BLOCK),
        value=by_block(o.given.value_antiquant_scale, o.key_spans, _KEY_BLOCK),
    )


def _block_rows(scales: Array, starts: list[int] | None, rows_each: int) -> ParameterRows:
    return ParameterRows(scales[..., :1], starts, rows_each)


def _microscaling(operands: AttentionOperands, exact: bool) -> Quantisation:
    o = operands
    if (
        o.given.dequant_scale_query is None
        or o.given.key_antiquant_scale is None
        or o.given.value_antiquant_scale is None
    ):
        raise ValueError("queryQuantMode 6 needs dequantScaleQuery, keyAntiquantScale and valueAntiquantScale")
    p_scale = _p_scale(o)
    numerics = (
        Numerics(shift=float(np.log(p_scale)))
        if exact
        else MicroscalingNumerics(ROUNDINGS[dtype(o.given.query.dtype).name], p_scale)
    )
    return Quantisation(
        numerics,
        o.given.scale_value,
        query=Dequantiser(query_scales(o), width_each=GROUP_WIDTH),
        key=Dequantiser(key_scales(o), width_each=GROUP_WIDTH),
        value=Dequantiser(value_scales(o)),
    )


def _eight_bit(operands: AttentionOperands, exact: bool) -> Numerics:
    return (
        Numerics() if exact else EightBitNumerics(ROUNDINGS[dtype(operands.given.query.dtype).name], _p_scale(operands))
    )


def _p_scale(operands: AttentionOperands) -> float:
    return (
        1.0
        if operands.given.quant_scale1 is None
        else float(np.asarray(operands.given.quant_scale1, np.float64).reshape(-1)[0])
    )


def _one(scale: Array | None, name: str) -> float:
    if scale is None or scale.size != 1:
        found = "nothing" if scale is None else f"shape {scale.shape}"
        raise ValueError(f"{name} of a fully quantised latent attention has one element, got {found}")
    return float(np.asarray(scale, np.float64).reshape(-1)[0])

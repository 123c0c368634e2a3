"""aclnnFusedInferAttentionScore, V1 to V5: attention for inference.

One function serves the five versions, whose parameters are subsets of one list
(:data:`cann_mla.reference.attention_parameters.PARAMETERS_SINCE`).

Source: aclnnFusedInferAttentionScore .. V5; for what the pages leave open, the kernels of CANN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cann_mla.dtypes import Array, DType, dtype
from cann_mla.reference.attention_core import SequenceProblem, attend
from cann_mla.reference.attention_operands import AttentionOperands, resolve_operands
from cann_mla.reference.attention_outputs import AttentionOutputs, PostQuantisation, default_output_type
from cann_mla.reference.attention_parameters import PARAMETERS_SINCE, AttentionParameters
from cann_mla.reference.attention_quantisation import select_quantisation
from cann_mla.reference.attention_readers import AttentionReaders

_PREFIX = "aclnnFusedInferAttentionScore"
_ZERO_MASKED_ROWS = 2


class AttentionResult(NamedTuple):
    """attentionOut, and softmaxLse where it was asked for."""

    attention: Array
    softmax_lse: Array | None


def fused_infer_attention_score(
    query: Array,
    key: Array | Sequence[Array],
    value: Array | Sequence[Array],
    *,
    num_heads: int,
    soc: str = "Ascend910B",
    precision: str = "device",
    out_dtype: DType | str | None = None,
    **parameters: Any,
) -> AttentionResult:
    """Attention of every query row over its sequence's keys and values.

    With query head n reading key head ``n // (num_heads / num_key_value_heads)``::

        x = scale_value * (query . key + query_rope . key_rope) + pse_shift
        attention = softmax(x) @ value            softmax_lse = log(sum(exp(x)))

    Parameters
    ----------
    query, key, value, num_heads, **parameters
        Operands and attributes by the snake_case of their C names; documented in
        :class:`cann_mla.reference.attention_parameters.AttentionParameters`.
    soc : {"Ascend910B", "Ascend910_93", "Ascend950"}
        Product whose kernels are meant.
    precision : {"device", "exact"}
        Rounding points of the kernels; or float64 throughout, floating results staying float64.
    out_dtype : DType or str, optional
        Type of the output; by default INT8 with quant_scale2, else the type of a floating query, of the rope
        of a quantised one, or FP16.

    Returns
    -------
    AttentionResult
        attention in the output part of `input_layout`; softmax_lse float32, (B, heads, S1, 1), or
        (T, heads, 1) for TND and NTD outputs. Rows outside the actual lengths, and rows that see no column,
        are 0 with an infinite lse.

    Raises
    ------
    ValueError
        If shapes, lengths or modes do not fit together.
    NotImplementedError
        If `pse_type` is not 0.
    """
    if precision not in ("device", "exact"):
        raise ValueError(f"precision is 'device' or 'exact', not {precision!r}")
    given = AttentionParameters(query=query, key=key, value=value, num_heads=num_heads, **parameters)
    if given.pse_type != 0:
        raise NotImplementedError(
            f"pseType {given.pse_type}: CANN takes only 0; there is no generated position bias"
        )
    exact = precision == "exact"
    operands = resolve_operands(given, soc)
    outputs = _outputs(operands, exact, out_dtype)
    quantisation = select_quantisation(operands, soc, exact)
    readers = AttentionReaders(operands, quantisation)
    for sequence, (query_span, mask) in enumerate(zip(operands.query_spans, operands.masks, strict=True)):
        if not mask.rows or not mask.columns:
            continue
        problem = SequenceProblem(
            key_heads=operands.key_heads,
            group=operands.group,
            read_query=readers.query(sequence),
            read_key_value=readers.key_value(sequence),
            mask=mask,
            bias=_bias(operands, sequence),
            sink=None if given.learnable_sink is None else given.learnable_sink.reshape(-1, operands.group),
            zero_masked_rows=bool(given.inner_precise & _ZERO_MASKED_ROWS),
            value_width=operands.value_width,
        )
        for tile in attend(problem, quantisation.numerics):
            outputs.store(query_span, tile)
    return AttentionResult(outputs.attention, outputs.softmax_lse)


def _outputs(operands: AttentionOperands, exact: bool, out_dtype: DType | str | None) -> AttentionOutputs:
    given = operands.given
    batches, _, tokens, _ = operands.query.shape
    rope = None if given.query_rope is None else given.query_rope.dtype
    post = None if given.quant_scale2 is None else PostQuantisation(given.quant_scale2, given.quant_offset2)
    element = (
        default_output_type(given.query.dtype, rope, post is not None)
        if out_dtype is None
        else dtype(out_dtype)
    )
    return AttentionOutputs(
        operands.layouts,
        batches,
        operands.heads,
        tokens,
        operands.value_width,
        element,
        exact,
        post,
        given.softmax_lse_flag,
    )


def _bias(operands: AttentionOperands, sequence: int) -> Array | None:
    """pseShift of one sequence, shape (key heads, group, rows or 1, columns); absolute positions under left padding."""
    pse = operands.given.pse_shift
    if pse is None:
        return None
    if pse.ndim != 4 or pse.shape[1] != operands.heads:
        raise ValueError(f"pseShift has the shape (B or 1, {operands.heads}, S1 or 1, S2), got {pse.shape}")
    mask, query, key = operands.masks[sequence], operands.query_spans[sequence], operands.key_spans[sequence]
    row, column = (0, 0) if operands.layouts.packed else (query.start, key.start)
    own = pse[sequence if pse.shape[0] > 1 else 0]
    rows = own if own.shape[1] == 1 else own[:, row : row + mask.rows]
    part = rows[..., column : column + mask.columns]
    return part.reshape(operands.key_heads, operands.group, *part.shape[1:])


def evaluate(
    symbol: str,
    arguments: Mapping[str, Any],
    outputs: Mapping[str, tuple[tuple[int, ...], DType]],
    *,
    soc: str,
    precision: str,
) -> dict[str, Array]:
    """Entry of :func:`cann_mla.reference.evaluate` for the five symbols.

    Raises
    ------
    ValueError
        If an argument is not one of the version's, or attentionOut was not asked for.
    """
    version = int(symbol.removeprefix(_PREFIX).removeprefix("V") or 1)
    known = {name for since, names in PARAMETERS_SINCE.items() if since <= version for name in names}
    unknown = set(arguments) - known
    if unknown:
        raise ValueError(f"{symbol} has no {', '.join(sorted(unknown))}")
    if "attention" not in outputs:
        raise ValueError(f"{symbol} needs attentionOut, which may not be null")
    shape, element = outputs["attention"]
    result = fused_infer_attention_score(**arguments, soc=soc, precision=precision, out_dtype=element)
    if result.attention.shape != tuple(shape):
        raise ValueError(f"attentionOut has shape {tuple(shape)}; {symbol} gives {result.attention.shape}")
    named = {"attention": result.attention}
    if result.softmax_lse is not None and "softmax_lse" in outputs:
        named["softmax_lse"] = result.softmax_lse
    return named

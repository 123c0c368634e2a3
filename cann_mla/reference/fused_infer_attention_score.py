"""aclnnFusedInferAttentionScore, V1 to V5: attention for inference.

One function serves the five versions, whose parameters are subsets of one list
(:data:`cann_mla.reference.attention_parameters.PARAMETERS_SINCE`).

Source: aclnnFusedInferAttentionScore .. V5; for what the pages leave open, the kernels of CANN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array, DType, dtype
from cann_mla.reference.attention_core import MOST_WORKERS, SequenceProblem, attend
from cann_mla.reference.attention_layouts import heads_first, parse_layouts
from cann_mla.reference.attention_operands import AttentionOperands, resolve_operands
from cann_mla.reference.attention_outputs import AttentionOutputs, PostQuantisation, default_output_type
from cann_mla.reference.attention_parameters import PARAMETERS_SINCE, AttentionParameters
from cann_mla.reference.attention_quantisation import select_quantisation
from cann_mla.reference.attention_readers import AttentionReaders

_PREFIX = "aclnnFusedInferAttentionScore"
_LENGTHS = {"actual_seq_lengths", "actual_seq_lengths_kv", "actual_shared_prefix_len"}
_ZERO_MASKED_ROWS = 2


class AttentionResult(NamedTuple):
    """attentionOut, and softmaxLse where it was asked for."""

    attention: Array
    softmax_lse: Array | None


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
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
        are 0 with an infinite lse. Infinities and NaN go through as on the device, without a warning.

    Raises
    ------
    ValueError
        If shapes, lengths or modes do not fit together.
    NotImplementedError
        If `pse_type` is not 0.
    """
    if precision not in ("device", "exact"):
        raise ValueError(f"precision is 'device' or 'exact', not {precision!r}")
    for name in _LENGTHS & parameters.keys():
        parameters[name] = None if parameters[name] is None else [int(n) for n in parameters[name]]
    given = AttentionParameters(query=query, key=key, value=value, num_heads=num_heads, **parameters)
    if given.pse_type != 0:
        raise NotImplementedError(f"pseType {given.pse_type}: CANN takes only 0; there is no generated position bias")
    exact = precision == "exact"
    if _is_empty(given):
        return _empty_result(given, exact, out_dtype)
    operands = resolve_operands(given, soc)
    outputs = _outputs(operands, exact, out_dtype)
    quantisation = select_quantisation(operands, soc, exact)
    readers = AttentionReaders(operands, quantisation)
    with ThreadPoolExecutor(MOST_WORKERS) as pool:
        for sequence, (span, mask) in enumerate(zip(operands.query_spans, operands.masks, strict=True)):
            if mask.rows and mask.columns:
                problem = _problem(operands, readers, sequence)
                for tile in attend(problem, quantisation.numerics, pool):
                    outputs.store(span, tile)
    return AttentionResult(outputs.attention, outputs.softmax_lse)


def _problem(operands: AttentionOperands, readers: AttentionReaders, sequence: int) -> SequenceProblem:
    given = operands.given
    return SequenceProblem(
        key_heads=operands.key_heads,
        group=operands.group,
        read_query=readers.query(sequence),
        read_key_value=readers.key_value(sequence),
        mask=operands.masks[sequence],
        bias=_bias(operands, sequence),
        sink=None if given.learnable_sink is None else given.learnable_sink.reshape(-1, operands.group),
        zero_masked_rows=bool(given.inner_precise & _ZERO_MASKED_ROWS),
        value_width=operands.value_width,
    )


def _is_empty(given: AttentionParameters) -> bool:
    keys, values = ([o] if isinstance(o, np.ndarray) else o for o in (given.key, given.value))
    return given.query.size == 0 or all(array.size == 0 for array in (*keys, *values))


def _empty_result(given: AttentionParameters, exact: bool, out_dtype: DType | str | None) -> AttentionResult:
    """Zeros with an infinite lse: nothing is computed, and CANN looks at no other operand."""
    layouts = parse_layouts(given.input_layout)
    heads = max(given.num_heads, 1)
    batches, _, tokens, width = heads_first(given.query, layouts.inputs, given.num_heads).shape
    outputs = AttentionOutputs(
        layouts, batches, heads, tokens, width, _output_type(given, out_dtype), exact, None, given.softmax_lse_flag
    )
    return AttentionResult(outputs.attention, outputs.softmax_lse)


def _output_type(given: AttentionParameters, out_dtype: DType | str | None) -> DType:
    if out_dtype is not None:
        return dtype(out_dtype)
    rope = None if given.query_rope is None else given.query_rope.dtype
    return default_output_type(given.query.dtype, rope, given.quant_scale2 is not None)


def _outputs(operands: AttentionOperands, exact: bool, out_dtype: DType | str | None) -> AttentionOutputs:
    given = operands.given
    batches, _, tokens, _ = operands.query.shape
    post = None if given.quant_scale2 is None else PostQuantisation(given.quant_scale2, given.quant_offset2)
    return AttentionOutputs(
        operands.layouts,
        batches,
        operands.heads,
        tokens,
        operands.value_width,
        _output_type(given, out_dtype),
        exact,
        post,
        given.softmax_lse_flag,
    )


def _bias(operands: AttentionOperands, sequence: int) -> Array | None:
    """pseShift of one sequence, shape (key heads, group, rows or 1, columns).

    Rows and columns are absolute positions under left padding. Packed layouts ignore the operand.
    """
    pse = operands.given.pse_shift
    if pse is None or operands.layouts.packed:
        return None
    if pse.ndim != 4 or pse.shape[1] != operands.heads:
        raise ValueError(f"pseShift has the shape (B or 1, {operands.heads}, S1 or 1, S2), got {pse.shape}")
    mask, query, key = operands.masks[sequence], operands.query_spans[sequence], operands.key_spans[sequence]
    own = pse[sequence if pse.shape[0] > 1 else 0]
    rows = own if own.shape[1] == 1 else own[:, query.start : query.start + mask.rows]
    part = rows[..., key.start : key.start + mask.columns]
    by_group: Array = part.reshape(operands.key_heads, operands.group, *part.shape[1:])
    return by_group


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
    if 0 in shape:
        # Nothing to write, so CANN looks at no operand.
        named = {"attention": np.zeros(shape, element.numpy)}
        if "softmax_lse" in outputs:
            named["softmax_lse"] = np.full(outputs["softmax_lse"][0], np.inf, np.float32)
        return named
    result = fused_infer_attention_score(**arguments, soc=soc, precision=precision, out_dtype=element)
    named = {"attention": _as_declared(result.attention, shape)}
    if result.softmax_lse is not None and "softmax_lse" in outputs:
        named["softmax_lse"] = _as_declared(result.softmax_lse, outputs["softmax_lse"][0])
    return named


def _as_declared(array: Array, shape: tuple[int, ...]) -> Array:
    """Result under the caller's shape: CANN accepts larger outputs and writes its rows densely from the start."""
    if array.shape == tuple(shape):
        return array
    numel = int(np.prod(shape, dtype=np.int64))
    if numel < array.size:
        raise ValueError(f"an output of shape {tuple(shape)} is too small for the result of shape {array.shape}")
    declared = np.zeros(numel, array.dtype)
    declared[: array.size] = array.reshape(-1)
    return declared.reshape(shape)

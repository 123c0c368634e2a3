"""One door to every reference: by C symbol, with C names, as a validator has them.

Naming rule: a C parameter name in snake_case, without the suffixes ``Optional``, ``Ref`` and ``Out``
(``dequantScaleQNopeOutOptional`` -> ``dequant_scale_q_nope``). A name that is nothing but a suffix
(``out``) stays.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cann_mla.dtypes import Array, DType

Arguments: TypeAlias = dict[str, Any]
Requested: TypeAlias = Mapping[str, tuple[tuple[int, ...], DType]]

# Symbol -> "module:function". The function is called as
#     function(symbol, arguments, outputs, soc=soc, precision=precision) -> dict[str, ndarray]
# where arguments (operands and attributes together, null ones left out), outputs (shape and DType of those
# asked for) and the result (outputs and updated in-place operands) go by snake_case names.
FAMILIES: dict[str, str] = {
    "aclnnFusedInferAttentionScore": "cann_mla.reference.fused_infer_attention_score:evaluate",
    "aclnnFusedInferAttentionScoreV2": "cann_mla.reference.fused_infer_attention_score:evaluate",
    "aclnnFusedInferAttentionScoreV3": "cann_mla.reference.fused_infer_attention_score:evaluate",
    "aclnnFusedInferAttentionScoreV4": "cann_mla.reference.fused_infer_attention_score:evaluate",
    "aclnnFusedInferAttentionScoreV5": "cann_mla.reference.fused_infer_attention_score:evaluate",
    "aclnnRingAttentionUpdate": "cann_mla.reference.ring_attention_update:evaluate",
    "aclnnRingAttentionUpdateV2": "cann_mla.reference.ring_attention_update:evaluate",
    "aclnnMlaProlog": "cann_mla.reference.mla_prolog_versions:evaluate",
    "aclnnMlaPrologV2WeightNz": "cann_mla.reference.mla_prolog_versions:evaluate",
    "aclnnMlaPrologV3WeightNz": "cann_mla.reference.mla_prolog_versions:evaluate",
    "mla_prolog": "cann_mla.reference.mla_prolog_quant:evaluate",
    "mla_prolog_quant": "cann_mla.reference.mla_prolog_quant:evaluate",
    "aclnnMm": "cann_mla.reference.primitives_matmul:evaluate",
    "aclnnMatmul": "cann_mla.reference.primitives_matmul:evaluate",
    "aclnnMatmulWeightNz": "cann_mla.reference.primitives_matmul:evaluate",
    "aclnnQuantMatmulV3": "cann_mla.reference.primitives_quant_matmul:evaluate",
    "aclnnQuantMatmulV4": "cann_mla.reference.primitives_quant_matmul:evaluate",
    "aclnnQuantMatmulV5": "cann_mla.reference.primitives_quant_matmul:evaluate",
    "aclnnQuantMatmulWeightNz": "cann_mla.reference.primitives_quant_matmul:evaluate",
    "aclnnRmsNorm": "cann_mla.reference.primitives_norm:evaluate",
    "aclnnDynamicQuant": "cann_mla.reference.primitives_norm:evaluate",
    "aclnnDynamicQuantV2": "cann_mla.reference.primitives_norm:evaluate",
    "aclnnRotaryPositionEmbedding": "cann_mla.reference.primitives_rotary:evaluate",
    "aclnnInterleaveRope": "cann_mla.reference.primitives_rotary:evaluate",
    "aclnnInplacePartialRotaryMul": "cann_mla.reference.primitives_rotary:evaluate",
    "aclnnCast": "cann_mla.reference.primitives_cast:evaluate",
    "aclnnTransMatmulWeight": "cann_mla.reference.primitives_cast:evaluate",
    "aclnnNpuFormatCast": "cann_mla.reference.primitives_cast:evaluate",
    "aclnnKvRmsNormRopeCache": "cann_mla.reference.primitives_cache:evaluate",
    "aclnnKvRmsNormRopeCacheV2": "cann_mla.reference.primitives_cache:evaluate",
    "aclnnScatterPaKvCache": "cann_mla.reference.primitives_cache:evaluate",
    "aclnnAbs": "cann_mla.reference.primitives_elementwise:evaluate",
    "aclnnAmax": "cann_mla.reference.primitives_elementwise:evaluate",
    "aclnnDiv": "cann_mla.reference.primitives_elementwise:evaluate",
    "aclnnMul": "cann_mla.reference.primitives_elementwise:evaluate",
    "aclnnInplaceMul": "cann_mla.reference.primitives_elementwise:evaluate",
    "aclnnAscendQuant": "cann_mla.reference.primitives_quant:evaluate",
    "aclnnAscendQuantV3": "cann_mla.reference.primitives_quant:evaluate",
    "AtbFusedAddTopkDiv": "cann_mla.reference.atb_fused_add_topk_div:evaluate",
    "AtbMLA": "cann_mla.reference.atb_mla:evaluate",
    "AtbMLAPreFill": "cann_mla.reference.atb_mla_prefill:evaluate",
    "AtbMLAPreprocess": "cann_mla.reference.atb_mla_preprocess:evaluate",
    "AtbPagedCacheLoad": "cann_mla.reference.atb_paged_cache_load:evaluate",
    "AtbRingMLA": "cann_mla.reference.ring_mla:evaluate",
    "AtbSelfAttentionPrefixEncoder": "cann_mla.reference.atb_self_attention_prefix_encoder:evaluate",
}


def snake_name(c_name: str) -> str:
    """Python name of a C parameter, by the rule of this module."""
    base = c_name
    for suffix in ("Optional", "Ref", "Out"):
        if base.endswith(suffix) and base != suffix:
            base = base[: -len(suffix)]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()


def evaluate(
    op: str,
    tensors: Mapping[str, Array | list[Array] | None],
    attrs: Mapping[str, Any],
    *,
    soc: str,
    precision: str = "device",
    outputs: Requested,
) -> dict[str, Array]:
    """Compute the expected result of one operator call.

    Parameters
    ----------
    op : str
        C symbol of phase two, such as ``"aclnnMlaPrologV3WeightNz"``.
    tensors : mapping of C name to array, list of arrays or None
        Inputs and in-place operands in their NumPy forms (:mod:`cann_mla.dtypes`). FRACTAL_NZ weights as the
        logical row-major matrix, everything else in memory order under its declared shape. Not modified.
    attrs : mapping of C name to value
        Host arguments; None or absent takes the documented default.
    soc : {"Ascend910B", "Ascend910_93", "Ascend950"}
        Product whose kernel is meant.
    precision : {"device", "exact"}
        ``device`` rounds where the kernel rounds and returns the declared types. ``exact`` computes in
        float64 without intermediate rounding; floating outputs stay float64, quantised ones are quantised.
    outputs : mapping of C name to (shape, DType)
        The outputs that were asked for (not null).

    Returns
    -------
    dict of C name to ndarray
        Requested outputs, and in-place operands as the call leaves them.

    Raises
    ------
    NotImplementedError
        If there is no reference for `op`.
    """
    if op not in FAMILIES:
        raise NotImplementedError(f"no reference for {op}; there is one for {', '.join(sorted(FAMILIES))}")
    module, function = FAMILIES[op].split(":")
    family: Callable[..., dict[str, Array]] = getattr(importlib.import_module(module), function)
    arguments = {snake_name(n): v for n, v in {**tensors, **attrs}.items() if v is not None}
    requested = {snake_name(n): spec for n, spec in outputs.items()}
    results = family(op, arguments, requested, soc=soc, precision=precision)
    return _by_c_name(results, [*outputs, *(n for n in tensors if n not in outputs)])


def _by_c_name(results: dict[str, Array], c_names: list[str]) -> dict[str, Array]:
    """Give results their C names back; outputs come first, because an input may share the short name."""
    named: dict[str, Array] = {}
    taken: set[str] = set()
    for c_name in c_names:
        short = snake_name(c_name)
        if short in results and short not in taken:
            named[c_name] = results[short]
            taken.add(short)
    return named

"""Operators as documented Python functions: names, defaults and output shapes over :func:`cann_mla.operator`."""

from __future__ import annotations

from cann_mla.ops.call import snake_case
from cann_mla.ops.fused_add_topk_div import FusedAddTopkDivResult, fused_add_topk_div
from cann_mla.ops.fused_infer_attention import FusedInferAttentionResult, fused_infer_attention
from cann_mla.ops.fused_infer_attention_shapes import LAYOUTS as ATTENTION_LAYOUTS
from cann_mla.ops.kv_quantisation import KvQuantisation, pack_int4, unpack_int4
from cann_mla.ops.masks import band_mask, causal_mask, compressed_mask
from cann_mla.ops.mla import MlaResult, mla
from cann_mla.ops.mla_masks import mla_mask
from cann_mla.ops.mla_prefill import mla_prefill
from cann_mla.ops.mla_preprocess import MlaPreprocessResult, mla_preprocess
from cann_mla.ops.mla_preprocess_operands import scale_bits
from cann_mla.ops.mla_prolog import (
    SCENARIOS,
    MlaPrologResult,
    mla_prolog_v1,
    mla_prolog_v2,
    mla_prolog_v3,
    pack_weight,
)
from cann_mla.ops.mla_prolog_quant import MlaPrologQuantPlan, MlaPrologQuantResult, mla_prolog, mla_prolog_quant
from cann_mla.ops.paged_cache_load import PagedCacheLoadResult, paged_cache_load
from cann_mla.ops.paging import block_table, from_paged_cache, paged_cache
from cann_mla.ops.ring_attention_update import (
    RingAttentionUpdateResult,
    ring_attention_update,
    softmax_statistics,
)
from cann_mla.ops.ring_mla import RingMlaResult, ring_mla, ring_mla_mask
from cann_mla.ops.self_attention_prefix_encoder import prefix_encoder_mask, self_attention_prefix_encoder
from cann_mla.ops.sequence import OperatorSequence
from cann_mla.ops.sequence_lengths import lengths_of, prefix_sums

__all__ = [
    "ATTENTION_LAYOUTS",
    "SCENARIOS",
    "FusedAddTopkDivResult",
    "FusedInferAttentionResult",
    "KvQuantisation",
    "MlaPreprocessResult",
    "MlaPrologQuantPlan",
    "MlaPrologQuantResult",
    "MlaPrologResult",
    "MlaResult",
    "OperatorSequence",
    "PagedCacheLoadResult",
    "RingAttentionUpdateResult",
    "RingMlaResult",
    "band_mask",
    "block_table",
    "causal_mask",
    "compressed_mask",
    "from_paged_cache",
    "fused_add_topk_div",
    "fused_infer_attention",
    "lengths_of",
    "mla",
    "mla_mask",
    "mla_prefill",
    "mla_preprocess",
    "mla_prolog",
    "mla_prolog_quant",
    "mla_prolog_v1",
    "mla_prolog_v2",
    "mla_prolog_v3",
    "pack_int4",
    "pack_weight",
    "paged_cache",
    "paged_cache_load",
    "prefix_encoder_mask",
    "prefix_sums",
    "ring_attention_update",
    "ring_mla",
    "ring_mla_mask",
    "scale_bits",
    "self_attention_prefix_encoder",
    "snake_case",
    "softmax_statistics",
    "unpack_int4",
]

"""The parameters of aclnnFusedInferAttentionScore V1 to V5 under their Python names, and which version has which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cann_mla.dtypes import Array

PARAMETERS_SINCE: dict[int, tuple[str, ...]] = {
    1: (
        "query", "key", "value", "pse_shift", "atten_mask", "actual_seq_lengths", "actual_seq_lengths_kv",
        "deq_scale1", "quant_scale1", "deq_scale2", "quant_scale2", "quant_offset2", "antiquant_scale",
        "antiquant_offset", "block_table", "query_padding_size", "kv_padding_size", "num_heads", "scale_value",
        "pre_tokens", "next_tokens", "input_layout", "num_key_value_heads", "sparse_mode", "inner_precise",
        "block_size", "antiquant_mode", "softmax_lse_flag",
    ),
    2: (
        "key_antiquant_scale", "key_antiquant_offset", "value_antiquant_scale", "value_antiquant_offset",
        "key_shared_prefix", "value_shared_prefix", "actual_shared_prefix_len", "key_antiquant_mode",
        "value_antiquant_mode",
    ),
    3: ("query_rope", "key_rope", "key_rope_antiquant_scale"),
    4: ("dequant_scale_query", "learnable_sink", "query_quant_mode"),
    5: ("q_start_idx", "kv_start_idx", "pse_type"),
}  # fmt: skip

UNBOUNDED_TOKENS = 2147483647


@dataclass(frozen=True)
class AttentionParameters:
    """Operands and attributes of one call.

    B sequences of S1 query and S2 key rows; a cache has Bn blocks.

    Attributes
    ----------
    query : ndarray
        In the input part of `input_layout`: FP16 or BF16, or INT8, FLOAT8_E4M3FN, HIFLOAT8 (full quantisation).
    key, value : ndarray or sequence of ndarray
        One operand in the same layout, one a batch of differing lengths (tensor list), or a paged cache under
        `block_table`: (Bn, block, heads * width), (Bn, heads, block, width) or
        (Bn, heads, width / c, block, c). INT32 holds eight INT4 a word.
    num_heads, num_key_value_heads : int
        Query heads, and key heads (0: as many).
    scale_value : float
        Factor of the scores.
    input_layout : str
        One of :data:`cann_mla.reference.attention_layouts.LAYOUTS`.
    pse_shift : ndarray, shape (B or 1, heads, >= S1 or 1, >= S2)
        Added to the scaled scores.
    atten_mask : ndarray of bool, int8 or uint8
        Non-zero hides. Modes 0 and 1: (S1, S2), (B, S2) for single rows, (B or 1, S1, S2) or
        (B or 1, 1, S1, S2). Modes 2, 3 and 4: any shape, the formula of the mode decides. Mode 9: (B, S1, S1),
        or one axis with the matrices of all sequences.
    sparse_mode : int
        0, 1, 2, 3, 4 or 9.
    pre_tokens, next_tokens : int
        Window of modes 0 (with mask) and 4.
    inner_precise : int
        Bit 1: rows whose every column the user mask hides give 0. Bit 0 has no effect: scores are float32.
    actual_seq_lengths, actual_seq_lengths_kv : sequence of int
        Lengths of the sequences, one or one a batch; cumulative in TND and NTD, except those of a paged cache.
    block_table : ndarray of int32, shape (B, blocks a sequence)
    block_size : int
        Rows of a block of the paged cache; 0 takes it from the cache.
    query_padding_size, kv_padding_size : ndarray of int64, one element
        Rows to the right of the actual ones; turns left padding on.
    key_shared_prefix, value_shared_prefix : ndarray
        In the key's layout with batch 1; in front of every sequence's own keys and values.
    actual_shared_prefix_len : sequence of one int
    query_rope, key_rope : ndarray
        As query and key, 64 wide.
    learnable_sink : ndarray, shape (heads,)
        Score of a column without value.
    quant_scale2, quant_offset2 : ndarray, 1 or heads * width elements
        Quantisation of the output.
    deq_scale1, quant_scale1, deq_scale2 : ndarray, one element
        Per-tensor full quantisation; quant_scale1 is the P scale of the FP8 modes.
    antiquant_scale, antiquant_offset, antiquant_mode
        Key half and value half on the first axis; used where the split set is absent.
    key_antiquant_scale, key_antiquant_offset, key_antiquant_mode
        Shapes by mode, see :func:`cann_mla.reference.attention_dequantisation.antiquant_parameter`.
    value_antiquant_scale, value_antiquant_offset, value_antiquant_mode
    dequant_scale_query, query_quant_mode
        Scales of a quantised query, see :mod:`cann_mla.reference.attention_quantisation`.
    softmax_lse_flag : bool
    pse_type : int
        Only 0; then `q_start_idx` and `kv_start_idx` have no effect.
    key_rope_antiquant_scale : ndarray
        Reserved, without effect.
    """

    query: Array
    key: Array | Sequence[Array]
    value: Array | Sequence[Array]
    num_heads: int
    num_key_value_heads: int = 0
    scale_value: float = 1.0
    input_layout: str = "BSH"
    pse_shift: Array | None = None
    atten_mask: Array | None = None
    sparse_mode: int = 0
    pre_tokens: int = UNBOUNDED_TOKENS
    next_tokens: int = UNBOUNDED_TOKENS
    inner_precise: int = 0
    actual_seq_lengths: Sequence[int] | None = None
    actual_seq_lengths_kv: Sequence[int] | None = None
    block_table: Array | None = None
    block_size: int = 0
    query_padding_size: Array | None = None
    kv_padding_size: Array | None = None
    key_shared_prefix: Array | None = None
    value_shared_prefix: Array | None = None
    actual_shared_prefix_len: Sequence[int] | None = None
    query_rope: Array | None = None
    key_rope: Array | None = None
    learnable_sink: Array | None = None
    quant_scale2: Array | None = None
    quant_offset2: Array | None = None
    deq_scale1: Array | None = None
    quant_scale1: Array | None = None
    deq_scale2: Array | None = None
    antiquant_scale: Array | None = None
    antiquant_offset: Array | None = None
    antiquant_mode: int = 0
    key_antiquant_scale: Array | None = None
    key_antiquant_offset: Array | None = None
    key_antiquant_mode: int = 0
    value_antiquant_scale: Array | None = None
    value_antiquant_offset: Array | None = None
    value_antiquant_mode: int = 0
    dequant_scale_query: Array | None = None
    query_quant_mode: int = 0
    softmax_lse_flag: bool = False
    pse_type: int = 0
    q_start_idx: Sequence[int] | None = None
    kv_start_idx: Sequence[int] | None = None
    key_rope_antiquant_scale: Array | None = None

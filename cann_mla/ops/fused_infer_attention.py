"""FusedInferAttentionScore, versions 1 to 5, as one function.

Notation: B sequences of S1 query rows and S2 key rows, T rows of all sequences together, N query heads, Nk key
heads, D width of a head (Dv of a value), Dr = 64 width of the rope part, Bn blocks of Bs rows in a paged cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cann_mla.dtypes import dtype
from cann_mla.libraries import load
from cann_mla.ops.call import Operand, Operands, OperatorCall
from cann_mla.ops.fused_infer_attention_shapes import find_sizes, output_dtype
from cann_mla.ops.fused_infer_attention_versions import choose_version, parameters, symbol
from cann_mla.ops.sequence_lengths import Lengths, check_sequences
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor, TensorList

UNBOUNDED_TOKENS = 2147483647


@dataclass(frozen=True)
class FusedInferAttentionResult:
    """Outputs of one call.

    Attributes
    ----------
    attention : Tensor
        In the output part of the layout.
    softmax_lse : Tensor of FP32 or None
        (B, N, S1, 1); (T, N, 1) for outputs TND and NTD. Rows that attend to nothing hold +inf.
    version : int
        The version that was called.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes them.
    """

    attention: Tensor
    softmax_lse: Tensor | None
    version: int

    def close(self) -> None:
        """Close the outputs."""
        self.attention.close()
        if self.softmax_lse is not None:
            self.softmax_lse.close()

    def __enter__(self) -> FusedInferAttentionResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_NO_OPERANDS = ("stream", "version", "out_dtype", "attention", "softmax_lse")
_LENGTHS = ("actual_seq_lengths", "actual_seq_lengths_kv", "actual_shared_prefix_len", "q_start_idx", "kv_start_idx")


def fused_infer_attention(
    query: Operand,
    key: Operands,
    value: Operands,
    *,
    stream: Stream,
    input_layout: str = "BSH",
    num_heads: int | None = None,
    num_key_value_heads: int | None = None,
    scale_value: float = 1.0,
    sparse_mode: int = 0,
    atten_mask: Operand | None = None,
    pre_tokens: int = UNBOUNDED_TOKENS,
    next_tokens: int = UNBOUNDED_TOKENS,
    actual_seq_lengths: Lengths | None = None,
    actual_seq_lengths_kv: Lengths | None = None,
    block_table: Operand | None = None,
    block_size: int | None = None,
    query_rope: Operand | None = None,
    key_rope: Operand | None = None,
    pse_shift: Operand | None = None,
    query_padding_size: Operand | None = None,
    kv_padding_size: Operand | None = None,
    key_shared_prefix: Operand | None = None,
    value_shared_prefix: Operand | None = None,
    actual_shared_prefix_len: Lengths | None = None,
    learnable_sink: Operand | None = None,
    deq_scale1: Operand | None = None,
    quant_scale1: Operand | None = None,
    deq_scale2: Operand | None = None,
    quant_scale2: Operand | None = None,
    quant_offset2: Operand | None = None,
    antiquant_scale: Operand | None = None,
    antiquant_offset: Operand | None = None,
    antiquant_mode: int = 0,
    key_antiquant_scale: Operand | None = None,
    key_antiquant_offset: Operand | None = None,
    key_antiquant_mode: int = 0,
    value_antiquant_scale: Operand | None = None,
    value_antiquant_offset: Operand | None = None,
    value_antiquant_mode: int = 0,
    dequant_scale_query: Operand | None = None,
    query_quant_mode: int = 0,
    key_rope_antiquant_scale: Operand | None = None,
    q_start_idx: Lengths | None = None,
    kv_start_idx: Lengths | None = None,
    pse_type: int = 0,
    inner_precise: int = 0,
    softmax_lse_flag: bool = False,
    attention: Tensor | None = None,
    softmax_lse: Tensor | None = None,
    out_dtype: str | None = None,
    version: int | None = None,
) -> FusedInferAttentionResult:
    """Attention of every query row over its sequence's keys and values, on a stream.

    With query head n reading key head ``n // (N / Nk)``::

        x = scale_value * (query . key + query_rope . key_rope) + pse_shift
        attention = softmax(x) @ value            softmax_lse = log(sum(exp(x)))

    Parameters
    ----------
    query : FP16 or BF16; INT8, FLOAT8_E4M3FN or HIFLOAT8 for full quantisation
        In the input part of the layout.
    key, value : Tensor, ndarray, TensorList or sequence of them
        One operand in the query's layout; or one of batch 1 for each sequence (lengths may differ); or, under
        `block_table`, a paged cache (Bn, Bs, Nk*D), (Bn, Nk, Bs, D) or (Bn, Nk, D/c, Bs, c); those of MlaProlog are
        the first, by ``kv_cache.view((Bn, Bs, D))``. Quantised: INT8,
        INT4, INT32 words of eight INT4 (:func:`cann_mla.ops.pack_int4`), and on Ascend950 FP8, HIFLOAT8, FP4.
    stream : Stream
        The call returns when the work is queued there.
    input_layout : str
        One of :data:`cann_mla.ops.ATTENTION_LAYOUTS`; behind ``_`` stands the layout of the output.
    num_heads, num_key_value_heads : int, optional
        By default from the shapes, where they tell; a BSH query does not. As in C, Nk = 0 means N.
    scale_value : float
        Factor of the scores, usually the reciprocal square root of the query's width. Not implied.
    sparse_mode : int
        0 `atten_mask` and window; 1 `atten_mask` alone; 2 causal, diagonal from the first column; 3 causal,
        diagonal to the last; 4 band; 9 tree of speculative tokens.
    atten_mask : BOOL, INT8 or UINT8, optional
        1 hides. Modes 0 and 1: (B or 1, 1, S1, S2) or (B or 1, S1, S2). Modes 2 to 4: always
        :func:`cann_mla.ops.compressed_mask`, 2048 x 2048.
    pre_tokens, next_tokens : int
        Window of modes 0 (with mask) and 4: columns before and behind the diagonal. A sliding window of W tokens, the
        row's own among them, is mode 4 with ``pre_tokens = W - 1`` and ``next_tokens = 0``; mode 3 ignores both.
    actual_seq_lengths, actual_seq_lengths_kv : sequence of int, optional
        Lengths of the sequences; for TND and NTD prefix sums (:func:`cann_mla.ops.prefix_sums`), except the
        second under a `block_table`, which is by sequence always.
    block_table : INT32, shape (B, blocks a sequence), optional
        Turns paged attention on (:func:`cann_mla.ops.block_table`).
    block_size : int, optional
        Rows of a block; by default from the cache's shape.
    query_rope, key_rope : optional
        As query and key, 64 wide.
    pse_shift : type of the query, shape (B or 1, N, S1, S2), optional
    query_padding_size, kv_padding_size : INT64, one element, optional
        Left padding: rows behind the actual ones.
    key_shared_prefix, value_shared_prefix, actual_shared_prefix_len : optional
        Keys and values in front of every sequence's own, batch 1.
    learnable_sink : shape (N,), optional
        Score of a column without value.
    quant_scale2, quant_offset2 : FP32 or BF16, 1 or N*Dv elements, optional
        Quantise the output: ``round(out * scale + offset)``.
    deq_scale1, quant_scale1, deq_scale2 : one element, optional
        For an INT8 query; `quant_scale1` also is the P scale of FP8.
    antiquant_scale, antiquant_offset, antiquant_mode : optional
        Scales of quantised key (first half) and value (second half): ``(stored + offset) * scale``.
    key_antiquant_scale, key_antiquant_offset, key_antiquant_mode : optional
    value_antiquant_scale, value_antiquant_offset, value_antiquant_mode : optional
        The same apart: 0 per channel or tensor, 1 per token, 2 per head, 3 per token and head, 4 and 5 those two
        in the paged cache, 6 groups of 32 (:class:`cann_mla.ops.KvQuantisation` makes them from data).
    dequant_scale_query, query_quant_mode : optional
        Of a quantised query: 3 per token and head, 6 micro-scaling.
    key_rope_antiquant_scale, q_start_idx, kv_start_idx, pse_type
        Reserved by CANN.
    inner_precise : int
        Bit 0: high performance, for FP16. Bit 1: rows whose every column the mask hides give 0.
    softmax_lse_flag : bool
        Ask for `softmax_lse`; a `softmax_lse` given asks for it too.
    attention, softmax_lse : Tensor, optional
        Where to write; new tensors otherwise.
    out_dtype : str, optional
        Type of the output. Default: that of `attention`; INT8 with `quant_scale2`; for a quantised query the
        rope's type or FP16; else the query's.
    version : {1, 2, 3, 4, 5}, optional
        Default: the oldest that has everything asked for.

    Returns
    -------
    FusedInferAttentionResult

    Raises
    ------
    ValueError
        Before the call: if no version of this product (or not the one wanted) has what was asked for, if the
        layout is unknown or shapes do not fit it, if the lengths of tokens in a row and the block table are not of
        the same number of sequences, if an output given has another shape or type.
    CannError
        If CANN refuses the call; it names the operand.

    Notes
    -----
    Arrays given as operands are copied to the stream's device and given back when the stream has passed the call.
    Versions 1 to 4 run on Atlas A2 and A3, version 5 on Ascend950.
    Source: CANN's documentation of aclnnFusedInferAttentionScore, V2, V3, V4 and V5.
    """
    given: dict[str, Any] = {n: v for n, v in locals().items() if n not in _NO_OPERANDS}
    first_key, first_value = _first("key", key), _first("value", value)
    kinds = [_kind("query", query), _kind("key", first_key), _kind("value", first_value)]
    asked = {n: v for n, v in given.items() if n not in ("num_heads", "block_size")}
    chosen = choose_version(asked, kinds, product=load().product, version=version)
    sizes = find_sizes(
        input_layout, tuple(query.shape), tuple(first_key.shape), tuple(first_value.shape),
        num_heads=num_heads, num_key_value_heads=num_key_value_heads,
        paged=block_table is not None, packed=kinds[1] == kinds[2] == "INT32",
    )  # fmt: skip
    given.update(num_heads=sizes.axes["N"], num_key_value_heads=sizes.key_heads)
    given["block_size"] = sizes.block_size if block_size is None else block_size
    given["softmax_lse_flag"] = softmax_lse_flag or softmax_lse is not None
    given.update({n: [int(x) for x in given[n]] for n in _LENGTHS if given[n] is not None})
    if "T" in sizes.input_axes and actual_seq_lengths is not None:
        rows = block_table.shape[0] if block_table is not None and block_table.shape else None
        check_sequences(actual_seq_lengths, actual_seq_lengths_kv, rows)
    lse = None
    with OperatorCall(symbol(chosen), stream) as call:
        call.give({n: v for n, v in given.items() if n in parameters(chosen)})
        if out_dtype is None:
            rope = None if query_rope is None else _kind("query_rope", query_rope)
            usual = output_dtype(kinds[0], rope, quant_scale2 is not None)
            out_dtype = usual if attention is None else attention.dtype.name
        out = call.output("attention", attention, sizes.attention, out_dtype)
        if given["softmax_lse_flag"]:
            lse = call.output("softmax_lse", softmax_lse, sizes.softmax_lse, "FP32")
        call.run()
    return FusedInferAttentionResult(out, lse, chosen)


def _first(name: str, operand: Operands) -> Any:
    """Operand, or first entry of a list, for its shape and type."""
    if isinstance(operand, Tensor | np.ndarray):
        return operand
    members = operand.layouts if isinstance(operand, TensorList) else operand
    if not isinstance(members, Sequence) or not members or members[0] is None:
        raise ValueError(f"{name} is a list without a first entry; it needs one for each sequence")
    return members[0]


def _kind(name: str, operand: Any) -> str:
    if not hasattr(operand, "shape") or not hasattr(operand, "dtype"):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, not {type(operand).__name__}")
    return dtype(operand.dtype).name


__all__ = ["UNBOUNDED_TOKENS", "FusedInferAttentionResult", "fused_infer_attention"]

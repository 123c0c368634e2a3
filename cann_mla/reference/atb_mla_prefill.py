"""AtbMLAPreFill: self-attention of packed prompts, with the mask rule and rounding of AtbRingMLA and no lse.

Source: ATB's kernels of multi_latent_attention for prefill.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.atb_attention import Mask, NoMask, Operands, SlidingTemplate, attend_sequence, output_buffer
from cann_mla.reference.atb_lengths import length_list, sequences
from cann_mla.reference.atb_softmax import scores_for
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings

MASK_FREE = 2
NOPE, ROPE = 128, 64


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def mla_prefill(
    *,
    q: Array,
    q_rope: Array,
    k: Array,
    k_rope: Array,
    v: Array,
    q_seq_len: Array,
    kv_seq_len: Array,
    mask: Array | None = None,
    atten: Array | None = None,
    head_num: int,
    qk_scale: float = 1.0,
    kv_head_num: int = 0,
    mask_type: int = 0,
    precision: str = "device",
) -> Array:
    """Attention of every prompt to itself.

    Parameters
    ----------
    q, q_rope : ndarray of float16 or bfloat16
        (N, H, 128) or (N, H * 128), and (N, H, 64) or (N, H * 64).
    k, k_rope, v : ndarray, same type
        (Tk, H, 128), (Tk, H, 64) and (Tk, H, 128), or (B, S, H * 128), (B, S, H * 64) and (B, S, H * 128). Read as
        rows of all heads: padded to the longest length if the first size is B times that; packed otherwise, whatever
        S is.
    q_seq_len, kv_seq_len : ndarray of int32, shape (B,)
        Equal lengths.
    mask : ndarray, same type, shape (512, 512)
        For mask type 2; see :class:`cann_mla.reference.atb_attention.SlidingTemplate`.
    atten : ndarray, shape of `q`, optional
        Content of the output buffer before the call, which rows beyond the lengths keep; zeros without.
    head_num, kv_head_num : int
        H; 0 for the latter stands for H.
    mask_type : int
        0: every row sees the whole prompt. 2 (MASK_FREE): triangular.
    precision : {"device", "exact"}

    Returns
    -------
    ndarray
        Shape of `q`, in its type or float64.

    Raises
    ------
    ValueError
        If lengths, heads or shapes contradict each other.
    NotImplementedError
        For the other mask types, which ATB's C function cannot reach.
    """
    if mask_type not in (0, MASK_FREE):
        raise NotImplementedError(f"AtbMLAPreFill refuses maskType {mask_type}; 0 and 2 (MASK_FREE) work")
    query_lengths, kv_lengths = length_list(q_seq_len), length_list(kv_seq_len)
    if query_lengths != kv_lengths:
        raise ValueError(f"qSeqLen {query_lengths} and kvSeqLen {kv_lengths} must be equal")
    if kv_head_num not in (0, head_num):
        raise ValueError(f"kvHeadNum {kv_head_num} must be headNum, {head_num}")
    operands = Operands(
        (_heads(q, head_num, NOPE), _heads(q_rope, head_num, ROPE)),
        (_heads(k, head_num, NOPE), _heads(k_rope, head_num, ROPE)),
        _heads(v, head_num, NOPE),
    )
    placed = sequences(query_lengths, kv_lengths)
    longest = max(kv_lengths, default=0)
    if k.shape[0] == len(placed) * longest:
        placed = [s._replace(kv_start=s.number * longest) for s in placed]
    fits = all(s.kv_start + s.kv_length <= len(operands.value) for s in placed)
    if not fits or sum(query_lengths) > q.shape[0]:
        raise ValueError(f"lengths {query_lengths} do not fit into q of shape {q.shape} and k of shape {k.shape}")
    scores = scores_for(q.dtype, qk_scale, precision, half=True)
    rule: Mask = SlidingTemplate(mask, placed, scores.work) if mask_type == MASK_FREE else NoMask()
    kind = np.dtype(np.float64) if precision == "exact" else q.dtype
    output = output_buffer("attenOut", atten, q.shape, kind).reshape(q.shape[0], head_num, -1)
    for sequence in placed:
        for heads, rows, part, _ in attend_sequence(operands, sequence, rule, scores):
            output[rows, heads] = part.swapaxes(0, 1)
    return output.reshape(q.shape)


def _heads(array: Array, heads: int, width: int) -> Array:
    """Any of the layouts as (rows, heads, width)."""
    if array.shape[1:] != (heads, width) and array.shape[-1] != heads * width:
        raise ValueError(f"shape {array.shape} does not hold {heads} heads of {width}")
    return array.reshape(-1, heads, width)


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    given = {name: v for name, v in arguments.items() if name != "cache_mode"}
    return {"atten": mla_prefill(precision=precision, **given)}

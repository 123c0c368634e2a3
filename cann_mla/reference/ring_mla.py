"""AtbRingMLA: attention over one part of the keys, merged into an earlier result if there is one.

For a sequence and a head, with s_ij = qkScale (q1_i . k1_j + q2_i . k2_j) + mask term::

    m_i = max_j s_ij     l_i = sum_j exp(s_ij - m_i)     o_i = sum_j exp(s_ij - m_i) v_j / l_i     lse_i = m_i + ln l_i

and with an earlier output O' and lse L'::

    M = max(L', lse)     a = exp(L' - M)     b = exp(lse - M)     output = (a O' + b o) / (a + b)
    softmaxLse = M + ln(a + b)

Under MASK_TYPE_TRIU row i sees columns up to the end of its own block of 128, whatever the number of columns:
the anchor is the top left corner. The mask is a template of 512 by 512 that lies on the diagonal and is
added after scaling: times -3e38 for BF16 (1 hides), as it is for FP16 (-10000 hides).

Source: ATB's kernels of ring_mla, for the blocks, the template and the points of rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.atb_attention import (
    Mask,
    NoMask,
    Operands,
    SlidingTemplate,
    attend_sequence,
    output_buffer,
)
from cann_mla.reference.atb_lengths import Sequence, pair_lengths, sequences
from cann_mla.reference.atb_softmax import Scores, scores_for
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings

NO_MASK, MASK_TYPE_TRIU = 0, 1
CALC_TYPE_DEFAULT, CALC_TYPE_FIRST_RING = 0, 1


class RingMlaResult(NamedTuple):
    """Output (Tq, H, 128) in the type of the query, lse (H, Tq) in float32; both float64 in ``exact``."""

    output: Array
    softmax_lse: Array


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def ring_mla(
    *,
    query_split1: Array,
    query_split2: Array,
    key_split1: Array,
    key_split2: Array,
    value: Array,
    seq_len: Array,
    mask: Array | None = None,
    prev_out: Array | None = None,
    prev_lse: Array | None = None,
    output: Array | None = None,
    softmax_lse: Array | None = None,
    head_num: int = 0,
    kv_head_num: int = 0,
    qk_scale: float = 1.0,
    mask_type: int = MASK_TYPE_TRIU,
    calc_type: int = CALC_TYPE_DEFAULT,
    precision: str = "device",
) -> RingMlaResult:
    """Attention over packed sequences, optionally merged into a previous result.

    Parameters
    ----------
    query_split1, query_split2 : ndarray of float16 or bfloat16, shapes (Tq, H, 128) and (Tq, H, 64)
    key_split1, key_split2, value : ndarray, same type, shapes (Tk, Hk, 128), (Tk, Hk, 64) and (Tk, Hk, 128)
        Query head h goes with key head ``h // (H / Hk)``.
    seq_len : ndarray of int32 or uint32, shape (B,) or (2, B)
        Lengths of queries, and of keys if they differ.
    mask : ndarray, same type, shape (512, 512) or (B, 512, 512)
        For MASK_TYPE_TRIU. Read from its first element in rows of 512, whatever its shape.
    prev_out, prev_lse : ndarray, shapes (Tq, H, 128) of the type of the query and (H, Tq) of float32
        For calc type 0.
    output, softmax_lse : ndarray, optional
        Content of the output buffers before the call, which rows of sequences without keys keep. Default: the
        previous result (a call in place) or zeros. Not modified.
    head_num, kv_head_num : int
        H and Hk; 0 for the latter stands for H.
    qk_scale : float
        192 ** -0.5 for the usual head size.
    mask_type : int
        0 NO_MASK, 1 MASK_TYPE_TRIU.
    calc_type : int
        0 CALC_TYPE_DEFAULT merges, 1 CALC_TYPE_FIRST_RING does not.
    precision : {"device", "exact"}

    Returns
    -------
    RingMlaResult
        New arrays. Element (h, t) of the lse lies at ``h * sum(query lengths) + t`` of its memory.

    Raises
    ------
    ValueError
        If operands that the mode needs are missing, or shapes, heads or lengths contradict each other.
    """
    operands = Operands((query_split1, query_split2), (key_split1, key_split2), value)
    placed = sequences(*pair_lengths(seq_len))
    _check_heads(operands, head_num, kv_head_num)
    _check_lengths(operands, placed, triangular=mask_type == MASK_TYPE_TRIU)
    if calc_type == CALC_TYPE_FIRST_RING:
        prev_out = prev_lse = None
    elif prev_out is None or prev_lse is None:
        raise ValueError("calcType 0 merges and needs prevOut and prevLse; calcType 1 starts without them")
    scores = scores_for(query_split1.dtype, qk_scale, precision, half=True)
    rule: Mask = SlidingTemplate(mask, placed, scores.work) if mask_type == MASK_TYPE_TRIU else NoMask()
    result = _buffers(
        operands, prev_out if output is None else output, prev_lse if softmax_lse is None else softmax_lse, scores
    )
    tokens = placed[-1].query_start + placed[-1].query_length if placed else 0
    lse_rows, previous_lse = (_lse_view(lse, tokens) for lse in (result.softmax_lse, prev_lse))
    for sequence in placed:
        for heads, rows, part, lse in attend_sequence(operands, sequence, rule, scores):
            if scores.work == np.float32:
                part = widen(part.astype(query_split1.dtype), np.float32)
            if prev_out is not None:
                before = widen(prev_out[rows, heads], scores.work).swapaxes(0, 1)
                part, lse = merge(before, widen(previous_lse[heads, rows], scores.work), part, lse)
            result.output[rows, heads] = part.swapaxes(0, 1)
            lse_rows[heads, rows] = lse
    return result


def merge(prev_out: Floats, prev_lse: Floats, output: Floats, lse: Floats) -> tuple[Floats, Floats]:
    """Merge two attentions of the same queries over disjoint keys.

    Parameters
    ----------
    prev_out, output : ndarray, shape (..., D)
    prev_lse, lse : ndarray, shape (...)

    Returns
    -------
    output, lse : ndarray
        NaN where both lse are -inf.
    """
    maximum = np.maximum(prev_lse, lse)
    prev_weight, weight = np.exp(prev_lse - maximum), np.exp(lse - maximum)
    total = prev_weight + weight
    merged = (prev_out * prev_weight[..., None] + output * weight[..., None]) / total[..., None]
    return merged, np.log(total) + maximum


def _buffers(operands: Operands, output: Array | None, lse: Array | None, scores: Scores) -> RingMlaResult:
    """Output buffers as the call finds them."""
    tokens, heads = operands.queries[0].shape[:2]
    kind = np.dtype(scores.work) if scores.work == np.float64 else operands.queries[0].dtype
    return RingMlaResult(
        output_buffer("output", output, (tokens, heads, operands.value.shape[2]), kind),
        output_buffer("softmaxLse", lse, (heads, tokens), np.dtype(scores.work)),
    )


def _lse_view(lse: Array | None, tokens: int) -> Array:
    """Memory of an lse as (heads, tokens that the lengths cover)."""
    if lse is None:
        return np.empty((0, 0))
    return np.ascontiguousarray(lse).reshape(-1)[: lse.shape[0] * tokens].reshape(-1, tokens)


def _check_heads(operands: Operands, head_num: int, kv_head_num: int) -> None:
    query_heads = {part.shape[1] for part in operands.queries}
    key_heads = {part.shape[1] for part in (*operands.keys, operands.value)}
    expected = (head_num, kv_head_num or head_num)
    if query_heads != {expected[0]} or key_heads != {expected[1]}:
        raise ValueError(
            f"headNum {head_num} and kvHeadNum {kv_head_num} contradict tensors of {sorted(query_heads)} query "
            f"and {sorted(key_heads)} key heads; ATB does not notice and reads elsewhere"
        )


def _check_lengths(operands: Operands, placed: list[Sequence], *, triangular: bool) -> None:
    """Refuse lengths beyond the tensors, and fewer keys than queries under a triangle."""
    query_rows, kv_rows = (sum(s[n] for s in placed) for n in (2, 4))
    if query_rows > operands.queries[0].shape[0] or kv_rows > min(operands.keys[0].shape[0], operands.value.shape[0]):
        raise ValueError(
            f"lengths add up to {query_rows} queries and {kv_rows} keys, the tensors have "
            f"{operands.queries[0].shape[0]} and {operands.keys[0].shape[0]}"
        )
    for s in placed:
        if triangular and 0 < s.kv_length < s.query_length:
            raise ValueError(
                f"sequence {s.number}: {s.kv_length} keys for {s.query_length} queries; MASK_TYPE_TRIU needs"
                " at least as many, or none"
            )


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    names = {name: "prev_out" if name == "prev" else name for name in arguments}
    given = {names[name]: v for name, v in arguments.items() if name not in ("kernel_type", "input_layout")}
    return ring_mla(precision=precision, **given)._asdict()

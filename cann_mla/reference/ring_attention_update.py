"""aclnnRingAttentionUpdate and V2: merge two partial attention results of the same queries.

With maxima m, sums s and outputs o of the two parts::

    max = max(m_prev, m_cur)      w = s * exp(m - max)      sum = w_prev + w_cur
    out = o_prev * (w_prev / sum) + o_cur * (w_cur / sum)

Maxima and sums carry eight copies on the last axis; element d of the output goes with copy d mod 8, as the
vector unit pairs them.

Source: aclnnRingAttentionUpdateV2; CANN's kernel for the order of operations and for the packed softmax layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array, DType
from cann_mla.reference.attention_lengths import packed_spans
from cann_mla.reference.attention_numbers import Floats, widen

_COPIES = 8
_CHUNK_ELEMENTS = 1 << 22


class RingAttentionUpdateResult(NamedTuple):
    """Merged output, maxima and sums, in the layouts of the inputs."""

    attn_out: Array
    softmax_max: Array
    softmax_sum: Array


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def ring_attention_update(
    prev_attn: Array,
    prev_softmax_max: Array,
    prev_softmax_sum: Array,
    cur_attn: Array,
    cur_softmax_max: Array,
    cur_softmax_sum: Array,
    *,
    actual_seq_qlen: Array | None = None,
    input_layout: str = "SBH",
    input_softmax_layout: str = "",
    precision: str = "device",
) -> RingAttentionUpdateResult:
    """Merge a previous and a current partial result.

    Parameters
    ----------
    prev_attn, cur_attn : ndarray of float16, bfloat16 or float32
        (S, B, H) for SBH, (T, N, D) for TND.
    prev_softmax_max, prev_softmax_sum, cur_softmax_max, cur_softmax_sum : ndarray of float32
        (B, N, S, 8) for SBH; (T, N, 8) for TND.
    actual_seq_qlen : ndarray of int64
        For TND: cumulative lengths, beginning with 0 and ending with T.
    input_layout : {"SBH", "TND"}
    input_softmax_layout : {"", "SBH", "TND"}
        For TND inputs. "TND": element (t, n) lies at t * N + n. Otherwise each sequence lies as (N, s, 8) from
        the place where its tokens begin, although the shape says (T, N, 8).
    precision : {"device", "exact"}
        float32 and the declared type, or float64 throughout.

    Returns
    -------
    RingAttentionUpdateResult

    Raises
    ------
    ValueError
        If a layout is unknown, lengths are missing, or shapes do not fit together.
    """
    if precision not in ("device", "exact"):
        raise ValueError(f"precision is 'device' or 'exact', not {precision!r}")
    work = np.float32 if precision == "device" else np.float64
    statistics = (prev_softmax_max, prev_softmax_sum, cur_softmax_max, cur_softmax_sum)
    if prev_attn.shape != cur_attn.shape or any(s.shape != prev_softmax_max.shape for s in statistics):
        raise ValueError("previous and current operands must have the same shapes")
    result = RingAttentionUpdateResult(
        np.empty(prev_attn.shape, prev_attn.dtype if precision == "device" else work),
        *(np.empty(prev_softmax_max.shape, work) for _ in range(2)),
    )
    attention = (prev_attn, cur_attn, result.attn_out)
    for attn, stats in _parts(
        attention, (*statistics, *result[1:]), actual_seq_qlen, input_layout, input_softmax_layout
    ):
        rows = max(1, _CHUNK_ELEMENTS // max(1, math.prod(attn[0].shape[1:])))
        for start in range(0, attn[0].shape[0], rows):
            chunk = slice(start, start + rows)
            _merge([a[chunk] for a in attn], [s[chunk] for s in stats], np.dtype(work))
    return result


def _merge(attention: list[Array], statistics: list[Array], work: np.dtype[Any]) -> None:
    """Merge views: attention (rows, ..., width) and statistics (rows, ..., 8), inputs first, results last."""
    prev_max, prev_sum, cur_max, cur_sum = (widen(s, work) for s in statistics[:4])
    maximum = np.maximum(prev_max, cur_max)
    prev_weight = prev_sum * np.exp(prev_max - maximum)
    cur_weight = cur_sum * np.exp(cur_max - maximum)
    total = prev_weight + cur_weight
    lane = np.arange(attention[0].shape[-1]) % _COPIES
    merged: Floats = widen(attention[0], work) * (prev_weight / total)[..., lane]
    merged += widen(attention[1], work) * (cur_weight / total)[..., lane]
    attention[2][...] = merged.astype(attention[2].dtype)
    statistics[4][...] = maximum
    statistics[5][...] = total


def _parts(
    attention: tuple[Array, ...],
    statistics: tuple[Array, ...],
    lengths: Array | None,
    layout: str,
    softmax_layout: str,
) -> Iterator[tuple[list[Array], list[Array]]]:
    """Views of all operands with rows first and heads before the last axis."""
    if layout == "SBH":
        batch, heads, rows, _ = statistics[0].shape
        shape = (rows, batch, heads, -1)
        yield [a.reshape(shape) for a in attention], [s.transpose(2, 0, 1, 3) for s in statistics]
    elif layout != "TND":
        raise ValueError(f"inputLayout is 'SBH' or 'TND', not {layout!r}")
    elif softmax_layout == "TND":
        yield list(attention), list(statistics)
    elif softmax_layout not in ("", "SBH"):
        raise ValueError(f"inputSoftmaxLayout is '', 'SBH' or 'TND', not {softmax_layout!r}")
    else:
        yield from _packed_parts(attention, statistics, lengths)


def _packed_parts(
    attention: tuple[Array, ...], statistics: tuple[Array, ...], lengths: Array | None
) -> Iterator[tuple[list[Array], list[Array]]]:
    if lengths is None:
        raise ValueError("inputLayout TND needs actualSeqQlen: cumulative lengths from 0 to T")
    tokens, heads = attention[0].shape[:2]
    flat = [s.reshape(-1) for s in statistics]
    for span in packed_spans(np.asarray(lengths).reshape(-1).tolist(), tokens):
        begin, stop = (heads * _COPIES * row for row in (span.start, span.start + span.count))
        own = [f[begin:stop].reshape(heads, span.count, _COPIES).transpose(1, 0, 2) for f in flat]
        yield [a[span.start : span.start + span.count] for a in attention], own


def evaluate(
    symbol: str,
    arguments: Mapping[str, Any],
    outputs: Mapping[str, tuple[tuple[int, ...], DType]],
    *,
    soc: str,
    precision: str,
) -> dict[str, Array]:
    """Entry of :func:`cann_mla.reference.evaluate` for both symbols."""
    if symbol == "aclnnRingAttentionUpdate" and "input_softmax_layout" in arguments:
        raise ValueError("aclnnRingAttentionUpdate has no inputSoftmaxLayout; use V2")
    result = ring_attention_update(**arguments, precision=precision)
    return {name: array for name, array in result._asdict().items() if name in outputs}

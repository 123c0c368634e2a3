"""Where the rows of each sequence lie: actual lengths in both conventions, and left padding.

Source: aclnnFusedInferAttentionScoreV5, ``actualSeqLengths``, ``queryPaddingSize``; for the conventions that
the pages leave open, the tiling code of CANN (one entry serves every batch; an empty array is a null one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Span:
    """Rows of one sequence inside an operand seen as (batch, heads, tokens, width).

    Attributes
    ----------
    batch : int
        Index along the first axis; 0 in packed layouts.
    start, count : int
        First row and number of rows.
    """

    batch: int
    start: int
    count: int


def padded_spans(
    lengths: Sequence[int] | None, batches: int, tokens: Sequence[int], right_padding: int | None = None
) -> list[Span]:
    """Spans of a layout with a batch axis.

    Parameters
    ----------
    lengths : sequence of int or None
        Actual lengths: None or empty for whole rows, one for every batch, or at least one a batch.
    batches : int
    tokens : sequence of int
        Size of the token axis of every batch (they differ in a tensor list).
    right_padding : int, optional
        Rows to the right of the actual ones, when they are pushed to the right (left padding). Without
        actual lengths it has no effect. A sequence that does not fit gets the length 0, as on the device.

    Raises
    ------
    ValueError
        If there are fewer lengths than batches, or a length is outside its axis.
    """
    given = [] if lengths is None else [int(n) for n in lengths]
    if not given:
        return [Span(b, 0, tokens[b]) for b in range(batches)]
    if len(given) == 1:
        given *= batches
    if len(given) < batches:
        raise ValueError(f"{len(given)} actual lengths for {batches} batches; give one, or one for every batch")
    spans = []
    for b in range(batches):
        if not 0 <= given[b] <= tokens[b]:
            raise ValueError(f"actual length {given[b]} of batch {b} is outside 0..{tokens[b]}")
        start = 0 if right_padding is None else tokens[b] - max(right_padding, 0) - given[b]
        spans.append(Span(b, start, given[b]) if start >= 0 else Span(b, 0, 0))
    return spans


def packed_spans(cumulative: Sequence[int] | None, tokens: int) -> list[Span]:
    """Spans of a packed layout, out of cumulative lengths.

    Only the last entry is compared with the operand, as CANN does; a sequence whose end lies before its start
    is empty, and none reaches outside the operand.

    Raises
    ------
    ValueError
        If the lengths are missing or do not end at the number of tokens.
    """
    if not cumulative:
        raise ValueError(
            "packed layouts (TND, NTD) need actual sequence lengths: the cumulative sum, one entry a batch"
        )
    if cumulative[-1] != tokens:
        raise ValueError(f"cumulative lengths end at {cumulative[-1]}, the operand has {tokens} tokens")
    ends = np.clip(np.asarray(cumulative, np.int64), 0, tokens)
    starts = np.concatenate([[0], ends[:-1]])
    return [Span(0, int(a), max(0, int(b - a))) for a, b in zip(starts, ends, strict=True)]


def per_batch_spans(lengths: Sequence[int] | None, batches: int, capacity: int) -> list[Span]:
    """Spans of a paged cache: a plain length for every batch in every layout.

    Raises
    ------
    ValueError
        If the lengths are missing or too few, or one is longer than the table can address.
    """
    if not lengths:
        raise ValueError("paged attention needs actualSeqLengthsKv")
    return padded_spans(lengths, batches, [capacity] * batches)

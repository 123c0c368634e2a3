"""Attention masks: True hides a column from a row.

Source: CANN's documentation of aclnnFusedInferAttentionScore to V5, ``sparseMode``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_mla.ops.sequence_lengths import Lengths

COMPRESSED_SIZE = 2048
UNBOUNDED = 2147483647
_ANCHORS = ("left_up", "right_down")

Mask = npt.NDArray[np.bool_]


def compressed_mask() -> Mask:
    """The mask operand of sparse modes 2, 3 and 4, whatever the lengths are.

    Returns
    -------
    ndarray of bool, shape (2048, 2048)
        True right of the diagonal. The kernel reads the windows it needs out of it, mode 4 with the tokens
        given; so the same mask serves all three modes. CANN does not look whether it is this one.
    """
    return ~np.tri(COMPRESSED_SIZE, dtype=bool)


def causal_mask(rows: int | Lengths, columns: int | Lengths, *, anchor: str = "right_down") -> Mask:
    """A causal mask written out, for sparse mode 1 (or 0).

    Parameters
    ----------
    rows, columns : int or sequence of int
        Query and key rows (a shared prefix counted in); a sequence gives the lengths of each sequence.
    anchor : {"right_down", "left_up"}
        Where the diagonal goes: ``right_down`` through the last row and column, so that the last row sees
        everything (sparse mode 3); ``left_up`` through the first ones (sparse mode 2).

    Returns
    -------
    ndarray of bool, shape (rows, columns), or (B, most rows, most columns) for sequences
        In a batch, what lies beyond a sequence's lengths is hidden.

    Raises
    ------
    ValueError
        If the anchor is unknown, a length is negative, or the two numbers of lengths differ.
    """
    return band_mask(rows, columns, UNBOUNDED, 0, anchor=anchor)


def band_mask(
    rows: int | Lengths,
    columns: int | Lengths,
    pre_tokens: int,
    next_tokens: int,
    *,
    anchor: str = "right_down",
) -> Mask:
    """A band around the diagonal written out, for sparse mode 1 (or 0).

    Row i sees the columns from ``i + shift - pre_tokens`` to ``i + shift + next_tokens``, where shift is 0 for
    ``left_up`` and ``columns - rows`` for ``right_down``.

    Parameters
    ----------
    rows, columns, anchor
        As for :func:`causal_mask`: ``right_down`` is the band of sparse mode 4, ``left_up`` the window that
        sparse mode 0 adds to its mask.
    pre_tokens, next_tokens : int
        Columns before and behind the diagonal; one of them may be negative, their sum may not.

    Returns
    -------
    ndarray of bool
        As :func:`causal_mask`.

    Raises
    ------
    ValueError
        As :func:`causal_mask`; also if the band is empty.
    """
    if anchor not in _ANCHORS:
        raise ValueError(f"anchor={anchor!r}; it is {' or '.join(_ANCHORS)}")
    if pre_tokens + next_tokens < 0:
        raise ValueError(f"a band from {-pre_tokens} to {next_tokens} around the diagonal is empty")
    if isinstance(rows, int | np.integer) and isinstance(columns, int | np.integer):
        return _band(int(rows), int(columns), pre_tokens, next_tokens, anchor)
    pairs = _pairs(rows, columns)
    mask = np.ones((len(pairs), max(r for r, _ in pairs), max(c for _, c in pairs)), bool)
    for own, (row_count, column_count) in zip(mask, pairs, strict=True):
        own[:row_count, :column_count] = _band(row_count, column_count, pre_tokens, next_tokens, anchor)
    return mask


def _band(rows: int, columns: int, pre_tokens: int, next_tokens: int, anchor: str) -> Mask:
    if rows < 0 or columns < 0:
        raise ValueError(f"a mask of {rows} rows and {columns} columns; neither may be negative")
    shift = columns - rows if anchor == "right_down" else 0
    distance = np.arange(columns) - (np.arange(rows)[:, None] + shift)
    hidden: Mask = (distance > next_tokens) | (distance < -pre_tokens)
    return hidden


def _pairs(rows: int | Lengths, columns: int | Lengths) -> list[tuple[int, int]]:
    """Lengths by sequence; a single number stands for all."""
    lists = [[int(x)] if isinstance(x, int | np.integer) else [int(n) for n in x] for x in (rows, columns)]
    count = max(map(len, lists))
    wide = [own * count if len(own) == 1 else own for own in lists]
    if not count or len(wide[0]) != len(wide[1]):
        raise ValueError(f"{len(lists[0])} lengths of rows and {len(lists[1])} of columns; give one for each sequence")
    return list(zip(*wide, strict=True))

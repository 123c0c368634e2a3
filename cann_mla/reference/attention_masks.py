"""Which columns a query row may see: sparse modes, windows, user masks, tree masks.

Rows and columns count from the first actual row and column of a sequence; columns cover the shared prefix
first. A window hides column j from row i when ``j - i > next_tokens`` or ``i - j > pre_tokens``.

Source: aclnnFusedInferAttentionScoreV5, ``sparseMode``; the vector code of CANN's kernels for the anchors
with prefix, the tree mode and the absolute addressing of user masks under left padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array

UNBOUNDED = 2147483647
DEFAULT, ALL, LEFT_UP, RIGHT_DOWN, BAND, TREE = 0, 1, 2, 3, 4, 9


@dataclass(frozen=True)
class SequenceMask:
    """Mask of one sequence.

    Attributes
    ----------
    rows, columns : int
        Query rows, and prefix plus key rows.
    pre_tokens, next_tokens : int
        Window, anchored at the top left.
    user : ndarray, shape (>= rows, >= columns - first_user_column), or None
        Non-zero hides. For the tree mode it covers the last columns only.
    first_user_column : int
        Column that column 0 of `user` stands for.
    """

    rows: int
    columns: int
    pre_tokens: int = UNBOUNDED
    next_tokens: int = UNBOUNDED
    user: Array | None = None
    first_user_column: int = 0

    def visible_columns(self, first_row: int, last_row: int) -> tuple[int, int]:
        """Range of columns that some row of [first_row, last_row) may see.

        With a user mask it is every column: a row whose visible columns are all hidden by the user averages
        over all of them, those outside the window included.
        """
        if self.user is not None:
            return 0, self.columns
        begin = max(0, first_row - self.pre_tokens)
        end = min(self.columns, last_row + self.next_tokens)
        return begin, max(begin, end)

    def rows_outside_window(self, first_row: int, last_row: int) -> npt.NDArray[np.bool_]:
        """Which rows of [first_row, last_row) have every column outside the window.

        Their output is 0 and their lse infinite.
        """
        row = np.arange(first_row, last_row)
        outside: npt.NDArray[np.bool_] = (row + self.next_tokens < 0) | (row - self.pre_tokens > self.columns - 1)
        return outside

    def hide(self, scores: Array, first_row: int, first_column: int, value: float) -> None:
        """Overwrite the scores of hidden columns.

        Parameters
        ----------
        scores : ndarray, shape (..., rows, columns)
            Scores of a tile; its last two axes start at `first_row` and `first_column`.
        value : float
            What hidden scores become.
        """
        rows, columns = scores.shape[-2:]
        row = np.arange(first_row, first_row + rows)[:, None]
        column = np.arange(first_column, first_column + columns)
        hidden = scores.dtype.type(value)
        # The tile's corners decide whether the window cuts through it at all.
        if column[-1] - row[0, 0] > self.next_tokens:
            np.copyto(scores, hidden, where=column > row + self.next_tokens)
        if row[-1, 0] - column[0] > self.pre_tokens:
            np.copyto(scores, hidden, where=column < row - self.pre_tokens)
        if self.user is not None and first_column + columns > self.first_user_column:
            skipped = max(0, self.first_user_column - first_column)
            start = first_column + skipped - self.first_user_column
            tile = self.user[first_row : first_row + rows, start : start + columns - skipped]
            np.copyto(scores[..., skipped:], hidden, where=tile != 0)


@dataclass(frozen=True)
class MaskRule:
    """What the caller asked for, before lengths are known.

    Attributes
    ----------
    mode : int
        ``sparseMode``.
    operand : ndarray or None
        ``attenMask``; without it nothing is hidden.
    pre_tokens, next_tokens : int
    single_row : bool
        Whether the query operand has one row a sequence; a 2-D mask then has a row for every sequence.
    """

    mode: int
    operand: Array | None
    pre_tokens: int
    next_tokens: int
    single_row: bool = False

    def for_sequences(
        self, rows: list[int], columns: list[int], row_starts: list[int], column_starts: list[int]
    ) -> list[SequenceMask]:
        """Masks of all sequences.

        Parameters
        ----------
        rows, columns : list of int
            Actual query rows, and prefix plus actual key rows, of each sequence.
        row_starts, column_starts : list of int
            Left padding of each sequence, which user masks of modes 0 and 1 count in.

        Raises
        ------
        ValueError
            If the mode is unknown, or a tree is asked for with more query than key rows.
        """
        shapes = list(zip(rows, columns, strict=True))
        if self.operand is None or self.operand.size == 0:
            return [SequenceMask(r, c) for r, c in shapes]
        if self.mode in (DEFAULT, ALL):
            pre, next_ = (self.pre_tokens, self.next_tokens) if self.mode == DEFAULT else (UNBOUNDED, UNBOUNDED)
            return [
                SequenceMask(r, c, pre, next_, self._user_mask(b, len(rows))[row_starts[b] :, column_starts[b] :])
                for b, (r, c) in enumerate(shapes)
            ]
        if self.mode == LEFT_UP:
            return [SequenceMask(r, c, UNBOUNDED, 0) for r, c in shapes]
        if self.mode == RIGHT_DOWN:
            return [SequenceMask(r, c, UNBOUNDED, c - r) for r, c in shapes]
        if self.mode == BAND:
            return [SequenceMask(r, c, self.pre_tokens + r - c, self.next_tokens + c - r) for r, c in shapes]
        if self.mode == TREE:
            return self._tree_masks(shapes)
        raise ValueError(f"sparseMode {self.mode} is not supported; allowed: 0, 1, 2, 3, 4 and 9")

    def _user_mask(self, sequence: int, sequences: int) -> Array:
        """Mask of one sequence out of (S1, S2), (B, S2) for single rows, (B or 1, S1, S2) or (B or 1, 1, S1, S2)."""
        operand = self.operand
        assert operand is not None
        if operand.ndim == 2:
            row = sequence if operand.shape[0] > 1 else 0
            return operand[row : row + 1] if self.single_row else operand
        matrices: Array = operand.reshape(-1, *operand.shape[-2:])
        own: Array = matrices[sequence if operand.shape[0] == sequences else 0]
        return own

    def _tree_masks(self, shapes: list[tuple[int, int]]) -> list[SequenceMask]:
        operand = self.operand
        assert operand is not None
        masks, used = [], 0
        for sequence, (rows, columns) in enumerate(shapes):
            if rows > columns:
                raise ValueError(f"tree mask: sequence {sequence} has {rows} query rows but only {columns} key rows")
            if operand.ndim == 1:
                tree = operand[used : used + rows * rows].reshape(rows, rows)
                used += rows * rows
            else:
                tree = operand.reshape(-1, *operand.shape[-2:])[sequence]
            masks.append(SequenceMask(rows, columns, user=tree, first_user_column=columns - rows))
        return masks

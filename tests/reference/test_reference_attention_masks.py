"""Which columns are hidden, by matrices written out by hand."""

import numpy as np
import pytest

from cann_mla.reference.attention_masks import UNBOUNDED, MaskRule, SequenceMask

ANY = np.zeros((1, 1, 2048, 2048), bool)


def hidden(mask: SequenceMask) -> list[str]:
    """Rows as strings, x where a column is hidden; computed in tiles that cut everywhere."""
    scores = np.zeros((1, mask.rows, mask.columns))
    for row in range(0, mask.rows, 2):
        for column in range(0, mask.columns, 3):
            mask.hide(scores[:, row : row + 2, column : column + 3], row, column, 1.0)
    return ["".join("x" if hide else "." for hide in row) for row in scores[0]]


def one(mode: int, rows: int, columns: int, operand: np.ndarray = ANY, pre: int = UNBOUNDED, next_: int = UNBOUNDED):
    return MaskRule(mode, operand, pre, next_).for_sequences([rows], [columns], [0], [0])[0]


def test_left_up_causal() -> None:
    assert hidden(one(2, 3, 5)) == [".xxxx", "..xxx", "...xx"]


def test_right_down_causal() -> None:
    assert hidden(one(3, 3, 5)) == ["...xx", "....x", "....."]


def test_right_down_causal_with_more_rows_than_columns() -> None:
    mask = one(3, 4, 2)
    assert hidden(mask) == ["xx", "xx", ".x", ".."]
    assert mask.rows_outside_window(0, 4).tolist() == [True, True, False, False]


def test_band_counts_from_the_bottom_right_corner() -> None:
    assert hidden(one(4, 3, 5, pre=1, next_=0)) == ["x..xx", "xx..x", "xxx.."]


def test_band_with_a_negative_token() -> None:
    assert hidden(one(4, 3, 5, pre=2, next_=-1)) == ["..xxx", "x..xx", "xx..x"]


def test_window_of_mode_0_counts_from_the_top_left_corner_and_adds_to_the_mask() -> None:
    user = np.zeros((1, 1, 3, 5), bool)
    user[..., 0, 1] = True
    assert hidden(one(0, 3, 5, user, pre=0, next_=1)) == [".xxxx", "x..xx", "xx..x"]


def test_mode_1_ignores_the_window() -> None:
    user = np.array([[0, 1], [0, 0]], np.int8)
    assert hidden(one(1, 2, 2, user, pre=0, next_=0)) == [".x", ".."]


def test_without_operand_nothing_is_hidden() -> None:
    mask = MaskRule(3, None, 0, 0).for_sequences([2], [2], [0], [0])[0]
    assert hidden(mask) == ["..", ".."]


def test_rows_below_the_band_see_nothing() -> None:
    mask = one(0, 4, 2, np.zeros((4, 2), bool), pre=0, next_=5)
    assert mask.rows_outside_window(0, 4).tolist() == [False, False, True, True]


def test_user_masks_of_every_rank_find_their_batch() -> None:
    batched = np.array([[[0, 1]], [[1, 0]]], bool)
    for operand in (batched, batched[:, None]):
        masks = MaskRule(1, operand, 0, 0).for_sequences([1, 1], [2, 2], [0, 0], [0, 0])
        assert [hidden(m) for m in masks] == [[".x"], ["x."]]
    single = MaskRule(1, batched[:, 0], 0, 0, single_row=True).for_sequences([1, 1], [2, 2], [0, 0], [0, 0])
    assert [hidden(m) for m in single] == [[".x"], ["x."]]


def test_user_masks_count_in_left_padding() -> None:
    user = np.zeros((4, 4), bool)
    user[2, 3] = True
    mask = MaskRule(0, user, UNBOUNDED, UNBOUNDED).for_sequences([2], [2], [2], [2])[0]
    assert hidden(mask) == [".x", ".."]


def test_tree_covers_the_last_columns() -> None:
    tree = np.array([[[0, 1, 1], [0, 0, 1], [0, 1, 0]]], bool)
    assert hidden(one(9, 3, 5, tree)) == ["...xx", "....x", "...x."]


def test_packed_trees_lie_one_after_the_other() -> None:
    trees = np.array([0, 0, 1, 1, 0], np.int8)  # 1 x 1, then 2 x 2
    masks = MaskRule(9, trees, 0, 0).for_sequences([1, 2], [2, 3], [0, 0], [0, 0])
    assert [hidden(m) for m in masks] == [[".."], ["..x", ".x."]]


def test_tree_longer_than_its_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="3 query rows but only 2 key rows"):
        one(9, 3, 2, np.zeros((1, 3, 3), bool))


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="sparseMode 5"):
        one(5, 1, 1)


def test_visible_columns_bound_the_work() -> None:
    causal = one(3, 4, 100)
    assert causal.visible_columns(0, 2) == (0, 98)
    band = one(4, 100, 100, pre=3, next_=2)
    assert band.visible_columns(10, 12) == (7, 14)

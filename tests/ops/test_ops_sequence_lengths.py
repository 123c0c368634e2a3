"""The conventions of lengths, by hand and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_mla import ops


def test_by_hand() -> None:
    assert ops.prefix_sums([3, 0, 5]) == [3, 3, 8]
    assert ops.prefix_sums([3, 0, 5], leading_zero=True) == [0, 3, 3, 8]
    assert ops.lengths_of([3, 3, 8]) == [3, 0, 5]
    assert ops.lengths_of([0, 3, 3, 8], leading_zero=True) == [3, 0, 5]
    assert ops.prefix_sums([]) == []


@given(st.lists(st.integers(0, 1000)), st.booleans())
def test_there_and_back(lengths: list[int], leading_zero: bool) -> None:
    sums = ops.prefix_sums(lengths, leading_zero=leading_zero)
    assert ops.lengths_of(sums, leading_zero=leading_zero) == lengths


def test_refusals() -> None:
    with pytest.raises(ValueError, match="hold a negative one"):
        ops.prefix_sums([2, -1])
    with pytest.raises(ValueError, match="no prefix sums: they fall"):
        ops.lengths_of([3, 2])
    with pytest.raises(ValueError, match="do not begin with 0"):
        ops.lengths_of([3, 4], leading_zero=True)

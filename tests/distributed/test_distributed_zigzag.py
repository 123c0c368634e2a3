"""The split of sequences over ranks, and who attends to what in which step, by hand and by counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cann_mla.distributed.schedule import BlockCall, block_calls, ring_schedule
from cann_mla.distributed.zigzag import ZigZag

SIZES = (1, 2, 3, 4, 8)


def test_one_sequence_by_hand() -> None:
    split = ZigZag([16], 2)  # chunks of 4: 0..3, 4..7, 8..11, 12..15
    assert split.chunks(0) == (0, 3)
    assert split.chunks(1) == (1, 2)
    assert split.rows(0).tolist() == [0, 1, 2, 3, 12, 13, 14, 15]
    assert split.rows(1).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert split.work(0) == 1 + 2 + 3 + 4 + 13 + 14 + 15 + 16
    assert split.work(1) == 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12


def test_unequal_sequences_by_hand() -> None:
    split = ZigZag([10, 5], 2)  # 3 + 2 + 3 + 2 and 2 + 1 + 1 + 1 tokens; the second starts at row 10
    assert [split.chunk_lengths(chunk) for chunk in range(4)] == [(3, 2), (2, 1), (3, 1), (2, 1)]
    assert split.rows(0).tolist() == [0, 1, 2, 10, 11, 8, 9, 14]
    assert split.rows(1).tolist() == [3, 4, 12, 5, 6, 7, 13]
    assert split.rows_before(2).tolist() == [0, 1, 2, 3, 4, 10, 11, 12]
    assert (split.tokens(0), split.tokens(1)) == (8, 7)
    assert split.work(0) == (1 + 2 + 3) + (1 + 2) + (9 + 10) + 5
    assert split.work(1) == (4 + 5) + 3 + (6 + 7 + 8) + 4


def test_a_sequence_shorter_than_its_chunks() -> None:
    split = ZigZag([3], 4)
    assert [split.chunk_lengths(chunk)[0] for chunk in range(8)] == [1, 0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("ranks", SIZES)
def test_every_token_has_one_rank_and_join_puts_it_back(ranks: int) -> None:
    split = ZigZag([37, 1, 200, 16], ranks)
    tokens = np.arange(254)
    shards = [tokens[split.rows(rank)] for rank in range(ranks)]
    assert [len(shard) for shard in shards] == [split.tokens(rank) for rank in range(ranks)]
    np.testing.assert_array_equal(split.join(shards), tokens)
    np.testing.assert_array_equal(split.join([np.stack([s, -s]) for s in shards], axis=1), [tokens, -tokens])


@pytest.mark.parametrize("ranks", SIZES)
def test_work_is_balanced_within_five_percent(ranks: int) -> None:
    split = ZigZag([4096, 1000, 777], ranks)
    work = [split.work(rank) for rank in range(ranks)]
    assert sum(work) == sum(n * (n + 1) // 2 for n in split.lengths)
    assert max(work) <= 1.05 * min(work)


@pytest.mark.parametrize(("lengths", "ranks"), [([], 2), ([4, 0], 2), ([4], 0)])
def test_refused_splits(lengths: list[int], ranks: int) -> None:
    with pytest.raises(ValueError, match=r"at least 1|needs a token"):
        ZigZag(lengths, ranks)


def test_refused_ranks_and_shards() -> None:
    split = ZigZag([8], 2)
    with pytest.raises(ValueError, match="rank is 2; allowed is 0 to 1"):
        split.rows(2)
    with pytest.raises(ValueError, match="1 shards were given for 2 ranks"):
        split.join([np.arange(8)])
    with pytest.raises(ValueError, match=r"the shards have \[4, 3\] tokens; the sequences have 8"):
        split.join([np.arange(4), np.arange(3)])
    for chunk in (-1, 4):
        with pytest.raises(ValueError, match="allowed is 0 to 3"):
            split.chunk_lengths(chunk)


@pytest.mark.parametrize(("lengths", "ranks"), [([2.7], 2), (["3"], 2), ([True], 2), (8, 2), ([8], 2.5), ([8], "2")])
def test_nothing_is_rounded_to_a_number(lengths: Any, ranks: Any) -> None:
    with pytest.raises(TypeError, match=r"takes (an integer|a sequence of integers)"):
        ZigZag(lengths, ranks)


def test_calls_of_four_ranks_by_hand() -> None:
    early, late = 0, 1
    own = (BlockCall(early, early, True), BlockCall(late, late, True), BlockCall(late, early, False))
    assert block_calls(2, 2, 4) == own
    # Rank 2 has chunks 2 and 5; rank 1 has 1 and 6, rank 3 has 3 and 4.
    assert block_calls(2, 1, 4) == (BlockCall(early, early, False), BlockCall(late, early, False))
    assert block_calls(2, 3, 4) == (BlockCall(late, early, False), BlockCall(late, late, False))
    assert [step.source for step in ring_schedule(1, 4)] == [1, 0, 3, 2]


@pytest.mark.parametrize("ranks", SIZES)
def test_the_ring_covers_the_triangle_once(ranks: int) -> None:
    seen = np.zeros((2 * ranks, 2 * ranks), int)
    for rank in range(ranks):
        split, calls = ZigZag([2 * ranks], ranks), 0
        for step in ring_schedule(rank, ranks):
            for call in step.calls:
                query, key = split.chunks(rank)[call.query], split.chunks(step.source)[call.kv]
                seen[query, key] += 1
                assert call.causal == (query == key)
                calls += 1
        assert calls == 2 * ranks + 1
    np.testing.assert_array_equal(seen, np.tril(np.ones_like(seen)))


@pytest.mark.parametrize("ranks", SIZES)
def test_each_step_takes_what_the_rank_before_had(ranks: int) -> None:
    schedules = [ring_schedule(rank, ranks) for rank in range(ranks)]
    for step in range(1, ranks):
        for rank in range(ranks):
            assert schedules[rank][step].source == schedules[rank - 1][step - 1].source

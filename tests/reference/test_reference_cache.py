import numpy as np
import pytest

from cann_mla.reference.cache import scatter, token_rows


def index(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("mode", ["BSND", "TND"])
def test_plain_layouts_take_rows_in_order(mode: str) -> None:
    assert token_rows(mode, (2, 3), 0, None, None).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
def test_paged_modes_take_rows_from_the_index(mode: str) -> None:
    assert token_rows(mode, (4,), 16, index(17, -1, 0, 5), None).tolist() == [17, -1, 0, 5]


def test_blocks_of_the_specification_example() -> None:
    """Lengths 47, 104, 110, 161 in blocks of 128: one, one, one and two entries."""
    ends = np.array([47, 151, 261, 422], np.int32)
    blocks = index(10, 11, 12, 13, 14)
    rows = token_rows("PA_BLK_BSND", (422,), 128, blocks, ends)
    assert rows[[0, 46]].tolist() == [1280, 1280 + 46]
    assert rows[[47, 150]].tolist() == [11 * 128, 11 * 128 + 103]
    assert rows[261] == 13 * 128
    assert rows[261 + 127] == 13 * 128 + 127
    assert rows[261 + 128] == 14 * 128
    assert rows[421] == 14 * 128 + 32


def test_sequences_of_length_zero_take_no_entry() -> None:
    ends = np.array([0, 2, 2, 5], np.int32)
    assert token_rows("PA_BLK_NZ", (5,), 16, index(3, 7), ends).tolist() == [48, 49, 112, 113, 114]


def test_tokens_past_the_last_end_belong_to_the_last_sequence() -> None:
    ends = np.array([1, 2], np.int32)
    assert token_rows("PA_BLK_BSND", (4,), 16, index(0, 5), ends).tolist() == [0, 80, 81, 82]


def test_unfused_blocks_restart_with_every_sequence() -> None:
    rows = token_rows("PA_BLK_BSND", (2, 17), 16, np.array([[0, 1], [4, 5]], np.int64), None)
    assert rows[[0, 15, 16, 17, 33]].tolist() == [0, 15, 16, 64, 80]


def test_negative_blocks_skip_their_tokens() -> None:
    rows = token_rows("PA_BLK_BSND", (1, 17), 16, index(-1, 2), None)
    assert (rows[:16] < 0).all()
    assert rows[16] == 32


def test_missing_and_short_operands_are_named() -> None:
    with pytest.raises(ValueError, match=r"one of PA_BSND.*got 'BNSD'"):
        token_rows("BNSD", (1,), 16, None, None)
    with pytest.raises(ValueError, match="needs cache_index"):
        token_rows("PA_NZ", (1,), 16, None, None)
    with pytest.raises(ValueError, match="a token: 3, not 2"):
        token_rows("PA_BSND", (3,), 16, index(0, 1), None)
    with pytest.raises(ValueError, match="actual_seq_len"):
        token_rows("PA_BLK_BSND", (3,), 16, index(0), None)
    with pytest.raises(ValueError, match="1 entries, the sequences take 2 blocks"):
        token_rows("PA_BLK_BSND", (1, 17), 16, index(0), None)


def test_scatter_leaves_other_rows_alone() -> None:
    cache = np.arange(4 * 8, dtype=np.int8).reshape(2, 2, 1, 8)
    before = cache.copy()
    scatter(cache, index(2, -5), np.full((2, 8), 99, np.int8))
    assert (cache.reshape(4, 8)[2] == 99).all()
    np.testing.assert_array_equal(cache.reshape(4, 8)[[0, 1, 3]], before.reshape(4, 8)[[0, 1, 3]])


def test_nz_scatter_addresses_elements_as_specified() -> None:
    block_size, width, c0 = 16, 64, 32
    cache = np.zeros((3, block_size, 1, width), np.int8)
    values = np.arange(2 * width, dtype=np.int8).reshape(2, width)
    rows = index(37, 5)
    scatter(cache, rows, values, c0=c0)
    flat = cache.reshape(-1)
    for row, value in zip(rows, values, strict=True):
        block, offset = divmod(int(row), block_size)
        for c in range(width):
            assert flat[block * block_size * width + (c // c0) * block_size * c0 + offset * c0 + c % c0] == value[c]
    assert np.count_nonzero(flat) == np.count_nonzero(values)


def test_rows_outside_the_cache_are_refused() -> None:
    with pytest.raises(ValueError, match="cache row 32 lies outside"):
        scatter(np.zeros((2, 16, 1, 8), np.int8), index(32), np.zeros((1, 8), np.int8))

"""Layouts, lengths and caches: where an element of a sequence lies."""

import numpy as np
import pytest

from cann_mla.reference.attention_layouts import (
    heads_first,
    lse_shape,
    lse_view,
    output_shape,
    parse_layouts,
)
from cann_mla.reference.attention_lengths import Span, packed_spans, padded_spans
from cann_mla.reference.attention_operands import int4_from_words
from cann_mla.reference.attention_sources import PagedRows, PlainRows, PrefixedRows

B, N, S, D = 2, 3, 4, 5


def coordinates() -> np.ndarray:
    """An array (B, N, S, D) whose value tells its place: b n s d as decimal digits."""
    axes = np.meshgrid(*(np.arange(n) for n in (B, N, S, D)), indexing="ij")
    return axes[0] * 1000 + axes[1] * 100 + axes[2] * 10 + axes[3]


@pytest.mark.parametrize(
    ("order", "axes"),
    [("BSND", (0, 2, 1, 3)), ("BNSD", (0, 1, 2, 3)), ("NBSD", (1, 0, 2, 3)), ("BSH", (0, 2, 1, 3))],
)
def test_padded_layouts_have_heads_first_views(order: str, axes: tuple[int, ...]) -> None:
    array = np.ascontiguousarray(coordinates().transpose(axes))
    if order == "BSH":
        array = array.reshape(B, S, N * D)
    assert array.shape == output_shape(order, B, N, S, D)
    assert np.array_equal(heads_first(array, order, N), coordinates())


def test_packed_layouts_have_one_batch() -> None:
    packed = np.concatenate(list(coordinates()), axis=1)  # (N, B * S, D)
    assert np.array_equal(heads_first(packed, "NTD", N)[0], packed)
    assert np.array_equal(heads_first(packed.transpose(1, 0, 2), "TND", N)[0], packed)


def test_views_of_outputs_write_through() -> None:
    out = np.zeros(output_shape("BSH", B, N, S, D))
    heads_first(out, "BSH", N)[1, 2, 3, 4] = 7
    assert out[1, 3, 2 * D + 4] == 7
    lse = np.zeros(lse_shape("NTD", 1, N, S))
    lse_view(lse, "NTD")[0, 2, 3] = 7
    assert lse.shape == (S, N, 1)
    assert lse[3, 2, 0] == 7


def test_names_split_into_input_and_output() -> None:
    assert parse_layouts("BNSD_NBSD") == parse_layouts("BNSD").__class__("BNSD", "NBSD")
    assert parse_layouts("TND").packed
    with pytest.raises(ValueError, match="SBH"):
        parse_layouts("SBH")


def test_wrong_number_of_heads_is_named() -> None:
    with pytest.raises(ValueError, match="has 3 heads, expected 2"):
        heads_first(np.zeros((B, N, S, D)), "BNSD", 2)


def test_lengths_of_padded_layouts() -> None:
    assert padded_spans(None, 2, [4, 4]) == [Span(0, 0, 4), Span(1, 0, 4)]
    assert padded_spans([], 2, [4, 4]) == [Span(0, 0, 4), Span(1, 0, 4)]
    assert padded_spans([3], 2, [4, 4]) == [Span(0, 0, 3), Span(1, 0, 3)]
    assert padded_spans([3, 1, 9], 2, [4, 4]) == [Span(0, 0, 3), Span(1, 0, 1)]
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        padded_spans([5], 2, [4, 4])


def test_left_padding_pushes_rows_to_the_right() -> None:
    assert padded_spans([3, 1], 2, [8, 8], 2) == [Span(0, 3, 3), Span(1, 5, 1)]
    # A negative size counts as 0, and rows that do not fit leave their batch empty.
    assert padded_spans([3, 8], 2, [8, 8], -1) == [Span(0, 5, 3), Span(1, 0, 8)]
    assert padded_spans([3, 7], 2, [8, 8], 2) == [Span(0, 3, 3), Span(1, 0, 0)]


def test_cumulative_lengths() -> None:
    assert packed_spans([2, 2, 5], 5) == [Span(0, 0, 2), Span(0, 2, 0), Span(0, 2, 3)]
    with pytest.raises(ValueError, match="end at 4"):
        packed_spans([2, 4], 5)
    with pytest.raises(ValueError, match="cumulative sum"):
        packed_spans(None, 5)


def cache_of(rows: np.ndarray, blocks: list[int], size: int) -> np.ndarray:
    """Cache (blocks, heads, size, D) with the rows (heads, tokens, D) in the named blocks, -1 elsewhere."""
    cache = np.full((max(blocks) + 2, rows.shape[0], size, rows.shape[2]), -1)
    for i, block in enumerate(blocks):
        part = rows[:, i * size : (i + 1) * size]
        cache[block, :, : part.shape[1]] = part
    return cache


@pytest.mark.parametrize("form", ["BnNBsD", "BnBsH", "NZ"])
def test_paged_rows_come_from_the_table_in_every_cache_layout(form: str) -> None:
    rows = np.arange(2 * 7 * 8).reshape(2, 7, 8)
    cache = cache_of(rows, [3, 0, 2, 4], 2)
    if form == "BnBsH":
        cache = cache.transpose(0, 2, 1, 3).reshape(len(cache), 2, 16)
    elif form == "NZ":
        cache = cache.reshape(len(cache), 2, 2, 2, 4).transpose(0, 1, 3, 2, 4)
    source = PagedRows(np.ascontiguousarray(cache), np.array([[3, 0, 2, 4, -1]]), 2, 2)
    assert source.width == 8
    assert np.array_equal(source.rows(0, slice(None), 0, 7), rows)
    assert np.array_equal(source.rows(0, slice(1, 2), 3, 6), rows[1:2, 3:6])


def test_block_outside_the_cache_is_named() -> None:
    source = PagedRows(np.zeros((2, 1, 4, 8)), np.array([[0, 5]]), 1, 4)
    assert source.rows(0, slice(None), 0, 4).shape == (1, 4, 8)
    with pytest.raises(ValueError, match=r"blockTable row 0.*\[5\]"):
        source.rows(0, slice(None), 5, 6)


def test_prefix_comes_first() -> None:
    own = PlainRows(np.arange(10, 16).reshape(1, 1, 6, 1), "BNSD", 1, [Span(0, 2, 4)])
    source = PrefixedRows(np.arange(3).reshape(1, 3, 1), 3, own)
    assert source.rows(0, slice(None), 0, 7).ravel().tolist() == [0, 1, 2, 12, 13, 14, 15]
    assert source.rows(0, slice(None), 2, 4).ravel().tolist() == [2, 12]
    assert source.rows(0, slice(None), 4, 6).ravel().tolist() == [13, 14]


def test_words_hold_eight_nibbles_lowest_first() -> None:
    words = np.array([[0x76543210, -1]], np.int32)
    assert int4_from_words(words).astype(int).tolist() == [[*range(8), *[-1] * 8]]

"""Block tables and paged caches, element by element and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla import ops


def test_block_tables_by_hand() -> None:
    assert ops.block_table([5, 0, 4], 4).tolist() == [[0, 1], [0, 0], [2, 0]]
    table = ops.block_table([5, 0, 4], 4, blocks=[7, 3, 9, 1], width=3)
    assert table.tolist() == [[7, 3, 0], [0, 0, 0], [9, 0, 0]]
    assert table.dtype == np.int32


@pytest.mark.parametrize("element", [np.float16, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("layout", ["BnBsH", "BnBsND", "BnNBsD", "NZ"])
def test_every_element_lies_where_the_document_says(layout: str, element: Any) -> None:
    """The formulas of the four layouts, for every row of three sequences."""
    lengths, size, heads, width = [5, 0, 9], 4, 2, 64
    rng = np.random.default_rng(0)
    sequences = [rng.integers(-100, 100, (n, heads, width)).astype(element) for n in lengths]
    table = ops.block_table(lengths, size, blocks=[6, 2, 0, 5, 1])
    cache = ops.paged_cache(sequences, table, size, layout=layout, block_count=8)
    c = 32 // np.dtype(element).itemsize
    shapes = {
        "BnBsH": (8, 4, 128),
        "BnBsND": (8, 4, 2, 64),
        "BnNBsD": (8, 2, 4, 64),
        "NZ": (8, 2, 64 // c, 4, c),
    }
    assert cache.shape == shapes[layout]
    for b, sequence in enumerate(sequences):
        for s in range(len(sequence)):
            u, t = table[b, s // size], s % size
            for n in range(heads):
                for d in (0, 1, c - 1, c % width, width - 1):
                    places = {
                        "BnBsH": (u, t, n * width + d),
                        "BnBsND": (u, t, n, d),
                        "BnNBsD": (u, n, t, d),
                        "NZ": (u, n, d // c, t, d % c),
                    }
                    assert cache[places[layout]] == sequence[s, n, d]
    untouched = [block for block in range(8) if block not in (6, 2, 0, 5, 1)]
    assert not cache[untouched].astype(np.float32).any()


@pytest.mark.parametrize("layout", ["BnBsH", "BnBsND", "BnNBsD", "NZ"])
def test_there_and_back(layout: str, normal: Any) -> None:
    lengths = [17, 1, 40]
    sequences = [normal(i, n, 3, 32) for i, n in enumerate(lengths)]
    table = ops.block_table(lengths, 16, blocks=[5, 4, 3, 2, 1, 0])
    cache = ops.paged_cache(sequences, table, 16, layout=layout)
    back = ops.from_paged_cache(cache, table, lengths, layout=layout, heads=3)
    for own, original in zip(back, sequences, strict=True):
        np.testing.assert_array_equal(own, original)


ONE = np.zeros((3, 1, 16), np.float16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.block_table([5], 4, blocks=[1]), "2 different blocks are needed; 1 were given"),
        (lambda: ops.block_table([5], 4, blocks=[1, 1]), "2 different blocks are needed; 1 were given"),
        (lambda: ops.block_table([5], 4, width=1), "needs 2 blocks"),
        (lambda: ops.block_table([5], 0), "block_size=0"),
        (lambda: ops.block_table([-5], 4), "no length negative"),
        (lambda: ops.paged_cache([ONE], np.array([[0]], np.int32), 2), r"1 sequences that need \[2\]"),
        (lambda: ops.paged_cache([ONE, ONE], np.array([[1], [1]], np.int32), 4), "gives two rows the same place"),
        (lambda: ops.paged_cache([ONE], np.array([[3]], np.int32), 4, block_count=3), "block 3; the cache has 3"),
        (lambda: ops.paged_cache([ONE], np.array([[0]], np.int32), 4, layout="BSH"), "BnBsH, BnBsND, BnNBsD, NZ"),
        (lambda: ops.paged_cache([ONE[..., :8]], np.array([[0]], np.int32), 4, layout="NZ"), "8 is no multiple"),
        (lambda: ops.paged_cache([ONE, ONE[0]], np.array([[0], [1]], np.int32), 4), r"all must be \(S, N, D\)"),
        (lambda: ops.from_paged_cache(ONE, np.array([[0]], np.int32), [1]), "is not BnNBsD, which has 4 axes"),
    ],
)  # fmt: skip
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

"""FRACTAL_NZ by hand, and RingMLA: masks as templates, large scores, widths of integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import formats, ops

ROPE = 64


def zeros(*shape: int) -> Any:
    return np.zeros(shape, ml_dtypes.bfloat16)


def test_blocks_of_sixteen_columns_for_two_bytes() -> None:
    """(17, 18) of 32 x 32: block 18 / 16 = 1 of columns, block 17 / 16 = 1 of rows, there row 1, column 2."""
    matrix = np.zeros((32, 32), ml_dtypes.bfloat16)
    matrix[17, 18] = 1
    assert np.flatnonzero(formats.nz_pack(matrix)) == [(1 * 2 + 1) * 256 + 1 * 16 + 2]


def test_blocks_of_thirty_two_columns_for_one_byte() -> None:
    matrix = np.zeros((32, 64), np.int8)
    matrix[17, 40] = 1
    assert np.flatnonzero(formats.nz_pack(matrix)) == [(1 * 2 + 1) * 512 + 1 * 32 + 8]


def test_rows_of_a_cache_in_blocks() -> None:
    """Slot 130 is row 2 of block 1; channel 37 lies in stripe 2 of 16 channels, at 5."""
    rows = np.zeros((256, 1, 512), ml_dtypes.bfloat16)
    rows[130, 0, 37] = 1
    cache = ops.paged_cache([rows], np.array([[0, 1]], np.int32), 128, layout="NZ")
    assert np.flatnonzero(cache) == [1 * 128 * 512 + 2 * 128 * 16 + 2 * 16 + 5]


@pytest.mark.parametrize("element", [ml_dtypes.bfloat16, np.int8])
def test_unpacking_undoes_packing_and_transposing_does_not(element: Any) -> None:
    matrix = np.random.default_rng(1).integers(-100, 100, (32, 64)).astype(element)
    packed = formats.nz_pack(matrix)
    np.testing.assert_array_equal(formats.nz_unpack(packed, matrix.shape), matrix)
    assert (packed.ravel() != formats.nz_pack(np.ascontiguousarray(matrix.T)).ravel()).any()


@pytest.mark.parametrize(("queries", "keys"), [(700, 700), (700, 1000), (4097, 4097)])
def test_a_mask_of_512_serves_any_length(stream: Any, queries: int, keys: int) -> None:
    """Anchored at the first column: row i sees i + 1 columns."""
    with ops.ring_mla(
        zeros(queries, 1, 128), zeros(queries, 1, ROPE), zeros(keys, 1, 128), zeros(keys, 1, ROPE),
        zeros(keys, 1, 128) + 1, [queries], [keys], causal=True, stream=stream,
    ) as result:  # fmt: skip
        stream.synchronize()
        lse = result.softmax_lse.to_numpy()
    np.testing.assert_allclose(lse[0], np.log(np.arange(1, queries + 1)), atol=3e-6)


def test_large_scores_merge_without_overflow(stream: Any) -> None:
    """A score of 128 * 0.78125 = 100 meets an lse of 100: ln(e^100 + e^100) = 100 + ln 2, the values 6 and 2 give 4."""
    query, key = zeros(1, 1, 128) + 1, zeros(1, 1, 128) + ml_dtypes.bfloat16(0.78125)
    previous = (
        cann_mla.Tensor.from_numpy(zeros(1, 1, 128) + 2),
        cann_mla.Tensor.from_numpy(np.full((1, 1), 100, np.float32)),
    )
    with ops.ring_mla(
        query, zeros(1, 1, ROPE), key, zeros(1, 1, ROPE), zeros(1, 1, 128) + 6, [1],
        qk_scale=1.0, previous=previous, stream=stream,
    ) as result:  # fmt: skip
        stream.synchronize()
        np.testing.assert_allclose(result.softmax_lse.to_numpy(), 100 + np.log(2), rtol=1e-6)
        np.testing.assert_array_equal(result.output.to_numpy().astype(float), 4.0)

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_mla import per_tile_row
from cann_mla.dtypes import HIFLOAT8_NUMPY, dtype
from cann_mla.formats import nz_block_columns, nz_pack, nz_storage_shape, nz_unpack

TYPES = ("BF16", "INT8", "FP32", "HIFLOAT8", "FLOAT8_E4M3FN", "INT4", "INT64")


def numbered(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Matrices whose elements tell their places apart as far as the type allows."""
    values = np.arange(np.prod(shape)).reshape(shape)
    if name == "HIFLOAT8":
        return (values % 251).astype(np.uint8).view(HIFLOAT8_NUMPY)
    return (values % (7 if name in ("INT4", "FLOAT8_E4M3FN") else 251)).astype(dtype(name).numpy)


@pytest.mark.parametrize(
    ("name", "c0"), [("BF16", 16), ("FP16", 16), ("INT8", 32), ("HIFLOAT8", 32), ("FP32", 8), ("INT4", 64)]
)
def test_a_block_row_holds_32_bytes(name: str, c0: int) -> None:
    assert nz_block_columns(name) == c0


def test_storage_shape_of_the_official_sample() -> None:
    assert nz_storage_shape((7168, 1536), "BF16") == (96, 448, 16, 16)
    assert nz_storage_shape((1536, 24576), "INT8") == (768, 96, 16, 32)
    assert nz_storage_shape((2, 17, 33), "INT8") == (2, 2, 2, 16, 32)


@pytest.mark.parametrize("name", ["BF16", "INT8", "HIFLOAT8"])
def test_elements_lie_where_the_specification_puts_them(name: str) -> None:
    rows, columns = 48, 96
    matrix = numbered((rows, columns), name)
    c0 = nz_block_columns(name)
    flat = nz_pack(matrix).reshape(-1)
    for k, m in [(0, 0), (17, 5), (47, 95), (16, 31), (15, 64)]:
        offset = ((m // c0) * (rows // 16) + k // 16) * 16 * c0 + (k % 16) * c0 + m % c0
        assert flat[offset] == matrix[k, m]


def test_partial_blocks_are_filled_up_with_zeros() -> None:
    packed = nz_pack(np.ones((17, 40), np.int8))
    assert packed.shape == (2, 2, 16, 32)
    assert packed.astype(np.int64).sum() == 17 * 40
    assert packed[0, 1, 0].all()
    assert not packed[0, 1, 1:].any()
    assert packed[1, 0, :, :8].all()
    assert not packed[1, :, :, 8:].any()


@settings(deadline=None)
@given(st.integers(0, 70), st.integers(0, 150), st.sampled_from(TYPES))
def test_unpacking_undoes_packing(rows: int, columns: int, name: str) -> None:
    matrix = numbered((rows, columns), name)
    packed = nz_pack(matrix)
    assert packed.shape == nz_storage_shape((rows, columns), name)
    assert packed.dtype == matrix.dtype
    np.testing.assert_array_equal(nz_unpack(packed, (rows, columns)), matrix)
    np.testing.assert_array_equal(nz_unpack(packed.reshape(-1), (rows, columns)), matrix)


@pytest.mark.parametrize("outer", [(3,), (2, 2), (0,)])
def test_matrices_of_a_batch_are_packed_one_by_one(outer: tuple[int, ...]) -> None:
    batch = numbered((*outer, 17, 33), "INT8")
    packed = nz_pack(batch)
    assert packed.shape == (*outer, 2, 2, 16, 32)
    for index in np.ndindex(*outer):
        np.testing.assert_array_equal(packed[index], nz_pack(batch[index]))
    np.testing.assert_array_equal(nz_unpack(packed, batch.shape), batch)


def test_strided_and_transposed_matrices_are_read_as_they_look() -> None:
    matrix = numbered((96, 64), "BF16")
    np.testing.assert_array_equal(nz_pack(matrix.T), nz_pack(np.ascontiguousarray(matrix.T)))
    np.testing.assert_array_equal(nz_pack(matrix[::2, 16:48]), nz_pack(matrix[::2, 16:48].copy()))


def test_wrong_ranks_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a matrix"):
        nz_pack(np.zeros(4, np.int8))
    with pytest.raises(ValueError, match="two dimensions"):
        nz_storage_shape((4,), "BF16")
    with pytest.raises(ValueError, match=r"takes storage shape \(1, 1, 16, 16\)"):
        nz_unpack(np.zeros(255, np.float16), (16, 16))


# ---- the 656-byte row -----------------------------------------------------------------------------


def test_per_tile_row_parts_are_views_at_their_offsets() -> None:
    cache = np.zeros((2, 16, 1, 656), np.int8)
    per_tile_row.payload(cache)[1, 2, 0, 511] = 5
    per_tile_row.rope(cache)[1, 2, 0, 0] = 1.0
    per_tile_row.scales(cache)[1, 2, 0, 3] = 0.5
    row = cache[1, 2, 0].view(np.uint8)
    assert row[511] == 5
    assert row[512:514].tolist() == [0x80, 0x3F]  # BF16 1.0, little-endian
    assert row[652:656].tolist() == [0, 0, 0, 0x3F]  # float32 0.5
    assert np.count_nonzero(cache.view(np.uint8)) == 4
    assert per_tile_row.rope(cache).shape == (2, 16, 1, 64)
    assert per_tile_row.rope(cache).dtype == ml_dtypes.bfloat16


def test_per_tile_payload_keeps_the_type_of_the_cache() -> None:
    assert per_tile_row.payload(np.zeros((3, 656), HIFLOAT8_NUMPY)).dtype == HIFLOAT8_NUMPY


@pytest.mark.parametrize("cache", [np.zeros((4, 512), np.int8), np.zeros((4, 656), np.int16)])
def test_other_rows_are_refused(cache: np.ndarray) -> None:
    with pytest.raises(ValueError, match="656 one-byte elements"):
        per_tile_row.scales(cache)

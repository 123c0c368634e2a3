"""Where the elements of a view lie in memory; expected positions are counted by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import dtype
from cann_mla.layout import Layout, dense_strides


def test_dense_strides_are_row_major() -> None:
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
    assert dense_strides(()) == ()


def test_dense_layout_keeps_bytes() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    layout = Layout.make((2, 3), "INT16")
    assert layout.dense
    assert layout.pack(array).tobytes() == array.tobytes()


def test_strided_view_puts_elements_where_the_strides_say() -> None:
    layout = Layout.make((2, 3), "INT32", strides=(8, 2), offset=1)
    memory = layout.pack(np.array([[1, 2, 3], [4, 5, 6]], np.int32)).view(np.int32)
    # element (i, j) at 1 + 8 i + 2 j, the last one at 13
    assert memory.tolist() == [0, 1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 5, 0, 6]
    assert layout.unpack(memory.view(np.uint8)).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_storage_covers_the_view() -> None:
    assert Layout.make((2, 3), "INT32", strides=(3, 1)).storage_shape == (2, 3)
    assert Layout.make((2, 3), "INT32", strides=(8, 2), offset=1).storage_shape == (1 + 8 + 2 * 2 + 1,)
    assert Layout.make((2, 3), "INT32", strides=(8, 2), storage_shape=(2, 3)).storage_shape == (2, 3)


def test_array_of_any_strides_is_taken() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    layout = Layout.make(array.shape, "FP32")
    assert layout.pack(array).view(np.float32).tolist() == [0, 4, 8, 2, 6, 10]


def test_matrix_in_fractal_nz_is_blocked() -> None:
    array = np.zeros((16, 32), ml_dtypes.bfloat16)
    array[3, 17] = 5
    layout = Layout.make((16, 32), "BF16", format="FRACTAL_NZ")
    assert layout.storage_shape == (2, 1, 16, 16)
    memory = layout.pack(array).view(ml_dtypes.bfloat16)
    # column 17 is column 1 of the second block of 16 x 16
    assert np.flatnonzero(memory).tolist() == [256 + 3 * 16 + 1]
    assert (layout.unpack(memory.view(np.uint8)) == array).all()


def test_blocks_given_as_such_are_not_packed_again() -> None:
    blocks = np.arange(2 * 1 * 16 * 16, dtype=np.float16).reshape(2, 1, 16, 16)
    layout = Layout.make(blocks.shape, "FP16", format="FRACTAL_NZ")
    assert not layout.blocked
    assert layout.pack(blocks).tobytes() == blocks.tobytes()


def test_int4_is_packed_two_a_byte_low_nibble_first() -> None:
    layout = Layout.make((2, 2), "INT4")
    memory = layout.pack(np.array([[1, -1], [7, -8]], ml_dtypes.int4))
    assert memory.tolist() == [0xF1, 0x87]
    assert layout.unpack(memory).tolist() == [[1, -1], [7, -8]]
    assert layout.nbytes == 2


def test_storage_larger_than_the_view_is_filled_with_zeros() -> None:
    layout = Layout.make((2,), "UINT8", storage_shape=(4,))
    assert layout.pack(np.array([5, 6], np.uint8)).tolist() == [5, 6, 0, 0]


def test_empty_view_needs_no_memory() -> None:
    layout = Layout.make((0, 7), "FP32")
    assert layout.nbytes == 0
    assert layout.pack(np.zeros((0, 7), np.float32)).size == 0


def test_scalar_view_has_one_element() -> None:
    assert Layout.make((), "FP32").nbytes == 4


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (np.zeros((3,), np.float32), ValueError, r"shape \(3,\), the tensor \(2,\)"),
        (np.zeros((2,), np.float64), TypeError, "the array is FP64, the tensor FP32"),
    ],
)
def test_array_that_does_not_fit_is_refused(array: np.ndarray, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Layout.make((2,), "FP32").pack(array)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="one stride a dimension"):
        Layout.make((2, 3), "FP32", strides=(1,))
    with pytest.raises(ValueError, match="not negative"):
        Layout.make((2, 3), "FP32", offset=-1)


@pytest.mark.parametrize("kind", ["FLOAT8_E5M2", "FLOAT8_E4M3FN", "HIFLOAT8", "BF16", "FP16", "INT64"])
def test_strided_views_of_every_kind_come_back(kind: str) -> None:
    element = dtype(kind).numpy
    array = np.arange(6 * element.itemsize, dtype=np.uint8).view(element).reshape(2, 3)
    layout = Layout.make((2, 3), kind, strides=(8, 2), offset=1)
    assert layout.unpack(layout.pack(array)).tobytes() == array.tobytes()

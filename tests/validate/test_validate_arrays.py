"""Operands as arrays: npz convention, storage order, views, aliases, lists."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate.arrays import (
    from_file,
    from_storage,
    logical_matrix,
    make_operands,
    read_npz,
    to_storage,
    write_npz,
)
from cann_mla.validate.cases import TensorSpec, parse
from cann_mla.validate.data import DataError

VALUES = {"dist": "values", "values": [1, 2, 3, 4]}


def operands(tensors, given=None, outputs=(), folder=None, **keys):
    case = parse({"id": "a", "op": "x", "tensors": tensors, **keys}, **({"folder": folder} if folder else {}))
    return make_operands(case, is_output=lambda name: name in outputs, given=given)


def test_names_of_a_list():
    got = operands({"key": [{"shape": [2], "dtype": "FP16"}, {"shape": [3], "dtype": "FP16"}], "q": None})
    assert sorted(got) == ["key.0", "key.1"]
    assert got["key.0"].shape == (2,)
    assert got["key.1"].dtype == np.float16


def test_given_arrays_replace_data_and_others_are_ignored(tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([7, 8], np.float32), stranger=np.zeros(3))
    tensors = {
        "x": {"shape": [2], "dtype": "FP32"},
        "y": {"shape": [2], "dtype": "FP32", "data": {"dist": "ones"}},
    }
    got = operands(tensors, folder=tmp_path, inputs_npz=["in.npz"])
    assert got["x"].tolist() == [7, 8]
    assert got["y"].tolist() == [1, 1]
    got = operands(tensors, given={"x": np.array([9, 9], np.float32)}, folder=tmp_path, inputs_npz=["in.npz"])
    assert got["x"].tolist() == [9, 9]


def test_bit_patterns_of_a_file():
    got = operands({"x": {"shape": [2], "dtype": "BF16"}}, {"x": np.array([0x3F80, 0x4000], np.uint16)})
    assert got["x"].astype(np.float32).tolist() == [1.0, 2.0]
    got = operands({"x": {"shape": [4], "dtype": "INT4"}}, {"x": np.array([0x21, 0xF8], np.uint8)})
    assert got["x"].astype(int).tolist() == [1, 2, -8, -1]


def test_a_file_that_does_not_fit_is_named():
    with pytest.raises(DataError, match="x: the file holds shape"):
        operands({"x": {"shape": [2], "dtype": "FP32"}}, {"x": np.zeros(3, np.float32)})
    with pytest.raises(DataError, match="x: BF16"):
        operands({"x": {"shape": [2], "dtype": "BF16"}}, {"x": np.zeros(2, np.float32)})


def test_npz_round_trip(tmp_path):
    arrays = {
        "a": np.array([1.5, -2], ml_dtypes.bfloat16),
        "b": np.array([1, -1], ml_dtypes.int4),
        "c": np.array([3], np.uint8).view([("hifloat8", "u1")]),
    }
    write_npz(tmp_path / "out.npz", arrays)
    bits = read_npz(tmp_path / "out.npz")
    assert bits["a"].tolist() == [0x3FC0, 0xC000]
    assert bits["b"].tolist() == [0xF1]
    assert bits["c"].tolist() == [3]


def test_alias_shares_the_storage():
    got = operands(
        {
            "x": {"shape": [2, 2], "dtype": "FP32", "data": VALUES},
            "y": {"shape": [4], "dtype": "FP32", "alias": "x"},
        }
    )
    assert got["y"].tolist() == [1, 2, 3, 4]
    got = operands(
        {
            "k": [{"shape": [1], "dtype": "FP32", "data": {"dist": "values", "values": [v]}} for v in (5, 6)],
            "v": [
                {"shape": [1], "dtype": "FP32", "alias": "k"},
                {"shape": [1], "dtype": "FP32", "alias": "k"},
            ],
        }
    )
    assert got["v.0"].tolist() == [5]
    assert got["v.1"].tolist() == [6]
    with pytest.raises(DataError, match="nobody"):
        operands({"y": {"shape": [1], "dtype": "FP32", "alias": "nobody"}})


def test_transposed_view():
    spec = TensorSpec((2, 2), "FP32", strides=(1, 2))
    array = np.array([[1, 2], [3, 4]], np.float32)
    storage = to_storage(array, spec)
    assert storage.tolist() == [1, 3, 2, 4]
    assert np.array_equal(from_storage(storage, spec), array)


def test_offset_and_padded_rows():
    spec = TensorSpec((2, 2), "INT8", strides=(3, 1), offset=1, storage_shape=(8,))
    assert to_storage(np.array([[1, 2], [3, 4]], np.int8), spec).tolist() == [0, 1, 2, 0, 3, 4, 0, 0]


def test_overlapping_view_is_consistent():
    """A view of stride 0 has one element: what the reference sees must be what the device sees."""
    got = operands(
        {
            "x": {
                "shape": [3],
                "dtype": "FP32",
                "strides": [0],
                "data": {"dist": "values", "values": [1, 2, 3]},
            }
        }
    )
    assert len(set(got["x"].tolist())) == 1


def test_view_before_its_storage():
    with pytest.raises(DataError, match="before its storage"):
        to_storage(np.zeros(2, np.int8), TensorSpec((2,), "INT8", strides=(-1,)))


def test_a_stride_that_leads_nowhere():
    spec = TensorSpec((1, 3), "INT8", strides=(-7, 1))
    assert to_storage(np.array([[1, 2, 3]], np.int8), spec).tolist() == [1, 2, 3]


def test_fractal_nz():
    matrix = np.arange(32 * 16, dtype=np.float16).reshape(32, 16)  # one column of two 16 x 16 blocks
    flat = TensorSpec((32, 16), "FP16", format="FRACTAL_NZ")
    assert to_storage(matrix, flat).tolist() == matrix.reshape(-1).tolist()
    wide = np.arange(16 * 32, dtype=np.float16).reshape(16, 32)
    spec = TensorSpec((16, 32), "FP16", format="FRACTAL_NZ")
    storage = to_storage(wide, spec)
    assert storage[:16].tolist() == list(range(16))
    assert storage[16:32].tolist() == list(range(32, 48))
    assert storage[256] == 16  # the second block begins at column 16
    assert np.array_equal(from_storage(storage, spec), wide)
    blocks = TensorSpec((2, 1, 16, 16), "FP16", format="FRACTAL_NZ")
    assert np.array_equal(logical_matrix(storage.reshape(2, 1, 16, 16), blocks), wide)


@pytest.mark.parametrize(
    ("array", "dtype_name", "advice"),
    [
        (np.zeros(4, ml_dtypes.bfloat16), "BF16", "x.view(numpy.uint16)"),
        (np.zeros(4, ml_dtypes.float8_e4m3fn), "FLOAT8_E4M3FN", "x.view(numpy.uint8)"),
        (np.zeros(4, ml_dtypes.int4), "INT4", "cann_mla.dtypes.pack_4bit(x)"),
    ],
)
def test_types_that_numpy_saves_without_their_name(tmp_path, array, dtype_name, advice):
    """They come back as |V2 or |V1: the message says how to save them."""
    np.savez(tmp_path / "x.npz", x=array)
    bits = read_npz(tmp_path / "x.npz")["x"]
    assert bits.dtype.kind == "V"
    with pytest.raises(DataError) as refused:
        from_file("x", bits, TensorSpec((4,), dtype_name))
    assert advice in str(refused.value)
    assert "cann_mla.dtypes" in str(refused.value)


def test_a_type_that_numpy_cannot_read_back(tmp_path):
    np.savez(tmp_path / "x.npz", scale=np.zeros(4, ml_dtypes.float8_e5m2))
    with pytest.raises(DataError, match=r"scale.*view\(numpy.uint8\)"):
        read_npz(tmp_path / "x.npz")

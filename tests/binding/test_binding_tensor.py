"""Tensors, lists, arrays and scalars: what CANN reads back from the handles, and who owns what."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import (
    BoolArray,
    ClosedError,
    DeviceMemory,
    FloatArray,
    IntArray,
    Scalar,
    ScalarList,
    Tensor,
    TensorList,
    c,
)


def numbers(getter: str, tensor: Tensor) -> list[int]:
    values, count = c.new("int64_t **"), c.new("uint64_t *")
    assert getattr(c, getter)(tensor.handle, values, count) == 0
    return [values[0][i] for i in range(count[0])]


def number(getter: str, ctype: str, handle: object) -> int:
    cell = c.new(ctype)
    assert getattr(c, getter)(handle, cell) == 0
    return int(c.cast("int64_t", cell[0]))


def test_cann_sees_what_was_asked_for(device: cann_mla.Device) -> None:
    with Tensor.empty((3, 5), "BF16", strides=(10, 2), offset=4, storage_shape=(40,)) as tensor:
        assert numbers("aclGetViewShape", tensor) == [3, 5]
        assert numbers("aclGetViewStrides", tensor) == [10, 2]
        assert numbers("aclGetStorageShape", tensor) == [40]
        assert number("aclGetViewOffset", "int64_t *", tensor.handle) == 4
        assert number("aclGetDataType", "aclDataType *", tensor.handle) == 27
        assert number("aclGetFormat", "aclFormat *", tensor.handle) == 2


def test_dense_tensor_has_row_major_strides(device: cann_mla.Device) -> None:
    with Tensor.empty((2, 3, 4), "INT8") as tensor:
        assert numbers("aclGetViewStrides", tensor) == [12, 4, 1]
        assert tensor.strides == (12, 4, 1)


def test_matrix_in_nz_has_the_block_storage_shape(device: cann_mla.Device) -> None:
    with Tensor.empty((40, 24), "BF16", format="FRACTAL_NZ") as tensor:
        assert numbers("aclGetStorageShape", tensor) == [2, 3, 16, 16]
        assert number("aclGetFormat", "aclFormat *", tensor.handle) == 29


@pytest.mark.parametrize(
    "array",
    [
        np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4),
        np.arange(24, dtype=np.int8).reshape(4, 6).T,
        np.arange(24).reshape(4, 6)[::2, ::-1],
        np.linspace(-3, 3, 7).astype(ml_dtypes.bfloat16),
        np.linspace(-3, 3, 7).astype(ml_dtypes.float8_e4m3fn),
        np.array([[1, -8, 7], [0, -1, 3]], ml_dtypes.int4),
        np.array(3.5, np.float16),
        np.zeros((0, 4), np.float32),
        np.array([True, False, True]),
        np.array([(3,), (255,)], [("hifloat8", "u1")]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_round_trip_is_bit_exact(device: cann_mla.Device, array: np.ndarray) -> None:
    with Tensor.from_numpy(array) as tensor:
        back = tensor.to_numpy()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()


def test_strided_tensor_round_trip(device: cann_mla.Device) -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    with Tensor.from_numpy(array, strides=(1, 2), offset=3) as tensor:
        assert tensor.memory.nbytes == 4 * 9  # the last element lies at 3 + 1 + 2 * 2 = 8
        assert (tensor.to_numpy() == array).all()


def test_nz_round_trip_and_its_bytes(device: cann_mla.Device) -> None:
    array = np.arange(16 * 32, dtype=np.int16).reshape(16, 32)
    with Tensor.from_numpy(array, format="FRACTAL_NZ") as tensor:
        assert (tensor.to_numpy() == array).all()
        with tensor.view((2, 1, 16, 16), format="ND", storage_shape=(2, 1, 16, 16)) as blocks:
            assert blocks.to_numpy()[1, 0, 0].tolist() == list(range(16, 32))


def test_host_tensor_carries_a_host_pointer(device: cann_mla.Device) -> None:
    with Tensor.from_numpy(np.array([100, 7], np.int32), host=True) as tensor:
        address = c.new("void **")
        assert c.aclGetRawTensorAddr(tensor.handle, address) == 0
        assert list(c.cast("int32_t *", address[0])[0:2]) == [100, 7]


def test_views_share_memory_and_outlive_the_original(device: cann_mla.Device) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = Tensor.from_numpy(array)
    turned = tensor.transpose()
    tensor.close()
    assert (turned.to_numpy() == array.T).all()
    turned.copy_from(array.T * 2)
    with turned.view((12,)) as flat:
        assert (flat.to_numpy() == array.reshape(-1) * 2).all()
    turned.close()


def test_two_tensors_over_one_memory(device: cann_mla.Device) -> None:
    with (
        DeviceMemory(16) as memory,
        Tensor(memory, (4,), "INT32") as whole,
        Tensor(memory, (2,), "INT32", offset=2) as end,
    ):
        whole.copy_from(np.array([1, 2, 3, 4], np.int32))
        assert end.to_numpy().tolist() == [3, 4]


def test_nothing_is_converted_in_silence(device: cann_mla.Device) -> None:
    with pytest.raises(TypeError, match="the array is FP64, the tensor FP32"):
        Tensor.from_numpy(np.zeros(3), dtype="FP32")
    with pytest.raises(TypeError, match="not the form of a CANN type"):
        Tensor.from_numpy(np.array(["text"]))
    with Tensor.empty((3,), "FP32") as tensor, pytest.raises(ValueError, match="shape"):
        tensor.copy_from(np.zeros(4, np.float32))


def test_tensor_larger_than_its_memory_is_refused(device: cann_mla.Device) -> None:
    with DeviceMemory(16) as memory, pytest.raises(ValueError, match="reaches over 20 bytes; the memory has 16"):
        Tensor(memory, (5,), "INT32")


def test_unknown_format_and_dtype_are_refused(device: cann_mla.Device) -> None:
    with pytest.raises(ValueError, match="format 'NZ' is unknown"):
        Tensor.empty((3,), "FP32", format="NZ")
    with pytest.raises(ValueError, match="unknown dtype"):
        Tensor.empty((3,), "FLOAT12")


def test_use_after_close(device: cann_mla.Device) -> None:
    tensor = Tensor.zeros((3,), "FP32")
    tensor.close()
    tensor.close()
    for use in (
        tensor.to_numpy,
        lambda: tensor.handle,
        lambda: tensor.memory,
        tensor.view,
        lambda: TensorList([tensor]),
    ):
        with pytest.raises(ClosedError, match="this Tensor has been closed"):
            use()


def test_list_is_independent_of_its_tensors(device: cann_mla.Device) -> None:
    first, second = Tensor.zeros((2,), "FP32"), Tensor.zeros((3,), "INT8")
    gc.collect()  # what earlier tests left in cycles must not go in between
    live = c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_TENSOR)
    both = TensorList([first, None, second])
    again = TensorList([first])
    assert number("aclGetTensorListSize", "uint64_t *", both.handle) == 3
    first.close()
    both.close()
    again.close()
    second.copy_from(np.array([1, 2, 3], np.int8))
    assert second.to_numpy().tolist() == [1, 2, 3]
    second.close()
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_TENSOR) == live - 2
    with pytest.raises(ClosedError, match="this TensorList has been closed"):
        both.member_handles  # noqa: B018


@pytest.mark.parametrize(
    ("kind", "values", "getter"),
    [
        (IntArray, [1, -(2**63), 2**63 - 1], "aclGetIntArraySize"),
        (IntArray, [], "aclGetIntArraySize"),
        (FloatArray, [1.5, 2.0], "aclGetFloatArraySize"),
        (BoolArray, [True, False, True], "aclGetBoolArraySize"),
    ],
)
def test_arrays(device: cann_mla.Device, kind: type, values: list, getter: str) -> None:
    with kind(values) as array:
        assert number(getter, "uint64_t *", array.handle) == len(values)
        assert array.values == tuple(values)
    with pytest.raises(ClosedError):
        array.handle  # noqa: B018


def test_numbers_that_do_not_fit_are_refused(device: cann_mla.Device) -> None:
    with pytest.raises(OverflowError, match="int64_t"):
        IntArray([2**63])
    with pytest.raises(TypeError, match="int64_t"):
        IntArray([1.5])
    with pytest.raises(OverflowError, match="300 does not fit UINT8"):
        Scalar(300, "UINT8")


def test_scalar_list_makes_its_own_scalars(device: cann_mla.Device) -> None:
    one = Scalar(1.5, "FP32")
    with ScalarList([one, Scalar(2, "INT64")]) as scalars:
        one.close()
        assert number("aclGetScalarListSize", "uint64_t *", scalars.handle) == 2


def test_no_handle_is_left(device: cann_mla.Device) -> None:
    kinds = [c.CANN_MLA_SIM_TENSOR, c.CANN_MLA_SIM_TENSOR_LIST, c.CANN_MLA_SIM_SCALAR, c.CANN_MLA_SIM_INT_ARRAY]
    gc.collect()  # what earlier tests left in cycles must not go in between
    before = [c.cannMlaSimLiveHandles(kind) for kind in kinds]
    for _ in range(50):
        tensor = Tensor.zeros((2, 2), "FP16")
        TensorList([tensor, tensor.transpose()])
        IntArray([1])
        ScalarList([Scalar(1, "INT32")])
    del tensor
    assert [c.cannMlaSimLiveHandles(kind) for kind in kinds] == before

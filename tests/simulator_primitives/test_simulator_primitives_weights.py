"""FRACTAL_NZ: its sizes, conversion in place and to a second buffer, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla.binding import abi
from cann_mla.formats import nz_pack
from cann_mla.validate.library import open_library, select_product

PRODUCTS = ("Ascend910B", "Ascend910_93", "Ascend950")
CODES = {"FP16": 1, "BF16": 27, "INT8": 2}


@pytest.fixture(params=PRODUCTS)
def stream(request: pytest.FixtureRequest) -> Iterator[cann_mla.Stream]:
    library = open_library("sim")
    select_product(library, request.param)
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened
    select_product(library, "Ascend910B")


def raw(tensor: Any, dtype: Any, count: int) -> Any:
    content = np.empty(count * np.dtype(dtype).itemsize, np.uint8)
    tensor.memory.read(content)
    return content.view(dtype)


def weight_size(shape: list[int], dtype: str) -> tuple[int, int]:
    size = abi().ffi.new("uint64_t *")
    array = cann_mla.IntArray(shape)
    status = open_library("sim").aclnnCalculateMatmulWeightSizeV2(array.handle, CODES[dtype], size)
    array.close()
    return status, size[0]


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ([510, 510], "FP16", (0, 262144)),
        ([510, 270], "INT8", (0, 147456)),
        ([3, 17, 33], "BF16", (0, 4608)),
        ([17, 33], "INT8", (0, 2048)),
        ([1536, 32768], "INT8", (0, 50331648)),
        ([7], "FP16", (161002, 0)),
        ([0, 16], "FP16", (161002, 0)),
    ],
)
def test_sizes_of_weights(shape: list[int], dtype: str, expected: tuple[int, int]) -> None:
    assert weight_size(shape, dtype) == expected


@pytest.mark.parametrize(
    ("shape", "dtype"), [((17, 33), np.int8), ((2, 3), np.float16), ((16, 64), np.int8), ((33, 18), np.float16)]
)
def test_a_weight_is_blocked_in_place(stream: Any, shape: tuple[int, int], dtype: Any) -> None:
    matrix = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
    blocks = nz_pack(matrix)
    weight = cann_mla.Tensor.empty(shape, "INT8" if dtype is np.int8 else "FP16", storage_shape=(blocks.size,))
    weight.copy_from(matrix)
    cann_mla.operator("aclnnTransMatmulWeight")(stream, mmWeightRef=weight)
    stream.synchronize()
    assert np.array_equal(raw(weight, dtype, blocks.size), blocks.ravel())
    with pytest.raises(cann_mla.CannError) as caught:  # the description says FRACTAL_NZ now
        cann_mla.operator("aclnnTransMatmulWeight")(stream, mmWeightRef=weight)
    assert caught.value.status == 161002
    weight.close()


def test_a_blocked_weight_multiplies(stream: Any, run: Any, t: Any) -> None:
    """What aclnnTransMatmulWeight leaves is what QuantMatmul takes."""
    x1, x2 = np.array([[1, 2], [3, -4]], np.int8), np.array([[5, 6], [7, -8]], np.int8)
    weight = cann_mla.Tensor.empty((2, 2), "INT8", storage_shape=(512,))
    weight.copy_from(x2)
    cann_mla.operator("aclnnTransMatmulWeight")(stream, mmWeightRef=weight)
    product = cann_mla.Tensor.empty((2, 2), "BF16")
    cann_mla.operator("aclnnQuantMatmulV4")(
        stream,
        x1=cann_mla.Tensor.from_numpy(x1),
        x2=weight,
        scale=cann_mla.Tensor.from_numpy(np.array([0.5, 0.25], np.float32)),
        pertokenScaleOptional=cann_mla.Tensor.from_numpy(np.array([2, 4], np.float32)),
        transposeX1=False,
        transposeX2=False,
        out=product,
    )
    stream.synchronize()
    assert product.to_numpy().astype(float).tolist() == [[19, -5], [-26, 50]]


@pytest.mark.parametrize("shape", [(17, 33), (3, 17, 33)])
def test_format_cast_there_and_back(stream: Any, shape: tuple[int, ...]) -> None:
    matrices = np.random.default_rng(2).integers(-100, 100, shape).astype(np.float16)
    blocks = np.stack([nz_pack(m) for m in matrices.reshape(-1, *shape[-2:])]).reshape(*shape[:-2], 3, 2, 16, 16)
    source = cann_mla.Tensor.from_numpy(matrices)
    there = cann_mla.Tensor.empty(shape, "FP16", format="FRACTAL_NZ", storage_shape=blocks.shape)
    back = cann_mla.Tensor.empty(shape, "FP16")
    cann_mla.operator("aclnnNpuFormatCast")(stream, srcTensor=source, dstTensor=there)
    cann_mla.operator("aclnnNpuFormatCast")(stream, srcTensor=there, dstTensor=back)
    stream.synchronize()
    assert np.array_equal(raw(there, np.float16, blocks.size), blocks.ravel())
    assert np.array_equal(back.to_numpy(), matrices)
    for tensor in (source, there, back):
        tensor.close()

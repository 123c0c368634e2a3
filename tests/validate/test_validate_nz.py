"""Operands in FRACTAL_NZ whose shape does not say so: batches of matrices, and weights transformed in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cann_mla.formats import nz_pack
from cann_mla.validate.arrays import from_storage, to_storage
from cann_mla.validate.cases import TensorSpec, parse
from cann_mla.validate.run import run_alone
from cann_mla.validate.verify import Options, verify_case

VALUES = {"dist": "integers", "low": -100, "high": 100}


def case(op: str, **tensors: Any) -> Any:
    return parse({"id": op, "op": op, "soc": "Ascend910B", "tensors": tensors, "attrs": {}, "seed": 3})


def test_a_batch_with_the_storage_shape_of_blocks_is_packed_matrix_by_matrix() -> None:
    batch = np.arange(2 * 17 * 33, dtype=np.int16).reshape(2, 17, 33).astype(np.int8)
    spec = TensorSpec(batch.shape, "INT8", format="FRACTAL_NZ", storage_shape=(2, 2, 2, 16, 32))
    stored = to_storage(batch, spec)
    np.testing.assert_array_equal(stored.reshape(2, -1), [nz_pack(matrix).reshape(-1) for matrix in batch])
    np.testing.assert_array_equal(from_storage(stored, spec), batch)


def test_four_dimensions_without_another_storage_shape_are_the_blocks_themselves() -> None:
    blocks = np.arange(2 * 2 * 16 * 32, dtype=np.int16).reshape(2, 2, 16, 32)
    spec = TensorSpec(blocks.shape, "INT16", format="FRACTAL_NZ")
    np.testing.assert_array_equal(to_storage(blocks, spec), blocks.reshape(-1))


@pytest.mark.parametrize("shape", [(17, 33), (2, 17, 33), (2, 3, 16, 64)])
@pytest.mark.parametrize("kind", ["INT8", "BF16"])
def test_weights_transformed_in_place_are_read_back(shape: tuple[int, ...], kind: str) -> None:
    weight = case("aclnnTransMatmulWeight", mmWeightRef={"shape": list(shape), "dtype": kind, "data": VALUES})
    record = verify_case(weight, Options())
    assert record["verdict"] == "pass", record["message"]
    _, outputs = run_alone(weight, Options())
    assert np.abs(outputs["mmWeightRef"].astype(float)).max() > 50


@pytest.mark.parametrize("back", [False, True])
def test_batches_cast_to_blocks_and_back_are_read_back(back: bool) -> None:
    plain = {"shape": [3, 17, 33], "dtype": "BF16"}
    blocked = {**plain, "format": "FRACTAL_NZ", "storage_shape": [3, 3, 2, 16, 16]}
    source, target = (blocked, plain) if back else (plain, blocked)
    record = verify_case(case("aclnnNpuFormatCast", srcTensor={**source, "data": VALUES}, dstTensor=target), Options())
    assert record["verdict"] == "pass", record["message"]

"""What the reference is handed for ATB's operators: blocks as they are, outputs as they were."""

from typing import Any

import numpy as np

from cann_mla.dtypes import BF16
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import parse
from cann_mla.validate.golden import run_reference
from cann_mla.validate.signatures import roles_of


def golden(case: dict[str, Any]) -> dict[str, Any]:
    parsed, roles = parse(case), roles_of(case["op"])
    operands = make_operands(parsed, is_output=lambda name: name in roles.outputs)
    return run_reference(parsed, operands, roles, "device")


def test_blocks_of_a_cache_reach_the_reference_as_declared() -> None:
    values = list(range(2 * 2 * 16 * 16))
    cache: dict[str, Any] = {"shape": [2, 2, 16, 16], "data": {"dist": "values", "values": values}}
    cache |= {"dtype": "FP16", "format": "FRACTAL_NZ"}
    lengths = {"shape": [1], "dtype": "INT32", "data": {"dist": "values", "values": [1]}}
    case = {
        "id": "nz",
        "op": "AtbPagedCacheLoad",
        "soc": "Ascend910B",
        "tensors": {
            "keyCache": cache,
            "valueCache": cache,
            "blockTables": {**lengths, "shape": [1, 1]},
            "contextLens": lengths,
            "key": {"shape": [1, 32], "dtype": "FP16", "data": {"dist": "zeros"}},
            "value": {"shape": [1, 32], "dtype": "FP16", "data": {"dist": "zeros"}},
        },
        "attrs": {"kvCacheCfg": 0, "isSeqLensCumsumType": False, "hasSeqStarts": False},
    }
    # Block 1, row 0: 16 elements of its first column block, 16 of its second.
    assert golden(case)["key"][0].tolist() == [*range(512, 528), *range(768, 784)]


def test_ring_mla_rows_without_keys_hold_what_the_output_held() -> None:
    tensors: dict[str, Any] = {}
    shapes = {"querySplit1": 128, "querySplit2": 64, "keySplit1": 128, "keySplit2": 64, "value": 128, "prevOut": 128}
    for name, width in shapes.items():
        tensors[name] = {"shape": [4 if name[0] in "qp" else 2, 1, width], "dtype": "BF16"}
    lse = {"shape": [1, 4], "dtype": "FP32"}
    tensors |= {"prevLse": lse, "mask": {"shape": [512, 512], "dtype": "BF16", "data": {"dist": "zeros"}}}
    lengths = {"dist": "values", "values": [2, 2, 2, 0]}
    tensors["seqLen"] = {"shape": [2, 2], "dtype": "INT32", "memory": "host", "data": lengths}
    attrs = {"headNum": 1, "kvHeadNum": 1, "qkScale": 0.07, "maskType": 0, "calcType": 0}
    case = {"id": "ring", "op": "AtbRingMLA", "soc": "Ascend910B", "tensors": tensors, "attrs": attrs}

    apart = golden(
        {**case, "tensors": {**tensors, "output": {"shape": [4, 1, 128], "dtype": "BF16"}, "softmaxLse": lse}}
    )
    assert (apart["output"][2:] == 0).all()
    in_place = {"output": {"shape": [4, 1, 128], "dtype": "BF16", "alias": "prevOut"}}
    in_place["softmaxLse"] = {**lse, "alias": "prevLse"}
    kept = golden({**case, "tensors": {**tensors, **in_place}})
    assert (kept["output"][2:] != 0).any()
    assert kept["output"].dtype == BF16.numpy
    np.testing.assert_array_equal(kept["output"][:2], apart["output"][:2])

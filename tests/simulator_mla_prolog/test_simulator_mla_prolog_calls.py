"""Two-phase behaviour: older versions, plans that run again, strided operands, the sizes of blocks of tokens."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla

OLD_ATTRS = ("rmsnormEpsilonCq", "rmsnormEpsilonCkv", "cacheModeOptional")


@pytest.mark.parametrize(
    ("operator", "weight", "cache"),
    [("aclnnMlaProlog", *pair) for pair in ((0, 0), (1, 0), (1, 2), (2, 0))]
    + [("aclnnMlaPrologV2WeightNz", *pair) for pair in ((0, 0), (1, 0), (1, 2), (2, 0), (2, 1))],
)
def test_older_versions_give_the_same_bits(stream: Any, make: Any, operator: str, weight: int, cache: int) -> None:
    call = make(weight, cache, tokens=3, heads=2, mode="PA_NZ")
    call.arrays["tokenX"][1] *= -1
    call.arrays["cacheIndexOptional"] = np.array([20, 3, 7])
    new = call.run(stream)
    call.arrays["cacheIndex"] = call.arrays.pop("cacheIndexOptional")
    if cache == 1:
        call.arrays["quantScaleCkvOptional"] = np.ones((1, 512), np.float32)
    call.attrs = {name: call.attrs[name] for name in OLD_ATTRS}
    old = call.run(stream, operator)
    for name, values in new.items():
        assert old[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("operator", ["aclnnMlaProlog", "aclnnMlaPrologV2WeightNz"])
def test_older_versions_are_gone_from_950(device: Any, product: Any, operator: str) -> None:
    product("Ascend950")
    refused = getattr(cann_mla.c, operator)(cann_mla.c.NULL, 0, cann_mla.c.NULL, cann_mla.c.NULL)
    assert refused == 361001


def test_a_strided_operand_computes_like_a_dense_one(stream: Any, make: Any) -> None:
    call = make(tokens=3)
    call.arrays["tokenX"] = np.random.default_rng(8).standard_normal((3, 1024)).astype(ml_dtypes.bfloat16)
    dense = call.run(stream)
    plain = cann_mla.Tensor.from_numpy

    def strided(array: Any, **options: Any) -> Any:
        if array is call.arrays["tokenX"]:
            options |= {"strides": (2048, 1), "storage_shape": (3, 2048)}
        return plain(array, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cann_mla.Tensor, "from_numpy", staticmethod(strided))
        gathered = call.run(stream)
    for name, values in dense.items():
        assert gathered[name].tobytes() == values.tobytes()


def test_tokens_beyond_one_block_of_work(stream: Any, make: Any) -> None:
    """The kernel works on 1024 tokens at a time; a second block starts where the first ends."""
    call = make(tokens=1027)
    scale = np.where(np.arange(1027) % 3 == 0, 1.0, -1.0)
    call.arrays["tokenX"] = np.repeat(scale[:, None], 1024, axis=1).astype(ml_dtypes.bfloat16)
    out = call.run(stream)
    assert np.array_equal(out["queryOut"][:, 0, 0].astype(float), scale)
    assert np.array_equal(out["kvCacheRef"][:, 0, 0].astype(float), scale)

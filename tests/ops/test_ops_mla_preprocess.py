"""AtbMLAPreprocess as a function: modes found by shapes, numbers against the reference, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops
from cann_mla.reference.atb_mla_preprocess import mla_preprocess as reference
from cann_mla.validate.library import open_library, select_product

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16 = np.dtype(np.float16)
TOKENS, HEADS = 3, 2
SLOTS = [130, -1, 5]
Array = np.ndarray[Any, Any]

CACHES = {
    0: ((2, 128, 1, 576), None),
    1: ((2, 128, 1, 512), (2, 128, 1, 64)),
    2: ((2, 16, 128, 32), (2, 4, 128, 16)),
    3: ((2, 32, 128, 16), (2, 4, 128, 16)),
}


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    rng = np.random.default_rng(4)
    return {
        "wdqkv": rng.integers(-20, 21, (2112, 7168), np.int8),
        "wuq": rng.integers(-20, 21, (HEADS * 192, 1536), np.int8),
    }


def operands(weights: dict[str, Array], mode: int, per_tensor: bool, kind: Any = BF16) -> dict[str, Any]:
    rng = np.random.default_rng(mode)

    def normal(*shape: int, spread: float = 1.0) -> Array:
        return (rng.standard_normal(shape, np.float32) * np.float32(spread)).astype(kind)

    given: dict[str, Any] = {
        **weights, "input": normal(TOKENS, 7168), "gamma2": normal(512), "cos": normal(TOKENS, 64),
        "sin": normal(TOKENS, 64), "wuk": normal(HEADS, 128, 512, spread=0.1), "slotmapping": np.array(SLOTS, np.int32),
    }  # fmt: skip
    for number, (width, outputs) in enumerate(((7168, 2112), (1536, HEADS * 192))):
        given |= {f"gamma{number}": normal(width), f"beta{number}": normal(width, spread=0.1)}
        scale = ((rng.random(outputs) + 0.5) * 1e-5).astype(np.float32)
        given[f"de_scale{number}"] = ops.scale_bits(scale) if per_tensor and kind == FP16 else scale
        if per_tensor:
            given[f"quant_scale{number}"] = np.array([0.03], kind)
            given[f"quant_offset{number}"] = np.array([2 - number], np.int8)
            given[f"bias{number}"] = rng.integers(-500, 500, outputs).astype(np.int32)
    cache, rope = CACHES[mode]
    given["kv_cache"] = rng.integers(0, 100, cache).astype(np.int8 if mode == 2 else kind)
    given["kv_cache_rope"] = None if rope is None else rng.integers(0, 100, rope).astype(kind)
    if mode == 2:
        given |= {"ctkv_scale": np.array([0.02], kind), "q_nope_scale": np.array([5.0, 2.0], kind)}
    return given


@pytest.mark.parametrize(
    ("mode", "per_tensor", "kind"),
    [(0, True, BF16), (1, False, BF16), (2, True, FP16), (3, False, FP16)],
    ids=["one_cache", "split", "int8", "blocked"],
)
def test_modes_against_the_reference(
    stream: cann_mla.Stream, weights: dict[str, Array], mode: int, per_tensor: bool, kind: Any
) -> None:
    given = operands(weights, mode, per_tensor, kind)
    modes = {"cache_mode": mode, "quant_mode": 0 if per_tensor else 1}
    wanted = reference(**{n: v for n, v in given.items() if v is not None}, **modes)
    with ops.mla_preprocess(**given, stream=stream) as result:
        stream.synchronize()
        pairs = [(result.q_out0.to_numpy(), wanted.q_out0), (given["kv_cache"], wanted.kv_cache_out0)]
        if mode:
            assert result.q_out1 is not None
            assert wanted.q_out1 is not None
            pairs += [(result.q_out1.to_numpy(), wanted.q_out1), (given["kv_cache_rope"], wanted.kv_cache_out1)]
        else:
            assert result.q_out1 is None
    for got, expected in pairs:
        assert got.dtype == expected.dtype
        near = expected.astype(np.float64)
        limit = 1 if got.dtype == np.int8 else 2.0**-6 * (1 + np.abs(near))
        assert (np.abs(got.astype(np.float64) - near) <= limit).all()


def test_caches_on_the_device_are_written_where_they_are(stream: cann_mla.Stream, weights: dict[str, Array]) -> None:
    given = operands(weights, 1, per_tensor=False)
    before = given["kv_cache"].copy()
    ops.mla_preprocess(**given, stream=stream).close()
    cache, rope = cann_mla.Tensor.from_numpy(before), cann_mla.Tensor.zeros((2, 128, 1, 64), "BF16")
    with ops.mla_preprocess(**given | {"kv_cache": cache, "kv_cache_rope": rope}, stream=stream) as result:
        stream.synchronize()
        assert result.kv_cache is cache
    np.testing.assert_array_equal(cache.to_numpy(), given["kv_cache"])
    changed = (cache.to_numpy() != before).any(axis=(2, 3)).nonzero()
    assert list(zip(*(axis.tolist() for axis in changed), strict=True)) == [(0, 5), (1, 2)]


def test_blocked_weights_hold_the_same(stream: cann_mla.Stream, weights: dict[str, Array]) -> None:
    given = operands(weights, 1, per_tensor=False)
    with ops.mla_preprocess(**given, stream=stream) as plain:
        stream.synchronize()
        wanted = plain.q_out0.to_numpy()
    blocks = {n: np.ascontiguousarray(w.reshape(len(w), -1, 32).swapaxes(0, 1))[None] for n, w in weights.items()}
    given["wuk"] = np.ascontiguousarray(given["wuk"].reshape(HEADS, 128, 32, 16).swapaxes(1, 2))
    with ops.mla_preprocess(**given | blocks, stream=stream) as result:
        stream.synchronize()
        np.testing.assert_array_equal(result.q_out0.to_numpy(), wanted)
    on_device = {"wuq": cann_mla.Tensor.from_numpy(blocks["wuq"])}
    with pytest.raises(ValueError, match=r"wuq of shape .*FRACTAL_NZ, not ND"):
        ops.mla_preprocess(**given | on_device, stream=stream)


def test_scales_carry_their_bits() -> None:
    assert ops.scale_bits(np.array([1.0, -2.0], np.float32)).tolist() == [0x3F800000, 0xC0000000]
    with pytest.raises(TypeError, match="must be float32"):
        ops.scale_bits(np.array([1.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quant_scale0": None}, "go together: one scale for all tokens"),
        ({"kv_cache_rope": None}, "every cache but that of 576 channels"),
        ({"kv_cache": np.zeros((2, 128, 1, 100), BF16)}, r"\[blocks, 32, 128, 16\], or INT8"),
        ({"kv_cache_rope": np.zeros((2, 64, 1, 64), BF16)}, r"kv_cache_rope must be BF16 \[2, 128, 1, 64\]"),
        ({"slotmapping": np.array([256, 0, 1], np.int32)}, "holds 256; the cache has 256 rows, from 0"),
        ({"slotmapping": np.array([7, 7, 1], np.int32)}, "two tokens the same row"),
        ({"input": np.zeros((3, 4096), BF16)}, r"input must be BF16 \[3, 7168\]"),
        ({"de_scale0": np.zeros(2112, np.int64)}, r"de_scale0 must be FP32 \[2112\]"),
        ({"ctkv_scale": np.zeros(1, BF16)}, "ctkv_scale goes with an INT8 cache"),
        ({"wuk": np.zeros((2, 512, 128), BF16)}, r"wuk must be BF16 \[2, 128, 512\] or"),
    ],
)
def test_refusals(stream: cann_mla.Stream, weights: dict[str, Array], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ops.mla_preprocess(**operands(weights, 1, per_tensor=True) | change, stream=stream)


def test_scales_that_the_kernel_would_misread_are_refused(stream: cann_mla.Stream, weights: dict[str, Array]) -> None:
    given = operands(weights, 1, per_tensor=False) | {
        "kv_cache": np.zeros((2, 16, 128, 32), np.int8),
        "kv_cache_rope": np.zeros((2, 4, 128, 16), BF16),
        "ctkv_scale": np.ones(1, BF16),
        "q_nope_scale": np.ones(2, BF16),
    }
    with pytest.raises(ValueError, match="an INT8 cache and a BF16 input need quant_scale0"):
        ops.mla_preprocess(**given, stream=stream)


def test_a_cache_that_cannot_be_written_is_refused(stream: cann_mla.Stream, weights: dict[str, Array]) -> None:
    given = operands(weights, 1, per_tensor=False)
    given["kv_cache"].flags.writeable = False
    with pytest.raises(ValueError, match="kv_cache is updated in place, but the array is read-only"):
        ops.mla_preprocess(**given, stream=stream)

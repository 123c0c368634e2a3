"""Where a token goes in the cache, by the addresses that the operator documents; and what stays as it was."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla

BLOCK = 16


def split_blocks(cache: Any, mode: str) -> Any:
    """A paged cache as (rows, width), whichever order its blocks have inside."""
    blocks, size, _, width = cache.shape
    if not mode.endswith("NZ"):
        return cache.reshape(blocks * size, width)
    c0 = 32 // cache.dtype.itemsize
    return cache.reshape(blocks, width // c0, size, c0).transpose(0, 2, 1, 3).reshape(blocks * size, width)


def tag_tokens(call: Any) -> Any:
    """Give every token its own k_nope and k_rope: sign patterns; returns the expected rows of both."""
    signs = np.where(np.random.default_rng(3).random((call.tokens, 1024)) < 0.5, -1.0, 1.0)
    call.arrays["tokenX"] = signs.reshape(call.arrays["tokenX"].shape).astype(call.arrays["tokenX"].dtype)
    rope = signs[:, 512:576]
    return signs[:, :512], np.concatenate([rope[:, 0::2], rope[:, 1::2]], axis=1)


def untouched(after: Any, before: Any, rows: list[int]) -> bool:
    rest = np.setdiff1d(np.arange(len(before)), rows)
    return after[rest].tobytes() == before[rest].tobytes()


@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
@pytest.mark.parametrize(("weight", "cache"), [(0, 0), (1, 2)])
def test_row_indices(stream: Any, make: Any, mode: str, weight: int, cache: int) -> None:
    call = make(weight, cache, tokens=4, mode=mode)
    nope, rope = tag_tokens(call)
    call.arrays["cacheIndexOptional"] = np.array([17, -1, 0, 31])
    before = {name: split_blocks(call.arrays[name].copy(), mode) for name in ("kvCacheRef", "krCacheRef")}
    out = call.run(stream)
    for name, values in (("kvCacheRef", nope), ("krCacheRef", rope)):
        rows = split_blocks(out[name], mode)
        assert np.array_equal(rows[[17, 0, 31]].astype(float), values[[0, 2, 3]])
        assert untouched(rows, before[name], [17, 0, 31])


@pytest.mark.parametrize("mode", ["PA_BLK_BSND", "PA_BLK_NZ"])
def test_block_indices_by_prefix_sums(stream: Any, make: Any, mode: str) -> None:
    """Sequences of 17, 0 and 3 tokens: two blocks, none, one. The second entry of the first is skipped."""
    call = make(tokens=20, mode=mode)
    nope, rope = tag_tokens(call)
    call.arrays["actualSeqLenOptional"] = np.array([17, 17, 20], np.int32)
    call.arrays["cacheIndexOptional"] = np.array([1, -1, 0])
    before = split_blocks(call.arrays["kvCacheRef"].copy(), mode)
    out = call.run(stream)
    written = {**{t: BLOCK + t for t in range(16)}, **{17 + t: t for t in range(3)}}
    for name, values in (("kvCacheRef", nope), ("krCacheRef", rope)):
        rows = split_blocks(out[name], mode)
        assert np.array_equal(rows[list(written.values())].astype(float), values[list(written)])
    assert untouched(split_blocks(out["kvCacheRef"], mode), before, list(written.values()))


def test_block_indices_of_batches(stream: Any, make: Any) -> None:
    """Two batches of 17 tokens: each owns ceil(17 / 16) entries."""
    call = make(tokens=34, mode="PA_BLK_BSND")
    nope, _ = tag_tokens(call)
    for name in ("tokenX", "ropeSin", "ropeCos"):
        call.arrays[name] = call.arrays[name].reshape(2, 17, -1)
    call.outputs = {name: ((2, 17, *shape[1:]), dtype) for name, (shape, dtype) in call.outputs.items()}
    call._add_caches(blocks=4)
    call.arrays["cacheIndexOptional"] = np.array([[3, 0], [1, 2]])
    rows = split_blocks(call.run(stream)["kvCacheRef"], "PA_BLK_BSND")
    places = [*range(48, 64), 0, *range(16, 32), 32]
    assert np.array_equal(rows[places].astype(float), nope)


@pytest.mark.parametrize("mode", ["BSND", "TND"])
def test_dense_caches_take_tokens_in_order(stream: Any, make: Any, mode: str) -> None:
    call = make(tokens=3, mode=mode)
    nope, rope = tag_tokens(call)
    out = call.run(stream)
    assert np.array_equal(out["kvCacheRef"].reshape(3, 512).astype(float), nope)
    assert np.array_equal(out["krCacheRef"].reshape(3, 64).astype(float), rope)


def test_a_cache_without_blocks_leaves_the_query(stream: Any, make: Any) -> None:
    call = make(tokens=3, mode="PA_BSND")
    call.arrays["cacheIndexOptional"] = np.zeros(3, np.int64)
    full = call.run(stream)
    call._add_caches(blocks=0)
    empty = call.run(stream)
    assert empty["kvCacheRef"].size == 0
    assert np.array_equal(full["queryOut"], empty["queryOut"])
    assert np.array_equal(full["queryRopeOut"], empty["queryRopeOut"])


def test_no_tokens_leave_the_caches(stream: Any, make: Any) -> None:
    call = make(tokens=0, mode="PA_BSND")
    call.arrays["cacheIndexOptional"] = np.zeros(0, np.int64)
    before = call.arrays["kvCacheRef"].copy()
    assert call.run(stream)["kvCacheRef"].tobytes() == before.tobytes()


@pytest.mark.parametrize(("mode", "index"), [("PA_BSND", 32), ("PA_NZ", 1 << 40)])
def test_an_index_behind_the_cache_is_a_fault(device: Any, make: Any, mode: str, index: int) -> None:
    call = make(tokens=2, mode=mode)
    call.arrays["cacheIndexOptional"] = np.array([0, index])
    with cann_mla.Stream() as stream, pytest.raises(cann_mla.CannError, match=r"507015") as caught:
        call.run(stream)
    assert "cacheIndexOptional sends token 1 to row" in str(caught.value)


def test_permuting_tokens_permutes_results(stream: Any, make: Any) -> None:
    rng = np.random.default_rng(5)
    call = make(weight=2, cache=1, tokens=6, heads=2)
    call.arrays["tokenX"] = rng.integers(-127, 128, (6, 1024), np.int8)
    call.arrays["weightUqQr"] = rng.integers(-127, 128, call.arrays["weightUqQr"].shape, np.int8)
    call.arrays["dequantScaleXOptional"] = rng.random((6, 1), np.float32)
    call.arrays["ropeSin"] = rng.random((6, 64)).astype(ml_dtypes.bfloat16)
    plain = call.run(stream)
    order = rng.permutation(6)
    for name in ("tokenX", "ropeSin", "dequantScaleXOptional"):
        call.arrays[name] = call.arrays[name][order]
    permuted = call.run(stream)
    for name, values in plain.items():
        assert permuted[name].tobytes() == values[order].tobytes()


def test_changing_a_token_changes_its_rows_only(stream: Any, make: Any) -> None:
    call = make(weight=1, cache=2, tokens=5)
    call.arrays["tokenX"] = np.random.default_rng(6).standard_normal((5, 1024)).astype(ml_dtypes.bfloat16)
    before = call.run(stream)
    call.arrays["tokenX"][3] *= -2
    after = call.run(stream)
    for name in before:
        same = [after[name][t].tobytes() == before[name][t].tobytes() for t in range(5)]
        assert same == [True, True, True, False, True], name

"""MlaProlog: operands against one another, in place or not, and values that are no numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops

HE, HCQ = 1024, 1536


def bf16(*shape: int, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.05).astype(ml_dtypes.bfloat16)


@pytest.fixture
def prolog(stream: Any) -> Any:
    """A call with two tokens and one head; keywords replace operands."""

    def run(**changes: Any) -> Any:
        operands = {
            "token_x": bf16(2, HE), "weight_dq": bf16(HE, HCQ, seed=2), "weight_uq_qr": bf16(HCQ, 192, seed=3),
            "weight_uk": bf16(1, 128, 512, seed=4), "weight_dkv_kr": bf16(HE, 576, seed=5),
            "rmsnorm_gamma_cq": bf16(HCQ, seed=6), "rmsnorm_gamma_ckv": bf16(512, seed=7),
            "rope_sin": bf16(2, 64, seed=8), "rope_cos": bf16(2, 64, seed=9),
            "kv_cache": bf16(1, 16, 1, 512, seed=10), "kr_cache": bf16(1, 16, 1, 64, seed=11),
            "cache_index": np.array([0, 1]), "stream": stream,
        }  # fmt: skip
        result = ops.mla_prolog_v3(**(operands | changes))
        stream.synchronize()
        return result

    return run


def bits(array: Any) -> Any:
    return np.asarray(array).view(np.uint16)


def test_ranks_are_compared_with_one_another(prolog: Any) -> None:
    with pytest.raises(cann_mla.CannError, match="ropeSin") as error:
        prolog(token_x=bf16(1, 2, HE), rope_cos=bf16(1, 2, 64), cache_index=np.array([[0, 1]]))
    assert error.value.status == 561002
    assert "3" in error.value.text


def test_the_cache_index_is_int64(prolog: Any) -> None:
    with pytest.raises(cann_mla.CannError, match="cacheIndex") as error:
        prolog(cache_index=np.array([0, 1], np.int32))
    assert "INT64" in error.value.text
    assert "INT32" in error.value.text


@pytest.mark.parametrize("on_device", [True, False])
class TestFunctionalForm:
    def caches(self, on_device: bool) -> tuple[Any, Any, Any, Any]:
        kv, kr = bf16(1, 16, 1, 512, seed=10), bf16(1, 16, 1, 64, seed=11)
        given = [cann_mla.Tensor.from_numpy(cache) if on_device else cache.copy() for cache in (kv, kr)]
        return kv, kr, *given

    @staticmethod
    def read(cache: Any) -> Any:
        return bits(cache.to_numpy() if isinstance(cache, cann_mla.Tensor) else cache)

    def test_leaves_the_caches_alone(self, prolog: Any, on_device: bool) -> None:
        kv, kr, kv_given, kr_given = self.caches(on_device)
        with prolog(kv_cache=kv_given, kr_cache=kr_given, in_place=False) as result:
            updated = [self.read(cache) for cache in (result.kv_cache, result.kr_cache)]
        np.testing.assert_array_equal(self.read(kv_given), bits(kv))
        np.testing.assert_array_equal(self.read(kr_given), bits(kr))
        prolog(kv_cache=kv_given, kr_cache=kr_given)
        for copy, cache in zip(updated, (kv_given, kr_given), strict=True):
            np.testing.assert_array_equal(copy, self.read(cache))

    def test_in_place_changes_the_rows_of_the_index_only(self, prolog: Any, on_device: bool) -> None:
        kv, _, kv_given, kr_given = self.caches(on_device)
        prolog(kv_cache=kv_given, kr_cache=kr_given)
        changed = (self.read(kv_given) != bits(kv)).any(axis=(2, 3))
        np.testing.assert_array_equal(np.flatnonzero(changed), [0, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_stays_within_its_token(prolog: Any, bad: float) -> None:
    token_x = bf16(2, HE)
    clean = prolog(token_x=token_x, in_place=False)
    spoilt = token_x.copy()
    spoilt[0, 5] = bad
    result = prolog(token_x=spoilt, in_place=False)
    for name in ("query", "query_rope"):
        got, want = getattr(result, name).to_numpy(), getattr(clean, name).to_numpy()
        assert np.isnan(got[0].astype(float)).any()
        np.testing.assert_array_equal(bits(got[1]), bits(want[1]))
    for got, want in ((result.kv_cache, clean.kv_cache), (result.kr_cache, clean.kr_cache)):
        assert np.isnan(got[0, 0].astype(float)).any()
        np.testing.assert_array_equal(bits(got[0, 1:]), bits(want[0, 1:]))

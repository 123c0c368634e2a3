"""KvRmsNormRopeCache and ScatterPaKvCache, against the examples of the specification (ids in comments)."""

from typing import Any

import numpy as np
import pytest

from cann_mla.reference import evaluate
from cann_mla.reference.primitives_cache import kv_rms_norm_rope_cache, scatter_pa_kv_cache

DV, DK = 512, 64


def operands(a: Any = 2.0, b: Any = 0.0, tokens: int = 1, **changes: Any) -> dict[str, Any]:
    kv = np.zeros((1, 1, tokens, DV + DK), np.float16)
    kv[..., :DV], kv[..., DV:] = a, b
    table = np.zeros((1, 1, 1, DK), np.float16)
    given = {
        "kv": kv,
        "gamma": np.ones(DV, np.float16),
        "cos": table + 1,
        "sin": table,
        "index": np.zeros((1, tokens), np.int64),
        "k_cache": np.full((1, 1, 8, DK), 9, np.float16),
        "ckv_cache": np.full((1, 1, 8, DV), 9, np.float16),
        "epsilon": 0.0,
    }
    return {**given, **changes}


def paged(kind: Any = np.float16) -> dict[str, Any]:
    return {
        "k_cache": np.full((2, 16, 1, DK), 9, np.float16),
        "ckv_cache": np.full((2, 16, 1, DV), 9, kind),
    }


def test_kv1_norm_mode_writes_the_indexed_row() -> None:
    gamma = (np.arange(DV) % 4 + 1).astype(np.float16)
    result = kv_rms_norm_rope_cache(**operands(gamma=gamma, index=np.array([[5]])))
    np.testing.assert_array_equal(result.ckv_cache[0, 0, 5], gamma)
    assert (result.ckv_cache[0, 0, [0, 1, 2, 3, 4, 6, 7]] == 9).all()


def test_kv2_kv3_rotated_part_comes_out_in_halves() -> None:
    j = np.arange(DK)
    straight = kv_rms_norm_rope_cache(**operands(b=j)).k_cache[0, 0, 0]
    assert straight.tolist() == [*range(0, DK, 2), *range(1, DK, 2)]
    table = np.zeros((1, 1, 1, DK), np.float16)
    turned = kv_rms_norm_rope_cache(**operands(b=j, cos=table, sin=table + 1)).k_cache[0, 0, 0]
    assert turned.tolist() == [*range(-1, -DK, -2), *range(0, DK, 2)]


@pytest.mark.parametrize("mode", ["PA", "PA_BNSD"])
def test_kv4_slots(mode: str) -> None:
    result = kv_rms_norm_rope_cache(**operands(**paged(), index=np.array([21]), cache_mode=mode))
    assert (result.ckv_cache[1, 5] == 1).all()
    assert (result.ckv_cache == 1).sum() == DV


@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_NZ", "PA_BLK_BNSD"])
def test_kv5_negative_indices_skip(mode: str) -> None:
    caches = {} if mode == "Norm" else paged()
    o = operands(**caches, index=np.array([[-1]]), cache_mode=mode)
    result = kv_rms_norm_rope_cache(**o)
    np.testing.assert_array_equal(result.k_cache, o["k_cache"])
    np.testing.assert_array_equal(result.ckv_cache, o["ckv_cache"])


@pytest.mark.parametrize(
    ("gamma", "scale", "expected"),
    [(3, 10, 30), (3, 100, 127), (2.5, 1, 2), (3.5, 1, 4), (-2.5, 1, -2), (-3, 100, -128)],
)
def test_kv6_quantised_cache(gamma: float, scale: float, expected: int) -> None:
    o = operands(
        **paged(np.int8),
        gamma=np.full(DV, gamma, np.float16),
        c_kv_scale=np.full(DV, scale, np.float32),
        index=np.array([0]),
        cache_mode="PA",
    )
    assert (kv_rms_norm_rope_cache(**o).ckv_cache[0, 0] == expected).all()


@pytest.mark.parametrize(("soc", "expected"), [("Ascend910B", 30), ("Ascend950", 35)])
def test_only_950_adds_offsets(soc: str, expected: int) -> None:
    o = operands(
        **paged(np.int8),
        gamma=np.full(DV, 3, np.float16),
        c_kv_scale=np.full(DV, 10, np.float32),
        c_kv_offset=np.full(DV, 5, np.float32),
        index=np.array([0]),
        cache_mode="PA",
    )
    assert (kv_rms_norm_rope_cache(**o, soc=soc).ckv_cache[0, 0] == expected).all()


def test_kv7_pages() -> None:
    o = operands(**paged(), tokens=18, index=np.array([16, 0]), cache_mode="PA_BLK_BNSD")
    o["gamma"] = np.full(DV, 1, np.float16)
    written = kv_rms_norm_rope_cache(**o).ckv_cache[..., 0, 0] == 1
    assert written[1].all()
    assert written[0].tolist() == [True, True] + [False] * 14


def test_kv8_nz_blocks() -> None:
    o = operands(b=np.arange(DK), **paged(), index=np.array([3]), cache_mode="PA_NZ")
    block = kv_rms_norm_rope_cache(**o).k_cache[0].reshape(-1)
    expected = [*range(0, DK, 2), *range(1, DK, 2)]
    for j in range(DK):
        assert block[(j // 16) * 256 + 3 * 16 + j % 16] == expected[j]
    assert (block != 9).sum() == DK - (9 in expected)


def test_outputs_are_zero_unless_asked_for() -> None:
    silent = kv_rms_norm_rope_cache(**operands(b=1.0))
    assert not silent.c_kv.any()
    loud = kv_rms_norm_rope_cache(**operands(b=1.0), is_output_kv=True)
    assert (loud.c_kv == 1).all()
    assert (loud.k_rope == 1).all()
    assert loud.c_kv.dtype == np.float16


def test_exact_precision_rounds_nothing() -> None:
    result = kv_rms_norm_rope_cache(**operands(gamma=np.full(DV, 0.1, np.float16), epsilon=1e-3), precision="exact")
    expected = float(np.float16(0.1)) * 2 / np.sqrt(4.001)
    np.testing.assert_allclose(result.ckv_cache[0, 0, 0], expected, rtol=1e-12)
    assert (result.ckv_cache[0, 0, 1] == 9).all()


# ---- ScatterPaKvCache -----------------------------------------------------------------------------

TOKENS = np.array([[[7]], [[8]]], np.int8)


@pytest.mark.parametrize(
    ("slots", "expected"), [([3, 0], [[8, 0], [0, 7]]), ([-1, 2], [[0, 0], [8, 0]]), ([1], [[0, 7], [0, 0]])]
)
def test_sc1_sc2_slots(slots: list[int], expected: list[list[int]]) -> None:
    cache = np.zeros((2, 2, 1, 1), np.int8)
    written = scatter_pa_kv_cache(TOKENS, cache, np.array(slots, np.int32))
    assert written[..., 0, 0].tolist() == expected
    assert not cache.any()


@pytest.mark.parametrize("shape", [(1, 2, 4, 16), (1, 1, 2, 4, 16)])
def test_sc3_nz(shape: tuple[int, ...]) -> None:
    token = np.arange(32, dtype=np.float16).reshape(1, 1, 32)
    cache = np.full(shape, -1, np.float16)
    written = scatter_pa_kv_cache(token, cache, np.array([2]), cache_mode="PA_NZ").reshape(2, 4, 16)
    np.testing.assert_array_equal(written[:, 2], token.reshape(2, 16))
    assert (written != -1).sum() == 32


def test_heads_before_rows() -> None:
    token = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    written = scatter_pa_kv_cache(token, np.full((2, 2, 4, 3), -1, np.int8), np.array([6]), scatter_mode="NHSD")
    np.testing.assert_array_equal(written[1, :, 2], token[0])


def test_compressing_modes_have_no_reference() -> None:
    with pytest.raises(NotImplementedError, match="Alibi"):
        scatter_pa_kv_cache(TOKENS, np.zeros((2, 2, 1, 1), np.int8), np.array([0, 1]), scatter_mode="Alibi")


def test_by_c_name() -> None:
    cache = np.zeros((2, 2, 1, 1), np.int8)
    tensors = {"key": TOKENS, "keyCacheRef": cache, "slotMapping": np.array([3, 0])}
    got = evaluate("aclnnScatterPaKvCache", tensors, {"cacheModeOptional": "Norm"}, soc="Ascend910B", outputs={})
    assert set(got) == {"keyCacheRef"}
    o = operands(index=np.array([[5]]))
    names = {"k_cache": "kCacheRef", "ckv_cache": "ckvCacheRef"}
    tensors = {names.get(name, name): value for name, value in o.items() if name != "epsilon"}
    got = evaluate("aclnnKvRmsNormRopeCache", tensors, {"epsilon": 0.0}, soc="Ascend910B", outputs={})
    assert set(got) == {"kCacheRef", "ckvCacheRef"}
    assert (got["ckvCacheRef"][0, 0, 5] == 1).all()

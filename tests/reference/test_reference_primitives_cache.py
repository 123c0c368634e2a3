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


@pytest.mark.parametrize(
    ("mode", "asked_for", "soc", "written"),
    [
        ("PA", True, "Ascend910B", True),
        ("PA", False, "Ascend910B", False),
        ("PA_NZ", True, "Ascend910_93", True),
        ("Norm", True, "Ascend910B", False),  # the kernel of A2 and A3 does not get these two
        ("no such mode", True, "Ascend910_93", False),
        ("Norm", True, "Ascend950", True),
        ("Norm", False, "Ascend950", False),
    ],
)
def test_outputs_stay_as_they_are_unless_written(mode: str, asked_for: bool, soc: str, written: bool) -> None:
    o = operands(b=1.0, cache_mode=mode, is_output_kv=asked_for, soc=soc)
    if mode.startswith("PA"):
        o |= {**paged(), "index": np.array([0])}
    before = {"k_rope": np.full((1, 1, 1, DK), 3, np.float16), "c_kv": np.full((1, 1, 1, DV), 4, np.float16)}
    result = kv_rms_norm_rope_cache(**o, **before)
    assert (result.k_rope == (1 if written else 3)).all()
    assert (result.c_kv == (1 if written else 4)).all()
    assert result.c_kv.dtype == np.float16
    without = kv_rms_norm_rope_cache(**o)
    assert without.c_kv.any() == written


# ---- version 2, with a value of its own -----------------------------------------------------------

HEADS = 2


def separate(**changes: Any) -> dict[str, Any]:
    """Two heads of keys (192, of which 64 rotate) that are all 2, and of values (128) that count up."""
    table = np.zeros((1, HEADS, 1, 64), np.float16)
    given = {
        "kv": np.full((1, HEADS, 1, 192), 2, np.float16),
        "v": np.arange(HEADS * 128, dtype=np.float16).reshape(1, HEADS, 1, 128),
        "gamma": (np.arange(192) % 64 + 1).astype(np.float16),
        "cos": table,
        "sin": table + 1,
        "index": np.array([[5]]),
        "k_cache": np.full((1, HEADS, 8, 192), 9, np.float16),
        "ckv_cache": np.full((1, HEADS, 8, 128), 9, np.float16),
        "epsilon": 0.0,
    }
    return {**given, **changes}


# A quarter turn of 1, 2, 3, 4... in pairs, which come out as halves; the other 128 stay.
TURNED = [*range(-2, -65, -2), *range(1, 64, 2), *range(1, 65), *range(1, 65)]


def test_keys_rotate_in_part_and_values_are_copied() -> None:
    o = separate()
    result = kv_rms_norm_rope_cache(**o)
    for head in range(HEADS):
        assert result.k_cache[0, head, 5].tolist() == TURNED
        np.testing.assert_array_equal(result.ckv_cache[0, head, 5], o["v"][0, head, 0])
    assert (result.k_cache[:, :, [0, 1, 2, 3, 4, 6, 7]] == 9).all()


def test_heads_lie_side_by_side_in_pages_and_one_after_the_other_in_blocks() -> None:
    caches = {
        "k_cache": np.full((2, 16, HEADS, 192), 9, np.float16),
        "ckv_cache": np.full((2, 16, HEADS, 128), 9, np.float16),
    }
    o = separate(**caches, index=np.array([19]), cache_mode="PA_BNSD", is_output_kv=True)
    pages = kv_rms_norm_rope_cache(**o)
    assert pages.k_cache[1, 3].tolist() == [TURNED, TURNED]
    np.testing.assert_array_equal(pages.ckv_cache[1, 3], o["v"][0, :, 0])
    np.testing.assert_array_equal(pages.c_kv, o["v"])
    assert pages.k_rope[0, 1, 0].tolist() == TURNED
    blocks = kv_rms_norm_rope_cache(**o | {"cache_mode": "PA_NZ"})
    memory = blocks.ckv_cache[1].reshape(HEADS, 8, 16, 16)
    np.testing.assert_array_equal(memory[:, :, 3], o["v"].reshape(HEADS, 8, 16))
    assert (memory[:, :, :3] == 9).all()


def test_with_a_value_norm_mode_quantises_and_adds_offsets() -> None:
    o = separate(
        ckv_cache=np.full((1, HEADS, 8, 128), 9, np.int8),
        c_kv_scale=np.full((HEADS, 128), 0.5, np.float32) * np.array([[1], [0.25]], np.float32),
        c_kv_offset=np.full(128, -3, np.float32),
        is_output_kv=True,
    )
    result = kv_rms_norm_rope_cache(**o)
    wanted = [np.rint(np.arange(128) / 2 - 3), np.rint(np.arange(128, 256) / 8 - 3)]
    np.testing.assert_array_equal(result.ckv_cache[0, :, 5], wanted)
    np.testing.assert_array_equal(result.c_kv, o["v"])


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
    tensors = {
        {**names, "v": "vOptional"}.get(name, name): value for name, value in separate().items() if name != "epsilon"
    }
    got = evaluate("aclnnKvRmsNormRopeCacheV2", tensors, {"epsilon": 0.0}, soc="Ascend910B", outputs={})
    assert got["kCacheRef"][0, 1, 5].tolist() == TURNED

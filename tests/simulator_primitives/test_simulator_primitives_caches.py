"""KvRmsNormRopeCache and ScatterPaKvCache: which row of which block a token goes to, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

A2 = ["Ascend910B", "Ascend910_93"]
DV, DK = 512, 64


def cache_call(run: Any, t: Any, soc: str, mode: str, slots: Any, shape: Any, **changes: Any) -> Any:
    """Tokens whose norm part is all 2 (so gamma comes out) and whose rope part counts 0, 1, .. 63."""
    batches, length = changes.pop("tokens", (1, 1))
    token = np.concatenate([np.full(DV, 2), np.arange(DK)])
    ones, zeros = np.ones((batches, 1, length, DK)), np.zeros((batches, 1, length, DK))
    dtype = changes.pop("cache", "FP16")
    operands: dict[str, Any] = {
        "kv": t("FP16", np.tile(token, (batches, 1, length, 1))),
        "gamma": t("FP16", np.arange(DV) % 4 + 1),
        "cos": t("FP16", ones),
        "sin": t("FP16", zeros),
        "index": t("INT64", slots),
        "kCacheRef": t(dtype, np.full((*shape, DK), 77)),
        "ckvCacheRef": t(dtype, np.full((*shape, DV), 77)),
        "kRopeOut": t("FP16", np.full((batches, 1, length, DK), 77)),
        "cKvOut": t("FP16", np.full((batches, 1, length, DV), 77)),
    }
    attrs = {"epsilon": 0, "cacheModeOptional": mode, "isOutputKv": changes.pop("is_output", False)}
    return run("aclnnKvRmsNormRopeCache", soc, attrs, **(operands | changes))


GAMMA = list(np.arange(DV) % 4 + 1.0)
SORTED = [float(j) for j in (*range(0, DK, 2), *range(1, DK, 2))]


def test_norm_writes_the_indexed_row_of_each_batch(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "Norm", [[5], [0]], (2, 1, 8), tokens=(2, 1))
    ckv, k = result.outputs["ckvCacheRef"], result.outputs["kCacheRef"]
    assert ckv[0, 0, 5].tolist() == ckv[1, 0, 0].tolist() == GAMMA
    assert k[0, 0, 5].tolist() == k[1, 0, 0].tolist() == SORTED
    assert (ckv == 77).sum() == 14 * DV


def test_a_quarter_turn(run: Any, t: Any, soc: str) -> None:
    turn = {"cos": t("FP16", np.zeros((1, 1, 1, DK))), "sin": t("FP16", np.ones((1, 1, 1, DK)))}
    k = cache_call(run, t, soc, "Norm", [[0]], (1, 1, 2), **turn).outputs["kCacheRef"]
    assert k[0, 0, 0].tolist() == [*range(-1, -DK, -2), *range(0, DK, 2)]


@pytest.mark.parametrize("mode", ["PA", "PA_BNSD"])
def test_a_slot_is_block_and_row(run: Any, t: Any, soc: str, mode: str) -> None:
    result = cache_call(run, t, soc, mode, [21], (3, 16, 1))
    assert result.outputs["ckvCacheRef"][1, 5, 0].tolist() == GAMMA
    assert (result.outputs["kCacheRef"] == 77).sum() >= 47 * DK


def test_a_negative_slot_stores_nothing(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "PA", [-1], (3, 16, 1))
    assert set(result.outputs["kCacheRef"].ravel()) == set(result.outputs["ckvCacheRef"].ravel()) == {77}


def test_a_slot_outside_the_cache_is_a_fault(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "PA", [48], (3, 16, 1))
    assert result.status == 507015
    assert "row 48 of kCacheRef" in result.message


def test_blocks_of_columns(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "PA_NZ", [19], (2, 16, 1))
    block = result.outputs["kCacheRef"][1].reshape(DK // 16, 16, 16)
    assert block[:, 3].ravel().tolist() == SORTED
    assert (block == 77).sum() == 15 * DK


def test_pages_take_a_block_each(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "PA_BLK_BNSD", [16, 0], (2, 16, 1), tokens=(1, 18))
    rows = result.outputs["kCacheRef"][..., 0, 1] == 2
    assert rows.tolist() == [[True, True] + [False] * 14, [True] * 16]


def test_pages_of_blocks_of_columns(run: Any, t: Any, soc: str) -> None:
    result = cache_call(run, t, soc, "PA_BLK_NZ", [16, 0], (2, 16, 1), tokens=(1, 18))
    blocks = result.outputs["kCacheRef"].reshape(2, DK // 16, 16, 16)
    assert blocks[0, :, 1].ravel().tolist() == blocks[1, :, 15].ravel().tolist() == SORTED
    assert (blocks[0, :, 2:] == 77).all()


def test_int8_rows_are_scaled_before_rounding(run: Any, t: Any, soc: str) -> None:
    gamma, scale = np.ones(DV), np.ones(DV)
    gamma[:6], scale[:6] = [3, 3, 2.5, 3.5, -2.5, -3], [10, 100, 1, 1, 1, 100]
    changes = {"gamma": t("FP16", gamma), "cKvScaleOptional": t("FP32", scale)}
    changes["kRopeScaleOptional"] = t("FP32", np.full(DK, 0.5))
    result = cache_call(run, t, soc, "PA", [1], (1, 32, 1), cache="INT8", **changes)
    assert result.outputs["ckvCacheRef"][0, 1, 0, :6].tolist() == [30, 127, 2, 4, -2, -128]
    assert result.outputs["kCacheRef"][0, 1, 0, :4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("soc", "mode", "written"), [(A2[0], "Norm", False), (A2[0], "PA", True), ("Ascend950", "Norm", True)]
)
def test_who_writes_the_outputs(run: Any, t: Any, soc: str, mode: str, written: bool) -> None:
    shape = (1, 1, 16) if mode == "Norm" else (1, 16, 1)
    result = cache_call(run, t, soc, mode, [3], shape, is_output=True)
    expected = (SORTED, GAMMA) if written else ([77] * DK, [77] * DV)
    assert (result.outputs["kRopeOut"].ravel().tolist(), result.outputs["cKvOut"].ravel().tolist()) == expected


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"kv": ("FP16", 1, 2, 1, 576)}, 561002),
        ({"gamma": ("BF16", 512)}, 161002),
        ({"index": ("INT64", 2)}, 561002),
        ({"index": None}, 161001),
        ({"kRopeOut": None}, 161001),
        ({"cos": ("FP16", 1, 1, 1, 63)}, 561002),
    ],
)
def test_refusals_of_kv_rms_norm_rope_cache(run: Any, t: Any, out: Any, soc: str, changes: Any, status: int) -> None:
    described = {name: out(*shape) if shape else None for name, shape in changes.items()}
    assert cache_call(run, t, soc, "PA", [0], (1, 16, 1), **described).status == status


def scatter(run: Any, t: Any, soc: str, caches: Any, slots: Any, tokens: Any, attrs: Any, dtype: str = "FP16") -> Any:
    key, value = tokens
    operands = {"key": t(dtype, key), "keyCacheRef": t(dtype, np.full(caches[0], 9)), "slotMapping": t("INT32", slots)}
    operands |= {"value": t(dtype, value), "valueCacheRef": t(dtype, np.full(caches[1], 9))}
    return run("aclnnScatterPaKvCache", soc, attrs, **operands)


@pytest.mark.parametrize(
    ("slots", "expected"), [([3, 0], [[8, 9], [9, 7]]), ([-1, 2], [[9, 9], [8, 9]]), ([1, -5], [[9, 7], [9, 9]])]
)
@pytest.mark.parametrize("mode", [None, "", "Norm"])
def test_tokens_go_to_their_slots(run: Any, t: Any, soc: str, mode: Any, slots: Any, expected: Any) -> None:
    tokens = np.array([[[7]], [[8]]])
    attrs = {"cacheModeOptional": mode, "scatterModeOptional": None}
    result = scatter(run, t, soc, ((2, 2, 1, 1), (2, 2, 1, 1)), slots, (tokens, tokens), attrs)
    for name in ("keyCacheRef", "valueCacheRef"):
        assert result.outputs[name].reshape(2, 2).tolist() == expected


@pytest.mark.parametrize("shape", [(1, 4, 4, 16), (1, 2, 2, 4, 16)])
def test_blocks_of_columns_of_all_heads(run: Any, t: Any, soc: str, shape: Any) -> None:
    token = np.arange(64).reshape(1, 2, 32)
    attrs = {"cacheModeOptional": "PA_NZ", "scatterModeOptional": "None"}
    result = scatter(run, t, soc, (shape, shape), [2], (token, token + 100), attrs)
    assert result.outputs["keyCacheRef"].reshape(4, 4, 16)[:, 2].ravel().tolist() == list(range(64))
    assert (result.outputs["valueCacheRef"] == 9).sum() == 3 * 64


@pytest.mark.parametrize("soc", A2)
def test_heads_before_slots(run: Any, t: Any, soc: str) -> None:
    token = np.arange(32).reshape(1, 2, 16)
    attrs = {"cacheModeOptional": "Norm", "scatterModeOptional": "NHSD"}
    result = scatter(run, t, soc, ((2, 2, 4, 16), (2, 2, 4, 16)), [6], (token, token), attrs)
    assert result.outputs["keyCacheRef"][1, :, 2].ravel().tolist() == list(range(32))


def test_faults_of_a_scatter_name_the_slot(run: Any, t: Any, soc: str) -> None:
    token = np.ones((1, 1, 1))
    attrs = {"cacheModeOptional": "Norm", "scatterModeOptional": "None"}
    result = scatter(run, t, soc, ((2, 2, 1, 1), (2, 2, 1, 1)), [4], (token, token), attrs)
    assert (result.status, "slot 4 of keyCacheRef" in result.message) == (507015, True)


def test_compression_has_no_kernel(run: Any, out: Any) -> None:
    operands = {"key": out("BF16", 8, 2, 16), "value": out("BF16", 8, 2, 16), "slotMapping": out("INT32", 8)}
    operands |= {"keyCacheRef": out("BF16", 8, 8, 1, 16), "valueCacheRef": out("BF16", 8, 8, 1, 16)}
    operands |= {"compressLensOptional": out("INT32", 8), "seqLensOptional": out("INT32", 4)}
    attrs = {"cacheModeOptional": "Norm", "scatterModeOptional": "Alibi"}
    result = run("aclnnScatterPaKvCache", attrs=attrs, **operands)
    assert (result.status, "Alibi" in result.message) == (207000, True)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"keyCacheRef": ("BF16", 2, 4, 1, 8)}, 161002),
        ({"key": ("FP16", 3, 8)}, 161002),
        ({"slotMapping": ("FP32", 3)}, 161002),
        ({"slotMapping": None}, 561103),
        ({"value": None, "valueCacheRef": None}, 561103),
        ({"keyCacheRef": ("FP16", 2, 4, 1, 7)}, 561103),
        ({"cacheModeOptional": "PA"}, 561103),
    ],
)
def test_refusals_of_a_scatter(run: Any, out: Any, soc: str, changes: Any, status: int) -> None:
    shapes: dict[str, Any] = {"key": ("FP16", 3, 1, 8), "keyCacheRef": ("FP16", 2, 4, 1, 8)}
    shapes |= {"slotMapping": ("INT64", 3), "value": ("FP16", 3, 1, 8), "valueCacheRef": ("FP16", 2, 4, 1, 8)}
    shapes |= changes
    attrs = {"cacheModeOptional": shapes.pop("cacheModeOptional", "Norm"), "scatterModeOptional": None}
    operands = {name: out(*shape) if shape else None for name, shape in shapes.items()}
    assert run("aclnnScatterPaKvCache", soc, attrs, **operands).status == status

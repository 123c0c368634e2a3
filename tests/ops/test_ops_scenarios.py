"""The scenario table against the specification's list of legal mode numbers."""

from __future__ import annotations

import pytest

from cann_mla.ops.mla_prolog_scenarios import ALL_CACHE_MODES, SCENARIOS, scenario

# (weightQuantMode, kvCacheQuantMode) of CANN's sixteen scenarios, and whether Atlas A2 and A3 have them.
LEGAL = {
    (0, 0): True, (1, 0): True, (1, 2): True, (1, 3): True, (2, 0): True, (2, 1): True, (2, 3): True,
    (3, 0): False, (3, 1): False, (3, 3): False, (4, 0): False, (4, 1): False, (4, 3): False,
    (5, 0): False, (5, 1): False, (5, 3): False,
}  # fmt: skip


def test_the_table_holds_exactly_the_legal_pairs() -> None:
    found = {(s.weight_quant_mode, s.kv_cache_quant_mode): "Ascend910B" in s.products for s in SCENARIOS.values()}
    assert found == LEGAL
    assert all("Ascend950" in s.products for s in SCENARIOS.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_first_two_modes_decide_the_others(name: str) -> None:
    modes = SCENARIOS[name].modes
    assert modes["query_quant_mode"] == (1 if modes["kv_cache_quant_mode"] == 1 else 0)
    assert modes["ckvkr_repo_mode"] == modes["quant_scale_repo_mode"] == (1 if modes["kv_cache_quant_mode"] == 3 else 0)


@pytest.mark.parametrize(
    ("name", "token", "up", "kv", "kr", "query", "norm_scale"),
    [
        ("none", "BF16", "BF16", "BF16", "BF16", "BF16", None),
        ("partial_int8_kv_per_channel", "BF16", "INT8", "INT8", "INT8", "BF16", "FP32"),
        ("full_int8_kv_per_tensor", "INT8", "INT8", "INT8", "BF16", "INT8", "FP32"),
        (
            "full_mxfp8_kv_per_tile",
            "FLOAT8_E4M3FN",
            "FLOAT8_E4M3FN",
            "FLOAT8_E4M3FN",
            "BF16",
            "BF16",
            "FLOAT8_E8M0",
        ),
        ("full_hifloat8_kv_per_tensor", "HIFLOAT8", "HIFLOAT8", "HIFLOAT8", "BF16", "HIFLOAT8", "FP32"),
    ],
)
def test_dtypes(name: str, token: str, up: str, kv: str, kr: str, query: str, norm_scale: str | None) -> None:
    s = SCENARIOS[name]
    assert (s.activation_dtype, s.weight_uq_qr_dtype, s.kv_cache_dtype) == (token, up, kv)
    assert (s.kr_cache_dtype, s.query_dtype, s.query_norm_scale_dtype) == (kr, query, norm_scale)


def test_per_tile_rows_need_a_row_layout() -> None:
    assert scenario("partial_int8_kv_per_tile", cache_mode="TND").per_tile
    with pytest.raises(ValueError, match=r"PA_NZ.*legal are PA_BSND, BSND, TND"):
        scenario("partial_int8_kv_per_tile", cache_mode="PA_NZ")
    assert SCENARIOS["none"].cache_modes == ALL_CACHE_MODES


def test_refusals_list_what_is_legal() -> None:
    with pytest.raises(ValueError, match=r"full_mxfp8.*does not exist on Ascend910B.*full_int8_kv_per_tile"):
        scenario("full_mxfp8", product="Ascend910B")
    with pytest.raises(ValueError, match=r"int4.*no scenario.*none, partial_int8"):
        scenario("int4")

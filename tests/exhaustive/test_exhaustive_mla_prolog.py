"""Every legal combination of MlaPrologV3, simulator against reference: product x scenario x cache mode x layout.

Minutes long: ``pytest -m exhaustive``. With ``-s`` it prints the worst differences as a table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from cann_mla.ops.mla_prolog_scenarios import EVERY_PRODUCT, SCENARIOS, Scenario
from cann_mla.validate.cases import parse
from cann_mla.validate.verify import Options, verify_case

pytestmark = pytest.mark.exhaustive

B, S, HE, HCQ, N, D = 2, 3, 1024, 1536, 2, 128
BLOCKS, BLOCK_SIZE = 4, 16
COLUMNS = N * (D + 64)
QUANTISED = {"INT8": {"dist": "integers", "low": -127, "high": 128}}
Json = dict[str, Any]


def weight(shape: list[int], kind: str) -> Json:
    data = QUANTISED.get(kind, {"dist": "normal", "std": shape[0] ** -0.5 if kind == "BF16" else 1})
    return {"shape": shape, "dtype": kind, "format": "FRACTAL_NZ", "data": data}


def uniform(shape: list[int], low: float, high: float, kind: str = "FP32") -> Json:
    return {"shape": shape, "dtype": kind, "data": {"dist": "uniform", "low": low, "high": high}}


def e8m0(shape: list[int]) -> Json:
    return {"shape": shape, "dtype": "FLOAT8_E8M0", "data": {"dist": "uniform", "low": 0.02, "high": 0.06}}


def tensors(scenario: Scenario, mode: str, tokens: list[int]) -> Json:
    x, up = scenario.activation_dtype, scenario.weight_uq_qr_dtype
    count = B * S
    paged = mode.startswith("PA_")
    rows = [BLOCKS, BLOCK_SIZE, 1] if paged else [*tokens, 1]
    given: Json = {
        "tokenX": {"shape": [*tokens, HE], "dtype": x, "data": QUANTISED.get(x, {"dist": "normal"})},
        "weightDq": weight([HE, HCQ], x),
        "weightUqQr": weight([HCQ, COLUMNS], up),
        "weightUk": {"shape": [N, D, 512], "dtype": "BF16", "data": {"dist": "normal", "std": 0.09}},
        "weightDkvKr": weight([HE, 576], x),
        "rmsnormGammaCq": uniform([HCQ], 0.5, 1.5, "BF16"),
        "rmsnormGammaCkv": uniform([512], 0.5, 1.5, "BF16"),
        "ropeSin": uniform([*tokens, 64], -1, 1, "BF16"),
        "ropeCos": uniform([*tokens, 64], -1, 1, "BF16"),
        "kvCacheRef": {"shape": [*rows, 656 if scenario.per_tile else 512], "dtype": scenario.kv_cache_dtype},
        "krCacheRef": {"shape": [0] if scenario.per_tile else [*rows, 64], "dtype": scenario.kr_cache_dtype},
        "queryOut": {"shape": [*tokens, N, 512], "dtype": scenario.query_dtype},
        "queryRopeOut": {"shape": [*tokens, N, 64], "dtype": "BF16"},
        "queryNormOutOptional": {"shape": [*tokens, HCQ], "dtype": up},
    }
    given |= scales(scenario, count)
    if paged:
        given |= index(mode, tokens)
    return given


def scales(scenario: Scenario, count: int) -> Json:
    mode, mx = scenario.weight_quant_mode, scenario.weight_quant_mode == 3
    given: Json = {}
    if mode >= 2:
        given["dequantScaleXOptional"] = e8m0([count, HE // 32]) if mx else uniform([count, 1], 0.005, 0.02)
        for name, columns in (("dequantScaleWDqOptional", HCQ), ("dequantScaleWDkvKrOptional", 576)):
            given[name] = e8m0([columns, HE // 32]) if mx else uniform([1, columns], 2e-4, 5e-4)
    if mode >= 1:
        up = e8m0([COLUMNS, HCQ // 32]) if mx else uniform([1, COLUMNS], 2e-4, 5e-4)
        given["dequantScaleWUqQrOptional"] = up
        shape = [count, HCQ // 32 if mx else 1]
        given["dequantScaleQNormOutOptional"] = {"shape": shape, "dtype": scenario.query_norm_scale_dtype}
    if scenario.quantised_query:
        given["dequantScaleQNopeOutOptional"] = {"shape": [count, N, 1], "dtype": "FP32"}
        given["quantScaleCkvOptional"] = uniform([1], 20, 30)
    if scenario.kv_cache_quant_mode == 2:
        given["quantScaleCkvOptional"] = uniform([1, 512], 20, 40)
        given["quantScaleCkrOptional"] = uniform([1, 64], 20, 40)
    if scenario.per_tile and mode in (1, 2):
        given["kNopeClipAlphaOptional"] = uniform([1], 0.6, 0.9)
    return given


def index(mode: str, tokens: list[int]) -> Json:
    fused = len(tokens) == 1
    if not mode.startswith("PA_BLK"):
        data = {"dist": "permutation", "high": BLOCKS * BLOCK_SIZE}
        return {"cacheIndexOptional": {"shape": tokens, "dtype": "INT64", "data": data}}
    blocks = {"shape": [B] if fused else [B, 1], "dtype": "INT64", "data": {"dist": "permutation", "high": BLOCKS}}
    given: Json = {"cacheIndexOptional": blocks}
    if fused:
        lengths = {"dist": "values", "values": [S - 1, B * S]}
        given["actualSeqLenOptional"] = {"shape": [B], "dtype": "INT32", "data": lengths}
    return given


def grid() -> Iterator[Json]:
    for product in EVERY_PRODUCT:
        for scenario in SCENARIOS.values():
            for mode in scenario.cache_modes if product in scenario.products else ():
                for layout, tokens in (("BS", [B, S]), ("T", [B * S])):
                    if (mode, layout) in (("BSND", "T"), ("TND", "BS")):
                        continue
                    modes = {
                        "weightQuantMode": scenario.weight_quant_mode,
                        "kvCacheQuantMode": scenario.kv_cache_quant_mode,
                        "queryQuantMode": int(scenario.kv_cache_quant_mode == 1),
                        "ckvkrRepoMode": int(scenario.per_tile),
                        "quantScaleRepoMode": int(scenario.per_tile),
                    }
                    yield {
                        "id": f"{product}/{scenario.name}/{mode}/{layout}",
                        "op": "aclnnMlaPrologV3WeightNz",
                        "soc": product,
                        "tensors": tensors(scenario, mode, tokens),
                        "attrs": {"cacheModeOptional": mode, **modes},
                        "expect": {"status": 0},
                    }


def test_simulator_and_reference_agree_in_every_legal_combination() -> None:
    cases = list(grid())
    # Ten layouts a scenario (six cache modes, BSND and TND with one layout each), four for the per-tile ones:
    # 5 x 10 + 2 x 4 on Atlas A2 and on A3, 11 x 10 + 5 x 4 on Ascend950.
    assert len(cases) == 2 * 58 + 130
    worst: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 1.0])
    failed = []
    for case in cases:
        record = verify_case(parse(case), Options())
        if record["verdict"] != "pass":
            failed.append((record["id"], record["message"]))
        product, scenario, _, _ = record["id"].split("/")
        for name, numbers in record["outputs"].items():
            row = worst[product, scenario, name]
            row[0] = max(row[0], numbers["max_abs"])
            row[1] = max(row[1], numbers["max_rel"])
            row[2] = min(row[2], numbers.get("share_equal", 1.0))
    for (product, scenario, name), (absolute, relative, equal) in worst.items():
        print(f"| {product} | {scenario} | {name} | {absolute:.3g} | {relative:.3g} | {equal:.5f} |")
    assert not failed

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import BF16, FP32, INT8, DType
from cann_mla.reference import evaluate
from cann_mla.reference.evaluate import snake_name
from cann_mla.reference.mla_prolog import mla_prolog_v3
from cann_mla.reference.mla_prolog_versions import mla_prolog_v1, mla_prolog_v2

Make = Callable[..., dict[str, Any]]
MODES = ("weight_quant_mode", "kv_cache_quant_mode")

C_NAMES = {
    "token_x": "tokenX",
    "weight_dq": "weightDq",
    "weight_uq_qr": "weightUqQr",
    "weight_uk": "weightUk",
    "weight_dkv_kr": "weightDkvKr",
    "rmsnorm_gamma_cq": "rmsnormGammaCq",
    "rmsnorm_gamma_ckv": "rmsnormGammaCkv",
    "rope_sin": "ropeSin",
    "rope_cos": "ropeCos",
    "kv_cache": "kvCacheRef",
    "kr_cache": "krCacheRef",
    "cache_index": "cacheIndexOptional",
    "dequant_scale_x": "dequantScaleXOptional",
    "dequant_scale_w_dq": "dequantScaleWDqOptional",
    "dequant_scale_w_uq_qr": "dequantScaleWUqQrOptional",
    "dequant_scale_w_dkv_kr": "dequantScaleWDkvKrOptional",
    "quant_scale_ckv": "quantScaleCkvOptional",
    "quant_scale_ckr": "quantScaleCkrOptional",
    "cache_mode": "cacheModeOptional",
    "weight_quant_mode": "weightQuantMode",
    "kv_cache_quant_mode": "kvCacheQuantMode",
}


@pytest.mark.parametrize(
    ("c_name", "name"),
    [
        *((c_name, name) for name, c_name in C_NAMES.items()),
        ("queryOut", "query"),
        ("dequantScaleQNopeOutOptional", "dequant_scale_q_nope"),
        ("kNopeClipAlphaOptional", "k_nope_clip_alpha"),
        ("qcQrScale", "qc_qr_scale"),
        ("out", "out"),
        ("softmaxLse", "softmax_lse"),
    ],
)
def test_names_follow_the_rule(c_name: str, name: str) -> None:
    assert snake_name(c_name) == name


@pytest.mark.parametrize(("weight", "cache"), [(0, 0), (1, 0), (1, 2), (2, 0), (2, 1)])
@pytest.mark.parametrize("version", [mla_prolog_v1, mla_prolog_v2])
def test_older_versions_read_the_scenario_off_the_types(
    prolog_operands: Make, weight: int, cache: int, version: Callable[..., Any]
) -> None:
    o = prolog_operands(weight, cache)
    newest = mla_prolog_v3(**o)
    older = version(**{name: value for name, value in o.items() if name not in MODES})
    for one, other in zip(newest, older, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tobytes() == other.tobytes()


def test_v2_reads_the_first_of_512_cache_scales(prolog_operands: Make) -> None:
    o = prolog_operands(2, 1)
    wide = np.full((1, 512), np.nan, np.float32)
    wide[0, 0] = o["quant_scale_ckv"][0]
    given = {name: value for name, value in o.items() if name not in MODES}
    assert (
        mla_prolog_v2(**{**given, "quant_scale_ckv": wide}).kv_cache.tobytes() == mla_prolog_v3(**o).kv_cache.tobytes()
    )


def test_older_versions_do_not_exist_on_950(prolog_operands: Make) -> None:
    o = prolog_operands(0, 0)
    with pytest.raises(ValueError, match="do not exist on Ascend950; use V3"):
        mla_prolog_v2(soc="Ascend950", **{name: value for name, value in o.items() if name not in MODES})


def test_older_versions_refuse_types_that_are_no_scenario(prolog_operands: Make) -> None:
    o = prolog_operands(0, 0)
    o["weight_uq_qr"] = o["weight_uq_qr"].astype(np.float16)
    with pytest.raises(ValueError, match=r"FP16.*are no scenario"):
        mla_prolog_v1(**{name: value for name, value in o.items() if name not in MODES})


# ---- the uniform door -----------------------------------------------------------------------------


def by_c_name(o: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    named = {C_NAMES[name]: value for name, value in o.items()}
    tensors = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
    return tensors, {name: value for name, value in named.items() if name not in tensors}


def test_evaluate_answers_by_c_name_with_what_was_asked_for(prolog_operands: Make) -> None:
    o = prolog_operands(2, 1)
    tensors, attrs = by_c_name(o)
    outputs: dict[str, tuple[tuple[int, ...], DType]] = {
        "queryOut": ((5, 2, 512), INT8),
        "queryRopeOut": ((5, 2, 64), BF16),
        "dequantScaleQNopeOutOptional": ((5, 2, 1), FP32),
    }
    attrs |= {
        "queryQuantMode": 1,
        "ckvkrRepoMode": 0,
        "quantScaleRepoMode": 0,
        "tileSize": 128,
        "qcQrScale": None,
    }
    tensors["smoothScalesCqOptional"] = None
    got = evaluate("aclnnMlaPrologV3WeightNz", tensors, attrs, soc="Ascend910B", outputs=outputs)
    assert set(got) == {*outputs, "kvCacheRef", "krCacheRef"}
    expected = mla_prolog_v3(**o)
    assert got["queryOut"].tobytes() == expected.query.tobytes()
    assert got["kvCacheRef"].tobytes() == expected.kv_cache.tobytes()
    outputs["queryNormOutOptional"] = ((5, 128), INT8)
    outputs["dequantScaleQNormOutOptional"] = ((5, 1), FP32)
    got = evaluate("aclnnMlaPrologV3WeightNz", tensors, attrs, soc="Ascend910B", outputs=outputs)
    assert set(got) == {*outputs, "kvCacheRef", "krCacheRef"}


def test_evaluate_knows_v2(prolog_operands: Make) -> None:
    tensors, attrs = by_c_name(prolog_operands(0, 0))
    attrs = {"cacheModeOptional": attrs["cacheModeOptional"]}
    outputs = {"queryOut": ((5, 2, 512), BF16), "queryRopeOut": ((5, 2, 64), BF16)}
    got = evaluate("aclnnMlaPrologV2WeightNz", tensors, attrs, soc="Ascend910B", outputs=outputs)
    assert got["queryOut"].tobytes() == mla_prolog_v3(**prolog_operands(0, 0)).query.tobytes()


def test_evaluate_names_what_it_has() -> None:
    with pytest.raises(NotImplementedError, match=r"no reference for aclnnSort.*aclnnMlaPrologV3WeightNz"):
        evaluate("aclnnSort", {}, {}, soc="Ascend910B", outputs={})

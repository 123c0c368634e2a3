"""Silent faults of kernels, as met in public: the comparison fails, and the explanation names the mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cann_mla import simulator
from cann_mla.cli import main
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case, parse
from cann_mla.validate.explain import explain
from cann_mla.validate.run import run_case
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.standard_rules import find_standard
from cann_mla.validate.verify import Options, verify_case

DATA = Path(__file__).parent.parent / "data"
STANDARD = "mixed-tolerance/1"


def normal(std: float) -> dict[str, Any]:
    return {"dist": "normal", "std": std}


def prolog(**more: Any) -> Case:
    """MlaPrologV3, without quantisation."""
    nz = {"dtype": "BF16", "format": "FRACTAL_NZ"}
    tensors = {
        "tokenX": {"shape": [3, 1024], "dtype": "BF16"},
        "weightDq": {"shape": [1024, 1536], **nz, "data": normal(0.03)},
        "weightUqQr": {"shape": [1536, 384], **nz, "data": normal(0.03)},
        "weightUk": {"shape": [2, 128, 512], "dtype": "BF16", "data": normal(0.09)},
        "weightDkvKr": {"shape": [1024, 576], **nz, "data": normal(0.03)},
        "rmsnormGammaCq": {"shape": [1536], "dtype": "BF16", "data": {"dist": "ones"}},
        "rmsnormGammaCkv": {"shape": [512], "dtype": "BF16", "data": {"dist": "ones"}},
        "ropeSin": {"shape": [3, 64], "dtype": "BF16"},
        "ropeCos": {"shape": [3, 64], "dtype": "BF16"},
        "kvCacheRef": {"shape": [2, 16, 1, 512], "dtype": "BF16"},
        "krCacheRef": {"shape": [2, 16, 1, 64], "dtype": "BF16"},
        "cacheIndexOptional": {"shape": [3], "dtype": "INT64", "data": {"dist": "values", "values": [3, 20, 9]}},
        "queryOut": {"shape": [3, 2, 512], "dtype": "BF16"},
        "queryRopeOut": {"shape": [3, 2, 64], "dtype": "BF16"},
    } | more
    attrs = {"cacheModeOptional": "PA_BSND", **({"weightQuantMode": 1} if more else {})}
    return case("aclnnMlaPrologV3WeightNz", tensors, attrs)


def quantised_prolog() -> Case:
    """The second projection in INT8, with a scale a column."""
    weight = {"dtype": "INT8", "format": "FRACTAL_NZ", "data": {"dist": "integers", "low": -128, "high": 128}}
    return prolog(
        weightUqQr={"shape": [1536, 384], **weight},
        dequantScaleWUqQrOptional={
            "shape": [1, 384],
            "dtype": "FP32",
            "data": {"dist": "uniform", "low": 1e-4, "high": 9e-4},
        },
    )


def attention(rows: int, columns: int, mode: int | None) -> Case:
    """FusedInferAttentionScore with a random mask (mode 0 or 1), a causal one (2, 3), or none."""
    tensors: dict[str, Any] = {
        "query": {"shape": [1, 2, rows, 64], "dtype": "FP16"},
        "key": [{"shape": [1, 1, columns, 64], "dtype": "FP16"}],
        "value": [{"shape": [1, 1, columns, 64], "dtype": "FP16"}],
        "attentionOut": {"shape": [1, 2, rows, 64], "dtype": "FP16"},
    }
    attrs = {"numHeads": 2, "numKeyValueHeads": 1, "scaleValue": 0.125, "inputLayout": "BNSD"}
    if mode is not None:
        attrs["sparseMode"] = mode
        random = {"shape": [1, 1, rows, columns], "data": {"dist": "integers", "low": 0, "high": 2}}
        triangle = {"shape": [2048, 2048], "data": {"dist": "triu", "value": 1}}
        tensors["attenMaskOptional"] = {"dtype": "BOOL", **(random if mode < 2 else triangle)}
    return case("aclnnFusedInferAttentionScoreV3", tensors, attrs)


def ring(tokens: int, masked: bool) -> Case:
    """AtbRingMLA, a first step over one sequence."""
    tensors: dict[str, Any] = {
        "querySplit1": {"shape": [tokens, 2, 128], "dtype": "BF16"},
        "querySplit2": {"shape": [tokens, 2, 64], "dtype": "BF16"},
        "keySplit1": {"shape": [tokens, 1, 128], "dtype": "BF16"},
        "keySplit2": {"shape": [tokens, 1, 64], "dtype": "BF16"},
        "value": {"shape": [tokens, 1, 128], "dtype": "BF16"},
        "seqLen": {
            "shape": [2, 1],
            "dtype": "INT32",
            "memory": "host",
            "data": {"dist": "values", "values": [tokens, tokens]},
        },
        "output": {"shape": [tokens, 2, 128], "dtype": "BF16"},
        "softmaxLse": {"shape": [2, tokens], "dtype": "FP32"},
    }
    # Without a mask, ATB wants a tensor in its place all the same.
    tensors["mask"] = {"shape": [512, 512], "dtype": "BF16", "data": {"dist": "triu", "value": 1}}
    attrs = {"headNum": 2, "kvHeadNum": 1, "qkScale": 0.0722, "kernelType": 1, "calcType": 1, "maskType": int(masked)}
    return case("AtbRingMLA", tensors, attrs)


def product() -> Case:
    """QuantMatmulWeightNz, A8W8."""
    whole = {"dist": "integers", "low": -128, "high": 128}
    scale = {"dist": "uniform", "low": 0.001, "high": 0.02}
    tensors = {
        "x1": {"shape": [7, 64], "dtype": "INT8", "data": whole},
        "x2": {"shape": [64, 96], "dtype": "INT8", "format": "FRACTAL_NZ", "data": whole},
        "x2Scale": {"shape": [96], "dtype": "FP32", "data": scale},
        "x1Scale": {"shape": [7], "dtype": "FP32", "data": scale},
        "out": {"shape": [7, 96], "dtype": "BF16"},
    }
    return case("aclnnQuantMatmulWeightNz", tensors, {"transposeX1": False, "transposeX2": False, "groupSize": 0})


def case(op: str, tensors: dict[str, Any], attrs: dict[str, Any]) -> Case:
    return parse({"id": "fault", "op": op, "soc": "Ascend910B", "tensors": tensors, "attrs": attrs, "seed": 4})


FAULTS = [
    ("mask_past_512", attention(4, 700, 1), "attenMaskOptional: ignored from column 512 on"),
    ("mask_past_512", attention(64, 576, 3), "attenMaskOptional: ignored from column 512 on"),
    ("mask_past_512", ring(600, True), None),
    ("uniform_without_mask", attention(4, 40, None), "scores ignored: all columns that a row sees weigh alike"),
    ("uniform_without_mask", ring(40, False), "scores ignored: all columns that a row sees weigh alike"),
    ("nz_as_nd", prolog(), "FRACTAL_NZ read as ND, in every operand that has it"),
    ("nz_as_nd@weightDq", prolog(), "weightDq: FRACTAL_NZ read as ND"),
    ("nz_as_nd", product(), "x2: FRACTAL_NZ read as ND"),
    ("scale_dropped", quantised_prolog(), "dequantScaleWUqQrOptional: missing"),
    ("scale_dropped@x2Scale", product(), "x2Scale: missing"),
    # 6 rows of 512 and 6 of 64; 24 cores would have a row each
    ("last_block_unwritten", prolog(), "queryOut: nothing written from element 2560 of 3072 on; "
                                       "queryRopeOut: nothing written from element 320 of 384 on"),
    ("last_block_unwritten", attention(24, 40, None), "attentionOut: nothing written from element 2944 of 3072 on"),
    ("last_block_unwritten@output", ring(24, False), "output: nothing written from element 5888 of 6144 on"),
    ("last_block_unwritten", product(), "out: nothing written from element 576 of 672 on"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "given", "text"), FAULTS, ids=[f"{f}-{g.op}" for f, g, _ in FAULTS])
def test_a_silent_fault_is_caught_and_explained(fault: str, given: Case, text: str | None) -> None:
    options = Options(via="sim", standards=(STANDARD,))
    assert verify_case(given, options)["verdict"] == "pass"
    roles = roles_of(given.op)
    arrays = make_operands(given, is_output=roles.is_output)
    with simulator.inject(f"numeric:{fault}"):
        assert verify_case(given, options)["verdict"] == "fail"
        outputs = run_case(given, arrays, roles, "sim").outputs
    findings = explain(given, arrays, roles, outputs, find_standard(STANDARD))
    if text is None:
        assert all(finding.remaining for finding in findings)  # nothing else is blamed for all of it
    else:
        assert [f.text for f in findings if not f.remaining][:1] == [text]


def test_a_fault_of_another_operator_changes_nothing() -> None:
    with simulator.inject("numeric:scale_dropped@aclnnMm; numeric:nz_as_nd@aclnnMlaProlog*"):
        assert verify_case(product(), Options(via="sim"))["verdict"] == "pass"


def test_a_launch_keeps_the_faults_that_it_was_queued_with() -> None:
    given = attention(4, 40, None)
    with simulator.inject("numeric:uniform_without_mask@aclnnFusedInferAttentionScore*"):
        assert verify_case(given, Options(via="sim"))["verdict"] == "fail"
    assert verify_case(given, Options(via="sim"))["verdict"] == "pass"


def test_the_command_line_names_the_suspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.json"
    file.write_text((DATA / "cli" / "prolog.json").read_text())
    with simulator.inject("numeric:nz_as_nd@weightDkvKr"):
        assert main(["verify", str(file), "--explain"]) == 1
    assert "weightDkvKr: FRACTAL_NZ read as ND" in capsys.readouterr().out

"""Cases of composed operators: no prototype, and still a status, numbers and clear mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from cann_mla.validate import parse, verify_case
from cann_mla.validate.verify import Options

SHAPES: dict[str, tuple[list[int], str]] = {
    "token_x": ([2, 4096], "BF16"),
    "wq_a": ([4096, 1024], "BF16"),
    "wq_b": ([1024, 32768], "INT8"),
    "wkv": ([4096, 512], "BF16"),
    "rope_cos": ([2, 64], "BF16"),
    "rope_sin": ([2, 64], "BF16"),
    "gamma_cq": ([1024], "BF16"),
    "gamma_ckv": ([512], "BF16"),
    "wq_b_scale": ([32768, 1], "FP32"),
    "q_out": ([2, 64, 512], "BF16"),
    "kv_out": ([2, 512], "BF16"),
    "qr_out": ([2, 1024], "INT8"),
    "qr_scale_out": ([2, 1], "FP32"),
}


def judged(expect: object, soc: str = "Ascend910B", attrs: object = None, **changed: Any) -> dict[str, Any]:
    tensors: dict[str, Any] = {name: {"shape": shape, "dtype": kind} for name, (shape, kind) in SHAPES.items()}
    for name, change in changed.items():
        tensors[name] = None if change is None else {**tensors[name], **change}
    case = {"id": "c", "op": "mla_prolog_quant", "soc": soc, "tensors": tensors, "expect": {"status": expect}}
    record: dict[str, Any] = verify_case(parse({**case, "attrs": attrs or {}}), Options(status_only=True))
    return record


def test_statuses_are_those_of_an_operator() -> None:
    assert judged(0)["verdict"] == "pass"
    refused = judged("reject", token_x={"dtype": "FP16"})
    assert (refused["verdict"], refused["status"], refused["phase"]) == ("pass", 161002, 1)
    assert refused["message"] == "token_x has dtype FP16; it must be BF16"
    assert judged(0, token_x={"dtype": "FP16"})["verdict"] == "fail"


@pytest.mark.parametrize(
    "changed",
    [
        {"rope_cos": {"shape": [3, 64]}},
        {"token_x": {"shape": [2, 7168]}},
        {"gamma_cq": {"strides": [2]}},
        {"token_x": {"format": "FRACTAL_NZ"}},
        {"qr_out": {"dtype": "BF16"}},
        {"token_x": {"shape": [65537, 4096]}, "rope_cos": {"shape": [65537, 64]}, "rope_sin": {"shape": [65537, 64]}},
    ],
    ids=["tokens", "hidden", "strided", "format", "output", "too long"],
)
def test_refused(changed: dict[str, Any]) -> None:
    assert judged("reject", **changed)["verdict"] == "pass"


def test_the_product_is_looked_at() -> None:
    assert judged("reject", soc="Ascend950")["verdict"] == "pass"
    assert judged(0, soc="Ascend910_93")["verdict"] == "pass"


def test_what_is_missing_or_unknown_is_an_error() -> None:
    for record in (judged(0, wkv=None), judged(0, attrs={"eps": 1.0})):
        assert record["verdict"] == "error"
        assert "mla_prolog_quant takes token_x, wq_a" in record["message"]

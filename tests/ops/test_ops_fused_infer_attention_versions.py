"""Which version is chosen, and what is said when none will do."""

from __future__ import annotations

from typing import Any

import pytest

from cann_mla.ops.fused_infer_attention_versions import choose_version, parameters, versions_with
from cann_mla.reference.attention_parameters import PARAMETERS_SINCE

# By the documents of the five versions: the first that has it.
SINCE = {
    "pse_shift": 1, "block_table": 1, "query_padding_size": 1, "antiquant_scale": 1, "quant_scale2": 1,
    "key_antiquant_scale": 2, "value_antiquant_mode": 2, "key_shared_prefix": 2, "actual_shared_prefix_len": 2,
    "query_rope": 3, "key_rope_antiquant_scale": 3,
    "dequant_scale_query": 4, "learnable_sink": 4, "query_quant_mode": 4,
    "q_start_idx": 5, "pse_type": 5,
}  # fmt: skip


@pytest.mark.parametrize("name", SINCE)
def test_headers_say_what_the_documents_say(name: str) -> None:
    assert versions_with(name) == tuple(range(SINCE[name], 6))


def test_the_reference_has_every_parameter_of_every_header() -> None:
    for version in range(1, 6):
        known = {name for since, names in PARAMETERS_SINCE.items() if since <= version for name in names}
        assert parameters(version) - {"attention", "softmax_lse"} == known


@pytest.mark.parametrize(
    ("asked", "product", "chosen"),
    [
        ({}, "Ascend910B", 1),
        ({"block_table": object(), "softmax_lse_flag": True}, "Ascend910_93", 1),
        ({"key_shared_prefix": object()}, "Ascend910B", 2),
        ({"key_antiquant_mode": 0, "query_quant_mode": 0, "pse_type": 0}, "Ascend910B", 1),
        ({"key_antiquant_mode": 3}, "Ascend910B", 2),
        ({"query_rope": object()}, "Ascend910B", 3),
        ({"sparse_mode": 9}, "Ascend910B", 3),
        ({"sparse_mode": 3}, "Ascend910B", 1),
        ({"learnable_sink": object(), "query_rope": object()}, "Ascend910_93", 4),
        ({}, "Ascend950", 5),
        ({"value_antiquant_mode": 8}, "Ascend950", 5),
    ],
)
def test_the_oldest_that_has_it_is_chosen(asked: dict[str, Any], product: str, chosen: int) -> None:
    assert choose_version(asked, ["FP16"], product=product) == chosen


def test_a_version_wanted_is_taken_if_it_has_it() -> None:
    assert choose_version({"query_rope": object()}, ["BF16"], product="Ascend910B", version=4) == 4


@pytest.mark.parametrize(
    ("asked", "dtypes", "product", "version", "message"),
    [
        ({"learnable_sink": 1}, [], "Ascend910B", 2, r"ScoreV2 has no learnable_sink \(it is in V4, V5\)"),
        ({"query_rope": 1, "key_rope": 1}, [], "Ascend910B", 1, r"has no query_rope \(it is in V3, V4, V5\), key"),
        ({}, [], "Ascend910B", 5, "version=5 does not run on Ascend910B, which has V1, V2, V3, V4"),
        ({}, [], "Ascend950", 4, "version=4 does not run on Ascend950, which has V5"),
        ({}, [], "Ascend910B", 6, "has versions 1 to 5"),
        ({"pse_type": 1}, [], "Ascend910B", None, r"Ascend910B \(V1, V2, V3, V4\) has no pse_type=1 \(it is in V5\)"),
        ({"sparse_mode": 9}, [], "Ascend950", None, r"sparse_mode=9 \(it is in V3, V4\).*V5 runs on Ascend950"),
        ({}, ["BF16", "FLOAT8_E4M3FN"], "Ascend910_93", None, r"no FLOAT8_E4M3FN operands \(it is in V5\)"),
        ({"sparse_mode": 9, "pse_type": 1}, [], None, None, "no version .* has all of sparse_mode=9 .*, pse_type=1"),
    ],
)  # fmt: skip
def test_refusals(
    asked: dict[str, Any], dtypes: list[str], product: str | None, version: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        choose_version(asked, dtypes, product=product, version=version)

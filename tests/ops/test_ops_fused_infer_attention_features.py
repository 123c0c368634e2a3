"""The table of features: every case in it holds, in every version and on every product that the table names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cann_mla.ops.fused_infer_attention_features import Feature, features, table
from cann_mla.ops.fused_infer_attention_versions import VERSIONS
from cann_mla.validate.cases import Case
from cann_mla.validate.library import open_library, select_product
from cann_mla.validate.status_only import phase_statuses
from cann_mla.validate.verify import Options, verify_case

FEATURES = features()
CASES = [case for feature in FEATURES for case in feature.cases.values()]
DOCUMENT = Path(__file__).parents[2] / "cann_mla/ops/fused_infer_attention.md"
PRODUCTS_OF = {v: ("Ascend950",) if v == 5 else ("Ascend910B", "Ascend910_93") for v in VERSIONS}


@pytest.fixture(autouse=True, scope="module")
def first_product_afterwards():
    yield
    select_product(open_library("sim"), "Ascend910B")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.removeprefix("builtin/fused_infer_attention/"))
def test_simulator_and_reference_agree(case: Case) -> None:
    record = verify_case(case, Options())
    assert record["verdict"] == "pass", record["message"]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_version_and_product_answers_as_the_table_says(feature: Feature) -> None:
    assert set(feature.cases) == {"Ascend910B", "Ascend950"}
    answers = {version: feature.answer(version) for version in VERSIONS}
    assert "yes" in answers.values()
    for version in VERSIONS:
        for product in PRODUCTS_OF[version]:
            if answers[version] != "-":
                case = feature.case_for(version, product)
                assert phase_statuses(case, "sim").status == case.status, (version, product)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_old_versions_are_refused_on_ascend950(version: int) -> None:
    feature = next(f for f in FEATURES if f.name == "layout_BNSD")
    case = replace(feature.case_for(version, "Ascend910B"), soc="Ascend950")
    assert phase_statuses(case, "sim").status == 361001


def test_rows_by_the_documents_of_the_versions() -> None:
    """Some rows, read in the documents."""
    answers = {f.name: [f.answer(v) for v in VERSIONS] for f in FEATURES}
    yes = "yes"
    assert answers["layout_BNSD"] == [yes] * 5
    assert answers["prefix"] == ["-", yes, yes, yes, yes]
    assert answers["mla_BSND"] == ["-", "-", yes, yes, yes]
    assert answers["sink"] == ["-", "-", "-", yes, yes]
    assert answers["sparse_9"] == ["-", "-", yes, yes, "refused, 561002"]
    assert answers["mxfp8"] == ["-", "-", "-", "refused, 161002", yes]


def test_the_document_shows_the_table() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8"), (
        "cann_mla/ops/fused_infer_attention.md is older than the cases: paste the output of "
        "python -m cann_mla.ops.fused_infer_attention_features into it"
    )

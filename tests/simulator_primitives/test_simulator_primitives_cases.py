"""Case files: numbers against the references, statuses against what CANN's own host code answered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cann_mla.validate.cases import load
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.status_only import phase_statuses
from cann_mla.validate.verify import Options, verify_case

DATA = Path(__file__).parents[1] / "data/primitives"
CASES = [case for file in sorted(DATA.glob("*.json")) for case in load(file)]
ROWS = list(load(DATA / "upstream.jsonl"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_numbers_agree_with_the_reference(case: Any) -> None:
    record = verify_case(case, Options())
    assert record["verdict"] == "pass", record["message"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_statuses_are_those_of_cann(row: Any) -> None:
    outcome = phase_statuses(row, "sim")
    assert outcome.status == row.status, outcome.message
    if outcome.status:
        words = set(re.findall(r"\w+", outcome.message))
        assert words & roles_of(row.op).parameters, outcome.message

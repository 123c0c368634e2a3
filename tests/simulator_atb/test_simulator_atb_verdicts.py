"""What ATB's own host code answered to parameter sets of its seven operators, good and bad.

The rows of ``verdicts.jsonl`` are a sample of the published sets: some for each operator, status and phase.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cann_mla.validate.cases import Case, load
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.status_only import phase_statuses

ROWS = list(load(Path(__file__).parents[1] / "data/atb/verdicts.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_status_and_workspace(row: Case) -> None:
    outcome = phase_statuses(row, "sim")
    assert outcome.status == row.status, outcome.message
    if row.status:
        assert outcome.phase == (row.phase or 1)
        says_what = set(re.findall(r"\w+", outcome.message)) & roles_of(row.op).parameters
        assert says_what or "runs on" in outcome.message or "wrapper passes" in outcome.message, outcome.message
    elif row.op == "AtbRingMLA":
        assert outcome.workspace == row.workspace

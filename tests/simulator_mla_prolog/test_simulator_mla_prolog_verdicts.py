"""What CANN's own host code answered to parameter sets, good and bad: status, and workspace of the third version.

The rows of ``upstream.jsonl`` are a sample of the published sets, at least one for each operand and rule at fault.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cann_mla.validate.cases import Case, load
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.status_only import phase_statuses

ROWS = list(load(Path(__file__).parents[1] / "data/mla_prolog_verdicts/upstream.jsonl"))
WRONG_PRODUCT = 361001


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_status_and_workspace(row: Case) -> None:
    outcome = phase_statuses(row, "sim")
    assert outcome.status == row.status, outcome.message
    if row.status == 0 and row.workspace is not None and row.op.endswith("V3WeightNz"):
        assert outcome.workspace == row.workspace
    if outcome.status not in (0, WRONG_PRODUCT):
        assert names_a_parameter(outcome.message, row.op), outcome.message


def names_a_parameter(message: str, op: str) -> bool:
    """Whether a refusal says which argument it is about."""
    return bool(set(re.findall(r"\w+", message)) & roles_of(op).parameters)

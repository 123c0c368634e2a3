"""What CANN's own host code answered to parameter sets, good and bad: a sample, at least one a rule and operand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cann_mla.validate.cases import Case, load
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.status_only import phase_statuses

FOLDER = Path(__file__).parents[1] / "data/attention_verdicts"
ROWS = [row for name in ("fused_infer_attention", "ring_attention_update") for row in load(FOLDER / f"{name}.jsonl")]
WRONG_PRODUCT = 361001


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_status(row: Case) -> None:
    outcome = phase_statuses(row, "sim")
    if row.status != "any":
        assert outcome.status == row.status, outcome.message
    if outcome.status not in (0, WRONG_PRODUCT):
        assert names_a_parameter(outcome.message, row.op), outcome.message


def names_a_parameter(message: str, op: str) -> bool:
    """Whether a refusal says which argument it is about."""
    plain = {word.removesuffix("Optional") for word in re.findall(r"\w+", message)}
    return bool(plain & {name.removesuffix("Optional") for name in roles_of(op).parameters})

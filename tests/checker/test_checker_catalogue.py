"""Every program of the catalogue is caught with the right diagnosis, and its corrected twin is clean."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from catalogue import CATALOGUE, Defect
from catalogue.reports import Finding, of_program, places, subject

CLEAN = "cann_mla simulator: 0 findings\n"
HERE = Path(__file__).resolve().parent


def run_catalogue(report: Path, which: str, *names: str) -> subprocess.CompletedProcess[str]:
    settings = {"CANN_MLA_SIM_STRICT": "1", "CANN_MLA_SIM_REPORT": str(report), "PYTHONPATH": str(HERE)}
    return subprocess.run(
        [sys.executable, "-m", "catalogue", which, *names],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tempfile.gettempdir(),  # the package is the installed one, not the checkout
    )


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    """What the wrong programs, run in one process, are reported for."""
    report = tmp_path_factory.mktemp("wrong") / "report.json"
    done = run_catalogue(report, "wrong")
    assert done.returncode != 0, "findings make a program fail"
    found: list[Finding] = json.loads(report.read_text())["findings"]
    assert f"{len(found)} finding" in done.stderr
    return found


@pytest.mark.parametrize("defect", CATALOGUE, ids=lambda defect: defect.name)
def test_wrong_program_is_caught(defect: Defect, findings: list[Finding]) -> None:
    mine = of_program(defect, findings)
    assert [f["rule"] for f in mine] == [defect.rule]
    (finding,) = mine
    assert subject(finding) == defect.thing
    assert finding["broken"]["api"] == defect.broken
    for mark in ("made", "broken"):
        line = defect.line_of(mark)
        inside = [place for place in places(finding[mark]) if defect.holds(*place)]
        assert inside[:1] == ([] if line is None else [line]), mark
    if defect.thing and defect.thing.kind == "aclTensor":
        assert re.search(r"\[[\d, ]+\] (FP32|FP16|INT32)", finding["object"]["text"])
    assert finding["count"] == 1
    assert finding["what"]
    assert finding["rule_text"]
    assert finding["fix"]


def test_nothing_else_is_found(findings: list[Finding]) -> None:
    expected = [finding for defect in CATALOGUE for finding in of_program(defect, findings)]
    assert [finding for finding in findings if finding not in expected] == []


def test_the_first_failing_call_is_shown_with_everything_later(findings: list[Finding]) -> None:
    first, later = CATALOGUE[0], of_program(CATALOGUE[3], findings)
    assert [finding["first_failure"] for finding in of_program(first, findings)] == [None]
    (failure,) = [finding["first_failure"] for finding in later]
    assert (failure["api"], failure["status"]) == ("aclDestroyTensor", 161002)
    assert places(failure)[0] == first.line_of("broken")


@pytest.mark.parametrize("which", ["right", "legal"])
def test_corrected_twins_and_legal_habits_are_clean(tmp_path: Path, which: str) -> None:
    report = tmp_path / "report.json"
    done = run_catalogue(report, which)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", CLEAN)
    assert json.loads(report.read_text())["findings"] == []

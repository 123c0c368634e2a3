"""A minute of legal work of eight threads on four streams, and a hundred defects in the middle of it.

``pytest -m exhaustive -s tests/exhaustive/test_exhaustive_checker.py`` prints what was done and what was missed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "checker"))

from stress.running import missed, run  # noqa: E402  found only now

pytestmark = pytest.mark.exhaustive

MEGABYTE = 1 << 20


def test_a_minute_of_legal_work_is_clean_and_holds_no_more_and_more_memory(tmp_path: Path) -> None:
    done = run(tmp_path / "report.json", 60, 1)
    assert (done.returncode, done.stderr, done.findings) == (0, "cann_mla simulator: 0 findings\n", [])
    growth = (done.result["late"] - done.result["early"]) / MEGABYTE
    print(f"\n{sum(done.result['done'].values())} pieces of work: {done.result['done']}; {growth:+.1f} MB in 45 s")
    assert growth < 16


def test_ninety_nine_of_a_hundred_defects_are_found(tmp_path: Path) -> None:
    faults = missed(tmp_path, 0.3, range(100))
    print(f"\n{100 - len(faults)} of 100 found", *faults, sep="\n")
    assert len(faults) <= 1

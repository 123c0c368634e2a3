"""Eight threads and four streams for seconds: legal work is clean, and one defect in the middle of it is found."""

from __future__ import annotations

from pathlib import Path

from stress.running import missed, run


def test_legal_work_of_many_threads_is_clean(tmp_path: Path) -> None:
    done = run(tmp_path / "report.json", 3, 20261130)
    assert (done.returncode, done.stderr, done.findings) == (0, "cann_mla simulator: 0 findings\n", [])
    assert min(done.result["done"].values()) > 0


def test_one_defect_among_legal_work_is_found(tmp_path: Path) -> None:
    assert missed(tmp_path, 0.2, (4, 13, 31, 38)) == []

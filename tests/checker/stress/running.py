"""Runs of the stress program in processes of their own, and what they were reported for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalogue import CATALOGUE
from catalogue.reports import of_program

PACKAGES = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """How a run ended."""

    returncode: int
    stderr: str
    result: dict[str, Any]
    findings: list[dict[str, Any]]


def run(report: Path, seconds: float, seed: int, defect: str = "") -> Run:
    """One run of ``python -m stress``."""
    settings = {"CANN_MLA_SIM_STRICT": "1", "CANN_MLA_SIM_REPORT": str(report), "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(
        [sys.executable, "-m", "stress", str(seconds), str(seed), *([defect] if defect else [])],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=seconds + 120,
        check=False,
        cwd=tempfile.gettempdir(),  # the package is the installed one, not the checkout
    )
    findings = json.loads(report.read_text())["findings"] if report.exists() else []
    return Run(done.returncode, done.stderr, json.loads(done.stdout or "{}"), findings)


def missed(folder: Path, seconds: float, seeds: Iterable[int]) -> list[str]:
    """Run once for each seed, with the next defect of the catalogue; tells which were not found."""

    def judge(seed: int) -> str | None:
        defect = CATALOGUE[seed % len(CATALOGUE)]
        done = run(folder / f"{seed}.json", seconds, seed, defect.name)
        rules = [finding["rule"] for finding in of_program(defect, done.findings)]
        found = rules == [defect.rule] and len(done.findings) == 1 and done.returncode != 0
        return None if found else f"{defect.name} (seed {seed}): {done.stderr[-2000:]}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [fault for fault in pool.map(judge, seeds) if fault is not None]

"""Programs of the catalogue in C++, each in a process of its own: caught when wrong, and clean when right.

They have the names of the Python programs, and have to be reported for the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from catalogue import CATALOGUE, Defect
from catalogue.reports import Finding, subject

from cann_mla import simulator

SOURCE = Path(__file__).with_name("catalogue.cpp")
NAMES = re.findall(r"PROGRAM\((\w+)\)[,}]", SOURCE.read_text())
DEFECTS = [defect for defect in CATALOGUE if defect.name in NAMES]
Result = tuple["subprocess.CompletedProcess[str]", list[Finding]]


def build(target: Path) -> None:
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    # Functions can only be named in a backtrace when the program exports them.
    flags = ["-std=c++17", "-pthread", "-rdynamic", "-Wall", "-Wextra", "-Werror", *extra, *simulator.compile_flags()]
    done = subprocess.run(
        ["g++", *flags, str(SOURCE), "-o", str(target), *simulator.link_flags()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Future[Result]]:
    """Exit and findings of every program, wrong and right; they run while the tests go through them."""
    folder = tmp_path_factory.mktemp("catalogue")
    program = folder / "catalogue"
    build(program)

    def run(name: str, which: str) -> Result:
        report = folder / f"{name}.{which}.json"
        settings = {"CANN_MLA_SIM_STRICT": "1", "CANN_MLA_SIM_REPORT": str(report)}
        done = subprocess.run(
            [str(program), name, which],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done, json.loads(report.read_text())["findings"]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {(name, which): pool.submit(run, name, which) for name in NAMES for which in ("wrong", "right")}


def test_every_program_has_its_line_in_the_catalogue() -> None:
    assert sorted(NAMES) == sorted(defect.name for defect in DEFECTS)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_wrong_program_is_caught(defect: Defect, results: dict[tuple[str, str], Future[Result]]) -> None:
    done, findings = results[defect.name, "wrong"].result()
    assert [f["rule"] for f in findings] == [defect.rule], done.stderr
    (finding,) = findings
    assert done.returncode != 0
    assert subject(finding) == defect.thing
    assert finding["broken"]["api"] == defect.broken
    for mark in ("made", "broken"):
        if defect.line_of(mark) is not None:
            assert any(re.search(rf"\b{defect.name}", place) for place in finding[mark]["where"]), mark


@pytest.mark.parametrize("name", NAMES)
def test_corrected_twin_is_clean(name: str, results: dict[tuple[str, str], Future[Result]]) -> None:
    done, findings = results[name, "right"].result()
    assert (done.returncode, done.stdout, done.stderr, findings) == (0, "", "cann_mla simulator: 0 findings\n", [])

"""Reports of strict mode: text, JSON, repeats, suppressions, exit status, and where C callers are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cann_mla import simulator

HERE = Path(__file__).resolve().parent
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the compiled programs and the library that one of them loads."""
    folder = tmp_path_factory.mktemp("reports")
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    common = ["-Wall", "-Wextra", "-Werror", *extra, *simulator.compile_flags()]
    linked = [*simulator.link_flags(), "-ldl"]
    # -O0 as well as -O2: frames are found in either way.
    for name, level in (("reports", "-O2"), ("reports_O0", "-O0")):
        flags = ["-std=c++17", level, "-pthread", *common]
        command = ["g++", *flags, str(HERE / "reports.cpp"), "-o", str(folder / name), *linked]
        subprocess.run(command, check=True)
    library = ["-shared", "-fPIC", *common, str(HERE / "other_library.c"), "-o", str(folder / "libother.so")]
    subprocess.run(["gcc", *library, *linked], check=True)
    return folder


@pytest.fixture
def run(programs: Path, tmp_path: Path) -> Run:
    def run(program: str, *arguments: str, binary: str = "reports", **settings: str) -> Done:
        default = {"CANN_MLA_SIM_STRICT": "1", "CANN_MLA_SIM_REPORT": str(tmp_path / "report.json")}
        return subprocess.run(
            [str(programs / binary), program, *arguments],
            env={**os.environ, **default, **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def found(tmp_path: Path) -> list[dict[str, Any]]:
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return list(report["findings"])


def test_text_of_a_finding(run: Run) -> None:
    done = run("repeated")
    lines = [line.rstrip() for line in done.stderr.splitlines()]
    assert lines[0] == (
        "cann_mla simulator: double-destroy: a dead aclTensor is destroyed again: it was destroyed by aclDestroyTensor "
        + lines[0].partition("aclDestroyTensor ")[2]
    )
    assert "(reports: destroyTwice+0x" in lines[0]
    labels = [line.strip().split(":")[0] for line in lines[1:] if not line.strip().startswith("at ")]
    assert labels == ["object", "created by", "broken by", "rule", "fix", "cann_mla simulator"]
    assert lines[1].startswith("  object:      aclTensor 0x5a")
    assert lines[1].endswith(" [2, 16] FP16 ND")
    assert lines[2] == "  created by:  aclCreateTensor, thread 1"
    assert "               at reports: newTensor+0x" in lines[3]
    assert "               at reports: destroyTwice+0x" in lines[4]


def test_json_of_a_finding(run: Run, tmp_path: Path) -> None:
    run("repeated")
    (finding,) = found(tmp_path)
    assert list(finding) == [
        "rule", "group", "what", "object", "made", "broken", "first_failure", "rule_text", "fix", "count", "advice",
    ]  # fmt: skip
    assert (finding["rule"], finding["group"], finding["advice"]) == ("double-destroy", "lifetime", False)
    assert list(finding["object"]) == ["kind", "handle", "text"]
    assert (finding["object"]["kind"], finding["object"]["text"]) == ("aclTensor", "[2, 16] FP16 ND")
    assert (finding["made"]["api"], finding["made"]["thread"], finding["made"]["stream"]) == (
        "aclCreateTensor",
        1,
        None,
    )
    assert [place.split("+")[0] for place in finding["made"]["where"][:2]] == [
        "reports: newTensor",
        "reports: destroyTwice",
    ]
    assert finding["broken"]["where"][0].startswith("reports: destroyTwice+0x")


def test_repeats_are_counted(run: Run, tmp_path: Path) -> None:
    done = run("repeated")
    assert [finding["count"] for finding in found(tmp_path)] == [5]
    assert done.stderr.count("double-destroy: ") == 1
    assert done.stderr.splitlines()[-1] == "cann_mla simulator: 1 finding: 5 double-destroy"


@pytest.mark.parametrize("binary", ["reports", "reports_O0"])
def test_callers_of_a_helper_are_told_apart(run: Run, tmp_path: Path, binary: str) -> None:
    run("twoCallers", binary=binary)
    callers = {finding["made"]["where"][1].split("+")[0]: finding["count"] for finding in found(tmp_path)}
    assert callers == {f"{binary}: leakOne": 100, f"{binary}: leakAnother": 100}


@pytest.mark.parametrize("binary", ["reports", "reports_O0"])
def test_frames_without_a_fixed_size(run: Run, tmp_path: Path, binary: str) -> None:
    run("variableFrames", binary=binary)
    findings = found(tmp_path)
    assert sum(finding["count"] for finding in findings) == 256
    for finding in findings:
        names = [place.split("+")[0] for place in finding["made"]["where"][:2]]
        assert names == [f"{binary}: newTensor", f"{binary}: leakWithRoom"]


def test_threads_have_numbers_and_stacks(run: Run, tmp_path: Path) -> None:
    run("manyThreads")
    (finding,) = found(tmp_path)
    assert (finding["rule"], finding["count"]) == ("leak", 2)
    assert finding["made"]["thread"] == 1, "the first thread that called"
    assert [place.split("+")[0] for place in finding["made"]["where"][1:3]] == [
        "reports: leakOne",
        "reports: leakInThread",
    ]


@pytest.mark.parametrize(("program", "status"), [("clean", 0), ("repeated", 99), ("ownStatus", 3), ("crash", -6)])
def test_exit_status(run: Run, program: str, status: int) -> None:
    assert run(program).returncode == status
    if status == 99:
        assert status == simulator.EXIT_STATUS
        assert run(program, CANN_MLA_SIM_STRICT="0").returncode == 0


def test_a_crash_leaves_a_report(run: Run, tmp_path: Path) -> None:
    run("crash")
    assert [finding["rule"] for finding in found(tmp_path)] == ["double-destroy"]


def test_leaks_are_told_at_finalise_and_at_the_end_once(run: Run, tmp_path: Path) -> None:
    run("finalised")
    findings = [
        (f["rule"], f["broken"]["api"], f["made"]["where"][1].split("+")[0], f["count"]) for f in found(tmp_path)
    ]
    assert findings == [
        ("leak", "aclFinalize", "reports: leakOne", 1),
        ("leak", "the end of the process", "reports: leakAnother", 1),
    ]


def test_an_address_that_leaks_again_is_told_again(run: Run, tmp_path: Path) -> None:
    run("finalisedTwice")
    assert [(f["made"]["api"], f["broken"]["api"], f["count"]) for f in found(tmp_path)] == [
        ("aclrtMallocHost", "aclFinalize", 3),
        ("aclrtMallocHost", "the end of the process", 1),
    ]


def test_the_first_failing_call_is_shown_with_what_comes_later(run: Run, tmp_path: Path) -> None:
    done = run("failedBefore")
    first, second = found(tmp_path)
    assert (first["rule"], first["first_failure"]) == ("thread-without-device", None)
    assert second["rule"] == "double-destroy"
    failure = second["first_failure"]
    assert (failure["api"], failure["status"]) == ("aclrtMalloc", 107002)
    assert "has no context" in failure["text"]
    assert "  failed first: aclrtMalloc returned 107002: " in done.stderr


def test_another_library_may_initialise_too(run: Run, programs: Path, tmp_path: Path) -> None:
    done = run("otherLibrary", str(programs / "libother.so"))
    assert (done.returncode, found(tmp_path)) == (0, []), done.stderr


def test_process_id_in_the_report_path(run: Run, tmp_path: Path) -> None:
    run("clean", CANN_MLA_SIM_REPORT=str(tmp_path / "report-%p.json"))
    (report,) = tmp_path.iterdir()
    assert report.stem.removeprefix("report-").isdecimal()
    assert json.loads(report.read_text()) == {"suppressed": 0, "findings": []}


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("double-destroy", 0),
        ("double-* # all of them", 0),
        ("double-destroy api=aclDestroyTensor where=*: destroyTwice*", 0),
        ("* api=aclCreateTensor", 0),
        ("double-destroy api=aclDestroyTensorList", 1),
        ("double-destroy where=*: leakOne*", 1),
        ("leak", 1),
        ("# double-destroy", 1),
    ],
)
def test_suppressions(run: Run, tmp_path: Path, line: str, left: int) -> None:
    (tmp_path / "known").write_text(f"\n{line}\n")
    done = run("repeated", CANN_MLA_SIM_SUPPRESSIONS=str(tmp_path / "known"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert (len(report["findings"]), report["suppressed"]) == ((1, 0) if left else (0, 5))
    assert done.returncode == (99 if left else 0)
    if not left:
        assert done.stderr == "cann_mla simulator: 0 findings; 5 suppressed\n"


def test_suppressions_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "known"
    done = run("repeated", CANN_MLA_SIM_SUPPRESSIONS=str(path))
    assert f"CANN_MLA_SIM_SUPPRESSIONS: cannot read {path}" in done.stderr
    done = run("repeated", CANN_MLA_SIM_SUPPRESSIONS=str(tmp_path))
    assert f"CANN_MLA_SIM_SUPPRESSIONS: cannot read {tmp_path}" in done.stderr
    path.write_text("leak\ndouble-destroy in=main\n")
    done = run("repeated", CANN_MLA_SIM_SUPPRESSIONS=str(path))
    assert f"{path}:2: 'in=main' is neither api=PATTERN nor where=PATTERN" in done.stderr
    assert done.returncode == 99

"""Strict mode from Python: whose lines findings name, watches, exit status, and the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cann_mla
from cann_mla import c, simulator
from cann_mla.binding import compiled
from cann_mla.cli import main

DIMS = c.new("int64_t[]", [2, 16])
HERE = Path(__file__).resolve()

PRELUDE = """
import cann_mla, gc, sys, threading
from cann_mla import c
dims = c.new("int64_t[]", [2, 16])
def make():
    return c.aclCreateTensor(dims, 2, c.ACL_FLOAT16, c.NULL, 0, c.ACL_FORMAT_ND, dims, 2, c.NULL)
""".lstrip()


def new_tensor() -> Any:
    return c.aclCreateTensor(DIMS, 2, c.ACL_FLOAT16, c.NULL, 0, c.ACL_FORMAT_ND, DIMS, 2, c.NULL)


@pytest.fixture(autouse=True, scope="module")
def _simulator() -> None:
    cann_mla.load("sim")


def run(tmp_path: Path, program: str, name: str = "user.py", **settings: str) -> tuple[Any, list[dict[str, Any]]]:
    """Run a program behind the prelude, whose lines are 1 to 5: the first line of the program is line 6."""
    file, report = tmp_path / name, tmp_path / "report.json"
    file.write_text(PRELUDE + program)
    strict = {"CANN_MLA_SIM_STRICT": "1", "CANN_MLA_SIM_REPORT": str(report), "CANN_MLA_BACKEND": "sim"}
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, **strict, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, json.loads(report.read_text())["findings"] if report.exists() else []


def lines(call: dict[str, Any]) -> list[str]:
    return [re.sub(r"^.*/", "", place) for place in call["where"]]


def test_lines_of_the_user_come_first(tmp_path: Path) -> None:
    program = """
def outer():
    tensor = make()
    c.aclDestroyTensor(tensor)
    c.aclDestroyTensor(tensor)
outer()
"""
    _, (finding,) = run(tmp_path, program)
    assert lines(finding["made"]) == ["user.py:5 in make", "user.py:8 in outer", "user.py:11 in <module>"]
    assert lines(finding["broken"]) == ["user.py:10 in outer", "user.py:11 in <module>"]
    assert "(" + str(tmp_path / "user.py:9 in outer") + ")" in finding["what"]


def test_frames_of_the_package_are_skipped(tmp_path: Path) -> None:
    program = """
def use():
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        tensor = cann_mla.Tensor.empty((2, 16), "float16")
        handle = tensor.handle
        tensor.close()
        c.aclDestroyTensor(handle)
use()
"""
    _, (finding,) = run(tmp_path, program)
    assert finding["rule"] == "double-destroy"
    assert lines(finding["made"]) == ["user.py:9 in use", "user.py:13 in <module>"]
    assert lines(finding["broken"]) == ["user.py:12 in use", "user.py:13 in <module>"]


def test_a_thread_has_lines_of_its_own(tmp_path: Path) -> None:
    program = """
def work():
    c.aclDestroyTensor(tensor)
tensor = make()
c.aclDestroyTensor(tensor)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    _, (finding,) = run(tmp_path, program)
    assert (finding["made"]["thread"], finding["broken"]["thread"]) == (1, 2)
    assert lines(finding["broken"]) == ["user.py:8 in work"]


def test_many_threads_at_once(tmp_path: Path) -> None:
    program = """
def work():
    for _ in range(300):
        c.aclDestroyTensor(make())
    make()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    _, (finding,) = run(tmp_path, program)
    assert (finding["rule"], finding["count"]) == ("leak", 8)
    assert lines(finding["made"]) == ["user.py:5 in make", "user.py:10 in work"]


def test_code_without_a_file_and_names_beyond_ascii(tmp_path: Path) -> None:
    program = """
exec(compile("def erzeuge_größe():\\n    return make()", "<made up>", "exec"))
erzeuge_größe()
"""
    _, (finding,) = run(tmp_path, program, name="prüfung.py")
    assert lines(finding["made"]) == [
        "prüfung.py:5 in make",
        "<made up>:2 in erzeuge_größe",
        "prüfung.py:8 in <module>",
    ]


def test_code_that_is_gone_keeps_its_lines(tmp_path: Path) -> None:
    program = """
for number in range(50):
    names = {"make": make}
    exec("\\n" * number + "make()", names)
    del names
    gc.collect()
"""
    _, findings = run(tmp_path, program)
    assert sorted(lines(f["made"])[1] for f in findings) == sorted(f"<string>:{n + 1} in <module>" for n in range(50))


def test_finalisers_and_collections_inside_of_calls(tmp_path: Path) -> None:
    """Garbage that ends handles is collected while the simulator looks for lines, or not at all then; nothing hangs."""
    program = """
gc.set_threshold(1)
class Owner:
    def __init__(self):
        self.itself, self.tensor = self, make()
    def __del__(self):
        c.aclDestroyTensor(self.tensor)
with cann_mla.Device(0):
    for _ in range(300):
        Owner()
    gc.collect()
"""
    done, findings = run(tmp_path, program)
    assert (done.returncode, findings) == (0, []), done.stderr


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("", 0),
        ("make()", 99),
        ("make(); sys.exit(0)", 99),
        ("make(); sys.exit(3)", 3),
        ("make(); raise RuntimeError", 1),
        ("import os; make(); os.fork() or os._exit(0); os.wait()", 99),
    ],
)
def test_exit_status(tmp_path: Path, program: str, status: int) -> None:
    done, findings = run(tmp_path, program)
    assert done.returncode == status, done.stderr
    assert [f["rule"] for f in findings] == (["leak"] if program else [])
    assert done.stderr.count("cann_mla simulator: leak") == len(findings)


def test_exit_status_without_strict_mode(tmp_path: Path) -> None:
    done, findings = run(tmp_path, "make()", CANN_MLA_SIM_STRICT="0")
    assert (done.returncode, done.stderr, findings) == (0, "", [])


def test_what_python_objects_hold_at_the_end_is_no_leak(tmp_path: Path) -> None:
    program = """
device = cann_mla.Device(0)
stream = cann_mla.Stream()
tensor = cann_mla.Tensor.empty((2, 16), "float16")
"""
    done, findings = run(tmp_path, program)
    assert (done.returncode, findings) == (0, [])


def test_a_fork_does_not_report(tmp_path: Path) -> None:
    program = """
import os
make()
if os.fork() == 0:
    sys.exit(0)
print(os.wait()[1])
"""
    done, findings = run(tmp_path, program)
    assert done.stdout == "0\n"
    assert [f["count"] for f in findings] == [1]


def test_a_watch_keeps_its_findings(capfd: pytest.CaptureFixture[str]) -> None:
    before = simulator.findings()
    with simulator.watch() as watch:
        tensor = new_tensor()
        c.aclDestroyTensor(tensor)
        assert watch.findings == []
        c.aclDestroyTensor(tensor)
        assert watch.rules == ["double-destroy"]
        with simulator.watch() as inner:
            c.aclDestroyTensor(tensor)
        assert inner.rules == ["double-destroy"]
    (finding,) = watch.findings
    assert finding.count == 1
    assert finding.object == simulator.FoundObject(
        "aclTensor", hex(int(c.cast("uintptr_t", tensor))), "[2, 16] FP16 ND"
    )
    assert finding.made is not None
    assert finding.made.where[0].startswith(f"{HERE}:")
    assert finding.made.where[0].endswith(" in new_tensor")
    assert str(finding) == finding.text
    assert finding.text.startswith("cann_mla simulator: double-destroy: ")
    assert simulator.findings() == before
    assert "double-destroy" not in capfd.readouterr().err


def test_strict_mode_can_be_switched() -> None:
    before = simulator.set_strict(True)
    try:
        assert simulator.set_strict(False) is True
        with simulator.watch():
            assert simulator.set_strict(True) is True
        assert simulator.set_strict(before) is False
    finally:
        simulator.set_strict(before)


def test_overlapping_watches_of_threads_leave_strict_mode_as_it_was() -> None:
    first, second = simulator.watch(), simulator.watch()
    before = simulator.set_strict(False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as when the thread that began first is done first
    assert simulator.set_strict(True), "the second goes on"
    second.__exit__(None, None, None)
    assert not simulator.set_strict(before)


def test_mistakes_without_number_are_told_once_each(tmp_path: Path) -> None:
    # As many places as lines; each is met twice.
    lines = "x = c.aclCreateIntArray(c.NULL, 0); c.aclDestroyIntArray(x); c.aclDestroyIntArray(x)\n" * 1200
    program = f"from cann_mla import c\nfor _ in range(2):\n {lines.replace(chr(10), chr(10) + ' ')}"
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = {**os.environ, "CANN_MLA_SIM_STRICT": "1"}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 99
    assert done.stderr.count("simulator: double-destroy:") == 1200
    assert done.stderr.endswith("cann_mla simulator: 1200 findings: 2400 double-destroy\n")


def test_leaks_of_a_watch() -> None:
    with simulator.watch(leaks=True) as watch:
        ended, left = new_tensor(), [new_tensor() for _ in range(3)]
        c.aclDestroyTensor(ended)
    assert [(f.rule, f.count) for f in watch.findings] == [("leak", 3)]
    assert watch.findings[0].broken is not None
    assert watch.findings[0].broken.api == "the end of the watch"
    with simulator.watch(leaks=True) as watch:
        for tensor in left:
            c.aclDestroyTensor(tensor)
    assert watch.findings == []


def test_clearing_forgets_findings_and_the_first_failure() -> None:
    with simulator.watch() as watch:
        tensor = new_tensor()
        c.aclDestroyTensor(tensor)
        assert c.aclDestroyTensor(tensor) == 161002
        assert c.aclDestroyTensor(tensor) == 161002
        assert watch.findings[-1].first_failure is not None
        simulator.clear_findings()
        assert watch.findings == []
        c.aclDestroyTensor(tensor)
        assert [f.first_failure for f in watch.findings] == [None]


def test_a_watch_has_a_first_failure_of_its_own() -> None:
    with simulator.watch():
        assert c.aclrtMalloc(c.NULL, 1, 0) == 100000
        with simulator.watch() as inner:
            tensor = new_tensor()
            c.aclDestroyTensor(tensor)
            c.aclDestroyTensor(tensor)
    assert [f.first_failure for f in inner.findings] == [None]


def test_questions_are_no_failures() -> None:
    """aclrtGetCurrentContext without a context, and a second aclInit."""
    with simulator.watch() as watch:
        simulator.clear_findings()
        tensor = new_tensor()
        import threading

        def ask() -> None:
            assert c.aclrtGetCurrentContext(c.new("aclrtContext *")) == 107002
            c.aclInit(c.NULL)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        c.aclDestroyTensor(tensor)
        c.aclDestroyTensor(tensor)
    assert [f.first_failure for f in watch.findings if f.rule == "double-destroy"] == [None]


def test_suppressions_from_python(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text(f"double-destroy where={HERE}:* in suppressed_here\n")

    def suppressed_here() -> None:
        tensor = new_tensor()
        c.aclDestroyTensor(tensor)
        c.aclDestroyTensor(tensor)

    simulator.load_suppressions(file)
    with simulator.watch() as watch:
        suppressed_here()
    assert watch.findings == []
    with pytest.raises(cann_mla.CannError, match="cannot read"):
        simulator.load_suppressions(tmp_path / "gone")


def test_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, report, known = tmp_path / "user.py", tmp_path / "report.json", tmp_path / "known"
    program.write_text(PRELUDE + "make()\n")
    known.write_text("leak api=aclCreateTensor\n")
    command = ["sim", "run", "--strict", "--report", str(report)]
    assert main([*command, "--", sys.executable, str(program)]) == 99
    assert [f["rule"] for f in json.loads(report.read_text())["findings"]] == ["leak"]
    assert "cann_mla simulator: 1 finding: 1 leak" in capfd.readouterr().err
    assert main([*command, "--suppressions", str(known), "--", sys.executable, str(program)]) == 0
    assert json.loads(report.read_text())["suppressed"] == 1
    assert main(["sim", "run", "--report", str(report), "--", sys.executable, str(program)]) == 2
    assert "--strict" in capfd.readouterr().err


# What Python 3.10 promises to keep, of the functions that the locator may want.
STABLE = {
    "PyArg_ParseTuple", "_PyArg_ParseTuple_SizeT", "PyBytes_AsString", "PyErr_Clear", "PyErr_Fetch",
    "PyErr_NoMemory", "PyErr_Restore", "PyErr_SetString", "PyEval_GetFrame", "PyExc_ImportError", "PyFrame_GetCode",
    "PyFrame_GetLineNumber", "PyGC_Disable", "PyGC_Enable", "PyGILState_Ensure", "PyGILState_GetThisThreadState",
    "PyGILState_Release", "PyLong_AsLong", "PyModule_Create2", "PyOS_snprintf", "PyObject_GetAttrString",
    "PyType_GetSlot", "PyUnicode_AsEncodedString", "Py_DecRef", "Py_IncRef", "_Py_Dealloc", "_Py_NoneStruct",
}  # fmt: skip


def test_the_locator_keeps_to_the_limited_api() -> None:
    locator = compiled("_locator").__file__
    assert locator is not None
    done = subprocess.run(["nm", "-D", "--undefined-only", locator], capture_output=True, text=True, check=True)
    wanted = {line.split()[-1] for line in done.stdout.splitlines() if re.match(r"_?Py", line.split()[-1])}
    assert wanted - STABLE == set()
    assert "PyFrame_GetCode" in wanted

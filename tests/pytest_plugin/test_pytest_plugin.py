"""The plugin in a project of a user: strict mode fails a test that breaks a rule, and shows the user's own line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str]]

CLEAN = """
import numpy as np
import cann_mla

def test_clean(cann_stream):
    x = cann_mla.Tensor.from_numpy(np.ones(4, np.float32))
    cann_stream.synchronize()
    assert x.to_numpy().sum() == 4
"""

DOUBLE = """
from cann_mla import c

def test_double(cann_device):
    tensor = c.aclCreateScalar(c.new("float *", 1.0), c.ACL_FLOAT)
    c.aclDestroyScalar(tensor)
    c.aclDestroyScalar(tensor)  # the second time
"""

MARKED = f"""
import pytest

@pytest.mark.cann_finds("double-destroy")
{DOUBLE.strip().partition("def ")[1]}{DOUBLE.strip().partition("def ")[2]}
""".replace("import pytest\n", "import pytest\nfrom cann_mla import c\n")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest on a file of tests in a process of its own; returns its status and what it printed."""

    def start(tests: str, *options: str, configuration: str = "") -> tuple[int, str]:
        (tmp_path / "test_user.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{configuration}\n")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "PYTEST", "CANN_MLA_SIM_STRICT"))}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=tmp_path, env={**clean, "CANN_MLA_BACKEND": "sim"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return start


def test_without_the_option_nothing_changes(run: Run) -> None:
    status, text = run(DOUBLE)
    assert status == 0, text


def test_a_clean_test_passes(run: Run) -> None:
    status, text = run(CLEAN, "--cann-strict")
    assert status == 0, text


@pytest.mark.parametrize(("options", "configuration"), [(["--cann-strict"], ""), ([], "cann_strict = true")])
def test_a_broken_rule_fails_the_test_and_is_shown(run: Run, options: list[str], configuration: str) -> None:
    status, text = run(DOUBLE, *options, configuration=configuration)
    assert status == 1, text
    assert "1 failed" in text
    assert "aclScalar" in text
    made = next(n for n, line in enumerate(DOUBLE.splitlines(), 1) if "aclCreateScalar" in line)
    assert f"test_user.py:{made} in test_double" in text
    assert f"test_user.py:{made + 2} in test_double" in text


def test_a_test_may_break_a_rule_on_purpose(run: Run) -> None:
    status, text = run(MARKED, "--cann-strict", "--strict-markers")
    assert status == 0, text


def test_a_rule_that_was_to_be_broken_and_was_not(run: Run) -> None:
    marked = CLEAN.replace("def test", "import pytest\n@pytest.mark.cann_finds('double-destroy')\ndef test")
    status, text = run(marked, "--cann-strict")
    assert status == 1, text
    assert "was to break double-destroy and did not" in text


def test_suppressed_findings_are_looked_over(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("double-destroy api=aclDestroyScalar  # in the library we use\n")
    status, text = run(DOUBLE, "--cann-strict", "--cann-suppressions", str(file))
    assert status == 0, text
    status, text = run(DOUBLE, "--cann-strict", configuration="cann_suppressions = known.txt")
    assert status == 0, text


def test_a_file_of_suppressions_that_is_not_there(run: Run) -> None:
    status, text = run(CLEAN, "--cann-strict", "--cann-suppressions", "nowhere.txt")
    assert status == 4, text
    assert "nowhere.txt" in text


def test_what_a_test_leaves_behind(run: Run) -> None:
    status, text = run("""
from cann_mla import c

def test_kept(cann_stream, cann_no_leaks):
    c.aclDestroyScalar(c.aclCreateScalar(c.new("float *", 1.0), c.ACL_FLOAT))

def test_left(cann_stream, cann_no_leaks):
    c.aclCreateScalar(c.new("float *", 1.0), c.ACL_FLOAT)
""")
    assert status == 1, text
    assert "test_left" in text
    assert "leak" in text
    assert "1 error" in text  # at the test's teardown; nothing else is wrong
    assert "2 passed" in text


def test_the_product_is_set_back(run: Run) -> None:
    status, text = run("""
import cann_mla

def test_other(cann_product, cann_device):
    cann_product("Ascend950")
    assert cann_mla.load().product == "Ascend950"

def test_usual(cann_device):
    assert cann_mla.load().product == "Ascend910B"
""")
    assert status == 0, text

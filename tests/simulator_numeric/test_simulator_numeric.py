"""The C++ numeric layer: a test program compiled with its sources, and how it finds its BLAS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import scipy_openblas32

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parents[1] / "cann_mla/simulator"
BLAS = Path(scipy_openblas32.__file__).parent / "lib"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("numeric") / "numeric"
    sources = [HERE / "numeric.cpp", *sorted((SIMULATOR / "numeric").glob("*.cpp"))]
    command = ["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{SIMULATOR}"]
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    done = subprocess.run([*command, *extra, *map(str, sources), "-o", str(target), "-ldl", "-pthread"])
    assert done.returncode == 0
    return target


def run(program: Path, blas: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CANN_MLA_SIM_BLAS": blas}
    return subprocess.run([program], env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_formats_products_and_loops(program: Path) -> None:
    done = run(program, str(BLAS))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def test_a_missing_blas_is_named(program: Path, tmp_path: Path) -> None:
    done = run(program, str(tmp_path / "libnone.so"))
    assert done.returncode != 0
    assert str(tmp_path / "libnone.so") in done.stderr
    assert "Install scipy-openblas32" in done.stderr

"""A device of the simulator; and what an Ascend host would have installed, built for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cann_mla import simulator

SOURCES = Path(__file__).parent / "custom_package"
SIMULATOR_SOURCES = Path(__file__).parents[2] / "cann_mla/simulator"


def _compile_library(target: Path, source: Path, *flags: str) -> None:
    compiler = os.environ.get("CXX", "c++") if source.suffix == ".cpp" else os.environ.get("CC", "cc")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", *simulator.compile_flags(), *flags]
    subprocess.run([*command, str(source), "-o", str(target), *simulator.link_flags()], check=True)


@pytest.fixture(scope="session")
def custom_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of aclnnScaleShift, built: its folder, as ``ASCEND_CUSTOM_OPP_PATH`` names it."""
    folder = tmp_path_factory.mktemp("vendor")
    include = folder / "op_api/include"
    include.mkdir(parents=True)
    shutil.copy(SOURCES / "aclnn_scale_shift.h", include)
    flags = ["-std=c++17", f"-I{include}", f"-I{SIMULATOR_SOURCES}"]
    _compile_library(folder / "op_api/lib/libcust_opapi.so", SOURCES / "scale_shift.cpp", *flags)
    return folder


def _installation(
    home: Path, *, version: str | None = None, family: str = "libopapi.so", header: str | None = None
) -> Path:
    """A tree in the shape of CANN whose libraries are the simulator's, under CANN's names."""
    libraries = home / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libascendcl.so", "libnnopbase.so", family, "libcann_mla_sim.so"):
        (libraries / name).symlink_to(simulator.library_dir() / name)
    if version is not None:
        (home / "version.cfg").write_text(f"# version: 1.0\nruntime_running_version=[7.7.0.1.238:{version}]\n")
    if header is not None:
        include = home / "include/aclnnop"
        include.mkdir(parents=True)
        (include / "aclnn_mla_prolog_v3_weight_nz.h").write_text(header)
    return home


def _run_python(program: str, **environment: str) -> str:
    """Run a program in a process of its own, because a process has one library."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "CANN_MLA_BACKEND", "ATB_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**clean, **environment},
        cwd=tempfile.gettempdir(),  # the package is the installed one, not the checkout
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def compile_library() -> Callable[..., None]:
    """Compiles a shared library that is linked with the simulator."""
    return _compile_library


@pytest.fixture
def installation() -> Callable[..., Path]:
    """Makes a tree that looks like CANN."""
    return _installation


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Runs a program in a process of its own."""
    return _run_python

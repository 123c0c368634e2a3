"""Compiles the programs of this folder against the headers and the simulator, once, and runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cann_mla import simulator

HERE = Path(__file__).resolve().parent
CORE_SOURCES = HERE.parent.parent / "cann_mla" / "simulator"  # some programs test the C++ interface of operators
SETTINGS = tuple(f"CANN_MLA_SIM_{name}" for name in ("SOC", "DEVICES", "MEMORY", "STRICT", "FAULTS"))


def compile_command(source: Path, target: Path) -> list[str]:
    """Compiler call; ``CANN_MLA_TEST_CXXFLAGS`` adds flags such as -fsanitize=thread for a sanitised library.

    C programs are linked with CANN's library names, C++ programs with the simulator's own.
    """
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    common = ["-Wall", "-Wextra", "-Werror", *extra, *simulator.compile_flags(), str(source), "-o", str(target)]
    if source.suffix == ".c":
        thin = [f"-L{simulator.library_dir()}", "-lascendcl", "-lnnopbase", "-lopapi"]
        return ["gcc", "-std=c11", *common, *thin]
    return ["g++", "-std=c++17", "-pthread", f"-I{CORE_SOURCES}", *common, *simulator.link_flags()]


@pytest.fixture(scope="session")
def run_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """``run_program(name, *arguments, **settings)``: the finished program; settings are environment variables."""
    folder = tmp_path_factory.mktemp("abi")
    sources = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.c")])

    def build(source: Path) -> subprocess.CompletedProcess[str]:
        command = compile_command(source, folder / source.stem)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        builds = {source.stem: pool.submit(build, source) for source in sources}

        def run(name: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
            done = builds[name].result()
            assert done.returncode == 0, done.stderr
            environment = {key: value for key, value in os.environ.items() if key not in SETTINGS} | settings
            command = [str(folder / name), *arguments]
            return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)

        yield run

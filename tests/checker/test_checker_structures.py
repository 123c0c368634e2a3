"""The checker's own data structures, by a program that compares them with sets of bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parents[1] / "cann_mla/simulator"
SOURCES = [f"checker/{name}.cpp" for name in ("accesses", "clocks", "footprint", "written")] + ["core/tensor.cpp"]


def test_footprints_clocks_histories_and_written_bytes(tmp_path: Path) -> None:
    target = tmp_path / "structures"
    includes = [f"-I{SIMULATOR}", f"-I{HERE.parents[1] / 'headers'}"]
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    sources = [str(HERE / "structures.cpp"), *(str(SIMULATOR / source) for source in SOURCES)]
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        *includes,
        *extra,
        *sources,
        "-o",
        str(target),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(target)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout

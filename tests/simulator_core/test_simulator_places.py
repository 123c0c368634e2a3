"""Where the Python face says that things are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cann_mla import simulator


def test_library_path_follows_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.touch()
    monkeypatch.setenv("CANN_MLA_SIM_LIBRARY", str(library))
    assert simulator.library_path() == library
    assert simulator.library_dir() == tmp_path
    as_needed = ["-Wl,--push-state,--as-needed", "-lcann_mla_sim_atb", "-lcann_mla_sim_hccl", "-Wl,--pop-state"]
    assert simulator.link_flags() == [f"-L{tmp_path}", *as_needed, "-lcann_mla_sim", f"-Wl,-rpath,{tmp_path}"]


def test_missing_library_names_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANN_MLA_SIM_LIBRARY", str(tmp_path / "gone.so"))
    with pytest.raises(FileNotFoundError, match=r"gone\.so.*CANN_MLA_SIM_LIBRARY"):
        simulator.library_path()


def test_environment_puts_the_library_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.touch()
    monkeypatch.setenv("CANN_MLA_SIM_LIBRARY", str(library))
    assert simulator.environment({"CANN_MLA_SIM_BLAS": "x"}) == {
        "LD_LIBRARY_PATH": str(tmp_path),
        "CANN_MLA_SIM_BLAS": "x",
    }
    assert (Path(simulator.environment({})["CANN_MLA_SIM_BLAS"]) / "libscipy_openblas.so").is_file()
    given = {"LD_LIBRARY_PATH": "/old", "A": "b", "CANN_MLA_SIM_BLAS": "x"}
    assert simulator.environment(given) == {**given, "LD_LIBRARY_PATH": f"{tmp_path}:/old"}
    assert given["LD_LIBRARY_PATH"] == "/old"


def test_headers_are_where_it_says() -> None:
    folder = simulator.include_dir()
    assert [(folder / name).is_dir() for name in ("acl", "aclnn", "aclnnop", "sim")] == [True] * 4
    assert simulator.compile_flags() == [f"-I{folder}"]


def test_import_is_light() -> None:
    program = "import sys, cann_mla.simulator; print([m for m in ('numpy', 'cffi', 'ctypes') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"

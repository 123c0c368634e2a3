"""Installations, variables and files that are broken: each ends in a message that says what is wrong with which."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cann_mla import simulator
from cann_mla.discovery import Search
from cann_mla.headers.elf import missing_bytes
from cann_mla.libraries import open_library
from cann_mla.shared_object import SharedObject


def loop(folder: Path) -> str:
    (folder / "loop").symlink_to("loop")
    return str(folder / "loop")


@pytest.mark.parametrize(
    "home", [loop, lambda folder: "a" * 5000, lambda folder: "/dev/null", lambda folder: os.fsdecode(b"/\xff\xfe")]
)
def test_a_home_that_is_no_folder_is_reported(home: Callable[[Path], str], tmp_path: Path) -> None:
    named = home(tmp_path)
    search = Search({"ASCEND_HOME_PATH": named, "ASCEND_CUSTOM_OPP_PATH": named})
    search.installations()
    assert [a.outcome for a in search.attempts if a.place == f"{named} (ASCEND_HOME_PATH)"] == ["no such folder"]
    assert search.custom_packages() == []


def test_binary_text_files_are_no_version_and_no_packages(installation: Callable[..., Path], tmp_path: Path) -> None:
    home = installation(tmp_path / "cann")
    (home / "version.cfg").write_bytes(bytes(range(128, 256)))
    vendors = home / "opp/vendors"
    vendors.mkdir(parents=True)
    (vendors / "config.ini").write_bytes(b"\xff\xfeload_priority\x00" + bytes(range(128, 256)))
    (found,) = Search({}, home).installations()
    assert found.version is None
    assert found.custom == ()


def test_a_version_that_is_none_is_told_and_not_used(installation: Callable[..., Path], tmp_path: Path) -> None:
    search = Search({}, installation(tmp_path / "cann", version="garbage"))
    (found,) = search.installations()
    assert found.version is None
    assert any("of unknown version: 'garbage' is no CANN release" in a.outcome for a in search.attempts)


def test_a_library_that_is_cut_off_is_refused_instead_of_crashing(tmp_path: Path) -> None:
    whole = (simulator.library_dir() / "libcann_mla_sim.so").resolve()
    content = whole.read_bytes()
    assert missing_bytes(whole) == 0
    for length in (0, 10, 63, 64, 200, 4096, len(content) // 2):
        short = tmp_path / f"lib{length}.so"
        short.write_bytes(content[:length])
        library = SharedObject(short)
        assert not library.open()
        assert str(short) in str(library.refusal)
    assert "the file is cut off" in str(library.refusal)


def test_a_wrong_simulator_library_names_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_text("no ELF")
    monkeypatch.setenv("CANN_MLA_SIM_LIBRARY", str(tmp_path / "lib.so"))
    with pytest.raises(RuntimeError, match=r"refused: .*\nCANN_MLA_SIM_LIBRARY names that file"):
        open_library("sim")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SOC", "foo", "CANN_MLA_SIM_SOC=foo is ignored: give Ascend910B, Ascend910_93 or Ascend950"),
        ("DEVICES", "0", "CANN_MLA_SIM_DEVICES=0 is ignored: give a whole number from 1 to 16"),
        ("DEVICES", "9" * 30, "is ignored"),
        ("MEMORY", "1e3", "CANN_MLA_SIM_MEMORY=1e3 is ignored"),
        ("MEMORY", "-5", "CANN_MLA_SIM_MEMORY=-5 is ignored"),
        ("MEMORY", "99999999999G", "is ignored"),
        ("STRICT", "maybe", "CANN_MLA_SIM_STRICT=maybe is taken as 1: give 0 or 1"),
    ],
)
def test_settings_that_mean_nothing_are_told(variable: str, value: str, words: str) -> None:
    program = "import cann_mla as m; m.load('sim'); d = m.Device(0); m.DeviceMemory(8); m.load().soc"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, f"CANN_MLA_SIM_{variable}": value},
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert words in done.stderr


OUT_OF_MEMORY = """
import numpy as np
import cann_mla
cann_mla.load("sim")
device, stream = cann_mla.Device(0), cann_mla.Stream()
for make in (lambda: cann_mla.DeviceMemory(1 << 27), lambda: cann_mla.Tensor.zeros((1 << 13, 1 << 13), "FP32")):
    try:
        make()
    except cann_mla.CannError as error:
        print(error.status_name, "67108864 bytes of 67108864 bytes free" in error.text)
kept = [cann_mla.DeviceMemory(1 << 25)]
for _ in range(20):  # each waits for the one before, which the stream still fills
    memory = cann_mla.DeviceMemory(1 << 24)
    memory.fill(7, stream=stream)
    memory.close()
memory = cann_mla.DeviceMemory(1 << 24)
memory.fill(9)
content = np.zeros(1 << 24, np.uint8)
memory.read(content)
print(int(content.min()), int(content.max()))
"""


def test_a_device_out_of_memory_says_so_and_lives_on(run_python: Callable[..., str]) -> None:
    printed = run_python(OUT_OF_MEMORY, CANN_MLA_SIM_MEMORY="64M").splitlines()
    assert printed == ["ACL_ERROR_RT_MEMORY_ALLOCATION True", "ACL_ERROR_RT_MEMORY_ALLOCATION True", "9 9"]

"""C and C++ programs against the headers and the simulator: each ends with 0 and prints nothing, or says what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from cann_mla import simulator

HERE = Path(__file__).resolve().parent
CORE_SOURCES = HERE.parent.parent / "cann_mla" / "simulator"  # some programs test the C++ interface of operators

# Program -> environment it runs with, beside the default settings.
PROGRAMS = {
    "runtime": {},
    "memory": {"CANN_MLA_SIM_MEMORY": "64M"},
    "streams": {},
    "meta": {},
    "executor": {},
    "faults": {},
    "views": {},
    "threads": {},
    "misuse": {},
}
SETTINGS = ("CANN_MLA_SIM_SOC", "CANN_MLA_SIM_DEVICES", "CANN_MLA_SIM_MEMORY", "CANN_MLA_SIM_STRICT")
Builds: TypeAlias = "dict[str, Future[subprocess.CompletedProcess[str]]]"
THIN_LIBRARIES = ["-lascendcl", "-lnnopbase", "-lopapi"]


def default_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}


def compile_command(source: Path, target: Path, link: list[str]) -> list[str]:
    """Compiler call; ``CANN_MLA_TEST_CXXFLAGS`` adds flags such as -fsanitize=thread for a sanitised library."""
    language = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++", "-std=c++17", "-pthread"]
    extra = os.environ.get("CANN_MLA_TEST_CXXFLAGS", "").split()
    flags = [*simulator.compile_flags(), f"-I{CORE_SOURCES}"]
    return [*language, "-Wall", "-Wextra", "-Werror", *extra, *flags, str(source), "-o", str(target), *link]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """Start compiling every program of the folder; a test waits for its own."""
    folder = tmp_path_factory.mktemp("abi")
    pool = ThreadPoolExecutor(os.cpu_count())

    def build(source: Path) -> subprocess.CompletedProcess[str]:
        thin = [f"-L{simulator.library_dir()}", *THIN_LIBRARIES, f"-Wl,-rpath-link,{simulator.library_dir()}"]
        link = [*thin, "-lcann_mla_sim"] if source.suffix == ".c" else simulator.link_flags()
        command = compile_command(source, folder / source.stem, link)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    sources = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.c")])
    return {source.stem: pool.submit(build, source) for source in sources}


def run(builds: Builds, name: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    build = builds[name].result()
    assert build.returncode == 0, build.stderr
    program = build.args[build.args.index("-o") + 1]
    return subprocess.run(
        [program], capture_output=True, text=True, timeout=120, check=False, env=default_settings() | settings
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_finds_nothing_wrong(builds: Builds, name: str) -> None:
    result = run(builds, name, PROGRAMS[name])
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_program_is_run(builds: Builds) -> None:
    assert set(builds) == {*PROGRAMS, "dereference", "thin_libraries"}


def test_device_address_faults_on_the_host(
    builds: Builds,
) -> None:
    # A sanitizer's own signal handler would turn the signal into an exit code.
    settings = {"ASAN_OPTIONS": "handle_segv=0", "TSAN_OPTIONS": "handle_segv=0"}
    result = run(builds, "dereference", settings)
    assert (result.returncode, result.stdout) == (-signal.SIGSEGV, "about to read\n")


@pytest.mark.parametrize(
    ("product", "chip"),
    [("Ascend910B", "Ascend910B1"), ("Ascend910_93", "Ascend910_9382"), ("Ascend950", "Ascend950PR_9589")],
)
def test_cann_library_names_serve_a_c_program(builds: Builds, product: str, chip: str) -> None:
    paths = {"LD_LIBRARY_PATH": simulator.environment()["LD_LIBRARY_PATH"]}
    result = run(builds, "thin_libraries", paths | {"CANN_MLA_SIM_SOC": product})
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{chip} {product}\n", "")


def test_unknown_setting_is_named_and_ignored(
    builds: Builds,
) -> None:
    paths = {"LD_LIBRARY_PATH": simulator.environment()["LD_LIBRARY_PATH"]}
    bad = {"CANN_MLA_SIM_SOC": "Ascend310", "CANN_MLA_SIM_DEVICES": "0", "CANN_MLA_SIM_MEMORY": "much"}
    result = run(builds, "thin_libraries", paths | bad)
    assert (result.returncode, result.stdout) == (0, "Ascend910B1 Ascend910B\n")
    for name, value in bad.items():
        assert f"{name}={value} is ignored" in result.stderr

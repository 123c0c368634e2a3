"""C and C++ programs against headers and simulator: each ends with 0 and prints nothing, or says what is wrong."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest

from cann_mla import simulator

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    "name",
    ["runtime", "memory", "streams", "meta", "executor", "faults", "views", "threads", "misuse", "opdev", "hccl"],
)
def test_program_finds_nothing_wrong(run_program: Run, name: str) -> None:
    result = run_program(name, CANN_MLA_SIM_MEMORY="64M")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_device_address_faults_on_the_host(run_program: Run) -> None:
    # A sanitizer's own signal handler would turn the signal into an exit code.
    result = run_program("dereference", ASAN_OPTIONS="handle_segv=0", TSAN_OPTIONS="handle_segv=0")
    assert (result.returncode, result.stdout) == (-signal.SIGSEGV, "about to read\n")


@pytest.mark.parametrize(
    ("product", "chip"),
    [("Ascend910B", "Ascend910B1"), ("Ascend910_93", "Ascend910_9382"), ("Ascend950", "Ascend950PR_9589")],
)
def test_cann_library_names_serve_a_c_program(run_program: Run, product: str, chip: str) -> None:
    paths = simulator.environment()["LD_LIBRARY_PATH"]
    result = run_program("thin_libraries", LD_LIBRARY_PATH=paths, CANN_MLA_SIM_SOC=product)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{chip} {product}\n", "")


def test_unknown_setting_is_named_and_ignored(run_program: Run) -> None:
    paths = simulator.environment()["LD_LIBRARY_PATH"]
    bad = {"CANN_MLA_SIM_SOC": "Ascend310", "CANN_MLA_SIM_DEVICES": "0", "CANN_MLA_SIM_MEMORY": "much"}
    result = run_program("thin_libraries", LD_LIBRARY_PATH=paths, **bad)
    assert (result.returncode, result.stdout) == (0, "Ascend910B1 Ascend910B\n")
    for name, value in bad.items():
        assert f"{name}={value} is ignored" in result.stderr


def test_process_that_ends_early_lets_the_running_kernel_end(run_program: Run) -> None:
    result = run_program("exit_while_busy")
    assert (result.returncode, result.stdout, result.stderr) == (7, "one host function ran\n", "")

"""The language of fault injection: what strikes when, what is refused, and how the environment asks for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import cann_mla
from cann_mla import c, simulator
from cann_mla.cli import main


def malloc(size: int = 64) -> int:
    """Status of one aclrtMalloc, whose memory is given back."""
    pointer = c.new("void **")
    status = c.aclrtMalloc(pointer, size, c.ACL_MEM_MALLOC_HUGE_FIRST)
    if status == 0:
        assert c.aclrtFree(pointer[0]) == 0
    return int(status)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("", [207001, 207001, 207001, 207001, 207001]),
        ("#3", [0, 0, 207001, 0, 0]),
        ("#3+", [0, 0, 207001, 207001, 207001]),
        ("#2-3", [0, 207001, 207001, 0, 0]),
    ],
)
def test_which_calls_are_struck(device: cann_mla.Device, which: str, expected: list[int]) -> None:
    with simulator.inject(f"aclrtMalloc{which} = 207001"):
        assert [malloc() for _ in range(5)] == expected
    assert malloc() == 0


def test_strikes_are_told_with_the_text_of_the_fault(device: cann_mla.Device) -> None:
    with simulator.inject("aclrtMalloc#2=207001; aclrtFree#1=507899") as faults:
        pointer = c.new("void **")
        assert c.aclrtMalloc(pointer, 64, 0) == 0
        assert c.aclrtFree(pointer[0]) == 507899
        assert c.string(c.aclGetRecentErrMsg()) == "aclrtFree: injected fault 'aclrtFree#1=507899', call 1"
        assert c.aclrtFree(pointer[0]) == 0
        assert malloc() == 207001
    assert faults.strikes == ["aclrtFree, call 1: 507899", "aclrtMalloc, call 2: 207001"]
    assert faults.count == 2


def test_a_star_counts_everything_that_it_matches(device: cann_mla.Device) -> None:
    with simulator.inject("aclCreate*Array#2=100000") as faults:
        first = c.aclCreateIntArray(c.new("int64_t[]", [1]), 1)
        second = c.aclCreateFloatArray(c.new("float[]", [1]), 1)
        third = c.aclCreateBoolArray(c.new("bool[]", [True]), 1)
    assert second == c.NULL
    assert c.aclDestroyIntArray(first) == c.aclDestroyBoolArray(third) == 0
    assert faults.strikes == ["aclCreateFloatArray, call 2: 100000"]


def test_sets_of_faults_count_apart(device: cann_mla.Device) -> None:
    with simulator.inject("aclrtMalloc#3=1"):
        assert malloc() == 0
        with simulator.inject("aclrtMalloc#1=2"):
            assert [malloc(), malloc(), malloc()] == [2, 1, 0]


def test_calls_within_calls_do_not_count(device: cann_mla.Device) -> None:
    """aclrtFreeWithDevSync synchronises the device by calling another function."""
    pointer = c.new("void **")
    assert c.aclrtMalloc(pointer, 64, 0) == 0
    with simulator.inject("aclrtSynchronizeDevice=507000") as faults:
        assert c.aclrtFreeWithDevSync(pointer[0]) == 0
    assert faults.count == 0


def test_memory_is_short_at_the_size_asked_for(device: cann_mla.Device) -> None:
    used = cann_mla.load().cannMlaSimDeviceBytes(0)
    with simulator.inject(f"memory={used + 4096}"):
        assert malloc(2048) == 0
        assert device.memory() == (4096, used + 4096)
        assert malloc(8192) == 207001
        text = c.string(c.aclGetRecentErrMsg())
        assert "an injected fault sets the total" in text
        assert "4096 bytes of" in text
    assert malloc(8192) == 0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "there is no fault"),
        ("aclrtMalloc", "give FUNCTION[#N]=STATUS"),
        ("aclrtMallok=1", "the simulator has no function aclrtMallok"),
        ("aclrtMalloc=0", "'0' is no status"),
        ("aclrtMalloc=lots", "'lots' is no status"),
        ("aclrtMalloc=hang", "'hang' is no status"),  # only kernels hang
        ("aclrtMalloc=4294967296", "is no status"),
        ("aclrtMalloc#0=1", "'#0' is no count"),
        ("aclrtMalloc#5-3=1", "'#5-3' is no count"),
        ("aclrtMalloc#=1", "'#' is no count"),
        ("=1", "there is no name"),
        ("aclrt Malloc=1", "'aclrt Malloc' is no name"),
        ("memory=many", "memory is bytes of each device"),
        ("numeric:rounding", "there are mask_past_512, uniform_without_mask"),
        ("numeric:mask_past_512@attenMask", "behind @ stands the name of an operator"),
        ("aclrtMalloc#1=1; kernel:aclnnNothing=1", "the simulator has no function aclnnNothing"),
    ],
)
def test_bad_text_is_refused_and_changes_nothing(device: cann_mla.Device, text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)), simulator.inject(text):
        pass
    assert malloc() == 0


def test_inject_is_withdrawn_when_the_block_raises(device: cann_mla.Device) -> None:
    with pytest.raises(ZeroDivisionError), simulator.inject("aclrtMalloc=207001"):
        raise ZeroDivisionError
    assert malloc() == 0


OUTSIDE = tempfile.gettempdir()  # where the package is the installed one, not the checkout
PROGRAM = """
from cann_mla import c
c.aclInit(c.NULL)
print(c.aclrtSetDevice(0))
pointer = c.new("void **")
print([c.aclrtMalloc(pointer, 64, 0) for _ in range(3)])
"""


def run_program(**settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CANN_MLA_BACKEND": "sim", **settings}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=OUTSIDE)


def test_environment_asks_for_faults() -> None:
    done = run_program(CANN_MLA_SIM_FAULTS="aclrtMalloc#2=207001;aclrtSetDevice=507033")
    assert done.stdout == "507033\n[107002, 207001, 107002]\n"


def test_command_line_asks_for_faults(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OUTSIDE)
    assert main(["sim", "run", "--faults", "aclrtMalloc#2+=207001", "--", sys.executable, "-c", PROGRAM]) == 0
    assert capfd.readouterr().out == "0\n[0, 207001, 207001]\n"


def test_bad_text_in_the_environment_is_named_and_ignored() -> None:
    done = run_program(CANN_MLA_SIM_FAULTS="aclrtMalloc#2=207001;aclrtSetDevice")
    assert done.stdout == "0\n[0, 0, 0]\n"
    assert "CANN_MLA_SIM_FAULTS is ignored, all of it: 'aclrtSetDevice': give FUNCTION" in done.stderr


def test_faults_of_one_thread_strike_another(device: cann_mla.Device) -> None:
    from threading import Thread

    statuses: list[int] = []

    def work() -> None:
        device.use()
        statuses.extend(malloc() for _ in range(50))

    with simulator.inject("aclrtMalloc#31-40=207001") as faults:
        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert np.count_nonzero(statuses) == faults.count == 10


def test_functions_of_atb_and_hccl_fail_with_codes_of_their_own(device: cann_mla.Device) -> None:
    from cann_mla.atb import AtbContext

    with (
        simulator.inject("atb::CreateContext=27"),
        pytest.raises(cann_mla.CannError, match=r"AtbCreateContext .* returned 27 \(ATB_ERROR_OUT_OF_HOST_MEMORY\)"),
    ):
        AtbContext()
    with simulator.inject("HcclGetRootInfo=15; AtbRingMLA#1=4") as faults:
        assert c.HcclGetRootInfo(c.NULL) == c.HCCL_E_RUNTIME
        assert c.AtbRingMLA(c.NULL, 0, c.NULL, c.NULL) == 4
        assert c.AtbRingMLA(c.NULL, 0, c.NULL, c.NULL) != 4  # there is no operation
    assert faults.strikes == ["HcclGetRootInfo, call 1: 15", "AtbRingMLA, call 1: 4"]


def test_command_line_refuses_what_is_no_fault(capfd: pytest.CaptureFixture[str]) -> None:
    """The program would run without faults, and pass."""
    assert main(["sim", "run", "--faults", "aclrtMaloc#1=207001", "--", sys.executable, "-c", "print('ran')"]) != 0
    told = capfd.readouterr()
    assert "aclrtMaloc" in told.err
    assert "ran" not in told.out

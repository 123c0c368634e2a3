"""Every C call that the package makes fails once, in typical programs: the right exception, no leak, and it goes on."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator

import pytest
from fault_programs import ALLOCATING, PROGRAMS, QUEUEING, Program

import cann_mla
from cann_mla import c, simulator

STATUS = 500000
KINDS = {name.removeprefix("CANN_MLA_SIM_"): getattr(c, name) for name in dir(c) if name.startswith("CANN_MLA_SIM_")}
# Calls that give something back, or take something over: when one fails, C keeps that one thing, and nobody can change
# it. A phase two that fails has used its executor up, on CANN; an injected one has not.
KEEPING = re.compile(r"(acl|aclrt)(Destroy|Free)|atb::Destroy|aclnn(?!.*GetWorkspaceSize)")


def living() -> dict[str, int]:
    """Everything that the simulator still holds for the program."""
    gc.collect()
    library = cann_mla.load()
    held = {name: library.cannMlaSimLiveHandles(kind) for name, kind in KINDS.items()}
    for number in (0, 1):
        held[f"bytes of device {number}"] = library.cannMlaSimDeviceBytes(number)
    held["pinned bytes"] = library.cannMlaSimHostBytes()
    return {name: count for name, count in held.items() if count}


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException | None]]:
    """What destructors had to say, which nobody can catch; in a heap where collecting garbage is quick."""
    cann_mla.load("sim")
    said: list[BaseException | None] = []

    def hear(what: sys.UnraisableHookArgs) -> None:
        drop_frames(what.exc_value)
        said.append(what.exc_value)

    monkeypatch.setattr(sys, "unraisablehook", hear)
    gc.collect()
    gc.freeze()
    yield said
    gc.unfreeze()


def drop_frames(error: BaseException | None) -> None:
    """Let go of the variables of the calls that the error came through."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


def give_back(contexts: int) -> None:
    """Reset the device that the package could not, while there are more contexts; others may work with device 0."""
    for number in (1, 0):
        if living().get("CONTEXT", 0) > contexts:
            c.aclrtResetDevice(number)


def fail_each_call(program: Program) -> Iterator[tuple[str, BaseException | None, dict[str, int]]]:
    """Runs the program until no call is left to fail: which one failed, what was raised, and what is left over."""
    before = living()
    for number in range(1, 2000):
        error: BaseException | None = None
        with simulator.inject(f"*#{number}={STATUS}") as faults:
            try:
                program()
            except Exception as raised:
                error = raised
                drop_frames(error)
        if not faults.count:
            return
        if faults.strikes[0].startswith("aclrtResetDevice"):
            give_back(before.get("CONTEXT", 0))
        after = living()
        yield faults.strikes[0], error, {n: after.get(n, 0) - before.get(n, 0) for n in after | before}
        before = after
    raise AssertionError("the program never ends")


def may_stay(api: str, left: dict[str, int]) -> bool:
    """One thing that its own call did not give back; a list keeps its members. Without its context, nothing goes."""
    lists = ({"TENSOR", "TENSOR_LIST"}, {"SCALAR", "SCALAR_LIST"})
    return api == "aclrtSetCurrentContext" or (bool(KEEPING.match(api)) and (len(left) == 1 or set(left) in lists))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_call_may_fail(program: Program, unraisable: list[BaseException | None]) -> None:
    program()
    problems = []
    for strike, error, change in fail_each_call(program):
        api = strike.partition(",")[0]
        errors = [error, *unraisable]
        unraisable.clear()
        told = [e for e in errors if isinstance(e, cann_mla.CannError) and "injected fault" in e.text]
        others = [e for e in errors if e is not None and e not in told]
        if not told and api != "aclrtGetCurrentContext":  # where not knowing the context makes no difference
            problems.append(f"{strike}: nothing was raised")
        if any(e.status not in (STATUS, -1) or not e.api for e in told):  # -1: a null handle
            problems.append(f"{strike}: raised {told}")
        if others:
            problems.append(f"{strike}: raised {others}")
        left = {name: count for name, count in change.items() if count}
        if left and not may_stay(api, left):
            problems.append(f"{strike}: left {left}")
    program()
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("program", QUEUEING, ids=lambda program: program.__name__)
def test_every_kernel_may_fault(program: Program, unraisable: list[BaseException | None]) -> None:
    """The fault comes back from a synchronisation that names the operator, or from a copy before it."""
    program()
    before = living()
    for number in range(1, 100):
        with simulator.inject(f"kernel:*#{number}=507015") as faults:
            try:
                program()
            except cann_mla.CannError as raised:
                error = raised
                drop_frames(error)
        if not faults.count:
            break
        operator = faults.strikes[0].partition(",")[0]
        assert error.status == 507015
        assert f"{operator} failed on the device: injected fault" in error.text
        assert error.api.startswith("aclrtMemcpy") or operator in error.launches
        assert living() == before
    assert number > 1
    program()
    assert living() == before
    assert not unraisable


@pytest.mark.parametrize("program", ALLOCATING, ids=lambda program: program.__name__)
def test_memory_may_run_out_anywhere(program: Program, unraisable: list[BaseException | None]) -> None:
    """A device has so much memory as is in use, and a bit more in each round."""
    program()
    before = living()
    used = before.get("bytes of device 0", 0)
    failures, number = 0, 0
    for number in range(40):
        with simulator.inject(f"memory={used + 64 * 2**number}"):
            try:
                program()
                break
            except cann_mla.CannError as raised:
                error = raised
                drop_frames(error)
        failures += 1
        assert (error.api, error.status) == ("aclrtMalloc", 207001)
        assert "is out of memory" in error.text
        assert living() == before
    assert failures
    assert number < 39
    assert not unraisable

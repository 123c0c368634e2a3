"""What strict mode says of HCCL: operations have their place in the order of a program, communicators a life."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cann_mla import c, simulator

INT32, FP32 = 2, 4
NBYTES = 32


def fresh(rank: Any) -> Any:
    """Device memory that nobody has written."""
    made = c.new("void **")
    assert c.aclrtMalloc(made, NBYTES, c.ACL_MEM_MALLOC_HUGE_FIRST) == 0
    return made[0]


def read(memory: Any) -> np.ndarray:
    array = np.empty(NBYTES // 4, np.int32)
    assert c.aclrtMemcpy(c.address(array), NBYTES, memory, NBYTES, c.ACL_MEMCPY_DEVICE_TO_HOST) == 0
    return array


def rules(watch: simulator.Watch) -> list[str]:
    return sorted(finding.rule for finding in watch.findings)


def test_an_honest_program(on_ranks: Any) -> None:
    """What was received counts as written, by an operation that comes before the copy."""

    def body(rank: Any) -> None:
        own, other = rank.upload(np.arange(8, dtype=np.int32)), fresh(rank)
        items = c.new("HcclSendRecvItem[2]")
        items[0] = (c.HCCL_SEND, own, 8, INT32, 1 - rank.number)
        items[1] = (c.HCCL_RECV, other, 8, INT32, 1 - rank.number)
        assert c.HcclBatchSendRecv(items, 2, rank.comm, rank.stream) == 0
        assert c.HcclAllReduce(other, other, 8, INT32, 0, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        np.testing.assert_array_equal(read(other), 2 * np.arange(8))
        for memory in (own, other):
            assert c.aclrtFree(memory) == 0

    with simulator.watch() as watch:
        on_ranks(2, body)
    assert rules(watch) == []


def test_read_without_waiting(alone: Any) -> None:
    own, all_ = alone.upload(np.arange(8, dtype=np.int32)), fresh(alone)
    with simulator.watch() as watch:
        assert c.HcclAllGather(own, all_, 8, INT32, alone.comm, alone.stream) == 0
        read(all_)
        assert alone.synchronize() == 0
    (finding,) = watch.findings
    assert finding.rule == "read-before-writer"
    assert "HcclAllGather" in finding.text


@pytest.mark.parametrize("ordered", [True, False])
def test_another_stream(ordered: bool, alone: Any) -> None:
    own, all_ = alone.upload(np.arange(8, dtype=np.int32)), fresh(alone)
    stream, event = c.new("aclrtStream *"), c.new("aclrtEvent *")
    assert c.aclrtCreateStream(stream) == 0
    assert c.aclrtCreateEvent(event) == 0
    with simulator.watch() as watch:
        assert c.HcclAllGather(own, all_, 8, INT32, alone.comm, alone.stream) == 0
        assert c.aclrtRecordEvent(event[0], alone.stream) == 0
        if ordered:
            assert c.aclrtStreamWaitEvent(stream[0], event[0]) == 0
        assert c.aclrtMemsetAsync(all_, NBYTES, 0, NBYTES, stream[0]) == 0
        assert c.aclrtSynchronizeStream(stream[0]) == 0
        assert alone.synchronize() == 0
    assert c.aclrtDestroyEvent(event[0]) == 0
    assert c.aclrtDestroyStream(stream[0]) == 0
    assert rules(watch) == ([] if ordered else ["unordered-access"])


def test_memory_freed_while_a_message_may_come(on_ranks: Any) -> None:
    freed = threading.Event()

    def body(rank: Any) -> None:
        if rank.number == 1:
            memory = rank.upload(np.zeros(8, np.int32))
            assert freed.wait(30)
            assert c.HcclSend(memory, 8, INT32, 0, rank.comm, rank.stream) == 0
            rank.synchronize()
            return
        memory = fresh(rank)
        assert c.HcclRecv(memory, 8, INT32, 1, rank.comm, rank.stream) == 0
        assert c.aclrtFree(memory) == 0
        freed.set()
        rank.synchronize()

    with simulator.watch() as watch:
        on_ranks(2, body)
    assert "freed-in-use" in rules(watch)
    finding = next(finding for finding in watch.findings if finding.rule == "freed-in-use")
    assert "HcclRecv" in finding.text


def test_a_communicator_used_after_its_end(alone: Any) -> None:
    comm, root = c.new("HcclComm *"), c.new("HcclRootInfo *")
    assert c.HcclGetRootInfo(root) == 0
    assert c.HcclCommInitRootInfo(1, root, 0, comm) == 0
    assert c.HcclCommDestroy(comm[0]) == 0
    with simulator.watch() as watch:
        assert c.HcclBarrier(comm[0], alone.stream) != 0
        assert c.HcclCommDestroy(comm[0]) != 0
    used, destroyed = watch.findings
    assert (used.rule, used.object.kind, used.made.api) == ("use-after-destroy", "communicator", "HcclCommInitRootInfo")
    assert destroyed.rule == "double-destroy"


def test_host_memory_names_the_call(alone: Any) -> None:
    memory, array = alone.upload(np.zeros(8, np.int32)), np.zeros(8, np.int32)
    with simulator.watch() as watch:
        assert c.HcclAllReduce(memory, c.address(array), 8, INT32, 0, alone.comm, alone.stream) == 0
        alone.synchronize()
    (finding,) = watch.findings
    assert (finding.rule, finding.broken.api) == ("host-pointer-for-device", "HcclAllReduce")
    assert Path(__file__).name in finding.broken.where[0]


LEAKING = """
from cann_mla import c
c.aclInit(c.NULL)
c.aclrtSetDevice(0)
root, comm = c.new("HcclRootInfo *"), c.new("HcclComm *")
assert c.HcclGetRootInfo(root) == 0
assert c.HcclCommInitRootInfo(1, root, 0, comm) == 0
c.aclrtResetDevice(0)
c.aclFinalize()
"""


def test_a_communicator_that_nobody_destroys(tmp_path: Path) -> None:
    program = tmp_path / "leaking.py"
    program.write_text(LEAKING)
    environment = {**simulator.environment(), "CANN_MLA_BACKEND": "sim", "CANN_MLA_SIM_STRICT": "1"}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 99
    assert "communicator" in done.stderr
    assert "rank 0 of 1" in done.stderr
    assert "call HcclCommDestroy" in done.stderr

"""Which status HCCL's functions give for bad arguments, and in which order they look.

Order and codes are those of hcomm's op_base.cc and param_check.cc (Ascend910B, Ascend910_93), and of the operators in
hccl/src/ops (Ascend950).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from cann_mla import c

PARA, PTR, NOT_SUPPORT, RUNTIME = 1, 2, 5, 15
FP16, INT16, UINT8, UINT64, FP64, BFP16, INT128 = 3, 1, 7, 6, 10, 11, 12
SUM, PROD = 0, 1
TOO_MANY = 0x7FFFFFFFF + 1


@pytest.fixture
def on_950() -> None:
    assert c.cannMlaSimSetSoc(b"Ascend950") == 0
    yield
    assert c.cannMlaSimSetSoc(b"Ascend910B") == 0


Send = Callable[..., int]


def send(rank: Any, **changed: Any) -> int:
    given = {"buf": rank.upload(np.zeros(4, np.float16)), "count": 4, "type": FP16, "peer": 0, **changed}
    comm, stream = given.pop("comm", rank.comm), given.pop("stream", rank.stream)
    return int(c.HcclSend(given["buf"], given["count"], given["type"], given["peer"], comm, stream))


def test_send_on_910b(alone: Any, told: Any) -> None:
    assert send(alone, count=0, comm=c.NULL, buf=c.NULL) == 0  # nothing to do comes first
    assert send(alone, comm=c.NULL) == PTR
    assert told() == "HcclSend: comm is null"
    assert send(alone, buf=c.NULL) == PTR
    assert send(alone, stream=c.NULL, count=TOO_MANY) == PTR
    assert send(alone, count=TOO_MANY, type=13) == PARA
    assert send(alone, type=13, peer=9) == NOT_SUPPORT
    assert send(alone, peer=1) == PARA
    assert told() == "HcclSend: destRank is 1; the communicator has ranks 0 to 0"
    assert send(alone, peer=0) == PARA  # would wait for itself


@pytest.mark.usefixtures("on_950")
def test_send_on_950(alone: Any) -> None:
    assert send(alone, type=INT128, peer=9) == NOT_SUPPORT
    assert send(alone, peer=0) == NOT_SUPPORT
    assert send(alone, peer=1) == PARA


def test_receive(alone: Any) -> None:
    assert c.HcclRecv(c.NULL, 4, FP16, 0, alone.comm, alone.stream) == PTR
    assert c.HcclRecv(alone.stream, 4, FP16, 7, alone.comm, alone.stream) == PARA


def reduce(rank: Any, data_type: int, op: int, count: int = 4) -> int:
    memory = rank.upload(np.zeros(64, np.uint8))
    status = c.HcclAllReduce(memory, memory, count, data_type, op, rank.comm, rank.stream)
    assert rank.synchronize() == 0
    return int(status)


def test_all_reduce_types(alone: Any) -> None:
    assert reduce(alone, FP16, PROD) == 0
    assert reduce(alone, BFP16, SUM) == 0
    assert reduce(alone, BFP16, PROD) == NOT_SUPPORT
    assert reduce(alone, INT16, PROD) == NOT_SUPPORT
    for data_type in (UINT8, UINT64, FP64, 13):
        assert reduce(alone, data_type, SUM) == NOT_SUPPORT
    assert reduce(alone, FP16, 4) == NOT_SUPPORT
    assert reduce(alone, UINT8, 4, TOO_MANY) == PARA  # the count comes before both


@pytest.mark.usefixtures("on_950")
def test_all_reduce_types_on_950(alone: Any) -> None:
    assert reduce(alone, UINT64, SUM) == 0
    assert reduce(alone, FP64, PROD) == 0
    assert reduce(alone, UINT8, SUM) == NOT_SUPPORT


def test_broadcast_root(alone: Any) -> None:
    memory = alone.upload(np.zeros(4, np.float16))
    assert c.HcclBroadcast(memory, 4, FP16, 1, alone.comm, alone.stream) == PARA
    assert c.HcclBroadcast(memory, 4, 13, 1, alone.comm, alone.stream) == NOT_SUPPORT  # type before root


@pytest.mark.usefixtures("on_950")
def test_broadcast_root_on_950(alone: Any) -> None:
    memory = alone.upload(np.zeros(4, np.float16))
    assert c.HcclBroadcast(memory, 4, 13, 1, alone.comm, alone.stream) == PARA  # root before type


def item(**given: Any) -> Any:
    items = c.new("HcclSendRecvItem[1]")
    items[0].count, items[0].dataType = 4, FP16
    for name, value in given.items():
        setattr(items[0], name, value)
    return items


def test_batch(alone: Any, told: Any) -> None:
    memory = alone.upload(np.zeros(4, np.float16))

    def batch(items: Any, count: int = 1) -> int:
        return int(c.HcclBatchSendRecv(items, count, alone.comm, alone.stream))

    assert batch(c.NULL) == PTR
    assert batch(c.NULL, 0) == PTR  # the pointer comes before the number
    assert batch(item(buf=memory), 0) == 0
    assert batch(item(buf=memory, dataType=13, count=TOO_MANY)) == NOT_SUPPORT  # here the type comes first
    assert batch(item(buf=memory, count=TOO_MANY, remoteRank=3)) == PARA
    assert batch(item(buf=memory, remoteRank=3)) == PARA
    assert batch(item(buf=memory)) == PARA
    assert told() == "HcclBatchSendRecv: the rank sends 1 messages to itself and receives 0"


def test_questions(alone: Any) -> None:
    number, name = c.new("uint32_t *"), c.new("char[128]")
    assert c.HcclGetRankSize(alone.comm, number) == 0
    assert number[0] == 1
    assert c.HcclGetRankId(alone.comm, number) == 0
    assert number[0] == 0
    assert c.HcclGetRankId(alone.comm, c.NULL) == PTR
    assert c.HcclGetRankSize(c.NULL, number) == PTR
    assert c.HcclGetCommName(alone.comm, name) == 0
    assert c.string(name).startswith("cann_mla_hccl_")
    error = c.new("HcclResult *")
    assert c.HcclGetCommAsyncError(alone.comm, error) == 0
    assert error[0] == 0
    assert c.string(c.HcclGetErrorString(9)) == "timeout"
    assert c.string(c.HcclGetErrorString(99)) == "unknown error"


def test_making_communicators(told: Any) -> None:
    root, comm = c.new("HcclRootInfo *"), c.new("HcclComm[2]")
    with ThreadPoolExecutor(1) as without_device:
        assert without_device.submit(c.HcclGetRootInfo, root).result() == RUNTIME
    assert c.aclrtSetDevice(0) == 0
    try:
        assert c.HcclGetRootInfo(c.NULL) == PTR
        assert c.HcclGetRootInfo(root) == 0
        assert c.HcclCommInitRootInfo(0, root, 0, comm) == PARA
        assert c.HcclCommInitRootInfo(1, root, 1, comm) == PARA
        assert c.HcclCommInitRootInfo(1, c.NULL, 0, comm) == PTR
        assert c.HcclCommInitAll(0, c.NULL, comm) == PARA
        assert c.HcclCommInitAll(2, c.new("int32_t[]", [0, 0]), comm) == PARA
        assert told() == "HcclCommInitAll: devices has the same device twice"
        assert c.HcclCommInitAll(1, c.new("int32_t[]", [99]), comm) == RUNTIME
        assert c.HcclCommInitRootInfoConfig(1, root, 0, c.new("HcclCommConfig *"), comm) == PARA
        assert c.HcclCommInitClusterInfo(b"table.json", 0, comm) == NOT_SUPPORT
        assert c.HcclCommDestroy(c.NULL) == 0
    finally:
        assert c.aclrtResetDevice(0) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("HCCL_CONNECT_TIMEOUT", "119"), ("HCCL_CONNECT_TIMEOUT", "7201"), ("HCCL_CONNECT_TIMEOUT", "2m"),
     ("HCCL_EXEC_TIMEOUT", "-1"), ("HCCL_EXEC_TIMEOUT", "2147483648")],
)  # fmt: skip
def test_timeouts_out_of_range(name: str, value: str, monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    monkeypatch.setenv(name, value)
    assert c.aclrtSetDevice(0) == 0
    assert c.HcclGetRootInfo(c.new("HcclRootInfo *")) == PARA
    assert f"{name} is {value}" in told()
    assert c.aclrtResetDevice(0) == 0


def test_dead_and_foreign_handles(alone: Any, told: Any) -> None:
    comm, root = c.new("HcclComm *"), c.new("HcclRootInfo *")
    assert c.HcclGetRootInfo(root) == 0
    assert c.HcclCommInitRootInfo(1, root, 0, comm) == 0
    assert c.HcclCommDestroy(comm[0]) == 0
    assert c.HcclCommDestroy(comm[0]) == PARA
    assert "was destroyed by HcclCommDestroy" in told()
    assert c.HcclBarrier(comm[0], alone.stream) == PARA
    assert c.HcclBarrier(alone.stream, alone.stream) == PARA
    assert c.HcclBarrier(alone.comm, alone.comm) == RUNTIME


def test_deterministic(alone: Any) -> None:
    value = c.new("HcclConfigValue *")
    for given, status in ((1, 0), (2, 0), (3, PARA)):
        value[0].value = given
        assert c.HcclSetConfig(c.HCCL_DETERMINISTIC, value[0]) == status
    assert c.HcclGetConfig(c.HCCL_DETERMINISTIC, value) == 0
    assert value[0].value == 2
    value[0].value = 0
    assert c.HcclSetConfig(c.HCCL_DETERMINISTIC, value[0]) == 0

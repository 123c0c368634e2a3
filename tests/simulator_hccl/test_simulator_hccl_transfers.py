"""What HCCL's operations move, in which order, and how they end when another rank does not do its part."""

from __future__ import annotations

import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla import c

INT32, FP16, FP32, BFP16 = 2, 3, 4, 11
SUM, PROD, MAX, MIN = range(4)
AGAIN_LATER = 0.2  # seconds


def values(rank: int, count: int = 6) -> np.ndarray:
    return np.arange(count, dtype=np.int32) * 10 + rank


def test_send_and_receive(on_ranks: Any) -> None:
    def body(rank: Any) -> Any:
        memory = rank.upload(values(rank.number, 300_000))  # more than a socket holds
        if rank.number == 0:
            assert c.HcclSend(memory, 300_000, INT32, 1, rank.comm, rank.stream) == 0
        else:
            assert c.HcclRecv(memory, 300_000, INT32, 0, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return rank.download(memory, (300_000,), np.int32)

    for came in on_ranks(2, body):
        np.testing.assert_array_equal(came, values(0, 300_000))


def test_a_send_waits_for_its_receive_and_calls_return_at_once(on_ranks: Any) -> None:
    may_receive = threading.Event()

    def body(rank: Any) -> Any:
        memory = rank.upload(values(rank.number))
        if rank.number == 0:
            assert c.HcclSend(memory, 6, INT32, 1, rank.comm, rank.stream) == 0
            status = c.new("aclrtStreamStatus *")
            time.sleep(AGAIN_LATER)
            assert c.aclrtStreamQuery(rank.stream, status) == 0
            assert status[0] == c.ACL_STREAM_STATUS_NOT_READY
            may_receive.set()
        else:
            assert may_receive.wait(30)
            assert c.HcclRecv(memory, 6, INT32, 0, rank.comm, rank.stream) == 0
        return rank.synchronize()

    assert on_ranks(2, body) == [0, 0]


def test_messages_keep_their_order(on_ranks: Any) -> None:
    def body(rank: Any) -> Any:
        memories = [rank.upload(values(rank.number) + 100 * i) for i in range(3)]
        move = c.HcclRecv if rank.number else c.HcclSend
        for memory in memories:
            assert move(memory, 6, INT32, 1 - rank.number, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return [rank.download(memory, (6,), np.int32)[0] for memory in memories]

    assert on_ranks(2, body) == [[0, 100, 200]] * 2


def test_batch_sends_and_receives_at_once_also_to_itself(on_ranks: Any) -> None:
    ranks = 3

    def body(rank: Any) -> Any:
        own = rank.upload(values(rank.number))
        places = [rank.upload(np.zeros(6, np.int32)) for _ in range(ranks)]
        items = c.new("HcclSendRecvItem[]", 2 * ranks)
        for peer in range(ranks):
            items[peer] = (c.HCCL_SEND, own, 6, INT32, peer)
            items[ranks + peer] = (c.HCCL_RECV, places[peer], 6, INT32, peer)
        assert c.HcclBatchSendRecv(items, 2 * ranks, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return [rank.download(place, (6,), np.int32) for place in places]

    for came in on_ranks(ranks, body):
        np.testing.assert_array_equal(came, [values(peer) for peer in range(ranks)])


def test_work_on_the_stream_before_an_operation_is_done_first(on_ranks: Any) -> None:
    def body(rank: Any) -> Any:
        memory = rank.upload(np.zeros(1 << 20, np.uint8))
        assert c.aclrtMemsetAsync(memory, 1 << 20, rank.number + 1, 1 << 20, rank.stream) == 0
        assert c.HcclBroadcast(memory, 1 << 20, 7, 1, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return set(rank.download(memory, (1 << 20,), np.uint8).tolist())

    assert on_ranks(2, body) == [{2}, {2}]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_gather(ranks: int, on_ranks: Any) -> None:
    def body(rank: Any) -> Any:
        own, all_ = rank.upload(values(rank.number)), rank.upload(np.zeros(6 * ranks, np.int32))
        assert c.HcclAllGather(own, all_, 6, INT32, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return rank.download(all_, (ranks, 6), np.int32)

    for came in on_ranks(ranks, body):
        np.testing.assert_array_equal(came, [values(rank) for rank in range(ranks)])


@pytest.mark.parametrize(
    ("op", "expected"),
    [(SUM, [0 + 1 + 2, 30 + 3]), (PROD, [0, 10 * 11 * 12]), (MAX, [2, 12]), (MIN, [0, 10])],
)
def test_all_reduce(op: int, expected: list[int], on_ranks: Any) -> None:
    def body(rank: Any) -> Any:
        memory = rank.upload(values(rank.number, 2))
        assert c.HcclAllReduce(memory, memory, 2, INT32, op, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return rank.download(memory, (2,), np.int32).tolist()

    assert on_ranks(3, body) == [expected] * 3


@pytest.mark.parametrize(
    ("code", "dtype", "summands", "expected"),
    # Between 256 and 512 BF16 counts in twos, between 2048 and 4096 FP16 does; ties go to even after each step.
    [(BFP16, ml_dtypes.bfloat16, (256, 1, 1), 256), (BFP16, ml_dtypes.bfloat16, (1, 1, 256), 258),
     (FP16, np.float16, (2048, 1, 1), 2048), (FP32, np.float32, (256.5, 1, 1), 258.5)],
)  # fmt: skip
def test_sums_are_rounded_in_their_type_in_the_order_of_ranks(
    code: int, dtype: Any, summands: tuple[float, ...], expected: float, on_ranks: Any
) -> None:
    def body(rank: Any) -> Any:
        memory = rank.upload(np.full(3, summands[rank.number], dtype))
        assert c.HcclAllReduce(memory, memory, 3, code, SUM, rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return rank.download(memory, (3,), dtype).astype(float).tolist()

    assert on_ranks(3, body) == [[expected] * 3] * 3


def test_the_other_collectives(on_ranks: Any) -> None:
    """Each with an input of [rank, 10 + rank] and two ranks."""

    def body(rank: Any) -> Any:
        results = []

        def result(name: str, shape: int, *arguments: Any) -> None:
            out = rank.upload(np.full(shape, -1, np.int32))
            given = [out if argument is None else argument for argument in arguments]
            assert getattr(c, name)(*given, rank.comm, rank.stream) == 0
            assert rank.synchronize() == 0
            results.append(rank.download(out, (shape,), np.int32).tolist())

        own = rank.upload(values(rank.number, 2))
        result("HcclReduceScatter", 1, own, None, 1, INT32, SUM)
        result("HcclReduce", 2, own, None, 2, INT32, SUM, 1)
        result("HcclScatter", 1, own, None, 1, INT32, 0)
        result("HcclAlltoAll", 2, own, 1, INT32, None, 1, INT32)
        # Rank 0 sends its first element to rank 1 and both to itself; rank 1 sends nothing to rank 0.
        counts = [[2, 1], [0, 2]]
        sent, came = (c.new("uint64_t[]", n) for n in (counts[rank.number], [row[rank.number] for row in counts]))
        starts, places = c.new("uint64_t[]", [0, 0]), c.new("uint64_t[]", [0, counts[0][rank.number]])
        result("HcclAlltoAllV", 3, own, sent, starts, INT32, None, came, places, INT32)
        assert c.HcclBarrier(rank.comm, rank.stream) == 0
        assert rank.synchronize() == 0
        return results

    first, second = on_ranks(2, body)
    assert first == [[0 + 1], [-1, -1], [0], [0, 1], [0, 10, -1]]
    assert second == [[10 + 11], [1, 21], [10], [10, 11], [0, 1, 11]]


def test_all_ranks_of_one_thread() -> None:
    assert c.aclrtSetDevice(1) == 0
    assert c.aclrtSetDevice(0) == 0
    comms, number = c.new("HcclComm[2]"), c.new("uint32_t *")
    assert c.HcclCommInitAll(2, c.new("int32_t[]", [1, 0]), comms) == 0
    for rank in range(2):
        assert c.HcclGetRankId(comms[rank], number) == 0
        assert number[0] == rank
    # Rank 0 is on device 1: its operations go on a stream of that device.
    stream = c.new("aclrtStream *")
    assert c.aclrtCreateStream(stream) == 0
    assert c.HcclBarrier(comms[1], stream[0]) == 0
    assert c.aclrtSetDevice(1) == 0
    other = c.new("aclrtStream *")
    assert c.aclrtCreateStream(other) == 0
    assert c.HcclBarrier(comms[0], other[0]) == 0
    assert c.aclrtSynchronizeStream(other[0]) == 0
    assert c.aclrtDestroyStream(other[0]) == 0
    assert c.aclrtSetDevice(0) == 0
    assert c.aclrtSynchronizeStream(stream[0]) == 0
    assert c.aclrtDestroyStream(stream[0]) == 0
    assert [c.HcclCommDestroy(comm) for comm in comms] == [0, 0]
    for device in (0, 0, 1, 1):
        assert c.aclrtResetDevice(device) == 0


def test_nobody_receives(on_ranks: Any, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "0.3")
    over = threading.Event()

    def body(rank: Any) -> None:
        if rank.number == 1:
            assert over.wait(30)
            return
        memory = rank.upload(values(0))
        assert c.HcclSend(memory, 6, INT32, 1, rank.comm, rank.stream) == 0
        assert rank.synchronize() == c.ACL_ERROR_RT_WAIT_TIMEOUT
        assert "HcclSend failed on the device: rank 0 of 2 waited 300 ms" in (said := told())
        assert "rank 1 to receive" in said
        error = c.new("HcclResult *")
        assert c.HcclGetCommAsyncError(rank.comm, error) == 0
        assert error[0] == c.HCCL_E_TIMEOUT
        # The communicator is of no use any more, and says so at once.
        assert c.HcclBarrier(rank.comm, rank.stream) == 0
        assert rank.synchronize() == c.ACL_ERROR_RT_SOCKET_CLOSE
        over.set()

    on_ranks(2, body)


def test_ranks_that_call_different_operations(on_ranks: Any, told: Any) -> None:
    def body(rank: Any) -> tuple[int, str]:
        memory = rank.upload(np.zeros(16, np.int32))
        if rank.number:
            assert c.HcclRecv(memory, 8, INT32, 0, rank.comm, rank.stream) == 0
        else:
            assert c.HcclSend(memory, 4, INT32, 1, rank.comm, rank.stream) == 0
        return rank.synchronize(), told()

    (first, said), (second, _) = on_ranks(2, body)
    assert {first, second} == {c.ACL_ERROR_RT_INTERNAL_ERROR}
    assert "rank 0 is in HcclSend or HcclRecv with 16 bytes" in said
    assert "rank 1 in HcclSend or HcclRecv with 32 bytes" in said


def test_host_memory(alone: Any, told: Any) -> None:
    before = c.cannMlaSimFindingCount()
    array, memory = np.zeros(4, np.float32), alone.upload(np.zeros(4, np.float32))
    assert c.HcclAllReduce(memory, c.address(array), 4, FP32, SUM, alone.comm, alone.stream) == 0
    assert alone.synchronize() == c.ACL_ERROR_RT_DEVICE_MEM_ERROR
    assert "recvBuf" in told()
    assert c.cannMlaSimFindingCount() == before + 1
    assert "recvBuf is host memory" in c.string(c.cannMlaSimFindingText(before))


def test_memory_that_is_too_small(on_ranks: Any, told: Any) -> None:
    def body(rank: Any) -> None:
        own, out = rank.upload(values(rank.number, 4)), rank.upload(values(rank.number, 7))  # needs 8
        assert c.HcclAllGather(own, out, 4, INT32, rank.comm, rank.stream) == 0
        assert rank.synchronize() == c.ACL_ERROR_RT_DEVICE_MEM_ERROR
        assert "recvBuf" in told()

    on_ranks(2, body)


def test_destroyed_with_work_queued(on_ranks: Any, told: Any) -> None:
    before = c.cannMlaSimFindingCount()
    over = threading.Event()

    def body(rank: Any) -> None:
        if rank.number == 1:
            assert over.wait(30)
            return
        memory = rank.upload(values(0))
        assert c.HcclRecv(memory, 6, INT32, 1, rank.comm, rank.stream) == 0
        assert c.HcclCommDestroy(rank.comm) == 0
        assert rank.synchronize() == c.ACL_ERROR_RT_SOCKET_CLOSE
        assert "destroyed by HcclCommDestroy while operations were queued" in told()
        over.set()

    on_ranks(2, body)
    texts = [c.string(c.cannMlaSimFindingText(i)) for i in range(before, c.cannMlaSimFindingCount())]
    assert any("1 operations of the communicator are still queued" in text for text in texts)


def test_an_aborted_stream_does_not_wait(on_ranks: Any) -> None:
    over = threading.Event()

    def body(rank: Any) -> None:
        if rank.number == 1:
            assert over.wait(30)
            return
        memory = rank.upload(values(0))
        assert c.HcclRecv(memory, 6, INT32, 1, rank.comm, rank.stream) == 0
        assert c.aclrtStreamAbort(rank.stream) == 0
        assert rank.synchronize() == 0
        over.set()

    on_ranks(2, body)

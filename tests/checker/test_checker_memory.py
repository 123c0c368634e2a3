"""Memory that is freed too early, used too late, read before it is written, or not where it is said to be."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from catalogue.steps import NBYTES, cast, destroy, malloc, memory, moved, streams, tensor

from cann_mla import c, simulator

pytestmark = pytest.mark.usefixtures("device")
D2D, D2H, H2D = c.ACL_MEMCPY_DEVICE_TO_DEVICE, c.ACL_MEMCPY_DEVICE_TO_HOST, c.ACL_MEMCPY_HOST_TO_DEVICE


def findings(program: Callable[[], None]) -> list[simulator.Finding]:
    with simulator.watch() as watch:
        program()
    return list(watch.findings)


def found(program: Callable[[], None]) -> list[str]:
    result = findings(program)
    assert all(finding.count == 1 for finding in result)
    return [finding.rule for finding in result]


def pinned(nbytes: int = NBYTES) -> Any:
    address = c.new("void **")
    c.aclrtMallocHost(address, nbytes)
    return address[0]


def test_one_finding_for_all_users_of_freed_memory() -> None:
    """It names the last of them; that the kernels fault afterwards is no second finding."""

    def program() -> None:
        with memory(NBYTES) as (target,), streams() as (stream,):
            source = malloc()
            x, y = tensor(source), tensor(target)
            for _ in range(3):
                cast(x, y, stream)
            c.aclrtFree(source)
            again = malloc(byte=255)
            c.aclrtSynchronizeStream(stream)
            c.aclrtFree(again)
            destroy(x, y)

    (finding,) = findings(program)
    assert (finding.rule, finding.count) == ("freed-in-use", 1)
    assert (finding.made.api, finding.broken.api) == ("aclrtMalloc", "aclrtFree")
    assert "aclnnCast on stream" in finding.what
    assert "[4, 8] FP32" in finding.object.text
    assert "synchronise stream" in finding.fix


def test_freed_after_its_kernel_was_done_by_luck() -> None:
    """The copy has long ended, but nobody waited for it: the next run may be slower."""

    def program() -> None:
        with memory(NBYTES) as (target,), streams() as (stream,):
            source = malloc()
            c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, D2D, stream)
            time.sleep(0.05)
            c.aclrtFree(source)
            c.aclrtSynchronizeStream(stream)

    assert found(program) == ["freed-in-use"]


def test_freed_after_an_abort() -> None:
    def program() -> None:
        with memory(NBYTES) as (target,), streams() as (stream,):
            source = malloc()
            c.aclrtMemcpyAsync(target, NBYTES, source, NBYTES, D2D, stream)
            c.aclrtStreamAbort(stream)
            c.aclrtFree(source)

    assert found(program) == []


def test_pinned_memory_freed_under_a_copy() -> None:
    def program() -> None:
        with memory(NBYTES) as (target,), streams() as (stream,):
            host = pinned()
            c.aclrtMemcpyAsync(target, NBYTES, host, NBYTES, H2D, stream)
            c.aclrtFreeHost(host)
            c.aclrtSynchronizeStream(stream)

    (finding,) = findings(program)
    assert (finding.rule, finding.object.kind) == ("freed-in-use", "pinned host memory")
    assert (finding.made.api, finding.broken.api) == ("aclrtMallocHost", "aclrtFreeHost")


@pytest.mark.parametrize(("wrong", "rule"), [(True, "host-pointer-for-device"), (False, "device-pointer-for-host")])
def test_freed_by_the_wrong_function(wrong: bool, rule: str) -> None:
    def program() -> None:
        host, address = pinned(), malloc()
        (c.aclrtFree if wrong else c.aclrtFreeHost)(host if wrong else address)
        c.aclrtFreeHost(host)
        c.aclrtFree(address)

    assert found(program) == [rule]


def test_pinned_memory_freed_twice() -> None:
    def program() -> None:
        host = pinned()
        c.aclrtFreeHost(host)
        c.aclrtFreeHost(host)

    assert found(program) == ["double-free"]


def test_freed_twice_with_thousands_of_others_between() -> None:
    def program() -> None:
        address = malloc(1 << 20)
        c.aclrtFree(address)
        for _ in range(1500):
            c.aclrtFree(malloc(32, None))
        c.aclrtFree(address)

    assert found(program) == ["double-free"]


def test_copies_carry_what_is_written() -> None:
    """A copy of a half-written buffer is half-written, also when a stream copies."""

    def program() -> None:
        host = np.zeros(2 * NBYTES, np.uint8)
        with streams() as (stream,):
            source, target = malloc(2 * NBYTES, None), malloc(2 * NBYTES, None)
            c.aclrtMemset(source, NBYTES, 0, NBYTES)
            c.aclrtMemcpyAsync(target, 2 * NBYTES, source, 2 * NBYTES, D2D, stream)
            c.aclrtSynchronizeStream(stream)
            c.aclrtMemcpy(c.address(host), NBYTES, target, NBYTES, D2H)
            c.aclrtMemcpy(c.address(host), 2 * NBYTES, target, 2 * NBYTES, D2H)
            c.aclrtFree(source)
            c.aclrtFree(target)

    (finding,) = findings(program)
    assert finding.rule == "uninitialised-read"
    assert f"byte {NBYTES} " in finding.what


def test_unwritten_bytes_of_a_strided_view() -> None:
    """Two of four columns are written and read; the others nobody needs."""

    def read(columns: int) -> Callable[[], None]:
        def program() -> None:
            workspace = malloc(1 << 20, None)
            with memory(NBYTES) as (target,), streams() as (stream,):
                matrix, host = malloc(4 * 4 * 4, None), np.zeros((4, 2), np.float32)
                c.aclrtMemcpy2d(matrix, 16, c.address(host), 8, 8, 4, H2D)
                x = tensor(matrix, (4, columns), strides=(4, 1), storage=(4, 4))
                y = tensor(target, (4, columns))
                planned = c.new("uint64_t *"), c.new("aclOpExecutor **")
                c.aclnnCastGetWorkspaceSize(x, c.ACL_FLOAT, y, *planned)
                c.aclnnCast(workspace, planned[0][0], planned[1][0], stream)
                c.aclrtSynchronizeStream(stream)
                c.aclrtFree(matrix)
                destroy(x, y)
            c.aclrtFree(workspace)

        return program

    assert found(read(2)) == []
    (finding,) = findings(read(3))
    assert finding.rule == "uninitialised-read"
    assert "byte 8 " in finding.what


def test_memory_of_another_device() -> None:
    def program() -> None:
        c.aclrtSetDevice(1)
        far = malloc()
        c.aclrtResetDevice(1)
        c.aclrtSetDevice(0)
        with memory(NBYTES) as (target,), streams() as (stream,):
            x, y = tensor(far), tensor(target)
            cast(x, y, stream)
            c.aclrtSynchronizeStream(stream)
            destroy(x, y)
        c.aclrtFree(far)
        c.aclrtResetDevice(0)

    assert found(program) == ["memory-of-another-device"]


def test_memory_before_strict_mode_counts_as_written() -> None:
    source = malloc(byte=None)
    with memory(NBYTES) as (target,), streams() as (stream,):

        def program() -> None:
            x, y = tensor(source), tensor(target)
            cast(x, y, stream)
            c.aclrtSynchronizeStream(stream)
            destroy(x, y)

        assert found(program) == []
    c.aclrtFree(source)


@pytest.mark.parametrize(
    ("kind", "to_device", "from_device"),
    [
        (c.ACL_MEMCPY_HOST_TO_HOST, False, False),
        (c.ACL_MEMCPY_HOST_TO_DEVICE, True, False),
        (c.ACL_MEMCPY_DEVICE_TO_HOST, False, True),
        (c.ACL_MEMCPY_DEVICE_TO_DEVICE, True, True),
    ],
)
def test_directions(kind: int, to_device: bool, from_device: bool) -> None:
    hosts = [np.zeros(NBYTES, np.uint8) for _ in range(2)]
    with memory(NBYTES, NBYTES) as devices:
        for to in (False, True):
            for of in (False, True):

                def program(to: bool = to, of: bool = of) -> None:
                    target = devices[0] if to else c.address(hosts[0])
                    source = devices[1] if of else c.address(hosts[1])
                    c.aclrtMemcpy(target, NBYTES, source, NBYTES, kind)

                right = (to, of) == (to_device, from_device)
                assert found(program) == ([] if right else ["wrong-copy-direction"])


def test_rows_of_a_pitched_copy_that_interlock_do_not_overlap() -> None:
    def program(distance: int) -> Callable[[], None]:
        def run() -> None:
            with memory(256) as (address,):
                c.aclrtMemcpy2d(moved(address, distance), 32, address, 32, 16, 4, D2D)

        return run

    assert found(program(16)) == []
    assert found(program(8)) == ["overlapping-copy"]


def test_pool_memory_used_after_it_was_freed_in_the_stream() -> None:
    properties = c.new("aclrtMemPoolProps *")
    properties.location.type, properties.location.id = c.ACL_MEM_LOCATION_TYPE_DEVICE, 0

    def program(late: bool) -> Callable[[], None]:
        def run() -> None:
            pool, block = c.new("aclrtMemPool *"), c.new("void **")
            c.aclrtMemPoolCreate(pool, properties)
            with streams() as (stream,):
                c.aclrtMemPoolMallocAsync(block, NBYTES, pool[0], stream)
                c.aclrtMemsetAsync(block[0], NBYTES, 0, NBYTES, stream)
                c.aclrtMemPoolFreeAsync(block[0], stream)
                if late:
                    c.aclrtMemsetAsync(block[0], NBYTES, 0, NBYTES, stream)
                c.aclrtSynchronizeStream(stream)
            c.aclrtMemPoolDestroy(pool[0])

        return run

    assert found(program(late=False)) == []
    assert found(program(late=True)) == ["use-after-free"]


def test_an_operand_updated_in_place_is_read_too() -> None:
    """InplaceMul needs what selfRef holds; an output that only honours strides needs nothing."""

    def program(byte: int | None) -> Callable[[], None]:
        def run() -> None:
            with memory(NBYTES) as (factor,), streams() as (stream,):
                target = malloc(byte=byte)
                x, y = tensor(target), tensor(factor)
                size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
                c.aclnnInplaceMulGetWorkspaceSize(x, y, size, executor)
                workspace = malloc(size[0] or 32, None)
                c.aclnnInplaceMul(workspace, size[0], executor[0], stream)
                c.aclrtSynchronizeStream(stream)
                for address in (workspace, target):
                    c.aclrtFree(address)
                destroy(x, y)

        return run

    assert found(program(0)) == []
    assert found(program(None)) == ["uninitialised-read"]

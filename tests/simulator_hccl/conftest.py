"""Ranks as threads, each with a device, a stream and a communicator, all through C's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import c

SECONDS = 60


@dataclass
class Rank:
    """What one rank works with."""

    number: int
    comm: Any
    stream: Any

    def upload(self, array: np.ndarray) -> Any:
        """Device memory with the bytes of an array; it goes with the device."""
        made = c.new("void **")
        assert c.aclrtMalloc(made, max(array.nbytes, 1), c.ACL_MEM_MALLOC_HUGE_FIRST) == 0
        nbytes, kind = array.nbytes, c.ACL_MEMCPY_HOST_TO_DEVICE
        assert c.aclrtMemcpy(made[0], nbytes, c.address(np.ascontiguousarray(array)), nbytes, kind) == 0
        return made[0]

    def download(self, memory: Any, shape: Sequence[int], dtype: Any) -> np.ndarray:
        array = np.empty(shape, dtype)
        kind = c.ACL_MEMCPY_DEVICE_TO_HOST
        assert c.aclrtMemcpy(c.address(array), array.nbytes, memory, array.nbytes, kind) == 0
        return array

    def synchronize(self) -> int:
        return int(c.aclrtSynchronizeStream(self.stream))


def text() -> str:
    """What went wrong in this thread."""
    return c.string(c.aclGetRecentErrMsg()) or ""


def run(size: int, body: Callable[[Rank], Any]) -> list[Any]:
    assert c.aclrtSetDevice(0) == 0
    root = c.new("HcclRootInfo *")
    assert c.HcclGetRootInfo(root) == 0

    def on_rank(number: int) -> Any:
        assert c.aclrtSetDevice(number % 2) == 0
        comm, stream = c.new("HcclComm *"), c.new("aclrtStream *")
        try:
            assert c.HcclCommInitRootInfo(size, root, number, comm) == 0, text()
            assert c.aclrtCreateStream(stream) == 0
            try:
                return body(Rank(number, comm[0], stream[0]))
            finally:
                c.HcclCommDestroy(comm[0])  # first, so that no rank waits for one that has failed
                c.aclrtDestroyStream(stream[0])
        finally:
            assert c.aclrtResetDevice(number % 2) == 0

    try:
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(on_rank, range(size), timeout=SECONDS))
    finally:
        c.aclrtResetDevice(0)


@pytest.fixture
def on_ranks() -> Callable[..., list[Any]]:
    """``on_ranks(P, body)``: what ``body(Rank)`` returns on each of P ranks."""
    return run


@pytest.fixture(scope="package", autouse=True)
def _initialised() -> None:
    cann_mla.load("sim").initialise()


@pytest.fixture
def alone() -> Iterator[Rank]:
    """The only rank of a communicator."""
    assert c.aclrtSetDevice(0) == 0
    root, comm, stream = c.new("HcclRootInfo *"), c.new("HcclComm *"), c.new("aclrtStream *")
    assert c.HcclGetRootInfo(root) == 0
    assert c.HcclCommInitRootInfo(1, root, 0, comm) == 0
    assert c.aclrtCreateStream(stream) == 0
    yield Rank(0, comm[0], stream[0])
    c.HcclCommDestroy(comm[0])
    c.aclrtDestroyStream(stream[0])
    c.aclrtResetDevice(0)


@pytest.fixture
def told() -> Callable[[], str]:
    """The error text of the thread, once."""
    return text

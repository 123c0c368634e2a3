"""Exchange over MPI, from host memory to host memory. Needs ``mpi4py`` (the extra ``mpi``)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from cann_mla.distributed.exchange import (
    POLL_SECONDS,
    Array,
    ExchangeError,
    ExchangeTimeoutError,
    HostBlocks,
    check_gathered,
    check_timeout,
)

Message = tuple[int, Sequence[Array]]
"""Another rank, and the blocks that go there or come from there."""


class MpiExchange(HostBlocks):
    """The ranks of an MPI communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        Default: a duplicate of ``COMM_WORLD``, so that no message of the application is taken for one of the ring; all
        ranks must then make the exchange.
    timeout : float
        Seconds that a message may take, counted from when it is waited for. It must cover one step of the slowest
        rank.

    Raises
    ------
    ModuleNotFoundError
        Without mpi4py.

    Notes
    -----
    After an :class:`ExchangeError` the ranks are out of step, and MPI would wait for the missing rank when the process
    ends: call ``comm.Abort()``, or start the program with ``python -m mpi4py``, which does so for any error.
    """

    def __init__(self, comm: Any = None, *, timeout: float = 60.0) -> None:
        self._mpi = mpi4py_module("MpiExchange")
        self._comm = self._mpi.COMM_WORLD.Dup() if comm is None else comm
        self._timeout = check_timeout(timeout)

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return int(self._comm.rank)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._comm.size)

    def pass_on(self, sent: Sequence[Array], received: Sequence[Array], step: int) -> MpiPending:
        """See :meth:`.Exchange.pass_on`."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        what = f"in step {step} of the ring, to send to rank {after} and to receive from rank {before}"
        return self._start(what, [(after, sent)], [(before, received)], step)

    def all_gather(self, sent: Sequence[Array], received: Sequence[Sequence[Array]]) -> MpiPending:
        """See :meth:`.Exchange.all_gather`."""
        check_gathered(received, self.size)
        others = [rank for rank in range(self.size) if rank != self.rank]
        what = "to gather the shards of all ranks"
        return self._start(what, [(rank, sent) for rank in others], [(rank, received[rank]) for rank in others], 0)

    def _start(self, what: str, sent: list[Message], received: list[Message], step: int) -> MpiPending:
        """Post all blocks of all messages; the tag tells steps and blocks apart."""
        pending = MpiPending(self, what)
        _under_way.add(pending)
        try:
            for peer, blocks in received:
                for index, block in enumerate(blocks):
                    request = self._comm.Irecv([_bytes(block), self._mpi.BYTE], peer, step * len(blocks) + index)
                    pending.add(request, block.nbytes)
            for peer, blocks in sent:
                for index, block in enumerate(blocks):
                    request = self._comm.Isend([_bytes(block), self._mpi.BYTE], peer, step * len(blocks) + index)
                    pending.add(request, None)
        except self._mpi.Exception as error:
            raise ExchangeError(f"rank {self.rank} of {self.size} failed {what}: {error}") from error
        return pending


class MpiPending:
    """Requests of one transfer; see :class:`.Pending`."""

    def __init__(self, exchange: MpiExchange, what: str) -> None:
        self._exchange, self._what = exchange, what
        self._requests: list[Any] = []
        self._expected: list[int | None] = []

    def add(self, request: Any, expected: int | None) -> None:
        """Wait for one more request; one that receives says how many bytes it expects."""
        self._requests.append(request)
        self._expected.append(expected)

    def wait(self) -> None:
        """See :meth:`.Pending.wait`. Once it has returned, or found a message of another size, it does nothing."""
        if self not in _under_way:
            return
        exchange, mpi = self._exchange, self._exchange._mpi
        statuses = [mpi.Status() for _ in self._requests]
        deadline = time.monotonic() + exchange._timeout
        where = f"rank {exchange.rank} of {exchange.size}"
        try:
            while not mpi.Request.Testall(self._requests, statuses):
                if time.monotonic() > deadline:
                    raise ExchangeTimeoutError(
                        f"{where} waited {exchange._timeout:g} s {self._what}; a rank is dead, or a step of it takes "
                        "longer: look at its output, or give MpiExchange a longer timeout"
                    )
                time.sleep(POLL_SECONDS)
        except mpi.Exception as error:
            raise ExchangeError(f"{where} failed {self._what}: {error}") from error
        _under_way.remove(self)
        for expected, status in zip(self._expected, statuses, strict=True):
            if expected is not None and (got := status.Get_count(mpi.BYTE)) != expected:
                raise ExchangeError(
                    f"{where} received {got} bytes instead of {expected} {self._what}; "
                    "all ranks must be given the same lengths, heads and dtype"
                )


_under_way: set[MpiPending] = set()
"""Transfers that MPI may still work on, whoever has given them up, with the blocks that it reads and writes."""


def _bytes(block: Array) -> Array:
    """A contiguous block as MPI takes it, without a copy."""
    flat = block.view()
    flat.shape = (block.size,)  # raises if that would need a copy
    octets: Array = flat.view(np.uint8)
    return octets


def mpi4py_module(what: str) -> Any:
    """The module ``mpi4py.MPI``, which starts MPI; `what` needs it."""
    try:
        from mpi4py import MPI
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs mpi4py: pip install 'cann_mla[mpi]', and an MPI ('pip install mpich', or the cluster's)"
        ) from error
    return MPI

"""Exchange over MPI, from host memory to host memory. Needs ``mpi4py`` (the extra ``mpi``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from cann_mla.distributed.exchange import Buffer, ExchangeError, ExchangeTimeoutError, check_buffer

POLL_SECONDS = 2e-4  # between two looks at the requests: the cores are the kernel's


class MpiExchange:
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
        self._mpi = _mpi()
        self._comm = self._mpi.COMM_WORLD.Dup() if comm is None else comm
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout}")
        self._timeout = timeout
        self._abandoned: list[Any] = []  # with their buffers, which MPI may still touch

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return int(self._comm.rank)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._comm.size)

    def pass_on(self, sent: Buffer, received: Buffer, step: int) -> MpiPending:
        """See :meth:`.Exchange.pass_on`."""
        check_buffer("sent", sent)
        check_buffer("received", received)
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        what = f"in step {step} of the ring, to send to rank {after} and to receive from rank {before}"
        return self._start(
            what,
            lambda: [
                self._comm.Irecv([received, self._mpi.BYTE], before, step),
                self._comm.Isend([sent, self._mpi.BYTE], after, step),
            ],
            received.nbytes,
        )

    def all_gather(self, sent: Buffer, received: Sequence[Buffer]) -> MpiPending:
        """See :meth:`.Exchange.all_gather`."""
        check_buffer("sent", sent)
        if len(received) != self.size or received[self.rank].size != sent.size:
            raise ValueError(f"all_gather needs {self.size} buffers, the one of this rank as long as what it sends")
        received[self.rank][:] = sent
        others = [rank for rank in range(self.size) if rank != self.rank]
        return self._start(
            "to gather the shards of all ranks",
            lambda: [
                *(self._comm.Irecv([received[rank], self._mpi.BYTE], rank, 0) for rank in others),
                *(self._comm.Isend([sent, self._mpi.BYTE], rank, 0) for rank in others),
            ],
            None,
        )

    def _start(self, what: str, post: Callable[[], list[Any]], expected: int | None) -> MpiPending:
        try:
            return MpiPending(self, what, post(), expected)
        except self._mpi.Exception as error:
            raise ExchangeError(f"rank {self.rank} of {self.size} failed {what}: {error}") from error


class MpiPending:
    """Requests of one transfer; see :class:`.Pending`."""

    def __init__(self, exchange: MpiExchange, what: str, requests: list[Any], expected: int | None) -> None:
        self._exchange, self._what, self._requests, self._expected = exchange, what, requests, expected

    def wait(self) -> None:
        """See :meth:`.Pending.wait`."""
        exchange, mpi = self._exchange, self._exchange._mpi
        statuses = [mpi.Status() for _ in self._requests]
        deadline = time.monotonic() + exchange._timeout
        where = f"rank {exchange.rank} of {exchange.size}"
        try:
            while not mpi.Request.Testall(self._requests, statuses):
                if time.monotonic() > deadline:
                    exchange._abandoned += self._requests
                    raise ExchangeTimeoutError(
                        f"{where} waited {exchange._timeout:g} s {self._what}; a rank is dead, or a step of it takes "
                        "longer: look at its output, or give MpiExchange a longer timeout"
                    )
                time.sleep(POLL_SECONDS)
        except mpi.Exception as error:
            raise ExchangeError(f"{where} failed {self._what}: {error}") from error
        got = statuses[0].Get_count(mpi.BYTE) if statuses else None
        if self._expected is not None and got != self._expected:
            raise ExchangeError(
                f"{where} received {got} bytes instead of {self._expected} {self._what}; "
                "all ranks must be given the same lengths, heads and dtype"
            )


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "MpiExchange needs mpi4py: pip install 'cann_mla[mpi]', and an MPI ('pip install mpich', or the cluster's)"
        ) from error
    return MPI

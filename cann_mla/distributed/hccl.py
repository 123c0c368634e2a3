"""Exchange over HCCL, from device memory to device memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Any

import numpy as np

from cann_mla.binding import abi
from cann_mla.checks import instance, whole
from cann_mla.distributed.exchange import (
    POLL_SECONDS,
    Array,
    ExchangeError,
    ExchangeTimeoutError,
    check_gathered,
    check_timeout,
)
from cann_mla.errors import CannError
from cann_mla.libraries import load
from cann_mla.runtime.current import on_context
from cann_mla.runtime.device import Device, current_state, state_of
from cann_mla.runtime.memory import DeviceMemory
from cann_mla.runtime.owner import Owner
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

Message = tuple[int, Sequence[Tensor]]
"""Another rank, and the blocks that go there or come from there."""
_HCCL_NAMES = {"BF16": "BFP16"}
_TIMEOUTS = ("ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "ACL_ERROR_RT_WAIT_TIMEOUT", "HCCL_E_TIMEOUT")


class HcclExchange(Owner):
    """A rank of an HCCL communicator.

    Parameters
    ----------
    root_info : bytes
        What :meth:`root_info` gave on one of the ranks; how it gets to the others is the caller's business
        (:meth:`over_mpi` broadcasts it).
    rank, size : int
        Number of this rank, and of all ranks.
    device : Device or int, optional
        Default: the current device.
    timeout : float
        Seconds that ranks may take to come together, and later that a message may take, counted from when it is waited
        for. It must cover one step of the slowest rank. Shorter ones of HCCL (``HCCL_CONNECT_TIMEOUT``,
        ``HCCL_EXEC_TIMEOUT``) come first.

    Raises
    ------
    ExchangeTimeoutError
        If the other ranks do not come in time.
    ExchangeError
        If HCCL refuses.

    Notes
    -----
    All ranks make their exchange at the same time. Messages go over a stream of the exchange's own, beside the kernels;
    their memory is kept until they have passed. After an :class:`ExchangeError` the ranks are out of step, and closing
    the exchange drops what is queued. ``close()`` (or ``with``) destroys the communicator. Source: CANN's documentation
    of ``HcclCommInitRootInfo`` and ``HcclBatchSendRecv``.
    """

    __slots__ = ("_failed", "_library", "_rank", "_size", "_stream", "_timeout")
    teardown_rank = -1  # before the streams that its operations are queued on

    def __init__(
        self,
        root_info: bytes,
        rank: int,
        size: int,
        *,
        device: Device | int | None = None,
        timeout: float = 60.0,
    ) -> None:
        ffi = abi().ffi
        instance("root_info", root_info, bytes)
        if len(root_info) != ffi.sizeof("HcclRootInfo"):
            raise ValueError(f"root_info has {len(root_info)} bytes, not {ffi.sizeof('HcclRootInfo')}")
        self._size = whole("size", size, 1, 2**32 - 1)
        self._rank = whole("rank", rank, 0, self._size - 1)
        self._timeout = check_timeout(timeout)
        self._failed = False
        state = state_of(device)
        self._library = state.library
        self._stream = Stream(state.id)
        self._handle = self._connect(root_info)
        state.children.add(self)

    def _connect(self, root_info: bytes) -> Any:
        """Make the communicator, in a thread that is left behind when that takes too long."""
        library, ffi = self._library, abi().ffi
        given, made = ffi.new("HcclRootInfo *"), ffi.new("HcclComm *")
        ffi.memmove(given, root_info, len(root_info))
        outcome: list[CannError | None] = []

        def initialise() -> None:
            try:
                with on_context(library, self._stream._context):
                    status = library.HcclCommInitRootInfo(self._size, given, self._rank, made)
                    library.check(status, "HcclCommInitRootInfo", "connect the ranks")
                outcome.append(None)
            except CannError as error:
                outcome.append(error)

        thread = Thread(target=initialise, daemon=True, name="HcclCommInitRootInfo")
        thread.start()
        thread.join(self._timeout)
        if not outcome:
            raise ExchangeTimeoutError(
                f"{self._where} waited {self._timeout:g} s for the other ranks; one of them is dead or late, "
                "or was given another root_info"
            )
        if outcome[0] is not None:
            raise self._error("to connect the ranks", outcome[0])
        return made[0]

    @staticmethod
    def root_info() -> bytes:
        """What one rank makes and all ranks need. A device must be current; each serves for one exchange.

        Raises
        ------
        CannError
            If HCCL refuses.
        """
        current_state()  # says what to do if no device is current
        library, made = load(), abi().ffi.new("HcclRootInfo *")
        library.check(library.HcclGetRootInfo(made), "HcclGetRootInfo", "start a communicator")
        return bytes(abi().ffi.buffer(made))

    @classmethod
    def over_mpi(cls, comm: Any = None, *, device: Device | int | None = None, timeout: float = 60.0) -> HcclExchange:
        """The ranks of an MPI communicator, which passes the root info and nothing else.

        Parameters
        ----------
        comm : mpi4py.MPI.Comm, optional
            Default: ``COMM_WORLD``.
        device, timeout
            As for :class:`HcclExchange`.

        Raises
        ------
        ModuleNotFoundError
            Without mpi4py, and as :class:`HcclExchange`.
        """
        from cann_mla.distributed.mpi import mpi4py_module

        comm = mpi4py_module("HcclExchange.over_mpi").COMM_WORLD if comm is None else comm
        root_info = comm.bcast(cls.root_info() if comm.rank == 0 else None, root=0)
        return cls(root_info, comm.rank, comm.size, device=device, timeout=timeout)

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self._rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._size

    def __repr__(self) -> str:
        return f"<HcclExchange rank {self._rank} of {self._size}{' (closed)' if self.closed else ''}>"

    def own(self, given: Array | Tensor, owner: ExitStack, stream: Stream) -> Tensor:
        """See :meth:`.Exchange.own`."""
        if not isinstance(given, Tensor):
            return owner.enter_context(Tensor.from_numpy(given, device=self._stream.device))
        if given.memory is not None and not (given.layout.dense and isinstance(given.memory, DeviceMemory)):
            raise ValueError(f"HCCL passes dense tensors in device memory on, not {given.describe()}")
        self._stream.wait(stream.record())
        return given

    def room(self, shape: Sequence[int], dtype: np.dtype[Any], owner: ExitStack) -> Tensor:
        """See :meth:`.Exchange.room`."""
        return owner.enter_context(Tensor.empty(shape, dtype, device=self._stream.device))

    def operand(self, block: Tensor, rows: slice, owner: ExitStack, stream: Stream) -> Tensor:
        """See :meth:`.Exchange.operand`: other dimensions over the same memory."""
        start, stop, _ = rows.indices(block.shape[0])
        shape = (stop - start, *block.shape[1:])
        memory = block.memory
        assert isinstance(memory, DeviceMemory), "there are rows"
        row = block.layout.nbytes // block.shape[0]
        part = memory.part(block.address - memory.address + start * row, (stop - start) * row)
        return owner.enter_context(Tensor(part, shape, block.dtype))

    def pass_on(self, sent: Sequence[Tensor], received: Sequence[Tensor], step: int) -> HcclPending:
        """See :meth:`.Exchange.pass_on`."""
        after, before = (self._rank + 1) % self._size, (self._rank - 1) % self._size
        what = f"in step {step} of the ring, to send to rank {after} and to receive from rank {before}"
        return self._start(what, [(after, sent)], [(before, received)])

    def all_gather(self, sent: Sequence[Tensor], received: Sequence[Sequence[Tensor]]) -> HcclPending:
        """See :meth:`.Exchange.all_gather`."""
        check_gathered(received, self._size)
        others = [rank for rank in range(self._size) if rank != self._rank]
        what = "to gather the shards of all ranks"
        return self._start(what, [(rank, sent) for rank in others], [(rank, received[rank]) for rank in others])

    def _start(self, what: str, sent: list[Message], received: list[Message]) -> HcclPending:
        """One HcclBatchSendRecv: nothing in it waits for anything else of the same rank."""
        lib, ffi, stream = abi().lib, abi().ffi, self._stream
        blocks = [
            (direction, peer, block)
            for direction, messages in ((lib.HCCL_SEND, sent), (lib.HCCL_RECV, received))
            for peer, blocks in messages
            for block in blocks
            if block.layout.numel
        ]
        items = ffi.new("HcclSendRecvItem[]", len(blocks))
        for item, (direction, peer, block) in zip(items, blocks, strict=True):
            item.sendRecvType, item.remoteRank = direction, peer
            item.buf, item.count = ffi.cast("void *", block.address), block.layout.numel
            item.dataType = getattr(lib, f"HCCL_DATA_TYPE_{_HCCL_NAMES.get(block.dtype.name, block.dtype.name)}")
        if blocks:
            with on_context(self._library, stream._context):
                status = self._library.HcclBatchSendRecv(items, len(blocks), self.handle, stream.handle)
                try:
                    self._library.check(status, "HcclBatchSendRecv", "exchange keys")
                except CannError as error:
                    self._failed = True
                    raise self._error(what, error) from error
            stream._launches.append("HcclBatchSendRecv")
            stream.keep([block.memory for _, _, block in blocks])
        return HcclPending(self, what)

    @property
    def _where(self) -> str:
        return f"rank {self._rank} of {self._size}"

    def _error(self, what: str, error: CannError) -> ExchangeError:
        if error.status_name not in _TIMEOUTS:
            return ExchangeError(f"{self._where} failed {what}: {error}")
        return self._late(what, f"\n{error}")

    def _late(self, what: str, why: str = "") -> ExchangeTimeoutError:
        return ExchangeTimeoutError(
            f"{self._where} waited {self._timeout:g} s, or the timeout of HCCL, {what}; a rank is dead, or a step of "
            f"it takes longer: look at its output, or give HcclExchange a longer timeout{why}"
        )

    def _wait(self, what: str) -> None:
        """Look at the stream time and again, because Python hears no Ctrl-C in a C function that waits."""
        deadline = time.monotonic() + self._timeout
        try:
            while not self._stream.query():
                if time.monotonic() > deadline:
                    raise self._late(what)
                time.sleep(POLL_SECONDS)
        except BaseException as error:
            self._failed = True  # given up, by Ctrl-C too: closing must not wait for it again
            if isinstance(error, CannError):
                raise self._error(what, error) from error
            raise

    def _release(self, handle: Any) -> None:
        library, stream = self._library, self._stream
        try:
            if not self._failed:
                self._wait("to close the exchange")
        finally:
            with on_context(library, stream._context):
                if self._failed:
                    library.aclrtStreamAbort(stream.handle)  # or it would wait for ranks that are gone
                with suppress(CannError):  # a fault that was told already
                    stream.close()
                library.check(library.HcclCommDestroy(handle), "HcclCommDestroy", "close an exchange")


class HcclPending:
    """A transfer on the exchange's stream; see :class:`.Pending`."""

    def __init__(self, exchange: HcclExchange, what: str) -> None:
        self._exchange, self._what = exchange, what

    def wait(self) -> None:
        """See :meth:`.Pending.wait`."""
        self._exchange._wait(self._what)

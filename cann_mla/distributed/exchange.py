"""What ranks need of a transport to pass keys on, and of the memory that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from cann_mla.checks import finite
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

POLL_SECONDS = 2e-4  # between two looks at a transfer: the cores are the kernel's
_LONGEST_WAIT = 2_000_000
Array = npt.NDArray[Any]
Block = TypeVar("Block")
"""An array in the memory that a transport works with: an ndarray on the host, or a Tensor on the device."""


class ExchangeError(RuntimeError):
    """A message could not be sent or received. The ranks are out of step: end the job (``comm.Abort()``)."""


class ExchangeTimeoutError(ExchangeError, TimeoutError):
    """A message did not come in time: the other rank is dead, or slower than the timeout allows."""


class Pending(Protocol):
    """A transfer under way. Its blocks belong to it until `wait` returns."""

    def wait(self) -> None:
        """Wait until what is sent may be overwritten and what is received is there.

        Raises
        ------
        ExchangeTimeoutError
            If that takes longer than the exchange allows.
        ExchangeError
            If the transport fails, or the message has another size than the block.
        """


class Exchange(Protocol[Block]):
    """A transport between the ranks of a ring. A message is a sequence of blocks."""

    @property
    def rank(self) -> int:
        """Number of this rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def own(self, given: Array | Tensor, owner: ExitStack, stream: Stream) -> Block:
        """What this rank brings, as a block: copied only if it is not one already.

        A tensor may still be written by work queued on the stream. What is made for it closes with its owner.
        """

    def room(self, shape: Sequence[int], dtype: np.dtype[Any], owner: ExitStack) -> Block:
        """A block to receive into, which closes with its owner."""

    def operand(self, block: Block, rows: slice, owner: ExitStack, stream: Stream) -> Tensor:
        """Some rows of a block for a kernel that is queued on the stream; the tensor closes with its owner."""

    def pass_on(self, sent: Sequence[Block], received: Sequence[Block], step: int) -> Pending:
        """Start to send to the next rank and to receive from the one before; `step` tells messages apart."""

    def all_gather(self, sent: Sequence[Block], received: Sequence[Sequence[Block]]) -> Pending:
        """Start to send to all other ranks, and to receive from each into its blocks; those of this rank stay."""


class HostBlocks:
    """The part of an :class:`Exchange` that is about memory, for transports between hosts: blocks are arrays."""

    def own(self, given: Array | Tensor, owner: ExitStack, stream: Stream) -> Array:
        """See :meth:`.Exchange.own`."""
        if isinstance(given, Tensor):
            stream.synchronize()
            return given.to_numpy()
        return np.ascontiguousarray(given)

    def room(self, shape: Sequence[int], dtype: np.dtype[Any], owner: ExitStack) -> Array:
        """See :meth:`.Exchange.room`."""
        return np.empty(shape, dtype)

    def operand(self, block: Array, rows: slice, owner: ExitStack, stream: Stream) -> Tensor:
        """See :meth:`.Exchange.operand`."""
        return owner.enter_context(Tensor.from_numpy(block[rows], device=stream.device, stream=stream))


def check_timeout(timeout: float) -> float:
    """Refuse what is no time to wait, in seconds."""
    seconds = finite("timeout", timeout)
    if not 0 < seconds <= _LONGEST_WAIT:
        raise ValueError(f"timeout is {timeout}; allowed is above 0 and up to {_LONGEST_WAIT} seconds")
    return seconds


def check_gathered(received: Sequence[Any], size: int) -> None:
    """Refuse another number of messages than there are ranks."""
    if len(received) != size:
        raise ValueError(f"all_gather needs blocks for {size} ranks, not for {len(received)}")

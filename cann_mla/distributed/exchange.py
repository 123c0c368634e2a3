"""What ranks need of a transport to pass keys on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Buffer = npt.NDArray[np.uint8]
"""Host memory, contiguous, one-dimensional."""


class ExchangeError(RuntimeError):
    """A message could not be sent or received. The ranks are out of step: end the job (``comm.Abort()``)."""


class ExchangeTimeoutError(ExchangeError, TimeoutError):
    """A message did not come in time: the other rank is dead, or slower than the timeout allows."""


class Pending(Protocol):
    """A transfer under way. Its buffers belong to it until `wait` returns."""

    def wait(self) -> None:
        """Wait until what is sent may be overwritten and what is received is there.

        Raises
        ------
        ExchangeTimeoutError
            If that takes longer than the exchange allows.
        ExchangeError
            If the transport fails, or the message has another size than the buffer.
        """


class Exchange(Protocol):
    """A transport between the ranks of a ring."""

    @property
    def rank(self) -> int:
        """Number of this rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def pass_on(self, sent: Buffer, received: Buffer, step: int) -> Pending:
        """Start to send to the next rank and to receive from the one before; `step` tells messages apart."""

    def all_gather(self, sent: Buffer, received: Sequence[Buffer]) -> Pending:
        """Start to send to all ranks, and to receive from each, this one included, into its buffer."""


def check_buffer(name: str, buffer: npt.NDArray[Any]) -> None:
    """Refuse what is not a :data:`Buffer`."""
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise ValueError(
            f"{name} must be a contiguous array of uint8 of one dimension, not {buffer.dtype} {buffer.shape}"
        )

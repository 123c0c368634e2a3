"""Fault injection: functions that fail, kernels that fault, hang or compute wrongly, devices short of memory.

Faults are written in a small language, the same here, in ``CANN_MLA_SIM_FAULTS`` and in ``cannMlaSimInject``:

========================================  ==========================================================================
``aclrtMalloc#3=207001``                  the third call returns 207001 and does nothing
``aclCreate*#2+=500000``                  all calls but the first; functions that make a handle return null
``AtbRingMLA#1=3``                        functions of ATB and HCCL likewise, with codes of their own
``kernel:aclnnRmsNorm#1=507015``          the first launch is taken, and its kernel faults on the device
``kernel:*#4=hang``                       the fourth launch, of whatever operator, never ends
``memory=1G``                             each device has that much memory
``numeric:scale_dropped@aclnnMm``         kernels of the operator compute wrongly, and nobody says so
========================================  ==========================================================================

Several stand with ``;`` between them. ``#3`` is the third call (launch), ``#3+`` that and all later ones, ``#3-5`` the
third to the fifth; without, all. ``*`` in a name stands for any characters. Calls are counted from the moment the
faults are set, over everything that the name matches, and only those that the program makes itself.

**Kernels.** A fault of a kernel surfaces at the next synchronisation, query or copy of its stream, once; then the
stream, its context and the device work on, as CANN's do. After ``aclrtSetStreamFailureMode(stream, 1)`` it stops the
whole context of the stream instead, which takes no work any more, and stays. The operator has not computed anything
then. 507015 is an exception of an AI core, 507035 one of a vector core, 507014 an operator that ran into its timeout.
A kernel that hangs ends with 507014 when the timeout set by ``aclrtSetOpExecuteTimeOut`` is over; without one it ends
when its stream is aborted or destroyed by force, and until then synchronisations with a timeout return 507046. A
device that is broken for good is ``*#20+=507053``: every call fails from the twentieth on.

**Numeric faults** imitate what users have met in public. A name behind ``@`` confines them to an operator or, for the
last three, to an operand:

``mask_past_512``
    Attention (FusedInferAttentionScore, RingMLA) sees every column from 512 on, whatever the mask says.
``uniform_without_mask``
    Attention without a mask weighs all columns alike.
``nz_as_nd``
    Operands in FRACTAL_NZ are read as if they were row-major.
``scale_dropped``
    The first operand with "scale" in its name counts as ones.
``last_block_unwritten``
    The end of every output but caches, the share of the last of 24 cores, stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cann_mla.simulator.checks import simulator

if TYPE_CHECKING:
    from cann_mla.libraries import Library

__all__ = ["Injection", "inject"]


class Injection:
    """Faults in force; made by :func:`inject`.

    Attributes
    ----------
    faults : str
        As they were given.
    """

    def __init__(self, library: Library, faults: str) -> None:
        from cann_mla.binding import abi

        self.faults = faults
        self._library = library
        self._strikes: list[str] | None = None
        made = abi().ffi.new("int64_t *")
        if library.cannMlaSimInject(faults.encode(), made):
            raise ValueError(library.recent_error_text().removeprefix("cannMlaSimInject: "))
        self._id = made[0]

    @property
    def strikes(self) -> list[str]:
        """What was struck so far: ``"aclrtMalloc, call 3: 207001"``, in order. Numeric faults do not tell."""
        from cann_mla.binding import abi

        if self._strikes is not None:
            return self._strikes
        texts = (self._library.cannMlaSimStrikeText(self._id, index) for index in range(self.count))
        return [abi().ffi.string(text).decode() for text in texts]

    @property
    def count(self) -> int:
        """How often the faults have struck so far."""
        if self._strikes is not None:
            return len(self._strikes)
        return int(self._library.cannMlaSimStrikeCount(self._id))

    def _end(self) -> None:
        self._strikes = self.strikes
        self._library.cannMlaSimWithdraw(self._id)


@contextmanager
def inject(faults: str) -> Iterator[Injection]:
    """Put faults in force for a piece of code, beside those that already are.

    They strike all threads. What is queued when the block ends keeps the faults that it was queued with.

    Parameters
    ----------
    faults : str
        In the language of this module: ``"aclrtMalloc#3=207001; kernel:aclnnRmsNorm#1=507015"``.

    Yields
    ------
    Injection

    Raises
    ------
    ValueError
        If the text is not understood; it says which part, and what is allowed.
    RuntimeError
        If CANN is loaded instead of the simulator.
    """
    injection = Injection(simulator(), faults)
    try:
        yield injection
    finally:
        injection._end()

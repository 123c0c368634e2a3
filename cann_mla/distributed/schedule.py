"""Which rank attends to what, in which step of the ring. Chunks are those of :class:`.ZigZag`."""

from __future__ import annotations

from typing import NamedTuple


class BlockCall(NamedTuple):
    """One call of the kernel: a chunk of queries over a chunk of keys.

    Attributes
    ----------
    query, kv : int
        0 for the early, 1 for the late chunk: of the rank itself, and of the rank the keys come from.
    causal : bool
        Whether the two are the same chunk; otherwise all keys come before all queries.
    """

    query: int
    kv: int
    causal: bool


class RingStep(NamedTuple):
    """What a rank does in one step: the calls, with the keys that rank `source` owns."""

    source: int
    calls: tuple[BlockCall, ...]


def block_calls(rank: int, source: int, ranks: int) -> tuple[BlockCall, ...]:
    """Calls of `rank` with the keys of `source`: 3 with its own (the causal ones first), 2 with those of any other."""
    own, held = ((r, 2 * ranks - 1 - r) for r in (rank, source))
    calls = [BlockCall(q, k, a == b) for q, a in enumerate(own) for k, b in enumerate(held) if b <= a]
    return tuple(sorted(calls, key=lambda call: not call.causal))


def ring_schedule(rank: int, ranks: int) -> list[RingStep]:
    """The P steps of a rank. In each, keys go on to the next rank; in step k a rank has those of rank ``r - k``."""
    sources = ((rank - step) % ranks for step in range(ranks))
    return [RingStep(source, block_calls(rank, source, ranks)) for source in sources]

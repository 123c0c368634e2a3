"""The same attention with the keys of all ranks in every rank: one exchange, for P times the memory."""

from __future__ import annotations

from contextlib import ExitStack

from cann_mla.distributed.exchange import Array
from cann_mla.distributed.schedule import ring_schedule
from cann_mla.distributed.shard import ShardAttention
from cann_mla.tensor import Tensor


def all_gather_attention(
    attention: ShardAttention, key_split1: Array | Tensor, key_split2: Array | Tensor, value: Array | Tensor
) -> None:
    """Let the queries of all ranks attend to the keys of all ranks, causally. Every rank calls it.

    Parameters, result and errors are those of :func:`.ring_attention`, and so are the calls of ``AtbRingMLA``: those
    over the rank's own keys while the others come in, the rest after all have come.
    """
    split, rank, keys = attention.split, attention.exchange.rank, (key_split1, key_split2, value)
    layouts = attention.layouts([split.tokens(r) for r in range(split.ranks)], keys)
    with attention.all_keys(), ExitStack() as owner:
        own = attention.own(keys, owner)
        gathered = [own if r == rank else attention.room(layouts[r], owner) for r in range(split.ranks)]
        pending = attention.exchange.all_gather(own, gathered)
        for step in ring_schedule(rank, split.ranks):
            attention.attend_shard(step.source, gathered[step.source], owner)
            if step.source == rank:
                pending.wait()
        attention.stream.synchronize()

"""The same attention with the keys of all ranks in every rank: fewer and larger calls, for P times the memory."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from cann_mla.distributed.shard import Array, ShardAttention


def all_gather_attention(attention: ShardAttention, key_split1: Array, key_split2: Array, value: Array) -> None:
    """Let the queries of all ranks attend to the keys of all ranks, causally. Every rank calls it.

    Parameters, result and errors are those of :func:`.ring_attention`. A rank makes 4 calls of ``AtbRingMLA`` (rank
    0, whose early chunk has nothing before it, 3).
    """
    split, exchange = attention.split, attention.exchange
    layouts = attention.layouts([split.tokens(rank) for rank in range(split.ranks)], key_split1)
    gathered = [np.empty(layout.nbytes, np.uint8) for layout in layouts]
    exchange.all_gather(layouts[exchange.rank].pack((key_split1, key_split2, value)), gathered).wait()
    shards = [layout.arrays(message) for layout, message in zip(layouts, gathered, strict=True)]
    keys = [split.join(parts) for parts in zip(*shards, strict=True)]
    for query, chunk in enumerate(split.chunks(exchange.rank)):
        before = [split.start(sequence, chunk) for sequence in range(len(split.lengths))]
        for rows, lengths, causal in (
            (split.chunk_rows(chunk), split.chunk_lengths(chunk), True),
            (split.rows_before(chunk), before, False),
        ):
            if any(lengths):
                with ExitStack() as owner:
                    tensors = attention.upload([key[rows] for key in keys], owner)
                    attention.attend(query, tensors, lengths, causal=causal)
    attention.stream.synchronize()

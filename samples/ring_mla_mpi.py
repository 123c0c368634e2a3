"""Long causal sequences over several ranks: AtbRingMLA in a ring, over MPI or HCCL.

Each rank takes two chunks of every sequence, an early and a late one, so that all have the same work. The keys go
round: while a rank computes with those of one rank, the next ones come in, and the operator merges every result with
the one before. Nobody ever holds all keys. In the end rank 0 collects the results and compares them with one call
over all tokens.

    mpirun -n 4 python samples/ring_mla_mpi.py
    mpirun -n 4 python samples/ring_mla_mpi.py --exchange hccl

With HCCL the keys go from device to device, and MPI only starts the ranks and collects the results.
"""

from __future__ import annotations

import argparse

import ml_dtypes
import numpy as np
from mpi4py import MPI

import cann_mla
from cann_mla import ops
from cann_mla.distributed import (
    ExchangeError,
    HcclExchange,
    MpiExchange,
    ShardAttention,
    ZigZag,
    ring_attention,
)

LENGTHS = [500, 77]
HEADS, KV_HEADS = 8, 2
NOPE, ROPE, VALUE = 128, 64, 128
TIMEOUT = 60.0

comm = MPI.COMM_WORLD


def normal(name: str, heads: int, size: int) -> np.ndarray:
    """Random BF16 of all tokens, the same on all ranks. In an application a rank only has its own rows."""
    rng = np.random.default_rng(list(name.encode()))
    return rng.standard_normal((sum(LENGTHS), heads, size)).astype(ml_dtypes.bfloat16)


def operands() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Queries (both parts), and keys (both parts) with values."""
    queries = [normal("query_split1", HEADS, NOPE), normal("query_split2", HEADS, ROPE)]
    keys = [
        normal("key_split1", KV_HEADS, NOPE),
        normal("key_split2", KV_HEADS, ROPE),
        normal("value", KV_HEADS, VALUE),
    ]
    return queries, keys


def in_a_ring(exchange: MpiExchange | HcclExchange, stream: cann_mla.Stream) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse of this rank's tokens."""
    split = ZigZag(LENGTHS, exchange.size)
    rows = split.rows(exchange.rank)
    queries, keys = ([x[rows] for x in group] for group in operands())
    with ShardAttention(split, exchange, *queries, stream=stream) as attention:
        ring_attention(attention, *keys)
        output, lse = attention.result()
    print(f"rank {exchange.rank}: {len(rows)} tokens, {split.work(exchange.rank)} pairs of tokens", flush=True)
    return output, lse


def on_one_rank(stream: cann_mla.Stream) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse of all tokens, in one call."""
    queries, keys = operands()
    with ops.ring_mla(*queries, *keys, LENGTHS, causal=True, stream=stream) as result:
        stream.synchronize()
        return result.output.to_numpy(), result.softmax_lse.to_numpy()


def all_shards(transport: str, stream: cann_mla.Stream) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """What all ranks computed, on rank 0."""
    if transport == "mpi":
        return comm.gather(in_a_ring(MpiExchange(timeout=TIMEOUT), stream))
    with HcclExchange.over_mpi(comm, timeout=TIMEOUT) as exchange:
        return comm.gather(in_a_ring(exchange, stream))


def own_device() -> int:
    """The ranks of a host take its devices in turn."""
    return comm.Split_type(MPI.COMM_TYPE_SHARED).rank % cann_mla.Device.count()


def main() -> None:
    """Compute both ways, compare."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--exchange", choices=("mpi", "hccl"), default="mpi")
    transport = parser.parse_args().exchange
    with cann_mla.Device(own_device()), cann_mla.Stream() as stream:
        shards = all_shards(transport, stream)
        if shards is None:
            return
        split = ZigZag(LENGTHS, comm.size)
        output = split.join([output for output, _ in shards]).astype(np.float32)
        lse = split.join([lse for _, lse in shards], axis=1)
        expected, expected_lse = on_one_rank(stream)
    worst, worst_lse = (np.abs(a - b).max() for a, b in ((output, expected.astype(np.float32)), (lse, expected_lse)))
    # Both outputs are BF16, and every step of the ring rounds the merged one again.
    if not (worst <= 2**-6 + comm.size**0.5 * 2**-8 and worst_lse <= 1e-3):
        raise SystemExit(f"the ring and one rank differ by {worst:.5f} in the output and {worst_lse:.6f} in the lse")
    print(f"the ring and one rank agree within {worst:.5f} in {output.size} elements, and {worst_lse:.6f} in the lse")


if __name__ == "__main__":
    try:
        main()
    except (ExchangeError, SystemExit) as error:
        print(f"rank {comm.rank}: {error}", flush=True)
        comm.Abort(1)  # or the other ranks would wait for this one

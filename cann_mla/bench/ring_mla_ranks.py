"""The ring over two ranks on this machine: what each of them computes, and what it holds at most.

Run as a program, this is one of the ranks, and prints what it measured as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cann_mla.bench.core import Measurement, SkipError
from cann_mla.dtypes import BF16, Array

RANKS = 2
TOKENS, HEADS, KV_HEADS = 4096, 16, 16
NOPE, ROPE, VALUE = 128, 64, 128
LIMIT_BALANCE = 1.05
SECONDS = 600


def lines() -> Iterator[Measurement]:
    """Balance of the work, and what a rank holds against its shard, a shard in flight and its outputs."""
    ranks = _run_ranks()
    pairs, seconds = ([rank[name] for rank in ranks] for name in ("pairs", "kernel_seconds"))
    of = "the least of a rank's pairs of query and key"
    name = "ring_mla_ranks"
    yield Measurement(f"{name}/work", max(pairs) / min(pairs), "ratio", of, LIMIT_BALANCE, "lower", {"pairs": pairs})
    of = "the shortest time of a rank's kernels"
    detail = {"seconds": seconds}
    yield Measurement(f"{name}/kernels", max(seconds) / min(seconds), "ratio", of, None, "lower", detail)
    for side in ("device", "host"):
        shares = [rank[f"{side}_bytes"] / rank[f"{side}_allowed"] for rank in ranks]
        of = "shard, one shard in flight and outputs"
        yield Measurement(f"{name}/{side}_memory", max(shares), "ratio", of, 1.0, "lower", {"ranks": ranks})


def _run_ranks() -> list[dict[str, Any]]:
    if importlib.util.find_spec("mpi4py") is None:
        raise SkipError("mpi4py is missing: pip install 'cann_mla[mpi]'")
    beside = str(Path(sys.executable).parent)
    launcher = shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    if launcher is None:
        raise SkipError("no mpiexec in PATH; an MPI such as mpich brings it")
    command = [launcher, "-n", str(RANKS), sys.executable, "-m", "mpi4py", "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SkipError(f"the ranks ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """One rank."""
    import cann_mla
    from cann_mla.distributed import MpiExchange, ZigZag

    exchange = MpiExchange(timeout=SECONDS)
    split = ZigZag([TOKENS], exchange.size)
    with cann_mla.Device(0) as device, cann_mla.Stream() as stream:
        _measure(device, stream, exchange, split)  # fills pools and caches
        print(json.dumps(_measure(device, stream, exchange, split)), flush=True)


def _measure(device: Any, stream: Any, exchange: Any, split: Any) -> dict[str, Any]:
    from cann_mla.distributed import ShardAttention, ring_attention

    class Watched(ShardAttention):
        """Takes the time of every call, and looks at the device's memory while its operands are there."""

        events: list[tuple[Any, Any]]
        most_bytes: int

        def attend(self, query: int, keys: Sequence[Any], kv_lengths: Sequence[int], *, causal: bool = False) -> None:
            before = stream.record()
            super().attend(query, keys, kv_lengths, causal=causal)
            self.events.append((before, stream.record()))
            scratch = stream._workspace.nbytes if stream._workspace else 0  # ATB's, of one size for all problems
            self.most_bytes = max(self.most_bytes, free - device.memory()[0] - scratch)

    rank, tokens = exchange.rank, split.tokens(exchange.rank)
    rng = np.random.default_rng(rank)

    def normal(heads: int, *sizes: int) -> list[Array]:
        return [rng.standard_normal((tokens, heads, n), np.float32).astype(BF16.numpy) for n in sizes]

    queries, keys = normal(HEADS, NOPE, ROPE), normal(KV_HEADS, NOPE, ROPE, VALUE)
    query_bytes, key_bytes = (sum(array.nbytes for array in group) for group in (queries, keys))
    output_bytes = tokens * HEADS * (VALUE * 2 + 4)
    stream.synchronize()
    free = device.memory()[0] + (stream._workspace.nbytes if stream._workspace else 0)
    tracemalloc.start()
    attention = Watched(split, exchange, *queries, stream=stream)
    with attention:
        attention.events, attention.most_bytes = [], 0
        ring_attention(attention, *keys)
        attention.result()
        host_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        milliseconds = [after.elapsed_ms(before) for before, after in attention.events]
        for event in (event for pair in attention.events for event in pair):
            event.close()
    return {
        "rank": rank,
        "pairs": split.work(rank),
        "kernel_seconds": sum(milliseconds) / 1e3,
        "device_bytes": attention.most_bytes,
        "device_allowed": query_bytes + 2 * key_bytes + output_bytes,
        "host_bytes": host_bytes,
        "host_allowed": 2 * key_bytes + output_bytes,  # beside the caller's arrays
    }


if __name__ == "__main__":
    main()

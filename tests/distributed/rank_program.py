"""What `mpiexec` runs on each rank for the tests: rank_program.py TRANSPORT MODE FOLDER. The transport is mpi or hccl.

ring, all_gather: operands come from FOLDER/problem.npz, the result goes to FOLDER/<rank>.npz. silent, dead: rank 1
never sends, or ends at once. sizes: rank 1 sends less than rank 0 expects.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import distributed

TIMEOUT = 1.5


def exchange_over(transport: str, timeout: float = 60.0) -> Any:
    """The exchange, on the current device."""
    if transport == "mpi":
        return distributed.MpiExchange(timeout=timeout)
    return distributed.HcclExchange.over_mpi(timeout=timeout)


def compute(transport: str, variant: str, folder: Path) -> None:
    exchange = exchange_over(transport)
    problem = np.load(folder / "problem.npz")
    split = distributed.ZigZag(problem["lengths"], exchange.size)
    rows = split.rows(exchange.rank)
    names = ("query_split1", "query_split2", "key_split1", "key_split2", "value")
    q1, q2, *keys = (problem[name].view(ml_dtypes.bfloat16)[rows] for name in names)
    with (
        cann_mla.Stream() as stream,
        distributed.ShardAttention(split, exchange, q1, q2, stream=stream) as attention,
    ):
        getattr(distributed, f"{variant}_attention")(attention, *keys)
        output, lse = attention.result()
    np.savez(folder / f"{exchange.rank}.npz", output=output.view(np.uint16), lse=lse)


def fail(transport: str, mode: str) -> None:
    exchange = exchange_over(transport, 60 if mode == "sizes" else TIMEOUT)
    if exchange.rank == 1 and mode == "silent":
        time.sleep(60)
    if exchange.rank == 1 and mode == "dead":
        os._exit(3)
    with cann_mla.Stream() as stream, ExitStack() as owner:
        sent = exchange.own(np.zeros(8 if exchange.rank and mode == "sizes" else 16, np.uint8), owner, stream)
        exchange.pass_on([sent], [exchange.room((16,), np.dtype(np.uint8), owner)], 0).wait()
    print(f"rank {exchange.rank} went on", flush=True)


if __name__ == "__main__":
    with cann_mla.Device(0):
        if sys.argv[2] in ("ring", "all_gather"):
            compute(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
        else:
            fail(sys.argv[1], sys.argv[2])

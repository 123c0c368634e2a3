"""The same in processes of their own, over MPI and HCCL; and what a rank says when another does not answer."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla.distributed import HcclExchange, MpiExchange, mpi

PROGRAM = Path(__file__).with_name("rank_program.py")
SAMPLE = Path(__file__).parents[2] / "samples" / "ring_mla_mpi.py"
SECONDS = 60


def mpiexec(ranks: int, *command: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python on ranks. ``-m mpi4py`` ends all of them when one fails."""
    launcher = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")
    assert launcher, "mpiexec is missing: pip install 'cann_mla[test]', which brings mpi4py and mpich"
    return subprocess.run(
        [launcher, *options, "-n", str(ranks), sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("transport", "variant", "ranks"),
    [("mpi", "ring", 2), ("mpi", "ring", 4), ("mpi", "all_gather", 2), ("hccl", "ring", 3)],
)
def test_ranks_equal_one_call(transport: str, variant: str, ranks: int, problem: Any, tmp_path: Path) -> None:
    given = problem([300, 41], heads=4, kv_heads=2)
    names = ("query_split1", "query_split2", "key_split1", "key_split2", "value")
    arrays = zip(names, (*given.queries, *given.keys), strict=True)
    np.savez(tmp_path / "problem.npz", lengths=given.lengths, **{n: a.view(np.uint16) for n, a in arrays})
    done = mpiexec(ranks, "-m", "mpi4py", PROGRAM, transport, variant, tmp_path)
    assert done.returncode == 0, done.stderr
    shards = [np.load(tmp_path / f"{rank}.npz") for rank in range(ranks)]
    given.check([(s["output"].view(ml_dtypes.bfloat16), s["lse"]) for s in shards], merges=2 * ranks)


def test_a_message_that_never_comes() -> None:
    start = time.monotonic()
    done = mpiexec(2, "-m", "mpi4py", PROGRAM, "mpi", "silent")
    assert time.monotonic() - start < 40  # the silent rank sleeps for 60
    assert done.returncode != 0
    assert "ExchangeTimeoutError: rank 0 of 2 waited 1.5 s" in done.stderr
    assert "in step 0 of the ring, to send to rank 1 and to receive from rank 1" in done.stderr
    assert "went on" not in done.stdout


def test_a_rank_that_dies_over_mpi() -> None:
    # By default mpiexec ends all ranks with the dead one; here rank 0 has to notice by itself.
    done = mpiexec(2, "-m", "mpi4py", PROGRAM, "mpi", "dead", options=("-disable-auto-cleanup",))
    assert done.returncode != 0
    assert "rank 0 of 2" in done.stderr
    assert "ExchangeTimeoutError" in done.stderr or "ExchangeError" in done.stderr
    assert "went on" not in done.stdout


def test_a_rank_that_dies_over_hccl() -> None:
    done = mpiexec(2, "-m", "mpi4py", PROGRAM, "hccl", "dead", options=("-disable-auto-cleanup",))
    assert done.returncode != 0
    assert "ExchangeError: rank 0 of 2 failed in step 0 of the ring" in done.stderr
    assert "rank 1 is gone: its process has ended" in done.stderr
    assert "went on" not in done.stdout


def test_a_message_of_another_size_over_mpi() -> None:
    done = mpiexec(2, "-m", "mpi4py", PROGRAM, "mpi", "sizes")
    assert done.returncode != 0
    assert "ExchangeError: rank 0 of 2 received 8 bytes instead of 16 in step 0 of the ring" in done.stderr


def test_a_message_of_another_size_over_hccl() -> None:
    done = mpiexec(2, "-m", "mpi4py", PROGRAM, "hccl", "sizes")
    assert done.returncode != 0
    assert "the ranks do not call the same operation" in done.stderr
    assert "with 8 bytes" in done.stderr
    assert "with 16 bytes" in done.stderr


@pytest.mark.parametrize("transport", ["mpi", "hccl"])
def test_the_sample(transport: str) -> None:
    done = mpiexec(4, SAMPLE, "--exchange", transport)
    assert done.returncode == 0, done.stderr
    assert "the ring and one rank agree within 0.0" in done.stdout


def test_mpi_keeps_the_blocks_of_a_transfer_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    exchange = MpiExchange(MPI.COMM_SELF)
    block = np.zeros(1000, np.float32)
    alive = weakref.ref(block)
    pending = exchange._start("to wait for nobody", [], [(0, [block])], 7)
    with monkeypatch.context() as patch:
        patch.setattr("cann_mla.distributed.mpi.time.sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pending.wait()
    del block, pending
    gc.collect()
    held = alive()
    assert held is not None  # MPI writes to it as soon as the message comes
    exchange._start("to be late", [(0, [np.ones(1000, np.float32)])], [], 7).wait()
    left = [transfer for transfer in mpi._under_way if transfer._exchange is exchange]
    left[0].wait()
    assert (held == 1).all()
    left[0].wait()  # nothing left to do
    assert left[0] not in mpi._under_way


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cann_mla\[mpi\]'"):
        MpiExchange()
    with cann_mla.Device(0), pytest.raises(ModuleNotFoundError, match=r"HcclExchange\.over_mpi needs mpi4py"):
        HcclExchange.over_mpi()


def test_importing_the_package_does_not_import_mpi4py(tmp_path: Path) -> None:
    code = "import sys, cann_mla.distributed; assert 'mpi4py' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS, cwd=tmp_path)  # not the checkout's folder

"""C++ programs with ATB's Context, Operation and AtbRingMLA: bit for bit what the Python function gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import ops

BF16 = np.dtype(ml_dtypes.bfloat16)
QUERIES, KEYS, HEADS, KV_HEADS = 150, 70, 4, 2


def test_cpp_program_gives_the_bits_of_python(
    run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32).astype(BF16)

    arrays = {"querySplit1": normal(QUERIES, HEADS, 128), "querySplit2": normal(QUERIES, HEADS, 64)}
    for suffix, count in (("", QUERIES), ("Context", KEYS)):
        arrays[f"keySplit1{suffix}"] = normal(count, KV_HEADS, 128)
        arrays[f"keySplit2{suffix}"] = normal(count, KV_HEADS, 64)
        arrays[f"value{suffix}"] = normal(count, KV_HEADS, 128)
    arrays["mask"] = ops.ring_mla_mask(BF16)
    for name, array in arrays.items():
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    done = run_program("ring_mla", str(tmp_path), *map(str, (QUERIES, KEYS, HEADS, KV_HEADS)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    query = arrays["querySplit1"], arrays["querySplit2"]
    lengths = (QUERIES - 1, 1)
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        keys = [arrays[name] for name in ("keySplit1", "keySplit2", "value")]
        context = [arrays[f"{name}Context"] for name in ("keySplit1", "keySplit2", "value")]
        first = ops.ring_mla(*query, *keys, lengths, causal=True, qk_scale=0.0721688, stream=stream)
        merged = ops.ring_mla(*query, *context, lengths, (KEYS, 0), previous=first, qk_scale=0.0721688, stream=stream)
        stream.synchronize()
        output, lse = merged.output.to_numpy(), merged.softmax_lse.to_numpy()
    assert float(np.abs(output.astype(np.float32)).max()) > 0.1
    assert (tmp_path / "output.out").read_bytes() == output.tobytes()
    assert (tmp_path / "softmaxLse.out").read_bytes() == lse.tobytes()


def test_operations_with_variant_packs_give_the_bits_of_the_c_interface(
    run_program: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_program("ring_mla_operation")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

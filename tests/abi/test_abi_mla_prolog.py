"""A C++ program in the steps of CANN's MlaPrologV3 sample gives bit for bit what the Python interface gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import formats, ops

BF16 = np.dtype(ml_dtypes.bfloat16)
TOKENS, HE, HEADS = 8, 1024, 4
NZ = ("weightDq", "weightUqQr", "weightDkvKr")
OUTPUTS = {"queryOut": (TOKENS, 1, HEADS, 512), "queryRopeOut": (TOKENS, 1, HEADS, 64)}


def make_inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5)).astype(BF16)

    return {
        "tokenX": normal(TOKENS, 1, HE),
        "weightDq": normal(HE, 1536),
        "weightUqQr": normal(1536, HEADS * 192),
        "weightUk": normal(HEADS, 128, 512),
        "weightDkvKr": normal(HE, 576),
        "rmsnormGammaCq": normal(1536),
        "rmsnormGammaCkv": normal(512),
        "ropeSin": normal(TOKENS, 1, 64),
        "ropeCos": normal(TOKENS, 1, 64),
        "kvCacheRef": normal(1, 16, 1, 512),
        "krCacheRef": normal(1, 16, 1, 64),
        "cacheIndexOptional": rng.permutation(16)[:TOKENS].astype(np.int64).reshape(TOKENS, 1),
    }


def test_cpp_program_gives_the_bits_of_python(
    run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    inputs = make_inputs()
    for name, array in inputs.items():
        stored = formats.nz_pack(array) if name in NZ else array
        (tmp_path / f"{name}.bin").write_bytes(np.ascontiguousarray(stored).tobytes())
    for name, shape in OUTPUTS.items():
        (tmp_path / f"{name}.bin").write_bytes(np.zeros(shape, BF16).tobytes())
    done = run_program("mla_prolog_v3", str(tmp_path), str(TOKENS), str(HE), str(HEADS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    operands = {ops.snake_case(name): array for name, array in inputs.items()}
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla_prolog_v3(**operands, cache_mode="PA_BSND", stream=stream)
        stream.synchronize()
        expected = {
            "queryOut": result.query.to_numpy(),
            "queryRopeOut": result.query_rope.to_numpy(),
            "kvCacheRef": result.kv_cache,
            "krCacheRef": result.kr_cache,
        }
    assert float(np.abs(expected["queryOut"].astype(np.float32)).max()) > 0.1
    for name, array in expected.items():
        assert (tmp_path / f"{name}.out").read_bytes() == np.ascontiguousarray(array).tobytes(), name

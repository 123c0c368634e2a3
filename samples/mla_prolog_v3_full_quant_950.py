"""CANN's sample of aclnnMlaPrologV3WeightNz with full MX quantisation, for Ascend950, in Python.

Activations and weights are FLOAT8_E4M3FN with one FLOAT8_E8M0 scale for every 32 elements along the reduction; the
key cache is FLOAT8_E4M3FN with one scale for all, and the query is quantised token by token and head by head.
As in the C++ sample, step by step.

    CANN_MLA_SIM_SOC=Ascend950 python samples/mla_prolog_v3_full_quant_950.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result

from cann_mla import c

TOKENS, HE, HCQ, HEADS, D, HCKV, DR = 8, 7168, 1536, 128, 128, 512, 64
CACHE_BLOCKS, BLOCK_SIZE, MX_BLOCK = 1, 16, 32
COLUMNS = HEADS * (D + DR)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names."""
    rng = np.random.default_rng(13)

    def normal(kind: np.dtype, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(kind)

    def powers_of_two(exponent: int, *shape: int) -> np.ndarray:
        """Block scales near 2**exponent; an E8M0 byte is the exponent plus 127."""
        return rng.integers(exponent + 126, exponent + 129, shape).astype(np.uint8).view(E8M0)

    angles = rng.uniform(0, 2 * np.pi, (TOKENS, 1, DR // 2))
    return {
        "tokenX": normal(E4M3, TOKENS, 1, HE),
        "weightDq": normal(E4M3, HE, HCQ),
        "weightUqQr": normal(E4M3, HCQ, COLUMNS),
        "weightUk": normal(BFLOAT16, HEADS, D, HCKV, scale=D**-0.5),
        "weightDkvKr": normal(E4M3, HE, HCKV + DR),
        "rmsnormGammaCq": normal(BFLOAT16, HCQ),
        "rmsnormGammaCkv": normal(BFLOAT16, HCKV),
        "ropeSin": np.concatenate([np.sin(angles)] * 2, axis=-1).astype(BFLOAT16),
        "ropeCos": np.concatenate([np.cos(angles)] * 2, axis=-1).astype(BFLOAT16),
        "kvCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, HCKV), E4M3),
        "krCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, DR), BFLOAT16),
        "cacheIndexOptional": rng.permutation(BLOCK_SIZE)[:TOKENS].astype(np.int64).reshape(TOKENS, 1),
        "dequantScaleXOptional": powers_of_two(0, TOKENS, HE // MX_BLOCK),
        "dequantScaleWDqOptional": powers_of_two(-6, HCQ, HE // MX_BLOCK),
        "dequantScaleWUqQrOptional": powers_of_two(-5, COLUMNS, HCQ // MX_BLOCK),
        "dequantScaleWDkvKrOptional": powers_of_two(-6, HCKV + DR, HE // MX_BLOCK),
        "quantScaleCkvOptional": np.array([64.0], np.float32),
    }


def main(device_id: int = 0) -> None:
    """The C++ sample."""
    stream = init(device_id)
    soc = c.string(c.aclrtGetSocName())
    if not soc.startswith("Ascend950"):
        finish(stream, device_id)
        raise SystemExit(f"this sample needs an Ascend950, not {soc}; on the simulator set CANN_MLA_SIM_SOC=Ascend950")
    t = Operands()
    for name, host in make_inputs().items():
        t.create(name, host, nz=name in ("weightDq", "weightUqQr", "weightDkvKr"))
    t.create("queryOut", np.zeros((TOKENS, 1, HEADS, HCKV), E4M3))
    t.create("queryRopeOut", np.zeros((TOKENS, 1, HEADS, DR), BFLOAT16))
    t.create("dequantScaleQNopeOutOptional", np.zeros((TOKENS, HEADS, 1), np.float32))

    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    cache_mode = c.new("char[]", b"PA_BSND")
    weight_quant_mode, kv_quant_mode, query_quant_mode = 3, 1, 1
    status = c.aclnnMlaPrologV3WeightNzGetWorkspaceSize(
        t["tokenX"], t["weightDq"], t["weightUqQr"], t["weightUk"], t["weightDkvKr"],
        t["rmsnormGammaCq"], t["rmsnormGammaCkv"], t["ropeSin"], t["ropeCos"],
        t["kvCacheRef"], t["krCacheRef"], t["cacheIndexOptional"],
        t["dequantScaleXOptional"], t["dequantScaleWDqOptional"], t["dequantScaleWUqQrOptional"],
        t["dequantScaleWDkvKrOptional"], t["quantScaleCkvOptional"], c.NULL, c.NULL, c.NULL, c.NULL,
        1e-5, 1e-5, cache_mode, weight_quant_mode, kv_quant_mode, query_quant_mode, 0, 0, 128, 1.0, 1.0,
        t["queryOut"], t["queryRopeOut"], t["dequantScaleQNopeOutOptional"], c.NULL, c.NULL,
        workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnMlaPrologV3WeightNzGetWorkspaceSize")
    launch_and_wait("aclnnMlaPrologV3WeightNz", workspace_size[0], executor[0], stream)
    print_result(t.fetch("queryOut", np.zeros((TOKENS, 1, HEADS, HCKV), np.uint8)))
    scales = t.fetch("dequantScaleQNopeOutOptional", np.zeros((TOKENS, HEADS, 1), np.float32))
    print(f"scales of the query from {scales.min():.6f} to {scales.max():.6f}")
    t.destroy()
    finish(stream, device_id)


if __name__ == "__main__":
    main()

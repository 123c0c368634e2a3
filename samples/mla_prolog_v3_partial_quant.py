"""CANN's sample of aclnnMlaPrologV3WeightNz with partial quantisation and an INT8 cache, in Python.

weightUqQr is INT8, the normalised query is quantised token by token, and the caches are INT8 with a scale a channel.
The tokens of four sequences are fused (lengths 2, 3, 1 and 2, given as prefix sums), and each sequence writes to
cache blocks of its own. As in the C++ sample, step by step; then the same in one call.

    python samples/mla_prolog_v3_partial_quant.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result

import cann_mla
from cann_mla import c, ops

TOKENS, HE, HCQ, HEADS, D, HCKV, DR = 8, 7168, 1536, 128, 128, 512, 64
CACHE_BLOCKS, BLOCK_SIZE = 4, 16
COLUMNS = HEADS * (D + DR)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names."""
    rng = np.random.default_rng(11)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(BFLOAT16)

    def uniform(low: float, high: float, *shape: int) -> np.ndarray:
        return rng.uniform(low, high, shape).astype(np.float32)

    angles = rng.uniform(0, 2 * np.pi, (TOKENS, DR // 2))
    return {
        "tokenX": normal(TOKENS, HE),
        "weightDq": normal(HE, HCQ, scale=HE**-0.5),
        "weightUqQr": rng.integers(-127, 128, (HCQ, COLUMNS), np.int8),
        "weightUk": normal(HEADS, D, HCKV, scale=D**-0.5),
        "weightDkvKr": normal(HE, HCKV + DR, scale=HE**-0.5),
        "rmsnormGammaCq": normal(HCQ),
        "rmsnormGammaCkv": normal(HCKV),
        "ropeSin": np.concatenate([np.sin(angles)] * 2, axis=-1).astype(BFLOAT16),
        "ropeCos": np.concatenate([np.cos(angles)] * 2, axis=-1).astype(BFLOAT16),
        "kvCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, HCKV), np.int8),
        "krCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, DR), np.int8),
        "cacheIndexOptional": np.arange(CACHE_BLOCKS, dtype=np.int64),
        "dequantScaleWUqQrOptional": uniform(1e-4, 4e-4, 1, COLUMNS),
        "quantScaleCkvOptional": uniform(20, 40, 1, HCKV),
        "quantScaleCkrOptional": uniform(20, 40, 1, DR),
        "smoothScalesCqOptional": uniform(0.5, 1.5, 1, HCQ),
        "actualSeqLenOptional": np.array([2, 5, 6, 8], np.int32),
    }


def step_by_step(inputs: dict[str, np.ndarray], device_id: int = 0) -> np.ndarray:
    """The C++ sample. Returns the bit patterns of queryOut."""
    stream = init(device_id)
    t = Operands()
    for name, host in inputs.items():
        t.create(name, host, nz=name in ("weightDq", "weightUqQr", "weightDkvKr"))
    t.create("queryOut", np.zeros((TOKENS, HEADS, HCKV), BFLOAT16))
    t.create("queryRopeOut", np.zeros((TOKENS, HEADS, DR), BFLOAT16))
    t.create("queryNormOutOptional", np.zeros((TOKENS, HCQ), np.int8))
    t.create("dequantScaleQNormOutOptional", np.zeros((TOKENS, 1), np.float32))

    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    cache_mode = c.new("char[]", b"PA_BLK_BSND")
    weight_quant_mode, kv_quant_mode, query_quant_mode = 1, 2, 0
    status = c.aclnnMlaPrologV3WeightNzGetWorkspaceSize(
        t["tokenX"], t["weightDq"], t["weightUqQr"], t["weightUk"], t["weightDkvKr"],
        t["rmsnormGammaCq"], t["rmsnormGammaCkv"], t["ropeSin"], t["ropeCos"],
        t["kvCacheRef"], t["krCacheRef"], t["cacheIndexOptional"],
        c.NULL, c.NULL, t["dequantScaleWUqQrOptional"], c.NULL,
        t["quantScaleCkvOptional"], t["quantScaleCkrOptional"], t["smoothScalesCqOptional"],
        t["actualSeqLenOptional"], c.NULL,
        1e-5, 1e-5, cache_mode, weight_quant_mode, kv_quant_mode, query_quant_mode, 0, 0, 128, 1.0, 1.0,
        t["queryOut"], t["queryRopeOut"], c.NULL, t["queryNormOutOptional"], t["dequantScaleQNormOutOptional"],
        workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnMlaPrologV3WeightNzGetWorkspaceSize")
    launch_and_wait("aclnnMlaPrologV3WeightNz", workspace_size[0], executor[0], stream)
    result = t.fetch("queryOut", np.zeros((TOKENS, HEADS, HCKV), np.uint16))
    print_result(result)
    t.destroy()
    finish(stream, device_id)
    return result


def in_one_call(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The same with the scenario by its name. Returns the bit patterns of queryOut."""
    operands = {ops.snake_case(name): array for name, array in inputs.items()}
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla_prolog_v3(
            **operands,
            quant="partial_int8_kv_per_channel",
            cache_mode="PA_BLK_BSND",
            with_query_norm=True,
            stream=stream,
        )
        stream.synchronize()
        return result.query.to_numpy().view(np.uint16)


def main() -> None:
    """Run both ways and compare."""
    inputs = make_inputs()
    # The call below updates the caches it is given, so that each way gets its own.
    by_steps = step_by_step(inputs)
    by_objects = in_one_call(inputs)
    if not np.array_equal(by_steps, by_objects):
        raise SystemExit("the two ways disagree")
    rows = inputs["kvCacheRef"].reshape(-1, HCKV).any(axis=1)
    print(f"both ways agree in all {by_steps.size} elements of queryOut; {rows.sum()} cache rows were written")


if __name__ == "__main__":
    main()

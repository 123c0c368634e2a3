"""CANN's own sample of aclnnMlaPrologV3WeightNz, in Python: first step by step, then in a few lines.

The first half is the C++ sample moved over call by call: the same functions under the same names, the same shapes,
the same steps and the same kind of lines printed. Only the data differ: the C++ sample fills its tensors with zeros,
this one with random numbers, so that there is something to see. The second half does the same work with the objects
of ``cann_mla`` and compares the two results bit for bit.

    python samples/mla_prolog_v3.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result

import cann_mla
from cann_mla import c, ops

TOKENS, HE, HCQ, HEADS, D, HCKV, DR = 8, 7168, 1536, 128, 128, 512, 64
CACHE_BLOCKS, BLOCK_SIZE = 1, 16
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names; weights as plain matrices, to be packed later."""
    rng = np.random.default_rng(7)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(BFLOAT16)

    angles = rng.uniform(0, 2 * np.pi, (TOKENS, 1, DR // 2))
    return {
        "tokenX": normal(TOKENS, 1, HE),
        "weightDq": normal(HE, HCQ, scale=HE**-0.5),
        "weightUqQr": normal(HCQ, HEADS * (D + DR), scale=HCQ**-0.5),
        "weightUk": normal(HEADS, D, HCKV, scale=D**-0.5),
        "weightDkvKr": normal(HE, HCKV + DR, scale=HE**-0.5),
        "rmsnormGammaCq": normal(HCQ),
        "rmsnormGammaCkv": normal(HCKV),
        "ropeSin": np.concatenate([np.sin(angles)] * 2, axis=-1).astype(BFLOAT16),
        "ropeCos": np.concatenate([np.cos(angles)] * 2, axis=-1).astype(BFLOAT16),
        "kvCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, HCKV), BFLOAT16),
        "krCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, DR), BFLOAT16),
        "cacheIndexOptional": rng.permutation(BLOCK_SIZE)[:TOKENS].astype(np.int64).reshape(TOKENS, 1),
    }


def step_by_step(inputs: dict[str, np.ndarray], device_id: int = 0) -> np.ndarray:
    """The C++ sample. Returns the bit patterns of queryOut."""
    # 1. Initialise, choose a device, make a stream.
    stream = init(device_id)

    # 2. Make the operands. Three weights are stored in FRACTAL_NZ and described by their 4-D block shape.
    t = Operands()
    for name, host in inputs.items():
        t.create(name, host, nz=name in ("weightDq", "weightUqQr", "weightDkvKr"))
    t.create("queryOut", np.zeros((TOKENS, 1, HEADS, HCKV), BFLOAT16))
    t.create("queryRopeOut", np.zeros((TOKENS, 1, HEADS, DR), BFLOAT16))

    # 3. Phase one: how much workspace, and an executor.
    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    cache_mode = c.new("char[]", b"PA_BSND")
    status = c.aclnnMlaPrologV3WeightNzGetWorkspaceSize(
        t["tokenX"], t["weightDq"], t["weightUqQr"], t["weightUk"], t["weightDkvKr"],
        t["rmsnormGammaCq"], t["rmsnormGammaCkv"], t["ropeSin"], t["ropeCos"],
        t["kvCacheRef"], t["krCacheRef"], t["cacheIndexOptional"],
        c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL,
        1e-5, 1e-5, cache_mode, 0, 0, 0, 0, 0, 128, 1.0, 1.0,
        t["queryOut"], t["queryRopeOut"], c.NULL, c.NULL, c.NULL,
        workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnMlaPrologV3WeightNzGetWorkspaceSize")

    # 4. Phase two, and wait.
    launch_and_wait("aclnnMlaPrologV3WeightNz", workspace_size[0], executor[0], stream)

    # 5. Fetch the result.
    result = t.fetch("queryOut", np.zeros((TOKENS, 1, HEADS, HCKV), np.uint16))
    print_result(result)

    # 6. Give everything back.
    t.destroy()
    finish(stream, device_id)
    return result


def in_a_few_lines(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The same through :func:`cann_mla.ops.mla_prolog_v3`. Returns the bit patterns of queryOut."""
    operands = {ops.snake_case(name): array for name, array in inputs.items()}
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla_prolog_v3(**operands, cache_mode="PA_BSND", stream=stream)
        stream.synchronize()
        return result.query.to_numpy().view(np.uint16)


def main() -> None:
    """Run both halves and compare."""
    inputs = make_inputs()
    by_steps = step_by_step(inputs)
    by_objects = in_a_few_lines(inputs)
    if not np.array_equal(by_steps, by_objects):
        raise SystemExit("the two ways disagree")
    print(f"both ways agree in all {by_steps.size} elements of queryOut")


if __name__ == "__main__":
    main()

"""ATB's demo of the MLA prolog with INT8 projections, in Python: first step by step, then in a few lines.

The steps are those of the C++ demo mla_preprocess, at its sizes: four tokens of DeepSeek-V3 with 128 heads, into an
INT8 cache of 64 blocks. The demo makes its operation from a C++ struct; here it is the C function AtbMLAPreprocess,
whose parameters are the fields of the struct. The data are random numbers instead of zeros. The second half does the
same with :func:`cann_mla.ops.mla_preprocess`, and both must agree bit for bit.

    python samples/mla_preprocess.py
"""

from __future__ import annotations

import numpy as np
from acl_steps import Operands, check, print_result

import cann_mla
from cann_mla import c, ops
from cann_mla.atb import AtbContext

TOKENS, HEADS, HIDDEN, Q_LORA = 4, 128, 7168, 1536
LATENT, NOPE, ROPE = 512, 128, 64
DOWN, UP = LATENT + ROPE + Q_LORA, HEADS * (NOPE + ROPE)
BLOCKS, BLOCK = 64, 128
INT8_NZCACHE, PER_TENSOR_ASYMM = 2, 0
RUNS = 10
# 24 inputs in the order of the C function; those in FRACTAL_NZ apart.
INPUTS = (
    "input", "gamma0", "beta0", "quantScale0", "quantOffset0", "wdqkv", "deScale0", "bias0", "gamma1", "beta1",
    "quantScale1", "quantOffset1", "wuq", "deScale1", "bias1", "gamma2", "cos", "sin", "wuk", "kvCache", "kvCacheRope",
    "slotmapping", "ctkvScale", "qNopeScale",
)  # fmt: skip
BLOCKED = ("wdqkv", "wuq", "wuk", "kvCache", "kvCacheRope")


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names; weights and caches in blocks."""
    rng = np.random.default_rng(13)

    def normal(*shape: int, spread: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(spread)).astype(np.float16)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape, np.int8)

    inputs = {
        "input": normal(TOKENS, HIDDEN), "gamma2": normal(LATENT), "cos": normal(TOKENS, ROPE),
        "sin": normal(TOKENS, ROPE), "slotmapping": np.arange(TOKENS, dtype=np.int32),
        "wdqkv": integers(1, HIDDEN // 32, DOWN, 32), "wuq": integers(1, Q_LORA // 32, UP, 32),
        "wuk": normal(HEADS, LATENT // 16, NOPE, 16, spread=0.05),
        "kvCache": np.zeros((BLOCKS, LATENT // 32, BLOCK, 32), np.int8),
        "kvCacheRope": np.zeros((BLOCKS, ROPE // 16, BLOCK, 16), np.float16),
        "ctkvScale": np.array([0.02], np.float16), "qNopeScale": np.full(HEADS, 20, np.float16),
    }  # fmt: skip
    for number, (width, channels) in enumerate(((HIDDEN, DOWN), (Q_LORA, UP))):
        inputs[f"gamma{number}"], inputs[f"beta{number}"] = normal(width), normal(width, spread=0.1)
        inputs[f"quantScale{number}"] = np.array([0.03], np.float16)
        inputs[f"quantOffset{number}"] = np.array([1], np.int8)
        inputs[f"bias{number}"] = rng.integers(-500, 500, channels).astype(np.int32)
        # For an FP16 input, INT64 with the bits of a float32.
        inputs[f"deScale{number}"] = ops.scale_bits(rng.uniform(2e-6, 4e-6, channels).astype(np.float32))
    return inputs


def step_by_step(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The C++ program. Returns qOut0, qOut1 and the two caches."""
    q_out0, q_out1 = np.zeros((TOKENS, HEADS, LATENT), np.int8), np.zeros((TOKENS, HEADS, ROPE), np.float16)
    with cann_mla.Device(0), cann_mla.Stream() as stream, AtbContext() as context:
        # 1. Operands on the device. The caches are outputs too: the same tensors twice.
        t = Operands()
        for name in INPUTS:
            t.create(name, inputs[name], blocks=name in BLOCKED)
        t.create("qOut0", q_out0)
        t.create("qOut1", q_out1)

        # 2. Phase one makes the operation and says how much workspace it needs. ATB reserves the nine numbers.
        workspace_size, operation = c.new("uint64_t *"), c.new("atb_Operation **")
        status = c.AtbMLAPreprocessGetWorkspaceSize(
            *(t[name] for name in INPUTS), 0, 0, 0, 1e-5, 2, 2, True, True, True, INT8_NZCACHE, PER_TENSOR_ASYMM,
            t["qOut0"], t["kvCache"], t["qOut1"], t["kvCacheRope"], workspace_size, operation, context.handle,
        )  # fmt: skip
        check(status, "AtbMLAPreprocessGetWorkspaceSize")
        workspace = c.new("void **")
        if workspace_size[0] > 0:
            check(c.aclrtMalloc(workspace, workspace_size[0], c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")

        # 3. Phase two, again and again with the same operation.
        context.use_stream(stream)
        for run in range(RUNS):
            print(f"tokenNum: {TOKENS} headNum: {HEADS} loop: {run}")
            status = c.AtbMLAPreprocess(workspace[0], workspace_size[0], operation[0], context.handle)
            check(status, "AtbMLAPreprocess")
            check(c.aclrtSynchronizeStream(stream.handle), "aclrtSynchronizeStream")
        results = [t.fetch("qOut0", q_out0), t.fetch("qOut1", q_out1)]
        results += [t.fetch(name, np.zeros_like(inputs[name])) for name in ("kvCache", "kvCacheRope")]

        # 4. Give everything back, the operation before its context.
        context.destroy_operation(operation[0])
        if workspace_size[0] > 0:
            check(c.aclrtFree(workspace[0]), "aclrtFree")
        t.destroy()
    print_result(results[0], 4)
    return results


def in_a_few_lines(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The same through :func:`cann_mla.ops.mla_preprocess`, whose names are those of C with underscores."""
    operands = {ops.snake_case(name): array for name, array in inputs.items()}
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla_preprocess(**operands, stream=stream)  # updates the caches, which are arrays
        return [result.q_out0.to_numpy(), result.q_out1.to_numpy(), operands["kv_cache"], operands["kv_cache_rope"]]


def main() -> None:
    """Run both halves and compare."""
    inputs = make_inputs()
    by_steps, by_objects = step_by_step(inputs), in_a_few_lines(inputs)
    for one, other in zip(by_steps, by_objects, strict=True):
        if one.tobytes() != other.tobytes():
            raise SystemExit("the two ways disagree")
    rows = int(by_steps[2].any(axis=(1, 3)).sum())
    print(f"both ways agree in all {by_steps[0].size} elements of qOut0; {rows} cache rows were written")


if __name__ == "__main__":
    main()

"""ATB's two demos of latent attention while decoding, in Python: first step by step, then in a few lines.

The steps are those of the C++ demos multi_latent_attention, at their sizes: four sequences with 1500 keys in an INT8
cache, then 32 with a cache of FP16. The demos make their operation from a C++ struct; here it is the C function
AtbMLA, whose parameters are the fields of the struct. The data are random numbers instead of constants. The second half
does the same with :func:`cann_mla.ops.mla`, and both must agree bit for bit.

    python samples/mla.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from acl_steps import Operands, check, print_result

import cann_mla
from cann_mla import c, ops
from cann_mla.atb import AtbContext

BLOCK = 128
LATENT, ROPE = 512, 64
NO_MASK, DECODE, KV_HEADS = 0, 0, 1
RUNS = 2
BLOCKED = ("ctKV", "kRope")


class Demo(NamedTuple):
    """What distinguishes the two demos."""

    name: str
    batch: int
    heads: int
    keys: int
    scale: float
    cache_mode: int

    @property
    def int8(self) -> bool:
        """Whether queries and cache are INT8, the latter in blocks."""
        return self.cache_mode == 2


DEMOS = (
    Demo("mlapa_demo", 4, 128, 1500, 1 / (LATENT + ROPE) ** 0.5, 2),
    Demo("mlapa_ds_demo", 32, 128, 526, 0.1352667747812271, 1),
)


def make_inputs(demo: Demo) -> dict[str, np.ndarray]:
    """Random operands by their C names."""
    rng = np.random.default_rng(11)
    pages = -(-demo.keys // BLOCK)
    count = demo.batch * pages

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32).astype(np.float16)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape, np.int8)

    inputs = {
        "qRope": normal(demo.batch, demo.heads, ROPE),
        "blockTables": np.arange(count, dtype=np.int32).reshape(demo.batch, pages),
    }
    if not demo.int8:
        inputs["qNope"] = normal(demo.batch, demo.heads, LATENT)
        inputs["ctKV"], inputs["kRope"] = normal(count, BLOCK, 1, LATENT), normal(count, BLOCK, 1, ROPE)
        return inputs
    inputs["qNope"] = integers(demo.batch, demo.heads, LATENT)
    inputs["ctKV"] = integers(count, LATENT // 32, BLOCK, 32)
    inputs["kRope"] = normal(count, ROPE // 16, BLOCK, 16)
    for name in ("qkDescale", "pvDescale"):
        inputs[name] = rng.uniform(1e-4, 3e-4, demo.heads).astype(np.float32)
    return inputs


def step_by_step(demo: Demo, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The C++ program. Returns attenOut."""
    with cann_mla.Device(0), cann_mla.Stream() as stream, AtbContext() as context:
        # 1. Operands on the device; the lengths stay on the host, where ATB reads them in setup.
        t = Operands()
        for name, host in inputs.items():
            t.create(name, host, blocks=demo.int8 and name in BLOCKED)
        t.create("attenOut", np.zeros((demo.batch, demo.heads, LATENT), np.float16))
        lengths = np.full(demo.batch, demo.keys, np.int32)
        shape = c.new("int64_t[]", [demo.batch])
        context_lens = c.aclCreateTensor(
            shape, 1, c.ACL_INT32, c.NULL, 0, c.ACL_FORMAT_ND, c.NULL, 0, c.address(lengths)
        )

        # 2. Phase one makes the operation and says how much workspace it needs.
        descales = [t[name] if demo.int8 else c.NULL for name in ("qkDescale", "pvDescale")]
        workspace_size, operation = c.new("uint64_t *"), c.new("atb_Operation **")
        status = c.AtbMLAGetWorkspaceSize(
            t["qNope"], t["qRope"], t["ctKV"], t["kRope"], t["blockTables"], context_lens, c.NULL, c.NULL, *descales,
            demo.heads, demo.scale, KV_HEADS, NO_MASK, DECODE, demo.cache_mode, t["attenOut"], c.NULL,
            workspace_size, operation, context.handle,
        )  # fmt: skip
        check(status, "AtbMLAGetWorkspaceSize")
        workspace = c.new("void **")
        if workspace_size[0] > 0:
            check(c.aclrtMalloc(workspace, workspace_size[0], c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")

        # 3. Phase two, twice with the same operation.
        context.use_stream(stream)
        for run in range(RUNS):
            print(f"tokenNum: {demo.batch} headNum: {demo.heads} loop: {run}")
            check(c.AtbMLA(workspace[0], workspace_size[0], operation[0], context.handle), "AtbMLA")
            check(c.aclrtSynchronizeStream(stream.handle), "aclrtSynchronizeStream")
        result = t.fetch("attenOut", np.zeros((demo.batch, demo.heads, LATENT), np.float16))

        # 4. Give everything back, the operation before its context.
        context.destroy_operation(operation[0])
        if workspace_size[0] > 0:
            check(c.aclrtFree(workspace[0]), "aclrtFree")
        c.aclDestroyTensor(context_lens)
        t.destroy()
    print_result(result, 4)
    return result


def in_a_few_lines(demo: Demo, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The same through :func:`cann_mla.ops.mla`."""
    operands = [inputs[name] for name in ("qNope", "qRope", "ctKV", "kRope", "blockTables")]
    scales: dict[str, Any] = {"qk_descale": inputs.get("qkDescale"), "pv_descale": inputs.get("pvDescale")}
    lengths = [demo.keys] * demo.batch
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla(*operands, lengths, qk_scale=demo.scale, **scales, stream=stream)
        stream.synchronize()
        return result.atten.to_numpy()


def main() -> None:
    """Run both halves of both demos and compare."""
    elements = []
    for demo in DEMOS:
        inputs = make_inputs(demo)
        by_steps, by_objects = step_by_step(demo, inputs), in_a_few_lines(demo, inputs)
        if by_steps.tobytes() != by_objects.tobytes():
            raise SystemExit(f"{demo.name}: the two ways disagree")
        elements.append(by_steps.size)
    print(f"both ways agree in all {elements[0]} elements of attenOut with an INT8 cache and {elements[1]} with FP16")


if __name__ == "__main__":
    main()

"""ATB's own test of AtbRingMLA through its C interface, in Python: first step by step, then in a few lines.

The first half does the steps of the C++ program call by call, with the same functions, lengths and head counts; only
the data are random numbers instead of what memory holds. It has two rounds: a first one over causal keys, and a second
one over other keys, merged into the result of the first. The context is a C++ object of ATB, which the first half makes
with :class:`cann_mla.atb.AtbContext`; everything else is a C function. The second half does the same with
:func:`cann_mla.ops.ring_mla`, and both must agree bit for bit.

    python samples/ring_mla.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, print_result

import cann_mla
from cann_mla import c, ops
from cann_mla.atb import AtbContext

HEADS, KV_HEADS, NOPE, ROPE = 16, 8, 128, 64
QUERIES, CONTEXT = (100, 100), (200, 200)
SCALE = 0.0887
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FIRST_RING, MERGE, TRIU, NO_MASK, HIGH_PRECISION, BSND = 1, 0, 1, 0, 1, 0


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names; those of the second round end with Context."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32).astype(BFLOAT16)

    inputs = {"querySplit1": normal(sum(QUERIES), HEADS, NOPE), "querySplit2": normal(sum(QUERIES), HEADS, ROPE)}
    for suffix, tokens in (("", sum(QUERIES)), ("Context", sum(CONTEXT))):
        inputs[f"keySplit1{suffix}"] = normal(tokens, KV_HEADS, NOPE)
        inputs[f"keySplit2{suffix}"] = normal(tokens, KV_HEADS, ROPE)
        inputs[f"value{suffix}"] = normal(tokens, KV_HEADS, NOPE)
    return inputs | {"mask": ops.ring_mla_mask(BFLOAT16)}


def one_round(t: Operands, suffix: str, lengths: np.ndarray, context: AtbContext, stream: cann_mla.Stream) -> None:
    """One call: setup, workspace, execute, wait, destroy the operation."""
    first = not suffix
    # 1. The lengths lie on the host; ATB reads them in setup.
    shape = c.new("int64_t[]", list(lengths.shape))
    seq_len = c.aclCreateTensor(shape, 2, c.ACL_INT32, c.NULL, 0, c.ACL_FORMAT_ND, c.NULL, 0, c.address(lengths))

    # 2. Phase one makes the operation and says how much workspace it needs.
    workspace_size, operation = c.new("uint64_t *"), c.new("atb_Operation **")
    status = c.AtbRingMLAGetWorkspaceSize(
        t["querySplit1"], t["querySplit2"], t[f"keySplit1{suffix}"], t[f"keySplit2{suffix}"], t[f"value{suffix}"],
        t["mask"], seq_len, c.NULL if first else t["output"], c.NULL if first else t["softmaxLse"],
        HEADS, KV_HEADS, SCALE, HIGH_PRECISION, TRIU if first else NO_MASK, BSND, FIRST_RING if first else MERGE,
        t["output"], t["softmaxLse"], workspace_size, operation, context.handle,
    )  # fmt: skip
    check(status, "AtbRingMLAGetWorkspaceSize")

    # 3. Phase two, on the stream of the context.
    workspace = c.new("void **")
    check(c.aclrtMalloc(workspace, workspace_size[0], c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")
    context.use_stream(stream)
    check(c.AtbRingMLA(workspace[0], workspace_size[0], operation[0], context.handle), "AtbRingMLA")
    check(c.aclrtSynchronizeStream(stream.handle), "aclrtSynchronizeStream")

    # 4. Give back what the round has made.
    context.destroy_operation(operation[0])
    check(c.aclrtFree(workspace[0]), "aclrtFree")
    c.aclDestroyTensor(seq_len)


def step_by_step(inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The C++ program. Returns output and softmaxLse."""
    with cann_mla.Device(0), cann_mla.Stream() as stream, AtbContext() as context:
        t = Operands()
        for name, host in inputs.items():
            t.create(name, host)
        t.create("output", np.zeros((sum(QUERIES), HEADS, NOPE), BFLOAT16))
        t.create("softmaxLse", np.zeros((HEADS, sum(QUERIES)), np.float32))
        one_round(t, "", np.array([QUERIES, QUERIES], np.int32), context, stream)
        one_round(t, "Context", np.array([QUERIES, CONTEXT], np.int32), context, stream)
        output = t.fetch("output", np.zeros((sum(QUERIES), HEADS, NOPE), BFLOAT16))
        lse = t.fetch("softmaxLse", np.zeros((HEADS, sum(QUERIES)), np.float32))
        t.destroy()
    print_result(lse, 8)
    return output, lse


def in_a_few_lines(inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same through :func:`cann_mla.ops.ring_mla`."""
    query = inputs["querySplit1"], inputs["querySplit2"]
    keys, context = ([inputs[f"{n}{s}"] for n in ("keySplit1", "keySplit2", "value")] for s in ("", "Context"))
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.ring_mla(*query, *keys, QUERIES, causal=True, qk_scale=SCALE, stream=stream)
        result = ops.ring_mla(*query, *context, QUERIES, CONTEXT, previous=result, qk_scale=SCALE, stream=stream)
        stream.synchronize()
        return result.output.to_numpy(), result.softmax_lse.to_numpy()


def main() -> None:
    """Run both halves and compare."""
    inputs = make_inputs()
    by_steps = step_by_step(inputs)
    by_objects = in_a_few_lines(inputs)
    for one, other in zip(by_steps, by_objects, strict=True):
        if one.tobytes() != other.tobytes():
            raise SystemExit("the two ways disagree")
    print(f"both ways agree in all {by_steps[0].size} elements of output and {by_steps[1].size} of softmaxLse")


if __name__ == "__main__":
    main()

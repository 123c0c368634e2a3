"""CANN's sample of aclnnFusedInferAttentionScoreV4 with an INT8 output, in Python.

The output is multiplied with one scale and rounded to INT8. The C++ sample moved over call by call; only the data are
random instead of ones.

    python samples/fused_infer_attention_v4_gqa_postquant.py
"""

from __future__ import annotations

import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result
from plain_attention import attention, compare

from cann_mla import c

BATCH, HEADS, KEY_HEADS, ROWS, COLUMNS, D = 1, 2, 1, 1, 16, 128
SCALE = D**-0.5


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names."""
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float16)

    return {
        "query": normal(BATCH, HEADS, ROWS, D),
        "key": normal(BATCH, KEY_HEADS, COLUMNS, D),
        "value": normal(BATCH, KEY_HEADS, COLUMNS, D),
        "quantScale2": np.array([64.0], np.float32),
    }


def main(device_id: int = 0) -> None:
    """The C++ sample."""
    # 1. Initialise, choose a device, make a stream.
    stream = init(device_id)

    # 2. Make the operands: key and value are lists of one tensor. Then the attributes.
    inputs = make_inputs()
    t = Operands()
    for name, host in inputs.items():
        (t.create_list if name in ("key", "value") else t.create)(name, host)
    t.create("attentionOut", np.zeros((BATCH, HEADS, ROWS, D), np.int8))
    num_heads, num_key_value_heads, scale_value = HEADS, KEY_HEADS, SCALE
    pre_tokens = next_tokens = 2147483647
    input_layout = c.new("char[]", b"BNSD")
    sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag = 0, 0, 0, 0, False
    key_antiquant_mode, value_antiquant_mode, query_quant_mode = 0, 0, 0

    # 3. Phase one: how much workspace, and an executor.
    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    status = c.aclnnFusedInferAttentionScoreV4GetWorkspaceSize(
        t["query"], t["key"], t["value"],
        c.NULL, c.NULL, c.NULL, c.NULL,  # pseShift, attenMask, actualSeqLengths, actualSeqLengthsKv
        c.NULL, c.NULL, c.NULL, t["quantScale2"], c.NULL,  # deqScale1, quantScale1, deqScale2, quantScale2, ...Offset2
        c.NULL, c.NULL, c.NULL,  # antiquantScale, antiquantOffset, blockTable
        c.NULL, c.NULL,  # queryPaddingSize, kvPaddingSize
        c.NULL, c.NULL, c.NULL, c.NULL,  # scale and offset of key and value
        c.NULL, c.NULL, c.NULL,  # keySharedPrefix, valueSharedPrefix, actualSharedPrefixLen
        c.NULL, c.NULL, c.NULL,  # queryRope, keyRope, keyRopeAntiquantScale
        c.NULL, c.NULL,  # dequantScaleQuery, learnableSink
        num_heads, scale_value, pre_tokens, next_tokens, input_layout, num_key_value_heads,
        sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag,
        key_antiquant_mode, value_antiquant_mode, query_quant_mode,
        t["attentionOut"], c.NULL, workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnFusedInferAttentionScoreV4GetWorkspaceSize")

    # 4. Phase two, and wait.
    launch_and_wait("aclnnFusedInferAttentionScoreV4", workspace_size[0], executor[0], stream)

    # 5. Fetch the result.
    result = t.fetch("attentionOut", np.zeros((BATCH, HEADS, ROWS, D), np.int8))
    print_result(result)

    # 6. Give everything back.
    t.destroy()
    finish(stream, device_id)
    scaled = attention(inputs["query"], inputs["key"], inputs["value"], SCALE) * inputs["quantScale2"]
    compare(result, np.clip(np.rint(scaled), -128, 127), tolerance=1.0)  # a step where a value lies between two


if __name__ == "__main__":
    main()

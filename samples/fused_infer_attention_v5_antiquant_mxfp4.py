"""CANN's sample of aclnnFusedInferAttentionScoreV5 with MXFP4 keys and values, for Ascend950, in Python.

Keys and values are FLOAT4_E2M1, two a byte, with a FLOAT8_E8M0 scale (a power of two) for every 32 channels of a token.
The C++ sample moved over call by call; only the data are random instead of ones.

    CANN_MLA_SIM_SOC=Ascend950 python samples/fused_infer_attention_v5_antiquant_mxfp4.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result
from plain_attention import attention, compare

from cann_mla import c

BATCH, HEADS, KEY_HEADS, ROWS, COLUMNS, D, GROUP = 1, 2, 2, 2, 2, 32, 32
SCALE = D**-0.5


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names. FLOAT4_E2M1 is one element an item here, and packed on the way."""
    rng = np.random.default_rng(7)
    stored = rng.standard_normal((2, BATCH, KEY_HEADS, COLUMNS, D)).astype(ml_dtypes.float4_e2m1fn)
    exponents = rng.integers(-1, 2, (2, 1, BATCH, KEY_HEADS, COLUMNS, D // GROUP))
    scales = (2.0**exponents).astype(ml_dtypes.float8_e8m0fnu)
    return {
        "query": rng.standard_normal((BATCH, HEADS, ROWS, D)).astype(np.float16),
        "key": stored[0],
        "value": stored[1],
        "keyAntiquantScale": scales[0],
        "valueAntiquantScale": scales[1],
    }


def main(device_id: int = 0) -> None:
    """The C++ sample."""
    # 1. Initialise, choose a device, make a stream.
    stream = init(device_id)
    soc = c.string(c.aclrtGetSocName())
    if not soc.startswith("Ascend950"):
        finish(stream, device_id)
        raise SystemExit(f"this sample needs an Ascend950, not {soc}; on the simulator set CANN_MLA_SIM_SOC=Ascend950")

    # 2. Make the operands: key and value are lists of one tensor. Then the attributes.
    inputs = make_inputs()
    t = Operands()
    for name, host in inputs.items():
        (t.create_list if name in ("key", "value") else t.create)(name, host)
    t.create("attentionOut", np.zeros((BATCH, HEADS, ROWS, D), np.float16))
    num_heads, num_key_value_heads, scale_value = HEADS, KEY_HEADS, SCALE
    pre_tokens = next_tokens = 2147483647
    input_layout = c.new("char[]", b"BNSD")
    sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag = 0, 1, 0, 0, False
    key_antiquant_mode, value_antiquant_mode, query_quant_mode = 6, 6, 0
    pse_type = 0

    # 3. Phase one: how much workspace, and an executor.
    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    status = c.aclnnFusedInferAttentionScoreV5GetWorkspaceSize(
        t["query"], t["key"], t["value"],
        c.NULL, c.NULL, c.NULL, c.NULL,  # pseShift, attenMask, actualSeqLengths, actualSeqLengthsKv
        c.NULL, c.NULL, c.NULL, c.NULL, c.NULL,  # deqScale1, quantScale1, deqScale2, quantScale2, ...Offset2
        c.NULL, c.NULL, c.NULL,  # antiquantScale, antiquantOffset, blockTable
        c.NULL, c.NULL,  # queryPaddingSize, kvPaddingSize
        t["keyAntiquantScale"], c.NULL, t["valueAntiquantScale"], c.NULL,  # scale and offset of key and value
        c.NULL, c.NULL, c.NULL,  # keySharedPrefix, valueSharedPrefix, actualSharedPrefixLen
        c.NULL, c.NULL, c.NULL,  # queryRope, keyRope, keyRopeAntiquantScale
        c.NULL, c.NULL, c.NULL, c.NULL,  # dequantScaleQuery, learnableSink, qStartIdx, kvStartIdx
        num_heads, scale_value, pre_tokens, next_tokens, input_layout, num_key_value_heads,
        sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag,
        key_antiquant_mode, value_antiquant_mode, query_quant_mode, pse_type,
        t["attentionOut"], c.NULL, workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnFusedInferAttentionScoreV5GetWorkspaceSize")

    # 4. Phase two, and wait.
    launch_and_wait("aclnnFusedInferAttentionScoreV5", workspace_size[0], executor[0], stream)

    # 5. Fetch the result.
    result = t.fetch("attentionOut", np.zeros((BATCH, HEADS, ROWS, D), np.float16))
    print_result(result)

    # 6. Give everything back.
    t.destroy()
    finish(stream, device_id)
    scales = [np.repeat(inputs[f"{n}AntiquantScale"][0].astype(np.float64), GROUP, axis=-1) for n in ("key", "value")]
    key, value = inputs["key"].astype(np.float64) * scales[0], inputs["value"].astype(np.float64) * scales[1]
    compare(result, attention(inputs["query"], key, value, SCALE), tolerance=0.005)


if __name__ == "__main__":
    main()

"""CANN's sample of aclnnFusedInferAttentionScoreV5 with MXFP8 throughout, for Ascend950, in Python.

Query, keys and values are FLOAT8_E4M3FN with a FLOAT8_E8M0 scale (a power of two) for every 32 elements: along the
channels for query and keys, along the tokens of a sequence for values. Five sequences lie one behind the other (TND);
their lengths are prefix sums. The C++ sample moved over call by call; only the data are random instead of ones.

    CANN_MLA_SIM_SOC=Ascend950 python samples/fused_infer_attention_v5_full_quant.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from acl_steps import Operands, check, finish, init, launch_and_wait, print_result
from plain_attention import attention, compare

from cann_mla import c

TOKENS, HEADS, KEY_HEADS, D, GROUP = 64, 2, 2, 64, 32
ENDS = (4, 8, 16, 32, 64)
SCALE = D**-0.5


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands by their C names."""
    rng = np.random.default_rng(8)

    def stored() -> np.ndarray:
        return rng.standard_normal((TOKENS, HEADS, D)).astype(ml_dtypes.float8_e4m3fn)

    def powers_of_two(*shape: int) -> np.ndarray:
        return (2.0 ** rng.integers(-1, 2, shape)).astype(ml_dtypes.float8_e8m0fnu)

    return {
        "query": stored(),
        "key": stored(),
        "value": stored(),
        "dequantScaleQuery": powers_of_two(TOKENS, HEADS, D // 64, 2),
        "keyAntiquantScale": powers_of_two(TOKENS, KEY_HEADS, D // 64, 2),
        "valueAntiquantScale": powers_of_two(len(ENDS), KEY_HEADS, D, 2),  # 64 tokens a row, begun anew by sequence
        "quantScale1": np.array([1.0], np.float32),
    }


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The five sequences one after the other, dequantised; numerators are not rounded to FP8 here."""
    query, key = (
        inputs[n].astype(np.float64) * np.repeat(inputs[s].astype(np.float64)[..., 0, :], GROUP, axis=-1)
        for n, s in (("query", "dequantScaleQuery"), ("key", "keyAntiquantScale"))
    )
    outputs = []
    for row, (begin, end) in enumerate(zip((0, *ENDS), ENDS, strict=False)):
        scale = inputs["valueAntiquantScale"][row].astype(np.float64)  # (heads, channels, halves of 64 tokens)
        by_token = np.repeat(scale.transpose(2, 0, 1), GROUP, axis=0)[: end - begin]
        value = inputs["value"][begin:end].astype(np.float64) * by_token
        own = [x.transpose(1, 0, 2)[None] for x in (query[begin:end], key[begin:end], value)]
        outputs.append(attention(*own, SCALE)[0].transpose(1, 0, 2))
    return np.concatenate(outputs)


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
    t.create("attentionOut", np.zeros((TOKENS, HEADS, D), np.float16))
    lengths = c.aclCreateIntArray(c.new("int64_t[]", ENDS), len(ENDS))
    num_heads, num_key_value_heads, scale_value = HEADS, KEY_HEADS, SCALE
    pre_tokens = next_tokens = 2147483647
    input_layout = c.new("char[]", b"TND")
    sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag = 0, 1, 0, 0, False
    key_antiquant_mode, value_antiquant_mode, query_quant_mode = 6, 8, 6
    pse_type = 0

    # 3. Phase one: how much workspace, and an executor.
    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    status = c.aclnnFusedInferAttentionScoreV5GetWorkspaceSize(
        t["query"], t["key"], t["value"],
        c.NULL, c.NULL, lengths, lengths,  # pseShift, attenMask, actualSeqLengths, actualSeqLengthsKv
        c.NULL, t["quantScale1"], c.NULL, c.NULL, c.NULL,  # deqScale1, quantScale1, deqScale2, quantScale2, ...Offset2
        c.NULL, c.NULL, c.NULL,  # antiquantScale, antiquantOffset, blockTable
        c.NULL, c.NULL,  # queryPaddingSize, kvPaddingSize
        t["keyAntiquantScale"], c.NULL, t["valueAntiquantScale"], c.NULL,  # scale and offset of key and value
        c.NULL, c.NULL, c.NULL,  # keySharedPrefix, valueSharedPrefix, actualSharedPrefixLen
        c.NULL, c.NULL, c.NULL,  # queryRope, keyRope, keyRopeAntiquantScale
        t["dequantScaleQuery"], c.NULL, c.NULL, c.NULL,  # dequantScaleQuery, learnableSink, qStartIdx, kvStartIdx
        num_heads, scale_value, pre_tokens, next_tokens, input_layout, num_key_value_heads,
        sparse_mode, inner_precise, block_size, antiquant_mode, softmax_lse_flag,
        key_antiquant_mode, value_antiquant_mode, query_quant_mode, pse_type,
        t["attentionOut"], c.NULL, workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnFusedInferAttentionScoreV5GetWorkspaceSize")

    # 4. Phase two, and wait.
    launch_and_wait("aclnnFusedInferAttentionScoreV5", workspace_size[0], executor[0], stream)

    # 5. Fetch the result.
    result = t.fetch("attentionOut", np.zeros((TOKENS, HEADS, D), np.float16))
    print_result(result)

    # 6. Give everything back.
    c.aclDestroyIntArray(lengths)
    t.destroy()
    finish(stream, device_id)
    compare(result, expected(inputs), tolerance=0.25)  # numerators have the three bits of FP8


if __name__ == "__main__":
    main()

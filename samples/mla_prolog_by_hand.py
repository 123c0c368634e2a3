"""The prolog of latent attention (MLA) built by hand: a sequence of aclnn operators that does what MlaPrologV3 does.

The sequence is prepared once. Its intermediates share memory, heads are cut out of a product by strides, and the
last operator writes both caches. The fused operator gets the same operands, and the results are compared.

    python samples/mla_prolog_by_hand.py
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import ops

TOKENS, HE, HCQ, HEADS, D, HCKV, DR = 8, 1024, 1536, 8, 128, 512, 64
BLOCKS, BLOCK_SIZE = 2, 16
EPSILON = 1e-5
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

rng = np.random.default_rng(11)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Random BF16."""
    return (rng.standard_normal(shape) * scale).astype(BFLOAT16)


def make_operands() -> dict[str, np.ndarray]:
    """Operands by the names that :func:`cann_mla.ops.mla_prolog_v3` has for them."""
    angles = np.concatenate([rng.uniform(0, 2 * np.pi, (TOKENS, DR // 2))] * 2, axis=-1)
    return {
        "token_x": normal(TOKENS, HE),
        "weight_dq": normal(HE, HCQ, scale=HE**-0.5),
        "weight_uq_qr": normal(HCQ, HEADS * (D + DR), scale=HCQ**-0.5),
        "weight_uk": normal(HEADS, D, HCKV, scale=D**-0.5),
        "weight_dkv_kr": normal(HE, HCKV + DR, scale=HE**-0.5),
        "rmsnorm_gamma_cq": normal(HCQ),
        "rmsnorm_gamma_ckv": normal(HCKV),
        "rope_sin": np.sin(angles).astype(BFLOAT16),
        "rope_cos": np.cos(angles).astype(BFLOAT16),
        "kv_cache": np.zeros((BLOCKS, BLOCK_SIZE, 1, HCKV), BFLOAT16),
        "kr_cache": np.zeros((BLOCKS, BLOCK_SIZE, 1, DR), BFLOAT16),
        "cache_index": rng.permutation(BLOCKS * BLOCK_SIZE)[:TOKENS].astype(np.int64),
    }


def build(tensors: dict[str, cann_mla.Tensor]) -> ops.OperatorSequence:
    """The calls: five for the query, two for the key."""
    steps = ops.OperatorSequence()
    at = {name: steps.operand(tensor) for name, tensor in tensors.items()}
    head, row = D + DR, HEADS * (D + DR)

    # The query: down, norm, up; then each head's first part into the latent space, the rest rotated.
    down = steps.intermediate((TOKENS, HCQ), "BF16")
    latent = steps.intermediate((TOKENS, HCQ), "BF16")
    rstd = steps.intermediate((TOKENS, 1), "FP32")
    up = steps.intermediate((TOKENS, row), "BF16")
    steps.add("aclnnMm", self=at["token_x"], mat2=at["weight_dq"], out=down, cubeMathType=0)
    steps.add("aclnnRmsNorm", x=down, gamma=at["rmsnorm_gamma_cq"], epsilon=EPSILON, yOut=latent, rstdOut=rstd)
    steps.add("aclnnMm", self=latent, mat2=at["weight_uq_qr"], out=up, cubeMathType=0)
    steps.add(
        "aclnnMatmul",
        self=up.view(HEADS, TOKENS, D, strides=(head, row, 1)),
        mat2=at["weight_uk"],
        out=at["query"].view(HEADS, TOKENS, HCKV, strides=(HCKV, HEADS * HCKV, 1)),
        cubeMathType=0,
    )
    cos, sin = (at[name].view(TOKENS, 1, 1, DR) for name in ("rope_cos", "rope_sin"))
    rotated = up.view(TOKENS, HEADS, 1, DR, strides=(row, head, DR, 1), offset=D)
    steps.add("aclnnInterleaveRope", x=rotated, cos=cos, sin=sin, out=at["query_rope"].view(TOKENS, HEADS, 1, DR))

    # The key: down; norm, rotation and the rows of both caches are one operator.
    key = steps.intermediate((TOKENS, HCKV + DR), "BF16")
    steps.add("aclnnMm", self=at["token_x"], mat2=at["weight_dkv_kr"], out=key, cubeMathType=0)
    steps.add(
        "aclnnKvRmsNormRopeCache",
        kv=key.view(TOKENS, 1, 1, HCKV + DR),
        gamma=at["rmsnorm_gamma_ckv"],
        cos=cos,
        sin=sin,
        index=at["cache_index"],
        kCacheRef=at["kr_cache"],
        ckvCacheRef=at["kv_cache"],
        epsilon=EPSILON,
        cacheModeOptional="PA",
        isOutputKv=False,
        kRopeOut=steps.intermediate((TOKENS, 1, 1, DR), "BF16"),  # must be there, and stay as they are
        cKvOut=steps.intermediate((TOKENS, 1, 1, HCKV), "BF16"),
    )
    steps.prepare()
    return steps


def main() -> None:
    """By hand, fused, compare."""
    operands: dict[str, Any] = make_operands()
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        tensors = {name: cann_mla.Tensor.from_numpy(array) for name, array in operands.items()}
        tensors["query"] = cann_mla.Tensor.empty((TOKENS, HEADS, HCKV), "BF16")
        tensors["query_rope"] = cann_mla.Tensor.empty((TOKENS, HEADS, DR), "BF16")
        with build(tensors) as steps:
            for symbol, milliseconds in steps.timed_run(stream):
                print(f"  {symbol:<26}{milliseconds:8.3f} ms")
            print(f"{steps.buffer_bytes} bytes hold the intermediates")
        names = ("query", "query_rope", "kv_cache", "kr_cache")
        by_hand = [tensors[name].to_numpy() for name in names]
        fused = ops.mla_prolog_v3(**operands, stream=stream, rmsnorm_epsilon_cq=EPSILON, rmsnorm_epsilon_ckv=EPSILON)
        stream.synchronize()
        expected = [fused.query.to_numpy(), fused.query_rope.to_numpy(), operands["kv_cache"], operands["kr_cache"]]
    worst = max(
        np.abs(mine.astype(np.float64) - theirs.astype(np.float64)).max()
        for mine, theirs in zip(by_hand, expected, strict=True)
    )
    if not worst <= 0.05:
        raise SystemExit(f"off by {worst:.4f}")
    count = by_hand[0].size + by_hand[1].size
    print(f"{count} elements of query, and both caches, within {worst:.4f} of the fused operator")


if __name__ == "__main__":
    main()

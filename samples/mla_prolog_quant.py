"""The prolog of PyPTO's mla_prolog_quant and mla_prolog at their real sizes, composed of aclnn operators.

Each is prepared once and run three times on new tokens, which are copied to where the plan reads them. Then one run
shows how long every primitive takes, by events on the stream, and the result is compared with the formulas in
float64. With torch_npu and PyPTO installed, ``ops.mla_prolog_quant(..., via="pypto")`` calls the fused operator on
torch tensors instead.

    python samples/mla_prolog_quant.py
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import ops

TOKENS, HIDDEN, LATENT, HEADS, HEAD, ROPE = 16, 4096, 1024, 64, 512, 64
WEIGHTS = ("wq_a", "wq_b", "wkv")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

rng = np.random.default_rng(5)


def uniform(bound: float, *shape: int) -> np.ndarray:
    """Random BF16."""
    return rng.uniform(-bound, bound, shape).astype(np.float32).astype(BFLOAT16)


def make_operands() -> dict[str, np.ndarray]:
    """Operands of the operator that does not quantise."""
    return {
        "token_x": uniform(1, TOKENS, HIDDEN),
        "wq_a": uniform(0.1, HIDDEN, LATENT),
        "wq_b": uniform(0.1, LATENT, HEADS * HEAD),
        "wkv": uniform(0.1, HIDDEN, HEAD),
        "rope_cos": uniform(1, TOKENS, ROPE),
        "rope_sin": uniform(1, TOKENS, ROPE),
        "gamma_cq": uniform(1, LATENT),
        "gamma_ckv": uniform(1, HEAD),
    }


def quantised(operands: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same with wq_b in INT8, a scale for every column."""
    wide = operands["wq_b"].astype(np.float32)
    scale = np.abs(wide).max(axis=0) / 127
    return {**operands, "wq_b": np.rint(wide / scale).astype(np.int8), "wq_b_scale": scale[:, None]}


def run(operands: dict[str, np.ndarray], stream: cann_mla.Stream) -> ops.MlaPrologQuantResult:
    """Prepare once, run many times; weights packed to FRACTAL_NZ."""
    tensors: dict[str, Any] = {
        name: cann_mla.Tensor.from_numpy(array, format="FRACTAL_NZ" if name in WEIGHTS else "ND")
        for name, array in operands.items()
    }
    with ops.MlaPrologQuantPlan(**tensors) as plan:
        for _ in range(2):
            tensors["token_x"].copy_from(uniform(1, TOKENS, HIDDEN), stream=stream)
            plan.run(stream)
        tensors["token_x"].copy_from(operands["token_x"], stream=stream)
        for symbol, milliseconds in plan.steps.timed_run(stream):
            print(f"  {symbol:<30}{milliseconds:9.3f} ms")
        return plan.outputs


def plain(operands: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """q and kv in float64, nothing quantised but wq_b."""
    o = {name: array.astype(np.float64) for name, array in operands.items()}

    def rms_norm(rows: np.ndarray) -> np.ndarray:
        normed: np.ndarray = rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-6)
        return normed

    def rotate_end(rows: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        pairs = rows[..., -ROPE:]
        turned = np.stack([-pairs[..., 1::2], pairs[..., 0::2]], axis=-1).reshape(pairs.shape)
        return np.concatenate([rows[..., :-ROPE], pairs * cos + turned * sin], axis=-1)

    c = rms_norm(o["token_x"] @ o["wq_a"]) * o["gamma_cq"]
    f = c @ (o["wq_b"] * o.get("wq_b_scale", np.ones((1, 1)))[:, 0])
    q = rms_norm(f.reshape(TOKENS, HEADS, HEAD))
    kv = rms_norm(o["token_x"] @ o["wkv"]) * o["gamma_ckv"]
    cos, sin = o["rope_cos"], o["rope_sin"]
    return rotate_end(q, cos[:, None], sin[:, None]), rotate_end(kv, cos, sin)


def main() -> None:
    """Both operators."""
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        given = make_operands()
        for name, operands in (("mla_prolog_quant", quantised(given)), ("mla_prolog", given)):
            print(f"{name}, {TOKENS} tokens")
            with run(operands, stream) as result:
                pairs = zip((result.q_out, result.kv_out), plain(operands), strict=True)
                q, kv = (np.abs(out.to_numpy().astype(np.float64) - true).max() for out, true in pairs)
            if not (q < 0.08 and kv < 0.04):
                raise SystemExit(f"off by {q:.4f} in q_out and {kv:.4f} in kv_out")
            print(f"{name}: q_out within {q:.4f} and kv_out within {kv:.4f} of plain NumPy")


if __name__ == "__main__":
    main()

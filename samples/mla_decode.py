"""A decoding step of latent attention (MLA): MlaPrologV3, then attention over the paged cache it writes, on one stream.

Three sequences of different lengths share a paged cache. Their prompts go through the prolog once, which fills the
cache; then every step takes one new token of each sequence through prolog and attention. The prolog hands its query
over already multiplied into the latent space, so attention reads the latent cache as keys and as values. Nothing
waits in between: the stream keeps the order, and what the prolog returns is what attention takes. In the end every
step is compared with the plain form of the same model, in which each head has keys of its own, in float64.

    python samples/mla_decode.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from plain_attention import compare

import cann_mla
from cann_mla import ops

HE, HCQ, HEADS, D, HCKV, DR = 1024, 1536, 8, 128, 512, 64
BLOCK_SIZE, BLOCKS, STEPS = 16, 14, 3
PROMPTS = np.array([5, 30, 61])
EPSILON = 1e-5
SCALE = (D + DR) ** -0.5
PACKED = ("weight_dq", "weight_uq_qr", "weight_dkv_kr")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

rng = np.random.default_rng(9)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Random BF16."""
    return (rng.standard_normal(shape) * scale).astype(BFLOAT16)


def rope_tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of rotary positions, both halves alike: shape (*positions, Dr)."""
    frequencies = 10000.0 ** (-np.arange(DR // 2) / (DR // 2))
    angles = np.concatenate([positions[..., None] * frequencies] * 2, axis=-1)
    return np.sin(angles).astype(BFLOAT16), np.cos(angles).astype(BFLOAT16)


WEIGHTS = {
    "weight_dq": normal(HE, HCQ, scale=HE**-0.5),
    "weight_uq_qr": normal(HCQ, HEADS * (D + DR), scale=HCQ**-0.5),
    "weight_uk": normal(HEADS, D, HCKV, scale=HCKV**-0.5),
    "weight_dkv_kr": normal(HE, HCKV + DR, scale=HE**-0.5),
    "rmsnorm_gamma_cq": normal(HCQ),
    "rmsnorm_gamma_ckv": normal(HCKV),
}


def decode(hidden: list[np.ndarray]) -> list[np.ndarray]:
    """The device's side. Returns the outputs of every step, (sequences, heads, HCKV)."""
    table = ops.block_table(PROMPTS + STEPS, BLOCK_SIZE, blocks=rng.permutation(BLOCKS))
    outputs = []
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        weights = {n: ops.pack_weight(w) if n in PACKED else w for n, w in WEIGHTS.items()}
        kv_cache = cann_mla.Tensor.zeros((BLOCKS, BLOCK_SIZE, 1, HCKV), "BF16")
        kr_cache = cann_mla.Tensor.zeros((BLOCKS, BLOCK_SIZE, 1, DR), "BF16")
        # Attention describes the same memory without the axis of the one key head.
        key, key_rope = kv_cache.view((BLOCKS, BLOCK_SIZE, HCKV)), kr_cache.view((BLOCKS, BLOCK_SIZE, DR))

        def prolog(x: np.ndarray, sequence: np.ndarray, positions: np.ndarray) -> ops.MlaPrologResult:
            sin, cos = rope_tables(positions)
            slots = table[sequence, positions // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + positions % BLOCK_SIZE
            return ops.mla_prolog_v3(
                x, rope_sin=sin, rope_cos=cos, kv_cache=kv_cache, kr_cache=kr_cache, cache_index=slots,
                rmsnorm_epsilon_cq=EPSILON, rmsnorm_epsilon_ckv=EPSILON, stream=stream, **weights,
            )  # fmt: skip

        # Prompts: the tokens of all sequences, one behind the other. Only the cache is wanted of them.
        sequence = np.repeat(np.arange(len(PROMPTS)), PROMPTS)
        prompt = np.concatenate([own[:length] for own, length in zip(hidden, PROMPTS, strict=True)])
        prolog(prompt, sequence, np.concatenate([np.arange(n) for n in PROMPTS])).close()

        for step in range(STEPS):
            positions = (PROMPTS + step)[:, None]  # one token a sequence: shape (B, 1)
            x = np.stack([own[p] for own, p in zip(hidden, positions, strict=True)])
            with prolog(x, np.arange(len(PROMPTS))[:, None], positions) as latent_query:
                result = ops.fused_infer_attention(
                    latent_query.query, key, key, stream=stream, input_layout="BSND", scale_value=SCALE,
                    query_rope=latent_query.query_rope, key_rope=key_rope, num_key_value_heads=1,
                    block_table=table, actual_seq_lengths_kv=PROMPTS + step + 1,
                )  # fmt: skip
            outputs.append(result.attention)
        stream.synchronize()
        return [output.to_numpy()[:, 0] for output in outputs]


def plain(hidden: np.ndarray, position: int) -> np.ndarray:
    """The token at a position attends to all up to it: every head makes its keys of the latent rows."""
    w = {n: x.astype(np.float64) for n, x in WEIGHTS.items()}
    x = hidden[: position + 1].astype(np.float64)

    def rms_norm(rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + EPSILON) * gamma

    def rotate(pairs: np.ndarray, positions: np.ndarray) -> np.ndarray:
        sin, cos = (table.astype(np.float64) for table in rope_tables(positions))
        even, odd = pairs[..., 0::2], pairs[..., 1::2]
        return np.concatenate([even, odd], axis=-1) * cos + np.concatenate([-odd, even], axis=-1) * sin

    down = x @ w["weight_dkv_kr"]
    latent = rms_norm(down[:, :HCKV], w["rmsnorm_gamma_ckv"])
    key_rope = rotate(down[:, HCKV:], np.arange(position + 1))
    key = np.einsum("sc,ndc->nsd", latent, w["weight_uk"])
    query = rms_norm(x[-1] @ w["weight_dq"], w["rmsnorm_gamma_cq"]) @ w["weight_uq_qr"]
    query, query_rope = np.split(query.reshape(HEADS, D + DR), [D], axis=-1)
    query_rope = rotate(query_rope, np.array([position]))
    scores = (np.einsum("nd,nsd->ns", query, key) + query_rope @ key_rope.T) * SCALE
    numerators = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return numerators @ latent / numerators.sum(axis=-1, keepdims=True)


def main() -> None:
    """Decode, compare."""
    hidden = [normal(length + STEPS, HE) for length in PROMPTS]
    outputs = decode(hidden)
    expected = [
        np.stack([plain(own, length + step) for own, length in zip(hidden, PROMPTS, strict=True)])
        for step in range(STEPS)
    ]
    # The cache, the query and the weights of the sum are BF16: each adds up to 2**-9 of its values.
    compare(np.stack(outputs), np.stack(expected), tolerance=0.06)


if __name__ == "__main__":
    main()

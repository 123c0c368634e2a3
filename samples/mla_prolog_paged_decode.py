"""What an inference engine does with MlaPrologV3: prefill, then decode, over several sequences in one paged cache.

Three prompts of different lengths are prefilled in one call, their tokens fused; then every step adds one token to
each sequence that is not finished yet. A block table says which cache blocks belong to which sequence, and the index
of a token's row follows from it; a sequence that has finished keeps its place in the batch with the index -1, which
the operator skips. Weights are packed once and stay on the device. At the end the cache is compared with key rows
computed in plain NumPy, and blocks that nobody owns must be untouched.

    python samples/mla_prolog_paged_decode.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import ops

HE, HCQ, HEADS, D, HCKV, DR = 1024, 1536, 8, 128, 512, 64
BLOCK_SIZE, BLOCKS = 16, 12
PROMPTS, TOTALS = (5, 19, 33), (9, 30, 36)
EPSILON = 1e-5
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

rng = np.random.default_rng(3)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Random BF16."""
    return (rng.standard_normal(shape) * scale).astype(BFLOAT16)


def rope_tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of rotary positions, both halves alike: shape (T, Dr)."""
    frequencies = 10000.0 ** (-np.arange(DR // 2) / (DR // 2))
    angles = np.tile(positions[:, None] * frequencies, (1, 2))
    return np.sin(angles).astype(BFLOAT16), np.cos(angles).astype(BFLOAT16)


class PagedCache:
    """Which blocks of the cache each sequence owns."""

    def __init__(self, sequences: int) -> None:
        self._free = list(rng.permutation(BLOCKS))
        self.table: list[list[int]] = [[] for _ in range(sequences)]

    def slot(self, sequence: int, position: int) -> int:
        """Row of a position, in a new block where the last one is full."""
        blocks = self.table[sequence]
        if position // BLOCK_SIZE == len(blocks):
            blocks.append(int(self._free.pop()))
        return blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


def expected_rows(
    x: np.ndarray, weight: np.ndarray, gamma: np.ndarray, positions: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Key rows of tokens in float64: the normalised latent, and the rotated part."""
    k = x.astype(np.float64) @ weight.astype(np.float64)
    latent, rotated = k[:, :HCKV], k[:, HCKV:]
    latent = latent / np.sqrt((latent**2).mean(axis=1, keepdims=True) + EPSILON) * gamma.astype(np.float64)
    sin, cos = (table.astype(np.float64) for table in rope_tables(positions))
    even, odd = rotated[:, 0::2], rotated[:, 1::2]
    halves = np.concatenate([even, odd], axis=1)
    return latent, halves * cos + np.concatenate([-odd, even], axis=1) * sin


def main() -> None:
    """Prefill, decode, compare."""
    weight_dkv_kr, gamma = normal(HE, HCKV + DR, scale=HE**-0.5), normal(HCKV)
    hidden = [normal(total, HE) for total in TOTALS]
    cache = PagedCache(len(PROMPTS))

    with cann_mla.Device(0), cann_mla.Stream() as stream:
        weights = {
            "weight_dq": ops.pack_weight(normal(HE, HCQ, scale=HE**-0.5)),
            "weight_uq_qr": ops.pack_weight(normal(HCQ, HEADS * (D + DR), scale=HCQ**-0.5)),
            "weight_uk": cann_mla.Tensor.from_numpy(normal(HEADS, D, HCKV, scale=D**-0.5)),
            "weight_dkv_kr": ops.pack_weight(weight_dkv_kr),
            "rmsnorm_gamma_cq": cann_mla.Tensor.from_numpy(normal(HCQ)),
            "rmsnorm_gamma_ckv": cann_mla.Tensor.from_numpy(gamma),
        }
        kv_cache = cann_mla.Tensor.zeros((BLOCKS, BLOCK_SIZE, 1, HCKV), "BF16")
        kr_cache = cann_mla.Tensor.zeros((BLOCKS, BLOCK_SIZE, 1, DR), "BF16")

        def prolog(x: np.ndarray, positions: np.ndarray, slots: list[int]) -> None:
            sin, cos = rope_tables(positions)
            with ops.mla_prolog_v3(
                x, rope_sin=sin, rope_cos=cos, kv_cache=kv_cache, kr_cache=kr_cache,
                cache_index=np.array(slots, np.int64), rmsnorm_epsilon_ckv=EPSILON, stream=stream, **weights,
            ) as result:  # fmt: skip
                assert result.query.shape == (len(x), HEADS, HCKV)  # an engine would go on to attention here

        # Prefill: the tokens of all prompts, one behind the other.
        prompt = np.concatenate([h[:length] for h, length in zip(hidden, PROMPTS, strict=True)])
        positions = np.concatenate([np.arange(length) for length in PROMPTS])
        prolog(prompt, positions, [cache.slot(s, p) for s, n in enumerate(PROMPTS) for p in range(n)])

        # Decode: one token a sequence and step, until all are done. The stream keeps the order; nothing waits.
        for step in range(max(t - p for t, p in zip(TOTALS, PROMPTS, strict=True))):
            now = np.array([prompt_length + step for prompt_length in PROMPTS])
            alive = [now[s] < TOTALS[s] for s in range(len(TOTALS))]
            x = np.stack([hidden[s][min(now[s], TOTALS[s] - 1)] for s in range(len(TOTALS))])
            prolog(x, now, [cache.slot(s, now[s]) if alive[s] else -1 for s in range(len(TOTALS))])

        stream.synchronize()
        kv = kv_cache.to_numpy().reshape(-1, HCKV).astype(np.float64)
        kr = kr_cache.to_numpy().reshape(-1, DR).astype(np.float64)

    written = np.zeros(len(kv), bool)
    worst = 0.0
    for s, total in enumerate(TOTALS):
        rows = [cache.slot(s, p) for p in range(total)]
        latent, rotated = expected_rows(hidden[s], weight_dkv_kr, gamma, np.arange(total))
        worst = max(worst, np.abs(kv[rows] - latent).max(), np.abs(kr[rows] - rotated).max())
        written[rows] = True
    if kv[~written].any() or kr[~written].any():
        raise SystemExit("a row that belongs to nobody was written")
    if worst > 0.06:  # BF16 values up to about 4 are off by up to 2**-6 each time they are rounded
        raise SystemExit(f"the cache is off by {worst:.4f}")
    print(f"{written.sum()} rows of {len(kv)} written, all within {worst:.4f} of plain NumPy")


if __name__ == "__main__":
    main()

"""Operands of MlaProlog at sizes that take no time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import (
    BF16,
    FLOAT8_E4M3FN,
    FLOAT8_E8M0,
    HIFLOAT8,
    INT8,
    Array,
    DType,
    hifloat8_encode,
)

HIDDEN, LATENT_Q, HEADS, NOPE, ROPE, LATENT_KV, BLOCK = 64, 128, 2, 32, 64, 512, 16
WIDTH = HEADS * (NOPE + ROPE)

# weightQuantMode -> types of tokens and down-projections, and of weightUqQr
KINDS = {
    0: (BF16, BF16),
    1: (BF16, INT8),
    2: (INT8, INT8),
    3: (FLOAT8_E4M3FN, FLOAT8_E4M3FN),
    4: (FLOAT8_E4M3FN, FLOAT8_E4M3FN),
    5: (HIFLOAT8, HIFLOAT8),
}


class Maker:
    """Random operands of one scenario; the same for the same arguments."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def array(self, shape: tuple[int, ...], kind: DType, spread: float = 1.0) -> Array:
        if kind is INT8:
            return self.rng.integers(-127, 128, shape, np.int8)
        values = (self.rng.standard_normal(shape) * spread).astype(np.float32)
        return hifloat8_encode(values) if kind is HIFLOAT8 else values.astype(kind.numpy)

    def scale(self, shape: tuple[int, ...], weight: int) -> Array:
        if weight == 3:
            return self.rng.integers(120, 131, shape).astype(np.uint8).view(FLOAT8_E8M0.numpy)
        return ((self.rng.random(shape) + 0.5) / 256).astype(np.float32)

    def cache(self, shape: tuple[int, ...], kind: DType) -> Array:
        """Noise in every bit, so that any touched row shows."""
        noise = self.rng.integers(0, 256, (*shape[:-1], shape[-1] * kind.numpy.itemsize), np.uint8)
        return noise.view(kind.numpy)


def make(
    weight: int = 0,
    cache: int = 0,
    *,
    tokens: tuple[int, ...] = (5,),
    mode: str = "PA_BSND",
    seed: int = 0,
    blocks: int = 3,
) -> dict[str, Any]:
    maker = Maker(seed)
    kind_x, kind_uq = KINDS[weight]
    count = int(np.prod(tokens))
    kv_kind = kind_uq if cache else BF16
    kr_kind = INT8 if cache == 2 else BF16
    kv_width = 656 if cache == 3 else LATENT_KV
    rows = (blocks, BLOCK, 1) if mode.startswith("PA_") else (*tokens, 1)
    operands: dict[str, Any] = {
        "token_x": maker.array((*tokens, HIDDEN), kind_x),
        "weight_dq": maker.array((HIDDEN, LATENT_Q), kind_x, 0.1),
        "weight_uq_qr": maker.array((LATENT_Q, WIDTH), kind_uq, 0.1),
        "weight_uk": maker.array((HEADS, NOPE, LATENT_KV), BF16, 0.1),
        "weight_dkv_kr": maker.array((HIDDEN, LATENT_KV + ROPE), kind_x, 0.1),
        "rmsnorm_gamma_cq": maker.array((LATENT_Q,), BF16),
        "rmsnorm_gamma_ckv": maker.array((LATENT_KV,), BF16),
        "rope_sin": maker.array((*tokens, ROPE), BF16),
        "rope_cos": maker.array((*tokens, ROPE), BF16),
        "kv_cache": maker.cache((*rows, kv_width), kv_kind),
        "kr_cache": np.zeros(0, BF16.numpy) if cache == 3 else maker.cache((*rows, ROPE), kr_kind),
        "cache_mode": mode,
        "weight_quant_mode": weight,
        "kv_cache_quant_mode": cache,
    }
    if mode in ("PA_BSND", "PA_NZ"):
        operands["cache_index"] = maker.rng.permutation(blocks * BLOCK)[:count].reshape(tokens)
    elif mode.startswith("PA_BLK"):
        operands["cache_index"] = maker.rng.permutation(blocks)[: tokens[0] if len(tokens) == 2 else 1]
        if len(tokens) == 1:
            operands["actual_seq_len"] = np.array([count], np.int32)
    if weight >= 1:
        columns = (WIDTH, LATENT_Q // 32) if weight == 3 else (1, WIDTH)
        operands["dequant_scale_w_uq_qr"] = maker.scale(columns, weight)
    if weight >= 2:
        blocks_x = HIDDEN // 32
        operands["dequant_scale_x"] = maker.scale((count, blocks_x if weight == 3 else 1), weight)
        for name, width in (("dequant_scale_w_dq", LATENT_Q), ("dequant_scale_w_dkv_kr", LATENT_KV + ROPE)):
            operands[name] = maker.scale((width, blocks_x) if weight == 3 else (1, width), weight)
    if cache == 1:
        operands["quant_scale_ckv"] = np.array([20.0], np.float32)
    if cache == 2:
        operands["quant_scale_ckv"] = (maker.rng.random((1, LATENT_KV)) * 30).astype(np.float32)
        operands["quant_scale_ckr"] = (maker.rng.random((1, ROPE)) * 30).astype(np.float32)
    if cache == 3 and weight <= 2:
        operands["k_nope_clip_alpha"] = np.array([0.9], np.float32)
    return operands


@pytest.fixture
def prolog_operands() -> Callable[..., dict[str, Any]]:
    """Make operands of ``mla_prolog_v3``: ``(weight, cache, *, tokens, mode, seed, blocks)``."""
    return make

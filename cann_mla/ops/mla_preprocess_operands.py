"""Operands of AtbMLAPreprocess: the modes that they stand for, and what ATB would take wrongly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import INT8, INT32, DType, dtype
from cann_mla.ops.atb_operands import check_blocked, check_operand
from cann_mla.ops.call import Operand, check_rank

LATENT, ROPE = 512, 64
KVCACHE, KROPE_CTKV, INT8_NZCACHE, NZCACHE = range(4)
PER_TENSOR, PER_TOKEN = 0, 1
_NZ_ROWS = 128


def scale_bits(scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """FP32 scales as the INT64 operand that carries their bits in its low half.

    Parameters
    ----------
    scale : ndarray of float32

    Raises
    ------
    TypeError
        For another dtype.
    """
    if scale.dtype != np.float32:
        raise TypeError(f"scales must be float32, not {scale.dtype}")
    return np.ascontiguousarray(scale).view(np.uint32).astype(np.int64)


def find_cache(kv_cache: Operand, kv_cache_rope: Operand | None, kind: DType) -> tuple[int, int]:
    """Cache mode, and rows of the cache over all blocks.

    Raises
    ------
    ValueError
        If it is none of ATB's caches, or there is a part too many or too few.
    """
    check_rank("kv_cache", kv_cache, 4)
    blocks, rows = kv_cache.shape[:2]
    both, plain, wide = (rows, 1, LATENT + ROPE), (rows, 1, LATENT), (LATENT // 16, _NZ_ROWS, 16)
    inner, element = tuple(kv_cache.shape[1:]), dtype(kv_cache.dtype)
    if element is INT8 and inner == (LATENT // 32, _NZ_ROWS, 32):
        mode, rope = INT8_NZCACHE, (blocks, ROPE // 16, _NZ_ROWS, 16)
    elif element is kind and inner == wide:
        mode, rope = NZCACHE, (blocks, ROPE // 16, _NZ_ROWS, 16)
    elif element is kind and inner in (both, plain):
        mode, rope = (KVCACHE if inner == both else KROPE_CTKV), (blocks, rows, 1, ROPE)
    else:
        raise ValueError(
            f"kv_cache is {element} {list(kv_cache.shape)}; with an input of {kind} it is {kind} [blocks, rows, 1, "
            "576], [blocks, rows, 1, 512] or [blocks, 32, 128, 16], or INT8 [blocks, 16, 128, 32]"
        )
    if (kv_cache_rope is None) != (mode == KVCACHE):
        raise ValueError("kv_cache_rope goes with every cache but that of 576 channels, which holds both parts")
    if kv_cache_rope is not None:
        check_operand("kv_cache_rope", kv_cache_rope, kind, rope)
    if mode in (INT8_NZCACHE, NZCACHE):
        check_blocked("kv_cache", kv_cache)
        if kv_cache_rope is not None:
            check_blocked("kv_cache_rope", kv_cache_rope)
        rows = _NZ_ROWS
    return mode, blocks * rows


def quant_mode(*one_scale: Operand | None) -> int:
    """Whether there is one scale for all tokens, with all that belongs to it, or a scale a token.

    Raises
    ------
    ValueError
        If only some of the operands are given.
    """
    given = [operand is not None for operand in one_scale]
    if any(given) and not all(given):
        raise ValueError(
            "quant_scale0, quant_offset0, bias0, quant_scale1, quant_offset1 and bias1 go together: one scale for all "
            "tokens; without them every token has a scale of its own"
        )
    return PER_TENSOR if all(given) else PER_TOKEN


def blocked_weight(name: str, weight: Operand, channels: int, inputs: int) -> Operand:
    """An INT8 weight in blocks of 32 inputs; an array of rows is put into them.

    Raises
    ------
    ValueError
    """
    blocks = (1, inputs // 32, channels, 32)
    if isinstance(weight, np.ndarray) and weight.ndim == 2:
        check_operand(name, weight, INT8, (channels, inputs))
        return np.ascontiguousarray(weight.reshape(channels, -1, 32).swapaxes(0, 1))[None]
    check_operand(name, weight, INT8, blocks)
    check_blocked(name, weight)
    return weight


def check_slots(slotmapping: Operand, tokens: int, slots: int) -> None:
    """Refuse slots of another number than tokens and, in an array, those beyond the cache or given twice.

    Raises
    ------
    ValueError
    """
    check_operand("slotmapping", slotmapping, INT32, (tokens,))
    if not isinstance(slotmapping, np.ndarray):
        return
    if slotmapping.size and slotmapping.max() >= slots:
        raise ValueError(f"slotmapping holds {slotmapping.max()}; the cache has {slots} rows, from 0")
    written = slotmapping[slotmapping >= 0]
    if len(np.unique(written)) != len(written):
        raise ValueError("slotmapping gives two tokens the same row")


def check_cache_scales(
    ctkv_scale: Operand | None, q_nope_scale: Operand | None, mode: int, kind: DType, heads: int
) -> None:
    """Refuse the two scales without an INT8 cache, and such a cache without them.

    Raises
    ------
    ValueError
    """
    for name, scale, size in (("ctkv_scale", ctkv_scale, 1), ("q_nope_scale", q_nope_scale, heads)):
        if (scale is not None) != (mode == INT8_NZCACHE):
            raise ValueError(f"{name} goes with an INT8 cache, and only with one")
        if scale is not None:
            check_operand(name, scale, kind, (size,))

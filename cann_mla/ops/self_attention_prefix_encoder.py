"""AtbSelfAttentionPrefixEncoder: prompts attend to a paged cache, which holds a common beginning as well.

Notation: B sequences; T queries of all of them, packed; H heads, Hk heads of keys and values, of D channels; Bn blocks
of 128 rows in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.checks import finite, whole
from cann_mla.dtypes import FP32, DType, DTypeLike
from cann_mla.ops.atb_operands import (
    check_block_tables,
    check_operand,
    check_triangle_values,
    device_constant,
    half,
    lengths_of_sequences,
    triangle,
)
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

BLOCK_SIZE, ALIBI_SIZE = 128, 256
MASK_KINDS = {"causal": 9, "norm": 3, "alibi": 4, "alibi_sqrt": 5}
"""ATB's mask types by their Python names: CAUSAL_MASK, NORM_COMPRESS, ALIBI_COMPRESS, ALIBI_COMPRESS_SQRT."""
_MOST_CHANNELS = 128


def prefix_encoder_mask(element: DTypeLike, mask_kind: str = "norm") -> npt.NDArray[Any]:
    """The mask operand of a kind, for sequences of any length.

    Parameters
    ----------
    element : DType, str or NumPy dtype
        FP16 or BF16, as the queries.
    mask_kind : {"norm", "alibi", "alibi_sqrt"}

    Returns
    -------
    ndarray, shape (128, 128) or (256, 256)
        norm: what is hidden is 1 in BF16 and -10000 in FP16. alibi: how far a key lies before the query, alibi_sqrt:
        the square root of it; the kernel multiplies with a head's slope. Later keys are infinitely far.

    Raises
    ------
    ValueError
        For another dtype or kind; "causal" has no mask.
    """
    kind = half("the mask", element)
    if mask_kind == "norm":
        return triangle(kind, BLOCK_SIZE)
    if mask_kind not in ("alibi", "alibi_sqrt"):
        raise ValueError(f"mask_kind={mask_kind!r} has no mask operand; 'norm', 'alibi' and 'alibi_sqrt' have one")
    place = np.arange(ALIBI_SIZE, dtype=np.float32)
    distance = np.maximum(place[:, None] - place, 0)
    steps = np.sqrt(distance) if mask_kind == "alibi_sqrt" else distance
    return np.where(place[:, None] >= place, steps, np.inf).astype(kind.numpy)


def self_attention_prefix_encoder(
    query: Operand,
    key: Operand,
    value: Operand,
    block_tables: Operand,
    seq_len: Sequence[int],
    kv_seq_len: Sequence[int] | None = None,
    *,
    stream: Stream,
    num_heads: int | None = None,
    num_key_value_heads: int | None = None,
    mask_kind: str = "causal",
    mask: Operand | None = None,
    slopes: Operand | None = None,
    qk_scale: float | None = None,
    attn: Tensor | None = None,
) -> Tensor:
    """Attention of prompts to a paged cache: AtbSelfAttentionPrefixEncoder.

    The last keys of a sequence are those of its queries: query ``i`` of ``q`` sees the first ``kv - q + 1 + i`` of kv
    keys. ``score = qk_scale * query . key``, plus what the mask says; query head ``h`` sees key head ``h // (H / Hk)``.

    Parameters
    ----------
    query : Tensor or ndarray of FP16 or BF16, shape (T, H, D) or (T, H * D)
        All operands but `slopes` have one dtype. D is a multiple of 16 up to 128.
    key, value : Tensor or ndarray, shape (Bn, 128, Hk, D) or (Bn, 128, Hk * D)
        The cache.
    block_tables : Tensor or ndarray of INT32, shape (B, blocks a sequence)
        :func:`cann_mla.ops.block_table` makes one.
    seq_len : sequence of int
        Queries of each sequence; they add up to T.
    kv_seq_len : sequence of int, optional
        Keys of each sequence, those of its queries included: a multiple of 128 more than there are queries. Default:
        as `seq_len`, without a prefix.
    stream : Stream
        Where the call is queued.
    num_heads, num_key_value_heads : int, optional
        For operands whose shape does not tell H and Hk.
    mask_kind : {"causal", "norm", "alibi", "alibi_sqrt"}
        causal: later keys are hidden. norm: a mask says what is hidden in the block on the diagonal. alibi: a head's
        slope times the distance of key and query is added, alibi_sqrt: times the square root of it.
    mask : Tensor or ndarray, optional
        For the kinds but causal; default :func:`prefix_encoder_mask`, of which one stays on the device.
    slopes : Tensor or ndarray of FP32, shape (H,)
        For the two alibi kinds; negative ones let distant keys count less.
    qk_scale : float, optional
        Default D ** -0.5.
    attn : Tensor, optional
        Where the result goes.

    Returns
    -------
    Tensor
        Of the shape and dtype of `query`. It holds its values when the stream has passed the call.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or lengths contradict each other; if a mask or slopes would not be read; if slopes would turn
        the mask of later keys round.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbSelfAttentionPrefixEncoder`` and the kernel
    unpad_flashattention_bf16_prefix_cache.
    """
    heads, kv_heads, width = _sizes(query, key, num_heads, num_key_value_heads)
    kind = half("query", query.dtype)
    flat, apart = (key.shape[0], BLOCK_SIZE, kv_heads * width), (key.shape[0], BLOCK_SIZE, kv_heads, width)
    check_operand("query", query, kind, (query.shape[0], heads, width), (query.shape[0], heads * width))
    check_operand("key", key, kind, flat, apart)
    check_operand("value", value, kind, key.shape)
    lengths = lengths_of_sequences("seq_len", seq_len, 1)
    kv_lengths = lengths if kv_seq_len is None else lengths_of_sequences("kv_seq_len", kv_seq_len, 1)
    _check_lengths(lengths, kv_lengths, query.shape[0])
    check_block_tables(block_tables, kv_lengths, BLOCK_SIZE, key.shape[0])
    with OperatorCall("AtbSelfAttentionPrefixEncoder", stream) as call:
        call.give(
            {
                "query": query,
                "key": key,
                "value": value,
                "block_tables": block_tables,
                "mask": _mask(mask, mask_kind, kind, stream),
                "slopes": _slopes(slopes, mask_kind, heads),
                "mask_type": MASK_KINDS[mask_kind],
                "head_num": heads,
                "kv_head_num": kv_heads,
                "qk_scale": width**-0.5 if qk_scale is None else finite("qk_scale", qk_scale),
            }
        )
        call.on_host("seq_len", np.array(lengths, np.int32))
        call.on_host("kv_seq_len", np.array(kv_lengths, np.int32))
        result = call.output("attn", attn, tuple(query.shape), str(kind))
        call.run()
    return result


def _sizes(query: Operand, key: Operand, heads: int | None, kv_heads: int | None) -> tuple[int, int, int]:
    """Heads of queries and keys, and the channels of one."""
    check_rank("query", query, 2, 3)
    check_rank("key", key, 3, 4)
    if 0 in (*query.shape, *key.shape):
        raise ValueError(f"query {list(query.shape)} and key {list(key.shape)} must not have a size of 0")
    for name, number in (("num_heads", heads), ("num_key_value_heads", kv_heads)):
        if number is not None:
            whole(name, number, 1, 2**31 - 1)
    if heads is None and len(query.shape) == 3:
        heads = query.shape[1]
    if kv_heads is None and len(key.shape) == 4:
        kv_heads = key.shape[2]
    if heads is None and len(key.shape) == 4:
        heads = query.shape[-1] // key.shape[3]
    if kv_heads is None and len(query.shape) == 3:
        kv_heads = key.shape[-1] // query.shape[2]
    if heads is None or kv_heads is None:
        raise ValueError("query (T, H * D) and key (Bn, 128, Hk * D) need num_heads and num_key_value_heads")
    width = query.shape[-1] if len(query.shape) == 3 else query.shape[-1] // max(heads, 1)
    if min(heads, kv_heads, width) < 1 or heads % kv_heads or width % 16 or width > _MOST_CHANNELS:
        raise ValueError(
            f"{heads} heads of queries, {kv_heads} of keys, {width} channels; key heads divide query heads, and "
            f"channels are a multiple of 16 up to {_MOST_CHANNELS}"
        )
    return heads, kv_heads, width


def _check_lengths(q: tuple[int, ...], kv: tuple[int, ...], tokens: int) -> None:
    if len(q) != len(kv) or sum(q) != tokens:
        raise ValueError(
            f"seq_len has {sum(q)} queries in {len(q)} sequences, kv_seq_len {len(kv)} sequences, query {tokens} rows"
        )
    for number, (own, keys) in enumerate(zip(q, kv, strict=True)):
        if keys < own or (keys - own) % BLOCK_SIZE:
            raise ValueError(
                f"sequence {number}: {keys} keys for {own} queries; the prefix is a multiple of {BLOCK_SIZE}"
            )


def _mask(mask: Operand | None, mask_kind: str, kind: DType, stream: Stream) -> Operand | None:
    if mask_kind not in MASK_KINDS:
        raise ValueError(f"mask_kind={mask_kind!r}; it is one of {', '.join(MASK_KINDS)}")
    if mask_kind == "causal":
        if mask is not None:
            raise ValueError("mask_kind='causal' reads no mask; give one with 'norm', 'alibi' or 'alibi_sqrt'")
        return None
    if mask is None:
        key = ("prefix_encoder_mask", mask_kind, kind.name)
        return device_constant(stream.device, key, lambda: prefix_encoder_mask(kind, mask_kind))
    size = BLOCK_SIZE if mask_kind == "norm" else ALIBI_SIZE
    check_operand("mask", mask, kind, (size, size))
    if mask_kind == "norm":
        check_triangle_values(mask, kind)
    return mask


def _slopes(slopes: Operand | None, mask_kind: str, heads: int) -> Operand | None:
    if (slopes is not None) != mask_kind.startswith("alibi"):
        raise ValueError("slopes go with mask_kind 'alibi' and 'alibi_sqrt', and only with these")
    if slopes is None:
        return None
    check_operand("slopes", slopes, FP32, (heads,))
    if isinstance(slopes, np.ndarray) and not (slopes < 0).all():
        raise ValueError("slopes must be negative: they multiply the infinite distance of later keys, which hides them")
    return slopes

"""AtbMLA: new tokens attend to a paged cache of latent keys.

Notation: B sequences; N new tokens of all of them, packed; H heads; Bn blocks of 128 rows in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cann_mla.checks import finite, flag
from cann_mla.dtypes import FP32, INT8, DType, dtype
from cann_mla.ops.atb_operands import (
    check_block_tables,
    check_blocked,
    check_operand,
    half,
    lengths_of_sequences,
)
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.ops.mla_masks import Rows, choose_mask
from cann_mla.ops.ring_mla import NATURAL_SCALE
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

LATENT, ROPE, BLOCK_SIZE = 512, 64, 128
KROPE_CTKV, INT8_NZCACHE, NZCACHE = 1, 2, 3
_CALC_SPEC, _CALC_RING = 1, 2


@dataclass(frozen=True)
class MlaResult:
    """Attention of the new tokens.

    Attributes
    ----------
    atten : Tensor of the dtype of `q_rope`, shape (N, H, 512)
        In the latent space.
    lse : Tensor, shape (N, H, 1), or None
        Natural logarithm of the sum of exponentials, in the dtype of `q_rope`, or FP32 for INT8 queries.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes them.
    """

    atten: Tensor
    lse: Tensor | None

    def close(self) -> None:
        """Close the outputs."""
        self.atten.close()
        if self.lse is not None:
            self.lse.close()

    def __enter__(self) -> MlaResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def mla(
    q_nope: Operand,
    q_rope: Operand,
    ct_kv: Operand,
    k_rope: Operand,
    block_tables: Operand,
    context_lens: Sequence[int],
    *,
    stream: Stream,
    q_seq_len: Sequence[int] | None = None,
    causal: bool = False,
    mask: Operand | None = None,
    qk_descale: Operand | None = None,
    pv_descale: Operand | None = None,
    qk_scale: float = NATURAL_SCALE,
    with_lse: bool = False,
    atten: Tensor | None = None,
    lse: Tensor | None = None,
) -> MlaResult:
    """Attention of new tokens over a paged cache of latent keys, which are the values too: AtbMLA.

    ``score_j = qk_scale * (q_nope . ct_kv_j + q_rope . k_rope_j)``; ``atten = sum_j softmax(score)_j ct_kv_j``.

    Parameters
    ----------
    q_nope : Tensor or ndarray, shape (N, H, 512)
        FP16 or BF16; or INT8, with a cache of INT8.
    q_rope : Tensor or ndarray of FP16 or BF16, shape (N, H, 64)
        Its dtype is that of `k_rope`, the mask and the output too. H is 8, 16, 32, 64 or 128.
    ct_kv, k_rope : Tensor or ndarray
        The cache; its shape says which of ATB's modes it is. KROPE_CTKV: (Bn, 128, 1, 512) and (Bn, 128, 1, 64).
        NZCACHE: (Bn, 32, 128, 16) and (Bn, 4, 128, 16). INT8_NZCACHE: INT8 (Bn, 16, 128, 32) and (Bn, 4, 128, 16).
        Tensors of the latter two have the format FRACTAL_NZ.
    block_tables : Tensor or ndarray of INT32, shape (B, blocks a sequence)
        :func:`cann_mla.ops.block_table` makes one.
    context_lens : sequence of int
        Keys of every sequence, those of its new tokens included. Rows of a sequence with 0 keys keep what they have:
        in new outputs, 0 and an lse of -inf.
    stream : Stream
        Where the call is queued.
    q_seq_len : sequence of int, optional
        New tokens of every sequence, adding up to N. Default: one each.
    causal : bool
        New token ``i`` of ``n`` sees the first ``L - n + 1 + i`` of L keys; otherwise every one sees all. With 128
        heads, or INT8, the kernel is causal whatever is asked for, so that `causal` must be True there if a sequence
        has several new tokens.
    mask : Tensor or ndarray of the dtype of `q_rope`, optional
        With `causal`: the template :func:`mla_mask`, for new tokens of one number, of which one is kept on the device
        by default; where numbers differ, a mask over all keys is made. Without `causal`, for `q_seq_len`: (N, L),
        added to the scaled scores, L at least the longest sequence.
    qk_descale, pv_descale : Tensor or ndarray of FP32, shape (H,)
        Scales of the INT8 products: of queries and keys, and of numerators and values.
    qk_scale : float
        In (0, 1]. Default 192 ** -0.5.
    with_lse : bool
        Whether the result has an lse. Not with `q_seq_len`.
    atten, lse : Tensor, optional
        Where the result goes.

    Returns
    -------
    MlaResult

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or lengths contradict each other; if the cache is none of the three; if a mask would not be
        read, or what is asked for is what the kernel does not do.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbMLA`` and the kernels of multi_latent_attention.
    """
    sizes = _Sizes.of(q_nope, q_rope, ct_kv, k_rope)
    contexts = lengths_of_sequences("context_lens", context_lens, 0)
    check_block_tables(block_tables, contexts, BLOCK_SIZE, ct_kv.shape[0])
    tokens = _new_tokens(q_seq_len, contexts, sizes)
    causal, with_lse = flag("causal", causal), flag("with_lse", with_lse)
    if with_lse and q_seq_len is not None:
        raise ValueError("AtbMLA gives an lse for one new token a sequence; leave q_seq_len or with_lse out")
    _check_descales(qk_descale, pv_descale, sizes)
    if not 0 < finite("qk_scale", qk_scale) <= 1:
        raise ValueError(f"qk_scale={qk_scale}; AtbMLA takes a scale in (0, 1]")
    speculative = q_seq_len is not None
    rows = Rows(tokens, contexts, sizes.heads, sizes.dtype, speculative, sizes.mode == INT8_NZCACHE)
    mask_type, chosen = choose_mask(mask, causal, rows, stream)
    with OperatorCall("AtbMLA", stream) as call:
        call.give(
            {
                "q_nope": q_nope,
                "q_rope": q_rope,
                "ct_kv": ct_kv,
                "k_rope": k_rope,
                "block_tables": block_tables,
                "mask": chosen,
                "qk_descale": qk_descale,
                "pv_descale": pv_descale,
                "head_num": sizes.heads,
                "qk_scale": float(qk_scale),
                "kv_head_num": 1,
                "mask_type": mask_type,
                "calc_type": _CALC_SPEC if speculative else _CALC_RING if with_lse else 0,
                "cache_mode": sizes.mode,
            },
            packed=() if sizes.mode == KROPE_CTKV else ("ct_kv", "k_rope"),
        )
        call.on_host("context_lens", np.array(contexts, np.int32))
        if speculative:
            call.on_host("q_seq_len", np.array(tokens, np.int32))
        out = call.output("atten", atten, (sizes.tokens, sizes.heads, LATENT), str(sizes.dtype))
        logarithm = None
        if with_lse:
            kind = "FP32" if sizes.mode == INT8_NZCACHE else str(sizes.dtype)
            logarithm = call.output("lse", lse, (sizes.tokens, sizes.heads, 1), kind)
        elif lse is not None:
            raise ValueError("lse is written with with_lse=True only")
        if 0 in contexts:
            _fill_new(out, atten, 0, stream)
            _fill_new(logarithm, lse, -np.inf, stream)
        call.run()
    return MlaResult(out, logarithm)


def _fill_new(output: Tensor | None, given: Tensor | None, value: float, stream: Stream) -> None:
    """What the rows hold that the kernel skips."""
    if output is not None and given is None:
        output.copy_from(np.full(output.shape, value, output.dtype.numpy), stream=stream)


@dataclass(frozen=True)
class _Sizes:
    tokens: int
    heads: int
    dtype: DType
    mode: int

    @classmethod
    def of(cls, q_nope: Operand, q_rope: Operand, ct_kv: Operand, k_rope: Operand) -> _Sizes:
        check_rank("q_nope", q_nope, 3)
        check_rank("q_rope", q_rope, 3)
        check_rank("ct_kv", ct_kv, 4)
        kind = half("q_rope", q_rope.dtype)
        tokens, heads = q_nope.shape[:2]
        mode = _cache_mode(ct_kv)
        latent = INT8 if mode == INT8_NZCACHE else kind
        check_operand("q_nope", q_nope, latent, (tokens, heads, LATENT))
        check_operand("q_rope", q_rope, kind, (tokens, heads, ROPE))
        blocks = ct_kv.shape[0]
        check_operand("ct_kv", ct_kv, latent, ct_kv.shape)
        rope = (blocks, BLOCK_SIZE, 1, ROPE) if mode == KROPE_CTKV else (blocks, ROPE // 16, BLOCK_SIZE, 16)
        check_operand("k_rope", k_rope, kind, rope)
        if mode != KROPE_CTKV:
            check_blocked("ct_kv", ct_kv)
            check_blocked("k_rope", k_rope)
        return cls(tokens, heads, kind, mode)


def _cache_mode(ct_kv: Operand) -> int:
    inner = tuple(ct_kv.shape[1:])
    if dtype(ct_kv.dtype) is INT8 and inner == (LATENT // 32, BLOCK_SIZE, 32):
        return INT8_NZCACHE
    modes = {(BLOCK_SIZE, 1, LATENT): KROPE_CTKV, (LATENT // 16, BLOCK_SIZE, 16): NZCACHE}
    if inner not in modes or dtype(ct_kv.dtype) is INT8:
        raise ValueError(
            f"ct_kv is {dtype(ct_kv.dtype)} {list(ct_kv.shape)}; a cache of latent keys is FP16 or BF16 [blocks, 128, "
            "1, 512] or [blocks, 32, 128, 16], or INT8 [blocks, 16, 128, 32]"
        )
    return modes[inner]


def _new_tokens(q_seq_len: Sequence[int] | None, contexts: tuple[int, ...], sizes: _Sizes) -> tuple[int, ...]:
    tokens = (1,) * len(contexts) if q_seq_len is None else lengths_of_sequences("q_seq_len", q_seq_len, 1)
    if len(tokens) != len(contexts) or sum(tokens) != sizes.tokens:
        raise ValueError(
            f"{len(contexts)} sequences by context_lens have {sum(tokens)} new tokens in {len(tokens)} sequences; "
            f"q_nope has {sizes.tokens}"
        )
    for number, (new, keys) in enumerate(zip(tokens, contexts, strict=True)):
        if 0 < keys < new:
            raise ValueError(f"sequence {number}: {keys} keys cannot include those of its {new} new tokens")
    return tokens


def _check_descales(qk_descale: Operand | None, pv_descale: Operand | None, sizes: _Sizes) -> None:
    for name, scale in (("qk_descale", qk_descale), ("pv_descale", pv_descale)):
        if (scale is not None) != (sizes.mode == INT8_NZCACHE):
            raise ValueError(f"{name} goes with an INT8 cache, and only with one")
        if scale is not None:
            check_operand(name, scale, FP32, (sizes.heads,))

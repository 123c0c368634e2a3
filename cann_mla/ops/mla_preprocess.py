"""AtbMLAPreprocess: from hidden states to the queries of MLA and the rows of its cache, with INT8 projections.

Notation: N tokens; H heads; Bn blocks of Bs rows in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cann_mla.dtypes import BF16, FP16, FP32, INT64
from cann_mla.ops.atb_operands import check_blocked, check_operand, half
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.ops.mla_preprocess_operands import (
    INT8_NZCACHE,
    KVCACHE,
    LATENT,
    NZCACHE,
    PER_TENSOR,
    PER_TOKEN,
    ROPE,
    blocked_weight,
    check_cache_scales,
    check_slots,
    find_cache,
    quant_mode,
)
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

HIDDEN, NOPE, Q_LORA = 7168, 128, 1536
DOWN, UP = LATENT + ROPE + Q_LORA, NOPE + ROPE
_FIXED = {"gamma0": (HIDDEN,), "beta0": (HIDDEN,), "gamma1": (Q_LORA,), "beta1": (Q_LORA,), "gamma2": (LATENT,)}
_NO_OPERANDS = ("stream", "kv_cache", "kv_cache_rope", "q_out0", "q_out1")


@dataclass(frozen=True)
class MlaPreprocessResult:
    """Queries, and the caches that were given, which have new rows.

    Attributes
    ----------
    q_out0 : Tensor
        (N, H, 512), INT8 with a cache of INT8; or, with one cache for both parts, (N, H, 576).
    q_out1 : Tensor, shape (N, H, 64), or None
    kv_cache, kv_cache_rope : Tensor or ndarray
        As they were given; the latter may be None.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes the queries,
    not the caches.
    """

    q_out0: Tensor
    q_out1: Tensor | None
    kv_cache: Operand
    kv_cache_rope: Operand | None

    def close(self) -> None:
        """Close the queries."""
        self.q_out0.close()
        if self.q_out1 is not None:
            self.q_out1.close()

    def __enter__(self) -> MlaPreprocessResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def mla_preprocess(
    input: Operand,
    gamma0: Operand,
    beta0: Operand,
    wdqkv: Operand,
    de_scale0: Operand,
    gamma1: Operand,
    beta1: Operand,
    wuq: Operand,
    de_scale1: Operand,
    gamma2: Operand,
    cos: Operand,
    sin: Operand,
    wuk: Operand,
    kv_cache: Operand,
    slotmapping: Operand,
    *,
    stream: Stream,
    kv_cache_rope: Operand | None = None,
    quant_scale0: Operand | None = None,
    quant_offset0: Operand | None = None,
    bias0: Operand | None = None,
    quant_scale1: Operand | None = None,
    quant_offset1: Operand | None = None,
    bias1: Operand | None = None,
    ctkv_scale: Operand | None = None,
    q_nope_scale: Operand | None = None,
    q_out0: Tensor | None = None,
    q_out1: Tensor | None = None,
) -> MlaPreprocessResult:
    """Queries and cache rows of new tokens, at the sizes of DeepSeek-V3: AtbMLAPreprocess.

    ::

        [ckv | k_pe | q_lora] = project(input, gamma0, beta0, wdqkv)
        [nope | q_pe] a head  = project(q_lora, gamma1, beta1, wuq)
        query                 = [nope @ wuk[h] | rope(q_pe)]
        row of the cache      = [rms_norm(ckv) * gamma2 | rope(k_pe)]

    where project normalises, quantises to INT8, multiplies and scales back; the rotation is that of halves, and the
    epsilon of the norms is 1e-6.

    Parameters
    ----------
    input : Tensor or ndarray of FP16 or BF16, shape (N, 7168), N up to 1024
        Its dtype is "the 16-bit type" below.
    gamma0, beta0, gamma1, beta1, gamma2 : of the 16-bit type, shapes (7168,), (7168,), (1536,), (1536,), (512,)
    wdqkv, wuq : of INT8
        Arrays (2112, 7168) and (H * 192, 1536), an output channel a row, which become blocks on their way; or blocks,
        (1, 224, 2112, 32) and (1, 48, H * 192, 32), tensors in the format FRACTAL_NZ.
    de_scale0, de_scale1 : shapes (2112,), (H * 192,)
        Scales of the products. FP32; with one scale for all tokens and an FP16 input, INT64 (:func:`scale_bits`).
    cos, sin : of the 16-bit type, shape (N, 64)
    wuk : of the 16-bit type, shape (H, 128, 512) or, in blocks, (H, 32, 128, 16)
    kv_cache : Tensor or ndarray
        Rows of it are written; its shape says which of ATB's modes it is. KVCACHE: (Bn, Bs, 1, 576). KROPE_CTKV:
        (Bn, Bs, 1, 512). NZCACHE: (Bn, 32, 128, 16). INT8_NZCACHE: INT8 (Bn, 16, 128, 32). Of the 16-bit type but for
        the last. Blocks have up to 128 rows, or 256; tensors of the latter two have the format FRACTAL_NZ.
    slotmapping : Tensor or ndarray of INT32, shape (N,)
        Row of the cache over all blocks; a token with a negative one is not written.
    stream : Stream
        Where the call is queued. With caches that are arrays the call waits for it.
    kv_cache_rope : Tensor or ndarray of the 16-bit type
        For all modes but KVCACHE: (Bn, Bs, 1, 64), or (Bn, 4, 128, 16).
    quant_scale0, quant_offset0, quant_scale1, quant_offset1 : optional
        One scale for all tokens, of the 16-bit type and shape (1,), and an offset of INT8. All six with the biases, or
        none: then every token has a scale of its own.
    bias0, bias1 : of INT32, shapes (2112,), (H * 192,), optional
        Added to the integer products.
    ctkv_scale, q_nope_scale : of the 16-bit type, shapes (1,), (H,)
        For INT8_NZCACHE: keys are divided by the first, queries multiplied by the second. With a BF16 input there must
        be one scale for all tokens.
    q_out0, q_out1 : Tensor, optional
        Where the queries go.

    Returns
    -------
    MlaPreprocessResult

    Raises
    ------
    TypeError, ValueError
        If operands that go together are not given together; if shapes or dtypes contradict each other; if a slot lies
        beyond the cache.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbMLAPreprocess`` and the kernel of mla_preprocess.
    """
    given = {name: value for name, value in locals().items() if name not in _NO_OPERANDS}
    check_rank("input", input, 2)
    check_rank("wuk", wuk, 3, 4)
    kind, tokens, heads = half("input", input.dtype), input.shape[0], wuk.shape[0]
    mode, slots = find_cache(kv_cache, kv_cache_rope, kind)
    per_tensor = quant_mode(quant_scale0, quant_offset0, bias0, quant_scale1, quant_offset1, bias1) == PER_TENSOR
    shapes = {"input": (tokens, HIDDEN), "cos": (tokens, ROPE), "sin": (tokens, ROPE), **_FIXED}
    for name, shape in shapes.items():
        check_operand(name, given[name], kind, shape)
    check_operand("wuk", wuk, kind, (heads, NOPE, LATENT), (heads, LATENT // 16, NOPE, 16))
    for name, width in (("de_scale0", DOWN), ("de_scale1", heads * UP)):
        check_operand(name, given[name], INT64 if per_tensor and kind is FP16 else FP32, (width,))
    check_slots(slotmapping, tokens, slots)
    if mode == INT8_NZCACHE and kind is BF16 and not per_tensor:
        raise ValueError(
            "an INT8 cache and a BF16 input need quant_scale0 and what goes with it: for scales a token ATB takes "
            "ctkv_scale and q_nope_scale in FP16 only, which its kernel then reads as BF16"
        )
    check_cache_scales(ctkv_scale, q_nope_scale, mode, kind, heads)
    given["wdqkv"] = blocked_weight("wdqkv", wdqkv, DOWN, HIDDEN)
    given["wuq"] = blocked_weight("wuq", wuq, heads * UP, Q_LORA)
    blocked = ["wdqkv", "wuq"]
    if len(wuk.shape) == 4:
        check_blocked("wuk", wuk)
        blocked.append("wuk")
    if mode in (INT8_NZCACHE, NZCACHE):
        blocked += ["kv_cache", "kv_cache_rope"]
    with OperatorCall("AtbMLAPreprocess", stream) as call:
        call.give(
            given | _reserved() | {"cache_mode": mode, "quant_mode": PER_TENSOR if per_tensor else PER_TOKEN},
            packed=blocked,
        )
        call.update("kv_cache", "kv_cache_out0", kv_cache, packed="kv_cache" in blocked)
        if kv_cache_rope is not None:
            call.update("kv_cache_rope", "kv_cache_out1", kv_cache_rope, packed="kv_cache_rope" in blocked)
        width = LATENT + ROPE if mode == KVCACHE else LATENT
        first = call.output("q_out0", q_out0, (tokens, heads, width), "INT8" if mode == INT8_NZCACHE else str(kind))
        second = None if mode == KVCACHE else call.output("q_out1", q_out1, (tokens, heads, ROPE), str(kind))
        call.run()
    return MlaPreprocessResult(first, second, kv_cache, kv_cache_rope)


def _reserved() -> dict[str, Any]:
    """Parameters that ATB's kernel does not read."""
    numbers = {
        "wdq_dim": 0,
        "q_rope_dim": 0,
        "k_rope_dim": 0,
        "epsilon": 1e-6,
        "q_rotary_coeff": 2,
        "k_rotary_coeff": 2,
    }
    return numbers | {"transpose_wdq": True, "transpose_wuq": True, "transpose_wuk": True}

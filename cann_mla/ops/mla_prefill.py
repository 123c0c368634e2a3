"""AtbMLAPreFill: prompts attend to themselves.

Notation: B sequences; N tokens of all of them, packed; H heads; L tokens of the longest sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cann_mla.checks import finite, flag
from cann_mla.ops.atb_operands import check_operand, half, lengths_of_sequences
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.ops.ring_mla import NATURAL_SCALE, NOPE_SIZE, ROPE_SIZE, VALUE_SIZE, causal_template
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

_MASK_FREE = 2
_CACHE_MODE = 1
_MOST_HEADS = 128


def mla_prefill(
    q: Operand,
    q_rope: Operand,
    k: Operand,
    k_rope: Operand,
    v: Operand,
    seq_len: Sequence[int],
    *,
    stream: Stream,
    causal: bool = True,
    mask: Operand | None = None,
    qk_scale: float = NATURAL_SCALE,
    atten: Tensor | None = None,
) -> Tensor:
    """Attention of every prompt to itself: AtbMLAPreFill.

    ``score = qk_scale * (q . k + q_rope . k_rope)``. The same as a first :func:`ring_mla` over as many keys as
    queries, without its lse.

    Parameters
    ----------
    q, q_rope : Tensor or ndarray of FP16 or BF16, shapes (N, H, 128) and (N, H, 64)
        Or (N, H * 128) and (N, H * 64). All operands have one dtype.
    k, k_rope, v : Tensor or ndarray
        Packed, (N, H, 128), (N, H, 64) and (N, H, 128); or padded to the longest prompt, (B, L, H * 128),
        (B, L, H * 64) and (B, L, H * 128). As many heads as the queries.
    seq_len : sequence of int
        Tokens of each prompt, queries as well as keys; they add up to N.
    stream : Stream
        Where the call is queued.
    causal : bool
        Whether token ``i`` sees tokens ``0..i`` of its prompt, or all.
    mask : Tensor or ndarray, shape (512, 512), optional
        With `causal`, what hides the keys; default :func:`ring_mla_mask`, of which one stays on the device.
    qk_scale : float
        In (0, 1]. Default 192 ** -0.5.
    atten : Tensor, optional
        Where the result goes.

    Returns
    -------
    Tensor
        Of the shape and dtype of `q`. It holds its values when the stream has passed the call.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or lengths contradict each other, or the mask is not what the kernel reads.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbMLAPreFill`` and the kernels of multi_latent_attention for prefill.
    """
    lengths = lengths_of_sequences("seq_len", seq_len, 1)
    check_rank("q", q, 2, 3)
    check_rank("k", k, 3)
    kind = half("q", q.dtype)
    tokens = q.shape[0]
    heads = q.shape[1] if len(q.shape) == 3 else q.shape[1] // NOPE_SIZE
    if not 1 <= heads <= _MOST_HEADS or sum(lengths) != tokens:
        raise ValueError(
            f"q has {tokens} tokens of {heads} heads; it must have the {sum(lengths)} tokens of seq_len, and 1 to "
            f"{_MOST_HEADS} heads"
        )
    causal = flag("causal", causal)
    if not 0 < finite("qk_scale", qk_scale) <= 1:
        raise ValueError(f"qk_scale={qk_scale}; AtbMLAPreFill takes a scale in (0, 1]")
    check_operand("q", q, kind, (tokens, heads, NOPE_SIZE), (tokens, heads * NOPE_SIZE))
    check_operand("q_rope", q_rope, kind, (tokens, heads, ROPE_SIZE), (tokens, heads * ROPE_SIZE))
    packed, padded = (tokens, heads), (len(lengths), max(lengths))
    is_packed = tuple(k.shape) == (*packed, NOPE_SIZE)
    check_operand("k", k, kind, (*packed, NOPE_SIZE), (*padded, heads * NOPE_SIZE))
    keys = {"k": (k, NOPE_SIZE), "k_rope": (k_rope, ROPE_SIZE), "v": (v, VALUE_SIZE)}
    for name, (operand, width) in keys.items():
        check_operand(name, operand, kind, (*packed, width) if is_packed else (*padded, heads * width))
    if mask is not None and not causal:
        raise ValueError("a mask has no effect without causal=True")
    with OperatorCall("AtbMLAPreFill", stream) as call:
        call.give(
            {
                "q": q,
                "q_rope": q_rope,
                **{name: operand if is_packed else _by_rows(operand, heads) for name, (operand, _) in keys.items()},
                "mask": causal_template(mask, kind, causal, stream) if causal else None,
                "head_num": heads,
                "qk_scale": float(qk_scale),
                "kv_head_num": heads,
                "mask_type": _MASK_FREE if causal else 0,
                "cache_mode": _CACHE_MODE,
            }
        )
        for name in ("q_seq_len", "kv_seq_len"):
            call.on_host(name, np.array(lengths, np.int32))
        result = call.output("atten", atten, tuple(q.shape), str(kind))
        call.run()
    return result


def _by_rows(keys: Operand, heads: int) -> Operand:
    """Padded keys (B, L, H * width) as (B * L, H, width), the form in which ATB knows that they are padded."""
    prompts, longest, width = keys.shape
    shape = (prompts * longest, heads, width // heads)
    if isinstance(keys, np.ndarray):
        return keys.reshape(shape)
    return keys.view(shape, storage_shape=shape) if keys.layout.dense else keys  # strided ones are refused later

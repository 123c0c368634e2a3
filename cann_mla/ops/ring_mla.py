"""AtbRingMLA: attention whose results over parts of the keys can be merged, one part a call.

Notation: B sequences, packed one after the other; Tq and Tk tokens of queries and keys in all; H heads, Hk heads of
keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.checks import finite, flag, shortened
from cann_mla.dtypes import FP32, DType, DTypeLike
from cann_mla.ops.atb_operands import (
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

NOPE_SIZE, ROPE_SIZE, VALUE_SIZE = 128, 64, 128
MASK_SIZE = 512
NATURAL_SCALE = (NOPE_SIZE + ROPE_SIZE) ** -0.5


@dataclass(frozen=True)
class RingMlaResult:
    """Attention over the keys seen so far.

    Attributes
    ----------
    output : Tensor of FP16 or BF16, shape (Tq, H, 128)
    softmax_lse : Tensor of FP32, shape (H, Tq)
        Natural logarithm of the sum of exponentials, scale and mask included.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. ``close()`` (or ``with``) closes both.
    """

    output: Tensor
    softmax_lse: Tensor

    def close(self) -> None:
        """Close both tensors."""
        self.output.close()
        self.softmax_lse.close()

    def __enter__(self) -> RingMlaResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def ring_mla_mask(element: DTypeLike) -> npt.NDArray[Any]:
    """The triangular mask of a dtype, shape (512, 512), for sequences of any length.

    Parameters
    ----------
    element : DType, str or NumPy dtype
        FP16 or BF16, as the queries. The kernel reads the two differently: what is hidden is 1 in BF16, and -10000,
        which is added to the score, in FP16; the rest is 0.

    Raises
    ------
    ValueError
        For another dtype.
    """
    return triangle(half("the mask", element), MASK_SIZE)


def ring_mla(
    query_split1: Operand,
    query_split2: Operand,
    key_split1: Operand,
    key_split2: Operand,
    value: Operand,
    seq_len: Sequence[int],
    kv_seq_len: Sequence[int] | None = None,
    *,
    stream: Stream,
    causal: bool = False,
    mask: Operand | None = None,
    previous: RingMlaResult | tuple[Tensor, Tensor] | None = None,
    qk_scale: float = NATURAL_SCALE,
    output: Tensor | None = None,
    softmax_lse: Tensor | None = None,
) -> RingMlaResult:
    """Attention over packed sequences, merged with a previous result if there is one: AtbRingMLA.

    ``score = qk_scale * (query_split1 . key_split1 + query_split2 . key_split2)``; query head ``h`` sees key head
    ``h // (H / Hk)``. Merging: ``lse = log(exp(lse_a) + exp(lse_b))``, and the outputs weighed with
    ``exp(lse_a - lse)`` and ``exp(lse_b - lse)``.

    Parameters
    ----------
    query_split1, query_split2 : Tensor or ndarray of FP16 or BF16, shapes (Tq, H, 128), (Tq, H, 64)
        Parts without and with rotary embedding. All operands have one dtype.
    key_split1, key_split2, value : shapes (Tk, Hk, 128), (Tk, Hk, 64), (Tk, Hk, 128)
    seq_len : sequence of int
        Queries of each sequence, at least 1; they add up to Tq.
    kv_seq_len : sequence of int, optional
        Keys of each sequence, adding up to Tk. Default: as `seq_len`. Rows of a sequence with 0 keys keep what they
        have: the previous result, or output 0 and lse -inf.
    stream : Stream
        Where the call is queued.
    causal : bool
        Row ``i`` of a sequence sees its keys ``0..i``, from the top left also where there are more keys; a sequence
        must then have as many keys as queries, or more, or none. Otherwise it sees all.
    mask : Tensor or ndarray, shape (512, 512), optional
        With `causal`, what hides the keys; default :func:`ring_mla_mask`, of which one stays on the device.
    previous : RingMlaResult or (output, softmax_lse), optional
        Result over other keys; it is updated in place unless `output` and `softmax_lse` are given. Without it, the
        call starts a new result.
    qk_scale : float
        Default 192 ** -0.5.
    output, softmax_lse : Tensor, optional
        Where the result goes. Both or none.

    Returns
    -------
    RingMlaResult

    Raises
    ------
    ValueError
        If shapes, dtypes or lengths contradict each other, or what ATB would accept would compute something else: a
        mask in the convention of the other dtype or of another shape, an lse of 16 bits.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbRingMLA`` and the kernel ``ring_mla_prefill``.
    """
    sizes = _Sizes.of(query_split1, query_split2, key_split1, key_split2, value)
    causal, qk_scale = flag("causal", causal), finite("qk_scale", qk_scale)
    q_lengths = lengths_of_sequences("seq_len", seq_len, 1)
    kv_lengths = q_lengths if kv_seq_len is None else lengths_of_sequences("kv_seq_len", kv_seq_len, 0)
    _check_lengths(q_lengths, kv_lengths, sizes, causal)
    before = None if previous is None else _previous(previous, sizes)
    if (output is None) != (softmax_lse is None):
        raise ValueError("give both output and softmax_lse, or neither")
    skipped = 0 in kv_lengths
    if before is not None and output is None:
        output, softmax_lse = before
    elif before is not None and skipped and output is not before[0]:
        raise ValueError(
            "a sequence with 0 keys leaves its rows of output untouched; leave output out, to update the previous one"
        )
    with OperatorCall("AtbRingMLA", stream) as call:
        call.give(
            {
                "query_split1": query_split1,
                "query_split2": query_split2,
                "key_split1": key_split1,
                "key_split2": key_split2,
                "value": value,
                "mask": causal_template(mask, sizes.dtype, causal, stream),
                "prev": None if before is None else before[0],
                "prev_lse": None if before is None else before[1],
                "head_num": sizes.heads,
                "kv_head_num": sizes.kv_heads,
                "qk_scale": qk_scale,
                "kernel_type": 1,
                "mask_type": int(causal),
                "input_layout": 0,
                "calc_type": int(before is None),
            }
        )
        call.on_host("seq_len", np.array([q_lengths, kv_lengths], np.int32))
        made = output is None
        result = RingMlaResult(
            call.output("output", output, (sizes.tokens, sizes.heads, VALUE_SIZE), str(sizes.dtype), replaces="prev"),
            call.output("softmax_lse", softmax_lse, (sizes.heads, sizes.tokens), "FP32", replaces="prev_lse"),
        )
        if skipped and before is None and made:
            result.output.copy_from(np.zeros(result.output.shape, sizes.dtype.numpy), stream=stream)
            result.softmax_lse.copy_from(np.full(result.softmax_lse.shape, -np.inf, np.float32), stream=stream)
        call.run()
    return result


@dataclass(frozen=True)
class _Sizes:
    tokens: int
    kv_tokens: int
    heads: int
    kv_heads: int
    dtype: DType

    @classmethod
    def of(cls, query1: Operand, query2: Operand, key1: Operand, key2: Operand, value: Operand) -> _Sizes:
        operands = {
            "query_split1": query1, "query_split2": query2, "key_split1": key1, "key_split2": key2, "value": value,
        }  # fmt: skip
        for name, operand in operands.items():
            check_rank(name, operand, 3)
        kind = half("query_split1", query1.dtype)
        (tokens, heads), (kv_tokens, kv_heads) = query1.shape[:2], key1.shape[:2]
        wanted = {
            "query_split1": (tokens, heads, NOPE_SIZE),
            "query_split2": (tokens, heads, ROPE_SIZE),
            "key_split1": (kv_tokens, kv_heads, NOPE_SIZE),
            "key_split2": (kv_tokens, kv_heads, ROPE_SIZE),
            "value": (kv_tokens, kv_heads, VALUE_SIZE),
        }
        for name, operand in operands.items():
            check_operand(name, operand, kind, wanted[name])
        if min(tokens, heads, kv_tokens, kv_heads) < 1:
            raise ValueError(
                f"{tokens} queries of {heads} heads, {kv_tokens} keys of {kv_heads} heads; there must be one of each"
            )
        if heads % kv_heads:
            raise ValueError(f"{kv_heads} heads of keys do not divide {heads} heads of queries")
        return cls(tokens, kv_tokens, heads, kv_heads, kind)


def _check_lengths(q: tuple[int, ...], kv: tuple[int, ...], sizes: _Sizes, causal: bool) -> None:
    if len(q) != len(kv):
        raise ValueError(f"seq_len has {len(q)} sequences, kv_seq_len {len(kv)}")
    if max(kv) < 1:
        raise ValueError("one of the sequences needs a key")
    if (sum(q), sum(kv)) != (sizes.tokens, sizes.kv_tokens):
        raise ValueError(
            f"the lengths add up to {sum(q)} queries and {sum(kv)} keys, "
            f"the tensors have {sizes.tokens} and {sizes.kv_tokens}"
        )
    short = next((i for i, (a, b) in enumerate(zip(q, kv, strict=True)) if 0 < b < a), None)
    if causal and short is not None:
        raise ValueError(f"sequence {short}: {kv[short]} keys for {q[short]} queries; causal needs as many, or none")


def _previous(previous: RingMlaResult | tuple[Tensor, Tensor], sizes: _Sizes) -> tuple[Tensor, Tensor]:
    if isinstance(previous, RingMlaResult):
        previous = previous.output, previous.softmax_lse
    if not (isinstance(previous, tuple) and [type(member) for member in previous] == [Tensor, Tensor]):
        raise TypeError(f"previous takes a RingMlaResult, or its two Tensors as a tuple; got {shortened(previous)}")
    output, lse = previous
    check_operand("the previous output", output, sizes.dtype, (sizes.tokens, sizes.heads, VALUE_SIZE))
    check_operand("the previous lse", lse, FP32, (sizes.heads, sizes.tokens))
    return output, lse


def causal_template(mask: Operand | None, kind: DType, causal: bool, stream: Stream) -> Operand:
    """The mask, which ATB wants in any case; what would compute something else is refused.

    Raises
    ------
    ValueError
    """
    if mask is None:
        return device_constant(stream.device, ("ring_mla_mask", kind.name), lambda: ring_mla_mask(kind))
    if not causal:
        raise ValueError("a mask has no effect without causal=True")
    check_operand("mask", mask, kind, (MASK_SIZE, MASK_SIZE))
    check_triangle_values(mask, kind)
    return mask

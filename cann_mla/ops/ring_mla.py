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

from cann_mla.dtypes import BF16, DType, DTypeLike, dtype
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

NOPE_SIZE, ROPE_SIZE, VALUE_SIZE = 128, 64, 128
MASK_SIZE = 512
NATURAL_SCALE = (NOPE_SIZE + ROPE_SIZE) ** -0.5
_FP16_HIDDEN = -1e4


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
    kind = _half("the mask", dtype(element))
    hidden = 1.0 if kind is BF16 else _FP16_HIDDEN
    return np.triu(np.full((MASK_SIZE, MASK_SIZE), hidden, np.float32), k=1).astype(kind.numpy)


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
        With `causal`, what hides the keys; default :func:`ring_mla_mask`. Keep one on the device for many calls.
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
    q_lengths = tuple(map(int, seq_len))
    kv_lengths = q_lengths if kv_seq_len is None else tuple(map(int, kv_seq_len))
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
                "mask": _mask(mask, sizes.dtype, causal),
                "prev": None if before is None else before[0],
                "prev_lse": None if before is None else before[1],
                "head_num": sizes.heads,
                "kv_head_num": sizes.kv_heads,
                "qk_scale": float(qk_scale),
                "kernel_type": 1,
                "mask_type": int(causal),
                "input_layout": 0,
                "calc_type": int(before is None),
            }
        )
        call.on_host("seq_len", np.array([q_lengths, kv_lengths], np.int32))
        made = output is None
        result = RingMlaResult(
            call.output("output", output, (sizes.tokens, sizes.heads, VALUE_SIZE), str(sizes.dtype)),
            call.output("softmax_lse", softmax_lse, (sizes.heads, sizes.tokens), "FP32"),
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
        kind = _half("query_split1", dtype(query1.dtype))
        (tokens, heads), (kv_tokens, kv_heads) = query1.shape[:2], key1.shape[:2]
        wanted = {
            "query_split1": (tokens, heads, NOPE_SIZE),
            "query_split2": (tokens, heads, ROPE_SIZE),
            "key_split1": (kv_tokens, kv_heads, NOPE_SIZE),
            "key_split2": (kv_tokens, kv_heads, ROPE_SIZE),
            "value": (kv_tokens, kv_heads, VALUE_SIZE),
        }
        for name, operand in operands.items():
            if tuple(operand.shape) != wanted[name] or dtype(operand.dtype) is not kind:
                raise ValueError(
                    f"{name} must be {kind} {list(wanted[name])} here, not {dtype(operand.dtype)} {list(operand.shape)}"
                )
        if heads % kv_heads:
            raise ValueError(f"{kv_heads} heads of keys do not divide {heads} heads of queries")
        return cls(tokens, kv_tokens, heads, kv_heads, kind)


def _half(name: str, kind: DType) -> DType:
    if str(kind) not in ("FP16", "BF16"):
        raise ValueError(f"{name} must be FP16 or BF16, not {kind}")
    return kind


def _check_lengths(q: tuple[int, ...], kv: tuple[int, ...], sizes: _Sizes, causal: bool) -> None:
    if len(q) != len(kv):
        raise ValueError(f"seq_len has {len(q)} sequences, kv_seq_len {len(kv)}")
    if min(q, default=0) < 1 or min(kv) < 0 or max(kv) < 1:
        raise ValueError(f"every sequence needs a query, and one of them a key; got {q} queries and {kv} keys")
    if (sum(q), sum(kv)) != (sizes.tokens, sizes.kv_tokens):
        raise ValueError(
            f"the lengths add up to {sum(q)} queries and {sum(kv)} keys, "
            f"the tensors have {sizes.tokens} and {sizes.kv_tokens}"
        )
    short = next((i for i, (a, b) in enumerate(zip(q, kv, strict=True)) if 0 < b < a), None)
    if causal and short is not None:
        raise ValueError(f"sequence {short}: {kv[short]} keys for {q[short]} queries; causal needs as many, or none")


def _previous(previous: RingMlaResult | tuple[Tensor, Tensor], sizes: _Sizes) -> tuple[Tensor, Tensor]:
    given = (previous.output, previous.softmax_lse) if isinstance(previous, RingMlaResult) else tuple(previous)
    output, lse = given
    if (output.shape, output.dtype) != ((sizes.tokens, sizes.heads, VALUE_SIZE), sizes.dtype):
        raise ValueError(
            f"the previous output must be {sizes.dtype} {[sizes.tokens, sizes.heads, VALUE_SIZE]}, "
            f"not {output.dtype} {list(output.shape)}"
        )
    if (lse.shape, str(lse.dtype)) != ((sizes.heads, sizes.tokens), "FP32"):
        raise ValueError(
            f"the previous lse must be FP32 {[sizes.heads, sizes.tokens]}, not {lse.dtype} {list(lse.shape)}"
        )
    return output, lse


def _mask(mask: Operand | None, kind: DType, causal: bool) -> Operand:
    """The mask, which ATB wants in any case; what would compute something else is refused."""
    if mask is None:
        return ring_mla_mask(kind)
    if not causal:
        raise ValueError("a mask has no effect without causal=True")
    check_rank("mask", mask, 2)
    if tuple(mask.shape) != (MASK_SIZE, MASK_SIZE) or dtype(mask.dtype) is not kind:
        raise ValueError(
            f"mask must be {kind} [{MASK_SIZE}, {MASK_SIZE}], of which the kernel takes what it needs, "
            f"not {dtype(mask.dtype)} {list(mask.shape)}"
        )
    if isinstance(mask, np.ndarray):
        _check_convention(mask.astype(np.float32), kind)
    return mask


def _check_convention(values: npt.NDArray[np.float32], kind: DType) -> None:
    if kind is BF16 and not np.isin(values, (0, 1)).all():
        raise ValueError("a BF16 mask holds 1 where a key is hidden and 0 elsewhere: the kernel multiplies it by -3e38")
    if kind is not BF16 and (values.max() > 0 or np.isnan(values).any()):
        raise ValueError("an FP16 mask is added to the scores: it holds -10000 where a key is hidden and 0 elsewhere")

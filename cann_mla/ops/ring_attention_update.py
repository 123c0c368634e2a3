"""RingAttentionUpdate, versions 1 and 2: merge two partial attention results of the same queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import dtype
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

COPIES = 8


@dataclass(frozen=True)
class RingAttentionUpdateResult:
    """The merged result, in the layouts of the operands.

    Attributes
    ----------
    attn_out : Tensor
    softmax_max, softmax_sum : Tensor of FP32

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes them.
    """

    attn_out: Tensor
    softmax_max: Tensor
    softmax_sum: Tensor

    def close(self) -> None:
        """Close the outputs."""
        for tensor in (self.attn_out, self.softmax_max, self.softmax_sum):
            tensor.close()

    def __enter__(self) -> RingAttentionUpdateResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def ring_attention_update(
    prev_attn: Operand,
    prev_softmax_max: Operand,
    prev_softmax_sum: Operand,
    cur_attn: Operand,
    cur_softmax_max: Operand,
    cur_softmax_sum: Operand,
    *,
    stream: Stream,
    input_layout: str = "SBH",
    actual_seq_qlen: Operand | None = None,
    input_softmax_layout: str = "",
    attn_out: Tensor | None = None,
    softmax_max: Tensor | None = None,
    softmax_sum: Tensor | None = None,
    version: int | None = None,
) -> RingAttentionUpdateResult:
    """Call ``aclnnRingAttentionUpdate`` or its V2 on a stream.

    Every row of every head, with maxima m, sums s and outputs o of the two parts::

        max = maximum(m_prev, m_cur)        w = s * exp(m - max)        sum = w_prev + w_cur
        attn_out = (o_prev * w_prev + o_cur * w_cur) / sum

    Parameters
    ----------
    prev_attn, cur_attn : FP16, BF16 or FP32, shape (S, B, H) or (T, N, D)
    prev_softmax_max, prev_softmax_sum, cur_softmax_max, cur_softmax_sum : FP32
        (B, N, S, 8) for SBH, (T, N, 8) for TND: eight equal copies (:func:`softmax_statistics` makes them).
    stream : Stream
        The call returns when the work is queued there.
    input_layout : {"SBH", "TND"}
    actual_seq_qlen : INT64, shape (B + 1,), optional
        For TND: prefix sums that begin with 0.
    input_softmax_layout : {"", "SBH", "TND"}
        For TND. "TND": statistics lie by token, as their shape says. Otherwise each sequence's lie as (N, s, 8),
        from where its tokens begin. Anything but "" needs version 2.
    attn_out, softmax_max, softmax_sum : Tensor, optional
        Where to write; new tensors otherwise.
    version : {1, 2}, optional
        Default: 1, or 2 with an `input_softmax_layout`.

    Returns
    -------
    RingAttentionUpdateResult

    Raises
    ------
    ValueError
        If a layout is unknown, lengths are missing for TND, ranks do not fit, the version lacks what was asked
        for, or an output given has another shape or type.
    CannError
        If CANN refuses the call.

    Notes
    -----
    Source: CANN's documentation of aclnnRingAttentionUpdateV2.
    """
    chosen = _choose_version(version, input_layout, input_softmax_layout, actual_seq_qlen)
    check_rank("prev_attn", prev_attn, 3)
    check_rank("prev_softmax_max", prev_softmax_max, 4 if input_layout == "SBH" else 3)
    given = {
        "prev_attn": prev_attn, "prev_softmax_max": prev_softmax_max, "prev_softmax_sum": prev_softmax_sum,
        "cur_attn": cur_attn, "cur_softmax_max": cur_softmax_max, "cur_softmax_sum": cur_softmax_sum,
        "actual_seq_qlen": actual_seq_qlen, "input_layout": input_layout,
    }  # fmt: skip
    if chosen == 2:
        given["input_softmax_layout"] = input_softmax_layout
    statistics = tuple(prev_softmax_max.shape)
    with OperatorCall("aclnnRingAttentionUpdate" + ("V2" if chosen == 2 else ""), stream) as call:
        call.give(given)
        out = call.output("attn_out", attn_out, tuple(prev_attn.shape), dtype(prev_attn.dtype).name)
        maxima = call.output("softmax_max", softmax_max, statistics, "FP32")
        sums = call.output("softmax_sum", softmax_sum, statistics, "FP32")
        call.run()
    return RingAttentionUpdateResult(out, maxima, sums)


def softmax_statistics(
    softmax_lse: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Maxima and sums of a partial result, from the lse that FusedInferAttentionScore gives.

    ``m + log(s)`` is all that a merge needs, so that m = lse and s = 1 serve. A row that saw nothing has lse = +inf
    there; it gets a maximum of -1e30, so that it weighs nothing beside a part that saw something.

    Parameters
    ----------
    softmax_lse : ndarray of float32, shape (B, N, S, 1) or (T, N, 1)

    Returns
    -------
    tuple of ndarray of float32
        Maxima and sums with eight copies on the last axis, for SBH, or for TND with input_softmax_layout "TND".
    """
    seen = np.isfinite(softmax_lse)
    maxima = np.where(seen, softmax_lse, np.float32(_UNSEEN)).astype(np.float32)
    copies = np.repeat(maxima, COPIES, axis=-1)
    return copies, np.ones_like(copies)


_UNSEEN = -1e30


def _choose_version(version: int | None, layout: str, softmax_layout: str, lengths: Operand | None) -> int:
    # CANN's own code crashes on some of these, so they never reach it.
    if layout not in ("SBH", "TND"):
        raise ValueError(f"input_layout={layout!r}; it is 'SBH' or 'TND'")
    if softmax_layout not in ("", "SBH", "TND"):
        raise ValueError(f"input_softmax_layout={softmax_layout!r}; it is '', 'SBH' or 'TND'")
    if layout == "TND" and lengths is None:
        raise ValueError("input_layout='TND' needs actual_seq_qlen: prefix sums from 0 to T")
    chosen = version or (2 if softmax_layout else 1)
    if chosen not in (1, 2):
        raise ValueError(f"version={version}: aclnnRingAttentionUpdate has versions 1 and 2")
    if chosen == 1 and softmax_layout:
        raise ValueError(f"input_softmax_layout={softmax_layout!r} needs version 2")
    return chosen

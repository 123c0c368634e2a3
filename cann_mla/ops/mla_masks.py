"""What AtbMLA does with a mask: the template of a number of new tokens, and when a kernel reads which mask."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cann_mla.checks import instance
from cann_mla.dtypes import DType, DTypeLike
from cann_mla.ops.atb_operands import FP16_HIDDEN, check_operand, device_constant, half
from cann_mla.ops.call import Operand, check_rank
from cann_mla.runtime.stream import Stream

_SPEC, _MASK_FREE = 1, 2
_BLOCK_SIZE = 128
_CAUSAL_HEADS = 128
_MOST_IN_TEMPLATE = 127  # a template reaches back over one block


class Rows(NamedTuple):
    """The rows that a mask is for.

    Attributes
    ----------
    tokens, contexts : tuple of int
        New tokens and keys of every sequence.
    heads : int
    dtype : DType
        Of the mask.
    speculative : bool
        Whether the numbers of new tokens are given.
    int8 : bool
        Whether the cache is of INT8.
    """

    tokens: tuple[int, ...]
    contexts: tuple[int, ...]
    heads: int
    dtype: DType
    speculative: bool
    int8: bool


def mla_mask(element: DTypeLike, tokens: int) -> npt.NDArray[Any]:
    """The template that hides later tokens from earlier ones where every sequence has so many new ones.

    Parameters
    ----------
    element : DType, str or NumPy dtype
        FP16 or BF16, as `q_rope`.
    tokens : int
        New tokens of each sequence, 1 to 127.

    Returns
    -------
    ndarray, shape (125 + 2 * tokens, 128)
        -10000 where ``column >= row + 2 - tokens``; the kernel takes the rows that fit the length of a sequence.

    Raises
    ------
    ValueError
        For another dtype or number.
    """
    kind = half("the mask", element)
    if not 1 <= tokens <= _MOST_IN_TEMPLATE:
        raise ValueError(f"a template is for 1 to {_MOST_IN_TEMPLATE} new tokens a sequence, not {tokens}")
    rows, columns = np.arange(125 + 2 * tokens)[:, None], np.arange(_BLOCK_SIZE)
    return np.where(columns >= rows + 2 - tokens, FP16_HIDDEN, 0).astype(kind.numpy)


def choose_mask(
    mask: Operand | None,
    causal: bool,
    rows: Rows,
    stream: Stream,
) -> tuple[int, Operand | None]:
    """ATB's mask type, and the mask that goes with it.

    Raises
    ------
    ValueError
        If a mask would not be read, or the kernel hides what it should show.
    """
    instance("stream", stream, Stream)
    built_in = rows.heads == _CAUSAL_HEADS or rows.int8
    if built_in and mask is not None:
        raise ValueError("with 128 heads, or INT8, the kernel reads no mask; leave it out")
    if built_in and not causal and max(rows.tokens) > 1:
        raise ValueError("with 128 heads, or INT8, the kernel hides later tokens from earlier ones; say causal=True")
    if mask is not None and not rows.speculative:
        raise ValueError("AtbMLA reads a mask with q_seq_len only")
    if causal and max(rows.tokens) > 1 and not built_in:
        return _causal_mask(mask, rows, stream)
    if mask is None:
        return 0, None
    if causal:
        raise ValueError("causal=True hides nothing from single tokens, so that a mask has no use; leave one out")
    check_rank("mask", mask, 2)
    check_operand("mask", mask, rows.dtype, (sum(rows.tokens), max(*rows.contexts, mask.shape[1])))
    return _SPEC, mask


def _causal_mask(mask: Operand | None, rows: Rows, stream: Stream) -> tuple[int, Operand]:
    most = max(rows.tokens)
    if min(rows.tokens) == most <= _MOST_IN_TEMPLATE:
        if mask is not None:
            check_operand("mask", mask, rows.dtype, (125 + 2 * most, _BLOCK_SIZE))
            return _MASK_FREE, mask
        key = ("mla_mask", rows.dtype.name, most)
        return _MASK_FREE, device_constant(stream.device, key, lambda: mla_mask(rows.dtype, most))
    if mask is not None:
        raise ValueError(f"a template serves one number of new tokens, 1 to {_MOST_IN_TEMPLATE}; got {rows.tokens}")
    added = np.zeros((sum(rows.tokens), max(rows.contexts)), rows.dtype.numpy)
    start = 0
    for new, keys in zip(rows.tokens, rows.contexts, strict=True):
        last_seen = np.arange(keys - new, keys)[:, None]
        added[start : start + new][np.arange(added.shape[1]) > last_seen] = FP16_HIDDEN
        start += new
    return _SPEC, added

"""From tiles of float results to attentionOut and softmaxLse.

Source: aclnnFusedInferAttentionScoreV5, ``quantScale2``, ``quantOffset2``, ``softmaxLse``; rounding as the vector
kernels do it (FP32 multiply-add, then FP16, then INT8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import BF16, FP16, FP32, FP64, HIFLOAT8, INT8, Array, DType, dtype, hifloat8_encode
from cann_mla.reference.attention_core import Tile
from cann_mla.reference.attention_layouts import Layouts, heads_first, lse_shape, lse_view, output_shape
from cann_mla.reference.attention_lengths import Span
from cann_mla.reference.attention_numbers import Floats, round_to_fp16, widen

_EIGHT_BIT_MAX = {"FLOAT8_E4M3FN": 448.0, "FLOAT8_E5M2": 57344.0}


@dataclass(frozen=True)
class PostQuantisation:
    """quantScale2 and quantOffset2, one element or one a head and element of its width."""

    scale: Array
    offset: Array | None

    def __call__(self, values: Floats, heads: slice, all_heads: int) -> Floats:
        """Scaled and shifted output; `values` has the axes (heads, rows, width)."""
        width = values.shape[-1]
        scaled: Floats = values * _parameter(self.scale, heads, all_heads, width, values.dtype)
        if self.offset is not None:
            scaled += _parameter(self.offset, heads, all_heads, width, values.dtype)
        return scaled


def _parameter(values: Array, heads: slice, all_heads: int, width: int, work: npt.DTypeLike) -> Floats:
    wide = widen(values, work)
    if values.size == 1:
        return wide.reshape(1, 1, 1)
    if values.size != all_heads * width:
        raise ValueError(
            f"quantScale2 and quantOffset2 have 1 or {all_heads} x {width} elements, got shape {values.shape}"
        )
    return wide.reshape(all_heads, 1, width)[heads]


class AttentionOutputs:
    """Outputs under construction: zeros and infinities where no row is written.

    Parameters
    ----------
    element : DType
        Type of attentionOut. In exact precision floating types stay float64.
    with_lse : bool
    """

    def __init__(
        self,
        layouts: Layouts,
        batches: int,
        heads: int,
        tokens: int,
        width: int,
        element: DType,
        exact: bool,
        post: PostQuantisation | None,
        with_lse: bool,
    ) -> None:
        self._element = FP64 if exact and element in (FP16, BF16, FP32) else element
        self._heads = heads
        # The type of the output decides; scales of an output that is not quantised have no effect.
        self._post = post if element not in (FP16, BF16, FP32) else None
        order = layouts.output
        self.attention = np.zeros(output_shape(order, batches, heads, tokens, width), self._element.numpy)
        self._view = heads_first(self.attention, order, heads)
        self.softmax_lse: Array | None = None
        if with_lse:
            self.softmax_lse = np.full(
                lse_shape(order, batches, heads, tokens), np.inf, np.float64 if exact else np.float32
            )
            self._lse_view = lse_view(self.softmax_lse, order)

    def store(self, span: Span, tile: Tile) -> None:
        """Write a tile of the sequence that `span` places."""
        rows = slice(span.start + tile.rows.start, span.start + tile.rows.stop)
        output = tile.output if self._post is None else self._post(tile.output, tile.heads, self._heads)
        self._view[span.batch, tile.heads, rows] = cast_output(output, self._element)
        if self.softmax_lse is not None:
            self._lse_view[span.batch, tile.heads, rows] = tile.lse


def cast_output(values: Floats, element: DType) -> Array:
    """Cast to the type of attentionOut; quantised types saturate."""
    if element is INT8:
        halves = round_to_fp16(np.clip(values, -65504, 65504)) if values.dtype == np.float32 else values
        return np.clip(np.rint(halves), -128, 127).astype(np.int8)
    if element is HIFLOAT8:
        return hifloat8_encode(values)
    if element.name in _EIGHT_BIT_MAX:
        largest = _EIGHT_BIT_MAX[element.name]
        return np.clip(values, -largest, largest).astype(element.numpy)
    return values.astype(element.numpy)


def default_output_type(query: np.dtype[Any], rope: np.dtype[Any] | None, post_quantised: bool) -> DType:
    """Type of attentionOut where the caller names none."""
    if post_quantised:
        return INT8
    kind = dtype(query)
    if kind in (FP16, BF16):
        return kind
    return dtype(rope) if rope is not None else FP16

"""Scales and offsets of quantised operands, by row.

A parameter of any granularity is seen as (batch, heads, rows, width), with size 1 where it does not vary;
:class:`ParameterRows` then gives the part that belongs to rows [start, stop) of a sequence, broadcastable
against the operand's (heads, rows, width). Values that are shared by several rows or several elements of the
width (blocks, micro-scaling groups) are repeated on the way.

Source: aclnnFusedInferAttentionScoreV5, tables of ``keyAntiquantMode``, ``valueAntiquantMode`` and
``dequantScaleQuery``; the MXFP8 and FP8 test suites of CANN for the order of packed scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import Array
from cann_mla.reference.attention_lengths import Span
from cann_mla.reference.attention_numbers import Floats, round_to_fp16, widen
from cann_mla.reference.attention_sources import PagedRows, RowSource

CHANNEL, TOKEN, HEAD, TOKEN_HEAD, PAGED_TOKEN, PAGED_TOKEN_HEAD, GROUP = range(7)
GROUP_WIDTH = 32


class ParameterRows:
    """A parameter seen as (batch, heads, rows, width), sizes of 1 broadcast.

    Parameters
    ----------
    values : ndarray, four axes
    starts : list of int, optional
        Row of the parameter at which each sequence starts (left padding, packed sequences).
    rows_each : int
        Rows of the operand that share one row of the parameter.
    """

    def __init__(self, values: Array, starts: list[int] | None = None, rows_each: int = 1) -> None:
        self._values = values
        self._starts = starts
        self._rows_each = rows_each
        self.width = values.shape[-1]

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        """Part for rows [start, stop), sizes of 1 where the parameter does not vary."""
        batches, all_heads, rows, _ = self._values.shape
        part: Array = self._values[sequence if batches > 1 else 0, heads if all_heads > 1 else slice(None)]
        if rows == 1:
            return part
        offset = 0 if self._starts is None else self._starts[sequence]
        if self._rows_each == 1:
            wanted: Array = part[:, offset + start : offset + stop]
        else:
            wanted = part[:, offset + np.arange(start, stop) // self._rows_each]
        if wanted.shape[1] != stop - start:
            raise ValueError(
                f"a per-token parameter has {rows} rows; sequence {sequence} needs rows "
                f"{offset + start} to {offset + stop - 1}"
            )
        return wanted


@dataclass(frozen=True)
class Dequantiser:
    """(operand + offset) * scale.

    Attributes
    ----------
    scale : RowSource
    offset : RowSource or None
    width_each : int
        Elements of the operand's width that share one element of the scale's.
    through_fp16 : bool
        Whether sum and product are rounded to FP16, as the kernels for 4-bit and 8-bit floating types do.
    """

    scale: RowSource
    offset: RowSource | None = None
    width_each: int = 1
    through_fp16: bool = False

    def __call__(self, raw: Array, sequence: int, heads: slice, start: int, stop: int, work: npt.DTypeLike) -> Floats:
        """Values of rows [start, stop) of a sequence; `raw` has the axes (heads, rows, width)."""
        values = widen(raw, work)
        values = values.copy() if np.shares_memory(values, raw) else values
        fp16 = self.through_fp16 and work == np.float32
        scale = self._parameter(self.scale, sequence, heads, start, stop, work, fp16)
        if self.offset is not None:
            values += self._parameter(self.offset, sequence, heads, start, stop, work, fp16)
            values = round_to_fp16(values) if fp16 else values
        values *= scale
        return round_to_fp16(values) if fp16 else values

    def _parameter(
        self,
        source: RowSource,
        sequence: int,
        heads: slice,
        start: int,
        stop: int,
        work: npt.DTypeLike,
        fp16: bool,
    ) -> Floats:
        part = widen(source.rows(sequence, heads, start, stop), work)
        if fp16:
            part = round_to_fp16(part.copy())
        return np.repeat(part, self.width_each, axis=-1) if self.width_each > 1 else part


def antiquant_parameter(
    values: Array, mode: int, heads: int, width: int, spans: list[Span], block_table: Array | None
) -> RowSource:
    """Scale or offset of a quantised key or value, by ``keyAntiquantMode`` or ``valueAntiquantMode``.

    Parameters
    ----------
    values : ndarray
        In one of the shapes that the page lists for the mode.
    mode : int
        0 per channel (or per tensor with one element), 1 per token, 2 per head, 3 per token and head, 4 and 5
        the same two in the paged cache, 6 per token and group of 32 elements.
    heads, width : int
        Of the key or value.
    spans : list of Span
        Rows of each sequence in the operand; per-token parameters are addressed by absolute row.
    block_table : ndarray or None
        For modes 4 and 5.

    Raises
    ------
    ValueError
        If the mode is unknown, the shape does not fit it, or a paged mode has no block table.
    """
    starts = [span.start for span in spans]
    if mode == CHANNEL:
        if values.size == 1:
            return ParameterRows(values.reshape(1, 1, 1, 1))
        if values.size == heads * width:
            return ParameterRows(values.reshape(1, heads, 1, width))
    elif mode == TOKEN and values.ndim >= 2:
        return ParameterRows(values.reshape(-1, 1, values.shape[-1], 1), starts)
    elif mode == HEAD and values.size == heads:
        return ParameterRows(values.reshape(1, heads, 1, 1))
    elif mode == TOKEN_HEAD and values.ndim >= 3:
        return ParameterRows(values.reshape(-1, heads, values.shape[-1], 1), starts)
    elif mode in (PAGED_TOKEN, PAGED_TOKEN_HEAD):
        if block_table is None:
            raise ValueError(f"antiquant mode {mode} keeps its scales in the paged cache and needs blockTable")
        if mode == PAGED_TOKEN and values.ndim == 2:
            return _SharedByHeads(PagedRows(values[:, :, None], block_table, 1, values.shape[1]))
        if mode == PAGED_TOKEN_HEAD and values.ndim == 3:
            return PagedRows(values[..., None], block_table, heads, values.shape[2])
    elif mode == GROUP and values.ndim >= 4:
        return ParameterRows(values.reshape(-1, *values.shape[-3:]), starts)
    raise ValueError(
        f"antiquant parameter of shape {values.shape} does not fit mode {mode} with {heads} heads of width {width}"
    )


class _SharedByHeads:
    """A source with one head that every head reads."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.width = source.width

    def rows(self, sequence: int, heads: slice, start: int, stop: int) -> Array:
        return self._source.rows(sequence, slice(0, 1), start, stop)


def merged_halves(values: Array | None) -> tuple[Array | None, Array | None]:
    """Key and value half of ``antiquantScale`` or ``antiquantOffset``, which carry both on the first axis."""
    if values is None:
        return None, None
    if values.shape[0] != 2:
        raise ValueError(
            f"antiquantScale and antiquantOffset carry key and value on the first axis, got shape {values.shape}"
        )
    return values[0], values[1]

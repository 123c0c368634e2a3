"""Readers of dequantised query, key and value rows, for one sequence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_mla.dtypes import BF16, INT32, Array
from cann_mla.reference.attention_core import KeyValueReader, QueryReader
from cann_mla.reference.attention_dequantisation import Dequantiser
from cann_mla.reference.attention_layouts import heads_first
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.attention_operands import AttentionOperands, int4_from_words
from cann_mla.reference.attention_quantisation import Quantisation
from cann_mla.reference.attention_sources import ListRows, PagedRows, PlainRows, PrefixedRows, RowSource


class OperandReader:
    """Rows of an operand that consists of parts along its width, such as key and key rope."""

    def __init__(self, parts: list[tuple[RowSource, Dequantiser | None]], work: npt.DTypeLike) -> None:
        self._parts = parts
        self._work = work

    def read(self, sequence: int, heads: slice, start: int, stop: int) -> Floats:
        """Values of rows [start, stop), shape (heads, rows, width of all parts)."""
        if len(self._parts) == 1:
            return self._values(*self._parts[0], sequence, heads, start, stop)
        joined: Floats | None = None
        begin = 0
        for source, dequantiser in self._parts:
            part = self._values(source, dequantiser, sequence, heads, start, stop, keep_type=True)
            if joined is None:
                joined = np.empty((*part.shape[:2], sum(s.width for s, _ in self._parts)), self._work)
            joined[..., begin : begin + source.width] = part
            begin += source.width
        assert joined is not None
        return joined

    def _values(
        self,
        source: RowSource,
        dequantiser: Dequantiser | None,
        sequence: int,
        heads: slice,
        start: int,
        stop: int,
        keep_type: bool = False,
    ) -> Floats:
        """Values of one part; with `keep_type`, BF16 rows may stay BF16, for an assignment to widen them."""
        raw = source.rows(sequence, heads, start, stop)
        if dequantiser is not None:
            return dequantiser(raw, sequence, heads, start, stop, self._work)
        return raw if keep_type and raw.dtype == BF16.numpy else widen(raw, self._work)


class AttentionReaders:
    """Readers of a call's operands.

    Where value is the same memory as key and neither is scaled, values are a view of the keys just read.
    """

    def __init__(self, operands: AttentionOperands, quantisation: Quantisation) -> None:
        given, work = operands.given, quantisation.numerics.work
        self._group = operands.group
        self._scale = np.asarray(quantisation.score_scale, work)
        query = [(_query_rows(operands, given.query), quantisation.query)]
        key = [(_key_rows(operands, operands.keys, given.key_shared_prefix), quantisation.key)]
        if given.query_rope is not None and given.key_rope is not None:
            query.append((_query_rows(operands, given.query_rope), quantisation.query_rope))
            key.append((_key_rows(operands, [given.key_rope], None), None))
        self._query = OperandReader(query, work)
        self._key = OperandReader(key, work)
        self._value: OperandReader | None = None
        self._value_width = operands.value_width
        shared = _same_memory(operands.keys, operands.values) and given.key_shared_prefix is given.value_shared_prefix
        if not shared or quantisation.key is not None or quantisation.value is not None:
            rows = _key_rows(operands, operands.values, given.value_shared_prefix)
            self._value = OperandReader([(rows, quantisation.value)], work)

    def query(self, sequence: int) -> QueryReader:
        """Query rows of a sequence, times the score scale: (key heads, group, rows, width)."""

        def read(heads: slice, start: int, stop: int) -> Floats:
            query_heads = slice(heads.start * self._group, heads.stop * self._group)
            rows: Floats = self._query.read(sequence, query_heads, start, stop) * self._scale
            return rows.reshape(-1, self._group, stop - start, rows.shape[-1])

        return read

    def key_value(self, sequence: int) -> KeyValueReader:
        """Key and value rows of a sequence: (key heads, rows, width) each."""

        def read(heads: slice, start: int, stop: int) -> tuple[Floats, Floats]:
            keys = self._key.read(sequence, heads, start, stop)
            if self._value is None:
                return keys, keys[..., : self._value_width]
            return keys, self._value.read(sequence, heads, start, stop)

        return read


def _query_rows(operands: AttentionOperands, array: Array) -> RowSource:
    return PlainRows(array, operands.layouts.inputs, operands.heads, operands.query_spans)


def _key_rows(operands: AttentionOperands, arrays: list[Array], prefix: Array | None) -> RowSource:
    given, order, heads = operands.given, operands.layouts.inputs, operands.key_heads
    source: RowSource
    if given.block_table is not None:
        source = PagedRows(arrays[0], given.block_table, heads, given.block_size)
    elif len(arrays) > 1:
        source = ListRows(arrays, order, heads, operands.key_spans)
    else:
        source = PlainRows(arrays[0], order, heads, operands.key_spans)
    if prefix is None or not operands.prefix:
        return source
    if prefix.dtype == INT32.numpy and arrays[0].dtype != INT32.numpy:
        prefix = int4_from_words(prefix)
    return PrefixedRows(heads_first(prefix, order, heads)[0], operands.prefix, source)


def _same_memory(first: list[Array], second: list[Array]) -> bool:
    def identity(arrays: list[Array]) -> list[tuple[object, ...]]:
        return [(a.__array_interface__["data"][0], a.shape, a.strides, a.dtype) for a in arrays]

    return identity(first) == identity(second)

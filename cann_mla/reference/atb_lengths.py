"""Sequence lengths of ATB's packed operands."""

from __future__ import annotations

from typing import NamedTuple

from cann_mla.dtypes import Array


class Sequence(NamedTuple):
    """One sequence of a packed batch: first row and number of rows on both sides."""

    number: int
    query_start: int
    query_length: int
    kv_start: int
    kv_length: int


def sequences(query_lengths: list[int], kv_lengths: list[int]) -> list[Sequence]:
    """Place sequences back to back.

    Raises
    ------
    ValueError
        If the lists differ in length, a query length is not positive, or a kv length is negative.
    """
    if len(query_lengths) != len(kv_lengths):
        raise ValueError(f"{len(query_lengths)} query lengths, {len(kv_lengths)} kv lengths: give one pair a sequence")
    placed, query_start, kv_start = [], 0, 0
    for number, (query, kv) in enumerate(zip(query_lengths, kv_lengths, strict=True)):
        if query <= 0 or kv < 0:
            raise ValueError(f"sequence {number}: query length {query} must be positive, kv length {kv} not negative")
        placed.append(Sequence(number, query_start, query, kv_start, kv))
        query_start, kv_start = query_start + query, kv_start + kv
    return placed


def length_list(lengths: Array) -> list[int]:
    """Lengths as Python integers; UINT32 is reinterpreted as INT32, as ATB does."""
    signed = lengths.view("int32") if lengths.dtype == "uint32" else lengths
    return [int(n) for n in signed.reshape(-1)]


def pair_lengths(seq_len: Array) -> tuple[list[int], list[int]]:
    """Query and kv lengths out of ``seqLen`` of shape (B,) or (2, B); one row serves both sides."""
    flat, batch = length_list(seq_len), seq_len.shape[-1]
    return flat[:batch], flat[batch : 2 * batch] if len(flat) > batch else flat[:batch]

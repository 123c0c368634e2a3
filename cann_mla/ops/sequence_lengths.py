"""Lengths of sequences, one by one or as prefix sums.

CANN has three conventions: lengths by sequence (padded layouts, and keys of a paged cache in every layout); prefix
sums that begin with the first length (TND and NTD of FusedInferAttentionScore, ``actualSeqLen`` of MlaProlog);
prefix sums that begin with 0 (``actualSeqQlen`` of RingAttentionUpdate).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Lengths = Sequence[int] | npt.NDArray[np.integer[Any]]


def prefix_sums(lengths: Lengths, *, leading_zero: bool = False) -> list[int]:
    """Where each sequence ends among the tokens of all.

    Parameters
    ----------
    lengths : sequence of int
        Of each sequence; 0 is allowed.
    leading_zero : bool
        Begin with 0, as RingAttentionUpdate wants it.

    Returns
    -------
    list of int
        The last is the number of all tokens.

    Raises
    ------
    ValueError
        If a length is negative.

    Examples
    --------
    >>> prefix_sums([3, 0, 5])
    [3, 3, 8]
    >>> prefix_sums([3, 0, 5], leading_zero=True)
    [0, 3, 3, 8]
    """
    numbers = [int(n) for n in lengths]
    if any(n < 0 for n in numbers):
        raise ValueError(f"lengths {numbers} hold a negative one")
    return list(accumulate(numbers, initial=0))[0 if leading_zero else 1 :]


def lengths_of(sums: Lengths, *, leading_zero: bool = False) -> list[int]:
    """Inverse of :func:`prefix_sums`.

    Raises
    ------
    ValueError
        If the numbers fall, or with `leading_zero` do not begin with 0.

    Examples
    --------
    >>> lengths_of([3, 3, 8])
    [3, 0, 5]
    """
    numbers = [int(n) for n in sums]
    if leading_zero and numbers[:1] != [0]:
        raise ValueError(f"prefix sums {numbers} do not begin with 0")
    ends = numbers if leading_zero else [0, *numbers]
    lengths = [end - begin for begin, end in pairwise(ends)]
    if any(n < 0 for n in lengths):
        raise ValueError(f"{numbers} are no prefix sums: they fall")
    return lengths


def check_sequences(ends: Lengths, kv_lengths: Lengths | None, table_rows: int | None) -> None:
    """Compare what is by sequence, in layouts that hold the tokens of all sequences in a row.

    CANN compares some of this on some routes only, and elsewhere reads behind what was given.

    Parameters
    ----------
    ends : sequence of int
        Prefix sums of the query's lengths, one for each sequence.
    kv_lengths : sequence of int, optional
        Lengths of the keys; a single one serves all sequences of a block table.
    table_rows : int, optional
        Rows of the block table.

    Raises
    ------
    ValueError
        With everything that does not fit.
    """
    sequences, broken = len(ends), []
    shared = table_rows is not None and kv_lengths is not None and len(kv_lengths) == 1
    if kv_lengths is not None and len(kv_lengths) != sequences and not shared:
        broken.append(f"actual_seq_lengths_kv has {len(kv_lengths)}")
    if table_rows is not None and table_rows != sequences:
        broken.append(f"block_table has {table_rows} rows")
    if broken:
        hint = "; the first sequence is empty: drop the leading 0" if sequences and ends[0] == 0 else ""
        raise ValueError(f"actual_seq_lengths names {sequences} sequences, but {' and '.join(broken)}{hint}")

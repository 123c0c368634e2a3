"""FRACTAL_NZ packing against a plain copy of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from cann_mla.bench.core import Measurement, paired_seconds
from cann_mla.formats import nz_pack, nz_unpack

SHAPE = (1536, 24576)


def lines() -> Iterator[Measurement]:
    """Pack and unpack the largest weight, in two widths."""
    for name, numpy_type in (("BF16", ml_dtypes.bfloat16), ("INT8", np.int8)):
        yield from _of_type(name, np.dtype(numpy_type))


def _of_type(name: str, numpy_type: np.dtype[Any]) -> Iterator[Measurement]:
    matrix = np.ones(SHAPE, numpy_type)
    packed = nz_pack(matrix)
    target = np.empty_like(matrix)
    copy, pack = paired_seconds(lambda: np.copyto(target, matrix), lambda: nz_pack(matrix), repeat=5)
    unpack = paired_seconds(lambda: np.copyto(target, matrix), lambda: nz_unpack(packed, SHAPE), repeat=5)[1]
    detail = {"shape": list(SHAPE), "dtype": name, "memcpy_gb_per_s": matrix.nbytes / copy / 1e9}
    yield Measurement(f"packing/nz_pack/{name}", copy / pack, "ratio", "memcpy", 0.12, "higher", detail)
    yield Measurement(f"packing/nz_unpack/{name}", copy / unpack, "ratio", "memcpy", None, "higher", detail)

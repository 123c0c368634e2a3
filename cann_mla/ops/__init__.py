"""Operators as documented Python functions: names, defaults and output shapes over :func:`cann_mla.operator`."""

from __future__ import annotations

from cann_mla.ops.call import snake_case
from cann_mla.ops.mla_prolog import (
    SCENARIOS,
    MlaPrologResult,
    mla_prolog_v1,
    mla_prolog_v2,
    mla_prolog_v3,
    pack_weight,
)

__all__ = [
    "SCENARIOS",
    "MlaPrologResult",
    "mla_prolog_v1",
    "mla_prolog_v2",
    "mla_prolog_v3",
    "pack_weight",
    "snake_case",
]

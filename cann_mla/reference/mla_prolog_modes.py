"""The quantisation modes of MlaProlog, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cann_mla.dtypes import FLOAT8_E4M3FN, HIFLOAT8, INT8, Array, DType
from cann_mla.reference.rounding import BFLOAT16, to_bfloat16
from cann_mla.reference.settings import check_settings, compute_type

# weightQuantMode -> legal kvCacheQuantMode
LEGAL_PAIRS = {0: (0,), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 3), 4: (0, 1, 3), 5: (0, 1, 3)}
_ELEMENTS = {1: INT8, 2: INT8, 3: FLOAT8_E4M3FN, 4: FLOAT8_E4M3FN, 5: HIFLOAT8}


@dataclass(frozen=True)
class Modes:
    """One legal combination of modes, on one product, in one precision.

    Attributes
    ----------
    weight : int
        weightQuantMode: 0 none, 1 only weightUqQr (INT8), 2 full INT8, 3 full MX, 4 full FLOAT8_E4M3FN,
        5 full HIFLOAT8.
    cache : int
        kvCacheQuantMode: 0 none, 1 per tensor, 2 per channel, 3 per tile.
    soc, precision : str
        See :mod:`cann_mla.reference.settings`.

    Raises
    ------
    ValueError
        If the combination is not legal.
    """

    weight: int
    cache: int
    soc: str
    precision: str

    def __post_init__(self) -> None:
        check_settings(self.soc, self.precision)
        if self.cache not in LEGAL_PAIRS.get(self.weight, ()):
            pairs = "; ".join(f"{w}: {c}" for w, c in LEGAL_PAIRS.items())
            raise ValueError(
                f"weight_quant_mode {self.weight} with kv_cache_quant_mode {self.cache} is not a scenario; "
                f"legal cache modes by weight mode: {pairs}"
            )
        if self.weight > 2 and self.soc != "Ascend950":
            raise ValueError(f"weight_quant_mode {self.weight} exists on Ascend950 only, not on {self.soc}")

    @property
    def compute(self) -> np.dtype[Any]:
        """Type of vector arithmetic."""
        return compute_type(self.precision)

    @property
    def exact(self) -> bool:
        """Whether floating-point results are left unrounded."""
        return self.precision == "exact"

    @property
    def mx(self) -> bool:
        """Whether operands carry one E8M0 scale for 32 elements."""
        return self.weight == 3

    @property
    def element(self) -> DType:
        """Eight-bit type of whatever is quantised (weight mode 0 has none)."""
        return _ELEMENTS[self.weight]

    def needed(self, operand: Array | None, name: str) -> Array:
        """Operand that the scenario cannot do without; ValueError where it is missing."""
        if operand is None:
            raise ValueError(f"weight_quant_mode {self.weight} with kv_cache_quant_mode {self.cache} needs {name}")
        return operand

    def stored(self, values: Array) -> Array:
        """Values as a BF16 output holds them; unrounded float64 in ``exact`` precision."""
        return values if self.exact else to_bfloat16(values)

    def bfloat16_output(self, shape: tuple[int, ...]) -> Array:
        """Room for an output declared BF16."""
        return np.empty(shape, np.float64 if self.exact else BFLOAT16)

"""What a reference can be asked for: a product, and a precision."""

from __future__ import annotations

from typing import Any

import numpy as np

PRODUCTS = ("Ascend910B", "Ascend910_93", "Ascend950")
PRECISIONS = ("device", "exact")


def check_settings(soc: str, precision: str) -> None:
    """Raise ValueError unless both names are known."""
    if soc not in PRODUCTS:
        raise ValueError(f"soc must be one of {', '.join(PRODUCTS)}, got {soc!r}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")


def compute_type(precision: str) -> np.dtype[Any]:
    """Type that vector arithmetic runs in: float32 on the device, float64 for ``exact``."""
    return np.dtype(np.float32 if precision == "device" else np.float64)


def is_950(soc: str) -> bool:
    """Whether the product is of the 950 generation, whose vector unit rounds and orders differently."""
    return soc == "Ascend950"

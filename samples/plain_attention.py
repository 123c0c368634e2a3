"""Attention in plain NumPy, in float64, for the samples to compare with."""

from __future__ import annotations

import numpy as np


def attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, bias: np.ndarray | float = 0.0
) -> np.ndarray:
    """Softmax attention of a query (B, N, S1, D) over keys (B, Nk, S2, D) and values (B, Nk, S2, Dv).

    Every N / Nk query heads share a key head. The bias is added to the scaled scores (B, N, S1, S2); -inf hides.
    """
    group = query.shape[1] // key.shape[1]
    key, value = (np.repeat(x.astype(np.float64), group, axis=1) for x in (key, value))
    scores = query.astype(np.float64) @ key.swapaxes(-1, -2) * scale + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ value / weights.sum(axis=-1, keepdims=True)


def compare(result: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Stop if the two differ by more than the tolerance; otherwise say by how much."""
    worst = np.abs(result.astype(np.float64) - expected).max()
    if not worst <= tolerance:
        raise SystemExit(f"off by {worst:.5f}, more than {tolerance}")
    print(f"{result.size} elements within {worst:.5f} of plain NumPy")

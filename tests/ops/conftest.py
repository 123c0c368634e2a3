"""The simulator as any product, and small random operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla.validate.library import open_library, select_product


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


@pytest.fixture
def product() -> Iterator[Callable[[str], None]]:
    """Make the simulator another product until the test ends."""
    library = open_library("sim")
    yield lambda name: select_product(library, name)
    select_product(library, "Ascend910B")


@pytest.fixture
def normal() -> Callable[..., Any]:
    """``normal(seed, *shape)``: FP16 standard normals."""
    return lambda seed, *shape: np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.fixture
def formula() -> Callable[..., Any]:
    """Softmax attention in float64; see :func:`attention`."""
    return attention


def attention(q: Any, k: Any, v: Any, scale: float, hidden: Any = None) -> tuple[Any, Any]:
    """Result (B, N, S1, Dv) and lse (B, N, S1) of q (B, N, S1, D), k (B, Nk, S2, D), v (B, Nk, S2, Dv).

    `hidden` broadcasts to (B, N, S1, S2); every row must see something.
    """
    k, v = (np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("bnsd,bntd->bnst", q.astype(np.float64), k) * scale
    scores = np.where(False if hidden is None else hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / total, (top + np.log(total))[..., 0]

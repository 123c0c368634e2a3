"""Attention calls on the simulator, and the formula they must follow, written out in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla.dtypes import DType, dtype
from cann_mla.validate.library import open_library, select_product

Array = np.ndarray[Any, Any]

# What CANN's documentation calls the default of each attribute, and the versions that have it.
ATTRIBUTES: dict[str, tuple[int, Any]] = {
    "scaleValue": (1, 1.0),
    "preTokens": (1, 2147483647),
    "nextTokens": (1, 2147483647),
    "numKeyValueHeads": (1, 0),
    "sparseMode": (1, 0),
    "innerPrecise": (1, 0),
    "blockSize": (1, 0),
    "antiquantMode": (1, 0),
    "softmaxLseFlag": (1, False),
    "keyAntiquantMode": (2, 0),
    "valueAntiquantMode": (2, 0),
    "queryQuantMode": (4, 0),
    "pseType": (5, 0),
}


def attention(
    q: Array, k: Array, v: Array, scale: float, visible: Array | None = None, sink: Array | None = None
) -> tuple[Array, Array]:
    """Softmax attention of ``q`` (B, N, S1, D) over ``k`` (B, Nk, S2, D) and ``v`` (B, Nk, S2, Dv), and its lse.

    ``visible`` (broadcast to B, N, S1, S2) is False where a row must not look; a row without a column is 0 and inf.
    """
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = np.einsum("bnsd,bntd->bnst", q.astype(np.float64), k) * scale
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    numerators = np.exp(scores - top)
    total = numerators.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink[None, :, None, None] - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(total > 0, numerators @ v / total, 0.0)
        lse = np.where(total > 0, np.log(total) + top, np.inf)
    return out, lse


class Attend:
    """``attend(query=..., key=..., value=..., numHeads=..., out=(shape, dtype))`` gives attentionOut as float64.

    Arrays become tensors, lists of arrays tensor lists; everything else is passed on. ``lse=shape`` asks for
    softmaxLse, and then both are returned.
    """

    def __init__(self, stream: cann_mla.Stream) -> None:
        self.stream = stream

    def __call__(
        self,
        op: str = "aclnnFusedInferAttentionScoreV3",
        *,
        out: tuple[tuple[int, ...], DType | str],
        lse: tuple[int, ...] | None = None,
        **arguments: Any,
    ) -> Any:
        version = int(op[-1])
        arguments = {name: value for name, (since, value) in ATTRIBUTES.items() if since <= version} | arguments
        for name in ("key", "value"):
            if not isinstance(arguments[name], list):
                arguments[name] = [arguments[name]]
        made: list[cann_mla.Tensor] = []

        def to_device(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                made.append(cann_mla.Tensor.from_numpy(value))
                return made[-1]
            if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
                return [to_device(entry) for entry in value]
            return value

        tensors = {name: to_device(value) for name, value in arguments.items()}
        tensors["attentionOut"] = cann_mla.Tensor.empty(out[0], dtype(out[1]))
        made.append(tensors["attentionOut"])
        if lse is not None:
            tensors["softmaxLse"] = cann_mla.Tensor.empty(lse, dtype("FP32"))
            tensors["softmaxLseFlag"] = True
            made.append(tensors["softmaxLse"])
        try:
            cann_mla.operator(op)(stream=self.stream, **tensors)
            self.stream.synchronize()
            result = tensors["attentionOut"].to_numpy()
            result = result if result.dtype.fields else result.astype(np.float64)
            return result if lse is None else (result, tensors["softmaxLse"].to_numpy().astype(np.float64))
        finally:
            for tensor in made:
                tensor.close()


@pytest.fixture(scope="session")
def device() -> Iterator[cann_mla.Device]:
    cann_mla.load("sim")
    with cann_mla.Device(0) as opened:
        yield opened


@pytest.fixture
def stream(device: cann_mla.Device) -> Iterator[cann_mla.Stream]:
    device.use()
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Stream() as opened:
        yield opened


@pytest.fixture
def attend(stream: cann_mla.Stream) -> Attend:
    return Attend(stream)


@pytest.fixture
def product(device: cann_mla.Device) -> Iterator[Callable[[str], None]]:
    """Make the simulator another product until the test ends."""
    library = open_library("sim")
    yield lambda name: select_product(library, name)
    select_product(library, "Ascend910B")


@pytest.fixture
def formula() -> Callable[..., tuple[Array, Array]]:
    return attention


@pytest.fixture
def normal() -> Callable[..., Array]:
    """``normal(seed, *shape)``: FP16 standard normals."""
    return lambda seed, *shape: np.random.default_rng(seed).standard_normal(shape).astype(np.float16)

"""Random arguments of MlaPrologV3: whatever is given, the call succeeds or raises an error that names the argument."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import CannError, DeviceMemory, IntArray, Stream, Tensor, c

BF16 = ml_dtypes.bfloat16
SHAPES = {
    "tokenX": (2, 1024),
    "weightDq": (1024, 1536),
    "weightUqQr": (1536, 192),
    "weightUk": (1, 128, 512),
    "weightDkvKr": (1024, 576),
    "rmsnormGammaCq": (1536,),
    "rmsnormGammaCkv": (512,),
    "ropeSin": (2, 64),
    "ropeCos": (2, 64),
    "kvCacheRef": (1, 16, 1, 512),
    "krCacheRef": (1, 16, 1, 64),
    "queryOut": (2, 1, 512),
    "queryRopeOut": (2, 1, 64),
}
NZ = ("weightDq", "weightUqQr", "weightDkvKr")
ATTRIBUTES = {"rmsnormEpsilonCq": 1e-5, "rmsnormEpsilonCkv": 1e-5, "cacheModeOptional": "PA_BSND"}
ATTRIBUTES |= dict.fromkeys(("weightQuantMode", "kvCacheQuantMode", "queryQuantMode"), 0)
ATTRIBUTES |= {"ckvkrRepoMode": 0, "quantScaleRepoMode": 0, "tileSize": 128, "qcQrScale": 1.0, "kcScale": 1.0}
DTYPES = ("BF16", "FP16", "FP32", "INT8", "INT64", "INT32", "FLOAT8_E4M3FN", "HIFLOAT8", "INT4", "BOOL", "UINT8")
SIZES = (0, 1, 2, -1, 3, 2**31, 2**62, 2**63 - 1, -(2**63), 128, 1024, 7168)
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63 - 1, -(2**63), 2**63, 2**70, 10**400, 1.5, float("nan"), float("inf"), 1e308),
    *("", "PA_NZ", "TND", "BSND", "PA_BLK_BSND", "PA_BLK_NZ", "a\0b", "\ud800", "x" * 100_000, b"TND", b"\xff"),
    *([], [1], (2,), {}, set(), object(), 1j, np.int64(3), np.float32(1), np.zeros(2), np.array(5), print),
)


@pytest.fixture(scope="module")
def operands(device: cann_mla.Device) -> Iterator[dict[str, Tensor]]:
    device.use()
    random_numbers = np.random.default_rng(0)
    made = {
        name: Tensor.from_numpy(
            random_numbers.standard_normal(shape, dtype=np.float32).astype(BF16),
            format="FRACTAL_NZ" if name in NZ else "ND",
        )
        for name, shape in SHAPES.items()
    }
    made["cacheIndexOptional"] = Tensor.from_numpy(np.arange(2))
    yield made
    for tensor in made.values():
        tensor.close()


def random_tensor(draw: random.Random, like: Tensor, memory: DeviceMemory) -> Tensor:
    """A tensor near a legal one; ValueError where the parts contradict each other."""
    shape = list(like.shape)
    for _ in range(draw.randint(0, 2)):
        change = draw.random()
        if change < 0.4 and shape:
            shape[draw.randrange(len(shape))] = draw.choice(SIZES)
        elif change < 0.6:
            shape.insert(draw.randint(0, len(shape)), draw.choice((0, 1, 2)))
        elif change < 0.8 and shape:
            shape.pop()
        elif change < 0.9:
            shape = [1] * draw.randint(0, 30)
    strides = None if draw.random() < 0.7 else [draw.choice((0, 1, -1, 2, 2**62, -(2**63), 5)) for _ in shape]
    storage = None if draw.random() < 0.7 else [draw.choice((0, 1, 16, -1, 2**40)) for _ in range(draw.randint(0, 5))]
    return Tensor(
        draw.choice((memory, None, None)),
        shape,
        draw.choice(DTYPES),
        strides=strides,
        offset=draw.choice((0, 0, 0, 1, 2**62)),
        format=draw.choice(("ND", "ND", "FRACTAL_NZ", "NCHW")),
        storage_shape=storage,
    )


def call_once(draw: random.Random, given: dict[str, Any], stream: Stream, memory: DeviceMemory) -> str:
    """Change a legal call at random places and make it; the kind of its end."""
    operator: Any = cann_mla.operator("aclnnMlaPrologV3WeightNz")
    names = [p.name for p in operator.signature.operands]
    junk = (*JUNK, c.NULL, c.new("int *"), IntArray([1]), stream, memory)
    arguments: dict[Any, Any] = dict(given)
    changed = [draw.choice(names) for _ in range(draw.choice((0, 1, 1, 1, 2, 2)))]
    try:
        for name in changed:
            kind = draw.random()
            if kind < 0.75:
                arguments[name] = random_tensor(draw, given[draw.choice(list(SHAPES))], memory)
            elif kind < 0.95:
                arguments[name] = draw.choice(junk)
            else:
                arguments[f"{name}x"] = 1
    except ValueError:
        return "no such tensor"
    failure = outcome(operator, arguments, stream)
    if failure is None:
        return "done"
    if isinstance(failure, CannError):
        assert "aclnnMlaPrologV3WeightNz" in failure.text
        assert any(word in failure.text for word in (*names, "layout", "uantMode", "cache"))
        return failure.phase
    assert type(failure) in (TypeError, ValueError, OverflowError)
    assert any(name in str(failure) for name in changed)
    return "refused by Python"


def outcome(operator: Any, arguments: dict[str, Any], stream: Stream) -> Exception | None:
    try:
        operator.prepare(**arguments).run(stream)
        stream.synchronize()
    except Exception as failure:
        return failure
    return None


@pytest.mark.parametrize("chip", ["Ascend910B", "Ascend950"])
@pytest.mark.parametrize("sets", [250, pytest.param(10_000, marks=pytest.mark.exhaustive)])
def test_random_arguments(chip: str, sets: int, operands: dict[str, Tensor], stream: Stream) -> None:
    assert c.cannMlaSimSetSoc(chip.encode()) == 0
    draw = random.Random(sets)
    ends: dict[str, int] = {}
    with DeviceMemory(1 << 22) as memory:
        for _ in range(sets):
            end = call_once(draw, {**operands, **ATTRIBUTES}, stream, memory)
            ends[end] = ends.get(end, 0) + 1
    assert {"done", "GetWorkspaceSize", "refused by Python"} <= set(ends)


@pytest.mark.parametrize("size", [-(2**63), -1, 2**63 - 1])
def test_sizes_at_the_ends_of_int64(size: int, operands: dict[str, Tensor], device: cann_mla.Device) -> None:
    device.use()
    operator: Any = cann_mla.operator("aclnnMlaPrologV3WeightNz")
    with Tensor(None, (size, 1024), "BF16", strides=(1, 2)) as strange, pytest.raises(CannError, match="tokenX"):
        operator.prepare(**{**operands, **ATTRIBUTES, "tokenX": strange})

"""One operator in many threads at once: each gets its own plan, its own error text and its own result."""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import CannError, Stream, Tensor, c

THREADS = 8
BF16 = ml_dtypes.bfloat16
ATTRIBUTES: dict[str, Any] = {
    "rmsnormEpsilonCq": 1e-5,
    "rmsnormEpsilonCkv": 1e-5,
    "cacheModeOptional": "TND",
    "weightQuantMode": 0,
    "kvCacheQuantMode": 0,
    "queryQuantMode": 0,
    "ckvkrRepoMode": 0,
    "quantScaleRepoMode": 0,
    "tileSize": 128,
    "qcQrScale": 1.0,
    "kcScale": 1.0,
}


@functools.cache
def arrays(tokens: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = {
        "tokenX": (tokens, 1024),
        "weightDq": (1024, 1536),
        "weightUqQr": (1536, 192),
        "weightUk": (1, 128, 512),
        "weightDkvKr": (1024, 576),
        "rmsnormGammaCq": (1536,),
        "rmsnormGammaCkv": (512,),
        "ropeSin": (tokens, 64),
        "ropeCos": (tokens, 64),
        "kvCacheRef": (tokens, 1, 512),
        "krCacheRef": (tokens, 1, 64),
        "queryOut": (tokens, 1, 512),
        "queryRopeOut": (tokens, 1, 64),
    }
    return {n: random.standard_normal(shape, dtype=np.float32).astype(BF16) for n, shape in shapes.items()}


def tensors(tokens: int) -> dict[str, Tensor]:
    packed = ("weightDq", "weightUqQr", "weightDkvKr")
    return {
        name: Tensor.from_numpy(array, format="FRACTAL_NZ" if name in packed else "ND")
        for name, array in arrays(tokens).items()
    }


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns so often that a race shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.usefixtures("quick_switches")
def test_plans_and_error_texts_do_not_mix(device: cann_mla.Device) -> None:
    operator: Any = cann_mla.operator("aclnnMlaPrologV3WeightNz")
    device.use()
    given, wrong = tensors(0), tensors(2)
    gc.collect()  # what earlier tests left in cycles must not go in between
    executors = c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR)

    def work(number: int) -> None:
        device.use()
        with Stream() as stream:
            for turn in range(120):
                plan = operator.prepare(**given, **ATTRIBUTES)
                if turn % 3 == 0:
                    plan.close()
                    continue
                if turn % 3 == 1:
                    mode = f"mode {number} {turn}"
                    with pytest.raises(CannError, match=f'cacheModeOptional is "{mode}"'):
                        operator.prepare(**wrong, **{**ATTRIBUTES, "cacheModeOptional": mode})
                plan.run(stream)
            stream.synchronize()

    in_threads(work)
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR) == executors


def test_results_are_those_of_one_thread(device: cann_mla.Device) -> None:
    operator: Any = cann_mla.operator("aclnnMlaPrologV3WeightNz")
    results: list[bytes] = []

    def work(number: int) -> None:
        device.use()
        own = tensors(2)
        with Stream() as stream:
            for _ in range(3):
                operator(stream, **own, **ATTRIBUTES)
            stream.synchronize()
        results.append(own["queryOut"].to_numpy().tobytes())

    in_threads(work)
    work(THREADS)
    assert len(results) == THREADS + 1
    assert set(results) == {results[-1]}

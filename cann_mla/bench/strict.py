"""What the checks of strict mode cost: the same work with and without them, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from cann_mla.bench.attention import decode_case, prefill_case
from cann_mla.bench.calls import c_microseconds, python_microseconds
from cann_mla.bench.core import Measurement
from cann_mla.bench.side_by_side import sides
from cann_mla.validate.cases import Case

CALLS, KERNELS = 3.0, 1.3
ROUNDS = 3
TENSORS = 2000


def lines() -> Iterator[Measurement]:
    """Ratios of strict to normal mode, in calls and in kernels."""
    yield _line("strict/calls/python", *_both(python_microseconds), CALLS)
    yield _line("strict/calls/c", c_microseconds(), c_microseconds(strict=True), CALLS)
    yield _line("strict/tensors/python", *_both(_tensor_microseconds), CALLS)
    for name, case in (("decode", decode_case(8, 128, 4096)), ("prefill", prefill_case(2048, 16))):
        yield _line(f"strict/kernels/{name}", *_kernel_seconds(case), KERNELS)


def _line(name: str, normal: float, strict: float, limit: float) -> Measurement:
    detail = {"normal": normal, "strict": strict}
    return Measurement(name, strict / normal, "ratio", "the same in normal mode", limit, "lower", detail)


def _both(measure: Callable[[], float]) -> tuple[float, float]:
    """Best of a few rounds in normal and in strict mode, which take turns."""
    from cann_mla.simulator import watch

    normal, strict = float("inf"), float("inf")
    for _ in range(ROUNDS):
        normal = min(normal, measure())
        with watch():
            strict = min(strict, measure())
    return normal, strict


def _tensor_microseconds() -> float:
    """A tensor made and closed over memory that is there."""
    import cann_mla

    with cann_mla.Device(0), cann_mla.DeviceMemory(1024) as memory:
        started = time.perf_counter()
        for _ in range(TENSORS):
            cann_mla.Tensor(memory, (16, 16), "FP32").close()
        return (time.perf_counter() - started) / TENSORS * 1e6


def _kernel_seconds(case: Case) -> tuple[float, float]:
    def once(call: Callable[[], object]) -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    with sides(case) as prepared:
        prepared.simulator()
        return _both(lambda: once(prepared.simulator))

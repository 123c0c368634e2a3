"""mla_prolog_quant composed of aclnn operators at real sizes: its rate, Python's own time, and its device memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cann_mla
from cann_mla.bench.core import Measurement, paired_seconds
from cann_mla.ops.mla_prolog_quant import MlaPrologQuantPlan
from cann_mla.ops.mla_prolog_quant_checks import FIXED, INPUTS

# tokens -> least share of the GEMM rate
LIMITS = {64: 0.30, 1024: 0.50}
LIMIT_MICROSECONDS = 5.0
RUNS = 200
# For Python's own time: kernels so short that they do not take the processor from it.
SMALL = {"h": 32, "r": 32, "a": 64, "d": 32, "p": 8}
_KINDS = {"wq_b": "INT8", "wq_b_scale": "FP32"}


def lines() -> Iterator[Measurement]:
    """Rates, Python's time between two primitives, and memory."""
    with cann_mla.Device(0) as device, cann_mla.Stream() as stream:
        for tokens, limit in LIMITS.items():
            with prepared(tokens, FIXED) as plan:
                yield _rate(plan, stream, tokens, limit)
        yield _memory(device, 64)
        with prepared(1, SMALL) as plan:
            yield _between_primitives(plan, stream)


def operands(tokens: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Random operands of the quantised operator on the device, weights in ND."""
    rng = np.random.default_rng(5)
    sizes = {**sizes, "t": tokens, "1": 1}
    return {
        name: _operand(rng, tuple(sizes[letter] for letter in letters), _KINDS.get(name, "BF16"))
        for name, letters in INPUTS.items()
    }


@contextmanager
def prepared(tokens: int, sizes: Mapping[str, int]) -> Iterator[MlaPrologQuantPlan]:
    """A plan over operands of its own."""
    tensors = operands(tokens, sizes)
    with MlaPrologQuantPlan(**tensors, any_sizes=sizes != FIXED) as plan, plan.outputs:
        yield plan
    for tensor in tensors.values():
        tensor.close()


def gemm(tokens: int) -> Callable[[], object]:
    """The three products in float32, operands converted beforehand."""

    def make(*shape: int) -> NDArray[np.float32]:
        return np.ones(shape, np.float32)

    h, r, a, d = (FIXED[letter] for letter in "hrad")
    x, qr = make(tokens, h), make(tokens, r)
    pairs = [(x, make(h, r)), (qr, make(r, a)), (x, make(h, d))]
    out = [np.empty((tokens, right.shape[1]), np.float32) for _, right in pairs]

    def products() -> None:
        for (left, right), into in zip(pairs, out, strict=True):
            np.matmul(left, right, out=into)

    return products


def _operand(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> cann_mla.Tensor:
    if kind == "INT8":
        return cann_mla.Tensor.from_numpy(rng.integers(-127, 128, shape, np.int8))
    values = rng.uniform(-0.1, 0.1, shape).astype(np.float32)
    return cann_mla.Tensor.from_numpy(values.astype(cann_mla.dtype(kind).numpy))


def _rate(plan: MlaPrologQuantPlan, stream: cann_mla.Stream, tokens: int, limit: float) -> Measurement:
    def call() -> None:
        plan.run(stream)
        stream.synchronize()

    alone, taken = paired_seconds(gemm(tokens), call, repeat=5)
    steps = {f"{i} {symbol}": round(ms, 3) for i, (symbol, ms) in enumerate(plan.steps.timed_run(stream))}
    detail = {"tokens": tokens, "seconds": taken, "gemm_seconds": alone, "milliseconds": steps}
    of = "same-shape float32 GEMM"
    return Measurement(f"mla_prolog_quant/sim/{tokens}", alone / taken, "ratio", of, limit, "higher", detail)


def _between_primitives(plan: MlaPrologQuantPlan, stream: cann_mla.Stream) -> Measurement:
    """Time of a run's queueing, a primitive: all of Python's work and the C calls themselves."""
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter()
        plan.run(stream)
        best = min(best, time.perf_counter() - started)
        stream.synchronize()
    count = len(plan.steps.symbols)
    detail = {"primitives": count, "run_microseconds": best * 1e6}
    of = "one primitive of a running plan, the C call included"
    return Measurement("mla_prolog_quant/python", best * 1e6 / count, "us", of, LIMIT_MICROSECONDS, "lower", detail)


def _memory(device: cann_mla.Device, tokens: int) -> Measurement:
    """Device memory that a plan takes, without its outputs and workspace, against its two largest intermediates.

    These are the second product in INT32 and scaled in FP32, each in units of 512 bytes with 32 behind it, as
    aclrtMalloc gives it out. The constants 127, 1 and a row of ones are inputs of the primitives.
    """
    tensors = operands(tokens, FIXED)
    free, _ = device.memory()
    with MlaPrologQuantPlan(**tensors) as plan, plan.outputs as outputs:
        taken = free - device.memory()[0]
        written = (outputs.q_out, outputs.kv_out, outputs.qr_out, outputs.qr_scale_out)
        constants = 4 * (1 + 1 + plan.sizes.head)
        own = taken - plan.workspace_size - sum(tensor.layout.nbytes for tensor in written) - constants
        two_largest = 2 * -(-(4 * outputs.q_out.layout.numel + 32) // 512) * 512
        detail = {"tokens": tokens, "bytes": own, "two_largest": two_largest, "workspace": plan.workspace_size}
    for tensor in tensors.values():
        tensor.close()
    of = "the two largest intermediates"
    return Measurement("mla_prolog_quant/memory", own / two_largest, "ratio", of, 1.0, "lower", detail)

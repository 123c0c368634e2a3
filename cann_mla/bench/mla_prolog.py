"""MlaPrologV3WeightNz at real sizes: reference and simulator as a share of NumPy's float32 product rate."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.bench.core import Measurement, SkipError, paired_seconds, peak_growth, seconds
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case, TensorSpec, parse
from cann_mla.validate.golden import run_reference
from cann_mla.validate.signatures import roles_of

OP = "aclnnMlaPrologV3WeightNz"
HE, HCQ, N, D, HCKV, DR = 7168, 1536, 128, 128, 512, 64
GIB = 1 << 30
# tokens -> least share of the GEMM rate in scenarios of floating-point products
LIMITS = {64: 0.25, 256: 0.40, 1024: 0.50}
INT8_LIMIT = 0.25


def prolog_case(tokens: int, *, quantised: bool = False) -> Case:
    """The operator's real sizes: DeepSeek's, one paged cache of blocks of 128 tokens."""
    kind = "INT8" if quantised else "BF16"
    weight = {"dtype": kind, "format": "FRACTAL_NZ"}
    data = {"dist": "integers", "low": -127, "high": 128} if quantised else {"dist": "normal", "std": 0.02}
    heads = N * (D + DR)
    blocks = -(-tokens // 128)
    tensors: dict[str, Any] = {
        "tokenX": {"shape": [tokens, HE], "dtype": kind, "data": data},
        "weightDq": {"shape": [HE, HCQ], **weight, "data": data},
        "weightUqQr": {"shape": [HCQ, heads], **weight, "data": data},
        "weightUk": {"shape": [N, D, HCKV], "dtype": "BF16", "data": {"dist": "normal", "std": 0.05}},
        "weightDkvKr": {"shape": [HE, HCKV + DR], **weight, "data": data},
        "rmsnormGammaCq": {"shape": [HCQ], "dtype": "BF16", "data": {"dist": "ones"}},
        "rmsnormGammaCkv": {"shape": [HCKV], "dtype": "BF16", "data": {"dist": "ones"}},
        "ropeSin": {"shape": [tokens, DR], "dtype": "BF16"},
        "ropeCos": {"shape": [tokens, DR], "dtype": "BF16"},
        "kvCacheRef": {"shape": [blocks, 128, 1, HCKV], "dtype": "BF16"},
        "krCacheRef": {"shape": [blocks, 128, 1, DR], "dtype": "BF16"},
        "cacheIndexOptional": {
            "shape": [tokens],
            "dtype": "INT64",
            "data": {"dist": "permutation", "high": blocks * 128},
        },
        "queryOut": {"shape": [tokens, N, HCKV], "dtype": "BF16"},
        "queryRopeOut": {"shape": [tokens, N, DR], "dtype": "BF16"},
    }
    if quantised:
        scale = {"dist": "uniform", "low": 1e-4, "high": 3e-4}
        for name, shape in (
            ("X", [tokens, 1]),
            ("WDq", [1, HCQ]),
            ("WUqQr", [1, heads]),
            ("WDkvKr", [1, HCKV + DR]),
        ):
            tensors[f"dequantScale{name}Optional"] = {"shape": shape, "dtype": "FP32", "data": scale}
    attrs = {"cacheModeOptional": "PA_BSND", "weightQuantMode": 2 if quantised else 0}
    return parse(
        {
            "id": f"bench/{tokens}",
            "op": OP,
            "soc": "Ascend910B",
            "tensors": tensors,
            "attrs": attrs,
            "seed": 1,
        }
    )


def gemm_seconds(tokens: int) -> Callable[[], object]:
    """The operator's four products in float32, operands converted beforehand."""

    def make(*shape: int) -> NDArray[np.float32]:
        return np.ones(shape, np.float32)

    x, dq, dkv, cq = make(tokens, HE), make(HE, HCQ), make(HE, HCKV + DR), make(tokens, HCQ)
    uq, uk, q = make(HCQ, N * (D + DR)), make(N, D, HCKV), make(N, tokens, D)
    out = [
        np.empty(s, np.float32) for s in ((tokens, HCQ), (tokens, HCKV + DR), (tokens, N * (D + DR)), (N, tokens, HCKV))
    ]

    def products() -> None:
        for left, right, into in ((x, dq, out[0]), (x, dkv, out[1]), (cq, uq, out[2]), (q, uk, out[3])):
            np.matmul(left, right, out=into)

    return products


def lines() -> Iterator[Measurement]:
    """Rates, alternation, memory and repeated decoding."""
    for tokens, limit in LIMITS.items():
        yield from _rates(tokens, limit, quantised=False)
    for tokens in (256, 1024):
        yield from _rates(tokens, INT8_LIMIT, quantised=True)
    yield from _alternating(256)
    yield from _memory(256)
    yield from _decode(8)


def _rates(tokens: int, limit: float, *, quantised: bool) -> Iterator[Measurement]:
    case = prolog_case(tokens, quantised=quantised)
    kind = "int8" if quantised else "bf16"
    products = gemm_seconds(tokens)
    runs = {"reference": _reference(case)}
    simulated, close = _simulator(case)
    try:
        runs["sim"] = simulated
        for name, call in runs.items():
            gemm, taken = paired_seconds(products, call, repeat=3)
            detail = {"tokens": tokens, "seconds": taken, "gemm_seconds": gemm}
            of = "same-shape float32 GEMM"
            yield Measurement(f"mla_prolog/{name}/{kind}/{tokens}", gemm / taken, "ratio", of, limit, "higher", detail)
    finally:
        close()


def _reference(case: Case) -> Callable[[], object]:
    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output)
    return lambda: run_reference(case, arrays, roles, "device")


def _simulator(case: Case) -> tuple[Callable[[], object], Callable[[], None]]:
    from cann_mla.validate.run import Session

    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output)
    prepared = Session("sim").prepare(case, arrays, roles, repeatable=True)
    return prepared.run, prepared.close


def _alternating(tokens: int) -> Iterator[Measurement]:
    """Two BLAS pools in one process must not stall each other."""
    case = prolog_case(tokens)
    reference = _reference(case)
    simulated, close = _simulator(case)
    try:
        alone = seconds(reference, repeat=3) + seconds(simulated, repeat=3)
        both = seconds(lambda: (reference(), simulated()), repeat=3)
    finally:
        close()
    detail = {"tokens": tokens, "seconds_alone": alone, "seconds_alternating": both}
    yield Measurement("mla_prolog/alternating", both / alone, "ratio", "the two alone", 1.3, "lower", detail)


def _memory(tokens: int) -> Iterator[Measurement]:
    case = prolog_case(tokens)
    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output)
    written = sum(
        spec.numel * 2 for name, spec in case.specs() if roles.is_written(name) and isinstance(spec, TensorSpec)
    )
    tracemalloc.start()
    run_reference(case, arrays, roles, "device")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    detail = {"tokens": tokens, "output_bytes": written}
    of = "memory beyond inputs and outputs"
    yield Measurement("mla_prolog/reference/memory", (peak - written) / GIB, "GiB", of, 1.0, "lower", detail)
    simulated, close = _simulator(case)
    try:
        grown = peak_growth(simulated)
    finally:
        close()
    yield Measurement("mla_prolog/sim/memory", grown / GIB, "GiB", of, 1.0, "lower", detail)


def _decode(tokens: int) -> Iterator[Measurement]:
    """A plan that runs again may keep its converted weights: the first run against the later ones."""
    case = prolog_case(tokens)
    simulated, close = _simulator(case)
    try:
        import time

        started = time.perf_counter()
        simulated()
        first = time.perf_counter() - started
        again = seconds(simulated, repeat=5)
    finally:
        close()
    gemm = seconds(gemm_seconds(tokens), repeat=5)
    detail = {"tokens": tokens, "first_seconds": first, "again_seconds": again, "gemm_share": gemm / again}
    yield Measurement("mla_prolog/sim/decode_again", first / again, "ratio", "the first run", None, "higher", detail)


__all__ = ["SkipError", "gemm_seconds", "lines", "prolog_case"]

"""MlaPrologV3WeightNz at real sizes: reference and simulator as a share of NumPy's float32 product rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.bench.core import Measurement, paired_seconds, seconds
from cann_mla.bench.side_by_side import Sides, memory_lines, sides
from cann_mla.validate.cases import Case, parse

OP = "aclnnMlaPrologV3WeightNz"
HE, HCQ, N, D, HCKV, DR = 7168, 1536, 128, 128, 512, 64
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


def gemm(tokens: int) -> Callable[[], object]:
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
    for quantised, counts in ((False, LIMITS), (True, dict.fromkeys((256, 1024), INT8_LIMIT))):
        for tokens, limit in counts.items():
            with sides(prolog_case(tokens, quantised=quantised)) as both:
                yield from _rates(both, tokens, limit, "int8" if quantised else "bf16")
                if tokens == 256 and not quantised:
                    yield _alternating(both, tokens)
                    yield from memory_lines("mla_prolog", both, 1.0)
    with sides(prolog_case(8)) as both:
        yield _decode_again(both, 8)


def _rates(both: Sides, tokens: int, limit: float, kind: str) -> Iterator[Measurement]:
    products = gemm(tokens)
    for name, call in both.items():
        alone, taken = paired_seconds(products, call, repeat=3)
        detail = {"tokens": tokens, "seconds": taken, "gemm_seconds": alone}
        of = "same-shape float32 GEMM"
        yield Measurement(f"mla_prolog/{name}/{kind}/{tokens}", alone / taken, "ratio", of, limit, "higher", detail)


def _alternating(both: Sides, tokens: int) -> Measurement:
    """Two BLAS pools in one process must not stall each other."""
    alone = seconds(both.reference) + seconds(both.simulator)
    together = seconds(lambda: (both.reference(), both.simulator()))
    detail = {"tokens": tokens, "seconds_alone": alone, "seconds_alternating": together}
    return Measurement("mla_prolog/alternating", together / alone, "ratio", "the two alone", 1.3, "lower", detail)


def _decode_again(both: Sides, tokens: int) -> Measurement:
    """A plan that runs again may keep its converted weights: the first run against the later ones."""
    started = time.perf_counter()
    both.simulator()
    first = time.perf_counter() - started
    again = seconds(both.simulator, repeat=5)
    products = seconds(gemm(tokens), repeat=5)
    detail = {"tokens": tokens, "first_seconds": first, "again_seconds": again, "gemm_share": products / again}
    return Measurement("mla_prolog/sim/decode_again", first / again, "ratio", "the first run", None, "higher", detail)

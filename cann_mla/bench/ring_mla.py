"""AtbRingMLA at a real size: a causal first step over 4096 tokens, as a share of NumPy's float32 product rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cann_mla.bench.attention import HALF_GIB, products, rates
from cann_mla.bench.core import Measurement
from cann_mla.bench.side_by_side import memory_lines, sides
from cann_mla.validate.cases import Case, parse

TOKENS, HEADS = 4096, 16
NOPE, ROPE, VALUE, MASK = 128, 64, 128, 512
LIMIT = 0.4
FIRST_RING = TRIU = HIGH_PRECISION = 1


def first_ring_case(tokens: int, heads: int) -> Case:
    """Causal attention of one sequence to itself, in BF16."""

    def operand(size: int) -> dict[str, Any]:
        return {"shape": [tokens, heads, size], "dtype": "BF16", "data": {"dist": "normal"}}

    lengths = {"dist": "values", "values": [tokens, tokens]}
    tensors: dict[str, Any] = {
        "querySplit1": operand(NOPE),
        "querySplit2": operand(ROPE),
        "keySplit1": operand(NOPE),
        "keySplit2": operand(ROPE),
        "value": operand(VALUE),
        "mask": {"shape": [MASK, MASK], "dtype": "BF16", "data": {"dist": "triu", "value": 1}},
        "seqLen": {"shape": [2, 1], "dtype": "INT32", "memory": "host", "data": lengths},
        "output": {"shape": [tokens, heads, VALUE], "dtype": "BF16"},
        "softmaxLse": {"shape": [heads, tokens], "dtype": "FP32"},
    }
    attrs = {
        "headNum": heads,
        "kvHeadNum": heads,
        "qkScale": (NOPE + ROPE) ** -0.5,
        "kernelType": HIGH_PRECISION,
        "maskType": TRIU,
        "inputLayout": 0,
        "calcType": FIRST_RING,
    }
    return parse(
        {
            "id": f"bench/ring_mla/{tokens}",
            "op": "AtbRingMLA",
            "soc": "Ascend910B",
            "tensors": tensors,
            "attrs": attrs,
            "seed": 1,
        }
    )


def lines() -> Iterator[Measurement]:
    """Rates, counting the half of the work that no mask hides, and memory."""
    gemm = products(HEADS, TOKENS, TOKENS, NOPE + ROPE, VALUE)
    with sides(first_ring_case(TOKENS, HEADS)) as both:
        yield from rates("ring_mla/causal", both, gemm, 0.5, LIMIT)
        yield from memory_lines("ring_mla/causal", both, HALF_GIB)

"""FusedInferAttentionScore at real sizes: MLA decode from a paged cache, and causal prefill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cann_mla.bench.core import Measurement, paired_seconds, seconds
from cann_mla.bench.side_by_side import Sides, memory_lines, sides
from cann_mla.validate.cases import Case, parse

OP = "aclnnFusedInferAttentionScoreV3"
HALF_GIB = 0.5
BLOCK = 128
GEMM = "same-shape float32 GEMM"


def decode_case(batch: int, heads: int, length: int) -> Case:
    """One query token a sequence against `length` cached ones; D 512 + 64, one latent head, key and value shared."""
    blocks = length // BLOCK
    cache = {"shape": [batch * blocks, 1, BLOCK, 512], "dtype": "BF16", "data": {"dist": "normal"}}
    table = {"dist": "permutation", "high": batch * blocks}
    tensors: dict[str, Any] = {
        "query": {"shape": [batch, heads, 1, 512], "dtype": "BF16"},
        "key": [cache],
        "value": [{"shape": cache["shape"], "dtype": "BF16", "alias": "key"}],
        "queryRopeOptional": {"shape": [batch, heads, 1, 64], "dtype": "BF16"},
        "keyRopeOptional": {"shape": [batch * blocks, 1, BLOCK, 64], "dtype": "BF16"},
        "blockTableOptional": {"shape": [batch, blocks], "dtype": "INT32", "data": table},
        "attentionOut": {"shape": [batch, heads, 1, 512], "dtype": "BF16"},
    }
    attrs = {
        "actualSeqLengthsKvOptional": [length] * batch,
        "numHeads": heads,
        "numKeyValueHeads": 1,
        "scaleValue": 576**-0.5,
        "inputLayout": "BNSD",
        "blockSize": BLOCK,
    }
    return _case(f"decode/{length}", tensors, attrs)


def prefill_case(length: int, heads: int) -> Case:
    """Causal self-attention over one sequence; D 192, value 128."""
    tensors = {
        "query": {"shape": [length, heads, 192], "dtype": "BF16"},
        "key": [{"shape": [length, heads, 192], "dtype": "BF16"}],
        "value": [{"shape": [length, heads, 128], "dtype": "BF16"}],
        "attenMaskOptional": {"shape": [2048, 2048], "dtype": "BOOL", "data": {"dist": "triu", "value": 1}},
        "attentionOut": {"shape": [length, heads, 128], "dtype": "BF16"},
    }
    attrs = {
        "actualSeqLengthsOptional": [length],
        "actualSeqLengthsKvOptional": [length],
        "numHeads": heads,
        "numKeyValueHeads": heads,
        "scaleValue": 192**-0.5,
        "inputLayout": "TND",
        "sparseMode": 3,
    }
    return _case(f"prefill/{length}", tensors, attrs)


def _case(name: str, tensors: dict[str, Any], attrs: dict[str, Any]) -> Case:
    return parse({"id": f"bench/{name}", "op": OP, "soc": "Ascend910B", "tensors": tensors, "attrs": attrs, "seed": 1})


def products(batch: int, rows: int, keys: int, width: int, value_width: int) -> Callable[[], object]:
    """Scores and weighted sums as two batched float32 products."""
    query, key = np.ones((batch, rows, width), np.float32), np.ones((batch, width, keys), np.float32)
    weights, value = np.ones((batch, rows, keys), np.float32), np.ones((batch, keys, value_width), np.float32)
    scores, out = np.empty((batch, rows, keys), np.float32), np.empty((batch, rows, value_width), np.float32)
    return lambda: (np.matmul(query, key, out=scores), np.matmul(weights, value, out=out))


def lines() -> Iterator[Measurement]:
    """Rates of decode and prefill, linearity in the cache length, memory, and PyTorch beside them."""
    with sides(decode_case(32, 128, 4096)) as both:
        yield from rates("attention/decode", both, products(32, 128, 4096, 576, 512), 1.0, 0.5)
        yield from memory_lines("attention/decode", both, HALF_GIB)
        short = {name: seconds(call) for name, call in both.items()}
    with sides(decode_case(32, 128, 8192)) as both:
        for name, call in both.items():
            long = seconds(call)
            detail = {"seconds": [short[name], long], "lengths": [4096, 8192]}
            of = "twice the time of half the length"
            yield Measurement(f"attention/linear/{name}", long / short[name] / 2, "ratio", of, 1.2, "lower", detail)
    with sides(prefill_case(4096, 16)) as both:
        yield from rates("attention/prefill", both, products(16, 4096, 4096, 192, 128), 0.5, 0.4)
        yield from memory_lines("attention/prefill", both, HALF_GIB)
        yield from _beside_torch(both)


def rates(name: str, both: Sides, gemm: Callable[[], object], part: float, limit: float) -> Iterator[Measurement]:
    """Share of the product rate; `part` of the product counts (half of it under a causal mask)."""
    for side, call in both.items():
        alone, taken = paired_seconds(gemm, call, repeat=3)
        detail = {"seconds": taken, "gemm_seconds": alone, "part": part}
        yield Measurement(f"{name}/{side}", part * alone / taken, "ratio", GEMM, limit, "higher", detail)


def _beside_torch(both: Sides) -> Iterator[Measurement]:
    name, of = "attention/prefill/torch", "PyTorch's CPU scaled_dot_product_attention in float32"
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        missing = {"skipped": "PyTorch is not installed (extra: bench)"}
        yield Measurement(name, None, "ratio", of, 1.5, "lower", missing)
        return

    def as_torch(operand: str) -> Any:
        array = both.arrays[operand].astype(np.float32)
        return torch.from_numpy(np.ascontiguousarray(array.transpose(1, 0, 2)[None]))

    query, key, value = as_torch("query"), as_torch("key.0"), as_torch("value.0")
    attention = torch.nn.functional.scaled_dot_product_attention
    for side, call in both.items():
        theirs, ours = paired_seconds(lambda: attention(query, key, value, is_causal=True), call, repeat=3)
        detail = {"seconds": ours, "torch_seconds": theirs}
        yield Measurement(f"{name}/{side}", ours / theirs, "ratio", of, 1.5, "lower", detail)

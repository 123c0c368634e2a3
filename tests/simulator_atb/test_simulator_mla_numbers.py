"""What AtbMLA and AtbMLAPreFill round where, on scores that a hand can follow."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla.validate.cases import parse
from cann_mla.validate.run import run_alone
from cann_mla.validate.verify import Options

HEADS, BLOCK = 8, 128


def run(op: str, tensors: dict[str, Any], arrays: dict[str, Any], attrs: dict[str, Any]) -> dict[str, Any]:
    case = parse({"id": op, "op": op, "soc": "Ascend910B", "tensors": tensors, "attrs": attrs})
    record, outputs = run_alone(case, Options(via="sim"), arrays)
    assert record["verdict"] == "pass", record["message"]
    return outputs


def tensor(array: np.ndarray, dtype: str, **more: Any) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": dtype} | more


def bf16(array: np.ndarray) -> np.ndarray:
    return array.astype(ml_dtypes.bfloat16).view(np.uint16)


@pytest.mark.parametrize(("queries", "expected"), [(1, 100 / (1 + np.exp(6.0))), (2, 0.0)])
def test_int8_probabilities_of_several_queries_share_a_scale_over_four_blocks(queries: int, expected: float) -> None:
    """Keys of the first block score 0, those of the second 6; only the first holds values, all 100.

    A single query quantises each block's probabilities by the block's own largest: the first block keeps its weight
    1 / (1 + e**6). Several queries take 512 keys at a time: e**-6 of the largest, times 127, rounds to 0.
    """
    key_rope = np.zeros((2, 4, BLOCK, 16), np.float32)
    key_rope[1, 0, :, 0] = 6
    cache = np.zeros((2, 16, BLOCK, 32), np.int8)
    cache[0, 0, :, 0] = 100
    query_rope = np.zeros((queries, HEADS, 64), np.float32)
    query_rope[:, :, 0] = 1
    arrays = {
        "qNope": np.zeros((queries, HEADS, 512), np.int8),
        "qRope": bf16(query_rope),
        "ctKV": cache,
        "kRope": bf16(key_rope),
        "blockTables": np.array([[0, 1]], np.int32),
        "contextLens": np.array([2 * BLOCK], np.int32),
        "qkDescale": np.ones(HEADS, np.float32),
        "pvDescale": np.ones(HEADS, np.float32),
    }
    dtypes = {"qNope": "INT8", "qRope": "BF16", "ctKV": "INT8", "kRope": "BF16"}
    tensors = {name: tensor(array, dtypes.get(name, "FP32")) for name, array in arrays.items()}
    for name in ("blockTables", "contextLens"):
        tensors[name]["dtype"] = "INT32"
    for name in ("ctKV", "kRope"):
        tensors[name]["format"] = "FRACTAL_NZ"
    tensors["contextLens"]["memory"] = "host"
    if queries > 1:
        arrays["qSeqLen"] = np.array([queries], np.int32)
        tensors["qSeqLen"] = tensor(arrays["qSeqLen"], "INT32", memory="host")
    tensors["attenOut"] = {"shape": [queries, HEADS, 512], "dtype": "BF16"}
    attrs = {"headNum": HEADS, "qkScale": 1.0, "kvHeadNum": 1, "calcType": int(queries > 1), "cacheMode": 2}
    out = run("AtbMLA", tensors, arrays, attrs)["attenOut"].astype(np.float64)
    np.testing.assert_allclose(out[-1, :, 0], expected, rtol=2.0**-8, atol=0)
    assert (out[..., 1:] == 0).all()


def test_rows_of_a_sequence_without_keys_stay_as_they_are() -> None:
    arrays = {
        "qNope": np.zeros((2, HEADS, 512), np.float16),
        "qRope": np.zeros((2, HEADS, 64), np.float16),
        "ctKV": np.full((1, BLOCK, 1, 512), 3, np.float16),
        "kRope": np.zeros((1, BLOCK, 1, 64), np.float16),
        "blockTables": np.zeros((2, 1), np.int32),
        "contextLens": np.array([0, 5], np.int32),
        "attenOut": np.full((2, HEADS, 512), 7, np.float16),
        "lse": np.full((2, HEADS, 1), 7, np.float16),
    }
    tensors = {name: tensor(array, "FP16") for name, array in arrays.items()}
    tensors["blockTables"]["dtype"] = tensors["contextLens"]["dtype"] = "INT32"
    tensors["contextLens"]["memory"] = "host"
    attrs = {"headNum": HEADS, "qkScale": 1.0, "kvHeadNum": 1, "calcType": 2, "cacheMode": 1}
    outputs = run("AtbMLA", tensors, arrays, attrs)
    assert (outputs["attenOut"][0] == 7).all()
    assert (outputs["lse"][0] == 7).all()
    assert (outputs["attenOut"][1] == 3).all()
    assert (outputs["lse"][1] == np.float16(np.log(5.0))).all()


@pytest.mark.parametrize(("dtype", "expected"), [("FP16", 0.5), ("BF16", 1 / (1 + np.exp(-1.0)))])
def test_scores_of_prefill_are_of_half_precision_in_fp16(dtype: str, expected: float) -> None:
    """Scores 2049 and 2048: in FP16 the same number, so that the keys weigh alike; in FLOAT one apart."""
    query = np.zeros((2, 1, 128), np.float32)
    query[:, :, 0], query[:, :, 1] = 32, 1
    key = np.zeros((2, 1, 128), np.float32)
    key[:, :, 0], key[0, :, 1] = 64, 1
    value = np.zeros((2, 1, 128), np.float32)
    value[0] = 1
    rope = np.zeros((2, 1, 64), np.float32)
    encode = bf16 if dtype == "BF16" else lambda array: array.astype(np.float16)
    floats = {"q": query, "qRope": rope, "k": key, "kRope": rope, "v": value}
    arrays = {name: encode(array) for name, array in floats.items()}
    tensors = {name: tensor(array, dtype) for name, array in arrays.items()}
    for name in ("qSeqLen", "kvSeqLen"):
        arrays[name] = np.array([2], np.int32)
        tensors[name] = tensor(arrays[name], "INT32", memory="host")
    tensors["attenOut"] = tensor(query, dtype)
    attrs = {"headNum": 1, "qkScale": 1.0, "kvHeadNum": 1, "maskType": 0, "cacheMode": 1}
    out = run("AtbMLAPreFill", tensors, arrays, attrs)["attenOut"].astype(np.float64)
    np.testing.assert_allclose(out, expected, rtol=2.0**-8)


@pytest.mark.parametrize(
    ("shape", "second"),
    [
        ((4, 2, 128), 1),  # 4 tokens: packed
        ((6, 2, 128), 3),  # as many as 2 prompts times the longest: padded
        ((2, 3, 256), 1),  # 2 is not 2 times 3: packed, whatever the shape says
        ((2, 5, 256), 1),
    ],
)
def test_keys_of_prefill_are_padded_only_if_their_first_size_says_so(shape: tuple[int, ...], second: int) -> None:
    """Prompts of 1 and 3 tokens whose keys all weigh the same, over values that count the rows."""
    kinds = {"q": (4, 2, 128), "qRope": (4, 2, 64), "k": shape, "kRope": (*shape[:2], shape[2] // 2), "v": shape}
    arrays = {name: np.zeros(size, np.float16) for name, size in kinds.items()}
    arrays["v"].reshape(-1, 256)[:] = np.arange(np.prod(shape) // 256)[:, None]
    tensors = {name: tensor(array, "FP16") for name, array in arrays.items()}
    for name in ("qSeqLen", "kvSeqLen"):
        arrays[name] = np.array([1, 3], np.int32)
        tensors[name] = tensor(arrays[name], "INT32", memory="host")
    tensors["attenOut"] = {"shape": [4, 2, 128], "dtype": "FP16"}
    attrs = {"headNum": 2, "qkScale": 1.0, "kvHeadNum": 2, "maskType": 0, "cacheMode": 1}
    out = run("AtbMLAPreFill", tensors, arrays, attrs)["attenOut"]
    assert (out[0] == 0).all()
    assert (out[1:] == second + 1).all()


@pytest.mark.parametrize("lengths", [[-5, 7], [3, 1], [2**31 - 1, 1]])
def test_new_tokens_outside_of_the_queries_fault_the_launch(stream: cann_mla.Stream, lengths: list[int]) -> None:
    query, rope = np.zeros((2, HEADS, 512), np.float16), np.zeros((2, HEADS, 64), np.float16)
    cache, rope_cache = np.zeros((1, BLOCK, 1, 512), np.float16), np.zeros((1, BLOCK, 1, 64), np.float16)
    arrays = {"qNope": query, "qRope": rope, "ctKV": cache, "kRope": rope_cache, "attenOut": query}
    tensors: dict[str, Any] = {name: cann_mla.Tensor.from_numpy(array) for name, array in arrays.items()}
    tensors["blockTables"] = cann_mla.Tensor.from_numpy(np.zeros((2, 1), np.int32))
    for name, values in (("contextLens", [3, 3]), ("qSeqLen", lengths)):
        tensors[name] = cann_mla.Tensor.from_numpy(np.array(values, np.int32), host=True)
    attributes = {"headNum": HEADS, "qkScale": 1.0, "kvHeadNum": 1, "maskType": 0, "calcType": 1, "cacheMode": 1}
    unused = dict.fromkeys(("mask", "qkDescale", "pvDescale", "lse"))
    cann_mla.operator("AtbMLA")(stream=stream, **tensors, **attributes, **unused)
    with pytest.raises(cann_mla.CannError, match=r"qSeqLen leaves the tokens of qNope: sequence [01] has"):
        stream.synchronize()


def test_lengths_of_another_dtype_are_read_as_int32_and_no_further_than_they_go(stream: cann_mla.Stream) -> None:
    """ATB's table does not know query lengths with NZ caches: four INT8 are one INT32, and 0 lies behind them."""
    query, rope = np.zeros((1, HEADS, 512), np.float16), np.zeros((1, HEADS, 64), np.float16)
    tensors: dict[str, Any] = {name: cann_mla.Tensor.from_numpy(a) for name, a in (("qNope", query), ("qRope", rope))}
    for name, columns in (("ctKV", 512), ("kRope", 64)):
        cache = np.ones((1, columns // 16, BLOCK, 16), np.float16)
        tensors[name] = cann_mla.Tensor.from_numpy(cache, format="FRACTAL_NZ", storage_shape=cache.shape)
    tensors["blockTables"] = cann_mla.Tensor.from_numpy(np.zeros((4, 1), np.int32))
    tensors["contextLens"] = cann_mla.Tensor.from_numpy(np.full(4, 3, np.int32), host=True)
    tensors["qSeqLen"] = cann_mla.Tensor.from_numpy(np.array([1, 0, 0, 0], np.int8), host=True)
    tensors["attenOut"] = cann_mla.Tensor.from_numpy(query)
    attributes = {"headNum": HEADS, "qkScale": 1.0, "kvHeadNum": 1, "maskType": 0, "calcType": 1, "cacheMode": 3}
    unused = dict.fromkeys(("mask", "qkDescale", "pvDescale", "lse"))
    cann_mla.operator("AtbMLA")(stream=stream, **tensors, **attributes, **unused)
    stream.synchronize()
    assert (tensors["attenOut"].to_numpy() == 1).all()

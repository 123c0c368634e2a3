"""What is no operand, no number and no size is refused by every function of ATB, in words that name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import ops

Given = dict[str, Any]


def half(*shape: int) -> Any:
    return np.zeros(shape, np.float16)


def tables() -> Any:
    return np.array([[0], [1]], np.int32)


GIVEN: dict[str, Callable[[], Given]] = {
    "ring_mla": lambda: {
        "query_split1": half(3, 2, 128), "query_split2": half(3, 2, 64), "key_split1": half(4, 1, 128),
        "key_split2": half(4, 1, 64), "value": half(4, 1, 128), "seq_len": [1, 2], "kv_seq_len": [2, 2],
        "causal": True, "qk_scale": 0.1,
    },
    "mla": lambda: {
        "q_nope": half(2, 8, 512), "q_rope": half(2, 8, 64), "ct_kv": half(3, 128, 1, 512),
        "k_rope": half(3, 128, 1, 64), "block_tables": tables(), "context_lens": [3, 4], "causal": False,
        "with_lse": False, "qk_scale": 0.1,
    },
    "mla_prefill": lambda: {
        "q": half(3, 2, 128), "q_rope": half(3, 2, 64), "k": half(3, 2, 128), "k_rope": half(3, 2, 64),
        "v": half(3, 2, 128), "seq_len": [1, 2], "causal": True, "qk_scale": 0.1,
    },
    "paged_cache_load": lambda: {
        "key_cache": half(3, 4, 1, 16), "value_cache": half(3, 4, 1, 16), "block_tables": tables(),
        "context_lens": [3, 4],
    },
    "fused_add_topk_div": lambda: {
        "x": half(3, 8), "add_num": half(8), "k": 2, "group_num": 2, "group_topk": 1, "n": 1, "is_norm": True,
        "scale": 1.0,
    },
    "self_attention_prefix_encoder": lambda: {
        "query": half(3, 2, 16), "key": half(3, 128, 1, 16), "value": half(3, 128, 1, 16), "block_tables": tables(),
        "seq_len": [1, 2], "kv_seq_len": [1, 2], "qk_scale": 0.25,
    },
}  # fmt: skip
"""Legal operands of every function, with all that has no default, and flags and numbers."""
OUTPUTS = {
    "ring_mla": ("output",), "mla": ("atten",), "mla_prefill": ("atten",), "paged_cache_load": ("key",),
    "fused_add_topk_div": ("y", "indices"), "self_attention_prefix_encoder": ("attn",),
}  # fmt: skip
NONSENSE: list[Any] = ["x", float("nan"), object(), [], {}, np.array([[1.5]]), half(0, 2, 128)]
NO_SCALES: list[Any] = [1.5, -(2**70), 2**70]
PARAMETERS = [(function, name) for function, make in GIVEN.items() for name in make()]


@pytest.mark.parametrize(("function", "name"), PARAMETERS)
def test_nonsense_is_refused_by_name(stream: cann_mla.Stream, function: str, name: str) -> None:
    legal = GIVEN[function]()
    for value in NONSENSE if name in ("qk_scale", "scale") else NONSENSE + NO_SCALES:
        with pytest.raises((TypeError, ValueError), match=name.split("_")[0]):
            getattr(ops, function)(**legal | {name: value}, stream=stream)


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, names in OUTPUTS.items() for name in names])
def test_an_output_is_a_tensor(stream: cann_mla.Stream, function: str, name: str) -> None:
    other = {"output": "softmax_lse", "key": "value"}.get(name)
    for value in ("x", 3, half(3, 2, 128)):
        given = {name: value} | ({other: value} if other else {})
        with pytest.raises((TypeError, ValueError), match=name):
            getattr(ops, function)(**GIVEN[function]() | given, stream=stream)


@pytest.mark.parametrize("function", GIVEN)
@pytest.mark.parametrize("value", [None, 0, "x"])
def test_a_stream_is_one(stream: cann_mla.Stream, function: str, value: Any) -> None:
    with pytest.raises(TypeError, match="stream takes a Stream; got"):
        getattr(ops, function)(**GIVEN[function](), stream=value)


def test_flags_are_true_or_false(stream: cann_mla.Stream) -> None:
    with pytest.raises(TypeError, match="causal takes True or False; got int 1"):
        ops.ring_mla(**GIVEN["ring_mla"]() | {"causal": 1}, stream=stream)


@pytest.mark.parametrize("value", [3, [], (1, 2), (half(3, 2, 128), half(2, 3))])
def test_a_previous_result_is_one(stream: cann_mla.Stream, value: Any) -> None:
    with pytest.raises(TypeError, match="previous takes a RingMlaResult, or its two Tensors"):
        ops.ring_mla(**GIVEN["ring_mla"](), previous=value, stream=stream)


@pytest.mark.parametrize("empty", ["query", "key"])
def test_no_heads_are_refused(stream: cann_mla.Stream, empty: str) -> None:
    given = GIVEN["ring_mla"]()
    for name in ("query_split1", "query_split2") if empty == "query" else ("key_split1", "key_split2", "value"):
        given[name] = given[name][:, :0]
    with pytest.raises(ValueError, match="there must be one of each"):
        ops.ring_mla(**given, stream=stream)


def test_a_tensor_without_memory_is_refused_before_the_kernel_reads_at_address_0(stream: cann_mla.Stream) -> None:
    query = cann_mla.Tensor(None, (3, 2, 128), "FP16")
    with pytest.raises(ValueError, match="querySplit1 has no memory"):
        ops.ring_mla(**GIVEN["ring_mla"]() | {"query_split1": query}, stream=stream)


@pytest.mark.parametrize("taken", ["query_split1", "key_split1", "value"])
def test_an_output_over_what_is_still_read_is_refused(stream: cann_mla.Stream, taken: str) -> None:
    given = GIVEN["ring_mla"]() | {"key_split1": half(3, 2, 128), "key_split2": half(3, 2, 64)}
    given |= {"value": half(3, 2, 128), "kv_seq_len": [1, 2]}
    given[taken] = cann_mla.Tensor.from_numpy(given[taken])
    with cann_mla.Tensor.empty((2, 3), "FP32") as lse, pytest.raises(ValueError, match="output shares memory with"):
        ops.ring_mla(**given, output=given[taken].view(), softmax_lse=lse, stream=stream)


def test_an_output_may_lie_over_the_result_that_it_replaces_but_not_over_a_part_of_it(stream: cann_mla.Stream) -> None:
    memory = cann_mla.DeviceMemory(10240)
    before, shifted = (cann_mla.Tensor(memory.part(offset, 1536), (3, 2, 128), "FP16") for offset in (0, 512))
    with cann_mla.Tensor.zeros((2, 3), "FP32") as lse:
        given = GIVEN["ring_mla"]() | {"previous": (before, lse), "softmax_lse": lse}
        ops.ring_mla(**given, output=before.view(), stream=stream)
        with pytest.raises(ValueError, match="output shares memory with prev"):
            ops.ring_mla(**given, output=shifted, stream=stream)
        stream.synchronize()


@pytest.mark.parametrize(("experts", "groups"), [(32, 1), (32, 4), (264, 8)])
def test_experts_that_fail_in_the_tiling_are_refused(stream: cann_mla.Stream, experts: int, groups: int) -> None:
    with pytest.raises(ValueError, match=f"x has {experts} experts in {groups} groups; the kernel takes less than 32"):
        ops.fused_add_topk_div(half(1, experts), half(experts), 1, group_num=groups, stream=stream)


@pytest.mark.parametrize("entries", [0, -1, 3])
def test_experts_are_not_mapped_beyond_their_row(stream: cann_mla.Stream, entries: int) -> None:
    counts = np.array([1, 2, entries, 1], np.int32)
    with pytest.raises(ValueError, match="each expert has 1 to 2 entries"):
        ops.fused_add_topk_div(
            half(1, 4), half(4), 1, mapping_num=counts, mapping_table=np.zeros((4, 2), np.int32), stream=stream
        )

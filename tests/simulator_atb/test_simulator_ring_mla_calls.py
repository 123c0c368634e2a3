"""Contexts, operations and plans of ATB: their lives, and what is refused when."""

from __future__ import annotations

import gc
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import Tensor, c, simulator
from cann_mla.atb import AtbContext
from cann_mla.errors import CannError, ClosedError

ATTRIBUTES = {"headNum": 2, "kvHeadNum": 2, "qkScale": 0.07, "kernelType": 1, "maskType": 0, "inputLayout": 0}
CORE_SCRATCH = 5 * 2_097_152


class Call:
    """The tensors of one call of AtbRingMLA that starts a result."""

    def __init__(self, lengths: list[list[int]], seed: int = 0, heads: int = 2) -> None:
        rng = np.random.default_rng(seed)
        q, kv = sum(lengths[0]), sum(lengths[-1])
        names = ("querySplit1", "querySplit2", "keySplit1", "keySplit2", "value")
        sizes = ((q, 128), (q, 64), (kv, 128), (kv, 64), (kv, 128))
        arrays = [rng.standard_normal((n, heads, size)).astype(ml_dtypes.bfloat16) for n, size in sizes]
        self.arguments: dict[str, Any] = {
            name: Tensor.from_numpy(array) for name, array in zip(names, arrays, strict=True)
        }
        self.arguments["mask"] = Tensor.zeros((512, 512), "BF16")
        self.arguments["seqLen"] = Tensor.from_numpy(np.array(lengths, np.int32), host=True)
        self.arguments["output"] = Tensor.zeros((q, heads, 128), "BF16")
        self.arguments["softmaxLse"] = Tensor.zeros((heads, q), "FP32")
        self.arguments |= ATTRIBUTES | {"headNum": heads, "kvHeadNum": heads, "calcType": 1}

    def lse(self) -> np.ndarray[Any, Any]:
        return self.arguments["softmaxLse"].to_numpy()


def operator() -> Any:
    return cann_mla.operator("AtbRingMLA")


@pytest.mark.parametrize(
    ("lengths", "heads", "blocks"),
    [([[5], [5]], 2, 2), ([[128, 129], [9, 9]], 2, 6), ([[128, 129], [9, 0]], 2, 2), ([[700], [9]], 8, 24)],
)
def test_workspace_is_that_of_heads_times_blocks_up_to_24_cores(
    stream: cann_mla.Stream, lengths: list[list[int]], heads: int, blocks: int
) -> None:
    call = Call(lengths, heads=heads)
    with operator().prepare(**call.arguments) as plan:
        assert plan.workspace_size == blocks * CORE_SCRATCH


def test_a_repeatable_plan_runs_again_and_is_set_up_again(stream: cann_mla.Stream) -> None:
    first, second = Call([[4], [9]]), Call([[6], [3]], seed=1)
    expected = []
    for call in (first, second):
        operator()(stream=stream, **call.arguments)
        stream.synchronize()
        expected.append(call.lse())
    with operator().prepare(repeatable=True, **first.arguments) as plan:
        for call, lse in ((first, expected[0]), (second, expected[1])):
            plan.set_up(**call.arguments)
            for _ in range(2):
                call.arguments["softmaxLse"].copy_from(np.zeros(lse.shape, np.float32))
                plan.run(stream)
                stream.synchronize()
                np.testing.assert_array_equal(call.lse(), lse)
    with pytest.raises(ClosedError):
        plan.run(stream)


def test_an_operation_ignores_later_parameters_but_not_their_number_of_tensors(stream: cann_mla.Stream) -> None:
    call = Call([[4], [9]])
    with operator().prepare(repeatable=True, **call.arguments) as plan:
        plan.set_up(**call.arguments | {"headNum": -3})  # only read when the operation is made
        previous = {"prevOut": call.arguments["output"], "prevLse": call.arguments["softmaxLse"]}
        with pytest.raises(CannError) as caught:
            plan.set_up(**call.arguments | previous | {"calcType": 0})
        assert caught.value.status_name == "ATB_ERROR_INVALID_IN_TENSOR_NUM"
        with pytest.raises(CannError, match="setup of the operation did not succeed"):
            plan.run(stream)


def test_tiling_that_fails_is_told_by_the_launch(stream: cann_mla.Stream) -> None:
    call = Call([[4, 0], [9, 3]])
    with operator().prepare(**call.arguments) as plan:
        assert plan.workspace_size == 0
        with pytest.raises(CannError, match="query length of 0") as caught:
            plan.run(stream)
    assert (caught.value.phase, caught.value.status) == ("launch", 1)


@pytest.mark.parametrize("lengths", [[[5], [9]], [[4], [10]]], ids=["queries", "keys"])
def test_lengths_past_the_tensors_fault_the_launch(stream: cann_mla.Stream, lengths: list[list[int]]) -> None:
    call = Call([[4], [9]])
    call.arguments["seqLen"] = Tensor.from_numpy(np.array(lengths, np.int32), host=True)
    operator()(stream=stream, **call.arguments)
    with pytest.raises(CannError, match="reach past the tensors"):
        stream.synchronize()


def test_lengths_on_the_device_are_refused(stream: cann_mla.Stream) -> None:
    call = Call([[4], [9]])
    call.arguments["seqLen"] = Tensor.from_numpy(np.array([[4], [9]], np.int32))
    with pytest.raises(ValueError, match="seqLen lies on the device"):
        operator().prepare(**call.arguments)


def test_arguments_without_names_are_refused(stream: cann_mla.Stream) -> None:
    call = Call([[4], [9]])
    with pytest.raises(TypeError, match="AtbRingMLA takes its arguments by their C names: querySplit1, querySplit2"):
        operator().prepare(call.arguments["querySplit1"], **call.arguments)
    with pytest.raises(TypeError, match="by their C names"):
        operator().prepare(True, **call.arguments)


def test_nothing_is_left_behind(stream: cann_mla.Stream) -> None:
    call = Call([[4], [9]])
    operator()(stream=stream, **call.arguments)  # the thread's context stays with the device
    kinds = (c.CANN_MLA_SIM_ATB_CONTEXT, c.CANN_MLA_SIM_ATB_OPERATION, c.CANN_MLA_SIM_EXECUTOR)
    gc.collect()  # what earlier tests left in cycles must not go in between
    before = [c.cannMlaSimLiveHandles(kind) for kind in kinds]
    for _ in range(20):
        operator()(stream=stream, **call.arguments)
        with pytest.raises(CannError):
            operator().prepare(**call.arguments | {"maskType": 7})
        with pytest.raises(CannError):
            operator().prepare(**call.arguments | {"output": None})
    with AtbContext() as own:
        operator().prepare(context=own, **call.arguments).run(stream)
    stream.synchronize()
    assert [c.cannMlaSimLiveHandles(kind) for kind in kinds] == before


def test_null_pointers(stream: cann_mla.Stream) -> None:
    call = Call([[4], [9]])
    arguments = call.arguments | {"prevOut": None, "prevLse": None}
    row = [
        value.handle if isinstance(value, Tensor) else c.NULL if value is None else value
        for value in (arguments[p.name] for p in operator().signature.operands)
    ]
    size, made = c.new("uint64_t *"), c.new("atb_Operation **")
    with AtbContext() as context:
        assert c.AtbRingMLAGetWorkspaceSize(*row, size, c.NULL, context.handle) == c.ATB_ERROR_INVALID_OPERATION_ADDR
        assert c.AtbRingMLAGetWorkspaceSize(*row, size, made, c.NULL) == c.ATB_ERROR_INVALID_PARAM
        assert c.AtbRingMLAGetWorkspaceSize(*row, size, made, context.handle) == 0
        assert c.AtbRingMLA(c.NULL, size[0], c.NULL, context.handle) == c.ATB_ERROR_INVALID_OPERATION_ADDR
        assert c.AtbRingMLA(c.NULL, size[0], made[0], context.handle) == c.ATB_ERROR_INVALID_PARAM  # no stream
        context.use_stream(stream)
        assert c.AtbRingMLA(c.NULL, size[0], made[0], context.handle) == c.ATB_ERROR_INVALID_PARAM  # no workspace


def host(lengths: list[list[int]]) -> Tensor:
    return Tensor.from_numpy(np.array(lengths, np.int32), host=True)


def with_gaps() -> Tensor:
    array = np.zeros((4, 2, 128), ml_dtypes.bfloat16)
    return Tensor.from_numpy(array, strides=(512, 128, 1), storage_shape=(2048,))


@pytest.mark.parametrize(("change", "rule", "text"), [
    ({"headNum": 4}, "ring-mla-trap", "headNum is 4, but the queries have 2 heads"),
    ({"kvHeadNum": 1}, "ring-mla-trap", "kvHeadNum means 1, but the keys have 2 heads"),
    ({"seqLen": lambda: host([[3], [9]])}, "ring-mla-trap", "adds up to 3 queries and 9 keys, the tensors have 4"),
    ({"seqLen": lambda: host([[4], [8]])}, "ring-mla-trap", "adds up to 4 queries and 8 keys, the tensors have 4"),
    ({"seqLen": lambda: host([[4], [9], [1]])}, "ring-mla-trap", r"seqLen \[3, 1\] has rows that nothing reads"),
    ({"maskType": 1, "mask": lambda: Tensor.zeros((600, 600), "BF16")}, "ring-mla-trap", r"mask \[600, 600\] is read"),
    ({"headNum": 130}, "swallowed-tiling", "setup returns 0, but tiling failed .* headNum is 130; at most 128"),
    ({"querySplit1": with_gaps}, "ignored-strides", "querySplit1 is a view with strides or an offset"),
])  # fmt: skip
def test_strict_mode_tells_what_atb_does_not_see(
    stream: cann_mla.Stream, change: dict[str, Any], rule: str, text: str
) -> None:
    changed = {name: value() if callable(value) else value for name, value in change.items()}
    call = Call([[4], [9]])
    with simulator.watch() as watching, operator().prepare(**call.arguments | changed):  # the status stays 0
        pass
    told = [finding for finding in watching.findings if finding.rule == rule and re.search(text, finding.what)]
    assert len(told) == 1, watching.findings
    assert told[0].broken is not None
    assert told[0].broken.api == "AtbRingMLAGetWorkspaceSize"


@pytest.mark.parametrize("mask_type", [0, 1])
def test_strict_mode_has_nothing_to_say_of_a_right_call(stream: cann_mla.Stream, mask_type: int) -> None:
    with simulator.watch() as watching:
        call = Call([[4], [9]])
        operator()(stream=stream, **call.arguments | {"maskType": mask_type})
        stream.synchronize()
    assert watching.findings == []

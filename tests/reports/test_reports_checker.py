"""Lifetimes and orders that people got wrong: what the checker says, and that the Python face does not fall for it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import c, ops, simulator
from cann_mla.atb import AtbContext
from cann_mla.atb.context import atb_function
from cann_mla.libraries import load

FP16 = np.float16
V3 = "aclnnFusedInferAttentionScoreV3"


def attention(stream: cann_mla.Stream, rows: int = 8, **more: Any) -> Any:
    query, key = np.zeros((1, 1, 1, 64), FP16), np.zeros((1, rows, 1, 64), FP16)
    return ops.fused_infer_attention(
        query, key, key + 1, input_layout="BSND", softmax_lse_flag=True, stream=stream, **more
    )


def phase_one(stream: cann_mla.Stream, tensors: dict[str, Any]) -> tuple[int, Any]:
    """Workspace size and executor of an attention over eight keys, by the C functions."""
    values = {
        **tensors, "numHeads": 1, "scaleValue": 1.0, "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1,
        "inputLayout": c.new("char[]", b"BSND"), "numKeyValueHeads": 1, "softmaxLseFlag": True,
    }  # fmt: skip
    size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    parameters = cann_mla.operator(V3).signature.operands
    arguments = [values.get(p.name, c.NULL if "*" in p.type else 0) for p in parameters]
    assert c.aclnnFusedInferAttentionScoreV3GetWorkspaceSize(*arguments, size, executor) == 0
    return size[0], executor[0]


@pytest.fixture
def operands(stream: cann_mla.Stream) -> Any:
    tensors = {
        "query": cann_mla.Tensor.zeros((1, 1, 1, 64), "FP16"),
        "key": cann_mla.TensorList([cann_mla.Tensor.zeros((1, 8, 1, 64), "FP16")]),
        "value": cann_mla.TensorList([cann_mla.Tensor.zeros((1, 8, 1, 64), "FP16")]),
        "attentionOut": cann_mla.Tensor.zeros((1, 1, 1, 64), "FP16"),
        "softmaxLse": cann_mla.Tensor.zeros((1, 1, 1, 1), "FP32"),
    }
    yield {name: tensor.handle for name, tensor in tensors.items()}
    for tensor in tensors.values():
        tensor.close()


def malloc(nbytes: int) -> Any:
    address = c.new("void **")
    assert c.aclrtMalloc(address, nbytes, c.ACL_MEM_MALLOC_HUGE_FIRST) == 0
    return address[0]


class TestWorkspaceThatDiesBeforeTheLaunch:
    def test_is_found_when_it_is_freed(self, stream: cann_mla.Stream, operands: Any) -> None:
        with simulator.watch() as watch:
            size, executor = phase_one(stream, operands)
            workspace = malloc(size)
            assert c.aclnnFusedInferAttentionScoreV3(workspace, size, executor, stream.handle) == 0
            c.aclrtFree(workspace)
            other = malloc(size)
            c.aclrtMemset(other, size, 0xFF, size)
            # Good or a fault of the kernel, by whether that was done before its workspace went.
            assert c.aclrtSynchronizeStream(stream.handle) in (0, 507015)
            c.aclrtFree(other)
        (finding,) = watch.findings
        assert finding.rule == "freed-in-use"
        assert (finding.made.api, finding.broken.api) == ("aclrtMalloc", "aclrtFree")
        assert V3 in finding.what
        assert "workspace" in finding.what
        assert "synchronise" in finding.fix

    def test_does_not_happen_to_a_plan(self, stream: cann_mla.Stream) -> None:
        with simulator.watch(leaks=True) as watch, attention(stream) as result:
            with cann_mla.DeviceMemory(1 << 24) as other:
                other.fill(0xFF)
            stream.synchronize()
            np.testing.assert_allclose(result.softmax_lse.to_numpy().ravel(), np.log(8), atol=1e-6)
        assert watch.findings == []


class TestOneWorkspaceForTwoLaunches:
    @staticmethod
    def launch_both(first: Any, second: Any, operands: Any, order: bool) -> list[simulator.Finding]:
        more = {name: cann_mla.Tensor.zeros((1, 1, 1, n), d) for name, n, d in (
            ("attentionOut", 64, "FP16"), ("softmaxLse", 1, "FP32"))}  # fmt: skip
        with simulator.watch() as watch, cann_mla.Event() as event:
            plans = [phase_one(first, operands), phase_one(second, operands | {n: t.handle for n, t in more.items()})]
            size = max(size for size, _ in plans)
            workspace = malloc(size)
            for stream, (_, executor) in zip((first, second), plans, strict=True):
                assert c.aclnnFusedInferAttentionScoreV3(workspace, size, executor, stream.handle) == 0
                if order and stream is first:
                    first.record(event)
                    second.wait(event)
            first.synchronize()
            second.synchronize()
            c.aclrtFree(workspace)
        return watch.findings

    def test_is_found_without_an_event(self, stream: cann_mla.Stream, operands: Any) -> None:
        with cann_mla.Stream() as second:
            (finding,) = self.launch_both(stream, second, operands, order=False)
        assert finding.rule == "shared-workspace"
        assert finding.broken.api == V3
        assert finding.broken.stream is not None

    def test_is_right_with_an_event(self, stream: cann_mla.Stream, operands: Any) -> None:
        with cann_mla.Stream() as second:
            assert self.launch_both(stream, second, operands, order=True) == []

    def test_is_right_on_one_stream(self, stream: cann_mla.Stream, operands: Any) -> None:
        assert self.launch_both(stream, stream, operands, order=False) == []


class TestContextThatEndsBeforeItsOperation:
    @staticmethod
    def plan(context: AtbContext) -> Any:
        bf16 = {name: cann_mla.Tensor.zeros((4, 1, width), "BF16") for name, width in (
            ("querySplit1", 128), ("querySplit2", 64), ("keySplit1", 128), ("keySplit2", 64), ("value", 128),
            ("output", 128))}  # fmt: skip
        return cann_mla.operator("AtbRingMLA").prepare(
            **bf16, mask=cann_mla.Tensor.zeros((512, 512), "BF16"), prevOut=None, prevLse=None,
            seqLen=cann_mla.Tensor.from_numpy(np.array([[4], [4]], np.int32), host=True),
            softmaxLse=cann_mla.Tensor.zeros((1, 4), "FP32"), headNum=1, kvHeadNum=1, qkScale=1.0, kernelType=1,
            maskType=0, inputLayout=0, calcType=1, context=context,
        )  # fmt: skip

    def test_is_found(self, stream: cann_mla.Stream) -> None:
        with simulator.watch() as watch:
            context = AtbContext()
            plan = self.plan(context)
            handle, context._handle = context._handle, None
            atb_function(load(), "DestroyContext")(handle)
            plan.close()
        (finding,) = watch.findings
        assert finding.rule == "operation-outlives-context"
        assert "operation first" in finding.fix

    def test_the_python_face_tells_or_keeps_the_order(self, stream: cann_mla.Stream) -> None:
        with simulator.watch() as watch:
            context = AtbContext()
            plan = self.plan(context)
            context.close()
            plan.close()
        assert watch.findings == []


def test_nothing_is_left_of_a_call_that_works(stream: cann_mla.Stream) -> None:
    with simulator.watch(leaks=True) as watch:
        attention(stream).close()
        stream.synchronize()
    assert watch.findings == []


def test_nothing_is_left_of_a_call_that_is_refused(stream: cann_mla.Stream) -> None:
    """The published sample leaks a tensor, two lists and their memory, and more when phase one refuses."""
    with simulator.watch(leaks=True) as watch:
        with pytest.raises(cann_mla.CannError) as error:
            attention(stream, atten_mask=np.zeros((1, 1, 1, 8), FP16))
        assert error.value.status == 561002
        del error
        stream.synchronize()
    assert watch.findings == []


def test_what_the_package_keeps_for_the_next_call_is_no_leak(stream: cann_mla.Stream) -> None:
    """RingMLA's mask on the device, the thread's atb::Context, events of a stream."""
    bf16 = [np.zeros((4, 1, width), ml_dtypes.bfloat16) for width in (128, 64, 128, 64, 128)]
    with simulator.watch(leaks=True) as watch:
        ops.ring_mla(*bf16, [4], causal=True, stream=stream).close()
        stream.synchronize()
    assert watch.findings == []


def test_a_wait_without_a_record_is_told_and_ends(stream: cann_mla.Stream) -> None:
    with (
        simulator.watch() as watch,
        cann_mla.Event() as event,
        cann_mla.DeviceMemory(64) as memory,
        cann_mla.Stream() as waiting,
    ):
        waiting.wait(event)
        memory.fill(0, stream=waiting)
        with pytest.raises(cann_mla.CannError) as error:
            waiting.synchronize(timeout=0.2)
        assert error.value.status == 507046
        waiting.abort()
    assert watch.rules == ["event-never-recorded"]

"""Executors, lengths, capture, initialisation and error texts, as people met them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import c, simulator
from cann_mla.libraries import load

FP16 = np.float16


def attention_operands(rows: int = 8) -> dict[str, Any]:
    """One zero query over `rows` zero keys, by C name: softmaxLse is the log of the number of keys seen."""
    return {
        "query": cann_mla.Tensor.from_numpy(np.zeros((1, 1, 1, 64), FP16)),
        "key": cann_mla.TensorList([cann_mla.Tensor.from_numpy(np.zeros((1, rows, 1, 64), FP16))]),
        "value": cann_mla.TensorList([cann_mla.Tensor.from_numpy(np.ones((1, rows, 1, 64), FP16))]),
        "attentionOut": cann_mla.Tensor.empty((1, 1, 1, 64), "FP16"),
        "softmaxLse": cann_mla.Tensor.empty((1, 1, 1, 1), "FP32"),
        "inputLayout": "BSND", "numHeads": 1, "numKeyValueHeads": 1, "scaleValue": 1.0, "softmaxLseFlag": True,
        "preTokens": 2147483647, "nextTokens": 2147483647, "sparseMode": 0, "innerPrecise": 0, "blockSize": 0,
        "antiquantMode": 0, "keyAntiquantMode": 0, "valueAntiquantMode": 0,
    }  # fmt: skip


def prepare(operands: dict[str, Any], **more: Any) -> Any:
    return cann_mla.operator("aclnnFusedInferAttentionScoreV3").prepare(**operands, **more)


def live_executors() -> int:
    gc.collect()
    return load().cannMlaSimLiveHandles(7)  # CANN_MLA_SIM_EXECUTOR


def test_plans_that_never_run_leave_no_executor(device: cann_mla.Device, stream: cann_mla.Stream) -> None:
    operands, before = attention_operands(), live_executors()
    for _ in range(1000):
        prepare(operands)
    assert live_executors() == before
    prepare(operands).run(stream)
    stream.synchronize()
    np.testing.assert_allclose(operands["softmaxLse"].to_numpy().ravel(), np.log(8), atol=1e-6)


def test_lengths_are_those_of_phase_one(device: cann_mla.Device, stream: cann_mla.Stream) -> None:
    lengths, operands = np.array([3]), attention_operands()
    with prepare(operands, actualSeqLengthsKvOptional=lengths, repeatable=True) as plan:
        for _ in range(2):
            plan.run(stream)
            stream.synchronize()
            np.testing.assert_allclose(operands["softmaxLse"].to_numpy().ravel(), np.log(3), atol=1e-6)
            lengths[0] = 8
        with pytest.raises(ValueError, match=r"lengths.*fixed at phase one; build a new plan"):
            plan.set_tensor("actualSeqLengthsKvOptional", operands["query"])


def test_capturing_is_refused_and_not_pretended(device: cann_mla.Device, stream: cann_mla.Stream) -> None:
    status = c.aclmdlRICaptureBegin(stream.handle, c.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    assert status == c.ACL_ERROR_RT_FEATURE_NOT_SUPPORT == 207000
    assert b"not simulated" in c.string(c.aclGetRecentErrMsg()).encode()
    stream.synchronize()


def test_a_process_that_is_initialised_stays_so() -> None:
    """Another library called aclInit first: that is no error, and the end of it is left to that library."""
    program = f"""
import ctypes
other = ctypes.CDLL({str(simulator.library_path())!r})
assert other.aclInit(None) == 0
import cann_mla
with cann_mla.Device(0):
    cann_mla.Tensor.zeros((4,), "FP32").close()
print(other.aclrtSetDevice(0), other.aclFinalize())
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**clean, "CANN_MLA_BACKEND": "sim", "CANN_MLA_SIM_LIBRARY": str(simulator.library_path())},
        cwd=tempfile.gettempdir(),  # the package is the installed one, not the checkout
    )  # fmt: skip
    assert done.stdout == "0 0\n", done.stderr


class TestTextsThatNobodyFetched:
    @staticmethod
    def fail_elsewhere() -> None:
        """A refused call whose text stays behind."""
        assert c.aclrtMemcpy(c.NULL, 0, c.NULL, 8, c.ACL_MEMCPY_DEVICE_TO_DEVICE) != 0

    def test_a_later_error_is_about_its_own_call(self, device: cann_mla.Device, stream: cann_mla.Stream) -> None:
        self.fail_elsewhere()
        operands = attention_operands()
        operands["inputLayout"] = "XYZ"
        with pytest.raises(cann_mla.CannError) as error:
            prepare(operands)
        assert "XYZ" in error.value.text
        assert "aclrtMemcpy" not in error.value.text
        assert c.aclGetRecentErrMsg() == c.NULL

    def test_a_text_belongs_to_its_thread(self, device: cann_mla.Device) -> None:
        self.fail_elsewhere()
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(c.aclGetRecentErrMsg() == c.NULL))
        thread.start()
        thread.join()
        assert seen == [True]
        assert "aclrtMemcpy" in c.string(c.aclGetRecentErrMsg())

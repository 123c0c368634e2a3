"""The two-phase call, on aclnnMlaPrologV3WeightNz: arguments, plans, errors, lifetimes."""

from __future__ import annotations

import gc
import pydoc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import CannError, ClosedError, DeviceMemory, Stream, Tensor, c

BF16 = ml_dtypes.bfloat16
ATTRIBUTES: dict[str, Any] = {
    "rmsnormEpsilonCq": 1e-5,
    "rmsnormEpsilonCkv": 1e-5,
    "cacheModeOptional": "PA_BSND",
    "weightQuantMode": 0,
    "kvCacheQuantMode": 0,
    "queryQuantMode": 0,
    "ckvkrRepoMode": 0,
    "quantScaleRepoMode": 0,
    "tileSize": 128,
    "qcQrScale": 1.0,
    "kcScale": 1.0,
}
NZ = ("weightDq", "weightUqQr", "weightDkvKr")


def arrays(tokens: int = 2, heads: int = 1, hidden: int = 1024) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32).astype(BF16)

    return {
        "tokenX": normal(tokens, hidden),
        "weightDq": normal(hidden, 1536),
        "weightUqQr": normal(1536, heads * 192),
        "weightUk": normal(heads, 128, 512),
        "weightDkvKr": normal(hidden, 576),
        "rmsnormGammaCq": normal(1536),
        "rmsnormGammaCkv": normal(512),
        "ropeSin": normal(tokens, 64),
        "ropeCos": normal(tokens, 64),
        "kvCacheRef": np.zeros((1, 16, 1, 512), BF16),
        "krCacheRef": np.zeros((1, 16, 1, 64), BF16),
        "cacheIndexOptional": np.arange(tokens, dtype=np.int64),
        "queryOut": np.zeros((tokens, heads, 512), BF16),
        "queryRopeOut": np.zeros((tokens, heads, 64), BF16),
    }


def upload(content: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {
        name: Tensor.from_numpy(array, format="FRACTAL_NZ" if name in NZ else "ND") for name, array in content.items()
    }


@pytest.fixture
def tensors(device: cann_mla.Device) -> Iterator[dict[str, Tensor]]:
    device.use()
    made = upload(arrays())
    yield made
    for tensor in made.values():
        tensor.close()


@pytest.fixture
def operator(device: cann_mla.Device) -> cann_mla.Operator:
    return cann_mla.operator("aclnnMlaPrologV3WeightNz")


def test_one_call_does_both_phases(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    operator(stream=stream, **tensors, **ATTRIBUTES)
    stream.synchronize()
    cache = tensors["kvCacheRef"].to_numpy()
    assert np.flatnonzero(np.any(cache[0, :, 0] != 0, axis=1)).tolist() == [0, 1]
    assert np.any(tensors["queryOut"].to_numpy() != 0)


def test_order_of_arguments_does_not_matter(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    everything = {**tensors, **ATTRIBUTES}
    operator(stream, **everything)
    stream.synchronize()
    expected = tensors["queryOut"].to_numpy()
    tensors["queryOut"].copy_from(np.zeros_like(expected))
    operator(stream, **dict(reversed(everything.items())))
    stream.synchronize()
    assert tensors["queryOut"].to_numpy().tobytes() == expected.tobytes()


def test_plan_tells_the_workspace_and_takes_one(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    with operator.prepare(**tensors, **ATTRIBUTES) as plan:
        assert plan.workspace_size > 0
        with DeviceMemory(plan.workspace_size) as workspace:
            plan.run(stream, workspace)
    stream.synchronize()
    assert np.any(tensors["queryOut"].to_numpy() != 0)


def test_workspace_that_is_too_small_is_refused_and_the_plan_lives(
    operator: Any, tensors: dict[str, Tensor], stream: Stream
) -> None:
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    with DeviceMemory(32) as workspace, pytest.raises(ValueError, match="workspace has 32 bytes; it needs"):
        plan.run(stream, workspace)
    plan.run(stream)
    stream.synchronize()


def test_plan_runs_once(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    plan.run(stream)
    with pytest.raises(ClosedError, match="a plan runs once"):
        plan.run(stream)
    stream.synchronize()


def test_plan_that_never_ran_destroys_its_executor(operator: Any, tensors: dict[str, Tensor]) -> None:
    gc.collect()  # what earlier tests left in cycles must not go in between
    before = c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR)
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR) == before + 1
    plan.close()
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR) == before
    operator.prepare(**tensors, **ATTRIBUTES)  # dropped at once
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR) == before


def test_repeatable_plan_runs_on_other_addresses(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    other = arrays()
    other["tokenX"] = other["tokenX"] * BF16(2)
    second = upload(other)
    operator(stream, **{**tensors, "tokenX": second["tokenX"]}, **ATTRIBUTES)
    stream.synchronize()
    expected = tensors["queryOut"].to_numpy()
    with operator.prepare(repeatable=True, **tensors, **ATTRIBUTES) as plan:
        plan.run(stream)
        stream.synchronize()
        first = tensors["queryOut"].to_numpy()
        plan.set_tensor("tokenX", second["tokenX"])
        plan.set_tensor("queryOut", second["queryOut"])
        plan.run(stream)
        stream.synchronize()
    assert second["queryOut"].to_numpy().tobytes() == expected.tobytes()
    assert tensors["queryOut"].to_numpy().tobytes() == first.tobytes()


def test_repeatable_plan_refuses_what_it_cannot_change(operator: Any, tensors: dict[str, Tensor]) -> None:
    with operator.prepare(**tensors, **ATTRIBUTES) as plan:
        assert not hasattr(plan, "set_tensor")
    with operator.prepare(repeatable=True, **tensors, **ATTRIBUTES) as plan:
        with pytest.raises(ValueError, match="was null in phase one"):
            plan.set_tensor("actualSeqLenOptional", tensors["tokenX"])
        with pytest.raises(ValueError, match="another layout"):
            plan.set_tensor("tokenX", tensors["ropeSin"])
        with pytest.raises(ValueError, match="fixed at phase one; build a new plan"):
            plan.set_tensor("tileSize", tensors["ropeSin"])
        with pytest.raises(ValueError, match="has no tensor tokenY"):
            plan.set_tensor("tokenY", tensors["ropeSin"])


def test_unknown_and_missing_arguments(operator: Any, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(TypeError, match=r"has no argument tokenY \(did you mean tokenX\?\)"):
        operator.prepare(**tensors, **ATTRIBUTES, tokenY=tensors["tokenX"])
    del tensors["weightUk"], tensors["queryOut"]
    with pytest.raises(TypeError, match="misses weightUk, queryOut; only optional ones may be left out"):
        operator.prepare(**tensors, **ATTRIBUTES)


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("tokenX", np.zeros(3), TypeError, "argument tokenX: takes a Tensor .* got ndarray"),
        ("tokenX", 3, TypeError, "argument tokenX: takes a Tensor"),
        ("tileSize", 1.5, TypeError, "argument tileSize: takes an integer for C's int64_t; got float 1.5"),
        ("tileSize", np.float32(1), TypeError, "argument tileSize: takes an integer"),
        ("tileSize", 2**63, OverflowError, "argument tileSize: 9223372036854775808 does not fit C's int64_t"),
        ("tileSize", None, TypeError, "argument tileSize: takes an integer"),
        ("kcScale", "1.0", TypeError, "argument kcScale: takes a number for C's double; got str"),
        ("cacheModeOptional", 3, TypeError, "argument cacheModeOptional: takes a str"),
        ("cacheModeOptional", "PA\0BSND", ValueError, "holds a NUL"),
    ],
)
def test_argument_of_the_wrong_kind_is_refused_by_name(
    operator: Any, tensors: dict[str, Tensor], name: str, value: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        operator.prepare(**{**tensors, **ATTRIBUTES, name: value})


@pytest.mark.parametrize("value", [128, np.int32(128), np.int64(128)])
def test_integers_of_numpy_are_integers(operator: Any, tensors: dict[str, Tensor], value: Any) -> None:
    operator.prepare(**{**tensors, **ATTRIBUTES, "tileSize": value}).close()


def test_null_for_a_required_tensor_is_cann_s_to_refuse(operator: Any, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(CannError) as caught:
        operator.prepare(**{**tensors, "weightUk": None}, **ATTRIBUTES)
    assert caught.value.status == 161001
    assert caught.value.status_name == "ACLNN_ERR_PARAM_NULLPTR"
    assert "weightUk" in caught.value.text


def test_error_names_phase_status_text_and_arguments(operator: Any, tensors: dict[str, Tensor]) -> None:
    with Tensor.zeros((2, 1025), "BF16") as wrong, pytest.raises(CannError) as caught:
        operator.prepare(**{**tensors, "tokenX": wrong}, **ATTRIBUTES)
    error = caught.value
    assert error.api == "aclnnMlaPrologV3WeightNzGetWorkspaceSize"
    assert error.phase == "GetWorkspaceSize"
    assert (error.status, error.status_name) == (561002, "ACLNN_ERR_INNER_TILING_ERROR")
    assert "tokenX" in error.text
    rows = {row.name: row for row in error.arguments}
    assert [row.name for row in error.arguments][:2] == ["tokenX", "weightDq"]
    assert rows["tokenX"].role == "input"
    assert rows["tokenX"].value.startswith("BF16 [2, 1025] ND, device 0 0x")
    assert rows["kvCacheRef"].role == "inplace"
    assert rows["actualSeqLenOptional"].value == "null"
    assert rows["tileSize"].value == "128"
    assert "aligned to" in str(error)
    assert c.aclGetRecentErrMsg() == c.NULL  # taken once


def test_closed_tensor_is_refused_by_name(operator: Any, tensors: dict[str, Tensor]) -> None:
    tensors["ropeSin"].close()
    with pytest.raises(ClosedError, match="argument ropeSin: this Tensor has been closed"):
        operator.prepare(**tensors, **ATTRIBUTES)


def test_tensor_closed_between_the_phases_is_refused_by_name(
    operator: Any, tensors: dict[str, Tensor], stream: Stream
) -> None:
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    tensors["ropeSin"].close()
    with pytest.raises(ClosedError, match="argument ropeSin was closed between prepare and run"):
        plan.run(stream)
    plan.close()


def test_closed_stream_is_refused_and_the_plan_lives(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    closed = Stream()
    closed.close()
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    with pytest.raises(ClosedError, match="this Stream has been closed"):
        plan.run(closed)
    plan.run(stream)
    stream.synchronize()


def test_stream_of_another_device_is_refused(
    device: cann_mla.Device, operator: Any, tensors: dict[str, Tensor]
) -> None:
    with cann_mla.Device(1) as other, Stream(other) as far:
        device.use()
        plan = operator.prepare(**tensors, **ATTRIBUTES)
        with pytest.raises(ValueError, match="the stream is on device 1, argument tokenX on device 0"):
            plan.run(far)
        plan.close()
    device.use()


def test_both_phases_belong_in_one_thread(
    device: cann_mla.Device, operator: Any, tensors: dict[str, Tensor], stream: Stream
) -> None:
    plan = operator.prepare(**tensors, **ATTRIBUTES)
    seen: list[BaseException] = []

    def run() -> None:
        device.use()
        try:
            plan.run(stream)
        except RuntimeError as error:
            seen.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "prepared in another thread" in str(seen[0])
    plan.close()


def test_tensors_may_be_closed_when_run_has_returned(operator: Any, stream: Stream) -> None:
    content = arrays()
    expected = upload(content)
    operator(stream, **expected, **ATTRIBUTES)
    stream.synchronize()
    made = upload(content)
    kept = made.pop("queryOut")
    operator(stream, queryOut=kept, **made, **ATTRIBUTES)
    for tensor in made.values():
        tensor.close()
    stream.synchronize()
    assert kept.to_numpy().tobytes() == expected["queryOut"].to_numpy().tobytes()


def test_a_fault_names_what_was_queued(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    operator(stream, **tensors, **ATTRIBUTES)
    stream.synchronize()
    queued = Stream()
    operator(queued, **tensors, **ATTRIBUTES)
    operator(queued, **tensors, **ATTRIBUTES)
    assert list(queued._launches) == ["aclnnMlaPrologV3WeightNz"] * 2
    queued.close()


def test_many_calls_without_a_synchronisation_stay_flat(operator: Any, device: cann_mla.Device, stream: Stream) -> None:
    content = arrays(tokens=0)
    content["kvCacheRef"] = np.zeros((0, 1, 512), BF16)
    content["krCacheRef"] = np.zeros((0, 1, 64), BF16)
    del content["cacheIndexOptional"]
    made = {**upload(content), **ATTRIBUTES, "cacheModeOptional": "TND"}
    gc.collect()  # what earlier tests left in cycles must not go in between
    executors = c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR)
    before = c.cannMlaSimDeviceBytes(0)
    for _ in range(20_000):
        operator.prepare(**made).run(stream)
    assert c.cannMlaSimDeviceBytes(0) == before
    assert len(stream._launches) <= 512
    stream.synchronize()
    assert c.cannMlaSimLiveHandles(c.CANN_MLA_SIM_EXECUTOR) == executors


def test_no_reference_is_kept_or_lost(operator: Any, tensors: dict[str, Tensor], stream: Stream) -> None:
    tensor, name = tensors["tokenX"], next(iter(tensors))
    arguments = {**tensors, **ATTRIBUTES}
    wrong = {**arguments, "tileSize": 2**70}

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in (tensor, tensor.handle, name, 1e-5, operator)]

    def call_in_every_way() -> None:
        operator(stream, **arguments)
        operator.prepare(**arguments).close()
        with pytest.raises(OverflowError):
            operator.prepare(**wrong)
        stream.synchronize()

    call_in_every_way()
    before = counts()
    for _ in range(100):
        call_in_every_way()
    assert counts() == before


def test_help_shows_the_prototype_with_roles(operator: Any) -> None:
    text = pydoc.render_doc(operator, renderer=pydoc.plaintext)
    assert "kvCacheRef" in text
    assert "inplace" in text
    assert "const aclTensor *, optional" in text
    assert "aclnnStatus aclnnMlaPrologV3WeightNz(void *workspace, uint64_t workspaceSize" in text


def test_unknown_operator(device: cann_mla.Device) -> None:
    with pytest.raises(LookupError, match=r"did you mean .*aclnnMlaPrologV3WeightNz"):
        cann_mla.operator("aclnnMlaPrologV3")


def test_arguments_without_names_are_refused(stream: cann_mla.Stream) -> None:
    op = cann_mla.operator("aclnnRmsNorm")
    with pytest.raises(TypeError, match="aclnnRmsNorm takes its arguments by their C names: x, gamma, epsilon"):
        op.prepare(1, 2)


def test_an_operator_may_have_a_parameter_named_self(stream: cann_mla.Stream) -> None:
    one = Tensor.from_numpy(np.array([[2.0]], np.float16))
    out = Tensor.empty((1, 1), "FP16")
    cann_mla.operator("aclnnMm")(stream=stream, **{"self": one}, mat2=one, out=out, cubeMathType=0)
    stream.synchronize()
    assert out.to_numpy().tolist() == [[4.0]]

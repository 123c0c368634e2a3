"""Kernels that fault or hang: where it surfaces, what is broken afterwards and what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import c, simulator

ONES = np.ones((2, 64), np.float16)


@pytest.fixture(scope="module")
def operands(device: cann_mla.Device) -> Iterator[dict[str, Any]]:
    """All of aclnnRmsNorm but the output: a copy to the device after a launch would tell of its fault."""
    with (
        cann_mla.Tensor.from_numpy(ONES) as x,
        cann_mla.Tensor.from_numpy(ONES[0]) as gamma,
        cann_mla.Tensor.empty((2, 1), "FP32") as rstd,
    ):
        yield {"x": x, "gamma": gamma, "epsilon": 0.0, "rstdOut": rstd}


@pytest.fixture
def outputs(device: cann_mla.Device) -> Iterator[list[cann_mla.Tensor]]:
    """Three tensors of zeros."""
    made = [cann_mla.Tensor.zeros((2, 64), "FP16") for _ in range(3)]
    yield made
    for tensor in made:
        tensor.close()


@pytest.fixture
def normalise(operands: dict[str, Any]) -> Callable[[cann_mla.Stream, cann_mla.Tensor], None]:
    """Queues a norm of ones, which gives ones."""

    def queue(stream: cann_mla.Stream, output: cann_mla.Tensor) -> None:
        cann_mla.operator("aclnnRmsNorm")(stream, yOut=output, **operands)

    return queue


Outputs = list[cann_mla.Tensor]
Normalise = Callable[[cann_mla.Stream, cann_mla.Tensor], None]


@pytest.mark.parametrize("status", [507014, 507015, 507035])
def test_a_fault_surfaces_once_at_the_synchronisation(
    stream: cann_mla.Stream, normalise: Normalise, outputs: Outputs, status: int
) -> None:
    with simulator.inject(f"kernel:aclnnRmsNorm#2={status}") as faults:
        for output in outputs:
            normalise(stream, output)
        with pytest.raises(cann_mla.CannError) as error:
            stream.synchronize()
    assert error.value.status == status
    assert error.value.api == "aclrtSynchronizeStream"
    assert error.value.launches == ("aclnnRmsNorm",) * 3
    assert f"aclnnRmsNorm failed on the device: injected fault 'kernel:aclnnRmsNorm#2={status}'" in error.value.text
    assert faults.strikes == [f"aclnnRmsNorm, launch 2: {status}"]
    # By default CANN goes on with what is queued behind a task that failed, and with the stream.
    assert [output.to_numpy().any() for output in outputs] == [True, False, True]
    stream.synchronize()


def test_the_latest_of_several_faults_gives_the_status(
    stream: cann_mla.Stream, normalise: Normalise, outputs: Outputs
) -> None:
    with simulator.inject("kernel:*#1=507015; kernel:*#2=507035"):
        for output in outputs:
            normalise(stream, output)
        with pytest.raises(cann_mla.CannError) as error:
            stream.synchronize()
    assert error.value.status == 507035
    assert "'kernel:*#1=507015', launch 1" in error.value.text
    assert "'kernel:*#2=507035', launch 2" in error.value.text


def test_a_fault_stays_on_its_stream(stream: cann_mla.Stream, normalise: Normalise, outputs: Outputs) -> None:
    with cann_mla.Stream() as other, simulator.inject("kernel:aclnnRmsNorm#1=507015"):
        normalise(stream, outputs[0])
        normalise(other, outputs[1])
        other.synchronize()
        with pytest.raises(cann_mla.CannError, match="507015"):
            stream.synchronize()
    assert np.array_equal(outputs[1].to_numpy(), ONES)


def test_a_copy_tells_of_a_fault_before_the_synchronisation_does(
    stream: cann_mla.Stream, normalise: Normalise, outputs: Outputs
) -> None:
    with simulator.inject("kernel:aclnnRmsNorm#1=507015"):
        normalise(stream, outputs[0])
        with stream.record() as event:
            event.synchronize()
        with pytest.raises(cann_mla.CannError, match=r"aclrtMemcpy \(copy\) returned 507015"):
            outputs[0].to_numpy()
        with pytest.raises(cann_mla.CannError, match=r"aclrtSynchronizeStream.*507015"):
            stream.synchronize()
    assert not outputs[0].to_numpy().any()


def test_a_fault_surfaces_at_the_device_and_at_closing(
    device: cann_mla.Device, normalise: Normalise, outputs: Outputs
) -> None:
    with simulator.inject("kernel:*=507015"):
        stream = cann_mla.Stream()
        normalise(stream, outputs[0])
        with pytest.raises(cann_mla.CannError, match=r"aclrtSynchronizeDevice.*507015"):
            device.synchronize()
        normalise(stream, outputs[0])
        with pytest.raises(cann_mla.CannError) as error:
            stream.close()
    assert (error.value.status, error.value.phase) == (507015, "close a stream")
    assert stream.closed


def test_with_stop_on_failure_a_fault_stops_its_context(
    device: cann_mla.Device, normalise: Normalise, outputs: Outputs
) -> None:
    with cann_mla.runtime.Context() as context:
        stopping, other = cann_mla.Stream(), cann_mla.Stream()
        assert c.aclrtSetStreamFailureMode(stopping.handle, c.ACL_STOP_ON_FAILURE) == 0
        with simulator.inject("kernel:*#1=507015"):
            normalise(other, outputs[0])
            for stream in (other, stopping, other):  # the fault stays
                with pytest.raises(cann_mla.CannError, match="507015"):
                    stream.synchronize()
            with pytest.raises(cann_mla.CannError, match="361001"):
                normalise(stopping, outputs[1])
        for stream in (stopping, other):
            with pytest.raises(cann_mla.CannError, match="507015"):
                stream.close()
        assert stopping.closed
        assert context.device == 0
    device.use()
    with cann_mla.Stream() as stream:
        normalise(stream, outputs[2])
        stream.synchronize()
    assert [output.to_numpy().any() for output in outputs] == [False, False, True]


def test_a_hanging_kernel_ends_with_the_timeout_of_operators(
    stream: cann_mla.Stream, normalise: Normalise, outputs: Outputs
) -> None:
    assert c.aclrtSetOpExecuteTimeOutWithMs(30) == 0
    try:
        with simulator.inject("kernel:aclnnRmsNorm#1=hang"):
            normalise(stream, outputs[0])
            with pytest.raises(cann_mla.CannError) as error:
                stream.synchronize()
    finally:
        assert c.aclrtSetOpExecuteTimeOutWithMs(0) == 0
    assert error.value.status == 507014
    assert "timeout of operators, 30000 us" in error.value.text
    stream.synchronize()


def test_a_hanging_stream_times_out_and_can_be_aborted(
    device: cann_mla.Device, normalise: Normalise, outputs: Outputs
) -> None:
    library = cann_mla.load()
    with simulator.inject("kernel:*#1=hang"):
        stream = cann_mla.Stream()
        normalise(stream, outputs[0])
        for _ in range(2):
            with pytest.raises(cann_mla.CannError) as error:
                stream.synchronize(timeout=0.02)
            assert error.value.status == 507046
            assert error.value.launches == ("aclnnRmsNorm",)
        used = library.cannMlaSimDeviceBytes(0)
        outputs.pop(0).close()
        assert library.cannMlaSimDeviceBytes(0) == used  # the kernel still has it
        stream.abort()
        stream.synchronize()
        assert library.cannMlaSimDeviceBytes(0) < used
        normalise(stream, outputs[0])
        stream.synchronize()
        assert np.array_equal(outputs[0].to_numpy(), ONES)
        stream.close()


def test_leaving_a_stream_that_timed_out_does_not_hang(
    device: cann_mla.Device, normalise: Normalise, outputs: Outputs
) -> None:
    library = cann_mla.load()
    used, streams = library.cannMlaSimDeviceBytes(0), library.cannMlaSimLiveHandles(c.CANN_MLA_SIM_STREAM)

    def work() -> None:
        with cann_mla.Stream() as stream:
            normalise(stream, outputs[0])
            stream.synchronize(timeout=0.02)

    with simulator.inject("kernel:*=hang"), pytest.raises(cann_mla.CannError, match="507046"):
        work()
    assert library.cannMlaSimDeviceBytes(0) == used
    assert library.cannMlaSimLiveHandles(c.CANN_MLA_SIM_STREAM) == streams


def test_waiting_for_an_event_behind_a_hanging_kernel(
    device: cann_mla.Device, normalise: Normalise, outputs: Outputs
) -> None:
    with simulator.inject("kernel:*#1=hang"), cann_mla.Stream() as stream:
        normalise(stream, outputs[0])
        event = stream.record()
        assert not event.query()
        with pytest.raises(cann_mla.CannError, match="507047"):
            event.synchronize(timeout=0.02)
        stream.abort()
        event.close()

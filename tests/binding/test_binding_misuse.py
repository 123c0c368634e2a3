"""Wrong arguments to the objects: refused by name, before C sees them, and nothing is lost."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import (
    BoolArray,
    CannError,
    ClosedError,
    Device,
    DeviceMemory,
    Event,
    FloatArray,
    HostMemory,
    IntArray,
    Scalar,
    ScalarList,
    Stream,
    Tensor,
    TensorList,
    c,
)

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(autouse=True)
def _current(device: Device) -> None:
    device.use()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Device(True), TypeError, "number takes an integer; got True"),
        (lambda: Device(2**40), ValueError, "number is 1099511627776"),
        (lambda: DeviceMemory("8"), TypeError, "nbytes takes an integer; got str"),  # type: ignore[arg-type]
        (lambda: DeviceMemory(1.5), TypeError, "nbytes takes an integer; got float"),  # type: ignore[arg-type]
        (lambda: DeviceMemory(2**70), ValueError, "nbytes is"),
        (lambda: HostMemory(2**70), ValueError, "nbytes is"),
        (lambda: Stream("a"), TypeError, "device takes a Device or int; got str"),  # type: ignore[arg-type]
        (lambda: Tensor.empty((1.7,), "BF16"), TypeError, r"shape\[0\] takes an integer; got float 1.7"),
        (lambda: Tensor.empty(("5",), "BF16"), TypeError, r"shape\[0\] takes an integer; got str"),
        (lambda: Tensor.empty(5, "BF16"), TypeError, "shape takes a sequence of integers; got int"),  # type: ignore[arg-type]
        (lambda: Tensor.empty((2**63,), "BF16"), ValueError, r"shape\[0\] is 9223372036854775808"),
        (lambda: Tensor.empty((2**62, 4), "BF16"), ValueError, "nbytes is 36893488147419103232"),
        (lambda: Tensor.empty((-3,), "BF16"), ValueError, r"shape \(-3,\).*negative size"),
        (lambda: Tensor.empty((2, 2), "BF16", strides=(1.0, 1)), TypeError, r"strides\[0\]"),
        (lambda: Tensor.empty((2,), "BF16", offset=0.5), TypeError, "offset takes an integer"),  # type: ignore[arg-type]
        (lambda: Tensor.empty((2,), "BF16", format=2), TypeError, "format takes a str"),  # type: ignore[arg-type]
        (lambda: Tensor.empty((2,), None), TypeError, "a dtype is a DType"),  # type: ignore[arg-type]
        (lambda: Tensor(np.zeros(4), (4,), "FP32"), TypeError, "memory takes a DeviceMemory or HostMemory"),  # type: ignore[arg-type]
        (lambda: TensorList(5), TypeError, "tensors takes a Sequence"),  # type: ignore[arg-type]
        (lambda: IntArray(5), TypeError, "values of aclIntArray"),  # type: ignore[arg-type]
        (lambda: IntArray([2**70]), OverflowError, "aclIntArray takes numbers that fit int64_t"),
        (lambda: FloatArray([1e300]), OverflowError, "1e.300 is too large"),
        (lambda: BoolArray([2]), OverflowError, "aclBoolArray"),
        (lambda: Scalar(1e300, "FP32"), OverflowError, "does not fit FP32"),
        (lambda: Scalar(70000.0, "FP16"), OverflowError, "does not fit FP16"),
        (lambda: Scalar(1.7, "INT32"), TypeError, "takes an integer; got 1.7"),
        (lambda: Scalar(float("nan"), "INT32"), TypeError, "takes an integer; got nan"),
        (lambda: Scalar("5", "INT32"), TypeError, "takes a number; got str"),
        (lambda: Scalar(1j, "FP32"), TypeError, "complex"),
        (lambda: Scalar(-1, "UINT8"), OverflowError, "-1 does not fit UINT8"),
        (lambda: Scalar(1, "INT4"), TypeError, "INT4 cannot be made from a number"),
        (lambda: ScalarList([1]), TypeError, r"scalars\[0\] takes a Scalar"),  # type: ignore[list-item]
        (lambda: Stream.from_handle("a"), TypeError, "handle takes a int or "),
        (lambda: cann_mla.Plan(), TypeError, "made by Operator.prepare"),
    ],
)
def test_wrong_arguments_are_named(
    make: Callable[[], Any], error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    with pytest.raises(error, match=words):
        make()
    gc.collect()
    assert ignored == []  # what was half made goes without noise


def test_scalars_take_what_fits() -> None:
    for value, dtype in ((1, "FP32"), (0.1, "BF16"), (True, "BOOL"), (3.0, "INT8"), (1 + 2j, "COMPLEX64")):
        with Scalar(value, dtype) as scalar:
            assert scalar.value == value


@pytest.mark.parametrize("strides", [(-1,), (-(2**62),)])
def test_a_view_must_not_start_before_its_memory(strides: tuple[int, ...]) -> None:
    with DeviceMemory(64) as memory:
        with pytest.raises(ValueError, match="before the start of the memory"):
            Tensor(memory, (4,), "FP32", strides=strides)
        memory.write(np.arange(16, dtype=np.float32))
        with Tensor(memory, (4,), "FP32", strides=(-1,), offset=3) as backwards:
            assert backwards.to_numpy().tolist() == [3, 2, 1, 0]


def test_a_tensor_without_memory_has_nothing_to_copy() -> None:
    with Tensor(None, (4,), "FP32") as tensor:
        with pytest.raises(ValueError, match="without memory"):
            tensor.to_numpy()
        with pytest.raises(ValueError, match="without memory"):
            tensor.copy_from(np.zeros(4, np.float32))


def test_strides_that_would_lose_values_are_refused() -> None:
    with pytest.raises(ValueError, match="several elements of the shape"):
        Tensor.from_numpy(np.arange(4).reshape(2, 2), strides=(0, 1))
    with Tensor.from_numpy(np.array([[5, 6], [5, 6]]), strides=(0, 1)) as row:
        assert row.to_numpy().tolist() == [[5, 6], [5, 6]]


def test_pointers_never_cross() -> None:
    objects = np.array([object(), object()])
    with DeviceMemory(64) as memory:
        for copy in (memory.write, memory.read):
            with pytest.raises(TypeError, match="pointers, not values"):
                copy(objects)
            with pytest.raises(TypeError, match="takes a ndarray or HostMemory; got list"):
                copy([1, 2])  # type: ignore[arg-type]
        with HostMemory(64) as host:
            with pytest.raises(TypeError, match="source takes a DeviceMemory"):
                memory.copy_from(host)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="pinned memory"):
                host.array(object)
            with pytest.raises(ValueError, match="does not fit into 64 bytes"):
                host.array(np.uint8, (2**40, 2**40))
            with pytest.raises(ValueError, match="does not fit"):
                host.array(np.uint8, (-1, 2))
        with pytest.raises(ValueError, match="byte is 256"):
            memory.fill(256)
        with pytest.raises(TypeError, match="stream takes a Stream"):
            memory.fill(0, stream=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e12])
def test_times_that_cannot_be_waited_are_refused(timeout: float) -> None:
    with Stream() as stream, pytest.raises(ValueError, match="timeout is"):
        stream.synchronize(timeout)


def test_events_are_told_from_other_things() -> None:
    with Stream() as stream, Event() as event:
        for use in (stream.wait, stream.record, event.elapsed_ms):
            with pytest.raises(TypeError, match="takes a Event"):
                use(stream)  # type: ignore[arg-type]


def test_a_tensor_over_closed_memory_can_still_be_shown() -> None:
    memory = DeviceMemory(64)
    tensor = Tensor(memory, (4,), "FP32")
    memory.close()
    assert "its memory is closed" in repr(tensor)
    with pytest.raises(ClosedError):
        tensor.to_numpy()


# devices


def test_closing_a_device_goes_back_to_the_one_before(device: Device) -> None:
    with Device(1):
        assert cann_mla.current_device() == 1
    assert cann_mla.current_device() == device.id


def test_a_device_stays_open_while_arrays_look_at_its_pinned_memory() -> None:
    other = Device(1)
    array = HostMemory(16).array()
    stream = Stream()
    with pytest.raises(BufferError, match="1 NumPy arrays still look"):
        other.close()
    stream.synchronize()  # nothing was closed
    array[:] = 1
    del array
    other.close()
    assert stream.closed
    assert other.closed


def test_closing_a_device_closes_everything_though_a_kernel_failed() -> None:
    other = Device(1)
    queued, idle = Stream(), Stream()
    memory = DeviceMemory(64)
    host = HostMemory(64)
    c.aclrtMemcpyAsync(memory.handle, 64, host.handle, 64, c.ACL_MEMCPY_HOST_TO_DEVICE, queued.handle)
    free_before_its_turn(queued, memory, host)
    with pytest.raises(CannError, match="not allocated"):
        other.close()
    assert queued.closed
    assert idle.closed
    assert other.closed
    with Device(1):
        assert cann_mla.current_device() == 1


def free_before_its_turn(stream: Stream, memory: DeviceMemory, host: HostMemory) -> None:
    """Queue a copy behind an event that is not reached, and free its memory behind the back of the owner."""
    with Stream(stream.device) as gate:
        value = c.new("aclrtNotify *")
        assert c.aclrtCreateNotify(value, 0) == 0
        assert c.aclrtWaitAndResetNotify(value[0], stream.handle, 0) == 0
        c.aclrtMemcpyAsync(memory.handle, 64, host.handle, 64, c.ACL_MEMCPY_HOST_TO_DEVICE, stream.handle)
        c.aclrtFree(memory.handle)
        memory._handle = None
        assert c.aclrtRecordNotify(value[0], gate.handle) == 0


# threads


def test_streams_and_memory_come_and_go_in_many_threads(device: Device) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            device.use()
            for _ in range(150):
                with Stream() as stream:
                    memory = DeviceMemory(64)
                    memory.fill(0, stream=stream)
                    memory.close()
                    Tensor.empty((4,), "FP32").close()
                    stream.synchronize()
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []


# processes

FORKED = """
import os, signal
import cann_mla
cann_mla.load("sim")
device, stream, memory = cann_mla.Device(0), cann_mla.Stream(), cann_mla.DeviceMemory(64)
memory.fill(0, stream=stream)
stream.synchronize()
child = os.fork()
if child == 0:
    signal.alarm(20)
    for use in (stream.synchronize, memory.close, stream.close, device.close, lambda: memory.fill(1),
                lambda: cann_mla.Device(0), cann_mla.Stream):
        try:
            use()
        except (RuntimeError, ValueError) as error:
            print(type(error).__name__, str(error)[:40], flush=True)
    raise SystemExit(0)
print("child ended with", os.waitpid(child, 0)[1], flush=True)
memory.fill(1, stream=stream)
stream.synchronize()
"""


def test_a_forked_process_is_refused_and_does_not_hang(run_python: Callable[..., str]) -> None:
    assert run_python(FORKED).splitlines() == [
        "ClosedError this Stream has been closed; make a new ",
        "ClosedError this DeviceMemory has been closed; make ",
        "RuntimeError this process was forked from one that wo",
        "RuntimeError this process was forked from one that wo",
        "child ended with 0",
    ]


# the C names


@pytest.mark.parametrize("address", [1, 2**47 - 8, 2**63, 2**64 - 1])
def test_wild_pointers_are_refused(address: int) -> None:
    wild = c.cast("void *", address)
    with DeviceMemory(64) as memory, Stream() as stream:
        for call in (
            lambda: c.aclrtMemcpy(memory.handle, 64, wild, 64, c.ACL_MEMCPY_HOST_TO_DEVICE),
            lambda: c.aclrtMemcpy(wild, 64, memory.handle, 64, c.ACL_MEMCPY_DEVICE_TO_HOST),
            lambda: c.aclrtMemcpyAsync(wild, 64, memory.handle, 64, c.ACL_MEMCPY_DEVICE_TO_HOST, stream.handle),
            lambda: c.aclrtMemcpy2d(memory.handle, 8, wild, 2**62, 8, 4, c.ACL_MEMCPY_HOST_TO_DEVICE),
            lambda: c.aclrtMemset(wild, 64, 0, 64),
            lambda: c.aclrtFree(wild),
            lambda: c.aclrtFreeHost(wild),
            lambda: c.aclrtDestroyStream(wild),
            lambda: c.aclrtDestroyEvent(wild),
            lambda: c.aclDestroyTensor(c.cast("aclTensor *", address)),
        ):
            assert call() != 0
            assert c.string(c.aclGetRecentErrMsg())

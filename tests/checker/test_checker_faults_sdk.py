"""Every C call that the package makes fails once, in typical programs: the right exception, no leak, and it goes on."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import c, ops, simulator

STATUS = 500000
KINDS = {name.removeprefix("CANN_MLA_SIM_"): getattr(c, name) for name in dir(c) if name.startswith("CANN_MLA_SIM_")}
# Calls that give something back, or take something over: when one fails, C keeps that one thing, and nobody can change
# it. A phase two that fails has used its executor up, on CANN; an injected one has not.
KEEPING = re.compile(r"(acl|aclrt)(Destroy|Free)|atb::Destroy|aclnn(?!.*GetWorkspaceSize)")
Program = Callable[[], None]
rng = np.random.default_rng(5)


def bf16(*shape: int) -> np.ndarray[Any, Any]:
    return (rng.standard_normal(shape) / 8).astype(ml_dtypes.bfloat16)


def device() -> None:
    cann_mla.load()._initialised = False  # so that aclInit is called again, which is no error
    with cann_mla.Device(0) as opened:
        opened.use()
        opened.memory()
        opened.synchronize()
        with cann_mla.Device(1):
            pass
        with cann_mla.runtime.Context() as context:
            context.use()


def stream() -> None:
    with cann_mla.Device(0), cann_mla.Stream() as first, cann_mla.Stream(0) as second:
        with first.record() as event, cann_mla.Event() as other:
            second.wait(event)
            second.record(other)
            second.synchronize()
            other.synchronize(timeout=5)
            assert event.query()
            other.elapsed_ms(event)
        first.synchronize(timeout=5)
        assert first.query()


def elsewhere() -> None:
    """Objects on a device that is not the current one."""
    with cann_mla.Device(0), cann_mla.Device(1), cann_mla.Stream(0) as queue:
        with cann_mla.Event(0), cann_mla.DeviceMemory(64, device=0) as one, cann_mla.HostMemory(64, device=0):
            one.fill(1, stream=queue)
        with cann_mla.Tensor.from_numpy(bf16(4, 32), device=0, stream=queue):
            queue.synchronize()


def memory() -> None:
    with cann_mla.Device(0), cann_mla.Stream() as queue, cann_mla.DeviceMemory(64) as one:
        with cann_mla.DeviceMemory(64) as two, cann_mla.HostMemory(64) as pinned:
            one.fill(1)
            two.copy_from(one)
            two.read(pinned)
            one.write(pinned, stream=queue)
            one.fill(2, stream=queue)
            two.copy_from(one, stream=queue)
        with cann_mla.DeviceMemory(64) as three:  # while others wait for the stream to let them go
            three.write(np.zeros(64, np.uint8), stream=queue)
        queue.synchronize()


def tensors() -> None:
    with cann_mla.Device(0), cann_mla.Tensor.from_numpy(bf16(4, 32)) as tensor:
        with tensor.view((32, 4)) as view, tensor.transpose() as turned:
            view.to_numpy()
            turned.to_numpy()
        with cann_mla.Tensor.zeros((4, 32), "BF16") as zeros, cann_mla.TensorList([zeros, None, tensor]):
            tensor.copy_from(zeros.to_numpy())
        with (
            cann_mla.Tensor.from_numpy(np.arange(4), host=True),
            cann_mla.Tensor.from_numpy(bf16(16, 32), format="FRACTAL_NZ"),
        ):
            pass


def numbers() -> None:
    from cann_mla.operands import BoolArray, FloatArray, IntArray, Scalar, ScalarList

    cann_mla.load()
    with IntArray([1, 2]), FloatArray([1.0]), BoolArray([True]), Scalar(1, "INT64") as one, Scalar(2.0, "FP32") as two:
        ScalarList([one, two]).close()


def two_phases() -> None:
    op = cann_mla.operator("aclnnRmsNorm")
    with (
        cann_mla.Device(0),
        cann_mla.Stream() as queue,
        cann_mla.Tensor.from_numpy(bf16(4, 64)) as x,
        cann_mla.Tensor.from_numpy(bf16(64)) as gamma,
        cann_mla.Tensor.empty((4, 64), "BF16") as y,
        cann_mla.Tensor.empty((4, 1), "FP32") as rstd,
    ):
        arguments = {"x": x, "gamma": gamma, "epsilon": 1e-6, "yOut": y, "rstdOut": rstd}
        op(queue, **arguments)
        op.prepare(**arguments).close()
        with op.prepare(repeatable=True, **arguments) as plan:
            plan.run(queue)
            plan.set_tensor("x", y)
            plan.run(queue)
        with (
            x.transpose() as turned,
            cann_mla.Tensor.from_numpy(bf16(4)) as short,
            cann_mla.Tensor.empty((64, 4), "BF16") as z,
            cann_mla.Tensor.empty((64, 1), "FP32") as factors,
        ):
            op(queue, x=turned, gamma=short, epsilon=1e-6, yOut=z, rstdOut=factors)
        queue.synchronize()


def prolog() -> None:
    tokens, hcq, heads = 2, 1536, 1
    with cann_mla.Device(0), cann_mla.Stream() as queue:
        caches = np.zeros((1, 16, 1, 512), ml_dtypes.bfloat16), np.zeros((1, 16, 1, 64), ml_dtypes.bfloat16)
        with ops.mla_prolog_v3(
            PROLOG["x"], PROLOG["dq"], PROLOG["uq"], PROLOG["uk"], PROLOG["dkv"], bf16(hcq), bf16(512),
            bf16(tokens, 64), bf16(tokens, 64), *caches, np.arange(tokens), cache_mode="PA_BSND", stream=queue,
        ) as result:  # fmt: skip
            queue.synchronize()
            assert result.query.shape == (tokens, heads, 512)


PROLOG = {
    "x": bf16(2, 1024),
    "dq": bf16(1024, 1536),
    "uq": bf16(1536, 192),
    "uk": bf16(1, 128, 512),
    "dkv": bf16(1024, 576),
}


def attention() -> None:
    table = ops.block_table([37, 150], 128)
    cache = bf16(3, 128, 128)
    options: dict[str, Any] = {"input_layout": "BSND", "num_key_value_heads": 1, "scale_value": 0.1}
    lengths = {"block_table": table, "actual_seq_lengths_kv": [37, 150]}
    with (
        cann_mla.Device(0),
        cann_mla.Stream() as queue,
        ops.fused_infer_attention(bf16(2, 1, 2, 128), cache, cache, stream=queue, **options, **lengths) as result,
    ):
        queue.synchronize()
        result.attention.to_numpy()


def ring() -> None:
    operands = [bf16(8, 2, 128), bf16(8, 2, 64), bf16(8, 1, 128), bf16(8, 1, 64), bf16(8, 1, 128)]
    with (
        cann_mla.Device(0),
        cann_mla.Stream() as queue,
        ops.ring_mla(*operands, [3, 5], stream=queue, causal=True),
    ):
        queue.synchronize()


def prolog_quant() -> None:
    with (
        cann_mla.Device(0),
        cann_mla.Stream() as queue,
        ops.mla_prolog_quant(**QUANT, stream=queue, any_sizes=True),
    ):
        queue.synchronize()


QUANT: dict[str, Any] = {
    "token_x": bf16(2, 128), "wq_a": bf16(128, 64), "wq_b": np.ones((64, 192), np.int8), "wkv": bf16(128, 96),
    "rope_cos": bf16(2, 32), "rope_sin": bf16(2, 32), "gamma_cq": bf16(64), "gamma_ckv": bf16(96),
    "wq_b_scale": np.full((192, 1), 7e-4, np.float32),
}  # fmt: skip

PROGRAMS = (device, stream, elsewhere, memory, tensors, numbers, two_phases, prolog, attention, ring, prolog_quant)


def living() -> dict[str, int]:
    """Everything that the simulator still holds for the program."""
    gc.collect()
    library = cann_mla.load()
    held = {name: library.cannMlaSimLiveHandles(kind) for name, kind in KINDS.items()}
    for number in (0, 1):
        held[f"bytes of device {number}"] = library.cannMlaSimDeviceBytes(number)
    held["pinned bytes"] = library.cannMlaSimHostBytes()
    return {name: count for name, count in held.items() if count}


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException | None]]:
    """What destructors had to say, which nobody can catch; in a heap where collecting garbage is quick."""
    cann_mla.load("sim")
    said: list[BaseException | None] = []

    def hear(what: sys.UnraisableHookArgs) -> None:
        drop_frames(what.exc_value)
        said.append(what.exc_value)

    monkeypatch.setattr(sys, "unraisablehook", hear)
    gc.collect()
    gc.freeze()
    yield said
    gc.unfreeze()


def drop_frames(error: BaseException | None) -> None:
    """Let go of the variables of the calls that the error came through."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


def fail_each_call(program: Program) -> Iterator[tuple[str, BaseException | None, dict[str, int]]]:
    """Runs the program until no call is left to fail: which one failed, what was raised, and what is left over."""
    before = living()
    for number in range(1, 2000):
        error: BaseException | None = None
        with simulator.inject(f"*#{number}={STATUS}") as faults:
            try:
                program()
            except Exception as raised:
                error = raised
                drop_frames(error)
        if not faults.count:
            return
        if faults.strikes[0].startswith("aclrtResetDevice"):  # which only C can do again
            c.aclrtResetDevice(0)
            c.aclrtResetDevice(1)
        after = living()
        yield faults.strikes[0], error, {n: after.get(n, 0) - before.get(n, 0) for n in after | before}
        before = after
    raise AssertionError("the program never ends")


def may_stay(api: str, left: dict[str, int]) -> bool:
    """One thing that its own call did not give back; a list keeps its members. Without its context, nothing goes."""
    lists = ({"TENSOR", "TENSOR_LIST"}, {"SCALAR", "SCALAR_LIST"})
    return api == "aclrtSetCurrentContext" or (bool(KEEPING.match(api)) and (len(left) == 1 or set(left) in lists))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_call_may_fail(program: Program, unraisable: list[BaseException | None]) -> None:
    program()
    problems = []
    for strike, error, change in fail_each_call(program):
        api = strike.partition(",")[0]
        errors = [error, *unraisable]
        unraisable.clear()
        told = [e for e in errors if isinstance(e, cann_mla.CannError) and "injected fault" in e.text]
        others = [e for e in errors if e is not None and e not in told]
        if not told and api != "aclrtGetCurrentContext":  # where not knowing the context makes no difference
            problems.append(f"{strike}: nothing was raised")
        if any(e.status not in (STATUS, -1) or not e.api for e in told):  # -1: a null handle
            problems.append(f"{strike}: raised {told}")
        if others:
            problems.append(f"{strike}: raised {others}")
        left = {name: count for name, count in change.items() if count}
        if left and not may_stay(api, left):
            problems.append(f"{strike}: left {left}")
    program()
    assert not problems, "\n" + "\n".join(problems)


QUEUEING = (two_phases, prolog, attention, ring, prolog_quant)


@pytest.mark.parametrize("program", QUEUEING, ids=lambda program: program.__name__)
def test_every_kernel_may_fault(program: Program, unraisable: list[BaseException | None]) -> None:
    """The fault comes back from a synchronisation that names the operator, or from a copy before it."""
    program()
    before = living()
    for number in range(1, 100):
        with simulator.inject(f"kernel:*#{number}=507015") as faults:
            try:
                program()
            except cann_mla.CannError as raised:
                error = raised
                drop_frames(error)
        if not faults.count:
            break
        operator = faults.strikes[0].partition(",")[0]
        assert error.status == 507015
        assert f"{operator} failed on the device: injected fault" in error.text
        assert error.api.startswith("aclrtMemcpy") or operator in error.launches
        assert living() == before
    assert number > 1
    program()
    assert living() == before
    assert not unraisable


@pytest.mark.parametrize("program", [memory, tensors, *QUEUEING], ids=lambda program: program.__name__)
def test_memory_may_run_out_anywhere(program: Program, unraisable: list[BaseException | None]) -> None:
    """A device has so much memory as is in use, and a bit more in each round."""
    program()
    before = living()
    used = before.get("bytes of device 0", 0)
    failures, number = 0, 0
    for number in range(40):
        with simulator.inject(f"memory={used + 64 * 2**number}"):
            try:
                program()
                break
            except cann_mla.CannError as raised:
                error = raised
                drop_frames(error)
        failures += 1
        assert (error.api, error.status) == ("aclrtMalloc", 207001)
        assert "is out of memory" in error.text
        assert living() == before
    assert failures
    assert number < 39
    assert not unraisable

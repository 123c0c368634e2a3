"""Typical programs, each from opening a device to closing it, for failing them in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import ops

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

QUEUEING = (two_phases, prolog, attention, ring, prolog_quant)
ALLOCATING = (memory, tensors, *QUEUEING)
PROGRAMS = (device, stream, elsewhere, numbers, *ALLOCATING)

"""Small legal pieces of work, which threads do at random on streams that they share. Each cleans up behind itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import c, ops
from cann_mla.binding import abi

BF16 = ml_dtypes.bfloat16
Streams = list[cann_mla.Stream]
Action = Callable[[Random, Streams], None]


def _bf16(rng: Random, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rng.getrandbits(32)).standard_normal(shape, dtype=np.float32).astype(BF16)


def _two(rng: Random, streams: Streams) -> tuple[cann_mla.Stream, cann_mla.Stream]:
    return rng.choice(streams), rng.choice(streams)


def copy_through_two_streams(rng: Random, streams: Streams) -> None:
    """Write on one stream, read on another behind an event, fetch into pinned memory, look at it."""
    writer, reader = _two(rng, streams)
    size, byte = rng.randrange(32, 5000), rng.randrange(256)
    source, target = cann_mla.DeviceMemory(size), cann_mla.DeviceMemory(size)
    host = cann_mla.HostMemory(size)
    source.fill(byte, stream=writer)
    event = writer.record()
    reader.wait(event)
    target.copy_from(source, stream=reader)
    target.read(host, stream=reader)
    reader.synchronize()
    assert (host.array() == byte).all()
    for each in (source, target, host, event):
        each.close()


def memory_closed_while_busy(rng: Random, streams: Streams) -> None:
    """The SDK keeps what streams may still use, and lets go of it later."""
    stream = rng.choice(streams)
    with cann_mla.DeviceMemory(rng.randrange(32, 5000)) as memory:
        memory.fill(1, stream=stream)


def waiting_by_queries(rng: Random, streams: Streams) -> None:
    """Ask for an event until it is reached."""
    stream = rng.choice(streams)
    memory, host = cann_mla.DeviceMemory(64), np.zeros(64, np.uint8)
    memory.fill(7, stream=stream)
    with stream.record() as event:
        while not event.query():
            pass
        memory.read(host)
    assert (host == 7).all()
    memory.close()


def host_function(rng: Random, streams: Streams) -> None:
    """The stream calls the host, and the host goes on when it is called."""
    stream, done = rng.choice(streams), threading.Event()
    tell = abi().ffi.callback("void(void *)", lambda _: done.set())
    with cann_mla.DeviceMemory(64) as memory:
        memory.fill(3, stream=stream)
        assert c.aclrtLaunchHostFunc(stream.handle, tell, c.NULL) == 0
        done.wait()
        host = np.zeros(64, np.uint8)
        memory.read(host)
        assert (host == 3).all()
    stream.synchronize()  # the function must not go before the stream has left it


def cast(rng: Random, streams: Streams) -> None:
    """An operator with a workspace; its tensors are closed right after phase two."""
    stream, shape = rng.choice(streams), (rng.randrange(1, 6), rng.randrange(1, 40))
    x = cann_mla.Tensor.from_numpy(_bf16(rng, *shape))
    y = cann_mla.Tensor.empty(shape, "FP32")
    cann_mla.operator("aclnnCast").prepare(self=x, dtype=c.ACL_FLOAT, out=y).run(stream)
    x.close()
    stream.synchronize()
    y.to_numpy()
    y.close()


def rms_norm(rng: Random, streams: Streams) -> None:
    """An operator whose operands are written on one stream and used on another."""
    writer, stream = _two(rng, streams)
    x = cann_mla.Tensor.from_numpy(_bf16(rng, 4, 64), stream=writer)
    gamma = cann_mla.Tensor.from_numpy(_bf16(rng, 64), stream=writer)
    y, rstd = cann_mla.Tensor.empty((4, 64), "BF16"), cann_mla.Tensor.empty((4, 1), "FP32")
    with writer.record() as event:
        stream.wait(event)
        cann_mla.operator("aclnnRmsNorm").prepare(x=x, gamma=gamma, epsilon=1e-6, yOut=y, rstdOut=rstd).run(stream)
        stream.synchronize()
    for each in (x, gamma, y, rstd):
        each.close()


def matmul(rng: Random, streams: Streams) -> None:
    """Two products in a row on one stream, the second of the first's result."""
    stream = rng.choice(streams)
    a, b = cann_mla.Tensor.from_numpy(_bf16(rng, 16, 32)), cann_mla.Tensor.from_numpy(_bf16(rng, 32, 32))
    first, second = cann_mla.Tensor.empty((16, 32), "BF16"), cann_mla.Tensor.empty((16, 32), "BF16")
    operator = cann_mla.operator("aclnnMatmul")
    operator.prepare(self=a, mat2=b, out=first, cubeMathType=1).run(stream)
    operator.prepare(self=first, mat2=b, out=second, cubeMathType=1).run(stream)
    stream.synchronize()
    for each in (a, b, first, second):
        each.close()


def repeatable(rng: Random, streams: Streams) -> None:
    """One plan on changing addresses, without waiting between its runs."""
    stream = rng.choice(streams)
    inputs = [cann_mla.Tensor.from_numpy(np.full((4, 8), i, np.float32)) for i in range(3)]
    y = cann_mla.Tensor.empty((4, 8), "FP32")
    plan = cann_mla.operator("aclnnCast").prepare(self=inputs[0], dtype=c.ACL_FLOAT, out=y, repeatable=True)
    for each in inputs:
        plan.set_tensor("self", each)
        plan.run(stream)
    stream.synchronize()
    assert (y.to_numpy() == 2).all()
    plan.close()
    for each in (*inputs, y):
        each.close()


def attention_on_lists(rng: Random, streams: Streams) -> None:
    """FusedInferAttentionScore, whose keys and values are tensor lists."""
    stream = rng.choice(streams)
    query, keys, values = (_bf16(rng, 1, 2, n, 64) for n in (1, 5, 5))
    with ops.fused_infer_attention(
        query, keys, values, stream=stream, input_layout="BNSD", scale_value=0.125
    ) as result:
        stream.synchronize()
        result.attention.to_numpy()


def ring_mla(rng: Random, streams: Streams) -> None:
    """An ATB operation, in the context of this thread."""
    stream, tokens = rng.choice(streams), rng.randrange(1, 4)
    parts = [_bf16(rng, tokens, 1, width) for width in (128, 64, 128, 64, 128)]
    with ops.ring_mla(*parts, seq_len=[tokens], stream=stream) as result:
        stream.synchronize()
        result.output.to_numpy()


def rows_of_one_cache(rng: Random, streams: Streams) -> None:
    """Two streams scatter tokens to different slots of the same caches."""
    first, second = _two(rng, streams)
    keys, values = (cann_mla.Tensor.zeros((2, 4, 1, 16), "FP16") for _ in range(2))
    token = cann_mla.Tensor.from_numpy(np.ones((1, 1, 16), np.float16))
    slots = [cann_mla.Tensor.from_numpy(np.array([slot], np.int32)) for slot in rng.sample(range(8), 2)]
    for stream, slot in zip((first, second), slots, strict=True):
        cann_mla.operator("aclnnScatterPaKvCache").prepare(
            key=token, keyCacheRef=keys, slotMapping=slot, value=token, valueCacheRef=values,
            cacheModeOptional="Norm", scatterModeOptional="None",
        ).run(stream)  # fmt: skip
    first.synchronize()
    second.synchronize()
    assert keys.to_numpy().sum() == 32
    for each in (keys, values, token, *slots):
        each.close()


def refused(rng: Random, streams: Streams) -> None:
    """An operator refuses its operands: that is an error, but no finding."""
    with cann_mla.Tensor.empty((2, 2), "FP32") as x, cann_mla.Tensor.empty((3, 2), "FP32") as y:
        try:
            cann_mla.operator("aclnnCast").prepare(self=x, dtype=c.ACL_FLOAT, out=y)
        except cann_mla.CannError:
            return
    raise AssertionError("shapes that differ are refused")


ACTIONS: tuple[Action, ...] = (
    copy_through_two_streams,
    memory_closed_while_busy,
    waiting_by_queries,
    host_function,
    cast,
    rms_norm,
    matmul,
    repeatable,
    attention_on_lists,
    ring_mla,
    rows_of_one_cache,
    refused,
)

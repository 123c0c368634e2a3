"""Steps that the programs of the catalogue share: C calls with the arguments that do not matter there filled in.

No status is looked at: the wrong programs go on after a refusal, as many a program does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

import cann_mla
from cann_mla import c
from cann_mla.atb import AtbContext
from cann_mla.atb.context import atb_function

SHAPE = (4, 8)
NBYTES = 128  # of a tensor of that shape in FP32, and of every memory where nothing else is said


def malloc(nbytes: int = NBYTES, byte: int | None = 0) -> Any:
    """Device memory, filled with a byte; None leaves it unwritten."""
    address = c.new("void **")
    c.aclrtMalloc(address, nbytes, c.ACL_MEM_MALLOC_HUGE_FIRST)
    if byte is not None:
        c.aclrtMemset(address[0], nbytes, byte, nbytes)
    return address[0]


def moved(address: Any, nbytes: int) -> Any:
    """An address some bytes further on."""
    return c.cast("void *", c.cast("char *", address) + nbytes)


@contextmanager
def memory(*sizes: int) -> Iterator[list[Any]]:
    """Device memory of several sizes for a block, written with zeros."""
    addresses = [malloc(size) for size in sizes]
    yield addresses
    for address in addresses:
        c.aclrtFree(address)


@contextmanager
def streams(count: int = 1) -> Iterator[list[Any]]:
    """Streams for a block; what is queued at its end is waited for."""
    made = [new_stream() for _ in range(count)]
    yield made
    for stream in made:
        c.aclrtSynchronizeStream(stream)
    for stream in made:
        c.aclrtDestroyStream(stream)


def new_stream() -> Any:
    """A stream."""
    stream = c.new("aclrtStream *")
    c.aclrtCreateStream(stream)
    return stream[0]


def new_event() -> Any:
    """An event."""
    event = c.new("aclrtEvent *")
    c.aclrtCreateEvent(event)
    return event[0]


def new_notify() -> Any:
    """A notify."""
    notify = c.new("aclrtNotify *")
    c.aclrtCreateNotify(notify, c.ACL_NOTIFY_DEFAULT)
    return notify[0]


def tensor(
    address: Any = c.NULL,
    shape: tuple[int, ...] = SHAPE,
    dtype: int = c.ACL_FLOAT,
    strides: tuple[int, ...] | None = None,
    storage: tuple[int, ...] | None = None,
    offset: int = 0,
) -> Any:
    """An aclTensor, dense where no strides are given."""
    steps = c.NULL if strides is None else c.new("int64_t[]", strides)
    storage = shape if storage is None else storage
    dims, storage_dims = c.new("int64_t[]", shape), c.new("int64_t[]", storage)
    return c.aclCreateTensor(
        dims, len(shape), dtype, steps, offset, c.ACL_FORMAT_ND, storage_dims, len(storage), address
    )


def tensor_list(*members: Any) -> Any:
    """An aclTensorList, which owns its members from now on."""
    return c.aclCreateTensorList(c.new("aclTensor *[]", members), len(members))


@contextmanager
def memory_pool() -> Iterator[Any]:
    """A pool of memory of device 0 for a block."""
    pool, properties = c.new("aclrtMemPool *"), c.new("aclrtMemPoolProps *")
    properties.location.type = c.ACL_MEM_LOCATION_TYPE_DEVICE
    c.aclrtMemPoolCreate(pool, properties)
    yield pool[0]
    c.aclrtMemPoolDestroy(pool[0])


def pool_malloc(pool: Any, stream: Any, nbytes: int = NBYTES) -> Any:
    """Memory of a pool, in the order of a stream."""
    address = c.new("void **")
    c.aclrtMemPoolMallocAsync(address, nbytes, pool, stream)
    return address[0]


class Planned:
    """What phase one gives: the size of the workspace and the executor."""

    def __init__(self) -> None:
        self._size, self._executor = c.new("uint64_t *"), c.new("aclOpExecutor **")

    @property
    def cells(self) -> tuple[Any, Any]:
        """The two out-parameters."""
        return self._size, self._executor

    @property
    def workspace_size(self) -> int:
        return int(self._size[0])

    @property
    def executor(self) -> Any:
        return self._executor[0]


def plan_cast(source: Any, target: Any, dtype: int = c.ACL_FLOAT) -> Planned:
    """Phase one of aclnnCast. From FP32 to FP32 it copies and needs no workspace; to FP16 it needs 16 MiB."""
    planned = Planned()
    c.aclnnCastGetWorkspaceSize(source, dtype, target, *planned.cells)
    return planned


def run_cast(planned: Planned, stream: Any, workspace: Any = c.NULL) -> None:
    """Phase two of aclnnCast."""
    c.aclnnCast(workspace, planned.workspace_size if workspace != c.NULL else 0, planned.executor, stream)


def cast(source: Any, target: Any, stream: Any) -> None:
    """Both phases of aclnnCast, from FP32 to FP32."""
    run_cast(plan_cast(source, target), stream)


def destroy(*tensors: Any) -> None:
    """Destroy aclTensors."""
    for each in tensors:
        c.aclDestroyTensor(each)


class Attention:
    """Phase one of attention over two keys of one head: small, with operands in lists and lengths in an array."""

    def __init__(self) -> None:
        self._own = [malloc() for _ in range(4)]
        query, out, key, value = self._own
        self._operands = [tensor(address, (1, 1, 1, 16), c.ACL_FLOAT16) for address in (query, out)]
        self.keys, self.values = (tensor_list(tensor(each, (1, 1, 2, 16), c.ACL_FLOAT16)) for each in (key, value))
        self._lengths, self._planned = c.aclCreateIntArray(c.new("int64_t[]", [2]), 1), Planned()
        c.aclnnFusedInferAttentionScoreV3GetWorkspaceSize(
            self._operands[0], self.keys, self.values, c.NULL, c.NULL, c.NULL, self._lengths, *[c.NULL] * 20,
            1, 1.0, 2147483647, 2147483647, c.new("char[]", b"BNSD"), 1, 0, 1, 0, 0, False, 0, 0,
            self._operands[1], c.NULL, *self._planned.cells,
        )  # fmt: skip
        self._own.append(malloc(self._planned.workspace_size, None))

    def run(self, stream: Any) -> None:
        """Phase two."""
        workspace = self._own[-1]
        c.aclnnFusedInferAttentionScoreV3(workspace, self._planned.workspace_size, self._planned.executor, stream)

    def destroy(self) -> None:
        """Destroy what belongs to it, but for the two lists."""
        destroy(*self._operands)
        c.aclDestroyIntArray(self._lengths)
        for address in self._own:
            c.aclrtFree(address)


class RingMla:
    """One token of AtbRingMLA, set up: small, and it reads its lengths on the host.

    ``query`` is its first operand, which stays the caller's; the other operands are its own.
    """

    def __init__(self, context: AtbContext, lengths: Any, query: Any) -> None:
        self._context = context
        self._operation, self._size = c.new("atb_Operation **"), c.new("uint64_t *")
        self._own = [malloc(512 * 512 * 2) for _ in range(7)]
        vectors = [(1, 1, width) for width in (128, 64, 128, 64, 128)]
        places = zip([query, *self._own], [*vectors, (512, 512), (1, 1, 128)], strict=False)
        operands = [tensor(address, shape, c.ACL_BF16) for address, shape in places]
        lse = tensor(self._own[6], (1, 1))
        *inputs, output = operands
        self._tensors = (*operands, lse, lengths)
        c.AtbRingMLAGetWorkspaceSize(
            *inputs, lengths, c.NULL, c.NULL, 1, 1, 1.0, 1, 0, 0, 1, output, lse,
            self._size, self._operation, context.handle,
        )  # fmt: skip

    def run(self, stream: Any) -> None:
        """Phase two; its workspace is kept until :meth:`destroy`."""
        self._own.append(malloc(self._size[0], None))
        self._context.use_stream(cann_mla.Stream.from_handle(stream))
        c.AtbRingMLA(self._own[-1], self._size[0], self._operation[0], self._context.handle)

    def destroy(self) -> None:
        """Destroy the operation, and everything of its own."""
        if self._operation[0] != c.NULL:
            atb_function(cann_mla.load(), "DestroyOperation")(self._operation[0])
        destroy(*self._tensors)
        for address in self._own:
            c.aclrtFree(address)


def one_length() -> tuple[npt.NDArray[np.int32], Any]:
    """The lengths of one sequence of one token, and an aclTensor over them on the host."""
    lengths = np.ones(1, np.int32)
    return lengths, tensor(c.address(lengths), (1,), c.ACL_INT32)

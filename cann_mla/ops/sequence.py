"""Operator calls that are prepared once and run one behind the other, on buffers that they share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from threading import get_ident
from types import TracebackType
from typing import Any, TypeAlias

from cann_mla.dtypes import DTypeLike
from cann_mla.errors import ClosedError
from cann_mla.layout import Layout
from cann_mla.plan import RepeatablePlan
from cann_mla.runtime.device import Device
from cann_mla.runtime.memory import DeviceMemory
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Memory, Tensor
from cann_mla.two_phase import operator

_ALIGNMENT = 512
_BEYOND = 32  # bytes behind a tensor that kernels may touch, as aclrtMalloc provides them


class Slot:
    """The place of a tensor in a sequence: one that the caller gave, or an intermediate of the sequence's own.

    Made by :meth:`OperatorSequence.operand` and :meth:`OperatorSequence.intermediate`.

    Attributes
    ----------
    layout : Layout
    """

    __slots__ = ("_root", "given", "layout")

    def __init__(self, layout: Layout, given: Tensor | None, root: Slot | None = None) -> None:
        self.layout = layout
        self.given = given
        self._root = root

    @property
    def root(self) -> Slot:
        """The slot that this one is a view of, or itself."""
        return self if self._root is None else self._root

    def view(self, *shape: int, strides: Sequence[int] | None = None, offset: int = 0) -> Slot:
        """Elements of this slot under another shape: all of them, or those that strides and an offset pick.

        Parameters
        ----------
        *shape : int
        strides : sequence of int, optional
            In elements. Default: dense.
        offset : int
            Of the first element.

        Raises
        ------
        ValueError
            If the view does not fit, or the slot itself is not dense and row-major.
        """
        own = self.layout
        if not own.dense or own.format != "ND":
            raise ValueError(f"only a dense tensor in ND has views; this one is {own}")
        if strides is None and (prod(shape) != own.numel or offset):
            raise ValueError(
                f"shape {list(shape)} has {prod(shape)} elements; the slot of {list(own.shape)} {own.numel}"
            )
        storage = None if strides is None else own.shape
        layout = Layout.make(shape, own.dtype, strides=strides, offset=offset, storage_shape=storage)
        if layout.extent > own.numel:
            raise ValueError(
                f"shape {list(shape)} with strides {strides} and offset {offset} reaches over {layout.extent} "
                f"elements; the slot of {list(own.shape)} has {own.numel}"
            )
        return Slot(layout, None, self.root)

    def scratch(self, shape: Sequence[int], dtype: DTypeLike) -> Slot:
        """The first bytes of this slot as another tensor, for what is needed only until the slot itself is written.

        Raises
        ------
        ValueError
            If it does not fit, or the slot is not dense and row-major.
        """
        layout, own = Layout.make(shape, dtype), self.layout
        if not own.dense or own.format != "ND" or layout.nbytes > own.nbytes:
            raise ValueError(f"{layout} does not fit into {own}, which must be dense and in ND")
        return Slot(layout, None, self.root)


_Use: TypeAlias = tuple[Slot, RepeatablePlan, str, Layout]
"""Who is used, by which plan, under which C name, in which view."""


class OperatorSequence:
    """A graph of operator calls in the order of its nodes.

    First :meth:`add` the calls, then :meth:`prepare` once, then :meth:`run` as often as wanted::

        steps = OperatorSequence()
        x, w, y = (steps.operand(t) for t in (x_tensor, w_tensor, y_tensor))
        product = steps.intermediate((8, 512), "BF16")
        steps.add("aclnnMm", self=x, mat2=w, out=product, cubeMathType=0)
        steps.add("aclnnRmsNorm", x=product, gamma=gamma, epsilon=1e-6, yOut=y, rstdOut=rstd)
        steps.prepare()
        steps.run(stream)

    Parameters
    ----------
    device : Device or int, optional
        Where intermediates and workspace lie. Default: the current device.

    Attributes
    ----------
    buffer_bytes : int
        Bytes of the memory that holds the intermediates.

    Notes
    -----
    Intermediates that are not needed at the same time share memory, and all calls share one workspace. So a
    sequence may be queued any number of times, but only on one stream at a time, in the thread that prepared it.
    The sequence keeps the memory of its operands alive; it never waits for the stream.
    """

    def __init__(self, device: Device | int | None = None) -> None:
        self._device = device
        self._calls: list[tuple[str, dict[str, Any]]] = []
        self._plans: list[RepeatablePlan] = []
        self._tensors: list[Tensor] = []
        self._uses: list[_Use] = []
        self._replacements: dict[_Use, Tensor] = {}
        self._buffer: DeviceMemory | None = None
        self._workspace: DeviceMemory | None = None
        self._prepared = self._closed = False
        self._checked: tuple[Stream, int] | None = None
        self.buffer_bytes = 0

    def operand(self, tensor: Tensor) -> Slot:
        """A slot for a tensor of the caller's: input, output or both. After :meth:`prepare` it may be closed."""
        return Slot(tensor.layout, tensor)

    def intermediate(self, shape: Sequence[int], dtype: DTypeLike) -> Slot:
        """A slot that holds its elements from the call that first writes it to the last one that names it."""
        return Slot(Layout.make(shape, dtype), None)

    def add(self, symbol: str, /, **arguments: Any) -> None:
        """Append a call.

        Parameters
        ----------
        symbol : str
            C name of phase two.
        **arguments
            By C name, as for :meth:`cann_mla.two_phase.Operator.prepare`; a tensor is a :class:`Slot`, or a Tensor
            that never changes.
        """
        if self._prepared:
            raise RuntimeError("this sequence is prepared; make another one for other calls")
        self._calls.append((symbol, arguments))

    def prepare(self) -> None:
        """Place the intermediates and do phase one of every call.

        Raises
        ------
        CannError
            If CANN refuses a call. The sequence is closed then.
        """
        if self._prepared:
            raise RuntimeError("this sequence is prepared already")
        self._prepared = True
        try:
            memories = self._place()
            for symbol, arguments in self._calls:
                slots = {name: value for name, value in arguments.items() if isinstance(value, Slot)}
                tensors = {name: _tensor(memories[slot.root], slot.layout) for name, slot in slots.items()}
                self._tensors += tensors.values()
                plan = operator(symbol).prepare(repeatable=True, **{**arguments, **tensors})
                self._plans.append(plan)
                self._uses += [(slot.root, plan, name, slot.layout) for name, slot in slots.items()]
            if size := self.workspace_size:
                self._workspace = DeviceMemory(size, device=self._device)
        except BaseException:
            self.close()
            raise

    def replace(self, slot: Slot, tensor: Tensor) -> None:
        """Let all calls work on another tensor of the same layout, from the next run on.

        Raises
        ------
        ValueError
            If the slot is an intermediate or a view, or the layouts differ.
        """
        self._check_open()
        if slot.given is None:
            raise ValueError("only the slot of an operand can be given another tensor")
        if tensor.layout != slot.layout:
            raise ValueError(f"the slot holds {slot.layout}; {tensor.describe()} needs a new sequence")
        for use in self._uses:
            root, plan, name, layout = use
            if root is slot:
                fresh = _tensor(tensor.memory, layout)
                plan.set_tensor(name, fresh)
                if use in self._replacements:
                    self._replacements[use].close()
                self._replacements[use] = fresh

    def run(self, stream: Stream) -> None:
        """Queue all calls. Returns before they are done.

        Raises
        ------
        ClosedError
            If the sequence or the stream is closed.
        CannError, RuntimeError, ValueError
            As :meth:`cann_mla.plan.Plan.run`.
        """
        self._check(stream)
        workspace = self._workspace
        for plan in self._plans:
            plan._launch(plan._handle, stream, workspace)

    def timed_run(self, stream: Stream) -> list[tuple[str, float]]:
        """Run once with an event between any two calls, and wait: C name and milliseconds of every call."""
        self._check(stream)
        events = [stream.record()]
        for plan in self._plans:
            plan._launch(plan._handle, stream, self._workspace)
            events.append(stream.record())
        stream.synchronize()
        times = [after.elapsed_ms(before) for before, after in pairwise(events)]
        for event in events:
            event.close()
        return list(zip((plan.operator.name for plan in self._plans), times, strict=True))

    @property
    def symbols(self) -> list[str]:
        """C names of the calls, in order."""
        return [symbol for symbol, _ in self._calls]

    @property
    def workspace_size(self) -> int:
        """Bytes of the shared workspace: the largest that a call asks for."""
        return max((plan.workspace_size for plan in self._plans), default=0)

    def close(self) -> None:
        """Give back plans, buffers and workspace; the memory goes when the stream has passed what is queued."""
        self._closed = True
        for owner in (*self._plans, *self._tensors, *self._replacements.values(), self._buffer, self._workspace):
            if owner is not None:
                owner.close()
        self._uses.clear()
        self._replacements.clear()

    def __enter__(self) -> OperatorSequence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this OperatorSequence has been closed; make a new one, or close it later")
        if not self._prepared:
            raise RuntimeError("prepare() the sequence first")

    def _check(self, stream: Stream) -> None:
        """What every plan checks at every run, once a stream: nobody else closes the tensors of a sequence."""
        self._check_open()
        if self._checked != (stream, get_ident()):
            for plan in self._plans:
                plan._check(stream, self._workspace)
            self._checked = stream, get_ident()
        stream.handle  # noqa: B018  raises if closed

    def _place(self) -> dict[Slot, Memory | None]:
        """The memory of every slot: the caller's, or a part of the sequence's own."""
        memories: dict[Slot, Memory | None] = {}
        lives: dict[Slot, tuple[int, int]] = {}
        for step, (_, arguments) in enumerate(self._calls):
            for slot in (value.root for value in arguments.values() if isinstance(value, Slot)):
                if slot.given is not None:
                    memories[slot] = slot.given.memory
                else:
                    lives[slot] = lives.get(slot, (step, step))[0], step
        rooms = [-(-(slot.layout.nbytes + _BEYOND) // _ALIGNMENT) * _ALIGNMENT for slot in lives]
        offsets, self.buffer_bytes = share_memory(
            [(*life, room) for life, room in zip(lives.values(), rooms, strict=True)]
        )
        if self.buffer_bytes:
            self._buffer = DeviceMemory(self.buffer_bytes, device=self._device)
            memories |= {s: _Part(self._buffer, *place) for s, *place in zip(lives, offsets, rooms, strict=True)}
        return memories


def _tensor(memory: Memory | None, layout: Layout) -> Tensor:
    return Tensor(
        memory,
        layout.shape,
        layout.dtype,
        strides=layout.strides,
        offset=layout.offset,
        format=layout.format,
        storage_shape=layout.storage_shape,
    )


class _Part(DeviceMemory):
    """A stretch of another device memory, which it keeps alive."""

    __slots__ = ("_whole",)

    def __init__(self, whole: DeviceMemory, offset: int, nbytes: int) -> None:
        self._whole: DeviceMemory | None = whole
        self._state = whole._state
        self._handle = whole._at(offset, nbytes)
        self.nbytes = nbytes
        self.address = whole.address + offset

    def _release(self, handle: Any) -> None:
        self._whole = None


def share_memory(lives: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Lay things out in one stretch of memory, so that no two overlap that live at the same time.

    Parameters
    ----------
    lives : sequence of (first, last, nbytes)
        Step of the first and of the last use.

    Returns
    -------
    offsets : list of int
    nbytes : int
        Of the whole stretch. The large ones are placed first, each at the lowest offset that is free while it lives.
    """
    offsets = [0] * len(lives)
    placed: list[int] = []
    for index in sorted(range(len(lives)), key=lambda i: -lives[i][2]):
        first, last, nbytes = lives[index]
        at = 0
        for other in sorted(placed, key=lambda i: offsets[i]):
            apart = lives[other][1] < first or lives[other][0] > last
            if not apart and at + nbytes > offsets[other]:
                at = max(at, offsets[other] + lives[other][2])
        offsets[index] = at
        placed.append(index)
    return offsets, max((at + life[2] for at, life in zip(offsets, lives, strict=True)), default=0)

"""aclTensor and aclTensorList."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cann_mla.binding import abi
from cann_mla.checks import instance, shortened
from cann_mla.dtypes import DType, DTypeLike
from cann_mla.dtypes import dtype as find_dtype
from cann_mla.errors import null_handle
from cann_mla.layout import Layout
from cann_mla.libraries import load
from cann_mla.runtime.device import Device, DeviceState
from cann_mla.runtime.memory import DeviceMemory, HostMemory
from cann_mla.runtime.owner import Owner

if TYPE_CHECKING:
    from cann_mla.runtime.stream import Stream

Memory = DeviceMemory | HostMemory

closings = [0]
"""How many tensors the process has closed: a plan sees by it that it has to look at its operands again."""


def format_code(name: str) -> int:
    """Value of an ``aclFormat``, by the end of its name (``"ND"``, ``"FRACTAL_NZ"``).

    Raises
    ------
    TypeError, ValueError
        If there is none of that name.
    """
    instance("format", name, str)
    for full in (f"ACL_FORMAT_{name}", f"ACL_{name}"):
        code = getattr(abi().lib, full, None)
        if code is not None:
            return int(code)
    known = [n.removeprefix("ACL_FORMAT_") for n in dir(abi().lib) if n.startswith("ACL_FORMAT_")]
    raise ValueError(f"format {shortened(name)} is unknown; known are {', '.join(known)}")


class Tensor(Owner):
    """An aclTensor over device memory (or, for the few operands that want it, over host memory).

    Parameters
    ----------
    memory : DeviceMemory, HostMemory or None
        Where the elements lie; None gives a null data pointer (for empty tensors).
    shape : sequence of int
        View shape.
    dtype : DType, str or NumPy dtype
    strides : sequence of int, optional
        In elements. Default: dense, row-major.
    offset : int
        Of the first element, in elements from the start of the memory.
    format : str
        End of an ``ACL_FORMAT_`` name.
    storage_shape : sequence of int, optional
        Default: for FRACTAL_NZ and a 2-D shape the block shape, otherwise the view shape, or one dimension over
        all that a strided view reaches.

    Notes
    -----
    Closing the tensor destroys the aclTensor and lets go of the memory, which goes with its last user. A tensor may
    be closed as soon as the call that uses it has returned; the memory outlives the queued work by itself.
    """

    __slots__ = ("_memory", "_state", "layout")
    teardown_rank = 2
    layout: Layout
    _state: DeviceState | None
    _memory: Memory | None

    def __init__(
        self,
        memory: Memory | None,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        format: str = "ND",
        storage_shape: Sequence[int] | None = None,
    ) -> None:
        layout = Layout.make(shape, dtype, strides=strides, offset=offset, format=format, storage_shape=storage_shape)
        self._set_up(memory, layout)

    def _set_up(self, memory: Memory | None, layout: Layout) -> None:
        if memory is None:
            self._state = None
        else:
            instance("memory", memory, DeviceMemory, HostMemory)
            if layout.nbytes > memory.nbytes:
                raise ValueError(
                    f"a tensor of shape {layout.shape}, storage shape {layout.storage_shape} and type {layout.dtype} "
                    f"reaches over {layout.nbytes} bytes; the memory has {memory.nbytes}"
                )
            self._state = memory._state
        self.layout = layout
        self._memory = memory
        self._handle = create_handle(layout, memory)
        if self._state is not None:
            self._state.children.add(self)

    @classmethod
    def empty(
        cls,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        device: Device | int | None = None,
        host: bool = False,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        format: str = "ND",
        storage_shape: Sequence[int] | None = None,
    ) -> Tensor:
        """A tensor with memory of its own, not yet written.

        Parameters
        ----------
        device : Device or int, optional
            Default: the current device.
        host : bool
            Put it in pinned host memory, for operands whose aclTensor carries a host pointer.

        The others as for :class:`Tensor`.
        """
        layout = Layout.make(shape, dtype, strides=strides, offset=offset, format=format, storage_shape=storage_shape)
        return cls._allocate(layout, device, host)

    @classmethod
    def _allocate(cls, layout: Layout, device: Device | int | None, host: bool) -> Tensor:
        if min((*layout.shape, *layout.storage_shape), default=0) < 0:
            raise ValueError(
                f"shape {layout.shape}, storage shape {layout.storage_shape}: a negative size has no memory; "
                "Tensor(None, shape, dtype) makes a tensor without"
            )
        tensor = cls.__new__(cls)
        memory: Memory | None = None
        if layout.nbytes:
            memory = (HostMemory if host else DeviceMemory)(layout.nbytes, device=device)
        try:
            tensor._set_up(memory, layout)
        except BaseException:
            if memory is not None:
                memory.close()
            raise
        return tensor

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: DTypeLike, **layout: Any) -> Tensor:
        """As :meth:`empty`, with every byte of the memory 0."""
        tensor = cls.empty(shape, dtype, **layout)
        memory = tensor._memory
        if isinstance(memory, DeviceMemory):
            memory.fill(0)
        elif memory is not None:
            memory.array()[:] = 0
        return tensor

    @classmethod
    def from_numpy(
        cls,
        array: npt.NDArray[Any],
        *,
        device: Device | int | None = None,
        dtype: DTypeLike | None = None,
        format: str = "ND",
        storage_shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        host: bool = False,
        stream: Stream | None = None,
    ) -> Tensor:
        """Copy an array to a new tensor.

        Parameters
        ----------
        array : ndarray
            Of any strides, in NumPy's form of a CANN type (:mod:`cann_mla.dtypes`). Its shape is the view shape.
        dtype : DType or str, optional
            Checked against the array; nothing is converted.
        format : str
            With ``"FRACTAL_NZ"`` a 2-D array is packed into blocks; so are several matrices, if the storage shape is
            that of their blocks (:func:`cann_mla.formats.nz_storage_shape`). Other arrays are taken as they are.
        strides, offset, storage_shape
            Layout of the view in memory, in elements; default dense. What lies outside of the view is 0.
        host : bool
            Put it in pinned host memory, for operands whose aclTensor carries a host pointer.
        stream : Stream, optional
            Queue the copy there instead of waiting for it.

        Raises
        ------
        TypeError
            If the array's type is not a CANN type, or not `dtype`.
        """
        array = np.asarray(array)
        layout = Layout.make(
            array.shape,
            find_dtype(array.dtype if dtype is None else dtype),
            strides=strides,
            offset=offset,
            format=format,
            storage_shape=storage_shape,
        )
        content = layout.pack(array)
        tensor = cls._allocate(layout, device, host)
        tensor._write(content, stream)
        return tensor

    def copy_from(self, array: npt.NDArray[Any], *, stream: Stream | None = None) -> None:
        """Write an array of the same shape and type. What lies outside of the view becomes 0."""
        self._write(self.layout.pack(np.asarray(array)), stream)

    def copy(self, *, stream: Stream | None = None) -> Tensor:
        """Make a tensor of the same layout with a copy of the memory, what lies outside of the view included.

        Parameters
        ----------
        stream : Stream, optional
            Queue the copy there, behind what writes this tensor; otherwise it is done on return.
        """
        source = self._elements()
        twin = Tensor._allocate(self.layout, self.device, isinstance(source, HostMemory))
        if isinstance(source, DeviceMemory) and isinstance(twin._memory, DeviceMemory):
            twin._memory.copy_from(source.part(0, self.layout.nbytes), stream=stream)
        elif isinstance(source, HostMemory) and isinstance(twin._memory, HostMemory):
            twin._memory.array()[:] = source.array()[: self.layout.nbytes]
        return twin

    def _write(self, content: npt.NDArray[np.uint8], stream: Stream | None) -> None:
        memory = self._elements()
        if isinstance(memory, DeviceMemory):
            memory.write(content, stream=stream)
        elif memory is not None:
            memory.array()[: content.size] = content

    def to_numpy(self) -> npt.NDArray[Any]:
        """Copy the view to a new row-major array; FRACTAL_NZ of a matrix is unpacked.

        The copy does not wait for streams: synchronise the one that writes the tensor first.
        """
        memory = self._elements()
        if memory is None:
            return np.empty(self.shape, self.dtype.numpy)
        content = np.empty(self.layout.nbytes, np.uint8)
        if isinstance(memory, DeviceMemory):
            memory.read(content)
        else:
            content[:] = memory.array()[: content.size]
        return self.layout.unpack(content)

    def _elements(self) -> Memory | None:
        """The memory; None only if there is no element to keep in it."""
        memory = self.memory
        if memory is None and self.layout.numel:
            raise ValueError(f"a tensor of shape {self.shape} without memory has no elements to copy")
        return memory

    def view(
        self,
        shape: Sequence[int] | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int | None = None,
        dtype: DTypeLike | None = None,
        format: str | None = None,
        storage_shape: Sequence[int] | None = None,
    ) -> Tensor:
        """Another tensor over the same memory. What is not given is taken over, strides only with the shape."""
        own = self.layout
        steps = own.strides if shape is None and strides is None else strides
        return Tensor(
            self.memory,
            own.shape if shape is None else shape,
            own.dtype if dtype is None else dtype,
            strides=steps,
            offset=own.offset if offset is None else offset,
            format=own.format if format is None else format,
            storage_shape=own.storage_shape if storage_shape is None else storage_shape,
        )

    def transpose(self, *axes: int) -> Tensor:
        """View with the dimensions in another order; without arguments, reversed."""
        order = axes or tuple(reversed(range(len(self.shape))))
        if sorted(order) != list(range(len(self.shape))):
            raise ValueError(f"axes {axes} are no permutation of the {len(self.shape)} dimensions")
        steps = self.layout.element_strides
        return self.view([self.shape[a] for a in order], strides=[steps[a] for a in order])

    @property
    def memory(self) -> Memory | None:
        """The memory the tensor lies in.

        Raises
        ------
        ClosedError
            If the tensor is closed.
        """
        self.handle  # noqa: B018  raises if closed
        return self._memory

    @property
    def shape(self) -> tuple[int, ...]:
        """View shape."""
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self.layout.element_strides

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.layout.dtype

    @property
    def format(self) -> str:
        """End of the ``ACL_FORMAT_`` name."""
        return self.layout.format

    @property
    def device(self) -> int | None:
        """Number of the device; None for a tensor without memory."""
        return None if self._state is None else self._state.id

    @property
    def devices(self) -> set[int]:
        """Numbers of the devices that hold elements: one, or none."""
        return set() if self._state is None else {self._state.id}

    @property
    def address(self) -> int:
        """Address of the first element of the view; 0 without memory."""
        pointer = data_pointer(self.memory)
        return int(abi().ffi.cast("uintptr_t", pointer)) + self.layout.dtype.storage_bytes(self.layout.offset)

    def describe(self) -> str:
        """Shape, type, format and alignment in one line, for messages."""
        own = self.layout
        parts = [f"{own.dtype} {list(own.shape)} {own.format}"]
        if own.storage_shape != own.shape:
            parts.append(f"storage {list(own.storage_shape)}")
        if not own.dense:
            parts.append(f"strides {list(own.element_strides)} offset {own.offset}")
        if self.closed:
            parts.append("closed")
        elif self._memory is None:
            parts.append("no memory")
        elif self._memory.closed:
            parts.append("its memory is closed")
        else:
            where = "host" if isinstance(self._memory, HostMemory) else f"device {self.device}"
            alignment = self.address & -self.address
            parts.append(f"{where} {self.address:#x} aligned to {min(alignment, 512)}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Tensor {self.describe()}>"

    def _release(self, handle: Any) -> None:
        closings[0] += 1
        self._memory = None
        library = load()
        library.check(library.aclDestroyTensor(handle), "aclDestroyTensor", "close a tensor")


def data_pointer(memory: Memory | None) -> Any:
    """Start of a memory as ``void *``."""
    return abi().ffi.NULL if memory is None else memory.handle


def create_handle(layout: Layout, memory: Memory | None) -> Any:
    """Make an aclTensor, which the caller then owns."""
    ffi = abi().ffi
    library = load()
    steps = ffi.NULL if layout.strides is None else ffi.new("int64_t[]", layout.strides)
    handle = library.aclCreateTensor(
        ffi.new("int64_t[]", layout.shape),
        len(layout.shape),
        layout.dtype.code,
        steps,
        layout.offset,
        format_code(layout.format),
        ffi.new("int64_t[]", layout.storage_shape),
        len(layout.storage_shape),
        data_pointer(memory),
    )
    if handle == ffi.NULL:
        raise null_handle(library, "aclCreateTensor")
    return handle


class TensorList(Owner):
    """An aclTensorList.

    Parameters
    ----------
    tensors : sequence of Tensor or None
        The members. C lets a list own its members; here the list makes aclTensors of its own over the same memory,
        so that the given tensors stay independent of it, and one tensor may be in several lists.
    """

    __slots__ = ("_members", "_memories", "layouts")

    def __init__(self, tensors: Sequence[Tensor | None]) -> None:
        instance("tensors", tensors, Sequence, np.ndarray)
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"member {index} is a {type(tensor).__name__}; a TensorList takes Tensors and None")
        library, ffi = load(), abi().ffi
        self._memories = tuple(None if t is None else t.memory for t in tensors)
        self.layouts = tuple(None if t is None else t.layout for t in tensors)
        members: list[Any] = []
        try:
            for layout, memory in zip(self.layouts, self._memories, strict=True):
                members.append(ffi.NULL if layout is None else create_handle(layout, memory))
            handle = library.aclCreateTensorList(ffi.new("aclTensor *[]", members), len(members))
            if handle == ffi.NULL:
                raise null_handle(library, "aclCreateTensorList")
        except BaseException:
            for member in members:
                library.aclDestroyTensor(member)
            raise
        self._members = tuple(members)
        self._handle = handle

    def __len__(self) -> int:
        return len(self.layouts)

    @property
    def devices(self) -> set[int]:
        """Numbers of the devices that hold the members."""
        return {memory.device for memory in self._memories if memory is not None}

    def members(self) -> list[tuple[Layout | None, Memory | None]]:
        """Layout and memory of each member; None and None for a null one."""
        self.handle  # noqa: B018  raises if closed
        return list(zip(self.layouts, self._memories, strict=True))

    @property
    def member_handles(self) -> tuple[Any, ...]:
        """The members' own aclTensors, which the list owns.

        Raises
        ------
        ClosedError
            If the list is closed.
        """
        self.handle  # noqa: B018  raises if closed
        return self._members

    def describe(self) -> str:
        """The members in one line, for messages."""
        members = ["null" if own is None else f"{own.dtype} {list(own.shape)} {own.format}" for own in self.layouts]
        return f"list of {len(members)}: {'; '.join(members)}{' (closed)' if self.closed else ''}"

    def __repr__(self) -> str:
        return f"<TensorList {self.describe()}>"

    def _release(self, handle: Any) -> None:
        self._memories = ()
        self._members = ()
        library = load()
        library.check(library.aclDestroyTensorList(handle), "aclDestroyTensorList", "close a tensor list")

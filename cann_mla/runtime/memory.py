"""Device memory and pinned host memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from cann_mla.binding import abi
from cann_mla.checks import instance, whole, whole_numbers
from cann_mla.errors import status_name
from cann_mla.runtime.current import on_context
from cann_mla.runtime.device import Device, DeviceState, open_devices, state_of
from cann_mla.runtime.owner import Owner

if TYPE_CHECKING:
    from cann_mla.runtime.stream import Stream

_OUT_OF_MEMORY = ("ACL_ERROR_BAD_ALLOC", "ACL_ERROR_RT_MEMORY_ALLOCATION", "ACL_ERROR_RT_DEVICE_OOM")
_CONTIGUOUS_ADVICE = (
    "make it contiguous with numpy.ascontiguousarray, or use Tensor.from_numpy, which takes any strides"
)


class _Allocation:
    """Memory that was given up while streams were busy: freed when the last of them lets go."""

    __slots__ = ("_address", "_api", "_state")
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, state: DeviceState, address: Any, api: str) -> None:
        self._state = state
        self._address = address
        self._api = api

    def __del__(self) -> None:
        if not self._is_finalizing():
            _free(self._state, self._address, self._api)


def _free(state: DeviceState, address: Any, api: str) -> None:
    if state.context is None:  # the device was given back, and its memory with it
        return
    with on_context(state.library, state.context):
        state.library.check(getattr(state.library, api)(address), api, "free memory")


def _give_up(state: DeviceState, address: Any, api: str, users: Iterable[DeviceState]) -> None:
    """Free memory, now or when the busy streams of the devices that may use it have passed what is queued."""
    busy = [stream for user in users for stream in list(user.streams) if stream.busy]
    if not busy:
        _free(state, address, api)
        return
    allocation = _Allocation(state, address, api)
    for stream in busy:
        stream.keep(allocation)


def _reclaim(state: DeviceState, *, wait: bool) -> None:
    for stream in list(state.streams):
        stream.reclaim(wait=wait)


class DeviceMemory(Owner):
    """Memory on a device.

    Parameters
    ----------
    nbytes : int
        At least 1. CANN aligns the start to 64 bytes.
    device : Device or int, optional
        Default: the current device.
    policy : str
        Name of an ``aclrtMemMallocPolicy`` without its prefix.

    Attributes
    ----------
    nbytes : int
    address : int
        Address on the device; a host cannot read there.

    Notes
    -----
    ``close()`` frees the memory at once if the device's streams are idle, else when they have passed the work that
    was queued at that moment; it never waits. The content is undefined until written.
    """

    __slots__ = ("_state", "address", "nbytes")
    teardown_rank = 3

    def __init__(self, nbytes: int, *, device: Device | int | None = None, policy: str = "HUGE_FIRST") -> None:
        nbytes = _at_least_one_byte(nbytes)
        ffi = abi().ffi
        code = getattr(abi().lib, f"ACL_MEM_MALLOC_{policy}", None)
        if code is None:
            raise ValueError(f"policy {policy!r} is unknown; give the end of an ACL_MEM_MALLOC_ name, as HUGE_FIRST")
        state = state_of(device)
        library = state.library
        pointer = ffi.new("void **")
        self._state = state
        with on_context(library, state.context if device is not None else None):
            _reclaim(state, wait=False)
            status = library.aclrtMalloc(pointer, nbytes, code)
            if status and status_name(status) in _OUT_OF_MEMORY:
                library.recent_error_text()  # of an attempt that is about to be repeated
                _reclaim(state, wait=True)
                status = library.aclrtMalloc(pointer, nbytes, code)
            library.check(status, "aclrtMalloc", f"allocate {nbytes} bytes on device {state.id}")
            self._handle = pointer[0]
        self.nbytes = nbytes
        self.address = int(ffi.cast("uintptr_t", pointer[0]))
        state.children.add(self)

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.address:#x}"
        return f"<DeviceMemory {self.nbytes} bytes on device {self._state.id}, {state}>"

    def fill(self, byte: int, *, stream: Stream | None = None) -> None:
        """Set every byte to a value from 0 to 255, on a stream if one is given."""
        byte = whole("byte", byte, 0, 255)
        library = self._state.library
        if stream is None:
            with on_context(library, self._state.context):
                status = library.aclrtMemset(self.handle, self.nbytes, byte, self.nbytes)
                library.check(status, "aclrtMemset", "fill")
        else:
            _check_stream(stream, self)
            with on_context(library, stream._context):
                status = library.aclrtMemsetAsync(self.handle, self.nbytes, byte, self.nbytes, stream.handle)
                library.check(status, "aclrtMemsetAsync", "fill")
                stream._launches.append("aclrtMemsetAsync")

    def write(self, source: npt.NDArray[Any] | HostMemory, offset: int = 0, *, stream: Stream | None = None) -> None:
        """Copy from the host.

        Parameters
        ----------
        source : array or HostMemory
            A C-contiguous array of any type, or pinned memory.
        offset : int
            First byte to write.
        stream : Stream, optional
            Queue the copy there. Only a copy from pinned memory then returns before it is done; the source is
            kept alive, and must not change, until the stream has passed it.

        Raises
        ------
        ValueError
            If the source is not contiguous or does not fit.
        """
        pointer, nbytes = _host_range(source, writable=False)
        self._copy(self._at(offset, nbytes), nbytes, pointer, nbytes, "ACL_MEMCPY_HOST_TO_DEVICE", stream, source)

    def read(self, target: npt.NDArray[Any] | HostMemory, offset: int = 0, *, stream: Stream | None = None) -> None:
        """Copy to the host: into a C-contiguous, writable array, or pinned memory. Rules as for :meth:`write`.

        Without a stream the copy does not wait for work queued on streams: synchronise first.
        """
        pointer, nbytes = _host_range(target, writable=True)
        self._copy(pointer, nbytes, self._at(offset, nbytes), nbytes, "ACL_MEMCPY_DEVICE_TO_HOST", stream, target)

    def copy_from(self, source: DeviceMemory, *, stream: Stream | None = None) -> None:
        """Copy all of another device memory to the start of this one."""
        instance("source", source, DeviceMemory)
        kind = "ACL_MEMCPY_DEVICE_TO_DEVICE"
        self._copy(self._at(0, source.nbytes), self.nbytes, source.handle, source.nbytes, kind, stream, None)

    def part(self, offset: int, nbytes: int) -> DeviceMemory:
        """Some of the bytes as a memory of their own, for operators that read from the start of a memory.

        Parameters
        ----------
        offset, nbytes : int

        Notes
        -----
        The part keeps this memory alive; closing it frees nothing. Once this memory is closed, the part counts as
        closed too.
        """
        return _Part(self, offset, nbytes)

    def _at(self, offset: int, nbytes: int) -> Any:
        whole("offset", offset)
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"{nbytes} bytes at offset {offset} do not fit into device memory of {self.nbytes} bytes")
        return abi().ffi.cast("char *", self.handle) + offset

    def _copy(self, to: Any, room: int, source: Any, nbytes: int, kind: str, stream: Stream | None, keep: Any) -> None:
        library = self._state.library
        code = getattr(abi().lib, kind)
        if nbytes == 0:
            return
        if stream is None:
            with on_context(library, self._state.context):
                status = library.aclrtMemcpy(to, room, source, nbytes, code)
                library.check(status, "aclrtMemcpy", "copy")
            return
        _check_stream(stream, self)
        with on_context(library, stream._context):
            status = library.aclrtMemcpyAsync(to, room, source, nbytes, code, stream.handle)
            library.check(status, "aclrtMemcpyAsync", "copy")
            stream._launches.append("aclrtMemcpyAsync")
            stream.keep(keep)

    def _release(self, handle: Any) -> None:
        _give_up(self._state, handle, "aclrtFree", [self._state])


class _Part(DeviceMemory):
    """Some bytes of another device memory."""

    __slots__ = ("_offset", "_whole")

    def __init__(self, memory: DeviceMemory, offset: int, nbytes: int) -> None:
        self.nbytes = _at_least_one_byte(nbytes)
        self._whole, self._offset = memory, offset
        self._handle = memory._at(offset, nbytes)
        self._state = memory._state
        self.address = memory.address + offset

    @property
    def handle(self) -> Any:
        """Address of the first byte, as ``void *``."""
        self._whole.handle  # noqa: B018  raises if closed
        return super().handle

    def _release(self, handle: Any) -> None:
        pass


def _at_least_one_byte(nbytes: int) -> int:
    nbytes = whole("nbytes", nbytes, high=2**64 - 1)
    if nbytes < 1:
        raise ValueError(f"nbytes is {nbytes}; memory has at least 1 byte (an empty tensor needs none)")
    return nbytes


def _check_stream(stream: Stream, memory: DeviceMemory) -> None:
    from cann_mla.runtime.stream import Stream

    instance("stream", stream, Stream)
    if stream.device != memory.device:
        raise ValueError(
            f"the stream is on device {stream.device} and the memory on device {memory.device}; "
            "use a stream of the memory's device"
        )


def _host_range(thing: npt.NDArray[Any] | HostMemory, *, writable: bool) -> tuple[Any, int]:
    """Address and size of host memory."""
    ffi = abi().ffi
    if isinstance(thing, HostMemory):
        return thing.handle, thing.nbytes
    instance("target" if writable else "source", thing, np.ndarray, HostMemory)
    if thing.dtype.hasobject:
        raise TypeError(f"the array has elements of type {thing.dtype}: their bytes are pointers, not values")
    if not thing.flags.c_contiguous:
        raise ValueError(f"the array of shape {thing.shape} has strides {thing.strides}: {_CONTIGUOUS_ADVICE}")
    if writable and not thing.flags.writeable:
        raise ValueError("the array to read into is read-only; give a writable one")
    return ffi.cast("void *", thing.ctypes.data), thing.nbytes


class _Exported:
    """Pinned memory as NumPy sees it; keeps the owner alive as long as an array does."""

    def __init__(self, owner: HostMemory, address: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (owner.nbytes,), "typestr": "|u1", "version": 3}


class HostMemory(Owner):
    """Pinned host memory: the only kind that asynchronous copies really overlap with.

    Parameters
    ----------
    nbytes : int
        At least 1.
    device : Device or int, optional
        Default: the current device.

    Notes
    -----
    The content is undefined until written. ``close()`` raises BufferError while arrays made by :meth:`array` are
    alive, because they would point into freed memory; otherwise it follows the rules of :class:`DeviceMemory`.
    """

    __slots__ = ("_state", "_views", "nbytes")
    teardown_rank = 4

    def __init__(self, nbytes: int, *, device: Device | int | None = None) -> None:
        nbytes = _at_least_one_byte(nbytes)
        ffi = abi().ffi
        state = state_of(device)
        library = state.library
        pointer = ffi.new("void **")
        self._state = state
        self._views: WeakSet[_Exported] = WeakSet()
        with on_context(library, state.context if device is not None else None):
            status = library.aclrtMallocHost(pointer, nbytes)
            library.check(status, "aclrtMallocHost", f"allocate {nbytes} bytes of pinned memory")
            self._handle = pointer[0]
        self.nbytes = nbytes
        state.children.add(self)

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._state.id

    def array(self, dtype: npt.DTypeLike = np.uint8, shape: tuple[int, ...] | None = None) -> npt.NDArray[Any]:
        """The memory as a NumPy array, without a copy. The array keeps this object alive.

        Parameters
        ----------
        dtype : dtype
        shape : tuple of int, optional
            Default: one dimension over the whole memory.

        Raises
        ------
        ValueError
            If the memory is too small for the shape, or the type has no size.
        """
        element = np.dtype(dtype)
        sizes = None if shape is None else whole_numbers("shape", shape)
        if element.itemsize == 0 or element.hasobject:
            raise ValueError(f"dtype {element} cannot lie in pinned memory: give a type of fixed size")
        if sizes is not None and (min(sizes, default=0) < 0 or math.prod(sizes) * element.itemsize > self.nbytes):
            raise ValueError(f"an array of shape {sizes} and type {element} does not fit into {self.nbytes} bytes")
        exported = _Exported(self, int(abi().ffi.cast("uintptr_t", self.handle)))
        self._views.add(exported)
        flat = np.asarray(exported)[: self.nbytes // element.itemsize * element.itemsize].view(element)
        return flat if sizes is None else flat[: math.prod(sizes)].reshape(sizes)

    def _check_close(self) -> None:
        if alive := len(self._views):
            raise BufferError(f"{alive} NumPy arrays still look at this pinned memory; drop them before closing it")

    def _release(self, handle: Any) -> None:
        _give_up(self._state, handle, "aclrtFreeHost", list(open_devices.values()))

"""aclTensor and its relatives with an address and no memory, made by the thousand.

This goes to the C functions directly: a call takes half a microsecond, and objects that own memory, streams and
errors would be most of a case's time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.binding import abi
from cann_mla.dtypes import dtype, to_bits
from cann_mla.validate.arrays import alias_base, case_files, from_file, storage_shape
from cann_mla.validate.cases import DTYPES, Case, TensorSpec
from cann_mla.validate.data import fill
from cann_mla.validate.verify import CannotRunError

FORMATS = {"NCHW": 0, "ND": 2, "FRACTAL_NZ": 29}
CODES = {name: dtype(name).code for name in DTYPES}
# Far from anything a process has, aligned, and so far apart that no two operands overlap.
FIRST_ADDRESS, ADDRESS_STEP = 1 << 44, 1 << 36


@lru_cache(maxsize=1024)
def int64_array(values: tuple[int, ...]) -> Any:
    """A C array; shapes repeat from case to case."""
    return abi().ffi.new("int64_t[]", values)


@lru_cache(maxsize=256)
def c_string(text: str) -> Any:
    """A C string."""
    return abi().ffi.new("char[]", text.encode())


@lru_cache(maxsize=1024)
def address(index: int) -> Any:
    """The address of the operand of that number."""
    return abi().ffi.cast("void *", FIRST_ADDRESS + index * ADDRESS_STEP)


class Descriptors:
    """The handles of one case, destroyed together by `close`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._create_tensor = library.aclCreateTensor
        self._null = abi().ffi.NULL
        self._destroy: list[tuple[Any, Any]] = []
        self._kept: list[Any] = []
        self._addresses: dict[str, Any] = {}

    def operand(self, case: Case, name: str) -> Any:
        """The handle for one operand: a tensor, a list, or null."""
        operand = case.tensors.get(name)
        if operand is None:
            return self._null
        if isinstance(operand, TensorSpec):
            tensor = self._tensor(case, name, operand)
            self._destroy.append((self._library.aclDestroyTensor, tensor))
            return tensor
        members = [self._tensor(case, f"{name}.{i}", entry) for i, entry in enumerate(operand)]
        array = abi().ffi.new("const aclTensor *[]", members or 1)
        handle = self._library.aclCreateTensorList(array, len(members))
        self._destroy.append((self._library.aclDestroyTensorList, handle))  # the members go with it
        return handle

    def attribute(self, c_type: str, value: Any) -> Any:
        """A host argument as C wants it.

        Raises
        ------
        CannotRunError
            The value is nothing that the parameter can take.
        """
        if c_type == "aclDataType":
            return value if isinstance(value, int) else dtype(value).code  # any number: CANN judges it
        if c_type[-1] != "*":
            return value
        if value is None:
            return self._null
        if isinstance(value, str):
            return c_string(value)
        if isinstance(value, list) and "aclIntArray" in c_type:
            handle = self._library.aclCreateIntArray(int64_array(tuple(value)), len(value))
            self._destroy.append((self._library.aclDestroyIntArray, handle))
            return handle
        raise CannotRunError(f"{value!r} cannot be passed as {c_type}")

    def close(self) -> None:
        """Destroy every handle; a second call does nothing."""
        for destroy, handle in self._destroy:
            destroy(handle)
        self._destroy.clear()

    def _tensor(self, case: Case, name: str, spec: TensorSpec) -> Any:
        shape = spec.shape
        dims = int64_array(shape)
        storage = shape if spec.storage_shape is None and spec.format != "FRACTAL_NZ" else storage_shape(spec)
        return self._create_tensor(
            dims,
            len(shape),
            CODES[spec.dtype],
            self._null if spec.strides is None else int64_array(spec.strides),
            spec.offset,
            FORMATS[spec.format],
            dims if storage is shape else int64_array(storage),
            len(storage),
            self._address(case, name, spec),
        )

    def _address(self, case: Case, name: str, spec: TensorSpec) -> Any:
        if spec.memory == "host":
            host = host_values(case, name, spec)
            self._kept.append(host)
            return abi().ffi.from_buffer(host)
        base = name if spec.alias is None else alias_base(case, name)
        found = self._addresses.get(base)
        if found is None:
            found = self._addresses[base] = address(len(self._addresses))
        return found


def host_values(case: Case, name: str, spec: TensorSpec) -> NDArray[np.uint8]:
    """The bytes of an operand that the host reads, and one spare byte, so that an empty one has an address too."""
    files = case_files(case)
    if name in files:
        array = from_file(name, files[name], spec)
    else:
        data = spec.data or {"dist": "zeros"}
        array = fill(data, seed=case.seed, name=name, shape=spec.shape, dtype_name=spec.dtype)
    content = np.frombuffer(np.ascontiguousarray(to_bits(array)).tobytes(), np.uint8)
    return np.append(content, np.uint8(0))

"""Ask for a status and nothing else: descriptors with an address and no memory, so that size costs nothing.

This goes to the C functions directly: a case is a few dozen calls of half a microsecond, and objects that own
memory, streams and errors would be most of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.binding import abi
from cann_mla.dtypes import dtype, to_bits
from cann_mla.headers import Role, Signature
from cann_mla.validate.arrays import alias_base, case_files, from_file, storage_shape
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.data import fill
from cann_mla.validate.library import open_library, select_product
from cann_mla.validate.signatures import check_names, complete_attrs, roles_of
from cann_mla.validate.verify import CannotRunError, NotHereError, Outcome

FORMATS = {"NCHW": 0, "ND": 2, "FRACTAL_NZ": 29}
FIRST_ADDRESS, ADDRESS_STEP = 1 << 44, 1 << 36


@lru_cache(maxsize=1024)
def int64_array(values: tuple[int, ...]) -> Any:
    """A C array that stays alive as long as this cache; shapes repeat from case to case."""
    return abi().ffi.new("int64_t[]", values)


@lru_cache(maxsize=256)
def c_string(text: str) -> Any:
    """A C string that stays alive as long as this cache."""
    return abi().ffi.new("char[]", text.encode())


def phase_statuses(case: Case, via: str) -> Outcome:
    """Phase one of a case, and phase two where the case is about it.

    Raises
    ------
    NotHereError
        Another product, or an operator that the library lacks.
    CannotRunError
        Operands or attributes that the prototype does not have.
    """
    roles = roles_of(case.op)
    if roles.operator is None:
        raise NotHereError(f"{case.op} is composed of several calls: it has no status of its own to ask for")
    library = open_library(via)
    select_product(library, case.soc)
    return _caller(library, case.op)(case)


@lru_cache
def _caller(library: Any, op: str) -> Callable[[Case], Outcome]:
    if not library.has(op):
        raise NotHereError(f"the loaded library has no {op}")
    if op.startswith("Atb"):
        raise NotHereError(f"{op}: ATB operators are not supported here yet")
    return AclnnCaller(library, op)


class Descriptors:
    """aclTensor and its relatives of one case, destroyed together."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.ffi = abi().ffi
        self._destroy: list[tuple[Any, Any]] = []
        self._kept: list[Any] = []
        self._addresses: dict[str, int] = {}

    def operand(self, case: Case, name: str) -> Any:
        """The handle for one operand: a tensor, a list, or null."""
        operand = case.tensors.get(name)
        if operand is None:
            return self.ffi.NULL
        if isinstance(operand, TensorSpec):
            tensor = self._tensor(case, name, operand)
            self._destroy.append((self.library.aclDestroyTensor, tensor))
            return tensor
        members = [self._tensor(case, f"{name}.{i}", entry) for i, entry in enumerate(operand)]
        handle = self.library.aclCreateTensorList(
            self.ffi.new("const aclTensor *[]", members or 1), len(members)
        )
        self._destroy.append((self.library.aclDestroyTensorList, handle))  # the members go with it
        return handle

    def attribute(self, c_type: str, value: Any) -> Any:
        """A host argument as C wants it."""
        if c_type == "aclDataType":
            return dtype(value).code
        if not c_type.endswith("*"):
            return value
        if value is None:
            return self.ffi.NULL
        if isinstance(value, str):
            return c_string(value)
        if isinstance(value, list) and "aclIntArray" in c_type:
            handle = self.library.aclCreateIntArray(int64_array(tuple(value)), len(value))
            self._destroy.append((self.library.aclDestroyIntArray, handle))
            return handle
        raise CannotRunError(f"{value!r} cannot be passed as {c_type}")

    def close(self) -> None:
        """Destroy every handle; a second call does nothing."""
        for destroy, handle in self._destroy:
            destroy(handle)
        self._destroy.clear()

    def _tensor(self, case: Case, name: str, spec: TensorSpec) -> Any:
        shape, storage = spec.shape, storage_shape(spec)
        return self.library.aclCreateTensor(
            int64_array(shape),
            len(shape),
            dtype(spec.dtype).code,
            self.ffi.NULL if spec.strides is None else int64_array(spec.strides),
            spec.offset,
            FORMATS[spec.format],
            int64_array(storage),
            len(storage),
            self.ffi.cast("void *", self._address(case, name, spec)),
        )

    def _address(self, case: Case, name: str, spec: TensorSpec) -> Any:
        if spec.memory == "host":
            host = host_values(case, name, spec)
            self._kept.append(host)
            return self.ffi.from_buffer(host)
        base = alias_base(case, name) if spec.alias is not None else name
        return self._addresses.setdefault(base, FIRST_ADDRESS + len(self._addresses) * ADDRESS_STEP)


def host_values(case: Case, name: str, spec: TensorSpec) -> NDArray[np.uint8]:
    """The bytes of an operand that the host reads."""
    files = case_files(case)
    if name in files:
        array = from_file(name, files[name], spec)
    else:
        data = spec.data or {"dist": "zeros"}
        array = fill(data, seed=case.seed, name=name, shape=spec.shape, dtype_name=spec.dtype)
    # from_buffer refuses an empty buffer; one spare byte keeps the address real
    return np.append(np.frombuffer(np.ascontiguousarray(to_bits(array)).tobytes(), np.uint8), np.uint8(0))


class AclnnCaller:
    """Phase one and two of one aclnn operator, called by position."""

    def __init__(self, library: Any, op: str) -> None:
        self.library, self.op = library, op
        self.roles = roles_of(op)
        self.signature: Signature = library.prototypes.signature(f"{op}GetWorkspaceSize")
        self.phase_one = getattr(library, f"{op}GetWorkspaceSize")
        self.phase_two = getattr(library, op)
        self.size = abi().ffi.new("uint64_t *")
        self.executor = abi().ffi.new("aclOpExecutor **")

    def __call__(self, case: Case) -> Outcome:
        """Call phase one, and phase two where `case.phase` is 2."""
        check_names(self.roles, case.tensors, case.attrs)
        attrs = complete_attrs(self.op, self.signature, case.attrs)
        descriptors = Descriptors(self.library)
        try:
            arguments = [self._argument(descriptors, case, attrs, p) for p in self.signature.parameters]
            self.size[0], self.executor[0] = 0, abi().ffi.NULL
            status = self.phase_one(*arguments)
            if status:
                return Outcome(status, 1, None, self.library.recent_error_text())
            if case.phase != 2:
                if self.executor[0] != abi().ffi.NULL:
                    self.library.aclDestroyAclOpExecutor(self.executor[0])
                return Outcome(0, None, int(self.size[0]))
            return self._second()
        finally:
            descriptors.close()

    def _argument(self, descriptors: Descriptors, case: Case, attrs: dict[str, Any], parameter: Any) -> Any:
        role = parameter.role
        if role is Role.ATTRIBUTE:
            return descriptors.attribute(parameter.type, attrs[parameter.name])
        if role is Role.WORKSPACE_SIZE:
            return self.size
        if role is Role.EXECUTOR:
            return self.executor
        return descriptors.operand(case, parameter.name)

    def _second(self) -> Outcome:
        ffi, size = abi().ffi, int(self.size[0])
        workspace = ffi.cast("void *", FIRST_ADDRESS - ADDRESS_STEP) if size else ffi.NULL
        status = self.phase_two(workspace, size, self.executor[0], ffi.NULL)
        if status:
            return Outcome(status, 2, size, self.library.recent_error_text())
        self.library.aclrtSynchronizeStream(ffi.NULL)  # whatever it computed without memory, it ends here
        return Outcome(0, None, size)

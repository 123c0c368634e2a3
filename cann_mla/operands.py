"""The other operands of operators: arrays of numbers and scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cann_mla.binding import abi
from cann_mla.dtypes import DType, DTypeLike
from cann_mla.dtypes import dtype as find_dtype
from cann_mla.errors import null_handle
from cann_mla.libraries import load
from cann_mla.runtime.owner import Owner


class NumberArray(Owner):
    """Base of the arrays: the numbers are copied when the object is made.

    Parameters
    ----------
    values : sequence of numbers
        May be empty, which is not the same as a null array.
    """

    __slots__ = ("values",)
    c_type = ""
    element = ""

    def __init__(self, values: Sequence[Any]) -> None:
        library, ffi = load(), abi().ffi
        self.values = tuple(values)
        try:
            numbers = ffi.new(f"{self.element}[]", self.values)
        except (TypeError, OverflowError) as error:
            raise type(error)(f"{self.c_type} takes numbers that fit {self.element}; got {values!r}: {error}") from None
        handle = getattr(library, f"aclCreate{self._suffix()}")(numbers, len(self.values))
        if handle == ffi.NULL:
            raise null_handle(library, f"aclCreate{self._suffix()}")
        self._handle = handle

    @classmethod
    def _suffix(cls) -> str:
        return cls.c_type.removeprefix("acl")

    def __len__(self) -> int:
        return len(self.values)

    def describe(self) -> str:
        """The numbers, shortened, for messages."""
        shown = ", ".join(map(str, self.values[:8])) + (", ..." if len(self.values) > 8 else "")
        return f"{self.c_type}[{len(self.values)}] {{{shown}}}{' (closed)' if self.closed else ''}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def _release(self, handle: Any) -> None:
        library = load()
        api = f"aclDestroy{self._suffix()}"
        library.check(getattr(library, api)(handle), api, "close an array")


class IntArray(NumberArray):
    """An aclIntArray of int64."""

    __slots__ = ()
    c_type = "aclIntArray"
    element = "int64_t"


class FloatArray(NumberArray):
    """An aclFloatArray of float32."""

    __slots__ = ()
    c_type = "aclFloatArray"
    element = "float"


class BoolArray(NumberArray):
    """An aclBoolArray."""

    __slots__ = ()
    c_type = "aclBoolArray"
    element = "bool"


class Scalar(Owner):
    """An aclScalar.

    Parameters
    ----------
    value : number
        Must fit the type; the value is copied.
    dtype : DType, str or NumPy dtype
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: DTypeLike) -> None:
        self.value = value
        self.dtype = find_dtype(dtype)
        self._handle = _create_scalar(value, self.dtype)

    def describe(self) -> str:
        """Value and type, for messages."""
        return f"{self.dtype} {self.value}{' (closed)' if self.closed else ''}"

    def __repr__(self) -> str:
        return f"<Scalar {self.describe()}>"

    def _release(self, handle: Any) -> None:
        library = load()
        library.check(library.aclDestroyScalar(handle), "aclDestroyScalar", "close a scalar")


def _create_scalar(value: Any, kind: DType) -> Any:
    library, ffi = load(), abi().ffi
    cell = np.asarray(value).astype(kind.numpy).reshape(())
    if np.asarray(value).dtype.kind in "iub" and kind.numpy.kind in "iub" and int(cell) != int(value):
        raise OverflowError(f"{value} does not fit {kind}")
    handle = library.aclCreateScalar(ffi.cast("void *", cell.ctypes.data), kind.code)
    if handle == ffi.NULL:
        raise null_handle(library, "aclCreateScalar")
    return handle


class ScalarList(Owner):
    """An aclScalarList.

    Parameters
    ----------
    scalars : sequence of Scalar
        The list makes scalars of its own with the same values; the given ones stay independent of it.
    """

    __slots__ = ("scalars",)

    def __init__(self, scalars: Sequence[Scalar]) -> None:
        library, ffi = load(), abi().ffi
        self.scalars = tuple(scalars)
        members: list[Any] = []
        try:
            members.extend(_create_scalar(scalar.value, scalar.dtype) for scalar in self.scalars)
            handle = library.aclCreateScalarList(ffi.new("aclScalar *[]", members), len(members))
            if handle == ffi.NULL:
                raise null_handle(library, "aclCreateScalarList")
        except BaseException:
            for member in members:
                library.aclDestroyScalar(member)
            raise
        self._handle = handle

    def __len__(self) -> int:
        return len(self.scalars)

    def describe(self) -> str:
        """The members in one line, for messages."""
        return f"list of {len(self.scalars)} scalars: {'; '.join(s.describe() for s in self.scalars)}"

    def __repr__(self) -> str:
        return f"<ScalarList {self.describe()}>"

    def _release(self, handle: Any) -> None:
        library = load()
        library.check(library.aclDestroyScalarList(handle), "aclDestroyScalarList", "close a scalar list")

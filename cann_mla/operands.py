"""The other operands of operators: arrays of numbers and scalars."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.binding import abi
from cann_mla.checks import instance, shortened
from cann_mla.dtypes import DType, DTypeLike
from cann_mla.dtypes import dtype as find_dtype
from cann_mla.errors import null_handle
from cann_mla.libraries import load
from cann_mla.runtime.owner import Owner

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class NumberArray(Owner):
    """Base of the arrays: the numbers are copied when the object is made.

    Parameters
    ----------
    values : sequence of numbers
        May be empty, which is not the same as a null array.

    Raises
    ------
    TypeError, OverflowError
        If a value is no number of that kind, or does not fit it.
    """

    __slots__ = ("values",)
    c_type = ""
    element = ""

    def __init__(self, values: Sequence[Any]) -> None:
        library, ffi = load(), abi().ffi
        instance(f"values of {self.c_type}", values, Sequence, np.ndarray)
        self.values = tuple(values)
        try:
            array = ffi.new(f"{self.element}[]", self.values)
            self._check()
        except (TypeError, OverflowError) as error:
            words = f"{self.c_type} takes numbers that fit {self.element}; got {shortened(values)}: {error}"
            raise TypeError(words) if isinstance(error, TypeError) else OverflowError(words) from None
        handle = getattr(library, f"aclCreate{self._suffix()}")(array, len(self.values))
        if handle == ffi.NULL:
            raise null_handle(library, f"aclCreate{self._suffix()}")
        self._handle = handle

    def _check(self) -> None:
        """Refuse what cffi lets pass."""

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

    def _check(self) -> None:
        for value in self.values:
            if math.isfinite(value) and abs(value) > _LARGEST_FLOAT:
                raise OverflowError(f"{shortened(value)} is too large")


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
        Must fit the type; the value is copied. A fraction is rounded to a floating-point type, and refused for an
        integer type.
    dtype : DType, str or NumPy dtype

    Raises
    ------
    TypeError, OverflowError
        If the value is no number of that kind, or does not fit it.
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
    cell = _cell(value, kind)
    handle = library.aclCreateScalar(ffi.cast("void *", cell.ctypes.data), kind.code)
    if handle == ffi.NULL:
        raise null_handle(library, "aclCreateScalar")
    return handle


def _cell(given: Any, kind: DType) -> npt.NDArray[Any]:
    """A number in NumPy's form of a type, without loss but for the rounding of fractions."""
    value: Any = given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given
    is_number = isinstance(value, numbers.Number | np.generic) and not isinstance(value, np.flexible)
    if not is_number:
        raise TypeError(f"a Scalar takes a number; got {type(value).__name__} {shortened(value)}")
    if kind.is_4bit or kind.numpy.kind not in "biufcV" or kind.numpy.names:
        raise TypeError(f"a Scalar of type {kind} cannot be made from a number; give it as FP32")
    if isinstance(value, complex | np.complexfloating) and kind.numpy.kind != "c":
        raise TypeError(f"the complex number {value} does not fit {kind}")
    if kind.numpy.kind in "biu":
        if value != value or value in (math.inf, -math.inf) or int(value) != value:
            raise TypeError(f"a Scalar of type {kind} takes an integer; got {value}")
        low, high = (0, 1) if kind.numpy.kind == "b" else (np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max)
        if not low <= value <= high:
            raise OverflowError(f"{shortened(value)} does not fit {kind}")
        return np.array(int(value), kind.numpy)
    with np.errstate(over="ignore"):
        cell = np.asarray(value, np.complex128 if kind.numpy.kind == "c" else np.float64).astype(kind.numpy)
    if np.isfinite(complex(value)) and not np.isfinite(complex(cell)):
        raise OverflowError(f"{shortened(value)} does not fit {kind}")
    return cell


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
        instance("scalars", scalars, Sequence)
        self.scalars = tuple(scalars)
        for position, scalar in enumerate(self.scalars):
            instance(f"scalars[{position}]", scalar, Scalar)
            scalar.handle  # noqa: B018  raises if closed
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

"""How the elements of a tensor lie in memory: view shape, strides, offset, format and storage shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.checks import whole, whole_numbers
from cann_mla.dtypes import DType, DTypeLike, dtype, pack_4bit, unpack_4bit
from cann_mla.formats import nz_pack, nz_storage_shape, nz_unpack

Bytes = npt.NDArray[np.uint8]
NZ = "FRACTAL_NZ"

_MOST = 2**63 - 1


@dataclass(frozen=True)
class Layout:
    """Where each element of a tensor lies, in elements from the start of its memory.

    Attributes
    ----------
    shape : tuple of int
        The view shape.
    dtype : DType
    strides : tuple of int or None
        In elements; None for a dense view in row-major order.
    offset : int
        In elements.
    format : str
        End of an ``ACL_FORMAT_`` name.
    storage_shape : tuple of int
        Shape of the memory behind the view.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None
    offset: int
    format: str
    storage_shape: tuple[int, ...]

    @classmethod
    def make(
        cls,
        shape: Sequence[int],
        element: DTypeLike,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        format: str = "ND",
        storage_shape: Sequence[int] | None = None,
    ) -> Layout:
        """Fill in what is not given.

        The storage shape of a matrix in FRACTAL_NZ is its block shape, rounded up to whole blocks; otherwise it is
        the view shape, or one dimension where the view reaches over more: CANN takes a view that leaves its storage,
        and reads elsewhere.

        Raises
        ------
        TypeError
            If a size, stride or offset is no integer.
        ValueError
            If one does not fit int64, or the parts contradict each other.
        """
        kind = dtype(element)
        view = whole_numbers("shape", shape)
        steps = None if strides is None else whole_numbers("strides", strides)
        if steps is not None and len(steps) != len(view):
            raise ValueError(f"strides {steps} do not fit the shape {view}: give one stride a dimension")
        whole("offset", offset)
        if offset < 0:
            raise ValueError(
                f"offset is {offset}; it counts elements from the start of the memory, so it is not negative"
            )
        if storage_shape is not None:
            storage = whole_numbers("storage_shape", storage_shape)
        elif format == NZ and len(view) == 2:
            storage = nz_storage_shape(view, kind)
        else:
            storage = view
        layout = cls(view, kind, steps, int(offset), format, storage)
        if min(view, default=1) > 0 and (below := layout.offset + layout._reach(-1)) < 0:
            raise ValueError(
                f"shape {view} with strides {steps} and offset {offset} reaches {-below} elements before the start of "
                "the memory; a view with a negative stride starts at a larger offset"
            )
        # A view that reaches further than C can say fits into no memory; it is CANN's to refuse.
        if storage_shape is None and prod(storage) < layout.extent <= _MOST:
            layout = replace(layout, storage_shape=(layout.extent,))
        return layout

    @property
    def numel(self) -> int:
        """Elements of the view."""
        return prod(self.shape)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides, also of a dense view."""
        return dense_strides(self.shape) if self.strides is None else self.strides

    @property
    def dense(self) -> bool:
        """Whether the view is the start of the memory in row-major order."""
        return self.offset == 0 and self.element_strides == dense_strides(self.shape)

    @property
    def blocked(self) -> bool:
        """Whether row-major matrices have to be packed into FRACTAL_NZ on their way into memory."""
        return (
            self.format == NZ
            and len(self.shape) >= 2
            and self.dense
            and self.storage_shape == nz_storage_shape(self.shape, self.dtype)
        )

    @property
    def extent(self) -> int:
        """Elements of memory that the storage and the view reach over."""
        reach = 0
        if self.numel:
            reach = 1 + self.offset + self._reach(1)
        return max(prod(self.storage_shape), reach)

    def _reach(self, sign: int) -> int:
        """Elements from the first one to the farthest one behind it (sign 1), or to that before it (-1)."""
        ends = ((size - 1) * step for size, step in zip(self.shape, self.element_strides, strict=True))
        return sum(end for end in ends if end * sign > 0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the storage and the view reach over."""
        return self.dtype.storage_bytes(self.extent)

    def pack(self, array: npt.NDArray[Any]) -> Bytes:
        """Bytes of the memory that holds an array in this layout; elements outside of the view are zero.

        Raises
        ------
        ValueError, TypeError
            If the array has another shape or type.
        """
        if array.shape != self.shape:
            raise ValueError(f"the array has shape {array.shape}, the tensor {self.shape}")
        if dtype(array.dtype) is not self.dtype:
            raise TypeError(
                f"the array is {dtype(array.dtype)}, the tensor {self.dtype}; convert it with "
                "array.astype, or from bit patterns with cann_mla.dtypes.from_bits"
            )
        if self.blocked:
            flat = nz_pack(array).reshape(-1)
        elif self.dense:
            flat = np.ascontiguousarray(array).reshape(-1)
        else:
            flat = np.zeros(self.extent, array.dtype)
            view = self._view(flat)
            view[...] = array
            if view.tobytes() != array.tobytes():
                raise ValueError(
                    f"strides {self.element_strides} put several elements of the shape {self.shape} at one place, "
                    "where the array has different values"
                )
        if flat.size < self.extent:
            flat = np.concatenate([flat, np.zeros(self.extent - flat.size, flat.dtype)])
        return pack_4bit(flat) if self.dtype.is_4bit else flat.view(np.uint8)

    def unpack(self, memory: Bytes) -> npt.NDArray[Any]:
        """The view's elements out of its memory, as a new row-major array in NumPy's form of the type."""
        packed = self.dtype.is_4bit
        flat = unpack_4bit(memory, self.dtype, (self.extent,)) if packed else memory.view(self.dtype.numpy)
        if self.blocked:
            return nz_unpack(flat, self.shape)
        dense: npt.NDArray[Any] = self._view(flat).copy()
        return dense

    def _view(self, flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.numel == 0:
            return np.zeros(self.shape, flat.dtype)
        steps = tuple(step * flat.itemsize for step in self.element_strides)
        # Not as_strided, which rebuilds the type from its description: ml_dtypes' FLOAT8_E5M2 has none NumPy can read.
        view: npt.NDArray[Any] = np.ndarray(self.shape, flat.dtype, flat, self.offset * flat.itemsize, steps)
        return view


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))

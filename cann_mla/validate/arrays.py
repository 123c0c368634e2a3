"""A case's operands as arrays: from `.npz` files, from their description, and in device storage order.

Three forms of one operand occur:

* the file form: bit patterns, as `.npz` files hold them;
* the NumPy form of its view shape, which the reference takes (`cann_mla.dtypes`); a FRACTAL_NZ operand of
  2-D shape, or with the storage shape of blocks, is the logical row-major matrix;
* the storage form: the elements in the order of device memory, one-dimensional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import dtype, from_bits, to_bits
from cann_mla.formats import nz_pack, nz_storage_shape, nz_unpack
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.data import DataError, default_data, fill

Array = NDArray[Any]


def read_npz(path: str | Path) -> dict[str, Array]:
    """Arrays of a file by name; nothing pickled is ever loaded.

    Raises
    ------
    DataError
        The file is no `.npz`, or holds an array that NumPy wrote but cannot read.
    """
    found: dict[str, Array] = {}
    with _open_npz(path) as archive:
        for name in archive.files:
            try:
                found[name] = archive[name]
            except ValueError as error:  # Python objects, or the header that NumPy writes for float8_e5m2
                raise DataError(
                    f"{path}: {name} cannot be read: {error}. Types that NumPy lacks are saved as bit patterns: "
                    f"{name}.view(numpy.uint8), or cann_mla.dtypes.to_bits({name})"
                ) from None
    return found


def _open_npz(path: str | Path) -> Any:
    with Path(path).open("rb") as file:
        if not is_zipfile(file):
            raise DataError(f"{path} is no .npz file, which numpy.savez(path, name=array) writes")
    return np.load(path, allow_pickle=False)


def npz_names(path: str | Path) -> list[str]:
    """Names of a file's arrays; none of them is read.

    Raises
    ------
    DataError
        The file is no `.npz`.
    """
    with _open_npz(path) as archive:
        return list(archive.files)


def write_npz(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write operands in NumPy form as the bit patterns of the npz convention."""
    bits: dict[str, Any] = {name: to_bits(array) for name, array in arrays.items()}
    with Path(path).open("wb") as file:  # given a name, NumPy would append .npz to it
        np.savez(file, **bits)


def case_files(case: Case) -> dict[str, Array]:
    """The arrays of `inputs_npz`, those that the case names."""
    wanted = {name for name, _ in case.specs()}
    found: dict[str, Array] = {}
    for file in case.inputs_npz:
        found.update((name, array) for name, array in read_npz(case.folder / file).items() if name in wanted)
    return found


def from_file(name: str, bits: Array, spec: TensorSpec) -> Array:
    """The NumPy form of an operand that an `.npz` holds.

    Raises
    ------
    DataError
        Type or shape are not those of the case.
    """
    if bits.dtype.kind == "V" and bits.dtype.names is None:
        raise DataError(
            f"{name}: the file holds raw bytes ({bits.dtype.str}), as NumPy saves an array of an ml_dtypes type: the "
            f"type is lost. Save its bit patterns: {_saved_bits(name, spec.dtype)} or cann_mla.dtypes.to_bits({name})"
        )
    try:
        array = from_bits(bits, spec.dtype, spec.shape if dtype(spec.dtype).bits == 4 else None)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {error}") from None
    if array.shape != spec.shape:
        raise DataError(f"{name}: the file holds shape {list(array.shape)}, the case says {list(spec.shape)}")
    return array


def _saved_bits(name: str, dtype_name: str) -> str:
    kind = dtype(dtype_name)
    if kind.bits == 4:
        return f"cann_mla.dtypes.pack_4bit({name})"
    return f"{name}.view(numpy.{f'uint{kind.bits}' if kind.numpy.isbuiltin != 1 else kind.numpy.name})"


def make_operands(
    case: Case, *, is_output: Callable[[str], bool], given: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """All operands of a case in NumPy form, by array name (`name`, or `name.i` in a list).

    Parameters
    ----------
    is_output
        Whether a C parameter is a pure output; those start as zeros.
    given
        Arrays in file form that replace the case's own data (``--inputs``).

    Raises
    ------
    DataError
        Data that does not fit its tensor, or an alias that leads nowhere.
    """
    files = {**case_files(case), **(given or {})}
    specs = dict(case.specs())
    arrays: dict[str, Array] = {}
    for name, spec in specs.items():
        if spec.alias is None:
            arrays[name] = _own_array(case, name, spec, files.get(name), is_output)
    for name, spec in specs.items():
        if spec.alias is not None:
            base = alias_base(case, name)
            arrays[name] = from_storage(to_storage(arrays[base], specs[base]), spec)
    return arrays


def _own_array(case: Case, name: str, spec: TensorSpec, bits: Array | None, is_output: Callable[[str], bool]) -> Array:
    if bits is not None:
        array = from_file(name, bits, spec)
    else:
        stem = name.split(".")[0]
        data = spec.data or default_data(stem, spec.dtype, output=is_output(stem))
        array = fill(data, seed=case.seed, name=name, shape=spec.shape, dtype_name=spec.dtype)
    # Elements of an overlapping view share memory: what a reader sees is what the last write left.
    return from_storage(to_storage(array, spec), spec) if spec.strides is not None else array


def alias_base(case: Case, name: str) -> str:
    """Array name of the tensor that owns the storage which `name` shares.

    Raises
    ------
    DataError
        The alias names no tensor, or another alias.
    """
    spec = dict(case.specs())[name]
    entry = name.partition(".")[2]
    specs = dict(case.specs())
    for base in (f"{spec.alias}.{entry}", str(spec.alias)):
        if base in specs and specs[base].alias is None:
            return base
    raise DataError(f"{name}: alias {spec.alias!r} names no tensor of the case that has its own storage")


def storage_shape(spec: TensorSpec) -> tuple[int, ...]:
    """The storage shape of a case's tensor, given or by the rule of the case format."""
    if spec.storage_shape is not None:
        return spec.storage_shape
    if spec.format == "FRACTAL_NZ" and len(spec.shape) == 2:
        return nz_storage_shape(spec.shape, spec.dtype)
    return spec.shape


def is_logical_matrix(spec: TensorSpec) -> bool:
    """Whether the NumPy form is a row-major matrix, or several, that device memory holds in FRACTAL_NZ order."""
    if spec.format != "FRACTAL_NZ" or len(spec.shape) < 2:
        return False
    return len(spec.shape) == 2 or spec.storage_shape == nz_storage_shape(spec.shape, spec.dtype)


def to_storage(array: Array, spec: TensorSpec) -> Array:
    """Elements in device order, one-dimensional, gaps of a strided view zero.

    Raises
    ------
    DataError
        The view leaves its storage.
    """
    if is_logical_matrix(spec):
        return nz_pack(array).reshape(-1)
    if spec.strides is None and spec.offset == 0:
        return np.ascontiguousarray(array).reshape(-1)
    storage = np.zeros(max(prod(storage_shape(spec)), _reach(spec)), array.dtype)
    _strided(storage, spec)[...] = array
    return storage


def from_storage(storage: Array, spec: TensorSpec) -> Array:
    """The inverse of `to_storage`; a storage of another dtype (an alias) is reinterpreted."""
    storage = storage.view(dtype(spec.dtype).numpy)
    if is_logical_matrix(spec):
        return nz_unpack(storage, spec.shape)
    if spec.strides is None and spec.offset == 0:
        return storage[: spec.numel].reshape(spec.shape)
    return np.array(_strided(storage, spec))


def logical_matrix(array: Array, spec: TensorSpec) -> Array:
    """FRACTAL_NZ operands as the reference wants them: the logical matrix, also where the view is 4-D."""
    if spec.format != "FRACTAL_NZ" or len(spec.shape) != 4 or is_logical_matrix(spec):
        return array
    columns, rows, block_rows, c0 = spec.shape
    return nz_unpack(array.reshape(-1), (rows * block_rows, columns * c0))


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _reach(spec: TensorSpec) -> int:
    """Elements from the start of the storage to the end of the view."""
    strides = spec.strides if spec.strides is not None else _dense_strides(spec.shape)
    if spec.numel == 0:
        return spec.offset
    # the stride of a dimension of size 1 leads nowhere
    steps = [(size - 1) * stride for size, stride in zip(spec.shape, strides, strict=True)]
    if min((*steps, spec.offset)) < 0:
        raise DataError(f"strides {list(strides)}, offset {spec.offset}: a view before its storage has no data")
    return spec.offset + sum(steps) + 1


def _strided(storage: Array, spec: TensorSpec) -> Array:
    if _reach(spec) > storage.size:
        raise DataError(f"view of shape {list(spec.shape)} leaves its storage of {storage.size} elements")
    strides = spec.strides if spec.strides is not None else _dense_strides(spec.shape)
    steps = tuple(stride * storage.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(storage[spec.offset :], spec.shape, steps)

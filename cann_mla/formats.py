"""FRACTAL_NZ: the blocked storage in which Ascend's matrix unit wants weights.

A logical matrix (K, M) is cut into columns of blocks, each 16 rows by C0 elements, where C0 elements
are 32 bytes. Storage shape: (ceil(M / C0), ceil(K / 16), 16, C0). Element (k, m) lies at
``[m // C0, k // 16, k % 16, m % C0]``; whatever fills up the last blocks is zero.

Source: CANN, "FRACTAL_NZ" in the description of data layouts; ``aclnnMlaPrologV3WeightNz``.
"""

from __future__ import annotations

import numpy as np

from cann_mla.dtypes import Array, DTypeLike, dtype

BLOCK_ROWS = 16
BLOCK_BYTES = 32


def nz_block_columns(element: DTypeLike) -> int:
    """C0: elements in one row of a block (16 for BF16, 32 for one-byte types, 64 for four-bit types)."""
    return BLOCK_BYTES * 8 // dtype(element).bits


def nz_storage_shape(shape: tuple[int, ...], element: DTypeLike) -> tuple[int, ...]:
    """Storage shape of a logical matrix; leading dimensions stay as they are.

    Parameters
    ----------
    shape : tuple of int
        (..., K, M).
    element : DType or str

    Returns
    -------
    tuple of int
        (..., ceil(M / C0), ceil(K / 16), 16, C0).

    Raises
    ------
    ValueError
        If the shape has fewer than two dimensions.
    """
    if len(shape) < 2:
        raise ValueError(f"FRACTAL_NZ needs a matrix, at least two dimensions; got shape {tuple(shape)}")
    *outer, rows, columns = shape
    c0 = nz_block_columns(element)
    return (*outer, -(-columns // c0), -(-rows // BLOCK_ROWS), BLOCK_ROWS, c0)


def nz_pack(array: Array) -> Array:
    """Put a row-major matrix into FRACTAL_NZ order, or each of several.

    Parameters
    ----------
    array : ndarray, shape (..., K, M)
        Any CANN type in its NumPy form. Four-bit types stay one element an item, with the block width of
        their device form.

    Returns
    -------
    ndarray, shape (..., ceil(M / C0), ceil(K / 16), 16, C0)
        A new array, zero where a matrix does not reach.

    Raises
    ------
    ValueError
        If the array has less than two dimensions.
    """
    shape = nz_storage_shape(array.shape, array.dtype)
    rows, columns = array.shape[-2:]
    fits = rows % BLOCK_ROWS == 0 and columns % shape[-1] == 0
    blocks = np.empty(shape, array.dtype) if fits else np.zeros(shape, array.dtype)
    for index in np.ndindex(array.shape[:-2]):
        _pack_matrix(array[index], blocks[index])
    return blocks


def _pack_matrix(array: Array, blocks: Array) -> None:
    rows, columns = array.shape
    c0 = blocks.shape[-1]
    whole = columns // c0 * c0
    if whole:
        target, source = _block_rows(blocks, rows)[: whole // c0], _whole_blocks(array, whole, c0)
        for first in _strips(rows):
            target[:, first : first + BLOCK_ROWS] = source[first : first + BLOCK_ROWS].T
    if whole < columns:
        blocks[-1].reshape(-1, c0)[:rows, : columns - whole] = array[:, whole:]


def nz_unpack(array: Array, shape: tuple[int, ...]) -> Array:
    """Row-major matrix of the given logical shape, or several of them, out of FRACTAL_NZ order.

    Parameters
    ----------
    array : ndarray
        As many elements as the storage shape of `shape` has, in that order, under any shape.
    shape : tuple of int
        (..., K, M).

    Returns
    -------
    ndarray, shape (..., K, M)
        A new array.

    Raises
    ------
    ValueError
        If the number of elements is not that of the storage shape.
    """
    blocks_shape = nz_storage_shape(shape, array.dtype)
    if array.size != np.prod(blocks_shape, dtype=np.int64):
        raise ValueError(
            f"a matrix of shape {tuple(shape)} and type {array.dtype} takes storage shape {blocks_shape}; "
            f"the array given has shape {array.shape}, {array.size} elements"
        )
    blocks = np.ascontiguousarray(array).reshape(blocks_shape)
    matrices = np.empty(shape, array.dtype)
    for index in np.ndindex(*shape[:-2]):
        _unpack_matrix(blocks[index], matrices[index])
    return matrices


def _unpack_matrix(blocks: Array, matrix: Array) -> None:
    rows, columns = matrix.shape
    c0 = blocks.shape[-1]
    whole = columns // c0 * c0
    if whole:
        target, source = _whole_blocks(matrix, whole, c0), _block_rows(blocks, rows)[: whole // c0]
        for first in _strips(rows):
            target[first : first + BLOCK_ROWS] = source[:, first : first + BLOCK_ROWS].T
    if whole < columns:
        matrix[:, whole:] = blocks[-1].reshape(-1, c0)[:rows, : columns - whole]


# The row of a block is moved as one item, whatever its elements are, and one row of blocks at a time: four
# times as fast as a transposed copy of single elements, because every cache line is touched once.


def _strips(rows: int) -> range:
    return range(0, rows, BLOCK_ROWS)


def _whole_blocks(matrix: Array, whole: int, c0: int) -> Array:
    """View of shape (K, whole blocks) whose items are the rows of blocks."""
    if matrix.strides[1] != matrix.itemsize:
        matrix = np.ascontiguousarray(matrix)
    return matrix[:, :whole].view(np.dtype((np.void, c0 * matrix.itemsize)))


def _block_rows(blocks: Array, rows: int) -> Array:
    """View of shape (columns of blocks, K) whose items are the rows of blocks."""
    item = np.dtype((np.void, blocks.shape[-1] * blocks.itemsize))
    return blocks.view(item).reshape(blocks.shape[0], -1)[:, :rows]

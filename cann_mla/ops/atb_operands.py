"""What the documented ATB operators share: operands that ATB would take wrongly are refused, masks are kept.

ATB checks dtypes and most shapes, but neither the content of what it reads on the host or device, nor, often, sizes
that must agree with a parameter. What it would compute wrongly without a word is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cann_mla.checks import whole_numbers
from cann_mla.dtypes import BF16, FP16, INT32, DType, DTypeLike, dtype
from cann_mla.ops.call import Operand, check_rank
from cann_mla.runtime.device import state_of
from cann_mla.runtime.owner import cached
from cann_mla.tensor import Tensor

FP16_HIDDEN = -1e4
_LONGEST = 2**31 - 1


def half(name: str, kind: DTypeLike) -> DType:
    """The dtype, if it is FP16 or BF16.

    Raises
    ------
    ValueError
        For another dtype.
    """
    found = dtype(kind)
    if found not in (FP16, BF16):
        raise ValueError(f"{name} must be FP16 or BF16, not {found}")
    return found


def check_operand(name: str, operand: Operand, kind: DType, *shapes: Sequence[int]) -> None:
    """Refuse an operand of another dtype, or of none of the shapes.

    Raises
    ------
    TypeError, ValueError
    """
    check_rank(name, operand, *sorted({len(shape) for shape in shapes}))
    if tuple(operand.shape) not in [tuple(shape) for shape in shapes] or dtype(operand.dtype) is not kind:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"{name} must be {kind} {wanted} here, not {dtype(operand.dtype)} {list(operand.shape)}")


def check_blocked(name: str, operand: Operand) -> None:
    """Refuse a tensor whose blocks are not called so; an array becomes FRACTAL_NZ on its way.

    Raises
    ------
    ValueError
    """
    if isinstance(operand, Tensor) and operand.format != "FRACTAL_NZ":
        raise ValueError(
            f"{name} of shape {list(operand.shape)} must have the format FRACTAL_NZ, not {operand.format}; make it "
            f'with format="FRACTAL_NZ", or give {name}.view(format="FRACTAL_NZ")'
        )


def lengths_of_sequences(name: str, lengths: Sequence[int], least: int) -> tuple[int, ...]:
    """Lengths as integers, each at least `least`.

    Raises
    ------
    TypeError
        If they are no integers, or a Tensor: ATB reads them on the host, when the call is queued.
    ValueError
    """
    if isinstance(lengths, Tensor):
        raise TypeError(f"{name} is read on the host when the call is queued; give a sequence of integers")
    try:
        numbers = whole_numbers(name, lengths)
    except TypeError as error:
        raise TypeError(f"{name} must hold one integer for every sequence: {error}") from None
    if max(numbers, default=0) > _LONGEST:
        raise ValueError(f"{name} holds {max(numbers)}; ATB reads lengths of 32 bits, up to {_LONGEST}")
    if not numbers or min(numbers) < least:
        raise ValueError(f"{name} must hold one length of at least {least} for every sequence, not {list(numbers)}")
    return numbers


def check_block_tables(
    tables: Operand, lengths: Sequence[int], block_size: int, block_count: int, *, holes: bool = False
) -> None:
    """Refuse block tables that lack a block of a sequence or, as an array, name one that the cache does not have.

    Parameters
    ----------
    tables : Tensor or ndarray of INT32, shape (B, blocks a sequence)
    lengths : sequence of int
        Rows of every sequence.
    block_size, block_count : int
        Of the cache.
    holes : bool
        Negative numbers are allowed.

    Raises
    ------
    TypeError, ValueError
    """
    if block_size < 1:
        raise ValueError("the cache has blocks of 0 rows; there is nothing to read")
    needed = [-(-n // block_size) for n in lengths]
    check_rank("block_tables", tables, 2)
    if dtype(tables.dtype) is not INT32:
        raise ValueError(f"block_tables must be INT32, not {dtype(tables.dtype)}")
    if tables.shape[0] != len(needed) or tables.shape[1] < max(needed):
        raise ValueError(
            f"block_tables has shape {list(tables.shape)}; {len(needed)} sequences of up to {max(lengths)} rows need "
            f"[{len(needed)}, {max(needed)}] or more columns"
        )
    if isinstance(tables, np.ndarray):
        for number, (row, count) in enumerate(zip(tables, needed, strict=True)):
            used = row[:count]
            if count and (used.max() >= block_count or (used.min() < 0 and not holes)):
                raise ValueError(
                    f"block_tables: sequence {number} has the blocks {used.tolist()}, the cache has {block_count}"
                )


def triangle(kind: DType, size: int) -> npt.NDArray[Any]:
    """What hides later keys in a square: 1 in BF16, which kernels multiply by -3e38, and -10000 in FP16."""
    hidden = 1.0 if kind is BF16 else FP16_HIDDEN
    return np.triu(np.full((size, size), hidden, np.float32), k=1).astype(kind.numpy)


def check_triangle_values(mask: Operand, kind: DType) -> None:
    """Refuse a mask array in the convention of the other dtype.

    Raises
    ------
    ValueError
    """
    if not isinstance(mask, np.ndarray):
        return
    values = mask.astype(np.float32)
    if kind is BF16 and not np.isin(values, (0, 1)).all():
        raise ValueError("a BF16 mask holds 1 where a key is hidden and 0 elsewhere: the kernel multiplies it by -3e38")
    if kind is not BF16 and (values.max() > 0 or np.isnan(values).any()):
        raise ValueError("an FP16 mask is added to the scores: it holds -10000 where a key is hidden and 0 elsewhere")


_constants: dict[tuple[int, Hashable], Tensor] = {}


def device_constant(device: int, key: Hashable, make: Callable[[], npt.NDArray[Any]]) -> Tensor:
    """A tensor that never changes, made once a device and closed with it.

    Parameters
    ----------
    device : int
    key : hashable
        What it is.
    make : callable
        Its content, called at the first use.
    """
    state = state_of(device)
    found = _constants.get((device, key))
    if found is None or found.closed or found._state is not state:
        found = _constants[device, key] = Tensor.from_numpy(make(), device=device)
        cached.add(found)
    return found

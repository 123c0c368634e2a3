"""What the documented operator functions share: arrays become operands, outputs are made, all is given back.

No argument list is spelled here: which C parameter a Python name stands for, and what it is for, comes from the
operator's prototype.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

import cann_mla
from cann_mla.checks import instance
from cann_mla.dtypes import dtype
from cann_mla.headers import Role
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor, TensorList

Operand = Tensor | npt.NDArray[Any]
"""A tensor on the device, or an array that is copied there for the call."""
Operands = Operand | TensorList | Sequence[Operand]
"""What an operator takes as a list of tensors; a single one makes a list of one."""


def snake_case(c_name: str) -> str:
    """The Python name of a C parameter: ``cacheIndexOptional`` -> ``cache_index``, ``queryOut`` -> ``query``."""
    base = re.sub(r"(?<=.)(Ref|Out)?(Optional)?$", "", c_name) or c_name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()


def check_rank(name: str, operand: Operand, *allowed: int) -> None:
    """Refuse what is no operand, or has another number of dimensions than those allowed."""
    if not isinstance(operand, Tensor | np.ndarray):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, not {type(operand).__name__}")
    if len(operand.shape) not in allowed:
        ways = " or ".join(map(str, allowed))
        raise ValueError(f"{name} has shape {tuple(operand.shape)}; it must have {ways} dimensions")


def _span(tensor: Tensor) -> range:
    """The addresses that a dense tensor covers; of a strided one nothing is said."""
    start = tensor.address if tensor.layout.dense else 0
    return range(start, start + (tensor.layout.nbytes if start else 0))


class OperatorCall:
    """The operands of one call of an operator.

    Parameters
    ----------
    symbol : str
        C symbol of phase two.
    stream : Stream
        Where the call is queued; its device holds what is made here.

    Notes
    -----
    Tensors that the call made of arrays are closed when it ends; their memory outlives the queued work. Tensors
    given by the caller stay the caller's. New outputs belong to whoever gets the result; if the call fails, they
    are closed.
    """

    def __init__(self, symbol: str, stream: Stream) -> None:
        instance("stream", stream, Stream)
        self._operator = cann_mla.operator(symbol)
        self._parameters = {snake_case(p.name): p for p in self._operator.signature.operands}
        self._stream = stream
        self._arguments: dict[str, Any] = {}
        self._inputs = ExitStack()
        self._copied: dict[tuple[int, str], Tensor] = {}
        self._outputs = ExitStack()
        self._written_back: list[tuple[Tensor, npt.NDArray[Any]]] = []
        self._given_outputs: dict[str, str | None] = {}

    def __enter__(self) -> OperatorCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._inputs.close()
        finally:
            if kind is not None:
                self._outputs.close()

    def give(self, values: Mapping[str, Any], *, packed: Collection[str] = ()) -> None:
        """Give operands and host arguments by their Python names; None leaves one null.

        What is a list of tensors in C may be one operand or a sequence of them.

        Arrays are copied to the device; those named in `packed` are packed to FRACTAL_NZ on the way. An array for
        an operand that the operator updates is updated too: :meth:`run` then waits for the stream.
        """
        for name, value in values.items():
            if value is None:
                continue
            parameter = self._parameters[name]
            if parameter.role is Role.ATTRIBUTE:
                self._arguments[parameter.name] = value
                continue
            if parameter.pointee == "aclTensorList":
                self._arguments[parameter.name] = self._list(name, value)
                continue
            tensor = self._on_device(name, value, "FRACTAL_NZ" if name in packed else "ND")
            self._arguments[parameter.name] = tensor
            if parameter.role is Role.INPLACE:
                self._write_back(name, tensor, value)

    def update(self, name: str, output: str, value: Operand, *, packed: bool = False) -> None:
        """Give an operand that C wants twice, as an input and as the output that it becomes."""
        tensor = self._on_device(name, value, "FRACTAL_NZ" if packed else "ND")
        self._arguments[self._parameters[name].name] = self._arguments[self._parameters[output].name] = tensor
        self._write_back(name, tensor, value)

    def output(
        self, name: str, given: Tensor | None, shape: Sequence[int], element: str, *, replaces: str | None = None
    ) -> Tensor:
        """Give an output: the caller's tensor, or a new one. It may lie where the operand does that it replaces."""
        if given is not None:
            self._given_outputs[name] = replaces
        if given is None:
            given = self._outputs.enter_context(Tensor.empty(shape, element, device=self._stream.device))
        instance(name, given, Tensor)
        if (given.shape, given.dtype) != (tuple(shape), dtype(element)):
            raise ValueError(
                f"{name} must be {element} {list(shape)} here; the tensor given is {given.dtype} {list(given.shape)}"
            )
        self._arguments[self._parameters[name].name] = given
        return given

    def copy(self, operand: Operand) -> Operand:
        """A copy that the call may change: of a tensor on the stream, for the result; of an array at once."""
        if isinstance(operand, Tensor):
            return self._outputs.enter_context(operand.copy(stream=self._stream))
        return np.array(operand)

    def on_host(self, name: str, values: npt.NDArray[Any]) -> Tensor:
        """Give an operand that C reads on the host, in phase one."""
        tensor = self._inputs.enter_context(Tensor.from_numpy(values, device=self._stream.device, host=True))
        self._arguments[self._parameters[name].name] = tensor
        return tensor

    def run(self) -> None:
        """Both phases. Returns when the work is queued; with arrays to update, when it is done.

        Raises
        ------
        ValueError
            If an operand of an ATB operator is a strided view, or has no memory; if an output that was given shares
            memory with another operand.
        CannError
            If CANN refuses.
        """
        if self._operator.signature.with_role(Role.CONTEXT):
            self._check_memory()
        self._check_outputs()
        self._operator(stream=self._stream, **self._arguments)
        if self._written_back:
            self._stream.synchronize()
        for tensor, array in self._written_back:
            array[...] = tensor.to_numpy()
        self._outputs.pop_all()

    def _check_memory(self) -> None:
        """Refuse what ATB would read as if it had no strides and began with its memory, or read at address 0."""
        for name, value in self._arguments.items():
            if not isinstance(value, Tensor):
                continue
            if value.memory is None:
                raise ValueError(f"{name} has no memory ({value.describe()}), which ATB does not notice")
            if not value.layout.dense:
                raise ValueError(
                    f"{name} is a strided view ({value.describe()}), but ATB reads the memory from its start, element "
                    "by element; make a copy of it"
                )

    def _check_outputs(self) -> None:
        """Refuse outputs over other operands: the kernel writes one part while it still reads another."""
        for name, replaced in self._given_outputs.items():
            c_name = self._parameters[name].name
            own = _span(self._arguments[c_name])
            for other, value in self._arguments.items():
                if other == c_name or not isinstance(value, Tensor):
                    continue
                span = _span(value)
                in_place = replaced is not None and other == self._parameters[replaced].name and span == own
                if span.start < own.stop and own.start < span.stop and not in_place:
                    raise ValueError(f"{c_name} shares memory with {other}, which it would overwrite; give it its own")

    def _write_back(self, name: str, tensor: Tensor, value: Operand) -> None:
        if not isinstance(value, np.ndarray):
            return
        if not value.flags.writeable:
            raise ValueError(f"{name} is updated in place, but the array is read-only; give a writable copy")
        self._written_back.append((tensor, value))

    def _list(self, name: str, value: Operands) -> TensorList | list[Tensor]:
        if isinstance(value, TensorList):
            return value
        members = list(value) if isinstance(value, Sequence) else [value]
        return [self._on_device(f"{name}[{i}]", member, "ND") for i, member in enumerate(members)]

    def _on_device(self, name: str, value: Operand, format: str) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{name} must be a Tensor or a NumPy array, not {type(value).__name__}")
        # An array given twice (a latent cache as key and as value) is one tensor twice.
        known = (id(value), format)
        if known not in self._copied:
            tensor = Tensor.from_numpy(value, device=self._stream.device, format=format, stream=self._stream)
            self._copied[known] = self._inputs.enter_context(tensor)
        return self._copied[known]

"""Calls of the aclnn primitives on the simulator, described as cases and judged by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import HIFLOAT8, hifloat8_decode
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.run import run_case
from cann_mla.validate.signatures import roles_of

PRODUCTS = ("Ascend910B", "Ascend910_93", "Ascend950")

Array = np.ndarray[Any, Any]


def tensor(dtype: str, values: Any, **layout: Any) -> TensorSpec:
    """An operand with these values."""
    array = np.asarray(values)
    data = {"dist": "values", "values": array.ravel().tolist()}
    return TensorSpec(array.shape, dtype, data=data, **layout)


def space(dtype: str, *shape: int, **layout: Any) -> TensorSpec:
    """An output, or an operand of which only the description matters."""
    return TensorSpec(shape, dtype, data={"dist": "zeros"}, **layout)


@dataclass
class Result:
    status: int | None
    message: str
    outputs: dict[str, Array] = field(default_factory=dict)

    def numbers(self, name: str) -> list[Any]:
        """An output as nested lists of Python numbers; HIFLOAT8 is decoded."""
        array = self.outputs[name]
        if array.dtype == HIFLOAT8.numpy:
            array = hifloat8_decode(array)
        return array.astype(np.float64 if array.dtype.kind not in "iub" else array.dtype).tolist()


def call(op: str, soc: str = "Ascend910B", attrs: dict[str, Any] | None = None, **operands: Any) -> Result:
    """Both phases of one call; `attrs` are the arguments that are no tensors."""
    roles = roles_of(op)
    case = Case(op, op, soc, operands, attrs or {})
    arrays = make_operands(case, is_output=roles.is_output, given=None)
    outcome = run_case(case, arrays, roles, "sim")
    return Result(outcome.status, outcome.message, outcome.outputs)


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    return call


@pytest.fixture(params=PRODUCTS)
def soc(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def t() -> Callable[..., TensorSpec]:
    return tensor


@pytest.fixture(scope="session")
def out() -> Callable[..., TensorSpec]:
    return space

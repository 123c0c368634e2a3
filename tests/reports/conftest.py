"""Public bug reports as small calls: run on the simulator and on the reference, as data of the case format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt
import pytest

from cann_mla.validate.cases import parse
from cann_mla.validate.run import run_alone
from cann_mla.validate.status_only import phase_statuses
from cann_mla.validate.verify import Options

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(params=["sim", "reference"])
def outputs(request: pytest.FixtureRequest) -> Callable[..., Arrays]:
    """Outputs of a legal call by C name, by way of the C ABI and by way of the reference."""

    def run(op: str, tensors: Mapping[str, Any], attrs: Mapping[str, Any], soc: str = "Ascend910B") -> Arrays:
        case = parse({"id": "report", "op": op, "soc": soc, "tensors": tensors, "attrs": attrs, "seed": 7})
        record, arrays = run_alone(case, Options(via=request.param))
        assert record["verdict"] == "pass", record["message"]
        return arrays

    return run


@pytest.fixture
def refusal() -> Callable[..., tuple[int | None, int | None, str]]:
    """Status, phase and text with which the simulator answers a call."""

    def ask(op: str, tensors: Mapping[str, Any], attrs: Mapping[str, Any], soc: str = "Ascend910B") -> Any:
        case = parse({"id": "report", "op": op, "soc": soc, "tensors": tensors, "attrs": attrs, "seed": 7})
        outcome = phase_statuses(case, "sim")
        return outcome.status, outcome.phase, outcome.message

    return ask

"""One case through reference and simulator, and the memory each of them takes beyond its operands."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cann_mla.bench.core import Measurement, peak_growth
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case
from cann_mla.validate.golden import run_reference
from cann_mla.validate.signatures import Roles, roles_of

GIB = 1 << 30


@dataclass
class Sides:
    """The two implementations of a case as calls without arguments; operands are made once and shared."""

    case: Case
    roles: Roles
    arrays: dict[str, NDArray[Any]]
    reference: Callable[[], object]
    simulator: Callable[[], object]

    def items(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Name and call of each side."""
        yield "reference", self.reference
        yield "sim", self.simulator

    def output_bytes(self) -> int:
        """Bytes of outputs and in-place operands, which a call must return."""
        return sum(a.nbytes for name, a in self.arrays.items() if self.roles.is_written(name.split(".")[0]))


@contextmanager
def sides(case: Case) -> Iterator[Sides]:
    """Prepare a case on both sides; the simulator's plan may run again and again."""
    from cann_mla.validate.run import Session

    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output)
    with Session("sim").prepare(case, arrays, roles, repeatable=True) as prepared:
        yield Sides(case, roles, arrays, lambda: run_reference(case, arrays, roles, "device"), prepared.run)


def memory_lines(name: str, both: Sides, limit_gib: float) -> Iterator[Measurement]:
    """Peak memory of each side beyond inputs and outputs."""
    of, written = "memory beyond inputs and outputs", both.output_bytes()
    tracemalloc.start()
    both.reference()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    detail = {"output_bytes": written}
    yield Measurement(f"{name}/reference/memory", (peak - written) / GIB, "GiB", of, limit_gib, "lower", detail)
    grown = peak_growth(both.simulator)
    yield Measurement(f"{name}/sim/memory", grown / GIB, "GiB", of, limit_gib, "lower", detail)

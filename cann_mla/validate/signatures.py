"""Which operands a call reads and which it writes: derived from the headers, never written down here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cann_mla.headers import Operator, Role, shipped
from cann_mla.validate.verify import CannotRun

# The one composed operator has no C prototype; its results end with `_out`.
COMPOSED = {"mla_prolog_quant": frozenset({"q_out", "kv_out", "qr_out", "qr_scale_out"})}


@dataclass(frozen=True)
class Roles:
    """C names of an operator's pure outputs and in-place operands, and its prototype where it has one."""

    outputs: frozenset[str]
    inplace: frozenset[str]
    operator: Operator | None = None

    def is_output(self, name: str) -> bool:
        return name in self.outputs

    def is_written(self, name: str) -> bool:
        return name in self.outputs or name in self.inplace


@lru_cache
def roles_of(op: str) -> Roles:
    """Roles of an operator's operands.

    Raises
    ------
    CannotRun
        No shipped header declares `op`.
    """
    if op in COMPOSED:
        return Roles(COMPOSED[op], frozenset())
    operator = shipped.load().operators.get(op)
    if operator is None:
        raise CannotRun(f"no shipped header declares {op}; `cann-mla ops` lists the operators that have one")
    phase_one = operator.get_workspace
    return Roles(
        frozenset(p.name for p in phase_one.with_role(Role.OUTPUT)),
        frozenset(p.name for p in phase_one.with_role(Role.INPLACE)),
        operator,
    )


def check_names(roles: Roles, tensors: object, attrs: object) -> None:
    """Refuse names that the prototype does not have: a misspelt operand must not become a null pointer.

    Raises
    ------
    CannotRun
        Names the parameter and the prototype's own.
    """
    if roles.operator is None:
        return
    known = {p.name for p in roles.operator.get_workspace.operands}
    for kind, names in (("tensor", tensors), ("attribute", attrs)):
        for name in names:  # type: ignore[attr-defined]
            if name not in known:
                allowed = ", ".join(sorted(known))
                raise CannotRun(f"{roles.operator.name} has no {kind} {name!r}; its parameters are {allowed}")

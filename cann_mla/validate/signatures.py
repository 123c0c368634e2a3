"""Which operands a call reads and which it writes: derived from the headers, never written down here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cann_mla.headers import Operator, Role, Signature, shipped
from cann_mla.validate.names import did_you_mean
from cann_mla.validate.verify import CannotRunError

# Composed operators have no C prototype: their outputs.
COMPOSED = {
    "mla_prolog_quant": frozenset({"q_out", "kv_out", "qr_out", "qr_scale_out"}),
    "mla_prolog": frozenset({"q_out", "kv_out", "qr_out"}),
}


@dataclass(frozen=True)
class Roles:
    """C names of an operator's pure outputs and in-place operands, and its prototype where it has one."""

    outputs: frozenset[str]
    inplace: frozenset[str]
    operator: Operator | None = None
    parameters: frozenset[str] = frozenset()

    def is_output(self, name: str) -> bool:
        """Whether a parameter is a pure output."""
        return name in self.outputs

    def is_written(self, name: str) -> bool:
        """Whether a call writes a parameter."""
        return name in self.outputs or name in self.inplace


@lru_cache
def roles_of(op: str) -> Roles:
    """Roles of an operator's operands.

    Raises
    ------
    CannotRunError
        No shipped header declares `op`.
    """
    if op in COMPOSED:
        return Roles(COMPOSED[op], frozenset())
    operator = shipped.load().operators.get(op)
    if operator is None:
        near = did_you_mean(op, [*shipped.load().operators, *COMPOSED])
        raise CannotRunError(f"no shipped header declares {op}{near}; `cann-mla ops` lists the operators that have one")
    phase_one = operator.get_workspace
    return Roles(
        frozenset(p.name for p in phase_one.with_role(Role.OUTPUT)),
        frozenset(p.name for p in phase_one.with_role(Role.INPLACE)),
        operator,
        frozenset(p.name for p in phase_one.operands),
    )


def check_names(roles: Roles, tensors: Iterable[str], attrs: Iterable[str]) -> None:
    """Refuse names that the prototype does not have: a misspelt operand must not become a null pointer.

    Raises
    ------
    CannotRunError
        Names the parameter and the prototype's own.
    """
    if roles.operator is None:
        return
    known = roles.parameters
    for kind, names in (("tensor", tensors), ("attribute", attrs)):
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            allowed = ", ".join(sorted(known))
            raise CannotRunError(
                f"{roles.operator.name} has no {kind} {unknown!r}{did_you_mean(unknown, known)}; "
                f"its parameters are {allowed}"
            )


@lru_cache
def _default_table() -> dict[str, dict[str, object]]:
    text = (Path(__file__).parent / "defaults.json").read_text(encoding="utf-8")
    return {op: family["attrs"] for family in json.loads(text) for op in family["operators"]}


def complete_attrs(op: str, phase_one: Signature, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Host arguments by C name: those of the case, else the documented default, else null for a pointer.

    Raises
    ------
    CannotRunError
        A number has neither.
    """
    defaults = _default_table().get(op, {})
    complete: dict[str, Any] = {}
    for parameter in phase_one.with_role(Role.ATTRIBUTE):
        name = parameter.name
        if name in attrs:
            complete[name] = attrs[name]
        elif name in defaults:
            complete[name] = defaults[name]
        elif parameter.type.endswith("*"):
            complete[name] = None
        else:
            raise CannotRunError(f"attribute {name} of {op} has no documented default: give it in the case")
    return complete

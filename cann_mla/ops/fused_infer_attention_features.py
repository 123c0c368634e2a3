"""What each version of FusedInferAttentionScore has on each product, as a table made of the built-in cases.

A feature is there because a case says so: one that CANN must accept and whose numbers simulator and reference must
agree on, or one that CANN must refuse. Which versions can be asked for it follows from the headers, by the names
that the case gives. ``cann-mla verify`` runs the cases, the tests try each in every version.

Print the table with ``python -m cann_mla.ops.fused_infer_attention_features``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cann_mla
from cann_mla.ops.call import snake_case
from cann_mla.ops.fused_infer_attention_versions import DEFAULTS, VERSIONS, product_versions, symbol, versions_with
from cann_mla.validate.cases import Case, TensorSpec, load

CASES = Path(__file__).parents[1] / "validate/builtin/20_fused_infer_attention.json"
PRODUCTS = ("Ascend910B", "Ascend950")
"""Products with a case of their own; Ascend910_93 answers as Ascend910B does."""


@dataclass(frozen=True)
class Feature:
    """A row of the table.

    Attributes
    ----------
    title : str
    name : str
        Third part of the ids of its cases, the fourth being the product.
    cases : dict of str to Case
        By product: accepted (status 0) or refused.
    """

    title: str
    name: str
    cases: Mapping[str, Case]

    def versions(self) -> tuple[int, ...]:
        """The versions whose prototypes have everything that the cases ask for."""
        having = set(VERSIONS)
        for case in self.cases.values():
            for name, value in arguments(case).items():
                if name not in ("attention", "softmax_lse") and DEFAULTS.get(name) != value:
                    having &= {v for v in VERSIONS if v in versions_with(name)}
        return tuple(sorted(having))

    def answer(self, version: int) -> str:
        """``yes``, ``refused`` (with its status), or ``-`` where the prototype lacks it."""
        if version not in self.versions():
            return "-"
        product = next(p for p in PRODUCTS if version in product_versions(p))
        status = self.cases[product].status
        return "yes" if status == 0 else f"refused, {status}"

    def case_for(self, version: int, product: str) -> Case:
        """The case as a call of another version, or on another product that runs the same versions."""
        known = {snake_case(p.name): p.name for p in cann_mla.operator(symbol(version)).signature.operands}
        own = self.cases["Ascend950" if product == "Ascend950" else "Ascend910B"]
        tensors = {known[snake_case(n)]: operand for n, operand in own.tensors.items()}
        attrs = {known[snake_case(n)]: value for n, value in own.attrs.items() if snake_case(n) in known}
        return replace(own, op=symbol(version), soc=product, tensors=tensors, attrs=attrs)


def features() -> list[Feature]:
    """The features, in the order of the case file."""
    found: dict[str, dict[str, Case]] = {}
    for case in load(CASES):
        if not isinstance(case, Case):
            raise ValueError(f"{CASES.name}: {case}")
        found.setdefault(case.id.split("/")[2], {})[str(case.soc)] = case
    return [Feature(next(iter(c.values())).remarks["note"], name, c) for name, c in found.items()]


def arguments(case: Case) -> dict[str, TensorSpec | list[TensorSpec] | Any]:
    """Operands and attributes of a case by their Python names; null ones are left out."""
    both = {**case.tensors, **case.attrs}
    return {snake_case(name): value for name, value in both.items() if value is not None}


def table() -> str:
    """The table in Markdown. V1 to V4 are for Atlas A2 and A3, V5 is for Ascend950."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| feature | " + " | ".join(f"V{v}" for v in VERSIONS) + " | case |"
    yield "| --- |" + " --- |" * (len(VERSIONS) + 1)
    for feature in features():
        answers = " | ".join(feature.answer(v) for v in VERSIONS)
        yield f"| {feature.title} | {answers} | `{feature.name}` |"


if __name__ == "__main__":
    print(table())

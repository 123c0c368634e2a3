"""Operators that Python composes of several C calls: they have a plan, but no prototype and no status of their own."""

from __future__ import annotations

from typing import Any

from cann_mla.layout import Layout
from cann_mla.validate.arrays import storage_shape
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.signatures import COMPOSED
from cann_mla.validate.verify import CannotRunError, Outcome

# What a case sees as the status of a refusal: aclnn's own for a parameter that is not allowed.
REFUSED = 161002
_INPUTS = (
    "token_x", "wq_a", "wq_b", "wkv", "rope_cos", "rope_sin", "gamma_cq", "gamma_ckv", "wq_b_scale",
)  # fmt: skip


def refusal(case: Case) -> Outcome | None:
    """The outcome of a case whose operands or product the operator refuses, or None."""
    from cann_mla.ops.mla_prolog_quant_checks import Described, check

    operands = _named(case)
    described = {
        name: Described(spec.shape, spec.dtype, spec.format, _contiguous(spec)) for name, spec in operands.items()
    }
    try:
        check(described, quantised=case.op == "mla_prolog_quant", product=case.soc)
    except ValueError as error:
        return Outcome(REFUSED, 1, None, str(error))
    return None


def prepare(case: Case, tensors: dict[str, Any]) -> Any:
    """The plan of a case that is not refused, over its tensors on the device."""
    from cann_mla.ops.mla_prolog_quant import MlaPrologQuantPlan

    inputs = {name: tensors[name] for name in _INPUTS if name in case.tensors}
    return MlaPrologQuantPlan(**inputs, outputs={name: tensors[name] for name in COMPOSED[case.op]})


def _named(case: Case) -> dict[str, TensorSpec]:
    """The operands by name; all of them have to be there, and nothing else."""
    needed = [*_INPUTS[: None if case.op == "mla_prolog_quant" else -1], *sorted(COMPOSED[case.op])]
    given = {name: operand for name, operand in case.tensors.items() if isinstance(operand, TensorSpec)}
    if set(given) != set(needed) or case.attrs:
        found = ", ".join([*given, *case.attrs])
        raise CannotRunError(f"{case.op} takes {', '.join(needed)} and no attributes; the case has {found}")
    return given


def _contiguous(spec: TensorSpec) -> bool:
    layout = Layout.make(
        spec.shape, spec.dtype, strides=spec.strides, offset=spec.offset, format=spec.format,
        storage_shape=storage_shape(spec),
    )  # fmt: skip
    return layout.dense or spec.format != "ND"

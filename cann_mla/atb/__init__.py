"""ATB operators from Python: contexts and operations, with the same face as aclnn operators.

>>> operator = cann_mla.operator("AtbRingMLA")
>>> operator.prepare(querySplit1=..., ...).run(stream)

An ATB operator has no executor but an operation, which its plan owns, and works in a context, which every thread gets
by itself. What ATB reads on the host (sequence lengths) are tensors made with ``host=True``.
"""

from __future__ import annotations

from cann_mla.atb.context import AtbContext
from cann_mla.atb.operator import HOST_OPERANDS, AtbOperator, AtbPlan

__all__ = ["HOST_OPERANDS", "AtbContext", "AtbOperator", "AtbPlan"]

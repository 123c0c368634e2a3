"""The real ``torch.ops.pypto.mla_prolog_quant`` and ``mla_prolog``, where torch_npu and PyPTO are installed.

Nothing is imported here before the operator is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

PACKAGES = ("torch", "torch_npu", "pypto")


class PyptoNotFoundError(ImportError):
    """torch, torch_npu or PyPTO is not installed, or none of them registers the operator."""


def call(name: str, operands: dict[str, Any]) -> tuple[Any, ...]:
    """Call an operator of PyPTO.

    Parameters
    ----------
    name : {"mla_prolog_quant", "mla_prolog"}
    operands : dict of str to torch.Tensor
        In the order of the operator's prototype. They are handed over as they are.

    Returns
    -------
    tuple of torch.Tensor
        The operator's outputs.

    Raises
    ------
    PyptoNotFoundError
        Says what is missing.
    TypeError
        If an operand is no torch tensor.
    """
    torch = _load(name)
    for operand, value in operands.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f'{operand} is a {type(value).__name__}; via="pypto" takes torch tensors on the NPU, '
                'via="aclnn" takes cann_mla tensors and NumPy arrays'
            )
    found = getattr(torch.ops.pypto, name, None)
    if found is None:
        raise PyptoNotFoundError(
            f"torch.ops.pypto has no {name}: import the module that registers it (mla_prolog_quant_pypto of "
            'cann-recipes-infer) first, or use via="aclnn"'
        )
    return tuple(found(*operands.values()))


def _load(name: str) -> Any:
    """Import what registers the operator; torch itself."""
    modules = []
    for package in PACKAGES:
        try:
            modules.append(importlib.import_module(package))
        except ImportError as error:
            raise PyptoNotFoundError(
                f'via="pypto" calls torch.ops.pypto.{name}, which needs {", ".join(PACKAGES)}; '
                f'{package} cannot be imported ({error}). via="aclnn" needs none of them'
            ) from error
    return modules[0]

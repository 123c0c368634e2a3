"""What each parameter of an operator is for.

The text decides: its type, its place and its name. Where it cannot, ``headers/roles.json`` does: a table
operator -> parameter -> role, with ``"optional"`` behind the role where null is allowed (``"input
optional"``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cann_mla.headers.model import Operator, Parameter, Role, Signature

Overrides = Mapping[str, Mapping[str, str]]
"""Operator -> parameter -> role, as in the data file."""

_TENSORS = {"aclTensor", "aclTensorList"}
_EXECUTORS = {"aclOpExecutor", "atb_Operation"}
_CONTEXTS = {"atb_Context"}
_PHASE_ONE = ("GetMaxWorkspaceSize", "GetWorkspaceSize")
_OUTPUT_NAME = re.compile(r"(?:^(?:out|output|y)|[a-z0-9_](?:Out|_out|Output))\d*\Z")
_OPTIONAL = "Optional"
_IN_PLACE = "Ref"


def operator_name(signature: Signature) -> str:
    """Name of the operator a prototype belongs to: its own without the suffix of phase one."""
    for suffix in _PHASE_ONE:
        if signature.name.endswith(suffix):
            return signature.name.removesuffix(suffix)
    return signature.name


def is_phase_one(signature: Signature) -> bool:
    """Whether the prototype ends with the workspace size and the executor, both written by the call."""
    types = [p.type for p in signature.parameters if p.pointee not in _CONTEXTS]
    if len(types) < 2 or not types[-1].endswith("**") or types[-2] != "uint64_t *":
        return False
    return types[-1].rstrip("* ") in _EXECUTORS


def is_phase_two(signature: Signature) -> bool:
    """Whether the prototype takes workspace, its size and an executor made before."""
    parameters = signature.parameters
    return (
        len(parameters) == 4
        and parameters[0].type == "void *"
        and parameters[1].type == "uint64_t"
        and parameters[2].pointee in _EXECUTORS
    )


def with_roles(signature: Signature, overrides: Overrides | None = None) -> Signature:
    """The signature with the role and optionality of every parameter filled in.

    Parameters
    ----------
    signature : Signature
        As read. A function that is no phase of an operator is returned unchanged.
    overrides : mapping, optional
        The data file.
    """
    if is_phase_two(signature):
        last = Role.CONTEXT if signature.parameters[3].pointee in _CONTEXTS else Role.STREAM
        roles = (Role.WORKSPACE, Role.WORKSPACE_SIZE, Role.EXECUTOR, last)
        given = zip(signature.parameters, roles, strict=True)
        return replace(signature, parameters=tuple(replace(p, role=r) for p, r in given))
    if not is_phase_one(signature):
        return signature
    own = (overrides or {}).get(operator_name(signature), {})
    return replace(
        signature, parameters=tuple(_with_role(p, own.get(p.name, "")) for p in signature.parameters)
    )


def _with_role(parameter: Parameter, override: str) -> Parameter:
    optional = parameter.name.endswith(_OPTIONAL) and parameter.type.endswith("*")
    role = _role(parameter)
    if override:
        word, _, rest = override.partition(" ")
        role, optional = Role(word), rest == "optional" or (optional and not rest)
    return replace(parameter, role=role, optional=optional)


def _role(parameter: Parameter) -> Role:
    pointee = parameter.pointee or ""
    if pointee in _CONTEXTS:
        return Role.CONTEXT
    if parameter.type.endswith("**") and pointee.rstrip("* ") in _EXECUTORS:
        return Role.EXECUTOR
    if parameter.type == "uint64_t *":
        return Role.WORKSPACE_SIZE
    if pointee not in _TENSORS:
        return Role.ATTRIBUTE
    name = parameter.name.removesuffix(_OPTIONAL)
    if name.endswith(_IN_PLACE):
        return Role.INPLACE
    if not parameter.type.startswith("const ") or _OUTPUT_NAME.search(name):
        return Role.OUTPUT
    return Role.INPUT


def pair(signatures: Iterable[Signature]) -> tuple[dict[str, Operator], list[Signature]]:
    """Put the phases of operators together, whether they come from one header or from two.

    Returns
    -------
    tuple
        Operators by name, and the phases whose other half is missing.
    """
    ones: dict[str, dict[str, Signature]] = {}
    twos: dict[str, Signature] = {}
    for signature in signatures:
        if is_phase_one(signature):
            suffix = next((s for s in _PHASE_ONE if signature.name.endswith(s)), "")
            ones.setdefault(operator_name(signature), {})[suffix] = signature
        elif is_phase_two(signature):
            twos[signature.name] = signature
    operators: dict[str, Operator] = {}
    alone: list[Signature] = []
    for name, found in ones.items():
        first, run = found.get("GetWorkspaceSize"), twos.pop(name, None)
        if first is None or run is None:
            alone.extend(found.values())
            alone.extend([run] if run else [])
            continue
        operators[name] = Operator(name, first, run, found.get("GetMaxWorkspaceSize"))
    return operators, alone + list(twos.values())

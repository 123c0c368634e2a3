"""What each parameter of an operator is for.

The text decides: its type, its place and its name. Where it cannot, ``headers/roles.json`` does: a table
operator -> parameter -> role, with ``optional`` or ``required`` behind the role where the name does not say
whether null is allowed (``"input optional"``).
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
_OUTPUT_NAME = re.compile(r"(?:^out|^output|.Out|.Output|.Outputs|_out)\d*\Z")
_OPTIONAL = "Optional"
_IN_PLACE = "Ref"
_IN_PLACE_OPERATOR = re.compile(r"aclnn(?:Inplace|\w*Inplace\Z)")
_WORKSPACE_SIZE = "uint64_t *"


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
    given = zip(signature.parameters, _roles(signature), strict=True)
    return replace(signature, parameters=tuple(_with_role(p, role, own.get(p.name, "")) for p, role in given))


def _with_role(parameter: Parameter, role: Role, override: str) -> Parameter:
    optional = parameter.name.endswith(_OPTIONAL) and parameter.type.endswith("*")
    if override:
        word, _, rest = override.partition(" ")
        role, optional = Role(word), rest == "optional" or (optional and rest != "required")
    return replace(parameter, role=role, optional=optional)


def _roles(signature: Signature) -> list[Role]:
    """Roles of the parameters of phase one, in order.

    CANN has two styles. Headers written by hand mark what an operator writes by leaving out ``const``.
    Headers generated from an operator definition write ``const`` everywhere and put the outputs last.
    """
    parameters = signature.parameters
    roles = [_plain_role(p) for p in parameters]
    tensors = [i for i, role in enumerate(roles) if role is Role.INPUT]
    for index in tensors:
        if _base_name(parameters[index]).endswith(_IN_PLACE):
            roles[index] = Role.INPLACE
        elif not _is_const(parameters[index]):
            roles[index] = Role.OUTPUT
    if tensors and Role.INPLACE not in roles and _IN_PLACE_OPERATOR.match(operator_name(signature)):
        roles[tensors[0]] = Role.INPLACE
    for index in _const_outputs(parameters, tensors, Role.INPLACE in roles):
        roles[index] = Role.OUTPUT
    return roles


def _const_outputs(parameters: tuple[Parameter, ...], tensors: list[int], in_place: bool) -> list[int]:
    """Which of the tensors are outputs although they are ``const``: some of the last that stand together."""
    run = tensors[-1:]
    while run and run[0] - 1 in tensors:
        run.insert(0, run[0] - 1)
    names = {i: _base_name(parameters[i]) for i in run}
    if not run or any(not _is_const(parameters[i]) for i in run if not names[i].endswith(_IN_PLACE)):
        return []
    last = parameters[run[-1] + 1].type == _WORKSPACE_SIZE
    if last and not in_place and tensors[0] < run[0]:
        return run  # behind the attributes there are only outputs
    named = len(run)
    while named and _OUTPUT_NAME.search(names[run[named - 1]]):
        named -= 1
    if named == len(run) and not in_place and all(_is_const(parameters[i]) for i in tensors):
        named -= 1  # an operator has an output, whatever its name
    return run[named:]


def _plain_role(parameter: Parameter) -> Role:
    """The role that the type alone gives; every tensor counts as an input."""
    pointee = parameter.pointee or ""
    if pointee in _CONTEXTS:
        return Role.CONTEXT
    if parameter.type.endswith("**") and pointee.rstrip("* ") in _EXECUTORS:
        return Role.EXECUTOR
    if parameter.type == _WORKSPACE_SIZE:
        return Role.WORKSPACE_SIZE
    return Role.INPUT if pointee in _TENSORS else Role.ATTRIBUTE


def _is_const(parameter: Parameter) -> bool:
    return parameter.type.startswith("const ")


def _base_name(parameter: Parameter) -> str:
    return parameter.name.removesuffix(_OPTIONAL)


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

"""Ask an operator for a status and nothing else: nothing is filled, uploaded or computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cann_mla.binding import abi
from cann_mla.headers import Role
from cann_mla.validate import composed
from cann_mla.validate.cases import Case
from cann_mla.validate.descriptors import Descriptors, address
from cann_mla.validate.library import open_library, select_product
from cann_mla.validate.signatures import COMPOSED, check_names, complete_attrs, roles_of
from cann_mla.validate.verify import NotHereError, Outcome

_WORKSPACE = address(1000)


def phase_statuses(case: Case, via: str) -> Outcome:
    """Phase one of a case, and phase two where the case is about it.

    Raises
    ------
    NotHereError
        Another product, or an operator that the library lacks.
    CannotRunError
        Operands or attributes that the prototype does not have.
    """
    if case.op in COMPOSED:
        return composed.refusal(case) or Outcome(0)
    library = open_library(via)
    call = _caller(library, case.op)
    select_product(library, case.soc)
    return call(case)


@lru_cache
def _caller(library: Any, op: str) -> Callable[[Case], Outcome]:
    roles_of(op)  # raises for what no header declares
    if not library.has(op):
        raise NotHereError(f"the loaded library has no {op}")
    return AtbCaller(library, op) if op.startswith("Atb") else AclnnCaller(library, op)


class AclnnCaller:
    """Phase one and two of one aclnn operator, called by position."""

    def __init__(self, library: Any, op: str) -> None:
        self.library, self.op = library, op
        self.roles = roles_of(op)
        self.signature = library.prototypes.signature(f"{op}GetWorkspaceSize")
        self.phase_one = getattr(library, f"{op}GetWorkspaceSize")
        self.phase_two = getattr(library, op)
        self.size = abi().ffi.new("uint64_t *")
        self.executor = abi().ffi.new("aclOpExecutor **")
        self._plan = [(p.role, p.name, p.type) for p in self.signature.parameters]

    def __call__(self, case: Case) -> Outcome:
        """Call phase one, and phase two where `case.phase` is 2."""
        check_names(self.roles, case.tensors, case.attrs)
        descriptors = Descriptors(self.library)
        null = abi().ffi.NULL
        try:
            arguments = self._arguments(descriptors, case)
            self.size[0], self.executor[0] = 0, null
            status = self.phase_one(*arguments)
            if status:
                return Outcome(status, 1, None, self.library.recent_error_text())
            if case.phase == 2:
                return self._second(null)
            if self.executor[0] != null:
                self.library.aclDestroyAclOpExecutor(self.executor[0])
            return Outcome(0, None, int(self.size[0]))
        finally:
            descriptors.close()

    def _arguments(self, descriptors: Descriptors, case: Case) -> list[Any]:
        attrs = complete_attrs(self.op, self.signature, case.attrs)
        arguments: list[Any] = []
        for role, name, c_type in self._plan:
            if role is Role.ATTRIBUTE:
                arguments.append(descriptors.attribute(c_type, attrs[name]))
            elif role is Role.WORKSPACE_SIZE:
                arguments.append(self.size)
            elif role is Role.EXECUTOR:
                arguments.append(self.executor)
            else:
                arguments.append(descriptors.operand(case, name))
        return arguments

    def _second(self, last: Any) -> Outcome:
        null, size = abi().ffi.NULL, int(self.size[0])
        status = self.phase_two(_WORKSPACE if size else null, size, self.executor[0], last)
        if status:
            return Outcome(status, 2, size, self.library.recent_error_text())
        self.library.aclrtSynchronizeStream(null)  # whatever it computed without memory, it ends here
        return Outcome(0, None, size)


class AtbCaller(AclnnCaller):
    """Create, setup and execute of one ATB operator; the operation ends with the call."""

    def __init__(self, library: Any, op: str) -> None:
        from cann_mla.atb.context import AtbContext, atb_function
        from cann_mla.runtime import Stream

        super().__init__(library, op)
        self.executor = abi().ffi.new("atb_Operation **")
        self.context = AtbContext(0)
        self.stream = Stream(0)
        self.context.use_stream(self.stream)
        self.destroy = atb_function(library, "DestroyOperation")

    def __call__(self, case: Case) -> Outcome:
        """Create and set up; execute where `case.phase` is 2."""
        check_names(self.roles, case.tensors, case.attrs)
        descriptors = Descriptors(self.library)
        self.size[0], self.executor[0] = 0, abi().ffi.NULL
        try:
            status = self.phase_one(*self._arguments(descriptors, case))
            if status:
                return Outcome(status, 1, None, self.library.recent_error_text())
            if case.phase == 2:
                return self._second(self.context.handle)
            return Outcome(0, None, int(self.size[0]))
        finally:
            self.destroy(self.executor[0])
            descriptors.close()

    def _arguments(self, descriptors: Descriptors, case: Case) -> list[Any]:
        at_context = next(i for i, (role, _, _) in enumerate(self._plan) if role is Role.CONTEXT)
        arguments = super()._arguments(descriptors, case)
        arguments[at_context] = self.context.handle
        return arguments

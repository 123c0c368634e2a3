"""Run one case for its numbers: through the C ABI by way of the public objects, or through the reference."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import pack_4bit
from cann_mla.formats import nz_storage_shape
from cann_mla.layout import Layout
from cann_mla.validate import composed
from cann_mla.validate.arrays import alias_base, make_operands, storage_shape, to_storage
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.golden import NoGoldenError, run_reference
from cann_mla.validate.kernel_vectors import declared
from cann_mla.validate.library import open_library, select_product
from cann_mla.validate.signatures import COMPOSED, Roles, check_names, complete_attrs, roles_of
from cann_mla.validate.verify import NotHereError, Options, Outcome, Record, new_record

Array = NDArray[Any]


def run_case(case: Case, arrays: Mapping[str, Array], roles: Roles, via: str) -> Outcome:
    """Both phases of a case and its results.

    Raises
    ------
    NotHereError
        Another product, a backend or an operator that is not there.
    CannotRunError
        Operands or attributes that the prototype does not have.
    """
    check_names(roles, case.tensors, case.attrs)
    if via == "reference":
        return _run_reference(case, arrays, roles)
    return _session(via).run(case, arrays, roles)


def run_alone(
    case: Case, options: Options, given: Mapping[str, Array] | None = None
) -> tuple[Record, dict[str, Array]]:
    """Run without judging numbers: the result line, and outputs and in-place operands by array name."""
    record = new_record(case, options)
    record.update(standard="", golden="")
    outputs: dict[str, Array] = {}
    started = time.perf_counter()
    try:
        roles = roles_of(case.op)
        outcome = _refusal(case, options.via) or run_case(
            case, make_operands(case, is_output=roles.is_output, given=given), roles, options.via
        )
        outputs = outcome.outputs
        record.update(status=outcome.status, phase=outcome.phase, workspace=outcome.workspace)
        message = outcome.message if outcome.status else "ran; nothing was compared"
        record.update(message=message, verdict="fail" if outcome.status else "pass")
    except NotHereError as error:
        record.update(verdict="skip", message=str(error))
    except Exception as error:  # a command ends with a line that says what happened, never with a traceback
        record.update(verdict="error", message=str(error) or type(error).__name__)
    record["seconds"] = round(time.perf_counter() - started, 6)
    return record, outputs


def _refusal(case: Case, via: str) -> Outcome | None:
    """What phase one says to descriptors without data, if it refuses: such a case needs no operands."""
    from cann_mla.validate.status_only import phase_statuses

    if via == "reference" or case.status == 0 or roles_of(case.op).operator is None:
        return None
    outcome = phase_statuses(case, via)
    return outcome if outcome.status else None


def _run_reference(case: Case, arrays: Mapping[str, Array], roles: Roles) -> Outcome:
    try:
        results = run_reference(case, arrays, roles, "device")
    except NoGoldenError as error:
        raise NotHereError(str(error)) from error
    return Outcome(0, None, None, "", results)


@lru_cache
def _session(via: str) -> Session:
    return Session(via)


# What these return in a tensor that says ND lies in FRACTAL_NZ, and takes the memory of whole blocks.
_BECOME_NZ = frozenset(("aclnnTransMatmulWeight",))


class Session:
    """Device 0 of a backend and a stream on it; cases run one after another."""

    def __init__(self, via: str) -> None:
        from cann_mla.runtime import Stream

        self.library = open_library(via)
        self.stream = Stream(0)

    def run(self, case: Case, arrays: Mapping[str, Array], roles: Roles) -> Outcome:
        """Prepare, run and read back one case; a status that CANN returns is part of the outcome."""
        from cann_mla.errors import CannError

        if case.op in COMPOSED and (refused := composed.refusal(case)):
            return refused
        phase = 1
        outcome = Outcome()
        try:
            with self.prepare(case, arrays, roles) as prepared:
                outcome.workspace, phase = prepared.plan.workspace_size, 2
                prepared.run()
                outcome.outputs = prepared.read()
        except CannError as error:
            outcome.status, outcome.phase, outcome.message = error.status, phase, error.text or str(error)
            return outcome
        outcome.status = 0
        return outcome

    def prepare(self, case: Case, arrays: Mapping[str, Array], roles: Roles, *, repeatable: bool = False) -> Prepared:
        """Put the operands on the device and do phase one; a repeatable plan may run many times.

        Raises
        ------
        CannError
            Phase one's status, or memory that the device does not have.
        """
        if case.op not in COMPOSED and not self.library.has(case.op):
            raise NotHereError(f"the loaded library has no {case.op}")
        select_product(self.library, case.soc)
        return Prepared(self, case, arrays, roles, repeatable)


class Prepared:
    """A case after phase one: its plan and its operands on the device."""

    def __init__(
        self, session: Session, case: Case, arrays: Mapping[str, Array], roles: Roles, repeatable: bool
    ) -> None:
        self.session, self.case, self.roles, self.repeatable = session, case, roles, repeatable
        self.tensors: dict[str, Any] = {}
        self.arguments: dict[str, Any] = {}  # of the two-phase call, by C name
        self._owned: list[Any] = []
        self.plan: Any = None
        try:
            self._upload(arrays)
            self.plan = self._phase_one()
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Phase two, and wait until the stream has done it."""
        self.plan.run(self.session.stream)
        self.session.stream.synchronize()

    def read(self) -> dict[str, Array]:
        """Outputs and in-place operands in NumPy form, by array name."""
        return {
            name: self._as_written(tensor).to_numpy()
            for name, tensor in self.tensors.items()
            if self.roles.is_written(name.split(".")[0])
        }

    def _as_written(self, tensor: Any) -> Any:
        if self.case.op not in _BECOME_NZ:
            return tensor
        storage = nz_storage_shape(tensor.shape, tensor.dtype)
        return self._own(tensor.view(format="FRACTAL_NZ", storage_shape=storage))

    def close(self) -> None:
        """Give back plan, tensors and memory; a second call does nothing."""
        if self.plan is not None:
            self.plan.close()
        for owner in reversed(self._owned):
            owner.close()
        self._owned.clear()

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _own(self, owner: Any) -> Any:
        self._owned.append(owner)
        return owner

    def _upload(self, arrays: Mapping[str, Array]) -> None:
        from cann_mla.runtime import DeviceMemory, HostMemory
        from cann_mla.tensor import Tensor

        memories: dict[str, Any] = {}
        specs = dict(self.case.specs())
        for name in sorted(specs, key=lambda n: specs[n].alias is not None):
            spec = specs[name]
            base = name if spec.alias is None else alias_base(self.case, name)
            if base not in memories:
                content = _device_bytes(arrays[base], specs[base])
                if self.case.op in _BECOME_NZ:
                    blocks = prod(nz_storage_shape(spec.shape, spec.dtype)) * arrays[base].itemsize
                    content = np.pad(content, (0, max(0, blocks - content.size)))
                make = HostMemory if spec.memory == "host" else DeviceMemory
                memories[base] = self._own(make(content.size)) if content.size else None
                _write(memories[base], content)
            spec = declared(self.case, name, spec)
            self.tensors[name] = self._own(
                Tensor(
                    memories[base],
                    spec.shape,
                    spec.dtype,
                    strides=spec.strides,
                    offset=spec.offset,
                    format=spec.format,
                    storage_shape=storage_shape(spec),
                )
            )

    def _phase_one(self) -> Any:
        from cann_mla.two_phase import operator

        case = self.case
        if case.op in COMPOSED:
            return composed.prepare(case, self.tensors)
        phase_one = self.session.library.prototypes.signature(f"{case.op}GetWorkspaceSize")
        arguments: dict[str, Any] = {p.name: None for p in phase_one.operands}
        arguments |= {
            name: self._attribute(value) for name, value in complete_attrs(case.op, phase_one, case.attrs).items()
        }
        for name, operand in case.tensors.items():
            arguments[name] = self._operand(name, operand)
        self.arguments = arguments
        prepare = operator(case.op).prepare
        return prepare(repeatable=True, **arguments) if self.repeatable else prepare(**arguments)

    def _operand(self, name: str, operand: TensorSpec | list[TensorSpec] | None) -> Any:
        from cann_mla.tensor import TensorList

        if operand is None:
            return None
        if isinstance(operand, TensorSpec):
            return self.tensors[name]
        return self._own(TensorList([self.tensors[f"{name}.{i}"] for i in range(len(operand))]))

    def _attribute(self, value: Any) -> Any:
        from cann_mla.operands import IntArray

        return self._own(IntArray(value)) if isinstance(value, list) else value


def _device_bytes(array: Array, spec: TensorSpec) -> NDArray[np.uint8]:
    """The storage's bytes; as many as the tensor object wants for view and storage, the rest zero."""
    flat = to_storage(array, spec)
    whole = Layout.make(
        spec.shape,
        spec.dtype,
        strides=spec.strides,
        offset=spec.offset,
        format=spec.format,
        storage_shape=storage_shape(spec),
    ).extent
    if flat.size < whole:
        flat = np.concatenate([flat, np.zeros(whole - flat.size, flat.dtype)])
    return pack_4bit(flat) if spec.dtype in ("INT4", "FLOAT4_E2M1") else flat.view(np.uint8)


def _write(memory: Any, content: NDArray[np.uint8]) -> None:
    from cann_mla.runtime import HostMemory

    if isinstance(memory, HostMemory):
        memory.array()[:] = content
    elif memory is not None:
        memory.write(content)


__all__ = ["Prepared", "Session", "run_alone", "run_case"]

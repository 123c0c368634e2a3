"""Run one case and judge it: the result is a plain dict, one JSON line of the case format."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from cann_mla.validate.cases import Case, CaseError
from cann_mla.validate.data import DataError

Array = NDArray[Any]
Record = dict[str, Any]

# Operators whose workspace formula is known exactly: another size is a failure.
EXACT_WORKSPACE = frozenset({"aclnnMlaPrologV3WeightNz", "AtbRingMLA"})
VIAS = ("sim", "cann", "reference")


@dataclass(frozen=True)
class Options:
    """How to verify: through which implementation, against which golden, by which standards.

    `via` is ``"sim"``, ``"cann"`` or ``"reference"``; ``"file"`` where outputs are judged that are already there.
    """

    via: str = "sim"
    golden: str = "device"
    standards: tuple[str, ...] = ("mixed-tolerance/1",)
    status_only: bool = False


@dataclass
class Outcome:
    """What one call gave. `phase` is the phase that returned a non-zero status."""

    status: int | None = None
    phase: int | None = None
    workspace: int | None = None
    message: str = ""
    outputs: dict[str, Array] = field(default_factory=dict)


class CannotRunError(Exception):
    """The tool cannot run the case; verdict ``error``."""


class NotHereError(Exception):
    """The case is for another product, library or build; verdict ``skip``."""


def verify_case(case: Case, options: Options, given: Mapping[str, Array] | None = None) -> Record:
    """Run `case` and judge status and numbers.

    Never raises for what a case or an operator does wrong: the verdict is ``pass``, ``fail``, ``error`` or
    ``skip``, and ``message`` says why.
    """

    def judge(record: Record) -> None:
        if options.status_only or not _wants_numbers(case):
            _verify_status(case, options, record)
        else:
            _verify_numbers(case, options, record, given)

    return _judged(case, options, judge)


def judge_outputs(
    case: Case, options: Options, files: Mapping[str, Array], given: Mapping[str, Array] | None = None
) -> Record:
    """Judge outputs and in-place operands that are already there; nothing is run.

    Parameters
    ----------
    files
        Outputs and in-place operands as bit patterns, by array name. One that is not there fails.
    given
        Operands in file form that replace the case's data: those that the outputs were computed from.

    Returns
    -------
    Record
        A result line; ``status`` is None, since nothing was called.
    """
    from cann_mla.validate.arrays import make_operands
    from cann_mla.validate.signatures import check_names, roles_of

    def judge(record: Record) -> None:
        if not _wants_numbers(case):
            raise CannotRunError(f"the case expects status {case.status}: it has no numbers to judge")
        roles = roles_of(case.op)
        check_names(roles, case.tensors, case.attrs)
        arrays = make_operands(case, is_output=roles.is_output, given=given)
        _judge_numbers(case, options, record, arrays, Outcome(outputs=outputs_from_file(case, files)))

    return _judged(case, options, judge)


def outputs_from_file(case: Case, files: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs and in-place operands among `files`, in NumPy form."""
    from cann_mla.validate.arrays import from_file
    from cann_mla.validate.signatures import roles_of

    roles, specs = roles_of(case.op), dict(case.specs())
    return {
        name: from_file(name, bits, specs[name])
        for name, bits in files.items()
        if name in specs and roles.is_written(name.split(".")[0])
    }


def _judged(case: Case, options: Options, judge: Callable[[Record], None]) -> Record:
    """The line that `judge` fills in; whatever it raises becomes a verdict."""
    record = new_record(case, options)
    started = time.perf_counter()
    try:
        judge(record)
    except (CannotRunError, CaseError, DataError) as error:
        record.update(verdict="error", message=str(error))
    except NotHereError as error:
        record.update(verdict="skip", message=str(error))
    except MemoryError as error:
        record.update(verdict="error", message=f"not enough memory for the operands: {error}")
    except Exception as error:  # the next case must still run; the type says what to look for
        record.update(verdict="error", message=f"{type(error).__name__}: {error}")
    record["seconds"] = round(time.perf_counter() - started, 6)
    return record


def error_record(error: CaseError) -> Record:
    """The line of a case that breaks the format."""
    record = new_record(Case(error.case_id or error.source, "", None, {}), Options())
    record.update(verdict="error", message=str(error), standard="", golden="")
    return record


def new_record(case: Case, options: Options) -> Record:
    """A line with nothing decided yet."""
    record: Record = {
        "id": case.id, "op": case.op, "soc": case.soc, "verdict": "error", "status": None, "phase": None,
        "expected": case.status, "workspace": None, "message": "", "standard": options.standards[0],
        "outputs": {}, "seconds": 0.0, "via": options.via, "golden": "",
    }  # fmt: skip
    if "doubtful" in case.remarks or str(case.remarks.get("note") or "").startswith("doubtful"):
        record["doubtful"] = True
    return record


def _wants_numbers(case: Case) -> bool:
    return case.status == 0


def _verify_status(case: Case, options: Options, record: Record) -> None:
    from cann_mla.validate.status_only import phase_statuses

    if options.via == "reference":
        raise NotHereError("the reference makes no status; verify with --via sim or cann")
    record.update(standard="", golden="")
    _set_outcome(record, phase_statuses(case, options.via))
    problem = status_problem(case, record)
    record.update(verdict="fail" if problem else "pass", message=problem or record["message"])


def _verify_numbers(case: Case, options: Options, record: Record, given: Mapping[str, Array] | None) -> None:
    from cann_mla.validate.arrays import make_operands
    from cann_mla.validate.run import run_case
    from cann_mla.validate.signatures import roles_of

    roles = roles_of(case.op)
    arrays = make_operands(case, is_output=roles.is_output, given=given)
    outcome = run_case(case, arrays, roles, options.via)
    _set_outcome(record, outcome)
    problem = status_problem(case, record)
    if problem or outcome.status:
        record.update(verdict="fail" if problem else "pass", message=problem or outcome.message)
        return
    _judge_numbers(case, options, record, arrays, outcome)


def _judge_numbers(case: Case, options: Options, record: Record, arrays: Mapping[str, Array], outcome: Outcome) -> None:
    from cann_mla.validate import golden as goldens
    from cann_mla.validate.compare import all_passed, compare_output
    from cann_mla.validate.signatures import roles_of
    from cann_mla.validate.standard_rules import find_standard

    roles = roles_of(case.op)
    try:
        record["golden"], golden = _golden(case, options, arrays)
    except goldens.NoGoldenError as error:
        raise NotHereError(f"status as expected, numbers not judged: {error}") from error
    specs = dict(case.specs())
    named = {}
    for label in options.standards:
        standard = find_standard(label)
        results = [
            compare_output(case, n, specs[n], outcome.outputs.get(n), g, arrays.get(n), standard)
            for n, g in golden.items()
            if n in specs and roles.is_written(n.split(".")[0])
        ]
        named[standard.label] = (all_passed(results), results)
    first = next(iter(named))
    record["standard"] = first
    record["outputs"] = {result.name: result.as_json() for result in named[first][1]}
    if len(named) > 1:
        record["standards"] = {
            label: {"verdict": "pass" if ok else "fail", "outputs": {r.name: r.as_json() for r in results}}
            for label, (ok, results) in named.items()
        }
    failed = {label: results for label, (ok, results) in named.items() if not ok}
    texts = [f"{label}: {r.explain()}" for label, results in failed.items() for r in results if not r.ok]
    record.update(verdict="fail" if failed else "pass", message="; ".join(texts) or record["message"])


def _golden(case: Case, options: Options, arrays: Mapping[str, Array]) -> tuple[str, dict[str, Any]]:
    from cann_mla.validate import golden as goldens
    from cann_mla.validate.signatures import roles_of

    if case.expected_npz is not None:
        return f"file/{case.expected_npz}", goldens.file_golden(case, arrays, roles_of(case.op))
    if options.via == "reference" and options.golden == "device":
        raise goldens.NoGoldenError("the reference would be compared with itself; --golden exact shows its rounding")
    golden = goldens.reference_golden(case, arrays, roles_of(case.op), options.golden)
    return f"reference/{options.golden}", golden


def _set_outcome(record: Record, outcome: Outcome) -> None:
    record.update(status=outcome.status, phase=outcome.phase, workspace=outcome.workspace, message=outcome.message)


def status_problem(case: Case, record: Record) -> str:
    """Why status or workspace are not what the case expects; empty if they are."""
    status, phase = record["status"], record["phase"]
    if case.status == "any":
        return ""
    if case.status == "reject":
        if status and phase == 1:
            return ""
        return f"phase one returned {0 if phase == 2 else status}, a refusal is expected"
    wrong_status = status != case.status or (case.phase is not None and status and phase != case.phase)
    if case.status == 0 and case.phase == 1 and phase == 2:
        wrong_status = False  # the case is about phase one, which returned 0
    if wrong_status:
        found = f"status {status}" + (f" in phase {phase}" if phase else "")
        wanted = f"{case.status}" + (f" in phase {case.phase}" if case.phase and case.status else "")
        text = f": {record['message']}" if record["message"] else ""
        return f"{found}, expected {wanted}{text}"
    if (
        case.op in EXACT_WORKSPACE
        and case.workspace is not None
        and record["workspace"] not in (None, case.workspace)
        and phase != 1
    ):
        return f"workspace {record['workspace']}, CANN asks for {case.workspace}"
    return ""

"""A failing case on its own: as a case file, and as a script that needs nothing but this package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.shrink import shrink
from cann_mla.validate.verify import Array, Options, Record, verify_case

_SCRIPT = '''"""Replay of case {id}: ends 0 if it passes."""

import json
import sys
from pathlib import Path
from typing import Any

from cann_mla.validate import Options, parse, verify_case

CASE = json.loads(r"""
{case}
""")
OPTIONS = {options}

record = verify_case(parse(CASE, folder=Path({folder!r})), OPTIONS)
print(json.dumps(record, indent=1))
sys.exit(record["verdict"] != "pass")
'''


def why_not_shrunk(case: Case) -> str:
    """Why a case keeps its shapes; empty if it can be made smaller."""
    keys = [key for key in ("inputs_npz", "expected_npz") if getattr(case, key)]
    if not keys:
        return ""
    return f"cannot be shrunk: {' and '.join(keys)} hold arrays of these shapes; describe operands by `data` to shrink"


def shrunk(case: Case, record: Record, options: Options, *, seconds: float = 60.0) -> Case:
    """The case made smaller, as long as it fails with the same status as in `record`.

    A case whose operands or expected outputs lie in files keeps its shapes and is returned as it is.
    """
    if why_not_shrunk(case):
        return case

    def fails(candidate: Case) -> bool:
        found = verify_case(candidate, options)
        return bool(found["verdict"] == "fail" and found["status"] == record["status"])

    return shrink(replace(case, workspace=None), fails, seconds=seconds)


def save(case: Case, options: Options, folder: str | Path) -> tuple[Path, Path]:
    """Write ``<id>.json`` and ``<id>.py`` into `folder`; returns both paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]+", "_", case.id) or "case"
    data = as_json(case)
    files = [str((case.folder / name).resolve()) for name in case.inputs_npz]
    if files:
        data["inputs_npz"] = files
    if case.expected_npz is not None:
        data["expected_npz"] = str((case.folder / case.expected_npz).resolve())
    case_file, script = folder / f"{stem}.json", folder / f"{stem}.py"
    case_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    body = json.dumps(data, indent=1)
    text = _SCRIPT.format(id=case.id, case=body, options=repr(options), folder=str(folder.resolve()))
    script.write_text(text, encoding="utf-8")
    return case_file, script


def explanation(
    case: Case,
    options: Options,
    *,
    outputs: Mapping[str, Array] | None = None,
    given: Mapping[str, Array] | None = None,
) -> Iterator[str]:
    """Lines that say which usual mistake makes the numbers of a failing case agree.

    Parameters
    ----------
    outputs
        Outputs and in-place operands in NumPy form; without them the case is run.
    given
        Operands in file form that replace the case's data.
    """
    from cann_mla.validate.arrays import make_operands
    from cann_mla.validate.run import run_alone
    from cann_mla.validate.signatures import roles_of

    if outputs is None:
        record, outputs = run_alone(case, options, given)
        if record["status"] != 0:
            yield f"no numbers to explain: {record['message']}"
            return
    arrays = make_operands(case, is_output=roles_of(case.op).is_output, given=given)
    yield from _explained(case, options, arrays, outputs)


def _explained(
    case: Case, options: Options, arrays: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Iterator[str]:
    from cann_mla.validate.explain import disagreeing, explain
    from cann_mla.validate.golden import NoGoldenError, file_golden, reference_golden
    from cann_mla.validate.signatures import roles_of
    from cann_mla.validate.standard_rules import find_standard

    roles = roles_of(case.op)
    try:
        golden = reference_golden(case, arrays, roles, options.golden)
    except (NoGoldenError, ValueError, TypeError) as error:
        yield f"mistakes are played on the reference, which cannot compute this case: {error}"
        return
    sides = {"result": dict(outputs)}
    if case.expected_npz is not None:
        expected = {name: g.array for name, g in file_golden(case, arrays, roles).items()}
        sides = {"result": {n: a for n, a in outputs.items() if n in expected}, "expected file": expected}
    standard = find_standard(options.standards[0])
    for label in options.standards:
        standard = find_standard(label)
        wrong = {side: disagreeing(case, arrays, side_arrays, golden, standard) for side, side_arrays in sides.items()}
        if any(wrong.values()):
            break
    if case.expected_npz is not None:
        yield _who_differs(bool(wrong["result"]), bool(wrong["expected file"]))
    elif not wrong["result"]:
        yield "every output that is there agrees with the reference"
    for side, names in wrong.items():
        if not names:
            continue
        findings = explain(case, arrays, roles, sides[side], standard, precision=options.golden)
        for finding in findings[:5]:
            rest = f"; still off: {', '.join(finding.remaining)}" if finding.remaining else ""
            yield f"{finding.text} - explains {', '.join(finding.explains)} of the {side}{rest}"
        if not findings:
            yield f"none of the usual mistakes explains the {side}"


def _who_differs(result: bool, expected: bool) -> str:
    """Which of the two differs from the reference."""
    if result and expected:
        return "both the result and the expected file differ from the reference"
    if result:
        return "the expected file agrees with the reference; it is the result that differs"
    if expected:
        return "the result agrees with the reference; it is the expected file that differs"
    return "result and expected file each agree with the reference within the standard"


def as_json(case: Case) -> dict[str, Any]:
    """The case as the JSON object that `parse` reads; what is default is left out."""
    record: dict[str, Any] = {"id": case.id, "op": case.op}
    if case.soc is not None:
        record["soc"] = case.soc
    record["tensors"] = {name: _operand_json(operand) for name, operand in case.tensors.items() if operand is not None}
    record["attrs"] = case.attrs
    record["seed"] = case.seed
    if case.inputs_npz:
        record["inputs_npz"] = list(case.inputs_npz)
    if case.expected_npz is not None:
        record["expected_npz"] = case.expected_npz
    record["expect"] = {"status": case.status} | ({"phase": case.phase} if case.phase else {})
    if case.workspace is not None:
        record["workspace"] = case.workspace
    return record | case.remarks


def _operand_json(operand: TensorSpec | list[TensorSpec]) -> Any:
    if isinstance(operand, list):
        return [_operand_json(entry) for entry in operand]
    record: dict[str, Any] = {"shape": list(operand.shape), "dtype": operand.dtype}
    if operand.format != "ND":
        record["format"] = operand.format
    for key in ("storage_shape", "strides"):
        if getattr(operand, key) is not None:
            record[key] = list(getattr(operand, key))
    if operand.offset:
        record["offset"] = operand.offset
    if operand.memory != "device":
        record["memory"] = operand.memory
    if operand.alias is not None:
        record["alias"] = operand.alias
    if operand.data is not None:
        record["data"] = dict(operand.data)
    return record

"""``cann-mla run``: run one case and print its result object."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_mla.validate.cases import Case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    parser.add_argument("file", metavar="FILE", help="case file")
    parser.add_argument("--id", help="which case of the file; needed where it holds several")
    parser.add_argument("--inputs", metavar="NPZ", help="operands by C parameter name; they replace the case's data")
    parser.add_argument("--outputs", metavar="NPZ", help="write outputs and in-place operands here")
    parser.add_argument("--via", choices=("auto", "sim", "cann", "reference"), default="auto")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla.cli import CANNOT
    from cann_mla.cli.verify import resolve_via
    from cann_mla.validate.arrays import write_npz
    from cann_mla.validate.names import case_file_slips
    from cann_mla.validate.run import run_alone
    from cann_mla.validate.verify import Options

    case = _one_case(arguments)
    given = inputs(case, arguments.inputs, "run") if arguments.inputs else None
    for line in case_file_slips(case):
        print(f"cann-mla run: warning: {line}", file=sys.stderr)
    record, outputs = run_alone(case, Options(via=resolve_via(arguments.via)), given)
    print(json.dumps(record))
    if record["verdict"] in ("error", "skip"):
        return CANNOT
    if arguments.outputs:
        write_npz(arguments.outputs, outputs)
    return 1 if record["status"] else 0


def inputs(case: Case, file: str, command: str) -> dict[str, Any]:
    """The arrays of a file given on the command line; those that the case does not name are said to be unused."""
    from cann_mla.cli import CommandError
    from cann_mla.validate.arrays import read_npz
    from cann_mla.validate.data import DataError
    from cann_mla.validate.names import unused_arrays

    try:
        given = read_npz(file)
    except DataError as error:
        raise CommandError(str(error)) from error
    unused = unused_arrays(case, given)
    if unused:
        print(f"cann-mla {command}: warning: {file}: not used: {', '.join(unused)}", file=sys.stderr)
    return given


def _one_case(arguments: argparse.Namespace) -> Case:
    from cann_mla.cli import CommandError
    from cann_mla.validate.cases import Case, CaseError, load

    found = list(load(arguments.file))
    cases = [item for item in found if isinstance(item, Case) and arguments.id in (None, item.id)]
    errors = [item for item in found if isinstance(item, CaseError) and arguments.id in (None, "", item.case_id)]
    if len(cases) == 1:
        return cases[0]
    if errors:
        raise CommandError(str(errors[0]))
    if not cases:
        raise CommandError(f"{arguments.file} holds no case" + (f" with id {arguments.id!r}" if arguments.id else ""))
    raise CommandError(f"{arguments.file} holds {len(cases)} cases; choose one with --id, such as {cases[0].id!r}")

"""``cann-mla verify CASE --outputs MINE.npz``: judge results that are already there; nothing is run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_mla.validate.cases import Case
    from cann_mla.validate.verify import Options

# Options that say how to run a case, or that run it again.
_RUNNING = ("status_only", "shrink", "save")


def judge(arguments: argparse.Namespace, options: Options) -> int:
    """Judge the arrays of ``--outputs`` against the golden of the one case chosen.

    Returns
    -------
    int
        0 if every output is within the standard, else 1.

    Raises
    ------
    CommandError
        More or fewer cases than one, a file that cannot be read, or an option that runs something.
    """
    from cann_mla.cli import console
    from cann_mla.cli.run import inputs
    from cann_mla.validate.names import case_file_slips
    from cann_mla.validate.replay import explanation
    from cann_mla.validate.report import JsonLines, Report
    from cann_mla.validate.verify import judge_outputs, outputs_from_file

    _refuse_running(arguments)
    case = _one_case(arguments)
    for line in case_file_slips(case):
        print(f"cann-mla verify: warning: {line}", file=sys.stderr)
    given = inputs(case, arguments.inputs, "verify") if arguments.inputs else None
    files = inputs(case, arguments.outputs, "verify")
    record = judge_outputs(case, options, files, given)
    if arguments.explain and record["verdict"] == "fail":
        record["explanation"] = list(explanation(case, options, outputs=outputs_from_file(case, files), given=given))
    report = Report(console())
    report.add(record, case)
    with JsonLines(arguments.json) as lines:
        lines.write(record)
    report.print()
    for line in record.get("explanation", ()):
        print(f"{case.id}: {line}")
    return 1 if report.failed or record["verdict"] == "skip" else 0


def _refuse_running(arguments: argparse.Namespace) -> None:
    from cann_mla.cli import CommandError

    given = ["--via"] if arguments.via != "auto" else []
    given += [f"--{name.replace('_', '-')}" for name in _RUNNING if getattr(arguments, name)]
    if given:
        raise CommandError(f"--outputs judges what is there and runs nothing: leave out {', '.join(given)}")


def _one_case(arguments: argparse.Namespace) -> Case:
    from cann_mla.cli import CommandError
    from cann_mla.cli.verify import find_cases, nothing_chosen, selected
    from cann_mla.validate.cases import Case, CaseError

    found: list[Any] = list(find_cases(arguments.targets))
    cases = [item for item in found if isinstance(item, Case) and selected(item, arguments)]
    errors = [item for item in found if isinstance(item, CaseError)]
    if len(cases) == 1:
        return cases[0]
    if errors and not cases:
        raise CommandError(str(errors[0]))
    if not cases:
        raise CommandError(nothing_chosen(arguments))
    raise CommandError(
        f"--outputs holds the results of one case, {len(cases)} are chosen; pick one with --id, such as {cases[0].id!r}"
    )

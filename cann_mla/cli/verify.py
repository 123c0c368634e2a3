"""``cann-mla verify``: run cases, judge them, end 0 only if none failed or erred."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cann_mla.cli.sim import SOCS

if TYPE_CHECKING:
    from cann_mla.validate.cases import Case, CaseError, Skipped

BUILTIN = Path(__file__).parent.parent / "validate" / "builtin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    parser.add_argument(
        "targets", nargs="*", metavar="FILE|FOLDER|OPERATOR", help="cases; without any, the built-in set"
    )
    parser.add_argument("--via", choices=("auto", "sim", "cann", "reference"), default="auto")
    parser.add_argument("--status-only", action="store_true", help="compare statuses and compute nothing")
    parser.add_argument(
        "--standard", action="append", metavar="NAME", help="precision standard, may be given several times"
    )
    parser.add_argument("--golden", choices=("device", "exact"), default="device", help="precision of the reference")
    parser.add_argument(
        "--json", metavar="FILE", help="one JSON object a line, as each case ends; with --explain, what explains it"
    )
    parser.add_argument("--soc", choices=SOCS, help="only cases of this product")
    parser.add_argument("--id", metavar="PATTERN", help="only cases whose id matches (shell wildcards)")
    parser.add_argument("--all", action="store_true", help="a row for every case, however many")
    parser.add_argument("--explain", action="store_true", help="try the usual mistakes on cases whose numbers fail")
    parser.add_argument("--shrink", action="store_true", help="make each failing case as small as it still fails")
    parser.add_argument("--save", metavar="FOLDER", help="write failing cases as a case file and a script each")
    parser.add_argument("--outputs", metavar="NPZ", help="judge these outputs of one case; nothing is run")
    parser.add_argument("--inputs", metavar="NPZ", help="with --outputs: the operands they were computed from")
    parser.add_argument("--standards", action="store_true", help="list the standards and what each one masks")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla.cli import CommandError, console
    from cann_mla.validate.replay import explanation
    from cann_mla.validate.report import JsonLines, Report
    from cann_mla.validate.standard_rules import DEFAULT, find_standard
    from cann_mla.validate.verify import Options

    printer = console()
    if arguments.standards:
        _list_standards(printer)
        return 0
    try:
        labels = tuple(find_standard(name).label + _option(name) for name in arguments.standard or [DEFAULT])
    except ValueError as error:
        raise CommandError(str(error)) from error
    if arguments.outputs:
        from cann_mla.cli.judge import judge

        return judge(arguments, Options("file", arguments.golden, labels))
    if arguments.inputs:
        raise CommandError("--inputs goes with --outputs; to run a case with other operands name them in inputs_npz")
    via = resolve_via(arguments.via)
    options = Options(via, arguments.golden, labels, arguments.status_only)
    report = Report(printer, show_all=arguments.all)
    with JsonLines(arguments.json) as lines:
        for case, record in verified(find_cases(arguments.targets), options, arguments, report.skipped_objects):
            if arguments.explain and record["verdict"] == "fail" and case is not None:
                record["explanation"] = list(explanation(case, options))
            lines.write(record)
            report.add(record, case)
    report.print()
    if not report.total:
        raise CommandError(nothing_chosen(arguments))
    _follow_up(report.rows, options, arguments)
    return 1 if report.failed else 0


def _follow_up(rows: list[Any], options: Any, arguments: argparse.Namespace) -> None:
    """What was asked for about the cases that failed."""
    from cann_mla.validate.replay import save, shrunk, why_not_shrunk

    for record, case in rows:
        if record["verdict"] != "fail" or case is None:
            continue
        for line in record.get("explanation", ()):
            print(f"{case.id}: {line}")
        if arguments.shrink and (reason := why_not_shrunk(case)):
            print(f"{case.id}: {reason}")
        elif arguments.shrink:
            case = shrunk(case, record, options)
            print(f"{case.id}: fails with {sum(spec.numel for _, spec in case.specs())} elements in all")
        if arguments.save:
            print("written: " + ", ".join(map(str, save(case, options, arguments.save))))


def _option(name: str) -> str:
    option = name.partition(":")[2]
    return f":{option}" if option else ""


def verified(
    found: Iterable[Case | CaseError | Skipped],
    options: Any,
    arguments: argparse.Namespace,
    skipped: list[Skipped],
) -> Iterator[tuple[Case | None, dict[str, Any]]]:
    """Judge what was found, case by case; objects that are no case go to `skipped`."""
    from cann_mla.validate.cases import Case, CaseError
    from cann_mla.validate.names import case_file_slips
    from cann_mla.validate.verify import error_record, verify_case

    for item in found:
        if isinstance(item, CaseError):
            yield None, error_record(item)
        elif not isinstance(item, Case):
            skipped.append(item)
        elif selected(item, arguments):
            for line in () if options.status_only else case_file_slips(item):
                print(f"cann-mla verify: warning: {item.id}: {line}", file=sys.stderr)
            yield item, verify_case(item, options)


def selected(case: Case, arguments: argparse.Namespace) -> bool:
    """Whether ``--soc`` and ``--id`` let a case through."""
    return (arguments.soc is None or case.soc == arguments.soc) and (
        arguments.id is None or fnmatchcase(case.id, arguments.id)
    )


def nothing_chosen(arguments: argparse.Namespace) -> str:
    """Why no case was run: what the filters left out, and the ids nearest to the one asked for."""
    from difflib import get_close_matches

    from cann_mla.validate.cases import Case

    found = [case for case in find_cases(arguments.targets) if isinstance(case, Case)]
    if not found:
        return "no case there: a case is a JSON object with 'op', or one of the list 'cases', in *.json or *.jsonl"
    filters = [f"--{key} {getattr(arguments, key)}" for key in ("id", "soc") if getattr(arguments, key) is not None]
    ids = [case.id for case in found]
    near = get_close_matches(arguments.id or "", ids, n=3) or ids[:3]
    products = ", ".join(sorted({case.soc for case in found if case.soc}))
    return f"none of {len(found)} cases passes {' and '.join(filters)}; ids such as {', '.join(near)}; soc: {products}"


def find_cases(targets: list[str]) -> Iterator[Case | CaseError | Skipped]:
    """Cases of files and folders; a name that is no path is an operator, whose built-in cases are taken."""
    from cann_mla.cli import CommandError
    from cann_mla.validate.cases import Case, load

    if not targets:
        yield from load(BUILTIN)
    for target in targets:
        if Path(target).exists():
            yield from load(target)
            continue
        own = [case for case in load(BUILTIN) if isinstance(case, Case) and case.op == target]
        if not own:
            raise CommandError(_no_such_target(target))
        yield from own


def _no_such_target(target: str) -> str:
    """What a target may be, with the names near to the one given."""
    from cann_mla.headers import shipped
    from cann_mla.validate.cases import Case, load
    from cann_mla.validate.names import did_you_mean
    from cann_mla.validate.signatures import COMPOSED

    covered = sorted({case.op for case in load(BUILTIN) if isinstance(case, Case)})
    known = [*shipped.load().operators, *COMPOSED]
    have = f"operators that have some: {', '.join(covered)}"
    if target in known:
        return (
            f"{target} has no built-in cases ({have}). Write a case file and give its path; "
            f"cann_mla/validate/cases.py describes the format, `cann-mla ops {target}` lists the parameters"
        )
    beside = Path(target).parent
    files = [str(path) for path in beside.iterdir()] if beside.is_dir() else []
    near = did_you_mean(target, [*known, *files])
    return f"{target}: no file, no folder and no operator with built-in cases{near} ({have})"


def resolve_via(via: str) -> str:
    """``auto`` is whatever library the process loads: CANN where there is one, else the simulator.

    Raises
    ------
    CommandError
        The backend is not there; that every case is skipped must not look like success.
    """
    from cann_mla.cli import CommandError
    from cann_mla.errors import LibraryNotFoundError
    from cann_mla.validate.library import loaded_backend, open_library
    from cann_mla.validate.verify import NotHereError

    if via == "reference":
        return via
    try:
        backend = loaded_backend() if via == "auto" else via
        open_library(backend)
    except (LibraryNotFoundError, ImportError, ValueError, NotHereError) as error:
        raise CommandError(str(error)) from error
    return backend


def _list_standards(printer: Any) -> None:
    from rich.table import Table

    from cann_mla.validate.standard_rules import STANDARDS

    table = Table("standard", "rule", "masks", "NaN and infinity", "source", show_lines=True)
    for label, standard in STANDARDS.items():
        rule = " ".join((type(standard).__doc__ or "").split())
        table.add_row(label, rule, standard.masks, standard.nonfinite, standard.source)
    printer.print(table)

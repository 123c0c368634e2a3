"""``cann-mla bench``: ratios measured side by side; ends 1 if a limit is missed."""

from __future__ import annotations

import argparse
from dataclasses import asdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; without any, all")
    parser.add_argument("--json", metavar="FILE", help="one JSON object a line, as each measurement ends")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla.bench import BENCHMARKS
    from cann_mla.bench import run as measure
    from cann_mla.cli import CommandError
    from cann_mla.validate.report import JsonLines

    if arguments.list:
        print("\n".join(BENCHMARKS))
        return 0
    missed = 0
    try:
        with JsonLines(arguments.json) as lines:
            for line in measure(arguments.names):
                missed += line.missed
                lines.write(asdict(line))
                print(_text(line), flush=True)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return 1 if missed else 0


def _text(line: object) -> str:
    from cann_mla.bench import Measurement

    assert isinstance(line, Measurement)
    if line.value is None:
        return f"{line.name:<44} skipped: {line.detail.get('skipped', '')}"
    limit = "" if line.limit is None else f"  ({'at least' if line.better == 'higher' else 'at most'} {line.limit:g})"
    verdict = "MISSED" if line.missed else "ok" if line.limit is not None else ""
    return f"{line.name:<44} {line.value:>9.3f} {line.unit} of {line.of}{limit}  {verdict}".rstrip()

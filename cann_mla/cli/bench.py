"""``cann-mla bench``: ratios measured side by side; ends 1 if a limit is missed."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; without any, all")
    parser.add_argument("--json", metavar="FILE", help="one JSON object a line, as each measurement ends")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")


def run(arguments: argparse.Namespace) -> int:
    from cann_mla.bench import BENCHMARKS
    from cann_mla.bench import run as measure
    from cann_mla.cli import CommandError

    if arguments.list:
        print("\n".join(BENCHMARKS))
        return 0
    file = open(arguments.json, "w", encoding="utf-8") if arguments.json else None
    missed = 0
    try:
        for line in measure(arguments.names):
            missed += line.missed
            if file is not None:
                file.write(line.as_json() + "\n")
                file.flush()
            print(_text(line), flush=True)
    except ValueError as error:
        raise CommandError(str(error)) from error
    finally:
        if file is not None:
            file.close()
    return 1 if missed else 0


def _text(line: object) -> str:
    from cann_mla.bench import Measurement

    assert isinstance(line, Measurement)
    if line.value is None:
        return f"{line.name:<44} skipped: {line.detail.get('skipped', '')}"
    limit = "" if line.limit is None else f"  ({'at least' if line.better == 'higher' else 'at most'} {line.limit:g})"
    verdict = "MISSED" if line.missed else "ok" if line.limit is not None else ""
    return f"{line.name:<44} {line.value:>9.3f} {line.unit} of {line.of}{limit}  {verdict}".rstrip()

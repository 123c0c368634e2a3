"""The command line, ``cann-mla``: one module a command, imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

COMMANDS = {
    "info": "what was found, what was tried, versions, SoC",
    "ops": "operators, and the prototype of one with the role of each parameter",
    "run": "run one case",
    "verify": "run cases and judge them",
    "bench": "benchmarks: ratios measured side by side in one run",
    "sim": "the simulator: where it is, how to link and run a program against it",
    "headers": "compare, check and trim C headers",
}

OK, REFUSED, CANNOT = 0, 1, 2


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the arguments of `command` are filled in (of all commands without it)."""
    parser = argparse.ArgumentParser(
        prog="cann-mla", description="Ascend CANN's MLA operators: call them, simulate them, verify them."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if command in (None, name):
            importlib.import_module(f"cann_mla.cli.{name}").add_arguments(sub)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the process's exit status.

    0: all is well; 1: CANN or a case says no; 2: the command could not be carried out.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command = next((word for word in arguments if word in COMMANDS), None)
    parsed = build_parser(command).parse_args(arguments)
    try:
        return int(importlib.import_module(f"cann_mla.cli.{parsed.command}").run(parsed))
    except BrokenPipeError:  # the reader of our output went away, as head does
        sys.stderr.close()
        return REFUSED
    except (OSError, CommandError) as error:  # a path that cannot be read or written, a command that makes no sense
        print(f"cann-mla {parsed.command}: {error}", file=sys.stderr)
        return CANNOT


def console() -> Any:
    """A console for tables; where nobody looks at a terminal, wide enough to cut no name."""
    import os

    from rich.console import Console

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
    return Console(width=wide, highlight=False)


class CommandError(Exception):
    """A command that cannot be carried out; the text says what to change."""

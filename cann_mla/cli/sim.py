"""``cann-mla sim``: where the simulator is, and how a C++ program is linked with it and run."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from pathlib import Path

SOCS = ("Ascend910B", "Ascend910_93", "Ascend950")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("path", help="the library file")
    actions.add_parser("flags", help="compiler and linker flags for a program that uses it")
    actions.add_parser("env", help="environment in which a program finds it, as shell assignments")
    run_parser = actions.add_parser(
        "run",
        help="run a program in that environment; its exit status is returned",
        epilog="With --strict, a program with findings that would have returned 0 returns 99.",
    )
    run_parser.add_argument("--strict", action="store_true", help="report what real hardware answers with silence")
    run_parser.add_argument("--faults", metavar="TEXT", help="faults to inject: `aclrtMalloc#3=207001; ...`")
    run_parser.add_argument("--report", type=Path, metavar="FILE", help="write the findings there too, as JSON")
    run_parser.add_argument(
        "--suppressions", type=Path, metavar="FILE", help="findings not to report: `rule api=PATTERN where=PATTERN`"
    )
    run_parser.add_argument("--soc", choices=SOCS, help="the product to be")
    run_parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM [ARGUMENT ...]")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla import simulator
    from cann_mla.cli import CommandError

    try:
        if arguments.action == "path":
            print(simulator.library_path())
        elif arguments.action == "flags":
            print(shlex.join([*simulator.compile_flags(), *simulator.link_flags()]))
        elif arguments.action == "env":
            variables = simulator.environment({"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})
            print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()))
        else:
            return _run_program(arguments, simulator.environment())
    except FileNotFoundError as error:
        raise CommandError(str(error)) from error
    return 0


def _run_program(arguments: argparse.Namespace, variables: dict[str, str]) -> int:
    from cann_mla.cli import CommandError

    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise CommandError("name a program: cann-mla sim run -- ./my_program")
    if (arguments.report or arguments.suppressions) and not arguments.strict:
        raise CommandError("--report and --suppressions are for findings, which take --strict")
    if arguments.suppressions and not arguments.suppressions.is_file():
        raise CommandError(f"{arguments.suppressions} is no file")
    if arguments.faults:
        _check_faults(arguments.faults)
    settings = {
        "CANN_MLA_BACKEND": "sim",
        "CANN_MLA_SIM_STRICT": "1" if arguments.strict else None,
        "CANN_MLA_SIM_REPORT": arguments.report and str(arguments.report.absolute()),
        "CANN_MLA_SIM_SUPPRESSIONS": arguments.suppressions and str(arguments.suppressions.absolute()),
        "CANN_MLA_SIM_FAULTS": arguments.faults,
        "CANN_MLA_SIM_SOC": arguments.soc,
    }
    variables.update({name: value for name, value in settings.items() if value})
    try:
        status = subprocess.run(program, env=variables, check=False).returncode
    except OSError as error:
        raise CommandError(f"{program[0]}: {error.strerror}") from error
    return status if status >= 0 else 128 - status


def _check_faults(text: str) -> None:
    """Refuse faults that the simulator would not take: the program would run without them."""
    from cann_mla import load
    from cann_mla.cli import CommandError
    from cann_mla.simulator import inject

    load("sim")
    try:
        with inject(text):
            pass
    except ValueError as error:
        raise CommandError(f"--faults: {error}") from error

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
    run_parser = actions.add_parser("run", help="run a program in that environment; its exit status is returned")
    run_parser.add_argument("--strict", action="store_true", help="report what real hardware answers with silence")
    run_parser.add_argument("--soc", choices=SOCS, help="the product to be")
    run_parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM [ARGUMENT ...]")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla.cli import CommandError

    library = library_file()
    if not library.is_file():
        raise CommandError(f"{library} is not there: the package was not built; run `pip install .`")
    if arguments.action == "path":
        print(library)
    elif arguments.action == "flags":
        print(shlex.join(flags(library)))
    elif arguments.action == "env":
        print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment(library).items()))
    else:
        return _run_program(arguments, library)
    return 0


def library_file() -> Path:
    """The simulator's library: ``CANN_MLA_SIM_LIBRARY`` if set, else the one of the package."""
    from cann_mla.binding import native_folder
    from cann_mla.libraries import SIMULATOR

    named = os.environ.get("CANN_MLA_SIM_LIBRARY")
    return Path(named) if named else native_folder() / SIMULATOR


def flags(library: Path) -> list[str]:
    """Flags that compile against the shipped headers and link with the simulator."""
    from cann_mla.headers import shipped

    folder = str(library.parent)
    return [f"-I{shipped.root()}", f"-L{folder}", f"-Wl,-rpath,{folder}", "-lcann_mla_sim"]


def environment(library: Path) -> dict[str, str]:
    """Variables that a program linked with CANN's library names needs to find the simulator instead."""
    import importlib.util

    path = os.environ.get("LD_LIBRARY_PATH", "")
    found = {"LD_LIBRARY_PATH": f"{library.parent}:{path}" if path else str(library.parent)}
    wheel = importlib.util.find_spec("scipy_openblas32")
    if wheel is not None and wheel.submodule_search_locations and "CANN_MLA_SIM_BLAS" not in os.environ:
        found["CANN_MLA_SIM_BLAS"] = str(Path(next(iter(wheel.submodule_search_locations))) / "lib")
    return found


def _run_program(arguments: argparse.Namespace, library: Path) -> int:
    from cann_mla.cli import CommandError

    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise CommandError("name a program: cann-mla sim run -- ./my_program")
    variables = {**os.environ, **environment(library), "CANN_MLA_BACKEND": "sim"}
    if arguments.strict:
        variables["CANN_MLA_SIM_STRICT"] = "1"
    if arguments.soc:
        variables["CANN_MLA_SIM_SOC"] = arguments.soc
    try:
        status = subprocess.run(program, env=variables, check=False).returncode
    except OSError as error:
        raise CommandError(f"{program[0]}: {error.strerror}") from error
    return status if status >= 0 else 128 - status

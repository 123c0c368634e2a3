"""``cann-mla ops [NAME]``: operators of the shipped headers, and what each parameter is for."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_mla.headers import Operator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="operator, or a pattern such as 'aclnnFused*'")
    parser.add_argument("--c", action="store_true", help="print the prototypes as C")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    from cann_mla.cli import CommandError
    from cann_mla.headers import shipped

    operators = shipped.load().operators
    name = arguments.name
    if name is None or any(sign in name for sign in "*?["):
        chosen = [op for key, op in sorted(operators.items()) if name is None or fnmatchcase(key, name)]
        if not chosen:
            raise CommandError(f"no shipped header declares an operator like {name}; `cann-mla ops` lists all")
        if arguments.c:
            for operator in chosen:
                _print_c(operator)
        else:
            _print_list(chosen)
    elif name in operators:
        _print_c(operators[name]) if arguments.c else _print_roles(operators[name])
    else:
        from cann_mla.validate.names import near

        parts = [key for key in sorted(operators) if name.lower() in key.lower()]
        names = list(dict.fromkeys([*near(name, operators), *parts]))
        hint = f"did you mean {', '.join(names)}?" if names else "`cann-mla ops` lists all"
        raise CommandError(f"no shipped header declares {name}; {hint}")
    return 0


def _print_list(operators: list[Operator]) -> None:
    from rich.table import Table

    from cann_mla.cli import console
    from cann_mla.reference.evaluate import FAMILIES

    library, column = _loaded_library()
    table = Table("operator", "operands", "since", "header", "reference", column, box=None, pad_edge=False)
    for operator in operators:
        phase_one = operator.get_workspace
        reference = "yes" if operator.name in FAMILIES else ""
        count = str(len(phase_one.operands))
        here = "?" if library is None else "yes" if library.has(operator.name) else ""
        table.add_row(operator.name, count, phase_one.since or "", phase_one.header, reference, here)
    console().print(table)


def _loaded_library() -> tuple[Any, str]:
    """The library that this process loads, and the heading of its column; without one, None."""
    from cann_mla.errors import LibraryNotFoundError
    from cann_mla.libraries import load

    try:
        library = load()
    except (LibraryNotFoundError, ImportError, ValueError):
        print("cann-mla ops: no library could be loaded; `cann-mla info` says what was tried", file=sys.stderr)
        return None, "library"
    return library, f"in {library.backend}"


def _print_roles(operator: Operator) -> None:
    from rich.table import Table

    from cann_mla.cli import console

    printer = console()
    phase_one = operator.get_workspace
    printer.print(f"{operator.name}  ({phase_one.header}:{phase_one.line})", highlight=False)
    if phase_one.since or phase_one.until:
        printer.print(f"since {phase_one.since or '?'}, until {phase_one.until or 'now'}", highlight=False)
    for title, signature in (("phase one", phase_one), ("phase two", operator.run)):
        table = Table("#", "parameter", "C type", "role", "may be null", title=title, title_justify="left", box=None)
        for index, parameter in enumerate(signature.parameters):
            optional = "yes" if parameter.optional else ""
            table.add_row(str(index), parameter.name, parameter.type, parameter.role.value, optional)
        printer.print(table)


def _print_c(operator: Operator) -> None:
    for signature in (operator.get_workspace, operator.run, operator.get_max_workspace):
        if signature is not None:
            print(f"{signature.prototype()};")

"""``cann-mla info``: what was found, what was tried, versions and SoC."""

from __future__ import annotations

import argparse
import json
import platform
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of this command."""
    parser.add_argument("--via", choices=("auto", "sim", "cann"), help="backend; default: CANN_MLA_BACKEND, else auto")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns 1 if no library could be loaded."""
    from cann_mla.errors import LibraryNotFoundError
    from cann_mla.libraries import load

    facts: dict[str, Any] = _versions()
    try:
        library = load(arguments.via)
    except (LibraryNotFoundError, ImportError) as error:
        facts["error"] = str(error)
        facts["tried"] = [str(attempt) for attempt in getattr(error, "attempts", ())]
    else:
        facts.update(_library_facts(library))
    if arguments.json:
        print(json.dumps(facts))
    else:
        _print(facts)
    return 1 if "error" in facts else 0


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("cann_mla", "numpy", "ml_dtypes", "cffi", "scipy-openblas32"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _library_facts(library: Any) -> dict[str, Any]:
    from cann_mla.headers import shipped
    from cann_mla.prototypes import shipped_symbols

    operators = shipped.load().operators
    for symbol in shipped_symbols():
        library.prototypes.knows(symbol)  # looking a symbol up is what compares its headers
    missing = sorted(name for name in operators if not library.has(name))
    return {
        "backend": library.backend,
        "cann": library.version or ("simulator" if library.backend == "sim" else "unknown"),
        "soc": library.soc,
        "files": [str(path) for path in library.files],
        "operators": f"{len(operators) - len(missing)} of {len(operators)} declared",
        "operators_missing": missing,
        "header_differences": [
            {"symbol": d.symbol, "shipped": d.shipped, "bound": d.bound, "origin": d.origin}
            for d in library.prototypes.differences.values()
        ],
        "tried": [str(attempt) for attempt in library.search_report],
    }


def _print(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if name == "header_differences":
            for difference in value:
                print(f"{difference['symbol']} is bound as {difference['origin']} has it:")
                print(f"  shipped {difference['shipped']}\n  bound   {difference['bound']}")
        elif isinstance(value, list):
            print(f"{name}:" if value else f"{name}: none")
            for entry in value:
                print(f"  {entry}")
        else:
            print(f"{name}: {value}")

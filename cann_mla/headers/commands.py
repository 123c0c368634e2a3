"""``cann-mla headers check | diff | trim``.

Each function takes the arguments behind its name and returns the exit status; the text goes to standard
output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from cann_mla.headers import shipped
from cann_mla.headers.compare import Change, compare
from cann_mla.headers.files import HeaderSet, scan
from cann_mla.headers.installation import exported, header_files, library_files, read_headers
from cann_mla.headers.trim import trimmed, updated

_HOMES = ("ASCEND_HOME_PATH", "ATB_HOME_PATH")
_QUIET = ("new", "only exported")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fill in the arguments of ``cann-mla headers``."""
    commands = parser.add_subparsers(dest="headers_command", metavar="check|diff|trim", required=True)
    sub = commands.add_parser("check", help="read headers and report what was read, ignored and refused")
    sub.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="header, or folder of headers")
    sub.add_argument("--verbose", action="store_true", help="list the operators with the roles of their operands")
    sub = commands.add_parser("diff", help="compare the shipped headers with an installation of CANN")
    sub.add_argument(
        "homes",
        nargs="*",
        type=Path,
        metavar="HOME",
        help="its folder, or a header; without any, $ASCEND_HOME_PATH and $ATB_HOME_PATH",
    )
    sub.add_argument("--library", action="append", type=Path, default=[], help="a library to look into besides")
    sub.add_argument("--all", action="store_true", help="also list what the shipped headers do not have")
    sub = commands.add_parser("trim", help="write headers in the shipped form, or update the shipped ones")
    sub.add_argument("paths", nargs="*", type=Path, metavar="HEADER", help="header to print in the shipped form")
    sub.add_argument(
        "--from",
        dest="homes",
        action="append",
        type=Path,
        default=[],
        metavar="HOME",
        help="installation of CANN to update the shipped headers from",
    )
    sub.add_argument("--release", help="its release, noted behind what is new")
    sub.add_argument(
        "--add", action="append", default=[], metavar="FUNCTION", help="function to add to its shipped header"
    )
    sub.add_argument("--write", action="store_true", help="with --from: write the files, do not print the difference")
    sub.add_argument("--root", type=Path, default=None, help="folder of the shipped headers")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand and return the exit status.

    Returns
    -------
    int
        0: all is well; 1: something was refused, or arguments differ; 2: the command could not be carried
        out.
    """
    commands = {"check": _check, "diff": _diff, "trim": _trim}
    try:
        return commands[options.headers_command](options)
    except BrokenPipeError:  # the caller knows what to do when its reader goes away
        raise
    except (OSError, ValueError) as error:
        print(f"cann-mla headers {options.headers_command}: {error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> int:
    headers = [scan(path) for path in _header_files(options.paths)]
    read = HeaderSet(headers, shipped.load())
    for problem in (p for h in headers for p in h.problems):
        print(problem)
    for signature in read.unpaired:
        print(f"{signature.header}:{signature.line}: {signature.name} has no other phase")
    for first, second in read.conflicts:
        print(f"{second.header}:{second.line}: {second.name} differs from {first.header}:{first.line}")
    if options.verbose:
        for operator in read.operators.values():
            roles = (f"{p.name}: {p.role.value}{'?' * p.optional}" for p in operator.get_workspace.operands)
            print(f"{operator.name}({', '.join(roles)})")
    ignored = Counter(i.what for h in headers for i in h.ignored if not i.what.endswith("macro"))
    refused = sum(len(h.problems) for h in headers)
    counts = f"{len(headers)} headers, {len(read.functions)} functions, {len(read.operators)} operators"
    print(f"{counts}, {refused} refused")
    if ignored:
        print("ignored: " + ", ".join(f"{count} {what}" for what, count in sorted(ignored.items())))
    return int(bool(refused or read.unpaired or read.conflicts))


def _diff(options: argparse.Namespace) -> int:
    homes = options.homes or [Path(os.environ[v]) for v in _HOMES if os.environ.get(v)]
    if not homes:
        raise ValueError(f"give the folder of an installation, or set {' and '.join(_HOMES)}")
    installed, problems = read_headers(_installed_files(homes))
    libraries = [*library_files(*homes), *options.library]
    if not installed.headers and not libraries:
        raise ValueError(f"no headers and no libraries of CANN below {', '.join(map(str, homes))}")
    changes = compare(installed, exported(libraries) if libraries else None)
    for problem in problems:
        print(problem)
    for change in changes:
        if options.all or change.kind not in _QUIET:
            print(_change_text(change))
    counts = Counter(c.kind for c in changes)
    summary = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) or "no difference"
    print(f"{len(installed.headers)} headers, {len(libraries)} libraries: {summary}")
    return int(counts["changed"] > 0)


def _trim(options: argparse.Namespace) -> int:
    if bool(options.paths) == bool(options.homes):
        raise ValueError("give headers to print, or an installation with --from")
    if options.homes and not options.release:
        raise ValueError("--from needs --release, which is noted behind what is new")
    if options.paths:
        return _print_trimmed(options.paths, options.release)
    return _update(options.root or shipped.root(), options)


def _print_trimmed(paths: Sequence[Path], release: str | None) -> int:
    status = 0
    for path in paths:
        header = scan(path)
        for problem in header.problems:
            print(problem, file=sys.stderr)
            status = 1
        folder = "aclnnop" if path.name.startswith("aclnn_") else path.resolve().parent.name
        print(trimmed(header, f"{folder}/{path.name}", release), end="")
    return status


def _update(root: Path, options: argparse.Namespace) -> int:
    installed, problems = read_headers(_installed_files(options.homes))
    for problem in problems:
        print(problem, file=sys.stderr)
    for path in sorted(root.rglob("*.h")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("legacy/", "sim/")):
            continue
        text = path.read_text(encoding="utf-8")
        new, remarks = updated(text, name, installed, options.release, options.add)
        for remark in remarks:
            print(f"{name}: {remark}", file=sys.stderr)
        if new != text and options.write:
            path.write_text(new, encoding="utf-8")
        elif new != text:
            sys.stdout.writelines(unified_diff(text.splitlines(True), new.splitlines(True), name, name))
    return 0


def _change_text(change: Change) -> str:
    first, *rest = (*change.details, "")
    lines = [f"{change.kind}: {change.symbol}" + (f": {first}" if first else "")]
    return "\n".join(lines + [f"    {line}" for line in rest if line])


def _header_files(paths: Sequence[Path]) -> list[Path]:
    return [f for path in paths for f in (sorted(path.rglob("*.h")) if path.is_dir() else [path])]


def _installed_files(homes: Sequence[Path]) -> list[Path]:
    return [f for home in homes for f in (header_files(home) if home.is_dir() else [home])]

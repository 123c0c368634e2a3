"""The headers and libraries of a CANN installation, found by its layout; nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cann_mla.headers import shipped
from cann_mla.headers.elf import exported_functions
from cann_mla.headers.files import HeaderSet, scan
from cann_mla.headers.model import Problem

_INCLUDES = ("include", "*-linux/include", "opp/built-in/op_impl/ai_core/tbe/op_api/include", "op_api/include")
_HEADERS = (
    "acl/*.h",
    "acl/error_codes/*.h",
    "aclnn/*.h",
    "aclnn_*.h",
    "aclnnop/**/*.h",
    "atb/atb_acl.h",
    "hccl/hccl*.h",
)
_LIBRARIES = (
    "libacl_rt.so",
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libnnopbase.so",
    "libopapi*.so",
    "libatb.so",
    "libhccl.so",
)


def header_files(*homes: Path | str) -> list[Path]:
    """Header files with a C interface below the homes of an installation (``ASCEND_HOME_PATH``,
    ``ATB_HOME_PATH``).

    Links to a file that was found already are left out.
    """
    found: dict[Path, Path] = {}
    for home in homes:
        for folder in (f for pattern in _INCLUDES for f in sorted(Path(home).glob(pattern))):
            for path in (p for pattern in _HEADERS for p in sorted(folder.glob(pattern))):
                found.setdefault(path.resolve(), path)
    return list(found.values())


def read_headers(paths: Iterable[Path | str]) -> tuple[HeaderSet, list[Problem]]:
    """Read headers as far as they can be read, together with what was refused."""
    headers = [scan(path) for path in paths]
    return HeaderSet(headers, shipped.load()), [p for header in headers for p in header.problems]


def library_files(*homes: Path | str) -> list[Path]:
    """The libraries below the homes that export functions of the shipped headers."""
    return [p for h in homes for pattern in _LIBRARIES for p in sorted(Path(h).glob(f"lib*/{pattern}"))]


def exported(paths: Iterable[Path | str]) -> set[str]:
    """Functions that any of the libraries exports.

    Raises
    ------
    ValueError
        One of them is no 64-bit little-endian ELF library.
    """
    return {name for path in paths for name in exported_functions(path)}

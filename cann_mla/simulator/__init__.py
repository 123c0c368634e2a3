"""The simulator of CANN's C interface, and its checks.

The simulator is a shared library with the ``acl*`` and ``aclnn*`` symbols of CANN. It is written in C++ and never calls
Python. This package says where things are, and what strict mode found. Importing it loads nothing.

Settings, read from the environment when the library is first used:

``CANN_MLA_SIM_SOC``
    The product to imitate: ``Ascend910B`` (default), ``Ascend910_93`` or ``Ascend950``.
``CANN_MLA_SIM_DEVICES``
    Number of devices, 1 to 16; default 2.
``CANN_MLA_SIM_MEMORY``
    Bytes of memory of each device, with an optional ``K``, ``M`` or ``G``; default ``64G``. Memory takes room on the
    host only when it is written. The first 256 MiB of an allocation are filled with the pattern 0x7FC1 (a NaN in BF16,
    FP16 and FP32).
``CANN_MLA_SIM_STRICT``
    ``1`` reports what real hardware would answer with silence, or with a fault later on, on stderr. With findings, a
    program that would have returned 0 returns 99.
``CANN_MLA_SIM_REPORT``
    File for the findings as JSON; ``%p`` in it becomes the process id.
``CANN_MLA_SIM_SUPPRESSIONS``
    File with findings not to report, one a line: ``rule api=PATTERN where=PATTERN``, of which only the rule has to be
    there. All are shell patterns; ``#`` begins a comment.
``CANN_MLA_SIM_FAULTS``
    Faults to inject, such as ``aclrtMalloc#3=207001``; :mod:`cann_mla.simulator.faults` tells the language.
``CANN_MLA_SIM_LIBRARY``
    Path of the library, where it is not the one installed with this package (a build tree, say).
"""

from __future__ import annotations

from cann_mla.simulator.checks import (
    EXIT_STATUS,
    Watch,
    clear_findings,
    findings,
    load_suppressions,
    set_strict,
    watch,
)
from cann_mla.simulator.faults import Injection, inject
from cann_mla.simulator.finding import Call, FailedCall, Finding, FoundObject
from cann_mla.simulator.installed import (
    compile_flags,
    environment,
    include_dir,
    library_dir,
    library_path,
    link_flags,
)

__all__ = [
    "EXIT_STATUS",
    "Call",
    "FailedCall",
    "Finding",
    "FoundObject",
    "Injection",
    "Watch",
    "clear_findings",
    "compile_flags",
    "environment",
    "findings",
    "include_dir",
    "inject",
    "library_dir",
    "library_path",
    "link_flags",
    "load_suppressions",
    "set_strict",
    "watch",
]

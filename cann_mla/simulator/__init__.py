"""The simulator of CANN's C interface: where its library is, and how programs are built and run against it.

The simulator is a shared library with the ``acl*`` and ``aclnn*`` symbols of CANN. It is written in C++ and never calls
Python; this module only says where things are. Importing it loads nothing.

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
    ``1`` prints what real hardware would answer with silence.
``CANN_MLA_SIM_LIBRARY``
    Path of the library, where it is not the one installed with this package (a build tree, say).
"""

from __future__ import annotations

import os
from pathlib import Path

from cann_mla.binding import native_folder

__all__ = ["compile_flags", "environment", "include_dir", "library_dir", "library_path", "link_flags"]

LIBRARY_NAME = "libcann_mla_sim.so"
_PACKAGE = Path(__file__).resolve().parent


def library_path() -> Path:
    """Find the simulator's library.

    Returns
    -------
    Path
        The library that ``CANN_MLA_SIM_LIBRARY`` names, or else the one installed with the package.

    Raises
    ------
    FileNotFoundError
        If there is none; the text lists every place looked at.
    """
    override = os.environ.get("CANN_MLA_SIM_LIBRARY")
    candidates = [Path(override)] if override else [native_folder() / "simulator/lib" / LIBRARY_NAME]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    places = ", ".join(str(candidate) for candidate in candidates)
    hint = (
        "CANN_MLA_SIM_LIBRARY must name the library file"
        if override
        else "install the package (pip install .), or set CANN_MLA_SIM_LIBRARY to a built library"
    )
    raise FileNotFoundError(f"the simulator's library is not at {places}; {hint}")


def library_dir() -> Path:
    """Folder of the library, and of ``libascendcl.so``, ``libnnopbase.so``, ``libopapi*.so`` that stand for CANN's."""
    return library_path().parent


def include_dir() -> Path:
    """Folder that holds the C headers ``acl/``, ``aclnn/``, ``aclnnop/`` and ``sim/``.

    Raises
    ------
    FileNotFoundError
        If neither the installed package nor the source tree has them.
    """
    candidates = [native_folder() / "include", _PACKAGE.parent.parent / "headers"]
    for candidate in candidates:
        if (candidate / "acl" / "acl_rt.h").is_file():
            return candidate
    places = " and ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"the C headers are neither in {places}; install the package again")


def compile_flags() -> list[str]:
    """Flags that let a C or C++ compiler find the headers."""
    return [f"-I{include_dir()}"]


def link_flags() -> list[str]:
    """Flags that link a program with the simulator, and with its ATB if the program uses that, and let it find them.

    ``-lascendcl -lnnopbase -lopapi`` instead of ``-lcann_mla_sim`` works as well.
    """
    folder = library_dir()
    atb = ["-Wl,--push-state,--as-needed", "-lcann_mla_sim_atb", "-Wl,--pop-state"]
    return [f"-L{folder}", *atb, "-lcann_mla_sim", f"-Wl,-rpath,{folder}"]


def environment(base: dict[str, str] | None = None) -> dict[str, str]:
    """Environment for running a program that is linked with CANN's library names.

    Parameters
    ----------
    base : dict of str to str, optional
        What to extend; the environment of this process by default.

    Returns
    -------
    dict of str to str
        A copy in which ``LD_LIBRARY_PATH`` begins with the simulator's folder.
    """
    result = dict(os.environ if base is None else base)
    older = result.get("LD_LIBRARY_PATH")
    result["LD_LIBRARY_PATH"] = f"{library_dir()}:{older}" if older else str(library_dir())
    return result

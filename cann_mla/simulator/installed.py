"""Where the simulator is, and how programs are built and run against it. Loads nothing."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from cann_mla.binding import native_folder

LIBRARY_NAME = "libcann_mla_sim.so"
_SOURCE_HEADERS = Path(__file__).resolve().parents[2] / "headers"


def library_path() -> Path:
    """Find the simulator's library.

    Returns
    -------
    Path
        The library that ``CANN_MLA_SIM_LIBRARY`` names, or else the one installed with the package.

    Raises
    ------
    FileNotFoundError
        If there is none; the text says where it was looked for.
    """
    override = os.environ.get("CANN_MLA_SIM_LIBRARY")
    candidate = Path(override) if override else native_folder() / "simulator/lib" / LIBRARY_NAME
    if candidate.is_file():
        return candidate.resolve()
    hint = (
        "CANN_MLA_SIM_LIBRARY must name the library file"
        if override
        else "install the package (pip install .), or set CANN_MLA_SIM_LIBRARY to a built library"
    )
    raise FileNotFoundError(f"the simulator's library is not at {candidate}; {hint}")


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
    candidates = [native_folder() / "include", _SOURCE_HEADERS]
    for candidate in candidates:
        if (candidate / "acl" / "acl_rt.h").is_file():
            return candidate
    places = " and ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"the C headers are neither in {places}; install the package again")


def compile_flags() -> list[str]:
    """Flags that let a C or C++ compiler find the headers."""
    return [f"-I{include_dir()}"]


def link_flags() -> list[str]:
    """Flags that link a program with the simulator, and with its ATB and HCCL if it uses them, and let it find them.

    ``-lascendcl -lnnopbase -lopapi`` instead of ``-lcann_mla_sim`` works as well.
    """
    folder = library_dir()
    extras = ["-Wl,--push-state,--as-needed", "-lcann_mla_sim_atb", "-lcann_mla_sim_hccl", "-Wl,--pop-state"]
    return [f"-L{folder}", *extras, "-lcann_mla_sim", f"-Wl,-rpath,{folder}"]


def environment(base: dict[str, str] | None = None) -> dict[str, str]:
    """Environment for running a program that is linked with CANN's library names.

    Parameters
    ----------
    base : dict of str to str, optional
        What to extend; the environment of this process by default.

    Returns
    -------
    dict of str to str
        A copy in which ``LD_LIBRARY_PATH`` begins with the simulator's folder, and ``CANN_MLA_SIM_BLAS`` names the
        folder of its BLAS, unless that is set.
    """
    result = dict(os.environ if base is None else base)
    older = result.get("LD_LIBRARY_PATH")
    result["LD_LIBRARY_PATH"] = f"{library_dir()}:{older}" if older else str(library_dir())
    wheel = importlib.util.find_spec("scipy_openblas32")
    if wheel is not None and wheel.submodule_search_locations:
        result.setdefault("CANN_MLA_SIM_BLAS", str(Path(next(iter(wheel.submodule_search_locations))) / "lib"))
    return result

"""The compiled parts: a cffi module with every C function of the headers, and the short way through phase one."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType


@lru_cache
def compiled(name: str) -> ModuleType:
    """A compiled module of the package.

    Raises
    ------
    ImportError
        If the package was not built: run ``pip install`` on the checkout.
    """
    try:
        return import_module(f"cann_mla.binding.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{error.name} is missing: cann_mla was imported from {Path(__file__).parents[1]}, which is not built. Run "
            "`pip install -e .` in the checkout; or, if the package is installed elsewhere, start Python outside of "
            "the checkout (`python -c` and `python -m` look into the current folder first; `pytest` does not)"
        ) from error


def abi() -> ModuleType:
    """The cffi module, with ``ffi`` and ``lib``."""
    return compiled("_abi")


def native_folder() -> Path:
    """Folder ``cann_mla`` that holds the built parts: in site-packages, also for an editable install."""
    origin = abi().__file__
    assert origin is not None
    return Path(origin).resolve().parent.parent

"""The compiled binding: one cffi module with every C function of the headers, over a table filled by ``dlsym``."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

_MODULE = "cann_mla.binding._abi"


@lru_cache
def abi() -> ModuleType:
    """The cffi module, with ``ffi`` and ``lib``.

    Raises
    ------
    ImportError
        If the package was not built: run ``pip install`` on the checkout.
    """
    try:
        return import_module(_MODULE)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{_MODULE} is missing: the package was imported from a checkout that was not installed; "
            "run `pip install .` or `pip install -e .` there"
        ) from error


def native_folder() -> Path:
    """Folder ``cann_mla`` that holds the built parts: in site-packages, also for an editable install."""
    origin = abi().__file__
    assert origin is not None
    return Path(origin).resolve().parent.parent

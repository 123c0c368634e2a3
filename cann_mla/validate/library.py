"""The loaded library as the validator uses it: one a process, one device, switched to each case's product."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cann_mla.validate.verify import NotHereError

# Prefixes of what chips report, by product; a longer prefix wins.
_PRODUCTS = {"Ascend910B": "Ascend910B", "Ascend910_93": "Ascend910_93", "Ascend950": "Ascend950"}


def loaded_backend() -> str:
    """``"cann"`` or ``"sim"``: what `cann_mla.load` finds for this process."""
    from cann_mla.libraries import load

    return load().backend


@lru_cache
def open_library(via: str) -> Any:
    """Load the backend, initialise it and select device 0.

    Raises
    ------
    NotHereError
        The backend cannot be had in this process; the text lists what was tried.
    """
    from cann_mla.errors import LibraryNotFoundError
    from cann_mla.libraries import load
    from cann_mla.runtime import Device

    try:
        library = load(via)
    except (LibraryNotFoundError, ValueError, ImportError) as error:
        raise NotHereError(str(error)) from error
    _devices.append(Device(0))  # it stays open as long as cases may come
    return library


def select_product(library: Any, soc: str | None) -> None:
    """Make the simulator the case's product; on hardware, refuse cases of another one.

    Raises
    ------
    NotHereError
        The device is another product.
    """
    if soc is None:
        return
    if library.backend == "sim":
        _set_soc(library, soc)
        return
    chip = library.soc or ""
    if not chip.startswith(_PRODUCTS[soc]):
        raise NotHereError(f"the case is for {soc}, the device is {chip or 'unknown'}")


_devices: list[Any] = []


def _set_soc(library: Any, soc: str) -> None:
    status = library.cannMlaSimSetSoc(soc.encode())
    if status:
        raise NotHereError(f"the simulator cannot be {soc}: status {status}")

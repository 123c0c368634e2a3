"""One library file, and the symbols in it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cann_mla.binding import abi
from cann_mla.headers.elf import missing_bytes

_NOT_LOADED = "cannot open shared object file"
_DRIVER_FOLDERS = ("/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64/common")


class SharedObject:
    """A library file; opened when the first symbol is asked of it, and never closed."""

    __slots__ = ("_handle", "path", "refusal")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refusal: str | None = None
        self._handle: Any = None

    def open(self) -> bool:
        """Load the file; False if the loader refused it, with its words in ``refusal``."""
        if self._handle is None and self.refusal is None:
            lib, ffi = abi().lib, abi().ffi
            if missing := missing_bytes(self.path):
                self.refusal = f"{self.path}: the file is cut off, {missing} bytes are missing"
                return False
            handle = lib.dlopen(os.fsencode(self.path), lib.RTLD_LAZY | lib.RTLD_LOCAL)
            if handle == ffi.NULL:
                self.refusal = _explain(ffi.string(lib.dlerror()).decode(errors="replace"), self.path)
            else:
                self._handle = handle
        return self._handle is not None

    def find(self, symbol: str, *, own: bool = False) -> Any:
        """Address of a symbol, or None.

        With ``own``, a symbol that a dependency of the library defines does not count.
        """
        if not self.open():
            return None
        lib, ffi = abi().lib, abi().ffi
        address = lib.dlsym(self._handle, symbol.encode())
        if address == ffi.NULL or (own and not self._defines(address)):
            return None
        return address

    def _defines(self, address: Any) -> bool:
        lib, ffi = abi().lib, abi().ffi
        file = lib.cann_mla_file_of(address)
        return file != ffi.NULL and os.path.realpath(os.fsdecode(ffi.string(file))) == os.path.realpath(self.path)


def _explain(message: str, path: Path) -> str:
    """The loader's message; for a missing dependency, which one it is and where it may be found."""
    missing = re.match(r"(\S+\.so\S*): " + _NOT_LOADED, message)
    if missing is None or missing.group(1) == str(path):
        return message
    name = missing.group(1)
    folder = next((f for f in _DRIVER_FOLDERS if (Path(f) / name).is_file()), None)
    place = f"it is in {folder}" if folder else "it is in neither of the driver's folders"
    return (
        f"its dependency {name} was not found; {place}. Add its folder to LD_LIBRARY_PATH before the process "
        "starts (CANN's set_env.sh does)"
    )

"""Every C function of the headers under its own name, for programs that are ported line by line.

The arguments are those of C, in the same order; the status is returned and nothing is raised for it. Out-parameters
and arrays come from :func:`new`, as in cffi::

    from cann_mla import c

    stream = c.new("aclrtStream *")
    status = c.aclrtCreateStream(stream)
    c.aclrtDestroyStream(stream[0])

Constants and enumerators have their C names too (``c.ACL_MEM_MALLOC_HUGE_FIRST``), and ``c.NULL`` is the null pointer.
Integers that do not fit their C type raise OverflowError, pointers of another type TypeError; a text is given as
``b"..."`` or ``c.new("char[]", b"...")``. Handles are not owned: destroy them as in C. A function that the loaded
library lacks raises :class:`cann_mla.SymbolNotFoundError` when it is called. :func:`prototype` tells the arguments of
a function by name, :func:`address` gives the pointer to a NumPy array for functions such as ``aclrtMemcpy``,
:func:`string` the text at a ``char *``.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

import numpy.typing as npt

from cann_mla.binding import abi

_ffi = abi().ffi
NULL = _ffi.NULL


def new(ctype: str, initializer: Any = None) -> Any:
    """Make C memory: ``new("aclTensor **")``, ``new("int64_t[]", shape)``. Lives as long as the result.

    Parameters
    ----------
    ctype : str
        A pointer or array type of the headers.
    initializer : optional
        Value of what is pointed at.

    Raises
    ------
    ValueError
        If the type is unknown.
    """
    try:
        return _ffi.new(ctype, initializer)
    except _ffi.error as error:
        raise ValueError(f"{ctype!r} is no C type of the headers{_near(ctype)}: {error}") from None


def prototype(name: str) -> str:
    """The C prototype of a function of the shipped headers, with the names of its parameters.

    Raises
    ------
    LookupError
        If there is none of that name.
    """
    from cann_mla.prototypes import shipped_signature, shipped_symbols

    signature = shipped_signature(name)
    if signature is None:
        near = difflib.get_close_matches(name, shipped_symbols(), 3)
        raise LookupError(f"no shipped header declares {name}" + (f"; near are {', '.join(near)}" if near else ""))
    return signature.prototype()


def _near(ctype: str) -> str:
    words = re.findall(r"[A-Za-z_]\w*", ctype)
    known = [name for kind in _ffi.list_types() for name in kind]
    near = [match for word in words for match in difflib.get_close_matches(word, known, 1) if match != word]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def cast(ctype: str, value: Any) -> Any:
    """Convert between pointers and integers, as a C cast does."""
    return _ffi.cast(ctype, value)


def sizeof(what: Any) -> int:
    """Bytes of a C type, given by name, or of C memory."""
    return int(_ffi.sizeof(what))


def buffer(pointer: Any, size: int = -1) -> Any:
    """The bytes at a pointer as a Python buffer, without a copy.

    Parameters
    ----------
    pointer : cdata
        To host memory.
    size : int
        Bytes; default: the size of the type pointed at.
    """
    return _ffi.buffer(pointer, size)


def address(array: npt.NDArray[Any]) -> Any:
    """Pointer to the first element of an array. The array must be C-contiguous, and outlive the pointer.

    Raises
    ------
    ValueError
        If the array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous; take numpy.ascontiguousarray(array)")
    return _ffi.cast("void *", array.ctypes.data)


def string(pointer: Any) -> str:
    """The text at a ``char *``; empty for a null pointer."""
    return "" if pointer == NULL else _ffi.string(pointer).decode(errors="replace")


def __getattr__(name: str) -> Any:
    value = None if name.startswith("_") else getattr(abi().lib, name, None)
    if not isinstance(value, int):
        from cann_mla.libraries import load

        try:
            value = getattr(load(), name)
        except AttributeError:
            raise AttributeError(f"{name} is neither a function nor a constant of the C headers") from None
        if not callable(value):
            raise AttributeError(f"{name} is neither a function nor a constant of the C headers")
    globals()[name] = value
    return value


_OWN = ("NULL", "address", "buffer", "cast", "new", "prototype", "sizeof", "string")


def __dir__() -> list[str]:
    return sorted({*_OWN, *(name for name in dir(abi().lib) if not name.startswith("cann_mla_"))})

"""Symbols that a shared library exports, read from the file without loading it."""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_SYMBOLS = 11
_GLOBAL, _WEAK = 1, 2
_FUNCTION, _INDIRECT_FUNCTION = 2, 10


def exported_functions(path: Path | str) -> set[str]:
    """Names of the functions in the dynamic symbol table of a 64-bit little-endian ELF file.

    Raises
    ------
    ValueError
        The file is no such library; the message says what it is instead.
    OSError
        It cannot be opened.
    """
    data = Path(path).read_bytes()
    if data[:4] != b"\x7fELF":
        raise ValueError(f"{path} is no ELF library")
    if data[4:6] != b"\x02\x01":
        raise ValueError(f"{path} is an ELF file, but not 64-bit little-endian")
    try:
        return _functions(data)
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"{path} is a damaged ELF library ({error})") from None


def missing_bytes(path: Path | str) -> int:
    """How many bytes a 64-bit ELF file is too short for its segments: loading such a file would crash.

    0 for a whole file, and for anything that is no such file, which the loader refuses by itself.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER.size)
            if header[:6] != b"\x7fELF\x02\x01":
                return 0
            _, _, _, _, _, start, _, _, _, entry, count, *_ = _HEADER.unpack(header)
            file.seek(start)
            table = file.read(entry * count)
            size = file.seek(0, 2)
    except (OSError, struct.error):
        return 0
    if len(table) < entry * count:
        return int(start + entry * count - size)
    segments: list[tuple[int, ...]] = [_SEGMENT.unpack_from(table, i * entry) for i in range(count)]
    return max([0, *(offset + length - size for _, _, offset, _, _, length, _, _ in segments)])


def _functions(data: bytes) -> set[str]:
    *_, offset, _flags, _size, _, _, entry, count, _names = _HEADER.unpack_from(data)
    sections = [_SECTION.unpack_from(data, offset + i * entry) for i in range(count)]
    found: set[str] = set()
    for _, kind, _, _, start, size, link, *_ in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[link][4]
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(data[start : start + size]):
            exported = info >> 4 in (_GLOBAL, _WEAK) and info & 15 in (_FUNCTION, _INDIRECT_FUNCTION)
            if exported and section:
                begin = names + name
                found.add(data[begin : data.index(b"\0", begin)].decode("ascii", "replace"))
    return found

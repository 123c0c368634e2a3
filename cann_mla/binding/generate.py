"""Write the C source of the compiled binding from the shipped headers.

Run by the build. The result is a cffi module with every C function of the headers. None of them is linked: each
is a macro over one entry of a table of pointers, which :mod:`cann_mla.libraries` fills with ``dlsym`` when a
function is first asked for. The prototypes stay in the headers; the macro takes the type with ``__typeof__``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from cann_mla.headers import HeaderSet, read_header

MODULE = "cann_mla.binding._abi"

# The dynamic loader, and the table: not CANN's, so not in headers/.
LOADER = """
#define RTLD_LAZY ...
#define RTLD_LOCAL ...
void *dlopen(const char *path, int flags);
void *dlsym(void *library, const char *symbol);
char *dlerror(void);
const char *cann_mla_file_of(const void *address);
extern void *cann_mla_table[];
extern const char *const cann_mla_symbols[];
extern const char *const cann_mla_origins[];
"""

SOURCE = """
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
{includes}

static void *cann_mla_table[{count}];
static const char *const cann_mla_symbols[] = {{{symbols}, 0}};
static const char *const cann_mla_origins[] = {{{origins}, 0}};

static const char *cann_mla_file_of(const void *address) {{
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fname : 0;
}}

{forwarders}
"""


def c_headers(folder: Path) -> HeaderSet:
    """Read every header of a folder as C sees it; ``legacy`` holds older forms of the same symbols and is left out."""
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.h"))
    return HeaderSet(
        read_header(folder / name, name=name.as_posix(), cplusplus=False) for name in names if name.parts[0] != "legacy"
    )


def write(folder: Path, output: Path) -> None:
    """Write the C source for the headers in a folder."""
    from cffi import FFI

    headers = c_headers(folder)
    text, functions = headers.cdef()
    source = SOURCE.format(
        includes="\n".join(f'#include "{header.path}"' for header in headers.headers),
        count=len(functions),
        symbols=_strings(function.name for function in functions),
        origins=_strings(function.header for function in functions),
        forwarders="\n".join(
            f"#define {function.name} (*(__typeof__(&{function.name}))cann_mla_table[{index}])"
            for index, function in enumerate(functions)
        ),
    )
    ffi = FFI()
    ffi.cdef(LOADER + text)
    ffi.set_source(MODULE, source)
    ffi.emit_c_code(str(output))


def _strings(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the build."""
    parser = argparse.ArgumentParser(description=write.__doc__)
    parser.add_argument("--headers", type=Path, required=True, help="folder with acl/, aclnn/, aclnnop/ ...")
    parser.add_argument("--output", type=Path, required=True, help="C file to write")
    given = parser.parse_args(arguments)
    write(given.headers, given.output)


if __name__ == "__main__":
    main()

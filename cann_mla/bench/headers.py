"""Reading headers: against a pycparser pass over the same declarations, and what of it an import pays."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from cann_mla.bench.core import Measurement, SkipError, paired_seconds
from cann_mla.headers import parse, shipped

_IMPORT = "import cann_mla, sys; print(sum(m.startswith('cann_mla.headers') for m in sys.modules))"
_FIXED = "".join(f"typedef int {sign}int{bits}_t;\n" for sign in ("", "u") for bits in (8, 16, 32, 64))


def lines() -> Iterator[Measurement]:
    """Measure in this process, and the import in a fresh one."""
    try:
        from pycparser import c_parser
    except ImportError as error:
        raise SkipError("pycparser is not installed") from error
    texts = {h.path: (shipped.root() / h.path).read_text(encoding="utf-8") for h in shipped.load().headers}
    plain = re.sub(r"(?m)^#.*\n", "", shipped.load().cdef().text)  # pycparser has no preprocessor
    plain = f"{_FIXED}typedef int size_t;\ntypedef int bool;\n{plain}"

    def read() -> None:
        for path, text in texts.items():
            parse(text, path, cplusplus=False)

    ours, theirs = paired_seconds(read, lambda: c_parser.CParser().parse(plain), repeat=5)
    detail = {"headers": len(texts), "headers_a_second": len(texts) / ours, "prototypes": len(shipped.load().functions)}
    yield Measurement("headers read", theirs / ours, "times the speed", "pycparser", 0.5, "higher", detail)
    done = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
    yield Measurement(
        "header modules loaded by import cann_mla", float(done.stdout), "modules", "the import", 0.0, "lower"
    )

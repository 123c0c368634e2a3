"""What ``import cann_mla`` adds to ``import numpy``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from cann_mla.bench.core import Measurement

_PROGRAM = """
import time, numpy
started = time.perf_counter()
import cann_mla
print(time.perf_counter() - started)
"""


def lines() -> Iterator[Measurement]:
    """Measure in fresh interpreters."""
    times = [
        float(subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    yield Measurement("import", min(times) * 1e3, "ms", "above import numpy", 100.0, "lower", {"runs": len(times)})

"""Benchmarks as ratios: both sides are measured in one run, so that machines can be compared.

One file a family. A benchmark is a function that yields `Measurement` lines; `run` finds them by name.
"""

from cann_mla.bench.core import BENCHMARKS, Measurement, SkipError, run

__all__ = ["BENCHMARKS", "Measurement", "SkipError", "run"]

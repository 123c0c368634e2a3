"""Case files, data, standards, running and judging: what ``cann-mla run`` and ``cann-mla verify`` do.

>>> from cann_mla.validate import Options, load, verify_case          # doctest: +SKIP
>>> for case in load("cases/aclnnMlaPrologV3WeightNz.json"):          # doctest: +SKIP
...     print(verify_case(case, Options(via="sim"))["verdict"])
"""

from __future__ import annotations

import importlib
from typing import Any

# name -> module: nothing here is imported before it is asked for
_HOME = {
    "Case": "cases", "CaseError": "cases", "Skipped": "cases", "TensorSpec": "cases", "load": "cases", "parse": "cases",
    "DataError": "data", "fill": "data",
    "Judgement": "standards", "Standard": "standards",
    "DEFAULT": "standard_rules", "STANDARDS": "standard_rules", "find_standard": "standard_rules",
    "Options": "verify", "verify_case": "verify", "CannotRun": "verify", "NotHere": "verify", "Outcome": "verify",
}  # fmt: skip
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

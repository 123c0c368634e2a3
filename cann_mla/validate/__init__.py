"""Case files, data, standards, running and judging: what ``cann-mla run`` and ``cann-mla verify`` do.

>>> from cann_mla.validate import Options, load, verify_case          # doctest: +SKIP
>>> for case in load("cases/aclnnMlaPrologV3WeightNz.json"):          # doctest: +SKIP
...     print(verify_case(case, Options(via="sim"))["verdict"])
"""

from __future__ import annotations

import importlib
from typing import Any

# module -> names: nothing here is imported before it is asked for
_NAMES = {
    "cases": "Case CaseError Skipped TensorSpec load parse",
    "data": "DataError fill",
    "standards": "Judgement Standard",
    "standard_rules": "DEFAULT STANDARDS find_standard",
    "verify": "CannotRunError NotHereError Options Outcome judge_outputs verify_case",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

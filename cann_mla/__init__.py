"""CANN's aclnn and ATB operators from Python: on Ascend, or on a simulator of the same C ABI.

>>> import cann_mla
>>> device = cann_mla.Device(0)
>>> stream = cann_mla.Stream()
>>> operator = cann_mla.operator("aclnnMlaPrologV3WeightNz")

Importing the package loads no library; the first :class:`Device` does, or :func:`load`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_mla import c as c
    from cann_mla import ops as ops
    from cann_mla.dtypes import DType, dtype
    from cann_mla.errors import CannError, ClosedError, LibraryNotFoundError, SymbolNotFoundError
    from cann_mla.libraries import Library, load
    from cann_mla.operands import BoolArray, FloatArray, IntArray, Scalar, ScalarList
    from cann_mla.plan import Plan, RepeatablePlan
    from cann_mla.runtime import Context, Device, DeviceMemory, Event, HostMemory, Stream, current_device
    from cann_mla.tensor import Tensor, TensorList
    from cann_mla.two_phase import Operator, load_headers, operator

__version__ = "0.1.0"

_HOMES = {
    "cann_mla.dtypes": ("DType", "dtype"),
    "cann_mla.errors": ("CannError", "ClosedError", "LibraryNotFoundError", "SymbolNotFoundError"),
    "cann_mla.libraries": ("Library", "load"),
    "cann_mla.operands": ("BoolArray", "FloatArray", "IntArray", "Scalar", "ScalarList"),
    "cann_mla.runtime": ("Context", "Device", "DeviceMemory", "Event", "HostMemory", "Stream", "current_device"),
    "cann_mla.tensor": ("Tensor", "TensorList"),
    "cann_mla.plan": ("Plan", "RepeatablePlan"),
    "cann_mla.two_phase": ("Operator", "load_headers", "operator"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BoolArray",
    "CannError",
    "ClosedError",
    "Context",
    "DType",
    "Device",
    "DeviceMemory",
    "Event",
    "FloatArray",
    "HostMemory",
    "IntArray",
    "Library",
    "LibraryNotFoundError",
    "Operator",
    "Plan",
    "RepeatablePlan",
    "Scalar",
    "ScalarList",
    "Stream",
    "SymbolNotFoundError",
    "Tensor",
    "TensorList",
    "c",
    "current_device",
    "dtype",
    "load",
    "load_headers",
    "operator",
    "ops",
]


def __getattr__(name: str) -> Any:
    if name in ("c", "ops"):
        return import_module(f"cann_mla.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'cann_mla' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Python values to C arguments, by the type and role that a prototype gives each parameter."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cann_mla.binding import abi
from cann_mla.checks import shortened
from cann_mla.dtypes import DType
from cann_mla.dtypes import dtype as find_dtype
from cann_mla.errors import Argument, ClosedError
from cann_mla.headers import Parameter, Signature
from cann_mla.operands import BoolArray, FloatArray, IntArray, Scalar, ScalarList
from cann_mla.runtime.owner import Owner
from cann_mla.tensor import Tensor, TensorList, format_code

OBJECTS: dict[str, type[Owner]] = {
    "aclTensor": Tensor,
    "aclTensorList": TensorList,
    "aclIntArray": IntArray,
    "aclFloatArray": FloatArray,
    "aclBoolArray": BoolArray,
    "aclScalar": Scalar,
    "aclScalarList": ScalarList,
}
_SEQUENCES = (TensorList, IntArray, FloatArray, BoolArray, ScalarList)
STRINGS: dict[str, Any] = {}
_MOSTSTRINGS = 256
_FLOATS = {"float": np.finfo(np.float32), "double": np.finfo(np.float64)}


def string(text: str) -> Any:
    """A NUL-terminated, mutable copy of a text, as CANN's ``char *`` parameters want it; remembered by its text."""
    buffer = STRINGS.get(text)
    if buffer is None:
        if "\0" in text:
            raise ValueError(f"{shortened(text)} holds a NUL, which ends a C string")
        if len(STRINGS) >= _MOSTSTRINGS:
            STRINGS.clear()
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{shortened(text)} is no text that UTF-8 can hold") from None
        buffer = STRINGS[text] = abi().ffi.new("char[]", encoded)
    return buffer


def convert(signature: Signature, arguments: Mapping[str, Any], keep: dict[str, Owner]) -> dict[str, Any]:
    """Convert the arguments of an operator, given by C name.

    Parameters
    ----------
    signature : Signature
        Phase one.
    arguments : mapping
        By C name. A null pointer is None; what is absent must be optional, and is left out of the result.
    keep : dict
        Takes, by argument, the objects made on the way (a list for a Python sequence...); they must outlive the call.

    Raises
    ------
    TypeError
        If a name is unknown or missing, or a value has the wrong type.
    OverflowError, ValueError
        If a number does not fit the C type.
    ClosedError
        If an operand is closed.
    """
    parameters = {p.name: p for p in signature.operands}
    operator = signature.name.removesuffix("GetWorkspaceSize")
    if unknown := [name for name in arguments if name not in parameters]:
        hints = [m for name in unknown for m in difflib.get_close_matches(name, parameters, 1)]
        hint = f" (did you mean {', '.join(hints)}?)" if hints else ""
        raise TypeError(f"{operator} has no argument {', '.join(unknown)}{hint}; it takes {', '.join(parameters)}")
    required = [p.name for p in parameters.values() if not p.optional]
    if missing := [name for name in required if name not in arguments]:
        raise TypeError(
            f"{operator} misses {', '.join(missing)}; only optional ones may be left out (pass None for a null pointer)"
        )
    converted = {}
    for name, value in arguments.items():
        try:
            converted[name] = _convert(parameters[name], value, keep)
        except ClosedError as error:
            raise ClosedError(f"{operator}: argument {name}: {error}") from None
        except (TypeError, ValueError, OverflowError) as error:
            plain = next(kind for kind in (TypeError, ValueError, OverflowError) if isinstance(error, kind))
            raise plain(f"{operator}: argument {name}: {error}") from None
    return converted


def _convert(parameter: Parameter, value: Any, keep: dict[str, Owner]) -> Any:
    ffi = abi().ffi
    kind = parameter.type
    if isinstance(value, ffi.CData):
        return ffi.new(f"{kind}[1]", [value])[0]  # converts as the call will, or says why not
    if parameter.pointee in OBJECTS:
        return _object(parameter.name, OBJECTS[parameter.pointee], value, keep)
    if kind in ("char *", "const char *"):
        return _text(value)
    if kind.endswith("*"):
        if value is None:
            return ffi.NULL
        raise TypeError(f"{kind} takes a cffi pointer (cann_mla.c.new) or None, not {type(value).__name__}")
    return number(kind, value)


def _object(name: str, wanted: type[Owner], value: Any, keep: dict[str, Owner]) -> Any:
    if value is None:
        return abi().ffi.NULL
    if isinstance(value, wanted):
        return value.handle
    if wanted in _SEQUENCES and isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        make: Any = wanted
        made: Owner = make(value)
        keep[name] = made
        return made.handle
    advice = {
        Tensor: "a Tensor (Tensor.from_numpy for an array)",
        TensorList: "a TensorList or a sequence of Tensors",
        Scalar: "a Scalar(value, dtype)",
    }.get(wanted, f"{wanted.__name__} or a sequence of numbers")
    raise TypeError(f"takes {advice}, or None for a null pointer; got {type(value).__name__}")


def _text(value: Any) -> Any:
    if value is None:
        return abi().ffi.NULL
    if isinstance(value, bytes):
        try:
            return string(value.decode())
        except UnicodeDecodeError:
            raise ValueError(f"{shortened(value)} is no UTF-8 text") from None
    if not isinstance(value, str):
        raise TypeError(f"takes a str, or None for a null pointer; got {type(value).__name__}")
    return string(value)


def number(kind: str, value: Any) -> Any:
    """Check a number against a C type, and return the plain Python number. A bool is an integer, as in Python.

    Raises
    ------
    TypeError
        If the value is no number of that kind; a float is none where C wants an integer.
    OverflowError
        If it does not fit.
    """
    ffi = abi().ffi
    ctype = ffi.typeof(kind)
    if kind in _FLOATS:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise TypeError(f"takes a number for C's {kind}; got {type(value).__name__}")
        result = float(value)
        if math.isfinite(result) and abs(result) > float(_FLOATS[kind].max):
            raise OverflowError(f"{shortened(value)} does not fit C's {kind}")
        return result
    if kind in ("bool", "_Bool"):
        if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise TypeError(f"takes True or False; got {shortened(value)}")
    if ctype.kind == "enum":
        value = _enumerator(ctype, value)
    if isinstance(value, np.integer | np.bool_):
        value = int(value)
    if not isinstance(value, int):
        raise TypeError(f"takes an integer for C's {kind}; got {type(value).__name__} {shortened(value)}")
    if int(ffi.cast(kind, value)) != value:
        bits = 8 * ffi.sizeof(kind)
        raise OverflowError(f"{shortened(value)} does not fit C's {kind} ({bits} bits)")
    return int(value)


def _enumerator(ctype: Any, value: Any) -> Any:
    """Number of an enumerator given by name; element types and formats also by this package's names."""
    if isinstance(value, DType):
        return value.code
    if isinstance(value, str):
        if value in ctype.relements:
            return ctype.relements[value]
        if "aclDataType" in ctype.cname:
            return find_dtype(value).code
        if "aclFormat" in ctype.cname:
            return format_code(value)
        raise ValueError(f"{shortened(value)} is none of {', '.join(ctype.relements)}")
    return value


def describe(signature: Signature, arguments: Mapping[str, Any]) -> list[Argument]:
    """Rows for the argument table of an error, in C order."""
    rows = []
    for parameter in signature.operands:
        given = arguments.get(parameter.name)
        shown: Callable[[], str] | None = getattr(given, "describe", None)
        if shown is not None:
            text = shown()
        elif given is None:
            text = "null"
        elif isinstance(given, list | tuple) and given and isinstance(given[0], Tensor):
            text = f"list of {len(given)}: " + "; ".join("null" if t is None else t.describe() for t in given)
        else:
            text = shortened(given)
        rows.append(Argument(parameter.name, parameter.role.value, text))
    return rows


def document(signature: Signature, run: Signature) -> str:
    """The docstring of an operator: its prototype with roles."""
    width = max((len(p.name) for p in signature.operands), default=0)
    role = max((len(p.role.value) for p in signature.operands), default=0)
    lines = [
        f"{run.name}: operator in two phases, called by the C names of its arguments.",
        "",
        "Arguments in C order (those marked optional may be left out; None is a null pointer):",
        "",
    ]
    for p in signature.operands:
        optional = ", optional" if p.optional else ""
        lines.append(f"    {p.name:{width}}  {p.role.value:{role}}  {p.type}{optional}")
    lines += ["", f"Phase one (prepare), from {signature.header}:", f"    {signature.prototype()};"]
    if signature.since:
        lines.append(f"    since CANN {signature.since}")
    lines += ["Phase two (run):", f"    {run.prototype()};"]
    return "\n".join(lines)

"""Case files: one case is one call of one operator, written as data.

A ``*.json`` file holds one case, or ``{"cases": [case, ...]}``; a ``*.jsonl`` file holds a case a line. For a folder
every such file below it is read. An object with neither ``op`` nor ``cases`` is skipped and named. Numbers may be the
bare words ``NaN`` and ``Infinity``. A case, complete, that ``cann-mla verify`` passes on the simulator::

    {
      "id": "norm/two_rows",
      "op": "aclnnRmsNorm",
      "soc": "Ascend910B",
      "tensors": {
        "x":       {"shape": [2, 64], "dtype": "BF16", "data": {"dist": "normal", "std": 0.5}},
        "gamma":   {"shape": [64], "dtype": "BF16", "data": {"dist": "ones"}},
        "yOut":    {"shape": [2, 64], "dtype": "BF16"},
        "rstdOut": {"shape": [2, 1], "dtype": "FP32"}
      },
      "attrs": {"epsilon": 1e-6},
      "seed": 7,
      "expect": {"status": 0}
    }

Keys of a case; ``id`` and ``op`` must be there:

==================  ================================================================================================
``id``              a name of its own for the case; every result carries it
``op``              the C symbol of phase two (``aclnnMlaPrologV3WeightNz``), an ATB operation (``AtbRingMLA``), or a
                    composed operator of this package (``mla_prolog_quant``)
``soc``             the product: ``Ascend910B`` (A2), ``Ascend910_93`` (A3) or ``Ascend950``
``tensors``         operands and outputs by C parameter name (``cann-mla ops NAME`` lists them). An object is an
                    ``aclTensor``, a list of objects an ``aclTensorList``; ``null`` or no entry is a null pointer
``attrs``           host arguments by C parameter name: number, string, boolean, ``null`` for a null pointer, a list
                    of integers for an ``aclIntArray``. What is not there takes its documented default
``seed``            integer, 0 if absent. Random operands depend on it, on their name and on their shape, on nothing
                    else: they are the same on every machine
``inputs_npz``      list of ``.npz`` files beside the case with operands; they win over ``data``. Arrays of other
                    names are ignored
``expected_npz``    a ``.npz`` file beside the case with outputs and in-place operands to compare with, in place of
                    the reference
``expect``          ``status``: 0 (the default: both phases return 0 and the numbers are within the standard), another
                    number (that status), ``"reject"`` (phase one returns something other than 0) or ``"any"`` (it
                    only must not crash). ``phase``: 1 or 2, the phase that the status is of
``workspace``       bytes that CANN asked for in phase one
remarks             ``real``, ``why``, ``at``, ``doubtful``, ``source``, ``note``: for readers, carried along
==================  ================================================================================================

Keys of a tensor; ``shape`` and ``dtype`` must be there:

==================  ================================================================================================
``shape``           shape of the view; ``[]`` has rank 0
``dtype``           one of `DTYPES`
``format``          ``ND`` (the default), ``FRACTAL_NZ`` or ``NCHW``
``storage_shape``   shape of the storage. If absent: the 4-D blocks, rounded up, for a 2-D ``FRACTAL_NZ`` view, and the
                    view's own shape for any other
``strides``         of a view with gaps, in elements; ``offset`` likewise, the start of the view in its storage
``memory``          ``device`` (the default) or ``host``, for operands that CANN reads on the host
``alias``           name of the tensor whose storage this one shares; in a list, its entry of the same number
``data``            what the operand holds (next table). If absent: normal values where the dtype is a float, zeros in
                    integers, caches and outputs
==================  ================================================================================================

``data`` is an object with ``dist`` and what that needs:

=====================  =============================================================================================
``normal``             ``mean`` (0) and ``std`` (1), both optional
``uniform``            from ``low`` to ``high``
``integers``           of [``low``, ``high``)
``permutation``        different integers of [0, ``high``), such as the slots of a cache; -1 once they are used up
``zeros``, ``ones``    as they say
``triu``               ``value`` strictly above the diagonal, 0 elsewhere: a causal mask
``values``             the list ``values``, in order
``raw``                the list ``values`` of bit patterns
``numpy_randomstate``  ``numpy.random.RandomState(seed)``: ``seed``, ``method`` (``uniform`` or ``randint``), ``low``,
                       ``high``, for ``randint`` also ``dtype``; ``uniform`` becomes float32, then the operand's
                       dtype, rounded half to even
=====================  =============================================================================================

In ``.npz`` files an array has the C parameter's name, entry i of a list ``<name>.<i>``. Types that NumPy lacks are
their bit patterns: BF16 as uint16, one-byte floats as uint8, four-bit types two a uint8 with the low nibble first
(`cann_mla.dtypes.to_bits`). A 2-D ``FRACTAL_NZ`` operand is its row-major matrix; all else is in memory order.

The reader is strict. A key, a dtype or a distribution that the format does not know is an error that names
it, so that a misspelt case is never run as something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Union

DTYPES = frozenset({
    "FP16", "BF16", "FP32", "FP64", "INT4", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "BOOL", "FLOAT8_E4M3FN", "FLOAT8_E5M2", "FLOAT8_E8M0", "HIFLOAT8", "FLOAT4_E2M1",
})  # fmt: skip
FORMATS = frozenset({"ND", "FRACTAL_NZ", "NCHW"})
SOCS = frozenset({"Ascend910B", "Ascend910_93", "Ascend950"})
MEMORY = frozenset({"device", "host"})
REMARKS = ("real", "why", "at", "doubtful", "source", "note")

_CASE_KEYS = frozenset(
    ("id", "op", "soc", "tensors", "attrs", "seed", "inputs_npz", "expected_npz", "expect", "workspace", *REMARKS)
)
_TENSOR_KEYS = frozenset(("shape", "dtype", "format", "storage_shape", "strides", "offset", "memory", "alias", "data"))
_EXPECT_KEYS = frozenset(("status", "phase"))
# dist -> (parameters it must have, parameters it may have)
_DISTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "normal": (frozenset(), frozenset({"mean", "std"})),
    "uniform": (frozenset({"low", "high"}), frozenset()),
    "integers": (frozenset({"low", "high"}), frozenset()),
    "permutation": (frozenset({"high"}), frozenset()),
    "zeros": (frozenset(), frozenset()),
    "ones": (frozenset(), frozenset()),
    "triu": (frozenset({"value"}), frozenset()),
    "values": (frozenset({"values"}), frozenset()),
    "raw": (frozenset({"values"}), frozenset()),
    "numpy_randomstate": (frozenset({"seed", "method", "low", "high"}), frozenset({"dtype", "cast"})),
}
_INTEGERS = frozenset({int})
# `cast` is a remark found in published vectors; it may only say what the format says anyway.
_CAST_REMARK = "float32 then round-to-nearest-even to dtype"


class CaseError(ValueError):
    """A case that does not follow the format: what was found, where, and what is allowed."""

    def __init__(self, message: str, *, case_id: str = "", source: str = "") -> None:
        place = " ".join(part for part in (source, f"case {case_id!r}" if case_id else "") if part)
        super().__init__(f"{place}: {message}" if place else message)
        self.case_id = case_id
        self.source = source


@dataclass(slots=True)
class TensorSpec:
    """One operand: a view (`shape`, `strides`, `offset`, in elements) of a storage, and how to fill it."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"
    storage_shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0
    memory: str = "device"
    alias: str | None = None
    data: Mapping[str, Any] | None = None

    @property
    def numel(self) -> int:
        """Number of elements of the view."""
        return prod(self.shape)


Operand = Union[TensorSpec, "list[TensorSpec]", None]


@dataclass(slots=True)
class Case:
    """One call of one operator, and the status expected of it.

    `status` is a number, ``"reject"`` or ``"any"``; `phase` is 1, 2 or None. `folder` is where
    `inputs_npz` and `expected_npz` are looked for. `remarks` holds the keys that only people read.
    """

    id: str
    op: str
    soc: str | None
    tensors: dict[str, Operand]
    attrs: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    inputs_npz: tuple[str, ...] = ()
    expected_npz: str | None = None
    status: int | str = 0
    phase: int | None = None
    workspace: int | None = None
    remarks: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path(".")

    def specs(self) -> Iterator[tuple[str, TensorSpec]]:
        """Every operand with its array name: `name`, or `name.i` for entry i of a list."""
        for name, operand in self.tensors.items():
            if isinstance(operand, TensorSpec):
                yield name, operand
            elif operand is not None:
                for index, entry in enumerate(operand):
                    yield f"{name}.{index}", entry


@dataclass(slots=True)
class Skipped:
    """A JSON object that is no case (neither `op` nor `cases`): named, not judged."""

    source: str
    reason: str


def load(path: str | Path) -> Iterator[Case | CaseError | Skipped]:
    """Read a file, or every ``*.json`` and ``*.jsonl`` below a folder, in name order.

    A case that breaks the format comes out as a `CaseError`, and the cases after it still come.

    Raises
    ------
    FileNotFoundError
        `path` does not exist.
    """
    path = Path(path)
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.suffix in (".json", ".jsonl") and p.is_file()):
            yield from _load_file(file)
    elif path.exists():
        yield from _load_file(path)
    else:
        raise FileNotFoundError(f"{path}: no such case file or folder")


def _load_file(path: Path) -> Iterator[Case | CaseError | Skipped]:
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from _load_text(line, f"{path}:{number}", path.parent)
    else:
        yield from _load_text(path.read_text(encoding="utf-8"), str(path), path.parent)


def _load_text(text: str, source: str, folder: Path) -> Iterator[Case | CaseError | Skipped]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        yield CaseError(f"not JSON: {error}", source=source)
        return
    if not isinstance(value, dict):
        yield CaseError(f'a case object or {{"cases": [...]}} is wanted, not {_kind(value)}', source=source)
    elif "op" in value:
        yield _parse_or_error(value, source, folder)
    elif "cases" in value:
        if not isinstance(value["cases"], list):
            yield CaseError(f"cases: a list is wanted, not {_kind(value['cases'])}", source=source)
            return
        for index, entry in enumerate(value["cases"]):
            yield _parse_or_error(entry, f"{source} [{index}]", folder)
    else:
        yield Skipped(source, "neither 'op' nor 'cases' in this object: no case")


def _parse_or_error(value: Any, source: str, folder: Path) -> Case | CaseError:
    try:
        return parse(value, source=source, folder=folder)
    except CaseError as error:
        return error


def parse(value: Any, *, source: str = "", folder: Path = Path(".")) -> Case:
    """Turn one decoded JSON object into a `Case`.

    Raises
    ------
    CaseError
        Anything the format does not allow, by name.
    """
    case_id = str(value.get("id", "")) if isinstance(value, dict) else ""
    try:
        return _parse(value, folder)
    except CaseError as error:
        raise CaseError(str(error), case_id=case_id, source=source) from None


def _parse(value: Any, folder: Path) -> Case:
    if not isinstance(value, dict):
        raise CaseError(f"a case is an object, not {_kind(value)}")
    _only(value, _CASE_KEYS, "case")
    for key in ("id", "op"):
        if not isinstance(value.get(key), str):
            raise CaseError(f"{key}: a string is wanted, not {_kind(value.get(key))}")
    soc = value.get("soc")
    if soc is not None and soc not in SOCS:
        raise CaseError(f"soc {soc!r}: allowed are {_names(SOCS)}")
    tensors = value.get("tensors", {})
    attrs = value.get("attrs", {})
    if not isinstance(tensors, dict) or not isinstance(attrs, dict):
        raise CaseError("tensors and attrs are objects by the C parameter's name")
    case = Case(value["id"], value["op"], soc, {n: _operand(n, t) for n, t in tensors.items()}, folder=folder)
    case.attrs = {name: _attr(name, attr) for name, attr in attrs.items()}
    case.seed = _integer(value.get("seed", 0), "seed")
    case.inputs_npz = _npz_names(value.get("inputs_npz"))
    case.expected_npz = value.get("expected_npz")
    if case.expected_npz is not None and not isinstance(case.expected_npz, str):
        raise CaseError(f"expected_npz: a file name is wanted, not {_kind(case.expected_npz)}")
    case.status, case.phase = _expect(value.get("expect", {}))
    if value.get("workspace") is not None:
        case.workspace = _integer(value["workspace"], "workspace")
    case.remarks = {key: value[key] for key in REMARKS if key in value}
    return case


def _operand(name: str, value: Any) -> Operand:
    if value is None:
        return None
    if isinstance(value, list):
        return [_tensor(f"{name}[{index}]", entry) for index, entry in enumerate(value)]
    return _tensor(name, value)


def _tensor(name: str, value: Any) -> TensorSpec:
    if not isinstance(value, dict):
        raise CaseError(f"tensors.{name}: an object, a list of objects or null is wanted, not {_kind(value)}")
    if not _TENSOR_KEYS.issuperset(value):
        _only(value, _TENSOR_KEYS, f"tensors.{name}")
    if "shape" not in value or "dtype" not in value:
        raise CaseError(f"tensors.{name}: shape and dtype are wanted, found {_names(value)}")
    if value["dtype"] not in DTYPES:
        raise CaseError(f"tensors.{name}: dtype {value['dtype']!r}; allowed are {_names(DTYPES)}")
    spec = TensorSpec(_sizes(value["shape"], f"tensors.{name}.shape"), value["dtype"])
    if len(value) == 2:
        return spec
    spec.format = _one_of(value.get("format", "ND"), FORMATS, f"tensors.{name}.format")
    spec.memory = _one_of(value.get("memory", "device"), MEMORY, f"tensors.{name}.memory")
    if value.get("storage_shape") is not None:
        spec.storage_shape = _sizes(value["storage_shape"], f"tensors.{name}.storage_shape")
    if value.get("strides") is not None:
        spec.strides = _sizes(value["strides"], f"tensors.{name}.strides")
        if len(spec.strides) != len(spec.shape):
            raise CaseError(f"tensors.{name}: {len(spec.strides)} strides for a shape of rank {len(spec.shape)}")
    spec.offset = _integer(value.get("offset", 0), f"tensors.{name}.offset")
    spec.alias = value.get("alias")
    if spec.alias is not None and not isinstance(spec.alias, str):
        raise CaseError(f"tensors.{name}.alias: a tensor's name is wanted, not {_kind(spec.alias)}")
    if value.get("data") is not None:
        spec.data = _data(name, value["data"])
    return spec


def _data(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.get("dist") not in _DISTS:
        found = value.get("dist") if isinstance(value, dict) else value
        raise CaseError(f"tensors.{name}.data: dist {found!r}; allowed are {_names(_DISTS)}")
    needed, optional = _DISTS[value["dist"]]
    _only(value, needed | optional | {"dist"}, f"tensors.{name}.data")
    missing = needed - set(value)
    if missing:
        raise CaseError(f"tensors.{name}.data: {value['dist']} needs {_names(missing)}")
    if "values" in needed and not isinstance(value["values"], list):
        raise CaseError(f"tensors.{name}.data.values: a list is wanted, not {_kind(value['values'])}")
    if value["dist"] == "numpy_randomstate" and value["method"] not in ("uniform", "randint"):
        raise CaseError(f"tensors.{name}.data: method {value['method']!r}; allowed are uniform, randint")
    if value.get("cast", _CAST_REMARK) != _CAST_REMARK:
        raise CaseError(f"tensors.{name}.data: cast {value['cast']!r}; only {_CAST_REMARK!r} is defined")
    return value


def _attr(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        raise CaseError(f"attrs.{name}: a number, string, boolean, null or list of integers, not an object")
    if isinstance(value, list) and not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        raise CaseError(f"attrs.{name}: a list attribute holds integers, found {value!r}")
    return value


def _expect(value: Any) -> tuple[int | str, int | None]:
    if not isinstance(value, dict):
        raise CaseError(f"expect: an object is wanted, not {_kind(value)}")
    _only(value, _EXPECT_KEYS, "expect")
    status = value.get("status", 0)
    if status not in ("reject", "any") and (not isinstance(status, int) or isinstance(status, bool)):
        raise CaseError(f"expect.status {status!r}: a number, 'reject' or 'any' is wanted")
    phase = value.get("phase")
    if phase not in (None, 1, 2) or isinstance(phase, bool):
        raise CaseError(f"expect.phase {phase!r}: 1 or 2 is wanted")
    return status, phase


def _npz_names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CaseError(f"inputs_npz: a list of file names is wanted, not {_kind(value)}")
    return tuple(value)


def _sizes(value: Any, where: str) -> tuple[int, ...]:
    # type and not isinstance: true is no size
    if type(value) is not list or not _INTEGERS.issuperset(map(type, value)):
        raise CaseError(f"{where}: a list of integers is wanted, found {value!r}")
    return tuple(value)


def _integer(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CaseError(f"{where}: an integer is wanted, found {value!r}")
    return value


def _one_of(value: Any, allowed: frozenset[str], where: str) -> str:
    if value not in allowed:
        raise CaseError(f"{where}: {value!r}; allowed are {_names(allowed)}")
    return str(value)


def _only(value: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
    unknown = [key for key in value if key not in allowed]
    if unknown:
        from cann_mla.validate.names import did_you_mean

        near = did_you_mean(unknown[0], allowed)
        raise CaseError(f"unknown key {unknown[0]!r} in {where}{near}; allowed are {_names(allowed)}")


def _names(values: Any) -> str:
    return ", ".join(sorted(values))


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"

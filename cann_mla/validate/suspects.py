"""The usual mistakes, each played on the reference: the case and its operands as a mistaken operator reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_mla.dtypes import dtype
from cann_mla.formats import nz_unpack
from cann_mla.validate.arrays import is_logical_matrix, to_storage
from cann_mla.validate.cases import Case, TensorSpec
from cann_mla.validate.standards import as_double

Array = NDArray[Any]
Arrays = Mapping[str, Array]
_CUTS = (512, 256, 128, 1024, 2048)  # blocks of columns in which kernels of attention work
_MASKS = ("BOOL", "INT8", "UINT8")
_ROPE = 64  # columns that MlaProlog rotates, of each head and of the key


@dataclass(frozen=True)
class Suspect:
    """A mistake: case and operands as the mistaken operator sees them, and what it does to its outputs."""

    text: str
    case: Case
    arrays: Arrays
    outputs: Callable[[str, Array], Array] | None = None


def suspects(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Every mistake that this case leaves room for."""
    families = (_formats, _scales, _scalars, _rope, _prolog_columns, _masks, _indices, _output_layouts)
    for family in (*families, _cut_masks, _weights):
        yield from family(case, arrays)


def _with(arrays: Arrays, **changed: Array) -> dict[str, Array]:
    return {**arrays, **changed}


def _formats(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    everything = {}
    for name, spec in case.specs():
        if is_logical_matrix(spec):
            blocks = to_storage(arrays[name], spec)
            if blocks.size == spec.numel:
                as_rows = everything[name] = blocks.reshape(spec.shape)
                yield Suspect(f"{name}: FRACTAL_NZ read as ND", case, _with(arrays, **{name: as_rows}))
                as_blocks = nz_unpack(arrays[name].reshape(-1), spec.shape)
                text = f"{name}: given in ND order, read as FRACTAL_NZ"
                yield Suspect(text, case, _with(arrays, **{name: as_blocks}))
        elif len(spec.shape) == 2 and spec.shape[0] == spec.shape[1] and spec.numel > 1 and "ask" not in name:
            yield Suspect(f"{name}: transposed", case, _with(arrays, **{name: arrays[name].T.copy()}))
    if len(everything) > 1:
        yield Suspect("FRACTAL_NZ read as ND, in every operand that has it", case, _with(arrays, **everything))


def _scales(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, spec in case.specs():
        if "scale" not in name.lower() or name.endswith("OutOptional") or not spec.numel:
            continue
        kind = dtype(spec.dtype)
        if kind.numpy.kind == "i" or spec.dtype == "UINT64":
            continue
        values = as_double(arrays[name], kind)
        with np.errstate(all="ignore"):
            readings = {
                "missing": np.ones_like(values),
                "applied twice": values * values,
                "inverted": 1 / values,
            }
            for text, reading in readings.items():
                changed = reading.astype(np.float32).astype(kind.numpy)
                yield Suspect(f"{name}: {text}", case, _with(arrays, **{name: changed}))


def _scalars(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, value in case.attrs.items():
        if isinstance(value, float) and ("scale" in name.lower()) and value not in (0.0, 1.0):
            for text, reading in (
                ("missing", 1.0),
                ("applied twice", value * value),
                ("inverted", 1 / value),
            ):
                changed = replace(case, attrs={**case.attrs, name: reading})
                yield Suspect(f"{name}: {text}", changed, arrays)


def _rope(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    pairs = [("ropeSin", "ropeCos"), ("sin", "cos"), ("rope_sin", "rope_cos")]
    for sine, cosine in pairs:
        if sine in arrays and cosine in arrays:
            swapped = _with(arrays, **{sine: arrays[cosine], cosine: arrays[sine]})
            yield Suspect(f"{sine} and {cosine} swapped", case, swapped)
            yield Suspect(f"{sine}: wrong sign", case, _with(arrays, **{sine: -arrays[sine]}))
            for order, text in ((_interleave, "left interleaved"), (_deinterleave, "de-interleaved twice")):
                yield Suspect(f"rotated outputs {text}", case, arrays, _on_rope(order))


def _prolog_columns(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Columns of MlaProlog's weights in another order: of every head, of all heads, of latent and rope key."""
    uk = case.tensors.get("weightUk")
    needed = [arrays.get(name) for name in ("weightUqQr", "weightDkvKr")]
    if not isinstance(uk, TensorSpec) or len(uk.shape) != 3 or any(a is None or a.ndim != 2 for a in needed):
        return
    heads, width = uk.shape[:2]
    if arrays["weightUqQr"].shape[1] != heads * (width + _ROPE):
        return
    query = np.arange(heads * (width + _ROPE)).reshape(heads, width + _ROPE)
    key = np.arange(arrays["weightDkvKr"].shape[1])
    halves = np.arange(_ROPE).reshape(2, -1).T.reshape(-1)

    in_halves = np.hstack([query[:, :width], query[:, width:][:, halves]])
    key_halves = np.hstack([key[:-_ROPE], key[-_ROPE:][halves]])
    changed = _query_columns(arrays, in_halves) | _key_columns(arrays, key_halves)
    yield Suspect("rope input taken as two halves instead of pairs", case, _with(arrays, **changed))

    rope_first = np.roll(query, -_ROPE, axis=1)
    text = "weightUqQr: rope columns taken before the nope columns of each head"
    yield Suspect(text, case, _with(arrays, **_query_columns(arrays, rope_first)))
    flat = query.reshape(-1)
    apart = np.hstack([flat[: heads * width].reshape(heads, width), flat[heads * width :].reshape(heads, _ROPE)])
    text = "weightUqQr: nope columns of all heads taken before the rope columns of all heads"
    yield Suspect(text, case, _with(arrays, **_query_columns(arrays, apart)))
    text = "weightDkvKr: rope key (kr) columns taken before the latent (dkv) columns"
    yield Suspect(text, case, _with(arrays, **_key_columns(arrays, np.roll(key, -_ROPE))))
    if heads > 1:
        text = "weightUk: heads in reversed order"
        yield Suspect(text, case, _with(arrays, weightUk=arrays["weightUk"][::-1].copy()))


def _query_columns(arrays: Arrays, order: Array) -> dict[str, Array]:
    """weightUqQr and its scale with their columns in another order."""
    return _take_columns(arrays, "weightUqQr", "dequantScaleWUqQrOptional", order.reshape(-1))


def _key_columns(arrays: Arrays, order: Array) -> dict[str, Array]:
    """weightDkvKr and its scale with their columns in another order."""
    return _take_columns(arrays, "weightDkvKr", "dequantScaleWDkvKrOptional", order)


def _take_columns(arrays: Arrays, weight: str, scale: str, order: Array) -> dict[str, Array]:
    changed = {weight: arrays[weight][:, order]}
    if scale in arrays and order.size in arrays[scale].shape:
        axis = arrays[scale].shape.index(order.size)
        changed[scale] = np.take(arrays[scale], order, axis=axis)
    return changed


def _on_rope(order: Callable[[Array], Array]) -> Callable[[str, Array], Array]:
    def change(name: str, array: Array) -> Array:
        is_rope = "rope" in name.lower() or name.startswith("kr")
        return order(array) if is_rope and array.shape[-1] == _ROPE else array

    return change


def _interleave(array: Array) -> Array:
    return array[..., np.arange(array.shape[-1]).reshape(2, -1).T.reshape(-1)]


def _deinterleave(array: Array) -> Array:
    return array[..., np.arange(array.shape[-1]).reshape(-1, 2).T.reshape(-1)]


def _masks(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    name = next((n for n, s in case.specs() if "mask" in n.lower() and s.numel), None)
    mode = case.attrs.get("sparseMode")
    if name is not None and arrays[name].dtype.kind in "biu":
        inverted = (arrays[name] == 0).astype(arrays[name].dtype)
        yield Suspect(f"{name}: inverted", case, _with(arrays, **{name: inverted}))
        yield Suspect(f"{name}: ignored", case, _with(arrays, **{name: np.zeros_like(arrays[name])}))
        if arrays[name].ndim >= 2 and arrays[name].shape[-1] == arrays[name].shape[-2]:
            flipped = np.swapaxes(arrays[name], -1, -2).copy()
            yield Suspect(f"{name}: rows and columns swapped", case, _with(arrays, **{name: flipped}))
    if mode in (2, 3):
        other = replace(case, attrs={**case.attrs, "sparseMode": 5 - mode})
        corners = {2: "bottom-right", 3: "top-left"}
        yield Suspect(f"causal mask anchored at the {corners[mode]} corner", other, arrays)


def _cut_masks(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """A mask that ends where a block of columns does: what lies behind is seen by every row."""
    full = _full_mask(case, arrays)
    if full is None:
        return
    name, changed, mask = full
    for cut in _CUTS:
        if cut < mask.shape[-1] and mask[..., cut:].any():
            shortened = mask.copy()
            shortened[..., cut:] = 0
            yield Suspect(f"{name}: ignored from column {cut} on", changed, _with(arrays, **{name: shortened}))


def _full_mask(case: Case, arrays: Arrays) -> tuple[str, Case, Array] | None:
    """Name and elements of a mask with an element for every row and column, and a case that reads it as such."""
    name = next((n for n, s in case.specs() if "mask" in n.lower() and s.numel and s.dtype in _MASKS), None)
    mode = case.attrs.get("sparseMode", 0)
    if name is None or mode in (0, 1):
        return None if name is None else (name, case, arrays[name])
    axis = {"BNSD": 2, "BSND": 1, "BSH": 1}.get(str(case.attrs.get("inputLayout")))
    key = case.tensors.get("key")
    if mode not in (2, 3) or axis is None or not isinstance(key, list) or len(key) != 1:
        return None
    rows, columns = arrays["query"].shape[axis], arrays["key.0"].shape[axis]
    if key[0].shape[0] != arrays["query"].shape[0]:  # a paged cache has no columns of its own
        return None
    diagonal = 1 if mode == 2 else 1 + columns - rows
    mask = np.triu(np.ones((1, 1, rows, columns), arrays[name].dtype), diagonal)
    spec = case.tensors[name]
    assert isinstance(spec, TensorSpec)
    tensors = {**case.tensors, name: replace(spec, shape=mask.shape)}
    return name, replace(case, tensors=tensors, attrs={**case.attrs, "sparseMode": 1}), mask


def _weights(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Attention whose scores are all alike."""
    queries = [n for n in ("query", "queryRopeOptional", "querySplit1", "querySplit2") if n in arrays]
    if "value" in case.tensors and queries:
        still = {name: np.zeros_like(arrays[name]) for name in queries}
        text = "scores ignored: all columns that a row sees weigh alike"
        yield Suspect(text, case, _with(arrays, **still))


def _indices(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    for name, spec in case.specs():
        if spec.dtype in ("INT32", "INT64") and any(w in name.lower() for w in ("index", "slot")) and spec.numel:
            for step, text in ((1, "one row late"), (-1, "one row early")):
                used = arrays[name] >= 0
                moved = np.where(used, np.maximum(arrays[name] + step, 0), arrays[name]).astype(arrays[name].dtype)
                yield Suspect(f"{name}: cache rows written {text}", case, _with(arrays, **{name: moved}))


def _output_layouts(case: Case, arrays: Arrays) -> Iterator[Suspect]:
    """Heads against tokens: the two axes before the last, in the memory of the other order."""

    def swapped(_: str, array: Array) -> Array:
        return np.swapaxes(array, -2, -3).reshape(array.shape) if array.ndim >= 3 else array

    yield Suspect("outputs: heads and tokens transposed", case, arrays, swapped)

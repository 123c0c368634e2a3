"""What ``mla_prolog_quant`` and ``mla_prolog`` take: shapes, types and formats, as the PyPTO operator asserts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cann_mla.tensor import Tensor

LONGEST = 65536
_LARGEST_HEAD = 1024  # of aclnnInplacePartialRotaryMul

# Sizes by letter: tokens t, hidden h, latent query r, all heads a, one head d, rotated p.
FIXED = {"h": 4096, "r": 1024, "a": 32768, "d": 512, "p": 64}
INPUTS = {
    "token_x": "th", "wq_a": "hr", "wq_b": "ra", "wkv": "hd", "rope_cos": "tp", "rope_sin": "tp",
    "gamma_cq": "r", "gamma_ckv": "d", "wq_b_scale": "a1",
}  # fmt: skip
_SIZE_FROM = {"t": ("token_x", 0), "h": ("token_x", 1), "r": ("wq_a", 1), "a": ("wq_b", 1), "d": ("wkv", 1)} | {
    "p": ("rope_cos", 1)
}
_WEIGHTS = ("wq_a", "wq_b", "wkv")
_OTHER_SIZES = "any_sizes=True allows other sizes than those of the PyPTO operator"


class Described(NamedTuple):
    """What the checks look at of an operand."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"
    contiguous: bool = True

    @classmethod
    def of(cls, tensor: Tensor) -> Described:
        """Of a tensor on the device."""
        contiguous = tensor.layout.dense or tensor.format != "ND"
        return cls(tensor.shape, tensor.dtype.name, tensor.format, contiguous)


@dataclass(frozen=True)
class Sizes:
    """Sizes of one call."""

    tokens: int
    hidden: int
    latent: int
    heads: int
    head: int
    rope: int

    def outputs(self, *, quantised: bool) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every output."""
        result: dict[str, tuple[tuple[int, ...], str]] = {
            "q_out": ((self.tokens, self.heads, self.head), "BF16"),
            "kv_out": ((self.tokens, self.head), "BF16"),
            "qr_out": ((self.tokens, self.latent), "INT8" if quantised else "BF16"),
        }
        if quantised:
            result["qr_scale_out"] = ((self.tokens, 1), "FP32")
        return result


def check(
    operands: Mapping[str, Described],
    *,
    quantised: bool,
    any_sizes: bool = False,
    product: str | None = None,
) -> Sizes:
    """Check inputs, and those outputs that are among the operands.

    Parameters
    ----------
    operands : mapping of name to Described
        The inputs of the PyPTO operator (`wq_b_scale` only if quantised), and outputs.
    quantised : bool
    any_sizes : bool
        Lift the fixed sizes; they still have to fit each other.
    product : str, optional
        ``"Ascend950"`` has no quantised operator.

    Returns
    -------
    Sizes

    Raises
    ------
    ValueError
        Names the operand, what it is and what is allowed.
    """
    if quantised and product == "Ascend950":
        raise ValueError("mla_prolog_quant is not on Ascend950; mla_prolog, which does not quantise, is")
    wanted = {name: shape for name, shape in INPUTS.items() if quantised or name != "wq_b_scale"}
    for name, shape in wanted.items():
        _check_kind(name, operands[name], len(shape), quantised)
    sizes = {letter: operands[name].shape[axis] for letter, (name, axis) in _SIZE_FROM.items()}
    if not any_sizes:
        sizes |= FIXED
    for name, letters in wanted.items():
        _check_shape(name, operands[name], tuple(sizes.get(letter, 1) for letter in letters), letters)
    _check_sizes(sizes)
    result = Sizes(sizes["t"], sizes["h"], sizes["r"], sizes["a"] // sizes["d"], sizes["d"], sizes["p"])
    for name, (output_shape, dtype) in result.outputs(quantised=quantised).items():
        if name in operands:
            _check_output(name, operands[name], output_shape, dtype)
    return result


def _check_kind(name: str, given: Described, rank: int, quantised: bool) -> None:
    dtype = {"wq_b": "INT8" if quantised else "BF16", "wq_b_scale": "FP32"}.get(name, "BF16")
    if given.dtype != dtype:
        raise ValueError(f"{name} has dtype {given.dtype}; it must be {dtype}")
    if len(given.shape) != rank:
        raise ValueError(f"{name} has shape {list(given.shape)}; it must have {rank} dimensions")
    formats = ("ND", "FRACTAL_NZ") if name in _WEIGHTS else ("ND",)
    if given.format not in formats:
        raise ValueError(f"{name} has format {given.format}; it must be {' or '.join(formats)}")
    if name not in _WEIGHTS and not given.contiguous:
        raise ValueError(f"{name} is not contiguous; copy it to a dense tensor first")


def _check_shape(name: str, given: Described, wanted: tuple[int, ...], letters: str) -> None:
    if given.shape != wanted:
        named = ", ".join({"a": "heads * d"}.get(letter, letter) for letter in letters)
        raise ValueError(
            f"{name} has shape {list(given.shape)}; it must be [{named}] = {list(wanted)} here ({_OTHER_SIZES})"
        )


def _check_sizes(sizes: Mapping[str, int]) -> None:
    if not 1 <= sizes["t"] <= LONGEST:
        raise ValueError(f"token_x has {sizes['t']} tokens; allowed are 1 to {LONGEST}")
    if min(sizes.values()) < 1 or sizes["a"] % sizes["d"]:
        raise ValueError(f"wq_b has {sizes['a']} columns; they must be whole heads of {sizes['d']}, the columns of wkv")
    if sizes["d"] > _LARGEST_HEAD or sizes["d"] % 2:
        raise ValueError(f"wkv has {sizes['d']} columns; a head must be even and at most {_LARGEST_HEAD}")
    if sizes["p"] % 2 or sizes["p"] > sizes["d"]:
        raise ValueError(f"rope_cos has {sizes['p']} columns; the rotated part must be even and at most {sizes['d']}")


def _check_output(name: str, given: Described, shape: tuple[int, ...], dtype: str) -> None:
    if (given.shape, given.dtype) != (shape, dtype) or given.format != "ND" or not given.contiguous:
        raise ValueError(
            f"{name} must be {dtype} {list(shape)}, dense and in ND; "
            f"the tensor given is {given.dtype} {list(given.shape)} {given.format}"
        )

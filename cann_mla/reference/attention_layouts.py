"""Layouts of the attention operands, each seen as (batch, heads, tokens, width).

An ``inputLayout`` of CANN names the order of axes, and after an underscore the order of the output where
it differs. Every layout has a view with the axes (batch, heads, tokens, width); the packed layouts (TND,
NTD, NSD) have one batch there, and the sequences lie one after the other along the tokens.

Source: aclnnFusedInferAttentionScoreV5, "inputLayout" and the shape tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_mla.dtypes import Array

# Names whose input or output layout is not what the name says at first sight are spelled out by the parser.
LAYOUTS = (
    "BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD",
    "TND", "NTD", "TND_NTD", "NTD_TND", "NSD",
)  # fmt: skip
PACKED = ("TND", "NTD")


@dataclass(frozen=True)
class Layouts:
    """Order of axes of the inputs and of the output, such as ("BNSD", "BSND")."""

    inputs: str
    output: str

    @property
    def packed(self) -> bool:
        """Whether sequences lie one after the other (cumulative lengths)."""
        return self.inputs in PACKED


def parse_layouts(name: str) -> Layouts:
    """Split an ``inputLayout``.

    Raises
    ------
    ValueError
        If the name is none of CANN's.
    """
    if name not in LAYOUTS:
        raise ValueError(f"inputLayout {name!r} is unknown; allowed: {', '.join(LAYOUTS)}")
    inputs, _, output = name.partition("_")
    return Layouts(inputs, output or inputs)


def heads_first(array: Array, order: str, heads: int) -> Array:
    """View of an operand with the axes (batch, heads, tokens, width).

    Parameters
    ----------
    array : ndarray
        In the layout `order`; BSH must be contiguous along its last axis.
    order : str
        BSH, BSND, BNSD, NBSD, TND, NTD or NSD.
    heads : int
        Number of heads, needed to split the last axis of BSH.

    Raises
    ------
    ValueError
        If rank or number of heads does not fit the layout.
    """
    rank = 3 if order in ("BSH", "TND", "NTD", "NSD") else 4
    if array.ndim != rank:
        raise ValueError(f"an operand in {order} has {rank} dimensions, got shape {array.shape}")
    if order == "BSH":
        batch, tokens, width = array.shape
        if width % heads:
            raise ValueError(f"the last axis of BSH is heads x width: {width} is not a multiple of {heads} heads")
        view: Array = array.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)
    elif order == "BSND":
        view = array.transpose(0, 2, 1, 3)
    elif order == "NBSD":
        view = array.transpose(1, 0, 2, 3)
    elif order == "TND":
        view = array.transpose(1, 0, 2)[None]
    else:
        view = array[None] if rank == 3 else array
    if view.shape[1] != heads:
        raise ValueError(f"{order} operand of shape {array.shape} has {view.shape[1]} heads, expected {heads}")
    return view


def output_shape(order: str, batch: int, heads: int, tokens: int, width: int) -> tuple[int, ...]:
    """Shape of an output in the layout `order`; `tokens` counts all sequences in packed layouts."""
    shapes = {
        "BSH": (batch, tokens, heads * width),
        "BSND": (batch, tokens, heads, width),
        "BNSD": (batch, heads, tokens, width),
        "NBSD": (heads, batch, tokens, width),
        "TND": (tokens, heads, width),
        "NTD": (heads, tokens, width),
        "NSD": (heads, tokens, width),
    }
    return shapes[order]


def lse_shape(order: str, batch: int, heads: int, tokens: int) -> tuple[int, ...]:
    """Shape of softmaxLse, which depends on the layout of the output only."""
    return (tokens, heads, 1) if order in PACKED else (batch, heads, tokens, 1)


def lse_view(lse: Array, order: str) -> Array:
    """View of softmaxLse with the axes (batch, heads, tokens)."""
    return np.moveaxis(lse[..., 0], 0, 1)[None] if order in PACKED else lse[..., 0]

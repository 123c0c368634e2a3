"""Sizes and outputs of FusedInferAttentionScore, from the shapes of its operands and the name of the layout.

A layout name spells axes: B batch, S rows of a sequence, T rows of all sequences one behind the other, N heads,
D width of a head, H all heads side by side (N*D). Behind ``_`` stands the layout of the output.

Source: CANN's documentation of aclnnFusedInferAttentionScore to V5, tables of shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

LAYOUTS = (
    "BSH", "BSND", "BNSD", "TND", "NTD", "NSD",
    "BSH_BNSD", "BSND_BNSD", "BNSD_BSND", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD", "TND_NTD", "NTD_TND",
)  # fmt: skip
INT4_A_WORD = 8

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """Sizes of one call.

    Attributes
    ----------
    input_axes, output_axes : str
        The two parts of the layout's name.
    axes : dict of str to int
        Size of each axis of the output, by its letter; H is ``N * D``.
    key_heads : int
    block_size : int
        Rows of a cache block; 0 without a block table.
    """

    input_axes: str
    output_axes: str
    axes: dict[str, int]
    key_heads: int
    block_size: int

    @property
    def attention(self) -> Shape:
        """Shape of attentionOut."""
        return tuple(self.axes[axis] for axis in self.output_axes)

    @property
    def softmax_lse(self) -> Shape:
        """Shape of softmaxLse: (T, N, 1) for outputs by token, (B, N, S, 1) for others."""
        order = "TN" if "T" in self.output_axes else "BNS"
        return (*(self.axes[axis] for axis in order), 1)


def find_sizes(
    layout: str,
    query: Shape,
    key: Shape,
    value: Shape,
    *,
    num_heads: int | None,
    num_key_value_heads: int | None,
    paged: bool,
    packed: bool,
) -> Sizes:
    """Sizes that follow from shapes.

    Parameters
    ----------
    layout : str
        One of :data:`LAYOUTS`.
    query, key, value : tuple of int
        Shapes; of the first entry where key and value are lists.
    num_heads : int or None
        None: the N of the query's shape.
    num_key_value_heads : int or None
        None: from the key's shape.
    paged : bool
        Whether key and value are caches under a block table.
    packed : bool
        Whether key and value are INT32 words of eight INT4.

    Raises
    ------
    ValueError
        If the layout is unknown, a rank does not fit it, or the heads cannot be told from the shapes.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"input_layout={layout!r} is unknown; known are {', '.join(LAYOUTS)}")
    inputs, _, outputs = layout.partition("_")
    axes = dict(zip(inputs, _ranked("query", query, inputs), strict=True))
    axes.setdefault("B", 1)
    heads = axes.get("N") if num_heads is None else num_heads
    if heads is None:
        raise ValueError(f"input_layout={layout!r} does not tell the number of heads from shapes; give num_heads")
    if heads <= 0:
        raise ValueError(f"num_heads is {heads}; it must be positive")
    axes["N"] = heads
    width = axes["D"] if "D" in axes else _share("query", axes["H"], heads)
    key_heads, block = _key_heads_and_block(inputs, key, width, num_key_value_heads, paged, packed)
    if num_key_value_heads is None and key_heads == 0:
        key_heads = heads
    axes["D"] = _value_width(inputs, value, key_heads or heads, paged, packed)
    axes["H"] = heads * axes["D"]
    return Sizes(inputs, outputs or inputs, axes, key_heads, block)


def _ranked(name: str, shape: Shape, axes: str) -> Shape:
    if len(shape) != len(axes):
        raise ValueError(f"{name} has shape {list(shape)}; the layout wants {len(axes)} axes, {', '.join(axes)}")
    return shape


def _share(name: str, width: int, heads: int) -> int:
    if width % heads:
        raise ValueError(f"the last axis of {name} is {width}, which {heads} heads cannot share")
    return width // heads


def _key_heads_and_block(
    inputs: str, key: Shape, width: int, given: int | None, paged: bool, packed: bool
) -> tuple[int, int]:
    """Heads of the key and rows of a cache block."""
    if paged:
        if len(key) not in (3, 4, 5):
            raise ValueError(
                f"key has shape {list(key)}; a paged cache is (blocks, block, N*D), (blocks, N, block, D) or "
                "(blocks, N, D/c, block, c)"
            )
        heads = key[1] if len(key) > 3 else None
        block = key[{3: 1, 4: 2, 5: 3}[len(key)]]
        if len(key) == 4 and block == 1 and given is None:
            raise ValueError(
                f"key has shape {list(key)}, which reads as {key[1]} heads in blocks of one row; a cache of MlaProlog, "
                "(blocks, block, 1, D), goes in as a view (blocks, block, D)"
            )
    else:
        heads = dict(zip(inputs, _ranked("key", key, inputs), strict=True)).get("N")
        block = 0
    if given is not None:
        return given, block
    if heads is None:
        last = key[-1] * (INT4_A_WORD if packed else 1)
        if not width or last % width:
            raise ValueError(f"the last axis of key is {last}, no multiple of the head size {width}; "
                             "give num_key_value_heads")  # fmt: skip
        heads = last // width
    return heads, block


def _value_width(inputs: str, value: Shape, heads: int, paged: bool, packed: bool) -> int:
    if paged and len(value) == 5:
        width = value[2] * value[4]
    elif paged and len(value) == 4:
        width = value[3]
    else:
        width = _ranked("value", value, "BSH" if paged else inputs)[-1]
        if paged or "H" in inputs:
            width = _share("value", width, heads)
    return width * (INT4_A_WORD if packed else 1)


def output_dtype(query: str, query_rope: str | None, post_quantised: bool) -> str:
    """Type of attentionOut that CANN's documentation gives as the usual one.

    INT8 with a ``quant_scale2``; the type of the rope, or FP16, for a quantised query; else the query's.
    """
    if post_quantised:
        return "INT8"
    if query in ("FP16", "BF16"):
        return query
    return query_rope or "FP16"

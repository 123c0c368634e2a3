"""AtbFusedAddTopkDiv: the router of a mixture of experts with groups.

For a token, with p = sigmoid(x) and c = p + addNum: the score of a group is the sum of its n largest c; the
groupTopk best groups stay, c of the others becomes 0; the k experts with the largest c win, and y holds their p,
divided by the sum of the k and scaled if isNorm. Of equal values the one with the lower index wins.

Source: ATB's kernel of fused_add_topk_div.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.settings import check_settings, compute_type

SIGMOID = 8


class TopExperts(NamedTuple):
    """Weights (a, k) in float32 (float64 in ``exact``), and experts (a, k) in int32."""

    y: Array
    indices: Array


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def fused_add_topk_div(
    *,
    x: Array,
    add_num: Array,
    mapping_num: Array | None = None,
    mapping_table: Array | None = None,
    group_num: int = 1,
    group_topk: int = 1,
    n: int = 1,
    k: int = 1,
    activation_type: int = SIGMOID,
    is_norm: bool = True,
    scale: float = 1.0,
    enable_expert_mapping: bool = False,
    precision: str = "device",
) -> TopExperts:
    """Choose k of b experts for every token.

    Parameters
    ----------
    x : ndarray of float16, bfloat16 or float32, shape (a, b)
    add_num : ndarray, same type, shape (b,)
    mapping_num, mapping_table : ndarray of int32, shapes (b,) and (b, c)
        With `enable_expert_mapping`: expert e is replaced by entry ``token mod mapping_num[e]`` of its row, by
        the first one where that number is 0.
    group_num, group_topk, n, k : int
        Groups of b / group_num experts; groups kept; experts that make the score of a group; experts chosen.
    is_norm : bool
        Whether the weights are divided by their sum and multiplied by `scale`.

    Returns
    -------
    TopExperts

    Raises
    ------
    ValueError
        If the counts do not fit together or a mapping is missing.
    """
    experts = x.shape[1]
    if experts % group_num or not 1 <= group_topk <= group_num or not 1 <= k <= experts or n > experts // group_num:
        raise ValueError(f"{experts} experts, groupNum {group_num}, groupTopk {group_topk}, n {n}, k {k} do not fit")
    if activation_type != SIGMOID:
        raise ValueError(f"activationType {activation_type} is not known; 8 (SIGMOID) is")
    wide = widen(x, compute_type(precision))
    probability = 1 / (1 + np.exp(-wide))
    choice = (probability + widen(add_num, wide.dtype)).reshape(len(x), group_num, -1)
    group_score = -np.sort(-choice, axis=-1)[..., :n].sum(axis=-1)
    kept = np.zeros((len(x), group_num), wide.dtype)
    np.put_along_axis(kept, _descending(group_score)[:, :group_topk], 1, axis=1)
    indices = _descending((choice * kept[..., None]).reshape(x.shape))[:, :k]
    weights = np.take_along_axis(probability, indices, axis=1)
    if is_norm:
        weights = weights / weights.sum(axis=1, keepdims=True) * weights.dtype.type(scale)
    indices = indices.astype(np.int32)
    if enable_expert_mapping:
        indices = _mapped(indices, mapping_num, mapping_table)
    return TopExperts(weights, indices)


def _descending(values: Floats) -> Array:
    """Indices from the largest value down, lower indices first among equals."""
    return np.argsort(-values, axis=-1, kind="stable")


def _mapped(indices: Array, mapping_num: Array | None, mapping_table: Array | None) -> Array:
    if mapping_num is None or mapping_table is None:
        raise ValueError("enableExpertMapping needs mappingNum and mappingTable")
    token = np.arange(len(indices))[:, None]
    mapped: Array = mapping_table[indices, token % np.maximum(mapping_num[indices], 1)]
    return mapped


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    return fused_add_topk_div(precision=precision, **arguments)._asdict()

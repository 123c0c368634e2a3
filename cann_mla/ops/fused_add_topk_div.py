"""AtbFusedAddTopkDiv: the router of a mixture of experts in groups.

Notation: T tokens; E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_mla.checks import finite, flag, whole
from cann_mla.dtypes import BF16, FP16, FP32, INT32, dtype
from cann_mla.ops.atb_operands import check_operand
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

_SIGMOID = 8
_MOST_IN_ROW = 128
_MOST_IN_GROUP, _GROUPS_OF_MANY = 32, 8


@dataclass(frozen=True)
class FusedAddTopkDivResult:
    """The chosen experts of every token, best first.

    Attributes
    ----------
    y : Tensor of FP32, shape (T, k)
        Weights.
    indices : Tensor of INT32, shape (T, k)
        Experts.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes both.
    """

    y: Tensor
    indices: Tensor

    def close(self) -> None:
        """Close both tensors."""
        self.y.close()
        self.indices.close()

    def __enter__(self) -> FusedAddTopkDivResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def fused_add_topk_div(
    x: Operand,
    add_num: Operand,
    k: int,
    *,
    stream: Stream,
    group_num: int = 1,
    group_topk: int = 1,
    n: int = 1,
    is_norm: bool = True,
    scale: float = 1.0,
    mapping_num: Operand | None = None,
    mapping_table: Operand | None = None,
    y: Tensor | None = None,
    indices: Tensor | None = None,
) -> FusedAddTopkDivResult:
    """Choose k of E experts for every token: AtbFusedAddTopkDiv.

    With ``p = sigmoid(x)`` and ``c = p + add_num``: a group's score is the sum of its `n` largest c; the `group_topk`
    best groups stay, and c of the others becomes 0; the k experts with the largest c win. ``y = p`` of these, with
    `is_norm` ``y = scale * p / sum(p)``. Of equal ones, the one with the lower index wins.

    Parameters
    ----------
    x : Tensor or ndarray of FP16, BF16 or FP32, shape (T, E)
        Logits.
    add_num : Tensor or ndarray of the same dtype, shape (E,)
        Correction of the choice. An expert whose c is negative loses to one of a dropped group, whose c is 0.
    k : int
        Experts a token, at most those of the groups that stay.
    stream : Stream
        Where the call is queued.
    group_num, group_topk, n : int
        Groups of E / `group_num` experts; groups that stay; experts that make the score of a group. E is less than 32,
        or up to 256 with 8 groups.
    is_norm : bool
        Whether the weights are divided by their sum and multiplied by `scale`.
    scale : float
        With `is_norm` only.
    mapping_num, mapping_table : Tensor or ndarray of INT32, shapes (E,) and (E, up to 128), optional
        Expert e is replaced by one of the first ``mapping_num[e]`` entries of its row, which take turns over the
        tokens. Both or none.
    y, indices : Tensor, optional
        Where the result goes.

    Returns
    -------
    FusedAddTopkDivResult

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or counts contradict each other; if more experts are asked for than the groups that stay
        have, or a `scale` that would not be used.
    CannError
        If ATB refuses.

    Notes
    -----
    Source: CANN's documentation of ``AtbFusedAddTopkDiv`` and its kernel.
    """
    check_rank("x", x, 2)
    kind = dtype(x.dtype)
    if kind not in (FP16, BF16, FP32):
        raise ValueError(f"x must be FP16, BF16 or FP32, not {kind}")
    tokens, experts = x.shape
    check_operand("add_num", add_num, kind, (experts,))
    _check_counts(experts, k, group_num, group_topk, n)
    is_norm, scale = flag("is_norm", is_norm), finite("scale", scale)
    if not is_norm and scale != 1.0:
        raise ValueError(f"scale={scale} has no effect without is_norm")
    if (mapping_num is None) != (mapping_table is None):
        raise ValueError("give both mapping_num and mapping_table, or neither")
    if mapping_num is not None and mapping_table is not None:
        check_operand("mapping_num", mapping_num, INT32, (experts,))
        check_rank("mapping_table", mapping_table, 2)
        columns = min(max(mapping_table.shape[1], 1), _MOST_IN_ROW)
        check_operand("mapping_table", mapping_table, INT32, (experts, columns))
        if isinstance(mapping_num, np.ndarray) and not ((mapping_num >= 1) & (mapping_num <= columns)).all():
            raise ValueError(
                f"mapping_num holds {mapping_num.min()} to {mapping_num.max()}; each expert has 1 to {columns} entries "
                "in its row of mapping_table"
            )
    with OperatorCall("AtbFusedAddTopkDiv", stream) as call:
        call.give(
            {
                "x": x,
                "add_num": add_num,
                "mapping_num": mapping_num,
                "mapping_table": mapping_table,
                "group_num": group_num,
                "group_topk": group_topk,
                "n": n,
                "k": k,
                "activation_type": _SIGMOID,
                "is_norm": is_norm,
                "scale": scale,
                "enable_expert_mapping": mapping_num is not None,
            }
        )
        result = FusedAddTopkDivResult(
            call.output("y", y, (tokens, k), "FP32"), call.output("indices", indices, (tokens, k), "INT32")
        )
        call.run()
    return result


def _check_counts(experts: int, k: int, group_num: int, group_topk: int, n: int) -> None:
    for name, number in (("k", k), ("group_num", group_num), ("group_topk", group_topk), ("n", n)):
        whole(name, number)
    if min(k, group_num, group_topk, n) < 1 or experts % group_num or group_topk > group_num:
        raise ValueError(
            f"k={k}, group_num={group_num}, group_topk={group_topk}, n={n} for {experts} experts; all are positive, "
            "groups are equal, and no more of them stay than there are"
        )
    group = experts // group_num
    if experts > _MOST_IN_GROUP * group_num or (experts >= _MOST_IN_GROUP and group_num != _GROUPS_OF_MANY):
        raise ValueError(
            f"x has {experts} experts in {group_num} groups; the kernel takes less than {_MOST_IN_GROUP}, or with "
            f"{_GROUPS_OF_MANY} groups up to {_MOST_IN_GROUP * _GROUPS_OF_MANY}"
        )
    if n > group or k > group * group_topk:
        raise ValueError(
            f"n={n} of the {group} experts of a group, k={k} of the {group * group_topk} of the groups that stay: "
            "there are not so many; the rest of k would come from dropped groups"
        )

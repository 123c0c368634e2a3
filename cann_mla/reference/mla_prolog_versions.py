"""MlaProlog V1 and V2 in terms of V3, and the three behind the uniform door."""

from __future__ import annotations

from typing import Any

from cann_mla.dtypes import BF16, INT8, Array, dtype
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.mla_prolog import MlaPrologResult, mla_prolog_v3

# Attributes of V3 that have one legal value, or one that follows from the two quantisation modes.
_DERIVED = ("query_quant_mode", "ckvkr_repo_mode", "quant_scale_repo_mode", "tile_size")


def mla_prolog_v1(*, soc: str = "Ascend910B", precision: str = "device", **operands: Any) -> MlaPrologResult:
    """Reference of aclnnMlaProlog: V3 without its later options, scenario read off the operands' types.

    Parameters
    ----------
    soc : {"Ascend910B", "Ascend910_93"}
        Ascend950 does not have the operator.
    precision : {"device", "exact"}
    **operands
        Fields of :class:`cann_mla.reference.mla_prolog.Operands` that V1 has.

    Raises
    ------
    ValueError
        For Ascend950, and for types that are no scenario.
    """
    if soc == "Ascend950":
        raise ValueError("aclnnMlaProlog and aclnnMlaPrologV2WeightNz do not exist on Ascend950; use V3")
    weight, cache = _modes_of_types(operands)
    return mla_prolog_v3(weight_quant_mode=weight, kv_cache_quant_mode=cache, soc=soc, precision=precision, **operands)


def mla_prolog_v2(*, soc: str = "Ascend910B", precision: str = "device", **operands: Any) -> MlaPrologResult:
    """Reference of aclnnMlaPrologV2WeightNz; as :func:`mla_prolog_v1`.

    With everything INT8, quantScaleCkv has shape (1, Hckv), of which the kernel reads the first element.
    """
    return mla_prolog_v1(soc=soc, precision=precision, **operands)


def _modes_of_types(operands: dict[str, Any]) -> tuple[int, int]:
    """weightQuantMode and kvCacheQuantMode that V1 and V2 infer."""
    types = tuple(dtype(operands[name].dtype) for name in ("token_x", "weight_uq_qr", "kv_cache", "kr_cache"))
    scenarios = {
        (BF16, BF16, BF16, BF16): (0, 0),
        (BF16, INT8, BF16, BF16): (1, 0),
        (BF16, INT8, INT8, INT8): (1, 2),
        (INT8, INT8, BF16, BF16): (2, 0),
        (INT8, INT8, INT8, BF16): (2, 1),
    }
    if types not in scenarios:
        known = "; ".join(str(t) for t in scenarios)
        raise ValueError(
            f"types {types} of token_x, weight_uq_qr, kv_cache and kr_cache are no scenario; legal: {known}"
        )
    return scenarios[types]


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    given = {name: value for name, value in arguments.items() if name not in _DERIVED}
    if symbol == "aclnnMlaPrologV3WeightNz":
        result = mla_prolog_v3(query_norm="query_norm" in outputs, soc=soc, precision=precision, **given)
    else:
        result = mla_prolog_v1(soc=soc, precision=precision, **given)
    return {name: value for name, value in result._asdict().items() if value is not None}

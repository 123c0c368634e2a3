"""Which version of FusedInferAttentionScore has what was asked for.

What a version can be given follows from its prototype, so no list of parameters is kept here. Only what the
prototypes do not say is a table: values and types that a parameter takes in some versions alone.

Source: the headers; CANN's documentation of aclnnFusedInferAttentionScore to V5 for products, values and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import cann_mla
from cann_mla.libraries import load
from cann_mla.ops.call import snake_case

VERSIONS = (1, 2, 3, 4, 5)
DEFAULTS: dict[str, Any] = {
    "num_key_value_heads": 0,
    "scale_value": 1.0,
    "pre_tokens": 2147483647,
    "next_tokens": 2147483647,
    "input_layout": "BSH",
    "sparse_mode": 0,
    "inner_precise": 0,
    "block_size": 0,
    "antiquant_mode": 0,
    "softmax_lse_flag": False,
    "key_antiquant_mode": 0,
    "value_antiquant_mode": 0,
    "query_quant_mode": 0,
    "pse_type": 0,
}
"""Attributes that ask for nothing when they have these values."""

VALUES: dict[tuple[str, Any], tuple[int, ...]] = {
    ("sparse_mode", 9): (3, 4),
    ("key_antiquant_mode", 6): (5,),
    ("value_antiquant_mode", 6): (5,),
    ("value_antiquant_mode", 8): (5,),
    ("query_quant_mode", 6): (5,),
}
"""Versions that take a value, where not all that have the parameter do."""

DTYPES: dict[str, tuple[int, ...]] = dict.fromkeys(("FLOAT8_E4M3FN", "HIFLOAT8", "FLOAT4_E2M1"), (5,))
"""Versions that take a type of query, key or value, where not all do."""


def symbol(version: int) -> str:
    """C symbol of phase two of a version."""
    return "aclnnFusedInferAttentionScore" + ("" if version == 1 else f"V{version}")


def product_versions(product: str | None) -> tuple[int, ...]:
    """The versions a product runs; all of them where the product is not known."""
    if product is None:
        return VERSIONS
    return (5,) if product == "Ascend950" else (1, 2, 3, 4)


@lru_cache
def parameters(version: int) -> frozenset[str]:
    """Python names of what a version can be given, outputs included, by its header."""
    return frozenset(snake_case(p.name) for p in cann_mla.operator(symbol(version)).signature.operands)


def versions_with(name: str, value: Any = None) -> tuple[int, ...]:
    """The versions that have a parameter and take a value of it."""
    having = tuple(v for v in VERSIONS if name in parameters(v))
    limited = VALUES.get((name, value), having) if isinstance(value, int | str) else having
    return tuple(v for v in having if v in limited)


def choose_version(
    asked: Mapping[str, Any], dtypes: Iterable[str], *, product: str | None, version: int | None = None
) -> int:
    """The oldest version that has everything asked for, or the one wanted if it does.

    Parameters
    ----------
    asked : mapping of Python name to value
        Arguments; None and the values in :data:`DEFAULTS` ask for nothing.
    dtypes : iterable of str
        Types of query, key and value.
    product : str or None
        ``Ascend910B``, ``Ascend910_93`` (versions 1 to 4), ``Ascend950`` (version 5); None for any.
    version : int, optional
        Insist on this one.

    Raises
    ------
    ValueError
        If the version does not exist or not on this product, or no such version has everything; the text names
        what is missing and the versions that have it.
    """
    possible = product_versions(product)
    if version is not None:
        if version not in VERSIONS:
            raise ValueError(f"version={version!r}: aclnnFusedInferAttentionScore has versions 1 to 5")
        if version not in possible:
            raise ValueError(f"version={version} does not run on {product}, which has {_list(possible)}")
        possible = (version,)
    needs = {f"{n}={v!r}" if n in DEFAULTS else n: versions_with(n, v) for n, v in asked.items() if _asks(n, v)}
    needs |= {f"{kind} operands": DTYPES[kind] for kind in dtypes if kind in DTYPES}
    fitting = [v for v in possible if all(v in having for having in needs.values())]
    if not fitting:
        raise ValueError(_refusal(needs, possible, product, version))
    library = load()
    return next((v for v in fitting if library.has(symbol(v))), fitting[0])


def _asks(name: str, value: Any) -> bool:
    return value is not None and (name not in DEFAULTS or value != DEFAULTS[name])


def _refusal(
    needs: Mapping[str, tuple[int, ...]], possible: tuple[int, ...], product: str | None, version: int | None
) -> str:
    if version is None and product is not None:
        who = f"aclnnFusedInferAttentionScore on {product} ({_list(possible)}) has no"
    else:
        who = f"{' and '.join(map(symbol, possible))} has no"
    missing = {what: having for what, having in needs.items() if not set(having) & set(possible)}
    if not missing:
        who, missing = "no version of aclnnFusedInferAttentionScore has all of", dict(needs)
    found = ", ".join(f"{what} (it is in {_list(having)})" for what, having in missing.items())
    return f"{who} {found}; V5 runs on Ascend950 alone, V1 to V4 on the others"


def _list(versions: Iterable[int]) -> str:
    return ", ".join(f"V{v}" for v in versions) or "no version"

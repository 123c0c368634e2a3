"""The legal quantisation scenarios of ``aclnnMlaPrologV3WeightNz``, by name.

The operator takes five mode numbers (``weightQuantMode``, ``kvCacheQuantMode``, ``queryQuantMode``,
``ckvkrRepoMode``, ``quantScaleRepoMode``). Only sixteen combinations are legal, and the first two numbers decide
the other three. This file is the table of those sixteen: which products have them, which cache modes they allow
and which dtype every operand takes.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_CACHE_MODES = ("PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND")
ROW_CACHE_MODES = ("PA_BSND", "BSND", "TND")
"""Cache modes that keep a token's 656-byte per-tile row in one piece."""

EVERY_PRODUCT = ("Ascend910B", "Ascend910_93", "Ascend950")

_WEIGHT_MODES = {
    "none": (0, "BF16", "BF16"),
    "partial_int8": (1, "BF16", "INT8"),
    "full_int8": (2, "INT8", "INT8"),
    "full_mxfp8": (3, "FLOAT8_E4M3FN", "FLOAT8_E4M3FN"),
    "full_fp8": (4, "FLOAT8_E4M3FN", "FLOAT8_E4M3FN"),
    "full_hifloat8": (5, "HIFLOAT8", "HIFLOAT8"),
}
_CACHE_MODES = {"": 0, "kv_per_tensor": 1, "kv_per_channel": 2, "kv_per_tile": 3}


@dataclass(frozen=True)
class Scenario:
    """One legal combination of the mode numbers.

    Attributes
    ----------
    name : str
        Weight quantisation, and after it the cache quantisation where there is one.
    weight_quant_mode, kv_cache_quant_mode : int
        The two numbers that decide everything else.
    activation_dtype : str
        dtype of ``tokenX``, ``weightDq`` and ``weightDkvKr``.
    weight_uq_qr_dtype : str
        dtype of ``weightUqQr``; also what the normalised query is quantised to.
    """

    name: str
    weight_quant_mode: int
    kv_cache_quant_mode: int
    activation_dtype: str
    weight_uq_qr_dtype: str

    @property
    def per_tile(self) -> bool:
        """Whether cache rows are the 656-byte records that hold payload, rope part and scales."""
        return self.kv_cache_quant_mode == 3

    @property
    def quantised_query(self) -> bool:
        """Whether ``queryOut`` is quantised per token and head, with ``dequantScaleQNopeOut`` beside it."""
        return self.kv_cache_quant_mode == 1

    @property
    def modes(self) -> dict[str, int]:
        """The five mode numbers by the names of the operator's attributes."""
        return {
            "weight_quant_mode": self.weight_quant_mode,
            "kv_cache_quant_mode": self.kv_cache_quant_mode,
            "query_quant_mode": int(self.quantised_query),
            "ckvkr_repo_mode": int(self.per_tile),
            "quant_scale_repo_mode": int(self.per_tile),
        }

    @property
    def products(self) -> tuple[str, ...]:
        """The products that have the scenario."""
        return EVERY_PRODUCT if self.weight_quant_mode <= 2 else ("Ascend950",)

    @property
    def cache_modes(self) -> tuple[str, ...]:
        """The cache modes that the scenario allows."""
        return ROW_CACHE_MODES if self.per_tile else ALL_CACHE_MODES

    @property
    def kv_cache_dtype(self) -> str:
        """dtype of ``kvCacheRef``."""
        return "BF16" if self.kv_cache_quant_mode == 0 else self.weight_uq_qr_dtype

    @property
    def kr_cache_dtype(self) -> str:
        """dtype of ``krCacheRef``."""
        return "INT8" if self.kv_cache_quant_mode == 2 else "BF16"

    @property
    def query_dtype(self) -> str:
        """dtype of ``queryOut``."""
        return self.weight_uq_qr_dtype if self.quantised_query else "BF16"

    @property
    def query_norm_scale_dtype(self) -> str | None:
        """dtype of ``dequantScaleQNormOutOptional``, or None where the normalised query is not quantised."""
        if self.weight_quant_mode == 0:
            return None
        return "FLOAT8_E8M0" if self.weight_quant_mode == 3 else "FP32"


def _cache_quantisations(weight_quant_mode: int) -> tuple[str, ...]:
    if weight_quant_mode == 0:
        return ("",)
    return ("", "kv_per_channel", "kv_per_tile") if weight_quant_mode == 1 else ("", "kv_per_tensor", "kv_per_tile")


def _scenarios() -> dict[str, Scenario]:
    table: dict[str, Scenario] = {}
    for weights, (mode, activation, up_projection) in _WEIGHT_MODES.items():
        for cache in _cache_quantisations(mode):
            name = f"{weights}_{cache}" if cache else weights
            table[name] = Scenario(name, mode, _CACHE_MODES[cache], activation, up_projection)
    return table


SCENARIOS: dict[str, Scenario] = _scenarios()
"""Every legal scenario by name, in the order of the mode numbers."""


def scenario(name: str, *, cache_mode: str | None = None, product: str | None = None) -> Scenario:
    """Look a scenario up and refuse what the operator would refuse.

    Parameters
    ----------
    name : str
        A key of :data:`SCENARIOS`, such as ``"full_int8_kv_per_tensor"``.
    cache_mode : str, optional
        ``cacheModeOptional``; refused where the scenario does not allow it.
    product : str, optional
        ``Ascend910B``, ``Ascend910_93`` or ``Ascend950``; refused where the product lacks the scenario.

    Raises
    ------
    ValueError
        With the legal choices.
    """
    if name not in SCENARIOS:
        raise ValueError(f"quant={name!r} is no scenario of MlaPrologV3; legal are {', '.join(SCENARIOS)}")
    found = SCENARIOS[name]
    if product is not None and product not in found.products:
        legal = [s.name for s in SCENARIOS.values() if product in s.products]
        raise ValueError(f"quant={name!r} does not exist on {product}; it has {', '.join(legal)}")
    if cache_mode is not None and cache_mode not in found.cache_modes:
        raise ValueError(
            f"cache_mode={cache_mode!r} does not go with quant={name!r}; legal are {', '.join(found.cache_modes)}"
        )
    return found

"""Calls of MlaProlog on the simulator, small and transparent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla.dtypes import BF16, FLOAT8_E4M3FN, FLOAT8_E8M0, FP32, HIFLOAT8, INT8, DType, hifloat8_encode
from cann_mla.validate.library import open_library, select_product

HE, HCQ, D, HCKV, DR = 1024, 1536, 128, 512, 64
WEIGHT_DTYPE = {0: BF16, 1: BF16, 2: INT8, 3: FLOAT8_E4M3FN, 4: FLOAT8_E4M3FN, 5: HIFLOAT8}
QUANT_DTYPE = {0: BF16, 1: INT8, 2: INT8, 3: FLOAT8_E4M3FN, 4: FLOAT8_E4M3FN, 5: HIFLOAT8}

Array = np.ndarray[Any, Any]


def as_dtype(values: Array, dtype: DType) -> Array:
    return hifloat8_encode(values) if dtype is HIFLOAT8 else values.astype(dtype.numpy)


class Call:
    """One call of aclnnMlaPrologV3WeightNz (or V1, V2): arrays by C name, changed at will before it runs.

    The operands make every step visible. Tokens hold plus and minus one. weightDq copies the token (its column j is
    token column j modulo 1024) and weightDkvKr the first 576 columns, so that with an epsilon of 3 the root of
    mean square plus epsilon is exactly 2 and a normalised value is half its gamma, with the token's sign. weightUqQr
    hands the first D + Dr columns of c_q to every head, and weightUk copies q_c into the first D columns of query.
    """

    def __init__(self, weight: int = 0, cache: int = 0, tokens: int = 3, heads: int = 1, mode: str = "TND") -> None:
        self.weight, self.cache, self.tokens, self.heads, self.mode = weight, cache, tokens, heads, mode
        self.attrs: dict[str, Any] = {"rmsnormEpsilonCq": 3.0, "rmsnormEpsilonCkv": 3.0, "cacheModeOptional": mode}
        self.attrs |= {"weightQuantMode": weight, "kvCacheQuantMode": cache, "queryQuantMode": int(cache == 1)}
        self.attrs |= {"ckvkrRepoMode": int(cache == 3), "quantScaleRepoMode": int(cache == 3)}
        self.attrs |= {"tileSize": 128, "qcQrScale": 1.0, "kcScale": 1.0}
        down, up = WEIGHT_DTYPE[weight], QUANT_DTYPE[weight]
        copies = np.eye(HE, dtype=np.float32)[:, np.arange(HCQ) % HE]
        head = np.eye(HCQ, D + DR, dtype=np.float32)
        self.arrays: dict[str, Array] = {
            "tokenX": as_dtype(np.ones((tokens, HE), np.float32), down),
            "weightDq": as_dtype(copies, down),
            "weightUqQr": as_dtype(np.tile(head, (1, heads)), up),
            "weightUk": np.tile(np.eye(D, HCKV, dtype=np.float32), (heads, 1, 1)).astype(ml_dtypes.bfloat16),
            "weightDkvKr": as_dtype(np.eye(HE, HCKV + DR, dtype=np.float32), down),
            "rmsnormGammaCq": np.full(HCQ, 2.0, ml_dtypes.bfloat16),
            "rmsnormGammaCkv": np.full(HCKV, 2.0, ml_dtypes.bfloat16),
            "ropeSin": np.zeros((tokens, DR), ml_dtypes.bfloat16),
            "ropeCos": np.ones((tokens, DR), ml_dtypes.bfloat16),
        }
        self._add_scales()
        self._add_caches()
        self.outputs: dict[str, tuple[tuple[int, ...], DType]] = {
            "queryOut": ((tokens, heads, HCKV), up if cache == 1 else BF16),
            "queryRopeOut": ((tokens, heads, DR), BF16),
        }
        if cache == 1:
            self.outputs["dequantScaleQNopeOutOptional"] = ((tokens, heads, 1), FP32)

    def _add_scales(self) -> None:
        def ones(rows: int, columns: int, k: int) -> Array:
            if self.weight == 3:  # 2^0 for every block of 32
                return np.full((columns if rows == 1 else rows, k // 32), 127, np.uint8).view(FLOAT8_E8M0.numpy)
            return np.ones((rows, columns), np.float32)

        up = self.heads * (D + DR)
        if self.weight >= 1:
            self.arrays["dequantScaleWUqQrOptional"] = ones(1, up, HCQ)
        if self.weight >= 2:
            x_scale = np.full((self.tokens, HE // 32), 127, np.uint8).view(FLOAT8_E8M0.numpy)
            self.arrays["dequantScaleXOptional"] = (
                x_scale if self.weight == 3 else np.ones((self.tokens, 1), np.float32)
            )
            self.arrays["dequantScaleWDqOptional"] = ones(1, HCQ, HE)
            self.arrays["dequantScaleWDkvKrOptional"] = ones(1, HCKV + DR, HE)
        if self.cache == 1:
            self.arrays["quantScaleCkvOptional"] = np.ones(1, np.float32)
        if self.cache == 2:
            self.arrays["quantScaleCkvOptional"] = np.ones((1, HCKV), np.float32)
            self.arrays["quantScaleCkrOptional"] = np.ones((1, DR), np.float32)
        if self.cache == 3 and self.weight in (1, 2):
            self.arrays["kNopeClipAlphaOptional"] = np.ones(1, np.float32)

    def _add_caches(self, blocks: int = 2, block_size: int = 16) -> None:
        rows = {"TND": (self.tokens, 1), "BSND": (1, self.tokens, 1)}.get(self.mode, (blocks, block_size, 1))
        kv = QUANT_DTYPE[self.weight] if self.cache else BF16
        kr = INT8 if self.cache == 2 else BF16
        self.arrays["kvCacheRef"] = self.noise((*rows, 656 if self.cache == 3 else HCKV), kv)
        self.arrays["krCacheRef"] = self.noise((0,) if self.cache == 3 else (*rows, DR), kr)
        if self.mode == "BSND":
            for name in ("tokenX", "ropeSin", "ropeCos"):
                self.arrays[name] = self.arrays[name][None]

    @staticmethod
    def noise(shape: tuple[int, ...], dtype: DType) -> Array:
        """Old content of a cache: any bits, so that a row that should stay and does not shows."""
        itemsize = dtype.numpy.itemsize
        bits = np.random.default_rng(11).integers(0, 256, (*shape[:-1], shape[-1] * itemsize), np.uint8)
        return bits.view(dtype.numpy)

    def want_norm(self) -> None:
        """Ask for queryNormOut and, where it is quantised, its scale."""
        self.outputs["queryNormOutOptional"] = ((self.tokens, HCQ), QUANT_DTYPE[self.weight])
        if self.weight == 3:
            self.outputs["dequantScaleQNormOutOptional"] = ((self.tokens, HCQ // 32), FLOAT8_E8M0)
        elif self.weight:
            self.outputs["dequantScaleQNormOutOptional"] = ((self.tokens, 1), FP32)

    def run(self, stream: cann_mla.Stream, operator: str = "aclnnMlaPrologV3WeightNz") -> dict[str, Array]:
        """Outputs and caches by C name, as the call left them."""
        weights = ("weightDq", "weightUqQr", "weightDkvKr")
        tensors = {
            name: cann_mla.Tensor.from_numpy(array, format="FRACTAL_NZ" if name in weights else "ND")
            for name, array in self.arrays.items()
        }
        for name, (shape, dtype) in self.outputs.items():
            batch = (1,) if self.mode == "BSND" and name != "dequantScaleQNopeOutOptional" else ()
            tensors[name] = cann_mla.Tensor.empty((*batch, *shape), dtype)
        try:
            cann_mla.operator(operator)(stream=stream, **tensors, **self.attrs)
            stream.synchronize()
            read = (*self.outputs, "kvCacheRef", "krCacheRef")
            return {name: tensors[name].to_numpy() for name in read}
        finally:
            for tensor in tensors.values():
                tensor.close()


@pytest.fixture(scope="session")
def device() -> Iterator[cann_mla.Device]:
    cann_mla.load("sim")
    with cann_mla.Device(0) as opened:
        yield opened


@pytest.fixture
def stream(device: cann_mla.Device) -> Iterator[cann_mla.Stream]:
    device.use()
    with cann_mla.Stream() as opened:
        yield opened


@pytest.fixture
def product(device: cann_mla.Device) -> Iterator[Callable[[str], None]]:
    """Make the simulator another product until the test ends."""
    library = open_library("sim")
    yield lambda name: select_product(library, name)
    select_product(library, "Ascend910B")


@pytest.fixture
def make() -> type[Call]:
    return Call

"""What AtbMLAPreprocess rounds where, on weights of ones, for which the numbers can be told by hand.

With ones in ``wdqkv`` every channel of the first projection is the sum of the quantised input; with ``cos`` ones and
``sin`` zeros the rope part of the cache is that channel.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from cann_mla.validate.cases import parse
from cann_mla.validate.run import run_alone
from cann_mla.validate.verify import Options

HIDDEN, DOWN, LATENT_QUERY, UP, BLOCK = 7168, 2112, 1536, 192, 128


def tensor(shape: list[int], dtype: str, dist: str | None = None, **more: Any) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype} | ({"data": {"dist": dist}} if dist else {}) | more


def run(half: str, changed: dict[str, Any], cache_mode: int, quant_mode: int) -> dict[str, Any]:
    """One token, one head, weights of ones; `changed` replaces or adds operands."""
    operands: dict[str, Any] = {
        "input": tensor([1, HIDDEN], half, "ones"),
        "wdqkv": tensor([DOWN, HIDDEN], "INT8", "ones", format="FRACTAL_NZ"),
        "wuq": tensor([UP, LATENT_QUERY], "INT8", "zeros", format="FRACTAL_NZ"),
        "gamma2": tensor([512], half, "ones"),
        "cos": tensor([1, 64], half, "ones"),
        "sin": tensor([1, 64], half, "zeros"),
        "wuk": tensor([1, 128, 512], half, "zeros"),
        "slotmapping": tensor([1], "INT32", "zeros"),
        "qOut1": tensor([1, 1, 64], half),
    }
    for stage, size in enumerate((HIDDEN, LATENT_QUERY)):
        operands |= {
            f"gamma{stage}": tensor([size], half, "ones"),
            f"beta{stage}": tensor([size], half, "zeros"),
        }
    operands |= changed
    case = parse({
        "id": "ones", "op": "AtbMLAPreprocess", "soc": "Ascend910B", "tensors": operands,
        "attrs": {"cacheMode": cache_mode, "quantMode": quant_mode, "transposeWdq": True, "transposeWuq": True},
    })  # fmt: skip
    record, outputs = run_alone(case, Options(via="sim"))
    assert record["verdict"] == "pass", record["message"]
    return outputs


def test_squares_are_added_in_lanes() -> None:
    """2048 and 7167 times 0.5: one long sum of FLOAT stays at 2**22, which a quarter does not move.

    The mean of squares then is too small and the first channel becomes 83.507 instead of 83.489, on the other side
    of a tie. The small channels become 0.02 and round to 0, so each projected channel is the first one.
    """
    x = [2048.0] + [0.5] * (HIDDEN - 1)
    gamma = 0.986328125
    exact = 2048 / np.sqrt((2.0**22 + (HIDDEN - 1) / 4) / HIDDEN + 1e-6) * gamma
    assert 83.48 < exact < 83.5 < 2048 / np.sqrt(2.0**22 / HIDDEN + 1e-6) * gamma
    one = struct.unpack("<I", struct.pack("<f", 1.0))[0]  # a scale: the bits of a FLOAT in the low half of an INT64
    operands = {
        "input": tensor([1, HIDDEN], "FP16", data={"dist": "values", "values": x}),
        "gamma0": tensor([HIDDEN], "FP16", data={"dist": "values", "values": [gamma] * HIDDEN}),
        "kvCache": tensor([1, BLOCK, 1, 512], "FP16", "zeros"),
        "kvCacheRope": tensor([1, BLOCK, 1, 64], "FP16", "zeros"),
        "kvCacheOut0": tensor([1, BLOCK, 1, 512], "FP16", alias="kvCache"),
        "kvCacheOut1": tensor([1, BLOCK, 1, 64], "FP16", alias="kvCacheRope"),
        "qOut0": tensor([1, 1, 512], "FP16"),
    }
    for stage, size in enumerate((DOWN, UP)):
        operands |= {
            f"quantScale{stage}": tensor([1], "FP16", "ones"),
            f"quantOffset{stage}": tensor([1], "INT8", "zeros"),
            f"deScale{stage}": tensor([size], "INT64", data={"dist": "values", "values": [one] * size}),
            f"bias{stage}": tensor([size], "INT32", "zeros"),
        }
    rope = run("FP16", operands, cache_mode=1, quant_mode=0)["kvCacheOut1"]
    assert (rope[0, 0, 0].astype(float) == 83).all()
    assert (rope[0, 1:] == 0).all()


def test_cache_scales_are_read_in_the_dtype_of_the_input() -> None:
    """With a scale a token, ATB's table declares the scales of an INT8 cache FP16; the BF16 kernel reads BF16.

    Equal channels normalise to 1; divided by 1/64 that is 64. Read as FP16, the bits of 1/64 would be 1.125.
    """
    operands = {
        "kvCache": tensor([1, 16, BLOCK, 32], "INT8", "zeros", format="FRACTAL_NZ"),
        "kvCacheRope": tensor([1, 4, BLOCK, 16], "BF16", "zeros", format="FRACTAL_NZ"),
        "kvCacheOut0": tensor([1, 16, BLOCK, 32], "INT8", alias="kvCache", format="FRACTAL_NZ"),
        "kvCacheOut1": tensor([1, 4, BLOCK, 16], "BF16", alias="kvCacheRope", format="FRACTAL_NZ"),
        "qOut0": tensor([1, 1, 512], "INT8"),
        "deScale0": tensor([DOWN], "FP32", "ones"),
        "deScale1": tensor([UP], "FP32", "ones"),
        "ctkvScale": tensor([1], "FP16", data={"dist": "raw", "values": [0x3C80]}),  # BF16 1/64
        "qNopeScale": tensor([1], "FP16", "zeros"),
    }
    cache = run("BF16", operands, cache_mode=2, quant_mode=1)["kvCacheOut0"]
    assert (cache[0, :, 0] == 64).all()
    assert (cache[0, :, 1:] == 0).all()

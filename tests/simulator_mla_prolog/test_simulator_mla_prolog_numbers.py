"""Numbers that follow by hand from the formulas of the operator; operands as `Call` describes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import hifloat8_decode

BF16 = ml_dtypes.bfloat16
D, DR, HCKV = 128, 64, 512


def gammas(values: list[float], size: int) -> Any:
    """Twice the values that normalisation is to give, zero behind them."""
    return np.concatenate([2 * np.array(values), np.zeros(size - len(values))]).astype(BF16)


def test_unquantised_call_copies_what_the_weights_copy(stream: Any, make: Any) -> None:
    call = make(tokens=2, heads=2)
    call.arrays["rmsnormGammaCq"] = gammas([1.5, -3.0, 0.25], 1536)
    call.arrays["rmsnormGammaCkv"] = gammas([0.5, 7.0], 512)
    call.arrays["tokenX"][1] *= -1
    call.want_norm()
    out = call.run(stream)

    signs = np.array([1.0, -1.0])
    assert np.array_equal(out["queryNormOutOptional"][:, :3].astype(float), signs[:, None] * [1.5, -3.0, 0.25])
    for head in range(2):
        assert np.array_equal(out["queryOut"][:, head, :3].astype(float), signs[:, None] * [1.5, -3.0, 0.25])
    assert not out["queryOut"][:, :, 3:].astype(float).any()
    assert np.array_equal(out["kvCacheRef"][:, 0, :2].astype(float), signs[:, None] * [0.5, 7.0])
    assert np.array_equal(out["krCacheRef"][:, 0].astype(float), signs[:, None] * np.ones(DR))


def test_rope_takes_pairs_and_gives_halves(stream: Any, make: Any) -> None:
    call = make(tokens=1)
    q_rope, k_rope = np.arange(1, 65), np.arange(65, 129)
    call.arrays["rmsnormGammaCq"] = gammas([0.0] * D + list(q_rope), 1536)
    weight = call.arrays["weightDkvKr"].astype(np.float32)
    weight[:, HCKV:] *= k_rope
    call.arrays["weightDkvKr"] = weight.astype(BF16)
    # Four different tables: the two halves of cos and sin are not assumed to be equal.
    call.arrays["ropeCos"] = np.concatenate([np.full(32, 2.0), np.full(32, 0.5)])[None].astype(BF16)
    call.arrays["ropeSin"] = np.concatenate([np.full(32, 0.25), np.full(32, 4.0)])[None].astype(BF16)
    out = call.run(stream)

    def rotated(values: Any) -> Any:
        even, odd = values[0::2].astype(np.float32), values[1::2].astype(np.float32)
        return np.concatenate([2.0 * even - 0.25 * odd, 0.5 * odd + 4.0 * even]).astype(BF16)

    assert np.array_equal(out["queryRopeOut"][0, 0], rotated(q_rope))
    assert np.array_equal(out["krCacheRef"][0, 0], rotated(k_rope))


@pytest.mark.parametrize(("alpha", "factor"), [(1.0, 1.0), (4.0, 4.0), (1.0 + 1e-8, 1.0)])
def test_alpha_q_scales_query_and_rope_and_norm(stream: Any, make: Any, alpha: float, factor: float) -> None:
    call = make(tokens=1)
    call.want_norm()
    plain = call.run(stream)
    call.attrs["qcQrScale"] = alpha
    scaled = call.run(stream)
    for name in ("queryOut", "queryRopeOut", "queryNormOutOptional"):
        assert np.array_equal(scaled[name].astype(float), factor * plain[name].astype(float))
    assert np.array_equal(scaled["kvCacheRef"], plain["kvCacheRef"])


def test_alpha_kv_scales_k_nope_alone(stream: Any, make: Any) -> None:
    call = make(tokens=1)
    plain = call.run(stream)
    call.attrs["kcScale"] = 0.5
    scaled = call.run(stream)
    assert np.array_equal(scaled["kvCacheRef"].astype(float), 0.5 * plain["kvCacheRef"].astype(float))
    for name in ("krCacheRef", "queryOut", "queryRopeOut"):
        assert np.array_equal(scaled[name], plain[name])


# ---- the scale of a token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1, 2])
@pytest.mark.parametrize("soc", ["Ascend910B", "Ascend950"])
def test_int8_query_norm_rounds_ties_to_even(stream: Any, make: Any, product: Any, weight: int, soc: str) -> None:
    product(soc)
    call = make(weight=weight, tokens=1)
    call.arrays["rmsnormGammaCq"] = gammas([127, 2.5, 3.5, -2.5, 0.5, -126.5], 1536)
    call.want_norm()
    out = call.run(stream)
    assert out["dequantScaleQNormOutOptional"][0, 0] == 1.0  # 127 / 127
    assert out["queryNormOutOptional"][0, :6].tolist() == [127, 2, 4, -2, 0, -126]


def test_smooth_scales_come_before_the_scale_of_the_token(stream: Any, make: Any) -> None:
    call = make(weight=1, tokens=1)
    call.arrays["rmsnormGammaCq"] = gammas([127, 10, 20], 1536)
    smooth = np.ones((1, 1536), np.float32)
    smooth[0, :3] = [0.5, 12.7, 1.0]  # 63.5, 127, 20
    call.arrays["smoothScalesCqOptional"] = smooth
    call.want_norm()
    out = call.run(stream)
    assert out["queryNormOutOptional"][0, :3].tolist() == [64, 127, 20]


def test_e4m3_query_norm(stream: Any, make: Any, product: Any) -> None:
    product("Ascend950")
    call = make(weight=4, tokens=1)
    # Between 16 and 32 codes are 2 apart: 17 and 19 are ties, to 16 and 20 with an even mantissa.
    call.arrays["rmsnormGammaCq"] = gammas([448, 17, 19, -17, 0.001953125], 1536)
    call.want_norm()
    out = call.run(stream)
    scale = np.float32(448) * (np.float32(1) / np.float32(448))
    assert out["dequantScaleQNormOutOptional"][0, 0] == scale
    assert scale == 1
    assert out["queryNormOutOptional"][0, :5].astype(float).tolist() == [448, 16, 20, -16, 0.001953125]


def test_hifloat8_query_norm_rounds_ties_away(stream: Any, make: Any, product: Any) -> None:
    product("Ascend950")
    call = make(weight=5, tokens=1)
    # Three mantissa bits up to 15.9, two from 16, one from 256.
    call.arrays["rmsnormGammaCq"] = gammas([32768, 8.5, 18, -18, 320], 1536)
    call.want_norm()
    out = call.run(stream)
    assert out["dequantScaleQNormOutOptional"][0, 0] == 1.0
    assert hifloat8_decode(out["queryNormOutOptional"][0, :5]).tolist() == [32768, 8.0 + 1.0, 20, -20, 384]


def test_mx_query_norm_shares_a_power_of_two(stream: Any, make: Any, product: Any) -> None:
    product("Ascend950")
    call = make(weight=3, tokens=1)
    values = [3.0, 1.0, -0.09375] + [0.0] * 29 + [0.0] * 32 + [1.96875]
    call.arrays["rmsnormGammaCq"] = gammas(values, 1536)
    call.want_norm()
    out = call.run(stream)
    scales = out["dequantScaleQNormOutOptional"].view(np.uint8)[0]
    # Exponent of 3 is 1, of 448 it is 8: the block is divided by 2^-7. A block of zeros has byte 0.
    assert scales[:3].tolist() == [127 + 1 - 8, 0, 127 + 0 - 8]
    assert not scales[3:].any()
    elements = out["queryNormOutOptional"][0].astype(float)
    assert elements[:3].tolist() == [384, 128, -12]
    assert elements[64] == 448  # 1.96875 * 2^8 = 504, above the largest: saturated


# ---- the cache ---------------------------------------------------------------------------------------------------


def test_per_tensor_cache_and_query(stream: Any, make: Any, product: Any) -> None:
    """The scale of a query row is its own, and queryRope carries quantScaleCkv / scale."""
    for soc, tie in (("Ascend910B", 3), ("Ascend950", 2)):  # A2 rounds the query away from zero, 950 to even
        product(soc)
        call = make(weight=2, cache=1, tokens=1)
        call.arrays["rmsnormGammaCq"] = gammas([127, 5, 8] + [0.0] * (D - 3) + [4.0] * DR, 1536)
        deq = np.ones((1, D + DR), np.float32)
        deq[0, :3] = [1.0, 0.5, 0.5]  # q_c = 127, 2.5, 4
        call.arrays["dequantScaleWUqQrOptional"] = deq
        call.arrays["rmsnormGammaCkv"] = gammas([2.5, 3.5, 60.0, -70.0], 512)
        call.arrays["quantScaleCkvOptional"] = np.array([2.0], np.float32)
        out = call.run(stream)
        assert out["queryOut"].dtype == np.int8
        assert out["queryOut"][0, 0, :3].tolist() == [127, tie, 4]
        assert out["dequantScaleQNopeOutOptional"].item() == 1.0
        assert np.array_equal(out["queryRopeOut"][0, 0].astype(float), np.full(DR, 8.0))  # 4 * 2 / 1
        assert out["kvCacheRef"][0, 0, :4].tolist() == [5, 7, 120, -128]


def test_per_channel_cache(stream: Any, make: Any) -> None:
    call = make(weight=1, cache=2, tokens=1)
    call.arrays["rmsnormGammaCkv"] = gammas([2.0, 2.0, 2.0], 512)
    call.arrays["quantScaleCkvOptional"][0, :3] = [1.25, 1.75, 100.0]
    call.arrays["quantScaleCkrOptional"][0, :3] = [2.5, 3.5, -3.5]
    out = call.run(stream)
    assert out["kvCacheRef"][0, 0, :3].tolist() == [2, 4, 127]  # 2.5 and 3.5 to even, 200 saturates
    assert out["krCacheRef"][0, 0, :3].tolist() == [2, 4, -4]


@pytest.mark.parametrize(("weight", "soc"), [(1, "Ascend910B"), (2, "Ascend950"), (4, "Ascend950")])
def test_per_tile_row_of_656_bytes(stream: Any, make: Any, product: Any, weight: int, soc: str) -> None:
    product(soc)
    call = make(weight=weight, cache=3, tokens=2)
    largest = 448.0 if weight == 4 else 127.0
    values = np.zeros(512)
    values[[0, 1, 128, 256]] = [largest, 3.0, largest / 2, -largest]
    call.arrays["rmsnormGammaCkv"] = gammas(list(values), 512)
    out = call.run(stream)
    row = np.ascontiguousarray(out["kvCacheRef"]).view(np.uint8).reshape(2, 656)[1]
    payload = row[:512].view(ml_dtypes.float8_e4m3fn if weight == 4 else np.int8).astype(float)
    assert payload[[0, 1, 128, 256]].tolist() == [largest, 3.0, largest, -largest]
    assert np.array_equal(row[512:640].view(BF16).astype(float), np.ones(DR))
    scales = row[640:].view(np.float32)
    assert scales[:3].tolist() == [1.0, 0.5, 1.0]
    # A tile of zeros: no floor for INT8, 1e-4 for the 8-bit floats.
    assert scales[3] == (np.float32(1e-4) * (np.float32(1) / np.float32(448)) if weight == 4 else 0)


def test_clip_alpha_clips_int8_tiles(stream: Any, make: Any) -> None:
    call = make(weight=1, cache=3, tokens=1)
    call.arrays["rmsnormGammaCkv"] = gammas([254.0, 127.0, -254.0, 2.0], 512)
    call.arrays["kNopeClipAlphaOptional"] = np.array([0.5], np.float32)
    out = call.run(stream)
    row = out["kvCacheRef"].view(np.uint8).reshape(656)
    assert row[:4].view(np.int8).tolist() == [127, 127, -127, 2]
    assert row[640:644].view(np.float32).item() == 1.0


def test_full_int8_dequantises_with_token_and_channel(stream: Any, make: Any) -> None:
    call = make(weight=2, tokens=2)
    call.arrays["dequantScaleXOptional"] = np.array([[2.0], [4.0]], np.float32)
    call.arrays["dequantScaleWDkvKrOptional"][0, HCKV:] = np.arange(1, 65)
    call.attrs["rmsnormEpsilonCkv"] = 0.0
    out = call.run(stream)
    # k_rope, with cos 1 and sin 0: even columns first, then odd ones.
    order = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])
    for token, scale in enumerate((2.0, 4.0)):
        assert np.array_equal(out["krCacheRef"][token, 0].astype(float), scale * (order + 1.0))
    assert np.array_equal(out["kvCacheRef"].astype(float), np.full((2, 1, 512), 2.0))  # gamma: the scale cancels


def test_mx_scales_multiply_blocks_of_rows(stream: Any, make: Any, product: Any) -> None:
    product("Ascend950")
    call = make(weight=3, tokens=1)
    call.arrays["dequantScaleXOptional"].view(np.uint8)[0, 16] = 128  # rows 512 to 543: times 2
    call.arrays["dequantScaleWDkvKrOptional"].view(np.uint8)[512 + 33, 17] = 125  # column 545, rows 544 to 575: 1/4
    out = call.run(stream)
    expected = np.ones(64)
    expected[:32], expected[33] = 2.0, 0.25
    order = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])
    assert np.array_equal(out["krCacheRef"][0, 0].astype(float), expected[order])


def test_an_all_zero_token_gives_zero_codes(stream: Any, make: Any) -> None:
    call = make(weight=2, cache=1, tokens=2)
    call.arrays["tokenX"][0] = 0
    out = call.run(stream)
    assert not out["queryOut"][0].any()
    assert out["dequantScaleQNopeOutOptional"][0, 0, 0] == 0
    assert out["queryOut"][1].any()

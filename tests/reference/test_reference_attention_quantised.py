"""Quantised operands: every mode against attention on the dequantised arrays, and roundings by hand.

Scales are powers of two and integers small, so that the dequantised arrays exist in FP16 or float32 exactly.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import HIFLOAT8, Array, hifloat8_decode, hifloat8_encode, pack_4bit
from cann_mla.reference.fused_infer_attention_score import fused_infer_attention_score

B, N, NK, S2, D = 2, 4, 2, 40, 64
SCALE = 0.05
E4M3 = ml_dtypes.float8_e4m3fn
RNG = np.random.default_rng(0)


def powers(*shape: int, low: int = -5, high: int = -2, kind: Any = np.float32) -> Array:
    """Powers of two with exponents in [low, high)."""
    return np.exp2(RNG.integers(low, high, shape)).astype(kind)


def run(query: Any, key: Any, value: Any, **changes: Any) -> tuple[Array, Array]:
    arguments: dict[str, Any] = {
        "num_heads": N,
        "num_key_value_heads": NK,
        "scale_value": SCALE,
        "input_layout": "BNSD",
        "softmax_lse_flag": True,
    }
    attention, lse = fused_infer_attention_score(query, key, value, **{**arguments, **changes})
    assert lse is not None
    return attention, lse


def plain(query: Array, key: Array, value: Array, scale: float = SCALE) -> tuple[Array, Array]:
    """(B, heads, rows, width) in float64."""
    group = query.shape[1] // key.shape[1]
    key, value = (np.repeat(a.astype(np.float64), group, axis=1) for a in (key, value))
    weights = np.exp(scale * np.einsum("bnid,bnjd->bnij", query.astype(np.float64), key))
    total = weights.sum(-1, keepdims=True)
    return weights @ value / total, np.log(total)


def tight(got: Array, want: Array) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=1e-10, atol=1e-12)


# ---- antiquantisation -----------------------------------------------------------------------------


def antiquant_shapes(mode: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of the parameter, and the shape in which it broadcasts against (B, NK, S2, D)."""
    return {
        0: ((1, NK, 1, D), (1, NK, 1, D)),
        1: ((B, S2), (B, 1, S2, 1)),
        2: ((NK,), (1, NK, 1, 1)),
        3: ((B, NK, S2), (B, NK, S2, 1)),
    }[mode]


@pytest.mark.parametrize("kind", [np.int8, ml_dtypes.int4])
@pytest.mark.parametrize(("key_mode", "value_mode"), [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1)])
def test_antiquantisation_equals_attention_on_dequantised_arrays(kind: Any, key_mode: int, value_mode: int) -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    integers = [RNG.integers(-8, 8, (B, NK, S2, D)) for _ in range(2)]
    parameters: dict[str, Any] = {"key_antiquant_mode": key_mode, "value_antiquant_mode": value_mode}
    dequantised = []
    for name, mode, array in zip(("key", "value"), (key_mode, value_mode), integers, strict=True):
        shape, spread = antiquant_shapes(mode)
        scale, offset = powers(*shape), RNG.integers(-3, 4, shape).astype(np.float32)
        parameters |= {f"{name}_antiquant_scale": scale, f"{name}_antiquant_offset": offset}
        dequantised.append((array + offset.reshape(spread)) * scale.reshape(spread))
    got, lse = run(query, *(a.astype(kind) for a in integers), **parameters)
    want, want_lse = run(query, *(a.astype(np.float16) for a in dequantised))
    assert np.array_equal(got, want)
    assert np.array_equal(lse, want_lse)


@pytest.mark.parametrize("shape", [(1, NK, D), (1, NK * D), (1, 1, NK, D), (NK, 1, D), (NK, D), (NK * D,)])
def test_channel_parameters_may_have_many_shapes(shape: tuple[int, ...]) -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    key = RNG.integers(-8, 8, (B, NK, S2, D)).astype(np.int8)
    scale = powers(1, NK, 1, D)
    want = run(query, key, key, key_antiquant_scale=scale, value_antiquant_scale=scale)[0]
    reshaped = scale.reshape(shape)
    assert np.array_equal(run(query, key, key, key_antiquant_scale=reshaped, value_antiquant_scale=reshaped)[0], want)


@pytest.mark.parametrize(("mode", "shape"), [(0, (2, NK, 1, D)), (0, (2, NK * D)), (0, (2,)), (1, (2, B, S2))])
def test_merged_parameters_carry_key_and_value_halves(mode: int, shape: tuple[int, ...]) -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    key, value = RNG.integers(-8, 8, (2, B, NK, S2, D)).astype(np.int8)
    scale, offset = powers(*shape), RNG.integers(-3, 4, shape).astype(np.float32)
    merged = run(query, key, value, antiquant_scale=scale, antiquant_offset=offset, antiquant_mode=mode)[0]
    halves = {
        "key_antiquant_scale": scale[:1] if shape == (2,) else scale[0],
        "value_antiquant_scale": scale[1:] if shape == (2,) else scale[1],
        "key_antiquant_offset": offset[:1] if shape == (2,) else offset[0],
        "value_antiquant_offset": offset[1:] if shape == (2,) else offset[1],
    }
    # The split set wins where both are given.
    both = {"antiquant_scale": scale * 2, **halves}
    assert np.array_equal(merged, run(query, key, value, key_antiquant_mode=mode, value_antiquant_mode=mode, **both)[0])


@pytest.mark.parametrize("mode", [4, 5])
def test_paged_parameters_follow_the_block_table(mode: int) -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    blocks, size = 5, 32
    cache = RNG.integers(-8, 8, (blocks, NK, size, D)).astype(np.int8)
    table = np.array([[3, 0], [4, 1]], np.int32)
    scale = powers(blocks, size) if mode == 4 else powers(blocks, NK, size)
    pages = {"block_table": table, "block_size": size, "actual_seq_lengths_kv": [40, 33]}
    modes = {"key_antiquant_mode": mode, "value_antiquant_mode": mode}
    got = run(query, cache, cache, key_antiquant_scale=scale, value_antiquant_scale=scale, **modes, **pages)[0]
    spread = scale[:, None, :, None] if mode == 4 else scale[..., None]
    dequantised = (cache * spread).astype(np.float16)
    assert np.array_equal(got, run(query, dequantised, dequantised, **pages)[0])


def test_left_padding_addresses_token_parameters_by_position() -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    key = RNG.integers(-8, 8, (B, NK, S2, D)).astype(np.int8)
    scale = powers(B, S2)
    padding = {"actual_seq_lengths_kv": [30, 20], "kv_padding_size": np.array([4])}
    modes = {"key_antiquant_mode": 1, "value_antiquant_mode": 1}
    got = run(query, key, key, key_antiquant_scale=scale, value_antiquant_scale=scale, **modes, **padding)[0]
    dequantised = (key * scale[:, None, :, None]).astype(np.float16)
    assert np.array_equal(got, run(query, dequantised, dequantised, **padding)[0])


def test_int32_words_are_eight_int4() -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    key = RNG.integers(-8, 8, (B, NK, S2, D)).astype(ml_dtypes.int4)
    words = pack_4bit(key).view(np.int32).reshape(B, NK, S2, D // 8)
    scale = {"key_antiquant_scale": powers(NK * D), "value_antiquant_scale": powers(NK * D)}
    assert np.array_equal(run(query, words, words, **scale)[0], run(query, key, key, **scale)[0])


@pytest.mark.parametrize("kind", ["FLOAT8_E4M3FN", "HIFLOAT8"])
def test_eight_bit_floats_need_a_scale_only(kind: str) -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(ml_dtypes.bfloat16)
    values = RNG.integers(-8, 8, (B, NK, S2, D)).astype(np.float32)
    key = values.astype(E4M3) if kind == "FLOAT8_E4M3FN" else hifloat8_encode(values)
    scale = powers(1, NK, 1, D)
    got = run(query, key, key, key_antiquant_scale=scale, value_antiquant_scale=scale, soc="Ascend950")[0]
    dequantised = (values * scale).astype(ml_dtypes.bfloat16)
    assert np.array_equal(got, run(query, dequantised, dequantised)[0])


def test_fp4_has_a_scale_for_32_elements() -> None:
    query = RNG.standard_normal((B, N, 1, D)).astype(np.float16)
    key = RNG.choice([-6, -1.5, -0.5, 0, 1, 4], (B, NK, S2, D)).astype(ml_dtypes.float4_e2m1fn)
    scale = powers(1, B, NK, S2, D // 32, kind=ml_dtypes.float8_e8m0fnu)
    modes = {"key_antiquant_mode": 6, "value_antiquant_mode": 6, "soc": "Ascend950"}
    got = run(query, key, key, key_antiquant_scale=scale, value_antiquant_scale=scale, **modes)[0]
    spread = np.repeat(scale[0].astype(np.float32), 32, axis=-1)
    dequantised = (key.astype(np.float32) * spread).astype(np.float16)
    assert np.array_equal(got, run(query, dequantised, dequantised)[0])


def test_antiquant_refusals() -> None:
    query = np.zeros((B, N, 1, D), np.float16)
    key = np.zeros((B, NK, S2, D), np.int8)
    with pytest.raises(ValueError, match="needs antiquantScale"):
        run(query, key, key)
    bad = {"key_antiquant_scale": np.ones(7), "value_antiquant_scale": np.ones(7)}
    with pytest.raises(ValueError, match=r"shape \(7,\) does not fit mode 0 with 2 heads of width 64"):
        run(query, key, key, **bad)
    with pytest.raises(ValueError, match="needs blockTable"):
        run(query, key, key, **bad, key_antiquant_mode=4, value_antiquant_mode=4)
    short = {"key_antiquant_scale": np.ones((B, 8)), "value_antiquant_scale": np.ones((B, 8))}
    with pytest.raises(ValueError, match="has 8 rows"):
        run(query, key, key, **short, key_antiquant_mode=1, value_antiquant_mode=1)


def test_scales_are_ignored_when_nothing_is_quantised() -> None:
    query, key = (RNG.standard_normal((B, n, S2, D)).astype(np.float16) for n in (N, NK))
    extra = {"antiquant_scale": np.ones(3), "deq_scale1": np.ones(2), "key_antiquant_mode": 9, "query_quant_mode": 5}
    assert np.array_equal(run(query, key, key, **extra)[0], run(query, key, key)[0])


# ---- full quantisation ----------------------------------------------------------------------------


def one(value: float) -> Array:
    return np.array([value], np.float32)


def test_int8_per_tensor_follows_the_scales() -> None:
    query, key, value = (RNG.integers(-40, 40, (B, n, 6, D)).astype(np.int8) for n in (N, NK, NK))
    scales = {"deq_scale1": one(2**-6), "quant_scale1": one(100.0), "deq_scale2": one(2**-9)}
    got, lse = run(query, key, value, **scales, precision="exact")
    want, want_lse = plain(query, key, value, SCALE * 2**-6)
    tight(got, want * 100 * 2**-9)
    tight(lse, want_lse)
    device = run(query, key, value, **scales)[0]
    assert device.dtype == np.float16
    # Six numerators, each off by half a step at most, values up to 40, a row sum of at least 1.
    assert np.abs(device - want * 100 * 2**-9).max() < 6 * 0.5 * 40 * 2**-9


def test_int8_numerators_are_rounded_after_quant_scale1() -> None:
    """Two equal scores and one far below: numerators 1, 1 and e^-2 give 10, 10 and round(1.353) = 1."""
    query = np.array([[[[1]]]], np.int8)
    key = np.array([[[[2], [2], [0]]]], np.int8)
    value = np.array([[[[3], [5], [100]]]], np.int8)
    scales = {"deq_scale1": one(1.0), "quant_scale1": one(10.0), "deq_scale2": one(0.5)}
    heads = {"num_heads": 1, "num_key_value_heads": 1, "scale_value": 1.0}
    got, lse = run(query, key, value, **scales, **heads)
    total = 2 + np.exp(-2)
    assert got.item() == np.float16((10 * 3 + 10 * 5 + 1 * 100) * 0.5 / total)
    np.testing.assert_allclose(lse.item(), 2 + np.log(total), rtol=1e-6)


@pytest.mark.parametrize("kind", ["FLOAT8_E4M3FN", "HIFLOAT8"])
@pytest.mark.parametrize("width", [64, 192])
def test_eight_bit_floats_per_tensor_follow_the_scales(kind: str, width: int) -> None:
    numbers = [RNG.integers(-12, 12, (B, n, 150, width)).astype(np.float32) for n in (N, NK, NK)]
    query, key, value = (a.astype(E4M3) if kind == "FLOAT8_E4M3FN" else hifloat8_encode(a) for a in numbers)
    scales = {"deq_scale1": one(2**-5), "quant_scale1": one(16.0), "deq_scale2": one(2**-6)}
    got, lse = run(query, key, value, **scales, precision="exact", soc="Ascend950")
    values = [hifloat8_decode(a) if a.dtype == HIFLOAT8.numpy else a.astype(np.float32) for a in (query, key, value)]
    want, want_lse = plain(*values, SCALE * 2**-5)
    tight(got, want * 16 * 2**-6)
    tight(lse, want_lse)
    device, device_lse = run(query, key, value, **scales, soc="Ascend950")
    # A numerator is off by 1/16 (E4M3) or 1/8 (HIFLOAT8 up to 16) of itself at most, so is their weighted sum.
    bound = np.abs(values[2]).max() * 16 * 2**-6 * (2**-4 if kind == "FLOAT8_E4M3FN" else 2**-3)
    assert np.abs(device - got).max() < bound
    np.testing.assert_allclose(device_lse, lse, rtol=1e-5, atol=1e-5)


def latent(kind: Any, value_scale: float = 0.25) -> dict[str, Any]:
    return {
        "query_rope": RNG.standard_normal((1, 8, 2, 64)).astype(ml_dtypes.bfloat16),
        "key_rope": RNG.standard_normal((1, 1, 300, 64)).astype(ml_dtypes.bfloat16),
        "dequant_scale_query": powers(1, 8, 2),
        "key_antiquant_scale": one(2**-4),
        "value_antiquant_scale": one(value_scale),
        "query_quant_mode": 3,
        "num_heads": 8,
        "num_key_value_heads": 1,
    }


@pytest.mark.parametrize(
    ("kind", "soc", "bound"),
    [
        ("INT8", "Ascend910B", 0.02),
        ("INT8", "Ascend950", 0.01),
        ("E4M3", "Ascend950", 0.08),
        ("HIF8", "Ascend950", 0.3),
    ],
)
def test_latent_attention_scales_nope_and_rope_together(kind: str, soc: str, bound: float) -> None:
    integers = [RNG.integers(-16, 16, shape).astype(np.float32) for shape in ((1, 8, 2, 64), (1, 1, 300, 64))]
    cast = {"INT8": lambda a: a.astype(np.int8), "E4M3": lambda a: a.astype(E4M3), "HIF8": hifloat8_encode}[kind]
    query, key = (cast(a) for a in integers)
    values = [hifloat8_decode(a) if kind == "HIF8" else a.astype(np.float32) for a in (query, key)]
    extra = latent(kind)
    got, lse = run(query, key, key, soc=soc, precision="exact", **extra)
    joined = [
        np.concatenate([v, extra[name].astype(np.float32)], -1)
        for v, name in zip(values, ("query_rope", "key_rope"), strict=True)
    ]
    scaled = joined[0] * extra["dequant_scale_query"][..., None] * 2**-4
    want, want_lse = plain(scaled, joined[1], values[1])
    tight(got, want * 0.25)
    tight(lse, want_lse)
    device, device_lse = run(query, key, key, soc=soc, **extra)
    assert device.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(device.astype(np.float64), got, atol=bound, rtol=2**-7)
    np.testing.assert_allclose(device_lse, lse, rtol=1e-4, atol=1e-5)


def test_latent_int8_of_a2_goes_through_fp16() -> None:
    """One column: numerator 127, product 127 v / 1024 in FP16, times 1024 / 127 and the value's scale."""
    shape = (1, 1, 1, 64)
    value = np.arange(64).reshape(shape).astype(np.int8)
    rope = np.zeros(shape, ml_dtypes.bfloat16)
    got = run(
        np.ones(shape, np.int8),
        value,
        value,
        query_rope=rope,
        key_rope=rope,
        dequant_scale_query=np.ones((1, 1, 1), np.float32),
        key_antiquant_scale=one(1.0),
        value_antiquant_scale=one(0.3),
        query_quant_mode=3,
        num_heads=1,
        num_key_value_heads=1,
    )[0]
    reduced = (np.arange(64) * 127 / 1024).astype(np.float16).astype(np.float64)
    want = (reduced * 1024 / 127 * np.float32(0.3)).astype(np.float32).astype(ml_dtypes.bfloat16)
    assert np.array_equal(got.ravel(), want)


def fp8(*shape: int) -> Array:
    return RNG.integers(-12, 12, shape).astype(E4M3)


@pytest.mark.parametrize("p_scale", [1.0, 448.0])
def test_fp8_with_a_scale_a_token_and_head(p_scale: float) -> None:
    tokens, size = 5, 128
    query, cache = fp8(N, tokens, D), fp8(3, NK, size, D)
    table = np.array([[2], [0]], np.int32)
    scales = {
        "dequant_scale_query": powers(N, tokens),
        "key_antiquant_scale": powers(3, NK, size),
        "value_antiquant_scale": powers(NK),
        "quant_scale1": one(p_scale),
    }
    modes = {"query_quant_mode": 3, "key_antiquant_mode": 3, "value_antiquant_mode": 2, "soc": "Ascend950"}
    rest = {
        "input_layout": "NTD_TND",
        "actual_seq_lengths": [2, 5],
        "actual_seq_lengths_kv": [100, 40],
        "block_table": table,
        "block_size": size,
        **modes,
        **scales,
    }
    got, lse = run(query, cache, cache, precision="exact", **rest)
    device, device_lse = run(query, cache, cache, **rest)
    assert got.shape == (tokens, N, D)
    for rows, block, length in ((slice(0, 2), 2, 100), (slice(2, 5), 0, 40)):
        dequantised = query[:, rows].astype(np.float32) * scales["dequant_scale_query"][:, rows, None]
        raw = cache[block, :, :length].astype(np.float32)
        key = raw * scales["key_antiquant_scale"][block, :, :length, None]
        value = raw * scales["value_antiquant_scale"][:, None, None]
        want, want_lse = plain(dequantised[None], key[None], value[None])
        tight(got[rows].transpose(1, 0, 2), want[0])
        tight(lse[rows].transpose(1, 0, 2), want_lse[0])
    np.testing.assert_allclose(device.astype(np.float64), got, atol=0.1)
    np.testing.assert_allclose(device_lse, lse, atol=1e-5)


@pytest.mark.parametrize("few_rows", [True, False])
@pytest.mark.parametrize("form", ["plain", "BnNBsD", "NZ"])
def test_microscaling_packs_scales_in_pairs(few_rows: bool, form: str) -> None:
    rows, columns, size = [1, 3], [100, 30], 128
    query = fp8(sum(rows), N, D)
    query_scale = powers(sum(rows), N, D // 64, 2, kind=ml_dtypes.float8_e8m0fnu)
    # Scales of each sequence: key (heads, rows, groups of the width), value (heads, groups of rows, width).
    keys = [fp8(NK, c, D) for c in columns]
    key_scales = [powers(NK, c, D // 32, kind=ml_dtypes.float8_e8m0fnu) for c in columns]
    value_scales = [powers(NK, 4, D, kind=ml_dtypes.float8_e8m0fnu) for _ in columns]
    value_scales[1] = value_scales[1][:, :2]
    rest: dict[str, Any] = {
        "input_layout": "TND",
        "actual_seq_lengths": [1, 4],
        "query_quant_mode": 6,
        "key_antiquant_mode": 6,
        "value_antiquant_mode": 8,
        "quant_scale1": one(4.0),
        "soc": "Ascend950",
    }
    if few_rows:
        rest["dequant_scale_query"] = query_scale.reshape(4, NK, N // NK, D // 64, 2).transpose(1, 0, 2, 3, 4)
    else:
        rest["dequant_scale_query"] = query_scale
    if form == "plain":
        cache = np.concatenate(keys, 1).transpose(1, 0, 2)
        rest["key_antiquant_scale"] = np.concatenate(key_scales, 1).transpose(1, 0, 2).reshape(-1, NK, D // 64, 2)
        by_pair = np.concatenate(value_scales, 1).reshape(NK, -1, 2, D)
        rest["value_antiquant_scale"] = by_pair.transpose(1, 0, 3, 2)
        rest["actual_seq_lengths_kv"] = [100, 130]
    else:
        table = np.array([[2], [0]], np.int32)
        one_byte = ml_dtypes.float8_e8m0fnu
        cache = np.zeros((3, NK, size, D), E4M3)
        key_pages, value_pages = np.ones((3, NK, size, D // 32), one_byte), np.ones((3, NK, size // 32, D), one_byte)
        for b, block in enumerate(table[:, 0]):
            cache[block, :, : columns[b]] = keys[b]
            key_pages[block, :, : columns[b]] = key_scales[b]
            value_pages[block, :, : value_scales[b].shape[1]] = value_scales[b]
        key_pages = key_pages.reshape(3, NK, size, D // 64, 2)
        value_pages = value_pages.reshape(3, NK, size // 64, 2, D).transpose(0, 1, 2, 4, 3)
        if form == "NZ":
            cache = cache.reshape(3, NK, size, D // 32, 32).transpose(0, 1, 3, 2, 4)
            key_pages = key_pages.reshape(3, NK, size // 16, 16, D // 64, 2).transpose(0, 1, 2, 4, 3, 5)
            value_pages = value_pages.reshape(3, NK, size // 64, D // 16, 16, 2).transpose(0, 1, 3, 2, 4, 5)
        rest |= {"key_antiquant_scale": key_pages, "value_antiquant_scale": value_pages}
        rest |= {"block_table": table, "block_size": size, "actual_seq_lengths_kv": columns}
    got, lse = run(query, cache, cache, precision="exact", **rest)
    device, device_lse = run(query, cache, cache, **rest)
    scaled = query.astype(np.float32) * np.repeat(query_scale.reshape(4, N, -1).astype(np.float32), 32, axis=-1)
    for b, part in enumerate((slice(0, 1), slice(1, 4))):
        key = keys[b].astype(np.float32) * np.repeat(key_scales[b].astype(np.float32), 32, axis=-1)
        spread = np.repeat(value_scales[b].astype(np.float32), 32, axis=1)[:, : columns[b]]
        value = keys[b].astype(np.float32) * spread
        want, want_lse = plain(scaled[part].transpose(1, 0, 2)[None], key[None], value[None])
        tight(got[part].transpose(1, 0, 2), want[0])
        # The kept maximum leaves the P scale out, the row sum has it.
        tight(lse[part].transpose(1, 0, 2), want_lse[0] + np.log(4.0))
    np.testing.assert_allclose(device.astype(np.float64), got, atol=0.1)
    np.testing.assert_allclose(device_lse, lse, atol=1e-5)


@pytest.mark.parametrize("kind", ["FLOAT8_E4M3FN", "HIFLOAT8"])
def test_blocks_of_128_rows_and_256_columns_share_a_scale(kind: str) -> None:
    rows, columns = 130, 300
    numbers = [RNG.integers(-12, 12, (1, n, s, D)).astype(np.float32) for n, s in ((N, rows), (NK, columns))]
    query, key = (a.astype(E4M3) if kind == "FLOAT8_E4M3FN" else hifloat8_encode(a) for a in numbers)
    scales = {
        "dequant_scale_query": powers(1, N, 2, 1),
        "key_antiquant_scale": powers(1, NK, 2, 1),
        "value_antiquant_scale": powers(1, NK, 2, 1),
    }
    modes = {"query_quant_mode": 7, "key_antiquant_mode": 7, "value_antiquant_mode": 7, "soc": "Ascend950"}
    got = run(query, key, key, precision="exact", **modes, **scales)[0]
    spread = {
        name: np.repeat(s, each, axis=2)[:, :, :size]
        for (name, s), each, size in zip(scales.items(), (128, 256, 256), (rows, columns, columns), strict=True)
    }
    decoded = [hifloat8_decode(a) if a.dtype == HIFLOAT8.numpy else a.astype(np.float32) for a in (query, key)]
    want = plain(
        decoded[0] * spread["dequant_scale_query"],
        decoded[1] * spread["key_antiquant_scale"],
        decoded[1] * spread["value_antiquant_scale"],
    )[0]
    tight(got, want)
    device = run(query, key, key, **modes, **scales)[0]
    assert device.dtype == np.float16
    np.testing.assert_allclose(device.astype(np.float64), got, atol=0.3)


def test_full_quantisation_refusals() -> None:
    query, key = np.zeros((B, N, 2, D), np.int8), np.zeros((B, NK, S2, D), np.int8)
    with pytest.raises(ValueError, match="deqScale1, quantScale1 and deqScale2"):
        run(query, key, key, deq_scale1=one(1.0))
    extra = {**latent("INT8"), "key_antiquant_scale": np.ones(2, np.float32)}
    with pytest.raises(ValueError, match=r"keyAntiquantScale .* has one element"):
        run(np.zeros((1, 8, 2, 64), np.int8), *[np.zeros((1, 1, 300, 64), np.int8)] * 2, **extra)


@pytest.mark.parametrize("out", ["INT8", "FLOAT8_E4M3FN", "HIFLOAT8"])
def test_outputs_quantise_to_eight_bits(out: str) -> None:
    query, key = (RNG.standard_normal((B, n, 3, D)).astype(np.float16) for n in (N, NK))
    exact = run(query, key, key, precision="exact")[0]
    got = run(query, key, key, quant_scale2=one(8.0), out_dtype=out)[0]
    decoded = hifloat8_decode(got) if out == "HIFLOAT8" else got.astype(np.float32)
    # Half a step of the type: 1/2, or 2^-4 of the value (E4M3), 2^-4 to 2^-3 (HIFLOAT8 up to 16).
    bound = 0.51 if out == "INT8" else 0.01 + np.abs(exact * 8) * (2**-4 if out == "FLOAT8_E4M3FN" else 2**-3)
    assert (np.abs(decoded - exact * 8) <= bound).all()

"""Quantised keys, values and queries: stored as integers or 8-bit floats, they attend as the numbers they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import hifloat8_decode, hifloat8_encode

Array = np.ndarray[Any, Any]
Normal = Callable[..., Array]
Formula = Callable[..., tuple[Array, Array]]

B, N, NK, S2, D = 2, 4, 2, 40, 64
SCALE = 0.125
CLOSE: dict[str, Any] = {"rtol": 1e-2, "atol": 2e-3}
LOOSE: dict[str, Any] = {"rtol": 5e-2, "atol": 3e-2}  # numerators of 8 bits


@pytest.fixture
def integers() -> Callable[..., Array]:
    return lambda seed, *shape: np.random.default_rng(seed).integers(-100, 100, shape, np.int8)


def decode_call(q: Array, k: Array, v: Array, **more: Any) -> dict[str, Any]:
    call = {"query": q, "key": k, "value": v, "numHeads": N, "numKeyValueHeads": NK, "scaleValue": SCALE}
    return call | {"inputLayout": "BNSD", "out": (q.shape, "FP16")} | more


def test_merged_scales_hold_key_then_value(attend: Any, normal: Normal, integers: Any, formula: Formula) -> None:
    q, k, v = normal(1, B, N, 1, D), integers(2, B, NK, S2, D), integers(3, B, NK, S2, D)
    scale = (np.random.default_rng(4).random((2, NK, 1, D)) * 0.02).astype(np.float16)
    offset = np.random.default_rng(5).integers(-9, 9, (2, NK, 1, D)).astype(np.float16)
    real = [(x.astype(np.float64) + offset[i]) * scale[i] for i, x in enumerate((k, v))]
    got = attend(**decode_call(q, k, v, antiquantScaleOptional=scale, antiquantOffsetOptional=offset))
    np.testing.assert_allclose(got, formula(q, *real, SCALE)[0], **CLOSE)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_split_scales_by_token_and_head(
    mode: int, attend: Any, normal: Normal, integers: Any, formula: Formula
) -> None:
    q, k, v = normal(1, B, N, 1, D), integers(2, B, NK, S2, D), integers(3, B, NK, S2, D)
    shapes: dict[int, Any] = {
        1: ((B, S2), lambda s: s[:, None, :, None], np.float32),
        2: ((NK,), lambda s: s[None, :, None, None], np.float16),
        3: ((B, NK, S2), lambda s: s[..., None], np.float32),
    }
    shape, spread, dtype = shapes[mode]
    k_scale, v_scale = ((np.random.default_rng(i).random(shape) * 0.02).astype(dtype) for i in (4, 5))
    real = k * spread(k_scale.astype(np.float64)), v * spread(v_scale.astype(np.float64))
    call = decode_call(q, k, v, keyAntiquantScaleOptional=k_scale, valueAntiquantScaleOptional=v_scale)
    got = attend(**call, keyAntiquantMode=mode, valueAntiquantMode=mode)
    np.testing.assert_allclose(got, formula(q, *real, SCALE)[0], **CLOSE)


def test_scales_in_the_pages_of_the_cache(attend: Any, normal: Normal, integers: Any, formula: Formula) -> None:
    block, lengths = 32, [40, 17]
    q, k, v = normal(1, B, N, 1, D), integers(2, 5, block, NK * D), integers(3, 5, block, NK * D)
    k_scale, v_scale = ((np.random.default_rng(i).random((5, block)) * 0.02).astype(np.float32) for i in (4, 5))
    table = np.array([[4, 0], [2, 0]], np.int32)

    def real(cache: Array, scale: Array) -> Array:
        rows: Array = (cache * scale[..., None].astype(np.float64))[table].reshape(B, 2 * block, NK, D)
        return np.asarray(rows.transpose(0, 2, 1, 3))

    visible = np.arange(2 * block)[None, None, None] < np.array(lengths)[:, None, None, None]
    want, _ = formula(q, real(k, k_scale), real(v, v_scale), SCALE, visible)
    call = decode_call(q, k, v, keyAntiquantScaleOptional=k_scale, valueAntiquantScaleOptional=v_scale)
    call |= {"blockTableOptional": table, "blockSize": block, "actualSeqLengthsKvOptional": lengths}
    np.testing.assert_allclose(attend(**call, keyAntiquantMode=4, valueAntiquantMode=4), want, **CLOSE)


def test_scales_in_the_pages_by_head(attend: Any, normal: Normal, integers: Any, formula: Formula) -> None:
    block = 32
    q, k, v = normal(1, B, N, 1, D), integers(2, 3, NK, block, D), integers(3, 3, NK, block, D)
    k_scale, v_scale = ((np.random.default_rng(i).random((3, NK, block)) * 0.02).astype(np.float32) for i in (4, 5))
    table = np.array([[2], [0]], np.int32)
    real = ((x * s[..., None].astype(np.float64))[table[:, 0]] for x, s in ((k, k_scale), (v, v_scale)))
    call = decode_call(q, k, v, keyAntiquantScaleOptional=k_scale, valueAntiquantScaleOptional=v_scale)
    call |= {"blockTableOptional": table, "blockSize": block, "actualSeqLengthsKvOptional": [block, block]}
    got = attend(**call, keyAntiquantMode=5, valueAntiquantMode=5)
    np.testing.assert_allclose(got, formula(q, *real, SCALE)[0], **CLOSE)


def test_int4_keys_lie_two_a_byte(attend: Any, normal: Normal, formula: Formula) -> None:
    rng = np.random.default_rng(6)
    q = normal(1, B, N, 1, D)
    k, v = (rng.integers(-8, 8, (B, NK, S2, D)).astype(np.int8).astype(ml_dtypes.int4) for _ in range(2))
    scales = [np.full((1, NK, 1, D), value, np.float16) for value in (0.25, 0.125)]
    real = k.astype(np.float64) * 0.25, v.astype(np.float64) * 0.125
    call = decode_call(q, k, v, keyAntiquantScaleOptional=scales[0], valueAntiquantScaleOptional=scales[1])
    np.testing.assert_allclose(attend(**call), formula(q, *real, SCALE)[0], **CLOSE)


def test_int8_throughout(attend: Any, integers: Any, formula: Formula) -> None:
    q, k, v = integers(1, B, N, 6, D), integers(2, B, NK, S2, D), integers(3, B, NK, S2, D)
    call = decode_call(q, k, v, deqScale1Optional=np.array([2.0**-9], np.float32))
    call |= {"quantScale1Optional": np.array([127.0], np.float32)}
    call |= {"deqScale2Optional": np.array([0.01 / 127], np.float32)}
    want, _ = formula(q, k * 2.0**-9, v * 0.01, SCALE)
    np.testing.assert_allclose(attend(**call), want, **LOOSE)


def test_int8_mla_scales_query_and_cache(attend: Any, integers: Any, formula: Formula) -> None:
    heads, block = 8, 128
    rng = np.random.default_rng(8)
    q, cache = integers(1, B, 1, heads, 512), integers(2, 2, 1, 512 // 32, block, 32)
    q_rope = rng.standard_normal((B, 1, heads, 64)).astype(ml_dtypes.bfloat16)
    rope = rng.standard_normal((2, 1, 4, block, 16)).astype(ml_dtypes.bfloat16)
    q_scale, k_scale, v_scale = (rng.random((B, 1, heads)) * 0.02).astype(np.float32), 0.05, 0.02
    table = np.array([[1], [0]], np.int32)
    k = cache[table[:, 0]].transpose(0, 1, 3, 2, 4).reshape(B, 1, block, 512).astype(np.float64)
    k_rope = rope[table[:, 0]].transpose(0, 1, 3, 2, 4).reshape(B, 1, block, 64).astype(np.float64)
    whole = np.concatenate([q, q_rope], -1).astype(np.float64) * q_scale[..., None] * k_scale
    want, _ = formula(whole.transpose(0, 2, 1, 3), np.concatenate([k, k_rope], -1), k * v_scale, SCALE)
    call = {"query": q, "key": cache, "value": cache, "queryRopeOptional": q_rope, "keyRopeOptional": rope}
    call |= {"blockTableOptional": table, "blockSize": block, "actualSeqLengthsKvOptional": [block, block]}
    call |= {"numHeads": heads, "numKeyValueHeads": 1, "scaleValue": SCALE, "inputLayout": "BSND", "queryQuantMode": 3}
    call |= {"dequantScaleQueryOptional": q_scale, "out": ((B, 1, heads, 512), "BF16")}
    call |= {"keyAntiquantScaleOptional": np.array([k_scale], np.float32)}
    call |= {"valueAntiquantScaleOptional": np.array([v_scale], np.float32)}
    got = attend("aclnnFusedInferAttentionScoreV4", **call)
    np.testing.assert_allclose(got, want.transpose(0, 2, 1, 3), **LOOSE)


def test_hifloat8_keys_on_950(attend: Any, normal: Normal, formula: Formula, product: Callable[[str], None]) -> None:
    product("Ascend950")
    q = normal(1, B, N, 1, D)
    k, v = (hifloat8_encode(normal(i, B, NK, S2, D).astype(np.float32)) for i in (2, 3))
    scale = np.full((NK, D), 0.5, np.float16)
    call = decode_call(q, k, v, keyAntiquantScaleOptional=scale, valueAntiquantScaleOptional=scale)
    got = attend("aclnnFusedInferAttentionScoreV5", **call)
    np.testing.assert_allclose(got, formula(q, hifloat8_decode(k) * 0.5, hifloat8_decode(v) * 0.5, SCALE)[0], **CLOSE)


def test_microscaled_fp8_on_950(attend: Any, normal: Normal, formula: Formula, product: Callable[[str], None]) -> None:
    product("Ascend950")
    ends, kv_ends = [3, 8], [70, 100]
    e4m3, e8m0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    rng = np.random.default_rng(7)
    q, k, v = (normal(i, t, n, D).astype(e4m3) for i, (t, n) in enumerate([(8, N), (100, NK), (100, NK)]))

    def powers(*shape: int) -> Array:
        return (2.0 ** rng.integers(-2, 1, shape)).astype(e8m0)

    # groups of 32: along D for query and key; along the tokens of a batch for value, 64 tokens a row
    q_scale, k_scale, v_scale = powers(8, N, 1, 2), powers(100, NK, 1, 2), powers(3, NK, D, 2)
    real_q, real_k = (
        x.astype(np.float64) * np.repeat(s.astype(np.float64).reshape(*x.shape[:2], 2), 32, -1)
        for x, s in ((q, q_scale), (k, k_scale))
    )
    real_v, first_row = v.astype(np.float64), 0
    for begin, end in zip([0, *kv_ends], kv_ends, strict=False):
        for t in range(begin, end):
            row, half = first_row + (t - begin) // 64, (t - begin) % 64 // 32
            real_v[t] *= v_scale[row, :, :, half].astype(np.float64)
        first_row += -(-(end - begin) // 64)
    want = np.zeros((8, N, D))
    for begin, end, kv_begin, kv_end in zip([0, *ends], ends, [0, *kv_ends], kv_ends, strict=False):
        parts = (real_q[begin:end], real_k[kv_begin:kv_end], real_v[kv_begin:kv_end])
        want[begin:end] = formula(*(x.transpose(1, 0, 2)[None] for x in parts), SCALE)[0][0].transpose(1, 0, 2)
    call = decode_call(q, k, v, inputLayout="TND", out=((8, N, D), "BF16"), dequantScaleQueryOptional=q_scale)
    call |= {"keyAntiquantScaleOptional": k_scale, "valueAntiquantScaleOptional": v_scale}
    call |= {"queryQuantMode": 6, "keyAntiquantMode": 6, "valueAntiquantMode": 8}
    call |= {"actualSeqLengthsOptional": ends, "actualSeqLengthsKvOptional": kv_ends}
    call |= {"quantScale1Optional": np.array([256.0], np.float32)}
    got = attend("aclnnFusedInferAttentionScoreV5", **call)
    np.testing.assert_allclose(got, want, rtol=6e-2, atol=4e-2)


def test_fp4_keys_with_scales_by_groups_of_32(
    attend: Any, normal: Normal, formula: Formula, product: Callable[[str], None]
) -> None:
    product("Ascend950")
    rng = np.random.default_rng(9)
    q = normal(1, B, N, 1, D)
    k, v = (rng.standard_normal((B, NK, S2, D)).astype(ml_dtypes.float4_e2m1fn) for _ in range(2))
    scales = [(2.0 ** rng.integers(-2, 1, (1, B, NK, S2, D // 32))).astype(ml_dtypes.float8_e8m0fnu) for _ in range(2)]
    real = (
        x.astype(np.float64) * np.repeat(s[0].astype(np.float64), 32, -1) for x, s in zip((k, v), scales, strict=True)
    )
    call = decode_call(q, k, v, keyAntiquantScaleOptional=scales[0], valueAntiquantScaleOptional=scales[1])
    got = attend("aclnnFusedInferAttentionScoreV5", **call, keyAntiquantMode=6, valueAntiquantMode=6)
    np.testing.assert_allclose(got, formula(q, *real, SCALE)[0], **CLOSE)


@pytest.mark.parametrize("stored", ["FLOAT8_E4M3FN", "HIFLOAT8"])
def test_fp8_mla_on_950(
    stored: str, attend: Any, normal: Normal, formula: Formula, product: Callable[[str], None]
) -> None:
    product("Ascend950")
    heads = 4
    rng = np.random.default_rng(10)
    encode, decode = (
        (hifloat8_encode, hifloat8_decode)
        if stored == "HIFLOAT8"
        else (lambda x: x.astype(ml_dtypes.float8_e4m3fn), lambda x: x.astype(np.float64))
    )
    q, k = (encode(rng.standard_normal(shape).astype(np.float32)) for shape in ((B, 3, heads, 512), (B, 70, 1, 512)))
    ropes = [rng.standard_normal((B, s, n, 64)).astype(ml_dtypes.bfloat16) for s, n in ((3, heads), (70, 1))]
    q_scale, k_scale, v_scale = (rng.random((B, 3, heads)) * 0.5).astype(np.float32), 0.5, 0.25
    real_q, real_k = decode(q).astype(np.float64), decode(k).astype(np.float64)
    whole_q = np.concatenate([real_q, ropes[0]], -1) * q_scale[..., None] * k_scale
    parts = (x.transpose(0, 2, 1, 3) for x in (whole_q, np.concatenate([real_k, ropes[1]], -1), real_k * v_scale))
    want, _ = formula(*parts, 0.05)
    call = {"query": q, "key": k, "value": k, "queryRopeOptional": ropes[0], "keyRopeOptional": ropes[1]}
    call |= {"numHeads": heads, "numKeyValueHeads": 1, "scaleValue": 0.05, "inputLayout": "BSND", "queryQuantMode": 3}
    call |= {"dequantScaleQueryOptional": q_scale, "out": (q.shape, "BF16")}
    call |= {"keyAntiquantScaleOptional": np.array([k_scale], np.float32)}
    call |= {"valueAntiquantScaleOptional": np.array([v_scale], np.float32)}
    got = attend("aclnnFusedInferAttentionScoreV5", **call)
    np.testing.assert_allclose(got, want.transpose(0, 2, 1, 3), **LOOSE)


def test_eight_bit_float_outputs_on_950(attend: Any, normal: Normal, product: Callable[[str], None]) -> None:
    product("Ascend950")
    row = (np.arange(-32, 32) / 16).astype(np.float16)  # every weighted mean is the row itself
    q, k, v = normal(1, 1, 1, 2, 64), normal(2, 1, 1, 8, 64), np.broadcast_to(row, (1, 1, 8, 64)).copy()
    call = {"query": q, "key": k, "value": v, "numHeads": 1, "inputLayout": "BNSD"}
    call |= {"quantScale2Optional": np.array([2.0], np.float32)}
    got = attend("aclnnFusedInferAttentionScoreV5", **call, out=((1, 1, 2, 64), "FLOAT8_E4M3FN"))
    want = (row.astype(np.float32) * 2).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=1 / 8)
    got = attend("aclnnFusedInferAttentionScoreV5", **call, out=((1, 1, 2, 64), "HIFLOAT8"))
    rounded = hifloat8_decode(hifloat8_encode(row.astype(np.float32) * 2))
    np.testing.assert_allclose(hifloat8_decode(got), np.broadcast_to(rounded, got.shape), rtol=1 / 8)


def test_a_tree_mask_covers_the_last_columns(attend: Any, integers: Any, formula: Formula) -> None:
    heads, block, rows = 2, 128, 4
    rng = np.random.default_rng(8)
    q, cache = integers(1, B, rows, heads, 512), integers(2, 2, 1, 16, block, 32)
    q_rope = rng.standard_normal((B, rows, heads, 64)).astype(ml_dtypes.bfloat16)
    rope = rng.standard_normal((2, 1, 4, block, 16)).astype(ml_dtypes.bfloat16)
    tree = rng.random((B, rows, rows)) < 0.5
    tree[:, range(rows), range(rows)] = False
    columns = [100, 60]
    hidden = np.zeros((B, 1, rows, block), bool)
    for i, length in enumerate(columns):
        hidden[i, 0, :, length:] = True
        hidden[i, 0, :, length - rows : length] |= tree[i]
    k = cache.transpose(0, 1, 3, 2, 4).reshape(B, 1, block, 512).astype(np.float64)
    k_rope = rope.transpose(0, 1, 3, 2, 4).reshape(B, 1, block, 64).astype(np.float64)
    whole = np.concatenate([q, q_rope], -1).astype(np.float64).transpose(0, 2, 1, 3) * 0.001
    want, _ = formula(whole, np.concatenate([k, k_rope], -1), k * 0.02, SCALE, ~hidden)
    one = {name: np.array([value], np.float32) for name, value in (("key", 0.01), ("value", 0.02))}
    call = {"query": q, "key": cache, "value": cache, "queryRopeOptional": q_rope, "keyRopeOptional": rope}
    call |= {"blockTableOptional": np.array([[0], [1]], np.int32), "blockSize": block, "inputLayout": "BSND"}
    call |= {"actualSeqLengthsKvOptional": columns, "sparseMode": 9, "attenMaskOptional": tree, "queryQuantMode": 3}
    call |= {"numHeads": heads, "numKeyValueHeads": 1, "scaleValue": SCALE, "out": (q.shape, "BF16")}
    call |= {"dequantScaleQueryOptional": np.full((B, rows, heads), 0.1, np.float32)}
    call |= {f"{name}AntiquantScaleOptional": scale for name, scale in one.items()}
    got = attend("aclnnFusedInferAttentionScoreV4", **call)
    np.testing.assert_allclose(got, want.transpose(0, 2, 1, 3), **LOOSE)

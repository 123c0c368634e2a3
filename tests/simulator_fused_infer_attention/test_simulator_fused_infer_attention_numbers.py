"""Every way of giving the same attention: layouts, caches, lists, prefix, lengths, windows; against the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla

B, N, NK, S1, S2, D = 2, 4, 2, 5, 37, 64
SCALE = 0.125
FP16: dict[str, Any] = {"rtol": 4e-3, "atol": 4e-4}
BF16: dict[str, Any] = {"rtol": 2e-2, "atol": 8e-3}
MASK = np.triu(np.ones((2048, 2048), bool), 1)

Array = np.ndarray[Any, Any]
Normal = Callable[..., Array]
Formula = Callable[..., tuple[Array, Array]]


@pytest.fixture
def operands(normal: Normal) -> tuple[Array, Array, Array]:
    """Query, key and value as (B, N, S, D)."""
    return normal(1, B, N, S1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)


def given(q: Array, k: Any, v: Any, **more: Any) -> dict[str, Any]:
    call = {"query": q, "key": k, "value": v, "numHeads": N, "numKeyValueHeads": NK, "scaleValue": SCALE}
    return call | {"inputLayout": "BNSD", "out": (q.shape, "FP16")} | more


TO_LAYOUT: dict[str, Callable[[Array], Array]] = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(0, 2, 1, 3),
    "BSH": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
    "NBSD": lambda x: x.transpose(1, 0, 2, 3),
}


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_BSND", "BSND_BNSD", "BSH_BNSD"])
def test_layouts(layout: str, attend: Any, operands: Any, formula: Formula) -> None:
    source, target = (layout.split("_") * 2)[:2]
    want, want_lse = formula(*operands, SCALE)
    q, k, v = (np.ascontiguousarray(TO_LAYOUT[source](x)) for x in operands)
    want = TO_LAYOUT[target](want)
    got, lse = attend(**given(q, k, v, inputLayout=layout, out=(want.shape, "FP16"), lse=(B, N, S1, 1)))
    np.testing.assert_allclose(got, want, **FP16)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-4)


@pytest.mark.parametrize("layout", ["TND", "NTD", "NTD_TND"])
def test_token_layouts_with_an_empty_batch(layout: str, attend: Any, normal: Normal, formula: Formula) -> None:
    q_ends, kv_ends = [3, 3, 8], [10, 12, 40]
    q, k, v = normal(1, 8, N, 128), normal(2, 40, NK, 128), normal(3, 40, NK, 128)
    want = np.zeros((8, N, 128))
    for begin, end, kv_begin, kv_end in zip([0, *q_ends], q_ends, [0, *kv_ends], kv_ends, strict=False):
        parts = (x.transpose(1, 0, 2)[None] for x in (q[begin:end], k[kv_begin:kv_end], v[kv_begin:kv_end]))
        want[begin:end] = formula(*parts, SCALE)[0][0].transpose(1, 0, 2)
    if layout.startswith("NTD"):
        q, k, v = (np.ascontiguousarray(x.transpose(1, 0, 2)) for x in (q, k, v))
    want = want.transpose(1, 0, 2) if layout.endswith("NTD") else want
    call = given(q, k, v, inputLayout=layout, out=(want.shape, "FP16"))
    got = attend(**call, actualSeqLengthsOptional=q_ends, actualSeqLengthsKvOptional=kv_ends)
    np.testing.assert_allclose(got, want, **FP16)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_paged_caches_hold_the_same_keys(rank: int, attend: Any, operands: Any, formula: Formula) -> None:
    block, lengths = 128, [37, 20]
    q, k, v = operands
    table = np.array([[3], [1]], np.int32)

    def cache(x: Array) -> Array:
        pages = np.full((5, NK, block, D), np.nan, np.float16)
        for batch in range(B):
            pages[table[batch, 0], :, :S2] = x[batch]
        if rank == 3:
            return np.ascontiguousarray(pages.transpose(0, 2, 1, 3).reshape(5, block, NK * D))
        if rank == 4:
            return pages
        return np.ascontiguousarray(pages.reshape(5, NK, block, D // 16, 16).transpose(0, 1, 3, 2, 4))

    visible = np.arange(S2)[None, None, None] < np.array(lengths)[:, None, None, None]
    call = given(q, cache(k), cache(v), blockTableOptional=table, blockSize=block)
    got = attend(**call, actualSeqLengthsKvOptional=lengths)
    np.testing.assert_allclose(got, formula(q, k, v, SCALE, visible)[0], **FP16)


def test_a_list_of_tensors_holds_a_batch_each(attend: Any, operands: Any, formula: Formula) -> None:
    q, k, v = operands
    lengths = [37, 11]
    lists = [[np.ascontiguousarray(x[i : i + 1, :, : lengths[i]]) for i in range(B)] for x in (k, v)]
    visible = np.arange(S2)[None, None, None] < np.array(lengths)[:, None, None, None]
    got = attend(**given(q, *lists))
    np.testing.assert_allclose(got, formula(q, k, v, SCALE, visible)[0], **FP16)


def test_a_shared_prefix_comes_before_the_keys(attend: Any, normal: Normal, formula: Formula) -> None:
    q, k, v = (normal(i, B, n, s, 128) for i, (n, s) in enumerate([(N, S1), (NK, S2), (NK, S2)]))
    prefix_k, prefix_v = normal(4, 1, NK, 16, 128), normal(5, 1, NK, 16, 128)
    whole = [np.concatenate([np.repeat(p[:, :, :9], B, 0), x], 2) for p, x in ((prefix_k, k), (prefix_v, v))]
    call = given(q, k, v, keySharedPrefixOptional=prefix_k, valueSharedPrefixOptional=prefix_v)
    got = attend(**call, actualSharedPrefixLenOptional=[9])
    np.testing.assert_allclose(got, formula(q, *whole, SCALE)[0], **FP16)


def test_lengths_leave_the_rows_beyond_them_zero(attend: Any, operands: Any, formula: Formula) -> None:
    q, k, v = operands
    rows, columns = [2, 5], [30, 7]
    visible = np.arange(S2)[None, None, None] < np.array(columns)[:, None, None, None]
    want, want_lse = formula(q, k, v, SCALE, visible)
    want[0, :, 2:], want_lse[0, :, 2:] = 0, np.inf
    call = given(q, k, v, lse=(B, N, S1, 1), actualSeqLengthsOptional=rows)
    got, lse = attend(**call, actualSeqLengthsKvOptional=columns)
    np.testing.assert_allclose(got, want, **FP16)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-4)


@pytest.mark.parametrize(
    ("mode", "pre", "next_", "low", "high"),
    [
        (2, 2147483647, 2147483647, -10000, 0),  # j <= i
        (3, 2147483647, 2147483647, -10000, S2 - S1),  # the last row sees every column
        (4, 3, 1, S2 - S1 - 3, S2 - S1 + 1),  # a band along the lower right diagonal
        (4, 40, -34, S2 - S1 - 40, S2 - S1 - 34),  # rows 0 and 1 see nothing
    ],
)
def test_windows(
    mode: int, pre: int, next_: int, low: int, high: int, attend: Any, operands: Any, formula: Formula
) -> None:
    ahead = np.arange(S2)[None] - np.arange(S1)[:, None]
    want, want_lse = formula(*operands, SCALE, (ahead >= low) & (ahead <= high))
    call = given(*operands, lse=(B, N, S1, 1), sparseMode=mode, preTokens=pre, nextTokens=next_)
    got, lse = attend(**call, attenMaskOptional=MASK)
    np.testing.assert_allclose(got, want, **FP16)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-4)


def test_a_mask_and_a_pse_shift_are_read_by_batch(attend: Any, operands: Any, formula: Formula, normal: Normal) -> None:
    q, k, v = operands
    mask = np.random.default_rng(9).random((B, 1, S1, S2)) < 0.4
    pse = normal(10, 1, N, S1, S2)
    # pse enters the formula as one more dimension: a unit vector for each column
    wide_q = np.concatenate([q.astype(np.float64) * SCALE, np.repeat(pse, B, 0).astype(np.float64)], -1)
    wide_k = np.concatenate([k.astype(np.float64), np.broadcast_to(np.eye(S2), (B, NK, S2, S2))], -1)
    want, _ = formula(wide_q, wide_k, v, 1.0, ~mask)
    got = attend(**given(q, k, v, attenMaskOptional=mask, pseShiftOptional=pse, sparseMode=1))
    np.testing.assert_allclose(got, want, **FP16)


def test_left_padding_moves_rows_and_columns(attend: Any, operands: Any, formula: Formula) -> None:
    q, k, v = operands
    rows, columns = [3, 4], [12, 20]
    call = given(q, k, v, actualSeqLengthsOptional=rows, actualSeqLengthsKvOptional=columns)
    got = attend(**call, queryPaddingSizeOptional=np.array([1]), kvPaddingSizeOptional=np.array([2]))
    want = np.zeros((B, N, S1, D))
    for i in range(B):
        at, kv_at = S1 - 1 - rows[i], S2 - 2 - columns[i]
        own = (q[i : i + 1, :, at : at + rows[i]], *(x[i : i + 1, :, kv_at : kv_at + columns[i]] for x in (k, v)))
        want[i, :, at : at + rows[i]] = formula(*own, SCALE)[0][0]
    np.testing.assert_allclose(got, want, **FP16)


def test_rope_is_summed_before_the_scale(attend: Any, normal: Normal, formula: Formula) -> None:
    q, k, v = normal(1, B, N, S1, 128), normal(2, B, NK, S2, 128), normal(3, B, NK, S2, 128)
    q_rope, k_rope = normal(4, B, N, S1, 64), normal(5, B, NK, S2, 64)
    want, _ = formula(np.concatenate([q, q_rope], -1), np.concatenate([k, k_rope], -1), v, SCALE)
    got = attend(**given(q, k, v, queryRopeOptional=q_rope, keyRopeOptional=k_rope))
    np.testing.assert_allclose(got, want, **FP16)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_NBSD", "BSND_NBSD", "BSH_NBSD"])
def test_mla_decode_reads_one_cache_as_key_and_value(layout: str, attend: Any, formula: Formula) -> None:
    source, target = (layout.split("_") * 2)[:2]
    heads, lengths = 16, [200, 70]
    rng = np.random.default_rng(5)

    def bf16(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)

    q, q_rope, cache, rope = bf16(B, heads, 1, 512), bf16(B, heads, 1, 64), bf16(4, 1, 128, 512), bf16(4, 1, 128, 64)
    table = np.array([[2, 0], [1, 3]], np.int32)
    k, k_rope = (x[table].reshape(B, 1, 256, -1) for x in (cache, rope))
    visible = np.arange(256)[None, None, None] < np.array(lengths)[:, None, None, None]
    whole = np.concatenate([q, q_rope], -1), np.concatenate([k, k_rope], -1), k
    want, _ = formula(*whole, 0.04, visible)
    q, q_rope = (np.ascontiguousarray(TO_LAYOUT[source](x)) for x in (q, q_rope))
    want = TO_LAYOUT[target](want)
    call: dict[str, Any] = {
        "query": q,
        "key": cache,
        "value": cache,
        "queryRopeOptional": q_rope,
        "keyRopeOptional": rope,
    }
    call |= {"blockTableOptional": table, "blockSize": 128, "actualSeqLengthsKvOptional": lengths}
    call |= {"numHeads": heads, "numKeyValueHeads": 1, "scaleValue": 0.04, "inputLayout": layout}
    np.testing.assert_allclose(attend(**call, out=(want.shape, "BF16")), want, **BF16)


def test_a_sink_takes_part_in_the_sum_alone(attend: Any, normal: Normal, formula: Formula) -> None:
    q, k, v = (
        normal(i, B, n, s, 128).astype(ml_dtypes.bfloat16) for i, (n, s) in enumerate([(N, S1), (NK, S2), (NK, S2)])
    )
    sink = np.array([-3.0, 0.0, 2.0, 40.0], ml_dtypes.bfloat16)
    want, want_lse = formula(q, k, v, SCALE, sink=sink.astype(np.float64))
    call = given(q, k, v, out=(q.shape, "BF16"), lse=(B, N, S1, 1), learnableSinkOptional=sink)
    got, lse = attend("aclnnFusedInferAttentionScoreV4", **call)
    np.testing.assert_allclose(got, want, **BF16)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-3)


def test_int8_output_is_scaled_shifted_rounded_and_cut(attend: Any, normal: Normal) -> None:
    q, k = normal(1, 1, 1, 2, 64), normal(2, 1, 1, 8, 64)
    row = np.linspace(-3.0, 3.0, 64, dtype=np.float16)
    v = np.broadcast_to(row, (1, 1, 8, 64)).copy()  # every weighted mean is the row itself
    call = {"query": q, "key": k, "value": v, "numHeads": 1, "inputLayout": "BNSD", "out": ((1, 1, 2, 64), "INT8")}
    call |= {"quantScale2Optional": np.array([50.0], np.float32), "quantOffset2Optional": np.array([3.0], np.float32)}
    want = np.clip(np.rint(row.astype(np.float64) * 50 + 3), -128, 127)
    assert np.abs(attend(**call) - want).max() <= 1


def test_masked_rows_are_zero_when_asked_and_the_mean_of_values_otherwise(attend: Any, operands: Any) -> None:
    q, k, v = operands
    mask = np.zeros((B, 1, S1, S2), bool)
    mask[:, :, 2] = True
    call = given(q, k, v, attenMaskOptional=mask, sparseMode=1, lse=(B, N, S1, 1))
    got, lse = attend(**call, innerPrecise=2)
    assert np.all(got[:, :, 2] == 0)
    assert np.all(np.isposinf(lse[:, :, 2]))
    got, _ = attend(**call, innerPrecise=0)
    mean = np.repeat(v.astype(np.float64).mean(2), N // NK, 1)
    np.testing.assert_allclose(got[:, :, 2], mean, **FP16)


def test_outputs_of_empty_keys_are_zero(attend: Any, normal: Normal) -> None:
    empty = np.zeros((B, NK, 0, D), np.float16)
    got, lse = attend(**given(normal(1, B, N, S1, D), empty, empty, lse=(B, N, S1, 1)))
    assert np.all(got == 0)
    assert np.all(np.isposinf(lse))


def test_findings_name_operands_without_effect(attend: Any, normal: Normal) -> None:
    before = cann_mla.c.cannMlaSimFindingCount()
    x = normal(1, 3, 2, 64)
    call = {"query": x, "key": x, "value": x, "numHeads": 2, "numKeyValueHeads": 2, "inputLayout": "TND"}
    call |= {"actualSeqLengthsOptional": [3], "actualSeqLengthsKvOptional": [3], "out": ((3, 2, 64), "FP16")}
    attend(**call, deqScale1Optional=np.ones(1, np.float32))
    assert cann_mla.c.cannMlaSimFindingCount() == before + 1
    assert "deqScale1" in cann_mla.c.string(cann_mla.c.cannMlaSimFindingText(before))


def test_a_strided_cache_is_read_where_it_lies_on_950(
    attend: Any, operands: Any, formula: Formula, product: Callable[[str], None]
) -> None:
    """Every other block of a larger cache: Ascend950 copies nothing, and takes strides on the first two axes."""
    product("Ascend950")
    q, k, v = operands
    table, block = np.array([[1], [0]], np.int32), 128
    caches = []
    for x in (k, v):
        pages = np.full((4, NK, block, D), np.nan, np.float16)
        for batch in range(B):
            pages[2 * table[batch, 0], :, :S2] = x[batch]
        whole = cann_mla.Tensor.from_numpy(pages)
        caches.append(whole.view((2, NK, block, D), strides=(2 * NK * block * D, block * D, D, 1)))
    call = given(q, [caches[0]], [caches[1]], blockTableOptional=table, blockSize=block)
    got = attend("aclnnFusedInferAttentionScoreV5", **call, actualSeqLengthsKvOptional=[S2, S2])
    np.testing.assert_allclose(got, formula(q, k, v, SCALE)[0], **FP16)

"""The choices that cann_mla/ops/fused_infer_attention.md lists: what CANN accepts, and what comes of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import c, ops

B, N, NK, S1, S2, D = 2, 4, 2, 5, 40, 64
SCALE = 0.125
BF16 = np.dtype(ml_dtypes.bfloat16)
ONE = np.ones(1, np.float32)


class Attend:
    """Calls that give the output (with the lse where it is asked for), and what strict mode would say of them."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.findings: list[str] = []

    def __call__(self, *operands: Any, **more: Any) -> Any:
        before = c.cannMlaSimFindingCount()
        with ops.fused_infer_attention(*operands, stream=self.stream, **{"scale_value": SCALE, **more}) as result:
            self.stream.synchronize()
            out = result.attention.to_numpy()
            lse = None if result.softmax_lse is None else result.softmax_lse.to_numpy()
        count = c.cannMlaSimFindingCount()
        self.findings = [c.string(c.cannMlaSimFindingText(i)) for i in range(before, count)]
        return out if lse is None else (out, lse)


@pytest.fixture
def attend(stream: Any) -> Attend:
    return Attend(stream)


@pytest.fixture
def padded(normal: Any) -> tuple[Any, ...]:
    return normal(1, B, N, S1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)


@pytest.fixture
def packed(normal: Any) -> tuple[Any, ...]:
    return normal(1, 6, N, 128), normal(2, 50, NK, 128), normal(3, 50, NK, 128)


TND = {"input_layout": "TND", "actual_seq_lengths": [2, 6], "actual_seq_lengths_kv": [20, 50]}
PLAIN = {"input_layout": "BNSD"}


def scales(*shape: int) -> Any:
    return np.full(shape, 3.0, np.float16)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("pseShift", {"pse_shift": np.ones((1, N, 6, 50), np.float16)}),
        ("queryPaddingSize", {"query_padding_size": np.array([1])}),
        ("kvPaddingSize", {"kv_padding_size": np.array([1])}),
        (
            "keySharedPrefix",
            {
                "key_shared_prefix": np.ones((1, NK, 16, 128), np.float16),
                "value_shared_prefix": np.ones((1, NK, 16, 128), np.float16),
            },
        ),
        ("dequantScaleQuery", {"dequant_scale_query": np.ones((6, N), np.float32)}),
        ("keyRopeAntiquantScale", {"key_rope_antiquant_scale": scales(64)}),
    ],
)
def test_tokens_in_a_row_ignore(attend: Attend, packed: Any, name: str, more: dict[str, Any]) -> None:
    want = attend(*packed, **TND)
    np.testing.assert_array_equal(attend(*packed, **TND, **more), want)
    assert any(f"{name} has no effect" in text for text in attend.findings), attend.findings


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("antiquantScale", {"antiquant_scale": scales(2, NK, 1, D), "antiquant_mode": 7}),
        (
            "keyAntiquantScale",
            {
                "key_antiquant_scale": scales(1, NK, 1, D), "value_antiquant_scale": scales(1, NK, 1, D),
                "key_antiquant_mode": 3, "value_antiquant_mode": 4,
            },
        ),
        ("deqScale1", {"deq_scale1": ONE * 3}),
        ("quantScale1", {"quant_scale1": ONE * 3}),
        ("deqScale2", {"deq_scale2": ONE * 3}),
        ("quantScale2", {"quant_scale2": ONE * 3, "out_dtype": "FP16"}),
        ("quantOffset2", {"quant_offset2": ONE * 3}),
    ],
)  # fmt: skip
def test_operands_that_are_not_quantised_ignore(attend: Attend, padded: Any, name: str, more: dict[str, Any]) -> None:
    want = attend(*padded, **PLAIN)
    np.testing.assert_array_equal(attend(*padded, **PLAIN, **more), want)
    assert any(f"{name} has no effect" in text for text in attend.findings), attend.findings


def by_c_names(stream: Any, padded: Any, **changes: Any) -> Any:
    """The output of a call at the level below, which takes what the function would not."""
    q, k, v = (cann_mla.Tensor.from_numpy(x) for x in padded)
    out = cann_mla.Tensor.empty(padded[0].shape, "FP16")
    given = {
        "query": q, "key": [k], "value": [v], "numHeads": N, "scaleValue": SCALE, "preTokens": 0, "nextTokens": 0,
        "inputLayout": "BNSD", "numKeyValueHeads": NK, "sparseMode": 0, "innerPrecise": 0, "blockSize": 0,
        "antiquantMode": 0, "softmaxLseFlag": False, "attentionOut": out,
    }  # fmt: skip
    cann_mla.operator("aclnnFusedInferAttentionScore")(stream=stream, **{**given, **changes})
    stream.synchronize()
    return out.to_numpy()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("preTokens", {"pre_tokens": 1}),
        ("nextTokens", {"next_tokens": 0, "sparse_mode": 3, "atten_mask": ops.compressed_mask()}),
        ("keyAntiquantMode", {"key_antiquant_mode": 5}),
        ("actualSharedPrefixLen", {"actual_shared_prefix_len": [7]}),
    ],
)
def test_numbers_without_what_they_belong_to(attend: Attend, padded: Any, name: str, more: dict[str, Any]) -> None:
    mask = {n: more[n] for n in ("sparse_mode", "atten_mask") if n in more}
    want = attend(*padded, **PLAIN, **mask)
    np.testing.assert_array_equal(attend(*padded, **PLAIN, **more), want)
    assert any(f"{name} has no effect" in text for text in attend.findings), attend.findings


def test_padding_without_lengths(attend: Attend, normal: Any) -> None:
    single = normal(1, B, N, 1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)
    want = attend(*single, **PLAIN)
    np.testing.assert_array_equal(attend(*single, **PLAIN, kv_padding_size=np.array([3])), want)
    assert any("kvPaddingSize has no effect" in text for text in attend.findings), attend.findings


def test_an_lse_that_is_not_asked_for_is_not_looked_at(stream: Any, padded: Any) -> None:
    lse = cann_mla.Tensor.zeros((3, 2), "INT8")
    by_c_names(stream, padded, softmaxLse=lse)
    assert not lse.to_numpy().any()


def test_the_split_antiquant_operands_count(attend: Attend, normal: Any) -> None:
    rng = np.random.default_rng(8)
    q = normal(1, B, N, 1, D)
    k, v = (rng.integers(-99, 99, (B, NK, S2, D), np.int8) for _ in range(2))
    split = {"key_antiquant_scale": scales(1, NK, 1, D) / 64, "value_antiquant_scale": scales(1, NK, 1, D) / 64}
    want = attend(q, k, v, **PLAIN, **split)
    np.testing.assert_array_equal(attend(q, k, v, **PLAIN, **split, antiquant_scale=scales(2, NK, 1, D)), want)
    assert any("antiquantScale has no effect" in text for text in attend.findings), attend.findings


def test_single_rows_take_the_mask_as_it_is(attend: Attend, normal: Any, formula: Any) -> None:
    q, k, v = normal(1, B, N, 1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)
    mask = np.random.default_rng(4).random((B, 1, 1, S2)) < 0.5
    want = attend(q, k, v, **PLAIN, atten_mask=mask, sparse_mode=1)
    for more in ({"sparse_mode": 0, "pre_tokens": 1, "next_tokens": 0}, {"sparse_mode": 3}, {"sparse_mode": 2}):
        np.testing.assert_array_equal(attend(q, k, v, **PLAIN, atten_mask=mask, **more), want)
    np.testing.assert_allclose(want, formula(q, k, v, SCALE, mask)[0], rtol=4e-3, atol=4e-4)


def test_the_content_of_the_compressed_mask_is_not_read(attend: Attend, padded: Any) -> None:
    want = attend(*padded, **PLAIN, sparse_mode=3, atten_mask=ops.compressed_mask())
    zeros = attend(*padded, **PLAIN, sparse_mode=3, atten_mask=np.zeros((2048, 2048), bool))
    np.testing.assert_array_equal(zeros, want)


def test_an_empty_mask_is_none(attend: Attend, padded: Any) -> None:
    np.testing.assert_array_equal(
        attend(*padded, **PLAIN, atten_mask=np.zeros((0, S2), bool)), attend(*padded, **PLAIN)
    )


def test_one_length_serves_all_sequences_of_a_paged_cache(attend: Attend, normal: Any) -> None:
    q, cache = normal(1, B, 3, N, 128), normal(2, 4, 128, NK * 128)
    table = np.array([[3], [1]], np.int32)
    common = {"input_layout": "BSND", "block_table": table, "num_key_value_heads": NK}
    one = attend(q, cache, cache, **common, actual_seq_lengths_kv=[30])
    np.testing.assert_array_equal(one, attend(q, cache, cache, **common, actual_seq_lengths_kv=[30, 30]))


def test_only_the_last_prefix_sum_is_compared_with_the_tokens(attend: Attend, packed: Any) -> None:
    for wrong in ({"actual_seq_lengths": [2, 5]}, {"actual_seq_lengths_kv": [20, 49]}):
        with pytest.raises(cann_mla.CannError, match="actualSeqLengths"):
            attend(*packed, **{**TND, **wrong})
    assert attend(*packed, **{**TND, "actual_seq_lengths_kv": [50, 50]}).shape == (6, N, 128)


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_rows_before_the_first_key_are_zero(attend: Attend, normal: Any, layout: str) -> None:
    """Causal to the right with three rows more than keys."""
    q, k, v = normal(1, 1, N, 8, 128), normal(2, 1, NK, 5, 128), normal(3, 1, NK, 5, 128)
    more: dict[str, Any] = {"input_layout": layout}
    if layout == "TND":
        q, k, v = (np.ascontiguousarray(x[0].transpose(1, 0, 2)) for x in (q, k, v))
        more |= {"actual_seq_lengths": [8], "actual_seq_lengths_kv": [5]}
    out, lse = attend(q, k, v, **more, sparse_mode=3, atten_mask=ops.compressed_mask(), softmax_lse_flag=True)
    by_row = out if layout == "TND" else out[0].transpose(1, 0, 2)
    lse_by_row = lse[..., 0] if layout == "TND" else lse[0, ..., 0].T
    assert [bool(row.any()) for row in by_row] == [False] * 3 + [True] * 5
    assert [bool(np.isposinf(row).all()) for row in lse_by_row] == [True] * 3 + [False] * 5


def test_a_sink_goes_with_a_bias(attend: Attend, normal: Any) -> None:
    q, k, v = (normal(i, B, n, s, 128).astype(BF16) for i, (n, s) in enumerate([(N, S1), (NK, S2), (NK, S2)]))
    sink, bias = np.zeros(N, BF16), np.zeros((1, N, S1, S2), BF16)
    want = attend(q, k, v, **PLAIN, learnable_sink=sink)
    np.testing.assert_array_equal(attend(q, k, v, **PLAIN, learnable_sink=sink, pse_shift=bias), want)


@pytest.mark.parametrize("name", ["numHeads", "sparseMode", "innerPrecise"])
def test_numbers_are_cut_to_32_bits(stream: Any, padded: Any, name: str) -> None:
    mask = cann_mla.Tensor.zeros((1, 1, S1, S2), "BOOL")
    own: dict[str, Any] = {"numHeads": N, "sparseMode": 1, "innerPrecise": 2, "attenMask": mask}
    want = by_c_names(stream, padded, **own)
    np.testing.assert_array_equal(by_c_names(stream, padded, **{**own, name: own[name] + 2**32}), want)


@pytest.mark.parametrize(("inner_precise", "zero"), [(0, False), (1, False), (2, True), (3, True), (4, False)])
def test_rows_hidden_whole(attend: Attend, padded: Any, inner_precise: int, zero: bool) -> None:
    mask = np.zeros((1, 1, S1, S2), bool)
    mask[..., 1, :] = True
    out = attend(*padded, **PLAIN, atten_mask=mask, sparse_mode=1, inner_precise=inner_precise)
    if zero:
        assert not out[:, :, 1].any()
    else:
        mean = np.repeat(padded[2].astype(np.float64).mean(axis=2), N // NK, axis=1)
        np.testing.assert_allclose(out[:, :, 1], mean, atol=1e-3)


def test_a_block_that_the_cache_lacks_is_a_fault(stream: Any, attend: Attend, normal: Any) -> None:
    q, cache = normal(1, 1, 1, N, 128), normal(2, 4, 128, NK * 128)
    with pytest.raises(cann_mla.CannError, match="block"):
        attend(
            q, cache, cache, input_layout="BSND", block_table=np.array([[4]], np.int32), actual_seq_lengths_kv=[7],
            num_key_value_heads=NK,
        )  # fmt: skip


@pytest.mark.parametrize("operand", ["key", "value"])
def test_an_empty_list_is_refused_where_cann_crashes(stream: Any, padded: Any, operand: str) -> None:
    with pytest.raises(cann_mla.CannError, match=operand) as error:
        by_c_names(stream, padded, **{operand: []})
    assert ("crashes" in str(error.value)) == (operand == "key")


def test_no_number_of_key_heads_crashes_tokens_in_a_row(attend: Attend, packed: Any) -> None:
    with pytest.raises(cann_mla.CannError, match="crashes"):
        attend(packed[0], packed[1].repeat(2, 1), packed[2].repeat(2, 1), **TND, num_key_value_heads=0)


def test_scales_of_four_axes_crash_with_several_rows(attend: Attend, padded: Any) -> None:
    k, v = (np.ones((B, NK, S2, D), np.int8) for _ in range(2))
    scale = np.ones((1, NK, 1, D), BF16)
    more = {"key_antiquant_scale": scale, "value_antiquant_scale": scale}
    with pytest.raises(cann_mla.CannError, match="crashes"):
        attend(padded[0].astype(BF16), k, v, **PLAIN, **more)
    two_axes = {name: own[0, :, 0] for name, own in more.items()}
    assert attend(padded[0].astype(BF16), k, v, **PLAIN, **two_axes).shape == (B, N, S1, D)


def test_start_indices_are_without_effect_on_ascend950(attend: Attend, padded: Any, product: Any) -> None:
    product("Ascend950")
    want = attend(*padded, **PLAIN)
    got = attend(*padded, **PLAIN, q_start_idx=[3, 1, 4], kv_start_idx=[7])
    np.testing.assert_array_equal(got, want)
    assert sum("has no effect: pseType is 0" in text for text in attend.findings) == 2, attend.findings
    with pytest.raises(cann_mla.CannError, match="pseType"):
        attend(*padded, **PLAIN, pse_type=2)

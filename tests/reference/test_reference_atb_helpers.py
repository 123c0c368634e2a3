"""AtbPagedCacheLoad, AtbFusedAddTopkDiv and AtbSelfAttentionPrefixEncoder."""

from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import BF16, Array
from cann_mla.reference.atb_fused_add_topk_div import fused_add_topk_div
from cann_mla.reference.atb_paged_cache_load import paged_cache_load
from cann_mla.reference.atb_self_attention_prefix_encoder import self_attention_prefix_encoder

# ---- AtbPagedCacheLoad ----------------------------------------------------------------------------


def pages(**more: Any) -> dict[str, Any]:
    """Caches of 5 blocks of 16 rows whose elements tell block and row: 100 b + r (values: 1000 more)."""
    number = (np.arange(5)[:, None] * 100 + np.arange(16)).astype(np.float16)
    cache = np.broadcast_to(number[..., None, None], (5, 16, 1, 16))
    return {
        "key_cache": cache,
        "value_cache": cache + np.float16(1000),
        "block_tables": np.array([[3, 1], [4, 0]], np.int32),
        "context_lens": np.array([18, 2], np.int32),
        "key": np.full((20, 1, 16), -1, np.float16),
        "value": np.full((20, 1, 16), -1, np.float16),
        **more,
    }


def first_column(array: Array) -> list[float]:
    return [float(v) for v in array.reshape(len(array), -1)[:, 0]]


def test_rows_come_in_the_order_of_the_table_by_hand() -> None:
    loaded = paged_cache_load(**pages())
    want = [*range(300, 316), 100, 101, 400, 401]
    assert first_column(loaded.key) == want
    assert first_column(loaded.value) == [v + 1000 for v in want]


def test_sums_of_lengths_begin_where_output_begins() -> None:
    given = pages(context_lens=np.array([2, 4, 5], np.int32), is_seq_lens_cumsum_type=True)
    assert first_column(paged_cache_load(**given).key)[:6] == [-1, -1, 300, 301, 400, -1]


def test_starts_count_in_whole_blocks() -> None:
    given = pages(context_lens=np.array([2, 10], np.int32), seq_starts=np.array([16, 7], np.int32), has_seq_starts=True)
    assert first_column(paged_cache_load(**given).key)[:13] == [100, 101, *range(400, 410), -1]


def test_a_negative_block_is_skipped() -> None:
    given = pages(block_tables=np.array([[-1, 1], [4, 0]], np.int32))
    assert first_column(paged_cache_load(**given).key) == [-1] * 16 + [100, 101, 400, 401]


def test_blocked_caches_of_two_types() -> None:
    plain = pages()
    rng = np.random.default_rng(0)
    keys = rng.integers(-100, 100, (5, 16, 64), np.int8)
    values = rng.standard_normal((5, 16, 64)).astype(BF16.numpy)
    given = {
        **plain,
        "key_cache": keys.reshape(5, 16, 2, 32).transpose(0, 2, 1, 3),
        "value_cache": values.reshape(5, 16, 4, 16).transpose(0, 2, 1, 3),
        "key": np.zeros((20, 64), np.int8),
        "value": np.zeros((20, 64), BF16.numpy),
        "kv_cache_cfg": 0,
    }
    loaded = paged_cache_load(**given)
    np.testing.assert_array_equal(loaded.key, np.concatenate([keys[3], keys[1, :2], keys[4, :2]]))
    np.testing.assert_array_equal(loaded.value, np.concatenate([values[3], values[1, :2], values[4, :2]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"has_seq_starts": True}, "seqStarts"),
        ({"context_lens": np.array([33, 2], np.int32)}, "the table has 2"),
        ({"context_lens": np.array([18, 9], np.int32)}, "output rows"),
        ({"block_tables": np.array([[9, 1], [4, 0]], np.int32)}, "name block 9"),
    ],
)
def test_loads_past_an_end_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paged_cache_load(**pages(**change))


# ---- AtbFusedAddTopkDiv ---------------------------------------------------------------------------


def logit(probability: list[float]) -> Array:
    p = np.array([probability])
    return np.log(p / (1 - p)).astype(np.float32)


def test_groups_and_experts_by_hand() -> None:
    # Two groups of three; sums of the best two: 0.5 + 0.4 against 0.6 + 0.2. The first group stays.
    x = logit([0.5, 0.4, 0.1, 0.6, 0.2, 0.1])
    result = fused_add_topk_div(x=x, add_num=np.zeros(6, np.float32), group_num=2, group_topk=1, n=2, k=2, scale=3.0)
    assert result.indices.tolist() == [[0, 1]]
    np.testing.assert_allclose(result.y, [[3 * 0.5 / 0.9, 3 * 0.4 / 0.9]], rtol=1e-6)


def test_the_addend_chooses_but_does_not_weigh() -> None:
    x, add = logit([0.5, 0.4, 0.3, 0.2]), np.array([0, 0, 0, 1], np.float32)
    result = fused_add_topk_div(x=x, add_num=add, group_num=1, group_topk=1, n=1, k=2, is_norm=False, scale=9.0)
    assert result.indices.tolist() == [[3, 0]]
    np.testing.assert_allclose(result.y, [[0.2, 0.5]], rtol=1e-6)


def test_dropped_groups_count_as_zero() -> None:
    # In the group that stays the second expert is at -0.6, below the zeros of the group that goes.
    x, add = logit([0.5, 0.4, 0.2, 0.2]), np.array([0, -1, -1, -1], np.float32)
    result = fused_add_topk_div(x=x, add_num=add, group_num=2, group_topk=1, n=1, k=3)
    assert result.indices.tolist() == [[0, 2, 3]]


def test_lower_indices_win_among_equals() -> None:
    result = fused_add_topk_div(
        x=np.zeros((1, 8), BF16.numpy), add_num=np.zeros(8, BF16.numpy), group_num=4, group_topk=2, n=2, k=3
    )
    assert result.indices.tolist() == [[0, 1, 2]]


def test_mapping_takes_turns_over_the_tokens() -> None:
    x = np.repeat(logit([0.9, 0.1]), 4, axis=0)
    table = np.array([[10, 11, 12], [20, 21, 22]], np.int32)
    given = {"add_num": np.zeros(2, np.float32), "group_num": 1, "n": 1, "k": 2, "enable_expert_mapping": True}
    result = fused_add_topk_div(x=x, mapping_num=np.array([3, 0], np.int32), mapping_table=table, **given)
    assert result.indices.tolist() == [[10, 20], [11, 20], [12, 20], [10, 20]]


def test_half_precision_logits_are_widened() -> None:
    x = np.array([[1.0, 2.0]], np.float16)
    result = fused_add_topk_div(x=x, add_num=np.zeros(2, np.float16), k=1, is_norm=False)
    assert result.y.dtype == np.float32
    np.testing.assert_allclose(result.y, [[1 / (1 + np.exp(-2.0))]], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"group_num": 4}, "do not fit"), ({"activation_type": 1}, "SIGMOID"), ({"enable_expert_mapping": True}, "need")],
)
def test_counts_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    given = {"x": np.zeros((1, 6), np.float32), "add_num": np.zeros(6, np.float32), **change}
    with pytest.raises(ValueError, match=message):
        fused_add_topk_div(**given)


# ---- AtbSelfAttentionPrefixEncoder ----------------------------------------------------------------


def prompts(queries: list[int], keys: list[int], heads: int = 4, key_heads: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(sum(keys))
    most = -(-max(keys) // 128)
    return {
        "query": rng.standard_normal((sum(queries) + 1, heads, 32)).astype(BF16.numpy),
        "key": rng.standard_normal((9, 128, key_heads, 32)).astype(BF16.numpy),
        "value": rng.standard_normal((9, 128, key_heads, 32)).astype(BF16.numpy),
        "block_tables": rng.permutation(9)[: len(keys) * most].reshape(len(keys), most).astype(np.int32),
        "seq_len": np.array(queries, np.int32),
        "kv_seq_len": np.array(keys, np.int32),
        "head_num": heads,
        "kv_head_num": key_heads,
        "qk_scale": 32**-0.5,
    }


def dense(given: dict[str, Any], bias: Any) -> Array:
    """The formula in float64: `bias(distance)` is added, distance = position of the query minus that of the key."""
    output = np.zeros(given["query"].shape)
    start = 0
    for sequence, (rows, columns) in enumerate(zip(given["seq_len"], given["kv_seq_len"], strict=True)):
        place = np.arange(columns)
        page = given["block_tables"][sequence][place // 128]
        group = given["head_num"] // given["kv_head_num"]
        key, value = (np.repeat(given[n][page, place % 128].astype(float), group, axis=1) for n in ("key", "value"))
        query = given["query"][start : start + rows].astype(float)
        distance = np.arange(columns - rows, columns)[:, None] - place
        scores = np.einsum("thd,shd->hts", query, key) * given["qk_scale"] + bias(distance)
        powers = np.exp(np.where(distance >= 0, scores, -np.inf))
        output[start : start + rows] = np.einsum("hts,shd->thd", powers / powers.sum(-1, keepdims=True), value)
        start += rows
    return output


SIZES = ([[5], [5]], [[130, 3], [258, 3]], [[1], [385]], [[300], [428]])


@pytest.mark.parametrize("sizes", SIZES)
def test_queries_are_the_last_keys(sizes: list[list[int]]) -> None:
    given = prompts(*sizes)
    got = self_attention_prefix_encoder(**given, precision="exact")
    np.testing.assert_allclose(got, dense(given, lambda d: 0), atol=1e-12)
    device = self_attention_prefix_encoder(**given)
    np.testing.assert_allclose(device.astype(float), got, atol=2**-7, rtol=2**-7)


@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
def test_a_triangle_as_mask_equals_causal(kind: Any) -> None:
    given = prompts([130], [258])
    given |= {name: given[name].astype(kind) for name in ("query", "key", "value")}
    mask = np.triu(np.full((128, 128), -10000 if kind == np.float16 else 1, np.float32), 1).astype(kind)
    want = self_attention_prefix_encoder(**given)
    np.testing.assert_array_equal(self_attention_prefix_encoder(**given, mask=mask, mask_type=3), want)


@pytest.mark.parametrize("mask_type", [4, 5])
@pytest.mark.parametrize("sizes", SIZES)
def test_alibi_adds_slope_times_distance(sizes: list[list[int]], mask_type: int) -> None:
    given = prompts(*sizes)
    steps = np.arange(256.0)[:, None] - np.arange(256)
    steps = np.where(steps >= 0, np.sqrt(np.abs(steps)) if mask_type == 5 else steps, np.inf).astype(np.float32)
    slopes = -np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
    got = self_attention_prefix_encoder(
        **{**given, "mask_type": mask_type}, mask=steps, slopes=slopes, precision="exact"
    )
    power = 0.5 if mask_type == 5 else 1.0
    want = dense(given, lambda d: slopes[:, None, None].astype(float) * np.maximum(d, 0) ** power)
    # The template holds square roots in single precision.
    np.testing.assert_allclose(got, want, atol=1e-12 if mask_type == 4 else 1e-6)


def test_flat_heads_hold_the_same() -> None:
    given = prompts([130], [258])
    flat = {**given, "query": given["query"].reshape(131, -1)}
    flat |= {name: given[name].reshape(9, 128, -1) for name in ("key", "value")}
    want = self_attention_prefix_encoder(**given).reshape(131, -1)
    np.testing.assert_array_equal(self_attention_prefix_encoder(**flat), want)
    assert (want[130] == 0).all()
    kept = self_attention_prefix_encoder(**flat, attn=np.full((131, 128), 7, BF16.numpy))
    assert (kept[130] == 7).all()
    np.testing.assert_array_equal(kept[:130], want[:130])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_seq_len": np.array([259], np.int32)}, "multiple of 128"),
        ({"kv_seq_len": np.array([2], np.int32)}, "multiple of 128"),
        ({"mask_type": 3}, "needs a mask"),
        ({"mask_type": 4}, "slopes"),
        ({"mask_type": 1}, "not one of"),
        ({"kv_head_num": 4}, "heads of 32"),
        ({"seq_len": np.array([133], np.int32), "kv_seq_len": np.array([133], np.int32)}, "exceeds"),
    ],
)
def test_prefixes_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        self_attention_prefix_encoder(**{**prompts([130], [258]), **change})

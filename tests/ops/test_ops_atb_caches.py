"""AtbPagedCacheLoad, AtbSelfAttentionPrefixEncoder and AtbFusedAddTopkDiv as functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops
from cann_mla.validate.library import open_library, select_product

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16 = np.dtype(np.float16)
Array = np.ndarray[Any, Any]


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


# ---- AtbPagedCacheLoad ----------------------------------------------------------------------------


def numbered(*shape: int, kind: Any = FP16) -> Array:
    """Elements that are all different, as far as the type goes."""
    return (np.arange(np.prod(shape)) % 2039).reshape(shape).astype(kind)


def test_rows_are_loaded_from_their_starts(stream: cann_mla.Stream) -> None:
    lengths, starts = [5, 20, 0, 3], [0, 16, 16, 32]
    keys, values = numbered(8, 16, 2, 16), numbered(8, 16, 2, 32)
    table = np.array([[3, 0, 0], [7, 1, 2], [0, 0, 0], [4, 5, 6]], np.int32)
    with ops.paged_cache_load(keys, values, table, lengths, seq_starts=starts, stream=stream) as loaded:
        stream.synchronize()
        assert (loaded.key.shape, loaded.value.shape) == ((28, 2, 16), (28, 2, 32))
        wanted = [keys[3, :5], keys[1], keys[2, :4], keys[6, :3]]
        np.testing.assert_array_equal(loaded.key.to_numpy(), np.concatenate(wanted))
        wanted = [values[3, :5], values[1], values[2, :4], values[6, :3]]
        np.testing.assert_array_equal(loaded.value.to_numpy(), np.concatenate(wanted))


def test_what_paged_cache_lays_out_is_loaded_back(stream: cann_mla.Stream) -> None:
    lengths = [17, 33]
    rows = [numbered(n, 2, 16) for n in lengths]
    table = ops.block_table(lengths, 16)
    nd = ops.paged_cache(rows, table, 16, layout="BnBsH").reshape(-1, 16, 2, 16)
    nz = np.ascontiguousarray(nd.reshape(len(nd), 16, 2, 16).swapaxes(1, 2))
    with ops.paged_cache_load(nd, nd, table, lengths, stream=stream) as loaded:
        stream.synchronize()
        np.testing.assert_array_equal(loaded.key.to_numpy(), np.concatenate(rows))
    with ops.paged_cache_load(nz, nz, table, lengths, layout="NZ", stream=stream) as loaded:
        stream.synchronize()
        np.testing.assert_array_equal(loaded.value.to_numpy(), np.concatenate(rows).reshape(50, 32))


def test_negative_blocks_leave_zeros_or_what_there_was(stream: cann_mla.Stream) -> None:
    cache, table = numbered(2, 16, 1, 32) + np.float16(1), np.array([[1, -1]], np.int32)
    with ops.paged_cache_load(cache, cache, table, [18], stream=stream) as loaded:
        stream.synchronize()
        np.testing.assert_array_equal(loaded.key.to_numpy()[:16], cache[1])
        assert not loaded.key.to_numpy()[16:].any()
    own = [cann_mla.Tensor.from_numpy(np.full((20, 1, 32), 5, FP16)) for _ in range(2)]
    loaded = ops.paged_cache_load(cache, cache, table, [18], key=own[0], value=own[1], stream=stream)
    stream.synchronize()
    assert loaded.key is own[0]
    np.testing.assert_array_equal(loaded.key.to_numpy()[:16], cache[1])
    assert (loaded.key.to_numpy()[16:] == 5).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_starts": [8]}, "starts at whole blocks of 16 rows and would round down"),
        ({"seq_starts": [32]}, r"\[1, 4\] or more columns"),
        ({"context_lens": [0]}, "nothing to load"),
        ({"block_tables": np.array([[0, 2]], np.int32)}, "the cache has 2"),
        ({"layout": "NHSD"}, "'ND' or 'NZ'"),
        ({"value_cache": np.zeros((2, 16, 1, 32), np.int8)}, "ND wants one dtype"),
        ({"layout": "NZ"}, r"key_cache must be FP16 \[2, 16, 1, 16\]"),
        ({"key": "a tensor"}, "both key and value"),
    ],
)
def test_loads_are_refused(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    cache = np.zeros((2, 16, 1, 32), FP16)
    given: dict[str, Any] = {"key_cache": cache, "value_cache": cache}
    given |= {"block_tables": np.zeros((1, 2), np.int32), "context_lens": [18]}
    with pytest.raises(ValueError, match=message):
        ops.paged_cache_load(**given | change, stream=stream)


def test_blocked_caches_start_at_their_first_row(stream: cann_mla.Stream) -> None:
    cache = np.zeros((2, 1, 16, 16), FP16)
    with pytest.raises(ValueError, match="seq_starts are for caches in ND only"):
        ops.paged_cache_load(cache, cache, np.zeros((1, 2), np.int32), [18], layout="NZ", seq_starts=[0], stream=stream)


# ---- AtbSelfAttentionPrefixEncoder ----------------------------------------------------------------

QUERIES, KEYS = [130, 3], [258, 131]


def prompts(kind: Any = BF16, width: int = 32) -> list[Any]:
    rng = np.random.default_rng(2)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32).astype(kind)

    table = np.array([[3, 0, 5], [1, 4, 0]], np.int32)
    return [normal(133, 4, width), normal(6, 128, 2, width), normal(6, 128, 2, width), table, QUERIES, KEYS]


def formula(given: list[Any], bias: Any) -> Array:
    """Attention in double precision; `bias` of the distance between a query and an earlier key is added."""
    query, key, value, table = given[:4]
    outputs, start = [], 0
    for row, new, count in zip(table, QUERIES, KEYS, strict=True):
        place = np.arange(count)
        own = [np.repeat(x[row[place // 128], place % 128].astype(float), 2, axis=1) for x in (key, value)]
        distance = np.arange(count - new, count)[:, None] - place
        part = query[start : start + new].astype(float)
        scores = np.einsum("thd,shd->hts", part, own[0]) * query.shape[2] ** -0.5 + bias(distance)
        powers = np.exp(np.where(distance >= 0, scores, -np.inf))
        outputs.append(np.einsum("hts,shd->thd", powers / powers.sum(-1, keepdims=True), own[1]))
        start += new
    return np.concatenate(outputs)


def near(got: cann_mla.Tensor, wanted: Array) -> None:
    np.testing.assert_allclose(got.to_numpy().astype(float), wanted, atol=2**-7, rtol=2**-7)


@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
def test_queries_are_the_last_keys(stream: cann_mla.Stream, kind: Any) -> None:
    given = prompts(kind)
    with (
        ops.self_attention_prefix_encoder(*given, stream=stream) as causal,
        ops.self_attention_prefix_encoder(*given, mask_kind="norm", stream=stream) as masked,
    ):
        stream.synchronize()
        near(causal, formula(given, lambda distance: 0))
        near(masked, formula(given, lambda distance: 0))


@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize(("mask_kind", "power"), [("alibi", 1), ("alibi_sqrt", 0.5)])
def test_alibi_adds_slope_times_distance(stream: cann_mla.Stream, mask_kind: str, power: float, kind: Any) -> None:
    given, slopes = prompts(kind), -np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
    with ops.self_attention_prefix_encoder(*given, mask_kind=mask_kind, slopes=slopes, stream=stream) as got:
        stream.synchronize()
        wide = slopes[:, None, None].astype(float)
        near(got, formula(given, lambda distance: wide * np.maximum(distance, 0) ** power))


def test_flat_heads_hold_the_same(stream: cann_mla.Stream) -> None:
    given = prompts()
    flat = [given[0].reshape(133, -1), *(x.reshape(6, 128, -1) for x in given[1:3]), *given[3:]]
    with (
        ops.self_attention_prefix_encoder(*given, stream=stream) as apart,
        ops.self_attention_prefix_encoder(*flat, num_heads=4, num_key_value_heads=2, stream=stream) as together,
    ):
        stream.synchronize()
        np.testing.assert_array_equal(together.to_numpy(), apart.to_numpy().reshape(133, -1))
    with pytest.raises(ValueError, match="need num_heads and num_key_value_heads"):
        ops.self_attention_prefix_encoder(*flat, num_heads=4, stream=stream)


def test_masks_by_hand() -> None:
    norm, alibi = ops.prefix_encoder_mask("BF16"), ops.prefix_encoder_mask("FP16", "alibi_sqrt")
    np.testing.assert_array_equal(norm.astype(float), np.triu(np.ones((128, 128)), 1))
    assert (alibi.shape, alibi[9, 0], alibi[9, 9], alibi[9, 10]) == ((256, 256), 3, 0, np.inf)
    assert ops.prefix_encoder_mask("BF16", "alibi")[255, 0] == 255
    with pytest.raises(ValueError, match="'causal' has no mask operand"):
        ops.prefix_encoder_mask("BF16", "causal")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_seq_len": [259, 131]}, "sequence 0: 259 keys for 130 queries; the prefix is a multiple of 128"),
        ({"kv_seq_len": [130, 2]}, "sequence 1: 2 keys for 3"),
        ({"seq_len": [130, 131]}, "query 133 rows"),
        ({"key": np.zeros((6, 64, 2, 32), BF16)}, r"key must be BF16 \[6, 128, 64\] or \[6, 128, 2, 32\]"),
        ({"query": np.zeros((133, 4, 40), BF16)}, "a multiple of 16 up to 128"),
        ({"block_tables": np.zeros((2, 2), np.int32)}, r"\[2, 3\] or more"),
        ({"mask": np.zeros((128, 128), BF16)}, "'causal' reads no mask"),
        ({"mask_kind": "norm", "mask": np.zeros((512, 512), BF16)}, r"mask must be BF16 \[128, 128\]"),
        ({"mask_kind": "alibi"}, "slopes go with"),
        ({"slopes": np.zeros(4, np.float32)}, "slopes go with"),
        ({"mask_kind": "alibi", "slopes": np.ones(4, np.float32)}, "slopes must be negative"),
        ({"mask_kind": "swa"}, "one of causal, norm, alibi, alibi_sqrt"),
    ],
)
def test_prefixes_are_refused(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    names = ("query", "key", "value", "block_tables", "seq_len", "kv_seq_len")
    with pytest.raises(ValueError, match=message):
        ops.self_attention_prefix_encoder(**dict(zip(names, prompts(), strict=True)) | change, stream=stream)


# ---- AtbFusedAddTopkDiv ---------------------------------------------------------------------------


def logit(probability: list[float]) -> Array:
    values = np.array([probability], np.float32)
    return np.log(values / (1 - values))


def test_experts_by_hand(stream: cann_mla.Stream) -> None:
    # Groups of two; the sums of both: 1.1, 0.9, 0.7, 1.2. The two best groups keep 0, 1, 6 and 7.
    x = logit([0.9, 0.2, 0.8, 0.1, 0.5, 0.2, 0.7, 0.5])
    choice = {"group_num": 4, "group_topk": 2, "n": 2}
    with ops.fused_add_topk_div(x, np.zeros(8, np.float32), 3, **choice, scale=2.1, stream=stream) as experts:
        stream.synchronize()
        assert experts.indices.to_numpy().tolist() == [[0, 6, 7]]
        np.testing.assert_allclose(experts.y.to_numpy(), [[0.9, 0.7, 0.5]], rtol=1e-6)
    addend = np.array([0, 0, 1, 0, 0, 0, 0, 0], np.float32)
    with ops.fused_add_topk_div(x, addend, 3, **choice, is_norm=False, stream=stream) as experts:
        stream.synchronize()
        assert experts.indices.to_numpy().tolist() == [[2, 6, 7]]
        np.testing.assert_allclose(experts.y.to_numpy(), [[0.8, 0.7, 0.5]], rtol=1e-6)


def test_mapping_takes_turns(stream: cann_mla.Stream) -> None:
    x = np.repeat(logit([0.9, 0.2]), 3, axis=0)
    mapping = {"mapping_num": np.array([2, 1], np.int32), "mapping_table": np.array([[7, 8], [9, 9]], np.int32)}
    with ops.fused_add_topk_div(x, np.zeros(2, np.float32), 1, **mapping, stream=stream) as experts:
        stream.synchronize()
        assert experts.indices.to_numpy().tolist() == [[7], [8], [7]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 5}, "the rest of k would come from dropped groups"),
        ({"n": 3}, "n=3 of the 2 experts"),
        ({"group_num": 3}, "groups are equal"),
        ({"group_topk": 5}, "no more of them stay than there are"),
        ({"is_norm": False, "scale": 2.0}, "no effect without is_norm"),
        ({"add_num": np.zeros(8, FP16)}, r"add_num must be FP32 \[8\]"),
        ({"mapping_num": np.zeros(8, np.int32)}, "both mapping_num and mapping_table"),
        ({"x": np.zeros((1, 8), np.int32)}, "not INT32"),
    ],
)
def test_routers_are_refused(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": np.zeros((1, 8), np.float32), "add_num": np.zeros(8, np.float32), "k": 2}
    given |= {"group_num": 4, "group_topk": 2, "n": 2}
    with pytest.raises(ValueError, match=message):
        ops.fused_add_topk_div(**given | change, stream=stream)

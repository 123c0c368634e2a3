"""The whole operator against a plain softmax written out, and against itself in other clothes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import FP16, FP32, Array
from cann_mla.reference import evaluate
from cann_mla.reference.fused_infer_attention_score import fused_infer_attention_score

B, N, NK, S1, S2, D, DV = 2, 4, 2, 5, 9, 16, 8
SCALE = 0.3
CAUSAL = np.triu(np.ones((2048, 2048), bool), 1)


def make(seed: int = 0, rows: int = S1, columns: int = S2, value_width: int = D, kind: Any = np.float16) -> list[Array]:
    """Query, key and value in BNSD."""
    rng = np.random.default_rng(seed)
    shapes = ((B, N, rows, D), (B, NK, columns, D), (B, NK, columns, value_width))
    return [rng.standard_normal(shape).astype(kind) for shape in shapes]


def plain(
    query: Array, key: Array, value: Array, hidden: Array | None = None, bias: Array | None = None
) -> tuple[Array, Array]:
    """Attention of (heads, rows, width) by the formula, in float64, with a full score matrix."""
    group = query.shape[0] // key.shape[0]
    key, value = (np.repeat(a.astype(np.float64), group, axis=0) for a in (key, value))
    scores = np.einsum("nid,njd->nij", query.astype(np.float64), key) * SCALE
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores)
    total = weights.sum(-1)
    return np.einsum("nij,njd->nid", weights, value) / total[..., None], np.log(total)


def run(query: Any, key: Any, value: Any, **changes: Any) -> tuple[Array, Array]:
    arguments: dict[str, Any] = {
        "num_heads": N,
        "num_key_value_heads": NK,
        "scale_value": SCALE,
        "input_layout": "BNSD",
        "softmax_lse_flag": True,
        "precision": "exact",
    }
    attention, lse = fused_infer_attention_score(query, key, value, **{**arguments, **changes})
    assert lse is not None
    return attention, lse


def tight(got: Array, want: Array) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=1e-11, atol=1e-13)


# ---- against the formula --------------------------------------------------------------------------


def test_grouped_heads_bias_and_window_by_the_formula() -> None:
    query, key, value = make(value_width=DV)
    rng = np.random.default_rng(1)
    user = rng.random((B, 1, S1, S2)) < 0.3
    user[..., 0] = False
    bias = rng.standard_normal((1, N, S1, S2)).astype(np.float16)
    row, column = np.arange(S1)[:, None], np.arange(S2)
    hidden = user | (column - row > 4) | (row - column > 3)
    hidden[:, :, 4] = user[:, :, 4] | (column - 4 > 4) | (4 - column > 3)
    attention, lse = run(
        query, key, value, atten_mask=user, pse_shift=bias, pre_tokens=3, next_tokens=4, inner_precise=2
    )
    for b in range(B):
        dead = hidden[b, 0].all(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            want, want_lse = plain(query[b], key[b], value[b], hidden[b, 0], bias[0])
        tight(attention[b][:, ~dead], want[:, ~dead])
        tight(lse[b, :, ~dead, 0], want_lse.T[~dead])


def test_long_rows_are_computed_in_blocks() -> None:
    query, key, value = make(rows=3, columns=9000)
    attention, lse = run(query, key, value)
    for b in range(B):
        want, want_lse = plain(query[b], key[b], value[b])
        tight(attention[b], want)
        tight(lse[b, ..., 0], want_lse)


def test_many_rows_and_heads_are_computed_in_tiles() -> None:
    rng = np.random.default_rng(0)
    query = rng.standard_normal((1, 6, 700, 16)).astype(np.float16)
    key = rng.standard_normal((1, 3, 700, 16)).astype(np.float16)
    hidden = np.triu(np.ones((700, 700), bool), 1)
    attention, _ = run(query, key, key, num_heads=6, num_key_value_heads=3, sparse_mode=2, atten_mask=CAUSAL)
    tight(attention[0], plain(query[0], key[0], key[0], hidden)[0])


def test_rope_products_are_added_before_the_scale() -> None:
    query, key, value = make()
    rng = np.random.default_rng(2)
    query_rope = rng.standard_normal((B, N, S1, 64)).astype(np.float16)
    key_rope = rng.standard_normal((B, NK, S2, 64)).astype(np.float16)
    attention, _ = run(query, key, value, query_rope=query_rope, key_rope=key_rope)
    joined = run(np.concatenate([query, query_rope], -1), np.concatenate([key, key_rope], -1), value)[0]
    tight(attention, joined)


def test_sink_is_a_column_without_value() -> None:
    query, key, value = make()
    sink = np.array([-1.0, 0.0, 1.0, 2.0], np.float16)
    attention, lse = run(query, key, value, learnable_sink=sink)
    without, lse_without = run(query, key, value)
    total = np.exp(lse_without[..., 0]) + np.exp(sink.astype(np.float64))[:, None]
    tight(lse[..., 0], np.log(total))
    tight(attention, without * np.exp(lse_without - np.log(total)[..., None]))


def test_two_scores_by_hand() -> None:
    query = np.array([[[[1.0]]]], np.float16)
    key = np.array([[[[0.0], [np.log(3.0)]]]]).astype(np.float16)
    value = np.array([[[[4.0], [8.0]]]], np.float16)
    one = {"num_heads": 1, "num_key_value_heads": 1, "scale_value": 1.0}
    attention, lse = run(query, key, value, **one)
    three = np.exp(np.float64(np.float16(np.log(3.0))))
    tight(attention.ravel(), [(4 + 8 * three) / (1 + three)])
    tight(lse.ravel(), [np.log(1 + three)])


# ---- rows that see nothing ------------------------------------------------------------------------


def test_rows_outside_the_lengths_are_zero_with_infinite_lse() -> None:
    query, key, value = make()
    attention, lse = run(query, key, value, actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[9, 0])
    assert not attention[0, :, 2:].any()
    assert not attention[1].any()
    assert np.isposinf(lse[0, :, 2:]).all()
    assert np.isposinf(lse[1]).all()
    tight(attention[0, :, :2], plain(query[0, :, :2], key[0], value[0])[0])


def test_rows_before_the_keys_are_zero_in_mode_3() -> None:
    query, key, value = make(rows=S2, columns=S1)
    attention, lse = run(query, key, value, sparse_mode=3, atten_mask=CAUSAL)
    assert not attention[:, :, : S2 - S1].any()
    assert np.isposinf(lse[:, :, : S2 - S1]).all()
    tight(attention[0, :, S2 - S1], np.repeat(value[0, :, 0], N // NK, axis=0).astype(np.float64))


def test_row_hidden_by_the_user_averages_or_gives_zero() -> None:
    query, key, value = make()
    user = np.zeros((1, 1, S1, S2), bool)
    user[..., 3, :] = True
    averaged, lse = run(query, key, value, atten_mask=user)
    tight(averaged[0, :, 3], np.repeat(value[0].astype(np.float64).mean(1), N // NK, axis=0))
    np.testing.assert_allclose(lse[0, :, 3], -1e12)
    zeroed, lse = run(query, key, value, atten_mask=user, inner_precise=2)
    assert not zeroed[:, :, 3].any()
    assert np.isposinf(lse[:, :, 3]).all()
    tight(zeroed[:, :, :3], averaged[:, :, :3])


@pytest.mark.parametrize("empty", ["key", "query"])
def test_empty_operands_give_zeros(empty: str) -> None:
    query, key, value = make()
    if empty == "query":
        query = query[:, :, :0]
    else:
        key, value = key[:, :, :0], value[:, :, :0]
    attention, lse = run(query, key, value, sparse_mode=77)
    assert attention.shape == query.shape
    assert not attention.any()
    assert np.isposinf(lse).all()


# ---- the same thing in other clothes --------------------------------------------------------------

AXES = {"BSND": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3), "NBSD": (1, 0, 2, 3)}


def to_layout(array: Array, order: str) -> Array:
    """(B, heads, S, width) in another padded layout."""
    if order == "BSH":
        return array.transpose(0, 2, 1, 3).reshape(*array.shape[::2][:2], -1)
    return np.ascontiguousarray(array.transpose(AXES[order]))


@pytest.mark.parametrize(
    "layout",
    ["BSH", "BSND", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD"],
)
def test_every_padded_layout_gives_the_same(layout: str) -> None:
    operands = make(value_width=DV)
    inputs, _, output = layout.partition("_")
    want, want_lse = run(*operands, precision="device")
    got, lse = run(*(to_layout(a, inputs) for a in operands), input_layout=layout, precision="device")
    assert np.array_equal(got, to_layout(want, output or inputs))
    assert np.array_equal(lse, want_lse)


@pytest.mark.parametrize("layout", ["TND", "NTD", "TND_NTD", "NTD_TND"])
def test_packed_layouts_give_the_same_as_padded_ones(layout: str) -> None:
    query, key, value = make()
    rows, columns = [3, 5], [9, 4]

    def pack(array: Array, lengths: list[int], order: str) -> Array:
        packed = np.concatenate([array[b, :, :n] for b, n in enumerate(lengths)], axis=1)
        return packed if order == "NTD" else packed.transpose(1, 0, 2)

    inputs, _, output = layout.partition("_")
    mask = {"sparse_mode": 3, "atten_mask": CAUSAL, "precision": "device"}
    want, want_lse = run(query, key, value, actual_seq_lengths=rows, actual_seq_lengths_kv=columns, **mask)
    operands = [pack(query, rows, inputs), pack(key, columns, inputs), pack(value, columns, inputs)]
    lengths = {"actual_seq_lengths": [3, 8], "actual_seq_lengths_kv": [9, 13]}
    got, lse = run(*operands, input_layout=layout, **lengths, **mask)
    assert np.array_equal(got, pack(want, rows, output or inputs))
    assert np.array_equal(lse, pack(want_lse, rows, "TND"))


def paged(array: Array, table: Array, size: int, form: str) -> Array:
    """(B, heads, S, width) as a cache under `table`."""
    heads, width = array.shape[1], array.shape[3]
    cache = np.full((int(table.max()) + 1, heads, size, width), np.nan, array.dtype)
    for b, block in np.ndindex(table.shape):
        part = array[b, :, block * size : (block + 1) * size]
        cache[table[b, block], :, : part.shape[1]] = part
    if form == "BnBsH":
        return cache.transpose(0, 2, 1, 3).reshape(len(cache), size, -1)
    if form == "NZ":
        c = 32 // array.itemsize
        return cache.reshape(len(cache), heads, size, width // c, c).transpose(0, 1, 3, 2, 4).copy()
    return cache


@pytest.mark.parametrize("form", ["BnNBsD", "BnBsH", "NZ"])
def test_paged_equals_contiguous(form: str) -> None:
    query, key, value = make(columns=40)
    table = np.array([[4, 0, 2], [1, 5, 3]], np.int32)
    rest = {"actual_seq_lengths_kv": [40, 21], "sparse_mode": 3, "atten_mask": CAUSAL, "precision": "device"}
    want, want_lse = run(query, key, value, **rest)
    caches = [paged(a, table, 16, form) for a in (key, value)]
    got, lse = run(query, *caches, block_table=table, block_size=16, **rest)
    assert np.array_equal(got, want)
    assert np.array_equal(lse, want_lse)


def test_paged_latent_attention_reads_values_from_the_keys() -> None:
    rng = np.random.default_rng(3)
    query, query_rope = (rng.standard_normal((B, 8, 1, w)).astype(ml_dtypes.bfloat16) for w in (64, 64))
    key, key_rope = (rng.standard_normal((B, 1, 40, w)).astype(ml_dtypes.bfloat16) for w in (64, 64))
    table = np.array([[4, 0, 2], [1, 5, 3]], np.int32)
    rest = {"num_heads": 8, "num_key_value_heads": 1, "actual_seq_lengths_kv": [40, 21], "precision": "device"}
    want, _ = run(query, key, key.copy(), query_rope=query_rope, key_rope=key_rope, **rest)
    cache, rope = paged(key, table, 16, "NZ"), paged(key_rope, table, 16, "NZ")
    pages = {"block_table": table, "block_size": 16}
    got, _ = run(query, cache, cache, query_rope=query_rope, key_rope=rope, **pages, **rest)
    assert np.array_equal(got, want)


def test_prefix_equals_concatenation() -> None:
    query, key, value = make()
    rng = np.random.default_rng(4)
    prefix_key, prefix_value = (rng.standard_normal((1, NK, 6, D)).astype(np.float16) for _ in range(2))
    rest = {"sparse_mode": 3, "atten_mask": CAUSAL, "precision": "device"}
    joined = [
        np.concatenate([np.broadcast_to(p[:, :, :5], (B, NK, 5, D)), a], axis=2)
        for p, a in ((prefix_key, key), (prefix_value, value))
    ]
    want, want_lse = run(query, *joined, **rest)
    prefix = {"key_shared_prefix": prefix_key, "value_shared_prefix": prefix_value}
    got, lse = run(query, key, value, **prefix, actual_shared_prefix_len=[5], **rest)
    assert np.array_equal(got, want)
    assert np.array_equal(lse, want_lse)


def test_tensor_list_equals_batches_of_their_own_length() -> None:
    query, key, value = make()
    entries = [[a[b : b + 1, :, :n] for b, n in enumerate((9, 6))] for a in (key, value)]
    want, _ = run(query, key, value, actual_seq_lengths_kv=[9, 6], precision="device")
    got, _ = run(query, *entries, precision="device")
    assert np.array_equal(got, want)


def test_left_padding_equals_rows_moved_to_the_front() -> None:
    query, key, value = make()
    rng = np.random.default_rng(5)
    user = rng.random((B, S1, S2)) < 0.3
    bias = rng.standard_normal((B, N, S1, S2)).astype(np.float16)
    rows, columns = [3, 2], [7, 5]
    rest = {"actual_seq_lengths": rows, "actual_seq_lengths_kv": columns, "inner_precise": 2, "precision": "device"}

    def pushed(array: Array, axis: int, lengths: list[int], right: int) -> Array:
        moved = np.zeros_like(array)
        for b, n in enumerate(lengths):
            start = array.shape[axis] - right - n
            source, target = [slice(None)] * (array.ndim - 1), [slice(None)] * (array.ndim - 1)
            source[axis - 1], target[axis - 1] = slice(0, n), slice(start, start + n)
            moved[(b, *target)] = array[(b, *source)]
        return moved

    want, want_lse = run(query, key, value, atten_mask=user, pse_shift=bias, **rest)
    got, lse = run(
        pushed(query, 2, rows, 1),
        pushed(key, 2, columns, 2),
        pushed(value, 2, columns, 2),
        atten_mask=pushed(pushed(user, 1, rows, 1), 2, columns, 2),
        pse_shift=pushed(pushed(bias, 2, rows, 1), 3, columns, 2),
        query_padding_size=np.array([1]),
        kv_padding_size=np.array([2]),
        pre_tokens=0,
        next_tokens=0,  # ignored under left padding
        **rest,
    )
    assert np.array_equal(got, pushed(want, 2, rows, 1))
    for b, n in enumerate(rows):
        assert np.array_equal(lse[b, :, S1 - 1 - n : S1 - 1], want_lse[b, :, :n])


@pytest.mark.parametrize(("mode", "pre", "next_"), [(2, 0, 0), (3, 0, 0), (4, 3, 1), (4, 2, -1), (4, -1, 4)])
def test_modes_equal_their_mask_written_out(mode: int, pre: int, next_: int) -> None:
    query, key, value = make()
    row, column = np.arange(S1)[:, None], np.arange(S2)
    shift = 0 if mode == 2 else S2 - S1
    hidden = column - row > (next_ if mode == 4 else 0) + shift
    if mode == 4:
        hidden |= row - column > pre - shift
    written = run(query, key, value, atten_mask=hidden[None], inner_precise=2)
    by_mode = run(query, key, value, atten_mask=CAUSAL, sparse_mode=mode, pre_tokens=pre, next_tokens=next_)
    tight(by_mode[0], written[0])
    tight(by_mode[1], written[1])


def test_halves_merge_by_lse_to_the_whole() -> None:
    query, key, value = make(columns=40)
    whole, whole_lse = run(query, key, value)
    parts = [run(query, key[:, :, half], value[:, :, half]) for half in (slice(0, 17), slice(17, 40))]
    total = np.logaddexp(parts[0][1], parts[1][1])
    tight(total, whole_lse)
    tight(sum(attention * np.exp(lse - total) for attention, lse in parts), whole)


def test_single_row_decode_takes_the_mask_as_it_is() -> None:
    query, key, value = make(rows=1)
    user = np.zeros((B, S2), bool)
    user[1, 2:] = True
    got, _ = run(query, key, value, atten_mask=user, sparse_mode=3, pre_tokens=0, next_tokens=0)
    tight(got[0], plain(query[0], key[0], value[0])[0])
    tight(got[1], plain(query[1], key[1, :, :2], value[1, :, :2])[0])


# ---- precision, outputs, the uniform door ---------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_device_precision_rounds_the_numerators_to_the_operand_type(kind: Any) -> None:
    query, key, value = make(rows=1, kind=kind)
    scores = np.repeat(np.einsum("nid,njd->nij", query[0, ::2].astype(np.float64), key[0]), 1, axis=0) * SCALE
    numerators = np.exp(scores - scores.max(-1, keepdims=True))
    weighted = numerators.astype(kind).astype(np.float64) @ value[0].astype(np.float64)
    want = (weighted / numerators.sum(-1, keepdims=True)).astype(kind)
    got, lse = run(query, key, value, precision="device")
    assert got.dtype == kind
    assert lse.dtype == np.float32
    step = np.spacing(np.abs(want).astype(np.float16)).astype(np.float64) * (1 if kind is np.float16 else 8)
    assert (np.abs(got[0, ::2].astype(np.float64) - want.astype(np.float64)) <= step).all()
    assert np.mean(got[0, ::2] == want) > 0.9


def test_operands_are_left_alone() -> None:
    operands = make()
    before = [a.copy() for a in operands]
    run(*operands, precision="device")
    assert all(np.array_equal(a, b) for a, b in zip(operands, before, strict=True))


def test_output_quantisation_per_channel() -> None:
    query, key, value = make()
    scale = np.linspace(20, 300, N * D).astype(np.float32)
    offset = np.full(N * D, 3, np.float32)
    plain_output, _ = run(query, key, value)
    got, _ = run(query, key, value, quant_scale2=scale, quant_offset2=offset, out_dtype="INT8")
    want = plain_output * scale.reshape(N, 1, D) + 3
    assert got.dtype == np.int8
    assert np.array_equal(got, np.clip(np.rint(want), -128, 127))
    assert got.max() == 127
    assert got.min() == -128


def test_scale_of_an_unquantised_output_has_no_effect() -> None:
    operands = make()
    want, _ = run(*operands, precision="device")
    got, _ = run(*operands, precision="device", quant_scale2=np.ones(7, np.float32), out_dtype="FP16")
    assert np.array_equal(got, want)


def test_infinities_go_through_without_a_warning() -> None:
    query, key, value = make()
    value[0, 0, 0, 0] = np.inf
    got, lse = run(query, key, value, precision="device")
    assert np.isposinf(got[0, :2, :, 0]).all()
    assert np.isfinite(got[0, :2, :, 1:]).all()
    assert np.isfinite(lse).all()


def test_door_knows_versions_and_shapes() -> None:
    query, key, value = make()
    tensors = {"query": query, "key": [key], "value": [value]}
    attrs = {"numHeads": N, "numKeyValueHeads": NK, "scaleValue": SCALE, "inputLayout": "BNSD"}
    outputs = {"attentionOut": (query.shape, FP16)}
    result = evaluate("aclnnFusedInferAttentionScore", tensors, attrs, soc="Ascend910B", outputs=outputs)
    assert set(result) == {"attentionOut"}
    with_sink = {**tensors, "learnableSinkOptional": np.zeros(N, np.float16)}
    with pytest.raises(ValueError, match="aclnnFusedInferAttentionScoreV3 has no learnable_sink"):
        evaluate("aclnnFusedInferAttentionScoreV3", with_sink, attrs, soc="Ascend910B", outputs=outputs)
    both = {**outputs, "softmaxLse": ((B, N, S1, 1), FP32)}
    result = evaluate(
        "aclnnFusedInferAttentionScoreV4",
        with_sink,
        {**attrs, "softmaxLseFlag": True},
        soc="Ascend910B",
        outputs=both,
    )
    assert result["softmaxLse"].dtype == np.float32
    small = {"attentionOut": ((B, N, S1, 1), FP16)}
    with pytest.raises(ValueError, match="too small"):
        evaluate("aclnnFusedInferAttentionScoreV4", tensors, attrs, soc="Ascend910B", outputs=small)


def test_refusals_say_what_is_wrong() -> None:
    query, key, value = make()
    with pytest.raises(ValueError, match="numHeads 3"):
        run(query, key, value, num_heads=3)
    with pytest.raises(ValueError, match="has 2 entries, the query 3 batches"):
        run(np.zeros((3, N, 2, D), np.float16), [key[:1], key[1:]], [value[:1], value[1:]])
    with pytest.raises(ValueError, match="pseShift"):
        run(query, key, value, pse_shift=np.zeros((1, 1, S1, S2), np.float16))
    with pytest.raises(NotImplementedError, match="pseType 1"):
        run(query, key, value, pse_type=1)
    with pytest.raises(ValueError, match="'device' or 'exact'"):
        run(query, key, value, precision="fast")

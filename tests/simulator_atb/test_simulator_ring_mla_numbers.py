"""What AtbRingMLA computes on the simulator, against attention in double precision and against itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16 = np.dtype(np.float16)
SCALE = 192**-0.5
Array = np.ndarray[Any, Any]

KINDS = pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
# BF16 scores stay FLOAT, FP16 scores are rounded at every step.
LSE_LIMIT = {BF16: 1e-5, FP16: 1e-2}


def sequences(rng: np.random.Generator, tokens: int, heads: int, kind: np.dtype[Any], *sizes: int) -> list[Array]:
    """Random packed tensors (tokens, heads, size)."""
    return [rng.standard_normal((tokens, heads, size), np.float32).astype(kind) for size in sizes]


def ring(stream: cann_mla.Stream, *operands: Any, **arguments: Any) -> tuple[Array, Array]:
    """:func:`cann_mla.ops.ring_mla`, and its results as arrays."""
    with ops.ring_mla(*operands, stream=stream, **arguments) as result:
        stream.synchronize()
        return result.output.to_numpy(), result.softmax_lse.to_numpy()


def plain(
    query: Sequence[Array], keys: Sequence[Array], q: Sequence[int], kv: Sequence[int], causal: bool
) -> tuple[Array, Array]:
    """Softmax attention of packed sequences in double precision: output and log of the sum of exponentials."""
    queries = np.concatenate(query[:2], -1).astype(np.float64)
    merged = np.concatenate(keys[:2], -1).astype(np.float64)
    group = queries.shape[1] // merged.shape[1]
    output = np.zeros((*queries.shape[:2], 128))
    lse = np.full(queries.shape[1::-1], -np.inf)
    ends_q, ends_kv = np.cumsum(q), np.cumsum(kv)
    for rows, columns, end_q, end_kv in zip(q, kv, ends_q, ends_kv, strict=True):
        for head in range(queries.shape[1] if columns else 0):
            key = slice(end_kv - columns, end_kv), head // group
            token = slice(end_q - rows, end_q)
            scores = SCALE * queries[token, head] @ merged[key].T
            if causal:
                scores[np.triu(np.ones(scores.shape, bool), 1)] = -np.inf
            top = scores.max(-1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(-1, keepdims=True)
            output[token, head] = weights / total @ keys[2][key].astype(np.float64)
            lse[head, token] = (top + np.log(total))[:, 0]
    return output, lse


@KINDS
def test_one_key_is_taken_whole(stream: cann_mla.Stream, kind: np.dtype[np.generic]) -> None:
    query = np.ones((1, 1, 128), kind), np.ones((1, 1, 64), kind)
    key = np.full((1, 1, 128), 0.5, kind), np.full((1, 1, 64), 0.25, kind)
    value = np.arange(128).reshape(1, 1, 128).astype(kind)
    output, lse = ring(stream, *query, *key, value, [1], causal=True, qk_scale=0.5)
    np.testing.assert_array_equal(output, value)
    assert lse.tolist() == [[0.5 * (128 * 0.5 + 64 * 0.25)]]


@KINDS
@pytest.mark.parametrize(
    ("q", "kv", "causal"),
    [
        ([1], [1], True),
        ([513, 7], [513, 7], True),
        ([100, 130], [700, 600], True),  # from the top left: columns right of the diagonal are never seen
        ([20, 200], [300, 50], False),
        ([640], [640], True),
    ],
)
def test_agrees_with_plain_attention(
    stream: cann_mla.Stream, kind: np.dtype[np.generic], q: list[int], kv: list[int], causal: bool
) -> None:
    rng = np.random.default_rng(sum(q))
    query = sequences(rng, sum(q), 4, kind, 128, 64)
    keys = sequences(rng, sum(kv), 2, kind, 128, 64, 128)
    output, lse = ring(stream, *query, *keys, q, kv, causal=causal)
    wanted, wanted_lse = plain(query, keys, q, kv, causal)
    assert np.abs(lse - wanted_lse).max() < LSE_LIMIT[kind]
    assert np.abs(output - wanted).max() < 2.0**-7 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("parts", [2, 3, 4, 8])
def test_merging_over_parts_of_the_keys_equals_one_call(stream: cann_mla.Stream, parts: int) -> None:
    rng = np.random.default_rng(parts)
    query = sequences(rng, 40, 4, BF16, 128, 64)
    keys = sequences(rng, 240, 4, BF16, 128, 64, 128)
    wanted, wanted_lse = plain(query, keys, [40], [240], causal=False)
    result = None
    for part in np.array_split(np.arange(240), parts):
        here = [array[part] for array in keys]
        result = ops.ring_mla(*query, *here, [40], [len(part)], previous=result, stream=stream)
    assert result is not None
    stream.synchronize()
    assert np.abs(result.softmax_lse.to_numpy() - wanted_lse).max() < 1e-5
    # each merge rounds the output once more
    limit = (2.0**-8 + parts**0.5 * 2.0**-9) * max(1.0, np.abs(wanted).max())
    assert np.abs(result.output.to_numpy() - wanted).max() < limit


@KINDS
def test_a_previous_result_that_weighs_nothing_changes_nothing(
    stream: cann_mla.Stream, kind: np.dtype[np.generic]
) -> None:
    rng = np.random.default_rng(3)
    query = sequences(rng, 130, 2, kind, 128, 64)
    keys = sequences(rng, 130, 2, kind, 128, 64, 128)
    first = ring(stream, *query, *keys, [130], causal=True)
    output = cann_mla.Tensor.from_numpy(np.zeros((130, 2, 128), kind))
    lse = cann_mla.Tensor.from_numpy(np.full((2, 130), -1e30, np.float32))
    merged = ring(stream, *query, *keys, [130], causal=True, previous=(output, lse))
    np.testing.assert_array_equal(merged[0], first[0])
    np.testing.assert_array_equal(merged[1], first[1])


def test_sequences_without_keys_keep_their_rows(stream: cann_mla.Stream) -> None:
    rng = np.random.default_rng(4)
    query = sequences(rng, 6, 1, BF16, 128, 64)
    keys = sequences(rng, 5, 1, BF16, 128, 64, 128)
    output, lse = ring(stream, *query, *keys, [2, 1, 3], [3, 0, 2])
    assert not output[2].any()
    assert lse[0, 2] == -np.inf
    before = np.full((6, 1, 128), 7, BF16), np.full((1, 6), 0.5, np.float32)
    previous = tuple(cann_mla.Tensor.from_numpy(array) for array in before)
    output, lse = ring(stream, *query, *keys, [2, 1, 3], [3, 0, 2], previous=previous)
    np.testing.assert_array_equal(output[2], before[0][2])
    assert lse[0, 2] == 0.5
    assert not np.array_equal(output[3], before[0][3])


def test_heads_that_share_keys_give_the_bits_of_copied_keys(stream: cann_mla.Stream) -> None:
    rng = np.random.default_rng(5)
    query = sequences(rng, 20, 6, BF16, 128, 64)
    keys = sequences(rng, 20, 2, BF16, 128, 64, 128)
    shared = ring(stream, *query, *keys, [20], causal=True)
    copied = ring(stream, *query, *(np.repeat(array, 3, axis=1) for array in keys), [20], causal=True)
    np.testing.assert_array_equal(shared[0], copied[0])
    np.testing.assert_array_equal(shared[1], copied[1])


def test_the_mask_is_a_template_of_512_that_slides_along_the_diagonal(stream: cann_mla.Stream) -> None:
    # Nothing hidden in the template: each block of 128 rows sees the keys up to its own block, and no more.
    rng = np.random.default_rng(6)
    query = sequences(rng, 300, 1, BF16, 128, 64)
    keys = sequences(rng, 300, 1, BF16, 128, 64, 128)
    _, lse = ring(stream, *query, *keys, [300], causal=True, mask=np.zeros((512, 512), BF16))
    for rows, columns in ((slice(0, 128), 128), (slice(128, 256), 256), (slice(256, 300), 300)):
        queries = [array[rows] for array in query]
        _, wanted = plain(queries, [array[:columns] for array in keys], [len(queries[0])], [columns], causal=False)
        assert np.abs(lse[:, rows] - wanted).max() < 1e-5


def test_half_precision_scores_overflow_before_they_are_scaled(stream: cann_mla.Stream) -> None:
    query = np.full((1, 1, 128), 32, FP16), np.zeros((1, 1, 64), FP16)
    key = np.full((1, 1, 128), 32, FP16), np.zeros((1, 1, 64), FP16)
    _, lse = ring(stream, *query, *key, np.ones((1, 1, 128), FP16), [1], qk_scale=SCALE)
    assert not np.isfinite(lse).any()  # 131072 is infinite in FP16

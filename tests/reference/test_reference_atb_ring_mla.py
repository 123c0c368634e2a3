"""AtbRingMLA: values by hand, and identities between calls."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import BF16, Array
from cann_mla.reference.atb_softmax import HalfScores, SingleScores
from cann_mla.reference.ring_mla import merge, ring_mla

SCALE = 192**-0.5


def operands(rows: int, columns: int, heads: int = 2, key_heads: int = 2, kind: Any = BF16.numpy) -> dict[str, Any]:
    rng = np.random.default_rng(rows * 10007 + columns)
    return {
        "query_split1": rng.standard_normal((rows, heads, 128)).astype(kind),
        "query_split2": rng.standard_normal((rows, heads, 64)).astype(kind),
        "key_split1": rng.standard_normal((columns, key_heads, 128)).astype(kind),
        "key_split2": rng.standard_normal((columns, key_heads, 64)).astype(kind),
        "value": rng.standard_normal((columns, key_heads, 128)).astype(kind),
        "head_num": heads,
        "kv_head_num": key_heads,
        "qk_scale": SCALE,
        "seq_len": np.array([[rows], [columns]], np.int32),
        "calc_type": 1,
    }


def triangle(kind: Any = BF16.numpy) -> Array:
    return np.triu(np.full((512, 512), 1 if kind == BF16.numpy else -10000, np.float32), 1).astype(kind)


def part(given: dict[str, Any], columns: slice) -> dict[str, Any]:
    """The same queries with some of the keys."""
    cut = {name: given[name][columns] for name in ("key_split1", "key_split2", "value")}
    lengths = np.array([[given["query_split1"].shape[0]], [cut["value"].shape[0]]], np.int32)
    return {**given, **cut, "seq_len": lengths}


def dense(given: dict[str, Any], visible: Array) -> tuple[Array, Array]:
    """The formula, in float64, with the whole matrix of scores."""
    double = {name: given[name].astype(np.float64) for name in given if name.startswith(("query", "key", "value"))}
    query = np.concatenate([double["query_split1"], double["query_split2"]], -1).swapaxes(0, 1)
    key = np.concatenate([double["key_split1"], double["key_split2"]], -1).swapaxes(0, 1)
    scores = np.where(visible, query @ key.swapaxes(1, 2) * given["qk_scale"], -np.inf)
    powers = np.exp(scores)
    total = powers.sum(-1)
    return (powers / total[..., None] @ double["value"].swapaxes(0, 1)).swapaxes(0, 1), np.log(total)


def constant_scores(rows: int, columns: int, **more: Any) -> dict[str, Any]:
    """Every score 0; the values of key j are all j."""
    given = operands(rows, columns, 1, 1)
    given["query_split1"] = given["query_split1"] * 0
    given["query_split2"] = given["query_split2"] * 0
    given["value"] = np.broadcast_to(np.arange(columns)[:, None, None], (columns, 1, 128)).astype(BF16.numpy)
    return {**given, **more}


def test_triangle_averages_the_first_keys_by_hand() -> None:
    result = ring_mla(**constant_scores(4, 9), mask=triangle(), mask_type=1)
    # Row i sees keys 0..i, also where there are more keys than rows.
    np.testing.assert_array_equal(result.output[:, 0, 5].astype(float), [0, 0.5, 1, 1.5])
    np.testing.assert_allclose(result.softmax_lse, [np.log([1, 2, 3, 4])], rtol=1e-6)


def test_no_mask_averages_all_keys_by_hand() -> None:
    result = ring_mla(**constant_scores(3, 9), mask=triangle(), mask_type=0)
    np.testing.assert_array_equal(result.output.astype(float), 4)
    np.testing.assert_allclose(result.softmax_lse, np.log(9), rtol=1e-6)


def test_mask_of_zeros_still_ends_at_the_block_of_the_diagonal() -> None:
    result = ring_mla(**constant_scores(200, 300), mask=np.zeros((512, 512), BF16.numpy), mask_type=1)
    np.testing.assert_allclose(result.softmax_lse[0, [0, 127, 128, 199]], np.log([128, 128, 256, 256]), rtol=1e-6)


@pytest.mark.parametrize("sizes", [(1, 1), (16, 17), (127, 127), (128, 300), (513, 513), (700, 1100)])
def test_sliding_template_of_a_triangle_is_a_plain_triangle(sizes: tuple[int, int]) -> None:
    rows, columns = sizes
    given = operands(rows, columns, 1, 1)
    got = ring_mla(**given, mask=triangle(), mask_type=1, precision="exact")
    output, lse = dense(given, np.arange(columns) <= np.arange(rows)[:, None])
    np.testing.assert_allclose(got.output, output, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got.softmax_lse, lse, rtol=1e-10)


def test_template_slides_with_the_diagonal() -> None:
    hidden = np.zeros((512, 512), BF16.numpy)
    hidden[130, 7] = 1
    result = ring_mla(**constant_scores(700, 700), mask=hidden, mask_type=1, precision="exact")
    # Rows 130 and 512 + 130 of the sequence lie on row 130 of the template.
    seen = np.exp(result.softmax_lse[0])
    np.testing.assert_allclose(seen[[129, 130, 131, 641, 642, 643]], [256, 255, 256, 700, 699, 700])


def test_three_dimensional_mask_is_read_from_its_first_plane() -> None:
    given = operands(5, 5)
    planes = np.stack([triangle(), np.ones((512, 512), BF16.numpy)])
    flat = ring_mla(**given, mask=triangle(), mask_type=1)
    np.testing.assert_array_equal(ring_mla(**given, mask=planes, mask_type=1).output, flat.output)


def test_mask_values_mean_what_the_type_says() -> None:
    half = operands(2, 2, 1, 1, np.float16)
    for name in ("query_split1", "query_split2"):
        half[name] = half[name] * 0
    added = ring_mla(**half, mask=triangle(BF16.numpy).astype(np.float16), mask_type=1)
    # A 0/1 mask in float16 hides nothing: it adds 1 to the score.
    np.testing.assert_allclose(added.softmax_lse[0, 0], np.log(1 + np.e), rtol=1e-6)
    wrong = ring_mla(**constant_scores(2, 2), mask=triangle(np.float16).astype(BF16.numpy), mask_type=1)
    assert np.isnan(wrong.output[0].astype(float)).all()


def test_scale_is_rounded_where_scores_are_float16() -> None:
    for kind, scale in ((np.float16, np.float16(0.07)), (BF16.numpy, np.float32(0.07))):
        given = operands(1, 1, 1, 1, kind)
        for name in ("query_split1", "query_split2", "key_split2"):
            given[name] = given[name] * 0
        given["query_split1"][0, 0, 0], given["key_split1"][0, 0, 0] = 1, 1
        result = ring_mla(**{**given, "qk_scale": 0.07}, mask_type=0)
        assert result.softmax_lse[0, 0] == np.float32(scale)


def test_steps_of_float16_scores_round_one_by_one() -> None:
    scale, mask = np.float16(0.07), np.float16(0.3)
    products = np.array([3.0003, -700.7, 65530.0], np.float32)
    with np.errstate(over="ignore"):
        half = products.astype(np.float16) * scale + mask
    scores = HalfScores(0.07)
    logits = scores.logits(products, np.full(3, mask, np.float32))
    np.testing.assert_array_equal(logits, half)
    got = scores.difference(np.array([-0.3, 5.01], np.float32), np.float32(9.55))
    np.testing.assert_array_equal(got, np.array([-9.85, -4.54], np.float32).astype(np.float16))


@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
def test_numerators_round_to_nearest_even(kind: Any) -> None:
    step = 2.0**-8 if kind == BF16.numpy else 2.0**-11
    # In [1/2, 1) the step is `step`: ties lie half a step above and below its multiples.
    ties = 0.5 + step * (np.arange(8) + 0.5)
    values = np.concatenate([ties, np.random.default_rng(0).random(1000), [0, 1]]).astype(np.float32)
    rounded = values.astype(kind).astype(np.float32)
    np.testing.assert_array_equal(rounded[:8], 0.5 + step * 2 * np.array([0, 1, 1, 2, 2, 3, 3, 4]))
    np.testing.assert_array_equal(SingleScores(1.0, np.dtype(kind)).weights(values.copy()), rounded)


def test_merging_takes_the_rounded_output() -> None:
    given = constant_scores(1, 4, calc_type=0)
    step = 2.0**-7
    given["value"] = np.array([1, 1, 1, 1 + step], np.float32)[:, None, None].repeat(128, 2).astype(BF16.numpy)
    previous = {"prev_out": np.full((1, 1, 128), 1 + step).astype(BF16.numpy)}
    previous["prev_lse"] = ring_mla(**{**given, "calc_type": 1}, mask_type=0).softmax_lse
    # The mean of the four is 1 + step / 4, stored as 1; the mean of 1 and 1 + step is a tie, whose even end is 1.
    assert (ring_mla(**given, **previous, mask_type=0).output == 1).all()


def test_scores_in_float16_lose_what_lies_below_their_step() -> None:
    given = operands(1, 1, 1, 1, np.float16)
    for name in ("query_split1", "query_split2", "key_split1", "key_split2"):
        given[name] = given[name] * 0
    given["query_split1"][0, 0, :2], given["key_split1"][0, 0, :2] = [64, 1], [64, 1]
    # 4097 lies halfway between the float16 numbers 4096 and 4100: nearest is 4096.
    assert ring_mla(**{**given, "qk_scale": 1.0}, mask_type=0).softmax_lse[0, 0] == 4096
    assert ring_mla(**{**given, "qk_scale": 1.0}, mask_type=0, precision="exact").softmax_lse[0, 0] == 4097


def test_grouped_heads_equal_repeated_keys() -> None:
    given = operands(20, 33, 6, 2)
    repeated = {name: np.repeat(given[name], 3, axis=1) for name in ("key_split1", "key_split2", "value")}
    got = ring_mla(**given, mask=triangle(), mask_type=1, precision="exact")
    want = ring_mla(**{**given, **repeated, "kv_head_num": 0}, mask=triangle(), mask_type=1, precision="exact")
    np.testing.assert_allclose(got.output, want.output, rtol=1e-12)
    np.testing.assert_allclose(got.softmax_lse, want.softmax_lse, rtol=1e-12)


def test_packed_sequences_equal_single_ones() -> None:
    given, lengths = operands(70, 90), [[50, 20], [60, 30]]
    packed = ring_mla(**{**given, "seq_len": np.array(lengths, np.int32)}, mask_type=0)
    for rows, columns in ((slice(0, 50), slice(0, 60)), (slice(50, 70), slice(60, 90))):
        one = {n: given[n][rows] if n.startswith("query_") else v for n, v in part(given, columns).items()}
        one["seq_len"] = np.array([[rows.stop - rows.start], [columns.stop - columns.start]], np.uint32)
        single = ring_mla(**one, mask_type=0)
        np.testing.assert_array_equal(packed.output[rows], single.output)
        np.testing.assert_array_equal(packed.softmax_lse[:, rows], single.softmax_lse)


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 8])
def test_a_ring_of_chunks_equals_one_call(chunks: int) -> None:
    length = 24 * chunks
    given = operands(length, length)
    whole = ring_mla(**given, mask=triangle(), mask_type=1, precision="exact")
    output, lse = np.empty_like(whole.output), np.empty_like(whole.softmax_lse)
    for own in range(chunks):
        rows = slice(24 * own, 24 * (own + 1))
        query = {n: v[rows] if n.startswith("query_") else v for n, v in given.items()}
        result = ring_mla(**part(query, rows), mask=triangle(), mask_type=1, precision="exact")
        for step in range(1, chunks):
            source = (own - step) % chunks
            if source < own:
                held = part(query, slice(24 * source, 24 * (source + 1)))
                before = {"prev_out": result.output, "prev_lse": result.softmax_lse}
                result = ring_mla(**{**held, "calc_type": 0}, **before, mask_type=0, precision="exact")
        output[rows], lse[:, rows] = result
    np.testing.assert_allclose(output, whole.output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lse, whole.softmax_lse, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
def test_splitting_the_keys_costs_one_rounding_of_the_output(kind: Any) -> None:
    given = operands(40, 600, 2, 2, kind)
    whole = ring_mla(**given, mask_type=0)
    first = ring_mla(**part(given, slice(0, 250)), mask_type=0)
    second = ring_mla(
        **{**part(given, slice(250, 600)), "calc_type": 0},
        prev_out=first.output,
        prev_lse=first.softmax_lse,
        mask_type=0,
    )
    step = 2.0**-8 if kind == BF16.numpy else 2.0**-11
    np.testing.assert_allclose(second.output.astype(float), whole.output.astype(float), rtol=0, atol=2 * step)
    np.testing.assert_allclose(second.softmax_lse, whole.softmax_lse, atol=1e-5 if kind == BF16.numpy else 1e-3)


def test_merge_by_hand() -> None:
    # Weights 1 and 3 of two parts, out of lse ln 1 and ln 3.
    output, lse = merge(np.array([[8.0]]), np.array([0.0]), np.array([[4.0]]), np.log([3.0]))
    np.testing.assert_allclose(output, [[5.0]])
    np.testing.assert_allclose(lse, np.log([4.0]))


def test_neutral_previous_result_changes_nothing() -> None:
    given = operands(30, 50)
    neutral = {"prev_out": np.zeros((30, 2, 128), BF16.numpy), "prev_lse": np.full((2, 30), -1e30, np.float32)}
    first = ring_mla(**given, mask_type=0)
    merged = ring_mla(**{**given, "calc_type": 0}, **neutral, mask_type=0)
    np.testing.assert_array_equal(merged.output, first.output)
    np.testing.assert_array_equal(merged.softmax_lse, first.softmax_lse)


@pytest.mark.parametrize("calc_type", [0, 1])
def test_rows_of_a_sequence_without_keys_stay_as_they_are(calc_type: int) -> None:
    given = {**operands(30, 20), "seq_len": np.array([[10, 15, 5], [12, 0, 8]], np.int32), "calc_type": calc_type}
    before = {
        "output": np.full((30, 2, 128), 7, BF16.numpy),
        "softmax_lse": np.full((2, 30), -3, np.float32),
    }
    previous = {"prev_out": before["output"] * 0, "prev_lse": before["softmax_lse"] * 0}
    result = ring_mla(**given, **before, **previous, mask=triangle(), mask_type=0)
    untouched = np.zeros(30, bool)
    untouched[10:25] = True
    np.testing.assert_array_equal((result.output == 7).all(axis=(1, 2)), untouched)
    np.testing.assert_array_equal((result.softmax_lse == -3).all(axis=0), untouched)
    assert (before["output"] == 7).all()


def test_call_in_place_keeps_the_previous_rows_of_a_sequence_without_keys() -> None:
    given = {**operands(6, 4), "seq_len": np.array([[4, 2], [4, 0]], np.int32), "calc_type": 0}
    previous = {"prev_out": np.full((6, 2, 128), 2, BF16.numpy), "prev_lse": np.full((2, 6), 5, np.float32)}
    result = ring_mla(**given, **previous, mask_type=0)
    assert (result.output[4:] == 2).all()
    assert (result.softmax_lse[:, 4:] == 5).all()


def test_lse_lies_by_the_sum_of_the_lengths() -> None:
    given = operands(6, 9)
    tight = ring_mla(**{**given, "seq_len": np.array([[4], [9]], np.int32)}, mask_type=0).softmax_lse
    # Four of six rows are used: heads follow each other after four elements, not after six.
    np.testing.assert_array_equal(tight.reshape(-1)[8:], 0)
    one = {n: v[:4] if n.startswith("query_") else v for n, v in given.items()}
    alone = ring_mla(**{**one, "seq_len": np.array([[4], [9]], np.int32)}, mask_type=0)
    np.testing.assert_array_equal(tight.reshape(-1)[:8].reshape(2, 4), alone.softmax_lse)


def test_memory_does_not_grow_with_the_scores() -> None:
    given = operands(1024, 16384, 1, 1)
    tracemalloc.start()
    ring_mla(**given, mask_type=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20  # widened keys and values 20 MiB; the scores would be 64 MiB


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calc_type": 0}, "prevOut"),
        ({"mask_type": 1}, "needs a mask"),
        ({"mask_type": 1, "mask": np.zeros((4, 4), BF16.numpy)}, "rows of 512"),
        ({"head_num": 4}, "contradict"),
        ({"kv_head_num": 1}, "contradict"),
        ({"seq_len": np.array([[9], [9]], np.int32)}, "add up to"),
        ({"seq_len": np.array([[0, 8], [4, 5]], np.int32)}, "must be positive"),
        ({"seq_len": np.array([[8], [6]], np.int32), "mask_type": 1, "mask": triangle()}, "MASK_TYPE_TRIU needs"),
    ],
)
def test_what_ends_in_garbage_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ring_mla(**{**operands(8, 9), "mask_type": 0, **change})

"""Merging partial results: by hand, against the unsplit attention, and in every layout."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import FP32, Array
from cann_mla.reference import evaluate
from cann_mla.reference.ring_attention_update import ring_attention_update

RNG = np.random.default_rng(0)


def copies(array: Array) -> Array:
    """Eight equal copies on a new last axis, float32."""
    return np.repeat(np.asarray(array, np.float32)[..., None], 8, axis=-1)


def test_two_parts_by_hand() -> None:
    """Sums 2 and 3 at maxima 1 and 0: weights 2 and 3/e, so out = (2 * 10 + 3/e * 20) / (2 + 3/e)."""
    out = [np.full((1, 1, 64), v, np.float32) for v in (10, 20)]
    result = ring_attention_update(
        out[0], copies([[[1.0]]])[0], copies([[[2.0]]])[0], out[1], copies([[[0.0]]])[0], copies([[[3.0]]])[0],
        actual_seq_qlen=np.array([0, 1]), input_layout="TND", precision="exact",
    )  # fmt: skip
    second = 3 * np.exp(-1.0)
    np.testing.assert_allclose(result.attn_out, (20 + 20 * second) / (2 + second), rtol=1e-14)
    np.testing.assert_allclose(result.softmax_max, 1.0)
    np.testing.assert_allclose(result.softmax_sum, 2 + second, rtol=1e-14)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_halves_merge_to_the_whole(kind: type) -> None:
    scores, values = RNG.standard_normal((2, 3, 7, 40)), RNG.standard_normal((2, 3, 40, 64))  # B, N, S

    def part(columns: slice) -> tuple[Array, Array, Array]:
        own = scores[..., columns]
        maximum = own.max(-1)
        weights = np.exp(own - maximum[..., None])
        total = weights.sum(-1)
        return weights @ values[:, :, columns] / total[..., None], maximum, total

    def sbh(out: Array) -> Array:
        return out.transpose(2, 0, 1, 3).reshape(7, 2, -1).astype(kind)

    (a, a_max, a_sum), (b, b_max, b_sum) = part(slice(0, 15)), part(slice(15, 40))
    whole, whole_max, whole_sum = part(slice(0, 40))
    result = ring_attention_update(sbh(a), copies(a_max), copies(a_sum), sbh(b), copies(b_max), copies(b_sum))
    assert result.attn_out.dtype == kind
    tolerance = {np.float32: 1e-6, np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2}[kind]
    np.testing.assert_allclose(result.attn_out.astype(np.float64), sbh(whole).astype(np.float64), atol=tolerance)
    np.testing.assert_allclose(result.softmax_max, copies(whole_max), rtol=1e-6)
    np.testing.assert_allclose(result.softmax_sum, copies(whole_sum), rtol=1e-5)


def packed_operands(lengths: list[int], heads: int) -> tuple[list[Array], list[Array]]:
    tokens = sum(lengths)
    attention = [RNG.standard_normal((tokens, heads, 64)).astype(np.float16) for _ in range(2)]
    statistics = [copies(RNG.random((tokens, heads)) + shift) for shift in (0, 1, 0, 1)]
    return attention, statistics


def test_packed_softmax_layout_lies_by_sequence_and_head() -> None:
    lengths, heads = [3, 0, 5], 2
    attention, by_token = packed_operands(lengths, heads)

    def pack(array: Array) -> Array:
        parts = np.split(array, np.cumsum(lengths)[:-1])
        return np.concatenate([p.transpose(1, 0, 2).reshape(-1, 8) for p in parts]).reshape(array.shape)

    ends = np.array([0, *np.cumsum(lengths)])
    rest = {"actual_seq_qlen": ends, "input_layout": "TND"}
    want = ring_attention_update(
        attention[0], *by_token[:2], attention[1], *by_token[2:], input_softmax_layout="TND", **rest
    )
    packed = [pack(s) for s in by_token]
    for layout in ("", "SBH"):
        got = ring_attention_update(
            attention[0], *packed[:2], attention[1], *packed[2:], input_softmax_layout=layout, **rest
        )
        assert np.array_equal(got.attn_out, want.attn_out)
        assert np.array_equal(got.softmax_max, pack(want.softmax_max))
        assert np.array_equal(got.softmax_sum, pack(want.softmax_sum))


def test_merging_with_nothing_changes_nothing() -> None:
    attention, statistics = packed_operands([4], 2)
    nothing = [np.full_like(statistics[0], -np.inf), np.zeros_like(statistics[0])]
    result = ring_attention_update(
        attention[0], *statistics[:2], np.zeros_like(attention[0]), *nothing,
        actual_seq_qlen=np.array([0, 4]), input_layout="TND", input_softmax_layout="TND",
    )  # fmt: skip
    assert np.array_equal(result.attn_out, attention[0])
    assert np.array_equal(result.softmax_max, statistics[0])
    assert np.array_equal(result.softmax_sum, statistics[1])


def test_large_operands_are_merged_in_chunks() -> None:
    attention = [RNG.standard_normal((40000, 2, 64)).astype(np.float16) for _ in range(2)]
    statistics = [np.ones((40000, 2, 8), np.float32) for _ in range(4)]
    result = ring_attention_update(
        attention[0], *statistics[:2], attention[1], *statistics[2:],
        actual_seq_qlen=np.array([0, 40000]), input_layout="TND", input_softmax_layout="TND",
    )  # fmt: skip
    want = (attention[0].astype(np.float32) * 0.5 + attention[1].astype(np.float32) * 0.5).astype(np.float16)
    assert np.array_equal(result.attn_out, want)


def test_door_and_refusals() -> None:
    attention, statistics = packed_operands([4], 2)
    tensors = {
        "prevAttnOut": attention[0], "prevSoftmaxMax": statistics[0], "prevSoftmaxSum": statistics[1],
        "curAttnOut": attention[1], "curSoftmaxMax": statistics[2], "curSoftmaxSum": statistics[3],
        "actualSeqQlenOptional": np.array([0, 4]),
    }  # fmt: skip
    outputs = {"softmaxMaxOut": ((4, 2, 8), FP32)}
    attrs = {"inputLayoutOptional": "TND"}
    result = evaluate("aclnnRingAttentionUpdate", tensors, attrs, soc="Ascend910B", outputs=outputs)
    assert set(result) == {"softmaxMaxOut"}
    assert np.array_equal(result["softmaxMaxOut"], np.maximum(statistics[0], statistics[2]))
    more = {**attrs, "inputSoftmaxLayoutOptional": "TND"}
    with pytest.raises(ValueError, match="use V2"):
        evaluate("aclnnRingAttentionUpdate", tensors, more, soc="Ascend910B", outputs=outputs)
    with pytest.raises(ValueError, match="needs actualSeqQlen"):
        ring_attention_update(attention[0], *statistics[:2], attention[1], *statistics[2:], input_layout="TND")
    with pytest.raises(ValueError, match="'BSH'"):
        ring_attention_update(attention[0], *statistics[:2], attention[1], *statistics[2:], input_layout="BSH")
    with pytest.raises(ValueError, match="same shapes"):
        ring_attention_update(attention[0][:2], *statistics[:2], attention[1], *statistics[2:])

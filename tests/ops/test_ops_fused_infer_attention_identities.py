"""The same attention given in two ways comes out the same, through the operator functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cann_mla import ops

N, NK, D, SCALE = 4, 2, 128, 128**-0.5
CLOSE = {"rtol": 2e-3, "atol": 2e-4}  # an FP16 unit of the last place: blocks of columns may differ


@pytest.fixture
def attend(stream: Any) -> Any:
    def run(*operands: Any, **more: Any) -> Any:
        with ops.fused_infer_attention(*operands, stream=stream, scale_value=SCALE, **more) as result:
            stream.synchronize()
            out = result.attention.to_numpy()
            return out if result.softmax_lse is None else (out, result.softmax_lse.to_numpy())

    return run


@pytest.mark.parametrize("mode", [0, 3])
def test_tokens_in_a_row_equal_sequences_on_their_own(attend: Any, normal: Any, mode: int) -> None:
    q_lengths, kv_lengths = [3, 0, 5], [20, 7, 33]
    q, k, v = normal(1, 8, N, D), normal(2, 60, NK, D), normal(3, 60, NK, D)
    mask = {"atten_mask": ops.compressed_mask(), "sparse_mode": 3} if mode == 3 else {}
    packed = attend(
        q, k, v, input_layout="TND", **mask,
        actual_seq_lengths=ops.prefix_sums(q_lengths), actual_seq_lengths_kv=ops.prefix_sums(kv_lengths),
    )  # fmt: skip
    parts = [np.split(x, ops.prefix_sums(n)[:-1]) for x, n in ((q, q_lengths), (k, kv_lengths), (v, kv_lengths))]
    alone = [
        attend(*(x[None] for x in own), input_layout="BSND", **mask)[0]
        for own in zip(*parts, strict=True)
        if len(own[0])
    ]
    np.testing.assert_allclose(packed, np.concatenate(alone), **CLOSE)


@pytest.mark.parametrize("layout", ["BnBsH", "BnNBsD", "NZ"])
def test_paged_equals_contiguous(attend: Any, normal: Any, layout: str) -> None:
    lengths = [130, 20]
    q, k, v = normal(1, 2, 4, N, D), normal(2, 2, 130, NK, D), normal(3, 2, 130, NK, D)
    table = ops.block_table(lengths, 128, blocks=[4, 1, 0])
    caches = (
        ops.paged_cache([own[:n] for own, n in zip(x, lengths, strict=True)], table, 128, layout=layout) for x in (k, v)
    )
    common = {"input_layout": "BSND", "actual_seq_lengths_kv": lengths}
    paged = attend(q, *caches, block_table=table, num_key_value_heads=NK, **common)
    np.testing.assert_allclose(paged, attend(q, k, v, **common), **CLOSE)


def test_prefix_equals_concatenation(attend: Any, normal: Any) -> None:
    q, k, v = normal(1, 2, N, 3, D), normal(2, 2, NK, 24, D), normal(3, 2, NK, 24, D)
    prefix = normal(4, 1, NK, 16, D), normal(5, 1, NK, 16, D)
    split = attend(
        q, k, v, input_layout="BNSD", key_shared_prefix=prefix[0], value_shared_prefix=prefix[1],
        actual_shared_prefix_len=[11],
    )  # fmt: skip
    whole = [np.concatenate([np.repeat(p[:, :, :11], 2, 0), x], 2) for p, x in zip(prefix, (k, v), strict=True)]
    np.testing.assert_allclose(split, attend(q, *whole, input_layout="BNSD"), **CLOSE)


@pytest.mark.parametrize("layout", ["TND", "SBH"])
def test_halves_of_the_keys_merge_to_the_whole(stream: Any, attend: Any, normal: Any, layout: str) -> None:
    """Attention over each half, merged by its lse through RingAttentionUpdate. Causal: some rows see one half only."""
    s1, s2, cut = 16, 40, 30
    q, k, v = normal(1, 1, s1, N, D), normal(2, 1, s2, N, D), normal(3, 1, s2, N, D)
    hidden = ops.causal_mask(s1, s2)
    common: dict[str, Any] = {"input_layout": "BSND", "sparse_mode": 1, "softmax_lse_flag": True, "inner_precise": 2}

    def part(columns: slice) -> tuple[Any, Any]:
        mask = np.ascontiguousarray(hidden[None, None, :, columns])
        return attend(q, *(np.ascontiguousarray(x[:, columns]) for x in (k, v)), atten_mask=mask, **common)

    whole, whole_lse = part(slice(0, s2))
    (out_a, lse_a), (out_b, lse_b) = part(slice(0, cut)), part(slice(cut, s2))
    assert np.isinf(lse_b[0, 0, :, 0]).sum() == s1 - (s2 - cut)  # rows that see nothing of the second half

    def to_layout(out: Any, lse: Any) -> tuple[Any, ...]:
        if layout == "SBH":
            return out.transpose(1, 0, 2, 3).reshape(s1, 1, N * D), *ops.softmax_statistics(lse)
        return out[0], *ops.softmax_statistics(np.ascontiguousarray(lse[0].transpose(1, 0, 2)))

    more = {} if layout == "SBH" else {"actual_seq_qlen": np.array([0, s1]), "input_softmax_layout": "TND"}
    with ops.ring_attention_update(
        *to_layout(out_a, lse_a), *to_layout(out_b, lse_b), input_layout=layout, stream=stream, **more
    ) as merged:
        stream.synchronize()
        want, want_max, _ = to_layout(whole, whole_lse)
        np.testing.assert_allclose(merged.attn_out.to_numpy(), want, rtol=4e-3, atol=4e-4)
        lse = merged.softmax_max.to_numpy() + np.log(merged.softmax_sum.to_numpy())
        np.testing.assert_allclose(lse, want_max, rtol=1e-4)

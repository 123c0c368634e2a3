"""Masks by hand, and as the operator's sparse modes read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cann_mla import ops


def rows(mask: Any) -> list[str]:
    return ["".join("x" if hidden else "." for hidden in row) for row in mask]


def test_causal_by_hand() -> None:
    assert rows(ops.causal_mask(3, 5)) == ["...xx", "....x", "....."]
    assert rows(ops.causal_mask(3, 5, anchor="left_up")) == [".xxxx", "..xxx", "...xx"]
    assert rows(ops.causal_mask(3, 2)) == ["xx", ".x", ".."]  # the first row comes before every key


def test_band_by_hand() -> None:
    assert rows(ops.band_mask(3, 5, 1, 1, anchor="left_up")) == ["..xxx", "...xx", "x...x"]
    assert rows(ops.band_mask(3, 5, 1, 0)) == ["x..xx", "xx..x", "xxx.."]
    assert rows(ops.band_mask(2, 4, -1, 2, anchor="left_up")) == ["x..x", "xx.."]  # from the first column behind it
    assert rows(ops.band_mask(2, 2, 0, 0, anchor="left_up")) == [".x", "x."]


def test_a_mask_for_each_sequence_hides_what_lies_beyond_it() -> None:
    mask = ops.causal_mask([1, 2], [3, 2])
    assert [rows(own) for own in mask] == [["...", "xxx"], [".xx", "..x"]]
    assert ops.causal_mask([1, 2, 1], 4).shape == (3, 2, 4)


def test_the_compressed_mask_is_the_upper_triangle() -> None:
    mask = ops.compressed_mask()
    assert (mask.shape, mask.dtype) == ((2048, 2048), np.dtype(bool))
    assert mask.sum() == 2048 * 2047 // 2
    assert mask[0, 1]
    assert not mask[1, 0]
    assert not mask.diagonal().any()


@pytest.mark.parametrize(
    ("mode", "pre", "next_", "full"),
    [
        (2, 0, 0, lambda q, k: ops.causal_mask(q, k, anchor="left_up")),
        (3, 0, 0, lambda q, k: ops.causal_mask(q, k)),
        (4, 3, 1, lambda q, k: ops.band_mask(q, k, 3, 1)),
        (4, 6, -2, lambda q, k: ops.band_mask(q, k, 6, -2)),
    ],
)
def test_the_compressed_mask_and_a_mode_equal_the_mask_written_out(
    stream: Any, normal: Any, mode: int, pre: int, next_: int, full: Any
) -> None:
    q_lengths, kv_lengths = [7, 4], [12, 9]
    operands = {"query": normal(1, 2, 2, 7, 64), "key": normal(2, 2, 2, 12, 64), "value": normal(3, 2, 2, 12, 64)}
    common: dict[str, Any] = {
        "input_layout": "BNSD", "scale_value": 0.125, "stream": stream,
        "actual_seq_lengths": q_lengths, "actual_seq_lengths_kv": kv_lengths,
    }  # fmt: skip
    mask = np.ascontiguousarray(full(q_lengths, kv_lengths)[:, None])
    with (
        ops.fused_infer_attention(
            **operands, **common, sparse_mode=mode, atten_mask=ops.compressed_mask(), pre_tokens=pre, next_tokens=next_
        ) as short,
        ops.fused_infer_attention(**operands, **common, sparse_mode=1, atten_mask=mask) as long,
    ):
        stream.synchronize()
        np.testing.assert_array_equal(short.attention.to_numpy(), long.attention.to_numpy())
        assert short.attention.to_numpy().any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.causal_mask(2, 2, anchor="middle"), "anchor='middle'; it is left_up or right_down"),
        (lambda: ops.band_mask(2, 2, 1, -2), "from -1 to -2 around the diagonal is empty"),
        (lambda: ops.causal_mask(-1, 2), "-1 rows and 2 columns"),
        (lambda: ops.causal_mask([1, 2], [1, 2, 3]), "2 lengths of rows and 3 of columns"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

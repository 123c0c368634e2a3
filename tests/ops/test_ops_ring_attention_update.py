"""Merging partial results on the simulator, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import ops


def copies(*values: float) -> Any:
    """Statistics (T, 1, 8)."""
    return np.repeat(np.array(values, np.float32)[:, None, None], 8, axis=-1)


def halves() -> dict[str, Any]:
    """Sums 2 and 3 at maxima 1 and 0, in the first row; the second half of the second row saw nothing."""
    return {
        "prev_attn": np.full((2, 1, 64), 10, np.float32),
        "prev_softmax_max": copies(1, 5), "prev_softmax_sum": copies(2, 1),
        "cur_attn": np.full((2, 1, 64), 20, np.float32),
        "cur_softmax_max": copies(0, -1e30), "cur_softmax_sum": copies(3, 1),
    }  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_two_parts_by_hand(stream: Any, version: int) -> None:
    lengths = np.array([0, 1, 2])
    with ops.ring_attention_update(
        **halves(), stream=stream, input_layout="TND", actual_seq_qlen=lengths, version=version
    ) as merged:
        stream.synchronize()
        second = 3 * np.exp(-1.0)
        want = [(2 * 10 + second * 20) / (2 + second), 10]
        np.testing.assert_allclose(
            merged.attn_out.to_numpy(), np.broadcast_to(np.reshape(want, (2, 1, 1)), (2, 1, 64)), rtol=1e-6
        )
        np.testing.assert_allclose(merged.softmax_max.to_numpy(), copies(1, 5))
        np.testing.assert_allclose(merged.softmax_sum.to_numpy(), copies(2 + second, 1), rtol=1e-6)
    assert merged.attn_out.closed


def test_given_outputs_serve_a_ring_of_calls(stream: Any) -> None:
    """Three parts one after another, each result the next call's previous part."""
    parts = [(value, 0.0, 1.0) for value in (3.0, 6.0, 12.0)]
    state = [
        np.full((4, 1, 64), parts[0][0], np.float32),
        np.zeros((1, 1, 4, 8), np.float32),
        np.ones((1, 1, 4, 8), np.float32),
    ]
    previous = [cann_mla.Tensor.from_numpy(x) for x in state]
    for value, maximum, total in parts[1:]:
        current = [
            np.full((4, 1, 64), value, np.float32),
            np.full((1, 1, 4, 8), maximum, np.float32),
            np.full((1, 1, 4, 8), total, np.float32),
        ]
        result = ops.ring_attention_update(*previous, *current, stream=stream)
        previous = [result.attn_out, result.softmax_max, result.softmax_sum]
    stream.synchronize()
    np.testing.assert_allclose(previous[0].to_numpy(), 7.0, rtol=1e-6)
    np.testing.assert_allclose(previous[2].to_numpy(), 3.0, rtol=1e-6)


def test_lse_alone_is_enough() -> None:
    maxima, sums = ops.softmax_statistics(np.array([[[0.5]], [[np.inf]]], np.float32))
    np.testing.assert_array_equal(maxima, copies(0.5, -1e30))
    np.testing.assert_array_equal(sums, copies(1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_layout": "TNB"}, "it is 'SBH' or 'TND'"),
        ({"input_layout": "TND"}, "needs actual_seq_qlen"),
        ({"input_layout": "TND", "actual_seq_qlen": np.array([0, 2]), "input_softmax_layout": "T"}, "'SBH' or 'TND'"),
        ({"input_softmax_layout": "TND", "version": 1}, "needs version 2"),
        ({"version": 3}, "versions 1 and 2"),
        ({"input_layout": "SBH"}, r"prev_softmax_max has shape \(2, 1, 8\); it must have 4 dimensions"),
    ],
)
def test_refusals(stream: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ops.ring_attention_update(**halves(), stream=stream, **change)

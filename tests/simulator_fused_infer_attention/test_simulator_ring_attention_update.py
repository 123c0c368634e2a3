"""aclnnRingAttentionUpdate: two halves of the keys, attended apart, merge into the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cann_mla

Array = np.ndarray[Any, Any]


def partial(scores: Array, values: Array) -> tuple[Array, Array, Array]:
    """Output, maximum and sum of one half; ``scores`` (..., S1, S2), ``values`` (..., S2, D)."""
    top = scores.max(-1, keepdims=True)
    numerators = np.exp(scores - top)
    total = numerators.sum(-1, keepdims=True)
    return numerators @ values / total, top[..., 0], total[..., 0]


def eightfold(x: Array) -> Array:
    return np.repeat(x[..., None], 8, -1).astype(np.float32)


def update(stream: cann_mla.Stream, op: str, arrays: dict[str, Array], **attrs: Any) -> list[Array]:
    tensors: dict[str, Any] = {
        name: cann_mla.Tensor.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()
    }
    outs = {"attnOutOut": "prevAttnOut", "softmaxMaxOut": "prevSoftmaxMax", "softmaxSumOut": "prevSoftmaxSum"}
    for out, like in outs.items():
        tensors[out] = cann_mla.Tensor.from_numpy(np.zeros_like(arrays[like]))
    try:
        cann_mla.operator(op)(stream=stream, **tensors, **attrs)
        stream.synchronize()
        return [tensors[out].to_numpy() for out in outs]
    finally:
        for tensor in tensors.values():
            tensor.close()


@pytest.fixture
def halves() -> tuple[list[tuple[Array, Array, Array]], tuple[Array, Array, Array]]:
    """Two partial results of B 2, N 3, S 7, D 64, and the whole they come from."""
    rng = np.random.default_rng(4)
    scores, values = rng.standard_normal((2, 3, 7, 30)) * 3, rng.standard_normal((2, 3, 30, 64))
    parts = [partial(scores[..., a:b], values[..., a:b, :]) for a, b in ((0, 11), (11, 30))]
    return parts, partial(scores, values)


def test_sbh(halves: Any, stream: cann_mla.Stream) -> None:
    parts, (want, top, total) = halves

    def sbh(x: Array) -> Array:
        rows: Array = x.transpose(2, 0, 1, 3).reshape(7, 2, 3 * 64)
        return rows.astype(np.float32)

    arrays: dict[str, Array] = {}
    for which, (out, high, added) in zip(("prev", "cur"), parts, strict=True):
        arrays |= {f"{which}AttnOut": sbh(out), f"{which}SoftmaxMax": eightfold(high)}
        arrays[f"{which}SoftmaxSum"] = eightfold(added)
    out, high, added = update(stream, "aclnnRingAttentionUpdate", arrays, inputLayoutOptional="SBH")
    np.testing.assert_allclose(out, sbh(want), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(high, eightfold(top), rtol=1e-6)
    np.testing.assert_allclose(added, eightfold(total), rtol=1e-5)


@pytest.mark.parametrize("softmax_layout", ["TND", "SBH", ""])
def test_tnd_with_softmax_by_token_or_packed_by_batch(
    softmax_layout: str, halves: Any, stream: cann_mla.Stream
) -> None:
    parts, (want, _, total) = halves
    lengths = [7, 4]  # the second batch is shorter than the halves

    def tokens(x: Array) -> Array:
        return np.concatenate([x[b, :, :s].transpose(1, 0, 2) for b, s in enumerate(lengths)]).astype(np.float32)

    def softmax(x: Array) -> Array:
        if softmax_layout == "TND":
            return eightfold(np.concatenate([x[b, :, :s].T for b, s in enumerate(lengths)]))
        return eightfold(np.concatenate([x[b, :, :s].ravel() for b, s in enumerate(lengths)]).reshape(11, 3))

    arrays = {"actualSeqQlenOptional": np.array([0, 7, 11])}
    for which, (out, high, added) in zip(("prev", "cur"), parts, strict=True):
        arrays |= {f"{which}AttnOut": tokens(out), f"{which}SoftmaxMax": softmax(high)}
        arrays[f"{which}SoftmaxSum"] = softmax(added)
    attrs = {"inputLayoutOptional": "TND", "inputSoftmaxLayoutOptional": softmax_layout}
    out, _, added = update(stream, "aclnnRingAttentionUpdateV2", arrays, **attrs)
    np.testing.assert_allclose(out, tokens(want), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(added, softmax(total), rtol=1e-5)


def test_what_tiling_refuses_comes_with_phase_two(stream: cann_mla.Stream) -> None:
    arrays = {f"{w}AttnOut": np.ones((2, 1, 100), np.float16) for w in ("prev", "cur")}  # D is not a multiple of 64
    arrays |= {f"{w}Softmax{s}": np.ones((2, 1, 8), np.float32) for w in ("prev", "cur") for s in ("Max", "Sum")}
    arrays["actualSeqQlenOptional"] = np.array([0, 2])
    with pytest.raises(cann_mla.CannError, match="multiple of 64") as refused:
        update(stream, "aclnnRingAttentionUpdate", arrays, inputLayoutOptional="TND")
    assert (refused.value.status, refused.value.phase) == (561103, "launch")

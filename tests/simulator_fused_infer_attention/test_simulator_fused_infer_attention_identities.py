"""Calls that must agree with each other, whatever the numbers; and questions that users have asked in public."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cann_mla

B, N, NK, S1, S2, D = 2, 4, 2, 6, 50, 64
SCALE = 0.125
SAME: dict[str, Any] = {"rtol": 2e-3, "atol": 2e-4}
UPPER = np.triu(np.ones((2048, 2048), bool), 1)

Array = np.ndarray[Any, Any]
Normal = Callable[..., Array]


@pytest.fixture
def operands(normal: Normal) -> tuple[Array, Array, Array]:
    return normal(1, B, N, S1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)


def given(q: Array, k: Array, v: Array, **more: Any) -> dict[str, Any]:
    call = {"query": q, "key": k, "value": v, "numHeads": N, "numKeyValueHeads": NK, "scaleValue": SCALE}
    return call | {"inputLayout": "BNSD", "out": (q.shape, "FP16")} | more


@pytest.mark.parametrize(("mode", "pre", "next_"), [(2, 0, 0), (3, 0, 0), (4, 5, 2)])
def test_modes_equal_their_masks_written_out(
    mode: int, pre: int, next_: int, attend: Any, operands: tuple[Array, Array, Array]
) -> None:
    shift = 0 if mode == 2 else S2 - S1
    ahead = np.arange(S2)[None] - np.arange(S1)[:, None] - shift
    low, high = (-pre, next_) if mode == 4 else (-S2 - S1, 0)
    mask = np.broadcast_to((ahead < low) | (ahead > high), (B, 1, S1, S2)).copy()
    short = attend(**given(*operands, sparseMode=mode, preTokens=pre, nextTokens=next_, attenMaskOptional=UPPER))
    written = attend(**given(*operands, sparseMode=0, attenMaskOptional=mask))
    np.testing.assert_allclose(short, written, **SAME)


def test_halves_of_the_keys_merge_by_lse(attend: Any, operands: tuple[Array, Array, Array]) -> None:
    q, k, v = operands
    whole, whole_lse = attend(**given(q, k, v, lse=(B, N, S1, 1)))
    parts = [(k[:, :, :17], v[:, :, :17]), (k[:, :, 17:], v[:, :, 17:])]
    results = [attend(**given(q, *(np.ascontiguousarray(x) for x in part), lse=(B, N, S1, 1))) for part in parts]
    lse = np.logaddexp(results[0][1], results[1][1])
    merged = sum(out * np.exp(part_lse - lse) for out, part_lse in results)
    np.testing.assert_allclose(lse, whole_lse, rtol=1e-5)
    np.testing.assert_allclose(merged, whole, **SAME)


def test_tokens_equal_batches(attend: Any, operands: tuple[Array, Array, Array]) -> None:
    q, k, v = operands
    batched = attend(**given(q, k, v))
    tokens = [np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(-1, x.shape[1], D)) for x in (q, k, v)]
    call = given(*tokens, inputLayout="TND", actualSeqLengthsOptional=[S1, 2 * S1])
    got = attend(**call, actualSeqLengthsKvOptional=[S2, 2 * S2])
    np.testing.assert_array_equal(got.reshape(B, S1, N, D), batched.transpose(0, 2, 1, 3))


def test_int8_keys_equal_dequantised_ones(attend: Any, normal: Normal) -> None:
    q, rng = normal(1, B, N, 1, D), np.random.default_rng(5)
    k, v = (rng.integers(-128, 128, (B, NK, S2, D), np.int8) for _ in range(2))
    scale = np.full((2, NK, 1, D), 2.0**-6, np.float16)  # the numbers are FP16 numbers
    real = ((x * 2.0**-6).astype(np.float16) for x in (k, v))
    quantised = attend(**given(q, k, v, antiquantScaleOptional=scale))
    np.testing.assert_allclose(quantised, attend(**given(q, *real)), **SAME)


def test_a_decode_mask_of_more_than_512_columns(attend: Any, normal: Normal) -> None:
    """Reported as failing on [1, 1, 1, S]: the mask is taken, and the columns it hides do not count."""
    q, k, v = normal(1, 1, N, 1, D), normal(2, 1, NK, 600, D), normal(3, 1, NK, 600, D)
    mask = np.zeros((1, 1, 1, 600), bool)
    mask[..., 520:] = True
    call = given(q, k, v, attenMaskOptional=mask)
    shorter = given(q, *(np.ascontiguousarray(x[:, :, :520]) for x in (k, v)))
    np.testing.assert_allclose(attend(**call), attend(**shorter), **SAME)


def test_a_mask_of_two_axes(attend: Any, operands: tuple[Array, Array, Array], product: Callable[[str], None]) -> None:
    """Allowed on Atlas A2 and A3, shared by all batches; Ascend950 wants a batch axis."""
    mask = np.random.default_rng(3).random((S1, S2)) < 0.3
    shared = attend(**given(*operands, attenMaskOptional=mask, sparseMode=1))
    with_batch = attend(**given(*operands, attenMaskOptional=mask[None], sparseMode=1))
    np.testing.assert_array_equal(shared, with_batch)
    product("Ascend950")
    with pytest.raises(cann_mla.CannError, match="attenMask"):
        attend("aclnnFusedInferAttentionScoreV5", **given(*operands, attenMaskOptional=mask, sparseMode=1))


def test_tnd_in_mode_zero_looks_everywhere_and_takes_no_mask(attend: Any, normal: Normal) -> None:
    """TND without a mask in mode 0 is not causal; a mask belongs to modes 3 and 4."""
    q, k, v = normal(1, 4, N, 128), normal(2, 4, NK, 128), normal(3, 4, NK, 128)
    call = given(q, k, v, inputLayout="TND", actualSeqLengthsOptional=[4], actualSeqLengthsKvOptional=[4])
    free = attend(**call)
    causal = attend(**call, sparseMode=3, attenMaskOptional=UPPER)
    assert np.abs(free[0] - causal[0]).max() > 0.1
    np.testing.assert_allclose(free[3], causal[3], **SAME)
    with pytest.raises(cann_mla.CannError, match="attenMask"):
        attend(**call, sparseMode=0, attenMaskOptional=UPPER)


def test_lengths_for_some_batches_only(attend: Any, normal: Normal) -> None:
    """One length serves every batch; any other count below the batch is refused by name."""
    q, k, v = (normal(i, 3, n, s, D) for i, (n, s) in enumerate([(N, S1), (NK, S2), (NK, S2)]))
    one = attend(**given(q, k, v, actualSeqLengthsKvOptional=[20]))
    np.testing.assert_array_equal(one, attend(**given(q, k, v, actualSeqLengthsKvOptional=[20, 20, 20])))
    with pytest.raises(cann_mla.CannError, match="actualSeqLengthsKv"):
        attend(**given(q, k, v, actualSeqLengthsKvOptional=[20, 20]))

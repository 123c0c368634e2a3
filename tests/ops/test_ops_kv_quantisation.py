"""Quantisation parameters from data, and INT4 in words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla import ops

SHAPE = (2, 3, 5, 16)
GRANULARITIES = {
    "per_tensor": (0, (1,), np.float16),
    "per_channel": (0, (1, 3, 1, 16), np.float16),
    "per_token": (1, (1, 2, 5), np.float32),
    "per_head": (2, (3,), np.float16),
    "per_token_head": (3, (2, 3, 5), np.float32),
}


def data(seed: int = 0, shift: float = 0.0) -> Any:
    """Values of very different sizes, so that granularities differ."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(SHAPE) * 4.0 ** rng.integers(-3, 3, (2, 3, 5, 1)) + shift


def test_one_row_by_hand() -> None:
    row = np.array([-1.0, 0.5, 3.0, 2.0]).reshape(1, 1, 1, 4)
    symmetric = ops.KvQuantisation.of(row, "per_token")
    assert symmetric.scale == np.float32(3 / 127)
    assert symmetric.offset is None
    assert symmetric.quantise(row).ravel().tolist() == [-42, 21, 127, 85]
    # From -1 to 3 in 255 steps: -1 is stored as -128, so (-128 + offset) * 4/255 = -1 and offset = 64.25.
    shifted = ops.KvQuantisation.of(row, "per_token", symmetric=False)
    assert shifted.scale == np.float32(4 / 255)
    assert shifted.offset == pytest.approx(64.25, rel=1e-6)
    assert shifted.quantise(row).ravel().tolist() == [-128, -32, 127, 63]


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("element", ["INT8", "INT4"])
def test_shapes_and_error_bound(granularity: str, symmetric: bool, element: str) -> None:
    """No value is further off than half a step, but for the rounding of the parameters to their type."""
    values = data(shift=1.0)
    q = ops.KvQuantisation.of(values, granularity, symmetric=symmetric, element=element)
    mode, shape, kind = GRANULARITIES[granularity]
    assert (q.mode, q.scale.shape, q.scale.dtype) == (mode, shape, kind)
    stored = q.quantise(values)
    assert stored.dtype == (np.int8 if element == "INT8" else ml_dtypes.int4)
    assert q.dequantise(stored).shape == SHAPE
    steps = np.abs(q.dequantise(stored) - values) / q._spread(values)[0]
    assert steps.max() <= 0.5 + (0.25 if kind is np.float16 else 1e-3)


def test_finer_parameters_lose_less() -> None:
    values = data()
    loss = {
        g: np.abs(q.dequantise(q.quantise(values)) - values).mean()
        for g in GRANULARITIES
        for q in [ops.KvQuantisation.of(values, g)]
    }
    assert loss["per_token_head"] < loss["per_token"] < loss["per_tensor"]
    assert loss["per_channel"] < loss["per_tensor"]
    assert loss["per_head"] <= loss["per_tensor"]


def test_zeros_stay_zeros() -> None:
    zeros = np.zeros(SHAPE)
    q = ops.KvQuantisation.of(zeros, "per_token")
    assert (q.scale == 1).all()
    assert not q.quantise(zeros).any()


def test_outputs_are_multiplied_instead_of_divided() -> None:
    values = data(shift=2.0)
    q = ops.KvQuantisation.of(values, "per_channel", symmetric=False, query_dtype="FP32")
    factor, summand = q.for_output()
    stored = np.clip(np.rint(values * factor + summand), -128, 127)
    np.testing.assert_allclose(stored, q.quantise(values), atol=1)
    assert (stored == q.quantise(values)).mean() > 0.99


def test_words_by_hand() -> None:
    # Nibbles from the lowest: 1, -1 (f), 7, -8 (8), 0, 2, 3, -2 (e).
    words = ops.pack_int4(np.array([[1, -1, 7, -8, 0, 2, 3, -2]]))
    assert words.dtype == np.int32
    assert words.shape == (1, 1)
    assert words.view(np.uint32)[0, 0] == 0xE32087F1


def test_words_there_and_back() -> None:
    numbers = np.random.default_rng(3).integers(-8, 8, (3, 2, 24)).astype(ml_dtypes.int4)
    words = ops.pack_int4(numbers)
    assert words.shape == (3, 2, 3)
    np.testing.assert_array_equal(ops.unpack_int4(words).astype(int), numbers.astype(int))


@pytest.mark.parametrize(
    ("granularity", "element", "tolerance"),
    [
        ("per_tensor", "INT8", 0.05),
        ("per_channel", "INT8", 0.05),
        ("per_token", "INT8", 0.05),
        ("per_head", "INT8", 0.05),
        ("per_token_head", "INT4", 0.3),
        ("per_channel", "INT4", 0.3),
    ],
)
def test_the_operator_reads_them_so(
    stream: Any, normal: Any, formula: Any, granularity: str, element: str, tolerance: float
) -> None:
    """Attention on quantised keys and values equals attention on the dequantised arrays, and is near the original."""
    q, k, v = normal(1, 2, 4, 1, 64), normal(2, 2, 2, 32, 64), normal(3, 2, 2, 32, 64)
    parameters = [ops.KvQuantisation.of(x, granularity, symmetric=False, element=element) for x in (k, v)]
    stored = [p.quantise(x) for p, x in zip(parameters, (k, v), strict=True)]
    given = [ops.pack_int4(s) if element == "INT4" else s for s in stored]
    with ops.fused_infer_attention(
        q, *given, stream=stream, input_layout="BNSD", scale_value=0.125,
        key_antiquant_scale=parameters[0].scale, key_antiquant_offset=parameters[0].offset,
        key_antiquant_mode=parameters[0].mode,
        value_antiquant_scale=parameters[1].scale, value_antiquant_offset=parameters[1].offset,
        value_antiquant_mode=parameters[1].mode,
    ) as result:  # fmt: skip
        stream.synchronize()
        got = result.attention.to_numpy().astype(np.float64)
    same, _ = formula(q, *(p.dequantise(s) for p, s in zip(parameters, stored, strict=True)), 0.125)
    np.testing.assert_allclose(got, same, rtol=5e-3, atol=2e-3)
    np.testing.assert_allclose(got, formula(q, k, v, 0.125)[0], atol=tolerance)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.KvQuantisation.of(data(), "per_row"), "known are per_tensor, per_channel"),
        (lambda: ops.KvQuantisation.of(data(), "per_head", element="INT2"), "INT8, INT4"),
        (lambda: ops.KvQuantisation.of(data()[0], "per_head"), r"must be \(B, N, S, D\)"),
        (lambda: ops.KvQuantisation.of(data(), "per_token").for_output(), "per tensor or per channel only"),
        (lambda: ops.pack_int4(np.zeros((2, 7), np.int8)), "multiple of 8"),
        (lambda: ops.pack_int4(np.full((1, 8), 8)), "INT4 holds -8 to 7; found 8 to 8"),
        (lambda: ops.unpack_int4(np.zeros(2, np.int64)), "INT32 words, not int64"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

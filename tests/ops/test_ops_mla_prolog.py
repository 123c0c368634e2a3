"""The documented MlaProlog functions on the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops
from cann_mla.reference.mla_prolog import mla_prolog_v3 as reference

BF16 = np.dtype(ml_dtypes.bfloat16)
TOKENS, HE, HCQ, HEADS = 3, 1024, 1536, 2


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


def operands(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / shape[0] ** 0.5).astype(BF16)

    return {
        "token_x": normal(TOKENS, HE),
        "weight_dq": normal(HE, HCQ),
        "weight_uq_qr": normal(HCQ, HEADS * 192),
        "weight_uk": normal(HEADS, 128, 512),
        "weight_dkv_kr": normal(HE, 576),
        "rmsnorm_gamma_cq": normal(HCQ),
        "rmsnorm_gamma_ckv": normal(512),
        "rope_sin": normal(TOKENS, 64),
        "rope_cos": normal(TOKENS, 64),
        "kv_cache": np.zeros((2, 16, 1, 512), BF16),
        "kr_cache": np.zeros((2, 16, 1, 64), BF16),
        "cache_index": np.array([17, -1, 4]),
    }


def partial_int8(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    weight = rng.integers(-127, 128, (HCQ, HEADS * 192), np.int8)
    scale = rng.uniform(1e-4, 2e-4, (1, HEADS * 192)).astype(np.float32)
    return {**given, "weight_uq_qr": weight, "dequant_scale_w_uq_qr": scale}


def test_v3_agrees_with_the_reference_and_updates_the_arrays_given(stream: cann_mla.Stream) -> None:
    given = operands()
    expected = reference(**{n: a.copy() for n, a in given.items()})
    result = ops.mla_prolog_v3(**given, stream=stream)
    np.testing.assert_array_equal(result.query.to_numpy(), expected.query)
    np.testing.assert_array_equal(result.query_rope.to_numpy(), expected.query_rope)
    assert result.kv_cache is given["kv_cache"]
    np.testing.assert_array_equal(given["kv_cache"], expected.kv_cache)
    np.testing.assert_array_equal(given["kr_cache"], expected.kr_cache)
    rows = given["kv_cache"].reshape(32, 512).any(axis=1)
    assert list(np.flatnonzero(rows)) == [4, 17]  # index -1 is skipped


def test_v3_outputs_of_a_quantised_scenario(stream: cann_mla.Stream) -> None:
    given = partial_int8(operands())
    result = ops.mla_prolog_v3(**given, quant="partial_int8", with_query_norm=True, stream=stream)
    assert result.query_norm is not None
    assert (result.query_norm.shape, result.query_norm.dtype.name) == ((TOKENS, HCQ), "INT8")
    assert result.dequant_scale_q_norm is not None
    assert (result.dequant_scale_q_norm.shape, result.dequant_scale_q_norm.dtype.name) == ((TOKENS, 1), "FP32")
    assert result.dequant_scale_q_nope is None
    # The scale of a row is its largest magnitude over 127, so that some element of every row is +-127.
    assert (np.abs(result.query_norm.to_numpy().astype(int)).max(axis=1) == 127).all()


def test_v2_and_v1_do_the_same_without_quantisation(stream: cann_mla.Stream) -> None:
    queries = []
    for function in (ops.mla_prolog_v3, ops.mla_prolog_v2, ops.mla_prolog_v1):
        with function(**operands(), stream=stream) as result:
            queries.append(result.query.to_numpy())
        assert result.query.closed
    np.testing.assert_array_equal(queries[0], queries[1])
    np.testing.assert_array_equal(queries[0], queries[2])


def test_packed_weights_and_own_outputs_serve_many_calls(stream: cann_mla.Stream) -> None:
    given = operands()
    expected = reference(**{n: a.copy() for n, a in given.items()}).query
    for name in ("weight_dq", "weight_uq_qr", "weight_dkv_kr"):
        given[name] = ops.pack_weight(given[name])
    for name in ("kv_cache", "kr_cache"):
        given[name] = cann_mla.Tensor.from_numpy(given[name])
    query = cann_mla.Tensor.empty((TOKENS, HEADS, 512), "BF16")
    for _ in range(2):
        result = ops.mla_prolog_v3(**given, query=query, stream=stream)
        assert result.query is query
    stream.synchronize()
    np.testing.assert_array_equal(query.to_numpy(), expected)
    assert not given["weight_dq"].closed


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"quant": "full_mxfp8"}, ValueError, "does not exist on Ascend910B"),
        ({"quant": "partial_int8_kv_per_tile", "cache_mode": "PA_NZ"}, ValueError, "legal are PA_BSND, BSND, TND"),
        ({"quant": "int4"}, ValueError, "no scenario of MlaPrologV3"),
        ({"token_x": np.zeros(5, BF16)}, ValueError, r"token_x has shape \(5,\); it must have 2 or 3 dimensions"),
        ({"token_x": [1.0]}, TypeError, "token_x must be a Tensor or a NumPy array, not list"),
        ({"token_x": np.zeros((TOKENS, HE))}, cann_mla.CannError, "tokenX"),
        ({"rmsnorm_epsilon_cq": "small"}, TypeError, "rmsnormEpsilonCq"),
        ({"cache_index": None}, cann_mla.CannError, "cacheIndex"),
    ],
)
def test_refusals(stream: cann_mla.Stream, change: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ops.mla_prolog_v3(**{**operands(), **change}, stream=stream)
    assert cann_mla.Tensor.zeros((2,), "FP32").to_numpy().tolist() == [0, 0]  # the process works on


def test_an_output_of_another_shape_is_refused_before_the_call(stream: cann_mla.Stream) -> None:
    wrong = cann_mla.Tensor.empty((TOKENS, HEADS, 511), "BF16")
    with pytest.raises(ValueError, match=r"query must be BF16 \[3, 2, 512\] here; .*BF16 \[3, 2, 511\]"):
        ops.mla_prolog_v3(**operands(), query=wrong, stream=stream)


def test_a_read_only_cache_array_is_refused(stream: cann_mla.Stream) -> None:
    given = operands()
    given["kv_cache"].flags.writeable = False
    with pytest.raises(ValueError, match="kv_cache is updated in place, but the array is read-only"):
        ops.mla_prolog_v3(**given, stream=stream)

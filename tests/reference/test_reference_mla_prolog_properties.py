"""What must hold for MlaProlog whatever the numbers are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cann_mla.dtypes import BF16, FLOAT8_E8M0, FP32, INT8, dtype
from cann_mla.per_tile_row import payload
from cann_mla.reference.mla_prolog import MlaPrologResult, mla_prolog_v3
from cann_mla.reference.rounding import widen

Make = Callable[..., dict[str, Any]]

SOME_SCENARIOS = [(0, 0), (1, 2), (1, 3), (2, 1), (3, 1), (4, 3), (5, 1)]
TOKENS = 7
PER_TOKEN = ("token_x", "rope_sin", "rope_cos", "cache_index", "dequant_scale_x")
once_a_fixture = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run(o: dict[str, Any], **changes: Any) -> MlaPrologResult:
    return mla_prolog_v3(**{"soc": "Ascend950", "query_norm": True, **o, **changes})


def bits(array: np.ndarray | None) -> np.ndarray:
    """Bytes, so that NaN and noise compare; one row a token for outputs."""
    assert array is not None
    return np.ascontiguousarray(array).reshape(array.shape[0], -1).view(np.uint8)


def arrays(result: MlaPrologResult) -> list[np.ndarray]:
    """Everything with one row a token."""
    found = (
        result.query,
        result.query_rope,
        result.dequant_scale_q_nope,
        result.query_norm,
        result.dequant_scale_q_norm,
    )
    return [array for array in found if array is not None]


def outputs(result: MlaPrologResult) -> list[np.ndarray]:
    return [bits(array) for array in arrays(result)]


def assert_same_up_to_summation(one: np.ndarray, other: np.ndarray) -> None:
    """A BLAS may sum in another order where a row has another place: one step of the type apart."""
    kind = dtype(one.dtype)
    if kind is INT8:
        assert np.abs(one.astype(int) - other.astype(int)).max() <= 1
        return
    one, other = widen(one, np.float64), widen(other, np.float64)
    step = {FP32: 1e-5, BF16: 2**-7, FLOAT8_E8M0: 0.0}.get(kind, 2**-3)
    np.testing.assert_allclose(one, other, rtol=step, atol=step * 2**-6 * np.abs(one).max())


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
@given(order=st.permutations(range(TOKENS)))
@once_a_fixture
def test_permuting_tokens_permutes_outputs(prolog_operands: Make, weight: int, cache: int, order: list[int]) -> None:
    o = prolog_operands(weight, cache, tokens=(TOKENS,))
    permuted = run({name: value[order] if name in PER_TOKEN else value for name, value in o.items()})
    straight = run(o)
    for there, here in zip(arrays(straight), arrays(permuted), strict=True):
        assert_same_up_to_summation(there[order], here)
    rows, width = o["cache_index"], o["kv_cache"].shape[-1]
    there, here = (r.kv_cache.reshape(-1, width)[rows] for r in (straight, permuted))
    if cache == 3:
        there, here = payload(there), payload(here)
    assert_same_up_to_summation(there, here)


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
@given(token=st.integers(0, TOKENS - 1))
@once_a_fixture
def test_changing_one_token_changes_only_its_rows(prolog_operands: Make, weight: int, cache: int, token: int) -> None:
    o = prolog_operands(weight, cache, tokens=(TOKENS,))
    other = o["token_x"].copy()
    other[token] = other[token, ::-1]
    straight, changed = run(o), run(o, token_x=other)
    rest = np.arange(TOKENS) != token
    for before, after in zip(outputs(straight), outputs(changed), strict=True):
        np.testing.assert_array_equal(before[rest], after[rest])
    assert (bits(straight.query)[token] != bits(changed.query)[token]).any()
    width = o["kv_cache"].shape[-1] * o["kv_cache"].itemsize
    rows = np.arange(o["kv_cache"].size // o["kv_cache"].shape[-1])
    before, after = (r.kv_cache.view(np.uint8).reshape(-1, width) for r in (straight, changed))
    different = (before != after).any(axis=1)
    assert rows[different].tolist() == [o["cache_index"][token]]


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
@pytest.mark.parametrize("precision", ["device", "exact"])
def test_rows_outside_the_indices_keep_every_bit(
    prolog_operands: Make, weight: int, cache: int, precision: str
) -> None:
    o = prolog_operands(weight, cache, tokens=(TOKENS,))
    o["cache_index"][[1, 4]] = [-1, -7]
    result = run(o, precision=precision)
    untouched = np.setdiff1d(np.arange(48), o["cache_index"])
    assert untouched.size == 48 - (TOKENS - 2)
    for before, after in ((o["kv_cache"], result.kv_cache), (o["kr_cache"], result.kr_cache)):
        if before.size == 0 or after.dtype != before.dtype:
            continue
        np.testing.assert_array_equal(
            before.reshape(48, -1)[untouched].view(np.uint8), after.reshape(48, -1)[untouched].view(np.uint8)
        )


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
def test_operands_are_not_modified(prolog_operands: Make, weight: int, cache: int) -> None:
    o = prolog_operands(weight, cache)
    before = {name: value.tobytes() for name, value in o.items() if isinstance(value, np.ndarray)}
    run(o)
    assert before == {name: value.tobytes() for name, value in o.items() if isinstance(value, np.ndarray)}


def doubled(small: np.ndarray | None, large: np.ndarray | None) -> None:
    assert small is not None
    assert large is not None
    np.testing.assert_array_equal(small.astype(np.float32) * 2, large.astype(np.float32))


def test_alpha_q_scales_norm_query_and_its_rotated_part(prolog_operands: Make) -> None:
    """A power of two commutes with every rounding."""
    o = prolog_operands(0, 0)
    plain, scaled = run(o), run(o, qc_qr_scale=2.0)
    doubled(plain.query_norm, scaled.query_norm)
    doubled(plain.query, scaled.query)
    doubled(plain.query_rope, scaled.query_rope)
    assert plain.kv_cache.tobytes() == scaled.kv_cache.tobytes()
    assert plain.kr_cache.tobytes() == scaled.kr_cache.tobytes()


@pytest.mark.parametrize("weight", [1, 2, 4, 5])
def test_alpha_q_moves_into_the_scale_of_a_quantised_norm(prolog_operands: Make, weight: int) -> None:
    o = prolog_operands(weight, 0)
    plain, scaled = run(o), run(o, qc_qr_scale=2.0)
    np.testing.assert_array_equal(bits(plain.query_norm), bits(scaled.query_norm))
    doubled(plain.dequant_scale_q_norm, scaled.dequant_scale_q_norm)
    doubled(plain.query, scaled.query)


def test_alpha_kv_scales_the_compressed_key_alone(prolog_operands: Make) -> None:
    o = prolog_operands(0, 0)
    plain, scaled = run(o), run(o, kc_scale=2.0)
    rows = o["cache_index"]
    doubled(plain.kv_cache.reshape(48, 512)[rows], scaled.kv_cache.reshape(48, 512)[rows])
    assert plain.kr_cache.tobytes() == scaled.kr_cache.tobytes()
    assert plain.query.tobytes() == scaled.query.tobytes()


def test_cache_scale_divides_the_rotated_query_by_that_of_the_query(prolog_operands: Make) -> None:
    """Score = scale_q * (q . k) / scale_ckv + rotated parts: those get scale_ckv / scale_q beforehand."""
    o = prolog_operands(2, 1)
    plain, scaled = run(o), run(o, quant_scale_ckv=o["quant_scale_ckv"] * 2)
    doubled(plain.query_rope, scaled.query_rope)
    np.testing.assert_array_equal(bits(plain.query), bits(scaled.query))


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
@pytest.mark.parametrize(("mode", "tokens"), [("PA_BSND", (0,)), ("TND", (0,)), ("BSND", (2, 0))])
def test_no_tokens(prolog_operands: Make, weight: int, cache: int, mode: str, tokens: tuple[int, ...]) -> None:
    o = prolog_operands(weight, cache, tokens=tokens, mode=mode)
    result = run(o)
    assert result.query.shape == (*tokens, 2, 512)
    assert result.query_rope.shape == (*tokens, 2, 64)
    assert result.kv_cache.tobytes() == o["kv_cache"].tobytes()


@pytest.mark.parametrize(("weight", "cache"), SOME_SCENARIOS)
def test_a_cache_without_blocks_leaves_the_query_path_as_it_is(prolog_operands: Make, weight: int, cache: int) -> None:
    o = prolog_operands(weight, cache)
    empty = {name: o[name][:0] for name in ("kv_cache", "kr_cache")}
    for full, bare in zip(outputs(run(o)), outputs(run(o, **empty)), strict=True):
        np.testing.assert_array_equal(full, bare)


@pytest.mark.parametrize(("weight", "cache"), [(0, 0), (2, 1), (3, 1), (5, 3)])
def test_nan_stays_with_its_token(prolog_operands: Make, weight: int, cache: int) -> None:
    """NaN in a token's scale (or in the token): zeros in eight-bit outputs, NaN in floating ones."""
    o = prolog_operands(weight, cache)
    poisoned = {name: o[name].copy() for name in ("token_x", "dequant_scale_x") if name in o}
    if weight == 3:
        poisoned["dequant_scale_x"].view(np.uint8)[2] = 255
    elif weight:
        poisoned["dequant_scale_x"][2] = np.nan
    else:
        poisoned["token_x"][2] = np.nan
    straight, result = run(o), run(o, **poisoned)
    rest = np.arange(5) != 2
    for before, after in zip(outputs(straight), outputs(result), strict=True):
        np.testing.assert_array_equal(before[rest], after[rest])
    assert np.isnan(result.query_rope[2].astype(np.float32)).all()
    if cache == 1:
        assert not (bits(result.query)[2] & 0x7F).any()
    if weight:
        assert result.query_norm is not None
        assert not bits(result.query_norm)[2].any()


def test_blocks_of_tokens_and_heads_do_not_show(prolog_operands: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    o = prolog_operands(2, 1, tokens=(11,))
    whole = run(o)
    monkeypatch.setattr("cann_mla.reference.mla_prolog._TOKENS_AT_ONCE", 3)
    monkeypatch.setattr("cann_mla.reference.mla_prolog._HEADS_AT_ONCE", 1)
    cut = run(o)
    for one, other in zip(arrays(whole), arrays(cut), strict=True):
        assert_same_up_to_summation(one, other)
    assert_same_up_to_summation(whole.kv_cache, cut.kv_cache)

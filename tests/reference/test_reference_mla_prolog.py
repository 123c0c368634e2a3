"""MlaProlog V3: every scenario against the textbook, written here a second time, one token at a time."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cann_mla import per_tile_row
from cann_mla.dtypes import BF16, FLOAT8_E4M3FN, HIFLOAT8, INT8, dtype
from cann_mla.reference.mla_prolog import MlaPrologResult, mla_prolog_v3
from cann_mla.reference.rounding import cast_saturating, widen

Make = Callable[..., dict[str, Any]]

SCENARIOS = [(0, 0), (1, 0), (1, 2), (1, 3)] + [(w, c) for w in (2, 3, 4, 5) for c in (0, 1, 3)]
ROW_MODES = ("PA_BSND", "BSND", "TND")
ALL_MODES = (*ROW_MODES, "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ")
TOP = {INT8: 127.0, FLOAT8_E4M3FN: 448.0, HIFLOAT8: 32768.0}
NOPE, ROPE, LATENT_KV = 32, 64, 512


def layouts(mode: str) -> list[tuple[int, ...]]:
    fused, unfused = (6,), (2, 3)
    return [unfused] if mode == "BSND" else [fused] if mode == "TND" else [fused, unfused]


def combinations() -> list[tuple[int, int, str, tuple[int, ...], str]]:
    """Every legal combination of scenario, cache mode, layout and product."""
    found = []
    for (weight, cache), mode in itertools.product(SCENARIOS, ALL_MODES):
        if cache == 3 and mode not in ROW_MODES:
            continue
        for soc in ("Ascend910B", "Ascend910_93", "Ascend950") if weight <= 2 else ("Ascend950",):
            found += [(weight, cache, mode, tokens, soc) for tokens in layouts(mode)]
    return found


# ---- the textbook ---------------------------------------------------------------------------------


def values_of(array: np.ndarray, scale: np.ndarray | None, mx: bool) -> np.ndarray:
    """Real numbers behind a quantised operand whose last axis is the reduction."""
    values: np.ndarray = widen(array, np.float64)
    if scale is None:
        return values
    if mx:
        values *= np.repeat(2.0 ** (scale.view(np.uint8).astype(float) - 127), 32, axis=-1)
    else:
        values *= scale.astype(np.float64).reshape(-1, 1)
    return values


def rms(row: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    normed: np.ndarray = row / np.sqrt(np.mean(row**2) + 1e-5) * widen(gamma, np.float64)
    return normed


def rope(v: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    out = np.empty(64)
    for i in range(32):
        out[i] = v[2 * i] * cos[i] - v[2 * i + 1] * sin[i]
        out[32 + i] = v[2 * i + 1] * cos[32 + i] + v[2 * i] * sin[32 + i]
    return out


def quantised(row: np.ndarray, kind: Any) -> tuple[np.ndarray, float]:
    scale = np.abs(row).max() / TOP[kind]
    return cast_saturating(row / scale, kind), scale


def mx_quantised(row: np.ndarray) -> np.ndarray:
    out = np.empty_like(row)
    for first in range(0, row.size, 32):
        block = row[first : first + 32]
        step = 2.0 ** (np.floor(np.log2(np.abs(block).max())) - 8)
        out[first : first + 32] = widen(cast_saturating(block / step, FLOAT8_E4M3FN), np.float64) * step
    return out


def textbook(o: dict[str, Any], t: int, precision: str) -> dict[str, np.ndarray]:
    """Query, its scale and rotated part, and the key row of token t, in real numbers.

    For ``device`` with one rounding, that of c_q to BF16 before MX: it flips many elements by an eighth.
    """
    weight, cache = o["weight_quant_mode"], o["kv_cache_quant_mode"]
    mx, kind = weight == 3, dtype(o["weight_uq_qr"].dtype)

    def flat(name: str) -> np.ndarray:
        array: np.ndarray = o[name]
        return array.reshape(-1, array.shape[-1])

    scale_x = o.get("dequant_scale_x")
    x = values_of(flat("token_x")[t : t + 1], None if scale_x is None else scale_x[t : t + 1], mx)[0]
    cos, sin = widen(flat("rope_cos")[t], np.float64), widen(flat("rope_sin")[t], np.float64)
    c_q = rms(values_of(o["weight_dq"].T, o.get("dequant_scale_w_dq"), mx) @ x, o["rmsnorm_gamma_cq"])
    if mx:
        c_q = mx_quantised(c_q if precision == "exact" else c_q.astype(BF16.numpy).astype(np.float64))
    elif weight:
        elements, scale = quantised(c_q, kind)
        c_q = widen(elements, np.float64) * scale
    u = values_of(o["weight_uq_qr"].T, o.get("dequant_scale_w_uq_qr"), mx) @ c_q
    heads = u.reshape(-1, NOPE + ROPE)
    query = np.stack([h[:NOPE] @ widen(o["weight_uk"][n], np.float64) for n, h in enumerate(heads)])
    query_rope = np.stack([rope(h[NOPE:], cos, sin) for h in heads])
    result = {"query": query, "query_rope": query_rope}
    if cache == 1:
        scales = np.abs(query).max(axis=1, keepdims=True) / TOP[kind]
        result["query"] = query / scales
        result["query_rope"] = query_rope * o["quant_scale_ckv"][0] / scales
        result["scale"] = scales
    k = values_of(o["weight_dkv_kr"].T, o.get("dequant_scale_w_dkv_kr"), mx) @ x
    result["k_nope"], result["k_rope"] = (
        rms(k[:LATENT_KV], o["rmsnorm_gamma_ckv"]),
        rope(k[LATENT_KV:], cos, sin),
    )
    return result


def textbook_of_all(o: dict[str, Any], precision: str) -> dict[str, np.ndarray]:
    tokens = [textbook(o, t, precision) for t in range(int(np.prod(o["token_x"].shape[:-1])))]
    return {name: np.stack([token[name] for token in tokens]) for name in tokens[0]}


def real(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == np.float64 else widen(array, np.float64)


def cache_rows(o: dict[str, Any], cache: np.ndarray, declared: np.ndarray) -> np.ndarray:
    """Rows that the tokens own, read back by the addressing of the specification, written out here again."""
    mode, width = o["cache_mode"], cache.shape[-1]
    tokens = o["token_x"].shape[:-1]
    count = int(np.prod(tokens))
    if mode in ("BSND", "TND"):
        return cache.reshape(count, width)
    index: np.ndarray = o["cache_index"].reshape(-1)
    if mode.startswith("PA_BLK"):
        length = tokens[-1]
        index = np.array([index[t // length] * 16 + t % length for t in range(count)])
    flat: np.ndarray = cache.reshape(-1)
    if not mode.endswith("NZ"):
        return np.stack([flat[i * width : (i + 1) * width] for i in index])
    c0 = 32 // declared.itemsize
    c = np.arange(width)
    return np.stack([flat[(i // 16) * 16 * width + (c // c0) * 16 * c0 + (i % 16) * c0 + c % c0] for i in index])


def run(o: dict[str, Any], **settings: Any) -> MlaPrologResult:
    return mla_prolog_v3(**o, **settings)


def check_key(o: dict[str, Any], result: MlaPrologResult, truth: dict[str, np.ndarray], rtol: float, off: int) -> None:
    """Compare the written cache rows; quantised elements may be `off` apart, floating ones `rtol`."""
    kind, cache = dtype(o["kv_cache"].dtype), o["kv_cache_quant_mode"]
    rows = cache_rows(o, result.kv_cache, o["kv_cache"])
    nope, rotated = truth["k_nope"], truth["k_rope"]
    if cache == 3:
        tiles = nope.reshape(nope.shape[0], 4, 128)
        largest = np.abs(tiles).max(axis=-1)
        if kind is INT8:
            largest = largest * 0.9
            nope = np.clip(tiles, -largest[..., None], largest[..., None]).reshape(nope.shape)
        np.testing.assert_allclose(per_tile_row.scales(rows), largest / TOP[kind], rtol=max(rtol, 1e-6))
        np.testing.assert_allclose(widen(per_tile_row.rope(rows)), rotated, rtol=2**-7, atol=2**-7)
        scaled = nope / np.repeat(largest / TOP[kind], 128, axis=-1)
        check_elements(per_tile_row.payload(rows), scaled, off)
        return
    kr_rows = cache_rows(o, result.kr_cache, o["kr_cache"])
    if cache == 0:
        np.testing.assert_allclose(real(rows), nope, rtol=rtol, atol=rtol)
    else:
        check_elements(rows, nope * o["quant_scale_ckv"].reshape(1, -1), off)
    if cache == 2:
        check_elements(kr_rows, rotated * o["quant_scale_ckr"], off)
    else:
        np.testing.assert_allclose(real(kr_rows), rotated, rtol=rtol, atol=rtol)


def check_elements(elements: np.ndarray, scaled: np.ndarray, off: int) -> None:
    """Eight-bit elements against the real numbers they stand for."""
    kind = dtype(elements.dtype)
    expected = cast_saturating(scaled, kind)
    if kind is INT8:
        assert np.abs(elements.astype(int) - expected.astype(int)).max() <= off
    elif off == 0:
        np.testing.assert_array_equal(widen(elements), widen(expected))
    else:
        # one step apart: an eighth, in the outer binades of HIFLOAT8 a half
        step = 0.51 if kind is HIFLOAT8 else 0.126
        np.testing.assert_allclose(widen(elements), widen(expected), rtol=step, atol=TOP[kind] * 2**-8)


# ---- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "cache"), SCENARIOS)
def test_exact_precision_is_the_textbook(prolog_operands: Make, weight: int, cache: int) -> None:
    o = prolog_operands(weight, cache, tokens=(6,))
    result, truth = run(o, soc="Ascend950", precision="exact"), textbook_of_all(o, "exact")
    if cache == 1:
        assert result.dequant_scale_q_nope is not None
        np.testing.assert_allclose(result.dequant_scale_q_nope, truth["scale"], rtol=1e-9)
        check_elements(result.query, truth["query"], off=0)
    else:
        np.testing.assert_allclose(result.query, truth["query"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.query_rope, truth["query_rope"], rtol=1e-9, atol=1e-9)
    check_key(o, result, truth, rtol=1e-9, off=0)


@pytest.mark.parametrize(("weight", "cache", "mode", "tokens", "soc"), combinations())
def test_device_precision_stays_near_the_textbook(
    prolog_operands: Make, weight: int, cache: int, mode: str, tokens: tuple[int, ...], soc: str
) -> None:
    o = prolog_operands(weight, cache, tokens=tokens, mode=mode)
    result, truth = run(o, soc=soc), textbook_of_all(o, "device")
    assert result.query.shape == (*tokens, 2, LATENT_KV)
    assert result.query_rope.shape == (*tokens, 2, ROPE)
    assert result.query.dtype == (o["kv_cache"].dtype if cache == 1 else BF16.numpy)
    query = result.query.reshape(truth["query"].shape)
    if cache == 1:
        check_elements(query, truth["query"], off=2)
        assert result.dequant_scale_q_nope is not None
        np.testing.assert_allclose(result.dequant_scale_q_nope, truth["scale"], rtol=0.1 if weight == 3 else 0.03)
    else:
        close(real(query), truth["query"])
    close(real(result.query_rope).reshape(truth["query_rope"].shape), truth["query_rope"])
    check_key(o, result, truth, rtol=2**-6, off=1)


def close(values: np.ndarray, truth: np.ndarray) -> None:
    """Within 3 % of the largest value of a row: BF16 steps, and now and then a flipped quantised element."""
    assert (np.abs(values - truth) <= 0.03 * np.abs(truth).max(axis=-1, keepdims=True)).all()


@pytest.mark.parametrize(("weight", "cache"), [(0, 0), (1, 2), (2, 1), (3, 1), (5, 0)])
def test_query_norm_is_the_operand_of_the_up_projection(prolog_operands: Make, weight: int, cache: int) -> None:
    o = prolog_operands(weight, cache, tokens=(2, 2))
    result = run(o, soc="Ascend950", query_norm=True)
    without = run(o, soc="Ascend950")
    assert result.query_norm is not None
    assert result.query_norm.shape == (2, 2, 128)
    assert result.query_norm.dtype == o["weight_uq_qr"].dtype
    assert without.query_norm is None
    assert without.dequant_scale_q_norm is None
    if weight == 0:
        assert result.dequant_scale_q_norm is None
        return
    assert result.dequant_scale_q_norm is not None
    assert result.dequant_scale_q_norm.shape == ((4, 4) if weight == 3 else (4, 1))
    norm = values_of(result.query_norm.reshape(4, 128), result.dequant_scale_q_norm, mx=weight == 3)
    u = norm @ values_of(o["weight_uq_qr"].T, o["dequant_scale_w_uq_qr"], weight == 3).T
    head = u[:, :NOPE] @ widen(o["weight_uk"][0], np.float64)
    query = result.query.reshape(4, 2, LATENT_KV)[:, 0]
    if cache == 1:
        check_elements(query, head / np.abs(head).max(axis=1, keepdims=True) * TOP[dtype(query.dtype)], off=1)
    else:
        close(real(query), head)


def test_smooth_scales_enter_query_norm_before_its_quantisation(prolog_operands: Make) -> None:
    o = prolog_operands(2, 0)
    plain = run(o, query_norm=True)
    doubled = run({**o, "smooth_scales_cq": np.full((1, 128), 2, np.float32)}, query_norm=True)
    np.testing.assert_array_equal(doubled.query_norm, plain.query_norm)
    np.testing.assert_array_equal(doubled.dequant_scale_q_norm, plain.dequant_scale_q_norm * np.float32(2))
    only_first = np.zeros((1, 128), np.float32)
    only_first[0, 0] = 1
    masked = run({**o, "smooth_scales_cq": only_first}, query_norm=True)
    assert masked.query_norm is not None
    assert not masked.query_norm[:, 1:].any()
    assert (np.abs(masked.query_norm[:, 0]) == 127).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_quant_mode": 1, "kv_cache_quant_mode": 1}, "not a scenario"),
        ({"weight_quant_mode": 6}, "not a scenario"),
        ({"weight_quant_mode": 3}, "Ascend950 only"),
        ({"soc": "Ascend310"}, "soc must be one of"),
        ({"precision": "double"}, "precision must be one of"),
        ({"dequant_scale_w_uq_qr": None}, "needs dequant_scale_w_uq_qr"),
        ({"cache_index": None}, "needs cache_index"),
        ({"cache_index": np.array([0, 1, 2, 3, 48])}, "row 48 lies outside"),
    ],
)
def test_what_cannot_be_is_refused(prolog_operands: Make, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run({**prolog_operands(1, 0), **changes})


def test_unknown_operands_are_refused(prolog_operands: Make) -> None:
    with pytest.raises(TypeError, match="token_y"):
        run({**prolog_operands(), "token_y": 1})

"""AtbMLAPreprocess: the formula step by step, and identities between cache and weight forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import BF16, Array
from cann_mla.reference.atb_mla_preprocess import mla_preprocess

Rounding = Callable[[Array], Array]

HIDDEN, HEADS, TOKENS = 64, 2, 3
LATENT, DOWN, UP = 1536, 2112, HEADS * 192


def operands(quant_mode: int = 0, cache_mode: int = 1, kind: Any = BF16.numpy) -> dict[str, Any]:
    rng = np.random.default_rng(quant_mode)

    def normal(*shape: int, spread: float = 1.0) -> Array:
        return (rng.standard_normal(shape) * spread).astype(kind)

    given: dict[str, Any] = {
        "input": normal(TOKENS, HIDDEN),
        "wdqkv": rng.integers(-20, 21, (DOWN, HIDDEN), np.int8),
        "wuq": rng.integers(-20, 21, (UP, LATENT), np.int8),
        "wuk": normal(HEADS, 128, 512, spread=0.1),
        "gamma2": normal(512),
        "cos": normal(TOKENS, 64),
        "sin": normal(TOKENS, 64),
        "slotmapping": np.array([130, -1, 5], np.int32),
        "quant_mode": quant_mode,
        "cache_mode": cache_mode,
    }
    for number, (width, outputs) in enumerate(((HIDDEN, DOWN), (LATENT, UP))):
        given |= {f"gamma{number}": normal(width), f"beta{number}": normal(width, spread=0.1)}
        given[f"de_scale{number}"] = ((rng.random(outputs) + 0.5) * 1e-4).astype(np.float32)
        if quant_mode == 0:
            given[f"bias{number}"] = rng.integers(-500, 500, outputs).astype(np.int32)
            given[f"quant_scale{number}"] = np.array([0.03], kind)
            given[f"quant_offset{number}"] = np.array([number * 3 - 1], np.int8)
    noise = rng.integers(0, 100, (2, 128, 1, 512)).astype(kind)
    rope_noise = rng.integers(0, 100, (2, 128, 1, 64)).astype(kind)
    if cache_mode == 0:
        return {**given, "kv_cache": np.concatenate([noise, rope_noise], axis=-1)}
    if cache_mode == 1:
        return {**given, "kv_cache": noise, "kv_cache_rope": rope_noise}
    c0 = 32 if cache_mode == 2 else 16
    element = np.int8 if cache_mode == 2 else kind
    given["kv_cache"] = blocked(noise, c0).astype(element)
    given["kv_cache_rope"] = blocked(rope_noise, 16)
    if cache_mode == 2:
        given |= {"ctkv_scale": np.array([0.02], kind), "q_nope_scale": np.array([5.0, 2.0], kind)}
    return given


def blocked(cache: Array, c0: int) -> Array:
    """Element (block b, row r, channel c) moved to ((b * D / c0 + c // c0) * 128 + r) * c0 + c % c0."""
    count, rows, _, width = cache.shape
    b, r, c = np.ogrid[:count, :rows, :width]
    moved = np.empty(cache.size, cache.dtype)
    moved[((b * (width // c0) + c // c0) * rows + r) * c0 + c % c0] = cache[:, :, 0]
    return moved.reshape(count, width // c0, rows, c0)


def norm(x: Array) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6))


def turned(x: Array, cos: Array, sin: Array) -> Array:
    """Halves rotate: the first takes minus the second, the second takes the first."""
    first, second = x[..., :32], x[..., 32:]
    return np.concatenate([first * cos[..., :32] - second * sin[..., :32],
                           second * cos[..., 32:] + first * sin[..., 32:]], -1)  # fmt: skip


def unchanged(x: Array) -> Array:
    return x


def formula(given: dict[str, Any], store: Rounding = unchanged, half: Rounding = unchanged) -> dict[str, Array]:
    """Every step in float64, token by token; `store` and `half` round where the device holds 16 bits."""
    g = {n: np.asarray(v).astype(np.float64) for n, v in given.items()}
    results: dict[str, list[Array]] = {"nope": [], "q_pe": [], "ckv": [], "k_pe": []}
    for token in range(TOKENS):
        x = g["input"][token]
        for step, weight in ((0, "wdqkv"), (1, "wuq")):
            n = norm(x) * g[f"gamma{step}"] + g[f"beta{step}"]
            if given["quant_mode"] == 0:
                q = np.clip(np.rint(n / g[f"quant_scale{step}"] + g[f"quant_offset{step}"]), -128, 127)
                y = (g[weight] @ q + g[f"bias{step}"]) * g[f"de_scale{step}"]
            else:
                n = half(n)
                d = np.abs(n).max() / 127
                y = g[weight] @ np.rint(n / d) * g[f"de_scale{step}"] * d
            y = store(y)
            if step == 0:
                ckv, k_pe, x = y[:512], y[512:576], y[576:]
        heads = y.reshape(HEADS, 192)
        cos, sin = g["cos"][token], g["sin"][token]
        results["nope"].append(store(np.stack([heads[h, :128] @ g["wuk"][h] for h in range(HEADS)])))
        results["q_pe"].append(store(turned(heads[:, 128:], cos, sin)))
        results["ckv"].append(store(norm(ckv) * g["gamma2"]))
        results["k_pe"].append(store(turned(k_pe, cos, sin)))
    return {name: np.stack(rows) for name, rows in results.items()}


@pytest.mark.parametrize("quant_mode", [0, 1])
def test_steps_by_the_formula(quant_mode: int) -> None:
    given = operands(quant_mode)
    want = formula(given)
    got = mla_preprocess(**given, precision="exact")
    np.testing.assert_allclose(got.q_out0, want["nope"], rtol=1e-9, atol=1e-9)
    assert got.q_out1 is not None
    assert got.kv_cache_out1 is not None
    np.testing.assert_allclose(got.q_out1, want["q_pe"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got.kv_cache_out0[1, 2, 0], want["ckv"][0], rtol=1e-9)
    np.testing.assert_allclose(got.kv_cache_out0[0, 5, 0], want["ckv"][2], rtol=1e-9)
    np.testing.assert_allclose(got.kv_cache_out1[0, 5, 0], want["k_pe"][2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("quant_mode", [0, 1])
@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
def test_device_precision_rounds_what_it_stores(quant_mode: int, kind: Any) -> None:
    given = operands(quant_mode, kind=kind)
    got = mla_preprocess(**given)
    want = formula(given, lambda x: x.astype(kind).astype(float), lambda x: x.astype(np.float16).astype(float))
    # Sums in single precision end on the other side of a tie now and then.
    assert got.q_out1 is not None
    assert (got.q_out0 == want["nope"]).mean() > 0.98
    assert (got.q_out1 == want["q_pe"]).mean() > 0.98
    assert (got.kv_cache_out0[0, 5, 0] == want["ckv"][2]).mean() > 0.98


@pytest.mark.parametrize("quant_mode", [0, 1])
@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
def test_device_precision_has_the_types_and_stays_near(quant_mode: int, kind: Any) -> None:
    given = operands(quant_mode, kind=kind)
    device, exact = mla_preprocess(**given), mla_preprocess(**given, precision="exact")
    for name in ("q_out0", "q_out1", "kv_cache_out0", "kv_cache_out1"):
        got, want = getattr(device, name), getattr(exact, name)
        assert got.dtype == kind
        assert np.abs(got.astype(float) - want).max() <= 0.02 * np.abs(want).max()


def test_rows_that_no_token_writes_keep_their_bytes() -> None:
    given = operands()
    before = given["kv_cache"].copy()
    result = mla_preprocess(**given)
    changed = (result.kv_cache_out0 != before).any(axis=(2, 3))
    assert np.argwhere(changed).tolist() == [[0, 5], [1, 2]]
    np.testing.assert_array_equal(given["kv_cache"], before)


def test_one_cache_holds_both_parts() -> None:
    one, two = mla_preprocess(**operands(cache_mode=0)), mla_preprocess(**operands(cache_mode=1))
    assert two.q_out1 is not None
    assert two.kv_cache_out1 is not None
    np.testing.assert_array_equal(one.q_out0, np.concatenate([two.q_out0, two.q_out1], -1))
    np.testing.assert_array_equal(one.kv_cache_out0, np.concatenate([two.kv_cache_out0, two.kv_cache_out1], -1))
    assert one.q_out1 is None


def test_blocked_caches_hold_the_same() -> None:
    plain, nz = mla_preprocess(**operands(cache_mode=1)), mla_preprocess(**operands(cache_mode=3))
    np.testing.assert_array_equal(nz.kv_cache_out0, blocked(plain.kv_cache_out0, 16))
    assert plain.kv_cache_out1 is not None
    np.testing.assert_array_equal(nz.kv_cache_out1, blocked(plain.kv_cache_out1, 16))


def test_int8_queries_are_multiplied_and_keys_divided() -> None:
    given = operands(cache_mode=2)
    plain, eight = mla_preprocess(**operands(cache_mode=1)), mla_preprocess(**given)
    scaled = plain.q_out0.astype(np.float64) * np.array([5.0, 2.0])[:, None]
    np.testing.assert_array_equal(eight.q_out0, np.clip(np.rint(scaled), -128, 127))
    assert eight.kv_cache_out0.dtype == np.int8
    ckv = formula(given)["ckv"][2] / given["ctkv_scale"].astype(np.float64)
    row = eight.kv_cache_out0[0, :, 5].reshape(-1)
    assert np.abs(row - np.clip(ckv, -128, 127)).max() <= 1
    assert eight.q_out1 is not None
    np.testing.assert_array_equal(eight.q_out1, plain.q_out1)


def test_blocked_weights_hold_the_same() -> None:
    given = operands()
    want = mla_preprocess(**given)
    for name in ("wdqkv", "wuq"):
        rows, columns = given[name].shape
        given[name] = given[name].reshape(rows, columns // 32, 32).swapaxes(0, 1)[None]
    given["wuk"] = given["wuk"].reshape(HEADS, 128, 32, 16).swapaxes(1, 2)
    np.testing.assert_array_equal(mla_preprocess(**given).q_out0, want.q_out0)


def test_scales_may_come_as_bits_in_64() -> None:
    given = operands(kind=np.float16)
    want = mla_preprocess(**given)
    for name in ("de_scale0", "de_scale1"):
        given[name] = given[name].view(np.uint32).astype(np.int64)
    np.testing.assert_array_equal(mla_preprocess(**given).q_out0, want.q_out0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"quant_mode": 3}, NotImplementedError, "quantMode"),
        ({"wdqkv": np.zeros((DOWN, HIDDEN), BF16.numpy)}, NotImplementedError, "INT8"),
        ({"cache_mode": 4}, ValueError, "cacheMode"),
        ({"kv_cache_rope": None}, ValueError, "kvCacheRope"),
        ({"cache_mode": 2}, ValueError, "ctkvScale"),
        ({"quant_scale0": None}, ValueError, "quantScale0"),
        ({"slotmapping": np.array([256, 0, 1], np.int32)}, ValueError, "outside"),
    ],
)
def test_modes_without_their_operands_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mla_preprocess(**{**operands(), **change})

"""mla_prolog_quant: the published golden at real size, and the textbook at a small one."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import BF16, FP32, INT8, from_bits
from cann_mla.reference import evaluate
from cann_mla.reference.mla_prolog_quant import mla_prolog, mla_prolog_quant
from cann_mla.reference.rounding import widen

DATA = Path(__file__).parents[1] / "data" / "reference"
bf16 = ml_dtypes.bfloat16
TOKENS, HIDDEN, LATENT, HEADS, HEAD, ROPE = 5, 64, 32, 3, 96, 64


def uniform(seed: int, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    """Tensor that the vector describes by its generator instead of holding it."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype(np.float32)


def published_inputs() -> dict[str, Any]:
    with np.load(DATA / "mla_prolog_quant_t2.npz") as held:
        stored = {name: from_bits(held[name], BF16) for name in ("token_x", "rope_cos", "rope_sin")}
    return {
        **stored,
        "wq_a": uniform(9001, (4096, 1024), -0.1, 0.1).astype(bf16),
        "wkv": uniform(9002, (4096, 512), -0.1, 0.1).astype(bf16),
        "gamma_cq": uniform(9003, (1024,), -1, 1).astype(bf16),
        "gamma_ckv": uniform(9004, (512,), -1, 1).astype(bf16),
        "wq_b": np.random.RandomState(9005).randint(-127, 128, (1024, 32768), np.int8),
        "wq_b_scale": uniform(9006, (32768, 1), 0.0005, 0.0009),
    }


def test_published_golden_at_real_size() -> None:
    """Tolerances of the operator's own test; the integers agree exactly."""
    result = mla_prolog_quant(**published_inputs())
    with np.load(DATA / "mla_prolog_quant_t2.expected.npz") as held:
        expected = dict(held)
    for name, array in (("q_out", result.q_out), ("kv_out", result.kv_out)):
        golden = from_bits(expected[name], BF16).astype(np.float64)
        off = np.abs(array.astype(np.float64) - golden) > 1e-4 + 2**-7 * np.abs(golden)
        assert off.mean() <= 0.005
    np.testing.assert_array_equal(result.qr_out, expected["qr_out"])
    assert result.qr_scale_out is not None
    np.testing.assert_allclose(result.qr_scale_out, expected["qr_scale_out"], rtol=1e-5)  # sums of 4096 terms


# ---- a small one ----------------------------------------------------------------------------------


def operands(seed: int = 0, *, quantised: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(bf16)

    given: dict[str, Any] = {
        "token_x": normal(TOKENS, HIDDEN),
        "wq_a": normal(HIDDEN, LATENT),
        "wkv": normal(HIDDEN, HEAD),
        "rope_cos": normal(TOKENS, ROPE),
        "rope_sin": normal(TOKENS, ROPE),
        "gamma_cq": normal(LATENT),
        "gamma_ckv": normal(HEAD),
        "wq_b": normal(LATENT, HEADS * HEAD),
    }
    if quantised:
        given["wq_b"] = rng.integers(-127, 128, (LATENT, HEADS * HEAD), np.int8)
        given["wq_b_scale"] = (rng.random((HEADS * HEAD, 1)) + 0.5).astype(np.float32) / 128
    return given


def rms(row: np.ndarray) -> np.ndarray:
    normed: np.ndarray = row / np.sqrt(np.mean(row**2) + 1e-6)
    return normed


def with_rotated_end(row: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    out: np.ndarray = row.copy()
    end = row[-ROPE:]
    for i in range(ROPE // 2):
        a, b = end[2 * i], end[2 * i + 1]
        out[HEAD - ROPE + 2 * i] = a * cos[2 * i] - b * sin[2 * i]
        out[HEAD - ROPE + 2 * i + 1] = b * cos[2 * i + 1] + a * sin[2 * i + 1]
    return out


def textbook(o: dict[str, Any]) -> dict[str, np.ndarray]:
    r = {name: widen(value, np.float64) for name, value in o.items()}
    found: dict[str, list[np.ndarray]] = {"q_out": [], "kv_out": [], "qr_out": [], "qr_scale_out": []}
    for x, cos, sin in zip(r["token_x"], r["rope_cos"], r["rope_sin"], strict=True):
        c = rms(x @ r["wq_a"]) * r["gamma_cq"]
        found["qr_out"].append(c)
        if "wq_b_scale" in o:
            scale = np.abs(c).max() / 127
            found["qr_out"][-1] = np.rint(c / scale)
            found["qr_scale_out"].append(np.array([scale]))
            f = (found["qr_out"][-1] @ r["wq_b"]) * scale * r["wq_b_scale"][:, 0]
        else:
            f = c @ r["wq_b"]
        heads = [with_rotated_end(rms(head), cos, sin) for head in f.reshape(HEADS, HEAD)]
        found["q_out"].append(np.stack(heads))
        found["kv_out"].append(with_rotated_end(rms(x @ r["wkv"]) * r["gamma_ckv"], cos, sin))
    return {name: np.stack(rows) for name, rows in found.items() if rows}


@pytest.mark.parametrize("quantised", [True, False])
def test_exact_precision_is_the_textbook(quantised: bool) -> None:
    o = operands(quantised=quantised)
    result = (mla_prolog_quant if quantised else mla_prolog)(**o, precision="exact")
    truth = textbook(o)
    for name, expected in truth.items():
        np.testing.assert_allclose(getattr(result, name), expected, rtol=1e-9, atol=1e-9)
    assert result.q_out.dtype == np.float64
    assert (result.qr_scale_out is None) == (not quantised)


@pytest.mark.parametrize("quantised", [True, False])
def test_device_precision_stays_near_the_textbook(quantised: bool) -> None:
    o = operands(quantised=quantised)
    result = (mla_prolog_quant if quantised else mla_prolog)(**o)
    truth = textbook(o)
    for name in ("q_out", "kv_out"):
        array = getattr(result, name)
        assert array.dtype == bf16
        bound = 2**-6 * np.abs(truth[name]).max(axis=-1, keepdims=True)
        assert (np.abs(array.astype(np.float64) - truth[name]) <= bound).all()
    if quantised:
        assert result.qr_out.dtype == np.int8
        assert np.abs(result.qr_out - truth["qr_out"]).max() <= 1
        assert result.qr_scale_out is not None
        np.testing.assert_allclose(result.qr_scale_out, truth["qr_scale_out"], rtol=1e-5)
    else:
        np.testing.assert_allclose(result.qr_out.astype(float), truth["qr_out"], rtol=2**-6, atol=2**-6)


def test_the_rotated_channels_are_rounded_before_and_after() -> None:
    """sin = 0, cos = 1.015625: what is stored is bf16(bf16(v) * cos), not bf16(v * cos)."""
    o = operands()
    o["rope_cos"] = np.full((TOKENS, ROPE), 1.015625, bf16)
    o["rope_sin"] = np.zeros((TOKENS, ROPE), bf16)
    still = mla_prolog_quant(**{**o, "rope_cos": np.ones((TOKENS, ROPE), bf16)})
    turned = mla_prolog_quant(**o)
    expected = (still.q_out[..., -ROPE:].astype(np.float32) * np.float32(1.015625)).astype(bf16)
    np.testing.assert_array_equal(turned.q_out[..., -ROPE:].view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(turned.q_out[..., :-ROPE], still.q_out[..., :-ROPE])


def test_a_token_of_zeros_has_neither_elements_nor_scale() -> None:
    o = operands()
    o["token_x"][2] = 0
    result = mla_prolog_quant(**o)
    assert not result.qr_out[2].any()
    assert result.qr_scale_out is not None
    assert result.qr_scale_out[2] == 0
    assert not result.q_out[2].astype(float).any()
    assert (result.qr_scale_out[[0, 1, 3, 4]] > 0).all()


def test_changing_one_token_changes_only_its_rows() -> None:
    o = operands()
    other = o["token_x"].copy()
    other[3] = other[3, ::-1]
    before, after = mla_prolog_quant(**o), mla_prolog_quant(**{**o, "token_x": other})
    for one, two in zip(before, after, strict=True):
        assert one is not None
        assert two is not None
        different = (one.astype(float) != two.astype(float)).reshape(TOKENS, -1).any(axis=1)
        assert different.tolist() == [False, False, False, True, False]


def test_by_name_and_product() -> None:
    o = operands()
    outputs = {"q_out": ((TOKENS, HEADS, HEAD), BF16), "qr_out": ((TOKENS, LATENT), INT8)}
    got = evaluate("mla_prolog_quant", o, {}, soc="Ascend910B", outputs=outputs)
    assert set(got) == set(outputs)
    with pytest.raises(ValueError, match="does not exist on Ascend950"):
        evaluate("mla_prolog_quant", o, {}, soc="Ascend950", outputs=outputs)
    plain = evaluate(
        "mla_prolog", operands(quantised=False), {}, soc="Ascend950", outputs={"kv_out": ((TOKENS, HEAD), FP32)}
    )
    assert set(plain) == {"kv_out"}

"""The composed prologs: by hand, against PyPTO's reference, over and over, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops, two_phase
from cann_mla.dtypes import BF16, from_bits
from cann_mla.ops import mla_prolog_quant_chain
from cann_mla.reference import mla_prolog_quant as reference

DATA = Path(__file__).parents[1] / "data" / "reference"
bf16 = ml_dtypes.bfloat16
OUTPUTS = ("q_out", "kv_out", "qr_out", "qr_scale_out")
T, HIDDEN, LATENT, HEADS, HEAD, ROPE = 6, 128, 64, 3, 96, 32


def operands(seed: int = 0, *, quantised: bool = True, tokens: int = T) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def uniform(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(bf16)

    given: dict[str, Any] = {
        "token_x": uniform(tokens, HIDDEN),
        "wq_a": uniform(HIDDEN, LATENT),
        "wq_b": uniform(LATENT, HEADS * HEAD),
        "wkv": uniform(HIDDEN, HEAD),
        "rope_cos": uniform(tokens, ROPE),
        "rope_sin": uniform(tokens, ROPE),
        "gamma_cq": uniform(LATENT),
        "gamma_ckv": uniform(HEAD),
    }
    if quantised:
        given["wq_b"] = rng.integers(-127, 128, (LATENT, HEADS * HEAD), np.int8)
        given["wq_b_scale"] = rng.uniform(7e-4, 8e-4, (HEADS * HEAD, 1)).astype(np.float32)
    return given


def call(given: dict[str, Any], stream: cann_mla.Stream, **options: Any) -> dict[str, np.ndarray]:
    function = ops.mla_prolog_quant if "wq_b_scale" in given else ops.mla_prolog
    with function(**given, stream=stream, any_sizes=True, **options) as result:
        stream.synchronize()
        found = {name: getattr(result, name) for name in OUTPUTS}
        return {name: tensor.to_numpy() for name, tensor in found.items() if tensor is not None}


def outside(got: np.ndarray, want: np.ndarray, atol: float, rtol: float) -> float:
    """Share of elements that differ by more than atol + rtol |want|."""
    wide = want.astype(np.float64)
    return float((np.abs(got.astype(np.float64) - wide) > atol + rtol * np.abs(wide)).mean())


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name].view(np.uint8), other[name].view(np.uint8), err_msg=name)


# ---- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("product_dtype", ["FP32", "BF16"])
@pytest.mark.parametrize("chain", ["FP32", "16-bit"])
def test_one_token_by_hand(stream: cann_mla.Stream, chain: str, product_dtype: str) -> None:
    """x wq_a = [2, 2] -> c = [1, 1] -> 127, 127 at 1/127 -> f = ones; the last two are turned by a right angle."""
    given = {
        "token_x": [[2, 0]],
        "wq_a": [[1, 1], [0, 0]],
        "wq_b": [[1, 0, 1, 0], [0, 1, 0, 1]],
        "wkv": [[3, 3, 3, 3], [0, 0, 0, 0]],
        "rope_cos": [[0, 0]],
        "rope_sin": [[1, 1]],
        "gamma_cq": [1, 1],
        "gamma_ckv": [1, 2, 4, 8],
    }
    arrays = {name: np.array(value, np.int8 if name == "wq_b" else bf16) for name, value in given.items()}
    options = {"chain": chain, "product_dtype": product_dtype}
    got = call({**arrays, "wq_b_scale": np.ones((4, 1), np.float32)}, stream, **options)
    assert got["qr_out"].tolist() == [[127, 127]]
    np.testing.assert_allclose(got["qr_scale_out"], [[1 / 127]], rtol=2**-22)
    assert got["q_out"].astype(float).tolist() == [[[1, 1, -1, 1]]]
    assert got["kv_out"].astype(float).tolist() == [[1, 2, -8, 4]]


def test_near_the_operator_itself(stream: cann_mla.Stream) -> None:
    given = operands(tokens=50)
    want, got = reference.mla_prolog_quant(**given), call(given, stream)
    for name in ("q_out", "kv_out"):
        assert outside(got[name], getattr(want, name), 1e-4, 2**-7) <= 0.005, name
    assert np.abs(got["qr_out"].astype(int) - want.qr_out).max() <= 1
    assert want.qr_scale_out is not None
    np.testing.assert_allclose(got["qr_scale_out"], want.qr_scale_out, rtol=2**-20)


def test_the_plain_chain_rounds_as_the_operator(stream: cann_mla.Stream) -> None:
    given = operands(quantised=False, tokens=50)
    want, got = reference.mla_prolog(**given), call(given, stream)
    assert set(got) == {"q_out", "kv_out", "qr_out"}
    for name, array in got.items():
        assert outside(array, getattr(want, name), 1e-4, 2**-7) <= 0.005, name


def test_published_vector_at_real_size(stream: cann_mla.Stream) -> None:
    """The numbers that the PyPTO operator's own golden gives; weights in FRACTAL_NZ, as its test has them."""

    def uniform(seed: int, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        return np.random.RandomState(seed).uniform(low, high, shape).astype(np.float32)

    def packed(weight: np.ndarray) -> cann_mla.Tensor:
        return cann_mla.Tensor.from_numpy(weight, format="FRACTAL_NZ")

    with np.load(DATA / "mla_prolog_quant_t2.npz") as held:
        given: dict[str, Any] = {name: from_bits(held[name], BF16) for name in ("token_x", "rope_cos", "rope_sin")}
    result = ops.mla_prolog_quant(
        **given,
        wq_a=packed(uniform(9001, (4096, 1024), -0.1, 0.1).astype(bf16)),
        wkv=packed(uniform(9002, (4096, 512), -0.1, 0.1).astype(bf16)),
        gamma_cq=uniform(9003, (1024,), -1, 1).astype(bf16),
        gamma_ckv=uniform(9004, (512,), -1, 1).astype(bf16),
        wq_b=packed(np.random.RandomState(9005).randint(-127, 128, (1024, 32768), np.int8)),
        wq_b_scale=uniform(9006, (32768, 1), 0.0005, 0.0009),
        stream=stream,
    )
    stream.synchronize()
    with np.load(DATA / "mla_prolog_quant_t2.expected.npz") as held:
        want = {name: held[name] for name in OUTPUTS}
    assert outside(result.q_out.to_numpy(), from_bits(want["q_out"], BF16), 1e-4, 2**-7) <= 0.005
    assert outside(result.kv_out.to_numpy(), from_bits(want["kv_out"], BF16), 1e-4, 2**-7) <= 0.005
    assert np.abs(result.qr_out.to_numpy().astype(int) - want["qr_out"]).max() <= 1
    assert outside(result.qr_scale_out.to_numpy(), want["qr_scale_out"], 2.5e-5, 5e-3) == 0


# ---- identities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"chain": "16-bit"}, None])
def test_packed_weights_give_the_same_bits(stream: cann_mla.Stream, options: dict[str, Any] | None) -> None:
    """None stands for the plain operator."""
    given, options = operands(quantised=options is not None), options or {}
    packed = {name: cann_mla.Tensor.from_numpy(given[name], format="FRACTAL_NZ") for name in ("wq_a", "wq_b", "wkv")}
    same(call({**given, **packed}, stream, **options), call(given, stream, **options))


@pytest.mark.parametrize("chain", ["FP32", "16-bit"])
def test_a_token_of_zeros_is_zero(stream: cann_mla.Stream, chain: str) -> None:
    """Its scale would be 127 / 0: the product with 0 is no number, which becomes the integer 0."""
    given = operands()
    given["token_x"][2] = 0
    got = call(given, stream, chain=chain)
    for name in OUTPUTS:
        assert not got[name][2].astype(float).any(), name
        assert got[name][3].astype(float).any(), name


@pytest.mark.parametrize("chain", ["FP32", "16-bit"])
def test_version_four_of_the_product_serves_where_five_is_missing(
    stream: cann_mla.Stream, monkeypatch: pytest.MonkeyPatch, chain: str
) -> None:
    given = operands()
    expected = call(given, stream, chain=chain)

    class Older:
        def has(self, symbol: str) -> bool:
            return symbol != "aclnnQuantMatmulV5"

    monkeypatch.setattr(mla_prolog_quant_chain, "load", Older)
    tensors: dict[str, Any] = {name: cann_mla.Tensor.from_numpy(array) for name, array in given.items()}
    with ops.MlaPrologQuantPlan(**tensors, any_sizes=True, chain=chain) as plan:
        assert "aclnnQuantMatmulV4" in plan.steps.symbols
        result = plan.run(stream)
        stream.synchronize()
        same({name: getattr(result, name).to_numpy() for name in OUTPUTS}, expected)


# ---- plans ----------------------------------------------------------------------------------------


def test_a_plan_runs_on_other_tokens_without_new_memory_or_waiting(
    stream: cann_mla.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = operands(1), operands(1)
    second["token_x"], second["rope_cos"] = operands(2)["token_x"], operands(2)["rope_cos"]
    expected = [call(given, stream) for given in (first, second)]
    tensors: dict[str, Any] = {name: cann_mla.Tensor.from_numpy(array) for name, array in first.items()}
    others = {name: cann_mla.Tensor.from_numpy(second[name]) for name in ("token_x", "rope_cos")}
    q_out = cann_mla.Tensor.zeros((T, HEADS, HEAD), "BF16")
    library = cann_mla.load()
    with ops.MlaPrologQuantPlan(**tensors, any_sizes=True) as plan:
        plan.run(stream)
        stream.synchronize()
        same({name: getattr(plan.outputs, name).to_numpy() for name in OUTPUTS}, expected[0])
        plan.replace(**others, q_out=q_out)
        before = library.cannMlaSimDeviceAllocations(0)
        with monkeypatch.context() as patch:
            patch.delattr(cann_mla.Stream, "synchronize")
            patch.delattr(cann_mla.Event, "synchronize")
            for _ in range(20):
                result = plan.run(stream)
        assert library.cannMlaSimDeviceAllocations(0) == before
        stream.synchronize()
        assert result.q_out is q_out
        same({name: getattr(result, name).to_numpy() for name in OUTPUTS}, expected[1])
        with pytest.raises(ValueError, match="no operand token_y"):
            plan.replace(token_y=q_out)


def test_outputs_may_be_given(stream: cann_mla.Stream) -> None:
    given = operands()
    tensors: dict[str, Any] = {name: cann_mla.Tensor.from_numpy(array) for name, array in given.items()}
    qr = cann_mla.Tensor.zeros((T, LATENT), "INT8")
    with ops.MlaPrologQuantPlan(**tensors, outputs={"qr_out": qr}, any_sizes=True) as plan:
        assert plan.run(stream).qr_out is qr
        stream.synchronize()
    np.testing.assert_array_equal(qr.to_numpy(), call(given, stream)["qr_out"])
    wrong = cann_mla.Tensor.zeros((T, LATENT), "BF16")
    with pytest.raises(ValueError, match=r"qr_out must be INT8 \[6, 64\]"):
        ops.MlaPrologQuantPlan(**tensors, outputs={"qr_out": wrong}, any_sizes=True)


@pytest.mark.parametrize(("chain", "sizes"), [("FP32", (4, 4)), ("16-bit", (2,))])
def test_memory_is_that_of_the_largest_intermediates(
    stream: cann_mla.Stream, chain: str, sizes: tuple[int, ...]
) -> None:
    """The second product in INT32 and FP32, or only in BF16; in units of 512 bytes with 32 behind."""
    tensors: dict[str, Any] = {n: cann_mla.Tensor.from_numpy(a) for n, a in operands(tokens=200).items()}
    with ops.MlaPrologQuantPlan(**tensors, any_sizes=True, chain=chain) as plan:
        largest = sum(-(-(200 * HEADS * HEAD * size + 32) // 512) * 512 for size in sizes)
        assert plan.steps.buffer_bytes <= largest + (0 if chain == "FP32" else 200 * LATENT * 4)


# ---- what is refused ------------------------------------------------------------------------------


def test_a_primitive_that_cann_lacks_is_named(stream: cann_mla.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    symbol, library = "aclnnInplacePartialRotaryMul", cann_mla.load()
    cann_mla.operator(symbol)  # what it finds is remembered, and comes back after the test
    find = type(library).address
    monkeypatch.setattr(type(library), "address", lambda self, name: None if symbol in name else find(self, name))
    monkeypatch.delitem(two_phase._operators, symbol)
    for name in (symbol, f"{symbol}GetWorkspaceSize"):
        monkeypatch.delitem(library.__dict__, name)
    with pytest.raises(cann_mla.SymbolNotFoundError, match=f"{symbol}GetWorkspaceSize is in none .* since 9.1"):
        call(operands(), stream)


def test_the_plain_operator_is_on_950_and_the_quantised_is_not(
    stream: cann_mla.Stream, product: Callable[[str], None]
) -> None:
    product("Ascend950")
    assert call(operands(quantised=False), stream)["q_out"].shape == (T, HEADS, HEAD)
    with pytest.raises(ValueError, match="not on Ascend950; mla_prolog"):
        call(operands(), stream)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("wq_b", np.zeros((LATENT, HEADS * HEAD), bf16), "wq_b has dtype BF16; it must be INT8"),
        ("token_x", np.zeros((T, HIDDEN), np.float16), "token_x has dtype FP16; it must be BF16"),
        ("wq_b_scale", np.zeros(HEADS * HEAD, np.float32), "it must have 2 dimensions"),
        ("wq_a", np.zeros((HIDDEN + 1, LATENT), bf16), r"wq_a has shape \[129, 64\]; .* \[128, 64\]"),
        ("rope_sin", np.zeros((T + 1, ROPE), bf16), r"rope_sin has shape \[7, 32\]"),
        ("gamma_cq", np.zeros(LATENT - 1, bf16), r"gamma_cq has shape \[63\]"),
        ("wkv", np.zeros((HIDDEN, 50), bf16), "whole heads of 50|gamma_ckv"),
        ("token_x", np.zeros((0, HIDDEN), bf16), r"rope_cos has shape \[6, 32\]"),
    ],
)
def test_operands_that_do_not_fit(stream: cann_mla.Stream, name: str, array: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call({**operands(), name: array}, stream)


def test_other_sizes_only_when_allowed(stream: cann_mla.Stream) -> None:
    with pytest.raises(ValueError, match=r"token_x has shape \[6, 128\]; .*any_sizes=True"):
        ops.mla_prolog_quant(**operands(), stream=stream)


def test_layouts_that_the_operator_does_not_take(stream: cann_mla.Stream) -> None:
    given = operands()
    strided = cann_mla.Tensor.from_numpy(given["token_x"], strides=(HIDDEN + 8, 1))
    with pytest.raises(ValueError, match="token_x is not contiguous"):
        call({**given, "token_x": strided}, stream)
    packed = cann_mla.Tensor.from_numpy(given["token_x"], format="FRACTAL_NZ")
    with pytest.raises(ValueError, match="token_x has format FRACTAL_NZ; it must be ND"):
        call({**given, "token_x": packed}, stream)


def test_arguments_of_the_call(stream: cann_mla.Stream) -> None:
    given = operands()
    with pytest.raises(ValueError, match="via is 'torch'"):
        call(given, stream, via="torch")
    with pytest.raises(ValueError, match="product_dtype is 'FP16'"):
        call(given, stream, product_dtype="FP16")
    with pytest.raises(ValueError, match="chain is 'FP16'; allowed are 'FP32' and '16-bit'"):
        call(given, stream, chain="FP16")
    with pytest.raises(TypeError, match="needs a stream"):
        ops.mla_prolog_quant(**given)
    with pytest.raises(TypeError, match="token_x must be a Tensor or a NumPy array, not list"):
        call({**given, "token_x": [1]}, stream)

"""How far the chain of primitives is from PyPTO's operator: what the documentation of the composition says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops
from cann_mla.dtypes import BF16, FP32
from cann_mla.reference.mla_prolog_quant import MlaPrologQuantResult, mla_prolog_quant
from cann_mla.reference.primitives_matmul import matmul, quant_matmul
from cann_mla.reference.primitives_norm import dynamic_quant, rms_norm
from cann_mla.reference.primitives_rotary import inplace_partial_rotary_mul

bf16 = ml_dtypes.bfloat16
TOKENS, HIDDEN, LATENT, HEADS, HEAD, ROPE = 8, 4096, 1024, 64, 512, 64


@pytest.fixture(scope="module")
def operands() -> dict[str, Any]:
    """The published test's data: its ranges, its seed, its way to quantise wq_b."""
    rng = np.random.default_rng(5)

    def uniform(bound: float, *shape: int) -> np.ndarray:
        return rng.uniform(-bound, bound, shape).astype(np.float32).astype(bf16)

    wide = uniform(0.1, LATENT, HEADS * HEAD).astype(np.float32)
    top = np.abs(wide).max(axis=0)
    return {
        "token_x": uniform(1, TOKENS, HIDDEN),
        "wq_a": uniform(0.1, HIDDEN, LATENT),
        "wq_b": np.rint(wide * 127 / top).astype(np.int8),
        "wkv": uniform(0.1, HIDDEN, HEAD),
        "rope_cos": uniform(1, TOKENS, ROPE),
        "rope_sin": uniform(1, TOKENS, ROPE),
        "gamma_cq": uniform(1, LATENT),
        "gamma_ckv": uniform(1, HEAD),
        "wq_b_scale": (top / 127)[:, None],
    }


@pytest.fixture(scope="module")
def operator(operands: dict[str, Any]) -> MlaPrologQuantResult:
    """PyPTO's own rounding points."""
    return mla_prolog_quant(**operands)


@pytest.fixture(scope="module")
def chain(operands: dict[str, Any]) -> MlaPrologQuantResult:
    """The references of the primitives, one behind the other."""
    o = operands
    cos, sin = o["rope_cos"][:, None, None], o["rope_sin"][:, None, None]
    c, _ = rms_norm(matmul(o["token_x"], o["wq_a"], out=FP32), np.ones(LATENT, np.float32))
    qr, scale = dynamic_quant(c.astype(np.float16), smooth_scales=o["gamma_cq"].astype(np.float16))
    f = quant_matmul(qr, o["wq_b"], x2_scale=o["wq_b_scale"][:, 0], x1_scale=scale, out=BF16)
    q, _ = rms_norm(f.reshape(TOKENS, HEADS, 1, HEAD), np.ones(HEAD, bf16))
    k, _ = rms_norm(matmul(o["token_x"], o["wkv"], out=FP32), o["gamma_ckv"].astype(np.float32))
    part = (HEAD - ROPE, HEAD)
    q = inplace_partial_rotary_mul(q, cos, sin, partial_slice=part).reshape(TOKENS, HEADS, HEAD)
    kv = inplace_partial_rotary_mul(k.astype(bf16).reshape(TOKENS, 1, 1, HEAD), cos, sin, partial_slice=part)
    return MlaPrologQuantResult(q, kv.reshape(TOKENS, HEAD), qr, scale[:, None])


def difference(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return result


def outside(got: np.ndarray, want: np.ndarray, atol: float, rtol: float) -> float:
    return float((difference(got, want) > atol + rtol * np.abs(want.astype(np.float64))).mean())


def test_key_integers_and_scale_keep_the_published_tolerance(
    chain: MlaPrologQuantResult, operator: MlaPrologQuantResult
) -> None:
    assert outside(chain.kv_out, operator.kv_out, 1e-4, 2**-7) <= 0.005
    assert difference(chain.qr_out, operator.qr_out).max() == 1
    assert 0 < difference(chain.qr_out, operator.qr_out).mean() < 0.01  # 0.4 % documented
    assert chain.qr_scale_out is not None
    assert operator.qr_scale_out is not None
    assert outside(chain.qr_scale_out, operator.qr_scale_out, 2.5e-5, 5e-3) == 0
    np.testing.assert_allclose(chain.qr_scale_out, operator.qr_scale_out, rtol=2**-11 + 2**-20)


def test_the_query_keeps_cann_tolerance_and_not_the_published_one(
    chain: MlaPrologQuantResult, operator: MlaPrologQuantResult
) -> None:
    apart = difference(chain.q_out, operator.q_out)
    assert np.sqrt((apart**2).mean()) < 0.005  # 0.0037 documented
    assert outside(chain.q_out, operator.q_out, 2**-6, 2**-6) < 0.001
    assert 0.005 < outside(chain.q_out, operator.q_out, 1e-4, 2**-7) < 0.3  # 19 % documented


def test_the_simulator_runs_that_chain(
    operands: dict[str, Any], chain: MlaPrologQuantResult, stream: cann_mla.Stream
) -> None:
    """Sums in another order move a rounding here and there: one integer of a thousand at most."""
    with ops.mla_prolog_quant(**operands, stream=stream) as result:
        stream.synchronize()
        got = {name: getattr(result, name).to_numpy() for name in chain._fields}
    assert difference(got["qr_out"], chain.qr_out).mean() < 0.001
    assert outside(got["kv_out"], chain.kv_out, 1e-4, 2**-7) <= 0.005
    assert outside(got["q_out"], chain.q_out, 2**-6, 2**-6) < 0.001
    assert chain.qr_scale_out is not None
    np.testing.assert_allclose(got["qr_scale_out"], chain.qr_scale_out, rtol=2**-11)

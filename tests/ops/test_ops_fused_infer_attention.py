"""The documented attention function on the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops

B, N, NK, S1, S2, D = 2, 4, 2, 3, 40, 64
SCALE = 0.125
CLOSE = {"rtol": 4e-3, "atol": 4e-4}


@pytest.fixture
def operands(normal: Any) -> tuple[Any, Any, Any]:
    return normal(1, B, N, S1, D), normal(2, B, NK, S2, D), normal(3, B, NK, S2, D)


def bsh(x: Any) -> Any:
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1))


def test_arrays_in_and_new_outputs_out(stream: Any, operands: Any, formula: Any) -> None:
    with ops.fused_infer_attention(
        *operands, stream=stream, input_layout="BNSD_BSND", scale_value=SCALE, softmax_lse_flag=True
    ) as result:
        stream.synchronize()
        out, lse = formula(*operands, SCALE)
        np.testing.assert_allclose(result.attention.to_numpy(), out.transpose(0, 2, 1, 3), **CLOSE)
        np.testing.assert_allclose(result.softmax_lse.to_numpy()[..., 0], lse, rtol=1e-4)
        assert result.version == 1
    assert result.attention.closed
    assert result.softmax_lse.closed


def test_tensors_in_and_given_outputs(stream: Any, operands: Any, formula: Any) -> None:
    q, k, v = (cann_mla.Tensor.from_numpy(bsh(x)) for x in operands)
    out = cann_mla.Tensor.empty((B, S1, N * D), "FP16")
    lse = cann_mla.Tensor.empty((B, N, S1, 1), "FP32")
    for _ in range(2):
        result = ops.fused_infer_attention(
            q, k, v, stream=stream, num_heads=N, scale_value=SCALE, attention=out, softmax_lse=lse
        )
        assert result.attention is out
        assert result.softmax_lse is lse
    stream.synchronize()
    want, want_lse = formula(*operands, SCALE)
    np.testing.assert_allclose(out.to_numpy(), bsh(want), **CLOSE)
    np.testing.assert_allclose(lse.to_numpy()[..., 0], want_lse, rtol=1e-4)
    assert not q.closed


@pytest.mark.parametrize("as_list", ["arrays", "tensors", "TensorList"])
def test_lists_of_keys_of_their_own_length(stream: Any, operands: Any, formula: Any, as_list: str) -> None:
    q, k, v = operands
    lengths = [40, 11]
    lists: list[Any] = [[np.ascontiguousarray(x[i : i + 1, :, : lengths[i]]) for i in range(B)] for x in (k, v)]
    if as_list != "arrays":
        lists = [[cann_mla.Tensor.from_numpy(x) for x in members] for members in lists]
    if as_list == "TensorList":
        lists = [cann_mla.TensorList(members) for members in lists]
    with ops.fused_infer_attention(q, *lists, stream=stream, input_layout="BNSD", scale_value=SCALE) as result:
        stream.synchronize()
        hidden = np.arange(S2) >= np.array(lengths)[:, None, None, None]
        np.testing.assert_allclose(result.attention.to_numpy(), formula(q, k, v, SCALE, hidden)[0], **CLOSE)


@pytest.mark.parametrize("layout", ["BnBsH", "BnNBsD", "NZ"])
def test_mla_decode_on_a_paged_cache(stream: Any, formula: Any, layout: str) -> None:
    """Keys are latent and rope side by side, values the latent alone."""
    rng = np.random.default_rng(7)
    lengths, block, heads = [37, 150], 128, 8

    def bf16(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)

    q, q_rope = bf16(B, heads, 1, 512), bf16(B, heads, 1, 64)
    latent, rope = [bf16(n, 1, 512) for n in lengths], [bf16(n, 1, 64) for n in lengths]
    table = ops.block_table(lengths, block, blocks=[2, 0, 3])
    cache, rope_cache = (ops.paged_cache(x, table, block, layout=layout) for x in (latent, rope))
    with ops.fused_infer_attention(
        q, cache, cache, stream=stream, input_layout="BNSD", scale_value=576**-0.5, query_rope=q_rope,
        key_rope=rope_cache, block_table=table, actual_seq_lengths_kv=lengths, num_key_value_heads=1,
    ) as result:  # fmt: skip
        stream.synchronize()
        assert result.version == 3
        got = result.attention.to_numpy().astype(np.float64)
    for b in range(B):
        whole = np.concatenate([latent[b], rope[b]], -1).transpose(1, 0, 2)[None]
        query = np.concatenate([q[b : b + 1], q_rope[b : b + 1]], -1)
        want, _ = formula(query, whole, latent[b].transpose(1, 0, 2)[None], 576**-0.5)
        np.testing.assert_allclose(got[b], want[0], rtol=2e-2, atol=8e-3)


def test_an_array_given_twice_is_copied_once(stream: Any, operands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    original = cann_mla.Tensor.from_numpy
    monkeypatch.setattr(
        cann_mla.Tensor, "from_numpy", lambda array, **more: (copied.append(id(array)), original(array, **more))[1]
    )
    q, k, _ = operands
    with ops.fused_infer_attention(q, k, k, stream=stream, input_layout="BNSD"):
        stream.synchronize()
    assert copied == [id(q), id(k)]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_wanted_computes_the_same(stream: Any, operands: Any, formula: Any, version: int) -> None:
    with ops.fused_infer_attention(
        *operands, stream=stream, input_layout="BNSD", scale_value=SCALE, version=version
    ) as result:
        stream.synchronize()
        assert result.version == version
        np.testing.assert_allclose(result.attention.to_numpy(), formula(*operands, SCALE)[0], **CLOSE)


def test_ascend950_has_version_5(stream: Any, operands: Any, formula: Any, product: Any) -> None:
    product("Ascend950")
    q, k, v = operands
    fp8 = [x.astype(ml_dtypes.float8_e4m3fn) for x in (k, v)]
    scale = np.ones((1, NK, 1, D), np.float16)
    with ops.fused_infer_attention(
        q[:, :, :1], *fp8, stream=stream, input_layout="BNSD", scale_value=SCALE,
        key_antiquant_scale=scale, value_antiquant_scale=scale,
    ) as result:  # fmt: skip
        stream.synchronize()
        assert result.version == 5
        want, _ = formula(q[:, :, :1], *(x.astype(np.float32) for x in fp8), SCALE)
        np.testing.assert_allclose(result.attention.to_numpy(), want, **CLOSE)


def test_int8_output_by_default_with_its_scale(stream: Any, operands: Any, formula: Any) -> None:
    with ops.fused_infer_attention(
        *operands, stream=stream, input_layout="BNSD", scale_value=SCALE, quant_scale2=np.array([50.0], np.float32)
    ) as result:
        stream.synchronize()
        assert result.attention.dtype.name == "INT8"
        want = np.rint(formula(*operands, SCALE)[0] * 50)
        np.testing.assert_allclose(result.attention.to_numpy(), want, atol=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"version": 2, "learnable_sink": np.zeros(N, np.float16)}, ValueError, "ScoreV2 has no learnable_sink"),
        ({"input_layout": "BNSH"}, ValueError, "known are BSH"),
        ({"key": []}, ValueError, "key is a list without a first entry"),
        ({"query": [1.0]}, TypeError, "query must be a Tensor or a NumPy array, not list"),
        ({"value": 3}, ValueError, "value is a list without a first entry"),
        ({"sparse_mode": 3}, cann_mla.CannError, "attenMask"),
        ({"softmax_lse": "wrong"}, ValueError, r"softmax_lse must be FP32 \[2, 4, 3, 1\] here"),
        ({"attention": "wrong"}, ValueError, r"attention must be FP32 \[2, 4, 3, 64\] here"),
        ({"scale_value": "1"}, TypeError, "scaleValue"),
    ],
)
def test_refusals(stream: Any, operands: Any, change: dict[str, Any], error: type[Exception], message: str) -> None:
    call: dict[str, Any] = dict(zip(("query", "key", "value"), operands, strict=True))
    call |= {"input_layout": "BNSD", "scale_value": SCALE, **change}
    for name in ("attention", "softmax_lse"):
        if call.get(name) == "wrong":
            call[name] = cann_mla.Tensor.empty((2, 2), "FP32")
    with pytest.raises(error, match=message):
        ops.fused_infer_attention(**call, stream=stream)
    assert cann_mla.Tensor.zeros((2,), "FP32").to_numpy().tolist() == [0, 0]  # the process works on

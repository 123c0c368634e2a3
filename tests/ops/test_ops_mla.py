"""AtbMLA and AtbMLAPreFill as functions: numbers against softmax attention in double precision, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cann_mla
from cann_mla import ops
from cann_mla.validate.library import open_library, select_product

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16 = np.dtype(np.float16)
SCALE = 192**-0.5
Array = np.ndarray[Any, Any]


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


class Decode:
    """Random operands of one call; keys are kept by sequence as well."""

    def __init__(self, contexts: list[int], tokens: list[int], heads: int = 8, kind: Any = BF16) -> None:
        rng = np.random.default_rng(sum(contexts) + len(tokens))
        self.contexts, self.tokens, self.kind = contexts, tokens, kind
        self.keys = [self._normal(rng, n, 1, 576) for n in contexts]
        self.table = ops.block_table(contexts, 128)
        latent, rotated = ([rows[..., part] for rows in self.keys] for part in (slice(512), slice(512, 576)))
        caches = [
            ops.paged_cache(rows, self.table, 128, layout="BnBsH").reshape(-1, 128, 1, rows[0].shape[-1])
            for rows in (latent, rotated)
        ]
        self.query = self._normal(rng, sum(tokens), heads, 576)
        self.given = [self.query[..., :512], self.query[..., 512:], *caches, self.table, contexts]

    def _normal(self, rng: np.random.Generator, *shape: int) -> Array:
        return rng.standard_normal(shape, np.float32).astype(self.kind)

    def formula(self, causal: bool, added: Array | None = None) -> tuple[Array, Array]:
        """Output and lse of every token."""
        outputs, logarithms, start = [], [], 0
        for keys, new in zip(self.keys, self.tokens, strict=True):
            wide = keys[:, 0].astype(np.float64)
            for i in range(new):
                scores = self.query[start + i].astype(np.float64) @ wide.T * SCALE
                if added is not None:
                    scores += added[start + i, : len(wide)].astype(np.float64)
                seen = len(wide) - new + 1 + i if causal else len(wide)
                powers = np.exp(scores[:, :seen])
                outputs.append(powers @ wide[:seen, :512] / powers.sum(1, keepdims=True))
                logarithms.append(np.log(powers.sum(1, keepdims=True)))
            start += new
        return np.array(outputs), np.array(logarithms)


def blocked(cache: Array, c0: int) -> Array:
    """A cache (Bn, 128, 1, width) with its channels in blocks of c0."""
    return np.ascontiguousarray(cache[:, :, 0].reshape(len(cache), 128, -1, c0).swapaxes(1, 2))


def close(got: Array, wanted: Array) -> None:
    np.testing.assert_allclose(got.astype(np.float64), wanted, atol=2**-7, rtol=2**-7)


@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
def test_one_token_a_sequence(stream: cann_mla.Stream, kind: Any) -> None:
    decode = Decode([5, 128, 300], [1, 1, 1], kind=kind)
    with ops.mla(*decode.given, with_lse=True, stream=stream) as result:
        stream.synchronize()
        wanted, lse = decode.formula(causal=False)
        close(result.atten.to_numpy(), wanted)
        assert result.lse is not None
        assert (result.lse.shape, result.lse.dtype.numpy) == ((3, 8, 1), kind)
        close(result.lse.to_numpy(), lse)
    with ops.mla(*decode.given, stream=stream) as plain:
        stream.synchronize()
        assert plain.lse is None
        close(plain.atten.to_numpy(), wanted)


def test_blocked_caches_hold_the_same(stream: cann_mla.Stream) -> None:
    decode = Decode([5, 300], [1, 1])
    with ops.mla(*decode.given, stream=stream) as plain:
        stream.synchronize()
        wanted = plain.atten.to_numpy()
    decode.given[2:4] = [blocked(cache, 16) for cache in decode.given[2:4]]
    with ops.mla(*decode.given, stream=stream) as result:
        stream.synchronize()
        np.testing.assert_array_equal(result.atten.to_numpy(), wanted)
    on_device = [cann_mla.Tensor.from_numpy(cache) for cache in decode.given[2:4]]
    with pytest.raises(ValueError, match=r"ct_kv of shape \[4, 32, 128, 16\] must have the format FRACTAL_NZ, not ND"):
        ops.mla(*decode.given[:2], *on_device, *decode.given[4:], stream=stream)
    renamed = [tensor.view(format="FRACTAL_NZ") for tensor in on_device]
    with ops.mla(*decode.given[:2], *renamed, *decode.given[4:], stream=stream) as result:
        stream.synchronize()
        np.testing.assert_array_equal(result.atten.to_numpy(), wanted)


@pytest.mark.parametrize("tokens", [[3, 3], [2, 4]], ids=["template", "mask_over_all_keys"])
@pytest.mark.parametrize("contexts", [[4, 300], [129, 258]])
def test_later_tokens_are_hidden(stream: cann_mla.Stream, contexts: list[int], tokens: list[int]) -> None:
    decode = Decode(contexts, tokens, heads=16)
    with ops.mla(*decode.given, q_seq_len=tokens, causal=True, stream=stream) as result:
        stream.synchronize()
        close(result.atten.to_numpy(), decode.formula(causal=True)[0])
    with ops.mla(*decode.given, q_seq_len=tokens, stream=stream) as result:
        stream.synchronize()
        close(result.atten.to_numpy(), decode.formula(causal=False)[0])


def test_a_mask_is_added(stream: cann_mla.Stream) -> None:
    decode = Decode([40, 150], [2, 2], heads=16)
    mask = np.zeros((4, 150), BF16)
    mask[0, 3:], mask[3, 100:], mask[1, :5] = -10000, -10000, 2
    with ops.mla(*decode.given, q_seq_len=[2, 2], mask=mask, stream=stream) as result:
        stream.synchronize()
        close(result.atten.to_numpy(), decode.formula(causal=False, added=mask)[0])


def test_128_heads_are_causal_by_themselves(stream: cann_mla.Stream) -> None:
    decode = Decode([40], [2], heads=128)
    with ops.mla(*decode.given, q_seq_len=[2], causal=True, stream=stream) as result:
        stream.synchronize()
        close(result.atten.to_numpy(), decode.formula(causal=True)[0])
    with pytest.raises(ValueError, match="say causal=True"):
        ops.mla(*decode.given, q_seq_len=[2], stream=stream)
    with pytest.raises(ValueError, match="reads no mask"):
        ops.mla(*decode.given, q_seq_len=[2], mask=np.zeros((2, 40), BF16), causal=True, stream=stream)


def test_int8_with_one_key_by_hand(stream: cann_mla.Stream) -> None:
    """A single key has the weight 1, which becomes 127; its value comes back times the scale of the values."""
    q, latent = np.full((1, 8, 512), 2, np.int8), np.arange(512) % 100
    cache = np.zeros((1, 128, 1, 512), np.int8)
    cache[0, 0, 0] = latent
    caches = blocked(cache, 32), blocked(np.zeros((1, 128, 1, 64), BF16), 16)
    scales = {"qk_descale": np.full(8, 2**-10, np.float32), "pv_descale": np.full(8, 0.5, np.float32)}
    given = q, np.zeros((1, 8, 64), BF16), *caches, np.zeros((1, 1), np.int32), [1]
    with ops.mla(*given, **scales, qk_scale=0.5, with_lse=True, stream=stream) as result:
        stream.synchronize()
        np.testing.assert_array_equal(result.atten.to_numpy().astype(float), np.tile(latent / 2, (1, 8, 1)))
        assert result.lse is not None
        assert result.lse.to_numpy().dtype == np.float32
        np.testing.assert_allclose(result.lse.to_numpy(), 0.5 * 2 * latent.sum() * 2**-10, rtol=1e-6)
    with pytest.raises(ValueError, match="qk_descale goes with an INT8 cache"):
        ops.mla(*given, stream=stream)


def test_rows_without_keys(stream: cann_mla.Stream) -> None:
    decode = Decode([4, 0], [1, 1])
    with ops.mla(*decode.given, with_lse=True, stream=stream) as result:
        stream.synchronize()
        assert result.lse is not None
        assert (result.atten.to_numpy()[1].astype(float) == 0).all()
        assert np.isneginf(result.lse.to_numpy()[1].astype(float)).all()
        decode.keys, decode.tokens = decode.keys[:1], [1]
        close(result.atten.to_numpy()[:1], decode.formula(causal=False)[0])


def test_a_template_may_be_given(stream: cann_mla.Stream) -> None:
    decode = Decode([4, 300], [3, 3], heads=16)
    results = []
    for mask in (None, ops.mla_mask("BF16", 3), cann_mla.Tensor.from_numpy(ops.mla_mask("BF16", 3))):
        with ops.mla(*decode.given, q_seq_len=[3, 3], causal=True, mask=mask, stream=stream) as result:
            stream.synchronize()
            results.append(result.atten.to_numpy())
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
    with pytest.raises(ValueError, match="a template serves one number"):
        ops.mla(*decode.given, q_seq_len=[2, 4], causal=True, mask=mask, stream=stream)


def test_the_template_by_hand() -> None:
    """One new token: rows before the last key are open up to their own column."""
    one, three = ops.mla_mask("BF16", 1), ops.mla_mask("FP16", 3)
    assert (one.shape, one.dtype, three.shape, three.dtype) == ((127, 128), BF16, (131, 128), FP16)
    assert (one[0].astype(float) != 0).nonzero()[0].tolist() == list(range(1, 128))
    assert (three[5] != 0).nonzero()[0].tolist() == list(range(4, 128))
    assert three[5, 4] == -10000
    for tokens in (0, 128):
        with pytest.raises(ValueError, match="1 to 127 new tokens"):
            ops.mla_mask("BF16", tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ct_kv": np.zeros((2, 64, 1, 512), BF16)}, "a cache of latent keys is"),
        ({"k_rope": np.zeros((1, 128, 1, 64), BF16)}, r"k_rope must be BF16 \[4, 128, 1, 64\]"),
        ({"q_nope": np.zeros((2, 8, 512), FP16)}, r"q_nope must be BF16 \[2, 8, 512\] here, not FP16"),
        ({"context_lens": [5]}, r"block_tables has shape \[2, 3\]"),
        ({"context_lens": [5, 400]}, "need"),
        ({"block_tables": np.full((2, 3), 4, np.int32)}, r"the blocks \[4\], the cache has 4"),
        ({"block_tables": np.zeros((2, 3), np.int64)}, "INT32, not INT64"),
        ({"q_seq_len": [1, 2]}, "3 new tokens in 2 sequences; q_nope has 2"),
        ({"q_seq_len": [1, 1], "with_lse": True}, "leave q_seq_len or with_lse out"),
        ({"qk_scale": 1.5}, r"a scale in \(0, 1\]"),
        ({"mask": np.zeros((2, 300), BF16)}, "reads a mask with q_seq_len only"),
        ({"mask": np.zeros((2, 200), BF16), "q_seq_len": [1, 1]}, r"mask must be BF16 \[2, 300\]"),
        ({"mask": np.zeros((2, 300), BF16), "q_seq_len": [1, 1], "causal": True}, "hides nothing from single"),
        ({"pv_descale": np.zeros(8, np.float32)}, "pv_descale goes with an INT8 cache"),
    ],
)
def test_mla_refuses(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    names = ("q_nope", "q_rope", "ct_kv", "k_rope", "block_tables", "context_lens")
    given = dict(zip(names, Decode([5, 300], [1, 1]).given, strict=True))
    with pytest.raises(ValueError, match=message):
        ops.mla(**given | change, stream=stream)


def test_lengths_on_the_device_are_refused(stream: cann_mla.Stream) -> None:
    given = Decode([5, 300], [1, 1]).given
    given[5] = cann_mla.Tensor.from_numpy(np.array([5, 300], np.int32))
    with pytest.raises(TypeError, match="context_lens is read on the host"):
        ops.mla(*given, stream=stream)
    given[5] = [5, 299.5]
    with pytest.raises(TypeError, match="context_lens must hold one integer for every sequence"):
        ops.mla(*given, stream=stream)


# ---- AtbMLAPreFill --------------------------------------------------------------------------------

LENGTHS = [7, 130]


def prompts(kind: Any, heads: int = 2) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((sum(LENGTHS), heads, n), np.float32).astype(kind) for n in (128, 64, 128, 64, 128)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
def test_prefill_is_a_first_ring(stream: cann_mla.Stream, kind: Any, causal: bool) -> None:
    operands = prompts(kind)
    with (
        ops.mla_prefill(*operands, LENGTHS, causal=causal, stream=stream) as got,
        ops.ring_mla(*operands, LENGTHS, causal=causal, stream=stream) as ring,
    ):
        stream.synchronize()
        assert got.shape == (137, 2, 128)
        wanted = ring.output.to_numpy()
        np.testing.assert_allclose(got.to_numpy().astype(float), wanted.astype(float), atol=2**-8, rtol=2**-8)


def test_prefill_layouts_hold_the_same(stream: cann_mla.Stream) -> None:
    operands = prompts(BF16)
    padded = []
    for part in operands[2:]:
        rows = np.zeros((2, 130, part[0].size), BF16)
        rows[0, :7], rows[1] = part[:7].reshape(7, -1), part[7:].reshape(130, -1)
        padded.append(rows)
    tensors = [cann_mla.Tensor.from_numpy(rows) for rows in padded]
    flat = [part.reshape(137, -1) for part in operands[:2]]
    with (
        ops.mla_prefill(*operands, LENGTHS, stream=stream) as packed,
        ops.mla_prefill(*operands[:2], *padded, LENGTHS, stream=stream) as by_sequence,
        ops.mla_prefill(*flat, *tensors, LENGTHS, stream=stream) as all_flat,
    ):
        stream.synchronize()
        np.testing.assert_array_equal(by_sequence.to_numpy(), packed.to_numpy())
        np.testing.assert_array_equal(all_flat.to_numpy(), packed.to_numpy().reshape(137, -1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_len": [130]}, "q has 137 tokens"),
        ({"seq_len": [137, 0]}, "at least 1"),
        ({"k": np.zeros((2, 131, 256), BF16)}, r"k must be BF16 \[137, 2, 128\] or \[2, 130, 256\] here"),
        ({"v": np.zeros((137, 2, 64), BF16)}, r"v must be BF16 \[137, 2, 128\]"),
        ({"k_rope": np.zeros((137, 2, 64), FP16)}, "not FP16"),
        ({"qk_scale": 0.0}, r"a scale in \(0, 1\]"),
        ({"mask": np.zeros((512, 512), BF16), "causal": False}, "no effect without causal"),
        ({"mask": np.full((512, 512), -1e4).astype(BF16)}, "BF16 mask holds 1"),
    ],
)
def test_prefill_refuses(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = dict(zip(("q", "q_rope", "k", "k_rope", "v"), prompts(BF16), strict=True))
    with pytest.raises(ValueError, match=message):
        ops.mla_prefill(**given | {"seq_len": LENGTHS} | change, stream=stream)

"""Attention: masks, lengths, layouts. Zero queries make every score 0, so that softmaxLse is the log of a count."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cann_mla import ops

V3 = "aclnnFusedInferAttentionScoreV3"
CLOSE = {"atol": 2e-6}


def tensor(shape: list[int], dtype: str, data: str | list[float] | None = None, **more: Any) -> dict[str, Any]:
    """A tensor of a case: `data` is a distribution by name, or the values."""
    spec = {"shape": shape, "dtype": dtype, **more}
    if data is not None:
        spec["data"] = {"dist": data} if isinstance(data, str) else {"dist": "values", "values": data}
    return spec


def causal() -> dict[str, Any]:
    return {"shape": [2048, 2048], "dtype": "BOOL", "data": {"dist": "triu", "value": 1}}


def logs(*counts: int) -> npt.NDArray[np.float64]:
    """Log-sum-exp of rows that see so many columns, all scores 0."""
    return np.log(np.array(counts, float))


def attention(
    layout: str, q: list[int], k: list[int], lse: list[int], n: int = 1, nk: int = 1, dtype: str = "FP16", **attrs: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and attributes of a call with zero queries and keys, and values of one."""
    tensors = {
        "query": tensor(q, dtype, "zeros"), "key": [tensor(k, dtype, "zeros")], "value": [tensor(k, dtype, "ones")],
        "attentionOut": tensor(q, dtype), "softmaxLse": tensor(lse, "FP32"),
    }  # fmt: skip
    given = {"inputLayout": layout, "scaleValue": 1.0, "numHeads": n, "numKeyValueHeads": nk, "softmaxLseFlag": True}
    return tensors, given | attrs


@pytest.mark.parametrize("seen", [1, 511, 512, 513, 600, 640])
@pytest.mark.parametrize("shape", [[1, 1, 1, 640], [1, 640]])
def test_a_mask_hides_columns_past_512_as_well(outputs: Any, seen: int, shape: list[int]) -> None:
    tensors, attrs = attention("BSND", [1, 1, 12, 64], [5, 128, 768], [1, 12, 1, 1], 12, 12, "BF16", blockSize=128)
    tensors["blockTableOptional"] = tensor([1, 5], "INT32", [3, 0, 4, 1, 2])
    tensors["attenMaskOptional"] = tensor(shape, "BOOL", [0] * seen + [1] * (640 - seen))
    got = outputs(V3, tensors, attrs | {"actualSeqLengthsKvOptional": [640]})
    np.testing.assert_allclose(got["softmaxLse"].ravel(), logs(*[seen] * 12), **CLOSE)


def test_a_bias_of_one_head_does_not_serve_twelve(refusal: Any) -> None:
    tensors, attrs = attention("BSND", [1, 1, 12, 64], [5, 128, 768], [1, 12, 1, 1], 12, 12, "BF16", blockSize=128)
    tensors["blockTableOptional"] = tensor([1, 5], "INT32", [3, 0, 4, 1, 2])
    tensors["pseShiftOptional"] = tensor([1, 1, 1, 640], "BF16", "zeros")
    status, _, text = refusal(V3, tensors, attrs | {"actualSeqLengthsKvOptional": [640]})
    assert status == 561002
    assert "pseShift" in text
    assert "12" in text


def test_a_bias_is_added_and_not_taken_for_a_mask(outputs: Any) -> None:
    """Scores 0 and ln 3 weigh the values 0 and 4 with 1/4 and 3/4."""
    tensors, attrs = attention("BNSD", [1, 1, 1, 64], [1, 1, 2, 64], [1, 1, 1, 1])
    tensors["value"] = [tensor([1, 1, 2, 64], "FP16", [0.0] * 64 + [4.0] * 64)]
    tensors["pseShiftOptional"] = tensor([1, 1, 1, 2], "FP16", [0.0, 1.0986328125])
    got = outputs(V3, tensors, attrs)
    np.testing.assert_allclose(got["attentionOut"].astype(float), 3.0, atol=2**-9)
    np.testing.assert_allclose(got["softmaxLse"].ravel(), [np.log(1 + np.exp(1.0986328125))], **CLOSE)


def test_a_floating_mask_is_refused(refusal: Any) -> None:
    tensors, attrs = attention("BNSD", [1, 1, 1, 64], [1, 1, 2, 64], [1, 1, 1, 1])
    tensors["attenMaskOptional"] = tensor([1, 1, 1, 2], "FP16", [0.0, 1.0986328125])
    status, phase, text = refusal(V3, tensors, attrs)
    assert (status, phase) == (561002, 1)
    assert "attenMask" in text
    assert "BOOL" in text


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        ({"sparseMode": 4, "preTokens": 3, "nextTokens": 0}, [1, 2, 3, 4, 4, 4, 4, 4]),
        ({"sparseMode": 4, "preTokens": 4, "nextTokens": 0}, [1, 2, 3, 4, 5, 5, 5, 5]),
        ({"sparseMode": 3, "preTokens": 3, "nextTokens": 0}, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_a_window_needs_mode_4_and_one_token_less(outputs: Any, mode: dict[str, int], counts: list[int]) -> None:
    tensors, attrs = attention("BSND", [1, 8, 1, 64], [1, 8, 1, 64], [1, 1, 8, 1], **mode)
    tensors["attenMaskOptional"] = causal()
    got = outputs(V3, tensors, attrs)
    np.testing.assert_allclose(got["softmaxLse"].ravel(), logs(*counts), **CLOSE)


def test_a_leading_zero_is_an_empty_sequence(outputs: Any) -> None:
    ends = {"actualSeqLengthsOptional": [0, 3, 7], "actualSeqLengthsKvOptional": [0, 3, 7]}
    tensors, attrs = attention("TND", [7, 1, 128], [7, 1, 128], [7, 1, 1], sparseMode=3, **ends)
    tensors["attenMaskOptional"] = causal()
    got = outputs(V3, tensors, attrs)
    np.testing.assert_allclose(got["softmaxLse"].ravel(), logs(1, 2, 3, 1, 2, 3, 4), **CLOSE)


def test_lse_rows_of_grouped_heads_are_by_head_then_row(outputs: Any) -> None:
    tensors, attrs = attention("BSH", [1, 4, 256], [1, 4, 128], [1, 4, 4, 1], 4, 2, sparseMode=3)
    tensors["attenMaskOptional"] = causal()
    got = outputs(V3, tensors, attrs)
    np.testing.assert_allclose(got["softmaxLse"].reshape(4, 4), [logs(1, 2, 3, 4)] * 4, **CLOSE)


def test_four_bit_keys_in_words_have_eight_columns_each(outputs: Any) -> None:
    """The word 0x76543210 holds 0 to 7, the lowest nibble first: column d of the value is d mod 8."""
    tensors, attrs = attention("BNSD", [1, 2, 1, 128], [1, 2, 4, 16], [1, 2, 1, 1], 2, 2)
    words = tensor([1, 2, 4, 16], "INT32", [0x76543210] * 128)
    tensors |= {"key": [words], "value": [words]}
    for name in ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional"):
        tensors[name] = tensor([1, 2, 128], "FP16", "ones")
    got = outputs(V3, tensors, attrs | {"keyAntiquantMode": 0, "valueAntiquantMode": 0})
    np.testing.assert_array_equal(got["attentionOut"].astype(int).ravel(), np.tile(np.arange(128) % 8, 2))
    np.testing.assert_allclose(got["softmaxLse"].ravel(), logs(4, 4), **CLOSE)


def test_an_output_as_narrow_as_the_words_is_refused(refusal: Any) -> None:
    tensors, attrs = attention("BNSD", [1, 2, 1, 128], [1, 2, 4, 16], [1, 2, 1, 1], 2, 2)
    words = tensor([1, 2, 4, 16], "INT32", [0x76543210] * 128)
    tensors |= {"key": [words], "value": [words], "attentionOut": tensor([1, 2, 1, 16], "FP16")}
    for name in ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional"):
        tensors[name] = tensor([1, 2, 128], "FP16", "ones")
    status, _, text = refusal(V3, tensors, attrs | {"keyAntiquantMode": 0, "valueAntiquantMode": 0})
    assert status == 561002
    assert "attentionOut" in text


def halves(shape: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Key and value as the two halves of the rows of one buffer."""
    layout = {"strides": [1024, 128, 64, 1], "storage_shape": [1, 8, 2, 64]}
    return tensor(shape, "FP16", "zeros", offset=0, **layout), tensor(shape, "FP16", "ones", offset=64, **layout)


def test_strided_halves_of_one_buffer_are_copied_first(outputs: Any) -> None:
    tensors, attrs = attention("BSND", [1, 1, 1, 64], [1, 8, 1, 64], [1, 1, 1, 1])
    key, value = halves([1, 8, 1, 64])
    got = outputs(V3, tensors | {"key": [key], "value": [value]}, attrs)
    np.testing.assert_allclose(got["softmaxLse"].ravel(), logs(8), **CLOSE)
    np.testing.assert_array_equal(got["attentionOut"].astype(float), 1.0)


def test_version_5_refuses_strided_halves(refusal: Any) -> None:
    tensors, attrs = attention("BSND", [1, 1, 1, 64], [1, 8, 1, 64], [1, 1, 1, 1])
    key, value = halves([1, 8, 1, 64])
    status, _, text = refusal(
        "aclnnFusedInferAttentionScoreV5", tensors | {"key": [key], "value": [value]}, attrs, "Ascend950"
    )
    assert status == 561002
    assert "key" in text
    assert "1024" in text


class TestLengthsAgainstBlockTable:
    """Three sequences, two key lengths, two rows of the table: the first rule gives the status, the text tells both."""

    @staticmethod
    def call(kv: list[int], rows: int, ends: list[int], rope: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
        lengths = {"actualSeqLengthsOptional": ends, "actualSeqLengthsKvOptional": kv}
        tensors, attrs = attention("TND", [ends[-1], 1, 512], [4, 128, 512], [ends[-1], 1, 1], blockSize=128, **lengths)
        tensors["blockTableOptional"] = tensor([rows, 2], "INT32", list(range(2 * rows)))
        tensors["queryRopeOptional"] = tensor([ends[-1], 1, 64], "FP16", "zeros")
        tensors["keyRopeOptional"] = tensor([4, 128, 64], "FP16", "zeros")
        return tensors, attrs

    def test_both_are_told_at_once(self, refusal: Any) -> None:
        status, _, text = refusal(V3, *self.call([5, 6], 2, [1, 2, 3]))
        assert status == 561002
        assert "actualSeqLengthsKv" in text
        assert "blockTable" in text

    def test_only_the_table_is_short(self, refusal: Any) -> None:
        status, _, text = refusal(V3, *self.call([5, 6, 7], 2, [1, 2, 3]))
        assert status == 561002
        assert "blockTable" in text
        assert "actualSeqLengthsKv" not in text

    def test_a_leading_zero_asks_for_a_row_of_its_own(self, refusal: Any) -> None:
        status, _, text = refusal(V3, *self.call([0, 3, 4], 2, [0, 3, 7]))
        assert status == 561002
        assert "blockTable" in text
        assert "drop the leading 0" in text


class TestLengthsThatCannDoesNotCompare:
    """Without rope, CANN's TND route takes what is missing from behind the arrays (status 0)."""

    @pytest.fixture
    def operands(self) -> dict[str, Any]:
        cache = np.zeros((4, 128, 128), np.float16)
        return {
            "query": np.zeros((3, 1, 128), np.float16), "key": cache, "value": cache + 1, "input_layout": "TND",
            "num_key_value_heads": 1, "actual_seq_lengths": [1, 2, 3], "softmax_lse_flag": True,
        }  # fmt: skip

    def test_the_python_face_tells_both(self, stream: Any, operands: Any) -> None:
        table = np.arange(4, dtype=np.int32).reshape(2, 2)
        with pytest.raises(ValueError, match=r"3 sequences.*actual_seq_lengths_kv has 2.*block_table has 2 rows"):
            ops.fused_infer_attention(**operands, actual_seq_lengths_kv=[5, 6], block_table=table, stream=stream)

    def test_a_single_key_length_serves_all(self, stream: Any, operands: Any) -> None:
        table = np.arange(3, dtype=np.int32).reshape(3, 1)
        with ops.fused_infer_attention(
            **operands, actual_seq_lengths_kv=[5], block_table=table, stream=stream
        ) as result:
            stream.synchronize()
            np.testing.assert_allclose(result.softmax_lse.to_numpy().ravel(), logs(5, 5, 5), **CLOSE)

    def test_a_leading_zero_is_named(self, stream: Any, operands: Any) -> None:
        table = np.arange(4, dtype=np.int32).reshape(2, 2)
        operands["actual_seq_lengths"] = [0, 1, 3]
        with pytest.raises(ValueError, match="drop the leading 0"):
            ops.fused_infer_attention(**operands, actual_seq_lengths_kv=[0, 1, 2], block_table=table, stream=stream)

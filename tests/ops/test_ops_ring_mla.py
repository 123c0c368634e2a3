"""The documented RingMLA function: what it refuses before ATB computes something else."""

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
Array = np.ndarray[Any, Any]


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened


def operands(tokens: int = 6, keys: int = 6, heads: int = 4, kv_heads: int = 2, kind: Any = BF16) -> list[Array]:
    shapes = [(tokens, heads, 128), (tokens, heads, 64), (keys, kv_heads, 128), (keys, kv_heads, 64)]
    return [np.ones(shape, kind) for shape in (*shapes, (keys, kv_heads, 128))]


def test_masks_hide_what_lies_above_the_diagonal_in_the_words_of_their_dtype() -> None:
    bf16, fp16 = ops.ring_mla_mask("BF16"), ops.ring_mla_mask("FP16")
    assert (bf16.dtype, fp16.dtype) == (BF16, np.float16)
    above = np.triu(np.ones((512, 512), bool), 1)
    np.testing.assert_array_equal(bf16.astype(np.float32), above)
    np.testing.assert_array_equal(fp16, np.where(above, np.float16(-10000), np.float16(0)))
    with pytest.raises(ValueError, match="FP16 or BF16, not FP32"):
        ops.ring_mla_mask("FP32")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_len": [5]}, "add up to 5 queries and 5 keys, the tensors have 6 and 6"),
        ({"seq_len": [6, 0], "kv_seq_len": [3, 3]}, "seq_len must hold one length of at least 1"),
        ({"kv_seq_len": [3, 3]}, "seq_len has 1 sequences, kv_seq_len 2"),
        ({"seq_len": [4, 2], "kv_seq_len": [3, 3], "causal": True}, "sequence 0: 3 keys for 4 queries"),
        ({"causal": True, "mask": np.ones((256, 256), BF16)}, r"mask must be BF16 \[512, 512\]"),
        ({"causal": True, "mask": np.full((512, 512), -1e4).astype(BF16)}, "BF16 mask holds 1"),
        ({"causal": True, "mask": np.zeros((512, 512), np.float16)}, r"mask must be BF16 \[512, 512\]"),
        ({"mask": np.zeros((512, 512), BF16)}, "no effect without causal"),
        ({"key_split1": np.ones((6, 3, 128), BF16)}, r"key_split2 must be BF16 \[6, 3, 64\]"),
        ({"value": np.ones((6, 2, 128), np.float16)}, r"value must be BF16 \[6, 2, 128\]"),
        ({"query_split1": np.ones((6, 4, 64), BF16)}, r"query_split1 must be BF16 \[6, 4, 128\]"),
    ],
)
def test_refusals(stream: cann_mla.Stream, change: dict[str, Any], message: str) -> None:
    names = ("query_split1", "query_split2", "key_split1", "key_split2", "value")
    arguments: dict[str, Any] = dict(zip(names, operands(), strict=True)) | {"seq_len": [6]}
    with pytest.raises(ValueError, match=message):
        ops.ring_mla(**arguments | change, stream=stream)


def test_a_mask_of_half_precision_in_the_words_of_bf16_is_refused(stream: cann_mla.Stream) -> None:
    mask = np.triu(np.ones((512, 512), np.float16), 1)
    with pytest.raises(ValueError, match="FP16 mask is added"):
        ops.ring_mla(*operands(kind=np.float16), [6], causal=True, mask=mask, stream=stream)


def test_an_lse_of_16_bits_is_refused(stream: cann_mla.Stream) -> None:
    previous = cann_mla.Tensor.zeros((6, 4, 128), "BF16"), cann_mla.Tensor.zeros((4, 6), "BF16")
    with pytest.raises(ValueError, match=r"previous lse must be FP32 \[4, 6\] here, not BF16"):
        ops.ring_mla(*operands(), [6], previous=previous, stream=stream)


def test_heads_that_do_not_divide_are_refused(stream: cann_mla.Stream) -> None:
    with pytest.raises(ValueError, match="3 heads of keys do not divide 4"):
        ops.ring_mla(*operands(kv_heads=3), [6], stream=stream)


def test_merging_updates_the_previous_result_in_place(stream: cann_mla.Stream) -> None:
    first = ops.ring_mla(*operands(), [6], causal=True, stream=stream)
    merged = ops.ring_mla(*operands(), [6], previous=first, stream=stream)
    assert merged.output is first.output
    assert merged.softmax_lse is first.softmax_lse
    stream.synchronize()
    # Row 0 has seen one key and then six that all score 192 / sqrt(192): seven equal exponentials.
    assert merged.softmax_lse.to_numpy()[:, 0] == pytest.approx(192**0.5 + np.log(7), rel=1e-6)


def test_rows_without_keys_need_the_previous_output(stream: cann_mla.Stream) -> None:
    first = ops.ring_mla(*operands(), [3, 3], stream=stream)
    output, lse = cann_mla.Tensor.empty((6, 4, 128), "BF16"), cann_mla.Tensor.empty((4, 6), "FP32")
    with pytest.raises(ValueError, match="0 keys leaves its rows"):
        ops.ring_mla(*operands(), [3, 3], [6, 0], previous=first, output=output, softmax_lse=lse, stream=stream)
    stream.synchronize()


def test_views_are_refused_because_atb_does_not_see_their_strides(stream: cann_mla.Stream) -> None:
    whole = cann_mla.Tensor.zeros((4, 6, 128), "BF16")
    with pytest.raises(ValueError, match="querySplit1 is a strided view"):
        ops.ring_mla(whole.transpose(1, 0, 2), *operands()[1:], [6], stream=stream)
    longer = cann_mla.Tensor.zeros((7, 4, 128), "BF16")
    with pytest.raises(ValueError, match="output is a strided view"):
        ops.ring_mla(
            *operands(), [6], output=longer.view((6, 4, 128), offset=512),
            softmax_lse=cann_mla.Tensor.zeros((4, 6), "FP32"), stream=stream,
        )  # fmt: skip

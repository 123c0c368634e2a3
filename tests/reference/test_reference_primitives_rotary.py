"""The rotary family, against the examples of the specification (ids in comments)."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.dtypes import FP32
from cann_mla.reference import evaluate
from cann_mla.reference.primitives_rotary import (
    inplace_partial_rotary_mul,
    interleave_rope,
    rotary_position_embedding,
)

bf16 = ml_dtypes.bfloat16
X = np.array([[[[1, 2, 3, 4]]]], np.float32)
COS, SIN = np.array([[[[1, 2, 3, 4]]]], np.float32), np.array([[[[10, 20, 30, 40]]]], np.float32)
BY_MODE = [[-29, -76, 39, 96], [-19, 24, -111, 136], [-19, 24, -111, 136], [-19, -74, 36, 136]]


@pytest.mark.parametrize("mode", range(4))
def test_base_examples(mode: int) -> None:
    assert rotary_position_embedding(X, COS, SIN, mode=mode, soc="Ascend950").ravel().tolist() == BY_MODE[mode]


@pytest.mark.parametrize(("mode", "computed"), [(0, 0), (1, 1), (2, 0), (3, 0)])
def test_a2_computes_every_mode_but_1_as_half(mode: int, computed: int) -> None:
    result = rotary_position_embedding(X, COS, SIN, mode=mode, soc="Ascend910B")
    assert result.ravel().tolist() == BY_MODE[computed]


def test_quarter_mode_rotates_within_halves() -> None:
    x = np.arange(1, 9, dtype=np.float32)
    result = rotary_position_embedding(x, np.zeros(8, np.float32), np.ones(8, np.float32), mode=2)
    assert result.tolist() == [-3, -4, 1, 2, -7, -8, 5, 6]


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="got 4"):
        rotary_position_embedding(X, COS, SIN, mode=4)


def test_tables_are_broadcast() -> None:
    x = np.array([[[[1, 2]], [[3, 4]]]], np.float32)
    cos, sin = np.zeros((1, 1, 1, 2), np.float32), np.ones((1, 1, 1, 2), np.float32)
    assert rotary_position_embedding(x, cos, sin).tolist() == [[[[-2, 1]], [[-4, 3]]]]


def test_the_one_rounding_ties_to_even() -> None:
    x, cos = np.zeros(4, bf16), np.zeros(4, bf16)
    x[0], cos[0] = 5, 1.015625
    assert float(rotary_position_embedding(x, cos, np.zeros(4, bf16))[0]) == 5.0625
    assert rotary_position_embedding(x, cos, np.zeros(4, bf16), precision="exact")[0] == 5.078125


def test_interleave_rope_takes_pairs_apart() -> None:
    x = np.arange(64, dtype=np.float16).reshape(1, 1, 1, 64)
    one, zero = np.ones_like(x), np.zeros_like(x)
    assert interleave_rope(x, one, zero).ravel().tolist() == [*range(0, 64, 2), *range(1, 64, 2)]
    assert interleave_rope(x, zero, one).ravel().tolist() == [*range(-1, -64, -2), *range(0, 64, 2)]


def test_pr1_only_the_slice_is_rotated() -> None:
    x = np.array([[[[9, 9, 1, 2, 3, 4]]]], np.float32)
    before = x.copy()
    result = inplace_partial_rotary_mul(x, COS, SIN, partial_slice=[2, 6])
    assert result.ravel().tolist() == [9, 9, -19, 24, -111, 136]
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(("part", "expected"), [([3, 3], [1, 2, 3, 4]), ([], BY_MODE[1]), (None, BY_MODE[1])])
def test_pr2_empty_slices(part: list[int] | None, expected: list[float]) -> None:
    assert inplace_partial_rotary_mul(X, COS, SIN, partial_slice=part).ravel().tolist() == expected


def test_heads_on_the_second_axis_share_their_token_s_table() -> None:
    """PR3 with a table that does something: (t, 64, 1, 512) against (t, 1, 1, 64)."""
    x = np.ones((2, 64, 1, 512), bf16)
    cos, sin = np.zeros((2, 1, 1, 64), bf16), np.ones((2, 1, 1, 64), bf16)
    sin[1] = 2
    result = inplace_partial_rotary_mul(x, cos, sin, partial_slice=[448, 512]).astype(float)
    assert (result[..., :448] == 1).all()
    assert (result[0, :, 0, 448:] == np.tile([-1, 1], 32)).all()
    assert (result[1, :, 0, 448:] == np.tile([-2, 2], 32)).all()


@pytest.mark.parametrize(
    ("symbol", "name", "attrs", "expected"),
    [
        ("aclnnRotaryPositionEmbedding", "x", {"mode": 3}, BY_MODE[3]),
        ("aclnnInterleaveRope", "x", {}, BY_MODE[3]),
        ("aclnnInplacePartialRotaryMul", "xRef", {"rotary_mode": 1, "partialSlice": [0, 4]}, BY_MODE[1]),
    ],
)
def test_by_c_name(symbol: str, name: str, attrs: dict[str, object], expected: list[float]) -> None:
    outputs = {} if name == "xRef" else {"out": ((1, 1, 1, 4), FP32)}
    got = evaluate(symbol, {name: X, "cos": COS, "sin": SIN}, attrs, soc="Ascend950", outputs=outputs)
    assert set(got) == {"xRef" if name == "xRef" else "out"}
    assert next(iter(got.values())).ravel().tolist() == expected

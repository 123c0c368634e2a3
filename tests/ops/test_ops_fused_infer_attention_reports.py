"""Calls that people reported as puzzling, and what the specification says of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cann_mla
from cann_mla import ops

N, NK, D, SCALE = 4, 2, 128, 128**-0.5
CLOSE = {"rtol": 4e-3, "atol": 4e-4}


@pytest.fixture
def attend(stream: Any) -> Any:
    def run(*operands: Any, **more: Any) -> Any:
        with ops.fused_infer_attention(*operands, stream=stream, scale_value=SCALE, **more) as result:
            stream.synchronize()
            return result.attention.to_numpy()

    return run


@pytest.mark.parametrize("columns", [512, 513, 1500])
def test_a_bool_mask_of_one_row_may_be_longer_than_512(attend: Any, normal: Any, formula: Any, columns: int) -> None:
    """(B or 1, 1, S1 or more, S2 or more): [1, 1, 1, S] fits every single-row query, whatever S is."""
    q, k, v = normal(1, 2, N, 1, D), normal(2, 2, NK, columns, D), normal(3, 2, NK, columns, D)
    mask = np.random.default_rng(4).random((1, 1, 1, columns)) < 0.5
    got = attend(q, k, v, input_layout="BNSD", atten_mask=mask)
    np.testing.assert_allclose(got, formula(q, k, v, SCALE, mask)[0], **CLOSE)


def test_a_bool_mask_of_one_row_does_not_fit_more_rows(attend: Any, normal: Any) -> None:
    q, k, v = normal(1, 2, N, 2, D), normal(2, 2, NK, 600, D), normal(3, 2, NK, 600, D)
    with pytest.raises(cann_mla.CannError, match="attenMask") as error:
        attend(q, k, v, input_layout="BNSD", atten_mask=np.zeros((1, 1, 1, 600), bool))
    assert error.value.status == 561002


def test_a_mask_of_two_axes_is_by_row_or_by_sequence(attend: Any, normal: Any, formula: Any) -> None:
    """(S1, S2) for more rows than one, (B, S2) for single rows; on Atlas A2 and A3."""
    rng = np.random.default_rng(5)
    k, v = normal(2, 2, N, 40, D), normal(3, 2, N, 40, D)
    for rows, mask in ((3, rng.random((3, 40)) < 0.5), (1, rng.random((2, 40)) < 0.5)):
        q = normal(1, 2, N, rows, D)
        hidden = mask[None, None] if rows > 1 else mask[:, None, None]
        got = attend(q, k, v, input_layout="BNSD", atten_mask=mask)
        np.testing.assert_allclose(got, formula(q, k, v, SCALE, hidden)[0], **CLOSE)


def test_a_mask_of_two_axes_is_refused_on_ascend950(attend: Any, normal: Any, product: Any) -> None:
    product("Ascend950")
    q, k, v = normal(1, 2, N, 3, D), normal(2, 2, N, 40, D), normal(3, 2, N, 40, D)
    with pytest.raises(cann_mla.CannError, match="attenMask") as error:
        attend(q, k, v, input_layout="BNSD", atten_mask=np.zeros((3, 40), bool))
    assert error.value.status == 561002


@pytest.mark.parametrize("width", [64, 128, 192])
def test_tokens_in_a_row_need_no_mask_in_mode_0(attend: Any, normal: Any, formula: Any, width: int) -> None:
    """TND without a mask sees every column of its own sequence; D = 128 is as good as another."""
    q, k, v = normal(1, 5, N, width), normal(2, 30, NK, width), normal(3, 30, NK, width)
    got = attend(q, k, v, input_layout="TND", actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[10, 30])
    for rows, columns in ((slice(0, 2), slice(0, 10)), (slice(2, 5), slice(10, 30))):
        own = [x.transpose(1, 0, 2)[None] for x in (q[rows], k[columns], v[columns])]
        np.testing.assert_allclose(got[rows], formula(*own, SCALE)[0][0].transpose(1, 0, 2), **CLOSE)


def test_tokens_in_a_row_refuse_a_mask_in_mode_0(attend: Any, normal: Any) -> None:
    q, k, v = normal(1, 5, N, D), normal(2, 30, NK, D), normal(3, 30, NK, D)
    with pytest.raises(cann_mla.CannError, match=r"attenMask|sparseMode") as error:
        attend(
            q, k, v, input_layout="TND", actual_seq_lengths=[5], actual_seq_lengths_kv=[30],
            atten_mask=np.zeros((1, 1, 5, 30), bool),
        )  # fmt: skip
    assert error.value.status == 561002


def test_tokens_in_a_row_with_a_rope_part_of_d_128(attend: Any, normal: Any, formula: Any) -> None:
    q, k, v = normal(1, 5, N, D), normal(2, 30, N, D), normal(3, 30, N, D)
    q_rope, k_rope = normal(4, 5, N, 64), normal(5, 30, N, 64)
    got = attend(
        q, k, v, input_layout="TND", actual_seq_lengths=[5], actual_seq_lengths_kv=[30],
        query_rope=q_rope, key_rope=k_rope,
    )  # fmt: skip
    whole = [np.concatenate(x, -1).transpose(1, 0, 2)[None] for x in ((q, q_rope), (k, k_rope))]
    want, _ = formula(*whole, v.transpose(1, 0, 2)[None], SCALE)
    np.testing.assert_allclose(got, want[0].transpose(1, 0, 2), **CLOSE)


def test_lengths_are_one_for_all_or_one_for_each(attend: Any, normal: Any, formula: Any) -> None:
    """Padded layouts: one entry serves every sequence, B or more give the first B; between them is refused."""
    q, k, v = normal(1, 3, N, 2, D), normal(2, 3, NK, 40, D), normal(3, 3, NK, 40, D)
    for given, lengths in (([25], [25, 25, 25]), ([7, 40, 1], [7, 40, 1]), ([7, 40, 1, 9], [7, 40, 1])):
        hidden = np.arange(40) >= np.array(lengths)[:, None, None, None]
        got = attend(q, k, v, input_layout="BNSD", actual_seq_lengths_kv=given)
        np.testing.assert_allclose(got, formula(q, k, v, SCALE, hidden)[0], **CLOSE)
    for name in ("actual_seq_lengths", "actual_seq_lengths_kv"):
        with pytest.raises(cann_mla.CannError, match="actualSeqLengths") as error:
            attend(q, k, v, input_layout="BNSD", **{name: [2, 2]})
        assert error.value.status == 561002

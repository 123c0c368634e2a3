"""Results do not depend on how the work is cut into tiles and blocks."""

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

from cann_mla.reference import attention_core
from cann_mla.reference.attention_masks import UNBOUNDED
from cann_mla.reference.fused_infer_attention_score import fused_infer_attention_score


def random_call(seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Operands and attributes of a small call with any mix of features."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    batch, key_heads, group = choose.randint(1, 3), choose.choice([1, 2, 3]), choose.choice([1, 2, 5])
    rows, columns = choose.choice([1, 2, 7, 13]), choose.choice([1, 4, 11, 30])
    heads, width, value_width = key_heads * group, 8, choose.choice([8, 4])

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float16)

    operands = [
        normal(batch, heads, rows, width),
        normal(batch, key_heads, columns, width),
        normal(batch, key_heads, columns, value_width),
    ]
    arguments: dict[str, Any] = {
        "num_heads": heads,
        "num_key_value_heads": key_heads,
        "input_layout": "BNSD",
        "softmax_lse_flag": True,
        "precision": "exact",
        "inner_precise": choose.choice([0, 2]),
        "sparse_mode": choose.choice([0, 0, 1, 2, 3, 4]),
        "soc": choose.choice(["Ascend910B", "Ascend950"]),
    }
    prefix = choose.choice([0, 0, 5])
    if prefix:
        arguments["key_shared_prefix"] = normal(1, key_heads, prefix, width)
        arguments["value_shared_prefix"] = normal(1, key_heads, prefix, value_width)
    if arguments["sparse_mode"] > 1 or choose.random() < 0.7:
        hidden_share = choose.choice([0.2, 0.9])
        arguments["atten_mask"] = rng.random((batch, 1, rows, columns + prefix)) < hidden_share
    if choose.random() < 0.5:
        arguments["pre_tokens"] = choose.randint(-2, 8)
        arguments["next_tokens"] = choose.randint(max(-2, -arguments["pre_tokens"]), 8)
    if choose.random() < 0.5:
        arguments["actual_seq_lengths"] = np.array([choose.randint(0, rows) for _ in range(batch)])
    if choose.random() < 0.5:
        arguments["actual_seq_lengths_kv"] = np.array([choose.randint(0, columns) for _ in range(batch)])
    if choose.random() < 0.3:
        arguments["pse_shift"] = normal(1, heads, choose.choice([1, rows]), columns + prefix)
    if choose.random() < 0.3:
        arguments["learnable_sink"] = normal(heads)
    return operands, arguments


@pytest.mark.parametrize("seed", range(80))
def test_cutting_does_not_matter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    operands, arguments = random_call(seed)
    want = fused_infer_attention_score(*operands, **arguments)
    choose = random.Random(seed)
    monkeypatch.setattr(attention_core, "_TILE_ELEMENTS", choose.choice([16, 64, 256]))
    monkeypatch.setattr(attention_core, "_TILE_ROWS", choose.choice([1, 3, 8]))
    monkeypatch.setattr(attention_core, "_BLOCK_COLUMNS", (choose.choice([1, 3]), choose.choice([3, 5])))
    monkeypatch.setattr(attention_core, "_WHOLE_ELEMENTS", 0)
    monkeypatch.setattr(attention_core, "_PIECE_ELEMENTS", choose.choice([4, 1 << 17]))
    monkeypatch.setattr(attention_core, "_KEPT_BYTES", choose.choice([0, 1 << 20]))
    got = fused_infer_attention_score(*operands, **arguments)
    assert np.isfinite(want.attention).all()
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_window_that_shows_a_tile_nothing() -> None:
    """Rows from 4 on see no column, and the columns they would see begin inside a block."""
    operand = np.ones((1, 1, 700, 3), np.float16)
    attention, lse = fused_infer_attention_score(
        np.ones((1, 1, 700, 1), np.float16),
        operand[:, :, :3, :1],
        operand[:, :, :3, :1],
        num_heads=1,
        input_layout="BNSD",
        sparse_mode=4,
        atten_mask=np.zeros((2048, 2048), bool),
        pre_tokens=1 - 697,
        next_tokens=UNBOUNDED,
        softmax_lse_flag=True,
    )
    assert lse is not None
    assert attention[0, 0, :4, 0].tolist() == [1.0] * 4
    assert not attention[0, 0, 4:].any()
    assert np.isposinf(lse[0, 0, 4:]).all()


def test_memory_does_not_grow_with_the_score_matrix() -> None:
    """A full score matrix would take 1.6 GB."""
    operand = np.ones((1, 1, 20000, 64), np.float16)
    tracemalloc.start()
    fused_infer_attention_score(
        operand,
        operand,
        operand,
        num_heads=1,
        input_layout="BNSD",
        sparse_mode=4,
        atten_mask=np.zeros((2048, 2048), bool),
        pre_tokens=300,
        next_tokens=0,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20

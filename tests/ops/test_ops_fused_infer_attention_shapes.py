"""Output shapes of every layout, by the document's table."""

from __future__ import annotations

from typing import Any

import pytest

from cann_mla.ops.fused_infer_attention_shapes import LAYOUTS, find_sizes, output_dtype

B, N, NK, S1, S2, D, DV, T1, T2 = 2, 6, 3, 5, 7, 32, 16, 9, 11
QUERY = {
    "BSH": (B, S1, N * D), "BSND": (B, S1, N, D), "BNSD": (B, N, S1, D), "TND": (T1, N, D), "NTD": (N, T1, D),
    "NSD": (N, S1, D),
}  # fmt: skip
KEY = {
    "BSH": lambda w: (B, S2, NK * w), "BSND": lambda w: (B, S2, NK, w), "BNSD": lambda w: (B, NK, S2, w),
    "TND": lambda w: (T2, NK, w), "NTD": lambda w: (NK, T2, w), "NSD": lambda w: (NK, S2, w),
}  # fmt: skip
OUT = {
    "BSH": (B, S1, N * DV), "BSND": (B, S1, N, DV), "BNSD": (B, N, S1, DV), "NBSD": (N, B, S1, DV),
    "TND": (T1, N, DV), "NTD": (N, T1, DV), "NSD": (N, S1, DV),
}  # fmt: skip


def sizes(layout: str, query: Any, key: Any, value: Any, **more: Any) -> Any:
    options = {"num_heads": None, "num_key_value_heads": None, "paged": False, "packed": False, **more}
    return find_sizes(layout, query, key, value, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str) -> None:
    inputs, outputs = (layout.split("_") * 2)[:2]
    found = sizes(layout, QUERY[inputs], KEY[inputs](D), KEY[inputs](DV), num_heads=N if inputs == "BSH" else None)
    assert found.attention == OUT[outputs]
    lse = {"TND": (T1, N, 1), "NTD": (T1, N, 1), "NSD": (1, N, S1, 1)}.get(outputs, (B, N, S1, 1))
    assert found.softmax_lse == lse
    assert found.axes["N"] == N
    assert found.key_heads == NK
    assert found.block_size == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [((8, 4, NK * D), (8, 4, NK * DV)), ((8, NK, 4, D), (8, NK, 4, DV)), ((8, NK, D // 16, 4, 16), (8, NK, 1, 4, 16))],
)
def test_paged_caches_tell_heads_and_block(key: Any, value: Any) -> None:
    found = sizes("BNSD", QUERY["BNSD"], key, value, paged=True)
    assert (found.attention, found.key_heads, found.block_size) == ((B, N, S1, DV), NK, 4)


def test_words_of_eight_int4() -> None:
    found = sizes("BSH", QUERY["BSH"], (B, S2, NK * D // 8), (B, S2, NK * DV // 8), num_heads=N, packed=True)
    assert (found.attention, found.key_heads) == ((B, S1, N * DV), NK)


def test_no_key_heads_given_means_as_many_as_the_query() -> None:
    found = sizes("BSH", (B, S1, N * D), (B, S2, N * D), (B, S2, N * DV), num_heads=N, num_key_value_heads=0)
    assert (found.attention, found.key_heads) == ((B, S1, N * DV), 0)


@pytest.mark.parametrize(
    ("query", "rope", "post", "out"),
    [
        ("BF16", None, False, "BF16"), ("FP16", "FP16", False, "FP16"), ("FP16", None, True, "INT8"),
        ("INT8", None, False, "FP16"), ("INT8", "BF16", False, "BF16"), ("INT8", None, True, "INT8"),
        ("FLOAT8_E4M3FN", "BF16", False, "BF16"),
    ],
)  # fmt: skip
def test_output_types(query: str, rope: str | None, post: bool, out: str) -> None:
    assert output_dtype(query, rope, post) == out


@pytest.mark.parametrize(
    ("layout", "change", "message"),
    [
        ("BHSD", {}, "input_layout='BHSD' is unknown; known are BSH, BSND"),
        ("BSH", {}, "does not tell the number of heads from shapes; give num_heads"),
        ("BSH", {"num_heads": 5}, "last axis of query is 192, which 5 heads cannot share"),
        ("BSH", {"num_heads": 0}, "num_heads is 0; it must be positive"),
        ("BSH", {"num_heads": 6, "key": (2, 7, 80)}, "last axis of key is 80, no multiple of the head size 32"),
        ("BNSD", {"query": (2, 6, 32)}, r"query has shape \[2, 6, 32\]; the layout wants 4 axes, B, N, S, D"),
        ("BNSD", {"key": (2, 6)}, r"key has shape \[2, 6\]; the layout wants 4 axes"),
        ("BNSD", {"key": (2, 6), "paged": True}, "a paged cache is"),
        ("BNSD", {"key": (9, 16, 1, 32), "paged": True}, r"blocks of one row; a cache of MlaProlog, .* a view"),
    ],
)
def test_refusals(layout: str, change: dict[str, Any], message: str) -> None:
    inputs = layout if layout in QUERY else "BSH"
    call: dict[str, Any] = {"query": QUERY[inputs], "key": KEY[inputs](D), "value": KEY[inputs](D), **change}
    with pytest.raises(ValueError, match=message):
        sizes(layout, **call)

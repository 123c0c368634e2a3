"""The explainer: an operator with a known mistake, and the name it must be given.

The mistaken operator is the reference fed with what a mistaken reader would see; how it would see it is
written out here and not taken from the explainer.
"""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import parse
from cann_mla.validate.explain import explain
from cann_mla.validate.golden import run_reference
from cann_mla.validate.signatures import roles_of
from cann_mla.validate.standard_rules import find_standard

OP = "aclnnMlaPrologV3WeightNz"
HE, HCQ, N, D, T = 64, 128, 2, 128, 3  # small: the reference takes any size
STANDARD = find_standard("mixed-tolerance")


def normal(std):
    return {"dist": "normal", "std": std}


@pytest.fixture(scope="module")
def prolog():
    nz = {"dtype": "BF16", "format": "FRACTAL_NZ"}
    tensors = {
        "tokenX": {"shape": [T, HE], "dtype": "BF16"},
        "weightDq": {"shape": [HE, HCQ], **nz, "data": normal(0.12)},
        "weightUqQr": {"shape": [HCQ, N * (D + 64)], **nz, "data": normal(0.09)},
        "weightUk": {"shape": [N, D, 512], "dtype": "BF16", "data": normal(0.09)},
        "weightDkvKr": {"shape": [HE, 576], **nz, "data": normal(0.12)},
        "rmsnormGammaCq": {"shape": [HCQ], "dtype": "BF16", "data": {"dist": "ones"}},
        "rmsnormGammaCkv": {"shape": [512], "dtype": "BF16", "data": {"dist": "ones"}},
        "ropeSin": {"shape": [T, 64], "dtype": "BF16"},
        "ropeCos": {"shape": [T, 64], "dtype": "BF16"},
        "kvCacheRef": {"shape": [2, 16, 1, 512], "dtype": "BF16", "data": normal(1)},
        "krCacheRef": {"shape": [2, 16, 1, 64], "dtype": "BF16", "data": normal(1)},
        "cacheIndexOptional": {
            "shape": [T],
            "dtype": "INT64",
            "data": {"dist": "values", "values": [3, 20, 9]},
        },
        "queryOut": {"shape": [T, N, 512], "dtype": "BF16"},
        "queryRopeOut": {"shape": [T, N, 64], "dtype": "BF16"},
    }
    attrs = {"cacheModeOptional": "PA_BSND", "qcQrScale": 0.5}
    case = parse({"id": "a", "op": OP, "soc": "Ascend910B", "tensors": tensors, "attrs": attrs, "seed": 3})
    return case, make_operands(case, is_output=roles_of(OP).is_output)


def mistaken(case, arrays):
    return run_reference(case, arrays, roles_of(OP), "device")


def first_text(prolog, outputs):
    case, arrays = prolog
    findings = explain(case, arrays, roles_of(OP), outputs, STANDARD)
    assert findings, "no suspect explains the result"
    assert not findings[0].remaining
    return findings[0].text


def test_a_right_result_needs_no_explanation(prolog):
    case, arrays = prolog
    assert explain(case, arrays, roles_of(OP), mistaken(case, arrays), STANDARD) == []


def test_fractal_nz_read_as_rows(prolog):
    case, arrays = prolog
    rows, columns = arrays["weightDq"].shape
    blocks = arrays["weightDq"].reshape(rows // 16, 16, columns // 16, 16).transpose(2, 0, 1, 3)
    outputs = mistaken(case, {**arrays, "weightDq": blocks.reshape(rows, columns)})
    assert first_text(prolog, outputs) == "weightDq: FRACTAL_NZ read as ND"


def test_sine_and_cosine_swapped(prolog):
    case, arrays = prolog
    outputs = mistaken(case, {**arrays, "ropeSin": arrays["ropeCos"], "ropeCos": arrays["ropeSin"]})
    assert first_text(prolog, outputs) == "ropeSin and ropeCos swapped"


def test_output_left_interleaved(prolog):
    case, arrays = prolog
    outputs = mistaken(case, arrays)
    rope = outputs["queryRopeOut"]
    interleaved = np.empty_like(rope)
    interleaved[..., 0::2], interleaved[..., 1::2] = rope[..., :32], rope[..., 32:]
    outputs["queryRopeOut"] = interleaved
    assert first_text(prolog, outputs) == "rotated outputs left interleaved"


def test_half_split_rope(prolog):
    """The mistaken kernel rotates element i with element 32 + i of what it computed."""
    case, arrays = prolog
    order = np.empty(64, int)
    order[0::2], order[1::2] = np.arange(32), 32 + np.arange(32)  # pair (2i, 2i + 1) <- (i, 32 + i)
    query = np.arange(N * 192).reshape(N, 192)
    query[:, 128:] = query[:, 128:][:, order]
    key = np.concatenate([np.arange(512), 512 + order])
    changed = {
        "weightUqQr": arrays["weightUqQr"][:, query.reshape(-1)],
        "weightDkvKr": arrays["weightDkvKr"][:, key],
    }
    outputs = mistaken(case, {**arrays, **changed})
    assert first_text(prolog, outputs) == "rope input taken as two halves instead of pairs"


def test_rope_columns_first(prolog):
    """Each head of 192 columns read as 64 rotated ones and then 128 that are not."""
    case, arrays = prolog
    heads = arrays["weightUqQr"].reshape(HCQ, N, 192)
    read = np.concatenate([heads[..., 64:], heads[..., :64]], axis=2).reshape(HCQ, N * 192)
    outputs = mistaken(case, {**arrays, "weightUqQr": read})
    assert first_text(prolog, outputs) == "weightUqQr: rope columns taken before the nope columns of each head"


def test_nope_and_rope_of_all_heads_apart(prolog):
    """The first 128 N columns read as what is not rotated, the last 64 N as what is."""
    case, arrays = prolog
    nope, rope = arrays["weightUqQr"][:, : 128 * N], arrays["weightUqQr"][:, 128 * N :]
    read = np.concatenate([nope[:, :128], rope[:, :64], nope[:, 128:], rope[:, 64:]], axis=1)
    outputs = mistaken(case, {**arrays, "weightUqQr": read})
    assert (
        first_text(prolog, outputs)
        == "weightUqQr: nope columns of all heads taken before the rope columns of all heads"
    )


def test_latent_and_rope_key_swapped(prolog):
    case, arrays = prolog
    key = arrays["weightDkvKr"]
    outputs = mistaken(case, {**arrays, "weightDkvKr": np.concatenate([key[:, 64:], key[:, :64]], axis=1)})
    assert first_text(prolog, outputs) == "weightDkvKr: rope key (kr) columns taken before the latent (dkv) columns"


def test_heads_reversed(prolog):
    case, arrays = prolog
    outputs = mistaken(case, {**arrays, "weightUk": np.stack([arrays["weightUk"][1], arrays["weightUk"][0]])})
    assert first_text(prolog, outputs) == "weightUk: heads in reversed order"


@pytest.mark.parametrize(
    ("used", "place"),
    [
        ([7, 30, 12], "[0, 3, 0] is found at [0, 7, 0] (3 of 3 rows looked for)"),
        ([9, 20, 3], "[0, 3, 0] is found at [0, 9, 0] (2 of 2 rows looked for)"),  # the same rows, exchanged
        ([3, 21, 9], "[1, 4, 0] is found at [1, 5, 0] (1 of 1 rows looked for)"),
    ],
)
def test_cache_rows_elsewhere(prolog, used, place):
    """Rows 3, 20 and 9 are asked for; blocks hold 16 rows."""
    case, arrays = prolog
    outputs = mistaken(case, {**arrays, "cacheIndexOptional": np.array(used)})
    text = first_text(prolog, outputs)
    assert text.startswith("cache rows went elsewhere")
    assert f"kvCacheRef{place}" in text
    assert f"krCacheRef{place}" in text


def test_a_cache_not_written_at_all(prolog):
    case, arrays = prolog
    outputs = {**mistaken(case, arrays), "kvCacheRef": arrays["kvCacheRef"]}
    assert first_text(prolog, outputs) == f"kvCacheRef: nothing written from element 0 of {2 * 16 * 512} on"


def test_scale_missing(prolog):
    case, arrays = prolog
    outputs = mistaken(parse_like(case, qcQrScale=1.0), arrays)
    assert first_text(prolog, outputs) == "qcQrScale: missing"


def parse_like(case, **attrs):
    from dataclasses import replace

    return replace(case, attrs={**case.attrs, **attrs})


def test_cache_rows_late(prolog):
    case, arrays = prolog
    outputs = mistaken(case, {**arrays, "cacheIndexOptional": arrays["cacheIndexOptional"] + 1})
    assert first_text(prolog, outputs) == "cacheIndexOptional: cache rows written one row late"


def test_heads_and_tokens_transposed(prolog):
    case, arrays = prolog
    outputs = mistaken(case, arrays)
    outputs["queryOut"] = np.ascontiguousarray(outputs["queryOut"].transpose(1, 0, 2)).reshape(T, N, 512)
    assert first_text(prolog, outputs) == "outputs: heads and tokens transposed"


def test_unwritten_tail(prolog):
    case, arrays = prolog
    outputs = mistaken(case, arrays)
    query = outputs["queryOut"].copy()
    query[-1, 1, 256:] = np.zeros((), ml_dtypes.bfloat16)  # what the output held before the call
    outputs["queryOut"] = query
    assert (
        first_text(prolog, outputs) == f"queryOut: nothing written from element {T * N * 512 - 256} of {T * N * 512} on"
    )


def test_nonsense_is_not_explained(prolog):
    case, arrays = prolog
    outputs = mistaken(case, arrays)
    outputs["queryOut"] = np.full_like(outputs["queryOut"], 7)
    assert explain(case, arrays, roles_of(OP), outputs, STANDARD) == []

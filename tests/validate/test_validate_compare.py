"""Comparing outputs: several types in one tensor, rows nobody may touch, missing and misshapen results."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate.cases import parse
from cann_mla.validate.compare import Golden, compare_output, differing_granules
from cann_mla.validate.standard_rules import find_standard

S1 = find_standard("mixed-tolerance/1")


def compare(case, name, actual, golden, initial=None, untouched=None):
    spec = dict(case.specs())[name]
    return compare_output(case, name, spec, actual, Golden(golden, untouched), initial, S1)


def one_output(shape, dtype_name, **attrs):
    return parse(
        {
            "id": "a",
            "op": "aclnnMlaPrologV3WeightNz",
            "tensors": {"kvCacheRef": {"shape": shape, "dtype": dtype_name}},
            "attrs": attrs,
        }
    )


def per_tile_rows(rows):
    """Rows of 656 bytes: payload 1, rope 1.0, scales 0.5."""
    cache = np.ones((rows, 656), np.int8)
    cache[:, 512:640] = np.ones((rows, 64), ml_dtypes.bfloat16).view(np.int8)
    cache[:, 640:] = np.full((rows, 4), 0.5, np.float32).view(np.int8)
    return cache


@pytest.mark.parametrize(
    ("offset", "numpy_type", "value", "failing"),
    [
        (0, np.int8, 2, None),  # quantised payload: one step passes
        (0, np.int8, 3, "payload"),
        (512, ml_dtypes.bfloat16, 1.015625, None),  # rope: 2^-6 off is within 2^-5
        (512, ml_dtypes.bfloat16, 2.5, "rope"),
        (640, np.float32, 0.50001, None),
        (640, np.float32, 0.6, "scales"),
    ],
)
def test_per_tile_cache_is_judged_by_section(offset, numpy_type, value, failing):
    case = one_output([4, 656], "INT8", kvCacheQuantMode=3)
    golden = per_tile_rows(4)
    actual = golden.copy()
    size = np.dtype(numpy_type).itemsize
    actual[2, offset : offset + size] = np.array([value], numpy_type).view(np.int8)
    result = compare(case, "kvCacheRef", actual, golden)
    assert list(result.sections) == ["payload", "rope", "scales"]
    assert [label for label, part in result.sections.items() if not part.ok] == ([failing] if failing else [])
    assert result.ok is (failing is None)
    record = result.as_json()
    assert set(record["sections"]) == {"payload", "rope", "scales"}
    if failing:
        assert failing in record["reason"]
        assert record["share_ok"] < 1


def test_without_per_tile_mode_the_cache_is_one_tensor():
    case = one_output([4, 656], "INT8", kvCacheQuantMode=1)
    cache = per_tile_rows(4)
    assert list(compare(case, "kvCacheRef", cache, cache.copy()).sections) == [""]


def test_untouched_rows_compare_bit_for_bit():
    case = one_output([4, 64], "BF16")
    initial = np.ones((4, 64), ml_dtypes.bfloat16)
    golden = initial.copy()
    golden[1] = 3
    untouched = ~differing_granules(golden, initial)
    assert compare(case, "kvCacheRef", golden.copy(), golden, initial, untouched).ok
    actual = golden.copy()
    actual[2, 5] = 1.0078125  # well within the tolerance, but nobody may write row 2
    result = compare(case, "kvCacheRef", actual, golden, initial, untouched)
    assert not result.ok
    assert result.disturbed == 1
    assert "no token writes" in result.explain()
    actual = golden.copy()
    actual[1, 5] = 3.015625  # row 1 is written: the tolerance holds
    assert compare(case, "kvCacheRef", actual, golden, initial, untouched).ok


def test_granules_are_sixteen_bytes_or_elements():
    left = np.zeros((3, 32), np.uint8)
    right = left.copy()
    right[1, 17] = 1
    assert differing_granules(left, right).tolist() == [False, False, False, True, False, False]
    odd = np.zeros(3, np.float32)
    assert differing_granules(odd, np.array([0, 1, 0], np.float32)).tolist() == [False, True, False]


def test_missing_and_misshapen_results():
    case = one_output([2, 2], "FP32")
    golden = np.zeros((2, 2), np.float32)
    missing = compare(case, "kvCacheRef", None, golden)
    assert not missing.ok
    assert missing.as_json()["share_ok"] == 0.0
    assert "not among" in missing.explain()
    assert "shape" in compare(case, "kvCacheRef", np.zeros(4, np.float32), golden).explain()


def test_float64_golden_of_a_narrow_output():
    case = one_output([2], "BF16")
    assert compare(case, "kvCacheRef", np.ones(2, ml_dtypes.bfloat16), np.array([1.001, 0.999])).ok
    assert not compare(case, "kvCacheRef", np.ones(2, ml_dtypes.bfloat16), np.array([1.1, 1.0])).ok

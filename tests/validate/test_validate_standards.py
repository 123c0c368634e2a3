"""Standards at their edges; every expected number is worked out by hand from the published formula."""

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate.standard_rules import (
    STANDARDS,
    AtbSingle,
    find_standard,
    standard_for,
)
from cann_mla.validate.standards import ulp

F32 = np.float32


def judge(name, actual, golden, dtype_name, numpy_type):
    make = lambda values: np.asarray(values, numpy_type)  # noqa: E731
    return find_standard(name).judge(make(actual), make(golden), dtype_name)


def padded(value, count=1000, numpy_type=np.float64):
    """A golden of ones and a result that differs in the first element only."""
    golden = np.ones(count, numpy_type)
    actual = golden.copy()
    actual[0] = value
    return actual, golden


@pytest.mark.parametrize(
    ("value", "dtype_name", "expected"),
    [
        (1.0, "FP16", 2.0**-10),  # [1, 2) has 2^10 steps
        (1.9990234375, "FP16", 2.0**-10),
        (2.0, "FP16", 2.0**-9),
        (0.0, "FP16", 2.0**-24),  # the smallest subnormal
        (2.0**-14, "FP16", 2.0**-24),
        (1.0, "BF16", 2.0**-7),
        (300.0, "BF16", 2.0),  # 256 * 2^-7
        (1.0, "FP32", 2.0**-23),
        (1.0, "FLOAT8_E4M3FN", 0.125),
        (448.0, "FLOAT8_E4M3FN", 32.0),
    ],
)
def test_unit_in_the_last_place(value, dtype_name, expected):
    assert ulp(np.array([value]), dtype_name)[0] == expected


def test_mixed_tolerance_element_edge():
    # BF16: 2^-6 + 2^-6 * 1 = 0.03125. One bad element of one is a share of 0; exactly on the edge passes.
    at_edge = judge("mixed-tolerance", [1.03125], [1.0], "BF16", ml_dtypes.bfloat16)
    beyond = judge("mixed-tolerance", [1.0390625], [1.0], "BF16", ml_dtypes.bfloat16)
    assert at_edge.ok
    assert at_edge.share_ok == 1.0
    assert not beyond.ok
    assert beyond.share_ok == 0.0
    assert beyond.max_abs == 0.0390625


def test_mixed_tolerance_share_edge():
    golden = np.zeros(100, F32)
    actual = golden.copy()
    actual[0] = 1e-3  # above atol 2^-16, below the limit
    standard = find_standard("mixed-tolerance/1")
    assert standard.judge(actual, golden, "FP32").ok  # 99 of 100
    actual[1] = 1e-3
    assert not standard.judge(actual, golden, "FP32").ok  # 98 of 100


@pytest.mark.parametrize(
    ("name", "golden", "difference", "ok"),
    [
        # FP16 at 1.0: 32 ULP are 2^-5 = 0.03125, the published 0.1 is larger
        ("mixed-tolerance", 1.0, 0.0996, True),
        ("mixed-tolerance", 1.0, 0.1006, False),
        # at 64: one ULP is 2^-4, 32 of them are 2
        ("mixed-tolerance", 64.0, 2.0, True),
        ("mixed-tolerance", 64.0, 2.0625, False),
        # TTK reads 32 ULP at 1.0, whatever the element
        ("mixed-tolerance-ttk", 64.0, 0.25, False),
        ("mixed-tolerance-ttk", 64.0, 0.0625, True),
    ],
)
def test_mixed_tolerance_limit(name, golden, difference, ok):
    actual = np.full(1000, golden, np.float16)
    actual[3] = golden + difference
    result = find_standard(name).judge(actual, np.full(1000, golden, np.float16), "FP16")
    assert result.ok is ok
    if not ok:
        assert result.worst == (3,)


def test_mixed_tolerance_accepts_agreeing_nonfinite_and_no_other():
    inf, nan = np.inf, np.nan
    assert judge("mixed-tolerance", [inf, -inf, nan], [inf, -inf, nan], "FP32", F32).ok
    for actual, golden in ((inf, -inf), (nan, 1.0), (1.0, nan), (inf, 3e38), (1.0, inf)):
        actuals, goldens = padded(actual)
        goldens[0] = golden
        result = judge("mixed-tolerance", actuals, goldens, "FP32", F32)
        assert not result.ok
        assert result.max_abs == inf


def test_mean_and_max_relative():
    # FP32: T = 2^-13 = 1.22e-4, max below 1.22e-3
    assert judge("mere-mare", [1 + 1e-4] * 4, [1.0] * 4, "FP32", F32).ok
    assert not judge("mere-mare", [1 + 1.3e-4] * 4, [1.0] * 4, "FP32", F32).ok  # the mean
    assert judge("mere-mare", *padded(1 + 1.2e-3), "FP32", F32).ok
    failing = judge("mere-mare", *padded(1 + 1.3e-3), "FP32", F32)  # the maximum
    assert not failing.ok
    assert "max relative" in failing.reason
    # near zero the 1e-7 in the denominator decides: 1e-9 / 1e-7 = 0.01
    assert not judge("mere-mare", [1e-9], [0.0], "FP32", F32).ok


def test_double_thousandth():
    golden = np.ones(1000, F32)
    actual = golden.copy()
    actual[0] = 1.01
    standard = find_standard("double-thousandth")
    assert standard.judge(actual, golden, "FP32").ok  # 999 of 1000
    actual[1] = 1.01
    assert not standard.judge(actual, golden, "FP32").ok
    assert standard.judge(np.zeros(3, F32), np.zeros(3, F32), "FP32").ok  # 0 / 0 is no error


def test_atb_single_follows_the_number_of_accumulations():
    assert AtbSingle(2047).bound("FP16") == 2.0**-8
    assert AtbSingle(2048).bound("FP16") == 2.0**-7
    assert AtbSingle(2048).bound("BF16") == 2.0**-6
    assert [AtbSingle(n).bound("FP32") for n in (1, 2048, 16384)] == [2.0**-11, 2.0**-10, 2.0**-14]
    # |g| below 1 counts as 1, above it scales: 2^-7 * 4 = 0.03125
    assert judge("atb-single", [0.0078125], [0.0], "BF16", ml_dtypes.bfloat16).ok
    assert judge("atb-single", [4.03125], [4.0], "BF16", ml_dtypes.bfloat16).ok
    assert not judge("atb-single", [4.0625], [4.0], "BF16", ml_dtypes.bfloat16).ok
    assert judge("atb-single:4096", [4.0625], [4.0], "BF16", ml_dtypes.bfloat16).ok


def test_atb_share():
    # 1 of 1000 may be off in FP16, 5 of 1000 in BF16
    for dtype_name, numpy_type, allowed in (("FP16", np.float16, 1), ("BF16", ml_dtypes.bfloat16, 5)):
        golden = np.ones(1000, numpy_type)
        actual = golden.copy()
        actual[:allowed] = 1.125
        standard = find_standard("atb-share")
        assert standard.judge(actual, golden, dtype_name).ok
        actual[allowed] = 1.125
        assert not standard.judge(actual, golden, dtype_name).ok


def test_quantised_integers():
    assert judge("quantised", [5, -128], [6, -127], "INT8", np.int8).ok
    assert not judge("quantised", [127, 5], [127, 7], "INT8", np.int8).ok
    assert not judge("quantised", [5], [6], "INT32", np.int32).ok
    large = 2**53
    assert not judge("quantised", [large + 1], [large], "INT64", np.int64).ok  # equal as float64
    assert not judge("quantised", [True], [False], "BOOL", np.bool_).ok


def test_quantised_codes_of_eight_bits():
    def codes(values):
        return np.array(values, np.uint8).view(ml_dtypes.float8_e4m3fn)

    standard = find_standard("quantised")
    # 0x38 is 1.0, 0x39 the next value, 0x3A the one after
    assert standard.judge(codes([0x39]), codes([0x38]), "FLOAT8_E4M3FN").ok
    assert not standard.judge(codes([0x3A]), codes([0x38]), "FLOAT8_E4M3FN").ok
    assert standard.judge(codes([0x80]), codes([0x00]), "FLOAT8_E4M3FN").ok  # the two zeros
    golden = codes([0x38] * 1000)
    actual = codes([0x50] + [0x38] * 999)
    assert standard.judge(actual, golden, "FLOAT8_E4M3FN").ok  # 99.9 %
    assert not standard.judge(codes([0x50, 0x50] + [0x38] * 998), golden, "FLOAT8_E4M3FN").ok


def test_quantised_hifloat8_and_e8m0():
    hifloat8 = np.dtype([("hifloat8", "u1")])
    make = lambda *values: np.array(values, np.uint8).view(hifloat8)  # noqa: E731
    standard = find_standard("quantised")
    assert standard.judge(make(0x08, 0x80), make(0x09, 0x80), "HIFLOAT8").ok  # NaN equals NaN
    assert not standard.judge(make(0x08), make(0x0A), "HIFLOAT8").ok
    e8m0 = lambda *values: np.array(values, np.uint8).view(ml_dtypes.float8_e8m0fnu)  # noqa: E731
    assert standard.judge(e8m0(127), e8m0(127), "FLOAT8_E8M0").ok
    assert not standard.judge(e8m0(127), e8m0(128), "FLOAT8_E8M0").ok


def test_ulp_standard():
    one = np.ones(2000, np.float16)
    off = one.copy()
    off[0] += 2 * 2.0**-10  # two ULP, one element of 2000: 0.05 %
    standard = find_standard("ulp")
    assert standard.judge(off, one, "FP16").ok
    off[1] += 2 * 2.0**-10
    assert not standard.judge(off, one, "FP16").ok  # 0.1 % is not below 0.1 %
    # FP32: a mean below 64 ULP saves a case whose elements are all beyond 32
    ones = np.ones(10, F32)
    assert standard.judge(ones + F32(63 * 2.0**-23), ones, "FP32").ok
    assert not standard.judge(ones + F32(65 * 2.0**-23), ones, "FP32").ok


def test_absolute_threshold():
    assert judge("absolute-threshold", [1 + 2.0**-10], [1.0], "FP16", np.float16).ok
    assert not judge("absolute-threshold", [1 + 2 * 2.0**-10], [1.0], "FP16", np.float16).ok
    # small values: |g| <= 2^-10 takes the absolute bound 2^-16
    assert judge("absolute-threshold", [2.0**-16], [0.0], "FP16", np.float16).ok
    assert not judge("absolute-threshold", [2.0**-15], [0.0], "FP16", np.float16).ok
    # an infinity counts as the largest finite value
    assert judge("absolute-threshold", [np.inf], [65504.0], "FP16", np.float16).ok
    assert not judge("absolute-threshold", [np.nan], [1.0], "FP16", np.float16).ok


def test_accumulative():
    assert judge("accumulative", [0.5 + 2.0**-7], [0.5], "BF16", ml_dtypes.bfloat16).ok  # absolute below 1
    assert not judge("accumulative", [0.5 + 3 * 2.0**-8], [0.5], "BF16", ml_dtypes.bfloat16).ok
    assert judge("accumulative", [8 + 2.0**-4], [8.0], "BF16", ml_dtypes.bfloat16).ok  # relative above


def test_pytest_rule():
    # FP16: 0.005 of 1 plus 2.5e-5; 5 of 1000 may fail
    standard = find_standard("ops-transformer-pytest")
    golden = np.ones(1000, np.float16)
    actual = golden.copy()
    actual[:5] = 2.0
    assert standard.judge(actual, golden, "FP16").ok
    actual[5] = 2.0
    assert not standard.judge(actual, golden, "FP16").ok
    # a failing element's relative error divides by max(|a|, |g|, 2^-14 / 0.005): 1 / 1 stays below 10 here,
    # and so it does whatever the values are finite; a NaN does not
    actual = golden.copy()
    actual[0] = np.nan
    assert not standard.judge(actual, golden, "FP16").ok


def test_mla_prolog_pytest():
    assert judge("mla-prolog-pytest", [1.099], [1.0], "FP32", F32).ok
    assert not judge("mla-prolog-pytest", [1.101], [1.0], "FP32", F32).ok


def test_standards_disagree_near_zero():
    """Outputs near zero pass the mixed tolerance and fail relative rules: the name matters."""
    golden = np.full(100, 1e-4, ml_dtypes.bfloat16)
    actual = np.full(100, 1.2e-4, ml_dtypes.bfloat16)
    assert find_standard("mixed-tolerance").judge(actual, golden, "BF16").ok
    assert not find_standard("mere-mare").judge(actual, golden, "BF16").ok
    assert not find_standard("double-thousandth").judge(actual, golden, "BF16").ok


@pytest.mark.parametrize("label", sorted(STANDARDS))
def test_every_standard_is_named_and_passes_what_is_equal(label):
    standard = STANDARDS[label]
    assert standard.source
    assert standard.masks
    assert standard.nonfinite
    dtype_name, numpy_type = ("INT8", np.int8) if label == "quantised/1" else ("FP16", np.float16)
    same = np.arange(6, dtype=numpy_type).reshape(2, 3)
    result = standard.judge(same, same.copy(), dtype_name)
    assert result.ok
    assert result.share_ok == 1.0
    assert result.max_abs == 0.0
    assert result.standard == label
    assert standard.judge(same[:0], same[:0], dtype_name).ok


def test_worst_element_is_an_index_of_the_output():
    golden = np.zeros((4, 5), F32)
    actual = golden.copy()
    actual[2, 3] = 0.5
    assert find_standard("mixed-tolerance").judge(actual, golden, "FP32").worst == (2, 3)


def test_which_rule_judges_which_dtype():
    asked = find_standard("mixed-tolerance")
    assert standard_for(asked, "BF16").label == "mixed-tolerance/1"
    assert standard_for(asked, "INT8").label == "quantised/1"
    assert standard_for(asked, "FLOAT8_E4M3FN").label == "quantised/1"
    assert standard_for(find_standard("atb-share"), "FP32").label == "mixed-tolerance/1"  # not covered


def test_refusals():
    with pytest.raises(ValueError, match="known are"):
        find_standard("mixed")
    with pytest.raises(ValueError, match="atb-single"):
        find_standard("quantised:3")
    with pytest.raises(ValueError, match="shape"):
        find_standard("quantised").judge(np.zeros(2, np.int8), np.zeros(3, np.int8), "INT8")
    with pytest.raises(ValueError, match="says nothing"):
        find_standard("quantised").judge(np.zeros(2, F32), np.zeros(2, F32), "FP32")

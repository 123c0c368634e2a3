"""Operand data: pinned to an independent implementation of the published construction."""

import hashlib
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate import data as data_module
from cann_mla.validate.data import DataError, default_data, fill

MASK = 2**64 - 1


def philox_words(seed, name, shape, count):
    """Philox4x64-10 (Salmon et al. 2011) keyed by SHA-256, in plain Python: 32-bit words, low half first."""
    text = f"{seed}\n{name}\n{','.join(map(str, shape))}"
    digest = hashlib.sha256(text.encode()).digest()
    start_key = [int.from_bytes(digest[0:8], "little"), int.from_bytes(digest[8:16], "little")]
    words = []
    block = 0
    while len(words) < count:
        block += 1  # NumPy advances its counter before the first block
        counter, key = [block, 0, 0, 0], list(start_key)
        for _ in range(10):
            low0, high0 = (0xD2E7470EE14C6C93 * counter[0]) & MASK, (0xD2E7470EE14C6C93 * counter[0]) >> 64
            low1, high1 = (0xCA5A826395121157 * counter[2]) & MASK, (0xCA5A826395121157 * counter[2]) >> 64
            counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
            key = [(key[0] + 0x9E3779B97F4A7C15) & MASK, (key[1] + 0xBB67AE8584CAA73B) & MASK]
        for value in counter:
            words += [value & 0xFFFFFFFF, value >> 32]
    return words[:count]


def make(data, shape=(3, 5), dtype_name="FP32", seed=7, name="tokenX"):
    return fill(data, seed=seed, name=name, shape=shape, dtype_name=dtype_name)


def test_uniform_equals_the_construction():
    words = philox_words(7, "tokenX", (3, 5), 15)
    expected = [-2 + 5 * (word / 2**32) for word in words]
    got = make({"dist": "uniform", "low": -2, "high": 3}, dtype_name="FP64")
    assert got.reshape(-1).tolist() == expected


def test_integers_equal_the_construction():
    words = philox_words(7, "tokenX", (3, 5), 15)
    expected = [-127 + (word * 254 >> 32) for word in words]
    got = make({"dist": "integers", "low": -127, "high": 127}, dtype_name="INT8")
    assert got.dtype == np.int8
    assert got.reshape(-1).tolist() == expected


def test_normal_equals_the_construction():
    def knot(i):
        p = i / 65536 if 0 < i < 65536 else 2.0**-18 if i == 0 else 1 - 2.0**-18
        return round(NormalDist().inv_cdf(p) * 2**20) / 2**20

    words = philox_words(7, "tokenX", (3, 5), 15)
    expected = []
    for word in words:
        index, fraction = word >> 16, np.float32((word & 0xFFFF) / 65536)
        left, right = np.float32(knot(index)), np.float32(knot(index + 1))
        expected.append(float(left + (right - left) * fraction))
    assert make({"dist": "normal"}).reshape(-1).tolist() == expected


def test_permutation_equals_the_construction():
    words = philox_words(7, "tokenX", (3, 5), 2 * 12)
    keys = [words[2 * i] | words[2 * i + 1] << 32 for i in range(12)]
    expected = sorted(range(12), key=keys.__getitem__) + [-1] * 3
    assert make({"dist": "permutation", "high": 12}, dtype_name="INT64").reshape(-1).tolist() == expected


def test_normal_looks_normal():
    values = make({"dist": "normal", "mean": 2, "std": 0.5}, (1000, 1000))
    assert abs(values.mean() - 2) < 0.002
    assert abs(values.std() - 0.5) < 0.002
    inside = np.mean(np.abs(values - 2) < 0.5)
    assert abs(inside - 0.682689) < 0.002


def test_only_seed_name_and_shape_matter():
    base = make({"dist": "normal"})
    assert np.array_equal(base, make({"dist": "normal"}))
    assert np.array_equal(base.astype(ml_dtypes.bfloat16), make({"dist": "normal"}, dtype_name="BF16"))
    assert not np.array_equal(base, make({"dist": "normal"}, seed=8))
    assert not np.array_equal(base, make({"dist": "normal"}, name="ropeSin"))
    assert not np.array_equal(base.reshape(-1), make({"dist": "normal"}, (5, 3)).reshape(-1))


def test_chunking_does_not_show(monkeypatch):
    whole = make({"dist": "normal"}, (101, 7))
    monkeypatch.setattr(data_module, "CHUNK", 32)
    assert np.array_equal(whole, make({"dist": "normal"}, (101, 7)))


def test_rounding_to_the_dtype():
    values = {"dist": "values", "values": [1.00390625, 1.01171875, -1.00390625]}  # ties of BF16 at 2^-8
    assert make(values, (3,), "BF16").astype(np.float32).tolist() == [1.0, 1.015625, -1.0]
    assert make({"dist": "values", "values": [2.5, 3.5, 300.0]}, (3,), "INT8").tolist() == [2, 4, 127]
    assert make({"dist": "values", "values": [9, -9]}, (2,), "INT4").astype(int).tolist() == [7, -8]
    assert make({"dist": "values", "values": [-4.0]}, (1,), "FLOAT8_E8M0").view(np.uint8).tolist() == [129]
    assert make({"dist": "values", "values": [1.0625]}, (1,), "HIFLOAT8").view(np.uint8).tolist() == [0x09]
    assert make({"dist": "values", "values": [0, 2, 1]}, (3,), "BOOL").tolist() == [False, True, True]


def test_raw_bit_patterns():
    assert make({"dist": "raw", "values": [0x3F80, 0xC000]}, (2,), "BF16").astype(np.float32).tolist() == [
        1.0,
        -2.0,
    ]
    assert make({"dist": "raw", "values": [0x7FC00000]}, (1,), "FP32").view(np.uint32).tolist() == [0x7FC00000]
    assert make({"dist": "raw", "values": [0xFF]}, (1,), "INT8").tolist() == [-1]
    assert make({"dist": "raw", "values": [0x8F]}, (2,), "INT4").astype(int).tolist() == [-1, -8]
    with pytest.raises(DataError, match="1 wanted"):
        make({"dist": "raw", "values": [1, 2]}, (2,), "INT4")


def test_triu_zeros_ones():
    assert make({"dist": "triu", "value": -5}, (3, 3), "FP16").tolist() == [
        [0, -5, -5],
        [0, 0, -5],
        [0, 0, 0],
    ]
    assert make({"dist": "zeros"}, (2,), "HIFLOAT8").view(np.uint8).tolist() == [0, 0]
    assert make({"dist": "ones"}, (2,), "HIFLOAT8").view(np.uint8).tolist() == [8, 8]
    with pytest.raises(DataError, match="diagonal"):
        make({"dist": "triu", "value": 1}, (3,))


def test_permutation_of_more_values_than_elements():
    got = make({"dist": "permutation", "high": 1000}, (4,), "INT32")
    assert len(set(got.tolist())) == 4
    assert got.min() >= 0
    assert got.max() < 1000


def test_numpy_randomstate():
    # the first draws of RandomState(0), as NumPy's documentation has shown them since 1.x
    got = make({"dist": "numpy_randomstate", "seed": 0, "method": "uniform", "low": 0, "high": 1}, (2,))
    assert got.tolist() == [np.float32(0.5488135039273248), np.float32(0.7151893663724195)]
    got = make({"dist": "numpy_randomstate", "seed": 0, "method": "randint", "low": 0, "high": 10}, (5,), "INT32")
    assert got.tolist() == [5, 0, 3, 3, 7]


def test_number_of_values_must_fit():
    with pytest.raises(DataError, match="3 values for shape"):
        make({"dist": "values", "values": [1, 2, 3]}, (2,))


def test_default_data():
    assert default_data("tokenX", "BF16", output=False)["dist"] == "normal"
    assert default_data("kvCacheRef", "BF16", output=False)["dist"] == "zeros"
    assert default_data("queryOut", "BF16", output=True)["dist"] == "zeros"
    assert default_data("cacheIndexOptional", "INT64", output=False)["dist"] == "zeros"

"""Goldens: what the reference says, and what it says nobody may touch."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import parse
from cann_mla.validate.golden import NoGoldenError, file_golden, reference_golden, run_reference
from cann_mla.validate.library import select_product
from cann_mla.validate.signatures import check_names, complete_attrs, roles_of
from cann_mla.validate.verify import CannotRunError, NotHereError

OP = "aclnnMlaPrologV3WeightNz"
HE, HCQ, N, D, T = 64, 128, 1, 128, 3


def prolog(cache_data, index):
    nz = {"dtype": "BF16", "format": "FRACTAL_NZ", "data": {"dist": "normal", "std": 0.1}}
    tensors = {
        "tokenX": {"shape": [T, HE], "dtype": "BF16"},
        "weightDq": {"shape": [HE, HCQ], **nz},
        "weightUqQr": {"shape": [HCQ, N * (D + 64)], **nz},
        "weightUk": {"shape": [N, D, 512], "dtype": "BF16"},
        "weightDkvKr": {"shape": [HE, 576], **nz},
        "rmsnormGammaCq": {"shape": [HCQ], "dtype": "BF16", "data": {"dist": "ones"}},
        "rmsnormGammaCkv": {"shape": [512], "dtype": "BF16", "data": {"dist": "ones"}},
        "ropeSin": {"shape": [T, 64], "dtype": "BF16"},
        "ropeCos": {"shape": [T, 64], "dtype": "BF16"},
        "kvCacheRef": {"shape": [2, 16, 1, 512], "dtype": "BF16", "data": cache_data},
        "krCacheRef": {"shape": [2, 16, 1, 64], "dtype": "BF16", "data": cache_data},
        "cacheIndexOptional": {"shape": [T], "dtype": "INT64", "data": {"dist": "values", "values": index}},
        "queryOut": {"shape": [T, N, 512], "dtype": "BF16"},
        "queryRopeOut": {"shape": [T, N, 64], "dtype": "BF16"},
    }
    case = parse({"id": "a", "op": OP, "soc": "Ascend910B", "tensors": tensors, "seed": 1})
    return case, make_operands(case, is_output=roles_of(OP).is_output)


@pytest.mark.parametrize("cache_data", [{"dist": "zeros"}, {"dist": "normal"}, {"dist": "ones"}])
@pytest.mark.parametrize("precision", ["device", "exact"])
def test_rows_that_no_token_writes(cache_data, precision):
    """Tokens 0 and 2 write rows 20 and 3; token 1 is skipped by its negative index."""
    case, arrays = prolog(cache_data, [20, -1, 3])
    golden = reference_golden(case, arrays, roles_of(OP), precision)
    for name, width in (("kvCacheRef", 512), ("krCacheRef", 64)):
        untouched = golden[name].untouched.reshape(32, -1)
        assert untouched.shape[1] == width * 2 // 16
        assert [row for row in range(32) if not untouched[row].any()] == [3, 20]
        assert all(untouched[row].all() for row in range(32) if row not in (3, 20))
        kept = golden[name].array.reshape(32, width)[[0, 31]].astype(np.float32)
        assert np.array_equal(kept, arrays[name].reshape(32, width)[[0, 31]].astype(np.float32))
        plain = run_reference(case, arrays, roles_of(OP), precision)[name]
        assert np.array_equal(golden[name].array.astype(np.float64), plain.astype(np.float64))


def test_a_file_of_another_dtype_is_refused(tmp_path):
    case, arrays = prolog({"dist": "zeros"}, [0, 1, 2])
    np.savez(tmp_path / "e.npz", kvCacheRef=np.zeros((2, 16, 1, 512), np.float32))
    case.folder, case.expected_npz = tmp_path, "e.npz"
    with pytest.raises(ValueError, match="kvCacheRef"):
        file_golden(case, arrays, roles_of(OP))


def test_a_file_says_which_rows_stay(tmp_path):
    case, arrays = prolog({"dist": "zeros"}, [0, 1, 2])
    expected = np.zeros((2, 16, 1, 512), ml_dtypes.bfloat16)
    expected[0, 5] = 1
    np.savez(tmp_path / "e.npz", kvCacheRef=expected.view(np.uint16), stranger=np.zeros(1))
    case.folder, case.expected_npz = tmp_path, "e.npz"
    golden = file_golden(case, arrays, roles_of(OP))
    assert list(golden) == ["kvCacheRef"]
    assert np.flatnonzero(~golden["kvCacheRef"].untouched).tolist() == list(range(5 * 64, 6 * 64))


def test_an_operator_without_a_reference():
    case = parse({"id": "a", "op": "aclnnSwiGlu", "tensors": {}})
    with pytest.raises(NoGoldenError, match="no reference for aclnnSwiGlu"):
        run_reference(case, {}, roles_of("aclnnSwiGlu"), "device")


def test_roles_and_names():
    roles = roles_of(OP)
    assert roles.is_output("queryOut")
    assert not roles.is_output("kvCacheRef")
    assert roles.is_written("kvCacheRef")
    assert not roles.is_written("tokenX")
    check_names(roles, ["tokenX"], ["tileSize"])
    with pytest.raises(CannotRunError, match="no tensor 'tokenx'"):
        check_names(roles, ["tokenx"], [])
    with pytest.raises(CannotRunError, match="aclnnNone"):
        roles_of("aclnnNone")


def test_documented_defaults():
    phase_one = roles_of(OP).operator.get_workspace
    attrs = complete_attrs(OP, phase_one, {"kcScale": 2.0, "cacheModeOptional": None})
    assert attrs == {
        "rmsnormEpsilonCq": 1e-5, "rmsnormEpsilonCkv": 1e-5, "cacheModeOptional": None, "weightQuantMode": 0,
        "kvCacheQuantMode": 0, "queryQuantMode": 0, "ckvkrRepoMode": 0, "quantScaleRepoMode": 0, "tileSize": 128,
        "qcQrScale": 1.0, "kcScale": 2.0,
    }  # fmt: skip
    attention = "aclnnFusedInferAttentionScoreV3"
    attrs = complete_attrs(attention, roles_of(attention).operator.get_workspace, {"numHeads": 8})
    assert (attrs["inputLayout"], attrs["preTokens"], attrs["numHeads"]) == ("BSH", 2147483647, 8)
    assert attrs["actualSeqLengthsOptional"] is None  # an array: null
    with pytest.raises(CannotRunError, match="cubeMathType"):
        complete_attrs("aclnnMm", roles_of("aclnnMm").operator.get_workspace, {})


@pytest.mark.parametrize(
    ("chip", "soc", "fits"),
    [
        ("Ascend910B1", "Ascend910B", True),
        ("Ascend910_9382", "Ascend910_93", True),
        ("Ascend950PR_9589", "Ascend950", True),
        ("Ascend910_9382", "Ascend910B", False),
        ("Ascend910B1", "Ascend950", False),
        (None, "Ascend910B", False),
        ("Ascend910B1", None, True),
    ],
)
def test_hardware_takes_only_its_own_cases(chip, soc, fits):
    library = SimpleNamespace(backend="cann", soc=chip)
    if fits:
        select_product(library, soc)
    else:
        with pytest.raises(NotHereError, match=soc):
            select_product(library, soc)

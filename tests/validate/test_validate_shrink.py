"""Shrinking and replaying: the smallest case that still fails, on its own, as a file and as a script."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from cann_mla.validate.cases import load, parse
from cann_mla.validate.replay import as_json, save
from cann_mla.validate.shrink import candidates, shrink, weight
from cann_mla.validate.verify import Options

CASE = {
    "id": "a/b c",
    "op": "aclnnX",
    "soc": "Ascend910B",
    "tensors": {
        "x": {"shape": [64, 256], "dtype": "BF16"},
        "w": {"shape": [256, 96], "dtype": "BF16", "format": "FRACTAL_NZ", "storage_shape": [6, 16, 16, 16]},
        "biasOptional": {"shape": [96], "dtype": "FP32", "data": {"dist": "ones"}},
        "index": {"shape": [64], "dtype": "INT64", "data": {"dist": "permutation", "high": 128}},
        "lens": {"shape": [4], "dtype": "INT32", "memory": "host", "data": {"dist": "values", "values": [1, 2, 3, 64]}},
        "y": [{"shape": [64, 96], "dtype": "BF16"}] * 4,
    },
    "attrs": {"heads": 4, "eps": 1e-5, "flag": True, "lengths": [32, 64]},
    "seed": 3,
    "expect": {"status": 0, "phase": 1},
    "workspace": 64,
    "why": "because",
}


def tensors_of(case):
    return dict(case.specs())


def test_json_round_trip():
    assert as_json(parse(CASE)) == CASE


def test_shrinks_to_what_matters():
    """It fails while x has a second dimension of at least 32: nothing else has to stay."""

    def fails(case):
        return tensors_of(case)["x"].shape[1] >= 32

    case = shrink(parse(CASE), fails)
    tensors = tensors_of(case)
    assert tensors["x"].shape[1] in range(32, 64)
    assert tensors["x"].shape[0] == 1
    assert case.tensors["biasOptional"] is None
    assert len(case.tensors["y"]) == 1
    assert weight(case) < 100


def test_a_size_changes_wherever_it_stands():
    changed = next(c for c in candidates(parse(CASE)) if tensors_of(c)["x"].shape == (16, 256))
    tensors = tensors_of(changed)
    assert tensors["y.0"].shape == (16, 96)
    assert tensors["index"].shape == (16,)
    assert changed.attrs["lengths"] == [32, 16]
    assert tensors["lens"].data["values"] == [1, 2, 3, 16]
    scaled = [c for c in candidates(parse(CASE)) if tensors_of(c)["x"].shape == (16, 64)]
    assert tensors_of(scaled[0])["index"].data["high"] == 32  # 128 is twice 64, and 256 four times


def test_values_are_cut_to_the_shape():
    case = next(c for c in candidates(parse(CASE)) if tensors_of(c)["lens"].shape == (1,))
    assert len(tensors_of(case)["lens"].data["values"]) == 1
    assert case.attrs["heads"] == 1


def test_the_original_is_not_touched():
    case = parse(CASE)
    shrink(case, lambda _: True)
    assert as_json(case) == CASE


def test_time_ends_the_search():
    case = parse(CASE)
    assert shrink(case, lambda _: True, seconds=0.0) is case


@pytest.fixture(params=["pass", "fail"])
def verdict(request):
    return request.param


def test_saved_case_and_script(tmp_path, verdict):
    """A refusal that comes true, or does not: the script ends as the case does."""
    expected = -1 if verdict == "pass" else 0
    case = parse(
        {
            "id": "mode 9",
            "op": "aclnnMlaPrologV3WeightNz",
            "soc": "Ascend910B",
            "attrs": {"weightQuantMode": 9},
            "expect": {"status": expected},
        }
    )
    case_file, script = save(case, Options(via="sim", status_only=True), tmp_path / "kept")
    assert case_file.name == "mode_9.json"
    (again,) = load(case_file)
    assert replace(again, folder=case.folder) == case
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    record = json.loads(done.stdout)
    assert (record["verdict"], record["status"]) == (verdict, -1)
    assert done.returncode == (0 if verdict == "pass" else 1)

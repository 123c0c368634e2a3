"""The case format, read to the letter."""

import json

import pytest

from cann_mla.validate import cases
from cann_mla.validate.cases import Case, CaseError, Skipped, TensorSpec, load, parse
from cann_mla.validate.verify import Options, verify_case

MINIMAL = {"id": "a", "op": "aclnnX", "tensors": {"x": {"shape": [2, 3], "dtype": "BF16"}}}


def documented(key):
    """Whether the docstring describes a key, and does not only use it in its example."""
    return f"``{key}``" in cases.__doc__


def test_the_docstring_describes_every_key():
    for known in (cases._CASE_KEYS, cases._TENSOR_KEYS, cases._EXPECT_KEYS, cases._DISTS):
        assert [key for key in known if not documented(key)] == []
    for dist, (needed, optional) in cases._DISTS.items():
        for parameter in needed | (optional - {"cast"}):
            assert documented(parameter), f"{parameter} of {dist}"


def test_the_example_of_the_docstring_passes():
    text = cases.__doc__
    start = text.index("    {\n")
    case = parse(json.loads(text[start : text.index("\n    }\n", start) + 6]))
    record = verify_case(case, Options(via="sim"))
    assert record["verdict"] == "pass", record["message"]
    assert set(record["outputs"]) == {"yOut", "rstdOut"}


def with_tensor(**keys):
    return {**MINIMAL, "tensors": {"x": {"shape": [2, 3], "dtype": "BF16", **keys}}}


def test_defaults():
    case = parse(MINIMAL)
    spec = case.tensors["x"]
    assert isinstance(spec, TensorSpec)
    assert (spec.format, spec.storage_shape, spec.strides, spec.offset, spec.memory) == (
        "ND",
        None,
        None,
        0,
        "device",
    )
    assert (case.seed, case.status, case.phase, case.workspace, case.soc) == (0, 0, None, None, None)


def test_everything_a_case_can_say():
    case = parse(
        {
            "id": "b",
            "op": "aclnnX",
            "soc": "Ascend950",
            "tensors": {
                "a": {"shape": [], "dtype": "FP32", "data": {"dist": "normal", "mean": 1, "std": 2}},
                "b": [{"shape": [4], "dtype": "INT4"}, {"shape": [4], "dtype": "INT4", "alias": "a"}],
                "c": {"shape": [2, 2], "dtype": "INT8", "strides": [1, 2], "offset": 1, "storage_shape": [5]},
                "d": None,
                "e": {
                    "shape": [1],
                    "dtype": "INT32",
                    "memory": "host",
                    "data": {"dist": "values", "values": [3]},
                },
            },
            "attrs": {"n": 1, "s": "TND", "f": 1.5, "b": True, "none": None, "lengths": []},
            "seed": 9,
            "inputs_npz": ["in.npz"],
            "expected_npz": "out.npz",
            "expect": {"status": "reject", "phase": 1},
            "workspace": 32,
            "why": "remark",
            "real": "crash",
        }
    )
    assert [name for name, _ in case.specs()] == ["a", "b.0", "b.1", "c", "e"]
    assert case.attrs["lengths"] == []
    assert case.attrs["none"] is None
    assert case.remarks == {"real": "crash", "why": "remark"}
    assert (case.status, case.phase, case.workspace) == ("reject", 1, 32)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({**MINIMAL, "expects": {}}, ["'expects'", "expect"]),
        (with_tensor(stride=[1, 2]), ["'stride'", "tensors.x", "strides"]),
        (with_tensor(data={"dist": "normal", "sigma": 1}), ["'sigma'", "tensors.x.data"]),
        ({**MINIMAL, "expect": {"code": 1}}, ["'code'", "expect"]),
        (with_tensor(data={"dist": "gauss"}), ["'gauss'", "normal"]),
        (with_tensor(data={"dist": "uniform", "low": 1}), ["high"]),
        (with_tensor(data={"dist": "values", "values": 3}), ["values"]),
        ({**MINIMAL, "soc": "Ascend910B1"}, ["Ascend910B1", "Ascend910_93"]),
        ({**MINIMAL, "tensors": {"x": {"shape": [2], "dtype": "FLOAT16"}}}, ["FLOAT16", "FP16"]),
        ({**MINIMAL, "tensors": {"x": {"shape": [2]}}}, ["dtype"]),
        ({**MINIMAL, "tensors": {"x": {"shape": [2, True], "dtype": "FP16"}}}, ["tensors.x.shape"]),
        ({**MINIMAL, "tensors": {"x": {"shape": 2, "dtype": "FP16"}}}, ["tensors.x.shape"]),
        ({**MINIMAL, "tensors": {"x": [None]}}, ["x[0]"]),
        (with_tensor(format="NZ"), ["'NZ'", "FRACTAL_NZ"]),
        (with_tensor(memory="gpu"), ["'gpu'", "host"]),
        (with_tensor(strides=[1]), ["1 strides", "rank 2"]),
        (with_tensor(alias=3), ["alias"]),
        ({**MINIMAL, "attrs": {"a": {"b": 1}}}, ["attrs.a"]),
        ({**MINIMAL, "attrs": {"a": [1, "2"]}}, ["attrs.a"]),
        ({**MINIMAL, "seed": "7"}, ["seed"]),
        ({**MINIMAL, "expect": {"status": "ok"}}, ["'ok'", "reject"]),
        ({**MINIMAL, "expect": {"phase": 3}}, ["3"]),
        ({"op": "aclnnX"}, ["id"]),
        ({**MINIMAL, "inputs_npz": "a.npz"}, ["inputs_npz"]),
        ([1], ["a list"]),
    ],
)
def test_a_wrong_case_is_named(value, names):
    with pytest.raises(CaseError) as error:
        parse(value, source="file.json")
    for name in [*names, "file.json"]:
        assert name in str(error.value)


def test_case_error_carries_the_case():
    with pytest.raises(CaseError) as error:
        parse({**MINIMAL, "shape": 1})
    assert error.value.case_id == "a"
    assert "'a'" in str(error.value)


def test_folder_of_all_forms(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(MINIMAL))
    (tmp_path / "many.json").write_text(json.dumps({"cases": [{**MINIMAL, "id": "b"}, {**MINIMAL, "bad": 1}]}))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "lines.jsonl").write_text(json.dumps({**MINIMAL, "id": "c"}) + "\n\n{broken\n")
    (tmp_path / "sub" / "index.json").write_text('{"vectors": []}')
    (tmp_path / "notes.txt").write_text("not read")
    found = list(load(tmp_path))
    assert [c.id for c in found if isinstance(c, Case)] == ["b", "a", "c"]
    errors = [str(e) for e in found if isinstance(e, CaseError)]
    assert len(errors) == 2
    assert "'bad'" in errors[0]
    assert "lines.jsonl:3" in errors[1]
    (skipped,) = [s for s in found if isinstance(s, Skipped)]
    assert "index.json" in skipped.source


def test_nan_and_infinity_are_read(tmp_path):
    file = tmp_path / "case.json"
    file.write_text('{"id": "a", "op": "x", "attrs": {"eps": NaN, "limit": -Infinity}}')
    (case,) = load(file)
    assert case.attrs["eps"] != case.attrs["eps"]
    assert case.attrs["limit"] == float("-inf")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(load(tmp_path / "nowhere.json"))

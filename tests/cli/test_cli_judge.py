"""Judging outputs that one already has, and explaining what made them or an expected file."""

import json
from pathlib import Path

import numpy as np
import pytest

from cann_mla.cli import main

T, HE, HCQ, N = 4, 1024, 1536, 2
CASE = json.loads((Path(__file__).parent.parent / "data" / "cli" / "prolog.json").read_text())  # with the sizes above


def prolog(**keys):
    return {**CASE, **keys}


def verify(tmp_path, case, *options):
    file = tmp_path / "verified.json"
    file.write_text(json.dumps(case))
    return main(["verify", str(file), "--via", "sim", *options])


def reference_outputs(tmp_path, name, **inputs):
    """What the reference makes of the prolog case with some operands replaced, written as an npz."""
    np.savez(tmp_path / "replaced.npz", **inputs)
    options = ["--inputs", str(tmp_path / "replaced.npz")] if inputs else []
    file = tmp_path / "run.json"
    file.write_text(json.dumps(prolog()))
    assert main(["run", str(file), "--via", "reference", "--outputs", str(tmp_path / name), *options]) == 0


def operand(name):
    """An operand of the prolog case as the file form has it."""
    from cann_mla.dtypes import to_bits
    from cann_mla.validate.arrays import make_operands
    from cann_mla.validate.cases import parse

    return to_bits(make_operands(parse(prolog()), is_output=lambda other: other.endswith("Out"))[name])


def judged(tmp_path, case, *options):
    """Exit status and result line of ``verify --outputs mine.npz``."""
    file, lines = tmp_path / "judged.json", tmp_path / "judged.jsonl"
    file.write_text(json.dumps(case))
    status = main(["verify", str(file), "--outputs", str(tmp_path / "mine.npz"), "--json", str(lines), *options])
    return status, json.loads(lines.read_text()) if lines.exists() else None


def test_outputs_one_already_has(tmp_path, capsys, monkeypatch):
    """They are judged and nothing is run: no library is opened."""
    reference_outputs(tmp_path, "mine.npz")
    monkeypatch.setattr("cann_mla.validate.library.open_library", lambda via: pytest.fail("a library was opened"))
    monkeypatch.setattr("cann_mla.validate.run.run_case", lambda *unused: pytest.fail("the case was run"))
    status, line = judged(tmp_path, prolog())
    assert (status, line["verdict"], line["status"], line["via"]) == (0, "pass", None, "file")
    assert set(line["outputs"]) == {"queryOut", "queryRopeOut", "kvCacheRef", "krCacheRef"}
    mine = dict(np.load(tmp_path / "mine.npz"))
    mine["queryOut"].reshape(-1)[7] ^= 0x8000  # the sign of one element
    np.savez(tmp_path / "mine.npz", **mine)
    status, line = judged(tmp_path, prolog(), "--standard", "mere-mare", "--standard", "mixed-tolerance")
    assert (status, line["verdict"]) == (1, "fail")
    assert list(line["standards"]) == ["mere-mare/1", "mixed-tolerance/1"]
    assert line["standards"]["mixed-tolerance/1"]["outputs"]["queryOut"]["worst"] == [0, 0, 7]
    assert line["standards"]["mixed-tolerance/1"]["outputs"]["kvCacheRef"]["ok"]


def test_an_output_that_is_missing_fails(tmp_path, capsys):
    reference_outputs(tmp_path, "all.npz")
    mine = dict(np.load(tmp_path / "all.npz"))
    mine["queryout"] = mine.pop("queryOut")
    np.savez(tmp_path / "mine.npz", **mine)
    status, line = judged(tmp_path, prolog())
    assert (status, line["verdict"]) == (1, "fail")
    assert "queryOut: not among the results" in line["message"]
    assert "queryout (did you mean queryOut?)" in capsys.readouterr().err


def test_outputs_of_other_inputs(tmp_path, capsys):
    """Zero tokens give other numbers than the case's; with --inputs they are what is judged."""
    zeros = np.zeros((T, HE), np.uint16)
    reference_outputs(tmp_path, "mine.npz", tokenX=zeros)
    assert judged(tmp_path, prolog())[0] == 1
    assert judged(tmp_path, prolog(), "--inputs", str(tmp_path / "replaced.npz"))[0] == 0


def test_outputs_are_explained(tmp_path, capsys):
    reference_outputs(tmp_path, "mine.npz", ropeSin=operand("ropeCos"), ropeCos=operand("ropeSin"))
    status, line = judged(tmp_path, prolog(), "--explain")
    assert status == 1
    found = "ropeSin and ropeCos swapped - explains queryRopeOut, krCacheRef of the result"
    assert found in line["explanation"]
    assert f"prolog: {found}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "options", "word"),
    [
        ({"cases": [prolog(id="a"), prolog(id="b")]}, [], "--id, such as 'a'"),
        (prolog(), ["--id", "other"], "none of 1 cases"),
        (prolog(colour=1), [], "'colour'"),
        (prolog(), ["--via", "sim", "--shrink"], "leave out --via, --shrink"),
    ],
)
def test_outputs_are_those_of_one_case(tmp_path, capsys, case, options, word):
    np.savez(tmp_path / "mine.npz", queryOut=np.zeros(1, np.uint16))
    assert judged(tmp_path, case, *options) == (2, None)
    assert word in capsys.readouterr().err


def test_explain_says_what_made_the_expected_file(tmp_path, capsys):
    """Whoever made the file took 64 rotated columns first in each head of 192."""
    heads = operand("weightUqQr").reshape(HCQ, N, 192)
    rope_first = np.concatenate([heads[..., 64:], heads[..., :64]], axis=2).reshape(HCQ, N * 192)
    reference_outputs(tmp_path, "golden.npz", weightUqQr=rope_first)
    assert verify(tmp_path, prolog(expected_npz="golden.npz"), "--explain") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("prolog: ")]
    assert lines[0] == "prolog: the result agrees with the reference; it is the expected file that differs"
    assert lines[1] == (
        "prolog: weightUqQr: rope columns taken before the nope columns of each head"
        " - explains queryOut, queryRopeOut of the expected file"
    )


def test_a_case_without_a_reference_is_not_explained(tmp_path, capsys):
    """With an expected file it is judged all the same."""
    tensors = {name: {"shape": [4], "dtype": "FP32"} for name in ("selfRef", "src")}
    np.savez(tmp_path / "golden.npz", **{"selfRef": np.ones(4, np.float32)})
    np.savez(tmp_path / "mine.npz", **{"selfRef": np.zeros(4, np.float32)})
    case = {"id": "copy", "op": "aclnnInplaceCopy", "tensors": tensors, "expected_npz": "golden.npz"}
    status, line = judged(tmp_path, case, "--explain")
    assert (status, line["verdict"], line["outputs"]["selfRef"]["max_abs"]) == (1, "fail", 1.0)
    assert "copy: mistakes are played on the reference, which cannot compute this case" in capsys.readouterr().out


def test_explain_says_that_no_mistake_explains_the_file(tmp_path, capsys):
    np.savez(tmp_path / "golden.npz", queryOut=np.full((T, N, 512), 0x4000, np.uint16))
    assert verify(tmp_path, prolog(expected_npz="golden.npz"), "--explain") == 1
    text = capsys.readouterr().out
    assert "it is the expected file that differs" in text
    assert "none of the usual mistakes explains the expected file" in text

"""``cann-mla verify`` and ``run``: verdicts, result lines and exit statuses, on the simulator and the reference."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from cann_mla.cli import main

DATA = Path(__file__).parent.parent / "data"
VECTORS = DATA / "attention"
T, HE, HCQ, N, D = 4, 1024, 1536, 2, 128
PROLOG = json.loads((DATA / "cli" / "prolog.json").read_text())  # with the sizes above
# 16 MiB, and for each of the 4 tokens two BF16 c_q, one BF16 latent row, FP32 heads and BF16 head parts
WORKSPACE = 16777216 + 4 * (HCQ * 2 * 2 + 576 * 2 + N * (D + 64) * 4 + N * D * 2)


def prolog(expect=None, *, tensors=None, attrs=None, **keys):
    case = copy.deepcopy(PROLOG)
    for name, change in (tensors or {}).items():
        case["tensors"][name] = None if change is None else {**case["tensors"][name], **change}
    case.update(attrs=attrs or {}, expect=expect or {"status": 0}, **keys)
    return case


def verify(tmp_path, cases, *options):
    """Exit status and result lines."""
    file, lines = tmp_path / "cases.json", tmp_path / "lines.jsonl"
    file.write_text(json.dumps({"cases": cases}))
    status = main(["verify", str(file), "--json", str(lines), *options])
    return status, [json.loads(line) for line in lines.read_text().splitlines()]


def sim(tmp_path, cases, *options):
    return verify(tmp_path, cases, "--via", "sim", "--status-only", *options)


def test_statuses_as_expected(tmp_path):
    cases = [
        prolog({"status": 0, "phase": 1}, id="legal", workspace=WORKSPACE),
        prolog({"status": -1, "phase": 1}, id="mode", attrs={"weightQuantMode": 3}),
        prolog({"status": 161001}, id="null", tensors={"ropeSin": None}),
        prolog({"status": 161002}, id="dtype", tensors={"tokenX": {"dtype": "FP16"}}),
        prolog({"status": 561002}, id="shape", tensors={"ropeCos": {"shape": [T, 32]}}),
        prolog({"status": "reject"}, id="reject", attrs={"tileSize": 64}),
        prolog({"status": "any"}, id="any", attrs={"tileSize": 64}),
    ]
    status, lines = sim(tmp_path, cases)
    assert [(line["id"], line["verdict"]) for line in lines] == [(case["id"], "pass") for case in cases]
    assert [line["status"] for line in lines] == [0, -1, 161001, 161002, 561002, 561002, 561002]
    assert [line["phase"] for line in lines] == [None, 1, 1, 1, 1, 1, 1]
    assert lines[0]["workspace"] == WORKSPACE
    assert status == 0


def test_a_result_line_has_every_key(tmp_path):
    _, (line,) = sim(tmp_path, [prolog()])
    assert set(line) == {
        "id", "op", "soc", "verdict", "status", "phase", "expected", "workspace", "message", "standard", "outputs",
        "seconds", "via", "golden",
    }  # fmt: skip
    assert (line["op"], line["soc"], line["via"]) == ("aclnnMlaPrologV3WeightNz", "Ascend910B", "sim")


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (prolog({"status": 561002}), "status 0"),
        (prolog({"status": 0}, attrs={"tileSize": 64}), "tileSize"),
        (prolog({"status": "reject"}), "refusal"),
        (prolog({"status": 561002, "phase": 2}, attrs={"tileSize": 64}), "phase 1"),
        (prolog({"status": 0}, workspace=WORKSPACE + 32), "workspace"),
    ],
)
def test_a_wrong_status_fails(tmp_path, case, word):
    status, (line,) = sim(tmp_path, [case])
    assert line["verdict"] == "fail"
    assert word in line["message"]
    assert status == 1


def test_what_cannot_be_run_is_an_error_and_the_rest_goes_on(tmp_path, capsys):
    cases = [
        prolog(id="unknown key", colour=1),
        prolog(id="unknown operator", op="aclnnNoSuchThing"),
        {**prolog(id="unknown operand"), "tensors": {**PROLOG["tensors"], "tokenY": {"shape": [1], "dtype": "FP16"}}},
        prolog(id="unknown attribute", attrs={"tileSizes": 128}),
        prolog(id="good"),
    ]
    status, lines = sim(tmp_path, cases)
    assert [line["verdict"] for line in lines] == ["error"] * 4 + ["pass"]
    for line, word in zip(lines, ("'colour'", "aclnnNoSuchThing", "'tokenY'", "'tileSizes'"), strict=False):
        assert word in line["message"]
    assert "did you mean tileSize?" in lines[3]["message"]
    assert status == 1
    assert "'colour'" in capsys.readouterr().out


def test_doubtful_rows_are_marked(tmp_path):
    cases = [prolog(doubtful=True), prolog(note="doubtful: a guess"), prolog(note="sure")]
    _, lines = sim(tmp_path, cases)
    assert [line.get("doubtful", False) for line in lines] == [True, True, False]


def test_filters(tmp_path):
    cases = [prolog(id="a/1"), prolog(id="a/2", soc="Ascend950"), prolog(id="b/1")]
    assert [line["id"] for line in sim(tmp_path, cases, "--soc", "Ascend950")[1]] == ["a/2"]
    assert [line["id"] for line in sim(tmp_path, cases, "--id", "a/*")[1]] == ["a/1", "a/2"]


@pytest.mark.parametrize(
    "filters", [("--id", "mode3"), ("--soc", "Ascend910_93"), ("--id", "a*", "--soc", "Ascend950")]
)
def test_filters_that_match_nothing_end_2(tmp_path, capsys, filters):
    """Nothing verified must not look like success."""
    cases = [prolog(id="a/mode30"), prolog(id="b/other", soc="Ascend950")]
    assert sim(tmp_path, cases, *filters) == (2, [])
    text = capsys.readouterr().err
    assert "none of 2 cases" in text
    assert all(word in text for word in filters)
    assert "a/mode30" in text


def test_a_product_that_does_not_exist(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--soc", "Ascend910B4"])
    assert ended.value.code == 2
    assert "Ascend910_93" in capsys.readouterr().err


def test_the_summary_says_what_is_not_listed(tmp_path, capsys):
    cases = [prolog(id=f"c{index}") for index in range(49)] + [prolog({"status": 561002}, id="bad")]
    sim(tmp_path, cases)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "50 cases: 49 pass, 1 fail; 49 not listed above: --all shows every row"
    )
    sim(tmp_path, cases, "--all")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "50 cases: 49 pass, 1 fail"
    assert sum(line.startswith("c") and line.split()[-1] == "pass" for line in lines) == 49


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [
        *[("run", "--inputs", kind) for kind in ("text", "folder", "absent")],
        *[("run", "--outputs", kind) for kind in ("folder", "absent")],
        *[("verify", "--outputs", kind) for kind in ("text", "folder", "absent")],
        *[("verify", "--json", kind) for kind in ("folder", "absent")],
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, capsys, name, option, kind):
    """Whatever it is, the command ends 2 with a line that names it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("text")
    bad = tmp_path / "absent" / "x" if kind == "absent" else tmp_path / kind
    case = tmp_path / "case.json"
    case.write_text(json.dumps(prolog()))
    assert main([name, str(case), option, str(bad)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"cann-mla {name}: ")
    assert str(bad) in error


def test_a_file_of_the_case_that_is_no_archive(tmp_path):
    (tmp_path / "in.npz").write_text("text")
    status, (line,) = verify(tmp_path, [prolog(inputs_npz=["in.npz"])], "--via", "sim")
    assert (status, line["verdict"]) == (1, "error")
    assert "in.npz is no .npz file" in line["message"]


def test_shrink_says_why_it_cannot(tmp_path, capsys):
    """Arrays in a file have the case's shapes."""
    np.savez(tmp_path / "in.npz", tokenX=np.zeros((T, HE), np.uint16))
    case = prolog({"status": 561002}, inputs_npz=["in.npz"])
    assert sim(tmp_path, [case], "--shrink")[0] == 1
    text = capsys.readouterr().out
    assert "prolog: cannot be shrunk: inputs_npz" in text
    assert "elements in all" not in text


def test_the_product_is_the_cases(tmp_path):
    """weightQuantMode 5 exists on Ascend950 only: elsewhere -1 comes before anything else is looked at."""
    cases = [
        prolog({"status": -1}, id="a2", attrs={"weightQuantMode": 5}),
        prolog({"status": 161002}, id="a5", soc="Ascend950", attrs={"weightQuantMode": 5}),
        prolog({"status": -1}, id="a3", soc="Ascend910_93", attrs={"weightQuantMode": 5}),
    ]
    assert [line["verdict"] for line in sim(tmp_path, cases)[1]] == ["pass"] * 3


def test_a_dtype_attribute_may_be_any_number(tmp_path):
    """A type given by name or as a number; a number that is no type goes to CANN, which refuses it."""
    tensors = {name: {"shape": [4], "dtype": "FP16"} for name in ("self", "out")}
    base = {"op": "aclnnCast", "soc": "Ascend910B", "tensors": tensors}
    cases = [
        {**base, "id": "name", "attrs": {"dtype": "FP16"}, "expect": {"status": 0}},
        {**base, "id": "code", "attrs": {"dtype": 1}, "expect": {"status": 0}},
        {**base, "id": "none", "attrs": {"dtype": 99}, "expect": {"status": "reject"}},
    ]
    assert [line["verdict"] for line in sim(tmp_path, cases)[1]] == ["pass"] * 3


def test_numbers_through_the_simulator(tmp_path, capsys):
    status, (line,) = verify(tmp_path, [prolog(workspace=WORKSPACE)], "--via", "sim")
    assert (status, line["verdict"], line["golden"]) == (0, "pass", "reference/device")
    assert set(line["outputs"]) == {"queryOut", "queryRopeOut", "kvCacheRef", "krCacheRef"}
    assert all(output["share_ok"] == 1.0 for output in line["outputs"].values())
    assert line["standard"] == "mixed-tolerance/1"
    table = capsys.readouterr().out
    for word in ("queryOut", "4x2x512", "BF16", "mixed-tolerance/1", "pass"):
        assert word in table


def test_several_standards_side_by_side(tmp_path):
    names = ("mixed-tolerance", "mere-mare", "atb-single:4096")
    _, (line,) = verify(tmp_path, [prolog()], "--via", "sim", *[x for n in names for x in ("--standard", n)])
    assert list(line["standards"]) == ["mixed-tolerance/1", "mere-mare/1", "atb-single/1"]


def test_vectors_through_the_reference(tmp_path):
    lines = tmp_path / "lines.jsonl"
    status = main(["verify", str(VECTORS), "--id", "aclnn*", "--via", "reference", "--json", str(lines)])
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert status == 0
    assert len(records) > 5
    assert all(record["verdict"] == "pass" and record["golden"].startswith("file/") for record in records)


def test_a_wrong_number_fails(tmp_path):
    """A vector whose expected file is changed in one element beyond the limit."""
    source = next(VECTORS.glob("bnsd*.json"))
    case = json.loads(source.read_text())
    expected = dict(np.load(VECTORS / case["expected_npz"]))
    expected["attentionOut"] = expected["attentionOut"].copy()
    expected["attentionOut"].reshape(-1)[5] += 1
    np.savez(tmp_path / "changed.npz", **expected)
    case["expected_npz"] = "changed.npz"
    case["inputs_npz"] = [str((VECTORS / name).resolve()) for name in case["inputs_npz"]]
    status, (line,) = verify(tmp_path, [case], "--via", "reference")
    assert (status, line["verdict"]) == (1, "fail")
    assert "limit" in line["message"]
    assert line["outputs"]["attentionOut"]["worst"] == [
        int(i) for i in np.unravel_index(5, expected["attentionOut"].shape)
    ]


def test_the_reference_is_not_compared_with_itself(tmp_path):
    status, (line,) = verify(tmp_path, [prolog()], "--via", "reference")
    assert (status, line["verdict"]) == (0, "skip")
    assert "itself" in line["message"]


@pytest.mark.parametrize("arguments", [["nowhere.json"], ["aclnnNoSuchThing"], ["--standard", "tolerant"]])
def test_what_is_not_there(arguments, capsys):
    assert main(["verify", "--via", "reference", *arguments]) == 2
    assert "cann-mla verify:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("aclnnRmsNorm", ["no built-in cases", "aclnnMlaPrologV3WeightNz", "case file", "cann-mla ops aclnnRmsNorm"]),
        ("aclnnMlaPrologV3WeigthNz", ["did you mean aclnnMlaPrologV3WeightNz", "no file"]),
    ],
)
def test_an_operator_without_built_in_cases(target, words, capsys):
    assert main(["verify", "--via", "reference", target]) == 2
    text = capsys.readouterr().err
    assert all(word in text for word in words)


def test_a_misspelt_file(tmp_path, capsys):
    (tmp_path / "my_case.json").write_text("{}")
    assert main(["verify", "--via", "reference", str(tmp_path / "my_cases.json")]) == 2
    assert f"did you mean {tmp_path}/my_case.json?" in capsys.readouterr().err


def test_nearly_an_operand_is_warned_of(tmp_path, capsys):
    """Arrays that a case does not name are ignored; one whose name is a slip of the pen is not left unsaid."""
    zeros = np.zeros((T, HE), np.uint16)
    np.savez(tmp_path / "in.npz", tokenx=zeros, stranger=zeros)
    assert verify(tmp_path, [prolog(inputs_npz=["in.npz"])], "--via", "sim")[0] == 0
    text = capsys.readouterr().err
    assert "tokenx (did you mean tokenX?)" in text
    assert "stranger" not in text
    np.savez(tmp_path / "out.npz", queryOutt=zeros)
    status, (line,) = verify(tmp_path, [prolog(expected_npz="out.npz")], "--via", "sim")
    assert (status, line["verdict"]) == (1, "error")  # nothing would have been compared
    assert "queryRopeOut" in line["message"]
    assert "queryOutt (did you mean queryOut?)" in capsys.readouterr().err


def test_objects_that_are_no_cases_are_named(tmp_path, capsys):
    (tmp_path / "index.json").write_text('{"vectors": []}')
    assert main(["verify", str(tmp_path), "--via", "reference"]) == 2
    printed = capsys.readouterr()
    assert "index.json" in printed.out
    assert "no case there" in printed.err


def run_one(tmp_path, case, *options):
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case))
    return main(["run", str(file), *options])


def test_run_writes_what_it_computed(tmp_path, capsys):
    outputs = {}
    for via in ("sim", "reference"):
        assert run_one(tmp_path, prolog(), "--via", via, "--outputs", str(tmp_path / f"{via}.npz")) == 0
        line = json.loads(capsys.readouterr().out)
        assert (line["status"], line["via"], line["verdict"]) == (0, via, "pass")
        assert line["message"] == "ran; nothing was compared"
        outputs[via] = dict(np.load(tmp_path / f"{via}.npz"))
    for arrays in outputs.values():
        assert set(arrays) == {"queryOut", "queryRopeOut", "kvCacheRef", "krCacheRef"}
        assert arrays["queryOut"].dtype == np.uint16
        assert arrays["queryOut"].shape == (T, N, 512)
    # rows that no token writes keep their zeros; each of the 4 tokens has a row of its own
    rows = outputs["sim"]["kvCacheRef"].reshape(32, 512).any(axis=1)
    assert rows.sum() == T


def test_run_takes_inputs(tmp_path, capsys):
    """Tokens of zeros: every product is zero, so the rotated query is too."""
    np.savez(tmp_path / "in.npz", tokenX=np.zeros((T, HE), np.uint16), stranger=np.zeros(1), ropesin=np.zeros(1))
    output = str(tmp_path / "out.npz")
    assert run_one(tmp_path, prolog(), "--via", "sim", "--inputs", str(tmp_path / "in.npz"), "--outputs", output) == 0
    assert not (np.load(output)["queryRopeOut"] & 0x7FFF).any()  # zeros of either sign
    assert "not used: stranger, ropesin (did you mean ropeSin?)" in capsys.readouterr().err


def test_run_ends_1_when_cann_refuses(tmp_path, capsys):
    assert run_one(tmp_path, prolog(attrs={"tileSize": 64}), "--via", "sim") == 1
    line = json.loads(capsys.readouterr().out)
    assert (line["status"], line["phase"]) == (561002, 1)
    assert "tileSize" in line["message"]


def test_run_ends_2_when_it_cannot(tmp_path, capsys):
    assert run_one(tmp_path, prolog(op="aclnnNoSuchThing"), "--via", "sim") == 2
    assert json.loads(capsys.readouterr().out)["verdict"] == "error"
    assert run_one(tmp_path, prolog(colour=1), "--via", "sim") == 2
    assert "'colour'" in capsys.readouterr().err
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"cases": [prolog(id="a"), prolog(id="b")]}))
    assert main(["run", str(file)]) == 2
    assert "--id" in capsys.readouterr().err
    assert main(["run", str(file), "--id", "b", "--via", "reference"]) == 0

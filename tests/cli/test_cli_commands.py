"""The smaller commands: what they print and how they end."""

import json
import subprocess
import sys

import pytest

from cann_mla.cli import COMMANDS, build_parser, main


def test_every_command_has_help(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        assert "usage: cann-mla" in capsys.readouterr().out
    assert set(COMMANDS) == {"info", "ops", "run", "verify", "bench", "sim", "headers"}


def test_without_a_command():
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([])
    assert ended.value.code == 2


def test_ops_lists_operators(capsys):
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    assert "aclnnMlaPrologV3WeightNz" in text
    assert "AtbRingMLA" in text


def test_ops_says_what_the_library_has(capsys, monkeypatch):
    """The reference column names what cann_mla.reference has, the last one what the loaded library exports."""
    import cann_mla.libraries

    class Library:
        backend = "cann"

        def has(self, name):
            return name == "aclnnRmsNorm"

    monkeypatch.setattr(cann_mla.libraries, "load", Library)
    assert main(["ops", "aclnn*Norm"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.endswith("in cann")
    column = head.index("in cann")
    found = {row.split()[0]: row[column:].strip() for row in rows}
    assert found["aclnnRmsNorm"] == "yes"
    assert set(found.values()) <= {"yes", ""}
    assert list(found.values()).count("yes") == 1


def test_ops_without_a_library(capsys, monkeypatch):
    import cann_mla.libraries

    def refuse():
        raise ImportError("not built")

    monkeypatch.setattr(cann_mla.libraries, "load", refuse)
    assert main(["ops", "aclnnRmsNorm*"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split()[-1] == "?"
    assert "cann-mla info" in printed.err


def test_ops_shows_roles(capsys):
    assert main(["ops", "aclnnMlaPrologV3WeightNz"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    roles = {row[1]: row[-2:] if row[-1] == "yes" else row[-1:] for row in rows if len(row) > 3 and row[0].isdigit()}
    assert roles["tokenX"] == ["input"]
    assert roles["kvCacheRef"] == ["inplace"]
    assert roles["cacheIndexOptional"] == ["input", "yes"]
    assert roles["queryOut"] == ["output"]
    assert roles["tileSize"] == ["attribute"]


def test_ops_prints_c(capsys):
    assert main(["ops", "aclnnRmsNorm", "--c"]) == 0
    text = capsys.readouterr().out
    assert "aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x" in text
    assert "aclnnStatus aclnnRmsNorm(void *workspace, uint64_t workspaceSize" in text


def test_ops_unknown(capsys):
    assert main(["ops", "RmsNorm"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["ops", "aclnnMlaProlgV3WeightNZ"]) == 2
    assert "did you mean aclnnMlaPrologV3WeightNz" in capsys.readouterr().err
    assert main(["ops", "aclnnNothing*"]) == 2
    assert "aclnnNothing*" in capsys.readouterr().err


def test_info(capsys):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["backend"] in ("sim", "cann")
    assert facts["tried"]
    assert facts["soc"].startswith("Ascend")
    assert main(["info"]) == 0
    assert "backend: " in capsys.readouterr().out


def test_sim_answers(capsys):
    assert main(["sim", "path"]) == 0
    path = capsys.readouterr().out.strip()
    assert path.endswith("libcann_mla_sim.so")
    assert main(["sim", "flags"]) == 0
    flags = capsys.readouterr().out.split()
    assert "-lcann_mla_sim" in flags
    assert any(flag.startswith("-I") for flag in flags)
    assert main(["sim", "env"]) == 0
    assert "export LD_LIBRARY_PATH=" in capsys.readouterr().out


def test_sim_run_passes_status_and_environment():
    program = "import os, sys; sys.exit(7 if os.environ['CANN_MLA_SIM_SOC'] == 'Ascend950' else 0)"
    assert main(["sim", "run", "--soc", "Ascend950", "--", sys.executable, "-c", program]) == 7
    program = "import os, sys; sys.exit(0 if os.environ.get('CANN_MLA_SIM_STRICT') == '1' else 1)"
    assert main(["sim", "run", "--strict", "--", sys.executable, "-c", program]) == 0


def test_sim_run_without_a_program(capsys):
    assert main(["sim", "run"]) == 2
    assert main(["sim", "run", "--", "/no/such/program"]) == 2
    assert "/no/such/program" in capsys.readouterr().err


def test_bench_names_and_refusal(capsys):
    assert main(["bench", "--list"]) == 0
    assert "packing" in capsys.readouterr().out.split()
    assert main(["bench", "no_such"]) == 2
    assert "packing" in capsys.readouterr().err


def test_verify_imports_nothing_heavy_for_help():
    """The parser is built without NumPy: a help text comes at once."""
    program = (
        "import sys\n"
        "from cann_mla.cli import build_parser\n"
        "build_parser()\n"
        "print([m for m in ('numpy', 'rich', 'cffi') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


@pytest.mark.parametrize("command", [["verify", "--via", "cann"], ["verify"], ["run", "{case}"]])
def test_a_backend_that_is_not_there_ends_2(command, tmp_path):
    """Every case skipped would look like success. A process of its own: this one has its backend already."""
    import os

    case = tmp_path / "case.json"
    case.write_text('{"id": "a", "op": "aclnnRmsNorm"}')
    arguments = [str(case) if word == "{case}" else word for word in command]
    variables = {**os.environ, "CANN_MLA_BACKEND": "cann", "ASCEND_HOME_PATH": str(tmp_path)}
    program = "import sys; from cann_mla.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert str(tmp_path) in done.stderr  # every place that was looked at
    assert "Traceback" not in done.stderr

"""``cann-mla headers`` on a fake installation with a library of our own."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from cann_mla.headers import commands, shipped
from cann_mla.headers.elf import exported_functions
from cann_mla.headers.installation import header_files, library_files

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
ALPHA = shipped.root() / "legacy/8.5.0.alpha001/aclnnop/aclnn_mla_prolog_v3_weight_nz.h"


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    return commands.run(parser.parse_args([str(a) for a in arguments]))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation whose MlaPrologV3 is the one with 40 arguments."""
    include = tmp_path / "include"
    for folder in ("acl", "aclnn", "aclnnop"):
        shutil.copytree(shipped.root() / folder, include / folder)
    shutil.copy(ALPHA, include / "aclnnop" / ALPHA.name)
    return tmp_path


def library(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, source], check=True, timeout=60)
    return target


def test_check_reports_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", shipped.root() / "aclnnop") == 0
    assert capsys.readouterr().out.splitlines() == ["60 headers, 137 functions, 65 operators, 0 refused"]


def test_check_shows_roles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--verbose", shipped.root() / "aclnnop/aclnn_dynamic_quant.h") == 0
    assert (
        "aclnnDynamicQuant(x: input, smoothScalesOptional: input?, yOut: output, scaleOut: output)"
        in capsys.readouterr().out
    )


def test_check_names_what_is_refused_and_what_is_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.h"
    path.write_text(
        "aclnnStatus aclnnXGetWorkspaceSize(const aclTensor *x, uint64_t *n, aclOpExecutor **e);\n"
        "FOO int f(int a);\ninline int g(void) { return 1; }\n"
    )
    assert run("check", path) == 1
    out = capsys.readouterr().out
    assert f"{path}:2: " in out
    assert f"{path}:1: aclnnXGetWorkspaceSize has no other phase" in out
    assert "ignored: 1 function body" in out


def test_diff_shows_the_forty_arguments(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", home) == 1
    out = capsys.readouterr().out
    assert "changed: aclnnMlaPrologV3WeightNzGetWorkspaceSize: 40 arguments, not 39\n" in out
    assert "    argument 24 is new: bool queryNormFlag\n" in out
    assert "missing: AtbRingMLAGetWorkspaceSize: shipped as atb/atb_acl.h" in out
    assert "cannMlaSim" not in out


def test_diff_of_a_single_header(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", ALPHA) == 1
    assert "changed: aclnnMlaPrologV3WeightNzGetWorkspaceSize" in capsys.readouterr().out


@needs_compiler
def test_diff_looks_into_libraries(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library(home / "lib64", "libopapi", "int aclnnMm(void) { return 0; } int aclnnSecret(void) { return 0; }")
    run("diff", "--all", home)
    out = capsys.readouterr().out
    assert "not exported: aclnnMatmul\n" in out
    assert "not exported: aclnnMm\n" not in out
    assert "only exported: aclnnSecret\n" in out
    assert ", 1 libraries: " in out


def test_diff_without_an_installation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", tmp_path) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_diff_takes_the_installation_from_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ATB_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    assert run("diff") == 2
    assert "ASCEND_HOME_PATH" in capsys.readouterr().err
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    assert run("diff") == 1
    assert "changed: aclnnMlaPrologV3WeightNzGetWorkspaceSize" in capsys.readouterr().out


def test_check_names_two_forms_of_one_symbol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.h").write_text("int aclX(int a);")
    (tmp_path / "b.h").write_text("\nint aclX(long a);")
    assert run("check", tmp_path) == 1
    assert f"{tmp_path / 'b.h'}:2: aclX differs from {tmp_path / 'a.h'}:1" in capsys.readouterr().out


def test_diff_with_a_library_that_is_none(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "libx.so"
    text.write_text("INPUT(libm.so.6)")
    assert run("diff", home, "--library", text) == 2
    assert "is no ELF library" in capsys.readouterr().err


def test_trim_prints_the_shipped_form(capsys: pytest.CaptureFixture[str]) -> None:
    path = shipped.root() / "aclnnop/aclnn_mm.h"
    assert run("trim", path) == 0
    assert capsys.readouterr().out == path.read_text()


def test_trim_updates_a_copy_of_the_shipped_headers(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(shipped.root(), copy)
    target = copy / "aclnnop" / ALPHA.name
    before = target.read_text()
    assert run("trim", "--from", home, "--release", "8.5.0.alpha001", "--root", copy) == 0
    assert "+    double rmsnormEpsilonCkv, char *cacheModeOptional, bool queryNormFlag" in capsys.readouterr().out
    assert target.read_text() == before
    assert run("trim", "--from", home, "--release", "8.5.0.alpha001", "--root", copy, "--write") == 0
    changed = [p for p in copy.rglob("*.h") if p.read_text() != (shipped.root() / p.relative_to(copy)).read_text()]
    assert changed == [target]
    assert "bool queryNormFlag" in target.read_text()


@pytest.mark.parametrize("arguments", [[], ["x.h", "--from", "y"], ["--from", "y"]])
def test_trim_needs_to_know_what_to_do(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("trim", *arguments) == 2
    assert "--from" in capsys.readouterr().err


def test_the_layout_of_an_installation(tmp_path: Path) -> None:
    opp = tmp_path / "opp/built-in/op_impl/ai_core/tbe/op_api/include/aclnnop"
    for folder in (opp / "level2", tmp_path / "include/acl/error_codes", tmp_path / "include/atb"):
        folder.mkdir(parents=True)
    wanted = {
        tmp_path / "include/acl/acl.h",
        tmp_path / "include/acl/error_codes/rt_error_codes.h",
        tmp_path / "include/atb/atb_acl.h",
        opp / "aclnn_x.h",
        opp / "level2/aclnn_y.h",
    }
    for path in [*wanted, tmp_path / "include/atb/context.h", tmp_path / "include/other.h"]:
        path.write_text("")
    vendor = tmp_path / "op_api/include/aclnn_custom.h"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("")
    wanted.add(vendor)
    (tmp_path / "include/aclnnop").symlink_to(opp)
    assert {p.resolve() for p in header_files(tmp_path)} == {p.resolve() for p in wanted}
    (tmp_path / "lib64").mkdir()
    for name in ("libopapi.so", "libopapi_math.so", "libascendcl.so", "libother.so"):
        (tmp_path / "lib64" / name).write_text("")
    assert {p.name for p in library_files(tmp_path)} == {"libopapi.so", "libopapi_math.so", "libascendcl.so"}


@needs_compiler
def test_exported_functions_are_those_of_the_symbol_table(tmp_path: Path) -> None:
    text = (
        "int data = 1; static int hidden(void) { return 0; } int used(void) { return hidden(); } void second(void) {}"
    )
    path = library(tmp_path, "libx", text)
    assert {"used", "second"} <= exported_functions(path)
    assert not {"hidden", "data"} & exported_functions(path)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="damaged"):
        exported_functions(damaged)

"""Loading: which backend, which prototype, and what an error tells. Every case in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cann_mla
from cann_mla.headers import shipped
from cann_mla.libraries import open_library

Run = Callable[..., str]
Install = Callable[..., Path]

OLD_HEADER = (shipped.root() / "legacy/8.5.0.alpha001/aclnnop/aclnn_mla_prolog_v3_weight_nz.h").read_text()
NEW_HEADER = (shipped.root() / "aclnnop/aclnn_mla_prolog_v3_weight_nz.h").read_text()
PROTOTYPE = """
import cann_mla
library = cann_mla.load()
operator = cann_mla.operator("aclnnMlaPrologV3WeightNz")
print(library.backend, library.version, len(operator.signature.parameters))
for difference in library.prototypes.differences.values():
    print(difference.symbol, "|", difference.origin)
"""


def test_import_loads_no_library(run_python: Run) -> None:
    program = "import cann_mla; print('/libcann_mla_sim' in open('/proc/self/maps').read())"
    assert run_python(program, ASCEND_HOME_PATH="/nowhere", CANN_MLA_BACKEND="nonsense") == "False\n"


def test_cann_is_taken_where_it_is_found(run_python: Run, installation: Install, tmp_path: Path) -> None:
    home = installation(tmp_path / "cann", version="9.1.0", header=NEW_HEADER)
    program = """
import numpy as np, cann_mla
device = cann_mla.Device(0)
print(cann_mla.load().backend, cann_mla.load().version, cann_mla.load().files[-1].name)
print(cann_mla.Tensor.from_numpy(np.arange(3, dtype=np.int8)).to_numpy().tolist())
"""
    assert run_python(program, ASCEND_HOME_PATH=str(home)) == "cann 9.1.0 libnnopbase.so\n[0, 1, 2]\n"


def test_simulator_is_taken_where_there_is_no_cann(run_python: Run) -> None:
    program = """
import cann_mla
library = cann_mla.load()
print(library.backend)
print(library.search_report[0])
print(library.search_report[-1].outcome)
"""
    lines = run_python(program, ASCEND_HOME_PATH="/nowhere").splitlines()
    assert lines == ["sim", "/nowhere (ASCEND_HOME_PATH): no such folder", "simulator"]


def test_cann_that_was_wanted_and_is_not_there(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "lib64").mkdir()
    program = """
import cann_mla
try:
    cann_mla.Device(0)
except cann_mla.LibraryNotFoundError as error:
    print(error)
"""
    text = run_python(program, ASCEND_HOME_PATH=str(tmp_path), CANN_MLA_BACKEND="cann")
    assert f"{tmp_path} (ASCEND_HOME_PATH): refused: no libacl_rt.so or libascendcl.so" in text
    assert "ASCEND_TOOLKIT_HOME: not set" in text
    assert "/usr/local/Ascend/ascend-toolkit/latest (default folder): no such folder" in text
    assert "Set ASCEND_HOME_PATH" in text


def test_missing_dependency_is_named(run_python: Run, tmp_path: Path, compile_library: Callable[..., None]) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int cann_driver_entry(void) { return 0; }\n")
    dependency = tmp_path / "libascend_hal_test.so"
    compile_library(dependency, source)
    libraries = tmp_path / "cann/lib64"
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        compile_library(libraries / name, source, f"-L{tmp_path}", "-Wl,--no-as-needed", "-lascend_hal_test")
    dependency.unlink()
    program = """
import cann_mla
try:
    cann_mla.load("cann")
except cann_mla.LibraryNotFoundError as error:
    print(error)
"""
    text = run_python(program, ASCEND_HOME_PATH=str(tmp_path / "cann"))
    assert "found, but does not load" in text
    assert "its dependency libascend_hal_test.so was not found" in text
    assert "LD_LIBRARY_PATH" in text


def test_auto_goes_on_when_cann_does_not_load(run_python: Run, installation: Install, tmp_path: Path) -> None:
    home = installation(tmp_path / "cann")
    (home / "lib64/libnnopbase.so").unlink()
    (home / "lib64/libnnopbase.so").write_text("no library")
    program = "import cann_mla; print(cann_mla.load().backend); print(*cann_mla.load().search_report, sep='\\n')"
    text = run_python(program, ASCEND_HOME_PATH=str(home))
    assert text.startswith("sim\n")
    assert f"{home}: found, but does not load: {home}/lib64/libnnopbase.so" in text


def test_shipped_prototype_with_an_installed_header_of_the_same_kind(
    run_python: Run, installation: Install, tmp_path: Path
) -> None:
    home = installation(tmp_path, version="9.1.0", header=NEW_HEADER)
    assert run_python(PROTOTYPE, ASCEND_HOME_PATH=str(home)) == "cann 9.1.0 39\n"


def test_installed_header_with_40_arguments_wins(run_python: Run, installation: Install, tmp_path: Path) -> None:
    home = installation(tmp_path, version="9.1.0", header=OLD_HEADER)
    lines = run_python(PROTOTYPE, ASCEND_HOME_PATH=str(home)).splitlines()
    assert lines[0] == "cann 9.1.0 40"
    path = home / "include/aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
    assert lines[1:] == [f"aclnnMlaPrologV3WeightNzGetWorkspaceSize | {path}"]


@pytest.mark.parametrize(
    ("version", "count"), [("8.5.0.alpha001", 40), ("8.5.0-beta.1", 39), ("8.5.0", 39), ("9.1.0", 39)]
)
def test_release_decides_where_there_is_no_header(
    run_python: Run, installation: Install, tmp_path: Path, version: str, count: int
) -> None:
    home = installation(tmp_path, version=version)
    lines = run_python(PROTOTYPE, ASCEND_HOME_PATH=str(home)).splitlines()
    assert lines[0] == f"cann {version} {count}"
    assert len(lines) == (2 if count == 40 else 1)


def test_wrong_argument_list_is_refused_before_the_call(run_python: Run, installation: Install, tmp_path: Path) -> None:
    home = installation(tmp_path, version="8.5.0.alpha001", header=OLD_HEADER)
    program = """
import cann_mla
from cann_mla import c
operator = cann_mla.operator("aclnnMlaPrologV3WeightNz")
try:
    operator.prepare(kNopeClipAlphaOptional=None)
except TypeError as error:
    print(error)
try:
    c.aclnnMlaPrologV3WeightNzGetWorkspaceSize(*[c.NULL] * 39)
except TypeError as error:
    print(error)
"""
    lines = run_python(program, ASCEND_HOME_PATH=str(home)).splitlines()
    assert "has no argument kNopeClipAlphaOptional (did you mean kNopeClipAlpha?)" in lines[0]
    assert "expects 40 arguments, got 39" in lines[1]


def test_old_prototype_is_called_as_the_old_library_wants_it(
    run_python: Run, installation: Install, tmp_path: Path, compile_library: Callable[..., None]
) -> None:
    home = installation(tmp_path, version="8.5.0.alpha001")
    (home / "lib64/libopapi.so").unlink()
    compile_library(home / "lib64/libopapi.so", Path(__file__).parent / "old_mla_prolog_v3.c")
    program = """
import cann_mla
device = cann_mla.Device(0)
stream = cann_mla.Stream()
operator = cann_mla.operator("aclnnMlaPrologV3WeightNz")
with cann_mla.Tensor.zeros((4,), "FP16") as tensor:
    tensors = {p.name: tensor for p in operator.signature.operands if p.pointee == "aclTensor" and not p.optional}
    numbers = {p.name: 0 for p in operator.signature.operands if not p.type.endswith("*")}
    numbers |= {"queryNormFlag": True, "kNopeClipAlpha": 1.25, "tileSize": 7}
    plan = operator.prepare(**tensors, **numbers, cacheModeOptional="TND")
    print(plan.workspace_size)
    plan.run(stream)
stream.synchronize()
"""
    assert run_python(program, ASCEND_HOME_PATH=str(home)) == f"{10_000_000 + 1_000_000 + 1250 + 7}\n"


def test_symbol_of_a_newer_release_is_told_as_such(
    run_python: Run, installation: Install, tmp_path: Path, compile_library: Callable[..., None]
) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int nothing(void) { return 0; }\n")
    home = installation(tmp_path / "cann", version="8.1.RC1")
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        (home / "lib64" / name).unlink()
        compile_library(home / "lib64" / name, source, "-Wl,--as-needed")
    program = """
import cann_mla
operator = cann_mla.operator("aclnnRingAttentionUpdateV2")
try:
    operator.prepare(**{p.name: None for p in operator.signature.operands})
except cann_mla.SymbolNotFoundError as error:
    print(error.symbol, error.since)
    print(error)
"""
    lines = run_python(program, ASCEND_HOME_PATH=str(home)).splitlines()
    assert lines[0] == "aclnnRingAttentionUpdateV2GetWorkspaceSize 8.5"
    assert lines[1].endswith("CANN has it since 8.5, and loaded is CANN 8.1.RC1")
    assert str(home / "lib64/libopapi.so") in lines[1]


def test_a_process_has_one_backend(run_python: Run) -> None:
    program = """
import cann_mla
assert cann_mla.load("sim") is cann_mla.load() is cann_mla.load("auto")
try:
    cann_mla.load("cann")
except ValueError as error:
    print(error)
"""
    assert "one process has one backend" in run_python(program)


def test_unknown_backend(run_python: Run) -> None:
    program = """
import cann_mla
try:
    cann_mla.load()
except ValueError as error:
    print(error)
"""
    text = run_python(program, CANN_MLA_BACKEND="gpu")
    assert text == "backend 'gpu'; allowed are auto, cann, sim (CANN_MLA_BACKEND or argument)\n"


def test_broken_simulator_is_an_error_that_says_so(run_python: Run, tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("no library")
    program = """
import cann_mla
try:
    cann_mla.load("sim")
except cann_mla.LibraryNotFoundError as error:
    print(error)
"""
    text = run_python(program, CANN_MLA_SIM_LIBRARY=str(broken))
    assert text.startswith("The simulator could not be loaded.")
    assert f"{broken}: refused:" in text


def test_where_a_symbol_is_from(device: cann_mla.Device) -> None:
    library = cann_mla.load()
    where = library.where("aclnnMlaPrologV3WeightNz")
    assert where is not None
    assert where.name == "libcann_mla_sim.so"
    assert library.where("aclnnNoSuchOperator") is None
    assert library.has("aclrtMalloc")


def test_name_that_is_no_function(device: cann_mla.Device) -> None:
    with pytest.raises(AttributeError, match="no C function of the headers"):
        cann_mla.load().aclrtNope  # noqa: B018


def test_a_second_library_can_be_opened_for_comparison(device: cann_mla.Device) -> None:
    second = open_library("sim")
    assert second is not cann_mla.load()
    assert second.has("aclrtMalloc")

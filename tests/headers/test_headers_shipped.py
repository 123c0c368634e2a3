"""The shipped headers against a compiler, against pycparser and against the numbers of CANN's documentation."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import cffi
import pytest
from pycparser import c_ast, c_generator, c_parser

import cann_mla
from cann_mla.headers import shipped

ROOT = shipped.root()
ALL = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.h"))
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


@needs_compiler
@pytest.mark.parametrize(("language", "standard"), [("c", "c11"), ("c++", "c++17")])
def test_every_header_compiles_alone(language: str, standard: str, tmp_path: Path) -> None:
    commands = []
    for number, name in enumerate(ALL):
        source = tmp_path / f"{number}.c"
        source.write_text(f'#include "{name}"\n')
        commands.append(str(source))
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-std={standard}", f"-I{ROOT}"]
    subprocess.run(["gcc", "-x", language, *flags, *commands], check=True, timeout=300)


@needs_compiler
@pytest.mark.parametrize(("language", "standard"), [("c", "c11"), ("c++", "c++17")])
def test_all_headers_fit_together(language: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{name}"\n' for name in ALL if not name.startswith("legacy/")))
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-std={standard}", f"-I{ROOT}"]
    subprocess.run(["gcc", "-x", language, *flags, str(source)], check=True, timeout=120)


@needs_compiler
def test_the_reader_agrees_with_pycparser(tmp_path: Path) -> None:
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{name}"\n' for name in ALL if not name.startswith("legacy/")))
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    fixed = "".join(f"typedef int {s}int{b}_t;" for s in ("", "u") for b in (8, 16, 32, 64))
    (stubs / "stdint.h").write_text(f"#pragma once\n{fixed}\n")
    (stubs / "stddef.h").write_text("#pragma once\ntypedef int size_t;\n")
    (stubs / "string.h").write_text("")
    (stubs / "stdbool.h").write_text("#pragma once\ntypedef int bool;\n")
    command = ["gcc", "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{stubs}", f"-I{ROOT}", str(source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    generator = c_generator.CGenerator()
    theirs = {}
    for node in c_parser.CParser().parse(text).ext:
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            theirs[node.name] = re.sub(r"\s+", " ", generator.visit(node)).replace("* const", "*const")
    ours = {name: s.prototype() for name, s in shipped.load().functions.items()}
    assert len(ours) > 380
    assert ours == theirs


def test_cffi_takes_the_declarations() -> None:
    text, functions = shipped.load().cdef()
    ffi = cffi.FFI()
    ffi.cdef(text)
    assert [s.name for s in functions] == list(shipped.load().functions)
    assert ffi.typeof("aclDataType").relements["ACL_BF16"] == 27
    assert ffi.typeof("HcclResult").relements["HCCL_E_SUSPENDING"] == 22


# struct sizes and alignments on x86-64 and aarch64, measured with the headers of CANN
SIZES = {
    "aclrtMallocAttribute": (12, 4),
    "aclrtMallocConfig": (16, 8),
    "aclrtStreamConfigHandle": (32, 8),
    "aclrtUtilizationInfo": (24, 8),
    "aclrtMemLocation": (8, 4),
    "aclrtPtrAttributes": (28, 4),
    "aclrtPhysicalMemProp": (32, 8),
    "aclrtMemUsageInfo": (112, 8),
    "aclrtMemUceInfo": (128, 8),
    "aclrtErrorInfo": (2576, 8),
    "aclCANNPackageVersion": (512, 1),
    "aclrtUuid": (16, 1),
    "HcclRootInfo": (4108, 1),
}


@pytest.mark.parametrize("name", SIZES)
def test_struct_sizes(name: str) -> None:
    ffi = cffi.FFI()
    ffi.cdef(shipped.load().cdef().text)
    assert (ffi.sizeof(name), ffi.alignof(name)) == SIZES[name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACL_FLOAT16", 1),
        ("ACL_BF16", 27),
        ("ACL_INT4", 29),
        ("ACL_HIFLOAT8", 34),
        ("ACL_FLOAT8_E4M3FN", 36),
        ("ACL_FLOAT4_E1M2", 41),
        ("ACL_FORMAT_ND", 2),
        ("ACL_FORMAT_FRACTAL_NZ", 29),
        ("ACL_FORMAT_FRACTAL_NZ_C0_16", 50),
        ("ACL_FORMAT_FRACTAL_NZ_C0_8", 54),
        ("ACL_MEMCPY_DEVICE_TO_HOST", 2),
        ("ACL_MEM_MALLOC_HUGE_FIRST", 0),
        ("ACL_MEM_TYPE_HIGH_BAND_WIDTH", 0x1000),
        ("ACL_EVENT_RECORDED_STATUS_NOT_READY", 0),
        ("ACL_EVENT_STATUS_NOT_READY", 1),
        ("ACL_ERROR_REPEAT_INITIALIZE", 100002),
        ("ACL_ERROR_RT_CONTEXT_NULL", 107002),
        ("ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", 507046),
        ("ACLNN_ERR_PARAM_NULLPTR", 161001),
        ("ACLNN_ERR_INNER_NULLPTR", 561103),
        ("ATB_ERROR_COPY_HOST_MEMORY_FAIL", 29),
        ("HCCL_DATA_TYPE_BFP16", 11),
    ],
)
def test_numbers(name: str, value: int) -> None:
    assert shipped.load().constants[name] == value


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aclnnMlaProlog", 26),
        ("aclnnMlaPrologV2WeightNz", 27),
        ("aclnnMlaPrologV3WeightNz", 39),
        ("aclnnMlaPreprocess", 43),
        ("aclnnMlaPreprocessV2", 45),
        ("aclnnFusedInferAttentionScore", 32),
        ("aclnnFusedInferAttentionScoreV2", 41),
        ("aclnnFusedInferAttentionScoreV3", 44),
        ("aclnnFusedInferAttentionScoreV4", 47),
        ("aclnnFusedInferAttentionScoreV5", 50),
        ("aclnnRingAttentionUpdate", 13),
        ("aclnnRingAttentionUpdateV2", 14),
        ("aclnnQuantMatmulV5", 15),
        ("aclnnKvRmsNormRopeCacheV2", 19),
    ],
)
def test_argument_counts(operator: str, arguments: int) -> None:
    assert len(shipped.load().operators[operator].get_workspace.parameters) == arguments


def test_every_operator_has_both_phases() -> None:
    headers = shipped.load()
    assert headers.unpaired == []
    assert len(headers.operators) == 72
    for version in "2345":
        operator = headers.operators[f"aclnnFusedInferAttentionScoreV{version}"]
        largest = operator.get_max_workspace
        assert largest is not None
        assert [p.type for p in largest.parameters] == [p.type for p in operator.get_workspace.parameters]


@pytest.mark.parametrize(
    ("symbol", "since"),
    [
        ("aclInit", None),
        ("aclnnMlaPrologGetWorkspaceSize", None),
        ("aclnnFusedInferAttentionScoreV3", None),
        ("aclnnMlaPrologV3WeightNzGetWorkspaceSize", "8.5.0-beta.1"),
        ("aclnnFusedInferAttentionScoreV4", "8.5"),
        ("aclnnFusedInferAttentionScoreV5", "9.1"),
        ("AtbRingMLA", "8.5"),
        ("aclrtFreeWithDevSync", "9.1"),
        ("aclsysGetVersionStr", "9.1"),
        ("aclsysGetCANNVersion", None),
    ],
)
def test_the_release_that_introduced_a_symbol(symbol: str, since: str | None) -> None:
    assert shipped.load().functions[symbol].since == since


def test_the_superseded_mla_prolog_v3_has_forty_arguments() -> None:
    (former,) = shipped.legacy()["aclnnMlaPrologV3WeightNzGetWorkspaceSize"]
    names = [p.name for p in former.parameters]
    assert len(names) == 40
    assert names[names.index("cacheModeOptional") + 1] == "queryNormFlag"
    assert names[names.index("tileSize") + 1] == "kNopeClipAlpha"
    assert former["queryNormFlag"].type == "bool"
    assert former["kNopeClipAlpha"].type == "double"
    assert "kNopeClipAlphaOptional" not in names
    assert (former.since, former.until) == ("8.5.0.alpha001", "8.5.0-beta.1")


def test_nothing_heavy_is_imported_for_reading() -> None:
    program = (
        "import sys; from cann_mla.headers import shipped; shipped.load();"
        "print([m for m in ('numpy', 'cffi', 'pycparser') if m in sys.modules])"
    )
    folder = Path(cann_mla.__path__[0]).parent
    out = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

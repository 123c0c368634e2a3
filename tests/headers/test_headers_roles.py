"""Roles of operands. The prototypes are those of public CANN headers, the roles those of their documentation."""

import pytest

from cann_mla.headers import Role, Signature, pair, parse, shipped, with_roles

END = "uint64_t *workspaceSize, aclOpExecutor **executor"


def roles(name: str, parameters: str, overrides: dict[str, dict[str, str]] | None = None) -> str:
    """Roles of the operands as letters: i input, o output, r in place, a attribute."""
    (signature,) = parse(f"aclnnStatus {name}GetWorkspaceSize({parameters}, {END});", "x.h").signatures
    letters = {Role.INPUT: "i", Role.OUTPUT: "o", Role.INPLACE: "r", Role.ATTRIBUTE: "a"}
    return "".join(letters[p.role] for p in with_roles(signature, overrides).operands)


T, M = "const aclTensor *", "aclTensor *"


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        # written by hand: what is written lacks const
        ("aclnnAdd", f"{T}self, {T}other, const aclScalar *alpha, {M}out", "iiao"),
        ("aclnnMm", f"{T}self, {T}mat2, {M}out, int8_t cubeMathType", "iioa"),
        ("aclnnInplaceCopy", f"{M}selfRef, {T}src", "ri"),
        ("aclnnSigmoidBackward", f"{T}gradOutput, {T}output, {M}gradInput", "iio"),
        ("aclnnRotaryPositionEmbeddingV2", f"{T}x, {T}cos, {T}sin, int64_t mode, {T}rotate, {M}out", "iiiaio"),
        ("aclnnInplaceIndexCopy", f"{M}selfRef, int64_t dim, {T}index, {T}source", "raii"),
        ("aclnnInplaceCumprod", f"{M}input, const aclScalar *dim, aclDataType dtype", "raa"),
        ("aclnnCat", f"const aclTensorList *tensors, int64_t dim, {M}out", "iao"),
        # generated: const everywhere, outputs last
        ("aclnnRmsNorm", f"{T}x, {T}gamma, double epsilon, {T}yOut, {T}rstdOut", "iiaoo"),
        ("aclnnSwiGlu", f"{T}x, int64_t dim, {T}out", "iao"),
        ("aclnnNormRopeConcat", f"{T}query, int64_t mode, {T}queryOutput, {T}normQueryMean", "iaoo"),
        ("aclnnDynamicQuant", f"{T}x, {T}smoothScalesOptional, {T}yOut, {T}scaleOut", "iioo"),
        ("aclnnGeluBackward", f"{T}gradOutput, {T}self, {T}gradInput", "iio"),
        ("aclnnSiluMul", f"{T}x, {T}y, {T}out", "iio"),
        ("aclnnMaskedConvBackward", f"{T}gradY, {T}maskOptional, {T}gradXOut, {T}gradWeightOut", "iioo"),
        (
            "aclnnForeachPowScalarAndTensor",
            "const aclScalar *s, const aclTensorList *x, const aclTensorList *out",
            "aio",
        ),
        ("aclnnForeachZeroInplace", "const aclTensorList *x", "r"),
        ("aclnnForeachAddListInplace", f"const aclTensorList *x1, const aclTensorList *x2, {T}alpha", "rii"),
        (
            "aclnnRingAttentionUpdate",
            f"{T}prevAttnOut, {T}curAttnOut, {T}actualSeqQlenOptional, char *inputLayoutOptional, {T}attnOutOut",
            "iiiao",
        ),
        ("aclnnKvRmsNormRopeCache", f"{T}kv, {M}kCacheRef, {T}scaleOptional, double epsilon, {T}kRopeOut", "iriao"),
    ],
)
def test_text_tells_the_role(name: str, parameters: str, expected: str) -> None:
    assert roles(name, parameters) == expected


def test_the_data_file_overrules_the_text() -> None:
    table = {"aclnnAdvanceStep": {"seqLens": "inplace", "blockTables": "input"}}
    assert roles("aclnnAdvanceStep", f"{T}tokens, {T}seqLens, {T}blockTables, int64_t n", table) == "iria"


def test_optional_comes_from_the_name_or_the_data_file() -> None:
    table = {"aclnnX": {"bias": "input optional", "layoutOptional": "attribute required"}}
    text = (
        f"aclnnStatus aclnnXGetWorkspaceSize({T}x, {T}aOptional, {T}bias, char *layoutOptional, {M}outOptional, {END});"
    )
    signature = with_roles(parse(text, "x.h").signatures[0], table)
    assert [p.name for p in signature.parameters if p.optional] == ["aOptional", "bias", "outOptional"]


def test_phase_two() -> None:
    text = "aclnnStatus aclnnX(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, const aclrtStream s);"
    signature = with_roles(parse(text, "x.h").signatures[0])
    assert [p.role for p in signature.parameters] == [
        Role.WORKSPACE,
        Role.WORKSPACE_SIZE,
        Role.EXECUTOR,
        Role.STREAM,
    ]


def test_a_function_that_is_no_phase_is_left_alone() -> None:
    signature = with_roles(parse("aclError aclrtGetDevice(int32_t *deviceId);", "x.h").signatures[0])
    assert signature.parameters[0].role is Role.ARGUMENT


def read(text: str) -> list[Signature]:
    return [with_roles(s) for s in parse(text, "x.h").signatures]


def test_phases_from_two_headers_are_paired() -> None:
    one = read(f"aclnnStatus aclnnXGetWorkspaceSize({T}x, {M}out, {END});")
    two = read("aclnnStatus aclnnX(void *w, uint64_t n, aclOpExecutor *e, aclrtStream s);")
    operators, alone = pair([*two, *one])
    assert list(operators) == ["aclnnX"]
    assert operators["aclnnX"].get_workspace is one[0]
    assert operators["aclnnX"].run is two[0]
    assert alone == []


def test_a_phase_without_its_other_half_is_named() -> None:
    lonely = read(f"aclnnStatus aclnnXGetWorkspaceSize({T}x, {M}out, {END}); int unrelated(int a);")
    operators, alone = pair(lonely)
    assert operators == {}
    assert [s.name for s in alone] == ["aclnnXGetWorkspaceSize"]


def test_mla_prolog_v3() -> None:
    operator = shipped.load().operators["aclnnMlaPrologV3WeightNz"].get_workspace
    names = {role: [p.name for p in operator.with_role(role)] for role in Role}
    assert len(operator.parameters) == 39
    assert names[Role.INPLACE] == ["kvCacheRef", "krCacheRef"]
    assert names[Role.OUTPUT] == [
        "queryOut",
        "queryRopeOut",
        "dequantScaleQNopeOutOptional",
        "queryNormOutOptional",
        "dequantScaleQNormOutOptional",
    ]
    assert names[Role.ATTRIBUTE] == [
        "rmsnormEpsilonCq",
        "rmsnormEpsilonCkv",
        "cacheModeOptional",
        "weightQuantMode",
        "kvCacheQuantMode",
        "queryQuantMode",
        "ckvkrRepoMode",
        "quantScaleRepoMode",
        "tileSize",
        "qcQrScale",
        "kcScale",
    ]
    assert operator.parameters[-2].role is Role.WORKSPACE_SIZE
    assert operator.parameters[-1].role is Role.EXECUTOR
    required = [p.name for p in operator.with_role(Role.INPUT) if not p.optional]
    assert required == [
        *["tokenX", "weightDq", "weightUqQr", "weightUk", "weightDkvKr"],
        *["rmsnormGammaCq", "rmsnormGammaCkv", "ropeSin", "ropeCos"],
    ]


def test_ring_mla() -> None:
    operator = shipped.load().operators["AtbRingMLA"]
    one = operator.get_workspace
    assert [p.name for p in one.with_role(Role.OUTPUT)] == ["output", "softmaxLse"]
    assert [p.name for p in one.parameters if p.optional] == ["mask", "prevOut", "prevLse"]
    assert [p.role for p in one.parameters[-3:]] == [Role.WORKSPACE_SIZE, Role.EXECUTOR, Role.CONTEXT]
    assert operator.run["context"].role is Role.CONTEXT


def test_the_data_file_speaks_of_parameters_that_exist() -> None:
    from cann_mla.headers.files import overrides

    operators = shipped.load().operators
    for name, table in overrides().items():
        if name in operators:
            assert set(table) <= {p.name for p in operators[name].get_workspace.parameters}
        for text in table.values():
            role, *word = text.split()
            assert role in [r.value for r in Role]
            assert word in ([], ["optional"], ["required"])

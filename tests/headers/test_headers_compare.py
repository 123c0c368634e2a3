"""How two forms of a prototype differ, and what an upgrade of CANN changes."""

import pytest

from cann_mla.headers import HeaderSet, Signature, parse, shipped
from cann_mla.headers.compare import compare, differences, same_abi

V3 = "aclnnMlaPrologV3WeightNzGetWorkspaceSize"
ALPHA_DIFFERENCES = (
    "40 arguments, not 39",
    "without const aclTensor *kNopeClipAlphaOptional (was argument 21)",
    "argument 24 is new: bool queryNormFlag",
    "argument 31 is new: double kNopeClipAlpha",
)


def signature(text: str) -> Signature:
    (found,) = parse(text, "x.h").signatures
    return found


def header_set(text: str, name: str = "installed.h") -> HeaderSet:
    return HeaderSet([parse(text, name)])


@pytest.mark.parametrize(
    ("first", "second", "lines", "abi"),
    [
        ("int f(int a);", "int f(int a);", [], True),
        ("int f(int a);", "int f(int b);", ["argument 1: int b, not int a"], True),
        ("int f(char *s);", "int f(const char *s);", ["argument 1: const char *s, not char *s"], True),
        ("int f(int a);", "int f(double a);", ["argument 1: double a, not int a"], False),
        ("int f(int a);", "long f(int a);", ["returns long, not int"], False),
        ("int f(int a);", "int f(int a, int b);", ["2 arguments, not 1", "argument 2 is new: int b"], False),
        ("int f(int a, int b);", "int f(int b);", ["1 arguments, not 2", "without int a (was argument 1)"], False),
        ("int f(int **a);", "int f(int *a);", ["argument 1: int *a, not int **a"], False),
    ],
)
def test_differences(first: str, second: str, lines: list[str], abi: bool) -> None:
    assert differences(signature(first), signature(second)) == lines
    assert same_abi(signature(first), signature(second)) is abi


def test_the_two_argument_lists_of_mla_prolog_v3() -> None:
    (former,) = shipped.legacy()[V3]
    assert tuple(differences(shipped.load().functions[V3], former)) == ALPHA_DIFFERENCES
    assert not same_abi(shipped.load().functions[V3], former)


def test_comparison_with_headers_and_libraries() -> None:
    own = header_set(
        "int aclSame(int a); int aclChanged(int a); int aclRenamed(int a); int aclGone(int a); /* since 9.1 */\n",
        "own.h",
    )
    installed = header_set("int aclSame(int a); int aclChanged(long a); int aclRenamed(int b); int aclNew(int a);")
    exported = {"aclSame", "aclChanged", "aclGone", "aclNew", "aclHidden", "_ZN3atb7ContextE"}
    changes = {(c.symbol, c.kind): c.details for c in compare(installed, exported, own=own)}
    assert set(changes) == {
        ("aclChanged", "changed"),
        ("aclRenamed", "renamed"),
        ("aclRenamed", "not exported"),
        ("aclGone", "missing"),
        ("aclNew", "new"),
        ("aclHidden", "only exported"),
    }
    assert changes["aclChanged", "changed"] == ("argument 1: long a, not int a", "installed.h:1")
    assert changes["aclGone", "missing"] == ("shipped as own.h:1, since CANN 9.1",)


def test_the_shipped_headers_do_not_differ_from_themselves() -> None:
    assert compare(shipped.load()) == []

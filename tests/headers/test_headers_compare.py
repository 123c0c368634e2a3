"""Which form of a prototype holds, and what an upgrade of CANN changes."""

from pathlib import Path

import pytest

from cann_mla.headers import HeaderSet, Signature, parse, read, shipped
from cann_mla.headers.compare import choose, compare, differences, same_abi
from cann_mla.headers.release import Release

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


@pytest.mark.parametrize("release", ["8.5.0.alpha001", "8.5.0.alpha002", "8.1.RC1", "8.3.RC2.alpha003"])
def test_before_the_beta_the_forty_arguments_hold(release: str) -> None:
    choice = choose(V3, release=release)
    assert len(choice.signature.parameters) == 40
    assert choice.differences == ALPHA_DIFFERENCES
    assert release in choice.reason
    assert "8.5.0-beta.1" in choice.reason


@pytest.mark.parametrize("release", ["8.5.0-beta.1", "8.5.0.beta1", "8.5.0", "8.5.1", "9.0.0", "9.1.0"])
def test_from_the_beta_on_the_shipped_form_holds(release: str) -> None:
    choice = choose(V3, release=release)
    assert len(choice.signature.parameters) == 39
    assert choice.differences == ()


def test_the_installed_header_wins_over_the_release(tmp_path: Path) -> None:
    legacy = shipped.root() / "legacy/8.5.0.alpha001/aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
    path = tmp_path / "include/aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
    path.parent.mkdir(parents=True)
    path.write_text(legacy.read_text())
    installed = read([path], known=shipped.load())
    choice = choose(V3, installed.functions, release="9.1.0")
    assert len(choice.signature.parameters) == 40
    assert choice.differences == ALPHA_DIFFERENCES
    assert str(path) in choice.reason


def test_without_any_knowledge_the_shipped_form_is_taken() -> None:
    choice = choose("aclnnMm")
    assert choice.signature is shipped.load().functions["aclnnMm"]
    assert "neither" in choice.reason


def test_an_unknown_function_is_no_choice() -> None:
    with pytest.raises(KeyError):
        choose("aclnnNoSuchThing")


def test_releases_are_ordered() -> None:
    order = ["8.1.RC1", "8.2.RC1.alpha002", "8.5.0.alpha001", "8.5.0.alpha002", "8.5.0-beta.1", "8.5.0.RC1", "8.5.0"]
    releases = [Release(text) for text in [*order, "8.5.0.1", "8.5.1", "9.0.0.beta1", "9.1", "10.0"]]
    assert sorted(releases) == releases
    assert len(set(releases)) == len(releases)
    assert Release("8.5") == Release("8.5.0")
    assert Release("V8.5.0-Beta.1") == Release("8.5.0.beta1")


@pytest.mark.parametrize("text", ["", "latest", "alpha", "x8.5"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="no CANN release"):
        Release(text)


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

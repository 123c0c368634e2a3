"""Trimming: the shipped form, and updates that touch only what changed."""

from pathlib import Path

import pytest

from cann_mla.headers import HeaderSet, parse, shipped
from cann_mla.headers.trim import prototype_text, trimmed, updated

ROOT = shipped.root()
OPERATORS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "aclnnop").glob("*.h"))
NAMES = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.h") if p.relative_to(ROOT).parts[0] != "legacy")

INSTALLED = """
/**
 * @brief a long text
 */
#ifndef OP_API_X
#define OP_API_X
#include "aclnn/aclnn_base.h"
#include "aclnn_util.h"
#ifdef __cplusplus
extern "C" {
#endif
ACLNN_API aclnnStatus aclnnThingGetWorkspaceSize(const aclTensor* self, const aclTensor* weightOptional,
                                                 const int64_t axis, bool keep, aclTensor* out,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnThing(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                 const aclrtStream stream);
#ifdef __cplusplus
}
#endif
#endif
"""
TRIMMED = """/* aclnnThing */
#ifndef CANN_MLA_ACLNNOP_ACLNN_THING_H
#define CANN_MLA_ACLNNOP_ACLNN_THING_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnThingGetWorkspaceSize(
    const aclTensor *self, const aclTensor *weightOptional, int64_t axis, bool keep, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.2 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnThing(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.2 */

#ifdef __cplusplus
}
#endif

#endif
"""


def test_an_installed_header_in_the_shipped_form() -> None:
    assert trimmed(parse(INSTALLED, "x.h"), "aclnnop/aclnn_thing.h", "9.2") == TRIMMED


def test_trimming_twice_changes_nothing() -> None:
    assert trimmed(parse(TRIMMED, "x.h"), "aclnnop/aclnn_thing.h") == TRIMMED


@pytest.mark.parametrize("name", OPERATORS)
def test_the_shipped_operators_have_that_form(name: str) -> None:
    text = (ROOT / name).read_text()
    comments = [line for line in text.splitlines(True)[1:] if line.startswith("/*")]
    for comment in comments:
        text = text.replace(comment, "")
    assert trimmed(parse(text, name, cplusplus=False), name) == text


def test_other_declarations_are_laid_out_too() -> None:
    header = parse("typedef enum aclK{A,B=4}aclK; typedef struct aclS{int a;char t[2];}aclS; typedef void*aclH;", "x.h")
    body = trimmed(header, "acl/x.h")
    assert "typedef enum aclK {\n    A = 0,\n    B = 4,\n} aclK;\n" in body
    assert "typedef struct aclS {\n    int a;\n    char t[2];\n} aclS;\n" in body
    assert "typedef void *aclH;\n" in body


def test_a_short_prototype_stays_on_its_line() -> None:
    (signature,) = parse("int f(int a); /* since 9.1 until 9.2 */", "x.h").signatures
    assert prototype_text(signature) == "int f(int a); /* since 9.1 until 9.2 */"


@pytest.mark.parametrize("name", NAMES)
def test_an_update_from_the_same_cann_changes_nothing(name: str) -> None:
    text = (ROOT / name).read_text()
    assert updated(text, name, shipped.load(), "9.2") == (text, [])


SHIPPED = """/* Types of x. */
#define ACL_LIMIT 3

typedef enum aclMode {
    ACL_A = 0, /* since 9.1 */
    ACL_B = 1,
} aclMode;

/* The functions. */
typedef struct aclInfo {
    int a;
} aclInfo;

ACL_FUNC_VISIBILITY int aclKept(int a); /* since 8.5 */
ACL_FUNC_VISIBILITY int aclChanged(
    int a, int b); /* since 8.5 */
ACL_FUNC_VISIBILITY int aclGone(int a);
"""
NEWER = """
static const int ACL_LIMIT = 5;
typedef enum { ACL_A, ACL_B, ACL_C } aclMode;
typedef struct aclInfo { int a; long b; } aclInfo;
int aclKept(int a);
int aclChanged(int a, double b);
"""
UPDATED = """/* Types of x. */
#define ACL_LIMIT 3

typedef enum aclMode {
    ACL_A = 0, /* since 9.1 */
    ACL_B = 1,
    ACL_C = 2, /* since 9.2 */
} aclMode;

/* The functions. */
typedef struct aclInfo {
    int a;
    long b;
} aclInfo;

ACL_FUNC_VISIBILITY int aclKept(int a); /* since 8.5 */
ACL_FUNC_VISIBILITY int aclChanged(int a, double b); /* since 9.2 */
ACL_FUNC_VISIBILITY int aclGone(int a);
"""


def test_an_update_replaces_what_changed_and_names_the_rest() -> None:
    text, remarks = updated(SHIPPED, "acl/x.h", HeaderSet([parse(NEWER, "newer.h")]), "9.2")
    assert text == UPDATED
    assert remarks == [
        "ACL_LIMIT: 5 in the installed headers, 3 here; change it by hand",
        "aclMode: replaced",
        "aclInfo: replaced",
        "aclChanged: replaced",
        "aclGone: not in the installed headers, kept",
    ]


def test_a_renumbered_enum_is_written_anew() -> None:
    newer = HeaderSet([parse("typedef enum aclMode { ACL_A = 7, ACL_B } aclMode;", "newer.h")])
    text, _ = updated(SHIPPED, "acl/x.h", newer, "9.2")
    assert "typedef enum aclMode {\n    ACL_A = 7,\n    ACL_B = 8,\n} aclMode;\n" in text


def test_a_new_function_is_offered_and_added_on_demand() -> None:
    name = "aclnnop/aclnn_thing.h"
    newer = TRIMMED.replace(
        "#ifdef __cplusplus\n}", "int aclnnThingV2(int a);\nint aclnnThingV3(int a);\n#ifdef __cplusplus\n}"
    )
    installed = HeaderSet([parse(newer, f"/usr/include/{name}")])
    text, remarks = updated(TRIMMED, name, installed, "9.3", ["aclnnThingV2"])
    assert remarks == ["aclnnThingV2: added", "aclnnThingV3: not shipped, --add would take it over"]
    closing = "\n#ifdef __cplusplus\n}"
    added = "\nACL_FUNC_VISIBILITY int aclnnThingV2(int a); /* since 9.3 */\n"
    assert text == TRIMMED.replace(closing, added + closing)


def test_paths_are_of_files_that_exist() -> None:
    assert Path(ROOT / "aclnnop/aclnn_mla_prolog_v3_weight_nz.h").is_file()
    assert "aclnnop/aclnn_mla_prolog_v3_weight_nz.h" in OPERATORS

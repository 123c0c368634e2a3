"""Several headers as one unit, and the text that cffi takes."""

from pathlib import Path

import cffi
import pytest

from cann_mla.headers import HeaderError, HeaderSet, cdef, parse, read, shipped


def write(folder: Path, **texts: str) -> list[Path]:
    paths = []
    for name, text in texts.items():
        path = folder / f"{name}.h"
        path.write_text(text)
        paths.append(path)
    return paths


def test_a_header_comes_behind_those_it_includes(tmp_path: Path) -> None:
    paths = write(
        tmp_path,
        a='#include "b.h"\n#include <stdint.h>\nint a(Kind k);',
        b='#include "c.h"\ntypedef Base Kind;',
        c='#include "a.h"\ntypedef int Base;',
    )
    headers = read(paths)
    assert [Path(h.path).name for h in headers.headers] == ["c.h", "b.h", "a.h"]
    text, functions = headers.cdef()
    assert text.splitlines() == ["typedef int Base;", "typedef Base Kind;", "int a(Kind k);"]
    assert [f.name for f in functions] == ["a"]


def test_of_two_headers_of_one_name_the_nearer_is_meant() -> None:
    near = parse("typedef int Base;", "x/acl/base.h")
    far = parse("typedef long Base;", "y/acl/base.h")
    user = parse('#include "acl/base.h"\nint f(Base b);', "y/op/user.h")
    order = [h.path for h in HeaderSet([user, near, far]).headers]
    assert order.index("y/acl/base.h") < order.index("y/op/user.h")


def test_types_of_the_known_headers_are_not_declared_again(tmp_path: Path) -> None:
    own = "typedef struct Mine Mine; int aclMine(const Mine *m, const aclTensor *t, aclrtStream s);"
    again = "typedef struct aclTensor aclTensor; typedef void *aclrtStream; enum { ACL_FLOAT = 0 };\n"
    again += "#define ACL_SUCCESS 0\ntypedef enum { ACL_FLOAT16 = 1 } aclDataType;\n"
    headers = read(write(tmp_path, own=again + own), known=shipped.load())
    assert headers.cdef().text.splitlines() == [
        "typedef struct Mine Mine;",
        "int aclMine(const Mine *m, const aclTensor *t, aclrtStream s);",
    ]
    ffi = cffi.FFI()
    ffi.cdef(shipped.load().cdef().text)
    ffi.cdef(headers.cdef().text)
    assert ffi.typeof("Mine *").item.kind == "struct"


def test_a_struct_may_be_declared_before_it_is_defined() -> None:
    header = parse("typedef struct A A; typedef struct B { A *a; } B; typedef struct A { B b; } A; struct A;", "x.h")
    ffi = cffi.FFI()
    ffi.cdef(cdef([header]).text)
    assert [name for name, _ in ffi.typeof("A").fields] == ["b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("int f(const aclUnknown *x);", "the type aclUnknown is declared in none"),
        ("typedef struct A { B b; } A;", "the type B is declared in none"),
        ("typedef Missing Alias;", "the type Missing is declared in none"),
        ("int f(int a); int f(double a);", "f was declared differently before"),
        ("#define A 1\nconst int A = 2;", "A was declared differently before"),
    ],
)
def test_what_cffi_would_stumble_over_is_refused_first(text: str, why: str) -> None:
    with pytest.raises(HeaderError) as caught:
        cdef([parse(text, "x.h")])
    assert why in str(caught.value)


def test_the_same_said_twice_is_said_once() -> None:
    headers = [parse("typedef int A; int f(A a);", "x.h"), parse("typedef int A; int f(A a);", "y.h")]
    assert cdef(headers).text == "typedef int A;\nint f(A a);\n"


def test_two_forms_of_one_symbol_are_a_conflict() -> None:
    headers = HeaderSet([parse("int f(int a); int g(int a);", "x.h"), parse("int f(int b); int g(long a);", "y.h")])
    assert [(a.header, b.header, b.name) for a, b in headers.conflicts] == [("x.h", "y.h", "g")]


def test_roles_may_be_given_with_a_foreign_header(tmp_path: Path) -> None:
    text = (
        "aclnnStatus aclnnOwnGetWorkspaceSize(const aclTensor *state, aclTensor *out, uint64_t *n, aclOpExecutor **e);"
        "aclnnStatus aclnnOwn(void *w, uint64_t n, aclOpExecutor *e, aclrtStream s);"
    )
    table = {"aclnnOwn": {"state": "inplace optional"}}
    headers = read(write(tmp_path, own=text), known=shipped.load(), roles=table)
    state = headers.operators["aclnnOwn"].get_workspace["state"]
    assert (state.role.value, state.optional) == ("inplace", True)


def test_every_kind_of_declaration_reaches_cffi() -> None:
    header = parse(
        """
        #define LIMIT 4
        typedef enum aclMode { ACL_A = -1, ACL_B = 0x10 } aclMode;
        enum { ANONYMOUS = 3 };
        typedef struct aclItem { aclMode mode; union { int i; float f; } value; char name[LIMIT]; } aclItem;
        typedef void (*aclCallback)(aclItem *item, void *data);
        int aclRange(int64_t ranges[][LIMIT]);
        int aclRun(aclCallback fn, void (*other)(int), const aclItem *const *items, ...);
        """,
        "x.h",
    )
    ffi = cffi.FFI()
    ffi.cdef(cdef([header]).text)
    assert ffi.sizeof("aclItem") == 12
    assert ffi.typeof("aclMode").elements == {-1: "ACL_A", 16: "ACL_B"}
    assert "int aclRange(int64_t (*ranges)[LIMIT]);" in cdef([header]).text
    assert ffi.typeof("aclCallback").args[0].cname == "aclItem *"

"""What cannot be read is refused by file and line, and reading always ends."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cann_mla
from cann_mla.headers import HeaderError, parse, read, read_header, scan

_CHECKOUT = Path(cann_mla.__file__).parents[1]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("\n/* never closed\nint f(void);", 2, "never closed"),
        ("\n\nUNKNOWN_API aclnnStatus f(int a);", 3, "macro that is not known"),
        ("#define SIZED int a[2];\nstruct S { SIZED };", 2, "the macro SIZED is not expanded"),
        ("#define STATUS(x) x\nSTATUS f(int a);", 2, "the macro STATUS is not expanded"),
        ("#define TWO int a, int\nint f(TWO b);", 2, "the macro TWO is not expanded"),
        ("int f(int a;\nint g(int b);", 1, "never closed"),
        ("int f(int a)) ;", 1, "was not expected"),
        ("int f(int a, int a);", 1, "one name"),
        ("int f(void a);", 1, "cannot be void"),
        ("int f(int a[2][2);", 1, "never closed"),
        ("int f(int, );", 1, "a type was expected"),
        ("f(int a);", 1, "a name and a type were expected"),
        ("int a b c;", 1, "follow one another"),
        ("}", 1, "closes nothing"),
        ('extern "C" {\nint f(void);\n', 1, "never closed"),
        ("struct A { int x : 3; };", 1, "bit fields"),
        ("struct A { int x[N]; };", 1, "the array size 'N'"),
        ("struct A { int x; } a;", 1, "a type and a variable"),
        ("enum E { A = sizeof(int) };", 1, "the value of A"),
        ("enum E { A B };", 1, "'=' or ','"),
        ("int f(int a)\nint g(int b);", 1, "was not expected"),
        ("#if FOO(1)\n#endif", 1, "cannot be decided"),
        ("int f(void);\n#endif", 2, "without #if"),
        ("\n#if 1\nint f(void);", 2, "never closed"),
        ("#error this compiler is too old", 1, "#error"),
        ("#bogus", 1, "#bogus"),
        ("int f(int a) { return a;", 1, "never closed"),
        ('extern "C" { std::string f(); }', 1, "std::string is a C++ type"),
        ("int f(int a) @ ;", 1, "was not expected"),
        ("{ int a; }", 1, "no kind that is known"),
        ("int f(char s", 1, "never closed"),
        ("int f", 1, "ends inside"),
    ],
)
def test_refused_with_line_and_reason(text: str, line: int, why: str) -> None:
    problem = parse(text, "bad.h", cplusplus=False).problems[0]
    assert problem.header == "bad.h"
    assert problem.line == line
    assert why in problem.why


def test_what_follows_a_refused_declaration_is_still_read() -> None:
    header = parse("int f(FOO bar baz);\nint g(int a);\nstruct { int x:1; } B;\nint h(int b);", "x.h")
    assert [s.name for s in header.signatures] == ["g", "h"]
    assert [p.line for p in header.problems] == [1, 3]


def test_the_error_names_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "bad.h"
    path.write_text("int f(FOO bar baz);\nint g(int a);\nint x y z;\n")
    with pytest.raises(HeaderError) as caught:
        read_header(path)
    assert [p.line for p in caught.value.problems] == [1, 3]
    assert f"{path}:1: " in str(caught.value)
    assert f"{path}:3: " in str(caught.value)


def test_the_problems_of_several_files_come_together(tmp_path: Path) -> None:
    paths = [tmp_path / "a.h", tmp_path / "b.h"]
    for path in paths:
        path.write_text("int x y z;")
    with pytest.raises(HeaderError) as caught:
        read(paths)
    assert [p.header for p in caught.value.problems] == [str(p) for p in paths]


def test_a_file_that_is_no_header_is_not_even_opened(tmp_path: Path) -> None:
    path = tmp_path / "big.h"
    with path.open("wb") as file:
        file.truncate(5 << 20)
    assert "bytes; a header has at most" in scan(path).problems[0].why


_MANY = 250_000
_RANDOM = random.Random(1)
_HOSTILE = {
    "comment": "/* " + "x" * _MANY,
    "comments": "/*" * (_MANY // 2),
    "parentheses": "(" * 1_000_000,
    "balanced parentheses": "int f(" + "(" * (_MANY // 2) + ")" * (_MANY // 2) + ");",
    "braces": "{" * _MANY,
    "closing braces": "}" * _MANY,
    "namespaces": "namespace a {" * (_MANY // 13),
    "nested structs": "typedef " + "struct a {" * (_MANY // 20) + "int x;" + "} a;" * (_MANY // 20),
    "function pointers": "void f(" + "int (*a)(" * 20000 + "void" + ")" * 20000 + ");",
    "macro of itself": "#define A B B\n#define B A A\nA f(void);\n",
    "macro chain": "".join(f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(20000)) + "A0 f(void);",
    "conditionals": "#if 1\n" * (_MANY // 6),
    "condition": "#if " + "(" * (_MANY // 2) + "1" + ")" * (_MANY // 2) + "\n#endif\n",
    "product": "#define A 99999999999999999\n#if " + "*".join(["A"] * 900) + "\n#endif",
    "strings": '"' * _MANY,
    "stars": "int " + "*" * _MANY + "x;",
    "commas": "int f(" + "," * _MANY + ");",
    "attributes": "__attribute__((" * (_MANY // 16),
    "enumerators": "enum {" + ",".join(f"A{i}" for i in range(100_000)) + "};",
    "scopes": "int f(a" + "::a" * (_MANY // 2) + " *x);",
    "statements": "foo bar baz;\n" * (_MANY // 13),
    "escaped quotes": '"' + '\\"' * (_MANY // 2),
    "escaped apostrophes": "'" + "\\'" * (_MANY // 2),
    "storage": "static " * 100_000 + "int f(void" + " noexcept" * 90_000 + ";",
    "enums": "".join(f"enum {{A{i}}};" for i in range(15_000)),
    "types in namespaces": "namespace a {" * 30_000 + "enum e {};" * 20_000,
    "splices": "\\\n" * (_MANY // 2),
    "nothing": "\0" * _MANY,
    "junk": "".join(chr(_RANDOM.randrange(256)) for _ in range(_MANY // 4)),
}
_HARMLESS = {"splices", "enums"}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_text_is_refused_and_ends(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.h"
    path.write_text(_HOSTILE[name], encoding="utf-8")
    program = f"from cann_mla.headers import scan; print(len(scan({str(path)!r}).problems))"
    # a process of its own, so that text which is never done fails this test and does not hang the run
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd=_CHECKOUT, check=True
    )
    problems = int(done.stdout)
    assert (problems == 0) == (name in _HARMLESS)
    assert problems < 1000


_WORDS = st.sampled_from(
    [
        *"(){}[];,*&=<>:#\\\"'\n ",
        *[
            "int",
            "const",
            "struct",
            "enum",
            "typedef",
            "extern",
            '"C"',
            "namespace",
            "class",
            "template",
            "x",
            "f",
            "1",
        ],
        *[
            "#if ",
            "#endif\n",
            "#define A ",
            "/*",
            "*/",
            "//",
            "...",
            "::",
            "operator",
            "using",
            "aclTensor",
            "0x",
            "''",
        ],
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_WORDS, max_size=60).map(" ".join) | st.lists(_WORDS, max_size=60).map("".join) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    header = parse(text, "any.h")
    for signature in header.signatures:
        again = parse(signature.prototype() + ";", "again.h")
        assert again.problems == []
        assert again.signatures[0].prototype() == signature.prototype()
    assert all(problem.line >= 1 for problem in header.problems)

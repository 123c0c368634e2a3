import pytest

from cann_mla.headers import parse


def names(text: str, *, cplusplus: bool = False) -> list[str]:
    header = parse(text, "x.h", cplusplus=cplusplus)
    assert header.problems == []
    return [s.name for s in header.signatures]


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("#if 1", True),
        ("#if 0", False),
        ("#ifdef A", True),
        ("#ifndef A", False),
        ("#ifdef B", False),
        ("#if defined(A) && !defined B", True),
        ("#if A == 3", True),
        ("#if B", False),
        ("#if A > 2 || B > 2", True),
        ("#if defined(_MSC_VER)", False),
        ("#if __has_include(<x.h>)", False),
        ("#if defined(__GNUC__) && (__GNUC__ >= 6)", True),
        ("#if (A) \\\n && 1", True),
    ],
)
def test_a_condition_decides(condition: str, taken: bool) -> None:
    text = f"#define A 3\n{condition}\nint yes(void);\n#else\nint no(void);\n#endif\nint last(void);\n"
    assert names(text) == [("yes" if taken else "no"), "last"]


def test_the_first_true_branch_counts() -> None:
    text = "#if 0\nint a(void);\n#elif 1\nint b(void);\n#elif 1\nint c(void);\n#else\nint d(void);\n#endif"
    assert names(text) == ["b"]


def test_blocks_nest() -> None:
    text = "#if 0\n#if 1\nint a(void);\n#else\nint b(void);\n#endif\n#elif 1\n#if 1\nint c(void);\n#endif\n#endif"
    assert names(text) == ["c"]


def test_cplusplus_is_what_the_caller_says() -> None:
    text = "#ifdef __cplusplus\nint cpp(void);\n#else\nint c(void);\n#endif"
    assert names(text, cplusplus=True) == ["cpp"]
    assert names(text, cplusplus=False) == ["c"]


def test_a_macro_is_gone_after_undef() -> None:
    assert names("#define A 1\n#undef A\n#ifdef A\nint a(void);\n#endif") == []


def test_directives_in_a_branch_not_taken_say_nothing() -> None:
    assert names("#if 0\n#error no\n#define A 1\n#endif\n#ifdef A\nint a(void);\n#endif") == []

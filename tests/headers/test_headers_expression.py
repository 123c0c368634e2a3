import pytest

from cann_mla.headers.expression import evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("-1", -1),
        ("2 - -3", 5),
        ("~0", -1),
        ("!0 + !5", 1),
        ("0xFFU", 255),
        ("010", 8),
        ("0b101", 5),
        ("1UL << 4 | 1", 17),
        ("7 & 12 ^ 1", 5),
        ("1 < 2 == 1", 1),
        ("0 || 3 && 2", 1),
        ("N * 2", 14),
        ("100 / 7 % 5", 4),
    ],
)
def test_value_is_that_of_c(text: str, value: int) -> None:
    assert evaluate(text, {"N": 7}) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not complete"),
        ("1 +", "not complete"),
        ("(1", "unbalanced"),
        ("1)", "unbalanced"),
        ("1 2", "follows a value"),
        ("M", "not known"),
        ("1.5", "not part of an integer"),
        ("sizeof(int)", "not known"),
        ("1 / 0", "division by zero"),
        ("1 << 64", "shift"),
        ("9" * 41, "too large"),
        ("99999999999 * 99999999999", "64 bits"),
        ("1+" * 5000 + "1", "characters"),
    ],
)
def test_what_is_no_integer_constant_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        evaluate(text, {})


def test_unknown_names_take_the_value_asked_for() -> None:
    assert evaluate("A == 0", {}, unknown=0) == 1

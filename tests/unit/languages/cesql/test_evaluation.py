"""Evaluation of CESQL beyond the conformance tables: other values, bounds, and users' operators."""

from datetime import UTC, datetime
from typing import Any

import pytest

from godwit.errors import QueryTooCostly
from godwit.filters import Event, Point, event
from godwit.languages import Operator, Subject, parse_query
from godwit.languages.cesql import evaluate_text
from godwit.languages.cesql.casts import CastFailed, boolean_of, integer_of, number_of, text_of


def outcome(text: str, **attributes: Any) -> tuple[Any, set[str]]:
    found = evaluate_text(text, Event(attributes))
    return found.value, {failure.kind for failure in found.failures}


@pytest.mark.parametrize(
    ("text", "value", "error"),
    [
        ("2147483647 + 1", 0, "math"),
        ("-2147483648 - 1", 0, "math"),
        ("100000 * 100000", 0, "math"),
        ("-2147483648 / -1", 0, "math"),
        ("-(-2147483648)", 0, "math"),
        ("-7 / 2", -3, None),
        ("-7 % 2", -1, None),
        ("7 % -2", 1, None),
        ("'abc' + 3", 3, "cast"),
        ("'2147483648' + 0", 0, "cast"),
        ("'+007' + 0", 7, None),
        ("' 7' + 0", 0, "cast"),
        ("'1_0' + 0", 0, "cast"),
        ("'٥' + 0", 0, "cast"),
        ("'' + 0", 0, "cast"),
        ("10 AND TRUE", True, None),
        ("0 OR FALSE", False, None),
        ("NOT 0", True, "cast"),
        ("1 = TRUE", True, None),
        ("5 IN (5, 'x')", True, "cast"),
        ("missing IN (5)", False, "missingAttribute"),
        ("5 IN (5, missing)", False, "missingAttribute"),
        ("TRUE OR missing", True, None),
        ("FALSE AND missing", False, None),
        ("missing OR TRUE", False, "missingAttribute"),
        ("TRUE XOR missing", False, "missingAttribute"),
        ("NOT (missing = 1)", False, "missingAttribute"),
        ("LENGTH(missing)", 0, "missingAttribute"),
        ("LOWER(missing)", "", "missingAttribute"),
        ("TRIM('\u3000a\x1f ')", "a\x1f", None),
        ("SUBSTRING('abc', 2, -1)", "", "functionEvaluation"),
        ("SUBSTRING('', 1)", "", "functionEvaluation"),
        ("RIGHT('abc', 0)", "", None),
        ("LEFT('abc', '2')", "ab", None),
        ("LENGTH(12345)", 5, None),
        ("near('a')", False, "missingFunction"),
        ("ABS()", False, "missingFunction"),
    ],
)
def test_values_and_errors(text: str, value: Any, error: str | None) -> None:
    assert outcome(text) == (value, {error} if error else set())


def test_values_that_no_cloud_event_has() -> None:
    assert outcome("a < 3", a=2.5) == (True, set())
    assert outcome("a = '2.5'", a=2.5) == (True, set())
    assert outcome("a = 2", a=2.0) == (True, set())
    assert outcome("a + 1", a=2.0) == (3, set())
    assert outcome("a + 1", a=2.5) == (1, {"cast"})
    assert outcome("a > 5", a=2**40) == (True, set())
    assert outcome("a", a=datetime(2026, 1, 1, tzinfo=UTC)) == ("2026-01-01T00:00:00Z", set())
    assert outcome("a LIKE 'POINT%'", a=Point(8.5, 47)) == (True, set())
    assert outcome("a = 'POINT (8.5 47)'", a=Point(8.5, 47.0)) == (True, set())


def test_of_several_values_one_is_enough() -> None:
    both = {"a": ("x", "y")}
    assert outcome("a = 'x'", **both)[0] is True
    assert outcome("a = 'z'", **both)[0] is False
    assert outcome("a != 'x'", **both)[0] is False
    assert outcome("NOT (a = 'x')", **both)[0] is False
    assert outcome("a != 'z' AND a NOT LIKE 'z%' AND a NOT IN ('z')", **both)[0] is True
    assert outcome("CONCAT(a, b) = 'yv'", a=("x", "y"), b=("u", "v")) == (True, set())
    assert outcome("a = 5", a=("five", 5)) == (True, set())
    assert outcome("a = 6", a=("five", 5)) == (False, {"generic"})
    assert outcome("NOT (a = 6)", a=("five", 5)) == (False, {"generic"})


def test_casts() -> None:
    for wrong in ("five", "", "+", "-", "5.0", "99999999999", "0x5", 2.5):
        with pytest.raises(CastFailed):
            integer_of(wrong)
    assert [integer_of(each) for each in ("-0", "+5", "0" * 60_000 + "5", True)] == [0, 5, 5, 1]
    assert number_of(2.5) == 2.5
    assert [boolean_of(each) for each in ("tRUE", "False", 0, -3)] == [True, False, False, True]
    assert [text_of(each) for each in (True, 5.0, 1e300, -0.0)] == ["true", "5", "1e+300", "0"]


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("CONCAT(" + ", ".join(["a"] * 3_000) + ") = 'x'", {"a": "x" * 60_000}),
        ("CONCAT_WS(a" + ", b" * 3_000 + ") = 'x'", {"a": "x" * 60_000, "b": ""}),
        ("a + b + c + d = -1", {name: tuple(range(100)) for name in "abcd"}),
        (" XOR ".join(["LOWER(a) = UPPER(a)"] * 1_000), {"a": "x" * 60_000}),
    ],
)
def test_a_test_that_takes_too_long_is_stopped(text: str, attributes: dict[str, Any]) -> None:
    query = parse_query(text, "cesql")
    assert query.test is not None
    with pytest.raises(QueryTooCostly):
        query.test(Subject(Event(attributes)))


def test_long_patterns_and_texts_take_a_bounded_time() -> None:
    query = parse_query(f"LOWER(a) LIKE '{'%a_' * 200}b'", "cesql")
    assert not query.matches(Event({"a": "a" * 65_000}))


def test_an_operator_of_a_user_decides_and_one_that_raises_does_not_match() -> None:
    def is_even(value: Any) -> bool:
        return int(value) % 2 == 0

    operators = {"even": Operator("even", is_even)}
    query, inverse = (parse_query(text, "cesql", operators) for text in ("EVEN(a)", "NOT even(a)"))
    assert [query.matches(event({"a": a})) for a in (2, "4", 3, "x")] == [True, True, False, False]
    assert [inverse.matches(event({"a": a})) for a in (2, "4", 3, "x")] == [False, False, True, False]
    assert not query.matches(event({}))
    [failure] = evaluate_text("even(a)", event({"a": "x"}), operators).failures
    assert failure.kind == "functionEvaluation"
    assert "invalid literal" in failure.reason

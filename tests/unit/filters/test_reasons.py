"""Why a filter covers another or not, and why two intersect or not."""

import pytest

from godwit.filters.filters import TRUE
from godwit.filters.language import parse, to_text
from godwit.filters.reasons import why_covers, why_intersects


def told(wide: str, narrow: str) -> list[tuple[str, str | None]]:
    found = why_covers(parse(wide), parse(narrow))
    return [
        (to_text(step.wanted), None if step.given is None else to_text(step.given))
        for case in found.cases
        for step in case.steps
    ]


def test_each_literal_that_is_wanted_has_one_that_gives_it() -> None:
    assert told("price < 10", "price < 5 AND sym = 'A'") == [("price < 10", "price < 5")]
    assert told("a < 9 AND b > 1", "b = 2 AND a = 3") == [("a < 9", "a = 3"), ("b > 1", "b = 2")]


def test_an_or_takes_the_part_that_is_implied() -> None:
    assert told("a = 1 OR b < 9 AND c = 3", "b < 5 AND c = 3") == [("b < 9", "b < 5"), ("c = 3", "c = 3")]


def test_several_parts_of_an_or_may_be_implied_together() -> None:
    assert told("a = 1 OR a = 2 OR b = 3", "a IN (1, 2)") == [("a = 1 OR a = 2 OR b = 3", "a IN (1, 2)")]


def test_each_way_to_match_the_narrow_filter_is_a_case() -> None:
    found = why_covers(parse("a < 9"), parse("a = 1 OR a = 2 AND b = 3"))
    assert found.answer
    assert [len(case.conjunction) for case in found.cases] == [1, 2]
    assert all(case.holds for case in found.cases)


def test_a_no_says_which_literal_fails_and_shows_an_event() -> None:
    assert told("price < 10 AND sym = 'A'", "price < 5") == [("price < 10", "price < 5"), ("sym = 'A'", None)]
    assert told("a = 1 OR b = 2", "a = 3") == [("a = 1 OR b = 2", None)]
    assert why_covers(parse("price < 10 AND sym = 'A'"), parse("price < 5")).example == {"price": 4}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("price < 3", "price < 5"),
        ("price <= 5", "price < 5.5"),
        ("x BETWEEN 1 AND 5", "x > 1 AND x < 5"),  # two values may do one each
        ("x = 1", "x IN (1, 2)"),
        ("x = 1", "x = TRUE"),
        ("ALL x = 1", "x = 1"),
        ("x <> 5", "x IS NOT NULL"),
        ("x LIKE 'ab%'", "x LIKE 'a%'"),
        ("x LIKE 'a_b%'", "x LIKE 'a%'"),
        ("x >= 'b'", "x >= 'a'"),
        ("x IS NULL", "y = 1"),
        ("x = 1", "TRUE"),
        ("FALSE", "x = 1"),
        ("NOT x = 1", "y = 1"),
        ("p WITHIN box(1, 1, 2, 2)", "p WITHIN box(0, 0, 2, 2)"),
        ("p WITHIN circle(8, 47, 100)", "p WITHIN circle(8, 47, 500)"),
        ("p WITHIN places('a')", "p WITHIN places('a', 'b')"),
        ("t > TIMESTAMP '2026-11-15T06:00:00Z'", "t >= TIMESTAMP '2026-11-15T06:00:00Z'"),
    ],
)
def test_an_example_matches_the_narrow_filter_and_not_the_wide_one(wide: str, narrow: str) -> None:
    f, g = parse(wide), parse(narrow)
    found = why_covers(f, g)
    assert not found.answer
    assert found.example is not None
    assert g.holds(found.example)
    assert not f.holds(found.example)


def test_equal_filters_and_those_that_match_nothing_are_covered() -> None:
    assert why_covers(parse("a = 1 OR b = 2"), parse("b = 2 OR a = 1")).answer
    assert why_covers(parse("a = 1"), parse("x IN ()")) == why_covers(parse("b = 1"), parse("FALSE"))
    assert why_covers(TRUE, parse("a = 1")).cases[0].steps == ()


def test_open_filters_are_told_without_an_example() -> None:
    found = why_covers(parse("x >= my.a"), parse("x >= 5"))
    assert not found.answer
    assert found.example is None
    assert why_covers(parse("x >= my.a"), parse("x >= my.a AND y = 1")).answer


def test_an_intersection_is_shown_by_an_event_that_matches_both() -> None:
    f, g = parse("price < 10 AND sym LIKE 'A%'"), parse("price > 5 OR sym = 'B'")
    found = why_intersects(f, g)
    assert found.answer
    assert found.example is not None
    assert f.holds(found.example)
    assert g.holds(found.example)


def test_no_intersection_is_shown_by_literals_that_exclude_each_other() -> None:
    found = why_intersects(parse("ALL price < 10 AND a = 1"), parse("price > 50 OR a IS NULL"))
    assert not found.answer
    assert [(to_text(a), to_text(b)) for a, b in found.clashes] == [
        ("ALL price < 10", "price > 50"),
        ("a = 1", "a IS NULL"),
    ]

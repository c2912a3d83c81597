"""`to_text` and `pretty`: one canonical, readable text for each filter."""

from datetime import UTC, datetime

import pytest

from godwit.filters.filters import FALSE, TRUE, Filter, Only, Some, all_of, any_of
from godwit.filters.language import parse, pretty, to_text
from godwit.filters.sets import OneOf, Places, ValueSet, between, complement, holds_text, interval, one_of, starts_with
from godwit.filters.values import Point

CANONICAL = [
    "x = 5",
    "x = -0.5",
    "x = 1e+300",
    "x = 'it''s'",
    "x = TRUE",
    "x <> 5",
    "NOT x = 5",
    "ALL x = 5",
    "x < 5",
    "x >= 'a'",
    "NOT x < 5",
    "ANY NOT x < 5",
    "ALL x < 5",
    "1 < x <= 5",
    "NOT 1 < x < 5",
    "ANY NOT 1 <= x < 5",
    "ALL 1 < x < 5",
    "x BETWEEN 1 AND 5",
    "x NOT BETWEEN 1 AND 5",
    "ANY x NOT BETWEEN 1 AND 5",
    "x IN (1, 2)",
    "x IN (TRUE, 1, TIMESTAMP '2026-11-15T06:00:00Z', 'a', point(8.5, 47.4))",
    "x NOT IN (1, 2)",
    "ANY x NOT IN (1, 2)",
    "ALL x IN (1, 2)",
    "x IN ()",
    "x NOT IN ()",
    "x IS NULL",
    "x IS NOT NULL",
    "x IS NUMBER",
    "x IS NOT TEXT",
    "ALL x IS TIME",
    "ANY x IS NOT BOOL",
    "x IS POINT",
    "x LIKE 'a%'",
    "x LIKE '%a\\%b%'",
    "x NOT LIKE '_a%'",
    "ANY x NOT LIKE '%a'",
    "x WITHIN circle(8.54, 47.37, 500)",
    "x NOT WITHIN box(5, 45, 10, 48)",
    "ALL x WITHIN polygon(8 47, 9 47, 8 48)",
    "x WITHIN places('market', 'station')",
    "x >= my.threshold",
    "x <> my.name",
    "x IN (1, my.a, my.b)",
    "my.low < x <= my.high",
    "x BETWEEN 1 AND my.high",
    "x LIKE my.pattern",
    "x = myloc",
    "x WITHIN myloc",
    "x WITHIN myloc(2)",
    "x WITHIN my.home(2)",
    'x WITHIN my."second home"(2)',
    "x WITHIN circle(myloc, 500)",
    "x WITHIN circle(8.54, 47.37, my.radius)",
    "x NOT WITHIN circle(my.home, my.radius)",
    "sender.battery > 20",
    "sender.User/Address/Zip = 8001",
    'sender."in.door" = TRUE',
    'sender.U&"\\202Eodd" IS NULL',
    "sender.floor = my.floor",
    '"my.x" = 5',
    '"in" = 5',
    "\"content-type\" = 'a'",
    "User/@id = 5",
    "a = 1 AND b = 2 OR c = 3",
    "a = 1 AND (b = 2 OR c = 3)",
    "TRUE",
    "FALSE",
    "x = 5 AND FALSE",
    "x = 5 OR TRUE",
    "x = U&'two\\000Alines, a \\\\ and a '' quote'",
    'U&"\\202Eodd" = 5',
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_is_printed_as_it_was_written(text: str) -> None:
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("5 < x", "x > 5"),
        ("x != 5", "x <> 5"),
        ("covered", "covered = TRUE"),
        ("not covered", "NOT covered = TRUE"),
        ("ALL x NOT IN (1, 2)", "x NOT IN (1, 2)"),
        ("ALL x <> 5", "NOT x = 5"),
        ("x IN (2, 1, 1.0)", "x IN (1.0, 2)"),
        ("1 <= x <= 5", "x BETWEEN 1 AND 5"),
        ("x LIKE 'a!_%' ESCAPE '!'", "x LIKE 'a\\_%'"),
        ("x LIKE '%%a'", "x LIKE '%a'"),
        ("x = my.location", "x = myloc"),
        ("x WITHIN myloc(0)", "x WITHIN myloc"),
        ("within(x, circle(1, 2, 3))", "x WITHIN circle(1, 2, 3)"),
        ("x WITHIN box(-180, -90, 180, 90)", "x IS POINT"),
        ("((a = 1)) OR (b = 2 AND (c = 3))", "a = 1 OR b = 2 AND c = 3"),
        ("NOT (a = 1 OR b = 2)", "NOT a = 1 AND NOT b = 2"),
        ('"plain" = 5', "plain = 5"),
    ],
)
def test_what_can_be_written_in_two_ways_is_printed_in_one(written: str, printed: str) -> None:
    assert to_text(parse(written)) == printed


@pytest.mark.parametrize(
    ("values", "printed"),
    [
        (between("a", "b"), "x BETWEEN 'a' AND 'b'"),
        (interval(low="", low_open=True), "x > ''"),
        (OneOf((False, True)), "x IS BOOL"),
        (Places(("a",)), "x WITHIN places('a')"),
        (one_of([datetime(1, 1, 1, tzinfo=UTC)]), "x = TIMESTAMP '0001-01-01T00:00:00Z'"),
        (one_of([Point(-0.0, 1e-7)]), "x = point(-0.0, 1e-07)"),
        (holds_text("%_\\"), "x LIKE '%\\%\\_\\\\%'"),
        (complement(starts_with("a")), "ANY x NOT LIKE 'a%'"),
    ],
)
def test_sets_made_by_hand_have_a_text_that_parses_back(values: ValueSet, printed: str) -> None:
    assert to_text(Some("x", values)) == printed
    for literal in (Some("x", values), Only("x", values)):
        assert parse(to_text(literal)) == literal


def test_pretty_breaks_long_filters_at_and_and_or() -> None:
    filter = parse(
        "service = 'parking' AND cost < 3 AND (size IN ('compact', 'van') OR covered) AND position WITHIN myloc(2)"
    )
    assert pretty(filter, width=40) == "\n".join(
        [
            "service = 'parking'",
            "AND cost < 3",
            "AND (",
            "    size IN ('compact', 'van')",
            "    OR covered = TRUE",
            ")",
            "AND position WITHIN myloc(2)",
        ]
    )


def test_pretty_breaks_long_lists_after_commas_but_never_within_a_text() -> None:
    filter = parse("name IN ('Anna, Bern', 'Otto, Chur', 'Ueli, Thun')")
    assert pretty(filter, width=24) == "name IN ('Anna, Bern',\n    'Otto, Chur',\n    'Ueli, Thun')"


@pytest.mark.parametrize("filter", [TRUE, FALSE, all_of(FALSE, parse("x = 5")), any_of(TRUE, parse("x = 5"))])
def test_pretty_knows_true_and_false(filter: Filter) -> None:
    assert parse(pretty(filter, width=1)) == filter

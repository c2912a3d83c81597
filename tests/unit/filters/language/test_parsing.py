"""`parse`: what each phrase means, and what is said about text that means nothing."""

from datetime import UTC, datetime

import pytest

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.filters.events import event
from godwit.filters.filters import (
    FALSE,
    TRUE,
    Filter,
    Missing,
    Only,
    Some,
    all_of,
    any_of,
    missing,
    only,
    present,
    some,
)
from godwit.filters.language import parse, to_text
from godwit.filters.language.parsing import TEXT_BYTES_MAX
from godwit.filters.language.scanning import WORDS_MAX
from godwit.filters.regions import box, circle, polygon
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    ValueSet,
    all_of_kind,
    at_least,
    at_most,
    between,
    complement,
    ends_with,
    holds_text,
    interval,
    less_than,
    like,
    more_than,
    one_of,
    places,
    starts_with,
)
from godwit.filters.values import Kind, Point

FIVE = one_of([5])

SETS: list[tuple[str, ValueSet]] = [
    ("x = 5", FIVE),
    ("5 = x", FIVE),
    ("x = -5", one_of([-5])),
    ("x=+5", FIVE),
    ("x = 5.", FIVE),
    ("x = .5", one_of([0.5])),
    ("x = 1.5e3", one_of([1500])),
    ("x = 18446744073709551615", one_of([2**64 - 1])),
    ("x = 9007199254740993", one_of([2**53 + 1])),
    ("x = 'it''s'", one_of(["it's"])),
    ("x = ''", one_of([""])),
    ("x = 'two\nlines'", one_of(["two\nlines"])),
    (r"x = U&'\0041\\\+01F600'", one_of(["A\\😀"])),
    ("x = TRUE", one_of([True])),
    ("x = false", one_of([False])),
    ("x", one_of([True])),
    ("x <> 5", complement(FIVE)),
    ("x != 5", complement(FIVE)),
    ("5 <> x", complement(FIVE)),
    ("x < 5", less_than(5)),
    ("5 > x", less_than(5)),
    ("x <= 5", at_most(5)),
    ("x > 'a'", more_than("a")),
    ("'a' < x", more_than("a")),
    ("x >= 5", at_least(5)),
    ("1 < x < 5", interval(1, 5, low_open=True, high_open=True)),
    ("1 < x <= 5", interval(1, 5, low_open=True)),
    ("5 >= x > 1", interval(1, 5, low_open=True)),
    ("1 <= x <= 5", between(1, 5)),
    ("x BETWEEN 1 AND 5", between(1, 5)),
    ("x BETWEEN 5 AND 1", NOTHING),
    ("x IN (5)", FIVE),
    ("x IN (1, 'a', TRUE)", one_of([1, "a", True])),
    ("x IN ()", NOTHING),
    ("x LIKE 'a%'", starts_with("a")),
    ("x LIKE '%a'", ends_with("a")),
    ("x LIKE '%a%'", holds_text("a")),
    ("x LIKE 'a'", one_of(["a"])),
    ("x LIKE '%'", all_of_kind(Kind.TEXT)),
    ("x LIKE 'a_b%c'", like("a_b%c")),
    (r"x LIKE '100\%'", one_of(["100%"])),
    ("x LIKE '100!%%' ESCAPE '!'", starts_with("100%")),
    ("x IS NUMBER", all_of_kind(Kind.NUMBER)),
    ("x is text", all_of_kind(Kind.TEXT)),
    ("x IS TIME", all_of_kind(Kind.TIME)),
    ("x IS BOOL", one_of([True, False])),
    ("x IS POINT", box(-180, -90, 180, 90)),
    ("x = TIMESTAMP '2026-11-15T06:00:00Z'", one_of([datetime(2026, 11, 15, 6, tzinfo=UTC)])),
    ("x = timestamp '2026-11-15T07:00:00.5+01:00'", one_of([datetime(2026, 11, 15, 6, 0, 0, 500_000, tzinfo=UTC)])),
    ("x = point(8.5, 47.4)", one_of([Point(8.5, 47.4)])),
    ("x WITHIN circle(8.54, 47.37, 500)", circle(8.54, 47.37, 500)),
    ("x WITHIN circle(point(8.54, 47.37), 500)", circle(8.54, 47.37, 500)),
    ("x within BOX(5, 45, 10, 48)", box(5, 45, 10, 48)),
    ("x WITHIN polygon(8 47, 9 47, 8 48)", polygon([(8, 47), (9, 47), (8, 48)])),
    ("x WITHIN polygon((8 47), (9 47), (8 48))", polygon([(8, 47), (9, 47), (8, 48)])),
    ("x WITHIN POLYGON((8 47, 9 47, 8 48, 8 47))", polygon([(8, 47), (9, 47), (8, 48)])),
    ("x WITHIN places('market', 'station')", places(["station", "market"])),
    ("within(x, circle(8.54, 47.37, 500))", circle(8.54, 47.37, 500)),
    ("WITHIN ( x , places('market') )", places(["market"])),
]


@pytest.mark.parametrize(("text", "values"), SETS)
def test_a_comparison_is_about_some_value(text: str, values: ValueSet) -> None:
    assert parse(text) == Some("x", values)
    assert parse(f"ANY {text}") == Some("x", values)


@pytest.mark.parametrize(("text", "values"), SETS)
def test_all_is_about_every_value(text: str, values: ValueSet) -> None:
    assert parse(f"ALL {text}") == only("x", values)


@pytest.mark.parametrize(("text", "values"), SETS)
def test_not_is_the_exact_opposite(text: str, values: ValueSet) -> None:
    assert parse(f"NOT {text}") == parse(f"ALL NOT {text}") == only("x", complement(values))
    assert parse(f"ANY NOT {text}") == Some("x", complement(values))
    assert parse(f"NOT ALL {text}") == ~only("x", values)


@pytest.mark.parametrize(
    ("denied", "plain"),
    [
        ("x NOT IN (1, 2)", "x IN (1, 2)"),
        ("x NOT LIKE 'a%'", "x LIKE 'a%'"),
        ("x NOT BETWEEN 1 AND 5", "x BETWEEN 1 AND 5"),
        ("x NOT WITHIN box(5, 45, 10, 48)", "x WITHIN box(5, 45, 10, 48)"),
        ("x IS NOT NUMBER", "x IS NUMBER"),
        ("x IS NOT NULL", "x IS NULL"),
    ],
)
def test_not_within_a_comparison_is_not_before_it(denied: str, plain: str) -> None:
    assert parse(denied) == parse(f"NOT {plain}") == ~parse(plain)


def test_any_not_in_asks_for_one_value_outside_and_all_not_in_for_no_value_inside() -> None:
    outside = complement(one_of([1, 2]))
    assert parse("ANY x NOT IN (1, 2)") == Some("x", outside)
    assert parse("ALL x NOT IN (1, 2)") == parse("x NOT IN (1, 2)") == Only("x", outside)
    assert parse("x NOT IN ()") == Only("x", EVERYTHING)


def test_null() -> None:
    assert parse("x IS NULL") == Missing("x") == missing("x")
    assert parse("x is not null") == present("x")


def test_two_comparisons_may_be_met_by_two_values_and_one_range_by_one() -> None:
    two_zips = event({"zip": [500, 3000]})
    assert parse("zip > 1000 AND zip < 2000").matches(two_zips)
    assert not parse("zip BETWEEN 1000 AND 2000").matches(two_zips)
    assert not parse("1000 < zip < 2000").matches(two_zips)


A, B, C = some("a", FIVE), some("b", FIVE), some("c", FIVE)


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("TRUE", TRUE),
        ("false", FALSE),
        ("NOT TRUE", FALSE),
        ("a = 5 AND b = 5 OR c = 5", any_of(all_of(A, B), C)),
        ("a = 5 OR b = 5 AND c = 5", any_of(A, all_of(B, C))),
        ("a = 5 AND (b = 5 OR c = 5)", all_of(A, any_of(B, C))),
        ("a = 5 AND (b = 5 AND c = 5)", all_of(A, B, C)),
        ("((((a = 5))))", A),
        ("NOT a = 5 AND b = 5", all_of(~A, B)),
        ("NOT (a = 5 AND b = 5)", any_of(~A, ~B)),
        ("NOT (a = 5 OR NOT (b = 5 AND NOT c = 5))", all_of(~A, B, ~C)),
        ("NOT NOT a = 5", A),
        ("a = 5 AND a = 5", A),
        ("a BETWEEN 5 AND 5 AND b = 5", all_of(A, B)),
        ("a=5and(b=5)or not(c=5)", any_of(all_of(A, B), ~C)),
        ("\r\n a = 5 \t AND\nb = 5\f", all_of(A, B)),
        ("covered AND NOT full", all_of(some("covered", one_of([True])), ~some("full", one_of([True])))),
    ],
)
def test_and_or_not_and_parentheses(text: str, filter: Filter) -> None:
    assert parse(text) == filter


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("User/Address/Zip = 5", "User/Address/Zip"),
        ("User/@id = 5", "User/@id"),
        ("@id = 5", "@id"),
        ("$price = 5", "$price"),
        ("ns:item/ns:price = 5", "ns:item/ns:price"),
        ("items/0/price = 5", "items/0/price"),
        ("straße = 5", "straße"),
        ("_x1 = 5", "_x1"),
        ("sender.battery = 5", "sender.battery"),
        ("sender.device/battery = 5", "sender.device/battery"),
        ("sender.User/Address/Zip = 5", "sender.User/Address/Zip"),
        ('sender."in.door" = 5', "sender.in.door"),
        ('sender."odd name" = 5', "sender.odd name"),
        ('sender.U&"a\\000Ab" = 5', "sender.a\nb"),
        ('"sender.odd name" = 5', "sender.odd name"),
        ("sender.in = 5", "sender.in"),
        ("sender.myloc = 5", "sender.myloc"),
        (f"sender.{'n' * 249} = 5", f"sender.{'n' * 249}"),
        ('"x" = 5', "x"),
        ('"in" = 5', "in"),
        ('"my.x" = 5', "my.x"),
        ('"content-type" = 5', "content-type"),
        ('"a ""quoted"" name" = 5', 'a "quoted" name'),
        (r'U&"tab\0009" = 5', "tab\t"),
        *[
            (f"{word} = 5", word)
            for word in ("timestamp", "time", "text", "number", "point", "circle", "place", "my", "u")
        ],
    ],
)
def test_names_of_attributes(text: str, name: str) -> None:
    assert parse(text) == Some(name, FIVE)


def test_named_places_are_looked_up() -> None:
    known = {"zurich": box(8.4, 47.3, 8.6, 47.4), "old town": circle(8.54, 47.37, 500)}
    assert parse("x WITHIN place('zurich')", places=known) == Some("x", known["zurich"])
    assert parse("ALL x NOT WITHIN PLACE('old town')", places=known) == Only("x", complement(known["old town"]))
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 5 AND\n x WITHIN place('bern')", places=known)
    assert (caught.value.line, caught.value.column) == (2, 11)
    assert "there is no place 'bern'" in str(caught.value)
    assert caught.value.expected == ("'old town'", "'zurich'")
    with pytest.raises(FilterSyntaxError, match="no places are known here"):
        parse("x WITHIN place('zurich')")


# text, column, a piece of the message, a piece of what was expected
ERRORS = [
    ("", 1, "the filter is empty", "an attribute"),
    ("  \n ", 1, "the filter is empty", "an attribute"),
    ("x >", 4, "ends too early", "a value"),
    ("x = 5 AND", 10, "ends too early", "an attribute, a value, NOT or ("),
    ("(x = 5", 7, "ends too early", ")"),
    ("x = 5)", 6, ") has no place", "the end of the filter"),
    ("x > 5 5", 7, "5 has no place", "AND, OR or the end of the filter"),
    ("(x > 5 5", 8, "5 has no place", "AND, OR or )"),
    ("x y", 3, "y has no place", "a comparison (= <> < <= > >= BETWEEN IN LIKE IS WITHIN), AND, OR"),
    ("x == 5", 4, "use = instead of ==", "a value"),
    ("x = = 5", 5, "= has no place", "a value"),
    ("x NOT 5", 7, "5 has no place", "BETWEEN, IN, LIKE or WITHIN"),
    ("x IN 5", 6, "5 has no place", "("),
    ("x IN (1 2)", 9, "2 has no place", "a comma or )"),
    ("x BETWEEN 1", 12, "ends too early", "AND"),
    ("x BETWEEN 1, 5", 12, ", has no place", "AND"),
    ("WITHIN (x)", 10, ") has no place", "a comma"),
    ("x IS NOT", 9, "ends too early", "NULL, NUMBER, TEXT, TIME, BOOL or POINT"),
    ("circle(" * 9 + "1" + ")" * 9, 57, "calls nest at most 8 deep", ""),
    ("x IS 5", 6, "5 has no place", "NULL, NOT, NUMBER, TEXT, TIME, BOOL or POINT"),
    ("x IS RED", 6, "RED is not a kind", "NULL, NUMBER, TEXT, TIME, BOOL or POINT"),
    ("ANY x IS NULL", 10, "IS NULL takes no ANY or ALL", "NUMBER"),
    ("ANY TRUE", 1, "ANY must be followed by a comparison of an attribute", ""),
    ("x = NULL", 5, "NULL is not a value: ask IS NULL", "a value"),
    ("a < b", 5, "is allowed in subscriptions only", "a value"),
    ('sym = "A"', 7, "did you mean 'A'? Text takes single quotes; double quotes are an attribute name", "a value"),
    ("""sym = "it's \"\"A\"\"\"""", 7, "did you mean 'it''s \"A\"'? Text takes single quotes", "a value"),
    ('sym IN ("A")', 9, "did you mean 'A'?", "a value"),
    ("sym = A", 7, "sym and A are attributes", "a value"),
    ("x IN (A, B)", 7, "A is an attribute", "a value"),
    ("a + 1 > 3", 3, "arithmetic is allowed in subscriptions only", ""),
    ("a -1 > 3", 3, "arithmetic is allowed", ""),
    ("a * 2 > 3", 3, "arithmetic is allowed", ""),
    ("a / b > 3", 3, "arithmetic is allowed", ""),
    ("x MATCHES 'a.b'", 3, "a regular expression is allowed in subscriptions only", ""),
    ("Length(x) > 3", 1, "Length(…) is allowed in subscriptions only", ""),
    ("count(x) > 3", 1, "count(…) is allowed in subscriptions only", ""),
    ("5", 1, "5 is not a condition", "a comparison"),
    ("'a'", 1, "'a' is not a condition", "a comparison"),
    ("5 < 6", 3, "neither side of < is an attribute", ""),
    ("my.x > 5", 6, "neither side of > is an attribute", ""),
    ("5 IN (5)", 1, "IN needs an attribute", ""),
    ("1 < x > 5", 7, "runs one way", ""),
    ("1 = x = 5", 7, "runs one way", ""),
    ("x < 5 < y", 5, "has its attribute in the middle", ""),
    ("1 < x < y", 9, "is allowed in subscriptions only", ""),
    ("x BETWEEN 1 AND 'a'", 11, "mixes two kinds", ""),
    ("x < TRUE", 5, "has no order", ""),
    ("x = 'abc", 5, "has no end: a ' is missing", ""),
    ('"abc = 5', 1, 'has no end: a " is missing', ""),
    ("x & y", 3, "write AND", ""),
    ("x || y", 3, "write OR", ""),
    ("!x", 1, "write NOT", ""),
    ("x = \0", 5, r"the character '\x00'", ""),
    ("x = \ud800", 5, r"the character '\ud800'", ""),
    ("x = '\ud800'", 5, "lone surrogate", ""),
    ('"\ud800" = 5', 1, "lone surrogate", ""),
    (r"x = U&'\d800'", 5, "lone surrogate", ""),
    (r"x = U&'\zz'", 5, "names no character", ""),
    (r"x = U&'\+110000'", 5, "names no character", ""),
    ("x = 1e999", 5, "not a finite number", ""),
    ("x = 18446744073709551616", 5, "beyond 64 bits", ""),
    (f"x = {'9' * 5000}", 5, "a number of 5000 digits", ""),
    (f"x = '{'a' * 70_000}'", 5, "a text of 70000 characters", ""),
    (f"x LIKE '{'a_' * 2_000}'", 8, "a LIKE pattern of 4000 characters", ""),
    (r"x LIKE 'a\'", 8, "ends in its escape", ""),
    ("x LIKE 'a' ESCAPE 'ab'", 19, "cannot escape", ""),
    ("x LIKE 5", 8, "5 is a number", "a 'text'"),
    ("x LIKE my.p ESCAPE '!'", 20, "ESCAPE needs a pattern that is written out", ""),
    ('"" = 5', 1, "1 to 256 characters", ""),
    (f"{'a' * 257} = 5", 1, "1 to 256 characters", ""),
    ("x = TIMESTAMP '2026-11-15T06:00:00'", 15, "has no time zone", ""),
    ("x = TIMESTAMP '2026-11-15'", 15, "has no time zone", ""),
    ("x = TIMESTAMP 'noon'", 15, "'noon' is not a time", "'2026-11-15T06:00:00Z'"),
    ("x = TIMESTAMP '2026-13-01T06:00:00Z'", 15, "is not a time", ""),
    ("x = TIMESTAMP '0001-01-01T00:00:00+14:00'", 15, "years 1 to 9999", ""),
    ("x = DATE '2026-11-15'", 5, "DATE cannot stand before a text", "TIMESTAMP"),
    ("other.x = 5", 1, "there is no namespace other", "my or sender"),
    ("sender.a.b = 5", 1, 'a dot in it stands in quotes: sender."a.b"', ""),
    ("x > my.a.b", 5, 'a dot in it stands in quotes: my."a.b"', ""),
    ("Sender.x = 5", 1, "there is no namespace Sender", "my or sender"),
    ('sender."" = 5', 1, "1 to 256 characters, this has 0", ""),
    (f"sender.{'n' * 250} = 5", 1, "1 to 256 characters, this has 257", ""),
    ("x = sender.battery", 5, "are attributes: comparing two", "a value"),
    ("near(x, 5)", 1, "there is no function near", "within, circle, box, polygon, places, place, point or myloc"),
    ("x WITHIN 5", 10, "WITHIN takes a region", "circle(…), box(…)"),
    ("x WITHIN y", 10, "WITHIN takes a region", ""),
    ("x WITHIN point(1, 2)", 10, "WITHIN takes a region", ""),
    ("5 WITHIN box(5, 45, 10, 48)", 1, "WITHIN needs an attribute", ""),
    ("x = circle(1, 2, 3)", 5, "circle(…) is not a value", "WITHIN"),
    ("x IN (box(1, 2, 3, 4))", 7, "WITHIN takes a region", ""),
    ("x WITHIN circle(1, 2)", 10, "circle(lon, lat, metres)", ""),
    ("x WITHIN circle('a', 2, 3)", 17, "must be a number", ""),
    ("x WITHIN circle(1, 2, y)", 23, "must be a number", ""),
    ("x WITHIN circle(1, 91, 3)", 10, "lat of a point is 91", ""),
    ("x WITHIN circle(1, 2, -3)", 10, "radius", ""),
    ("x WITHIN box(1, 2, 3)", 10, "box takes 4 numbers: box(west, south, east, north)", ""),
    ("x WITHIN box(1, 3, 3, 2)", 10, "south must not lie above north", ""),
    ("x WITHIN polygon(1, 2, 3)", 18, "corners as pairs", "lon lat"),
    ("x WITHIN polygon(8 47, 9 47)", 10, "2 corners", ""),
    ("x WITHIN polygon(8 47, 200 47, 8 48)", 24, "lon of a point is 200", ""),
    ("x WITHIN polygon(0 0, 1 1, 1 0, 0 1)", 10, "not simple", ""),
    ("x WITHIN circle(1 2 3)", 21, "3 has no place", ""),
    ("x WITHIN places('a', 5)", 22, "names of places", "a 'text'"),
    ("x WITHIN place('a', 'b')", 10, "one place", ""),
    ("x WITHIN myloc()", 10, "a number of steps", ""),
    ("x WITHIN myloc(-1)", 16, "must be a whole number", ""),
    ("x WITHIN myloc(1.5)", 16, "must be a whole number", ""),
    ("x = point(181, 0)", 5, "lon of a point is 181", ""),
]


@pytest.mark.parametrize(("text", "column", "message", "expected"), ERRORS)
def test_an_error_says_where_what_and_what_was_expected(text: str, column: int, message: str, expected: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    told = str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column), told
    assert message in caught.value.message
    assert expected in told.rpartition("expected ")[2]
    assert len(told) < 500


def test_lines_are_counted() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 5\n  AND b = 'two\nlines' AND\n   c = = 5")
    assert str(caught.value) == "line 4, column 8: = has no place here\n     c = = 5\n         ^\nexpected a value"


DEEP = 10_000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("(" * DEEP + "x = 5" + ")" * DEEP, 1),
        ("NOT " * DEEP + "x = 5", 1),
        ("NOT (" * DEEP + "x = 5" + ")" * DEEP, 1),
        (" OR ".join(f"x = {i}" for i in range(DEEP)), DEEP),
        (f"x IN ({', '.join(map(str, range(DEEP)))})", 1),
        ("(" * DEEP + "x = 0" + "".join(f" AND x = {i})" for i in range(1, DEEP + 1)), DEEP + 1),
        (
            "".join(f"NOT (a = {i} AND " for i in range(97)) + " OR ".join(f"x = {i}" for i in range(DEEP)) + ")" * 97,
            DEEP + 97,
        ),
    ],
    ids=["parentheses", "not", "not and parentheses", "alternatives", "list", "and in and", "not over many"],
)
def test_what_is_deep_or_long_and_still_means_little_is_read(text: str, size: int) -> None:
    assert parse(text).size == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x" * (TEXT_BYTES_MAX + 1), f"more than {TEXT_BYTES_MAX} bytes"),
        ("(" * (WORDS_MAX + 1), "words"),
        (" OR ".join(f"x = {i}" for i in range(20_001)), "20001 literals"),
        ("".join(f"(a = {i} {('AND', 'OR')[i % 2]} " for i in range(DEEP)) + "x = 5" + ")" * DEEP, "nested 101 deep"),
        ("".join(f"NOT (a = {i} AND " for i in range(DEEP)) + "x = 5" + ")" * DEEP, "nested 101 deep"),
    ],
    ids=["text", "words", "literals", "and in or", "not and"],
)
def test_what_is_too_big_is_refused(text: str, message: str) -> None:
    with pytest.raises(FilterTooBig, match=message):
        parse(text)


def test_long_patterns_that_are_no_patterns_are_read() -> None:
    long = "a" * 60_000
    assert parse(f"x LIKE '{long}%'") == Some("x", starts_with(long))
    assert parse(to_text(Some("x", ends_with(long)))) == Some("x", ends_with(long))


@pytest.mark.parametrize("text", ["x = point(8.5 a)", "x = point(8.5 AND 3)"])
def test_behind_a_number_in_a_function_another_number_may_come(text: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert str(caught.value).endswith("expected a number, a comma or )")

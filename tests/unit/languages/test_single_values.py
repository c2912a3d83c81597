"""Filters that are split for an index: the same answers, and one selective test for the usual event."""

from itertools import product
from random import Random
from typing import Any

import pytest

from godwit.filters import And, Filter, all_of, any_of, event, parse, some, to_text
from godwit.filters.sets import holds_text, one_of
from godwit.languages.single_values import RARE_MAX, SPECIAL, SpecialCases, split_filter, with_special
from tests.unit.filters.random_filters import random_attributes, random_filter

TEXTS: list[Any] = [7, ("abc", 7), "abc", "xabcx", "q", "", " ", ("abc", ""), ("q", " "), ("q", "r"), None]
NUMBERS: list[Any] = [5, 15, (5, 25), (12, 25), None]
FILTERS = [
    "name LIKE '%abc%' OR name = ' '",
    "(name LIKE '%abc%' OR name IN ('', ' ')) AND n > 10 AND n < 20",
    "name IN ('', ' ', 'abc')",
    "name IN ('', ' ', 'abc') AND (other LIKE '%q%' OR other = ' ')",
    "name IN ('', ' ')",
    "name = '' OR name = ' '",
    "name LIKE '%abc%' OR name = ' ' OR name LIKE '%x%' OR other = ''",
    "(name LIKE '%abc%' OR name = ' ' OR n IS NUMBER AND n > 10) AND other = 'q'",
    "name LIKE '%abc%' OR name = ' ' OR name IS NUMBER AND (other IS NULL OR NOT other = 'q')",
    "(n LIKE '%1%' OR n IS NUMBER AND (other IS NULL OR NOT other = 'q')) AND name = 'abc'",
    "n > 10 AND n < 20",
    "n > 20 AND n < 10",
    "n > 10 AND n < 20 AND (n LIKE '%1%' OR n = ' ')",
    "NOT name IN ('', ' ', 'abc')",
    "TRUE",
    "FALSE",
]


def agree(filter: Filter, attributes: dict[str, Any]) -> None:
    split = split_filter(filter)
    made = event(attributes)
    told = with_special(made.attributes, split.cases)
    assert split.filter.holds(told) == filter.holds(made.attributes), (to_text(filter), attributes)


@pytest.mark.parametrize("text", FILTERS)
def test_a_split_filter_matches_what_the_filter_matches(text: str) -> None:
    for name, other, n in product(TEXTS, TEXTS, NUMBERS):
        said = {"name": name, "other": other, "n": n}
        agree(parse(text), {key: value for key, value in said.items() if value is not None})


def test_filters_of_all_kinds_are_split_without_a_difference() -> None:
    draw = Random(1)
    look = any_of(some("symbol", holds_text("a")), some("symbol", one_of([" "])))
    filters = [random_filter(draw) for _ in range(150)]
    for filter in [*filters, *(all_of(each, look) for each in filters)]:
        for _ in range(20):
            attributes = dict(random_attributes(draw))
            if draw.random() < 0.3:
                attributes["symbol"] = draw.choice(["", " ", ("ab", " "), "b"])
            agree(filter, attributes)


def test_the_usual_event_is_found_by_literals_alone() -> None:
    split = split_filter(parse("(name LIKE '%abc%' OR name = ' ') AND line IN ('', ' ', '5') AND n > 1 AND n < 3"))
    assert (list(split.cases.ranged), list(split.cases.looked)) == (["n"], ["name", "line"])
    usual, special = split.filter.parts  # type: ignore[union-attr]
    assert isinstance(usual, And)
    assert all(not hasattr(part, "parts") for part in usual.parts)
    assert SPECIAL in to_text(special)


def test_alternatives_for_numbers_are_bounded_in_an_index() -> None:
    known = SpecialCases()
    for n in range(10):
        split = split_filter(parse(f"name LIKE '%a%' OR name IS NUMBER AND other = 'x{n}'"), known)
        known.update(split.cases)
        filter = parse(f"name LIKE '%a%' OR name IS NUMBER AND other = 'x{n}'")
        for name, other in product(TEXTS[:4], ["x1", f"x{n}"]):
            attributes = event({"name": name, "other": other}).attributes
            assert split.filter.holds(with_special(attributes, known)) == filter.holds(attributes)
    assert len(known.rare["name"]) == RARE_MAX

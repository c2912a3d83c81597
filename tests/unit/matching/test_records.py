"""Records in buckets: narrow and wide, tests that they decide and tests that they leave open."""

from random import Random
from typing import Any

import pytest

from godwit.filters import event
from godwit.filters.language import parse
from godwit.matching import IndexMatcher, NaiveMatcher
from godwit.matching.kernels import NARROW, SKETCH_SLOTS, WIDE


def part(draw: Random, name: str) -> str:
    """One condition on an attribute, of any kind that records treat differently."""
    low = draw.randrange(40)
    return draw.choice(
        [
            f"{name} = {low}",
            f"{name} BETWEEN {low} AND {low + 20}",
            f"{name} <= {low}",
            f"{name} > {low}.5",
            f"{name} <> {low}",
            f"{name} IN ({low}, {low + 3}, {low + 9})",
            f"NOT {name} IN ({low}, {low + 1})",
            f"ALL {name} < {low + 20}",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"({name} < {low} OR {name} > {low + 5})",
            f"{name} LIKE '%{low}'",
            f"within({name}, circle({low / 10}, 1, 90000))",
        ]
    )


def value(draw: Random) -> Any:
    single = draw.choice([draw.randrange(45), draw.randrange(45), f"a{draw.randrange(45)}", draw.uniform(0, 45)])
    several = [draw.randrange(45) for _ in range(3)]
    return draw.choice([single] * 12 + [several, {"lon": draw.uniform(0, 4), "lat": 1.0}])


def agree(texts: list[str], rows: list[dict[str, Any]]) -> IndexMatcher:
    index, naive = IndexMatcher(), NaiveMatcher()
    for matcher in (index, naive):
        matcher.add_many((number, parse(text)) for number, text in enumerate(texts))
    for _ in range(2):  # the second time laid out by what events pass
        for each in rows:
            happened = event(each)
            found = index.match(happened)
            assert len(found) == len(set(found))
            assert set(found) == set(naive.match(happened))
    return index


@pytest.mark.parametrize(("tests", "width"), [(3, NARROW), (6, WIDE), (9, WIDE)])
def test_records_of_either_width_find_what_naive_finds(tests: int, width: int) -> None:
    draw, names = Random(tests), [f"n{number}" for number in range(12)]
    texts = [
        " AND ".join([f"n0 = {draw.randrange(20)}", *(part(draw, name) for name in draw.sample(names[1:], tests - 1))])
        for _ in range(600)
    ]
    rows = [{name: value(draw) for name in names if draw.random() < 0.9} for _ in range(100)]
    index = agree(texts, rows)
    assert index._layout.records.shape[1] == width


def test_attributes_beyond_what_a_record_can_name_are_verified() -> None:
    draw, names = Random(7), [f"n{number}" for number in range(SKETCH_SLOTS + 100)]
    texts = [f"{name} = 1 AND {names[-1 - place]} < 9" for place, name in enumerate(names)]
    rows: list[dict[str, Any]] = [{name: draw.randrange(3) for name in draw.sample(names, 300)} for _ in range(20)]
    rows.append({name: [1, 2] for name in names[-200:]})
    agree(texts, rows)


def test_a_conjunction_of_more_tests_than_are_sorted_is_verified() -> None:
    names = [f"n{number}" for number in range(80)]
    text = " AND ".join(f"{name} >= 1" for name in names)
    everything = dict.fromkeys(names, 1)
    agree([text, f"n3 = 1 AND {text}"], [everything, everything | {"n79": 0}, everything | {"n40": [0, 1]}])


def test_rows_that_come_one_by_one_make_room_for_a_few_more_records_only() -> None:
    index, rows = IndexMatcher(), 50
    for number in range(rows):
        index.add(number, parse(f"a = 1 AND b <> {number}"))
        assert (
            len(index.match(event({"a": 1, "b": -1}))) == number + 1
        )  # they are placed when there is something to match
    assert len(index._layout.records) < 10 * rows


def test_a_subscription_whose_alternatives_are_all_met_is_found_once() -> None:
    agree([f"a = {number} OR b = {number}" for number in range(200)], [{"a": 3, "b": 3}, {"a": [3, 4], "b": 3}])

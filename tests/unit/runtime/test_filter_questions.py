"""What is said of filters to those who write them: where they are wrong, what they say, and how two relate."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.filters.events import event
from godwit.languages import parse_query
from godwit.languages.query import NATIVE
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.filter_questions import relation_of, told_pair

NODE: Any = SimpleNamespace(watch=None, now=0.0)
LITERALS = ["x > 1", "x > 5", "x < 3", "x = 4", "x IS NULL", "y = 1", "y IS NOT NULL", "x + y > 4"]


def asked(**said: str) -> dict[str, Any]:
    return asyncio.run(told_pair(EdgeTests(NODE), said))


@pytest.mark.parametrize("language", ["filter", "xpath", "xql", "cesql", "cql2-text", "cql2-json"])
def test_what_is_wrong_is_told_with_its_place_in_every_language(language: str) -> None:
    problem = asked(filter="((\n((", language=language)["filter"]["problem"]
    assert problem["message"]
    assert problem["line"] in (1, 2)
    assert problem["column"] >= 1


def test_what_could_stand_there_is_told() -> None:
    problem = asked(filter="x > 3 AND\ny >")["filter"]["problem"]
    assert (problem["line"], problem["column"]) == (2, 4)
    assert problem["expected"]


def test_an_unknown_language_and_a_text_that_is_too_long_are_told_without_a_place() -> None:
    problem = asked(filter="x", language="klingon")["filter"]["problem"]
    assert (problem["line"], "there is no language 'klingon'" in problem["message"]) == (None, True)
    assert "more than 32768 bytes" in asked(filter="x = 1 OR " * 8_000 + "x = 1")["filter"]["problem"]["message"]


def test_without_a_text_the_languages_are_told() -> None:
    told = asked()
    assert (told["filter"], told["other"], told["relation"]) == (None, None, None)
    assert {"filter", "xpath", "xql", "cesql", "cql2-text", "cql2-json"} <= set(told["languages"])


def test_what_a_filter_says_is_printed_and_what_is_left_to_test_is_told() -> None:
    said = asked(filter="x>1   and x + y > my.limit")["filter"]
    assert (said["has_test"], said["asks_context"]) == (True, ["my.limit"])
    assert said["routable"].startswith("x > 1")
    said = asked(filter="x = my.floor AND y = 2")["filter"]
    assert (said["has_test"], said["asks_context"]) == (False, ["my.floor"])
    assert asked(filter="FALSE")["filter"]["is_impossible"]


@pytest.mark.parametrize(
    ("f", "g", "relation"),
    [
        ("x > 1", "x > 5", "covers"),
        ("x > 5", "x > 1", "is covered by"),
        ("x > 1 AND y = 1", "y = 1 AND x > 1", "equal"),
        ("x = 1", "y = 1", "intersects"),
        ("x = 1", "x IS NULL", "disjoint"),
        ("x > 1 AND x + y > 4", "x > 5", "may intersect"),
        (
            "x > 1 AND x + y > 4",
            "x > 1 AND y = 1",
            "may intersect",
        ),  # of which the filter that it is routed by covers it
        ("x > 1", "x > 5 AND x + y > 4", "covers"),
    ],
)
def test_how_two_filters_relate(f: str, g: str, relation: str) -> None:
    assert asked(filter=f, other=g)["relation"]["relation"] == relation


def test_examples_show_what_is_said_and_a_merge_stands_for_both() -> None:
    found = asked(filter="x > 1 AND y = 1", other="x < 9")["relation"]
    f, g = parse_query("x > 1 AND y = 1"), parse_query("x < 9")
    both, only_f, only_g = (event(found[name]) for name in ("both", "only_filter", "only_other"))
    assert f.matches(both)
    assert g.matches(both)
    assert f.matches(only_f)
    assert not g.matches(only_f)
    assert g.matches(only_g)
    assert not f.matches(only_g)
    merged = asked(filter="zone = 3", other="zone = 4")["relation"]["merged"]
    assert (merged["text"], merged["is_exact"]) == ("zone IN (3, 4)", True)


@given(
    st.lists(st.sampled_from(LITERALS), min_size=1, max_size=3),
    st.lists(st.sampled_from(LITERALS), min_size=1, max_size=3),
    st.lists(st.fixed_dictionaries({}, optional={"x": st.integers(0, 7), "y": st.integers(0, 7)}), max_size=20),
)
def test_a_relation_is_never_wrong(f: list[str], g: list[str], events: list[dict[str, int]]) -> None:
    first, second = parse_query(" AND ".join(f)), parse_query(" OR ".join(g), NATIVE)
    relation = relation_of(first, second)
    for each in map(event, events):
        is_first, is_second = first.matches(each), second.matches(each)
        assert not (relation in ("covers", "equal") and is_second and not is_first)
        assert not (relation in ("is covered by", "equal") and is_first and not is_second)
        assert not (relation == "disjoint" and is_first and is_second)

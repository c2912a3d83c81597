"""docs/reference/filter_language.md is true about the exact part: what matches, what is routed, what is tested."""

import json
import re

import pytest

from godwit.filters import FALSE, event, parse
from godwit.languages import parse_query
from godwit.languages.native.built_in_functions import COUNT, FUNCTIONS
from godwit.languages.native.exact_parser import NESTING_MAX, TERMS_MAX, TEXT_BYTES_MAX
from godwit.languages.native.regular_expressions import PATTERN_LENGTH_MAX, PROGRAM_SIZE_MAX
from godwit.languages.query import TEST_STEPS_MAX
from tests.unit.filters.test_language_reference import PAGE, spans, tables

EXAMPLES = tables(PAGE, "query", "matches", "does not match")
ROUTED = tables(PAGE, "query", "routed by", "tested at the edge")


@pytest.mark.parametrize(("query_cell", "matching", "failing"), EXAMPLES)
def test_each_query_matches_what_the_page_says(query_cell: str, matching: str, failing: str) -> None:
    [text] = spans(query_cell)
    query = parse_query(text)
    assert parse_query(query.text) == query
    for shown in spans(matching):
        assert query.matches(event(json.loads(shown))), shown
    for shown in spans(failing):
        assert not query.matches(event(json.loads(shown))), shown


@pytest.mark.parametrize(("query_cell", "routed", "tested"), ROUTED)
def test_each_query_is_routed_and_tested_as_the_page_says(query_cell: str, routed: str, tested: str) -> None:
    query = parse_query(spans(query_cell)[0])
    shown = parse(spans(routed)[0])
    if "a little less" in routed:
        assert query.routable.covers(shown)
        assert not query.routable.matches(event({"speed": 24.9}))
    else:
        assert query.routable == shown
    assert (query.test is None) is (tested == "no")
    assert (query.routable == FALSE) is ("nothing can match" in routed)


def test_the_functions_and_limits_on_the_page_are_those_that_hold() -> None:
    shown = " ".join(row[0] for row in tables(PAGE, "function", "gives"))
    assert set(re.findall(r"`(\w+)\(", shown)) == {*FUNCTIONS, COUNT}
    limits = " ".join(" ".join(row) for row in tables(PAGE, "what", "at most"))
    for limit in (TEXT_BYTES_MAX, TERMS_MAX, NESTING_MAX, PATTERN_LENGTH_MAX, PROGRAM_SIZE_MAX, TEST_STEPS_MAX):
        assert f"{limit:,}" in limits

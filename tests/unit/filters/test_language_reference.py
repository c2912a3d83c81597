"""docs/reference/filter_language.md is true: every filter in it parses, and matches what the page says it matches.

Its `console` and `python` blocks are run by tests/conventions/test_docs.py; here are its tables.
"""

import json
import re
from pathlib import Path

import pytest

from godwit.errors import FilterSyntaxError
from godwit.filters.events import event
from godwit.filters.filters import DEPTH_MAX, LITERALS_MAX, some
from godwit.filters.language import from_json, parse, to_text
from godwit.filters.language.grammar import KEYWORDS
from godwit.filters.language.parsing import TEXT_BYTES_MAX
from godwit.filters.language.scanning import WORDS_MAX

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "filter_language.md").read_text(encoding="utf-8")
SPAN = re.compile(r"`([^`]+)`")


def tables(page: str, *header: str) -> list[list[str]]:
    """The rows of every table with that header, cell by cell."""
    rows: list[list[str]] = []
    is_inside = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells == list(header):
            is_inside = True
        elif not cells:
            is_inside = False
        elif is_inside and not line.startswith("|-"):
            rows.append(cells)
    return rows


def spans(cell: str) -> list[str]:
    return SPAN.findall(cell)


EXAMPLES = tables(PAGE, "filter", "matches", "does not match")


def faults(rows: list[list[str]]) -> list[str]:
    found = []
    for filter_cell, matching, failing in rows:
        [text] = spans(filter_cell)
        filter = parse(text)
        assert parse(to_text(filter)) == filter
        found += [
            f"{text} does not match {shown}"
            for shown in spans(matching)
            if not filter.matches(event(json.loads(shown)))
        ]
        found += [f"{text} matches {shown}" for shown in spans(failing) if filter.matches(event(json.loads(shown)))]
    return found


def test_each_filter_matches_what_the_page_says() -> None:
    assert len(EXAMPLES) >= 60
    assert faults(EXAMPLES) == []


def test_a_false_example_is_caught() -> None:
    assert faults([["`x = 5`", '`{"x": 6}`', '`{"x": 5}`']]) == [
        'x = 5 does not match {"x": 6}',
        'x = 5 matches {"x": 5}',
    ]


@pytest.mark.parametrize(("written", "same"), tables(PAGE, "written", "means the same"))
def test_what_is_said_to_mean_the_same_does(written: str, same: str) -> None:
    [[a], [b]] = [spans(written), spans(same)]
    assert parse(a) == parse(b)


@pytest.mark.parametrize(("data", "text"), tables(PAGE, "set", "written in text"))
def test_each_set_in_json_is_that_in_text(data: str, text: str) -> None:
    [[written], [printed]] = [spans(data), spans(text)]
    assert from_json({"some": "x", "in": json.loads(written)}) == parse(printed)
    assert to_text(parse(printed)) == printed


def test_every_filter_of_the_other_tables_and_of_the_filter_blocks_parses() -> None:
    blocks = re.findall(r"```filter\n(.*?)```", PAGE, re.DOTALL)
    comparisons = [span for row in tables(PAGE, "written", "a value of the attribute") for span in spans(row[0])]
    values = [f"x = {span}" for row in tables(PAGE, "kind", "written", "in an event (JSON)") for span in spans(row[1])]
    assert blocks
    assert len(comparisons) > 15
    assert len(values) > 10
    for text in [*blocks, *comparisons, *values]:
        if text not in {"TEXT", "TIME", "BOOL", "POINT", "x WITHIN …"}:
            parse(text)
    for kind in ("TEXT", "TIME", "BOOL", "POINT"):
        parse(f"x IS {kind}")


def test_each_value_in_an_event_is_read() -> None:
    for row in tables(PAGE, "kind", "written", "in an event (JSON)"):
        for shown in spans(row[2]):
            assert event({"x": json.loads(shown)}).attributes.keys() == {"x"}


def test_the_reserved_words_on_the_page_are_those_that_are_reserved() -> None:
    [listed] = re.findall(r"a reserved word: (.*?)\.", PAGE, re.DOTALL)
    assert set(spans(listed)) == {*KEYWORDS, "myloc"}
    for word in spans(listed):
        assert to_text(some(word, parse("x = 5").values)).startswith(f'"{word}"')  # type: ignore[union-attr]


def test_the_limits_on_the_page_are_those_that_hold() -> None:
    shown = " ".join(" ".join(row) for row in tables(PAGE, "what", "at most"))
    for limit in (TEXT_BYTES_MAX, WORDS_MAX, LITERALS_MAX, DEPTH_MAX):
        assert f"{limit:,}" in shown


def offered(text: str) -> set[str]:
    """The reserved words that the error for this text expects."""
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    return set(re.findall(r"[A-Z]+", " ".join(caught.value.expected))) & KEYWORDS


def accepted(before: str) -> set[str]:
    """The reserved words that may stand after these words: if there is an error, it is behind them."""
    found = set()
    for word in KEYWORDS:
        try:
            parse(f"{before} {word}")
        except FilterSyntaxError as error:
            if error.column <= len(before) + 2:  # of the word
                continue
        found.add(word)
    return found


@pytest.mark.parametrize("before", ["a", "a NOT"])
def test_an_error_offers_every_operator_that_may_stand_there(before: str) -> None:
    forgotten = accepted(before) - {"NOT"} - offered(f"{before} 5")
    assert forgotten == set(), "add them in filter_parser.py: to _AFTER_ATTRIBUTE, or to the list in _comparison"
    assert {"BETWEEN", "IN", "LIKE", "WITHIN"} <= accepted(before)

"""The table of docs/reference/cql2.md says what matches."""

import json
import re

import pytest

from godwit.filters import event
from godwit.languages import parse_query
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "cql2.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("| query | matches | does not match |\n|---|---|---|\n")[2].partition("\n\n")[0]
ROWS = [[re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split(" | ")] for line in TABLE.splitlines()]
ROWS_MIN = 15


def test_the_table_is_found() -> None:
    assert len(ROWS) >= ROWS_MIN


@pytest.mark.parametrize(("said", "wanted", "others"), ROWS, ids=[row[0][0] for row in ROWS])
def test_a_query_matches_what_the_page_says(said: list[str], wanted: list[str], others: list[str]) -> None:
    query = parse_query(said[0], "cql2-text")
    assert [text for text in wanted if not query.matches(event(json.loads(text)))] == []
    assert [text for text in others if query.matches(event(json.loads(text)))] == []

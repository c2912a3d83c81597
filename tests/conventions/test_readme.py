"""The README shows one event and says which filters match it and which do not: each of them does as it says.

Its figures are those of BENCHMARKS.md, and it is short enough to be read in three minutes.
And the placement of brokers that the pipeline's guide prints is the one that ships.
"""

import json
import re

import pytest

from godwit.filters.events import Event, event
from godwit.filters.language import parse
from tests.conventions.repository import ROOT
from tests.conventions.test_docs import blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
MATCHING_AT_LEAST, FAILING_AT_LEAST = 5, 3
LINES_MAX = 130


def shown_event(page: str) -> Event:
    [block] = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return event(json.loads(block))


def filters_under(page: str, heading: str) -> list[str]:
    """The filters in the first column of the table with that heading."""
    [table] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def faults(page: str) -> list[str]:
    shown = shown_event(page)
    return [
        f"{text}: said to {'match' if expected else 'fail'}"
        for heading, expected in (("matches", True), ("does not match", False))
        for text in filters_under(page, heading)
        if parse(text).matches(shown) is not expected
    ]


def test_each_filter_of_the_readme_does_as_it_says() -> None:
    assert len(filters_under(README, "matches")) >= MATCHING_AT_LEAST
    assert len(filters_under(README, "does not match")) >= FAILING_AT_LEAST
    assert faults(README) == []


def figures(page: str) -> list[str]:
    """The measured numbers of the table of measurements: all but those that name the measurement."""
    [table] = re.findall(r"^\| measurement \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    results = (row.split("|")[2:4] for row in table.splitlines())
    return [number for cells in results for number in re.findall(r"\d[\d,.]*\d", " ".join(cells))]


def unmeasured(page: str, benchmarks: str) -> list[str]:
    return [
        number for number in figures(page) if not re.search(rf"(?<![\d,.]){re.escape(number)}(?![,.]?\d)", benchmarks)
    ]


def test_each_figure_of_the_readme_is_in_the_benchmarks() -> None:
    assert figures(README)
    assert unmeasured(README, (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")) == []


def test_a_figure_that_was_not_measured_is_caught() -> None:
    page = "| measurement | Godwit | others |\n|---|---|---|\n| speed of 10 | 1,234 events/s | X 0.35 ms |\n"
    assert unmeasured(page, "1,234 and 0.35 ms") == []
    assert unmeasured(page, "11,234 and 0.355 ms") == ["1,234", "0.35"]


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_the_placement_that_ships_is_the_one_that_the_guide_prints(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "guides" / "pipeline.md").read_text(encoding="utf-8")
    [block] = (each for each in blocks(guide, "py") if "airport" in each)
    exec(block, {})
    assert capsys.readouterr().out == (ROOT / "examples" / "placement.csv").read_text(encoding="utf-8")


def planted(matching: str, failing: str) -> str:
    tables = (
        f"| {heading} | |\n|---|---|\n| `{text}` | why |\n"
        for heading, text in (("matches", matching), ("does not match", failing))
    )
    return "\n".join(['```json\n{"x": 5}\n```', *tables])


def test_a_false_row_is_caught() -> None:
    assert faults(planted("x = 5", "x = 6")) == []
    assert faults(planted("x = 6", "x = 5")) == ["x = 6: said to match", "x = 5: said to fail"]

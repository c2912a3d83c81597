"""The plot of a dry run: a bar for each day, of months or years where days are too many."""

from datetime import date, timedelta

from godwit.cli.pipeline.dryrun_command import BAR_WIDTH, BARS_MAX, bar, bars, grouped
from godwit.pipeline.dryrun import Day

FIRST = date(2026, 11, 14)


def test_a_bar_is_as_long_as_what_matched() -> None:
    assert bar(10, 10) == "█" * BAR_WIDTH
    assert bar(5, 10) == "█" * (BAR_WIDTH // 2)
    assert bar(0, 10) == bar(0, 0) == ""


def test_what_is_not_nothing_is_seen() -> None:
    assert bar(1, 10**9) == "▏"


def test_days_have_a_line_each() -> None:
    lines = bars([Day(None, 0, 1), Day(FIRST, 2, 3_000), Day(FIRST + timedelta(1), 1, 1)])
    assert lines == [
        f"no time     {'':<{BAR_WIDTH}}  0 of 1",
        f"2026-11-14  {'█' * BAR_WIDTH}  2 of 3,000",
        f"2026-11-15  {'█' * (BAR_WIDTH // 2):<{BAR_WIDTH}}  1 of 1",
    ]


def test_many_days_are_months_and_many_months_years() -> None:
    days = [Day(FIRST + timedelta(step), 1, 2) for step in range(BARS_MAX + 1)]
    assert grouped(days) == [("2026-11", 17, 34), ("2026-12", 24, 48)]
    months = [Day(FIRST + timedelta(31 * step), 1, 2) for step in range(BARS_MAX + 1)]
    assert [name for name, _, _ in grouped(months)] == ["2026", "2027", "2028", "2029", "2030"]
    assert sum(matched for _, matched, _ in grouped(months)) == BARS_MAX + 1


def test_nothing_has_no_bars() -> None:
    assert bars([]) == []

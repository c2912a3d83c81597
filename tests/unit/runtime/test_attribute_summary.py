"""What attributes events have, within bounds."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.filters.values import Point
from godwit.runtime import attribute_summary
from godwit.runtime.attribute_summary import summary_of


def test_names_kinds_ranges_values_and_senders_are_counted() -> None:
    events = [replace(event({"n": n, "tag": ["a", "b"] if n else "a"}), publisher=f"p{n % 2}") for n in range(3)]
    told = summary_of(events)
    assert (told["events"], told["is_cut"]) == (3, False)
    n, tag = told["attributes"]
    assert (n["name"], n["events"], n["kinds"], n["range"], n["senders"]) == ("n", 3, {"number": 3}, [0, 2], 2)
    assert (tag["distinct"], tag["top"]) == (2, [["a", 3], ["b", 2]])
    assert tag["range"] is None
    assert tag["top_senders"] == ["p0", "p1"]


def test_an_attribute_of_several_kinds_has_the_range_of_the_first_that_has_an_order() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    [row] = summary_of(event({"x": value}) for value in ("text", 5, at, 3, True))["attributes"]
    assert len(row["kinds"]) == 4
    assert row["range"] == [3, 5]


def test_all_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute_summary, "NAMES_MAX", 2)
    monkeypatch.setattr(attribute_summary, "VALUES_MAX", 3)
    told = summary_of(event({f"a{n}": n, "b": n, "c": "x" * 1_000}) for n in range(10))
    assert told["is_cut"]
    assert len(told["attributes"]) == 2
    assert all(row["distinct"] <= 3 for row in told["attributes"])
    [long] = summary_of([event({"c": "x" * 1_000})])["attributes"]
    assert len(long["top"][0][0]) == attribute_summary.TEXT_MAX


def test_names_and_values_come_with_filters_that_match_them() -> None:
    values = ["it's", 2.5, True, Point(8.5, 47), datetime(2026, 1, 1, tzinfo=UTC), "x" * 1_000]
    for name in ("and", "user/zip", 'a "b"', "plain", "sender.role"):
        for value in values:
            published = event({name: value})
            [row] = summary_of([published])["attributes"]
            for text in (row["filter"], *row["top_filters"]):
                assert parse(text).matches(published), text
                assert not parse(text).matches(event({"other": 1}))


def test_marks_of_senders_count_each_of_them_once_at_several_brokers() -> None:
    def marks(*senders: str) -> list[int]:
        [row] = summary_of(replace(event({"n": 1}), publisher=sender) for sender in senders)["attributes"]
        return list(row["sender_marks"])

    assert len({*marks("ann", "bob", "ann"), *marks("bob", "cid")}) == 3
    assert len(marks(*(f"car-{n}" for n in range(500)))) == attribute_summary.MARKS

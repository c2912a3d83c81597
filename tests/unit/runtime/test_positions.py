"""Where clients are: their context counts before their events."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.filters.events import Event, event
from godwit.filters.values import Point
from godwit.runtime import positions
from godwit.runtime.positions import COMPLETE_S, EventPlaces, positions_of


def session(client: str, is_attached: bool = True, **context: Any) -> Any:
    connection = "c" if is_attached else None
    return SimpleNamespace(client=client, connection=connection, whole_context=lambda: context)


class Events:
    """The last events, the latest first."""

    def __init__(self, events: list[tuple[float, Event]]) -> None:
        self.events = events
        self.looked_at = 0

    def latest_events(self, since: float) -> Iterator[tuple[float, Event]]:
        for at, each in self.events:
            if at >= since:
                self.looked_at += 1
                yield at, each


def test_a_context_counts_before_an_event_and_location_before_other_names() -> None:
    here, there = Point(8.5, 47.4), Point(10.0, 60.0)
    sessions = [session("ann", home=there, location=here), session("bob", is_attached=False, at=there), session("van")]
    events = [
        (3.0, replace(event({"p": {"lon": 1.0, "lat": 2.0}}), publisher="ann")),
        (2.0, replace(event({"p": {"lon": 3.0, "lat": 4.0}}), publisher="van")),
        (1.0, replace(event({"p": {"lon": 5.0, "lat": 6.0}}), publisher="van")),
        (0.0, replace(event({"p": 1}), publisher="nowhere")),
    ]
    published = EventPlaces().of(Events(events), {}, 0.0)
    assert [position._asdict() for position in positions_of(sessions, published)] == [
        {"client": "ann", "lon": 8.5, "lat": 47.4, "attached": True, "at": None},
        {"client": "bob", "lon": 10.0, "lat": 60.0, "attached": False, "at": None},
        {"client": "van", "lon": 3.0, "lat": 4.0, "attached": True, "at": 2.0},
    ]


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "POSITIONS_MAX", 2)
    events = [(0.0, replace(event({"p": {"lon": 1.0, "lat": 2.0}}), publisher=f"v{n}")) for n in range(5)]
    assert len(positions_of([], EventPlaces().of(Events(events), {}, 0.0))) == 2


def test_a_location_that_is_a_name_is_where_that_place_lies() -> None:
    places = {"market": Point(8.5, 47.4)}
    sessions = [session("ann", location="market"), session("bob", location="nowhere"), session("eve", role="market")]
    assert [(each.client, each.lon) for each in positions_of(sessions, {}, places)] == [("ann", 8.5)]


def test_only_new_events_are_looked_at_and_what_is_gone_is_forgotten_after_a_while() -> None:
    def said(publisher: str, lon: float) -> Event:
        return replace(event({"p": {"lon": lon, "lat": 2.0}}), publisher=publisher)

    source, found = Events([(8.0, said("van", 1.0)), (7.0, said("bus", 1.0))]), EventPlaces()
    assert found.of(source, {}, 10.0) == {"van": (8.0, Point(1.0, 2.0)), "bus": (7.0, Point(1.0, 2.0))}
    source.events.insert(0, (11.0, said("van", 5.0)))
    source.looked_at = 0
    assert found.of(source, {}, 11.0) == {"van": (11.0, Point(5.0, 2.0)), "bus": (7.0, Point(1.0, 2.0))}
    assert source.looked_at == 1
    source.events.pop()
    assert set(found.of(source, {}, 12.0)) == {"van", "bus"}
    assert set(found.of(source, {}, 10.0 + COMPLETE_S)) == {"van"}

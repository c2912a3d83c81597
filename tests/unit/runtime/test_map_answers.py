"""What a map shows besides clients: lately means lately, and all is bounded."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.filters.values import Point
from godwit.runtime import map_answers
from godwit.runtime.map_answers import events_told, hand_overs_lately, places_told, regions_of
from godwit.trace import Record


def session(client: str, **filters: str) -> Any:
    subscriptions = {name: SimpleNamespace(filter=parse(text)) for name, text in filters.items()}
    return SimpleNamespace(client=client, subscriptions=subscriptions, exact={})


def test_hand_overs_are_those_that_began_here_lately() -> None:
    records = [
        (9.0, Record("replayed", "car-1", number=3, detail="to north")),
        (8.5, Record("relocated", "car-2", number=0, detail="here")),
        (8.0, Record("replayed", "car-2", number=0, detail="to east")),
        (1.0, Record("replayed", "car-1", number=0, detail="to south")),
    ]
    assert hand_overs_lately(records, 8.0) == [
        {"at": 9.0, "client": "car-1", "to": "north", "events": 3},
        {"at": 8.0, "client": "car-2", "to": "east", "events": 0},
    ]


def test_events_with_a_place_are_told_and_it_is_said_when_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    here = replace(event({"p": {"lon": 8.5, "lat": 47.0}}), publisher="van", sequence=7)
    events = [(9.0, here), (8.0, event({"n": 1})), (7.0, here)]
    assert events_told(events[:2]) == {
        "rows": [{"at": 9.0, "event": "van:7", "lon": 8.5, "lat": 47.0}],
        "is_cut": False,
    }
    monkeypatch.setattr(map_answers, "EVENTS_MAX", 1)
    told = events_told(events)
    assert (len(told["rows"]), told["is_cut"]) == (1, True)


def test_regions_are_told_once_with_how_many_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    near = "kind = 'a' AND p WITHIN circle(8.5, 47, 500)"
    sessions = [
        session("ann", near=near, all="kind = 'a'"),
        session("bob", near=near, box="p WITHIN box(8, 47, 9, 48) OR q WITHIN polygon(8 47, 9 47, 8 48)"),
    ]
    sessions[1].exact["near"] = parse("p WITHIN circle(8.6, 47, 500)")  # what it means in the client's context
    told = regions_of(sessions)
    assert {next(iter(row["region"])): row["count"] for row in told["regions"]} == {"circle": 1, "box": 1, "polygon": 1}
    assert [row["region"] for row in told["regions"]][:2] == [{"circle": [8.5, 47, 500]}, {"circle": [8.6, 47, 500]}]
    assert regions_of([sessions[0], session("eve", near=near)])["regions"][0]["count"] == 2
    monkeypatch.setattr(map_answers, "REGIONS_MAX", 1)
    told = regions_of(sessions)
    assert (len(told["regions"]), told["more"]) == (1, 3)


def test_named_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"market": Point(8.5, 47.0), "station": Point(8.6, 47.0)}
    assert places_told(places)["places"][0] == {"name": "market", "lon": 8.5, "lat": 47.0}
    monkeypatch.setattr(map_answers, "PLACES_MAX", 1)
    assert places_told(places) == {"places": [{"name": "market", "lon": 8.5, "lat": 47.0}], "more": 1}

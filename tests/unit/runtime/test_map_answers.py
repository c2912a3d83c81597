"""What stands still on a map: named places and regions, all of it bounded."""

from types import SimpleNamespace
from typing import Any

import pytest

from godwit.filters.language import parse
from godwit.filters.values import Point
from godwit.runtime import map_answers
from godwit.runtime.map_answers import places_told, regions_of


def session(client: str, **filters: str) -> Any:
    subscriptions = {name: SimpleNamespace(filter=parse(text)) for name, text in filters.items()}
    return SimpleNamespace(client=client, subscriptions=subscriptions, exact={})


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

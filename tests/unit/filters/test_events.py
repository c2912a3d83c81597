"""Events: checked and flattened once, at the door."""

import json
from datetime import UTC, datetime

import pytest

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, NESTING_MAX, Event, event, flattened
from godwit.filters.values import Point


def nested(levels):
    data: object = 1
    for _ in range(levels):
        data = {"a": data}
    return data


def test_nested_data_becomes_paths_and_repeated_elements_several_values():
    data = {"user": {"name": "Ada", "address": [{"zip": 1050}, {"zip": 5473}]}, "tags": ["a", ["b", "c"]]}
    assert flattened(data) == {"user/name": "Ada", "user/address/zip": (1050, 5473), "tags": ("a", "b", "c")}


def test_an_attribute_with_no_value_is_absent_and_one_value_is_no_tuple():
    assert flattened({"a": None, "b": [], "c": {}, "d": [7], "e": [None, 8]}) == {"d": 7, "e": 8}


def test_a_point_and_a_time_may_be_written_as_objects():
    data = {
        "here": {"lon": 8.5, "lat": 47.4},
        "there": {"type": "Point", "coordinates": [7.4, 46.9]},
        "above": {"type": "Point", "coordinates": [7.4, 46.9, 540.0]},
        "at": {"$time": "2026-11-15T06:00:00Z"},
    }
    assert flattened(data) == {
        "here": Point(8.5, 47.4),
        "there": Point(7.4, 46.9),
        "above": Point(7.4, 46.9),
        "at": datetime(2026, 11, 15, 6, tzinfo=UTC),
    }


def test_objects_that_only_look_like_a_point_stay_nested():
    assert flattened({"a": {"lon": 1, "lat": 2, "height": 3}}) == {"a/lon": 1, "a/lat": 2, "a/height": 3}
    assert flattened({"a": {"type": ["Point"], "coordinates": 1}}) == {"a/type": "Point", "a/coordinates": 1}
    assert flattened({"a": {"type": "Line", "coordinates": [1, 2]}}) == {"a/type": "Line", "a/coordinates": (1, 2)}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"price": float("nan")}, "attribute 'price': nan is not a finite number"),
        ({"at": datetime(2026, 1, 1)}, "attribute 'at'.*no time zone"),
        ({"a": {"b": b"raw"}}, "attribute 'a/b': a bytes is not a value"),
        ({"a": "\ud800"}, "attribute 'a'.*lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        ({"": 1}, "a name is a text of 1 to 256"),
        ({"n" * 257: 1}, "a name is a text of 1 to 256"),
        ({7: 1}, "attribute name '7'"),
        ({"a": {7: 1}}, "attribute name '7'"),
        ({"here": {"lon": 200, "lat": 0}}, "attribute 'here': lon of a point is 200"),
        ({"here": {"type": "Point", "coordinates": 5}}, "attribute 'here'"),
        ({"road": {"type": "LineString", "coordinates": [[1, 2]]}}, "attribute 'road': a line of 1 positions"),
        ({"at": {"$time": "tomorrow"}}, "attribute 'at'"),
        ({"at": {"$time": "2026-11-15T06:00:00"}}, "attribute 'at'.*no time zone"),
        ({"at": {"$time": "0001-01-01T00:00:00+14:00"}}, "attribute 'at'.*years 1 to 9999"),
        ([1, 2], "a list is not an event"),
        ("text", "a str is not an event"),
    ],
)
def test_a_malformed_event_is_refused_and_the_error_names_the_attribute(data, fault):
    with pytest.raises(BadEvent, match=fault):
        event(data)


@pytest.mark.parametrize(
    "data",
    [
        {f"a{n}": n for n in range(100_000)},
        {f"a{n}": n for n in range(ATTRIBUTES_MAX + 1)},
        {"a": list(range(100_000))},
        {"a": [[n] * 100 for n in range(1_000)]},
        {"a": {f"b{n}": n for n in range(ATTRIBUTES_MAX + 1)}},
        {f"a{n}": None for n in range(100_000)},
    ],
)
def test_an_event_too_large_is_refused_with_a_short_error(data):
    with pytest.raises(BadEvent) as caught:
        event(data)
    assert len(str(caught.value)) < 200


def test_an_event_at_the_limit_is_let_in():
    assert len(flattened({f"a{n}": n for n in range(ATTRIBUTES_MAX)})) == ATTRIBUTES_MAX


def test_an_event_nested_too_deep_is_refused_however_deep():
    assert flattened(nested(NESTING_MAX)) == {"/".join("a" * NESTING_MAX): 1}
    for levels in (NESTING_MAX + 2, 10_000):
        with pytest.raises(BadEvent, match=r"deeper than 32|1 to 256"):
            event(nested(levels))


def test_lists_of_lists_that_share_their_parts_are_refused_in_bounded_time():
    part: list[object] = []
    for _ in range(30):
        part = [part] * 10
    with pytest.raises(BadEvent):
        event({"a": part})


def test_an_event_keeps_what_it_carries():
    carried = event({"a": 1}, publisher="p", sequence=3, payload=b"x", published_at=5.0)
    assert carried == Event({"a": 1}, "p", 3, b"x", None, 5.0)
    assert carried.id == ("p", 3)


def test_json_numbers_keep_their_kind():
    attributes = flattened(json.loads('{"a": 1, "b": 1.0, "c": true, "d": 9007199254740993}'))
    assert [type(value) for value in attributes.values()] == [int, float, bool, int]
    assert attributes["d"] == 2**53 + 1

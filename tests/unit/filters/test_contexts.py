"""Contexts at the door, and what choosing by growth is worth."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from godwit.errors import BadValue, FilterError
from godwit.filters.contexts import (
    CONTEXT_BYTES_MAX,
    CONTEXT_MAX,
    CONTEXT_NAME_MAX,
    Described,
    bounds_of,
    checked_context,
    checked_context_filter,
    context_of,
    growth,
    may_match,
    stamped,
)
from godwit.filters.events import NAME_LENGTH_MAX, Event, event
from godwit.filters.filters import TRUE
from godwit.filters.language import from_json, parse, to_json
from godwit.filters.values import Point


def test_nested_data_and_several_values_make_a_flat_context() -> None:
    said = {"user": {"zip": [8001, 8002]}, "roles": ["medic"], "at": {"lon": 8.5, "lat": 47.4}, "nothing": None}
    assert checked_context(said) == {"user/zip": (8001, 8002), "roles": "medic", "at": Point(8.5, 47.4)}
    assert checked_context({}) == {}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([1], "a context is a table of names and values, and this is a list"),
        ({str(n): n for n in range(CONTEXT_MAX + 1)}, "a context of 65 attributes: at most 64 are allowed"),
        ({"a": {str(n): n for n in range(CONTEXT_MAX + 1)}}, "a context of 65 attributes: at most 64 are allowed"),
        ({"a": "é" * (CONTEXT_BYTES_MAX // 2)}, "a context of 4105 bytes: at most 4096 are allowed"),
        ({"a": [""] * 600}, "a context of 4801 bytes: at most 4096 are allowed"),
        ({"": 1}, "a context: attribute name '': a name is a text of 1 to 256 characters"),
        ({5: 1}, "a context: attribute name '5': a name is a text"),
        ({"n" * (CONTEXT_NAME_MAX + 1): 1}, "has a name of 250 characters: at most 249 are allowed"),
        ({"sender.role": "medic"}, "attribute 'sender.role': in a context it is called 'role', for sender.role is how"),
        ({"my.role": "medic"}, "attribute 'my.role': in a context it is called 'role', for my.role is how"),
        ({"x": float("nan")}, "attribute 'x': nan is not a finite number"),
        ({"x": object()}, "attribute 'x': a object is not a value"),
        ({"x": "\ud800"}, "attribute 'x': a text that is not valid Unicode"),
    ],
)
def test_what_is_no_context_is_refused_with_what_is_allowed(values: Any, complaint: str) -> None:
    with pytest.raises(BadValue) as caught:
        checked_context(values)
    assert complaint in str(caught.value)


def test_the_largest_context_makes_an_event_that_filters_can_ask_about() -> None:
    name = "n" * CONTEXT_NAME_MAX
    sent = stamped(Event({}), checked_context({name: 1}))
    assert event(dict(sent.attributes)) == sent
    assert all(len(name) <= NAME_LENGTH_MAX for name in sent.attributes)
    assert parse(f"sender.{name} = 1").matches(sent)
    assert from_json(to_json(parse(f"sender.{name} = 1"))).matches(sent)
    many = checked_context({f"a{n}": n for n in range(CONTEXT_MAX)})
    assert context_of(stamped(Event({"x": 1}), many)) == many


@pytest.mark.parametrize("text", ["sender.role = 'medic'", "a = 1 OR NOT sender.role IS NULL", "\"my.role\" = 'medic'"])
def test_a_filter_on_a_context_has_plain_names(text: str) -> None:
    with pytest.raises(FilterError, match="in a context it is called 'role'"):
        checked_context_filter(parse(text))


def test_a_filter_on_a_context_may_refer_to_ones_own() -> None:
    for text in ("role = 'medic'", "floor = my.floor", "TRUE", "role IS NULL"):
        assert checked_context_filter(parse(text)) == parse(text)


def test_an_attribute_nobody_has_matches_nobody_unless_asked_for_its_absence() -> None:
    somebody: list[Described] = [{"role": "medic"}, bounds_of([{"role": "medic"}, {"floor": 2}])]
    for described in somebody:
        assert not may_match(parse("badge = 7"), described)
        assert not may_match(parse("NOT badge = 7"), described)
        assert may_match(parse("badge IS NULL"), described)
        assert may_match(TRUE, described)


def test_an_open_filter_may_match_whatever_it_will_be_bound_to() -> None:
    for described in ({"floor": 2}, bounds_of([{"floor": 2}, {"floor": 3}])):
        assert may_match(parse("floor = my.floor"), described)
        assert may_match(parse("floor <> my.floor"), described)
        assert not may_match(parse("floor = my.floor AND role = 'medic'"), described)


# ---------------------------------------------------------------- what growth is good for

ROLES = ("medic", "pilot", "fire", "police", "bus")


def test_descriptions_merged_by_growth_cost_far_fewer_false_positives_than_any() -> None:
    chosen = sum(_wrongly_told(seed, growth) for seed in range(3))
    at_random = sum(_wrongly_told(seed, _at_random(seed)) for seed in range(3))
    assert chosen < at_random / 2


def _at_random(seed: int) -> Callable[[Described, Described], float]:
    chance = random.Random(seed)
    return lambda _, __: chance.random()


def _wrongly_told(seed: int, measure: Callable[[Described, Described], float]) -> int:
    """Of 60 contexts in 12 descriptions, how often one may match a filter that none of its contexts matches."""
    chance = random.Random(seed)
    towns = [(8 + chance.random(), 47 + chance.random()) for _ in range(4)]

    def near() -> Point:
        lon, lat = chance.choice(towns)
        return Point(lon + chance.gauss(0, 0.02), lat + chance.gauss(0, 0.02))

    groups: list[list[dict[str, Any]]] = []
    described: list[Described] = []
    for _ in range(60):
        context = {"role": chance.choice(ROLES), "battery": chance.randint(0, 100), "location": near()}
        if len(groups) < 12:
            groups.append([context])
            described.append(context)
            continue
        at = min(range(len(groups)), key=lambda at: measure(described[at], context))
        groups[at].append(context)
        described[at] = bounds_of((described[at], context))
    wrong = 0
    for _ in range(100):
        place = near()
        role, least = chance.choice(ROLES), chance.randint(0, 100)
        for text in (
            f"role = '{role}' AND battery > {least}",
            f"role = '{role}' AND location WITHIN circle({place.lon}, {place.lat}, 2000)",
            f"battery < {least} AND location WITHIN circle({place.lon}, {place.lat}, 2000)",
        ):
            filter = parse(text)
            for group, each in zip(groups, described, strict=True):
                is_wanted = any(filter.holds(context) for context in group)
                assert may_match(filter, each) or not is_wanted
                wrong += may_match(filter, each) and not is_wanted
    return wrong

"""`my.x` and `myloc`: filters that wait for the subscriber's own state."""

from datetime import UTC, datetime
from typing import Any

import pytest

from godwit.errors import BadValue, FilterError, Unbound
from godwit.filters import references, relations, sets
from godwit.filters.events import event
from godwit.filters.filters import FALSE, TRUE, Only, Some
from godwit.filters.language import parse
from godwit.filters.references import OpenSet, Reference, bind, is_open
from godwit.filters.regions import box, circle
from godwit.filters.sets import EVERYTHING, NOTHING, ValueSet, complement, one_of, places
from godwit.filters.values import ALL_KINDS, Kind, Point, Value

HOME = Point(8.5, 47.4)
CONTEXT: dict[str, Value] = {"a": 5, "b": 10, "name": "Anna", "home": HOME, "r": 500, "location": "market", "on": True}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("x = my.a", "x = 5"),
        ("x <> my.a", "x <> 5"),
        ("my.a < x", "x > 5"),
        ("x <= my.a", "x <= 5"),
        ("my.a < x <= my.b", "5 < x <= 10"),
        ("x BETWEEN my.a AND 7", "x BETWEEN 5 AND 7"),
        ("x BETWEEN my.b AND my.a", "x IN ()"),
        ("x NOT BETWEEN my.a AND my.b", "x NOT BETWEEN 5 AND 10"),
        ("ALL x IN (1, my.a, my.name)", "ALL x IN (1, 5, 'Anna')"),
        ("ANY x NOT IN (my.on)", "x <> TRUE"),
        ("x LIKE my.name", "x = 'Anna'"),
        ("x WITHIN circle(my.home, 500)", "x WITHIN circle(8.5, 47.4, 500)"),
        ("x WITHIN circle(my.home, my.r)", "x WITHIN circle(8.5, 47.4, 500)"),
        ("x NOT WITHIN circle(8, 47, my.r)", "x NOT WITHIN circle(8, 47, 500)"),
        ("x WITHIN myloc", "x WITHIN places('market')"),
        ("x WITHIN myloc(0)", "x WITHIN places('market')"),
        ("x WITHIN my.home", "x = point(8.5, 47.4)"),
        ("x = myloc", "x = 'market'"),
        ("x >= my.a AND (y = 1 OR z < my.b)", "x >= 5 AND (y = 1 OR z < 10)"),
        ("x = 1 OR y = 2", "x = 1 OR y = 2"),
        ("TRUE", "TRUE"),
    ],
)
def test_binding_puts_the_context_in(text: str, bound: str) -> None:
    assert bind(parse(text), CONTEXT) == parse(bound)


@pytest.mark.parametrize(
    "comparison",
    [
        "x = my.gone",
        "x IN (1, my.gone)",
        "my.a < x < my.gone",
        "x LIKE my.gone",
        "x WITHIN circle(my.gone, 500)",
        "x WITHIN my.gone(2)",
        "x < my.on",  # a bool has no order
        "my.a < x < my.name",  # from a number to a text
        "x LIKE my.a",
        "x WITHIN circle(my.name, 500)",
        "x WITHIN circle(my.home, my.name)",
    ],
)
@pytest.mark.parametrize("form", ["{}", "NOT {}", "ANY {}", "ANY NOT {}", "ALL {}", "NOT ALL {}"])
def test_what_the_context_lacks_or_what_does_not_fit_matches_neither_way(comparison: str, form: str) -> None:
    assert bind(parse(form.format(comparison)), CONTEXT) == Some("x", NOTHING)


def test_steps_around_a_place_ask_the_movement_graph() -> None:
    asked: list[tuple[Value, int]] = []

    def vicinity(place: Value, steps: int) -> ValueSet:
        asked.append((place, steps))
        return places(["market", "station"])

    assert bind(parse("x WITHIN myloc(2)"), CONTEXT, vicinity) == parse("x WITHIN places('market', 'station')")
    assert bind(parse("x NOT WITHIN myloc"), CONTEXT, vicinity) == parse("x NOT WITHIN places('market', 'station')")
    assert asked == [("market", 2), ("market", 0)]


def test_steps_around_a_place_need_a_movement_graph() -> None:
    with pytest.raises(FilterError, match="2 steps around 'market', and there is no movement graph here"):
        bind(parse("x WITHIN myloc(2)"), CONTEXT)


def test_a_context_with_a_value_no_attribute_can_hold_is_refused() -> None:
    context: Any = {"a": float("nan")}
    with pytest.raises(BadValue):
        bind(parse("x = my.a"), context)


def test_references_are_named_in_the_order_they_are_written() -> None:
    filter = parse("x >= my.a AND (y WITHIN myloc(2) OR z NOT IN (my.a, my.b)) AND w = 1")
    assert is_open(filter)
    assert list(map(str, references.references_of(filter))) == ["my.a", "myloc", "my.b"]
    assert not is_open(parse('w = 1 AND sender.x = 2 AND "my.a" = 3'))
    assert not is_open(TRUE)
    assert not is_open(FALSE)


def test_an_open_filter_cannot_match_and_says_what_it_waits_for() -> None:
    with pytest.raises(Unbound) as caught:
        parse("x BETWEEN my.low AND my.high").matches(event({"x": 5}))
    assert caught.value.names == ("my.low", "my.high")
    with pytest.raises(Unbound, match="myloc"):
        parse("x NOT WITHIN myloc(2)").matches(event({"x": "market"}))


def test_equal_open_sets_are_equal_and_bools_are_no_numbers() -> None:
    a = Reference("a")
    assert references.one_of([1, a]) == references.one_of([a, 1.0])
    assert hash(references.one_of([1, a])) == hash(references.one_of([a, 1.0]))
    assert references.one_of([True, a]) != references.one_of([1, a])
    assert references.one_of([a]) != references.one_of([Reference("b")])
    assert references.interval(a, None) != references.interval(a, None, low_open=True)
    assert references.interval(None, a, low_open=True) == references.interval(None, a)


A = references.one_of([Reference("a")])
B = references.interval(None, Reference("b"))
ORDINARY = [
    one_of([5]),
    one_of(["market"]),
    places(["market"]),
    sets.less_than(5),
    sets.starts_with("a"),
    sets.like("a_b"),
    sets.all_of_kind(Kind.TEXT),
    box(0, 0, 1, 1),
    circle(0, 0, 1),
    one_of([datetime(2026, 1, 1, tzinfo=UTC)]),
]


@pytest.mark.parametrize("other", [*ORDINARY, *map(complement, ORDINARY), B, complement(B)])
@pytest.mark.parametrize("waiting", [A, complement(A)])
def test_an_open_set_relates_to_no_other(waiting: ValueSet, other: ValueSet) -> None:
    for x, y in ((waiting, other), (other, waiting)):
        assert not relations.is_subset(x, y)
        assert not relations.is_disjoint(x, y)
        assert relations.union(x, y) is None
        assert relations.intersection(x, y) is None
        assert relations.hull(x, y) == EVERYTHING


@pytest.mark.parametrize("waiting", [A, complement(A)])
def test_an_open_set_relates_to_itself_to_its_complement_and_to_everything(waiting: ValueSet) -> None:
    assert waiting.kinds == ALL_KINDS
    assert relations.is_subset(waiting, waiting)
    assert relations.union(waiting, waiting) == relations.intersection(waiting, waiting) == waiting
    assert relations.is_subset(waiting, EVERYTHING)
    assert relations.is_subset(NOTHING, waiting)
    assert relations.is_disjoint(waiting, complement(waiting))
    assert relations.union(waiting, complement(waiting)) is None  # a reference that is missing leaves both empty


def test_negation_turns_an_open_literal_round_and_back() -> None:
    filter = parse("x >= my.a")
    assert ~filter == Only("x", complement(OpenSet("interval", (Reference("a"), None, False, False))))
    assert ~~filter == filter
    assert not filter.intersects(~filter)
    assert filter.covers(parse("x >= my.a AND y = 1"))
    assert not filter.covers(parse("x >= 5"))
    assert filter.intersects(parse("ALL x < 5"))

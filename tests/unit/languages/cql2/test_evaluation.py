"""The exact test of CQL2: budgets, operators, geometries that are broken or forged."""

from datetime import UTC, datetime
from typing import Any

import pytest

from godwit.errors import FilterError, QueryTooCostly
from godwit.filters import Event, Point, event
from godwit.languages import Operator, Subject, parse_query

LINE = {"type": "LineString", "coordinates": [[0, 0], [9, 9]]}
BOW_TIE = {"type": "Polygon", "coordinates": [[[0, 0], [9, 9], [9, 0], [0, 9], [0, 0]]]}


def matches(text: str, attributes: dict[str, Any], **operators: Any) -> bool:
    known = {name: Operator(name, function) for name, function in operators.items()}
    return parse_query(text, "cql2-text", known).matches(event(attributes))


def test_a_test_has_a_bounded_number_of_steps() -> None:
    query = parse_query("x + y > z * 2", "cql2-text")
    many = event({name: list(range(1_000)) for name in "xyz"})
    with pytest.raises(QueryTooCostly):
        query.matches(many)
    geometry = parse_query("S_CROSSES(g, h)", "cql2-text")
    long = {"type": "LineString", "coordinates": [[n % 170, n % 80] for n in range(4_000)]}
    with pytest.raises(QueryTooCostly):
        geometry.wants(Subject(event({"g": long, "h": long}), steps_max=1_000))


def test_equal_queries_are_equal_so_that_their_tests_can_be_shared() -> None:
    first, second = (parse_query(text, "cql2-text") for text in ("x>y", "x > y"))
    assert first == second
    assert hash(first.test) == hash(second.test)
    assert first.test != parse_query("x >= y", "cql2-text").test


def test_a_function_is_given_values_and_is_not_called_without_them() -> None:
    seen: list[tuple[Any, ...]] = []

    def spy(*given: Any) -> bool:
        seen.append(given)
        return True

    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert matches("spy(x, 'a', (1, 2), DATE('2026-01-01'), p)", {"x": [1, 2], "p": Point(1, 2)}, spy=spy)
    assert not matches("spy(x, gone)", {"x": 1}, spy=spy)
    assert not matches("NOT spy(x, gone)", {"x": 1}, spy=spy)
    assert seen == [((1, 2), "a", [1, 2], at, Point(1, 2))]
    matches("spy(g)", {"g": LINE}, spy=spy)
    assert seen[-1][0].length > 1


def test_names_of_functions_are_the_same_in_capitals() -> None:
    assert matches("DOUBLE(x) = 4", {"x": 2}, double=lambda value: value * 2)


def test_an_operator_that_raises_or_returns_no_value_fails_the_test_with_its_name() -> None:
    def broken(value: Any) -> Any:
        raise ZeroDivisionError("oh")

    with pytest.raises(FilterError, match="operator 'broken' failed: ZeroDivisionError: oh"):
        matches("broken(x)", {"x": 1}, broken=broken)
    with pytest.raises(FilterError, match="operator 'odd' returned what is not a value"):
        matches("odd(x) = 1", {"x": 1}, odd=lambda value: object())


def test_a_function_may_return_a_geometry() -> None:
    buffered = {"buffer": lambda shape, width: shape.buffer(width)}
    assert matches("S_INTERSECTS(POINT(0 1), buffer(g, 2))", {"g": LINE}, **buffered)
    assert not matches("S_INTERSECTS(POINT(0 9), buffer(g, 2))", {"g": LINE}, **buffered)


@pytest.mark.parametrize(
    "forged",
    [
        {"g/geojson": '{"type":"Point","coordinates":[1,1]}'},
        {"g/geojson": '{"type":"Point","coordinates":[1,1]}', "g/west": 1, "g/south": 1, "g/east": 1, "g/north": 2},
        {"g/geojson": "no JSON", "g/west": 1, "g/south": 1, "g/east": 1, "g/north": 1},
        {"g/geojson": 5, "g/west": 1, "g/south": 1, "g/east": 1, "g/north": 1},
    ],
)
def test_a_text_that_does_not_fit_its_edges_is_no_geometry(forged: dict[str, Any]) -> None:
    assert not matches("S_INTERSECTS(g, BBOX(0, 0, 9, 9))", forged)
    assert not matches("S_DISJOINT(g, BBOX(0, 0, 9, 9))", forged)
    assert matches("g IS NOT NULL", forged)


def test_a_polygon_that_crosses_itself_raises_nothing() -> None:
    for relation in ("S_INTERSECTS", "S_OVERLAPS", "S_TOUCHES", "S_EQUALS", "S_WITHIN", "S_CONTAINS", "S_CROSSES"):
        assert matches(f"{relation}(g, POLYGON((1 1, 5 1, 5 5, 1 1)))", {"g": BOW_TIE}) in (True, False)


def test_an_event_with_several_geometries_meets_what_one_of_them_does() -> None:
    several = {"g": [LINE, {"type": "Point", "coordinates": [20, 20]}]}
    assert matches("S_INTERSECTS(g, BBOX(19, 19, 21, 21))", several)
    assert matches("S_CROSSES(g, LINESTRING(0 9, 9 0))", several)
    assert not matches("S_DISJOINT(g, BBOX(19, 19, 21, 21))", several)


@pytest.mark.parametrize(
    ("text", "x", "truth"),
    [
        ("x div 2 = -3", -7, True),
        ("x % 4 = -3", -7, True),
        ("x / 2 = -3.5", -7, True),
        ("x ^ 0.5 > 0", -7, False),
        ("NOT x ^ 0.5 > 0", -7, False),
        ("x ^ 9999 > 0", 10, False),
        ("x * 10 = 30", "3", False),
        ("x % 0 = 0", 3, False),
        ("(x / 0) IS NULL", 3, True),
        ("x = 9007199254740993", 2**53 + 1, True),
        ("x = 9007199254740993", 2**53, False),
    ],
)
def test_arithmetic(text: str, x: Any, truth: bool) -> None:
    assert matches(text, {"x": x}) is truth


def test_an_unknown_part_does_not_hide_what_the_others_decide() -> None:
    assert matches("gone = 1 OR x = 1", {"x": 1})
    assert matches("NOT (gone = 1 AND x = 2)", {"x": 1})
    assert not matches("NOT (gone = 1 AND x = 1)", {"x": 1})
    assert matches("(gone = 1 AND x = 1) IS NULL", {"x": 1})
    assert not matches("x NOT IN (2, gone)", {"x": 1})


def test_an_event_without_any_attribute_is_tested() -> None:
    assert not parse_query("CASEI(a) LIKE 'x%'", "cql2-text").matches(Event({}))

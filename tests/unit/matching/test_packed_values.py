"""Packed values: what a set says of all cells at once, and which steps that takes."""

import math

import pytest

from godwit.filters.regions import circle, distance_m, polygon
from godwit.filters.sets import ValueSet, at_least, between, complement, less_than, like, one_of, starts_with
from godwit.filters.values import Point, Value
from godwit.matching import packed_values
from godwit.matching.packed_values import Distinct, PackedValues, SetTest, steps_of_one, steps_of_test

LARGE = 2**53


def inside(values: ValueSet, *held: Value | None) -> list[bool]:
    """By cell, whether its value lies in a set."""
    cells = PackedValues(Distinct())
    for place, value in enumerate(held):
        if value is not None:
            cells.put(place, value)
    return [bool(each) for each in SetTest(values, cells.distinct).of(cells)[: len(held)]]


def test_kinds_are_kept_apart() -> None:
    assert inside(one_of([1, True, "1"]), 1, 1.0, True, "1", None, 0, False) == [True] * 4 + [False] * 3
    assert inside(one_of([1]), True, 1, "1") == [False, True, False]
    assert inside(complement(one_of([1])), True, 1, "1", None) == [True, False, True, False]


@pytest.mark.parametrize("values", [at_least(LARGE + 1), less_than(LARGE + 1), between(LARGE - 1, LARGE + 1)])
def test_integers_that_are_no_doubles_compare_exactly(values: ValueSet) -> None:
    held = (LARGE - 1, LARGE, LARGE + 1, LARGE + 2, float(LARGE), float(LARGE + 2), -(2**63), 2**64 - 1)
    assert inside(values, *held) == [values.contains(value) for value in held]


def test_points_on_the_border_of_a_circle_are_decided_as_by_the_circle() -> None:
    centre = Point(8.54, 47.37)
    points = [Point(8.54 + step / 997, 47.37 + step / 1_013) for step in range(1, 200)]
    for point in points[::7]:
        for radius in (distance_m(centre, point), math.nextafter(distance_m(centre, point), 0)):
            around = circle(centre.lon, centre.lat, radius)
            assert inside(around, *points) == [around.contains(each) for each in points]


def test_of_very_many_points_on_the_border_none_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_values, "BORDER_MAX", 0)
    around = circle(0, 0, distance_m(Point(0, 0), Point(1, 1)))
    assert inside(around, Point(0.99, 0.99), Point(1.01, 1.01)) == [True, False]


def test_a_text_that_nobody_has_any_more_is_forgotten() -> None:
    cells = PackedValues(Distinct())
    texts = cells.distinct.texts
    cells.put(0, "a" * 640)
    cells.put(1, "a" * 640)
    assert (len(texts), texts.steps) == (1, 11)
    cells.drop(0, "a" * 640)
    assert len(texts) == 1
    cells.drop(1, "a" * 640)
    cells.put(1, "b")
    assert (len(texts), texts.steps, texts.values) == (1, 1, ["b"])


def test_steps_grow_with_what_has_to_be_looked_at() -> None:
    distinct = Distinct()
    for number in range(3_000):
        distinct.texts.enter(f"name {number}")

    def steps(values: ValueSet, *, several: int = 0, points: int = 0) -> int:
        return steps_of_test(values, distinct, 10_000, several, points)

    assert steps(one_of(["x"])) < steps(starts_with("x")) < steps(like("x_y%z"))
    assert steps(one_of(["x"])) < steps(one_of(range(100)))
    assert steps(one_of(["x"]), several=100_000) > 5 * steps(one_of(["x"]))
    assert steps(circle(0, 0, 1), points=10_000) > steps(circle(0, 0, 1))
    assert steps(complement(starts_with("x"))) == steps(starts_with("x"))
    corners = polygon([(0, 0), (1, 0), (0, 1)])
    assert steps_of_one(one_of([1])) < steps_of_one(complement(like("x_y%z"))) < steps_of_one(corners)

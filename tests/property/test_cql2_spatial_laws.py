"""Every spatial relation between every geometry of the pools, in both orders: what holds passes the routable filter."""

import pytest

from godwit.filters import Event, Filter, event
from godwit.filters.geometries import geojson_of
from godwit.languages import Subject
from godwit.languages.cql2.evaluation import truth_of
from godwit.languages.cql2.expressions import RELATIONS, Not, Property, Related
from godwit.languages.cql2.routable_bounds import TruthBounds, truth_bounds
from tests.property.cql2_expressions import BOXES, GEOMETRIES

EVENTS = [event({"g": geojson_of(geometry)}) for geometry in GEOMETRIES]
HELD_MIN = 5


def faults(truth: bool | None, bounds: TruthBounds, event: Event) -> list[Filter]:
    wrong = [] if truth is not True or bounds.true.upper.matches(event) else [bounds.true.upper]
    wrong += [] if truth is not False or bounds.false.upper.matches(event) else [bounds.false.upper]
    wrong += [] if truth is True or not bounds.true.lower.matches(event) else [bounds.true.lower]
    return wrong + ([] if truth is False or not bounds.false.lower.matches(event) else [bounds.false.lower])


@pytest.mark.parametrize("relation", [name for name in RELATIONS if name.startswith("s_")])
def test_what_holds_passes_and_what_is_sure_holds(relation: str) -> None:
    held = 0
    for constant in (*GEOMETRIES, *BOXES):
        for operands in ((Property("g"), constant), (constant, Property("g"))):
            for expression in (Related(relation, *operands), Not(Related(relation, *operands))):
                bounds, test = truth_bounds(expression, {}), truth_of(expression, {})
                for each in EVENTS:
                    truth = test(Subject(each))
                    assert faults(truth, bounds, each) == [], (expression, each)
                    held += truth is True
    assert held >= HELD_MIN


def test_most_of_what_is_far_away_is_not_let_through() -> None:
    far = [event({"g": {"type": "LineString", "coordinates": [[x, 60], [x + 1, 61]]}}) for x in range(-170, 160, 10)]
    for constant in GEOMETRIES:
        bounds = truth_bounds(Related("s_intersects", Property("g"), constant), {})
        assert not any(bounds.true.upper.matches(each) for each in far)

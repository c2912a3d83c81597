"""Filters on a client's own state: what a change of it can cost."""

from godwit.filters import FALSE, parse
from godwit.filters.references import references_of
from godwit.filters.values import Point
from godwit.mobility import Movements, line
from godwit.mobility.movement_graphs import Drift
from godwit.mobility.possible_values import (
    ANYTHING,
    BOUND_LITERALS_MAX,
    FOLLOWED_WEIGHT_MAX,
    OPEN_LITERALS_MAX,
    Possibilities,
    PossibleArea,
    PossibleValues,
)

STREET = Movements({"location": line(30)})
HERE = {"location": "3"}


def with_literals(count: int) -> str:
    return " OR ".join(["location = myloc", *(f"b = {number}" for number in range(count - 1))])


def test_a_large_filter_is_loosened_for_any_state_and_so_no_change_makes_a_difference() -> None:
    small, large = parse(with_literals(FOLLOWED_WEIGHT_MAX)), parse(with_literals(FOLLOWED_WEIGHT_MAX + 1))
    assert isinstance(STREET.possible(small, HERE, 1.0, 1.0)["location"], PossibleValues)
    assert STREET.possible(large, HERE, 1.0, 1.0) == {"location": ANYTHING}
    assert STREET.possible(large, {"location": "9"}, 1.0, 1.0) == STREET.possible(large, HERE, 1.0, 1.0)


def test_so_many_literals_may_refer_to_the_state_and_no_more() -> None:
    allowed = parse(" OR ".join(f"a{number} = my.x" for number in range(OPEN_LITERALS_MAX)))
    assert STREET.why_not(allowed) is None
    reason = STREET.why_not(parse(" OR ".join(f"a{number} = my.x" for number in range(OPEN_LITERALS_MAX + 1))))
    assert reason is not None
    assert f"more than {OPEN_LITERALS_MAX}" in reason
    assert [str(name) for name in references_of(allowed)] == ["my.x"]


def test_references_with_many_values_become_so_many_literals_and_no_more() -> None:
    open_filter = parse(" OR ".join(f"a{number} LIKE my.x" for number in range(10)))
    values = tuple(f"%p{number}_x%" for number in range(BOUND_LITERALS_MAX // 10))
    assert STREET.exact(open_filter, {"x": values}).size == BOUND_LITERALS_MAX
    assert STREET.exact(open_filter, {"x": (*values, "%more_x%")}) == FALSE


def test_a_circle_around_a_client_that_drifts_grows_by_how_far_it_may_have_gone() -> None:
    moving = Movements({"position": Drift(100.0)})
    near = parse("within(position, circle(my.position, 500))")
    possible = moving.possible(near, {"position": Point(8.5, 47.3)}, 2.0, 1.0)
    area = possible["position"]
    assert isinstance(area, PossibleArea)
    assert area.metres > 0
    assert moving.loosened(near, possible) == parse(f"within(position, circle(8.5, 47.3, {500 + area.metres}))")


def test_a_radius_that_is_no_number_makes_no_circle() -> None:
    moving = Movements({"position": Drift(100.0)})
    near = parse("within(position, circle(my.position, my.radius))")
    possible: Possibilities = {"position": PossibleArea(Point(8.5, 47.3), 100.0), "radius": PossibleValues((True,))}
    assert moving.loosened(near, possible) == parse("position IS NOT NULL")

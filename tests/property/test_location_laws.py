"""Laws of movement: what is possible grows with steps; a loosened filter lets through what any possible state would."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from godwit.filters.events import event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.filters.values import Point
from godwit.mobility import Drift, MovementGraph, Movements, from_edges, steps
from godwit.mobility.possible_values import State

NAMES = "abcdefg"
FILTERS = [
    "at = myloc",
    "at WITHIN myloc",
    "at WITHIN myloc(1)",
    "NOT at WITHIN myloc(2)",
    "at <> myloc",
    "NOT (at IN (myloc, 'b'))",
    "at >= myloc",
    "at IN (myloc, my.other, 'c')",
    "x >= my.money",
    "x < my.money AND at = myloc",
    "NOT x < my.money",
    "x BETWEEN my.money AND my.level",
    "NOT x BETWEEN my.money AND 7",
    "x IN (my.money, 3)",
    "x = my.level OR at = 'a'",
    "ALL x <= my.money",
    "at LIKE my.other",
    "x BETWEEN my.other AND 5",
    "within(here, circle(my.point, 30000))",
    "NOT within(here, circle(my.point, 30000))",
    "within(here, circle(my.point, my.money))",
    "x = my.nowhere",
]


@st.composite
def graphs(draw: st.DrawFn) -> MovementGraph:
    edges = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12))
    return from_edges(edges, places=NAMES, one_way=draw(st.booleans()))


@given(graphs(), st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 8))
def test_ploc_grows_and_what_is_equal_stays_equal(graph: MovementGraph, x: str, y: str, count: int) -> None:
    """[rebeca §5.1, equation 1], and why news may stop."""
    now, then = graph.ploc(x, count), graph.ploc(x, count + 1)
    assert set(now) <= set(then)
    assert set(then) == {place for here in now for place in (here, *graph.after(here))}
    if now == graph.ploc(y, count):
        assert then == graph.ploc(y, count + 1)


DRIFT, METRES = 2, 20_000.0


@st.composite
def walks(draw: st.DrawFn) -> tuple[Movements, list[State]]:
    """How a state may change, and states each of which is a step from the one before."""
    graph = draw(graphs())
    movements = Movements(
        {
            "location": graph,
            "money": Drift(DRIFT),
            "level": from_edges([(1, 2), (2, 3), (3, 4)]),
            "point": Drift(METRES),
        }
    )
    state: dict[str, Any] = {
        "location": draw(st.sampled_from(NAMES)),
        "money": draw(st.integers(0, 8)),
        "level": draw(st.integers(1, 4)),
        "point": Point(8.0, 47.0),
        "other": draw(st.sampled_from(NAMES)),
    }
    states: list[State] = [dict(state)]
    for _ in range(draw(st.integers(0, 4))):
        for name in ("location", "level"):
            way = movements.movements[name]
            assert isinstance(way, MovementGraph)
            state[name] = draw(st.sampled_from([state[name], *way.after(state[name])]))
        state["money"] += draw(st.integers(-DRIFT, DRIFT))
        state["point"] = Point(state["point"].lon, state["point"].lat + draw(st.sampled_from([0.0, 0.1, -0.1])))
        state["other"] = draw(st.sampled_from(NAMES))  # nobody knows how it changes
        states.append(dict(state))
    return movements, states


events = st.fixed_dictionaries(
    {},
    optional={
        "at": st.sampled_from(NAMES),
        "x": st.one_of(st.integers(-2, 12), st.lists(st.integers(-2, 12), min_size=2, max_size=3)),
        "here": st.builds(Point, st.just(8.0), st.sampled_from([46.6, 46.8, 47.0, 47.2, 47.4])),
    },
)


@given(walks(), st.sampled_from(FILTERS).map(parse), events)
def test_a_loosened_filter_lets_through_what_it_will_match_within_so_many_steps(
    walk: tuple[Movements, list[State]], filter: Filter, said: dict[str, Any]
) -> None:
    movements, states = walk
    happened = event(said)
    taken = len(states) - 1
    matched = movements.exact(filter, states[-1]).matches(happened)
    for count in range(taken, taken + 2):
        possible = movements.possible(filter, states[0], elapsed_s=(count - 1) + 0.5 if count else -0.5, dwell_s=1.0)
        loosened = movements.loosened(filter, possible)
        assert loosened.matches(happened) or not matched
        assert movements.weakest(filter).matches(happened) or not loosened.matches(happened)


@given(st.floats(0, 1e4), st.floats(1e-3, 1e4), st.lists(st.floats(0, 3), max_size=30))
def test_no_client_that_stays_long_enough_takes_more_steps_than_are_reckoned_with(
    elapsed_s: float, dwell_s: float, delays: list[float]
) -> None:
    """However its changes fall into the time that passes: at most one each `dwell_s`, the first at any moment."""
    at, taken = (delays or [0.0])[0] * dwell_s, 0
    for longer in [*delays[1:], *([0.0] * 40)]:
        if at >= elapsed_s:
            break
        taken += 1
        at += dwell_s * (1 + longer)
    assert taken <= steps(elapsed_s, dwell_s)

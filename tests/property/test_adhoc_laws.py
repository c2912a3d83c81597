"""Laws of ad hoc networks: any devices, any sequence of links that come and go, and then rest."""

from itertools import combinations, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.adhoc.device import AdHocConfig
from godwit.filters.filters import TRUE
from godwit.simulator.adhoc_world import AdHocWorld, converge_s

PRIORITIES = (0.0, 0.5, 1.0)
SOME = settings(max_examples=max(settings().max_examples // 4, 1))  # of the profile's: each is a whole run
REST_S = converge_s(AdHocConfig()) + 1.0


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """Devices, and steps: who is in range of whom, for how long, and who publishes then."""
    count = draw(st.integers(2, 8))
    names = [f"n{k}" for k in range(count)]
    pairs = list(combinations(names, 2))
    step = st.tuples(
        st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs)),
        st.sampled_from([0.05, 0.7, 3.0, 9.0, 20.0]),
        st.lists(st.sampled_from(names), max_size=4),
    )
    return {
        "names": names,
        "priorities": draw(st.lists(st.sampled_from(PRIORITIES), min_size=count, max_size=count)),
        "wanting": draw(st.lists(st.sampled_from(names), unique=True)),
        "steps": draw(st.lists(step, min_size=1, max_size=6)),
    }


def lived(history: dict[str, Any], meeting: Any = "merge") -> AdHocWorld:
    names = history["names"]
    configs = {
        name: AdHocConfig(priority=priority, meeting=meeting)
        for name, priority in zip(names, history["priorities"], strict=True)
    }
    net = AdHocWorld(1, configs)
    for name in history["wanting"]:
        net.subscribe(name, "all", TRUE)
    for pairs, seconds, speakers in history["steps"]:
        net.set_links(pairs)
        for name in speakers:
            net.publish(name, {"x": 1})
        net.run(seconds)
    return net


@SOME
@given(histories())
def test_once_links_rest_every_island_has_one_event_broker_that_holds_all_and_serves_all(history):
    net = lived(history)
    net.run(REST_S)
    islands = {island for island in net.islands.values() if len(island) > 1}
    assert net.check_islands() == len(set(net.islands.values()))
    for island in islands:
        assert len(net.leaders(island)) == 1
    for name in history["names"]:
        net.publish(name, {"x": 2})
    net.run(10)
    net.check_islands()
    net.judge()
    due = sum(len(island) * len(set(island) & set(history["wanting"])) for island in islands)
    assert net.violations == []
    assert len(net.due) >= due


@SOME
@given(histories(), st.sampled_from(["merge", "coordinate"]))
def test_when_all_meet_nothing_that_anybody_holds_is_lost_and_nothing_comes_twice(history, meeting):
    net = lived(history, meeting)
    net.set_links(pairwise(history["names"]))
    net.run(converge_s(AdHocConfig(meeting=meeting)) + 6)
    net.check_islands()
    net.judge()
    assert net.violations == []


@SOME
@given(histories())
def test_event_brokers_that_coordinate_form_a_tree_and_serve_all(history):
    net = lived(history, "coordinate")
    net.run(converge_s(AdHocConfig(meeting="coordinate")) + 1.0)
    assert net.check_islands() == len(set(net.islands.values()))
    for name in history["names"]:
        net.publish(name, {"x": 2})
    net.run(10)
    net.check_islands()
    net.judge()
    assert net.violations == []


@SOME
@given(histories(), st.sampled_from(["merge", "coordinate"]), st.integers(0, 7), st.booleans())
def test_a_device_that_crashes_takes_nothing_with_it_but_what_it_held(history, meeting, who, comes_back):
    net = lived(history, meeting)
    name = history["names"][who % len(history["names"])]
    net.crash(name)
    net.run(3)
    if comes_back:
        net.restart(name)
    net.set_links(pairwise(history["names"]))
    net.run(converge_s(AdHocConfig(meeting="coordinate")) + 5)
    net.check_islands()
    net.judge()
    assert net.violations == []


@SOME
@given(histories())
def test_the_same_history_gives_the_same_effects(history):
    one, other = lived(history), lived(history)
    assert one.delivered == other.delivered
    assert one.counts == other.counts
    assert one.world.handled == other.world.handled


@SOME
@given(histories(), st.integers(0, 5))
def test_messages_that_get_lost_double_nothing_and_keep_the_order(history, lost):
    names = history["names"]
    net = AdHocWorld(lost, {name: AdHocConfig() for name in names})
    net.set_loss(0.1)
    for name in history["wanting"]:
        net.subscribe(name, "all", TRUE)
    for pairs, seconds, speakers in [*history["steps"], (list(pairwise(names)), 40.0, names)]:
        net.set_links(pairs)
        for name in speakers:
            net.publish(name, {"x": 1})
        net.run(seconds)
    net.set_loss(0.0)
    net.run(REST_S)
    net.judge()
    time_free = [violation for violation in net.violations if violation.law != "all of an island"]
    assert time_free == []

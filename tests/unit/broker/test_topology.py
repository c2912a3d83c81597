"""Link state: what is newer, which links count, and trees that are the same at every broker."""

import itertools
import math
import random
from typing import Any

import networkx  # type: ignore[import-untyped]
import pytest

from godwit.broker.messages import LinkState
from godwit.broker.topology import COST_MAX, COST_MIN, INCARNATION_MAX, Topology
from godwit.errors import PeerFault
from tests.snapshots import restored

Edges = dict[tuple[str, str], float]


def states_of(edges: Edges) -> list[LinkState]:
    neighbours: dict[str, dict[str, float]] = {}
    for (a, b), cost in edges.items():
        neighbours.setdefault(a, {})[b] = cost
        neighbours.setdefault(b, {})[a] = cost
    return [LinkState(name, 1, 5, links) for name, links in neighbours.items()]


def view(broker: str, states: list[LinkState], **options: Any) -> Topology:
    """The topology of `broker` after it has opened its own links and learned these states, in this order."""
    [own] = [state.neighbours for state in states if state.broker == broker]
    topology = Topology(broker, costs=own, **options)
    for peer in own:
        topology.open_link(peer)
    for state in states:
        if state.broker != broker:
            topology.check(state)
            topology.learn(state)
    return topology


DIAMOND = {("a", "b"): 1.0, ("b", "d"): 1.0, ("a", "c"): 1.0, ("c", "d"): 1.0}


def test_of_two_equally_short_ways_the_one_by_the_lesser_name_is_taken_by_everyone() -> None:
    for order in itertools.permutations(states_of(DIAMOND)):
        for name in "abcd":
            assert view(name, list(order)).parents("a") == {"b": "a", "c": "a", "d": "b"}


def test_children_and_next_hops_follow_the_tree_of_the_source() -> None:
    at_b, at_c = view("b", states_of(DIAMOND)), view("c", states_of(DIAMOND))
    assert at_b.children("a") == ["d"]
    assert at_c.children("a") == []
    assert at_b.next_hop("d", "a") == "d"
    assert at_b.next_hop("b") == "b"
    assert at_c.next_hop("d", "a") == "d"  # not on the way from a to d: by its own tree


def test_a_dearer_link_is_gone_round() -> None:
    topology = view("a", states_of({("a", "d"): 9.0, **DIAMOND}))
    assert topology.next_hop("d") == "b"
    assert view("a", states_of({("a", "d"): 1.999, **DIAMOND})).next_hop("d") == "d"


def test_a_link_counts_only_when_both_ends_report_it_and_at_the_higher_cost() -> None:
    topology = Topology("a")
    topology.open_link("b")
    assert topology.next_hop("b") is None
    topology.learn(LinkState("b", 1, 1, {}))
    assert topology.next_hop("b") is None
    topology.learn(LinkState("b", 1, 2, {"a": 7.0, "c": 1.0}))
    assert topology.next_hop("b") == "b"
    assert topology.next_hop("c") is None
    topology.learn(LinkState("c", 1, 1, {"b": 1.0, "a": 3.0}))
    topology.open_link("c")
    assert topology.next_hop("b") == "c"  # 3 + 1 is less than 7


@pytest.mark.parametrize("seed", range(20))
def test_distances_are_those_of_networkx_and_trees_do_not_depend_on_who_computes_them(seed: int) -> None:
    random_ = random.Random(seed)
    names = [f"n{number}" for number in range(12)]
    pairs = random_.sample(list(itertools.combinations(names, 2)), 24)
    edges = {pair: random_.choice([0.1, 0.2, 0.3, 1.0, 2.0]) for pair in pairs}
    graph = networkx.Graph()
    graph.add_weighted_edges_from((a, b, round(cost * 1_000)) for (a, b), cost in edges.items())
    states = states_of(edges)
    views = {}
    for state in states:
        views[state.broker] = view(state.broker, random_.sample(states, len(states)))
    for source in views:
        trees = [topology.parents(source) for topology in views.values()]
        assert all(tree == trees[0] for tree in trees)
        lengths = networkx.single_source_dijkstra_path_length(graph, source)
        assert {source, *trees[0]} == set(lengths)
        for node, parent in trees[0].items():
            assert lengths[parent] + graph.edges[parent, node]["weight"] == lengths[node]
        for target in trees[0]:  # hop by hop, each in its own view, the packet comes along the tree of the source
            at = source
            while at != target:
                hop = views[at].next_hop(target, source)
                assert hop is not None
                assert trees[0][hop] == at
                at = hop


def test_news_is_what_has_a_higher_incarnation_or_number() -> None:
    topology = Topology("a")
    topology.learn(LinkState("b", 2, 5, {}))
    assert [
        topology.is_news(LinkState("b", incarnation, number, {}))
        for incarnation, number in [(2, 4), (2, 5), (2, 6), (1, 9), (3, 1)]
    ] == [False, False, True, False, True]


def test_a_broker_outbids_a_life_of_its_own_that_it_does_not_remember() -> None:
    topology = Topology("a", incarnation=2)
    topology.open_link("b")
    own = topology.own
    assert not topology.is_news(own)
    assert not topology.is_news(LinkState("a", 1, 99, {"c": 1.0}))
    for past in (LinkState("a", 2, 99, {}), LinkState("a", 7, 1, {}), LinkState("a", 2, own.number, {"z": 1.0})):
        assert topology.is_news(past)
    assert topology.outbid(LinkState("a", 7, 1, {"c": 1.0})) == 8
    assert (topology.own.incarnation, topology.own.neighbours) == (8, {"b": 1.0})


def test_own_links_are_news_once_and_each_news_has_a_higher_number() -> None:
    topology = Topology("a")
    numbers = [topology.own.number]
    for change, news in [
        (topology.open_link, True),
        (topology.open_link, False),
        (topology.drop_link, True),
        (topology.drop_link, False),
        (topology.open_link, True),
    ]:
        assert change("b") is news
        assert (topology.own.number > numbers[-1]) is news
        numbers.append(topology.own.number)


def test_a_neighbour_first_hears_what_it_said_itself() -> None:
    topology = view("b", states_of(DIAMOND))
    assert [state.broker for state in topology.told_first("d")] == ["d", "a", "b", "c"]
    assert [state.broker for state in topology.told_first("new")] == ["a", "b", "c", "d"]


def test_a_partition_is_kept_until_a_link_changes() -> None:
    topology = view("a", states_of(DIAMOND))
    first = topology.partition("a", ("b", "c", "d", "nobody"))
    assert first == (("b", ("b", "d")), ("c", ("c",)), (None, ("nobody",)))
    assert topology.partition("a", ("b", "c", "d", "nobody")) is first
    assert not topology.learn(LinkState("d", 1, 6, {"b": 1.0, "c": 1.0}))
    assert topology.partition("a", ("b", "c", "d", "nobody")) is first
    assert topology.learn(LinkState("d", 1, 7, {"c": 1.0}))
    assert topology.partition("a", ("b", "c", "d")) == (("b", ("b",)), ("c", ("c", "d")))


def test_a_broker_that_cannot_be_reached_stays_in_the_database() -> None:
    topology = view("a", states_of(DIAMOND))
    topology.learn(LinkState("d", 1, 6, {}))
    assert topology.next_hop("d") is None
    assert "d" in topology.states


@pytest.mark.parametrize("cost", [0, -1.0, math.nan, math.inf, COST_MIN / 2, COST_MAX * 2, 10**400])
def test_a_cost_that_is_none_is_a_fault(cost: float) -> None:
    topology = Topology("a")
    with pytest.raises(PeerFault):
        topology.check(LinkState("b", 1, 1, {"c": cost}))
    with pytest.raises(ValueError, match="costs"):
        Topology("a", costs={"b": cost})


@pytest.mark.parametrize(
    "state",
    [
        LinkState("", 1, 1, {}),
        LinkState("b", 0, 1, {}),
        LinkState("b", 1, 0, {}),
        LinkState("b", 1, INCARNATION_MAX + 1, {}),
        LinkState("b", 1, 1, {"b": 1.0}),
        LinkState("b", 1, 1, {"": 1.0}),
        LinkState("a", INCARNATION_MAX, 1, {}),
    ],
)
def test_a_link_state_that_no_broker_says_is_a_fault(state: LinkState) -> None:
    with pytest.raises(PeerFault):
        Topology("a").check(state)


def test_one_broker_more_than_allowed_is_a_fault() -> None:
    topology = Topology("a", brokers_max=3)
    topology.learn(LinkState("b", 1, 1, {}))
    topology.learn(LinkState("c", 1, 1, {}))
    topology.check(LinkState("c", 1, 2, {"a": 1.0, "b": 1.0}))
    with pytest.raises(PeerFault, match="one broker too many: at most 3"):
        topology.check(LinkState("d", 1, 1, {}))
    with pytest.raises(PeerFault, match="too many"):
        topology.check(LinkState("c", 1, 2, {"a": 1.0, "b": 1.0, "x": 1.0}))


def test_a_snapshot_knows_the_same_ways() -> None:
    topology = view("a", states_of(DIAMOND))
    topology.partition("a", ("b", "d"))
    again = restored(topology, Topology("a"))
    assert again.states == topology.states
    assert again.partition("a", ("b", "d")) == topology.partition("a", ("b", "d"))

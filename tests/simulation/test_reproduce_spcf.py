"""The experiments of spcf, very small: selectivities are what they say, every strategy delivers what brute force does,
and counts that do not hang on the machine have the paper's form."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from godwit.broker.bloom import BloomFilter
from godwit.broker.hops import HopRouting
from godwit.filters.contexts import sender_part
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.reproduce import PAPERS, Setting, claims_of, spcf, spcf_bloom, spcf_cost, spcf_fire
from godwit.reproduce.spcf import Scale
from godwit.reproduce.spcf_cost import Mix, RoutingCost
from godwit.reproduce.spcf_forwarding import Measured, Plan, forward, measured, ratios
from godwit.reproduce.spcf_net import STRATEGIES, net_of, spanning_tree
from godwit.reproduce.spcf_workload import Locality, Size, Workload
from godwit.simulator.topologies import is_tree

SMALL = Size(brokers=8, degree=3, clients=24, subscriptions=4)
ALL = tuple(STRATEGIES)


# ---------------------------------------------------------------- the workload


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("locality", ["none", "contexts", "interests"])
def test_a_context_filter_matches_exactly_its_share_of_the_contexts(share: float, locality: Locality) -> None:
    workload = Workload(Size(clients=20, subscriptions=5), 3, context=share, locality=locality)
    for _, _, filter in workload.subscriptions():
        asked = sender_part(filter)
        assert sum(asked.holds(context) for context in workload.contexts.values()) == 20 * share


def test_a_message_goes_to_the_share_of_clients_that_both_selectivities_make() -> None:
    for asks in ("subscriptions", "publications"):
        workload = Workload(Size(subscriptions=5), 1, content=0.5, context=0.4, asks=asks)
        meant = workload.meant(workload.events(300))
        assert sum(map(len, meant)) / len(meant) == pytest.approx(0.5 * 0.4 * 100, rel=0.1)


def test_a_client_wants_a_message_by_one_subscription_at_most() -> None:
    workload = Workload(SMALL, 1, content=1.0, context=1.0)
    wanted = [(client, filter) for client, _, filter in workload.subscriptions()]
    for event in workload.events(10):
        matching = [client for client, filter in wanted if filter.holds(event.attributes)]
        assert sorted(matching) == sorted(workload.homes)


def test_clients_are_equally_many_at_all_brokers_and_no_context_is_anothers() -> None:
    for locality in ("none", "contexts"):
        workload = Workload(Size(), 1, locality=locality)
        homes = list(workload.homes.values())
        assert {homes.count(broker) for broker in workload.overlay.brokers} == {5}
        assert len({str(context) for context in workload.contexts.values()}) == 100


def test_with_locality_the_clients_of_a_range_of_contexts_are_at_few_brokers() -> None:
    def brokers(locality: Locality) -> float:
        workload = Workload(Size(subscriptions=3), 1, context=0.1, locality=locality)
        found = [
            len(
                {
                    workload.homes[who]
                    for who, context in workload.contexts.items()
                    if sender_part(filter).holds(context)
                }
            )
            for _, _, filter in workload.subscriptions()
        ]
        return sum(found) / len(found)

    assert brokers("contexts") < 3.1 < 6 < brokers("none")


# ---------------------------------------------------------------- nets


def test_asf_runs_on_a_spanning_tree_of_the_overlay() -> None:
    overlay = Workload(Size(), 1).overlay
    tree = spanning_tree(overlay)
    links = {frozenset((link.a, link.b)) for link in overlay.links}
    assert is_tree(tree)
    assert all(frozenset((link.a, link.b)) in links for link in tree.links)


@pytest.mark.parametrize("matcher", ["plain", "index"])
@pytest.mark.parametrize("asks", ["subscriptions", "publications", "both"])
def test_every_strategy_delivers_what_brute_force_delivers(asks: Any, matcher: str) -> None:
    workload = Workload(SMALL, 5, content=0.6, context=0.4, asks=asks)
    nets = {strategy: net_of(strategy, workload.overlay, matcher) for strategy in ALL}
    for net in nets.values():
        workload.deploy(net)
    sums = forward(nets, workload, workload.events(24), rounds=1)  # asserts it
    assert len({sum.delivered for sum in sums.values()}) == 1
    assert sums["SPCF"].delivered > 0
    if asks != "subscriptions":
        assert min(sums[name].vain for name in ("ASF", "GSF", "GSF at source")) > sums["SPCF"].vain
        assert sums["SPCF at source"].vain == 0


def test_a_strategy_that_loses_a_message_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(SMALL, 5, content=1.0, context=1.0)
    net = net_of("SPCF", workload.overlay, "plain")
    workload.deploy(net)
    send_down = HopRouting._send_down
    monkeypatch.setattr(HopRouting, "_send_down", lambda self, packet: send_down(self, packet)[1:])
    with pytest.raises(AssertionError, match="SPCF delivers to"):
        forward({"SPCF": net}, workload, workload.events(4), rounds=1)


def test_counts_are_the_same_each_time_and_have_the_papers_form() -> None:
    def found() -> list[Measured]:
        plan = Plan(
            size=SMALL,
            context=(0.125, 0.5, 1.0),
            messages=24,
            rounds=1,
            strategies=ALL,
            matcher="plain",
            asks="subscriptions",
            scenario="content",
        )
        return measured(plan, 1)

    first, second = found(), found()
    for what in ("asked", "packets"):
        assert [getattr(one, what) for one in first] == [getattr(one, what) for one in second]
    asked = [ratio for _, ratio in ratios(first, "GSF", "SPCF", "asked")]
    assert asked[0] > asked[1] > asked[2] == 1.0


def test_a_scenario_leaves_out_selectivities_that_it_cannot_have() -> None:
    plan = Plan(
        size=SMALL,
        context=(0.05, 0.5),
        messages=2,
        rounds=1,
        strategies=("GSF",),
        matcher="plain",
        asks="publications",
        scenario="total",
    )
    assert [one.context for one in measured(plan, 1)] == [0.5]


# ---------------------------------------------------------------- the cost of routing


@pytest.fixture(scope="module")
def costs() -> list[RoutingCost]:
    return spcf_cost.routing_costs(SMALL, (0.05, 0.125, 0.25, 0.5, 1.0), ALL, 12, 1)


def _of(costs: list[RoutingCost], strategy: str, what: str) -> list[float]:
    return [getattr(each, what) for each in costs if each.strategy == strategy]


def test_packets_for_a_subscribe_grow_to_those_of_a_flood(costs: list[RoutingCost]) -> None:
    for strategy in ("ASF", "GSF", "GSF at source"):
        assert set(_of(costs, strategy, "subscribe")) == {7.0}
    found = _of(costs, "SPCF", "subscribe")
    assert found == sorted(found)
    assert found[0] < 3
    assert found[-1] == 7.0


def test_packets_for_a_new_context_rise_and_fall_to_those_of_a_flood(costs: list[RoutingCost]) -> None:
    for strategy in ("ASF", "GSF", "GSF at source"):
        assert set(_of(costs, strategy, "set_context")) == {0.0}
    found = _of(costs, "SPCF", "set_context")
    assert found[0] < max(found) > found[-1] == 7.0


def test_a_client_that_has_come_and_gone_leaves_nothing() -> None:
    workload = Workload(SMALL, 1, context=0.2)
    for strategy in ALL:
        net = net_of(strategy, workload.overlay, "plain")
        workload.deploy(net)
        before = [machine.sizes() for machine in net.machines.values()]
        net.set_context("new", {"x": 0.51}, "b3")
        net.set_context("new", None)
        assert [machine.sizes() for machine in net.machines.values()] == before


def test_where_two_strategies_cost_the_same_is_where_they_cost_the_same() -> None:
    ours = Mix(strategy="a", delivered=2.0, publish=(1.0, 10.0), replace=(4.0, 1.0), change=(50.0, 100.0))
    theirs = Mix(strategy="b", delivered=2.0, publish=(3.0, 30.0), replace=(14.0, 1.0), change=(0.0, 0.0))
    rate = spcf_cost.break_even(ours, theirs, replaces=0.1, what=0)
    assert rate == pytest.approx((2.0 + 0.1 * 10) / 50)
    assert spcf_cost.per_message(ours, rate, 0.1, 0) == pytest.approx(spcf_cost.per_message(theirs, rate, 0.1, 0))


def test_changes_of_context_cost_spcf_packets_and_gsf_none() -> None:
    found = {mix.strategy: mix for mix in spcf_cost.mixes(SMALL, 0.25, ALL, "plain", 10, 1)}
    assert len({mix.delivered for mix in found.values()}) == 1
    for strategy in ("SPCF", "SPCF at source"):
        assert found[strategy].change[0] > 7 > found["GSF"].change[0] == 0
        assert found[strategy].publish[0] < found["GSF"].publish[0]


# ---------------------------------------------------------------- fires, and Bloom filters


@pytest.mark.parametrize("strategy", ALL)
def test_fires_make_the_same_devices_react_in_both_interfaces(strategy: str) -> None:
    building = spcf_fire.Building(2, sprinklers=20, signals=10, detectors=8)
    meant = spcf_fire.reactions(building)
    assert spcf_fire.run_fire(building, strategy, with_context=False) == meant
    assert spcf_fire.run_fire(building, strategy, with_context=True) == meant


def test_sprinklers_that_open_everywhere_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    building = spcf_fire.Building(2, sprinklers=20, signals=2, detectors=4)
    monkeypatch.setattr(spcf_fire, "_around", lambda device: TRUE)
    assert spcf_fire.run_fire(building, "SPCF", with_context=True) != spcf_fire.reactions(building)


def test_bloom_filters_lose_nobody_and_one_that_does_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spcf_bloom.blooms(SMALL, 12, 1, lambda what, share: None)
    assert all(each.lost == each.wrong == each.missed == 0 for each in found)
    assert found[-1].vain > 0
    contains = BloomFilter.__contains__
    monkeypatch.setattr(BloomFilter, "__contains__", lambda self, one: hash(one) % 2 > 0 and contains(self, one))
    assert any(each.missed for each in spcf_bloom.blooms(SMALL, 12, 1, lambda what, share: None))


def test_what_a_net_hands_to_a_client_that_is_not_meant_is_dropped_at_the_last_broker() -> None:
    workload = Workload(SMALL, 1, content=1.0)
    net = net_of("GSF", workload.overlay)
    workload.deploy(net)
    event = workload.event("c0", 1, Random(1))
    nobody = Workload(SMALL, 1, asks="publications", context=0.05).event("c0", 1, Random(1)).to
    assert len(net.publish(event)) == 24
    assert len(net.publish(Event(event.attributes, "c0", 2, to=nobody))) == 1


# ---------------------------------------------------------------- the claims

TINY = Scale(
    size=SMALL,
    forwarding=(0.125, 0.5),
    routing=(0.05, 0.25, 1.0),
    messages=6,
    rounds=1,
    indexed=("content",),
    newcomers=4,
    changes=10,
    devices=(10, 5, 3),
)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_claim_gives_one_row_and_every_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spcf, "QUICK", TINY)
    found = list(claims_of("spcf", Setting(folder=tmp_path)))
    assert tuple(claim.key for claim in found) == PAPERS["spcf"][1]
    drawn = {path.stem.partition("_")[0] for path in tmp_path.glob("*.png")}
    assert drawn == {"fig3a", "fig3b", "fig4a", "fig4b", "fig5a", "fig5b", "lead", "changes"}
    assert {path.stem for path in tmp_path.glob("*.svg")} == {path.stem for path in tmp_path.glob("*.png")}
    assert (tmp_path / "measured.json").stat().st_size > 1_000

"""The experiments of spcf, very small: selectivities are what they say, every strategy delivers what brute force does,
and counts that do not hang on the machine have the paper's form."""

from collections import Counter
from itertools import pairwise, permutations
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from godwit.baselines.hop_routing import HopRouting
from godwit.broker.bloom import BloomFilter
from godwit.filters.contexts import sender_part
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.reproduce import PAPERS, Claim, Setting, claims_of, figures
from godwit.reproduce.spcf import (
    bloom_rates,
    context_claims,
    fire_alarm,
    routing_cost,
    scale,
    strategy_figures,
    throughput,
)
from godwit.reproduce.spcf.forwarding import (
    CHUNK,
    TWIN,
    ForwardingPlan,
    Measured,
    balanced_orders,
    forward,
    measured,
    ratios,
    spread,
)
from godwit.reproduce.spcf.routing_cost import Mix, RoutingCost
from godwit.reproduce.spcf.routing_net import STRATEGIES, Sum, net_of, spanning_tree
from godwit.reproduce.spcf.scale import Scale
from godwit.reproduce.spcf.workload import Locality, Workload, WorkloadSize
from godwit.simulator.topologies import is_tree
from tests.seeds import slow

SMALL = WorkloadSize(brokers=8, degree=3, clients=24, subscriptions=4)
ALL = tuple(STRATEGIES)


# ---------------------------------------------------------------- the workload


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("locality", ["none", "contexts", "interests"])
def test_a_context_filter_matches_exactly_its_share_of_the_contexts(share: float, locality: Locality) -> None:
    workload = Workload(WorkloadSize(clients=20, subscriptions=5), 3, context=share, locality=locality)
    for _, _, filter in workload.subscriptions():
        asked = sender_part(filter)
        assert sum(asked.holds(context) for context in workload.contexts.values()) == 20 * share


def test_a_message_goes_to_the_share_of_clients_that_both_selectivities_make() -> None:
    for asks in ("subscriptions", "publications"):
        workload = Workload(WorkloadSize(subscriptions=5), 1, content=0.5, context=0.4, asks=asks)
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
        workload = Workload(WorkloadSize(), 1, locality=locality)
        homes = list(workload.homes.values())
        assert {homes.count(broker) for broker in workload.overlay.brokers} == {5}
        assert len({str(context) for context in workload.contexts.values()}) == 100


def test_with_locality_the_clients_of_a_range_of_contexts_are_at_few_brokers() -> None:
    def brokers(locality: Locality) -> float:
        workload = Workload(WorkloadSize(subscriptions=3), 1, context=0.1, locality=locality)
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
    overlay = Workload(WorkloadSize(), 1).overlay
    tree = spanning_tree(overlay)
    links = {frozenset((link.a, link.b)) for link in overlay.links}
    assert is_tree(tree)
    assert all(frozenset((link.a, link.b)) in links for link in tree.links)


@pytest.mark.parametrize("matcher", ["plain", slow("index")])
@pytest.mark.parametrize("asks", ["subscriptions", "publications", "both"])
def test_every_strategy_delivers_what_brute_force_delivers(asks: Any, matcher: str) -> None:
    workload = Workload(SMALL, 5, content=0.6, context=0.4, asks=asks)
    nets = {strategy: net_of(strategy, workload.overlay, matcher) for strategy in ALL}
    for net in nets.values():
        workload.deploy(net)
    sums = forward(nets, workload, workload.events(24), rounds=1)  # asserts it
    delivered, vain = (
        {name: sum(getattr(rounds[0], what) for rounds in of) for name, of in sums.items()}
        for what in ("delivered", "vain")
    )
    assert len(set(delivered.values())) == 1
    assert delivered["SPCF"] > 0
    if asks != "subscriptions":
        assert min(vain[name] for name in ("ASF", "GSF", "GSF at source")) > vain["SPCF"]
        assert vain["SPCF at source"] == 0


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
        plan = ForwardingPlan(
            size=SMALL,
            context=(0.125, 0.5, 1.0),
            messages=12,
            rounds=1,
            strategies=("GSF", "SPCF"),
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
    plan = ForwardingPlan(
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
    return routing_cost.routing_costs(SMALL, (0.05, 0.125, 0.25, 0.5, 1.0), ALL, 12, 1)


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
    rate = routing_cost.break_even(ours, theirs, replaces=0.1, what=0)
    assert rate == pytest.approx((2.0 + 0.1 * 10) / 50)
    assert routing_cost.per_message(ours, rate, 0.1, 0) == pytest.approx(routing_cost.per_message(theirs, rate, 0.1, 0))


def test_changes_of_context_cost_spcf_packets_and_gsf_none() -> None:
    found = {mix.strategy: mix for mix in routing_cost.mixes(SMALL, 0.25, ALL, "plain", 10, 1)}
    assert len({mix.delivered for mix in found.values()}) == 1
    for strategy in ("SPCF", "SPCF at source"):
        assert found[strategy].change[0] > 7 > found["GSF"].change[0] == 0
        assert found[strategy].publish[0] < found["GSF"].publish[0]


# ---------------------------------------------------------------- fires, and Bloom filters


@pytest.mark.parametrize("strategy", ALL)
def test_fires_make_the_same_devices_react_in_both_interfaces(strategy: str) -> None:
    building = fire_alarm.Building(2, sprinklers=20, signals=10, detectors=8)
    meant = fire_alarm.reactions(building)
    assert fire_alarm.run_fire(building, strategy, with_context=False) == meant
    assert fire_alarm.run_fire(building, strategy, with_context=True) == meant


def test_sprinklers_that_open_everywhere_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    building = fire_alarm.Building(2, sprinklers=20, signals=2, detectors=4)
    monkeypatch.setattr(fire_alarm, "_around", lambda device: TRUE)
    assert fire_alarm.run_fire(building, "SPCF", with_context=True) != fire_alarm.reactions(building)


def test_bloom_filters_lose_nobody_and_one_that_does_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bloom_rates.blooms(SMALL, 12, 1, lambda what, share: None)
    assert all(each.lost == each.wrong == each.missed == 0 for each in found)
    assert found[-1].vain > 0
    contains = BloomFilter.__contains__
    monkeypatch.setattr(BloomFilter, "__contains__", lambda self, one: hash(one) % 2 > 0 and contains(self, one))
    assert any(each.missed for each in bloom_rates.blooms(SMALL, 12, 1, lambda what, share: None))


def test_what_a_net_hands_to_a_client_that_is_not_meant_is_dropped_at_the_last_broker() -> None:
    workload = Workload(SMALL, 1, content=1.0)
    net = net_of("GSF", workload.overlay)
    workload.deploy(net)
    event = workload.event("c0", 1, Random(1))
    nobody = Workload(SMALL, 1, asks="publications", context=0.05).event("c0", 1, Random(1)).to
    assert len(net.publish(event)) == 24
    assert len(net.publish(Event(event.attributes, "c0", 2, to=nobody))) == 1


# ---------------------------------------------------------------- how S2 is decided


def _of_speed(strategy: str, context: float, us: tuple[float, ...], asked: float = 10.0) -> Measured:
    return Measured(
        context=context,
        strategy=strategy,
        per_s=1e6 / sorted(us)[len(us) // 2],
        busiest_per_s=1.0,
        parts_us=us,
        packet_us=1.0,
        packets=2.0,
        vain=0.0,
        asked=asked,
        delivered=1.0,
        entries=1.0,
    )


def _speeds(*spcf_us: float) -> list[Measured]:
    """ASF takes 40 µs for a message and GSF 20, SPCF what is said for each selectivity."""
    found: list[Measured] = []
    for context, us in zip((0.1, 0.8, 1.0), spcf_us, strict=False):
        found += [_of_speed("ASF", context, (40.0,)), _of_speed("GSF", context, (20.0,))]
        found.append(_of_speed("SPCF", context, (us,), asked=9.0))
    return found


def _against(found: list[Measured]) -> list[str]:
    return list(throughput._against(("publications", "content", "plain"), found, tolerance=0.03))


def test_spcf_that_is_ahead_or_as_fast_within_the_tolerance_bears_the_claim_out() -> None:
    assert _against(_speeds(5.0, 20.5)) == []


def test_spcf_that_is_behind_by_more_than_the_tolerance_is_seen_and_said_where() -> None:
    (why,) = _against(_speeds(5.0, 25.0))
    assert why == "BEHIND with filters in publications, content fixed, at 80%: 0.80 × GSF"


def test_a_selectivity_beyond_the_papers_is_not_judged() -> None:
    assert _against(_speeds(5.0, 20.0, 99.0)) == []


def test_a_lead_that_does_not_shrink_or_is_none_at_all_is_seen() -> None:
    assert any("DOES NOT SHRINK" in why for why in _against(_speeds(10.0, 5.0)))
    assert any("NO LEAD over GSF" in why for why in _against(_speeds(20.0, 20.4)))


@pytest.mark.parametrize(
    ("behind_us", "control", "is_undecided"), [(22.0, 0.14, True), (22.0, 0.03, False), (30.0, 0.14, False)]
)
def test_a_busy_machine_decides_nothing_that_is_within_its_noise(
    behind_us: float, control: float, is_undecided: bool
) -> None:
    found = {("publications", "content", "plain"): _speeds(5.0, behind_us)}
    assert bool(throughput._undecided(found, control)) == is_undecided


def test_what_is_said_of_leads_ends_where_the_verdict_ends() -> None:
    assert throughput._leads(_speeds(5.0, 20.0, 99.0)) == (
        "at 10% 8.00 × ASF and 4.00 × GSF, at 80% 2.00 × ASF and 1.00 × GSF"
    )


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_each_net_follows_each_other_net_equally_often(count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    orders = balanced_orders(names)
    assert all(sorted(order) == names for order in orders)
    pairs = Counter(pair for order in orders for pair in pairwise(order))
    assert len(pairs) == count * (count - 1)
    assert len(set(pairs.values())) == 1


def test_all_nets_have_a_turn_with_each_part_of_the_messages_in_balanced_orders() -> None:
    turns: list[str] = []

    class Noted:
        """In place of a net: it only notes that it has its turn."""

        def __init__(self, name: str) -> None:
            self.name, self.sum = name, Sum()

        def begin(self) -> None:
            pass

        def publish(self, event: Event) -> list[str]:
            turns.append(self.name)
            return []

    names = ["ASF", "GSF", "SPCF", TWIN]
    workload = SimpleNamespace(meant=lambda events: [set() for _ in events])
    events = [Event({"x": number}, "p", number) for number in range(3 * CHUNK)]
    forward({name: Noted(name) for name in names}, workload, events, rounds=4)  # type: ignore[arg-type, misc]
    turns = turns[len(names) * len(events) :: CHUNK]  # without the first time, in which nothing is measured
    orders = [turns[first : first + len(names)] for first in range(0, len(turns), len(names))]
    pairs = Counter(pair for order in orders for pair in pairwise(order))
    assert pairs == dict.fromkeys(permutations(names, 2), 3)


def test_the_spread_is_how_far_the_parts_of_the_rounds_lie_apart() -> None:
    found = [_of_speed("SPCF", 0.1, (10.0, 10.0, 10.0)), _of_speed("GSF", 0.1, (19.0, 20.0, 22.0))]
    assert spread(found, "SPCF", "GSF") == pytest.approx(0.3 / 2.0)


def test_changes_that_never_pay_are_said_so() -> None:
    assert context_claims._pays(0.0) == "never pays"
    assert context_claims._pays(0.01) == "pays up to one change of context in 100 messages"
    assert context_claims._pays(2.0) == "pays up to 2.0 changes of context for each message"
    assert context_claims._pays(float("inf")) == "always pays"


# ---------------------------------------------------------------- the claims

TINY = Scale(
    size=WorkloadSize(brokers=6, degree=3, clients=12, subscriptions=2),
    forwarding=(0.25, 0.8),
    routing=(0.1, 0.3, 1.0),
    messages=16,
    rounds=3,
    indexed=("content",),
    newcomers=4,
    changes=10,
    devices=(10, 5, 3),
)


DRAWN = ("lead_context_filters_in_publications", "changes_of_context_packets")  # the others only as far as the call


class Whole(NamedTuple):
    """All of it, tiny."""

    folder: Path
    claims: dict[str, Claim]
    figures: dict[str, dict[str, Any]]  # what each was to be drawn from
    told: list[tuple[str, float]]  # progress


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    found = Whole(tmp_path_factory.mktemp("spcf"), {}, {}, [])

    def lines(folder: Path, name: str, series: Any, **how: Any) -> None:
        found.figures[name] = {"series": series, **how}
        if name in DRAWN:
            figures.lines(folder, name, series, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "QUICK", TINY)
        patch.setattr(bloom_rates, "TESTS", 20)
        patch.setattr(routing_cost, "WARM", 20)
        patch.setattr(strategy_figures, "lines", lines)
        setting = Setting(folder=found.folder, progress=lambda what, share: found.told.append((what, share)))
        found.claims.update((claim.key, claim) for claim in claims_of("spcf", setting))
    return found


def test_every_claim_gives_one_row_and_all_that_was_measured_is_kept(whole: Whole) -> None:
    assert tuple(whole.claims) == PAPERS["spcf"][1]
    assert whole.claims["S1"].holds
    assert whole.claims["S3"].holds
    kept = msgspec.json.decode((whole.folder / "measured.json").read_bytes())
    judged = kept["forwarding, context filters in publications, content selectivity fixed, plain"]
    assert {each["strategy"] for each in judged} == {*ALL, TWIN}


def test_every_figure_says_which_run_it_is_of_and_draws_a_strategy_as_all_others_do(whole: Whole) -> None:
    kinds = {name.partition("_")[0] for name in whole.figures}
    assert kinds == {"fig3a", "fig3b", "fig4a", "fig4b", "fig5a", "fig5b", "lead", "changes"}
    for name, figure in whole.figures.items():
        assert "Quick run: 6 brokers, 12 clients, 24 subscriptions." in figure["caption"]
        assert figure["seed"] == 1
        assert set(figure["series"]) <= set(figure["looks"])
        for strategy in set(figure["series"]) & set(strategy_figures.LOOKS):
            assert figure["looks"][strategy].colour == strategy_figures.LOOKS[strategy].colour
        if "SPCF" in figure["series"]:
            assert list(figure["series"])[-1] == "SPCF", "on top"
            assert max(figure["looks"].values(), key=lambda look: look.width) == figure["looks"]["SPCF"]
        if name.startswith("changes"):
            assert "Computed from measured unit costs" in figure["caption"]
            assert all(look.marker is None for look in figure["looks"].values())
    assert {path.name for path in whole.folder.glob("*.*g")} == {
        f"{name}.{end}" for name in DRAWN for end in ("png", "svg")
    }


def test_the_row_of_s2_says_what_is_judged_and_what_becomes_of_it_with_an_index(whole: Whole) -> None:
    claim = whole.claims["S2"]
    assert "Judged without an index, from 25% to 80%, with a tolerance of" in claim.ours
    for other in ("ASF", "GSF"):
        assert f"× {other}" in claim.ours
        assert f"× {other}" in claim.note.partition("With our index the claim")[2]


def test_progress_goes_on_within_each_experiment(whole: Whole) -> None:
    fires = [share for what, share in whole.told if what.startswith("fires")]
    assert fires == sorted(set(fires))
    assert len(fires) == 2 * len(ALL)
    assert all(0 <= share <= 1 for _, share in whole.told)

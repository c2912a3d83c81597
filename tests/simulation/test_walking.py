"""[rebeca §3.3, §5] Walkers get what flooding would have brought them, epoch by epoch, and nothing else. (R4, R6)"""

from bisect import bisect_right
from random import Random
from typing import Any

import pytest

from godwit.mobility import possible_values
from godwit.mobility.told_follows import FollowGroup
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import (
    Clients,
    OverlaySpec,
    RoutingSection,
    Run,
    Scenario,
    Walking,
    check,
    with_changes,
)
from godwit.simulator.summary import Summary
from godwit.simulator.walking_clients import as_if_flooded, twin_of
from godwit.simulator.workloads import WorkloadSpec
from tests.seeds import few
from tests.simulation.scenarios import FAULTS, SETTLE, delivered_pairs, laws_broken

CITY = Scenario(
    name="a small city",
    overlay=OverlaySpec(kind="line", brokers=6, latency_ms=20.0),
    routing=RoutingSection(reduction="covering", advertisements="optional"),
    clients=Clients(
        publishers=3, subscribers=6, publish_per_s=40.0, walking=Walking(graph="line 12", dwell_s=0.5, linger_s=0.2)
    ),
    workload=WorkloadSpec(kind="places", topics=1, radius=0),
    run=Run(warmup_s=3.0, duration_s=8.0, settle_s=20.0),
)
GRAPH = [
    "overlay.kind=random_graph",
    "overlay.brokers=6",
    "overlay.degree=3",
    "routing={family='graph'}",
]


def ran(scenario: Scenario, seed: int) -> tuple[Simulation, Summary]:
    simulation = Simulation(scenario, seed)
    return simulation, simulation.run()


def drawn(seed: int) -> Scenario:
    """Some overlay, strategy and ground, and walkers from fast to slow."""
    rng = Random(f"walking/{seed}")
    overlay = rng.choice([["overlay.kind=random_tree", "overlay.brokers=7"], ["overlay.kind=line"], GRAPH])
    changes = [
        *overlay,
        f"overlay.latency_ms={rng.choice([5, 20, 60])}",
        f"overlay.client_latency_ms={rng.choice([1, 10, 40])}",
        f"clients.walking.graph={rng.choice(['line 30', 'grid 6x6', 'grid 9x4'])}",
        f"clients.walking.dwell_s={rng.choice([0.06, 0.11, 0.23, 0.5, 2.0])}",
        f"clients.walking.linger_s={rng.choice([0, 0.02, 0.3])}",
        f"workload.radius={rng.choice([0, 0, 1, 2])}",
        f"workload.topics={rng.choice([1, 2])}",
    ]
    if overlay is not GRAPH:
        changes += [
            f"routing.reduction={rng.choice(['simple', 'identity', 'covering', 'merging'])}",
            f"routing.advertisements={rng.choice(['required', 'optional', 'off'])}",
            f"routing.open_filters={rng.choice(['united', 'united', 'each'])}",
        ]
    return with_changes(CITY, changes)


@pytest.mark.parametrize("seed", few((1, 2, 0, *range(3, 12)), 2))
def test_walkers_get_what_flooding_would_have_brought_them(seed: int) -> None:
    scenario = drawn(seed)
    assert twin_of(scenario) is not None  # each run compares itself with it
    _, summary = ran(scenario, seed)
    assert summary.violations == ()
    assert summary.delivered > 20
    assert summary.walked > 10


def epochs(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[float, Any]]]:
    """By walker, from when on its border broker knows it at which place."""
    found: dict[str, list[tuple[float, Any]]] = {name: [] for name in simulation.subscribers}
    walking, hop_s = simulation.walking, simulation.scenario.overlay.client_latency_ms / 1_000
    assert walking is not None
    stand = walking.stand

    def noted(name: str, place: Any) -> None:
        found[name].append((simulation.world.now + hop_s, place))
        stand(name, place)

    monkeypatch.setattr(walking, "stand", noted)
    return found


@pytest.mark.parametrize("seed", few(range(2), 1))
@pytest.mark.parametrize("reduction", ["flooding", "covering"])
def test_each_epoch_has_its_events_reckoned_by_hand(reduction: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a twin: an event comes iff the walker is where it is when it arrives at the border. [rebeca Fig. 4]"""
    scenario = with_changes(CITY, [f"routing.reduction={reduction}", "clients.walking.dwell_s=0.2"])
    simulation = Simulation(scenario, seed)
    places = epochs(simulation, monkeypatch)
    assert simulation.run().violations == ()
    numbers = {broker: number for number, broker in enumerate(simulation.overlay.brokers)}
    client_s, link_s = scenario.overlay.client_latency_ms / 1_000, scenario.overlay.latency_ms / 1_000
    owed = set()
    for id, fact in simulation.ledger.facts.items():
        for name in simulation.subscribers:
            hops = abs(numbers[simulation.homes[id[0]]] - numbers[simulation.homes[name]])
            arrives_at = fact.published_at + client_s + hops * link_s
            known = places[name]
            at = known[bisect_right(known, arrives_at, key=lambda epoch: epoch[0]) - 1][1]
            if fact.event.attributes["location"] == at:
                owed.add((name, id))
    assert delivered_pairs(simulation) == owed


# ------------------------------------------------------------ faults that must be seen


def losses(scenario: Scenario, seeds: range) -> int:
    """How often flooding brings what the scenario does not."""
    count = 0
    for seed in seeds:
        run, _ = ran(scenario, seed)
        twin, _ = ran(with_changes(scenario, ["routing.reduction=flooding"]), seed)
        found = as_if_flooded(run, twin)
        assert all("with flooding only" in violation.text for violation in found)
        count += len(found)
    return count


def test_one_step_too_few_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = possible_values.steps
    monkeypatch.setattr(possible_values, "steps", lambda *args: bound(*args) - 1)
    _, summary = ran(with_changes(CITY, ["clients.publish_per_s=100"]), 1)
    assert laws_broken(summary)["as if flooded"] > 0


def test_a_crowd_of_which_one_place_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six walkers with one filter are told as one: no place of any of them may be missing."""
    now = FollowGroup._now

    def forgetful(group: FollowGroup) -> Any:
        values, times, possible = now(group)
        places = values.get("location")
        return ({"location": places[0]} if isinstance(places, tuple) else values), times, possible

    monkeypatch.setattr(FollowGroup, "_now", forgetful)
    _, summary = ran(with_changes(CITY, ["clients.publish_per_s=100", "run.duration_s=4"]), 1)
    assert laws_broken(summary)["as if flooded"] > 0


FAST = with_changes(
    CITY,
    [  # 200 ms from end to end and back, reckoned as 250: one step by the paper's rule, but two stays may end in it
        "clients.walking={graph='line 30', dwell_s=0.13}",
        "clients.publish_per_s=80",
        "run={warmup_s=2, duration_s=5, settle_s=10, leave=false}",
    ],
)


@pytest.mark.slow
def test_the_papers_rule_is_one_step_short_now_and_then() -> None:
    assert losses(with_changes(FAST, ["clients.walking.rule=paper"]), range(1)) > 0
    _, summary = ran(FAST, 0)
    assert summary.violations == ()


def test_who_breaks_the_bound_may_miss_events_and_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is "just too fast for the infrastructure" [rebeca §6] starves; laws that others rely on hold."""
    simulation = Simulation(FAST, 3)
    assert simulation.walking is not None
    stand, places = simulation.walking.stand, simulation.walking.graph.places
    jumps = Random(3)

    def jump(name: str, place: Any) -> None:
        stand(name, jumps.choice(places) if name in ("s0", "s1", "s2") else place)

    monkeypatch.setattr(simulation.walking, "stand", jump)
    monkeypatch.setattr("godwit.simulator.run.twin_of", lambda _: None)
    assert simulation.run().violations == ()
    jumps.seed(3)
    twin = Simulation(with_changes(FAST, ["routing.reduction=flooding"]), 3)
    assert twin.walking is not None
    stand = twin.walking.stand
    monkeypatch.setattr(twin.walking, "stand", jump)
    twin.run()
    missed = {violation.node for violation in as_if_flooded(simulation, twin)}
    assert missed
    assert missed <= {"s0", "s1", "s2"}


# ------------------------------------------------------------ brokers that find out, faults, physical moves


def test_brokers_find_out_how_long_walkers_stay() -> None:
    simulation, summary = ran(with_changes(CITY, ["clients.walking.declared=false", "run.duration_s=6"]), 2)
    assert summary.violations == ()
    sessions = [session for name in simulation.overlay.brokers for session in simulation.broker(name).sessions]
    assert sessions == []  # everyone has left
    watched, _ = ran(with_changes(CITY, ["clients.walking.declared=false", "run.leave=false"]), 2)
    dwells = [session.dwell_s for name in watched.overlay.brokers for session in watched.broker(name).sessions]
    assert all(dwell_s is None or 0.2 < dwell_s <= 0.7 for dwell_s in dwells)
    assert any(dwell_s is not None for dwell_s in dwells if dwells)


@pytest.mark.parametrize("fault", FAULTS)
def test_laws_hold_for_walkers_under_every_fault(fault: str) -> None:
    scenario = with_changes(CITY, [*FAULTS[fault], *SETTLE, "clients.walking.dwell_s=1", "clients.publish_per_s=10"])
    assert twin_of(scenario) is None
    _, summary = ran(scenario, 5)
    assert summary.violations == ()
    assert summary.delivered > 0


@pytest.mark.parametrize("reduction", ["flooding", "covering", "merging"])
@pytest.mark.parametrize("seed", few((1, 2), 1))
def test_walkers_that_roam_lose_nothing_but_what_a_changed_filter_may(reduction: str, seed: int) -> None:
    """Logical and physical mobility at once. (R6)"""
    scenario = with_changes(
        CITY,
        [
            f"routing.reduction={reduction}",
            "clients.walking={graph='line 6', dwell_s=1, linger_s=4}",
            "clients.roaming={who='all', per_s=2, away_s=0.4}",
            "clients.publish_per_s=15",
            *SETTLE,
        ],
    )
    check(scenario)
    _, summary = ran(scenario, seed)
    assert summary.violations == ()
    assert summary.moves > 8
    assert summary.walked > 3
    assert summary.owed > 0


def test_what_flooding_alone_brings_a_walker_that_roams_is_what_came_just_after_it_turned_up() -> None:
    """A change of state that its old broker has not heard of, or a step at once after turning up, is too fast."""
    scenario = with_changes(
        CITY,
        [
            "clients.walking={graph='line 12', dwell_s=0.5, linger_s=0.5}",
            "clients.roaming={who='all', per_s=3, away_s=0.3}",
            "clients.publish_per_s=60",
            *SETTLE,
        ],
    )
    simulation, _ = ran(scenario, 1)
    arrivals: dict[str, list[float]] = {}
    twin = Simulation(with_changes(scenario, ["routing.reduction=flooding"]), 1)
    twin.population.on_return.append(lambda name: arrivals.setdefault(name, []).append(twin.world.now))
    twin.run()
    differences = as_if_flooded(simulation, twin)
    assert len(differences) <= 3
    for violation in differences:
        assert "with flooding only" in violation.text
        assert any(0 <= violation.at - at < 0.5 for at in arrivals[violation.node])

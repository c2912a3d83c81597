"""Advertisements on overlays with cycles: laws under every fault, publishers in every mode, and planted faults."""

from collections.abc import Callable

import pytest

from godwit.broker.advertised import AdvertisementForwarding
from godwit.simulator.run import Simulation, run
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.snapshot_checker import SnapshotChecker
from tests.seeds import diagonal, few, slow
from tests.simulation.scenarios import (
    ALL_FAULTS,
    AWAY,
    CHURN,
    FAULTS,
    GRAPH,
    SETTLE,
    Pairs,
    delivered_pairs,
    laws_broken,
)

MODES = ("standard", "prefetching", "proxy", "delayed", "prefetching+delayed")
CITY = ["workload={kind='publications'}"]  # each publisher advertises what nobody else does
PROBES = ["clients.probes={count=5, first_ms=1, every_ms=5}"]


def advertised(*changes: str, advertisements: str = "required") -> Scenario:
    routing = f"routing={{family='graph', strategy='advertised', advertisements='{advertisements}'}}"
    return with_changes(GRAPH, [routing, *changes])


def roaming(mode: str, who: str = "all") -> list[str]:
    publishers = "{delay_s=2, proxies=2, prefetch_s=5}"
    return [
        f"clients.roaming={{who='{who}', per_s=1.2, away_s=0.6, publisher_mode='{mode}', publishers={publishers}}}",
        *SETTLE,
    ]


@pytest.mark.parametrize("advertisements", ["required", slow("optional")])
@pytest.mark.parametrize(
    "fault", [slow(name) if name not in ("link_break", "crash_diskless") else name for name in FAULTS]
)
def test_nothing_is_lost_or_doubled_under_each_fault(fault: str, advertisements: str) -> None:
    summary = run(advertised(*CHURN, *AWAY, *SETTLE, *FAULTS[fault], advertisements=advertisements), 1)
    assert summary.violations == ()
    assert summary.entries_left == 0
    assert summary.owed > 50


@pytest.mark.parametrize("seed", few(range(1, 5), 1))
def test_nothing_is_lost_or_doubled_under_all_faults_at_once(seed: int) -> None:
    assert run(advertised(*CHURN, *AWAY, *SETTLE, *ALL_FAULTS), seed).violations == ()


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize(("mode", "fault"), diagonal(("relocate", *MODES), {"": [], "link_break": [], "crash": []}))
def test_publishers_move_in_every_mode_while_subscribers_relocate(mode: str, fault: str, seed: int) -> None:
    summary = run(advertised(*roaming(mode), *FAULTS.get(fault, [])), seed)
    assert summary.violations == ()
    assert summary.entries_left == 0
    assert summary.moves > 5
    assert summary.owed > 100


def delivered_by_each(*changes: str) -> tuple[Pairs, Pairs]:
    """Who was given what by advertisements, and by flooding subscriptions [pubmob §3.1]."""
    found = []
    for scenario in (advertised(*changes), with_changes(GRAPH, changes)):
        simulation = Simulation(scenario, 3)
        assert simulation.run().violations == ()
        found.append(delivered_pairs(simulation))
    return found[0], found[1]


def test_it_delivers_what_subscription_flooding_delivers() -> None:
    delivered, flooded = delivered_by_each(*CITY, *AWAY)
    assert delivered == flooded
    assert len(delivered) > 50


def test_what_a_publisher_says_right_after_it_has_moved_is_delivered_as_by_subscription_flooding() -> None:
    """No gap, unlike in a tree [pubmob §4.3 Fig. 5]: until brokers have answered, events go to them too."""
    delivered, flooded = delivered_by_each(*CITY, *PROBES, *roaming("standard", "publishers"))
    assert delivered == flooded
    assert len(delivered) > 50


def test_without_waiting_for_answers_there_is_the_papers_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    awaits_nobody(monkeypatch)
    delivered, flooded = delivered_by_each(*CITY, *PROBES, *roaming("standard", "publishers"))
    assert delivered < flooded


def test_a_subscription_is_told_to_fewer_brokers_than_in_a_flood() -> None:
    advertising, flooding = (run(each, 3).packets for each in (advertised(*CITY), with_changes(GRAPH, CITY)))
    assert advertising["Subscribe"] < flooding["Subscribe"]


def test_a_restored_broker_answers_alike() -> None:
    simulation = Simulation(advertised(*CHURN, *SETTLE, *FAULTS["crash"], *roaming("prefetching+delayed")), 2)
    checker = SnapshotChecker(simulation.world, 2, 60)
    assert simulation.run().violations == ()
    assert checker.differences == []
    assert checker.taken > 10


# ---------------------------------------------------------------- planted faults


def awaits_nobody(patch: pytest.MonkeyPatch) -> None:
    """An advertisement counts as answered at once."""
    real = AdvertisementForwarding.on_advertise

    def on_advertise(self, id, filter):
        answers = real(self, id, filter)
        for own in self.own.values():
            own.awaited.clear()
        return answers

    patch.setattr(AdvertisementForwarding, "on_advertise", on_advertise)


def attracts_nothing(patch: pytest.MonkeyPatch) -> None:
    """Subscriptions do not come back towards an advertisement, and yet all are said to be there."""
    patch.setattr("godwit.broker.advertised.intersects", lambda f, g, effort: False)


def never_takes_back(patch: pytest.MonkeyPatch) -> None:
    """What an advertisement had attracted stays where it is, and no broker knows of it any more."""
    real = AdvertisementForwarding._remove

    def remove(self, source, other, numbers):
        real(self, source, other, numbers)
        return []

    patch.setattr(AdvertisementForwarding, "_remove", remove)


def forgets_whom_it_told(patch: pytest.MonkeyPatch) -> None:
    """A subscription that ends is taken back from nobody who advertises something else now."""
    patch.setattr(
        AdvertisementForwarding, "_leave_class", lambda self, id: self.classes[self.class_of.pop(id)].ids.pop(id) or []
    )


@pytest.mark.parametrize("plant", [attracts_nothing, never_takes_back, forgets_whom_it_told])
def test_a_planted_fault_is_seen(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    runs = (run(advertised(*CITY, *CHURN, *SETTLE, *roaming("relocate")), seed) for seed in range(1, 6))
    assert any(laws_broken(summary) or summary.entries_left for summary in runs)

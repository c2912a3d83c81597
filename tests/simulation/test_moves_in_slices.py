"""Clients move under all faults while what routing holds for them changes a slice at a time.

Large filters are placed and withdrawn in slices. Those of scenarios are small, so slices are made small here: each has
one entry. Everything may then happen between two entries of a client: it goes, comes back, moves on, its session comes,
links are cut, brokers crash and lose their disks.
"""

from collections import Counter
from typing import Any

import pytest

from godwit.broker import withdrawals
from godwit.broker.withdrawals import Withdrawals
from godwit.mobility import arrival_entries, session_entries
from godwit.mobility.arrival import Arrival
from godwit.mobility.arrival_entries import ArrivalEntries
from godwit.mobility.relocation import Relocation
from godwit.mobility.session_entries import SessionEntries
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.snapshot_checker import SnapshotChecker
from tests.seeds import few
from tests.simulation.scenarios import ALL_FAULTS, AWAY, CHURN, GRAPH, TREE, outcome

MANY = ["clients.subscriptions=5", "run.settle_s=180"]
ROAMING = ["clients.roaming={who='all', per_s=2, away_s=0.5}", *MANY]
OFTEN = ["clients.roaming={who='all', per_s=20, away_s=0}", "overlay.latency_ms=40", *MANY]
FAULTS = [*ALL_FAULTS, *CHURN, *AWAY]
KEPT = [change for change in FAULTS if "diskless" not in change]  # faults that disks survive
MODES = ("ask", "junction", "named", "presubscribe")

CARRIED = [*ROAMING, "clients.roaming.who=subscribers", "clients.roaming.subscriber_mode=carry"]
CARRIED_OFTEN = [*OFTEN, *CARRIED[-2:]]

FAMILIES = {
    "covering": with_changes(TREE, ROAMING),
    "simple, required": with_changes(TREE, [*ROAMING, "routing.reduction=simple", "routing.advertisements=required"]),
    "merging": with_changes(TREE, [*ROAMING, "routing.reduction=merging", "routing.advertisements=optional"]),
    "graph": with_changes(GRAPH, ROAMING),
}


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Each slice has one entry. How often something waited for another slice."""
    for module in (arrival_entries, withdrawals):
        monkeypatch.setattr(module, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(arrival_entries, "DIFFERENCES_MAX", 0)
    counts: Counter[str] = Counter()
    for name in ("ask_later", "finish_later"):
        monkeypatch.setattr(Arrival, name, counting(counts, name, getattr(Arrival, name)))
    monkeypatch.setattr(SessionEntries, "_on_due", counting(counts, "begun", SessionEntries._on_due))
    monkeypatch.setattr(Withdrawals, "on_due", counting(counts, "withdrawn", Withdrawals.on_due))
    return counts


def counting(counts: Counter[str], name: str, call: Any) -> Any:
    def counted(*arguments: Any) -> Any:
        counts[name] += 1
        return call(*arguments)

    return counted


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_law_holds_under_all_faults_while_entries_change_one_by_one(
    family: str, seed: int, slices: Counter[str]
) -> None:
    assert outcome(with_changes(FAMILIES[family], FAULTS), seed).violations == ()
    assert slices["ask_later"] > 5
    assert slices["withdrawn"] > 5


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize("scenario", [with_changes(TREE, OFTEN), with_changes(GRAPH, OFTEN)], ids=["tree", "graph"])
def test_clients_that_move_on_between_two_entries_miss_nothing(
    scenario: Scenario, seed: int, slices: Counter[str]
) -> None:
    summary = outcome(scenario, seed)
    assert summary.violations == ()
    assert (summary.lost, summary.excused, summary.duplicated, summary.out_of_order) == (0, 0, 0, 0)
    assert summary.receipts["sessions_lost"] == 0
    assert summary.moves > 100
    assert slices["ask_later"] > 50


@pytest.mark.parametrize("seed", few((1, 2), 1))
@pytest.mark.parametrize("mode", MODES)
def test_the_law_holds_in_every_mode_that_brings_entries(mode: str, seed: int) -> None:
    modes = [
        f"clients.roaming.{who}_mode={mode}" for who in ("subscriber", "publisher") if mode != "ask" or who[0] == "s"
    ]
    who = ["clients.roaming.who=subscribers"] if mode == "ask" else []
    assert outcome(with_changes(TREE, [*ROAMING, *modes, *who, *KEPT]), seed).violations == ()


def test_brokers_that_are_restored_while_sessions_begin_in_slices_answer_alike() -> None:
    simulation = Simulation(with_changes(TREE, [*CARRIED_OFTEN, *KEPT]), 4)
    waiting = 0

    def look(state: Any) -> Any:
        nonlocal waiting
        waiting += bool(state.components["session entries"].unplaced)
        return state

    checker = SnapshotChecker(simulation.world, 4, 10, spoil=look)
    assert simulation.run().violations == ()
    assert checker.differences == []
    assert waiting > 0


@pytest.mark.parametrize("family", ["covering", "graph"])
def test_brokers_that_are_restored_between_two_slices_answer_alike(family: str) -> None:
    simulation = Simulation(with_changes(FAMILIES[family], FAULTS), 4)
    waiting: Counter[str] = Counter()

    def look(state: Any) -> Any:
        arrivals = state.components["relocation"].arrivals.values()
        waiting["unplaced"] += any(each.unplaced for each in arrivals)
        waiting["withdrawals"] += bool(state.withdrawals)
        return state

    checker = SnapshotChecker(simulation.world, 4, 10, spoil=look)
    assert simulation.run().violations == ()
    assert checker.differences == []
    assert min(waiting["unplaced"], waiting["withdrawals"]) > 0, waiting


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize("changes", [[*CARRIED, *KEPT], CARRIED_OFTEN], ids=["faults", "often"])
def test_clients_that_carry_their_subscriptions_miss_nothing_while_these_are_placed_one_by_one(
    changes: list[str], seed: int, slices: Counter[str]
) -> None:
    summary = outcome(with_changes(TREE, changes), seed)
    assert summary.violations == ()
    assert (summary.lost, summary.duplicated) == (0, 0)
    assert slices["begun"] > 10


def test_a_collecting_question_that_does_not_wait_for_the_last_entry_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionEntries, "is_waiting", lambda self, client: False)
    monkeypatch.setattr(session_entries, "PAUSE_S", 2.0)
    assert outcome(with_changes(TREE, CARRIED_OFTEN), 1).violations != ()


def test_a_question_that_does_not_wait_for_the_last_entry_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Relocation.ask

    def asks_at_once(self: Relocation, arrival: Arrival, now: float) -> Any:
        unplaced, arrival.unplaced = arrival.unplaced, {}
        effects = ask(self, arrival, now)
        arrival.unplaced = unplaced
        return effects

    monkeypatch.setattr(Relocation, "ask", asks_at_once)
    monkeypatch.setattr(arrival_entries, "PAUSE_S", 2.0)
    assert outcome(with_changes(TREE, OFTEN), 1).violations != ()


def test_a_withdrawal_of_what_its_client_has_again_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Withdrawals, "keep", lambda self, entries: None)
    monkeypatch.setattr(Withdrawals, "_is_held", lambda self, kind, id: False)
    monkeypatch.setattr(withdrawals, "PAUSE_S", 0.1)
    assert outcome(with_changes(TREE, OFTEN), 1).violations != ()


def test_entries_that_are_forgotten_and_not_withdrawn_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrivalEntries, "forget", lambda self, arrival, effects, now: None)
    assert outcome(with_changes(TREE, OFTEN), 2).violations != ()

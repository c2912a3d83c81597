"""Disks that are rolled back: what is lost is within what was rolled back, and the network works again afterwards."""

import pytest

from godwit.broker.links import Link
from godwit.broker.lost_tail import LostTail
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from tests.simulation.scenarios import GRAPH, SETTLE, TREE, delivered_pairs, owed_pairs
from tests.simulation.test_every_fault import Records

BUSY = ["clients.publish_per_s=30", "overlay.latency_ms=60", "run.leave=false", *SETTLE]
ROLLED_BACK = ["faults.disk_rolled_back={per_s=0.3, lasts_s=0.7}", "faults.rolled_back_inputs=30"]
SCENARIOS = {
    "tree": with_changes(TREE, [*BUSY, *ROLLED_BACK]),
    "graph": with_changes(GRAPH, [*BUSY, *ROLLED_BACK]),
}


def told(simulation: Simulation) -> set[str]:
    """The clients that have a receipt which speaks of a loss, or that get one with their next greeting."""
    found = set()
    for name in simulation.homes:
        receipts = simulation.client(name).receipts
        if any(receipt.session_lost or receipt.lost_since is not None for receipt in receipts):
            found.add(name)
    for _, broker in simulation.network.brokers():
        losses = broker.sessions.losses
        found |= {each.client for each in broker.sessions if losses.since(each.losses_heard) is not None}
    return found


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_what_is_lost_was_rolled_back_and_everybody_is_told(scenario: Scenario) -> None:
    begun: set[str] = set()
    excused = 0
    for seed in (2, 4, 8, 12):
        records = Records()
        simulation = Simulation(scenario, seed, records)
        summary = simulation.run()
        assert summary.violations == ()
        died = {(record.publisher, record.sequence) for _, record in records.of_kind("died")}
        missing = owed_pairs(simulation) - delivered_pairs(simulation)
        assert {id for _, id in missing} <= died
        lives = [(node, record) for node, record in records.of_kind("tail_lost")]
        begun |= {record.detail.partition(" ")[2].partition(" ")[0] for _, record in lives}
        assert {client for client, _ in missing} <= told(simulation)
        assert lives or not told(simulation)
        excused += summary.excused
    assert begun == {"the", "what"}  # by the disk, and by what a neighbour knows
    assert excused > 0


def test_a_broker_that_does_not_see_that_others_know_more_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "knows_more", lambda self, hello: False)
    laws = {violation.law for seed in (2, 4, 8) for violation in Simulation(SCENARIOS["tree"], seed).run().violations}
    assert "nobody at fault" in laws


def test_a_loss_that_brokers_do_not_hear_of_leaves_clients_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LostTail, "on_fact", lambda self, fact, effects, now: None)
    untold = 0
    for seed in (2, 4, 8, 12):
        simulation = Simulation(SCENARIOS["tree"], seed)
        simulation.run()
        missing = owed_pairs(simulation) - delivered_pairs(simulation)
        untold += len({client for client, _ in missing} - told(simulation))
    assert untold > 0

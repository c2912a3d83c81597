"""Disks that are rolled back: what is lost is within what was rolled back, and the network works again afterwards."""

import pytest

from godwit.broker.links import Link
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import with_changes
from tests.seeds import slow
from tests.simulation.scenarios import GRAPH, SETTLE, TREE, delivered_pairs, owed_pairs
from tests.simulation.test_every_fault import Records

BUSY = ["clients.publish_per_s=30", "overlay.latency_ms=60", *SETTLE]
ROLLED_BACK = ["faults.disk_rolled_back={per_s=0.3, lasts_s=0.7}", "faults.rolled_back_inputs=30"]
SCENARIOS = {
    "tree": with_changes(TREE, [*BUSY, *ROLLED_BACK]),
    "graph": with_changes(GRAPH, [*BUSY, *ROLLED_BACK]),
}


@pytest.mark.parametrize("name", ["tree", slow("graph")])
def test_what_is_lost_was_rolled_back_and_everybody_is_told(name: str) -> None:
    begun: set[str] = set()
    excused = 0
    for seed in (2, 4, 8, 12):
        records = Records()
        simulation = Simulation(SCENARIOS[name], seed, records)
        summary = simulation.run()
        assert summary.violations == ()
        died = {(record.publisher, record.sequence) for _, record in records.of_kind("died")}
        missing = owed_pairs(simulation) - delivered_pairs(simulation)
        assert {id for _, id in missing} <= died
        lives = [(node, record) for node, record in records.of_kind("tail_lost")]
        begun |= {record.detail.partition(" ")[2].partition(" ")[0] for _, record in lives}
        told = {name for name in simulation.homes if simulation.client(name).receipts[-1].lost_since is not None}
        assert told <= {name for name, home in simulation.homes.items() if home in {node for node, _ in lives}}
        excused += summary.excused
    assert begun == {"the", "what"}  # by the disk, and by what a neighbour knows
    assert excused > 0


def test_a_broker_that_does_not_see_that_others_know_more_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "knows_more", lambda self, hello: False)
    laws = {violation.law for seed in (2, 4) for violation in Simulation(SCENARIOS["tree"], seed).run().violations}
    assert "nobody at fault" in laws

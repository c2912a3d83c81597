"""Damaged disks: each damage is found and answered as documented, and the network works again afterwards."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from godwit.codec import batch_chains, journal_losses
from godwit.simulator import damaged_disks, random_scenarios
from godwit.simulator.damaged_disks import LAW
from godwit.simulator.random_scenarios import drawn
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from tests.seeds import slow
from tests.simulation.rightless import without_rights
from tests.simulation.scenarios import GRAPH, SETTLE, TREE, delivered_pairs, laws_broken, owed_pairs
from tests.simulation.test_every_fault import Records

BUSY = ["clients.publish_per_s=15", "overlay.latency_ms=60", *SETTLE]
DAMAGED = ["faults.disk_torn={per_s=0.3, lasts_s=0.7}", "faults.disk_flipped={per_s=0.3, lasts_s=0.7}"]
SCENARIOS = {
    f"{family}, {durability}": with_changes(base, [*BUSY, *DAMAGED, f"faults.durability={durability}"])
    for family, base in (("tree", TREE), ("graph", GRAPH))
    for durability in ("relaxed", "full")
}
SEEDS = (1, 2)


@pytest.mark.parametrize("name", ["tree, relaxed", "graph, full", slow("tree, full"), slow("graph, relaxed")])
def test_what_is_lost_was_on_a_damaged_disk_and_damage_is_answered_by_the_rules(name: str) -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        records = Records()
        simulation = Simulation(SCENARIOS[name], seed, records)
        summary = simulation.run()
        assert summary.violations == (), seed
        died = {(record.publisher, record.sequence) for _, record in records.of_kind("died")}
        assert {id for _, id in owed_pairs(simulation) - delivered_pairs(simulation)} <= died
        kinds.update(record.kind for _, _, record in records.rows)
        kinds.update(summary.faults)
    assert min(kinds["disk_torn"], kinds["disk_flipped"], kinds["tail_lost"]) > 0
    assert kinds["start_refused"] == kinds["loss_accepted"]
    assert kinds["start_refused"] > 0 or name.endswith("relaxed")  # there a lost tail is no reason


@pytest.mark.slow
def test_with_full_no_broker_goes_on_by_itself_after_a_loss() -> None:
    found = {}
    for durability in ("relaxed", "full"):
        records = Records()
        Simulation(SCENARIOS[f"tree, {durability}"], 1, records).run()
        found[durability] = Counter(record.kind for _, _, record in records.rows)
    assert found["full"]["start_refused"] > found["relaxed"]["start_refused"]


# ---------------------------------------------------------------- planted faults


def broken() -> Counter[str]:
    """Which laws broke, over some runs."""
    return sum((laws_broken(Simulation(SCENARIOS["tree, relaxed"], seed).run()) for seed in SEEDS), Counter())


def test_a_disk_that_does_not_say_that_its_end_is_missing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_disks, "loss_of", lambda content, mark, has_mark_file: None)
    assert LAW in broken()


def test_batches_whose_chain_nobody_follows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(rows: Any, after: int, chain: bytes) -> Iterator[Any]:
        yield from rows

    inputs, _ = _some_inputs()
    image = damaged_disks.image_of(inputs, None, 1, 5)
    row = bytearray(image.database[7])
    row[-25] ^= 1  # in the data, before the chain
    flipped = image._replace(database=(*image.database[:7], bytes(row), *image.database[8:]))
    found = damaged_disks.opened(flipped)
    assert found.loss is not None
    assert (found.loss.kept, damaged_disks.untruth(image, found)) == (7, "")
    monkeypatch.setattr(journal_losses, "verified", trusting)
    monkeypatch.setattr(damaged_disks, "inputs_of", lambda data: iter(()))  # some cannot be read any more
    found = damaged_disks.opened(flipped)
    assert damaged_disks.untruth(image, found) == "batch 8 is not as it was written, and the start uses it"


def test_a_mark_without_a_second_slot_is_no_mark_when_its_write_is_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, _ = _some_inputs()
    image = damaged_disks.image_of(inputs, None, 1, 5)
    torn = image._replace(mark=image.mark[: batch_chains.SLOT_BYTES // 64].ljust(2 * batch_chains.SLOT_BYTES, b"\0"))
    found = damaged_disks.opened(torn)
    assert found.loss is not None
    assert journal_losses.needs_operator(found.loss, "relaxed")
    assert damaged_disks.untruth(image, found) == ""


def _some_inputs() -> tuple[Any, Any]:
    simulation = Simulation(TREE, 1)
    for node in simulation.world.nodes.values():
        node.journaled = node.is_broker
    simulation.plan()
    simulation.world.run(5.0)
    return simulation.world.disk("b0")


def test_a_disk_that_is_not_damaged_opens_with_all_its_inputs_as_they_were() -> None:
    inputs, _ = _some_inputs()
    image = damaged_disks.image_of(inputs, None, 1, 5)
    found = damaged_disks.opened(image)
    assert found.loss is None
    assert list(found.inputs) == inputs
    assert len(inputs) > 20
    snapshot = damaged_disks.image_of(inputs, (10, b"machine"), 1, 5)
    assert list(damaged_disks.opened(snapshot).inputs) == inputs[10:]
    assert damaged_disks.opened(snapshot).loss is None


def test_a_snapshot_that_is_not_as_it_was_written_leaves_nothing() -> None:
    inputs, _ = _some_inputs()
    image = damaged_disks.image_of(inputs, (10, b"machine"), 1, 5)
    found = damaged_disks.opened(image._replace(snapshot=image.snapshot.replace(b"machine", b"machina")))
    assert found.loss is not None
    assert found.loss.kept == -1
    assert journal_losses.needs_operator(found.loss, "relaxed")


# ---------------------------------------------------------------- in the swarm


def test_a_swarm_draws_damaged_disks_and_leaves_all_else_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(60)
    before = {number: drawn(7, number) for number in numbers}
    on = [number for number in numbers if _damages(before[number][0])]
    assert 8 <= len(on) <= 35
    monkeypatch.setattr(random_scenarios, "DAMAGE_PROBABILITY", 0.0)
    for number in set(numbers) - set(on):
        assert drawn(7, number) == before[number]


def _damages(scenario: Scenario) -> bool:
    return scenario.faults.disk_torn is not None or scenario.faults.disk_flipped is not None


def test_a_swarm_catches_a_disk_that_does_not_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_disks, "loss_of", lambda content, mark, has_mark_file: None)
    on = [drawn(7, number) for number in range(60)]
    runs = [(without_rights(scenario), seed) for scenario, seed in on if _damages(scenario)]
    assert any(LAW in laws_broken(Simulation(scenario, seed).run()) for scenario, seed in runs)

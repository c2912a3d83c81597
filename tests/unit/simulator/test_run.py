"""A run is composed of the parts that its scenario asks for, and of no others."""

import pytest

from godwit.simulator.run import Simulation
from godwit.simulator.scenario import OverlaySpec, Scenario, with_changes

PLAIN = Scenario(name="plain", overlay=OverlaySpec(kind="line", brokers=3))

SECTIONS = {
    "disconnecting": ["clients.disconnections.per_s=1"],
    "roaming": ["clients.roaming.per_s=1"],
    "walking": ["clients.walking.graph=line 4", "workload.kind=places"],
    "churn": ["churn.subscribe_per_s=1"],
    "contexts": ["contexts.attributes=1"],
    "fire": ["fire.floors=1", "fire.fires=1"],
    "faults": ["faults.link_loss=0.1"],
}
"""By part, what switches it on."""


def optional_parts(simulation: Simulation) -> list[str]:
    return [name for name in SECTIONS if getattr(simulation, name) is not None]


def test_a_plain_run_has_clients_with_a_workload_and_no_other_part() -> None:
    simulation = Simulation(PLAIN, 1)
    assert optional_parts(simulation) == []
    assert simulation.parts == [simulation.workload_clients]


@pytest.mark.parametrize("part", SECTIONS)
def test_a_section_adds_its_part_and_no_other(part: str) -> None:
    simulation = Simulation(with_changes(PLAIN, SECTIONS[part]), 1)
    assert optional_parts(simulation) == [part]
    assert simulation.parts == [simulation.workload_clients, getattr(simulation, part)]


def test_all_parts_work_together() -> None:
    every = [change for changes in SECTIONS.values() for change in changes]
    simulation = Simulation(with_changes(PLAIN, every), 1)
    assert optional_parts(simulation) == list(SECTIONS)
    assert simulation.run().violations == ()

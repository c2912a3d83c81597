"""Random streams: each kind of draw has its own, so that one draw more of one kind changes nothing about the others."""

from random import Random

import pytest
from msgspec import structs

from godwit.simulator import random_scenarios
from godwit.simulator.fault_plan import drawn_faults
from godwit.simulator.random_scenarios import drawn
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import FAULT_KINDS, Faults, Rate, with_changes
from godwit.simulator.topologies import line
from godwit.trace import Record
from tests.simulation.scenarios import ALL_FAULTS, AWAY, CHURN, TREE

BUSY = with_changes(
    TREE,
    [
        *ALL_FAULTS,
        *CHURN,
        *AWAY,
        "clients.roaming={per_s=1}",
        "contexts={attributes=2, values=5, sender_share=0.5, to_share=0.3, changes_per_s=3}",
    ],
)


class Rows:
    def __init__(self) -> None:
        self.rows: list[tuple[float, str, Record]] = []

    def write(self, at: float, node: str, record: Record) -> None:
        self.rows.append((at, node, record))


def test_a_stream_depends_on_its_name_and_on_nothing_else_that_is_drawn() -> None:
    one, other = RandomStreams(1), RandomStreams(1)
    first = [one.stream("a").random() for _ in range(5)]
    for _ in range(3):
        other.stream("b").random()
        other.stream("a", "x").random()
    assert [other.stream("a").random() for _ in range(5)] == first
    assert first == [rng.random() for rng in [Random("1/a")] for _ in range(5)]
    assert one.stream("a", "x").random() == Random("1/a/x").random()
    assert one.single_use("a", "x").random() == one.single_use("a", "x").random() == Random("1/a/x").random()
    assert RandomStreams(2).stream("a").random() != first[0]


def test_a_new_kind_of_draw_changes_nothing_in_a_run() -> None:
    plain, more = Rows(), Rows()
    Simulation(BUSY, 1, plain).run()
    simulation, extra = Simulation(BUSY, 1, more), []

    def draw(name: str) -> None:
        extra.append(simulation.streams.stream("a new kind of draw").random())
        extra.append(simulation.streams.stream("a new kind of draw", name).random())

    simulation.population.before_connecting.insert(0, draw)
    simulation.population.on_connected.insert(0, draw)
    simulation.recorder.listen(["published", "crashed", "subscribed"], lambda node, record, now: draw(node))
    simulation.run()
    assert len(extra) > 300
    assert more.rows == plain.rows


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_kind_of_fault_more_changes_no_fault_of_the_others(kind: str) -> None:
    every = structs.replace(TREE, faults=Faults(**dict.fromkeys(FAULT_KINDS, Rate(per_s=2.0))))  # type: ignore[arg-type]
    fewer = structs.replace(every, faults=structs.replace(every.faults, **{kind: None}))
    overlay = line(5)
    others = [fault for fault in drawn_faults(every, overlay, RandomStreams(1)) if fault.kind != kind]
    assert drawn_faults(fewer, overlay, RandomStreams(1)) == others
    assert len({fault.kind for fault in others}) == len(FAULT_KINDS) - 1


def test_a_key_that_is_drawn_besides_changes_no_other_key_of_the_swarm(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [drawn(7, number) for number in range(40)]
    intact = random_scenarios._faults

    def with_another_draw(key: random_scenarios.Key) -> Faults:
        key("a new kind of fault").random()
        return intact(key)

    monkeypatch.setattr(random_scenarios, "_faults", with_another_draw)
    assert [drawn(7, number) for number in range(40)] == plain

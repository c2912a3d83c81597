"""Disks that are rolled back: what is lost is within what was rolled back, and the network works again afterwards."""

from collections import Counter

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, LinkUp
from godwit.broker.links import Link
from godwit.broker.lost_tail import LostTail
from godwit.broker.messages import Frame, Hello, Publish
from godwit.broker.tree import TreeRouting
from godwit.filters.events import Event
from godwit.simulator.broker_inspection import early_and_taken, unfinished
from godwit.simulator.final_checks import FinalChecks
from godwit.simulator.in_flight import InFlight
from godwit.simulator.random_scenarios import drawn
from godwit.simulator.rare_draws import widely_drawn
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, named, with_changes
from tests.seeds import slow
from tests.simulation.scenarios import CHURN, GRAPH, SETTLE, TREE, delivered_pairs, laws_broken, owed_pairs
from tests.simulation.test_every_fault import Records

BUSY = ["clients.publish_per_s=30", "overlay.latency_ms=60", *SETTLE]
ROLLED_BACK = ["faults.disk_rolled_back={per_s=0.3, lasts_s=0.7}", "faults.rolled_back_inputs=30"]
CONTEXTS = [
    "contexts={attributes=2, values=4, kind='mixed', sender_share=0.6, to_share=0.6, changes_per_s=6}",
    "clients.publish_per_s=10",
    *CHURN,
]
SCENARIOS = {
    "tree": with_changes(TREE, [*BUSY, *ROLLED_BACK]),
    "graph": with_changes(GRAPH, [*BUSY, *ROLLED_BACK]),
}
IN_CONTEXTS = {
    "tree": with_changes(TREE, [*BUSY, *ROLLED_BACK, *CONTEXTS]),
    "graph": with_changes(GRAPH, [*BUSY, *ROLLED_BACK, *CONTEXTS]),
    "spcf": with_changes(GRAPH, [*BUSY, *ROLLED_BACK, *CONTEXTS, "routing.strategy=spcf"]),
}
SEEDS = (2, 4, 8, 12)


def broken(scenario: Scenario, seeds: tuple[int, ...] = SEEDS) -> Counter[str]:
    """Which laws broke, over some runs."""
    return sum((laws_broken(Simulation(scenario, seed).run()) for seed in seeds), Counter())


@pytest.mark.parametrize("name", ["tree", slow("graph")])
def test_what_is_lost_was_rolled_back_and_everybody_is_told(name: str) -> None:
    begun: set[str] = set()
    excused = 0
    for seed in SEEDS:
        records = Records()
        simulation = Simulation(SCENARIOS[name], seed, records)
        summary = simulation.run()
        assert summary.violations == ()
        died = {(record.publisher, record.sequence) for _, record in records.of_kind("died")}
        missing = owed_pairs(simulation) - delivered_pairs(simulation)
        assert {id for _, id in missing} <= died
        lives = [(node, record) for node, record in records.of_kind("tail_lost")]
        begun |= {record.detail.partition(" ")[2].partition(" ")[0] for _, record in lives}
        excused += summary.excused
    assert begun == {"the", "what"}  # by the disk, and by what a neighbour knows
    assert excused > 0


@pytest.mark.parametrize("scenario", IN_CONTEXTS.values(), ids=IN_CONTEXTS)
def test_contexts_that_change_while_disks_are_rolled_back_are_judged(scenario: Scenario) -> None:
    assert broken(scenario, (2, 12)) == {}


def test_a_session_that_is_there_again_after_it_has_moved_stays_until_it_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario, seed = drawn(7, 418)
    assert scenario.clients.roaming.is_on
    assert Simulation(scenario, seed).run().violations == ()
    leave = FinalChecks.leave
    monkeypatch.setattr(FinalChecks, "leave", lambda self, copies_expire_s: leave(self))
    assert laws_broken(Simulation(scenario, seed).run()).keys() == {"no garbage"}


def test_a_session_that_was_renamed_before_its_client_heard_of_it_loses_nothing() -> None:
    scenario, seed = drawn(10, 196)
    assert Simulation(scenario, seed).run().violations == ()


def test_what_came_too_early_and_was_taken_with_the_lost_inputs_is_lost_with_them() -> None:
    scenario, seed = drawn(9, 160)
    assert Simulation(scenario, seed).run().violations == ()


def test_a_judge_that_forgets_what_came_early_with_lost_inputs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = with_changes(SCENARIOS["tree"], ["faults.link_loss=0.3"])
    assert broken(scenario, (37,)) == {}
    monkeypatch.setattr(InFlight, "taken_since", lambda self, name, count: self._world.tail(name, count))
    assert "nothing lost" in broken(scenario, (37,))


def test_a_disk_that_is_rolled_back_twice_within_seconds_begins_two_lives() -> None:
    scenario, seed = drawn(13, 136)  # until the second one, what was published would not know its way
    assert Simulation(scenario, seed).run().violations == ()


def test_a_disk_that_is_rolled_back_behind_a_life_that_it_began_is_not_taken_for_one_that_knows_more() -> None:
    scenario, seed = widely_drawn(3_005, 155)
    assert Simulation(scenario, seed).run().violations == ()


def test_a_late_copy_of_a_hello_closes_no_link_of_a_broker_that_was_rolled_back_to_its_beginning() -> None:
    scenario, seed = drawn(880_017, 416)
    assert Simulation(scenario, seed).run().violations == ()


def test_what_a_past_life_was_about_to_send_again_hop_by_hop_is_sent_by_the_next_one() -> None:
    scenario, seed = widely_drawn(3_003, 23)
    assert Simulation(scenario, seed).run().violations == ()


def test_a_publisher_is_told_of_a_loss_that_neither_the_disk_nor_anybody_else_reports() -> None:
    scenario, seed = widely_drawn(3_016, 135)  # and a report that was lost by the next rollback counts as none
    assert Simulation(scenario, seed).run().violations == ()


def test_a_client_whose_clock_is_fast_ends_what_has_expired_in_a_session_that_has_another_name() -> None:
    scenario, seed = widely_drawn(3_015, 124)
    assert Simulation(scenario, seed).run().violations == ()


def test_what_waits_in_a_session_that_is_there_again_after_it_has_moved_is_not_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = with_changes(drawn(2_004, 74)[0], ["workload={kind='publications'}"])
    seed = drawn(2_004, 74)[1]
    assert Simulation(scenario, seed).run().violations == ()
    monkeypatch.setattr(InFlight, "unfinished", unfinished_with_copies)
    assert laws_broken(Simulation(scenario, seed).run()).keys() == {"settles"}


def unfinished_with_copies(self: InFlight, name: str) -> list[str]:
    return unfinished(self._network.broker(name), self._network.overlay, self._other)


def test_a_client_ends_what_it_had_ended_in_a_session_that_goes_on_under_another_name() -> None:
    scenario, seed = drawn(13, 135)
    assert Simulation(scenario, seed).run().violations == ()


def test_what_a_client_had_ended_is_ended_again_also_after_one_more_connection() -> None:
    assert Simulation(named("storm"), 4).run().violations == ()


def test_a_loss_before_all_time_by_a_clock_that_is_behind_is_told_as_since_the_beginning() -> None:
    scenario, seed = drawn(12, 149)
    assert Simulation(scenario, seed).run().violations == ()


def test_what_is_taken_with_lost_inputs_is_also_what_was_held_for_them() -> None:
    def told(*numbers: int) -> Broker:
        broker = Broker("b", {"n": 1.0}, BrokerConfig())
        broker.handle(LinkUp("n"), 0.0)
        broker.handle(Arrived("n", Hello(1, 1, 0, 1, True)), 0.0)
        for number in numbers:
            broker.handle(Arrived("n", Frame(number, 0, Publish(Event({"x": 1}, "p", number)))), 1.0)
        return broker

    early = [Publish(Event({"x": 1}, "p", number)) for number in (2, 4)]
    assert early_and_taken(told(2, 4), told(2, 4, 1)) == early[:1]
    assert early_and_taken(told(2, 4), told(2, 4, 1, 3)) == early
    assert early_and_taken(told(2, 4), told(2, 4)) == early_and_taken(told(1), told(1, 2)) == []


def test_a_broker_that_does_not_see_that_others_know_more_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "knows_more", lambda self, hello: False)
    assert "nobody at fault" in broken(SCENARIOS["tree"], (2, 4))


def test_clients_that_nobody_tells_of_a_loss_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LostTail, "on_fact", lambda self, fact, effects, now: None)
    assert "losses told" in broken(SCENARIOS["tree"])


def test_a_broker_that_tells_nobody_again_what_its_clients_want_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeRouting, "_told_to", lambda self, peer: [])
    assert "nothing lost" in broken(IN_CONTEXTS["tree"])

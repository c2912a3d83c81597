"""Peers that come and go, lose their sessions and their disks, and converge whenever they have met."""

import pytest

from godwit.teamwork.machine import exchange
from godwit.teamwork.machine.peer_effects import ChangeRecord
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, Bus


def played(seed: int) -> Bus:
    bus = Bus(seed, peers=4)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
    for _ in range(60):
        bus.act()
    bus.join("ann", "late")
    bus.come_together()
    return bus


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_peers_that_are_together_have_the_same_changes_and_records(seed: int) -> None:
    bus = played(seed)
    first, *others = bus.vectors()
    assert all(other == first for other in others)
    records = [{record.name: record for record in store.records(SCOPE, "artefact")} for store in bus.stores]
    assert all(other == records[0] for other in records)


def test_peers_that_lack_nothing_are_silent_but_for_one_of_them_at_times() -> None:
    bus = Bus(1, peers=20)
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "a"}))
    bus.come_together()
    published = bus.published.copy()
    bus.pass_time(10 * exchange.AGAIN_S)
    since = bus.published - published
    assert since["changes"] == 0
    assert 5 <= since["have"] <= 60  # and not 200: peers with the same slot speak at once


@pytest.mark.parametrize("seed", few(range(5), 2))
def test_what_was_lost_between_brokers_while_peers_were_attached_is_noticed(seed: int) -> None:
    bus = Bus(seed, peers=6)
    bus.come_together()
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "a"}))
    for place in bus.random.sample(range(1, 6), 3):
        bus.queues[place].clear()
    bus.deliver()
    bus.pass_time(2 * exchange.AGAIN_S)
    assert all(vector == {"d0": 1} for vector in bus.vectors())


def test_one_of_many_peers_answers() -> None:
    bus = Bus(1, peers=20)
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "a"}))
    bus.come_together()
    bus.join("ann", "late")
    published = bus.published.copy()
    bus.attach(20)
    bus.deliver()
    bus.pass_time(60)
    assert bus.stores[20].vector(SCOPE) == bus.stores[0].vector(SCOPE)
    since = bus.published - published
    assert since["have"] == 1
    assert since["changes"] <= 3  # peers of the same slot do not hear each other in time


def test_peers_that_do_not_answer_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange.Exchange, "_answer", lambda self, scope, least: None)
    with pytest.raises(AssertionError):
        test_peers_that_are_together_have_the_same_changes_and_records(2)

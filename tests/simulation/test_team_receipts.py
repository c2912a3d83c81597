"""Receipts of messages over peers that come and go: what a device of a reader has is reported."""

import pytest

from godwit.teamwork.machine import receipts
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.machine.receipts import DELIVERED, Receipts, receipt_of
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, Bus

JOINED = {"state": "joined", "role": "editor"}


def send(bus: Bus, place: int, id: str) -> None:
    user = bus.peers[place].user
    bus.tell(place, ChangeRecord(SCOPE, f"message/{id}", {"author": user, "text": "hello", "time": bus.now}))


def missing(bus: Bus) -> list[str]:
    """Messages that are not reported to every peer as delivered to the one user who has not written them."""
    found = []
    for store in bus.stores:
        for record in store.records(SCOPE, "message"):
            id, reader = record.name.partition("/")[2], {"ann": "bob", "bob": "ann"}[record.fields["author"]]
            receipt = store.record(SCOPE, receipt_of(id, reader))
            if receipt is None or DELIVERED not in receipt.fields:
                found.append(id)
    return found


def played(seed: int) -> Bus:
    """Two devices of ann and two of bob, messages of all of them, on and off line."""
    bus = Bus(seed, peers=4)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    bus.come_together()
    for number in range(40):
        bus.act()
        if number % 4 == 0:
            send(bus, bus.random.randrange(4), f"m{number}")
    bus.come_together()
    return bus


@pytest.mark.parametrize("seed", few(range(20), 4))
def test_every_message_is_reported_as_delivered_to_everybody(seed: int) -> None:
    bus = played(seed)
    assert missing(bus) == []
    assert len(list(bus.stores[0].records(SCOPE, "message"))) == 10
    assert len(list(bus.stores[0].records(SCOPE, "receipt"))) == 10  # one for a user, however many devices
    first, *others = bus.vectors()
    assert all(other == first for other in others)


def test_a_peer_that_reports_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipts, "write", lambda self: None)
    assert len(missing(played(1))) == 4 * 10


def test_a_reader_who_was_away_reports_when_a_device_has_the_message_and_one_event_says_it_of_many() -> None:
    bus = Bus(1, peers=2)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    bus.attach(0)
    for number in range(30):
        send(bus, 0, f"m{number}")
    assert len(missing(bus)) == 30
    bus.queues[1].clear()  # brokers do not have them any more: they come in one answer
    published = bus.published["changes"]
    bus.attach(1)
    bus.deliver()
    bus.pass_time(30.0)
    assert missing(bus) == []
    assert bus.published["changes"] - published == 2  # the answer, and the receipts


def test_a_device_that_hears_of_a_message_with_its_receipt_does_not_report_again() -> None:
    bus = Bus(1, peers=3)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    bus.come_together()
    bus.detach(2)
    send(bus, 1, "m")
    bus.deliver()
    bus.queues[2].clear()  # it gets both in one answer
    before = bus.vectors()[0]
    bus.attach(2)
    bus.deliver()
    bus.pass_time(30.0)
    assert before == bus.vectors()[0] == bus.vectors()[2]


def test_a_new_member_reports_nothing_of_the_time_before_and_what_came_with_the_membership() -> None:
    bus = Bus(1, peers=2)
    bus.attach(0)
    send(bus, 0, "before")
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    send(bus, 0, "after")
    bus.attach(1)
    bus.deliver()
    bus.pass_time(30.0)
    assert missing(bus) == ["before"] * 2


def test_nothing_is_reported_in_an_archived_community_nor_in_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, archived in ((50, True), (1, False)):
        monkeypatch.setattr(receipts, "MEMBERS_MAX", limit)
        bus = Bus(1, peers=2)
        bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
        send(bus, 0, "m")
        bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"archived": archived}))
        bus.come_together()
        assert missing(bus) == ["m"] * 2
        assert bus.rejected == []

"""What stands on the disk of a device: its changes, put together, are what it holds; also after a snapshot."""

from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig
from godwit.adhoc.event_broker import EventBroker
from godwit.adhoc.holdings import Holdings, HoldingsState, Kept, KeptForward, KeptOwn, KeptQueue, KeptSession
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.limits import Limits
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Ack, Attach, Hello, Publish, QueueRules, Request, Subscribe, Unsubscribe
from godwit.broker.session import Session
from godwit.client.client import Client, ClientConfig
from godwit.codec.journal_entries import JournalEntry
from godwit.codec.snapshots import SNAPSHOTS
from godwit.errors import JournalError
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.runtime.adhoc_journal import KeptInput, entries_of_changes, kept_inputs
from godwit.simulator.adhoc_world import AdHocWorld

NAMES = {"a": 1.0, "b": 0.5, "c": 0.2}
LINKS = [("a", "b"), ("b", "c"), ("a", "c")]


def busy(seed: int) -> tuple[AdHocWorld, list[list[Kept]]]:
    """A network in which devices come and go and publish; and what a wrote, step by step."""
    net = AdHocWorld(seed, {name: AdHocConfig(priority=priority) for name, priority in NAMES.items()})
    rng, disk, written = Random(seed), Holdings(), list[list[Kept]]()
    for name in NAMES:
        net.subscribe(name, "all", TRUE)
    for step in range(120):
        if step % 15 == 0:
            net.set_links([pair for pair in LINKS if rng.random() < 0.7])
        net.publish(rng.choice("abc"), {"x": step})
        net.run(0.5)
        written.append(disk.changes(net.node("a"), net.client("a")))
    return net, written


@pytest.mark.parametrize("seed", range(3))
def test_what_was_written_comes_to_what_the_device_holds(seed: int) -> None:
    net, written = busy(seed)
    told, through_bytes = Holdings(), Holdings()
    for changes in written:
        batch = msgspec.msgpack.encode(entries_of_changes(changes, 1.0))
        for input, _ in kept_inputs(batch):
            assert isinstance(input, KeptInput)
            told.add(input.kept)
        document = SNAPSHOTS.decode(SNAPSHOTS.encode({"machine": told.snapshot()}))
        through_bytes = Holdings()
        through_bytes.restore(document["machine"])
    node, client = net.node("a"), net.client("a")
    fresh = Holdings()
    fresh.changes(node, client)
    assert isinstance(told.snapshot(), HoldingsState)
    for found in (told, through_bytes):
        assert found.sessions.keys() == fresh.sessions.keys()
        assert found.own == fresh.own
        for name, held in fresh.sessions.items():
            assert found.sessions[name].items == held.items
            assert found.sessions[name].queue == held.queue
            assert found.sessions[name].state.subscriptions == held.state.subscriptions
    assert any(held.items for held in told.sessions.values()) or told.own or any(written)


def test_whatever_a_snapshot_leaves_out_is_missed() -> None:
    missed, told, event = set[str](), Holdings(), Event({"n": 1}, publisher="a", sequence=1)
    told.add(KeptForward((event,), ()))
    told.add(KeptOwn((event,), ()))
    for changes in busy(0)[1]:
        for input, _ in kept_inputs(msgspec.msgpack.encode(entries_of_changes(changes, 1.0))):
            assert isinstance(input, KeptInput)
            told.add(input.kept)
        state = told.snapshot()
        for field in HoldingsState.__struct_fields__:
            if getattr(state, field):
                found = Holdings()
                with suppress(KeyError):  # a queue whose session is left out
                    found.restore(msgspec.structs.replace(state, **{field: ()}))
                assert found.snapshot() != state
                missed.add(field)
    assert missed == set(HoldingsState.__struct_fields__)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    net, _ = busy(1)
    disk = Holdings()
    assert disk.changes(net.node("a"), net.client("a"))
    assert disk.changes(net.node("a"), net.client("a")) == []


class Leader:
    """A device that leads, with a session of ann; what it writes after each step, and what that comes to."""

    def __init__(self, **limits: Any) -> None:
        self.client = Client("here", ClientConfig())
        self.node = AdHocNode("here", self.client, AdHocConfig(limits=Limits(**limits)), 1)
        self.node.declare(0.0)
        self.now, self.requests, self.published = 0.0, 0, 0
        self.disk, self.told = Holdings(), Holdings()
        for client in ("ann", "bob"):
            self.broker.handle(Opened(client), 0.0)
            self.broker.handle(Heard(client, Attach(client, attempt=1)), 0.0)

    @property
    def broker(self) -> EventBroker:
        assert self.node.broker is not None
        return self.node.broker

    @property
    def session(self) -> Session:
        session = self.broker.sessions.session("ann")
        assert session is not None
        return session

    def ask(self, request: Subscribe | Unsubscribe) -> None:
        self.requests += 1
        self.broker.handle(Heard("ann", Request(self.requests, request)), self.now)

    def publish(self, **more: Any) -> None:
        self.now, self.published = self.now + 1.0, self.published + 1
        event = Event({"n": self.published, "kind": self.published % 3}, "bob", self.published, **more)
        self.broker.handle(Heard("bob", Request(self.published, Publish(event))), self.now)

    def written(self) -> list[Kept]:
        """What the device writes now. Then the disk has what waits for ann, and no more."""
        changes = self.disk.changes(self.node, self.client)
        for input, _ in kept_inputs(msgspec.msgpack.encode(entries_of_changes(changes, self.now))):
            assert isinstance(input, KeptInput)
            self.told.add(input.kept)
        for found in (self.disk, self.told):
            assert list(found.sessions["ann"].items.values()) == self.session.queue.waiting()
            assert found.sessions["ann"].state.subscriptions == tuple(self.session.subscriptions.values())
        return changes


@pytest.mark.parametrize("is_away", [False, True], ids=["present", "away"])
@pytest.mark.parametrize(
    ("limits", "rules", "lasts_s"),
    [
        ({"window": 5, "queue_events_max": 10}, None, None),
        ({"window": 5}, QueueRules(count_max=10), None),
        ({"window": 5}, QueueRules(newest_per="kind"), None),
        ({"window": 5}, QueueRules(high_water="n"), None),
        ({"window": 5}, QueueRules(age_s_max=5.0), None),
        ({"window": 5}, None, 5.0),
    ],
    ids=["budget", "count", "newest per kind", "high water", "age", "expiry"],
)
def test_what_the_queue_of_a_client_that_never_confirms_drops_leaves_the_disk_too(
    limits: dict[str, int], rules: QueueRules | None, lasts_s: float | None, is_away: bool
) -> None:
    leader = Leader(**limits)
    leader.ask(Subscribe(("ann", "s"), TRUE, queue=rules))
    if is_away:
        leader.broker.handle(Closed("ann"), 0.0)
    for _ in range(100):
        leader.publish(expires_at=None if lasts_s is None else leader.now + 1.0 + lasts_s)
        leader.written()
    assert len(leader.told.sessions["ann"].items) <= 15


def test_a_drop_alone_is_written_as_its_number() -> None:
    leader = Leader()
    leader.ask(Subscribe(("ann", "s"), TRUE))
    leader.broker.handle(Closed("ann"), 0.0)
    for _ in range(3):
        leader.publish()
    leader.written()
    leader.session.queue.withhold([1])
    [kept] = leader.written()
    assert isinstance(kept, KeptQueue)
    assert (kept.items, kept.gone) == ((), (1,))


def test_what_waits_is_not_written_again_when_its_client_wants_something_else() -> None:
    leader = Leader(window=5)
    leader.ask(Subscribe(("ann", "s"), TRUE))
    for _ in range(50):
        leader.publish()
    leader.written()
    for number in range(20):
        leader.ask(Unsubscribe(("ann", "t")) if number % 2 else Subscribe(("ann", "t"), TRUE))
        leader.publish()
        changes = leader.written()
        assert [type(kept) for kept in changes] == [KeptSession, KeptQueue]
        assert sum(len(kept.items) for kept in changes if isinstance(kept, KeptQueue)) == 1


def test_a_session_that_has_come_whole_under_its_name_is_written_as_a_whole() -> None:
    """The numbers of what came before it stand for other events now."""
    there, here = Leader(), Leader()
    there.ask(Subscribe(("ann", "s"), TRUE))
    there.broker.handle(Closed("ann"), 0.0)
    there.publish()
    here.broker.forget("ann", 0.0)
    here.broker.take(there.broker.state_of(there.session, "here"), 60.0, 0.0)
    name = here.session.name
    here.broker.handle(Heard("bob", Request(1, Publish(Event({"n": 11}, "bob", 11)))), 1.0)
    here.written()
    there.publish()
    here.broker.go_on_with(there.broker.all_of(there.session, "here"), 60.0, 2.0)
    assert here.session.name == name
    here.written()
    assert [item.event.sequence for item in here.told.sessions["ann"].items.values()] == [1, 2, 11]


def test_what_waits_on_a_trunk_is_written_as_the_session_of_the_island_until_it_is_acknowledged() -> None:
    node = AdHocNode("a", Client("a", ClientConfig()), AdHocConfig(meeting="coordinate"))
    broker, disk, told = EventBroker("a", BrokerConfig(), 1), Holdings(), Holdings()
    node.device.broker = broker
    link = Link("trunk", 1, LinkConfig())
    link.on_up(0.0)
    link.on_hello(Hello(1, 1, 0, 1, heard=True), 0.0)
    broker.join("trunk", "z", link, 0.0)
    broker.on_trunk("trunk", Subscribe(("z", "1"), TRUE), 0.0)
    broker.handle(Opened("bob"), 0.0)
    broker.handle(Heard("bob", Attach("bob", attempt=1)), 0.0)

    def write() -> list[Kept]:
        changes = disk.changes(node, Client("a", ClientConfig()))
        for kept in changes:
            told.add(kept)
        assert told.snapshot() == disk.snapshot()
        return changes

    def waiting() -> list[int]:
        return [item.event.sequence for item in told.sessions["z/"].items.values()]

    write()
    assert write() == []
    for number in (1, 2, 3):
        broker.handle(Heard("bob", Request(number, Publish(Event({"n": number}, "bob", number)))), 0.0)
        link.send(Unsubscribe(("a", str(number))), [], 0.0)  # which is no event
        write()
        assert write() == []
    assert waiting() == [1, 2, 3]
    link.on_ack(Ack(link.sent - 2), [], 1.0)  # the third has not come, and what was said behind it
    write()
    assert waiting() == [3]
    broker.part("trunk", 30.0, 1.0)
    write()
    assert waiting() == [3]
    [subscribe] = told.sessions["z/"].state.subscriptions
    assert subscribe.filter == TRUE
    broker.join("again", "z", Link("again", 1, LinkConfig()), 2.0)
    write()
    assert waiting() == [3]


def test_what_was_forwarded_and_answered_goes() -> None:
    one, two = (Event({"n": n}, publisher="a", sequence=n) for n in (1, 2))
    disk = Holdings()
    disk.add(KeptForward((one, two), ()))
    disk.add(KeptForward((), (("a", 1),)))
    disk.add(KeptOwn((one, two), ()))
    disk.add(KeptOwn((), (2,)))
    assert disk.forwarding == {("a", 2): two}
    assert disk.own == {1: one}


def test_a_batch_of_a_broker_is_refused() -> None:
    batch = msgspec.msgpack.encode([JournalEntry(1.0, "heard", "b", b"")])
    with pytest.raises(JournalError, match=r"kind 'heard': this version reads 'change 2'"):
        list(kept_inputs(batch))

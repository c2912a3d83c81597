"""Event brokers of islands: sessions that are handed over, become one, and end with their leases."""

from typing import Any

import msgspec
import pytest

from godwit.adhoc.event_broker import EventBroker, check_part
from godwit.adhoc.parted_islands import ISLANDS_MAX, WISHES_MAX
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Effect, Heard, Opened, Tell, Trace
from godwit.broker.limits import Limits
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Attach, Attached, Delivery, Publish, Request, Subscribe, Synced
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility.move_messages import Replay


def holding(name: str, number: int) -> EventBroker:
    """An event broker with a session of ann, who is away, and one event for her."""
    broker = EventBroker(name, BrokerConfig(), 1)
    for client in ("ann", "bob"):
        broker.handle(Opened(client), 0.0)
        broker.handle(Heard(client, Attach(client, attempt=1)), 0.0)
    broker.handle(Heard("ann", Request(1, Subscribe(("ann", "s"), parse("n > 0")))), 0.0)
    broker.handle(Closed("ann"), 0.0)
    broker.handle(Heard("bob", Request(1, Publish(Event({"n": number}, "bob", number)))), 0.0)
    return broker


def handed_over(name: str, number: int) -> list[Replay]:
    return [part for part in holding(name, number).handed_over("here") if part.client == "ann"]


def test_two_sessions_of_a_client_become_one_with_what_either_holds_and_the_longer_lease() -> None:
    here = EventBroker("here", BrokerConfig(), 1)
    here.take(handed_over("x", 1), 60.0, 100.0)
    here.take(handed_over("y", 2), 10.0, 110.0)
    session = here.sessions.session("ann")
    assert session is not None
    assert sorted(item.event.sequence for item in session.queue.waiting()) == [1, 2]
    assert here.leases(110.0) == (50.0,)
    here.take(handed_over("z", 3), 70.0, 120.0)
    assert here.leases(120.0) == (70.0,)


def test_a_neighbour_that_is_none_any_more_leaves_nothing() -> None:
    here = holding("here", 1)
    before = here.table_sizes()
    here.join("trunk", "there", Link("trunk", 1, LinkConfig()), 0.0)
    assert list(here.neighbours) == ["trunk"]
    assert here.table_sizes() != before
    here.part("trunk", 30.0, 0.0)
    assert list(here.neighbours) == []
    assert here.table_sizes() == before


def test_parts_of_sessions_follow_each_other() -> None:
    [whole] = handed_over("x", 1)
    first = msgspec.structs.replace(whole, is_last=False)
    further = msgspec.structs.replace(whole, state=None)
    check_part([], first)
    check_part([first], further)
    check_part([whole], first)
    for parts, part in (
        ([], further),  # of nothing
        ([first], first),  # before the one under way is whole
        ([whole], further),  # of one that is whole
        ([first], msgspec.structs.replace(further, client="bob")),
    ):
        with pytest.raises(PeerFault, match="do not follow each other"):
            check_part(parts, part)


def joined(name: str) -> tuple[EventBroker, Link]:
    """An event broker with a session of ann, and a trunk to the event broker `there`."""
    broker, link = holding(name, 1), Link("trunk", 1, LinkConfig())
    broker.join("trunk", "there", link, 0.0)
    link.give_up()  # what it was told
    return broker, link


def published(broker: EventBroker, number: int, **details: Any) -> None:
    broker.handle(Heard("bob", Request(number, Publish(Event({"n": number}, "bob", number, **details)))), 1.0)


def kept_for(broker: EventBroker, island: str = "there/") -> list[int] | None:
    session = broker.sessions.session(island)
    return None if session is None else [event.sequence for event in session.queue.events()]


def sent(link: Link) -> list[Any]:
    return [each.event.sequence if type(each) is Publish else type(each).__name__ for each in link.outbox]


def test_a_session_that_arrives_stays_in_force_at_the_neighbours_all_the_time() -> None:
    """Else an event that a neighbour accepts meanwhile goes nowhere."""
    here, link = joined("here")
    for go_on in (here.take, here.go_on_with):
        go_on(handed_over("x", 2), 30.0, 1.0)
        assert sent(link) == []


def test_what_a_lost_neighbour_has_not_acknowledged_and_wants_from_now_on_waits_for_it() -> None:
    here, link = joined("here")
    here.on_trunk("trunk", Subscribe(("there/1", "1"), parse("n > 0")), 0.0)
    published(here, 2)
    assert sent(link) == [2]
    here.part("trunk", 30.0, 1.0)
    published(here, 3)
    published(here, 4, to=parse("role = 'nurse'"))  # whom it may have
    assert kept_for(here) == [2, 3, 4]
    again = Link("again", 1, LinkConfig())
    here.join("again", "there", again, 2.0)
    assert kept_for(here) is None
    assert sent(again) == [2, 3, 4, "Subscribe", "Synced"]
    published(here, 5)  # before it has said again what it wants
    here.on_trunk("again", Subscribe(("there/2", "1"), parse("n > 6")), 2.0)
    here.on_trunk("again", Synced("subscriptions"), 2.0)
    published(here, 6)
    published(here, 7)
    assert sent(again) == [2, 3, 4, "Subscribe", "Synced", 5, 7]


def test_an_event_waits_for_a_lost_neighbour_once_however_much_later_it_comes_than_others() -> None:
    """What was under way elsewhere comes late; and each life of a publisher begins with a number far above."""
    here, _ = joined("here")
    here.on_trunk("trunk", Subscribe(("there/1", "1"), parse("n > 0")), 0.0)
    here.part("trunk", 30.0, 1.0)
    here.join("other", "far", Link("other", 1, LinkConfig()), 1.0)
    numbers = (1_000_001, 13, 14, 13, 1_000_600, 1_000_300, 1_000_301, 1_000_300, 1_000_001, 2_000_001, 15)
    for number in numbers:
        here.on_trunk("other", Publish(Event({"n": number}, "bob", number)), 1.0)
    assert kept_for(here) == list(dict.fromkeys(numbers))
    here.join("again", "there", Link("again", 1, LinkConfig()), 2.0)
    here.part("again", 30.0, 3.0)  # before anything was acknowledged
    assert kept_for(here) == list(dict.fromkeys(numbers))


def test_what_waits_for_a_neighbour_whose_lease_is_over_is_recorded_as_lost() -> None:
    here, _ = joined("here")
    here.on_trunk("trunk", Subscribe(("there/1", "1"), parse("n > 0")), 0.0)
    published(here, 2)
    assert lost(here.part("trunk", 1.0, 1.0)) == [("there/", 2, "the lease has expired")]
    assert kept_for(here) is None


def test_a_neighbour_that_wants_nothing_leaves_no_session() -> None:
    here, _ = joined("here")
    here.part("trunk", 30.0, 1.0)
    assert kept_for(here) is None


def test_more_parted_islands_than_there_is_room_for_are_turned_away() -> None:
    here = holding("here", 1)
    effects: list[Effect] = []
    for number in range(ISLANDS_MAX + 1):
        trunk, far = f"trunk{number}", f"there{number}"
        here.join(trunk, far, Link(trunk, 1, LinkConfig()), 0.0)
        here.on_trunk(trunk, Subscribe((far, "1"), parse("n > 0")), 0.0)
        published(here, 2 + number)
        effects = here.part(trunk, 30.0, 1.0)
    assert lost(effects) == [(f"there{ISLANDS_MAX}/", 2 + ISLANDS_MAX, f"more than {ISLANDS_MAX} islands have parted")]
    assert kept_for(here, f"there{ISLANDS_MAX}/") is None
    assert kept_for(here, f"there{ISLANDS_MAX - 1}/") == [1 + ISLANDS_MAX, 2 + ISLANDS_MAX]
    assert len(here.sessions) == 2 + ISLANDS_MAX


def test_a_neighbour_with_very_many_subscriptions_counts_as_wanting_everything() -> None:
    here, _ = joined("here")
    for number in range(WISHES_MAX + 1):
        here.on_trunk("trunk", Subscribe(("there", str(number)), parse(f"n = {number}")), 0.0)
    here.part("trunk", 30.0, 1.0)
    session = here.sessions.session("there/")
    assert session is not None
    assert [subscribe.filter for subscribe in session.subscriptions.values()] == [TRUE]


def test_a_client_that_comes_over_gets_what_waits_and_what_it_had_asked_for() -> None:
    here, _ = joined("here")
    here.on_trunk("trunk", Subscribe(("there/1", "1"), TRUE), 0.0)
    here.part("trunk", 30.0, 1.0)
    for number in (2, 3, 4):
        published(here, number)
    wanted = (Subscribe(("eve", "s"), parse("n > 2")), Subscribe(("eve", "t"), parse("n = 4")))
    here.handle(Opened("eve"), 2.0)
    effects = here.handle(Heard("eve", Attach("eve", session="x", attempt=2, home="there", wanted=wanted)), 2.0)
    deliveries = [each.message for each in effects if type(each) is Tell and type(each.message) is Delivery]
    assert [(each.event.sequence, each.subscriptions) for each in deliveries] == [(3, ("s",)), (4, ("s", "t"))]
    assert kept_for(here) == [2, 3, 4]  # for others
    here.handle(Closed("eve"), 2.0)
    here.handle(Opened("eve"), 3.0)
    effects = here.handle(Heard("eve", Attach("eve", session="x", attempt=3, home="there", wanted=wanted)), 3.0)
    deliveries = [each.message for each in effects if type(each) is Tell and type(each.message) is Delivery]
    assert [each.event.sequence for each in deliveries] == [3, 4]  # which it has not confirmed, once


@pytest.mark.parametrize(("back_at", "since"), [(29.0, None), (31.0, 0.0)])
def test_receipts_say_that_events_may_be_lost_when_a_neighbour_is_back_after_the_lease(
    back_at: float, since: float | None
) -> None:
    here = EventBroker("here", BrokerConfig(limits=Limits(session_expiry_s=30.0)), 1)
    here.handle(Opened("ann"), 0.0)
    here.handle(Heard("ann", Attach("ann", attempt=1)), 0.0)
    here.join("trunk", "there", Link("trunk", 1, LinkConfig()), 0.0)
    here.part("trunk", 30.0, 5.0)
    here.join("again", "there", Link("again", 1, LinkConfig()), back_at)
    here.handle(Closed("ann"), back_at)
    here.handle(Opened("ann"), back_at)
    effects = here.handle(Heard("ann", Attach("ann", session="here/1/1", attempt=2)), back_at)
    [attached] = [each.message for each in effects if type(each) is Tell and type(each.message) is Attached]
    assert attached.receipt.lost_since == since


def lost(effects: list[Effect]) -> list[tuple[str, int, str]]:
    records = [each.record for each in effects if type(each) is Trace and each.record.kind == "lost"]
    return [(record.peer, record.sequence, record.detail) for record in records]

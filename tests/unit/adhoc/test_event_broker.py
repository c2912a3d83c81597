"""Event brokers of islands: sessions that are handed over, become one, and end with their leases."""

import msgspec
import pytest

from godwit.adhoc.event_broker import EventBroker, check_part
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Attach, Publish, Request, Subscribe
from godwit.errors import PeerFault
from godwit.filters.events import Event
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

"""Queries of subscriptions are kept with the session: with their subscription, or not at all."""

from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened, Tell
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Note,
    Refused,
    Request,
    Subscribe,
    SubscribeQuery,
    Unsubscribe,
)
from godwit.broker.query_notes import queries_of, query_note
from godwit.broker.session import Session
from godwit.filters import parse

QUERY = (("xpath", "//a"),)


class Edge:
    """A broker and one client."""

    def __init__(self, **limits: Any) -> None:
        self.broker = Broker("b1", {}, BrokerConfig(limits=Limits(**limits)))
        self.number = 0
        self.broker.handle(Opened("c", {}), 0.0)
        [self.attached] = self.hear(Attach("ann"))

    def hear(self, message: Any, now: float = 0.0) -> list[Any]:
        told = self.broker.handle(Heard("c", message), now)
        return [effect.message for effect in told if isinstance(effect, Tell)]

    def ask(self, wish: Any, now: float = 0.0) -> Any:
        self.number += 1
        return self.hear(Request(self.number, wish), now)[0]

    @property
    def session(self) -> Session:
        found = self.broker.sessions.session("ann")
        assert found is not None
        return found

    @property
    def queries(self) -> Any:
        return queries_of(self.session.notes)


def subscribe(name: str = "s", **more: Any) -> Subscribe:
    return Subscribe(("ann", name), parse("n > 1"), **more)


def test_queries_come_and_go_with_their_subscription() -> None:
    edge = Edge()
    assert edge.ask(SubscribeQuery(subscribe(), QUERY)) == Accepted(1)
    assert edge.session.subscriptions == {"s": subscribe()}
    assert edge.queries == {"s": QUERY}
    other = (("xql", "a/b"), ("filter", "n > m"))
    edge.ask(SubscribeQuery(subscribe(), other))
    assert edge.queries == {"s": other}
    edge.ask(subscribe())
    assert edge.queries == {}
    edge.ask(SubscribeQuery(subscribe(), QUERY))
    edge.ask(Unsubscribe(("ann", "s")))
    assert edge.session.notes == {}


def test_a_subscription_that_expires_takes_its_queries_along() -> None:
    edge = Edge()
    edge.ask(SubscribeQuery(subscribe(expires=5.0), QUERY))
    edge.broker.sessions.on_timer_due(("expiry",), 6.0)
    assert (edge.session.subscriptions, edge.session.notes) == ({}, {})


@pytest.mark.parametrize(
    ("limits", "wish"),
    [
        ({"note_bytes_max": 20}, SubscribeQuery(subscribe(), (("xpath", "//a" * 10),))),
        ({"notes_max": 1}, SubscribeQuery(subscribe(), QUERY)),
        ({}, SubscribeQuery(Subscribe(("bob", "s"), parse("n > 1")), QUERY)),
    ],
    ids=["too long", "too many notes", "not its own"],
)
def test_what_is_refused_leaves_neither_a_subscription_nor_queries(limits: Any, wish: SubscribeQuery) -> None:
    edge = Edge(**limits)
    edge.ask(Note("x", b"1"))
    assert isinstance(edge.ask(wish), Refused)
    assert (edge.session.subscriptions, edge.queries) == ({}, {})


def test_a_refused_replacement_leaves_what_stood() -> None:
    edge = Edge(note_bytes_max=30)
    edge.ask(SubscribeQuery(subscribe(), QUERY))
    assert "30 are allowed" in edge.ask(SubscribeQuery(subscribe(), (("xpath", "//a" * 10),))).reason
    assert (edge.session.subscriptions, edge.queries) == ({"s": subscribe()}, {"s": QUERY})


def test_queries_move_with_the_session_and_are_told_with_attached() -> None:
    edge = Edge()
    edge.ask(SubscribeQuery(subscribe(), QUERY))
    moved = Session.restored(edge.session.state(), (), Limits(), 1.0)
    assert queries_of(moved.notes) == {"s": QUERY}
    stored = Session.from_snapshot(edge.session.snapshot(), Limits(), None)
    assert queries_of(stored.notes) == {"s": QUERY}
    edge.broker.handle(Opened("d", {}), 1.0)
    told = edge.broker.handle(Heard("d", Attach("ann")), 1.0)
    [attached] = [each.message for each in told if isinstance(each, Tell) and isinstance(each.message, Attached)]
    assert queries_of(attached.notes) == {"s": QUERY}


def test_notes_that_are_no_queries_count_as_missing() -> None:
    note = query_note("s", QUERY)
    assert note.value is not None
    notes = {"query/bad": b"\xc1", "query/other": b"\x01", "sub/x": b"", note.key: note.value}
    assert queries_of(notes) == {"s": QUERY}

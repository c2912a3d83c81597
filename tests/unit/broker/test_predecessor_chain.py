"""The chain of a replicated session: predecessors, questions, and what they may make a broker keep."""

from typing import Any

import pytest

from godwit.broker import Broker, BrokerConfig, Limits
from godwit.broker.effects import Close, Closed, Effect, Heard, Opened, Tell
from godwit.broker.messages import (
    Attach,
    Bye,
    Delivery,
    FetchedEvents,
    FetchEvents,
    Publish,
    Received,
    Request,
    Subscribe,
)
from godwit.broker.predecessor_chain import ITEMS_MAX, UNKNOWN, PredecessorChain
from godwit.errors import PeerFault
from godwit.filters import TRUE, event
from tests.raw_messages import read


def made(publisher: str, sequence: int) -> Any:
    return event({}, publisher=publisher, sequence=sequence)


def predecessor(chain: PredecessorChain, number: int, publisher: str, sequence: int) -> int:
    """What is named before this event, when it is taken in now."""
    one = made(publisher, sequence)
    chain.link(number, one)
    return chain.named(Delivery(number, one, ("x",))).predecessor


# ------------------------------------------------------------ the chain


def test_each_event_names_the_one_of_its_publisher_before_it() -> None:
    chain = PredecessorChain(10, is_whole=True)
    named = [predecessor(chain, *one) for one in [(1, "p", 3), (2, "q", 1), (3, "p", 7), (4, "p", 8), (5, "q", 9)]]
    assert named == [0, 0, 3, 7, 1]


def test_an_event_behind_a_later_one_names_none_and_is_named_by_none() -> None:
    chain = PredecessorChain(10, is_whole=True)
    assert [predecessor(chain, *one) for one in [(1, "p", 5), (2, "p", 4), (3, "p", 6)]] == [0, UNKNOWN, 5]


def test_a_chain_that_began_in_the_middle_does_not_say_there_was_nothing_before() -> None:
    chain = PredecessorChain(10, is_whole=False)
    assert [predecessor(chain, *one) for one in [(1, "p", 5), (2, "p", 6)]] == [UNKNOWN, 5]


def test_a_publisher_that_was_forgotten_is_not_said_to_be_new() -> None:
    chain = PredecessorChain(2, is_whole=True)
    named = [predecessor(chain, *one) for one in [(1, "p", 1), (2, "q", 1), (3, "p", 2), (4, "r", 1), (5, "q", 2)]]
    assert named == [0, 0, 1, 0, UNKNOWN]


def test_what_was_confirmed_or_dropped_is_forgotten() -> None:
    chain = PredecessorChain(10, is_whole=True)
    for number in range(1, 6):
        chain.link(number, made("p", number))
    chain.forget(2)
    chain.drop(4)
    chain.drop(4)
    assert len(chain) == 2
    assert chain.named(Delivery(4, made("p", 4), ())).predecessor == UNKNOWN


# ------------------------------------------------------------ in a broker


class Border:
    """A broker with a client `ann` that wants everything and a source `p`, both on one connection each."""

    def __init__(self, *, replicated: bool = True, **limits: Any) -> None:
        self.broker = Broker("b", {}, BrokerConfig(advertisements="off", limits=Limits(**limits)))
        self.told("p", Attach("p"))
        self.told("ann", Attach("ann", replicated=replicated))
        self.told("ann", Request(1, Subscribe(("ann", "x"), TRUE)))
        self.published = 0

    def told(self, connection: str, message: Any) -> list[Effect]:
        if type(message) is Attach:
            self.broker.handle(Opened(connection), 0.0)
        return self.broker.handle(Heard(connection, message), 0.0)

    def publish(self, count: int = 1) -> list[Delivery]:
        effects: list[Effect] = []
        for _ in range(count):
            self.published += 1
            effects += self.told("p", Request(self.published, Publish(made("p", self.published))))
        return [e.message for e in effects if isinstance(e, Tell) and isinstance(e.message, Delivery)]

    def asked(self, after: int, through: int, publisher: str = "p") -> FetchedEvents:
        [tell] = self.told("ann", FetchEvents(publisher, after, through))
        assert isinstance(tell, Tell)
        assert isinstance(tell.message, FetchedEvents)
        return tell.message


def numbers(covered: FetchedEvents) -> list[int]:
    return [item.event.sequence for item in covered.items]


def test_only_a_replicated_session_names_predecessors() -> None:
    assert [each.predecessor for each in Border().publish(3)] == [0, 1, 2]
    assert [each.predecessor for each in Border(replicated=False).publish(3)] == [-1, -1, -1]


def test_predecessors_go_with_what_is_sent_later_and_again() -> None:
    border = Border(window=2)
    assert [each.predecessor for each in border.publish(4)] == [0, 1]
    more = [e.message for e in border.told("ann", Received(1)) if isinstance(e, Tell)]
    assert [(each.event.sequence, each.predecessor) for each in more] == [(3, 2)]
    border.broker.handle(Closed("ann"), 0.0)
    session = border.broker.sessions.session("ann")
    assert session is not None
    again = border.told("ann", Attach("ann", 1, session.name, replicated=True))
    deliveries = [e.message for e in again if isinstance(e, Tell) and isinstance(e.message, Delivery)]
    assert [(each.event.sequence, each.predecessor) for each in deliveries] == [(2, 1), (3, 2)]


def test_an_answer_holds_what_waits_and_not_what_was_sent() -> None:
    border = Border(window=2)
    border.publish(5)
    assert numbers(border.asked(0, 5)) == [3, 4, 5]
    assert numbers(border.asked(3, 4)) == [4]
    assert border.asked(5, 9) == FetchedEvents("p", 5, 9)
    assert border.asked(0, 3, publisher="q") == FetchedEvents("q", 0, 3)


def test_an_answer_says_how_far_it_goes_when_not_all_of_it_fits() -> None:
    border = Border(window=1)
    border.publish(ITEMS_MAX + 10)
    first = border.asked(0, 1_000)
    assert (len(first.items), first.through) == (ITEMS_MAX, ITEMS_MAX + 1)
    rest = border.asked(first.through, 1_000)
    assert (numbers(rest), rest.through) == (list(range(ITEMS_MAX + 2, ITEMS_MAX + 11)), 1_000)


def test_an_answer_does_not_take_anything_out_of_the_queue() -> None:
    border = Border(window=1)
    border.publish(3)
    border.asked(0, 3)
    more = [e.message for e in border.told("ann", Received(1)) if isinstance(e, Tell)]
    assert [each.event.sequence for each in more] == [2]


def test_a_chain_is_no_longer_than_the_queue() -> None:
    border = Border(queue_events_max=5, window=5)
    session = border.broker.sessions.session("ann")
    assert session is not None
    border.broker.handle(Closed("ann"), 0.0)
    border.publish(50)
    assert session.chain is not None
    assert len(session.chain) == len(session.queue) == 5
    border.told("ann", Attach("ann", 0, session.name, replicated=True))
    border.told("ann", Received(50))
    assert len(session.chain) == 0


@pytest.mark.parametrize(
    "question",
    [
        FetchEvents("p", 3, 3),
        FetchEvents("p", -1, 3),
        FetchEvents("p", 4, 3),
        FetchEvents("p", 0, 2**63),
    ],
)
def test_a_question_about_nothing_closes_the_connection(question: FetchEvents) -> None:
    border = Border()
    effects = border.told("ann", question)
    assert [type(e.message) for e in effects if isinstance(e, Tell)] == [Bye]
    assert [e.peer for e in effects if isinstance(e, Close)] == ["ann"]
    assert border.publish(1) == []  # the session stays, and the others do


def test_a_question_of_one_who_never_said_that_it_is_replicated_closes_the_connection() -> None:
    effects = Border(replicated=False).told("ann", FetchEvents("p", 0, 3))
    assert any(isinstance(e, Close) and "Attach.replicated" in e.reason for e in effects)


def test_attach_replicated_must_be_a_bool() -> None:
    with pytest.raises(PeerFault, match="replicated"):
        read(Attach("bob", replicated=1))  # type: ignore[arg-type]

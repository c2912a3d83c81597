"""Sessions: clients come, go and come back; requests are handled once; what is malformed changes nothing."""

from typing import Any

import pytest

from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, Trace
from godwit.broker.limits import Limits
from godwit.broker.message_checks import TRIED_MAX
from godwit.broker.messages import (
    Accepted,
    Advertise,
    Attach,
    Attached,
    Bye,
    Context,
    Delivery,
    Publish,
    QueueRules,
    Receipt,
    Received,
    Refused,
    Request,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.removed_entries import RemovedEntries
from godwit.broker.session import LOST_SHOWN_MAX
from godwit.broker.sessions import Sessions
from godwit.errors import PeerFault
from godwit.filters import FALSE, TRUE, Event, any_of, event, parse
from godwit.filters.events import Attributes
from godwit.filters.sets import one_of
from tests.raw_messages import read
from tests.snapshots import restored

X, Y = ("ann", "x"), ("ann", "y")


def make(**limits: Any) -> Sessions:
    return Sessions(Limits(**limits), "harbour")


def told(effects: list[Effect] | tuple[Effect, ...], connection: str = "c1") -> list[Any]:
    return [each.message for each in effects if isinstance(each, Tell) and each.connection == connection]


def attached(
    sessions: Sessions, connection: str = "c1", client: str = "ann", now: float = 0.0, **more: Any
) -> Attached:
    """Attach a client and return the broker's answer."""
    [answer] = [
        m for m in told(sessions.attach(connection, Attach(client, **more), now), connection) if type(m) is Attached
    ]
    return answer


def ask(sessions: Sessions, *wishes: Any, connection: str = "c1", now: float = 0.0) -> list[Any]:
    """Make the next requests, and return what the client is told."""
    answers: list[Any] = []
    for wish in wishes:
        session = sessions._of(connection)
        _, effects = sessions.admit(connection, Request(session.accepted + 1, wish), now)
        answers += told(effects, connection)
    return answers


def subscribed(*wishes: Any, **limits: Any) -> Sessions:
    """Sessions with ann on c1, who has subscribed to x (or asked for `wishes`)."""
    sessions = make(**limits)
    attached(sessions)
    ask(sessions, *(wishes or (Subscribe(X, TRUE),)))
    return sessions


def numbered(number: int, publisher: str = "p", **details: Any) -> Event:
    return event({"n": number}, publisher=publisher, sequence=number, **details)


def deliver(sessions: Sessions, *numbers: int, ids: tuple[Any, ...] = (X,), now: float = 0.0) -> list[Effect]:
    return [effect for number in numbers for effect in sessions.deliver(numbered(number), list(ids), now)]


# ------------------------------------------------------------ coming and going


def test_a_client_that_was_never_here_gets_a_fresh_session_with_a_name() -> None:
    answer = attached(make())
    assert answer == Attached(0, True, Receipt(number=1), "harbour/1/1", "harbour")


def test_a_client_that_comes_back_gets_what_it_has_not_confirmed_in_order() -> None:
    sessions = subscribed()
    name = attached(make()).session
    deliver(sessions, 1, 2)
    sessions.detach("c1", 1.0)
    deliver(sessions, 3, now=1.0)
    messages = told(sessions.attach("c2", Attach("ann", received=1, session=name), 2.0), "c2")
    assert messages[0] == Attached(1, False, Receipt(replayed=2, number=2), name, "harbour")
    assert [(m.number, m.event.sequence) for m in messages[1:]] == [(2, 2), (3, 3)]


def test_the_replay_respects_the_window_and_confirmations_refill_it() -> None:
    sessions = subscribed(window=2)
    sessions.detach("c1", 0.0)
    deliver(sessions, 1, 2, 3, 4, 5)
    sent = told(sessions.attach("c2", Attach("ann"), 1.0), "c2")[1:]
    assert [m.number for m in sent] == [1, 2]
    assert [m.number for m in told(sessions.received("c2", Received(1), 1.0), "c2")] == [3]
    assert [m.number for m in told(sessions.received("c2", Received(3), 1.0), "c2")] == [4, 5]
    assert sessions.received("c2", Received(1), 1.0) == []  # an old one does no harm


def test_a_newer_connection_of_the_same_client_takes_over() -> None:
    sessions = subscribed()
    deliver(sessions, 1)
    effects = sessions.attach("c2", Attach("ann", session="harbour/1/1"), 1.0)
    reason = "another connection with the same client name has taken over the session"
    assert effects[:2] == [Tell("c1", Bye(reason)), Close("c1", reason)]
    assert [type(m) for m in told(effects, "c2")] == [Attached, Delivery]
    with pytest.raises(PeerFault, match="must be Attach"):
        sessions.received("c1", Received(1), 1.0)
    assert sessions.detach("c1", 1.0) == []
    assert sessions.client_of("c2") == "ann"


def test_a_session_ends_when_its_client_stays_away_too_long() -> None:
    sessions = subscribed(Subscribe(X, TRUE), Advertise(Y, TRUE), session_expiry_s=60)
    assert StartTimer(("session", "ann"), 70.0) in sessions.detach("c1", 10.0)
    too_early = sessions.on_timer_due(("session", "ann"), 60.0)
    assert too_early == RemovedEntries(effects=(StartTimer(("session", "ann"), 70.0),))
    removed = sessions.on_timer_due(("session", "ann"), 70.0)
    assert (removed.subscriptions, removed.advertisements) == ((X,), (Y,))
    assert len(sessions) == 0
    assert deliver(sessions, 1) == []


def test_coming_back_stops_the_clock() -> None:
    sessions = subscribed(session_expiry_s=60)
    sessions.detach("c1", 10.0)
    effects = sessions.attach("c2", Attach("ann"), 20.0)
    assert StopTimer(("session", "ann")) in effects
    assert sessions.on_timer_due(("session", "ann"), 70.0) == RemovedEntries()
    assert len(sessions) == 1


def test_a_client_whose_session_is_gone_is_told_so() -> None:
    sessions = subscribed()
    sessions.end("ann", 1.0)
    answer = attached(sessions, "c2", received=7, session="harbour/1/1")
    assert (answer.fresh, answer.receipt.session_lost, answer.session) == (True, True, "harbour/1/2")


def test_numbers_of_another_session_confirm_nothing() -> None:
    sessions = subscribed()
    deliver(sessions, 1, 2)
    sessions.detach("c1", 0.0)
    messages = told(sessions.attach("c2", Attach("ann", received=2, session="elsewhere/1/1"), 1.0), "c2")
    assert (messages[0].fresh, messages[0].accepted, messages[0].receipt.session_lost) == (False, 1, True)
    assert [m.number for m in messages[1:]] == [1, 2]


def test_leaving_ends_the_session_and_names_what_must_leave_routing() -> None:
    sessions = subscribed(Subscribe(X, TRUE, expires=9.0), Subscribe(Y, TRUE), Advertise(X, TRUE))
    removed = sessions.leave("c1", 1.0)
    assert (removed.subscriptions, removed.advertisements) == ((X, Y), (X,))
    assert StopTimer(("expiry",)) in removed.effects
    assert sessions.end("ann", 1.0) == RemovedEntries()


def test_there_is_room_for_so_many_sessions() -> None:
    sessions = make(sessions_max=1)
    attached(sessions)
    effects = sessions.attach("c2", Attach("bob"), 0.0)
    assert [type(each) for each in effects] == [Tell, Close]
    assert (len(sessions), sessions.client_of("c2")) == (1, None)


# ------------------------------------------------------------ receipts


def test_a_receipt_that_did_not_come_is_told_again_and_one_that_came_is_not() -> None:
    sessions = subscribed(Subscribe(X, TRUE, queue=QueueRules(count_max=1)))
    name = "harbour/1/1"
    sessions.detach("c1", 0.0)
    deliver(sessions, 1, 2, 2)
    first = attached(sessions, "c2", session=name, receipt=1).receipt
    assert first == Receipt(replayed=1, suppressed=1, purged={"count": 1}, number=2)
    sessions.detach("c2", 0.0)
    assert attached(sessions, "c3", session=name, receipt=1).receipt == Receipt(1, 1, {"count": 1}, number=3)
    sessions.detach("c3", 0.0)
    assert attached(sessions, "c4", session=name, receipt=3).receipt == Receipt(1, number=4)


def test_what_the_brokers_own_bound_drops_is_named_as_lost_and_beyond_so_many_counted() -> None:
    sessions = subscribed(window=1, queue_events_max=1)
    sessions.detach("c1", 0.0)
    effects = deliver(sessions, *range(1, LOST_SHOWN_MAX + 4))
    assert sum(isinstance(each, Trace) and each.record.kind == "lost" for each in effects) == LOST_SHOWN_MAX + 2
    receipt = attached(sessions, "c2", session="harbour/1/1", receipt=1).receipt
    assert receipt.lost[:2] == (("p", 1), ("p", 2))
    assert (len(receipt.lost), receipt.lost_more, receipt.purged) == (LOST_SHOWN_MAX, 2, {"count": LOST_SHOWN_MAX + 2})
    sessions.detach("c2", 0.0)
    assert attached(sessions, "c3", session="harbour/1/1", receipt=2).receipt.lost == ()


def test_an_event_whose_time_is_over_is_counted_as_expired() -> None:
    sessions = subscribed()
    effects = sessions.deliver(numbered(1, expires_at=5.0), [X], 5.0)
    assert [each.record.kind for each in effects if isinstance(each, Trace)] == ["expired"]
    sessions.detach("c1", 5.0)
    assert attached(sessions, "c2", session="harbour/1/1").receipt.expired == 1


# ------------------------------------------------------------ requests


def test_a_request_is_handled_once_and_acknowledged_as_often_as_it_comes() -> None:
    sessions = make()
    attached(sessions)
    request = Request(1, Subscribe(X, TRUE))
    assert sessions.admit("c1", request, 0.0) == (request.wish, [Tell("c1", Accepted(1))])
    assert sessions.admit("c1", request, 0.0) == (None, [Tell("c1", Accepted(1))])


def test_a_missing_request_is_a_fault() -> None:
    sessions = subscribed()
    with pytest.raises(PeerFault, match="a request is missing"):
        sessions.admit("c1", Request(3, Unsubscribe(X)), 0.0)
    assert sessions.admit("c1", Request(2, Unsubscribe(X)), 0.0)[0] == Unsubscribe(X)


LARGE = any_of(*(parse(f"a = {n} AND b = 1") for n in range(6)))


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (Subscribe(("bob", "x"), TRUE), "belongs to another client"),
        (Unsubscribe(Y), "there is no subscription 'y'"),
        (Unadvertise(X), "there is no advertisement 'x'"),
        (Subscribe(X, parse("cost < my.limit")), "your own state"),
        (Advertise(X, parse("place WITHIN myloc")), "your own state"),
        (Subscribe(X, LARGE), "at most 10 are allowed"),
        (Subscribe(X, TRUE, expires=5.0), "has expired already"),
        (Subscribe(Y, TRUE), "at most 1 subscriptions"),
        (Publish(numbered(1, "bob")), "must name the client"),
        (Publish(numbered(0, "ann")), "numbered from 1"),
    ],
)
def test_what_is_not_allowed_is_refused_counts_as_handled_and_changes_nothing(wish: Any, reason: str) -> None:
    sessions = subscribed(subscriptions_max=1, filter_literals_max=10)
    before = repr(sessions.session("ann").subscriptions)  # type: ignore[union-attr]
    carried_out, effects = sessions.admit("c1", Request(2, wish), 5.0)
    assert carried_out is None
    [refused] = told(effects)
    assert isinstance(refused, Refused)
    assert refused.number == 2
    assert reason in refused.reason
    assert repr(sessions.session("ann").subscriptions) == before  # type: ignore[union-attr]
    assert ask(sessions, Unsubscribe(X)) == [Accepted(3)]


def test_there_is_room_for_so_many_advertisements() -> None:
    sessions = subscribed(Advertise(X, TRUE), advertisements_max=1)
    assert ask(sessions, Advertise(X, FALSE)) == [Accepted(2)]
    [refused] = ask(sessions, Advertise(Y, TRUE))
    assert "at most 1 advertisements" in refused.reason
    assert ask(sessions, Unadvertise(X), Advertise(Y, TRUE)) == [Accepted(4), Accepted(5)]


def test_a_refusal_that_may_have_been_missed_is_told_again_before_attached() -> None:
    sessions = subscribed()
    [refused] = ask(sessions, Unsubscribe(Y))
    sessions.detach("c1", 0.0)
    again = told(sessions.attach("c2", Attach("ann", session="harbour/1/1", receipt=1), 0.0), "c2")
    assert [type(m) for m in again] == [Refused, Attached]
    assert again[0] == refused
    sessions.detach("c2", 0.0)
    assert [
        type(m) for m in told(sessions.attach("c3", Attach("ann", session="harbour/1/1", receipt=2), 0.0), "c3")
    ] == [Attached]


def test_a_client_without_memory_is_told_refusals_and_losses_again_until_it_has_asked_for_something() -> None:
    """It cannot say that it got them, and its last connection may have broken before `Attached` came."""
    sessions = subscribed()
    session = sessions.session("ann")
    assert session is not None
    [refused] = ask(sessions, Unsubscribe(Y))
    session.lost_since = 3.0

    def come_back(connection: str) -> list[Any]:
        sessions.detach("c1", 0.0)
        greeting = Attach("ann", session="harbour/1/1", receipt=session.last_receipt(), mode="named")
        return told(sessions.attach(connection, greeting, 0.0), connection)

    for connection in ("c2", "c3"):
        assert [each if type(each) is Refused else each.receipt.lost_since for each in come_back(connection)] == [
            refused,
            3.0,
        ]
    ask(sessions, Unsubscribe(X), connection="c3")
    assert [each.receipt.lost_since for each in come_back("c4")] == [None]


def test_what_is_told_while_a_client_is_connected_does_not_count_as_a_greeting() -> None:
    """A request may cross a receipt that comes without one, and then says nothing about the refusals before it."""
    sessions = subscribed()
    session = sessions.session("ann")
    assert session is not None
    [refused] = ask(sessions, Unsubscribe(Y))
    session.receipt(session_lost=False, greets=False)
    ask(sessions, Unsubscribe(X))
    greeting = Attach("ann", session="harbour/1/1", receipt=session.last_receipt(), mode="named")
    assert told(sessions.attach("c2", greeting, 0.0), "c2")[0] == refused


def test_a_filter_is_replaced_in_one_step() -> None:
    sessions = subscribed(subscriptions_max=1)
    assert ask(sessions, Subscribe(X, FALSE)) == [Accepted(2)]
    assert sessions.session("ann").subscriptions["x"].filter == FALSE  # type: ignore[union-attr]


# ------------------------------------------------------------ expiry of subscriptions


def test_one_timer_runs_for_the_subscription_that_expires_first() -> None:
    sessions = make()
    attached(sessions)
    timers: list[Any] = []
    wishes: tuple[Any, ...] = (
        Subscribe(X, TRUE, expires=20.0),
        Subscribe(Y, TRUE, expires=10.0),
        Subscribe(("ann", "z"), TRUE, expires=30.0),
        Subscribe(Y, TRUE, expires=40.0),
        Unsubscribe(X),
    )
    for number, wish in enumerate(wishes, start=1):
        _, effects = sessions.admit("c1", Request(number, wish), 0.0)
        timers += [each for each in effects if isinstance(each, StartTimer | StopTimer)]
    assert [each.at for each in timers] == [20.0, 10.0, 20.0, 30.0]
    removed = sessions.on_timer_due(("expiry",), 30.0)
    assert removed.subscriptions == (("ann", "z"),)
    assert removed.effects == (StartTimer(("expiry",), 40.0),)
    assert sessions.on_timer_due(("expiry",), 41.0) == RemovedEntries((Y,))


def test_a_subscription_takes_nothing_in_from_the_moment_it_expires() -> None:
    sessions = subscribed(Subscribe(X, TRUE, expires=10.0), Subscribe(Y, TRUE))
    [delivery] = told(deliver(sessions, 1, ids=(X, Y), now=9.9))
    assert delivery.subscriptions == ("x", "y")
    [delivery] = told(deliver(sessions, 2, ids=(X, Y), now=10.0))
    assert delivery.subscriptions == ("y",)
    assert deliver(sessions, 3, now=10.0) == []


def test_what_a_subscription_let_in_is_delivered_although_it_has_expired() -> None:
    sessions = subscribed(Subscribe(X, TRUE, expires=10.0))
    sessions.detach("c1", 0.0)
    deliver(sessions, 1)
    sessions.on_timer_due(("expiry",), 10.0)
    assert attached(sessions, "c2", now=11.0).receipt.replayed == 1


# ------------------------------------------------------------ deliveries


def test_each_client_gets_one_delivery_with_all_its_subscriptions() -> None:
    sessions = subscribed(Subscribe(X, TRUE), Subscribe(Y, TRUE))
    attached(sessions, "c2", "bob")
    ask(sessions, Subscribe(("bob", "x"), TRUE), connection="c2")
    effects = deliver(sessions, 1, ids=(X, ("bob", "x"), Y, X, ("carl", "x")))
    assert effects == [
        Tell("c1", Delivery(1, numbered(1), ("x", "y"))),
        Tell("c2", Delivery(1, numbered(1), ("x",))),
    ]


def test_an_event_that_comes_twice_is_sent_once_and_counted() -> None:
    sessions = subscribed()
    assert len(told(deliver(sessions, 1, 2, 1, 3, 2))) == 3
    assert sessions.session("ann").suppressed == 2  # type: ignore[union-attr]


def test_sessions_survive_a_snapshot() -> None:
    sessions = subscribed(Subscribe(X, parse("a < 3"), expires=50.0, queue=QueueRules(newest_per="n", age_s_max=9.0)))
    deliver(sessions, 1, 2)
    sessions.detach("c1", 1.0)
    deliver(sessions, 3, 4, now=1.0)
    copy = restored(sessions, make())
    attach = Attach("ann", received=1, session="harbour/1/1", receipt=1)
    assert copy.attach("c2", attach, 2.0) == sessions.attach("c2", attach, 2.0)
    assert copy.on_timer_due(("expiry",), 50.0) == sessions.on_timer_due(("expiry",), 50.0)


# ------------------------------------------------------------ malformed messages


def bad_event(**changes: Any) -> Event:
    fields: dict[str, Any] = {"attributes": {"a": 1}, "publisher": "ann", "sequence": 1} | changes
    return Event(**fields)


BAD_REQUESTS: list[Any] = [
    None,
    Request(0, Unsubscribe(X)),
    Request(-1, Unsubscribe(X)),
    Request(True, Unsubscribe(X)),
    Request("2", Unsubscribe(X)),  # type: ignore[arg-type]
    Request(2, Synced()),  # type: ignore[arg-type]
    Request(2, None),  # type: ignore[arg-type]
    Request(2, Subscribe(X, "a <")),  # type: ignore[arg-type]
    Request(2, Subscribe(("ann",), TRUE)),  # type: ignore[arg-type]
    Request(2, Subscribe(("ann", ""), TRUE)),
    Request(2, Subscribe(("ann", "x" * 257), TRUE)),
    Request(2, Subscribe(("ann", 3), TRUE)),  # type: ignore[arg-type]
    Request(2, Subscribe(X, TRUE, expires=float("nan"))),
    Request(2, Subscribe(X, TRUE, expires="soon")),  # type: ignore[arg-type]
    Request(2, Subscribe(X, TRUE, queue={"count_max": "3"})),  # type: ignore[arg-type]
    Request(2, Subscribe(X, TRUE, queue=QueueRules(count_max=-1))),
    Request(2, Subscribe(X, TRUE, queue=QueueRules(bytes_max=1.5))),  # type: ignore[arg-type]
    Request(2, Subscribe(X, TRUE, queue=QueueRules(age_s_max=float("inf")))),
    Request(2, Subscribe(X, TRUE, queue=QueueRules(newest_per=3))),  # type: ignore[arg-type]
    Request(2, Advertise(X, None)),  # type: ignore[arg-type]
    Request(2, Unsubscribe(None)),  # type: ignore[arg-type]
    Request(2, Publish({"a": 1})),  # type: ignore[arg-type]
    Request(2, Publish(bad_event(attributes=[("a", 1)]))),
    Request(2, Publish(bad_event(attributes={"a": float("nan")}))),
    Request(2, Publish(bad_event(attributes={"a": [1, [2]]}))),
    Request(2, Publish(bad_event(attributes={"a": (1,)}))),
    Request(2, Publish(bad_event(attributes={"a": (1, None)}))),
    Request(2, Publish(bad_event(attributes={"": 1}))),
    Request(2, Publish(bad_event(attributes={3: 1}))),
    Request(2, Publish(bad_event(sequence=1.5))),
    Request(2, Publish(bad_event(publisher=None))),
    Request(2, Publish(bad_event(payload="text"))),
    Request(2, Publish(bad_event(content_type=3))),
    Request(2, Publish(bad_event(expires_at="never"))),
    Request(2, Publish(bad_event(to="a <"))),
]


@pytest.mark.parametrize("message", BAD_REQUESTS, ids=range(len(BAD_REQUESTS)))
def test_a_malformed_request_is_a_fault_and_changes_nothing(message: Any) -> None:
    sessions = subscribed()
    before = repr(sessions.snapshot())
    with pytest.raises(PeerFault):
        sessions.admit("c1", read(message), 0.0)
    assert repr(sessions.snapshot()) == before


@pytest.mark.parametrize(
    "message",
    [
        Attach(""),
        Attach("x" * 257),
        Attach(None),  # type: ignore[arg-type]
        Attach("ann", received=-1),
        Attach("ann", received=1.5),  # type: ignore[arg-type]
        Attach("ann", session=None),  # type: ignore[arg-type]
        Attach("ann", quench="yes"),  # type: ignore[arg-type]
        Attach("ann", receipt="1"),  # type: ignore[arg-type]
        Attach("ann", home=1),  # type: ignore[arg-type]
        Attach("ann", attempt="1"),  # type: ignore[arg-type]
        Attach("ann", wanted=[None]),  # type: ignore[arg-type]
        Attach("ann", tried=[1]),  # type: ignore[arg-type]
        Attach("ann", tried=("b", "")),
        Attach("ann", tried=("b",) * 17),
        Attach("ann", wanted=(Unsubscribe(("ann", "a")),)),  # type: ignore[arg-type]
        Received(1),
    ],
)
def test_a_malformed_attach_is_a_fault_and_changes_nothing(message: Any) -> None:
    sessions = subscribed()
    deliver(sessions, 1, 2)
    sessions.detach("c1", 0.0)
    before = repr(sessions.snapshot())
    with pytest.raises(PeerFault):
        sessions.attach("c2", read(message), 0.0)
    assert repr(sessions.snapshot()) == before


def test_an_attach_may_name_as_many_brokers_that_were_tried_as_is_allowed() -> None:
    sessions = subscribed()
    sessions.detach("c1", 0.0)
    sessions.attach("c2", read(Attach("ann", tried=("b",) * TRIED_MAX)), 0.0)
    with pytest.raises(PeerFault, match=f"{TRIED_MAX} at most"):
        sessions.attach("c3", read(Attach("ann", tried=("b",) * (TRIED_MAX + 1))), 0.0)


@pytest.mark.parametrize("message", [Received(0), Received(-1), Received(3), Received("1"), None])  # type: ignore[arg-type]
def test_a_confirmation_of_what_was_not_sent_is_a_fault_and_changes_nothing(message: Any) -> None:
    sessions = subscribed()
    deliver(sessions, 1, 2)
    before = repr(sessions.snapshot())
    with pytest.raises(PeerFault):
        sessions.received("c1", read(message), 0.0)
    assert repr(sessions.snapshot()) == before


def test_before_attach_and_after_a_second_one_nothing_is_heard() -> None:
    sessions = subscribed()
    with pytest.raises(PeerFault, match="a second Attach"):
        sessions.attach("c1", Attach("ann"), 0.0)
    for call in (
        lambda: sessions.admit("c9", Request(1, Unsubscribe(X)), 0.0),
        lambda: sessions.received("c9", Received(1), 0.0),
        lambda: sessions.leave("c9", 0.0),
    ):
        with pytest.raises(PeerFault, match="must be Attach"):
            call()
    assert sessions.detach("c9", 0.0) == []


@pytest.mark.parametrize("limits", [{"window": 0}, {"queue_bytes_max": -1}, {"window": 20, "queue_events_max": 10}])
def test_limits_that_make_no_sense_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        Limits(**limits)


def test_the_window_is_no_larger_than_a_small_queue_unless_somebody_says_so() -> None:
    assert Limits(queue_events_max=100).window == 100
    with pytest.raises(ValueError, match="window is 200"):
        Limits(queue_events_max=100, window=200)


def test_a_client_that_got_more_than_was_sent_is_told_that_something_may_be_lost() -> None:
    sessions = subscribed()
    deliver(sessions, 1, 2)
    sessions.detach("c1", 0.0)
    name = "harbour/1/1"
    messages = told(sessions.attach("c2", Attach("ann", received=3, session=name), 1.0), "c2")
    attached = next(message for message in messages if isinstance(message, Attached))
    assert attached.session != name
    assert attached.receipt.session_lost
    assert attached.receipt.lost_since == 0.0
    numbers = [message.number for message in messages if isinstance(message, Delivery)]
    assert numbers == [1, 2]  # all that there is comes again: the client knows what it has
    sessions.detach("c2", 2.0)
    again = Attach("ann", received=2, session=attached.session, receipt=attached.receipt.number)
    messages = told(sessions.attach("c3", again, 3.0), "c3")
    attached = next(message for message in messages if isinstance(message, Attached))
    assert attached.receipt.lost_since is None  # it was said once


class CountingFilter:
    """A filter on contexts that counts how often it was asked."""

    weight = size = 1
    attribute, values = "floor", one_of([1])

    def __init__(self) -> None:
        self.asked = 0

    def holds(self, attributes: Attributes) -> bool:
        self.asked += 1
        return attributes.get("floor") == 1


def test_whom_an_event_is_to_is_asked_once_for_each_context() -> None:
    sessions = Sessions(Limits(), "b")
    for number in range(30):
        client, connection = f"c{number}", f"#{number}"
        sessions.attach(connection, Attach(client), 0.0)
        sessions.admit(connection, Request(1, Subscribe((client, "s"), TRUE)), 0.0)
        sessions.admit(connection, Request(2, Context({"floor": number % 3})), 0.0)
    to = CountingFilter()
    addressed = Event({"x": 1}, "p", 1, to=to)  # type: ignore[arg-type]
    effects = sessions.deliver(addressed, [(f"c{number}", "s") for number in range(30)], 1.0)
    assert [effect.connection for effect in effects if type(effect) is Tell] == [
        f"#{number}" for number in range(1, 30, 3)
    ]
    assert to.asked == 3
    sessions.admit("#0", Request(3, Context({"floor": 1})), 2.0)
    effects = sessions.deliver(Event({"x": 1}, "p", 2, to=to), [("c0", "s")], 2.0)  # type: ignore[arg-type]
    assert [type(effect) for effect in effects] == [Tell]

"""The client's machine: requests once, deliveries once and in order, a new session when the old one is gone."""

from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs

from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Notify,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.message_checks import check_attach
from godwit.broker.messages import (
    Accepted,
    Advertise,
    Attach,
    Attached,
    Bye,
    Delivery,
    Publish,
    Quench,
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
from godwit.client import Client, ClientConfig
from godwit.errors import BadEvent, SubscriptionError
from godwit.filters import FALSE, TRUE, Event, event, parse
from godwit.mobility.move_messages import TrimConnectionLog
from tests.raw_messages import read_all

CONFIRM = ("confirm",)


def told(effects: list[Effect]) -> list[Any]:
    return [each.message for each in effects if isinstance(each, Tell)]


def wishes(effects: list[Effect]) -> list[Any]:
    return [message.wish for message in told(effects) if isinstance(message, Request)]


def published(effects: list[Effect]) -> list[int]:
    return [wish.event.sequence for wish in wishes(effects) if isinstance(wish, Publish)]


def hear(client: Client, message: Any, now: float = 0.0) -> list[Effect]:
    return client.handle(Heard("b", message), now)


def welcome(
    client: Client, accepted: int = 0, *, fresh: bool = True, session: str = "b/1/1", number: int = 1
) -> list[Effect]:
    """Connect, and be let in."""
    client.handle(Opened("b"), 0.0)
    return hear(client, Attached(accepted, fresh, Receipt(number=number), session))


def there(**config: Any) -> Client:
    """A client that is attached."""
    client = Client("ann", ClientConfig(**config))
    welcome(client)
    return client


def delivery(number: int, sequence: int | None = None) -> Delivery:
    return Delivery(number, event({}, publisher="p", sequence=number if sequence is None else sequence), ("x",))


def notified(effects: list[Effect]) -> list[int]:
    return [each.event.sequence for each in effects if isinstance(each, Notify)]


# ------------------------------------------------------------ requests


def test_before_it_is_let_in_a_client_says_only_who_it_is() -> None:
    client = Client("ann", ClientConfig(quench=True))
    assert client.subscribe("x", TRUE, 0.0) == []
    assert client.handle(Opened("b"), 0.0) == [Tell("b", Attach("ann", quench=True, attempt=1))]
    assert client.publish({"a": 1}, 0.0) == []
    requests = told(hear(client, Attached(0, True, Receipt(), "b/1/1")))
    assert [(request.number, type(request.wish)) for request in requests] == [(1, Subscribe), (2, Publish)]


def test_requests_are_numbered_and_say_what_was_asked() -> None:
    client = there()
    rules = QueueRules(count_max=3)
    effects = [
        *client.subscribe("x", TRUE, 0.0, expires=9.0, queue=rules),
        *client.replace("x", FALSE, 0.0),
        *client.unsubscribe("x", 0.0),
        *client.advertise("y", TRUE, 0.0),
        *client.unadvertise("y", 0.0),
    ]
    assert [request.number for request in told(effects)] == [1, 2, 3, 4, 5]
    assert wishes(effects) == [
        Subscribe(("ann", "x"), TRUE, 9.0, rules),
        Subscribe(("ann", "x"), FALSE),
        Unsubscribe(("ann", "x")),
        Advertise(("ann", "y"), TRUE),
        Unadvertise(("ann", "y")),
    ]


def test_an_event_is_stamped_with_publisher_number_and_time() -> None:
    client = there()
    [first] = wishes(client.publish({"a": 1}, 5.0))
    [second] = wishes(client.publish(Event({"a": 2}, payload=b"x", expires_at=9.0), 6.0))
    assert first.event == Event({"a": 1}, "ann", 1, published_at=5.0)
    assert second.event == Event({"a": 2}, "ann", 2, b"x", published_at=6.0, expires_at=9.0)


def test_an_event_that_is_not_well_formed_uses_no_number() -> None:
    client = there()
    with pytest.raises(BadEvent):
        client.publish({"a": float("nan")}, 0.0)
    assert published(client.publish({"a": 1}, 0.0)) == [1]


def test_what_is_not_acknowledged_is_sent_again_with_the_same_numbers() -> None:
    client = there()
    for n in range(4):
        client.publish({"n": n}, 0.0)
    hear(client, Accepted(1))
    client.handle(Closed("b"), 1.0)
    client.publish({"n": 4}, 1.0)
    again = told(welcome(client, 2, fresh=False))
    assert [(request.number, request.wish.event.sequence) for request in again] == [(3, 3), (4, 4), (5, 5)]


def test_only_so_many_requests_are_under_way() -> None:
    client = there(in_flight_max=2)
    assert published([effect for n in range(5) for effect in client.publish({"n": n}, 0.0)]) == [1, 2]
    assert published(hear(client, Accepted(1))) == [3]
    assert published(hear(client, Accepted(3))) == [4, 5]


def test_a_later_wish_takes_the_place_of_one_that_still_waits() -> None:
    client = Client("ann")
    client.subscribe("x", TRUE, 0.0)
    client.subscribe("y", TRUE, 0.0)
    client.subscribe("x", FALSE, 0.0)
    client.subscribe("z", TRUE, 0.0)
    client.unsubscribe("z", 0.0)  # nobody has heard of it
    assert wishes(welcome(client)) == [Subscribe(("ann", "x"), FALSE), Subscribe(("ann", "y"), TRUE)]


def test_a_subscription_that_the_broker_has_is_taken_back_there() -> None:
    client = there()
    client.subscribe("x", TRUE, 0.0)
    hear(client, Accepted(1))
    client.handle(Closed("b"), 0.0)
    client.unsubscribe("x", 0.0)
    assert wishes(welcome(client, 1, fresh=False)) == [Unsubscribe(("ann", "x"))]


def test_an_advertisement_is_not_taken_back_before_what_it_advertised_is_sent() -> None:
    client = Client("ann")
    client.advertise("all", TRUE, 0.0)
    client.publish({"a": 1}, 0.0)
    client.unadvertise("all", 0.0)
    assert [type(wish) for wish in wishes(welcome(client))] == [Advertise, Publish, Unadvertise]
    again = welcome(client, session="b/2/1")
    assert [type(wish) for wish in wishes(again)] == [Advertise, Publish, Unadvertise]


def test_taking_back_what_is_not_there_is_an_error_of_the_application() -> None:
    client = there()
    with pytest.raises(SubscriptionError):
        client.unsubscribe("x", 0.0)
    with pytest.raises(SubscriptionError):
        client.unadvertise("x", 0.0)


def test_a_refused_wish_is_shown_and_what_was_granted_before_stands() -> None:
    client = there()
    client.subscribe("x", TRUE, 0.0)
    hear(client, Accepted(1))
    client.subscribe("x", FALSE, 0.0)
    client.subscribe("y", TRUE, 0.0)
    [record] = hear(client, Refused(2, "because"))
    assert isinstance(record, Trace)
    hear(client, Refused(3, "no room"))
    assert [(refusal.wish.id, refusal.reason) for refusal in client.refusals] == [  # type: ignore[union-attr]
        (("ann", "x"), "because"),
        (("ann", "y"), "no room"),
    ]
    assert client.wanted == {("subscription", "x"): Subscribe(("ann", "x"), TRUE)}


def test_a_refusal_is_taken_notice_of_once_also_when_it_comes_before_attached() -> None:
    client = there()
    client.subscribe("x", TRUE, 0.0)
    client.handle(Opened("b"), 0.0)
    hear(client, Refused(1, "no"))
    hear(client, Attached(1, False, Receipt(), "b/1/1"))
    hear(client, Refused(1, "no"))
    assert len(client.refusals) == 1
    assert client.wanted == {}


def test_a_refusal_that_came_before_attached_is_recorded_when_its_session_is_known() -> None:
    client = there(mode="named")
    client.publish({"x": 1}, 0.0)
    client.handle(Opened("b"), 0.0)
    assert hear(client, Refused(1, "no")) == []  # it may be of another session
    effects = hear(client, Attached(1, False, Receipt(number=2), "b/1/1"))
    records = [effect.record for effect in effects if isinstance(effect, Trace)]
    assert [(record.kind, record.sequence, record.detail) for record in records] == [("refused", 1, "no")]


def test_a_broker_that_has_lost_what_it_acknowledged_and_does_not_know_it_is_told_of_in_the_receipt() -> None:
    client = there()
    for number in (1, 2):
        client.publish({"x": number}, 0.0)
        hear(client, Accepted(number))
    for attached in (
        Attached(2, False, Receipt(number=2), "b/1/1"),
        Attached(1, False, Receipt(number=2), "b/1/1"),
        Attached(0, True, Receipt(number=1, session_lost=True), "b/2/1"),  # which says it itself
    ):
        client.handle(Opened("b"), 0.0)
        hear(client, attached)
    assert [receipt.lost_since for receipt in client.receipts] == [None, None, 0.0, None]


# ------------------------------------------------------------ a session that is gone


def test_in_a_fresh_session_all_wants_are_said_again_then_the_events_numbered_from_one() -> None:
    client = there(in_flight_max=3)
    client.subscribe("x", TRUE, 0.0)
    client.subscribe("old", TRUE, 0.0, expires=5.0)
    client.advertise("y", TRUE, 0.0)
    hear(client, Accepted(3))
    for n in range(3):
        client.publish({"n": n}, 0.0)
    hear(client, Accepted(4))
    client.handle(Closed("b"), 0.0)
    client.publish({"n": 3}, 0.0)
    client.handle(Opened("b"), 9.0)
    effects = client.handle(Heard("b", Attached(0, True, Receipt(session_lost=True), "b/2/1")), 9.0)
    effects += hear(client, Accepted(3))
    assert [request.number for request in told(effects)] == [1, 2, 3, 4, 5]
    assert wishes(effects)[:2] == [Subscribe(("ann", "x"), TRUE), Advertise(("ann", "y"), TRUE)]
    assert published(effects) == [2, 3, 4]


def test_in_a_session_that_it_does_not_know_a_client_counts_on_from_there() -> None:
    client = there()
    client.subscribe("x", TRUE, 0.0)
    hear(client, Accepted(1))
    [request] = told(welcome(client, 57, fresh=False, session="b/0/9"))
    assert (request.number, request.wish) == (58, Subscribe(("ann", "x"), TRUE))


def test_in_a_fresh_session_events_that_have_been_seen_are_not_notified_again() -> None:
    client = there()
    assert notified(hear(client, delivery(7, 1))) == [1]
    welcome(client, session="b/2/1")
    assert notified(hear(client, delivery(1, 1))) == []
    assert notified(hear(client, delivery(2, 2))) == [2]
    assert (client.notified, client.duplicates) == (2, 1)


def test_receipts_are_kept_for_the_application_and_the_broker_is_told_which_came() -> None:
    client = there(receipts_max=2)
    for number in (2, 3):
        welcome(client, fresh=False, number=number)
    assert [receipt.number for receipt in client.receipts] == [2, 3]
    assert client.handle(Opened("b"), 0.0) == [Tell("b", Attach("ann", session="b/1/1", receipt=3, attempt=4, since=3))]


# ------------------------------------------------------------ deliveries


def test_deliveries_are_notified_in_order_and_a_number_that_is_not_higher_is_dropped() -> None:
    client = there()
    assert [notified(hear(client, delivery(n))) for n in (1, 2, 2, 1, 5)] == [[1], [2], [], [], [5]]


def test_deliveries_are_confirmed_by_the_sixteenth_or_after_a_while() -> None:
    client = there()
    assert hear(client, delivery(1), now=1.0)[1:] == [StartTimer(CONFIRM, 1.05)]
    assert client.handle(TimerDue(CONFIRM), 1.05) == [Tell("b", Received(1))]
    effects = [effect for n in range(2, 18) for effect in hear(client, delivery(n), now=2.0)]
    assert [each for each in effects if not isinstance(each, Notify)] == [
        StartTimer(CONFIRM, 2.05),
        StopTimer(CONFIRM),
        Tell("b", Received(17)),
    ]


def test_what_was_not_confirmed_on_a_connection_is_said_with_the_next_attach() -> None:
    client = there()
    hear(client, delivery(3))
    assert client.handle(Closed("b"), 0.0) == [StopTimer(CONFIRM)]
    assert client.handle(TimerDue(CONFIRM), 0.0) == []
    assert client.handle(Opened("b"), 0.0) == [Tell("b", Attach("ann", 3, "b/1/1", receipt=1, attempt=2, since=1))]


# ------------------------------------------------------------ leaving, and brokers that err


def test_leaving_sends_what_waits_and_ends_the_session() -> None:
    client = there(in_flight_max=1)
    client.subscribe("x", TRUE, 0.0)
    client.publish({"a": 1}, 0.0)
    effects = client.leave(0.0)
    assert published(effects) == [1]
    assert effects[-2:] == [Tell("b", Bye("the client leaves")), Close("b", "the client leaves")]
    assert client.handle(Opened("b"), 0.0) == [Tell("b", Attach("ann", attempt=2, since=1))]


def test_leaving_while_away_asks_for_nothing() -> None:
    assert Client("ann").leave(0.0) == []


def test_the_brokers_reason_is_kept() -> None:
    client = there()
    hear(client, Bye("no room"))
    assert client.closed_because == "no room"


@pytest.mark.parametrize(
    "message",
    [
        Accepted(9),
        Refused(9, "no"),
        Attached(0, False, Receipt(), "b/1/1"),
        Delivery(2**63, event({}), ()),
        Quench(TRUE),
        Synced(),
        None,
    ],
)
def test_a_message_that_no_honest_broker_sends_closes_the_connection(message: Any) -> None:
    client = there()
    record, close = hear(client, message)
    assert isinstance(record, Trace)
    assert record.record.kind == "fault"
    assert isinstance(close, Close)
    assert client.connection is None
    assert hear(client, delivery(1)) == []


HUGE: Any = 10**400  # which only JSON has
WELCOME: dict[str, Any] = {
    "accepted": 0,
    "fresh": True,
    "receipt": Receipt(number=1),
    "session": "b/1/1",
    "broker": "b",
}
GARBAGE: list[Any] = [
    None,
    -1,
    1,
    HUGE,
    float("nan"),
    "",
    "zz",
    b"x",
    [],
    {},
    (),
    ([],),
    (None,),
    True,
    TRUE,
    event({}),
]
GARBAGE += [Receipt(number="x"), Receipt(number=HUGE), Receipt(lost=[])]  # type: ignore[arg-type]
KINDS: list[Any] = [
    Attached(**WELCOME),
    Accepted(0),
    Refused(1, "no"),
    Delivery(1, event({}, publisher="p", sequence=1), ("x",), 0),
    Quench(TRUE),
    Bye("no room"),
    TrimConnectionLog(("a",)),
]


@pytest.mark.parametrize(
    "field",
    [
        {"broker": None},
        {"broker": 5},
        {"origin": None},
        {"renewed_at": "x"},
        {"renewed_at": float("nan")},
        {"renewed_at": HUGE},
        {"receipt": Receipt(number="x")},  # type: ignore[arg-type]
        {"receipt": Receipt(number=HUGE)},
        {"receipt": None},
        {"accepted": -1},
        {"fresh": 1},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_welcome_that_the_next_broker_could_not_be_told_of_closes_the_connection(field: dict[str, Any]) -> None:
    client = Client("ann")
    client.handle(Opened("b"), 0.0)
    for welcome in read_all([Attached(**{**WELCOME, **field})]):
        assert any(isinstance(each, Close) for each in hear(client, welcome))
    client.handle(Closed("b"), 0.0)
    assert told(client.handle(Opened("c"), 0.0)) == [Attach("ann", attempt=2, tried=("b",))]


@pytest.mark.parametrize("mode", ["relocate", "carry", "naive", "proxy"])
@pytest.mark.parametrize("message", KINDS, ids=lambda message: type(message).__name__)
def test_whatever_a_broker_says_the_client_goes_on_and_the_next_one_lets_it_in(message: Any, mode: str) -> None:
    for field in message.__struct_fields__:
        for garbage in GARBAGE:
            client = Client("ann", ClientConfig(mode=mode, quench=True))
            client.subscribe("x", TRUE, 0.0)
            client.handle(Opened("b"), 0.0)
            if not isinstance(message, Attached):
                hear(client, Attached(**WELCOME))
            for heard in read_all([structs.replace(message, **{field: garbage})]):
                hear(client, heard)
            client.publish({"x": 5}, 0.0)
            client.handle(Closed("b"), 0.0)
            (greeting,) = told(client.handle(Opened("c"), 0.0))
            check_attach(greeting)


@pytest.mark.parametrize(
    "message",
    [
        delivery(1),
        Accepted(0),
        Attached(5, False, Receipt(), "b/1/1"),
        Attached(-1, True, Receipt()),
    ],
)
def test_what_comes_before_it_can_closes_the_connection(message: Any) -> None:
    client = there()
    client.handle(Closed("b"), 0.0)
    client.handle(Opened("b"), 0.0)
    assert any(isinstance(each, Close) for each in hear(client, message))


def test_a_client_can_be_copied() -> None:
    client = there(quench=True)
    hear(client, Quench(parse("a < 3")))
    client.subscribe("x", parse("a < 3"), 0.0)
    client.publish({"a": 1}, 0.0)
    hear(client, delivery(1))
    client.handle(Closed("b"), 0.0)
    client.publish({"a": 5}, 0.0)
    copy = deepcopy(client)
    assert copy.handle(Opened("b"), 0.0) == client.handle(Opened("b"), 0.0)
    back = Attached(1, False, Receipt(), "b/1/1")
    assert hear(copy, back) == hear(client, back)


# ---------------------------------------------------------------- moving


def greeted(client: Client, broker: str) -> Attach:
    """Turn up at a broker, and what the client says there first."""
    [attach] = told(client.handle(Opened(broker), 0.0))
    assert isinstance(attach, Attach)
    return attach


def test_it_says_which_brokers_it_has_greeted_in_vain():
    client = there()
    assert greeted(client, "c").tried == ()
    assert greeted(client, "d").tried == ("c",)
    assert greeted(client, "c").tried == ("d",)
    assert greeted(client, "e").tried == ("d", "c")
    client.handle(Heard("e", Attached(0, False, Receipt(number=2), "b/1/1", "e")), 0.0)
    assert greeted(client, "f").tried == ()


def test_of_very_many_it_names_the_last():
    client = there()
    for number in range(40):
        attach = greeted(client, f"b{number}")
    assert attach.tried == tuple(f"b{number}" for number in range(23, 39))


def test_it_takes_back_what_a_new_session_began_with_and_nobody_wants_any_more():
    client = there()
    client.subscribe("a", TRUE, 0.0)
    client.subscribe("b", TRUE, 0.0)
    client.advertise("c", TRUE, 0.0)
    hear(client, Accepted(3))
    assert [wish.id[1] for wish in greeted(client, "far").wanted] == ["a", "b", "c"]
    client.unsubscribe("a", 0.0)
    client.unadvertise("c", 0.0)
    effects = client.handle(Heard("far", Attached(0, False, Receipt(number=1), "far/1/1", "far")), 0.0)
    assert wishes(effects) == [
        Subscribe(("ann", "b"), TRUE),
        Unsubscribe(("ann", "a")),
        Unadvertise(("ann", "c")),
    ]


def test_a_subscription_that_is_not_wanted_any_more_is_not_brought_along():
    client = there()
    client.subscribe("a", TRUE, 0.0)
    hear(client, Accepted(1))
    client.handle(Closed("b"), 0.0)
    client.unsubscribe("a", 0.0)
    assert greeted(client, "far").wanted == ()


# ------------------------------------------------------------ events that are kept, sessions that are kept


def test_an_event_to_be_kept_is_numbered_and_never_quenched() -> None:
    client = there(quench=True)
    hear(client, Quench(parse("n = 1")))
    assert client.publish({"n": 2}, 0.0) != []
    assert client.outbox.quenched == 1
    [retain] = wishes(client.publish({"n": 2}, 0.0, retain="place/1"))
    assert (retain.event.sequence, retain.key, retain.clear) == (2, "place/1", False)
    [clear] = wishes(client.publish({}, 0.0, retain="place/1", clear=True))
    assert (clear.event.sequence, clear.clear) == (3, True)
    assert [event.sequence for event in client.unanswered()] == [2, 3]


def test_an_event_to_be_kept_is_said_again_to_a_session_that_knows_nothing() -> None:
    client = there()
    client.publish({"n": 1}, 0.0, retain="k")
    client.set_session_expiry(5.0, 0.0)
    client.handle(Closed("b"), 1.0)
    said = wishes(welcome(client, session="b/2/1", number=1))
    assert [type(wish).__name__ for wish in said] == ["SetSessionExpiry", "Retain"]
    hear(client, Accepted(2))
    assert client.unanswered() == []
    assert not client.has_unanswered_changes()


def test_what_is_kept_waits_in_the_same_buffer_as_all_events() -> None:
    client = Client("ann", ClientConfig(buffer_events_max=2))
    for n in range(3):
        client.publish({"n": n}, 0.0, retain="k")
    assert client.outbox.lost == 1
    assert [event.sequence for event in client.unanswered()] == [2, 3]


def test_a_subscription_says_whether_it_shares_and_begins_with_what_is_kept() -> None:
    [subscribe] = wishes(there().subscribe("s", "n = 1", 0.0, share="workers", retained=True))
    assert (subscribe.share, subscribe.retained) == ("workers", True)

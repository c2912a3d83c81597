"""Malformed and hostile messages about clients that move: the link is closed, the broker goes on."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Close, Closed, Heard, LinkUp, Opened, Tell, TimerDue, Trace
from godwit.broker.limits import Limits
from godwit.broker.message_checks import is_number, is_whole, shown
from godwit.broker.messages import (
    Advertise,
    Attach,
    Attached,
    ChannelStart,
    Context,
    Delivery,
    Frame,
    Hello,
    LinkState,
    Packet,
    PastConnection,
    Publish,
    QueuedEvent,
    QueueRules,
    Receipt,
    Received,
    Refused,
    Request,
    Subscribe,
)
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility import mobile_broker, transfer_barrier
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.modes import LOG_MAX
from godwit.mobility.move_checks import WISHES_MAX
from godwit.mobility.move_messages import (
    AskInterests,
    Collect,
    Collected,
    EndOlderSession,
    Flush,
    Flushed,
    Interests,
    MoveOut,
    Prefetch,
    Proxy,
    ReachableBrokers,
    Relocate,
    Replay,
    SessionElsewhere,
    SessionUnknown,
    Superseded,
    WithdrawPrefetch,
)
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from tests.raw_messages import read_all
from tests.session_states import session_state

STATE = session_state()
WISH = Subscribe(("ann", "a"), parse("x > 0"))
HUGE: Any = 10**5_000  # no float, and Python does not even write it down
ITEM = QueuedEvent(1, event({"x": 1}, publisher="p", sequence=1), ("a",), 0.0)


def joined(**config: Any) -> Broker:
    """A broker whose two neighbours have greeted it."""
    broker = mobile_broker("here", {"left": 1.0, "right": 1.0}, BrokerConfig(**config))
    for peer in ("left", "right"):
        broker.handle(LinkUp(peer), 0.0)
        broker.handle(Arrived(peer, Hello(1, 0, 0, 1, heard=True)), 0.0)
    broker.routing.awaiting = {"advertisements": {}, "subscriptions": {}}  # type: ignore[attr-defined]
    return broker


def changed(thing: Any, **fields: Any) -> Any:
    return type(thing)(**{name: fields.get(name, getattr(thing, name)) for name in thing.__struct_fields__})


BAD_STATES: list[dict[str, Any]] = [
    {"subscriptions": (changed(WISH, queue="junk"),)},
    {"subscriptions": (changed(WISH, expires="x"),)},
    {"subscriptions": (changed(WISH, expires=HUGE),)},
    {"subscriptions": (changed(WISH, id=("bob", "a")),)},
    {"subscriptions": (Advertise(("ann", "a"), TRUE),)},
    {"subscriptions": None},
    {"advertisements": (Advertise(("bob", "a"), TRUE),)},
    {"advertisements": (Advertise(("ann", "a"), parse("place = myloc")),)},
    {"advertisements": (WISH,)},
    {"purged": {"age": []}},
    {"purged": {1: 1}},
    {"settled": None},
    {"settled": Receipt(suppressed="x")},  # type: ignore[arg-type]
    {"settled": Receipt(purged={"age": None})},  # type: ignore[dict-item]
    {"told": Receipt(purged=None)},  # type: ignore[arg-type]
    {"told": Receipt(number="x")},  # type: ignore[arg-type]
    {"told": Receipt(lost=None)},  # type: ignore[arg-type]
    {"told": Receipt(lost_more=None)},  # type: ignore[arg-type]
    {"lost": (("p", "x"),)},
    {"lost": (1,)},
    {"refusals": (changed(Refused(1, "no"), number=None),)},
    {"refusals": (changed(Refused(1, "no"), reason=[]),)},
    {"has_advertised": 1},
    {"accepted": HUGE},
    {"sent_up_to": 1},
    {"taken": 1, "confirmed": 2},
]
BAD: list[Any] = [
    ReachableBrokers((1,)),  # type: ignore[arg-type]
    Relocate("", "here", "left", 1),
    Relocate("ann", None, "left", 1),  # type: ignore[arg-type]
    Relocate("ann", "here", "left", "1"),  # type: ignore[arg-type]
    Superseded("ann", "here", 1, None, "far"),  # type: ignore[arg-type]
    SessionUnknown("ann", 5, 1),  # type: ignore[arg-type]
    Relocate("ann", "here", "left", 1, "1"),  # type: ignore[arg-type]
    Superseded("ann", "here", 1, 2, ""),
    EndOlderSession("ann", "here", 1, ""),
    Replay("ann", "here", 1, STATE, (), is_last=True, has_published=1),  # type: ignore[arg-type]
    Replay("ann", "here", 1, STATE, (None,), is_last=True),  # type: ignore[arg-type]
    Replay("ann", "here", 1, STATE, (changed(ITEM, event=None),), is_last=True),
    Replay("ann", "here", 1, STATE, (changed(ITEM, subscriptions=(1,)),), is_last=True),
    Replay("ann", "here", 1, changed(STATE, client="bob"), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, taken=-1), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, purged=None), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, subscriptions=("a",)), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, seen=((1, 2),)), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, seen=(("p", 2, 3),)), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, seen=(("p", 2, bytes(2**11 + 1)),)), (), is_last=True),
    *(Replay("ann", "here", 1, changed(STATE, **fields), (), is_last=True) for fields in BAD_STATES),
    Replay("ann", "here", 1, STATE, (changed(ITEM, queued_at=float("nan")),), is_last=True),
    Replay("ann", "here", 1, STATE, (changed(ITEM, queued_at=HUGE),), is_last=True),
    Replay("ann", "here", 1, STATE, (changed(ITEM, number=HUGE),), is_last=True),
    Replay("ann", "here", 1, STATE, (changed(ITEM, subscriptions=None),), is_last=True),
    Relocate("ann", "here", "left", HUGE),
    Interests("ann", "here", 1, (Advertise(("ann", "a"), parse("place = myloc")),)),
    AskInterests("ann", "here", "", 1),
    AskInterests("ann", "here", "left", None),  # type: ignore[arg-type]
    Interests("ann", "here", 1, (None,)),  # type: ignore[arg-type]
    Interests("ann", "here", 1, (changed(WISH, id=("bob", "a")),)),
    Interests("ann", "here", 1, (changed(WISH, filter=None),)),
    Interests("ann", "here", 1, (WISH,) * (WISHES_MAX + 1)),
    Collect("ann", 5, "left", 1),  # type: ignore[arg-type]
    Collected("ann", "left", "here", 1, None, (), (), is_last=True),  # type: ignore[arg-type]
    Collected("ann", "left", "here", 1, 1, (None,), (), is_last=True),  # type: ignore[arg-type]
    Collected("ann", "left", "here", 1, 1, (), None, is_last=True),  # type: ignore[arg-type]
    Collected("ann", "left", "here", 1, 1, (), (("p", 1, bytes(2**11 + 1)),), is_last=True),
    Collected("ann", "left", "here", 1, 1, (), (), is_last=None),  # type: ignore[arg-type]
    Prefetch("ann", "here", 1, None),  # type: ignore[arg-type]
    Prefetch("ann", "here", 1, (Advertise(("bob", "all"), TRUE),)),
    Prefetch("ann", "here", 1, (Advertise(("ann", "all"), "x >"),)),  # type: ignore[arg-type]
    Proxy("ann", "here", 1, (Advertise(("ann", "all"), TRUE),) * 1_001),
    Proxy("ann", "", 1, ()),
    WithdrawPrefetch("ann", "here", None),  # type: ignore[arg-type]
]


READ = read_all(BAD)  # once: every process that collects tests waits for it


@pytest.mark.parametrize("message", READ, ids=shown)
def test_what_no_honest_broker_sends_closes_its_link_and_no_other(message):
    broker = joined()
    effects = broker.handle(Arrived("left", Frame(1, 0, message)), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["left"]
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["fault"]
    assert broker.links["right"].open


def test_a_part_that_follows_nothing_is_recorded_and_leaves_nothing_behind():
    broker = joined()
    effects = broker.handle(Arrived("left", Frame(1, 0, cast(Any, Replay("ann", "here", 1, None, (ITEM,), True)))), 0.0)
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["fault"]
    assert broker.component(Relocation).arrivals == {}


KINDS = [
    ReachableBrokers,
    Relocate,
    Replay,
    Superseded,
    SessionUnknown,
    EndOlderSession,
    AskInterests,
    Interests,
    Collect,
    Collected,
    Prefetch,
    Proxy,
    WithdrawPrefetch,
]
GARBAGE = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just(STATE), st.just((ITEM,)), st.booleans())


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_whatever_comes_the_broker_never_raises(kind, data):
    broker = joined()
    for message in read_all([kind(*(data.draw(GARBAGE) for _ in kind.__struct_fields__))]):
        broker.handle(Arrived("left", Frame(1, 0, message)), 0.0)
    assert broker.links["right"].open


def joined_in_a_graph() -> Broker:
    """A broker of the graph family whose neighbour has greeted it, and has started its channel."""
    broker = mobile_broker("here", {"left": 1.0}, BrokerConfig(family="graph", advertisements="off"))
    broker.handle(LinkUp("left"), 0.0)
    broker.handle(Arrived("left", Hello(1, 0, 0, 1, heard=True)), 0.0)
    broker.handle(Arrived("left", Frame(1, 0, LinkState("left", 1, 2, {"here": 1.0}))), 0.0)
    broker.handle(Arrived("left", Frame(2, 0, Packet("left", 1, {"here": 1}, ChannelStart(1)))), 0.0)
    return broker


@pytest.mark.parametrize(
    "message", [ReachableBrokers(("far",)), Relocate("ann", "here", "left", 1), Flush("ann", "here", 1)]
)
def test_brokers_of_a_graph_put_these_into_packets(message):
    broker = joined_in_a_graph()
    effects = broker.handle(Arrived("left", Frame(3, 0, message)), 0.0)
    assert any(isinstance(effect, Close) for effect in effects)


HERE = PastConnection("left", 1, 0.0)


@pytest.mark.parametrize(
    "attach",
    [
        Attach("ann", mode="by boat"),
        Attach("ann", mode="carry", log=(changed(HERE, broker=""),)),
        Attach("ann", mode="carry", log=(changed(HERE, at=float("nan")),)),
        Attach("ann", mode="carry", log=(HERE,) * (LOG_MAX + 1)),
        Attach("ann", mode="carry", wanted=(changed(WISH, id=("bob", "a")),)),
        Attach("ann", mode="carry", log=(changed(HERE, at=HUGE),)),
        Attach("ann", mode="carry", log=(changed(HERE, at=-HUGE),)),
        Attach("ann", mode="carry", log=(changed(HERE, attempt=HUGE),)),
        Attach("ann", mode="proxy", origin="left", renewed_at=HUGE),
        Attach("ann", attempt=HUGE),
        Attach("ann", since=-HUGE),
        Attach("ann", received=-HUGE),
        Attach("ann", receipt=HUGE),
        Attach("ann", context=Context({"location": "hall"}, HUGE)),
        Attach("ann", wanted=(changed(WISH, expires=HUGE),)),
        Attach("ann", wanted=(changed(WISH, queue=QueueRules(count_max=HUGE)),)),
    ],
    ids=shown,
)
def test_a_greeting_that_no_honest_client_sends_closes_its_connection(attach):
    broker = joined()
    broker.handle(Opened("ann's"), 0.0)
    effects = broker.handle(Heard("ann's", attach), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["ann's"]
    assert len(broker.sessions) == 0
    assert broker.component(CarryPolicy).collecting == {}


@pytest.mark.parametrize(
    "said",
    [
        Request(HUGE, Publish(event({"x": 1}, publisher="ann", sequence=1))),
        Request(1, Publish(event({"x": 1}, publisher="ann", sequence=HUGE))),
        Request(1, Publish(event({"x": 1}, publisher="ann", sequence=1, expires_at=HUGE))),
        Request(1, Context({"location": "hall"}, HUGE)),
        Received(HUGE),
    ],
    ids=shown,
)
def test_a_number_that_nothing_can_be_reckoned_with_closes_its_connection(said):
    broker = joined()
    broker.handle(Heard("ann's", Attach("ann")), 0.0)
    effects = broker.handle(Heard("ann's", said), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["ann's"]


def test_numbers_are_those_that_can_be_reckoned_with():
    assert all(map(is_number, (0, -1, 0.5, 2**63, -1e18)))
    assert not any(map(is_number, (2**63 + 1, 1e300, float("inf"), float("nan"), 10**400)))
    assert all(map(is_whole, (0, -1, 2**63 - 1)))
    assert not any(map(is_whole, (2**63, -(2**63), -HUGE)))


def test_a_move_out_from_nobody_closes_the_connection():
    broker = joined()
    broker.handle(Opened("ann's"), 0.0)
    effects = broker.handle(Heard("ann's", MoveOut()), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["ann's"]


def test_brokers_that_nobody_knows_are_not_written_to():
    broker = joined()
    broker.handle(Opened("ann's"), 0.0)
    broker.handle(Heard("ann's", Attach("ann", mode="carry", log=(PastConnection("nowhere", 1, 0.0),))), 0.0)
    assert broker.component(OverlayRoutes).unsent == {}
    assert list(broker.component(CarryPolicy).collecting["ann"].brokers) == ["nowhere"]


def test_a_broker_that_never_answers_is_given_up_when_it_would_keep_nothing_any_more():
    broker = joined(limits=Limits(session_expiry_s=100.0))
    broker.handle(Opened("ann's"), 0.0)
    broker.handle(Heard("ann's", Attach("ann", mode="carry", log=(PastConnection("nowhere", 1, 0.0),))), 0.0)
    assert broker.handle(TimerDue(("collect", "ann")), 50.0) != []
    effects = broker.handle(TimerDue(("collect", "ann")), 100.0)
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["lost"]
    assert broker.component(CarryPolicy).collecting == {}


@pytest.mark.parametrize(
    "message",
    [
        *(bad for bad in READ if not isinstance(bad, ReachableBrokers)),
        Flush("ann", "", 1),
        Flushed("ann", 1, ""),
        Flushed("ann", 2**63, "left"),
        SessionElsewhere("ann", "here", 1, ""),
        ReachableBrokers(("far",)),
    ],
    ids=shown,
)
def test_what_no_honest_broker_puts_into_a_packet_closes_the_link(message):
    broker = joined_in_a_graph()
    effects = broker.handle(Arrived("left", Frame(3, 0, Packet("left", 1, {"here": 2}, message))), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["left"]
    assert (
        broker.component(Relocation).arrivals,
        broker.component(GraphBarrier).departing,
        broker.component(GraphBarrier).flushed,
    ) == ({}, {}, {})


@given(
    kind=st.sampled_from(
        [Relocate, Replay, Superseded, SessionUnknown, EndOlderSession, Flush, Flushed, SessionElsewhere]
    ),
    data=st.data(),
)
def test_whatever_comes_in_a_packet_the_broker_never_raises(kind, data):
    broker = joined_in_a_graph()
    for message in read_all([kind(*(data.draw(GARBAGE) for _ in kind.__struct_fields__))]):
        broker.handle(Arrived("left", Frame(3, 0, Packet("left", 1, {"here": 2}, message))), 0.0)


def test_of_two_brokers_that_ask_with_the_same_attempt_the_first_gets_the_session():
    broker = joined_in_a_graph()
    broker.handle(Opened("ann's"), 0.0)
    broker.handle(Heard("ann's", Attach("ann", attempt=1)), 0.0)
    barrier = broker.component(GraphBarrier)
    session = broker.sessions.session("ann")
    assert session is not None
    first, second = (Relocate("ann", "here", to, 2) for to in ("left", "far"))
    barrier.departing["ann"] = first
    barrier.depart(session, second, 0.0)
    assert barrier.departing == {"ann": first}


def test_answers_that_nobody_waits_for_are_kept_for_a_while_and_bounded(monkeypatch):
    monkeypatch.setattr(transfer_barrier, "FLUSHES_MAX", 3)
    broker = joined_in_a_graph()
    for attempt in range(1, 6):
        flushed: Any = Flushed("ann", attempt, "far")
        broker.handle(Arrived("left", Frame(attempt + 2, 0, Packet("left", 1, {"here": attempt + 1}, flushed))), 0.0)
    assert list(broker.component(GraphBarrier).flushed) == [("ann", attempt, "far") for attempt in (3, 4, 5)]
    for attempt in range(1, 6):
        broker.handle(TimerDue(("flushed", "ann", str(attempt), "far")), transfer_barrier.FLUSH_S)
    assert broker.component(GraphBarrier).flushed == {}


def test_a_client_that_comes_twice_and_wants_less_the_second_time_begins_with_that() -> None:
    """It has dropped its wish to unsubscribe with the lost session: nobody else would take the subscription back."""
    broker = mobile_broker("here", {"there": 1.0}, BrokerConfig())
    greeting = Attach("ann", 3, "gone/1/1", attempt=2, home="gone", since=1, wanted=(Subscribe(("ann", "s"), TRUE),))
    broker.handle(Opened("c1"), 0.0)
    broker.handle(Heard("c1", greeting), 0.0)
    broker.handle(Closed("c1"), 1.0)
    broker.handle(Opened("c2"), 2.0)
    broker.handle(Heard("c2", structs.replace(greeting, attempt=3, wanted=())), 2.0)
    for at in (60.0, 200.0):
        effects = broker.handle(TimerDue(("relocate", "ann")), at)
    told = [effect.message for effect in effects if isinstance(effect, Tell) and isinstance(effect.message, Attached)]
    assert [message.receipt.session_lost for message in told] == [True]
    session = broker.sessions.session("ann")
    assert session is not None
    assert session.subscriptions == {}
    assert cast(Any, broker.routing).in_subs[""] == {}


def test_a_question_for_what_a_client_wants_that_only_this_broker_could_answer_is_not_sent_in_circles() -> None:
    broker = joined()
    for connection, home, attempt in (("c1", "left", 1), ("c2", "here", 2)):
        broker.handle(Opened(connection), 0.0)
        broker.handle(Heard(connection, Attach("ann", mode="ask", session="left/1/1", home=home, attempt=attempt)), 0.0)
    assert broker.component(Relocation).arrivals["ann"].attach.home == "here"
    effects = broker.handle(Arrived("left", Frame(1, 0, cast(Any, AskInterests("ann", "here", "left", 3)))), 1.0)
    assert not any(isinstance(effect, Close) for effect in effects)


def test_what_comes_for_a_subscription_that_has_expired_while_its_session_is_on_its_way_is_not_delivered() -> None:
    broker = joined()
    wishes = (Subscribe(("ann", "short"), TRUE, expires=5.0), Subscribe(("ann", "long"), TRUE))
    broker.handle(Opened("ann's"), 0.0)
    broker.handle(Heard("ann's", Attach("ann", session="left/1/1", home="left", attempt=2, wanted=wishes)), 0.0)
    broker.handle(Opened("bob's"), 0.0)
    broker.handle(Heard("bob's", Attach("bob")), 0.0)
    for number, at in ((1, 4.9), (2, 5.0)):
        said = event({"x": number}, publisher="bob", sequence=number)
        broker.handle(Heard("bob's", Request(number, Publish(said))), at)
    state = session_state(client="ann", name="left/1/1", subscriptions=wishes)
    replay: Any = Replay("ann", "here", 2, state, (), is_last=True, to_incarnation=broker.incarnation)
    effects = broker.handle(Arrived("left", Frame(1, 0, replay)), 5.1)
    told = [effect.message for effect in effects if isinstance(effect, Tell)]
    assert [(each.event.sequence, each.subscriptions) for each in told if isinstance(each, Delivery)] == [
        (1, ("long", "short")),
        (2, ("long",)),
    ]

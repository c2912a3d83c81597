"""A broker among neighbours and clients of whom some are malformed or hostile: it closes, records and goes on."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import messages
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    LinkDown,
    LinkUp,
    Opened,
    Send,
    StopTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.graph import GraphRouting
from godwit.broker.links import LinkConfig
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Bye,
    ChannelTail,
    Delivery,
    Frame,
    Goodbye,
    Hello,
    LinkState,
    Nack,
    Packet,
    Publish,
    Received,
    Request,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.errors import PeerFault
from godwit.filters import EVERYTHING, FALSE, TRUE, Event, Some, all_of, event, parse
from godwit.mobility import mobile_broker
from godwit.testing import machines
from tests.raw_messages import read, read_all
from tests.snapshots import reborn

S = ("ann", "s")


def wrong(kind: Any, *fields: Any, **more: Any) -> Any:
    """A message or part of one, whose fields need not be what they should be."""
    return kind(*fields, **more)


CONFIGS = {
    "tree": BrokerConfig(),
    "merging": BrokerConfig(reduction="merging"),
    "simple": BrokerConfig(reduction="simple", advertisements="off"),
    "flooding": BrokerConfig(reduction="flooding"),
    "graph": BrokerConfig(family="graph"),
}


def kind_of(thing: Any) -> str:
    return type(thing).__name__


class Town:
    """The broker b; ann, its client; its neighbour m, who is honest; n and the client eve, who need not be."""

    def __init__(self, config: BrokerConfig = CONFIGS["tree"], made: type[Broker] = Broker) -> None:
        self.broker = made("b", {"n": 1.0, "m": 1.0}, config)
        self.honest = made("m", {"b": 1.0}, config)
        self.lives = 0
        self.asked = 0
        self.published = 0
        self.now = 0.0
        self.delivered: list[tuple[str, int]] = []
        self.closed: list[tuple[str, str]] = []
        self.told: list[tuple[str, Any]] = []
        self.records: list[Any] = []
        self.to(self.broker, LinkUp("m"))
        self.to(self.honest, LinkUp("b"))
        self.to(self.broker, LinkDown("m"), LinkUp("m"))  # the first Hello came before there was a connection
        self.to(self.honest, LinkDown("b"), LinkUp("b"))
        self.begin_life()
        if config.family == "tree":
            self.say(Synced("advertisements"), Synced("subscriptions"))
        self.to(self.broker, Opened("ann's"), Heard("ann's", Attach("ann")))
        self.ask(Subscribe(S, TRUE))

    def to(self, broker: Broker, *inputs: Any) -> list[Effect]:
        """Give a broker these inputs, and carry what the two brokers send each other. The effects at `broker`."""
        found: list[Effect] = []
        pending = [(broker, input) for input in inputs]
        while pending:
            machine, input = pending.pop(0)
            effects = machine.handle(input, self.now)
            if machine is broker:
                found += effects
            for effect in effects:
                match effect:
                    case Send(peer="m", frame=frame):
                        pending.append((self.honest, Arrived("b", frame)))
                    case Send(peer="b", frame=frame):
                        pending.append((self.broker, Arrived("m", frame)))
                    case Tell(connection="ann's", message=Delivery(event=event, number=number)):
                        self.delivered.append(event.id)
                        pending.append((self.broker, Heard("ann's", Received(number))))
                    case Close(peer=peer, reason=reason):
                        assert type(reason) is str
                        self.closed.append((peer, reason))
                    case Tell(connection=connection, message=message):
                        self.told.append((connection, message))
                    case Trace(record=record):
                        self.records.append(record)
        return found

    # ------------------------------------------------------------ the neighbour n

    def begin_life(self) -> list[Effect]:
        """n comes, without a memory."""
        self.lives += 1
        hello = Hello(self.lives, 1, 0, 1, True)
        return self.to(self.broker, LinkDown("n"), LinkUp("n"), Arrived("n", hello))

    def say(self, *said: Any) -> list[Effect]:
        """n sends messages, well numbered."""
        found: list[Effect] = []
        for message in said:
            number = self.broker.links["n"].received + 1
            found += self.to(self.broker, Arrived("n", Frame(number, 0, message)))
        return found

    # ------------------------------------------------------------ clients

    def ask(self, wish: Any) -> list[Effect]:
        """ann asks for something, well numbered."""
        self.asked += 1
        return self.to(self.broker, Heard("ann's", Request(self.asked, wish)))

    # ------------------------------------------------------------ what must go on

    def check(self) -> None:
        """The honest neighbour and the honest client still have what they had."""
        assert self.broker.links["m"].fault is None
        assert self.honest.links["b"].fault is None, "an honest broker is blamed for what it passed on"
        assert self.broker.links["m"].open
        assert self.broker.sessions.client_of("ann's") == "ann"
        assert {peer for peer, _ in self.closed} <= {"n", "eve's"}
        self.published += 1
        published = event({"x": 1}, publisher="pat", sequence=self.published)
        if self.published == 1:
            self.to(self.honest, Opened("pat's"), Heard("pat's", Attach("pat")))
        self.to(self.honest, Heard("pat's", Request(self.published, Publish(published))))
        assert self.delivered[-1:] == [("pat", self.published)]


def reasons(effects: list[Effect], peer: str = "n") -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, Close) and effect.peer == peer]


# ------------------------------------------------------------ neighbours

OPEN = parse("x > my.threshold")
BAD_SET: Any = wrong(Some, "x", 5)
BAD_NAME: Any = wrong(Some, 5, EVERYTHING)
BAD_EVENTS: list[Any] = [
    None,
    {"x": 1},
    wrong(Event, None),
    wrong(Event, {"x": object()}),
    wrong(Event, {"x": [1]}),
    wrong(Event, {"x": (1,)}),
    wrong(Event, {"x": math.nan}),
    wrong(Event, {"x": 2**70}),
    wrong(Event, {5: 5}),
    wrong(Event, {}, publisher=[]),
    wrong(Event, {}, sequence=None),
    wrong(Event, {}, payload="text"),
    wrong(Event, {}, to=5),
]
NO_NUMBERS: list[Any] = [None, "1", 1.5, [], math.inf]
BAD_IDS: list[Any] = [None, 5, "s", [], (), ("ann",), ("ann", "s", "t"), (1, "s"), ([], "s"), ({}, [])]
BAD_MESSAGES: list[Any] = [
    *(
        None,
        7,
        "Publish",
        b"",
        [],
        {},
        object(),
        Subscribe,
        wrong(Frame, 1, 0, ChannelTail()),
        wrong(Hello, 1, 0, 0, 1, False),
    ),
    *(
        ChannelTail(),
        Synced("everything"),
        wrong(Synced, None),
        LinkState("n", 1, 1, {}),
        Packet("n", 1, {"b": 1}, ChannelTail()),
    ),
    *(Unsubscribe(S), Unadvertise(S), wrong(Request, 1, Unsubscribe(S)), Attach("ann"), Nack(1, ())),
    *(wrong(Publish, one) for one in BAD_EVENTS),
    *(wrong(Subscribe, id, TRUE) for id in BAD_IDS),
    *(wrong(Advertise, id, TRUE) for id in BAD_IDS),
    *(wrong(Unsubscribe, id) for id in BAD_IDS),
    *(wrong(Unadvertise, id) for id in BAD_IDS),
    *(
        wrong(Subscribe, S, filter)
        for filter in (None, 5, "x >", OPEN, BAD_SET, BAD_NAME, all_of(TRUE, BAD_SET, parse("y=1")))
    ),
    *(wrong(Advertise, S, filter) for filter in (None, OPEN, BAD_SET)),
]


@pytest.mark.parametrize("message", read_all(BAD_MESSAGES), ids=kind_of)
def test_a_message_that_no_honest_neighbour_sends_closes_its_link_and_no_other(message: Any) -> None:
    town = Town()
    effects = town.say(message)
    [reason] = reasons(effects)
    assert Send("n", Goodbye(reason)) in effects
    assert effects.index(Send("n", Goodbye(reason))) < effects.index(Close("n", reason))
    assert [(record.kind, record.peer, record.detail) for record in town.records if record.kind == "fault"] == [
        ("fault", "n", reason)
    ]
    assert not town.broker.links["n"].connected
    town.check()


@pytest.mark.parametrize(
    "frame",
    [
        *(None, 5, "Hello", b"", [], object(), Publish(event({})), Bye("x"), Attach("n"), Frame),
        *(wrong(Frame, number, 0, ChannelTail()) for number in (0, -1, 10**9)),
        *(wrong(Frame, 9, 10**9, ChannelTail()), wrong(Ack, 10**9)),
        *(wrong(Hello, *numbers, False) for numbers in ((0, 0, 0, 1), (-1, 0, 0, 1), (1, 0, -1, 1), (1, 0, 0, 0))),
    ],
    ids=kind_of,
)
def test_a_frame_that_no_honest_neighbour_sends_closes_its_link_and_no_other(frame: Any) -> None:
    town = Town()
    effects = town.to(town.broker, Arrived("n", frame))
    [reason] = reasons(effects)
    assert Send("n", Goodbye(reason)) in effects
    assert {StopTimer(("ack", "n")), StopTimer(("resend", "n"))} <= set(effects)
    assert [record.message for record in town.records if record.kind == "fault"] == [type(frame).__name__]
    town.check()


def test_a_link_that_was_closed_for_a_fault_stays_closed_until_the_peer_starts_a_new_life() -> None:
    town = Town()
    [reason] = reasons(town.say(None))
    assert town.to(town.broker, Arrived("n", wrong(Frame, 1, 0, Publish(event({}))))) == []  # there is no connection
    for _ in range(2):
        town.to(town.broker, LinkUp("n"))
        assert town.to(town.broker, Arrived("n", wrong(Frame, 1, 0, Publish(event({}))))) == []
        assert reasons(town.to(town.broker, Arrived("n", wrong(Hello, 1, 1, 0, 1, False)))) == [reason]
        assert not town.broker.links["n"].connected
    copy = reborn(town.broker)
    copy.handle(LinkUp("n"), 0.0)
    assert reasons(copy.handle(Arrived("n", wrong(Hello, 1, 1, 0, 1, False)), 0.0)) == [
        reason
    ]  # a snapshot does not forgive
    assert reasons(town.begin_life()) == []
    assert town.broker.links["n"].open
    town.say(Synced("advertisements"), Synced("subscriptions"), Subscribe(("n", "s"), TRUE))
    town.check()


def test_what_a_hostile_neighbour_had_told_stays_in_force_and_its_events_wait_for_its_next_life() -> None:
    town = Town()
    town.say(Advertise(("p", "a"), TRUE), Subscribe(("n", "s"), TRUE), None)
    town.check()
    waiting = [message for message in town.broker.links["n"].outbox if isinstance(message, Publish)]
    assert [message.event.id for message in waiting] == [("pat", 1)]


def test_what_came_before_the_fault_in_one_go_is_handled() -> None:
    """Frames that were held early are handed on together: the fault of a later one takes nothing back."""
    town = Town()
    link = town.broker.links["n"]
    first = link.received + 1
    good = Publish(event({"x": 1}, publisher="nat", sequence=1))
    town.to(town.broker, Arrived("n", wrong(Frame, first + 1, 0, 7)))
    effects = town.to(town.broker, Arrived("n", Frame(first, 0, good)))
    assert town.delivered == [("nat", 1)]
    assert reasons(effects) == ["sends a int, which brokers of a tree do not exchange"]
    town.check()


def test_a_connection_from_somebody_who_is_no_neighbour_is_closed() -> None:
    town = Town()
    assert town.broker.handle(LinkUp("stranger"), 0.0) == [Close("stranger", "stranger is not a neighbour of b")]
    assert town.broker.handle(Arrived("stranger", wrong(Hello, 1, 0, 0, 1, False)), 0.0) == []
    assert town.broker.handle(LinkDown("stranger"), 0.0) == []


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_goodbye_closes_the_link_on_this_side_too_and_routing_hears_of_it(family: str) -> None:
    town = Town(CONFIGS[family])
    effects = town.to(town.broker, Arrived("n", Goodbye("enough")))
    assert reasons(effects) == ["n closed the link: enough"]
    link = town.broker.links["n"]
    assert (link.connected, link.fault) == (False, None)
    if family == "graph":
        assert isinstance(town.broker.routing, GraphRouting)
        assert "n" not in town.broker.routing.open
    town.check()
    assert reasons(town.begin_life()) == []


def test_a_link_that_broke_is_kept_and_one_that_is_down_for_too_long_given_up() -> None:
    broker = Broker("b", {"n": 1.0}, BrokerConfig(family="graph", link=LinkConfig(dead_after_s=9.0)))
    broker.handle(LinkUp("n"), 0.0)
    broker.handle(Arrived("n", wrong(Hello, 1, 0, 0, 1, True)), 0.0)
    assert broker.links["n"].outbox
    broker.handle(LinkDown("n"), 1.0)
    assert broker.handle(LinkDown("n"), 1.0) == []
    broker.handle(TimerDue(("dead", "n")), 10.0)
    assert not broker.links["n"].outbox


def test_a_link_state_closes_the_link_to_a_broker_of_a_tree_and_a_subscription_that_to_one_of_a_graph() -> None:
    assert reasons(Town().say(LinkState("n", 1, 1, {"b": 1.0}))) == [
        "sends a LinkState, which brokers of a tree do not exchange"
    ]
    assert reasons(Town(CONFIGS["graph"]).say(Subscribe(S, TRUE))) == [
        "sends a Subscribe, which brokers of a graph do not exchange"
    ]


# ------------------------------------------------------------ clients


@pytest.mark.parametrize(
    "message",
    read_all(
        [
            *(
                None,
                5,
                "Attach",
                [],
                object(),
                Attach,
                wrong(Hello, 1, 0, 0, 1, False),
                Publish(event({})),
                Subscribe(S, TRUE),
            ),
            *(wrong(Attach, name) for name in [*NO_NUMBERS[2:], None, "", 5, "x" * 300]),
            *(wrong(Attach, "eve", received) for received in (-1, "0", None)),
            *(Received(1), wrong(Request, 1, Unsubscribe(S)), Bye("x")),  # before Attach
        ]
    ),
    ids=kind_of,
)
def test_a_client_that_begins_with_nonsense_is_closed_with_a_reason(message: Any) -> None:
    town = Town()
    effects = town.to(town.broker, Opened("eve's"), Heard("eve's", message))
    [reason] = reasons(effects, "eve's")
    assert Tell("eve's", Bye(reason)) in effects
    [record] = [record for record in town.records if record.kind == "fault"]
    assert (record.peer, record.message, record.detail) == ("eve's", type(message).__name__, reason)
    town.check()


@pytest.mark.parametrize(
    "message",
    read_all(
        [
            *(Attach("eve"), Delivery(1, event({}), ()), Received(99), wrong(Received, None), wrong(Received, "1")),
            *(wrong(Request, number, Unsubscribe(S)) for number in [*NO_NUMBERS, 0, -1, 2, 10**9]),
            *(
                wrong(Request, 1, wish)
                for wish in (None, 5, ChannelTail(), Synced(), wrong(Request, 1, Unsubscribe(S)))
            ),
            *(wrong(Request, 1, wrong(Publish, one)) for one in BAD_EVENTS),
            *(wrong(Request, 1, wrong(Subscribe, id, TRUE)) for id in BAD_IDS),
            *(wrong(Request, 1, wrong(Unadvertise, id)) for id in BAD_IDS),
            *(wrong(Request, 1, wrong(Subscribe, ("eve", "s"), filter)) for filter in (None, 5, BAD_SET, BAD_NAME)),
            *(wrong(Request, 1, wrong(Advertise, ("eve", "s"), filter)) for filter in (None, BAD_SET)),
            wrong(Request, 1, wrong(Subscribe, ("eve", "s"), TRUE, expires="soon")),
            wrong(Request, 1, wrong(Subscribe, ("eve", "s"), TRUE, queue=5)),
        ]
    ),
    ids=kind_of,
)
def test_a_client_that_asks_for_nonsense_is_closed_with_a_reason_and_its_session_stays(message: Any) -> None:
    town = Town()
    town.to(town.broker, Opened("eve's"), Heard("eve's", Attach("eve")))
    effects = town.to(town.broker, Heard("eve's", message))
    [reason] = reasons(effects, "eve's")
    assert Tell("eve's", Bye(reason)) in effects
    [record] = [record for record in town.records if record.kind == "fault"]
    assert (record.peer, record.detail) == ("eve", reason)
    town.check()
    town.to(town.broker, Opened("again"), Heard("again", Attach("eve")))
    assert town.broker.sessions.client_of("again") == "eve"


def test_what_is_merely_not_allowed_is_refused_and_the_connection_stays() -> None:
    town = Town()
    town.to(town.broker, Opened("eve's"), Heard("eve's", Attach("eve")))
    wishes: list[Any] = [
        Unsubscribe(S),  # ann's
        Subscribe(("eve", "s"), OPEN),
        Publish(event({}, publisher="ann", sequence=1)),
        Unadvertise(("eve", "a")),
    ]
    for number, wish in enumerate(wishes, start=1):
        town.to(town.broker, Heard("eve's", wrong(Request, number, wish)))
    refused = [message for connection, message in town.told if isinstance(message, messages.Refused)]
    assert [message.number for message in refused] == [1, 2, 3, 4]
    assert town.broker.sessions.client_of("eve's") == "eve"
    town.check()


def test_a_connection_that_never_said_who_it_is_may_close() -> None:
    town = Town()
    assert town.broker.handle(Opened("eve's"), 0.0) == []
    assert town.broker.handle(Closed("eve's"), 0.0) == []


def test_a_timer_that_nobody_waits_for_any_more_does_nothing() -> None:
    town = Town()
    for key in (("ack", "n"), ("resend", "n"), ("expiry",), ("session", "nobody"), ("quench",)):
        town.to(town.broker, TimerDue(key))
    town.check()


# ------------------------------------------------------------ whatever comes

SMALL = st.integers(-1, 9)
NONSENSE = st.one_of(
    st.none(),
    st.booleans(),
    SMALL,
    st.sampled_from([10**9, 2**70, -(2**70), math.nan, math.inf, 1.5]),
    st.sampled_from(["", "n", "m", "b", "ann", "s", "x" * 300, "\ud800", b"bytes"]),
    st.sampled_from([[], (), {}, (None,), ([], {}), [1], object(), Frame, len, Ellipsis]),
)
NAMES = st.sampled_from(["n", "m", "b", "ann", "s"])
IDS = st.one_of(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES), NONSENSE, st.tuples(NONSENSE, NONSENSE))
FILTERS = st.one_of(
    st.sampled_from([TRUE, FALSE, parse("x > 0"), parse("x > 5 AND y = 'a'"), OPEN, BAD_SET, BAD_NAME]), NONSENSE
)
EVENTS = st.one_of(
    st.builds(
        Event,
        st.one_of(st.dictionaries(NAMES, SMALL), st.dictionaries(NAMES, NONSENSE), NONSENSE),
        st.one_of(NAMES, NONSENSE),
        st.one_of(SMALL, NONSENSE),
    ),
    st.sampled_from(BAD_EVENTS),
    NONSENSE,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": IDS,
    "filter": FILTERS,
    "event": EVENTS,
    "what": st.one_of(st.sampled_from(["everything", "advertisements", "subscriptions"]), NONSENSE),
    "targets": st.one_of(st.dictionaries(NAMES, SMALL, max_size=3), st.dictionaries(NAMES, NONSENSE), NONSENSE),
    "neighbours": st.one_of(st.dictionaries(NAMES, SMALL), st.dictionaries(NAMES, NONSENSE), NONSENSE),
    "numbers": st.one_of(st.lists(SMALL).map(tuple), NONSENSE),
    "source": st.one_of(NAMES, NONSENSE),
    "broker": st.one_of(NAMES, NONSENSE),
    "client": st.one_of(NAMES, NONSENSE),
    "queue": st.one_of(st.none(), st.builds(messages.QueueRules, NONSENSE, NONSENSE, NONSENSE, NONSENSE), NONSENSE),
}
STRUCTS: list[type[msgspec.Struct]] = [
    found
    for found in (getattr(messages, name) for name in messages.__all__)
    if isinstance(found, type) and issubclass(found, msgspec.Struct)
]


def built(kind: type[msgspec.Struct], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A message of this kind, whose fields may or may not be what they should be."""
    fields = [
        inner if name in ("message", "wish") else FIELDS.get(name, st.one_of(SMALL, SMALL, NONSENSE))
        for name in kind.__struct_fields__
    ]
    return st.builds(kind, *fields)


PLAIN = st.one_of([built(kind, NONSENSE) for kind in STRUCTS])
ANYTHING = st.one_of(PLAIN, PLAIN, st.one_of([built(kind, PLAIN) for kind in STRUCTS]), NONSENSE)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), ANYTHING),
        st.tuples(st.just("say"), ANYTHING),
        st.tuples(st.just("frame"), ANYTHING),
        st.tuples(st.just("tell"), ANYTHING),
        st.tuples(st.just("ask"), ANYTHING),
    ),
    max_size=12,
)


@pytest.mark.parametrize("made", [Broker, mobile_broker])
@pytest.mark.parametrize("name", CONFIGS)
@given(steps=STEPS)
def test_whatever_comes_handle_never_raises_and_everyone_else_goes_on(
    name: str, made: type[Broker], steps: list[tuple[str, Any]]
) -> None:
    town = Town(CONFIGS[name], made)
    for kind, said in steps:
        try:
            thing = read(Request(1, said) if kind == "ask" else said)
        except PeerFault:
            continue  # the decoder refuses it
        if kind in ("say", "frame") and not town.broker.links["n"].open:
            town.begin_life()
        if kind in ("tell", "ask") and town.broker.sessions.client_of("eve's") is None:
            town.to(town.broker, Opened("eve's"), Heard("eve's", Attach("eve")))
        session = town.broker.sessions.session("eve")
        match kind:
            case "say":
                town.say(thing)
            case "frame":
                town.to(town.broker, Arrived("n", thing))
            case "tell":
                town.to(town.broker, Heard("eve's", thing))
            case "ask":
                assert session is not None
                town.to(town.broker, Heard("eve's", msgspec.structs.replace(thing, number=session.accepted + 1)))
    faults = [record for record in town.records if record.kind == "fault"]
    assert len(faults) <= len(steps)
    assert all(record.detail for record in faults)
    town.check()


@pytest.mark.parametrize("reduction", ["simple", "identity", "covering", "merging"])
def test_what_somebody_publishes_as_soon_as_it_comes_is_not_lost(reduction: str) -> None:
    network = machines(["ab", "bc"], reduction=reduction, expects_strangers=True, make=Broker)
    ann = network.attach("ann", "c")
    network.ask("ann", ann.subscribe("s", TRUE, network.now))
    for time in range(3):  # each comes, publishes and goes before any broker hears of another
        name = f"bob{time}"
        said = (Attach(name), Request(1, Publish(Event({}, name, 1))), Bye("that is all"))
        inputs: list[Opened | Heard] = [Opened(name), *(Heard(name, each) for each in said)]
        for input in inputs:
            told = network.brokers["a"].handle(input, network.now)
            network.carry_out("a", [effect for effect in told if isinstance(effect, Send)])
        network.run()
    assert network.notified("ann") == [("bob0", 1), ("bob1", 1), ("bob2", 1)]

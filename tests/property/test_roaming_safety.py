"""Whatever clients and brokers say about moves: no broker stops, nothing grows beyond its bound, nothing is left."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Advertise,
    Attach,
    Bye,
    Context,
    PastConnection,
    Publish,
    QueuedEvent,
    Request,
    Subscribe,
)
from godwit.broker.session import Session
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility import overlay_routes
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.modes import MODES
from godwit.mobility.move_messages import MoveOut, ReachableBrokers, Relocate, Replay
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.mobility.relocation import RELOCATE_S, Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from tests.property.roaming_line import NAMES, RoamingLine

FILTER = parse("x > 1")
EXPIRY_S = 400.0
CLIENTS = ("ann", "bob")
BROKERS = ("", "zz", *NAMES)
CONNECTIONS = ("k1", "k2", "k3")
WANTED = ((), (Subscribe(("?", "f"), FILTER),), (Advertise(("?", "f"), FILTER), Subscribe(("?", "g"), parse("y = 1"))))
LOGS = ((), (PastConnection("a", 1, 0.0), PastConnection("zz", 1, 0.0)))

attaching = st.tuples(
    st.just("attach"),
    st.sampled_from(NAMES),
    st.sampled_from(CONNECTIONS),
    st.fixed_dictionaries(
        {
            "client": st.sampled_from(CLIENTS),
            "mode": st.sampled_from(sorted(MODES)),
            "home": st.sampled_from(BROKERS),
            "session": st.integers(0, 3),  # none, an invented one, the first or the last that was heard of
            "attempt": st.integers(-1, 2),  # since the last greeting
            "since": st.integers(0, 3),
            "wanted": st.sampled_from(WANTED),
            "tried": st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple),
            "log": st.sampled_from(LOGS),
            "quench": st.booleans(),
        }
    ),
)
saying = st.tuples(
    st.sampled_from(["close", "bye", "move out", "subscribe", "publish", "context"]),
    st.sampled_from(NAMES),
    st.sampled_from(CONNECTIONS),
    st.integers(1, 3),
)
passing = st.tuples(st.sampled_from(["wait", "cut", "mend"]), st.sampled_from([0.1, 12.0, 40.0, 130.0]))


def greeting(net: RoamingLine, attempt: int, fields: dict[str, Any]) -> Attach:
    names = net.sessions_told()
    session = ("", "zz/1/1", names[0] if names else "", names[-1] if names else "")[fields["session"]]
    client = fields["client"]
    wanted = tuple(structs.replace(wish, id=(client, wish.id[1])) for wish in fields["wanted"])
    return Attach(**{**fields, "session": session, "attempt": attempt, "wanted": wanted})


def act(net: RoamingLine, step: tuple[Any, ...], attempt: int) -> int:
    match step:
        case ("attach", at, connection, fields):
            attempt = max(0, attempt + fields["attempt"])
            net.say(at, connection, greeting(net, attempt, fields))
        case ("close", at, connection, _):
            net.hang_up(at, connection)
        case ("bye", at, connection, _):
            net.say(at, connection, Bye("gone"))
        case ("move out", at, connection, _):
            net.say(at, connection, MoveOut())
        case (what, at, connection, number):
            client = net.brokers[at].sessions.client_of(connection) or "ann"
            wishes: dict[str, Any] = {
                "subscribe": Subscribe((client, "h"), FILTER),
                "publish": Publish(event({"x": 3}, publisher=client, sequence=number)),
                "context": Context({"place": "hall"}, 1.0),
            }
            net.say(at, connection, Request(number, wishes[what]))
        case ("wait", seconds):
            net.pass_time(seconds)
        case ("cut", _):
            net.block("bc")
        case ("mend", _):
            net.block()
    return attempt


def left(net: RoamingLine) -> dict[Any, Any]:
    """What brokers keep of clients, but for the bounded memory of where they went."""
    kept: dict[type, tuple[str, ...]] = {
        Relocation: ("arrivals",),
        CarryPolicy: ("collecting",),
        GraphBarrier: ("departing", "flushed"),
        OverlayRoutes: ("unsent", "held"),
        PublisherPresence: ("holdings", "predicted", "publishers"),
    }
    found: dict[Any, Any] = {}
    for name, broker in net.brokers.items():
        for part in broker.components.values():
            for what in kept.get(type(part), ()):
                if getattr(part, what):
                    found[name, what] = getattr(part, what)
        found |= {(name, table): size for table, size in broker.routing.sizes().items() if size}
        if len(broker.sessions):
            found[name, "sessions"] = [session.client for session in broker.sessions]
    return found


COMES = {"client": "ann", "mode": "relocate", "home": "a", "session": 1, "attempt": 1, "since": 0}
COMES |= {"wanted": (), "tried": (), "log": (), "quench": False}


@pytest.mark.parametrize("family", ["tree", "graph"])
@given(steps=st.lists(st.one_of(attaching, attaching, saying, passing), max_size=25))
@example(steps=[("attach", "c", "k1", COMES | {"home": "zz"}), ("attach", "c", "k2", COMES | {"mode": "naive"})])
@example(steps=[("attach", "c", "k1", COMES | {"home": "zz"}), ("attach", "c", "k1", COMES | {"mode": "naive"})])
@example(steps=[("attach", "c", "k1", COMES | {"home": "zz"}), ("attach", "c", "k2", COMES | {"mode": "carry"})])
def test_whatever_clients_say_no_broker_stops_and_nothing_is_left(family, steps):
    net = RoamingLine(family=family, advertisements="optional", limits=Limits(session_expiry_s=EXPIRY_S))
    attempt = 1
    for step in steps:
        attempt = act(net, step, attempt)
    net.block()
    net.pass_time(300.0)
    for at, connection in list(net.open):
        net.hang_up(at, connection)
    net.pass_time(20_000.0)
    assert left(net) == {}


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("over", ["k2", "k3"])
def test_a_client_whose_session_is_on_its_way_waits_for_it_in_every_mode(mode, over):
    net = RoamingLine()
    net.say("a", "k1", Attach("ann", attempt=1))
    name = net.sessions_told()[-1]
    net.say("a", "k1", Request(1, Subscribe(("ann", "f"), FILTER)))
    net.hang_up("a", "k1")
    net.blocked = {("b", "c")}
    greeting = Attach("ann", session=name, attempt=2, home="a", since=1, wanted=(Subscribe(("ann", "f"), FILTER),))
    net.say("c", "k2", greeting)
    net.say("c", over, structs.replace(greeting, attempt=3, mode=mode))
    assert "ann" in net.brokers["c"].component(Relocation).arrivals
    net.block()
    net.pass_time(200.0)
    assert [session.name for session in net.brokers["c"].sessions] == [name]
    assert net.is_attached("c", over) == (over == "k3")  # a second greeting over one connection is a fault
    assert not any(net.brokers[other].sessions.session("ann") for other in "ab")


# ------------------------------------------------------------ bounds


def replayed(client: str, net: RoamingLine, attempt: int = 2) -> Replay:
    """The first part of a session that nobody has asked for."""
    state = Session(client, "zz/1/1", net.brokers["a"].config.limits).state()
    return Replay(client, "c", attempt, state, (), is_last=False)


def waiting(first: int, count: int = 64) -> tuple[QueuedEvent, ...]:
    numbers = range(first, first + count)
    return tuple(QueuedEvent(n, event({"x": 3}, publisher="p", sequence=n), ("f",), 0.0) for n in numbers)


def test_a_session_of_which_only_a_part_comes_goes_on_with_that_part():
    net = RoamingLine(limits=Limits(session_expiry_s=EXPIRY_S))
    net.forge("b", "c", replayed("ann", net))
    assert list(net.brokers["c"].component(Relocation).arrivals) == ["ann"]
    net.pass_time(200.0)
    assert net.brokers["c"].component(Relocation).arrivals == {}
    assert [session.name for session in net.brokers["c"].sessions] == ["zz/1/1"]
    net.pass_time(EXPIRY_S)
    assert left(net) == {}


@pytest.mark.parametrize("home", BROKERS)
def test_a_client_that_comes_where_a_part_of_its_session_waits_is_let_in(home):
    net = RoamingLine()
    net.forge("b", "c", replayed("ann", net))
    net.pass_time(50.0)
    net.say("c", "k1", Attach("ann", session="zz/1/1" if home else "", home=home, attempt=5))
    net.pass_time(130.0)
    assert net.is_attached("c", "k1")


def test_what_a_client_brings_while_it_waits_is_bounded_as_in_a_session():
    limits = Limits(subscriptions_max=10, advertisements_max=3, filter_literals_max=20)
    net = RoamingLine(limits=limits)
    large = parse(" OR ".join(f"x{i} = {i}" for i in range(21)))
    for turn in range(30):
        names = [f"{turn}.{i}" for i in range(8)]
        wishes = [Subscribe(("ann", name), parse(f"x = {turn}")) for name in ("same", *names)]
        advertised = [Advertise(("ann", name), parse(f"y{turn} = 1")) for name in ("same", *names)]
        wanted: Any = (Subscribe(("ann", "large"), large), *wishes, *advertised)
        net.say("c", f"k{turn}", Attach("ann", session="zz/1/1", attempt=turn + 2, home="zz", since=1, wanted=wanted))
        arrival = net.brokers["c"].component(Relocation).arrivals["ann"]
        assert len(arrival.subscriptions) <= limits.subscriptions_max
        assert len(arrival.advertisements) <= limits.advertisements_max
        filters = [*arrival.advertisements.values(), *(each.filter for each in arrival.subscriptions.values())]
        assert max(filter.size for filter in filters) <= limits.filter_literals_max
        assert arrival.subscriptions["same"].filter.matches(event({"x": turn}))
    net.pass_time(200.0)
    session = net.brokers["c"].sessions.session("ann")
    assert session is not None
    assert list(session.subscriptions) == ["same"]  # of what it wants now, what there was room for
    assert len(session.advertisements) == 3
    assert "large" not in session.subscriptions


def test_replays_that_nobody_has_asked_for_are_bounded_by_the_number_of_sessions():
    net = RoamingLine(limits=Limits(sessions_max=5))
    for i in range(3):
        net.say("c", f"k{i}", Attach(f"ann{i}"))
    for i in range(10):
        net.forge("b", "c", replayed(f"bob{i}", net))
    assert len(net.brokers["c"].component(Relocation).arrivals) == 2
    assert sum(record.kind == "lost" for record in net.records) == 8
    net.say("c", "k9", Attach("zoe"))
    assert not net.is_attached("c", "k9")
    net.say("c", "k10", Attach("zoe", mode="naive"))
    assert not net.is_attached("c", "k10")
    net.pass_time(200.0)
    assert len(net.brokers["c"].sessions) == 5


def test_the_events_of_a_replay_are_bounded_by_what_a_queue_holds():
    net = RoamingLine(limits=Limits(queue_events_max=100))
    net.forge("b", "c", replayed("ann", net))
    arrival = net.brokers["c"].component(Relocation).arrivals["ann"]
    for i in range(5):
        net.forge("b", "c", Replay("ann", "c", 2, None, waiting(1 + 64 * i), is_last=False))
        net.forge("b", "c", Replay("ann", "c", 2, None, (), is_last=False))
    assert sum(len(part.items) for part in arrival.parts) == 100
    assert len(arrival.parts) == 3
    lost = [record.sequence for record in net.records if record.kind == "lost"]
    assert lost == list(range(101, 321))
    net.forge("b", "c", Replay("ann", "c", 2, None, waiting(321, 1), is_last=True))
    session = net.brokers["c"].sessions.session("ann")
    assert session is not None
    assert len(session.queue) == 100


def test_the_bytes_of_a_replay_are_bounded_by_what_a_queue_holds():
    net = RoamingLine(limits=Limits(queue_bytes_max=10_000))
    net.forge("b", "c", replayed("ann", net))
    heavy = event({"x": 3}, publisher="p", sequence=1, payload=bytes(4_000))
    for _ in range(5):
        net.forge("b", "c", Replay("ann", "c", 2, None, (QueuedEvent(1, heavy, ("f",), 0.0),), is_last=False))
    assert sum(len(part.items) for part in net.brokers["c"].component(Relocation).arrivals["ann"].parts) == 2


def test_messages_to_brokers_that_do_not_exist_wait_for_a_while_and_are_bounded(monkeypatch):
    monkeypatch.setattr(overlay_routes, "UNSENT_MAX", 20)
    monkeypatch.setattr(overlay_routes, "UNSENT_EACH_MAX", 3)
    net = RoamingLine()
    for i in range(10):
        net.forge("a", "b", Relocate(f"ann{i}", "zz", "a", 1))
    assert [len(messages) for messages in net.brokers["b"].component(OverlayRoutes).unsent.values()] == [3]
    for i in range(40):
        net.forge("a", "b", Relocate("ann", f"zz{i}", "a", 1))
    assert (
        sum(map(len, net.brokers["b"].component(OverlayRoutes).unsent.values()))
        == net.brokers["b"].component(OverlayRoutes).unsent_count
        == 20
    )
    assert sum(record.kind == "lost" for record in net.records) == 7 + 23
    net.pass_time(overlay_routes.UNSENT_S)
    assert (
        net.brokers["b"].component(OverlayRoutes).unsent,
        net.brokers["b"].component(OverlayRoutes).unsent_count,
    ) == ({}, 0)
    assert sum(record.kind == "lost" for record in net.records) == 50


def test_what_waits_for_a_broker_is_sent_when_somebody_tells_of_it():
    net = RoamingLine()
    net.forge("b", "c", Relocate("ann", "zz", "a", 1))
    assert net.brokers["c"].component(OverlayRoutes).unsent_count == 1
    net.forge("b", "c", ReachableBrokers(("zz",)))
    assert (
        net.brokers["c"].component(OverlayRoutes).unsent,
        net.brokers["c"].component(OverlayRoutes).unsent_count,
    ) == ({}, 0)


def test_what_is_given_up_names_the_events_that_it_holds():
    net = RoamingLine()
    net.forge("b", "c", structs.replace(replayed("ann", net), to="zz", items=waiting(1, 2)))
    net.pass_time(overlay_routes.UNSENT_S)
    lost = [(record.peer, record.sequence) for record in net.records if record.kind == "lost"]
    assert lost == [("zz", -1), ("ann", 1), ("ann", 2)]


def test_a_client_that_was_let_in_elsewhere_meanwhile_is_waited_for_anew() -> None:
    """A broker that has asked in vain for long must not give a session up that it was asked for just now."""
    net = RoamingLine()
    net.say("b", "first", Attach("ann", attempt=1))
    session = net.sessions_told()[-1]
    net.hang_up("b", "first")
    net.block("bc")
    net.say("c", "in vain", Attach("ann", session=session, attempt=2, home="b", since=1))
    net.pass_time(RELOCATE_S - 10)
    net.hang_up("c", "in vain")
    net.say("b", "back", Attach("ann", session=session, attempt=3, home="b", since=1))
    net.hang_up("b", "back")
    net.say("c", "again", Attach("ann", session=session, attempt=4, home="b", since=3))
    net.pass_time(30)
    assert not net.is_attached("c", "again")
    net.block()
    net.pass_time(30)
    assert net.is_attached("c", "again")
    assert net.sessions_told() == [session] * 3

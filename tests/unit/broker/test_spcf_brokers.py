"""Brokers let SPCF know in which contexts their clients are: as they come, change, move and go, in every mode."""

from typing import Any

import pytest

from godwit.adhoc.event_broker import EventBroker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import Advertise, Attach, Attached, Bye, Context, Request, Subscribe
from godwit.broker.spcf import ContextForwarding
from godwit.filters.contexts import CONTEXT_BYTES_MAX, CONTEXT_MAX
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility.move_messages import MoveOut, Replay
from tests.property.roaming_line import NAMES, RoamingLine

GUARD: dict[str, Any] = {"role": "guard"}
GUEST: dict[str, Any] = {"role": "guest"}


class Brokers(RoamingLine):
    def __init__(self, **config: Any) -> None:
        super().__init__(family="graph", strategy="spcf", attach_policies=("naive",), **config)
        self.pass_time(100.0)

    def routing(self, name: str) -> GraphRouting:
        routing = self.brokers[name].routing
        assert isinstance(routing, GraphRouting)
        return routing

    def contexts_at(self, name: str) -> ContextForwarding:
        forwarding = self.routing(name).forwarding
        assert isinstance(forwarding, ContextForwarding)
        return forwarding

    def contexts(self, client: str = "client") -> dict[str, Any]:
        """Where a client is said to be in which context."""
        found = {name: self.contexts_at(name).own for name in NAMES}
        return {name: own.exact[own.keys[client]] for name, own in found.items() if client in own.keys}

    def attached(self) -> Attached:
        return next(message for _, _, message in reversed(self.told) if isinstance(message, Attached))

    def come(self, at: str, connection: str, **details: Any) -> Attached:
        self.say(at, connection, Attach("client", **details))
        return self.attached()


def there(**config: Any) -> tuple[Brokers, Attached]:
    """A client at a, in a context, with a subscription; a publisher at c."""
    net = Brokers(**config)
    welcome = net.come("a", "one", attempt=1)
    net.say("a", "one", Request(1, Context(GUARD)))
    net.say("a", "one", Request(2, Subscribe(("client", "s"), parse("sender.x IS NULL"))))
    net.say("c", "other", Attach("publisher"))
    assert net.routing("c").remote["a"] == {("client", "s"): parse("sender.x IS NULL")}
    assert net.contexts_at("c").others["a"].context_of("client") == (2, GUARD)
    return net, welcome


def moved(welcome: Attached, **details: Any) -> dict[str, Any]:
    known = {"session": welcome.session, "home": "a", "since": 1, "attempt": 2}
    wanted = (Subscribe(("client", "s"), parse("sender.x IS NULL")),)
    return {**known, "wanted": wanted, **details}


def assert_nothing_left(net: Brokers) -> None:
    for name in NAMES:
        assert not any(net.routing(name).sizes().values()), net.routing(name).sizes()
        assert net.routing(name).is_settled()


def test_a_session_begins_in_the_empty_context_and_goes_with_its_client() -> None:
    net = Brokers()
    net.come("a", "one")
    assert net.contexts() == {"a": {}}
    net.say("a", "one", Request(1, Context(GUARD)))
    assert net.contexts() == {"a": GUARD}
    net.hang_up("a", "one")
    assert net.contexts() == {"a": GUARD}  # it may come back, and events wait for it
    net.come("a", "two")
    assert net.contexts() == {"a": GUARD}
    net.say("a", "two", Bye())
    assert net.contexts() == {}
    assert_nothing_left(net)


def test_a_client_that_stays_away_is_in_no_context_any_more() -> None:
    net = Brokers()
    net.come("a", "one")
    net.hang_up("a", "one")
    net.pass_time(1e7)
    assert net.contexts() == {}
    assert_nothing_left(net)


def test_a_context_that_is_refused_changes_nothing() -> None:
    net = Brokers()
    net.say("a", "one", Request(1, Context(GUARD)))  # before Attach
    assert net.contexts() == {}


@pytest.mark.parametrize("mode", ["relocate", "ask", "explicit"])
def test_the_context_moves_with_the_session(mode: str) -> None:
    net, welcome = there()
    if mode == "explicit":
        net.say("a", "one", MoveOut())
    brings: dict[str, Any] = {"wanted": ()} if mode == "ask" else {"context": Context(GUEST)}
    net.come("b", "two", **moved(welcome, mode=mode, **brings))
    net.pass_time(60.0)
    assert net.contexts() == {"b": GUARD if mode == "ask" else GUEST}
    assert list(net.routing("c").remote["b"]) == [("client", "s")]
    assert net.routing("c").remote.get("a", {}) == {}
    net.say("b", "two", Bye())
    net.say("c", "other", Bye())
    assert_nothing_left(net)


def test_a_client_that_waits_for_its_session_is_where_it_says_or_may_be_anywhere() -> None:
    net, welcome = there()
    net.block("ba")
    net.come("b", "two", **moved(welcome, context=Context(GUEST)))
    assert net.contexts() == {"a": GUARD, "b": GUEST}
    assert net.contexts_at("c").others["b"].context_of("client") == (1, GUEST)
    net, welcome = there()
    net.block("ba")
    net.come("b", "two", **moved(welcome))
    assert net.contexts() == {"a": GUARD}
    assert net.contexts_at("c").others["b"].context_of("client") is None  # so it may be meant by everything


def test_of_a_client_whose_server_vouches_for_a_part_nothing_is_said_before_its_session_is_there() -> None:
    net, welcome = there(asserted=("badge",))
    net.block("ba")
    net.come("b", "two", **moved(welcome, context=Context(GUEST)))
    assert net.contexts() == {"a": GUARD}


def test_who_is_superseded_while_it_waits_leaves_no_context_behind() -> None:
    net, welcome = there()
    net.block("ba")
    net.come("b", "two", **moved(welcome, context=Context(GUEST)))
    net.block()
    net.say("a", "three", Attach("client", session=welcome.session, home="a", since=1, attempt=3))
    net.pass_time(300.0)
    assert net.contexts() == {"a": GUARD}
    assert net.routing("c").remote.get("b", {}) == {}


def test_a_naive_client_is_in_two_places_until_the_old_session_is_over() -> None:
    net, welcome = there()
    net.hang_up("a", "one")
    net.come("b", "two", **moved(welcome, mode="naive", wanted=()))
    assert net.contexts() == {"a": GUARD, "b": {}}
    net.pass_time(1e7)
    assert list(net.contexts()) == ["b"]


@pytest.mark.parametrize("mode", ["standard", "delayed", "proxy", "prefetching"])
def test_the_context_of_a_publisher_goes_with_it_or_stays_as_long_as_its_tree(mode: str) -> None:
    net = Brokers()
    net.come("a", "one", mode=mode, attempt=1)
    net.say("a", "one", Request(1, Advertise(("client", "ad"), TRUE)))
    net.say("a", "one", Request(2, Context(GUARD)))
    net.hang_up("a", "one")
    assert net.contexts() == ({"a": GUARD} if mode == "delayed" else {})
    net.come("b", "two", mode=mode, attempt=2, home="a")
    assert list(net.contexts()) == (["a", "b"] if mode == "delayed" else ["b"])
    net.pass_time(20.0)
    assert list(net.contexts()) == ["b"]
    net.say("b", "two", Bye())
    net.pass_time(1e7)
    assert net.contexts() == {}
    assert_nothing_left(net)


# ---------------------------------------------------------------- what a client says must not part brokers


@pytest.mark.parametrize("name", ["sender.x", "my.x", "\ud800", "sender.\ud800"])
@pytest.mark.parametrize("matching", ["source", "hops"])
def test_a_name_that_no_context_has_ends_the_connection_of_who_says_it_and_no_link(name: str, matching: Any) -> None:
    config: dict[str, Any] = {"family": "graph", "strategy": "spcf", "matching": matching}
    net = RoamingLine(**config)
    for connection, attach in (("one", Attach("client")), ("two", Attach("mover", context=Context({name: 1})))):
        net.say("a", connection, attach)
        net.say("a", connection, Request(1, Context({name: 1})))
        assert net.brokers["a"].sessions.client_of(connection) is None
    assert_linked(net)


@pytest.mark.parametrize("matching", ["source", "hops"])
def test_the_largest_context_has_room_for_what_is_vouched_for_besides(matching: Any) -> None:
    config: dict[str, Any] = {"family": "graph", "strategy": "spcf", "matching": matching, "asserted": ("role",)}
    net = RoamingLine(**config)
    many: dict[str, Any] = {f"a{number}": number for number in range(CONTEXT_MAX)}
    long: dict[str, Any] = {"a": "x" * (CONTEXT_BYTES_MAX - 9)}
    for number, said in enumerate((many, long), 1):
        net.put("a", Opened(f"{number}", {"role": "guard"}))
        net.say("a", f"{number}", Attach(f"client {number}"))
        net.say("a", f"{number}", Request(1, Context(said)))
        session = net.brokers["a"].sessions.session(f"client {number}")
        assert session is not None
        assert session.whole_context() == {**said, "role": "guard"}
    assert_linked(net)


def test_a_tree_follows_the_largest_context_with_what_is_vouched_for_besides() -> None:
    net = RoamingLine(asserted=("role",), advertisements="off")
    many: dict[str, Any] = {f"a{number}": number for number in range(CONTEXT_MAX)}
    net.put("a", Opened("one", {"role": "guard"}))
    net.say("a", "one", Attach("client"))
    net.say("a", "one", Request(1, Context(many)))
    asked = " OR ".join(f"{name} = my.{name}" for name in (*many, "role"))
    net.say("a", "one", Request(2, Subscribe(("client", "s"), parse(asked))))
    assert net.brokers["b"].routing.sizes()["followed"] == 1
    assert_linked(net)


def assert_linked(net: RoamingLine) -> None:
    net.pass_time(10.0)
    links = {(name, link.peer): link for name, broker in net.brokers.items() for link in broker.links.values()}
    assert {ends: link.fault for ends, link in links.items()} == dict.fromkeys(links)
    assert all(link.connected for link in links.values())


def test_a_session_from_another_event_broker_brings_no_claim_to_what_is_asserted_here() -> None:
    there, here = (
        EventBroker(name, BrokerConfig(asserted=asserted), 1) for name, asserted in (("x", ()), ("y", ("role",)))
    )
    there.handle(Heard("one", Attach("client")), 0.0)
    there.handle(Heard("one", Request(1, Context({"role": "guard", "floor": 3}))), 0.0)
    session = there.sessions.session("client")
    assert session is not None
    here.take([Replay("client", "y", 1, session.state(), (), is_last=True)], 60.0, 0.0)
    come = here.sessions.session("client")
    assert come is not None
    assert come.whole_context() == {"floor": 3}

"""Messages between any two brokers: only the broker that a message is for sees it, whatever fields it has."""

from operator import attrgetter
from typing import Any

import msgspec
import pytest

from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import (
    Advertise,
    Attach,
    Attached,
    Delivery,
    NodeId,
    Publish,
    Request,
    Subscribe,
)
from godwit.codec import register_messages
from godwit.errors import PeerFault
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility import overlay_routes
from godwit.mobility.extensions import register_component
from godwit.mobility.move_messages import ReachableBrokers
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.testing import Machines, machines
from godwit.trace import Record


class Postcard(msgspec.Struct, frozen=True, tag=True):
    """A message about no client: it has neither `client` nor `home`."""

    addressee: NodeId
    text: str


class Postbox:
    """Keeps the postcards that come for this broker."""

    label = "postbox"
    host: Host

    def __init__(self) -> None:
        self.cards: list[tuple[NodeId, str]] = []

    def join(self, host: Host) -> Handlers:
        self.host = host
        target = attrgetter("addressee")
        return Handlers(relayed={Postcard: RelayedHandler(self.on_postcard, lambda card: None, target, lost_cards)})

    def on_postcard(self, peer: NodeId, card: Postcard, now: float) -> list[Effect]:
        assert card.addressee == self.host.name
        self.cards.append((peer, card.text))
        return []

    def snapshot(self) -> None:
        return None

    def restore(self, state: None) -> None:
        return None


def lost_cards(card: Postcard, detail: str) -> list[Record]:
    return [Record("lost", "text", card.text, detail=detail)]


register_messages(Postcard)
register_component("test postbox", Postbox)


def line(**settings: Any) -> Machines:
    net = machines("a-b b-c", components=("test postbox",), **settings)
    net.run()
    net.pass_time(1.0)
    return net


def cards(net: Machines) -> dict[NodeId, list[tuple[NodeId, str]]]:
    return {name: broker.component(Postbox).cards for name, broker in net.brokers.items()}


def write(net: Machines, sender: NodeId, card: Postcard, to: NodeId = "") -> None:
    broker = net.brokers[sender]
    net.carry_out(sender, broker.component(OverlayRoutes).send_to(to or card.addressee, card, net.now))
    net.run()


def test_only_the_target_sees_a_message() -> None:
    net = line()
    write(net, "a", Postcard("c", "hello"))
    assert cards(net) == {"a": [], "b": [], "c": [("b", "hello")]}


def test_a_message_to_the_broker_itself_is_handled_at_once() -> None:
    net = line()
    write(net, "b", Postcard("b", "note"))
    assert cards(net)["b"] == [("b", "note")]


def test_a_message_that_a_packet_brings_to_another_broker_goes_on() -> None:
    net = line(family="graph")
    write(net, "a", Postcard("c", "by mistake"), to="b")
    assert cards(net) == {"a": [], "b": [], "c": [("b", "by mistake")]}


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_message_without_a_route_is_recorded_as_its_component_says(family: str) -> None:
    net = line(family=family)
    write(net, "a", Postcard("zz", "lost"))
    net.pass_time(overlay_routes.UNSENT_S)
    lost = net.recorded("lost")
    no_route = overlay_routes.NO_ROUTE
    assert lost == [Record("lost", "zz", "Postcard", detail=no_route), Record("lost", "text", "lost", detail=no_route)]


def test_a_message_that_cannot_be_held_back_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_routes, "UNSENT_MAX", 0)
    net = line()
    routes = net.brokers["a"].component(OverlayRoutes)
    monkeypatch.setattr(net.brokers["a"].routing, "is_whole", lambda: False)
    effects = routes.send_behind_tables("c", Postcard("c", "early"), net.now)
    assert [effect.record.peer for effect in effects] == ["c", "text"]


def test_messages_that_wait_for_whole_tables_go_where_they_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    net = line()
    routes, routing = net.brokers["b"].component(OverlayRoutes), net.brokers["b"].routing
    with monkeypatch.context() as patch:
        patch.setattr(routing, "is_whole", lambda: False)
        net.carry_out("b", routes.on_relayed("a", Postcard("b", "for b"), net.now))
        net.carry_out("b", routes.on_relayed("a", Postcard("c", "for c"), net.now))
        net.carry_out("b", routes.send_behind_tables("c", Postcard("c", "from b"), net.now))
        assert cards(net) == {"a": [], "b": [], "c": []}
    net.pass_time(overlay_routes.HOLD_S)
    assert cards(net) == {"a": [], "b": [("a", "for b")], "c": [("b", "for c"), ("b", "from b")]}


def test_as_many_brokers_as_allowed_can_be_reached_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = line().brokers["a"].component(OverlayRoutes)
    known = len(routes.routes)
    monkeypatch.setattr(overlay_routes, "BROKERS_MAX", known + 2)
    with pytest.raises(PeerFault, match=f"more than {known + 2} brokers"):
        routes.on_reachable_brokers("b", ReachableBrokers(("x", "y", "z")), 2.0)
    routes.on_reachable_brokers("b", ReachableBrokers(("x", "y")), 2.0)
    assert {"x", "y"} <= routes.routes.keys()


@pytest.mark.parametrize("reduction", ["simple", "covering"])
def test_a_publisher_that_moves_publishes_again_when_the_subscriptions_for_it_are_there(reduction: str) -> None:
    """Broker b tells c of many subscriptions, a part at a time, and passes the session on behind them."""
    subscriptions, everything = 1_000, parse("ALL x >= 0")
    net = machines("a-b b-c", advertisements="required", reduction=reduction)
    net.pass_time(1.0)
    net.say("b", "s", Attach("ann"))
    for number in range(subscriptions):
        net.say("b", "s", Request(number + 1, Subscribe(("ann", f"s{number}"), parse(f"ALL x = {number}"))))
    net.say("a", "p1", Attach("pub", attempt=1))
    net.say("a", "p1", Request(1, Advertise(("pub", "all"), everything)))
    net.pass_time(5.0)
    [session] = [said.session for _, over, said in net.told if over == "p1" and isinstance(said, Attached)]
    wanted = (Advertise(("pub", "all"), everything),)
    net.say("c", "p2", Attach("pub", session=session, home="a", attempt=2, wanted=wanted))
    while not any(over == "p2" and isinstance(said, Attached) for _, over, said in net.told):
        net.pass_time(0.01)
    published = range(1, 11)
    for number in published:
        said = event({"x": 100 * number - 1}, publisher="pub", sequence=number)
        net.say("c", "p2", Request(number + 1, Publish(said)))
    net.pass_time(1.0)
    assert [said.event.sequence for _, _, said in net.told if isinstance(said, Delivery)] == list(published)

"""Matching at every hop: when a broker goes hop by hop, what it keeps, and what it makes of what others say."""

from typing import Any

import pytest

from godwit.broker import hop_stream
from godwit.broker.graph import GraphRouting
from godwit.broker.hop_stream import CALM, CONFIRM, HopStream
from godwit.broker.messages import Packet, Publish, Subscribe
from godwit.broker.routing import Forward, RelayedMessage
from godwit.broker.stream_messages import ConfirmStream, HopPacket, SentAgain, StreamConfirmed, ViewReached
from godwit.codec import MESSAGES, Codec
from godwit.errors import PeerFault
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.mobility.move_messages import Flush
from tests.property.routing_network import GraphNetwork

LINE = [("a", "b"), ("b", "c")]
TRIANGLE = [*LINE, ("a", "c")]
ID = ("client", "s")
SAID = event({"x": 1}, publisher="p", sequence=1)


def at_hops(*options: Any) -> GraphRouting:
    return GraphRouting(*options, hops=HopStream(), further={Flush: lambda message: None})


class Net(GraphNetwork):
    """Brokers that match at every hop, and the messages of theirs that came."""

    def __init__(self, links: list[tuple[str, str]] = LINE) -> None:
        self.relayed: list[tuple[str, Any]] = []
        super().__init__(links, make=at_hops)
        self.settle()
        self.wires.packets.clear()

    def on_answer(self, name: str, answer: Any) -> None:
        if isinstance(answer, RelayedMessage):
            self.relayed.append((name, answer.message))
        super().on_answer(name, answer)

    def stream(self, name: str) -> HopStream:
        stream = self.brokers[name].hops
        assert isinstance(stream, HopStream)
        return stream

    def numbers(self, name: str) -> list[int]:
        return [sequence for _, sequence in self.deliveries[name, ID]]

    def lose_link(self, a: str, b: str) -> None:
        self.take_down((a, b))
        self.give_up(a, b)
        self.give_up(b, a)


# ------------------------------------------------------------ calm


def test_a_broker_goes_hop_by_hop_when_all_have_its_view_and_are_complete() -> None:
    net = GraphNetwork(LINE, make=at_hops)
    for link in LINE:
        net.bring_up(link)
    net.drain()
    streams = [broker.hops for broker in net.brokers.values()]
    assert len({stream.view for stream in streams}) == 1
    assert not any(stream.is_calm for stream in streams)  # nobody has told the others what this view asks for
    assert {key for _, key in net.wires.timers} >= {(CALM,)}
    net.settle()
    assert all(stream.is_calm for stream in streams)
    assert net.wires.packets[ViewReached] == 2 * 2 * 3  # each tells both others, twice; b passes nothing on twice


def test_a_broker_that_has_not_said_so_keeps_all_others_from_going_hop_by_hop() -> None:
    net = Net()
    stream, calm = net.stream("a"), list[bool]()
    for said in (ViewReached(stream.view), ViewReached(stream.view, True), ViewReached(1, True)):
        stream.on_message("c", said, net.now)
        calm.append(stream.is_calm)
    assert calm == [False, True, False]


def test_a_broker_alone_is_calm_and_sends_nothing() -> None:
    routing = at_hops("a")
    assert routing.publish(SAID, 0.0) == []


# ------------------------------------------------------------ the stream


def test_events_and_messages_of_the_broker_go_hop_by_hop_in_one_order() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.publish("a", x=1)
    net.carry_out("a", net.brokers["a"].send(["b", "c"], Flush("client", "o", 1), net.now))
    net.publish("a", x=2)
    sent: list[Any] = [message for _, messages in net.under_way() for message in messages]
    assert [type(message) for message in sent] == [HopPacket] * 3
    assert [message.targets for message in sent] == [None, ("b", "c"), None]
    assert [message.number for message in sent] == [1, 2, 3]
    net.settle()
    assert net.numbers("c") == [1, 2]
    assert [name for name, _ in net.relayed] == ["b", "c"]


def test_what_is_confirmed_is_kept_no_longer() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.publish("a", x=1)
    assert [packet.targets for packet in net.stream("a").unconfirmed_packets()] == [{"c": 1}]
    assert net.brokers["a"].held_back()[-1:] != []
    net.drain()
    assert net.stream("a").unconfirmed  # nobody has been asked
    assert ("a", (CONFIRM,)) in net.wires.timers
    net.settle()
    assert not net.stream("a").unconfirmed
    assert (net.wires.packets[ConfirmStream], net.wires.packets[StreamConfirmed]) == (2, 2)  # over two links each


def test_many_are_asked_for_at_once_and_too_many_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_stream, "ASK_AT", 3)
    monkeypatch.setattr(hop_stream, "UNCONFIRMED_MAX", 5)
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    for _ in range(5):
        net.publish("a", x=1)
    assert not net.stream("a").unconfirmed
    net.settle()
    assert (net.wires.packets[ConfirmStream], net.wires.packets[SentAgain]) == (2, 10)
    assert net.numbers("c") == [1, 2, 3, 4, 5]


def test_what_a_dead_link_has_kept_back_is_sent_again_by_another_way() -> None:
    net = Net(TRIANGLE)
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.take_down(("a", "c"))
    for _ in range(3):
        net.publish("a", x=1)
    net.lose_link("a", "c")
    net.publish("a", x=2)
    net.drain()
    assert net.numbers("c") == [1, 2, 3, 4]
    assert net.wires.packets[SentAgain] == 6
    assert net.wires.packets[Publish] == 2


def test_a_hop_with_another_view_drops_a_packet_and_its_source_sends_it_again() -> None:
    net = Net([*TRIANGLE, ("c", "d")])
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.take_down(("c", "d"))
    net.give_up("c", "d")  # a has not heard of it yet
    net.publish("a", x=1)
    net.deliver("a", "c")
    assert net.numbers("c") == []
    net.drain()
    assert net.numbers("c") == [1]


def test_what_has_come_is_not_taken_again() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.publish("a", x=1)
    net.drain()
    net.carry_out("a", net.stream("a").send_again())
    net.settle()
    assert net.numbers("c") == [1]
    assert net.wires.packets[SentAgain] == 2


def test_a_packet_that_does_not_come_down_the_tree_is_dropped() -> None:
    net = Net(TRIANGLE)
    net.subscribe("c", ID, TRUE)
    net.settle()
    stream = net.stream("c")
    packet = HopPacket("a", 1, stream.view, 1, Publish(SAID))
    assert stream.on_packet("b", packet, net.now) == []
    assert stream.on_packet("a", packet, net.now) != []
    assert stream.on_packet("a", packet, net.now) == []


def test_while_a_broker_may_want_more_than_it_has_told_a_packet_names_its_targets() -> None:
    net = Net()
    net.brokers["a"].untold["c"] = None
    answers = net.brokers["a"].publish(SAID, net.now)
    packet: Any = next(answer.message for answer in answers if isinstance(answer, Forward))
    assert type(packet) is HopPacket
    assert packet.targets == ("c",)


def test_a_restarted_broker_goes_on_where_it_was() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.publish("a", x=1)
    net.restart("a")
    net.settle()
    assert net.stream("a").is_calm
    assert not net.stream("a").unconfirmed
    net.publish("a", x=2)
    net.settle()
    assert net.numbers("c") == [1, 2]


def test_another_life_sends_again_what_its_past_one_had_not_had_confirmed() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.publish("a", x=1)
    net.drain()
    net.publish("a", x=2)
    undelivered = {"b": net.wires.undelivered("a", "b")}
    net.carry_out("a", net.brokers["a"].begin_life(2, undelivered, net.now))
    net.settle()
    assert net.numbers("c") == [1, 2]


def test_another_life_sends_once_more_what_its_past_one_was_about_to_send_again() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.take_down(("a", "b"))
    net.publish("a", x=1)
    net.publish("a", x=2)
    net.carry_out("a", net.stream("a").send_again())
    net.publish("a", x=3)
    undelivered = {"b": net.wires.undelivered("a", "b")}
    assert [type(message) for message in undelivered["b"]] == [HopPacket, HopPacket, Packet, Packet, HopPacket]
    net.carry_out("a", net.brokers["a"].begin_life(2, undelivered, net.now))
    net.bring_up(("a", "b"))
    net.settle()
    assert net.numbers("c") == [1, 2, 3]


def test_two_lives_one_after_the_other_send_again_in_order() -> None:
    net = Net()
    net.subscribe("c", ID, TRUE)
    net.settle()
    net.take_down(("a", "b"))
    net.publish("a", x=1)
    net.publish("a", x=2)
    net.carry_out("a", net.stream("a").send_again())
    net.carry_out("a", net.brokers["a"].send(["c"], Flush("client", "o", 1), net.now))
    first, second, flush = net.wires.undelivered("a", "b")[-3:]
    before = [flush, second, first]  # a broker that answers while it sends may send so
    net.carry_out("a", net.brokers["a"].begin_life(2, {"b": before}, net.now))
    net.bring_up(("a", "b"))
    order: list[Any] = []
    while pairs := net.can_deliver():
        known = len(net.relayed) + len(net.numbers("c"))
        net.deliver(*pairs[0])
        if len(net.relayed) + len(net.numbers("c")) > known:
            order.append(net.relayed[-1][1] if len(order) == 2 else net.numbers("c")[-1])
    assert order == [1, 2, Flush("client", "o", 1)]


# ------------------------------------------------------------ what no honest broker sends


@pytest.mark.parametrize(
    "packet",
    [
        HopPacket("", 1, 1, 1, Publish(SAID)),
        HopPacket("a", 0, 1, 1, Publish(SAID)),
        HopPacket("a", 1, 1, 0, Publish(SAID)),
        HopPacket("a", 1, -1, 1, Publish(SAID)),
        HopPacket("a", 1, 1, 1, Publish(SAID), ()),
        HopPacket("a", 1, 1, 1, Publish(SAID), ("a",)),
        HopPacket("a", 1, 1, 1, Publish(SAID), None, b""),
        HopPacket("a", 1, 1, 1, Flush("client", "o", 1)),
        HopPacket("a", 1, 1, 1, Subscribe(ID, TRUE), ("b",)),
        HopPacket("a", 1, 1, 1, SentAgain(1, 1, Publish(SAID)), ("b",)),
        Packet("a", 1, {"b": 1}, SentAgain(1, 1, Subscribe(ID, TRUE))),  # type: ignore[arg-type]
        Packet("a", 1, {"b": 1}, SentAgain(0, 1, Publish(SAID))),  # type: ignore[arg-type]
        Packet("a", 1, {"b": 1}, ConfirmStream(1, 1, 0)),  # type: ignore[arg-type]
        Packet("a", 1, {"b": 1}, StreamConfirmed(0, 1)),  # type: ignore[arg-type]
    ],
)
def test_what_no_honest_broker_sends_is_a_fault_and_changes_nothing(packet: Any) -> None:
    routing = at_hops("b")
    before = routing.snapshot()
    with pytest.raises(PeerFault):
        routing.on_message("a", packet, 0.0)
    assert routing.snapshot() == before


def test_a_broker_that_matches_at_the_source_is_sent_no_hop_packet() -> None:
    packet: Any = HopPacket("a", 1, 1, 1, Publish(SAID))
    with pytest.raises(PeerFault, match="HopPacket"):
        GraphRouting("b").on_message("a", packet, 0.0)


@pytest.mark.parametrize("as_json", [False, True])
def test_messages_come_back_from_their_bytes(as_json: bool) -> None:
    codec = Codec(MESSAGES, as_json=as_json)
    for message in (
        HopPacket("a", 1, 1 << 52, 3, Publish(SAID), None, b"\x07\x01"),
        HopPacket("a", 1, 2, 3, Flush("client", "o", 1), ("b", "c")),
        SentAgain(1, 3, Publish(SAID)),
        ViewReached(5, True),
        ConfirmStream(1, 2, 3),
        StreamConfirmed(1, 3),
    ):
        assert codec.decode(codec.encode(message)) == message

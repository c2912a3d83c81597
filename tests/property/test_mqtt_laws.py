"""Laws of the MQTT room: of its codec, of its topics, and of sessions whose connections break at will."""

import copy
from collections import deque
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import godwit.mqtt.outgoing_deliveries
from godwit.broker.effects import TimerDue
from godwit.broker.messages import Bye, Delivery
from godwit.errors import MqttFault
from godwit.filters import event
from godwit.filters.events import Event
from godwit.mqtt import (
    FROM_SERVER,
    Auth,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    MqttSession,
    MqttSettings,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
    topic_filter,
)
from godwit.mqtt.mqtt_effects import (
    Accepted,
    Acknowledged,
    AddSubscriptions,
    AllAccepted,
    Attached,
    Closed,
    Confirm,
    Deliver,
    Faulted,
    Granted,
    Heard,
    Message,
    Opened,
    PersistentState,
    PublishEvent,
    Send,
    Stop,
    Subscribed,
)
from godwit.mqtt.outgoing_deliveries import OutgoingDeliveries
from godwit.mqtt.properties import ALLOWED as PROPERTIES
from godwit.mqtt.reason_codes import ALLOWED as REASONS
from tests.conformance.mqtt_world import World

# ------------------------------------------------------------ packets

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="+#?"), min_size=1, max_size=8)
FILTERS = st.sampled_from(["a", "a/b", "+", "#", "a/+/c", "a/#", "$SYS/#", "/", "+/+", "$share/g/a/+", "a?x > 1"])
IDS = st.integers(1, 65_535)
BYTES = st.binary(max_size=20)
TYPED = [
    st.integers(0, 1),
    st.integers(1, 65_535),
    st.integers(1, 2**32 - 1),
    st.integers(1, 268_435_455),
    TEXTS,
    BYTES,
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3).map(tuple),
]


@cache
def properties(bearer: str, level: int) -> st.SearchStrategy:
    if level < 5:
        return st.just({})
    values = {name: TYPED[kind] for name, kind in PROPERTIES[bearer].values()}
    if bearer == "Publish":
        values["subscription_identifier"] = st.lists(TYPED[3], min_size=1, max_size=3).map(tuple)
    if "response_topic" in values:
        values["response_topic"] = NAMES
    drawn = st.fixed_dictionaries({}, optional=values)
    return drawn.filter(lambda found: "authentication_data" not in found or "authentication_method" in found)


def codes(bearer: str, level: int) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(REASONS[bearer])) if level == 5 else st.just(0)


@st.composite
def publications(draw, level: int) -> Publish:
    qos = draw(st.integers(0, 2))
    packet_id, dup = (draw(IDS), draw(st.booleans())) if qos else (0, False)
    found = draw(properties("Publish", level))
    topic = draw(NAMES | st.just("")) if "topic_alias" in found else draw(NAMES)
    return Publish(
        topic, draw(BYTES | st.binary(min_size=200, max_size=300)), qos, draw(st.booleans()), dup, packet_id, found
    )


@st.composite
def connects(draw, level: int) -> Connect:
    will = st.builds(Will, NAMES, BYTES, st.integers(0, 2), st.booleans(), properties("Will", level))
    user_name = draw(st.none() | NAMES)
    password = draw(st.none() | BYTES) if user_name is not None or level == 5 else None
    return Connect(
        draw(NAMES | st.just("")),
        level,
        draw(st.booleans()),
        draw(st.integers(0, 65_535)),
        draw(st.none() | will),
        user_name,
        password,
        draw(properties("Connect", level)),
    )


@cache
def subscriptions(level: int) -> st.SearchStrategy:
    if level < 5:
        return st.builds(Subscription, FILTERS, st.integers(0, 2))
    wanted = st.builds(Subscription, FILTERS, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2))
    return wanted.filter(lambda each: not (each.no_local and each.filter.startswith("$share")))


@cache
def from_client(level: int) -> st.SearchStrategy:
    answers = [
        st.builds(kind, IDS, codes(kind.__name__, level), properties(kind.__name__, level))
        for kind in (Puback, Pubrec, Pubrel, Pubcomp)
    ]
    return st.one_of(
        publications(level),
        *answers,
        st.builds(
            Subscribe,
            IDS,
            st.lists(subscriptions(level), min_size=1, max_size=3).map(tuple),
            properties("Subscribe", level),
        ),
        st.builds(
            Unsubscribe, IDS, st.lists(FILTERS, min_size=1, max_size=3).map(tuple), properties("Unsubscribe", level)
        ),
        st.builds(Pingreq),
        st.builds(Disconnect, codes("Disconnect", level), properties("Disconnect", level)),
    )


@cache
def packets(level: int) -> st.SearchStrategy:
    granted = codes("Suback", level) if level == 5 else st.sampled_from([0, 1, 2, 0x80])
    ended = st.lists(codes("Unsuback", level), min_size=1, max_size=3).map(tuple) if level == 5 else st.just(())
    connack = st.builds(
        Connack,
        codes("Connack", level) if level == 5 else st.integers(0, 5),
        st.booleans() if level > 3 else st.just(False),
        properties("Connack", level),
    ).filter(lambda packet: not (packet.session_present and packet.reason_code))
    known = [
        from_client(level),
        connects(level),
        connack,
        st.builds(Suback, IDS, st.lists(granted, min_size=1, max_size=3).map(tuple), properties("Suback", level)),
        st.builds(Unsuback, IDS, ended, properties("Unsuback", level)),
        st.builds(Pingresp),
    ]
    if level == 5:
        known.append(st.builds(Auth, codes("Auth", 5), properties("Auth", 5)))
    return st.one_of(*known)


def streams() -> st.SearchStrategy[tuple[int, list[Packet]]]:
    return st.sampled_from([3, 4, 5]).flatmap(
        lambda level: st.tuples(st.just(level), st.lists(packets(level), min_size=1, max_size=4))
    )


def told(decoder: Decoder, pieces: list[bytes]) -> tuple[list[Packet], int | None]:
    """All packets that the pieces give, and the reason code of the fault that ended it."""
    found: list[Packet] = []
    for piece in pieces:
        try:
            found += decoder.feed(piece)
        except MqttFault as fault:
            return found + fault.packets, fault.reason_code
    return found, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(at)]


@given(streams(), st.lists(st.integers(0, 2_000), max_size=8))
def test_what_is_written_is_read_back_however_the_stream_is_cut(stream, places):
    level, sent = stream
    data = b"".join(encode(packet, level) for packet in sent)
    assert told(Decoder(level), cut(data, places)) == (sent, None)


@given(
    streams(), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=4), st.lists(st.integers(0, 500))
)
def test_bytes_are_packets_or_a_fault_and_cutting_changes_nothing(stream, changes, places):
    level, sent = stream
    data = bytearray(b"".join(encode(packet, level) for packet in sent))
    for place, value in changes:
        data[place % len(data)] = value
    found, fault = told(Decoder(level), [bytes(data)])
    assert told(Decoder(level), cut(bytes(data), places)) == (found, fault)
    for packet in found:
        spoken = packet.level if isinstance(packet, Connect) else level
        [again] = Decoder(spoken).feed(encode(packet, spoken))
        assert again == packet


@given(st.binary(max_size=60), st.sampled_from([None, 3, 4, 5]))
@example(bytes.fromhex("10FFFFFFFF7F"), None)
def test_any_bytes_are_packets_or_a_fault(data, level):
    whole = told(Decoder(level), [data])
    assert told(Decoder(level), [data[at : at + 1] for at in range(len(data))]) == whole


def test_byte_by_byte_costs_no_more_than_its_bytes():
    data = encode(Publish("a", bytes(300_000)), 5)
    decoder = Decoder(5)
    assert sum(len(decoder.feed(data[at : at + 1])) for at in range(len(data))) == 1


# ------------------------------------------------------------ topics

LEVEL_TEXTS = st.sampled_from(["", "a", "b", "ab", "$a", "%", "_", "\\", "é"])
TOPICS = st.lists(LEVEL_TEXTS, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def patterns(draw) -> str:
    levels = draw(st.lists(LEVEL_TEXTS | st.just("+"), max_size=4))
    return "/".join([*levels, *draw(st.sampled_from([[], ["#"]]))]) or "+"


def plainly_matches(pattern: list[str], topic: list[str]) -> bool:
    """The standard's rules, level by level."""
    match pattern, topic:
        case ["#"], _:
            return True
        case [], []:
            return True
        case [first, *rest], [level, *levels] if first in ("+", level):
            return plainly_matches(rest, levels)
    return False


@given(patterns(), TOPICS)
@example("a/#", "a")
@example("#", "$a")
@example("+/a", "$a/a")
@example("a/+", "a/")
@example("a/+/b/#", "a/a/a/b")
def test_topic_filters_match_as_the_standard_says_and_brokers_route_by_exactly_that(pattern, topic):
    expected = plainly_matches(pattern.split("/"), topic.split("/")) and not (topic[0] == "$" and pattern[0] in "+#")
    wanted, published = topic_filter(pattern), event({"topic": topic})
    assert wanted.matches(published) is expected
    assert wanted.filter.matches(published) is expected


@given(patterns(), st.lists(TOPICS, min_size=1, max_size=3, unique=True), st.integers(0, 9))
def test_content_and_several_topics_are_told_apart_exactly(pattern, topics, x):
    published = event({"topic": topics, "x": x})
    wanted = topic_filter(f"{pattern}?x > 4", "x < 8")
    is_wanted = 4 < x < 8 and any(topic_filter(pattern).matches(event({"topic": topic})) for topic in topics)
    assert wanted.matches(published) is is_wanted
    assert wanted.filter.matches(published) is is_wanted


# ------------------------------------------------------------ sessions

NAMED = st.sampled_from(["one", "two"])


@cache
def inputs(level: int) -> st.SearchStrategy:
    return st.one_of(
        st.builds(Opened, NAMED, connects(level), st.just("me")),
        st.builds(Attached, NAMED, st.booleans()),
        st.builds(Heard, NAMED, from_client(level)),
        st.builds(Heard, NAMED, packets(level)),
        st.builds(Faulted, NAMED, st.just(0x81), TEXTS),
        st.builds(Closed, NAMED),
        st.builds(Stop, st.just(0x8B)),
        st.builds(Accepted, st.integers(1, 9), codes("Puback", 5)),
        st.builds(
            Deliver,
            st.integers(1, 30),
            NAMES | TEXTS,
            BYTES,
            st.lists(FILTERS, max_size=2).map(tuple),
            st.integers(0, 2),
            st.booleans(),
            st.booleans(),
        ),
        st.builds(TimerDue, st.sampled_from([("keep alive",), ("will",), ("expiry",)])),
    )


@given(
    st.sampled_from([4, 5]).flatmap(
        lambda level: st.tuples(st.just(level), connects(level), st.lists(inputs(level), max_size=20))
    )
)
def test_a_session_takes_whatever_comes_says_only_what_its_level_knows_and_can_be_copied(drawn):
    level, connect, told_to_it = drawn
    session = MqttSession(MqttSettings(receive_maximum=3, topic_alias_maximum=3, in_flight_max=2, queue_max=3))
    decoders: dict[str, Decoder] = {}
    for now, input in enumerate([Opened("one", connect, "me"), Attached("one", False), *told_to_it]):
        if isinstance(input, Opened):
            decoders[input.connection] = Decoder(level, FROM_SERVER)
        twin = copy.deepcopy(session)
        effects = session.handle(input, float(now))
        assert twin.handle(copy.deepcopy(input), float(now)) == effects
        for effect in effects:
            if isinstance(effect, Send):
                assert len(decoders[effect.connection].feed(effect.data)) == 1
            if isinstance(effect, AddSubscriptions):
                granted = tuple(wish.subscription.qos for wish in effect.wishes)
                for more in session.handle(Subscribed(effect.request, granted), float(now)):
                    assert isinstance(more, Send)
                    assert len(decoders[more.connection].feed(more.data)) == 1


def seen(session: MqttSession, effects: list[Any]) -> tuple[Any, ...]:
    """What anyone sees of some effects: bytes by connection, how far deliveries are done, and the others in order."""
    sent: dict[str, bytes] = {}
    for effect in effects:
        if isinstance(effect, Send):
            sent[effect.connection] = sent.get(effect.connection, b"") + effect.data
    confirmed = max((effect.number for effect in effects if isinstance(effect, Confirm)), default=0)
    rest = [effect for effect in effects if not isinstance(effect, Send | Confirm)]
    outgoing = session.outgoing
    under_way = {} if outgoing is None else outgoing._under_way
    waiting = [] if outgoing is None else list(outgoing._waiting)
    return sent, confirmed, rest, session.kept, session._asked, under_way, waiting


@given(
    st.sampled_from([4, 5]).flatmap(
        lambda level: st.tuples(st.just(level), connects(level), st.lists(inputs(level), max_size=20))
    ),
    st.lists(st.integers(1, 12), max_size=8),
    st.booleans(),
)
def test_many_answers_at_once_are_the_same_as_one_after_the_other(drawn, numbers, is_one):
    _, connect, told_to_it = drawn
    session = MqttSession(MqttSettings(receive_maximum=3, topic_alias_maximum=3, in_flight_max=2, queue_max=3))
    session.kept.subscriptions["t"] = Granted(1)
    name = "one" if is_one else "two"
    deliveries = [Deliver(number, "t", b"x", ("t",), 1) for number in range(1, 5)]
    for input in [Opened("one", connect, "me"), Attached("one", True, session.kept), *deliveries, *told_to_it]:
        for effect in session.handle(input, 1.0):
            if isinstance(effect, AddSubscriptions):
                granted = tuple(wish.subscription.qos for wish in effect.wishes)
                session.handle(Subscribed(effect.request, granted), 1.0)
    waiting = set() if session.outgoing is None else {each.number for each in session.outgoing._waiting}
    answered = [number for number in numbers if number not in waiting]  # nobody answers what was not sent yet
    for many, each in (
        (Acknowledged(name, answered), [Heard(name, Puback(number)) for number in answered]),
        (AllAccepted(numbers), [Accepted(number) for number in numbers]),
    ):
        twin = copy.deepcopy(session)
        together = seen(session, session.handle(many, 2.0))
        assert together == seen(twin, [effect for input in each for effect in twin.handle(input, 2.0)])


@given(st.sampled_from([4, 5]), st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans()), max_size=12))
def test_a_publication_taken_in_quickly_is_the_same_as_one_that_is_heard(level, published):
    session = MqttSession(MqttSettings(receive_maximum=3))
    session.handle(Opened("one", Connect("me", level), "me"), 0.0)
    session.handle(Attached("one", False), 0.0)
    twin = copy.deepcopy(session)
    for qos, packet_id, is_answered in published:
        packet = Publish("t", b"x", qos, packet_id=packet_id if qos else 0)
        number = session.quick(packet, 1.0)
        effects = twin.handle(Heard("one", packet), 1.0)
        if number is None:
            assert session.handle(Heard("one", packet), 1.0) == effects
        else:
            assert effects == [PublishEvent(number, "t", b"x", qos, False, {})]
        for effect in effects if is_answered else []:
            if isinstance(effect, PublishEvent) and effect.number:
                answer = AllAccepted([effect.number])
                assert session.handle(answer, 1.0) == twin.handle(answer, 1.0)
        assert seen(session, []) == seen(twin, [])


# ------------------------------------------------------------ once, and at least once


class Peer:
    """A client of QoS 1 and 2 that keeps its session: the other side of the protocol, as plain as can be."""

    def __init__(self, world: World, name: str, level: int, window: int, wants: int | None) -> None:
        self.world, self.name, self.level, self.window, self.wants = world, name, level, window, wants
        self.attempts = 0
        self.to_publish: deque[tuple[int, bytes]] = deque()
        self.publishing: dict[int, tuple[int, bytes, bool]] = {}  # by packet id: QoS, payload, whether PUBREC came
        self.unreleased: set[int] = set()
        self.got: list[bytes] = []
        self.unanswered: set[int] = set()  # deliveries on this connection
        self.outbox: deque[Packet] = deque()
        self.is_subscribed = wants is None
        self.is_in = False
        self.next_id = 0

    @property
    def line(self) -> str:
        return f"{self.name} {self.attempts}"

    def connect(self) -> None:
        self.attempts += 1
        self.world.open(self.line)
        self.decoder = Decoder(self.level, FROM_SERVER)
        self.is_in = False
        self.unanswered = set()
        said = {"session_expiry_interval": 1_000, "receive_maximum": self.window} if self.level == 5 else {}
        self.outbox = deque([Connect(self.name, self.level, False, properties=said)])

    def drop(self) -> None:
        self.world.drop(self.line)

    @property
    def is_connected(self) -> bool:
        return self.attempts > 0 and self.world.lines[self.line].is_open

    def send_one(self) -> None:
        if self.is_in and self.to_publish and len(self.publishing) < 3 and self.is_subscribed:
            qos, payload = self.to_publish.popleft()
            self.next_id = next(each for each in range(1, 5) if each not in self.publishing)
            self.publishing[self.next_id] = (qos, payload, False)
            self.outbox.append(Publish("t", payload, qos, packet_id=self.next_id))
        if self.outbox:
            self.world.receive(self.line, encode(self.outbox.popleft(), self.level))

    def hear(self, size: int) -> None:
        out = self.world.lines[self.line].out
        heard = bytes(out[:size])
        del out[:size]
        for packet in self.decoder.feed(heard):
            self.on_packet(packet)

    def on_packet(self, packet: Packet) -> None:
        match packet:
            case Connack(reason_code=code, session_present=is_present):
                assert code == 0
                assert is_present or not self.is_subscribed or self.wants is None
                self.is_in = True
                if not self.is_subscribed:
                    self.outbox.append(Subscribe(65_535, (Subscription("t", self.wants or 0),)))
                for packet_id, (qos, payload, is_released) in self.publishing.items():
                    again = Publish("t", payload, qos, dup=True, packet_id=packet_id)
                    self.outbox.append(Pubrel(packet_id) if is_released else again)
            case Suback():
                self.is_subscribed = True
            case Publish(payload=payload, qos=qos, packet_id=packet_id):
                if qos:
                    self.unanswered.add(packet_id)
                    assert self.level < 5 or len(self.unanswered) <= self.window
                if qos == 2 and packet_id in self.unreleased:
                    assert packet.dup
                else:
                    self.got.append(payload)
                if qos == 1:
                    self.unanswered.discard(packet_id)
                    self.outbox.append(Puback(packet_id))
                elif qos == 2:
                    self.unreleased.add(packet_id)
                    self.outbox.append(Pubrec(packet_id))
            case Pubrel(packet_id=packet_id):
                self.unreleased.discard(packet_id)
                self.unanswered.discard(packet_id)
                self.outbox.append(Pubcomp(packet_id))
            case Puback(packet_id=packet_id) | Pubcomp(packet_id=packet_id):
                self.publishing.pop(packet_id, None)
            case Pubrec(packet_id=packet_id):
                qos, payload, _ = self.publishing.pop(packet_id)
                self.publishing[packet_id] = (qos, payload, True)
                self.outbox.append(Pubrel(packet_id))
            case _:
                raise AssertionError(packet)


def converse(world: World, peers: list[Peer]) -> None:
    """No more misfortune: go on until nobody has anything to say."""
    for _ in range(1_000):
        world.answer()
        for peer in peers:
            if not peer.is_connected:
                peer.connect()
            peer.send_one()
            peer.hear(10_000)
        if not any(peer.outbox or peer.to_publish or peer.publishing or not peer.is_in for peer in peers):
            world.answer()
            if not any(peer.outbox or world.lines[peer.line].out for peer in peers):
                return
    raise AssertionError("they never come to an end")


EVENTS = [b"%d" % number for number in range(9)]
ACTIONS = ["send", "send", "send", "hear", "hear", "hear", "bit", "drop", "answer", "move", "purge", "mix"]
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1)), min_size=30, max_size=100)


def run_out(
    level: int, qos: int, window: int, steps: list[tuple[str, int]], is_slow: bool, ends_well: bool = True
) -> tuple[list[bytes], list[bytes]]:
    """What a subscriber got of `EVENTS`, and what was taken out of its queue while it was away. Identifiers are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(godwit.mqtt.outgoing_deliveries, "IDS_MAX", 4)
        return _run_out(level, qos, window, steps, is_slow, ends_well)


def _run_out(
    level: int, qos: int, window: int, steps: list[tuple[str, int]], is_slow: bool, ends_well: bool = True
) -> tuple[list[bytes], list[bytes]]:
    world = World(MqttSettings(receive_maximum=3, in_flight_max=2 if level < 5 else 64))
    publisher, subscriber = Peer(world, "p", level, 65_535, None), Peer(world, "s", level, window, qos)
    peers = [publisher, subscriber]
    converse(world, peers)
    world.is_slow, world.ends_well = is_slow, ends_well
    publisher.to_publish.extend((qos, payload) for payload in EVENTS[:-1])
    queue, purged = world.members["s"].queue, []
    for action, who in steps:
        peer = peers[who]
        if action == "answer":
            world.answer()
        elif not peer.is_connected:
            if action == "purge" and queue and not subscriber.is_connected and ends_well:
                purged.append(queue.pop(min(queue)).payload)
                continue
            if action == "move":
                world.move(peer.name)
            peer.connect()
        elif action == "send":
            peer.send_one()
        elif action == "mix":
            if all(isinstance(packet, Puback | Pubrec | Pubcomp) for packet in peer.outbox):
                peer.outbox.rotate(-1)
        elif action in ("hear", "bit"):
            peer.hear(3 if action == "bit" else 10_000)
        else:
            peer.drop()
    converse(world, peers)
    publisher.to_publish.append((qos, EVENTS[-1]))  # after which nothing is left of what was purged
    converse(world, peers)
    assert world.members["s"].queue == {}
    assert world.members["s"].session.kept.released == {}
    assert world.members["s"].session.kept.done == {}
    assert world.members["p"].session.kept.received == {}
    return subscriber.got, purged


@given(st.sampled_from([4, 5]), st.integers(1, 4), STEPS, st.booleans(), st.booleans())
def test_qos_2_delivers_exactly_once_and_in_order_whenever_connections_break(level, window, steps, is_slow, ends_well):
    got, purged = run_out(level, 2, window, steps, is_slow, ends_well)
    assert got == [payload for payload in EVENTS if payload in got or payload not in purged]


@given(st.sampled_from([4, 5]), st.integers(1, 4), STEPS, st.booleans(), st.booleans())
def test_qos_1_delivers_at_least_once_and_first_in_order_whenever_connections_break(
    level, window, steps, is_slow, ends_well
):
    got, purged = run_out(level, 1, window, steps, is_slow, ends_well)
    kept = [payload for payload in got if payload not in purged]  # a second copy of what was purged may come later
    assert list(dict.fromkeys(kept)) == [payload for payload in EVENTS if payload not in purged]


def test_a_session_that_forgets_what_it_received_is_caught(monkeypatch):
    on_accepted = MqttSession._on_accepted

    def forgetful(self, input, now):
        effects = on_accepted(self, input, now)
        self.kept.received.clear()
        return effects

    monkeypatch.setitem(MqttSession.handle.__globals__["_HANDLERS"], Accepted, forgetful)
    steps = [("send", 0), ("drop", 0), ("send", 0)]
    assert run_out(5, 2, 4, steps, is_slow=False)[0] != EVENTS


# ------------------------------------------------------------ another codec


def test_another_codec_reads_what_we_write_and_we_what_it_writes():
    mqtt5 = pytest.importorskip("mqtt5", reason="the mqtt5 package, an oracle for level 5, is not installed")
    data = encode(Publish("a/b", b"payload", 1, packet_id=7), 5)
    packet, size = mqtt5.read(bytearray(data))
    assert (packet.topic, packet.payload, packet.packet_id, size) == ("a/b", b"payload", 7, len(data))
    assert bytes(packet.write()) == data


# ------------------------------------------------------------ the quick way

DELIVERIES = st.lists(
    st.tuples(
        st.integers(0, 2),  # how far the number goes on, less one
        st.integers(0, 2),  # QoS
        st.booleans(),  # retain
        st.booleans(),  # from the retained ones
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([None, None, None, 50.0]),
        st.sampled_from([None, None, 1, 2, 3]),  # an answer for this number comes after it
    ),
    max_size=20,
)


def outgoing_of(level: int, alias_max: int, sent_up_to: int, doubtful: int) -> OutgoingDeliveries:
    standing = {"a": Granted(0), "b": Granted(1, retain_as_published=True), "c": Granted(2, identifier=alias_max and 7)}
    kept = PersistentState(subscriptions=standing, sent_up_to=sent_up_to)
    return OutgoingDeliveries(kept, "line", level, 3, 60, alias_max, 100, doubtful)


@given(st.sampled_from([4, 5]), st.sampled_from([0, 0, 2]), st.integers(0, 3), st.integers(0, 2), DELIVERIES)
def test_the_quick_way_is_the_same_as_the_other(level, alias_max, sent_up_to, doubtful, deliveries):
    quick, plain = (outgoing_of(level, alias_max, sent_up_to, doubtful) for _ in range(2))
    number = 0
    for step, qos, retain, is_retained, name, expires_at, answered in deliveries:
        number += step + 1
        shared: dict[tuple[int, int, bool], tuple[bytes, bytes]] = {}
        delivery = Deliver(number, "t", b"x" * number, (name,), qos, retain, is_retained, {}, expires_at, shared)
        if number % 2:
            outgoing_of(level, 0, 0, 0).take(delivery, 0.0)  # for another client, so that the bytes are there
        told = plain.take(delivery, 0.0)
        ready = shared if number % 2 else {}
        message = Message(("t",), delivery.payload, qos, retain, is_retained, {}, ready)
        came = Delivery(number, Event({}, expires_at=expires_at), (name,))
        parts: list[bytes] = []
        messages = {id(came.event): message}
        if quick.quick([came], 0, lambda event, told=messages: told[id(event)], {"a", "b", "c"}, parts) == 0:  # type: ignore[misc]
            assert not parts
            assert quick.take(delivery, 0.0) == told
        else:
            [data] = parts
            confirmed = [Confirm(number)] if data[0] >> 1 & 3 == 0 else []
            assert [Send("line", data), *confirmed] == told
        if answered is not None and all(each._under_way.get(answered, (0, 1))[1] == 1 for each in (quick, plain)):
            assert quick.on_puback(Puback(answered), 0.0) == plain.on_puback(Puback(answered), 0.0)
        assert (quick._kept, quick._open, quick._under_way) == (plain._kept, plain._open, plain._under_way)


@given(st.sampled_from([4, 5]), st.integers(0, 2), DELIVERIES, st.sampled_from(["a", "b"]))
def test_many_quick_deliveries_are_the_same_as_one_after_the_other(level, alias_max, deliveries, exact):
    together, alone = (outgoing_of(level, alias_max, 0, 0) for _ in range(2))
    came: list[Any] = []
    messages: dict[int, Message] = {}
    number = 0
    for step, qos, retain, is_retained, name, expires_at, answered in deliveries:
        number += step + 1
        topics = ("t",) if answered != 3 else ("t", "u")
        event = Event({}, sequence=number, expires_at=expires_at)
        messages[number] = Message(topics, b"x" * number, qos, retain, is_retained, {})
        came.append(Delivery(number, event, (name,)) if answered != 2 else Bye(""))
    message_of = lambda event: messages[event.sequence]  # noqa: E731
    at_once: list[bytes] = []
    end = together.quick(came, 0, message_of, {exact, "c"}, at_once)
    one_by_one: list[bytes] = []
    at = 0
    while at < len(came) and alone.quick(came[at : at + 1], 0, message_of, {exact, "c"}, one_by_one) == 1:
        at += 1
    assert (end, at_once) == (at, one_by_one)
    assert (together._kept, together._open, together._under_way) == (alone._kept, alone._open, alone._under_way)

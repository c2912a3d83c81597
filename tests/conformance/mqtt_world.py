"""A small broker around MQTT sessions, without sockets: it routes, retains, queues, and runs timers by hand.

It stands for Godwit: deliveries are numbered, kept until they are confirmed, and told again when the client is back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from godwit.broker.effects import StartTimer, StopTimer, TimerDue
from godwit.errors import MqttFault
from godwit.mqtt import Decoder, MqttSession, MqttSettings, answer_to_fault, refusing_connack
from godwit.mqtt.mqtt_effects import (
    Accepted,
    AddSubscriptions,
    Attach,
    Attached,
    Close,
    Closed,
    Confirm,
    Deliver,
    DiscardSession,
    DropDelivery,
    EndSubscriptions,
    Faulted,
    Heard,
    Opened,
    PersistentState,
    PublishEvent,
    PublishWill,
    Send,
    StoreNote,
    Subscribed,
    Wish,
)
from godwit.mqtt.packets import Connect
from godwit.mqtt.session_notes import OUT, SUB, grant_note, kept_of, out_note
from godwit.mqtt.topics import matches


@dataclass
class Line:
    """A connection, as the server sees it."""

    decoder: Decoder
    client: str | None = None
    out: bytearray = field(default_factory=bytearray)
    is_open: bool = True


@dataclass
class Member:
    """A client that has a session."""

    session: MqttSession
    wishes: dict[str, Wish] = field(default_factory=dict)
    queue: dict[int, Deliver] = field(default_factory=dict)
    numbers: int = 0
    carried_out: set[int] = field(default_factory=set)
    timers: dict[Any, float] = field(default_factory=dict)
    given_up: list[DropDelivery] = field(default_factory=list)
    has_session: bool = False
    moved: PersistentState | None = None  # came from another gateway
    notes: dict[str, bytes] = field(default_factory=dict)

    def forget(self) -> None:
        self.wishes, self.queue, self.numbers, self.carried_out = {}, {}, 0, set()
        self.has_session, self.notes = False, {}


class World:
    def __init__(self, settings: MqttSettings) -> None:
        self.settings = settings
        self.lines: dict[str, Line] = {}
        self.members: dict[str, Member] = {}
        self.retained: dict[str, PublishEvent] = {}
        self.published: list[tuple[str, PublishEvent]] = []
        self.answers: list[tuple[MqttSession, str, Accepted]] = []
        self.ends_well = True  # connections do: gateways write down how far they are
        self.is_slow = False  # answers to publications wait for `answer`
        self.now = 0.0

    def open(self, name: str) -> None:
        self.lines[name] = Line(Decoder(size_max=self.settings.maximum_packet_size))

    def receive(self, name: str, data: bytes) -> None:
        line = self.lines[name]
        if self.is_closed(name):
            return
        fault = None
        try:
            packets = line.decoder.feed(data)
        except MqttFault as caught:
            fault, packets = caught, caught.packets
        for packet in packets:
            if self.is_closed(name):
                return
            if line.client is None:
                assert isinstance(packet, Connect)
                refusal = refusing_connack(packet)
                if refusal is not None:
                    line.out += refusal
                    line.is_open = False
                    return
                line.client = packet.client_id or f"assigned-{name}"
                member = self.members.setdefault(line.client, Member(MqttSession(self.settings)))
                self.tell(line.client, member, Opened(name, packet, line.client))
            else:
                self.tell(line.client, self.members[line.client], Heard(name, packet))
        if fault is not None and not self.is_closed(name):
            if line.client is None:
                line.out += answer_to_fault(fault)
                line.is_open = False
            else:
                self.tell(line.client, self.members[line.client], Faulted(name, fault.reason_code, fault.text))

    def is_closed(self, name: str) -> bool:
        return not self.lines[name].is_open

    def drop(self, name: str) -> None:
        """The network loses a connection."""
        line = self.lines[name]
        if line.is_open:
            line.is_open = False
            if line.client is not None:
                self.tell(line.client, self.members[line.client], Closed(name))

    def tell(self, client: str, member: Member, input: Any) -> None:
        for effect in member.session.handle(input, self.now):
            self.carry_out(client, member, effect)

    def answer(self) -> None:
        """Tell clients that what they published was taken."""
        while self.answers:
            session, client, accepted = self.answers.pop(0)
            if session is self.members[client].session:  # a machine that was left behind hears nothing
                self.tell(client, self.members[client], accepted)

    def move(self, client: str) -> None:
        """A client that is away turns up at another gateway: its notes are sent there, the old machine is left."""
        member = self.members[client]
        assert member.session.connection is None
        if member.moved is None:
            kept = member.session.kept
            member.notes |= {SUB + text: grant_note(granted) for text, granted in kept.subscriptions.items()}
            member.moved = kept_of({**member.notes, OUT: out_note(kept)} if self.ends_well else member.notes)
            member.moved.published = kept.published
        member.session = MqttSession(self.settings)

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        until = self.now + seconds
        while due := [
            (at, name, key) for name, m in self.members.items() for key, at in m.timers.items() if at <= until
        ]:
            at, name, key = min(due)
            self.now = max(self.now, at)
            del self.members[name].timers[key]
            self.tell(name, self.members[name], TimerDue(key))
        self.now = until

    def carry_out(self, client: str, member: Member, effect: Any) -> None:
        match effect:
            case Send(connection, data):
                assert self.lines[connection].is_open
                self.lines[connection].out += data
            case Close(connection, _):
                self.lines[connection].is_open = False
            case Attach(connection, _, is_clean, _, _):
                if is_clean:
                    member.forget()
                is_present, member.has_session = member.has_session, True
                moved, member.moved = member.moved, None
                doubtful = len(member.queue) if moved is not None and not self.ends_well else 0
                self.tell(client, member, Attached(connection, is_present, moved, doubtful))
                for delivery in list(member.queue.values()):
                    self.tell(client, member, delivery)
            case AddSubscriptions(request, wishes, _):
                member.wishes.update({wish.subscription.filter: wish for wish in wishes})
                self.tell(client, member, Subscribed(request, tuple(wish.subscription.qos for wish in wishes)))
                for wish in wishes:
                    if wish.wants_retained:
                        for event in [e for e in self.retained.values() if matches(wish.topics.levels, e.topic)]:
                            self.deliver(client, member, event, (wish.subscription.filter,), is_retained=True)
            case EndSubscriptions(filters):
                for text in filters:
                    del member.wishes[text]
            case PublishEvent(number=number, qos=qos):
                if number and number in member.carried_out:
                    reached = True
                else:
                    member.carried_out.add(number)
                    reached = self.publish(client, effect)
                if number:
                    self.answers.append((member.session, client, Accepted(number, 0 if reached or qos == 2 else 0x10)))
                    if not self.is_slow:
                        self.answer()
            case PublishWill(will):
                self.publish(client, PublishEvent(0, will.topic, will.payload, will.qos, will.retain, will.properties))
            case Confirm(number):
                for each in [each for each in member.queue if each <= number]:
                    del member.queue[each]
            case StartTimer(key, at):
                member.timers[key] = at
            case StopTimer(key):
                member.timers.pop(key, None)
            case DropDelivery():
                member.given_up.append(effect)
            case StoreNote(key, value):
                member.notes.pop(key, None)
                if value is not None:
                    member.notes[key] = value
            case DiscardSession():
                member.forget()
            case _:
                raise AssertionError(effect)

    def publish(self, source: str, event: PublishEvent) -> bool:
        self.published.append((source, event))
        if event.retain:
            self.retained.pop(event.topic, None)
            if event.payload:
                self.retained[event.topic] = event
        shared: set[str] = set()
        reached = False
        for name, member in list(self.members.items()):
            wanted = tuple(self.wanted(name, member, source, event.topic, shared))
            if wanted:
                reached = True
                self.deliver(name, member, event, wanted)
        return reached

    def wanted(self, name: str, member: Member, source: str, topic: str, shared: set[str]) -> Iterator[str]:
        for text, wish in member.wishes.items():
            if matches(wish.topics.levels, topic) and not (wish.subscription.no_local and source == name):
                if wish.topics.share is None or text not in shared:
                    yield text
                if wish.topics.share is not None:
                    shared.add(text)

    def deliver(
        self, name: str, member: Member, event: PublishEvent, wanted: tuple[str, ...], is_retained: bool = False
    ) -> None:
        properties = dict(event.properties)
        expiry_s = properties.pop("message_expiry_interval", None)
        member.numbers += 1
        delivery = Deliver(
            member.numbers,
            event.topic,
            event.payload,
            wanted,
            event.qos,
            event.retain,
            is_retained,
            properties,
            None if expiry_s is None else self.now + expiry_s,
        )
        member.queue[delivery.number] = delivery
        self.tell(name, member, delivery)

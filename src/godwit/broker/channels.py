"""Channels: packets from one broker to several others over any overlay, each taken once and in order by each target.

*Theory.* A packet names its targets and, for each, its number on the channel from source to target. Every hop divides
the targets by next hop in its own current view of the overlay and passes one packet on to each neighbour concerned. So
at any time the duty to bring this packet to that target lies with one broker or in one outbox: views may differ and
trees may change under way, packets take detours and overtake each other, but none is dropped for it. The target puts
them back in order by number, holds what is early and drops what comes twice. A target that cannot be reached has its
packets parked where they are, until the overlay changes.

Packets are lost only with a broker that loses its memory. The target sees a gap, waits, and asks the source (`Nack`),
which sends again from its history, or says that it cannot (`LostNumbers`). So that the last packets are missed too,
every source sends a `ChannelTail` after them when it hears that somebody has started a new life.

*Rules.*
1. The numbers of one (life of the source, target) count 1, 2, 3, … without a hole.
2. A channel starts with `ChannelStart`, which names the life of the target that it is for. A target that has lost its
   memory takes nothing before it: what was sent to its past life is not for it. One that has lost its last inputs alone
   knows the source, and takes all before it in order, too: what is missing is a gap (rule 5). If it misses more than
   one question may ask for, it takes nothing before it either: to catch up would hold up all that comes.
3. Of one life of a source a target hands on each number once, in order; a number that was given up stays given up.
4. `ChannelStart`, `Nack` and `LostNumbers` act when they come, since the order may be waiting for them; their number is
   used up.
5. A gap is asked for after `gap_wait_s`, and again after each further `gap_wait_s` while it is open and there is a way
   to the source. Only a `LostNumbers`, or a new life of the source, closes it without the packet; that is recorded as
   lost.
6. When a new life of a source is heard of, what is held of the one before is handed on, in order, and its gaps are
   recorded as lost. An event of it that still comes is handed on out of order, for it did not die with that life:
   sessions drop what came before, and clients what comes after a later event of the same publisher. What else comes
   of it is dropped.
7. Bounded: `history_max` packets sent; `parked_max` for each target, and one more for each source; `held_max` for each
   source (what is early beyond is dropped and asked for again); `NACK_MAX` numbers in a question. Of each, events are
   also bounded by their bytes (`WAITING_BYTES_MAX`).
8. What was given up may have been a subscription: the target asks the source to tell it everything, once, when no gap
   is left.

*Paper.* [spcf §3.1.2], steps 3 and 4 of the handling of a subscription, at the source and at each hop; a published
message travels the same way here.

*Symbols.* B_s → `source`; D → `targets`; N → the neighbour of a `Forward`; D_N → the targets of the packet in it.

*Departures.* The paper numbers nothing: it says nothing about links and brokers that die.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from godwit.broker.effects import StartTimer, StopTimer, Trace
from godwit.broker.messages import Carried, ChannelStart, ChannelTail, LostNumbers, Nack, NodeId, Packet
from godwit.broker.packet_checks import NACK_MAX
from godwit.broker.routing import Answer, Forward
from godwit.broker.state_types import AnyMessage
from godwit.broker.stream_messages import event_message
from godwit.broker.topology import Topology
from godwit.broker.waiting_bytes import WaitingEvents, bytes_of, event_in
from godwit.trace import Record

__all__ = ["GAP", "Channels", "ChannelsState", "HandedOn", "IncomingState"]

GAP = "gap"
"""The timers of this module are named (GAP, source)."""

VOIDED_MAX = 4_096
WAITING_BYTES_MAX = 64 * 2**20  # of events: in the history, parked for a target, early from a source
URGENT = (ChannelStart, Nack, LostNumbers)

HandedOn = tuple[NodeId, Carried]
"""The source of a message that is taken now, and the message. `Nack`: tell it everything. `LostNumbers`: it is lost."""


class IncomingState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one broker knows of the packets that one life of a source sends it."""

    incarnation: int
    life: int = 0
    first: int = 0
    next: int = 0
    highest: int = 0
    held: dict[int, AnyMessage] = {}
    used_up: tuple[int, ...] = ()  # numbers that are held and have nothing left to hand on
    voided: tuple[int, ...] = ()
    waits_for: int = -1
    doubts: bool = False
    is_known: bool = False


class ChannelsState(msgspec.Struct, frozen=True):
    """The channels that begin, pass or end at one broker."""

    incarnation: int
    incarnations: dict[NodeId, int]
    starts: dict[NodeId, int]
    numbers: dict[NodeId, int]
    history: tuple[Packet, ...]
    incoming: dict[NodeId, IncomingState]
    parked: dict[NodeId, tuple[Packet, ...]]


@dataclass(slots=True)
class Incoming:
    """What one broker knows of the packets that one life of a source sends it."""

    incarnation: int  # of the source
    life: int = 0  # ours, for which the channel has started; 0: it has not
    first: int = 0  # the number it started with
    next: int = 0  # the number that is handed on next
    highest: int = 0  # that was heard of
    held: dict[int, Carried | None] = field(default_factory=dict)  # early; None: nothing left to hand on
    held_bytes: int = 0  # of the events among them
    voided: dict[int, None] = field(default_factory=dict)
    waits_for: int = -1  # `next` when the timer was started; -1: it does not run
    doubts: bool = False  # packets were given up: some may have been subscriptions
    is_known: bool = False  # a past life of the source was, and our memory goes on: all its packets are for us (rule 2)

    @property
    def has_gap(self) -> bool:
        return self.next <= self.highest if self.life else bool(self.highest)

    def snapshot(self) -> IncomingState:
        """The same, to be written down."""
        held = {number: cast(AnyMessage, message) for number, message in self.held.items() if message is not None}
        used_up = tuple(number for number, message in self.held.items() if message is None)
        return IncomingState(
            self.incarnation,
            self.life,
            self.first,
            self.next,
            self.highest,
            held,
            used_up,
            tuple(self.voided),
            self.waits_for,
            self.doubts,
            self.is_known,
        )

    @classmethod
    def restored(cls, state: IncomingState) -> "Incoming":
        """What was written down."""
        held = {**cast(dict[int, Carried | None], state.held), **dict.fromkeys(state.used_up)}
        return cls(
            state.incarnation,
            state.life,
            state.first,
            state.next,
            state.highest,
            held,
            sum(map(bytes_of, held.values())),
            dict.fromkeys(state.voided),
            state.waits_for,
            state.doubts,
            state.is_known,
        )

    def missing(self) -> tuple[int, ...]:
        """The first numbers that are missing; before the channel has started, 1 stands for its Start."""
        found: list[int] = [] if self.life else [1]
        number = self.next
        while self.life and number <= self.highest and len(found) < NACK_MAX:
            if number not in self.held:
                found.append(number)
            number += 1
        return tuple(found)


class Channels:
    """The channels that begin, pass or end at one broker."""

    def __init__(
        self,
        topology: Topology,
        gap_wait_s: float,
        history_max: int = 4_096,
        parked_max: int = 10_000,
        held_max: int = 4_096,
    ) -> None:
        assert gap_wait_s > 0
        self.broker = topology.broker
        self.incarnation = topology.own.incarnation
        self.topology = topology
        self.gap_wait_s = gap_wait_s
        self.parked_max = parked_max
        self.held_max = held_max
        self.incarnations: dict[NodeId, int] = {}  # of every target, for which the channel to it was started last
        self.starts: dict[NodeId, int] = {}  # the number of that Start
        self.numbers: dict[NodeId, int] = {}  # the last one used
        self.history_max = history_max
        self.history: deque[Packet] = deque()
        self._remembered = WaitingEvents()  # those of the history
        self._parked_bytes: dict[NodeId, int] = {}  # by target
        self.incoming: dict[NodeId, Incoming] = {}
        self.parked: dict[NodeId, deque[Packet]] = {}  # by target; each packet has this one target

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> ChannelsState:
        """The channels as they are now."""
        return ChannelsState(
            self.incarnation,
            dict(self.incarnations),
            dict(self.starts),
            dict(self.numbers),
            tuple(self.history),
            {source: incoming.snapshot() for source, incoming in self.incoming.items()},
            {target: tuple(waiting) for target, waiting in self.parked.items()},
        )

    def restore(self, state: ChannelsState) -> None:
        """Have these channels."""
        self.incarnation = state.incarnation
        self.incarnations, self.starts, self.numbers = dict(state.incarnations), dict(state.starts), dict(state.numbers)
        self.history, self._remembered = deque(state.history), WaitingEvents(state.history)
        self.incoming = {source: Incoming.restored(each) for source, each in state.incoming.items()}
        self.parked = {target: deque(waiting) for target, waiting in state.parked.items()}
        self._count_parked()

    def _count_parked(self) -> None:
        self._parked_bytes = {target: sum(map(bytes_of, waiting)) for target, waiting in self.parked.items()}

    def waiting_bytes(self) -> int:
        """The size of all events that wait, or are kept to be sent again."""
        early = sum(incoming.held_bytes for incoming in self.incoming.values())
        return self._remembered.bytes + sum(self._parked_bytes.values()) + early

    # ------------------------------------------------------------ sending

    def start(self, target: NodeId, incarnation: int) -> list[Answer]:
        """Start the channel to a life of `target`, or tell the same life all once more."""
        answers = self.send((target,), ChannelStart(incarnation))
        if self.incarnations.get(target) != incarnation:
            self.incarnations[target] = incarnation
            self.starts[target] = self.numbers[target]
        return answers

    def send(self, targets: Sequence[NodeId], message: Carried) -> list[Answer]:
        """Send `message` to all `targets`, none of which is this broker."""
        numbers = self.numbers
        numbered: dict[NodeId, int] = {}
        for target in targets:
            numbered[target] = numbers[target] = numbers.get(target, 0) + 1  # rule 1
        packet = Packet(self.broker, self.incarnation, numbered, message)
        self._remember(packet)
        return self.route(packet)

    def _remember(self, packet: Packet) -> None:
        """Keep a packet that may have to be sent again; the oldest go. (rule 7)"""
        self.history.append(packet)
        self._remembered.add(event_in(packet), bytes_of(packet))
        while len(self.history) > self.history_max or (
            self._remembered.bytes > WAITING_BYTES_MAX and len(self.history) > 1
        ):
            self.history.popleft()
            self._remembered.drop()

    def send_tails(self, besides: NodeId) -> list[Answer]:
        """Somebody has lost what it held: let every other target see how far the numbers have gone."""
        targets = sorted(target for target in self.numbers if target != besides)
        return self.send(targets, ChannelTail()) if targets else []

    def route(self, packet: Packet) -> list[Answer]:
        """Pass a packet on towards its targets, none of which is this broker. [spcf §3.1.2, steps 3 and 4]"""
        parts = self.topology.partition(packet.source, tuple(packet.targets))
        if len(parts) == 1 and parts[0][0] is not None:
            return [Forward(parts[0][0], packet)]
        answers: list[Answer] = []
        for hop, targets in parts:
            assert hop != self.broker
            if hop is None:
                for target in targets:
                    self._park(packet, target, answers)
            else:
                answers.append(Forward(hop, _part(packet, targets)))
        return answers

    def _park(self, packet: Packet, target: NodeId, answers: list[Answer]) -> None:
        waiting = self.parked.setdefault(target, deque())
        waiting.append(_part(packet, (target,)))
        self._parked_bytes[target] = self._parked_bytes.get(target, 0) + bytes_of(packet)
        while len(waiting) > self.parked_max or self._parked_bytes[target] > WAITING_BYTES_MAX:
            alike = (at for at in range(len(waiting) - 2, -1, -1) if waiting[at].source == packet.source)
            at = next(alike, -1)  # the one with the lower number goes: by the highest, the target sees what it misses
            if at < 0:
                return
            if (waiting[at].incarnation, waiting[at].targets[target]) > (packet.incarnation, packet.targets[target]):
                at = len(waiting) - 1
            why = f"no path to {target}, and no room to wait for one"
            answers += _dropped(packet.source, waiting[at].targets[target], waiting[at].message, why)
            self._parked_bytes[target] -= bytes_of(waiting[at])
            del waiting[at]

    def on_topology_changed(self, now: float) -> list[Answer]:
        """The overlay looks different: send on what is parked, ask again where there was no way to ask."""
        answers: list[Answer] = []
        for target in [target for target in self.parked if self.topology.next_hop(target) is not None]:
            del self._parked_bytes[target]
            for packet in self.parked.pop(target):
                answers += self.route(packet)
        for source, incoming in self.incoming.items():
            if incoming.waits_for < 0 and incoming.has_gap:
                self._watch(source, incoming, now, answers)
        return answers

    def begin_life(self, incarnation: int, unsent: Iterable[Packet] | None = None) -> list[Packet]:
        """This broker starts another life: all channels from it start again.

        Returns what the past one has sent, in the order of its channels; with `unsent`, only the messages in these.
        """
        past = list(self.history) if unsent is None else self._in_order(unsent)
        self.incarnation = incarnation
        self.incarnations, self.starts, self.numbers = {}, {}, {}
        self.history.clear()
        self._remembered.clear()
        others = {
            target: deque(packet for packet in waiting if packet.source != self.broker)
            for target, waiting in self.parked.items()
        }
        self.parked = {target: waiting for target, waiting in others.items() if waiting}
        self._count_parked()
        return past

    def _in_order(self, packets: Iterable[Packet]) -> list[Packet]:
        """What packets of this broker bring, in the order of its channels: outboxes may have another order."""
        left = {
            (packet.incarnation, number, target): packet.message
            for packet in packets
            for target, number in packet.targets.items()
        }
        recent: list[Packet] = []
        for packet in self.history:
            here = [target for target, number in packet.targets.items() if (packet.incarnation, number, target) in left]
            for target in here:
                del left[packet.incarnation, packet.targets[target], target]
            recent += [_part(packet, here)] if here else []
        older = [
            Packet(self.broker, incarnation, {target: number}, left[incarnation, number, target])
            for incarnation, number, target in sorted(left)
        ]
        return older + recent

    # ------------------------------------------------------------ receiving

    def on_packet(self, packet: Packet, now: float) -> tuple[list[Answer], list[HandedOn]]:
        """A packet came from a neighbour: pass it on, and take what is for this broker."""
        answers: list[Answer] = []
        handed_on: list[HandedOn] = []
        number = packet.targets.get(self.broker)
        if number is None:
            return self.route(packet), handed_on
        if len(packet.targets) > 1:
            answers += self.route(_part(packet, [target for target in packet.targets if target != self.broker]))
        incoming = self.incoming.get(packet.source)
        if incoming is None or incoming.incarnation < packet.incarnation:
            incoming = self._begin(packet.source, packet.incarnation, incoming, answers, handed_on)
        if packet.incarnation < incoming.incarnation:
            if event_message(packet.message) is not None:
                handed_on.append((packet.source, packet.message))  # rule 6: sessions know whether it came before
        elif number == incoming.next and not incoming.held and type(packet.message) not in URGENT:  # the usual case
            incoming.next = number + 1
            incoming.highest = max(incoming.highest, number)
            handed_on.append((packet.source, packet.message))
        elif (number < incoming.next or number in incoming.held) and not self._is_start(packet, incoming):  # rule 3
            if number in incoming.voided or number < incoming.first:
                why = "given up before it came" if number in incoming.voided else "for a life that is over"
                answers += _dropped(packet.source, number, packet.message, why)
        else:
            incoming.highest = max(incoming.highest, number)
            if isinstance(packet.message, URGENT):  # rule 4
                self._act(packet.source, number, packet.message, incoming, answers, handed_on)
            size = incoming.held_bytes + bytes_of(packet.message) - bytes_of(incoming.held.get(number))
            if number == incoming.next or (len(incoming.held) < self.held_max and size <= WAITING_BYTES_MAX):
                incoming.held[number] = None if isinstance(packet.message, Nack | LostNumbers) else packet.message
                incoming.held_bytes = size
            while incoming.next in incoming.held:
                message = incoming.held.pop(incoming.next)
                incoming.next += 1
                incoming.held_bytes -= bytes_of(message)
                if message is not None:
                    handed_on.append((packet.source, message))
        if incoming.waits_for >= 0 or incoming.has_gap:
            self._watch(packet.source, incoming, now, answers)
        if incoming.doubts and not incoming.has_gap and packet.source in self.incarnations:
            incoming.doubts = False
            handed_on.append(
                (packet.source, LostNumbers(incoming.incarnation, ()))
            )  # whatever Synced came since the last one
            answers += self.send((packet.source,), Nack(incoming.incarnation, ()))
        return answers, handed_on

    def _is_start(self, packet: Packet, incoming: Incoming) -> bool:
        """Whether a channel starts for this life of ours; below what is known, its source has lost its last inputs."""
        message = packet.message
        return type(message) is ChannelStart and message.incarnation == self.incarnation != incoming.life

    def _act(
        self,
        source: NodeId,
        number: int,
        message: ChannelStart | Nack | LostNumbers,
        incoming: Incoming,
        answers: list[Answer],
        handed_on: list[HandedOn],
    ) -> None:
        """Carry out at once what the order may be waiting for."""
        if isinstance(message, ChannelStart):
            if message.incarnation == self.incarnation != incoming.life:  # rule 2
                is_near = 0 <= number - incoming.next <= NACK_MAX
                if (incoming.life or incoming.is_known) and is_near:
                    incoming.next = max(incoming.next, 1)
                    incoming.life = message.incarnation
                    return
                for early in sorted(early for early in incoming.held if early < number):
                    held = incoming.held.pop(early)
                    incoming.held_bytes -= bytes_of(held)
                    if incoming.life and held is not None:  # of that life we have lost only what came last
                        handed_on.append((source, held))
                    else:
                        answers += _dropped(source, early, held, "for a life that is over")
                if number < incoming.next:  # what came above has nothing to do with what comes now
                    incoming.held.clear()
                    incoming.held_bytes = 0
                    incoming.highest = number
                incoming.life, incoming.first, incoming.next = message.incarnation, number, number
            return
        if message.incarnation != (self.incarnation if isinstance(message, Nack) else incoming.incarnation):
            return
        if isinstance(message, Nack):
            self._send_again(source, message.numbers, answers, handed_on)
        elif incoming.life:
            late = range(incoming.next, incoming.highest + 1)
            gone = [number for number in message.numbers if number in late and number not in incoming.held]
            incoming.held.update(dict.fromkeys(gone))
            incoming.voided.update(dict.fromkeys(gone))
            answers += [_missing(source, number, f"{source} cannot send it again") for number in gone]
            if gone:
                incoming.doubts = True
                handed_on.append((source, message))
            while len(incoming.voided) > VOIDED_MAX:
                del incoming.voided[next(iter(incoming.voided))]

    def _send_again(
        self, target: NodeId, numbers: tuple[int, ...], answers: list[Answer], handed_on: list[HandedOn]
    ) -> None:
        """`target` misses these numbers; when it names none, it wants to be told everything again."""
        if target not in self.starts:
            return
        if not numbers:
            handed_on.append((target, Nack(self.incarnation, ())))
            return
        start = self.starts[target]
        if min(numbers) <= start:
            answers += self._resend(target, start, ChannelStart(self.incarnations[target]))
        asked = {number for number in numbers if number <= self.numbers[target] and number != start}
        kept: dict[int, Carried] = {}
        for packet in self.history:
            number = packet.targets.get(target)
            if number in asked:
                kept[number] = packet.message
        for number, message in sorted(kept.items()):
            answers += self._resend(target, number, message)
        if gone := tuple(sorted(asked - kept.keys())):
            answers += self.send((target,), LostNumbers(self.incarnation, gone))

    def _resend(self, target: NodeId, number: int, message: Carried) -> list[Answer]:
        return self.route(Packet(self.broker, self.incarnation, {target: number}, message))

    def _begin(
        self,
        source: NodeId,
        incarnation: int,
        old: Incoming | None,
        answers: list[Answer],
        handed_on: list[HandedOn],
    ) -> Incoming:
        """The first packet of a life of `source`: hand on what is held of the one before. (rule 6)"""
        begun = self.incoming[source] = Incoming(incarnation)
        if old is None:
            return begun
        begun.waits_for = old.waits_for  # one timer for each source: it is stopped or goes on for this life
        begun.is_known = bool(old.life) or old.is_known
        why = f"{source} has started another life since"
        for number in sorted(old.held):
            message = old.held[number]
            if not old.life:
                answers += _dropped(source, number, message, why)
            elif message is not None:
                handed_on.append((source, message))
        answers += [_missing(source, number, why) for number in old.missing() if old.life]
        return begun

    # ------------------------------------------------------------ gaps

    def _watch(self, source: NodeId, incoming: Incoming, now: float, answers: list[Answer]) -> None:
        """Start or stop the timer of a gap. It is not moved when the gap moves: `on_gap_due` looks."""
        if not incoming.has_gap:
            incoming.waits_for = -1
            answers.append(StopTimer((GAP, source)))
        elif incoming.waits_for < 0:
            incoming.waits_for = incoming.next
            answers.append(StartTimer((GAP, source), now + self.gap_wait_s))

    def watch_again(self, now: float) -> list[Answer]:
        """Start the timers of all gaps again, after a time when they may not have run."""
        answers: list[Answer] = []
        for source, incoming in self.incoming.items():
            if incoming.has_gap:
                incoming.waits_for = -1
                self._watch(source, incoming, now, answers)
        return answers

    def on_gap_due(self, source: NodeId, now: float) -> list[Answer]:
        """A gap is open for long: ask the source, if it is still the same gap. (rule 5)"""
        incoming = self.incoming.get(source)
        if incoming is None or incoming.waits_for < 0:
            return []
        waited_for, incoming.waits_for = incoming.waits_for, -1
        answers: list[Answer] = []
        if incoming.has_gap and self.topology.next_hop(source) is not None:
            self._watch(source, incoming, now, answers)
            if incoming.next == waited_for and source in self.incarnations:
                answers += self.send((source,), Nack(incoming.incarnation, incoming.missing()))
        return answers


def _part(packet: Packet, targets: Iterable[NodeId]) -> Packet:
    """The same packet for some of its targets."""
    part = {target: packet.targets[target] for target in targets}
    return Packet(packet.source, packet.incarnation, part, packet.message)


def _dropped(source: NodeId, number: int, message: Carried | None, why: str) -> list[Answer]:
    """The record that the event in a packet is lost to its target. Nothing else that a packet carries is missed."""
    borne = event_message(message)
    if borne is None:
        return []
    publisher, sequence = borne.event.id
    return [Trace(Record("lost", source, "Publish", publisher, sequence, number=number, detail=why))]


def _missing(source: NodeId, number: int, why: str) -> Trace:
    """The record that a packet is lost of which only the number is known."""
    return Trace(Record("lost", source, "Packet", number=number, detail=why))

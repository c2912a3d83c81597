"""Matching at every hop: events travel down the tree of their broker, and each hop computes the next targets.

*Theory.* With matching at the source a packet names its targets. Here it does not: each hop matches the event with the
subscriptions it knows and passes it on to the neighbours behind which somebody wants it [spcf §3.1.1]. For that all on
the way must agree on the tree and know the subscriptions behind them. While links and brokers come and go they do not.
So a broker sends hop by hop only while the network is *calm*, and otherwise through channels (`channels.py`), which
need no agreement.

*Calm.* The *view* of a broker is what it knows of all links (`Topology.view`). When it has not changed for `calm_s`,
the broker tells those on its new ways its subscriptions, and then everybody `ViewReached`. A broker that has received
that from all, for its own view, is *complete*: it knows the subscriptions of everybody that this view asks for. It says
so to all. When all are complete in its view, a broker is calm, until its view changes.

*The stream.* What a calm broker sends is numbered. It keeps it until its targets have confirmed it; they are asked
`confirm_s` after the first, or when there are `ASK_AT`. A hop whose view is another one drops a `HopPacket`: the view
of the source will change, too. Then the source sends all that is not confirmed through its channels (`SentAgain`).

*Who is meant.* The source finds out which of the matching subscribers `Event.to` may be meant for, and puts them into a
Bloom filter. A hop passes over subscribers that are not in it. Whom the filter lets through wrongly, the exact test at
delivery leaves out [spcf §3.1.1, note 3].

*Rules.*
1. Link states are flooded before anything else is sent, also to neighbours whose links are down for a while. So the
   receiver of a message knows the view of its source.
2. Ways are the same in both directions (`Topology.symmetric`). So what a broker tells another has passed all that lie
   between them. With rule 1: in its view, a hop on the way to a target knows of the target's subscriptions whatever
   the source knows, or later news. By later news the target does not want the event any more.
3. With rule 1, too: what one broker sends to another in one view takes one way, in order, until some hop on it has
   another view. From then on that hop drops every `HopPacket` of that view. So a target gets the first ones of a
   stream, without a gap; what it gets again has a higher number than all that came, or is dropped.
4. In a calm broker events and the messages of the broker (`further`) all go by the stream: none overtakes another.
   `SentAgain` goes before anything else that is sent through channels.
5. Where the subscriptions of others are not known for sure, a `HopPacket` names its targets, as in matching at the
   source.
6. No number of a life is used for two messages, or the second is dropped as a copy of the first. A disk may have lost
   the last inputs of a broker, with numbers that it has used. So after a start it goes on with the time in 10 µs, if
   that is more than its last number: it sends fewer messages, so all numbers that it has used are lower.
7. Bounded: `UNCONFIRMED_MAX` messages and `UNCONFIRMED_BYTES_MAX`, then they are sent again at once; one number for
   each source.

*Paper.* [spcf §3.1.1]: "the first two fields are used to isolate the relevant part of the content table […], then a
'standard' content matching is performed to find the neighbors that have to receive the packet. At this step, the bloom
filter b is used to reduce the number of content filters to consider".

*Symbols.* the packet (8, c12, m, f_ctx, b) → `HopPacket`: `source`, the sender's context in the event, the event, its
`to`, `bloom`; the content table → the subscriptions of others by home broker (`GraphRouting.remote`), and by
`Topology.below` the neighbour on the way to each.

*Departures.*
1. The Bloom filter holds subscribers in matching contexts, not the contexts: a context that changes while a packet is
   under way has another name at the next hop, its client has not.
2. The content table is by home broker. The rows of the paper, by publisher's broker, its context and neighbour, follow
   from it and the trees, so that nothing need be told again to hops that stay on the way when trees change.
3. The paper says nothing of links and brokers that go. Views, numbers and `SentAgain` are ours.
4. What a source has not had confirmed is lost if it loses its disk and a hop has dropped it meanwhile.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from godwit.broker.bloom import BloomFilter
from godwit.broker.channels import Channels
from godwit.broker.effects import StartTimer, StopTimer, TimerKey
from godwit.broker.messages import EntryId, NodeId, Packet, Publish
from godwit.broker.packet_checks import Further
from godwit.broker.routing import Answer, Forward
from godwit.broker.state_types import AnyMessage
from godwit.broker.stream_checks import check_hop_packet, stream_checks
from godwit.broker.stream_messages import ConfirmStream, HopPacket, SentAgain, StreamConfirmed, ViewReached
from godwit.broker.topology import INCARNATION_MAX, Topology
from godwit.broker.waiting_bytes import bytes_of
from godwit.filters.events import Event

__all__ = ["CALM", "CONFIRM", "HopStream", "HopStreamState", "StreamTables", "Subscriber"]

CALM, CONFIRM = "calm", "confirm"
"""The timers of this module."""
ASK_AT = 256
UNCONFIRMED_MAX = 4_096
UNCONFIRMED_BYTES_MAX = 64 * 2**20  # of their events
NUMBERS_PER_S = 100_000  # more than a broker sends
NUMBER_MAX = INCARNATION_MAX // 2  # by a clock

Subscriber = tuple[NodeId, NodeId]
"""Home broker and client."""


class UnconfirmedState(msgspec.Struct, frozen=True):
    """A message of the stream, and who has not confirmed it."""

    number: int
    message: AnyMessage
    targets: tuple[NodeId, ...]


class HopStreamState(msgspec.Struct, frozen=True, tag=True):
    """What a broker has sent hop by hop and taken, and what it knows of the views of others."""

    version: ClassVar[int] = 1
    view: int
    announced: bool
    complete: bool
    reached: dict[NodeId, tuple[int, bool]]
    number: int
    unconfirmed: tuple[UnconfirmedState, ...]
    asked: tuple[NodeId, ...]
    taken: dict[NodeId, tuple[int, int]]


class StreamTables(Protocol):
    """What a stream sees of its broker."""

    topology: Topology
    channels: Channels

    @property
    def untold(self) -> Mapping[NodeId, None]:
        """The brokers that may want what they have not told yet."""

    def wanting(self, event: Event) -> Iterable[tuple[NodeId, EntryId]]:
        """The subscriptions of other brokers that match, with their home brokers."""

    def settle_ways(self) -> list[Answer]:
        """Tell its subscriptions to those that lie on the ways of this view, and take them back from others."""

    def take(self, source: NodeId, message: Any, now: float) -> list[Answer]:
        """A message from another broker, in its turn."""


class Unconfirmed:
    """A message of the stream, and who has not confirmed it."""

    __slots__ = ("message", "number", "targets")

    def __init__(self, number: int, message: Any, targets: Iterable[NodeId]) -> None:
        self.number = number
        self.message = message
        self.targets = dict.fromkeys(targets)


class HopStream:
    """What one broker sends and passes on hop by hop."""

    tables: StreamTables

    def __init__(self, calm_s: float = 1.0, confirm_s: float = 1.0) -> None:
        assert calm_s > 0 < confirm_s
        self.calm_s, self.confirm_s = calm_s, confirm_s
        self.view = -1  # none yet
        self.announced = False  # whether everybody has been told that this view is reached
        self.complete = False
        self.is_calm = False  # whether everybody is complete, as far as this broker has heard
        self.reached: dict[NodeId, tuple[int, bool]] = {}  # by broker: its view, and whether it is complete there
        self.number = 0
        self.unconfirmed: deque[Unconfirmed] = deque()
        self._bytes = 0  # of the events in them
        self.asked: dict[NodeId, None] = {}  # who has been asked to confirm and has not answered
        self.taken: dict[NodeId, tuple[int, int]] = {}  # by source: its life, and the last number that came

    def join(self, tables: StreamTables) -> None:
        """Become part of a broker."""
        self.tables = tables

    def checks(self, further: Further) -> Further:
        """The types of the messages that packets carry for it, and how each is checked."""
        return stream_checks(further)

    # ------------------------------------------------------------ views

    def _all_complete(self) -> bool:
        return self.complete and all(self.reached.get(name) == (self.view, True) for name in self._others())

    def _others(self) -> Iterable[NodeId]:
        """Everybody who can be reached."""
        return self.tables.topology.below(self.tables.topology.broker)

    def on_topology_changed(self, now: float) -> list[Answer]:
        """Link states were heard, or changed here: with another view, all begins again."""
        view = self.tables.topology.view
        if view == self.view:
            return []
        self.view, self.announced, self.complete, self.is_calm = view, False, False, False
        return [*self.send_again(), StartTimer((CALM,), now + self.calm_s)]

    def watch_again(self, now: float) -> list[Answer]:
        """Start timers again, after a time when they may not have run."""
        answers: list[Answer] = []
        if self.view >= 0 and not self.announced:
            answers.append(StartTimer((CALM,), now + self.calm_s))
        if self.unconfirmed and not self.asked:
            answers.append(StartTimer((CONFIRM,), now + self.confirm_s))
        return answers

    def on_restarted(self, now: float) -> None:
        """The disk may have lost the last messages of the stream: go on above their numbers. (rule 6)"""
        self.number = max(self.number, min(int(now * NUMBERS_PER_S), NUMBER_MAX))

    def on_timer_due(self, key: TimerKey, now: float) -> list[Answer]:
        """The view has not changed for a while; or it is time to ask who has what."""
        if key == (CONFIRM,):
            return self._ask() if self.unconfirmed and not self.asked else []
        if self.announced:
            return []
        answers = self.tables.settle_ways()
        self.announced = True
        return answers + self._tell_all(ViewReached(self.view)) + self._look()

    def _tell_all(self, message: ViewReached) -> list[Answer]:
        others = sorted(self._others())
        return self._tell(others, message) if others else []

    def _look(self) -> list[Answer]:
        """Whether all have reached the view of this broker, and whether all are complete."""
        answers: list[Answer] = []
        if self.announced and not self.complete:
            self.complete = all(self.reached.get(name, (-1, False))[0] == self.view for name in self._others())
            answers += self._tell_all(ViewReached(self.view, True)) if self.complete else []
        self.is_calm = self._all_complete()
        return answers

    # ------------------------------------------------------------ sending

    def send(
        self,
        targets: Iterable[NodeId],
        message: Any,
        now: float,
        *,
        meant: Sequence[Subscriber] | None = None,
        matched: bool = False,
    ) -> list[Answer]:
        """Send a message down the tree of this calm broker. [spcf §3.1.1]

        `matched`: hops find the targets, by what they know; `meant`: among these subscribers alone.
        """
        topology, channels = self.tables.topology, self.tables.channels
        below = topology.below(topology.broker)
        here = sorted(target for target in targets if target in below)
        absent = sorted(target for target in targets if target not in below)
        answers = channels.send(absent, message) if absent else []
        if not here:
            return answers
        self.number += 1
        bloom = None if meant is None else BloomFilter.of(_name(*subscriber) for subscriber in meant).wire()
        packet = HopPacket(topology.broker, channels.incarnation, self.view, self.number, message, None, bloom)
        if matched:
            answers += [_forward(hop, packet) for hop in sorted({below[target] for target in here})]
        else:
            answers += self._send_on(packet, here)
        self.unconfirmed.append(Unconfirmed(self.number, message, here))
        self._bytes += bytes_of(message)
        if len(self.unconfirmed) >= UNCONFIRMED_MAX or self._bytes > UNCONFIRMED_BYTES_MAX:  # rule 7
            return answers + self.send_again()
        if not self.asked:
            if len(self.unconfirmed) >= ASK_AT:
                answers += self._ask()
            elif len(self.unconfirmed) == 1:
                answers.append(StartTimer((CONFIRM,), now + self.confirm_s))
        return answers

    def _send_on(self, packet: HopPacket, targets: Iterable[NodeId]) -> list[Answer]:
        """Divide targets by the neighbour on the way to each."""
        below = self.tables.topology.below(packet.source)
        parts: dict[NodeId, list[NodeId]] = {}
        for target in targets:
            if target in below:
                parts.setdefault(below[target], []).append(target)
        return [_forward(hop, _addressed(packet, parts[hop])) for hop in sorted(parts)]

    def _ask(self) -> list[Answer]:
        self.asked = {target: None for item in self.unconfirmed for target in item.targets}
        incarnation = self.tables.channels.incarnation
        return self._tell(sorted(self.asked), ConfirmStream(incarnation, self.view, self.number))

    def _tell(self, targets: Sequence[NodeId], message: Any) -> list[Answer]:
        return self.tables.channels.send(targets, message)

    def send_again(self) -> list[Answer]:
        """Send what is not confirmed through channels, which bring it whatever happens to the tree. (rule 4)"""
        is_timed = bool(self.unconfirmed) and not self.asked
        answers: list[Answer] = [StopTimer((CONFIRM,))] if is_timed else []
        for targets, again in self._take_unconfirmed():
            answers += self._tell(targets, again)
        return answers

    def _take_unconfirmed(self) -> list[tuple[list[NodeId], SentAgain]]:
        incarnation, unconfirmed = self.tables.channels.incarnation, self.unconfirmed
        self.unconfirmed, self.asked, self._bytes = deque(), {}, 0
        return [(sorted(item.targets), SentAgain(incarnation, item.number, item.message)) for item in unconfirmed]

    def unconfirmed_packets(self) -> list[Packet]:
        """What is not confirmed, as packets of a channel; their numbers mean nothing."""
        channels = self.tables.channels
        return [
            Packet(channels.broker, channels.incarnation, dict.fromkeys(item.targets, item.number), item.message)
            for item in self.unconfirmed
        ]

    def end_life(self) -> list[tuple[list[NodeId], SentAgain]]:
        """This broker starts another life, and its stream begins again. Returns what the past one has to send again."""
        self.number = 0
        return self._take_unconfirmed()

    # ------------------------------------------------------------ receiving

    def check(self, packet: HopPacket, further: Further) -> None:
        """`PeerFault` when no honest neighbour passes this packet on."""
        check_hop_packet(packet, self.tables.topology.brokers_max, further)

    def on_packet(self, peer: NodeId, packet: HopPacket, now: float) -> list[Answer]:
        """Hand it to clients here, and run the same algorithm again. [spcf §3.1.1]"""
        topology, source = self.tables.topology, packet.source
        number = (packet.incarnation, packet.number)
        if packet.view != self.view or topology.parent(source) != peer or number <= self.taken.get(source, (0, 0)):
            return []  # the source will send it again, or has done so (rule 3)
        self.taken[source] = number
        if packet.targets is not None:
            answers = self._send_on(packet, packet.targets)
            is_here = topology.broker in packet.targets
        else:
            answers, is_here = [_forward(hop, packet) for hop in self._wanting_behind(packet)], True
        return answers + self.tables.take(source, packet.message, now) if is_here else answers

    def _wanting_behind(self, packet: HopPacket) -> list[NodeId]:
        """The neighbours further down the tree behind which somebody wants an event. [spcf §3.1.1]"""
        below = self.tables.topology.below(packet.source)
        if not below:
            return []
        assert isinstance(packet.message, Publish)
        bloom = None if packet.bloom is None else BloomFilter(packet.bloom)
        found = {below[home] for home in self.tables.untold if home in below}
        for home, (client, _) in self.tables.wanting(packet.message.event):
            hop = below.get(home)
            if hop is not None and hop not in found and (bloom is None or _name(home, client) in bloom):
                found.add(hop)
        return sorted(found)

    def on_message(self, source: NodeId, message: Any, now: float) -> list[Answer]:
        """A message of one of the types in `checks` came."""
        match message:
            case ViewReached(view=view, complete=complete):
                self.reached[source] = (view, complete)
                return self._look()
            case SentAgain():
                return self._on_sent_again(source, message, now)
            case ConfirmStream(incarnation=incarnation, view=view, number=number):
                if view == self.view:  # so had all on the way, and all has come that was sent before (rule 3)
                    return self._tell((source,), StreamConfirmed(incarnation, number))
            case StreamConfirmed(incarnation=incarnation, number=number):
                if incarnation == self.tables.channels.incarnation:
                    return self._on_confirmed(source, number, now)
        return []

    def _on_sent_again(self, source: NodeId, message: SentAgain, now: float) -> list[Answer]:
        known, number = self.taken.get(source, (0, 0)), (message.incarnation, message.number)
        if message.incarnation < known[0]:  # of a life that is over: as channels do it
            return self.tables.take(source, message.message, now) if type(message.message) is Publish else []
        if number <= known:
            return []
        self.taken[source] = number
        return self.tables.take(source, message.message, now)

    def _on_confirmed(self, source: NodeId, number: int, now: float) -> list[Answer]:
        self.asked.pop(source, None)
        for item in self.unconfirmed:
            if item.number > number:
                break
            item.targets.pop(source, None)
        if any(not item.targets for item in self.unconfirmed):
            self.unconfirmed = deque(item for item in self.unconfirmed if item.targets)
            self._count_bytes()
        if self.unconfirmed and not self.asked:
            return [StartTimer((CONFIRM,), now + self.confirm_s)]
        return []

    def _count_bytes(self) -> None:
        self._bytes = sum(bytes_of(item.message) for item in self.unconfirmed)

    def waiting_bytes(self) -> int:
        """The size of all events that are kept to be sent again."""
        return self._bytes

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> HopStreamState:
        """The stream as it is now."""
        unconfirmed = (UnconfirmedState(item.number, item.message, tuple(item.targets)) for item in self.unconfirmed)
        return HopStreamState(
            self.view,
            self.announced,
            self.complete,
            dict(self.reached),
            self.number,
            tuple(unconfirmed),
            tuple(self.asked),
            dict(self.taken),
        )

    def restore(self, state: HopStreamState) -> None:
        """Have this stream."""
        self.view, self.announced, self.complete = state.view, state.announced, state.complete
        self.reached, self.number, self.taken = dict(state.reached), state.number, dict(state.taken)
        self.unconfirmed = deque(Unconfirmed(item.number, item.message, item.targets) for item in state.unconfirmed)
        self._count_bytes()
        self.asked = dict.fromkeys(state.asked)
        self.is_calm = self._all_complete()


def _addressed(packet: HopPacket, targets: Sequence[NodeId]) -> HopPacket:
    return HopPacket(
        packet.source, packet.incarnation, packet.view, packet.number, packet.message, tuple(targets), packet.bloom
    )


def _forward(peer: NodeId, packet: Any) -> Forward:
    return Forward(peer, packet)


def _name(home: NodeId, client: NodeId) -> str:
    """A subscriber, as Bloom filters name it."""
    return f"{home}/{client}"

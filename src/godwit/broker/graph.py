"""The graph family: any overlay, also with cycles; events follow the publisher's shortest path tree, pruned (GSF).

*Theory.* Every broker knows the overlay (`topology.py`) and has a channel to every other (`channels.py`). It tells all
of them its clients' subscriptions and keeps theirs in one index. An event is matched once, where it is published: the
brokers with a subscription that it matches are the targets of one packet, which travels along the shortest path tree
of the publisher's broker and no branch of it without a target. Each target matches it again, against its own clients'
subscriptions only.

*Rules.*
1. A broker has a subscription in its own table before it tells it, and takes it out before it takes it back. So an
   event that comes because of a subscription finds it, or its replacement, or nobody who still wants it.
2. From one broker to another all comes in the order of the channel. So the events of one publisher come in order, and
   once; a subscription, its replacement and its end come in order, and the last one counts. An event that a broker
   publishes after it has heard of a subscription goes to that subscriber's broker. Nothing is said about the order of
   events from two brokers.
3. When a broker hears of another for the first time, or of a new life of it, from its link state or from a packet, it
   tells it everything: `ChannelStart`, its clients' subscriptions, `Synced`. What the other knew from a past life and
   does not hear again is over at `Synced`, not before.
4. Until a broker has told everything, nobody knows what it does not want: every event goes to it (`untold`).
5. A newborn broker does not know yet who is there: what its clients publish is kept until its first link has been open
   for `newborn_s` (`early`, `EARLY_MAX` events and `EARLY_BYTES_MAX`), and goes to each broker that it meets for the
   first time till then. A broker that a past life of this one knew is no such broker: old events would reach
   subscriptions made since.
6. When the path to a broker is lost permanently or a broker starts a new life, packets may have died with it: every
   source sends a `ChannelTail`, by which targets see what they miss.
7. Where a source could not send a packet again it may have been a subscription: the target asks to be told everything
   once it has no gap, and until it has heard it rule 4 holds.
8. No answer depends on the order of a set or on hashing: targets and subscriptions are sorted.

*Paper.* [spcf §3.1, §4], GSF: "forwards messages along the SPT of the publisher, pruned by using subscriptions".

*Symbols.* B_s → this broker in `subscribe`; D → every broker that is known; content table → `remote` (by home broker)
and the index over it; client table → `local`.

*Departures.*
1. The paper matches a message at every hop. We match it once, at the source, and the packet carries the exact set of
   targets, numbered for each: so they can be put in order, freed of doubles and missed when the tree changes under way.
   When all tables agree each hop forwards to the same neighbours as in the paper. With `hops` (`hop_stream.py`) events
   are matched at every hop, as in the paper, while all brokers agree on the overlay.
2. The paper's content table has a row for each neighbour on the way; ours has the home broker, which stays when the
   tree changes.
3. Advertisements are accepted and ignored, but by `advertised.py`: subscriptions are known to every broker anyway.

Who hears of what is decided by a `Forwarding` (`forwarding_strategy.py`). The rules above are those of `gsf.py`, where
it is everyone; `spcf.py` tells fewer brokers of a subscription, and each event to fewer; `advertised.py` tells those
who advertise what it may match.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from godwit.broker.channels import GAP, Channels, ChannelsState
from godwit.broker.effects import StartTimer, TimerKey, Trace
from godwit.broker.forwarding_strategy import Forwarding
from godwit.broker.gsf import SubscriptionForwarding
from godwit.broker.hop_stream import CALM, CONFIRM, HopStream, HopStreamState
from godwit.broker.messages import (
    ChannelStart,
    EntryId,
    LinkState,
    LostNumbers,
    Message,
    Nack,
    NodeId,
    Packet,
    Publish,
    Subscribe,
    Synced,
    Unsubscribe,
)
from godwit.broker.packet_checks import Further, check_packet
from godwit.broker.queues import event_size
from godwit.broker.routing import Answer, BrokerMet, DeliverLocally, Demand, EntryWatch, Forward, RelayedMessage
from godwit.broker.state_types import AnyState
from godwit.broker.stream_messages import HopPacket, SentAgain, event_message
from godwit.broker.topology import BROKERS_MAX, INCARNATION_MAX, Topology, TopologyState
from godwit.errors import PeerFault
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter
from godwit.filters.memory_sizes import EntrySizes
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Matcher
from godwit.trace import Record

__all__ = ["GraphRouting", "GraphState"]

NEWBORN = "newborn"
EARLY_MAX = 4_096
EARLY_BYTES_MAX = 64 * 2**20
ENTRIES_MAX = 1_000_000  # from one broker


class GraphState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The tables of one broker. The indexes follow from them."""

    version: ClassVar[int] = 4
    topology: TopologyState
    channels: ChannelsState
    open: tuple[NodeId, ...]
    local: dict[EntryId, Filter]
    remote: dict[NodeId, dict[EntryId, Filter]]
    stale: dict[NodeId, tuple[EntryId, ...]]
    untold: tuple[NodeId, ...]
    early: tuple[Event, ...] | None
    forwarding: AnyState
    hops: HopStreamState | None = None  # with matching at every hop


class GraphRouting:
    """The tables of one broker, and what it does with them. Implements `Routing`, and `GraphTables` for `forwarding`.

    `incarnation` names this life: a broker that starts without its memory takes a higher one than ever before. Where it
    has taken too low a one, it hears so from its first neighbour, and takes another.
    """

    def __init__(
        self,
        broker: NodeId,
        incarnation: int = 1,
        costs: Mapping[NodeId, float] | None = None,
        gap_wait_s: float = 5.0,
        newborn_s: float = 60.0,
        brokers_max: int = BROKERS_MAX,
        *,
        further: Further | None = None,
        forwarding: Forwarding | None = None,
        hops: HopStream | None = None,
        new_matcher: Callable[[], Matcher] = IndexMatcher,
    ) -> None:
        assert 0 < incarnation < INCARNATION_MAX
        self.broker = broker
        self.further = dict(further or {})  # what else packets carry, for the broker: types, and how they are checked
        self.forwarding: Forwarding = SubscriptionForwarding() if forwarding is None else forwarding
        self.hops = hops  # None: events are matched at the source alone
        streamed = {} if hops is None else hops.checks(self.further)
        self.checks: Further = {**self.further, **self.forwarding.checks, **streamed}  # all that packets carry of these
        self.topology = Topology(broker, incarnation, costs, brokers_max, symmetric=hops is not None)
        self.channels = Channels(self.topology, gap_wait_s)
        self.open: dict[NodeId, None] = {}  # neighbours whose links are open now
        self.local: dict[EntryId, Filter] = {}
        self.remote: dict[NodeId, dict[EntryId, Filter]] = {}
        self._remote_sizes = EntrySizes()
        self.stale: dict[NodeId, dict[EntryId, None]] = {}  # not told again yet, while a broker tells everything
        self.untold: dict[NodeId, None] = {}  # rule 4
        self.newborn_s = newborn_s
        self.early: deque[Event] | None = deque()  # rule 5; None: grown up
        self._early_bytes = 0
        self.local_index, self._remote_index = new_matcher(), new_matcher()
        self.watch: EntryWatch | None = None
        self.forwarding.join(self)
        if hops is not None:
            hops.join(self)

    @property
    def incarnation(self) -> int:
        """The number of this broker's life."""
        return self.channels.incarnation

    @property
    def incarnations(self) -> Mapping[NodeId, int]:
        """The brokers that are known, and the number of the life of each."""
        return self.channels.incarnations

    # ------------------------------------------------------------ clients here

    def subscribe(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        """Record it, find D, send it towards D. [spcf §3.1.2]"""
        before = self.local.get(id)
        if before == filter:
            return []
        if before is not None:
            self.local_index.replace(id, filter)
        else:
            self.local_index.add(id, filter)
        self.local[id] = filter  # step 1
        self._changed("", id, before)
        return self.forwarding.on_subscribe(id, filter)  # steps 2 to 4

    def unsubscribe(self, id: EntryId, now: float) -> list[Answer]:
        """The same with the filter removed. [spcf §3.1.2] An id that is not there has nothing to remove."""
        filter = self.local.pop(id, None)
        if filter is None:
            return []
        self.local_index.remove(id)
        self._changed("", id, filter)
        return self.forwarding.on_unsubscribe(id)

    def advertise(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        answers = self.forwarding.on_advertise(id, filter)
        return [*answers, Demand(filter)] if answers and self.forwarding.is_awaiting() else answers

    def unadvertise(self, id: EntryId, now: float) -> list[Answer]:
        return self.forwarding.on_unadvertise(id)

    def set_context(self, client: NodeId, context: Attributes | None, now: float) -> list[Answer]:
        return self.forwarding.set_context(client, context)

    def publish(self, event: Event, now: float) -> list[Answer]:
        """Match, and send one packet along the pruned tree of this broker. [spcf §3.1.1]"""
        answers = self._deliver(event)
        found = self.wanting(event)
        homes = self.forwarding.homes(event, found)
        homes.update(self.untold)
        if homes:
            answers += self._send_event(event, homes, found, now)
        if self.early is not None:
            self.early.append(event)
            self._early_bytes += event_size(event)
            while len(self.early) > EARLY_MAX or (self._early_bytes > EARLY_BYTES_MAX and len(self.early) > 1):
                gone = self.early.popleft()
                self._early_bytes -= event_size(gone)
                publisher, sequence = gone.id
                if not self.channels.incarnations:
                    why = "a newborn broker that knows nobody keeps no more"
                    answers.append(Trace(Record("lost", "", "Publish", publisher, sequence, detail=why)))
        return answers

    def _send_event(self, event: Event, homes: set[NodeId], found: list[Any], now: float) -> list[Answer]:
        if self.hops is None or not self.hops.is_calm:
            return self.channels.send(sorted(homes), Publish(event))
        if self.untold or not self.forwarding.knows_all(event):
            return self.hops.send(homes, Publish(event), now)
        return self.hops.send(homes, Publish(event), now, meant=self.forwarding.meant(event, found), matched=True)

    def send(self, targets: Sequence[NodeId], message: Any, now: float) -> list[Answer]:
        """Send a message of the broker to brokers that are known, behind all of these and of the events sent before."""
        if self.hops is not None and self.hops.is_calm and targets:
            return self.hops.send(targets, message, now)
        return self.tell(targets, message)

    def tell(self, targets: Sequence[NodeId], message: Any) -> list[Answer]:
        """Send a message of this family to brokers that are known, behind all that channels brought to each before."""
        return self.channels.send(targets, message) if targets else []

    def between(self, targets: Iterable[NodeId]) -> list[NodeId]:
        """The brokers on the way to these; none with matching at the source, where nobody there need know."""
        return [] if self.hops is None else self.topology.between(targets)

    def settle_ways(self) -> list[Answer]:
        """Tell subscriptions to those that lie on the ways of this view, and take them back from others."""
        return self.forwarding.settle_ways()

    def wanting(self, event: Event) -> list[Any]:
        """The subscriptions of other brokers that match, with their home brokers."""
        return self._remote_index.match(event) if len(self._remote_index) else []

    def _deliver(self, event: Event) -> list[Answer]:
        here: list[Any] = self.local_index.match(event) if self.local else []
        return [DeliverLocally(event, sorted(here))] if here else []

    def local_filter(self, id: EntryId) -> Filter | None:
        return self.local.get(id)

    def hops_max(self) -> int | None:
        return self.topology.hops_max()

    def wanted(self) -> list[Filter]:
        if (
            self.untold or self.early is not None or self.forwarding.is_awaiting()
        ):  # somebody may want what we have not heard of
            return [TRUE]
        remote = (filter for entries in self.remote.values() for filter in entries.values())
        held = (message for incoming in self.channels.incoming.values() for message in incoming.held.values())
        early = (message.filter for message in held if type(message) is Subscribe)  # an event may let it take effect
        return [*self.local.values(), *remote, *early]

    def held_back(self) -> list[Message]:
        """Packets parked because there is no path, and packets that arrived early."""
        channels = self.channels
        held: list[Message] = [packet for parked in channels.parked.values() for packet in parked]
        for source, incoming in channels.incoming.items():
            carried = [message for message in incoming.held.values() if message is not None]
            held += [Packet(source, incoming.incarnation, {self.broker: 1}, message) for message in carried]
        held += [] if self.hops is None else self.hops.unconfirmed_packets()
        return held + [Publish(event) for event in self.early or ()]

    def is_whole(self) -> bool:
        return True

    def is_settled(self) -> bool:
        """Whether nobody is known to have anything to tell us."""
        gaps = any(incoming.has_gap for incoming in self.channels.incoming.values())
        return not gaps and not self.untold and not self.stale and self.forwarding.is_settled()

    def sizes(self) -> dict[str, int]:
        """How many entries each table holds."""
        return {
            "local": len(self.local),
            "remote": sum(map(len, self.remote.values())),
            "matcher": len(self.local_index) + len(self._remote_index),
            **self.forwarding.sizes(),
        }

    def remote_bytes(self) -> int:
        waiting = self.channels.waiting_bytes() + (0 if self.hops is None else self.hops.waiting_bytes())
        return self._remote_sizes.bytes + self.forwarding.remote_bytes() + waiting + self._early_bytes

    # ------------------------------------------------------------ neighbours

    def set_neighbour(self, peer: NodeId, cost: float, is_new: bool) -> list[Answer]:
        """Use this cost when the link opens next."""
        self.topology.costs[peer] = cost
        return []

    def on_peer_up(self, peer: NodeId, now: float) -> list[Answer]:
        """First tell the neighbour the whole database, then the others about this link.

        A past life of this broker needs no care here: a neighbour first tells what that life said of itself.
        """
        answers: list[Answer] = []
        if not self.open:  # the first after a start: timers that ran before may be gone
            answers += self.channels.watch_again(now)
            answers += [] if self.hops is None else self.hops.watch_again(now)
            if self.early is not None:
                answers.append(StartTimer((NEWBORN,), now + self.newborn_s))
        news = self.topology.open_link(peer)
        self.open[peer] = None
        answers += [Forward(peer, state) for state in self.topology.told_first(peer)]
        if news:
            answers += self._flood(self.topology.own, besides=peer)
            answers += self._on_topology_changed(now)
        return answers

    def _on_topology_changed(self, now: float) -> list[Answer]:
        """Link states have changed, and neighbours have been told."""
        return [*self._on_view_changed(now), *self.channels.on_topology_changed(now)]

    def _on_view_changed(self, now: float) -> list[Answer]:
        return [] if self.hops is None else self.hops.on_topology_changed(now)

    def on_restarted(self, now: float) -> None:
        if self.hops is not None:
            self.hops.on_restarted(now)

    def note_past_life(self) -> None:
        """Nothing changes: who has not told everything gets every event (`untold`)."""

    def on_peer_down(self, peer: NodeId, now: float) -> list[Answer]:
        """Nothing changes: packets wait in the outbox, and the database is told again when the link is back."""
        self.open.pop(peer, None)
        return []

    def on_peer_forgot(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """Tell the neighbour the database, and send again what its past life may never have got."""
        answers: list[Answer] = []
        if peer in self.open:
            answers += [Forward(peer, state) for state in self.topology.told_first(peer)]
        return answers + self._send_on(undelivered)

    def on_link_dead(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """Tell everyone that the link is gone, and send what waited for it another way."""
        self.open.pop(peer, None)
        answers: list[Answer] = []
        if self.topology.drop_link(peer):
            answers += self._flood(self.topology.own, besides=peer)
            answers += self._on_topology_changed(now)
            answers += self._on_links_gone([peer])
        return answers + self._send_on(undelivered)

    def on_timer_due(self, key: TimerKey, now: float) -> list[Answer]:
        if key == (NEWBORN,):
            self.early, self._early_bytes = None, 0
            return [Demand()]  # it was not known what is wanted, and is now
        if self.hops is not None and key[0] in (CALM, CONFIRM):
            return self.hops.on_timer_due(key, now)
        assert key[0] == GAP, f"the graph family starts no timer {key}"
        return self.channels.on_gap_due(key[1], now)

    def _send_on(self, undelivered: Iterable[Message]) -> list[Answer]:
        """Packets go on by the present view. Link states are told again, and sources keep what goes hop by hop."""
        packets = [message for message in undelivered if isinstance(message, Packet)]
        return [answer for packet in packets for answer in self.channels.route(packet)]

    def _flood(self, state: LinkState, besides: NodeId) -> list[Answer]:
        """Pass a link state on; with matching at hops, also over links that are down for a while (`hop_stream.py`)."""
        peers = self.open if self.hops is None else {**self.open, **dict.fromkeys(self.topology.own.neighbours)}
        return [Forward(peer, state) for peer in peers if peer != besides]

    # ------------------------------------------------------------ what neighbours say

    def on_message(self, peer: NodeId, message: Message, now: float) -> list[Answer]:
        if isinstance(message, Packet):
            self._check(message)
            return self.on_packet(message, now)
        if isinstance(message, LinkState):
            self.topology.check(message)
            return self.on_link_state(message, peer, now)
        if isinstance(message, HopPacket) and self.hops is not None:
            self.hops.check(message, self.further)
            return self.hops.on_packet(peer, message, now)
        raise PeerFault(f"sends a {type(message).__name__}, which brokers of a graph do not exchange")

    def demand_of(self, message: Message) -> Demand | None:
        carried: Any = message.message if isinstance(message, Packet | HopPacket) else message
        if event_message(carried) is not None:
            return None
        return Demand(carried.filter) if type(carried) is Subscribe else Demand()

    def on_link_state(self, state: LinkState, peer: NodeId, now: float) -> list[Answer]:
        """Keep what is newer, pass it on, and see who is new and what has changed. [spcf §3.1]"""
        if not self.topology.is_news(state):
            return []
        if state.broker == self.broker:
            return self._begin_life(self.topology.outbid(state), now)
        known = self.topology.states.get(state.broker)
        changed = self.topology.learn(state)
        answers = self._flood(state, besides=peer) + self._on_view_changed(now)
        if changed:
            answers += self.channels.on_topology_changed(now)
        answers += self._meet(state.broker, state.incarnation)
        if known is not None and (gone := [name for name in known.neighbours if name not in state.neighbours]):
            answers += self._on_links_gone([state.broker, *gone])
        return answers

    def on_packet(self, packet: Packet, now: float) -> list[Answer]:
        """Pass it on towards its targets; take what is for this broker and in its turn. [spcf §3.1.1, §3.1.2]"""
        answers: list[Answer] = []
        if self.broker in packet.targets:  # its source may be met by a packet before its link state has come
            answers += self._meet(packet.source, packet.incarnation)
        more, handed_on = self.channels.on_packet(packet, now)
        answers += more
        for source, message in handed_on:
            answers += self.take(source, message, now)
        return answers

    def take(self, source: NodeId, message: Any, now: float) -> list[Answer]:
        """A message from another broker, in its turn."""
        match message:
            case Publish(event=event):
                return self._deliver(event)
            case Subscribe(id=id, filter=filter):
                return self._on_subscribe(source, id, filter)
            case Unsubscribe(id=id):
                self.remove(source, id)
            case ChannelStart():  # rule 3
                self.stale[source] = dict.fromkeys(self.remote.get(source, ()))
                self.forwarding.on_start(source)
            case Synced():
                for id in self.stale.pop(source, ()):
                    self.remove(source, id)
                self.untold.pop(source, None)
                return self.forwarding.on_synced(source)
            case LostNumbers():  # what is lost may have been a subscription
                self.untold[source] = None
            case Nack():  # rule 7
                return self._tell_everything(source, self.channels.incarnations[source])
            case _ if type(message) in self.forwarding.checks:
                return self.forwarding.on_message(source, message)
            case _ if type(message) in self.further:
                return [RelayedMessage(source, message)]
            case _ if self.hops is not None:
                return self.hops.on_message(source, message, now)
        return []

    def _on_subscribe(self, source: NodeId, id: EntryId, filter: Filter) -> list[Answer]:
        """Update the content table. [spcf §3.1.2]"""
        entries = self.remote.setdefault(source, {})
        self.stale.get(source, {}).pop(id, None)
        before = entries.get(id)
        if before == filter:
            return []
        if before is None:
            if len(entries) >= ENTRIES_MAX:
                return [Trace(Record("refused", source, "Subscribe", subscription="/".join(id), detail="too many"))]
            self._remote_index.add((source, id), filter)
        else:
            self._remote_index.replace((source, id), filter)
        entries[id] = filter
        self._remote_sizes.change(before, filter)
        self._changed(source, id, before)
        self.forwarding.on_remote(source, id, before, filter)
        return []

    def _changed(self, source: NodeId, id: EntryId, before: Filter | None) -> None:
        if self.watch is not None:
            self.watch(source, id, before)

    def remove(self, source: NodeId, id: EntryId) -> None:
        """Not there: its Subscribe is lost, and so is nothing by this."""
        filter = self.remote.get(source, {}).pop(id, None)
        self.stale.get(source, {}).pop(id, None)
        if filter is not None:
            self._remote_index.remove((source, id))
            self._remote_sizes.change(filter, None)
            self._changed(source, id, filter)
            self.forwarding.on_remote(source, id, filter, None)

    # ------------------------------------------------------------ lives

    def _meet(self, broker: NodeId, incarnation: int, *, in_new_life: bool = False) -> list[Answer]:
        """A new broker, or one in a new life, is told everything. (rules 3 to 6)

        `in_new_life`: it is this broker that starts one.
        """
        known = self.channels.incarnations.get(broker, 0)
        if incarnation <= known:
            return []
        self.forwarding.on_meet(broker)
        self.untold[broker] = None
        answers = self._tell_everything(broker, incarnation)
        if known:
            answers += self.channels.send_tails(besides=broker)
        elif not in_new_life:
            for event in self.early or ():
                answers += self.channels.send((broker,), Publish(event))
        return [*answers, BrokerMet(broker, again=known > 0)] if self.further else answers

    def _tell_everything(self, broker: NodeId, incarnation: int) -> list[Answer]:
        answers = self.channels.start(broker, incarnation)
        for message in self.forwarding.everything(broker):
            answers += self.channels.send((broker,), message)
        return answers + self.channels.send((broker,), Synced())

    def begin_life(self, incarnation: int, undelivered: Mapping[NodeId, list[Message]], now: float) -> list[Answer]:
        """Tell everyone everything, and send again what was not acknowledged or parked here."""
        self.topology.live_as(incarnation)
        packets = [message for messages in undelivered.values() for message in messages if isinstance(message, Packet)]
        parked = [packet for waiting in self.channels.parked.values() for packet in waiting]
        own = [packet for packet in (*packets, *parked) if packet.source == self.broker]
        return [
            *self._begin_life(incarnation, now, own),
            *self._send_on(packet for packet in packets if packet.source != self.broker),
        ]

    def _begin_life(self, incarnation: int, now: float, unsent: list[Packet] | None = None) -> list[Answer]:
        """A life that this broker has forgotten had its number: go on as another, and tell everyone everything.

        `unsent`: what targets may not have got; None: all that the past life had sent.
        """
        answers = self._flood(self.topology.own, besides="")
        incarnations = self.channels.incarnations
        streamed = [] if self.hops is None else self.hops.end_life()
        past = self.channels.begin_life(incarnation, unsent)
        answers += self._on_view_changed(now)
        for broker in sorted(incarnations):
            answers += self._meet(broker, incarnations[broker], in_new_life=True)
        for packet in past:  # sent under the wrong number: its targets have dropped it
            message: Any = packet.message
            if isinstance(message, Publish | SentAgain) or type(message) in self.further:
                answers += self.channels.send(sorted(packet.targets), message)
        for targets, again in streamed:  # later than what went through channels
            answers += self.tell(targets, again)
        return answers

    def _on_links_gone(self, ends: Sequence[NodeId]) -> list[Answer]:
        """Links are gone: if nobody is left to bring back what a broker at an end of them held, ask who misses it."""
        if all(self.topology.next_hop(end) is not None for end in ends):
            return []
        return self.channels.send_tails(besides="")

    # ------------------------------------------------------------ faults, and snapshots

    def _check(self, packet: Packet) -> None:
        """`PeerFault` when no honest neighbour passes this packet on."""
        incarnations, brokers_max = self.channels.incarnations, self.topology.brokers_max
        check_packet(packet, brokers_max, self.checks)
        if packet.source == self.broker and packet.incarnation > self.channels.incarnation:
            raise PeerFault(f"a packet of this broker with incarnation {packet.incarnation}, which it never had")
        if self.broker in packet.targets and packet.source not in incarnations and len(incarnations) >= brokers_max:
            raise PeerFault(f"{packet.source} is one broker too many: at most {brokers_max} are allowed")

    def snapshot(self) -> GraphState:
        """The tables as they are now."""
        return GraphState(
            self.topology.snapshot(),
            self.channels.snapshot(),
            tuple(self.open),
            dict(self.local),
            {home: dict(entries) for home, entries in self.remote.items()},
            {home: tuple(ids) for home, ids in self.stale.items()},
            tuple(self.untold),
            None if self.early is None else tuple(self.early),
            self.forwarding.snapshot(),
            None if self.hops is None else self.hops.snapshot(),
        )

    def restore(self, state: GraphState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.topology.restore(state.topology)
        self.channels.restore(state.channels)
        self.open, self.untold = dict.fromkeys(state.open), dict.fromkeys(state.untold)
        self.local = dict(state.local)
        self.remote = {home: dict(entries) for home, entries in state.remote.items()}
        self.stale = {home: dict.fromkeys(ids) for home, ids in state.stale.items()}
        self.early = None if state.early is None else deque(state.early)
        self._early_bytes = sum(map(event_size, state.early or ()))
        self.local_index.add_many(self.local.items())
        self._remote_index.add_many(
            ((home, id), filter) for home, entries in self.remote.items() for id, filter in entries.items()
        )
        for index in (self.local_index, self._remote_index):
            index.prepare()
        self._remote_sizes = EntrySizes(each for entries in self.remote.values() for each in entries.values())
        self.forwarding.restore(state.forwarding)
        if self.hops is not None and state.hops is not None:
            self.hops.restore(state.hops)

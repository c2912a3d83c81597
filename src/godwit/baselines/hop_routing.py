"""SPCF and GSF by the letter of the paper: a content table at every broker, and events matched at every hop.

*Theory.* The overlay is given and stays; everyone knows the shortest path tree of everyone. Each broker keeps two
tables. The *context table* says by broker in which contexts its clients are. The *content table* has a row for each
broker B, each context c of it and each neighbour N: what is wanted, of what B's clients in c publish, behind N in the
tree of B. A subscription goes up the trees of those brokers alone that have a client whose context it asks for. An
event goes down the tree of its broker, from each hop to the neighbours in whose row it matches. Which subscribers are
meant is found out once, at the source, by matching `Event.to` against the context table; a Bloom filter of the contexts
that it matches goes along, and pairs whose subscriber is in none of them are passed over. What the filter lets through
wrongly is dropped where it would be delivered, by the exact test of `Sessions.deliver`.

A context that begins goes down the tree of its broker. Every broker that receives it sends its clients' subscriptions
that ask for it, unless they have gone to that broker before, for another context: then all on the way have them.

GSF is the same with one context for each broker, which never changes and which every subscription asks for: content is
the whole filter, `to` is not looked at under way, and no Bloom filter is made.

*Rules.*
1. A broker's clients share equal contexts. A context begins with the first client that is in it and ends with the last;
   its number is never given again. A client of whom nobody has said anything is in the empty one from its first
   subscription or event on, until `set_context` says otherwise.
2. For each target, `routes` holds the subscriptions that came for it and ask for a context it is known to have; the
   rows are those of them that ask for that one context. A subscription no context is left for is forgotten.
3. News of B's contexts and B's events take the same way, in order: a hop knows of a context before an event names it.
   A broker nearer to B knows at least as much of B's contexts as those behind it. So a subscription may come for
   contexts that have ended since. It is kept iff at no time since its broker sent it B was without a context it asks
   for: `targets` says which changes that broker had heard of, and the last `HISTORY_MAX` of them are remembered. If B
   was without one, that broker will see so too, and tell it again when it should.
4. An event whose context none of this broker's clients is in goes to everyone, as flooding would: it may have been
   published before its client's context changed. So it goes from a hop that does not know the context.
5. A row is asked pair by pair while it is shorter than `matcher_from`, and then given to a matcher. An `IndexMatcher`
   takes 6 µs and 90 kB however little is in it; asking costs a quarter of a microsecond for each pair, so that the
   two are even at about thirty.

*Paper.* [spcf §3.1, Fig. 1, Fig. 2].

*Symbols.* B_s → `home`; c_s → `SubscribePacket.context`; f_msg → `filter`; f_ctx → `asks`, and of a publisher
`Event.to`; D → `_receivers()`; D_N → a part of `_towards()`; (B_x, c_x) → a key of `_rows`, N_x → the first of a pair's
key; b → `bloom`; client table → `local`.

*Departures.*
1. A packet names contexts by broker and number, not by what they say; the Bloom filter holds those names too.
2. A subscriber whose context changes sends each subscription once more, which replaces the pair; the paper takes it
   back first, which costs twice as much and leaves a gap.
3. An event for everybody (`to` is None) needs no Bloom filter.
4. The paper reissues "those subscriptions … whose context filter matches" the new context. We reissue those that have
   not reached the broker: only so does its Fig. 5b fall again at the end, as §4.2 explains.
5. The paper computes the trees from link states. Here they are given: when they change, tables of (broker, context,
   neighbour) are wrong everywhere at once, and the paper does not say how they are put right. `spcf.py` is for that.
6. Rules 3 and 4 are ours. An event before its new context has attracted all subscriptions may miss some, as there.
7. Links lose nothing and a broker may stop and come back with its disk. When one has lost its memory nothing tells it
   what it knew: it forwards what it cannot judge to everyone, what it had told the others stays as it was, and
   `is_settled` says no at its neighbours from then on.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from godwit.baselines.hop_messages import (
    ContextBegins,
    ContextEnds,
    ContextPacket,
    SubscribePacket,
    UnsubscribePacket,
    check_hop_message,
)
from godwit.baselines.hop_routing_state import ContextsState, HopState, Key, Pair
from godwit.broker.bloom import RATE, BloomFilter
from godwit.broker.effects import TimerKey
from godwit.broker.messages import EntryId, Message, NodeId
from godwit.broker.routing import Answer, DeliverLocally, Demand, Forward
from godwit.broker.topology import shortest_path_trees
from godwit.errors import PeerFault
from godwit.filters.contexts import content_part, context_of, key_of, sender_part
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Matcher

__all__ = ["HopRouting"]

ENTRIES_MAX = 1_000_000  # for one target
CONTEXTS_MAX = 1_000_000  # of one broker
HISTORY_MAX = 256  # changes of one broker's contexts
MATCHER_FROM = 32
UNLISTED = 0
TRIVIAL = 1  # GSF: every broker's one context

Overlay = tuple[tuple[NodeId, NodeId, float], ...]


class Contexts:
    """The contexts of one broker's clients, and the last changes of them."""

    __slots__ = ("changes", "latest", "live")

    def __init__(self, live: dict[int, Attributes] | None = None) -> None:
        self.live: dict[int, Attributes] = live or {}
        self.changes = 0
        self.latest: deque[tuple[Attributes, bool]] = deque(maxlen=HISTORY_MAX)  # what began (True) or ended

    def begin(self, number: int, context: Attributes) -> None:
        self.live[number] = context
        self._note(context, began=True)

    def end(self, number: int) -> None:
        self._note(self.live.pop(number), began=False)

    def _note(self, context: Attributes, *, began: bool) -> None:
        self.changes += 1
        self.latest.append((context, began))

    def match(self, asks: Filter) -> bool:
        """Whether there is a context that is asked for."""
        return any(asks.holds(context) for context in self.live.values())

    def have_matched_since(self, asks: Filter, changes: int) -> bool:
        """Whether there has been one at all times since so many changes had been heard of. (rule 3)"""
        matching = sum(asks.holds(context) for context in self.live.values())
        back = self.changes - changes
        for context, began in reversed(self.latest):
            if back <= 0 or not matching:
                break
            back -= 1
            if asks.holds(context):
                matching += -1 if began else 1
        return matching > 0


class Row:
    """All rows of one (broker, context): pairs of all neighbours, matched at once."""

    __slots__ = ("_make", "_matcher", "_matcher_from", "pairs")

    def __init__(self, make: Callable[[], Matcher], matcher_from: int) -> None:
        self.pairs: dict[Key, Pair] = {}
        self._make, self._matcher_from = make, matcher_from
        self._matcher: Matcher | None = None

    def put(self, key: Key, pair: Pair) -> None:
        if self._matcher is not None:
            (self._matcher.replace if key in self.pairs else self._matcher.add)(key, pair.filter)
        self.pairs[key] = pair

    def remove(self, key: Key) -> None:
        if self.pairs.pop(key, None) is not None and self._matcher is not None:
            self._matcher.remove(key)

    def neighbours(self, event: Event, bloom: BloomFilter | None) -> dict[NodeId, None]:
        """Those who must get the event: pairs of subscribers that cannot be meant are passed over. [spcf §3.1.1]"""
        pairs, found = self.pairs, dict[NodeId, None]()
        if self._matcher is None and len(pairs) >= self._matcher_from:
            self._matcher = self._make()
            self._matcher.add_many((key, pair.filter) for key, pair in pairs.items())
        matched: Iterable[Any] = pairs if self._matcher is None else self._matcher.match(event)
        meant: dict[str, bool] = {}
        for key in matched:
            if key[0] in found:
                continue
            pair = pairs[key]
            if bloom is not None:
                is_addressed = meant.get(pair.subscriber)
                if is_addressed is None:
                    is_addressed = meant[pair.subscriber] = pair.subscriber in bloom
                if not is_addressed:
                    continue
            if self._matcher is not None or pair.filter.holds(event.attributes):
                found[key[0]] = None
        return found


class HopRouting:
    """Shortest path context forwarding at one broker, or graph subscription forwarding. Implements `Routing`.

    `overlay` holds every link as (a, b, cost); `matcher` makes a matcher for each row of the content table that has
    `matcher_from` pairs or more; `bloom_rate` is the rate of false positives that Bloom filters are made for.
    """

    def __init__(
        self,
        broker: NodeId,
        neighbours: Iterable[NodeId],
        overlay: Iterable[tuple[NodeId, NodeId, float]],
        *,
        strategy: Literal["spcf", "gsf"] = "spcf",
        matcher: Callable[[], Matcher] = IndexMatcher,
        matcher_from: int = MATCHER_FROM,
        bloom_rate: float = RATE,
    ) -> None:
        self.broker, self.neighbours = broker, tuple(neighbours)
        self.overlay: Overlay = tuple((a, b, cost) for a, b, cost in overlay)
        self.strategy = strategy
        self.matcher, self.matcher_from, self.bloom_rate = matcher, matcher_from, bloom_rate
        linked = {b if a == broker else a for a, b, _ in self.overlay if broker in (a, b)}
        if linked != set(self.neighbours):
            both = f"{sorted(linked)}, but its neighbours are {sorted(self.neighbours)}"
            raise ValueError(f"the overlay links {broker} to {both}")
        names = sorted({broker, *shortest_path_trees(self.overlay)})
        trivial: dict[int, Attributes] = {} if strategy == "spcf" else {TRIVIAL: {}}
        self.contexts = {name: Contexts(dict(trivial)) for name in names}  # the context table
        self.routes: dict[NodeId, dict[Key, Pair]] = {name: {} for name in names}  # what the content table is made of
        self.local: dict[EntryId, Filter] = {}
        self.asks: dict[EntryId, Filter] = {}  # of local subscriptions, what they ask of a publisher's context
        self.clients: dict[NodeId, int] = {}  # who is in which context of ours
        self.users: dict[int, int] = {}  # and how many are
        self.numbers: dict[Any, int] = {}  # our contexts by what they say
        self.last_number = 0
        self.has_gap = False  # a neighbour has forgotten what it knew
        self._index()

    # ------------------------------------------------------------ subscriptions

    def subscribe(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        """Record it, find D, send it towards D. [spcf §3.1.2]"""
        answers = self._know(id[0], now)
        if self.local.get(id) == filter:
            return answers
        asks = sender_part(filter) if self.strategy == "spcf" else TRUE
        before = self._receivers(self.asks[id]) if id in self.local else {}
        (self.local_index.replace if id in self.local else self.local_index.add)(id, filter)
        self.local[id], self.asks[id] = filter, asks  # step 1
        receivers = self._receivers(asks)  # step 2
        answers += self._take_back(id, {name: since for name, since in before.items() if name not in receivers})
        return answers + self._issue(id, receivers)  # steps 3, 4

    def unsubscribe(self, id: EntryId, now: float) -> list[Answer]:
        """The same with the filter removed. [spcf §3.1.2] An id that is not there has nothing to remove."""
        if id not in self.local:
            return []
        self.local_index.remove(id)
        del self.local[id]
        return self._take_back(id, self._receivers(self.asks.pop(id)))

    def _receivers(self, asks: Filter) -> dict[NodeId, int]:
        """D of [spcf §3.1.2, step 2], and how many changes of each one's contexts have been heard of."""
        reached = self._trees.get(self.broker, {})
        return {name: table.changes for name, table in self.contexts.items() if name in reached and table.match(asks)}

    def _issue(self, id: EntryId, receivers: Mapping[NodeId, int]) -> list[Answer]:
        """Send a subscription of a client here. [spcf §3.1.2, steps 3 and 4]"""
        filter = self.local[id]
        content = content_part(filter) if self.strategy == "spcf" else filter
        number = self.clients.get(id[0], TRIVIAL)
        return [
            _forward(hop, SubscribePacket(self.broker, number, id, content, self.asks[id], targets))
            for hop, targets in self._towards(receivers).items()
        ]

    def _take_back(self, id: EntryId, receivers: Mapping[NodeId, int]) -> list[Answer]:
        return [
            _forward(hop, UnsubscribePacket(self.broker, id, tuple(targets)))
            for hop, targets in self._towards(receivers).items()
        ]

    def _towards(self, targets: Mapping[NodeId, int]) -> dict[NodeId, dict[NodeId, int]]:
        """D into the D_N: "those brokers whose SPT has N as the parent node" of this one. [spcf §3.1.2, step 3]"""
        parts: dict[NodeId, dict[NodeId, int]] = {}
        for target, changes in targets.items():
            if target != self.broker:
                parts.setdefault(self._trees[target][self.broker], {})[target] = changes
        return parts

    def on_subscribe_packet(self, peer: NodeId, packet: SubscribePacket) -> list[Answer]:
        """Update the content table, and repeat steps 3 and 4. [spcf §3.1.2]"""
        key = (peer, packet.home, packet.id)
        pair = Pair(packet.filter, packet.asks, _name_of(packet.home, packet.context))
        for target, changes in packet.targets.items():
            if self.contexts[target].have_matched_since(packet.asks, changes):
                self._put(target, key, pair)
            else:
                self._remove(target, key)
        return [
            _forward(hop, msgspec.structs.replace(packet, targets=targets))
            for hop, targets in self._towards(packet.targets).items()
        ]

    def on_unsubscribe_packet(self, peer: NodeId, packet: UnsubscribePacket) -> list[Answer]:
        """Take pairs out of the content table, and repeat steps 3 and 4. [spcf §3.1.2]"""
        for target in packet.targets:
            self._remove(target, (peer, packet.home, packet.id))
        return [
            _forward(hop, UnsubscribePacket(packet.home, packet.id, tuple(targets)))
            for hop, targets in self._towards(dict.fromkeys(packet.targets, 0)).items()
        ]

    def advertise(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        return []

    def unadvertise(self, id: EntryId, now: float) -> list[Answer]:
        return []

    # ------------------------------------------------------------ contexts

    def set_context(self, client: NodeId, context: Attributes | None, now: float) -> list[Answer]:
        """The three cases of a change, and the subscriptions that recorded the old context. [spcf §3.1.2]

        What begins is told first: a subscription that asks for both contexts need not travel again.
        """
        if self.strategy == "gsf":
            return []
        before = self.clients.get(client)
        if context is None:
            return [] if before is None else self._leave(self.clients.pop(client))
        key = key_of(context)
        if before is not None and self.numbers.get(key) == before:  # case (i)
            return []
        answers: list[Answer] = []
        number = self.numbers.get(key)
        if number is None:  # cases (ii) and (iii)
            self.last_number += 1
            number = self.numbers[key] = self.last_number
            answers += self._begin(ContextBegins(self.broker, number, dict(context)))
        self.clients[client] = number
        self.users[number] = self.users.get(number, 0) + 1
        for id, asks in self.asks.items():
            if id[0] == client:
                answers += self._issue(id, self._receivers(asks))
        return answers if before is None else answers + self._leave(before)

    def _know(self, client: NodeId, now: float) -> list[Answer]:
        """A client of whom nothing was said is in the empty context. (rule 1)"""
        return self.set_context(client, {}, now) if client not in self.clients else []

    def _leave(self, number: int) -> list[Answer]:
        """One client less is in a context of ours; it ends with the last. [spcf §3.1.2, case (ii)]"""
        self.users[number] -= 1
        if self.users[number]:
            return []
        del self.users[number], self.numbers[key_of(self.contexts[self.broker].live[number])]
        return self._end(ContextEnds(self.broker, number))

    def _begin(self, message: ContextBegins) -> list[Answer]:
        """Update the tables, reissue what is attracted, and pass it on along the tree. [spcf §3.1.2]"""
        broker, number, context = message.broker, message.number, message.values
        table = self.contexts[broker]
        answers: list[Answer] = [_forward(child, message) for child in self._children(broker)]
        if number in table.live:  # that broker has lost its memory, and counts again
            self._forget(broker, number)
        attracted = [] if broker == self.broker else self._attracted(table, context)
        table.begin(number, context)
        row = self._rows[broker, number] = self._row()
        for key, pair in self.routes[broker].items():
            if pair.asks.holds(context):
                row.put(key, pair)
        for id in attracted:
            answers += self._issue(id, {broker: table.changes})
        return answers

    def _attracted(self, table: Contexts, context: Attributes) -> list[EntryId]:
        """Our subscriptions that ask for this context, and for none that the broker had before."""
        found: dict[Filter, bool] = {}
        for asks in self.asks.values():
            if asks not in found:
                found[asks] = asks.holds(context) and not table.match(asks)
        return [id for id, asks in self.asks.items() if found[asks]]

    def _end(self, message: ContextEnds) -> list[Answer]:
        """Remove the context and its rows, and pass it on along the tree. [spcf §3.1.2]"""
        if message.number in self.contexts[message.broker].live:
            self._forget(message.broker, message.number)
        return [_forward(child, message) for child in self._children(message.broker)]

    def _forget(self, broker: NodeId, number: int) -> None:
        """Drop a context, its rows, and subscriptions that no context is left for. (rule 2)"""
        table = self.contexts[broker]
        table.end(number)
        row = self._rows.pop((broker, number))
        for key, pair in row.pairs.items():
            if not table.match(pair.asks):
                del self.routes[broker][key]

    # ------------------------------------------------------------ events

    def publish(self, event: Event, now: float) -> list[Answer]:
        """Find out who is meant, and send the packet along the tree of this broker. [spcf §3.1.1]"""
        if self.strategy == "gsf":
            return self._deliver(event) + self._send_down(ContextPacket(self.broker, TRIVIAL, event))
        number = self.numbers.get(key_of(context_of(event)), UNLISTED)
        answers = self._know(event.publisher, now) + self._deliver(event)
        bloom = None
        if event.to is not None:
            meant = [
                _name_of(name, other)
                for name, table in self.contexts.items()
                for other, context in table.live.items()
                if name != self.broker and event.to.holds(context)
            ]
            if not meant:
                return answers
            bloom = BloomFilter.of(meant, self.bloom_rate).wire()
        return answers + self._send_down(ContextPacket(self.broker, number, event, bloom))

    def on_context_packet(self, peer: NodeId, packet: ContextPacket) -> list[Answer]:
        """Hand it to clients here, and run the same algorithm again. [spcf §3.1.1]"""
        return self._deliver(packet.event) + self._send_down(packet)

    def _send_down(self, packet: ContextPacket) -> list[Answer]:
        row = self._rows.get((packet.source, packet.context))
        if row is None:  # rule 4
            return [_forward(child, packet) for child in self._children(packet.source)]
        if not row.pairs:
            return []
        found = row.neighbours(packet.event, None if packet.bloom is None else BloomFilter(packet.bloom))
        return [_forward(peer, packet) for peer in self.neighbours if peer in found]

    def _deliver(self, event: Event) -> list[Answer]:
        here: list[Any] = self.local_index.match(event) if self.local else []
        return [DeliverLocally(event, sorted(here))] if here else []

    # ------------------------------------------------------------ neighbours

    def set_neighbour(self, peer: NodeId, cost: float, is_new: bool) -> list[Answer]:
        """The overlay is known from the beginning, and stays."""
        return []

    def on_message(self, peer: NodeId, message: Any, now: float) -> list[Answer]:
        check_hop_message(message)
        match message:
            case ContextPacket():
                self._check_down(peer, message.source)
                return self.on_context_packet(peer, message)
            case SubscribePacket():
                self._check_up(peer, message.home, message.targets)
                if any(len(self.routes[target]) >= ENTRIES_MAX for target in message.targets):
                    raise PeerFault(f"more than {ENTRIES_MAX} subscriptions for one broker")
                return self.on_subscribe_packet(peer, message)
            case UnsubscribePacket():
                self._check_up(peer, message.home, message.targets)
                return self.on_unsubscribe_packet(peer, message)
            case ContextBegins():
                self._check_down(peer, message.broker)
                if len(self.contexts[message.broker].live) >= CONTEXTS_MAX:
                    raise PeerFault(f"more than {CONTEXTS_MAX} contexts of {message.broker}")
                return self._begin(message)
        assert isinstance(message, ContextEnds)
        self._check_down(peer, message.broker)
        return self._end(message)

    def demand_of(self, message: Any) -> Demand | None:
        demand = Demand(message.filter) if type(message) is SubscribePacket else Demand()
        return None if type(message) is ContextPacket else demand

    def _check_down(self, peer: NodeId, source: NodeId) -> None:
        """`PeerFault` when this does not come from where the tree of `source` has it come from."""
        if self._trees.get(source, {}).get(self.broker) != peer:
            raise PeerFault(f"what comes from {source!r} along its tree does not come by {peer}")

    def _check_up(self, peer: NodeId, home: NodeId, targets: Iterable[NodeId]) -> None:
        """`PeerFault` when `home` does not lie behind `peer` in the trees of all targets."""
        for target in targets:
            if self._ways(target).get(home) != peer:
                raise PeerFault(f"a subscription of {home!r} for {target!r} does not come by {peer}")

    def on_peer_up(self, peer: NodeId, now: float) -> list[Answer]:
        return []

    def on_restarted(self, now: float) -> None: ...

    def note_past_life(self) -> None: ...

    def on_peer_down(self, peer: NodeId, now: float) -> list[Answer]:
        return []

    def on_peer_forgot(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        self.has_gap = True  # nothing can bring back what `peer` knew: send what it may never have got
        return [Forward(peer, message) for message in undelivered]

    def begin_life(self, incarnation: int, undelivered: Mapping[NodeId, list[Message]], now: float) -> list[Answer]:
        return [answer for peer, messages in undelivered.items() for answer in self.on_peer_forgot(peer, messages, now)]

    def on_link_dead(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """The trees stay, and there is no other way on them: whatever waits for `peer` is for when it returns."""
        return [Forward(peer, message) for message in undelivered]

    def on_timer_due(self, key: TimerKey, now: float) -> list[Answer]:
        raise AssertionError(f"there is no timer {key} here")

    # ------------------------------------------------------------ looking at it

    def content(self, broker: NodeId, number: int, neighbour: NodeId) -> dict[tuple[NodeId, EntryId], Pair]:
        """One row of the content table: by subscriber's broker and subscription its pairs. [spcf Fig. 1]"""
        row = self._rows.get((broker, number))
        return {} if row is None else {key[1:]: pair for key, pair in row.pairs.items() if key[0] == neighbour}

    def local_filter(self, id: EntryId) -> Filter | None:
        return self.local.get(id)

    def hops_max(self) -> int:
        hops = {self.broker: 0}  # in its own tree
        for node, parent in self._trees.get(self.broker, {}).items():  # parents come before their children
            hops[node] = hops[parent] + 1
        return max(hops.values())

    def wanted(self) -> list[Filter]:
        if self.strategy == "spcf":  # nobody says when all that a context attracts has been told: rule nothing out
            return [TRUE]
        return [*self.local.values(), *(pair.filter for pair in self.routes[self.broker].values())]

    def held_back(self) -> list[Message]:
        return []

    def remote_bytes(self) -> int:
        return 0  # this family is for comparison: nobody counts them

    def is_whole(self) -> bool:
        return True

    def is_settled(self) -> bool:
        """Whether nobody is known to have lost what it was told. What is under way is in the links."""
        return not self.has_gap

    def sizes(self) -> dict[str, int]:
        """How many entries each table holds; the trivial contexts of GSF are none."""
        contexts = sum(len(table.live) for table in self.contexts.values()) if self.strategy == "spcf" else 0
        return {
            "local": len(self.local),
            "clients": len(self.clients),
            "contexts": contexts,
            "content": sum(len(row.pairs) for row in self._rows.values()),
        }

    # ------------------------------------------------------------ the content table, and the trees

    def _put(self, target: NodeId, key: Key, pair: Pair) -> None:
        self.routes[target][key] = pair
        for number, context in self.contexts[target].live.items():
            row = self._rows[target, number]
            if pair.asks.holds(context):
                row.put(key, pair)
            else:
                row.remove(key)

    def _remove(self, target: NodeId, key: Key) -> None:
        if self.routes[target].pop(key, None) is not None:
            for number in self.contexts[target].live:
                self._rows[target, number].remove(key)

    def _children(self, source: NodeId) -> list[NodeId]:
        """The neighbours below this broker in the tree of `source`."""
        below = set(self._ways(source).values())
        return [peer for peer in self.neighbours if peer in below]

    def _ways(self, source: NodeId) -> dict[NodeId, NodeId]:
        """By everyone below this broker in the tree of `source`: the neighbour on the way there."""
        found = self._ways_of.get(source)
        if found is None:
            found = self._ways_of[source] = {}
            for node, parent in self._trees.get(source, {}).items():  # parents come before their children
                if parent == self.broker:
                    found[node] = node
                elif parent in found:
                    found[node] = found[parent]
        return found

    def _row(self) -> Row:
        return Row(self.matcher, self.matcher_from)

    def _index(self) -> None:
        """Make what follows from the rest."""
        self._trees = shortest_path_trees(self.overlay)
        self._ways_of: dict[NodeId, dict[NodeId, NodeId]] = {}
        self.local_index = IndexMatcher()
        self.local_index.add_many(self.local.items())
        self._rows: dict[tuple[NodeId, int], Row] = {
            (name, number): self._row() for name, table in self.contexts.items() for number in table.live
        }
        for target, entries in self.routes.items():
            for key, pair in entries.items():
                self._put(target, key, pair)

    def snapshot(self) -> HopState:
        """The tables as they are now."""
        contexts = {name: ContextsState(dict(t.live), t.changes, tuple(t.latest)) for name, t in self.contexts.items()}
        routes = {name: dict(entries) for name, entries in self.routes.items()}
        return HopState(contexts, routes, dict(self.local), dict(self.clients), self.last_number, self.has_gap)

    def restore(self, state: HopState) -> None:
        """Have the tables of a broker of this name and these settings."""
        for name, known in state.contexts.items():
            table = self.contexts[name] = Contexts(dict(known.live))
            table.changes, table.latest = known.changes, deque(known.latest, maxlen=HISTORY_MAX)
        self.routes, self.local = {name: dict(each) for name, each in state.routes.items()}, dict(state.local)
        self.asks = {id: sender_part(each) if self.strategy == "spcf" else TRUE for id, each in self.local.items()}
        self.clients, self.users = dict(state.clients), dict(Counter(state.clients.values()))
        own = self.contexts[self.broker].live if self.strategy == "spcf" else {}
        self.numbers = {key_of(context): number for number, context in own.items()}
        self.last_number, self.has_gap = state.last_number, state.has_gap
        self._index()


def _name_of(broker: NodeId, number: int) -> str:
    """A context, as Bloom filters name it."""
    return f"{number}/{broker}"


def _forward(peer: NodeId, message: Any) -> Forward:
    return Forward(peer, message)

"""The tree family: advertisements, subscriptions and events on an overlay without cycles.

*Theory.* Advertisements flow from publishers to everyone; subscriptions flow back along intersecting advertisements;
events follow matching subscriptions back to the subscribers. Each broker remembers what came from where: `in_subs` and
`in_ads` by source (a neighbour, or `HERE` for its own clients), and per neighbour what it has told it: `out_subs` and
`out_ads`, which the reduction keeps (`reductions.py`). One matcher holds all of `in_subs`; an event goes to every
neighbour with a match, and to the subscriptions of clients here that match.

A broker that starts without a memory cannot know whether it ever had one. Each neighbour tells it everything; until
all have, or for `HOLD_S` at most, it holds events back, for it cannot know where they go. What a past life of it had
told its neighbours stays in force there, marked stale, until it has told them again. How does it know that it has told
all? As in any wave over a tree: its advertisements for a neighbour are complete (`Synced("advertisements")`) when those
of all *other* neighbours are; its subscriptions, when those of all others are, and the neighbour's advertisements,
which they depend on. Brokers that start together tell each other in the same way.

Entries of another kind may be told on the same tree (`further_entries.py`); most trees have `NoFurtherEntries`.

*Rules.*
1. A neighbour is told a subscription iff it has sent an intersecting advertisement (always when advertisements are
   off), and nothing that came from itself. After an advertisement it may take a while until all subscriptions are
   compared with it (`advertisement_reviews.py`).
2. Events are handed on in the order in which they came from one source. Of events that were held back
   `RELEASED_AT_ONCE` are handed on at a time; until all are, what comes waits behind them, and the tables do not count
   as whole.
3. A broker goes on without a neighbour that stays away. If it has had a life that it does not remember, it counts on
   the neighbour to advertise and to want everything, until that one has told it all: events wait on the link.
4. Each entry of `in_subs` is in the matcher, and in `out_subs` of the neighbours it concerns; nothing else is. The
   matcher has it under its id, `(client, name)`, when it is of a client here, and under `(neighbour, id)` otherwise: a
   text or a tuple in the second place tells which.

*Paper.* [pubmob Fig. 2, Fig. 3], [rebeca §2.2]. *Symbols.* inAds … outSubs: as named; a.sender, s.sender: `source`.
*Departures.* Fig. 2 l.13 asks whether a cover of s was sent to s's own sender n, but l.14-16 send s to a.sender: we ask
about a.sender. Unadvertising and unsubscribing are ours.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from godwit.broker.advertisement_reviews import REVIEW, Reviews, tell_changes
from godwit.broker.effects import StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.further_entries import FurtherEntries, NoFurtherEntries
from godwit.broker.held_events import HeldEvents
from godwit.broker.message_checks import check_event, shown
from godwit.broker.messages import (
    Advertise,
    EntryId,
    Message,
    NodeId,
    Publish,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.reductions import Outgoing, are_covered, intersects, reduction_of
from godwit.broker.routing import Answer, DeliverLocally, Demand, EntryWatch, Forward
from godwit.broker.tree_state import TreeState
from godwit.errors import PeerFault
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter
from godwit.filters.memory_sizes import EntrySizes
from godwit.filters.references import is_open
from godwit.matching.caching_matcher import CachingMatcher
from godwit.matching.matcher import Matcher
from godwit.trace import Record

__all__ = ["HERE", "TreeRouting", "matcher_key"]

HERE = ""
"""The source of what this broker's own clients say."""

ENTRIES_MAX = 1_000_000  # from one neighbour
RELEASED_AT_ONCE = 128  # events that were held back: 5 to 20 ms
CONCERNS_EFFORT_MAX = 16_000
ADVERTISING_EFFORT_MAX = 200_000
REPLACING_EFFORT_MAX = 200_000  # of all subscriptions that are placed because of one message
TELLING_EFFORT_EACH = 200  # for each entry, when a neighbour is told everything at once
UNBOUNDED = 2**62  # steps, where they are only counted: each entry has its own bound
HOLD_S = 30.0
HOLD_TIMER: TimerKey = ("hold",)
RELEASE_TIMER: TimerKey = ("release",)

ADVERTISEMENTS: Literal["advertisements"] = "advertisements"
SUBSCRIPTIONS: Literal["subscriptions"] = "subscriptions"

Entries = dict[NodeId, dict[EntryId, Filter]]


class TreeRouting:
    """The tables of one broker and what it does with them. Implements `Routing`, and `TreeTables` for `further`."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Iterable[NodeId],
        *,
        incarnation: int = 1,
        reduction: str = "covering",
        advertised: bool = True,
        excess_max: float = 0.0,
        further: FurtherEntries | None = None,
        new_matcher: Callable[[], Matcher] = CachingMatcher,
    ) -> None:
        self.name = name
        self.neighbours = tuple(neighbours)
        self.floods = reduction == "flooding"
        self.keeps_ids = reduction == "simple"  # what is forwarded has the id of the client's own entry
        self.advertised = advertised and not self.floods
        self.in_subs: Entries = {source: {} for source in (HERE, *self.neighbours)}
        self.in_ads: Entries = {source: {} for source in (HERE, *self.neighbours)}
        self.maker = f"{name}/{incarnation}"  # an id of this life must not replace one of a past life still in force
        self._reduction, self._excess_max = reduction_of(reduction), excess_max
        self.out_subs: dict[NodeId, Outgoing] = {n: self.new_outgoing() for n in self.neighbours}
        self.out_ads: dict[NodeId, Outgoing] = {n: self.new_outgoing() for n in self.neighbours}
        self.reviews = Reviews(self)
        self.matcher = new_matcher()
        self._remote_sizes = EntrySizes()  # of what neighbours have told in `in_subs` and `in_ads`
        self.stale: dict[NodeId, dict[tuple[str, EntryId], None]] = {}  # of a neighbour that has lost its memory
        self.awaiting: dict[str, dict[NodeId, None]] = {  # who have not told us everything yet
            ADVERTISEMENTS: dict.fromkeys(self.neighbours if self.advertised else ()),
            SUBSCRIPTIONS: dict.fromkeys(self.neighbours),
        }
        self.told_all: dict[str, dict[NodeId, None]] = {ADVERTISEMENTS: {}, SUBSCRIPTIONS: {}}  # whom we have
        self.held = HeldEvents()
        self.had_past_life = False  # which it does not remember, or not wholly
        self.watch: EntryWatch | None = None
        self.steps = 0  # see `CountsSteps`
        self.further: FurtherEntries = NoFurtherEntries() if further is None else further
        self.further.join(self)

    def new_outgoing(self) -> Outgoing:
        """The table of what a neighbour is told, while it has been told nothing."""
        return self._reduction(self.maker, self._excess_max)

    # ------------------------------------------------------------ subscriptions

    def subscribe(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        return self.further.replace(id, filter) if self.further.has(id) else self.on_subscribe(id, filter, HERE)

    def on_subscribe(self, id: EntryId, filter: Filter, source: NodeId) -> list[Answer]:
        """Remember that `source` wants what `filter` matches, and tell the neighbours who must know. [pubmob Fig. 3]"""
        entries = self.in_subs[source]
        before = entries.get(id)
        if before == filter:
            return []
        key = matcher_key(source, id)
        if before is not None:
            self.matcher.replace(key, filter)
        else:
            self.matcher.add(key, filter)
        self._resize(source, before, filter)
        entries[id] = filter  # l.2
        if self.watch is not None:
            self.watch(source, id, before)
        answers, effort = list[Answer](), Effort(UNBOUNDED)
        for n in self.neighbours:  # l.5
            if n != source:
                out = self.out_subs[n]
                concerns = self.concerns(filter, n)
                changes = out.add((source, id), id, filter, effort) if concerns else out.remove((source, id), effort)
                tell_changes(n, changes, Subscribe, Unsubscribe, answers)  # l.6-9
        self.steps += effort.spent
        return answers

    def unsubscribe(self, id: EntryId, now: float) -> list[Answer]:
        return self.further.remove(id, HERE) if self.further.has(id) else self.on_unsubscribe(id, HERE)

    def on_unsubscribe(self, id: EntryId, source: NodeId, common: Effort | None = None) -> list[Answer]:
        """Forget a subscription. What it had covered is told before it goes."""
        before = self.in_subs[source].pop(id, None)
        if before is None:
            return []
        self._resize(source, before, None)
        self.matcher.remove(matcher_key(source, id))
        if self.watch is not None:
            self.watch(source, id, before)
        answers, effort = list[Answer](), common or Effort(UNBOUNDED)
        for n in self.neighbours:
            if n != source:
                tell_changes(n, self.out_subs[n].remove((source, id), effort), Subscribe, Unsubscribe, answers)
        self.steps += effort.spent
        return answers

    def concerns(self, filter: Filter, neighbour: NodeId, effort: Effort | None = None) -> bool:
        """Whether `neighbour` has advertised anything that this subscription may want. Yes, if that takes too long."""
        if not self.advertised:
            return True
        effort = Effort(CONCERNS_EFFORT_MAX) if effort is None else effort
        concerns = any(intersects(ad, filter, effort) for ad in self.in_ads[neighbour].values())
        self.steps += effort.spent
        return concerns

    # ------------------------------------------------------------ advertisements

    def advertise(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        return self.on_advertise(id, filter, HERE, now)

    def on_advertise(self, id: EntryId, filter: Filter, source: NodeId, now: float) -> list[Answer]:
        """Remember what `source` is going to publish, pass it on, and send back who wants it. [pubmob Fig. 2]"""
        before = self.in_ads[source].get(id)
        if not self.advertised or before == filter:
            return []
        self._resize(source, before, filter)
        self.in_ads[source][id] = filter  # l.2
        answers, effort = list[Answer](), Effort(UNBOUNDED)
        for n in self.neighbours:  # l.5
            if n != source:
                changes = self.out_ads[n].add((source, id), id, filter, effort)
                tell_changes(n, changes, Advertise, Unadvertise, answers)  # l.6-9
        self.steps += effort.spent
        if source == HERE or are_covered((filter, before), self.in_ads[source], id):
            return answers
        self.reviews.note(source, filter, before)
        answers += self.reviews.begin(source, now)  # l.12-16
        return answers + self.further.on_advertised(source, Effort(ADVERTISING_EFFORT_MAX))

    def unadvertise(self, id: EntryId, now: float) -> list[Answer]:
        return self.on_unadvertise(id, HERE, now)

    def on_unadvertise(self, id: EntryId, source: NodeId, now: float, common: Effort | None = None) -> list[Answer]:
        """Forget an advertisement, and take back from `source` the subscriptions that went there for it alone.

        With a common effort it is one of many, and the caller begins the review when it has forgotten all of them.
        """
        filter = self.in_ads[source].pop(id, None)
        if filter is None:
            return []
        self._resize(source, filter, None)
        answers, effort = list[Answer](), Effort(UNBOUNDED)
        for n in self.neighbours:
            if n != source:
                tell_changes(n, self.out_ads[n].remove((source, id), effort), Advertise, Unadvertise, answers)
        self.steps += effort.spent
        if source == HERE or are_covered((filter,), self.in_ads[source], id):
            return answers
        self.reviews.note(source, None, filter)
        if common is None:
            answers += self.reviews.begin(source, now)
        return answers + self.further.on_advertised(source, common or Effort(ADVERTISING_EFFORT_MAX))

    def follow(self, neighbour: NodeId, message: Message) -> list[Answer]:
        """Send a message behind the subscriptions that a neighbour has called. (rule 5 of the reviews)"""
        return self.reviews.follow(neighbour, message)

    # ------------------------------------------------------------ events

    def set_context(self, client: NodeId, context: Attributes | None, now: float) -> list[Answer]:
        """A context is matched where an event is delivered, and nowhere else. [spcf §4: ASF]"""
        return []

    def publish(self, event: Event, now: float) -> list[Answer]:
        return self.on_publish(Publish(event), HERE, now)

    def on_publish(self, message: Publish, source: NodeId, now: float) -> list[Answer]:
        """Send an event to every other neighbour that wants it, and to the clients here that do. [rebeca §2.2]"""
        if self.awaiting[SUBSCRIPTIONS]:
            return self._hold(message.event, source, now)
        if self.held:  # two go for one that comes: so these do not become more
            self.held.add(source, message.event)
            return self._released(2)
        return self._handed_on(message, source)

    def _handed_on(self, message: Publish, source: NodeId) -> list[Answer]:
        event = message.event
        here: list[EntryId] = []
        towards: dict[NodeId, None] = {}
        matched: list[Any] = self.matcher.match(event)
        for key in matched:
            if type(key[1]) is str:
                here.append(key)
            else:
                towards[key[0]] = None
        answers: list[Answer] = []
        if towards or self.floods:  # in an order that does not depend on how the matcher came to hold what it holds
            answers += [Forward(n, message) for n in self.neighbours if n != source and (n in towards or self.floods)]
        if here:
            here.sort()  # for the same reason
            answers.append(DeliverLocally(event, here))
        return answers

    # ------------------------------------------------------------ neighbours

    def set_neighbour(self, peer: NodeId, cost: float, is_new: bool) -> list[Answer]:
        """Tell a new neighbour what it would have been told from the beginning, and wait for what it tells."""
        answers: list[Answer] = []
        if not is_new:
            return answers
        self.neighbours = (*self.neighbours, peer)
        for told, known in ((self.out_subs, self.in_subs), (self.out_ads, self.in_ads)):
            told[peer], known[peer] = self.new_outgoing(), {}
        self.awaiting[SUBSCRIPTIONS][peer] = None
        if self.advertised:
            self.awaiting[ADVERTISEMENTS][peer] = None
        effort = self._telling_effort()
        for source, ads in self.in_ads.items():
            for id, filter in ads.items():
                tell_changes(
                    peer, self.out_ads[peer].add((source, id), id, filter, effort), Advertise, Unadvertise, answers
                )
        for source, subs in self.in_subs.items():
            for id, filter in subs.items():
                if source != peer and self.concerns(filter, peer, effort):
                    changes = self.out_subs[peer].add((source, id), id, filter, effort)
                    tell_changes(peer, changes, Subscribe, Unsubscribe, answers)
        return answers + self.further.on_new_neighbour(peer)

    def _telling_effort(self) -> Effort:
        """For telling a neighbour everything at once: so much for each entry, and for all together."""
        entries = sum(len(known) for told in (self.in_subs, self.in_ads) for known in told.values())
        return Effort(ADVERTISING_EFFORT_MAX + TELLING_EFFORT_EACH * entries)

    def on_message(self, peer: NodeId, message: Message, now: float) -> list[Answer]:
        kind = type(message)
        if kind is Publish:
            assert isinstance(message, Publish)
            check_event(message.event)
            return self.on_publish(message, peer, now)
        match message:
            case Subscribe(id=id, filter=filter):
                self._check(id, filter, self.in_subs[peer])
                self.refresh(peer, SUBSCRIPTIONS, id)
                return self.on_subscribe(id, filter, peer)
            case Unsubscribe(id=id):
                self._check_known(id, self.in_subs[peer])
                return self.on_unsubscribe(id, peer)
            case Advertise(id=id, filter=filter):
                self._check(id, filter, self.in_ads[peer])
                self.refresh(peer, ADVERTISEMENTS, id)
                return self.on_advertise(id, filter, peer, now)
            case Unadvertise(id=id):
                self._check_known(id, self.in_ads[peer])
                return self.on_unadvertise(id, peer, now)
            case Synced(what=what) if what in (ADVERTISEMENTS, SUBSCRIPTIONS):
                return self.on_synced(what, peer, now)
        if kind in self.further.messages:
            return self.further.on_message(peer, message)
        raise PeerFault(f"sends a {kind.__name__}, which brokers of a tree do not exchange")

    def demand_of(self, message: Message) -> Demand | None:
        if type(message) in self.further.messages:
            return self.further.demand_of(message)
        return Demand(message.filter) if type(message) is Subscribe else Demand()

    def has_room_for(self, id: EntryId, peer: NodeId) -> bool:
        """Whether a neighbour may tell this entry, too."""
        return id in self.in_subs[peer] or len(self.in_subs[peer]) < ENTRIES_MAX

    def _check(self, id: EntryId, filter: Filter, entries: dict[EntryId, Filter]) -> None:
        if is_open(filter):
            raise PeerFault(f"a filter that cannot be routed: {shown(filter)}")
        if id not in entries and len(entries) >= ENTRIES_MAX:
            raise PeerFault(f"more than {ENTRIES_MAX} entries from one neighbour")

    def _check_known(self, id: EntryId, entries: dict[EntryId, Filter]) -> None:
        if id not in entries:
            raise PeerFault(f"withdraws {shown(id)}, which it has never sent")

    def on_peer_up(self, peer: NodeId, now: float) -> list[Answer]:
        """A broker with one neighbour has nobody else to wait for: with it the wave begins."""
        return self._sync_others()

    def on_peer_down(self, peer: NodeId, now: float) -> list[Answer]:
        return []

    def on_peer_forgot(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """Tell a neighbour that has lost its disk everything; keep what it had told us until it has told us again."""
        self.stale[peer] = dict.fromkeys(self._known_from(peer))
        answers = self._told_to(peer)
        for told in self.told_all.values():
            told.pop(peer, None)
        return answers + self._sync_others() + [Forward(peer, each) for each in undelivered if type(each) is Publish]

    def begin_life(self, incarnation: int, undelivered: Mapping[NodeId, list[Message]], now: float) -> list[Answer]:
        """Be as a broker without memory to every neighbour, but keep what they told until they have told it again."""
        self.maker, self.had_past_life = f"{self.name}/{incarnation}", True
        self.awaiting[SUBSCRIPTIONS] = dict.fromkeys(self.neighbours)
        self.awaiting[ADVERTISEMENTS] = dict.fromkeys(self.neighbours if self.advertised else ())
        for told in self.told_all.values():
            told.clear()
        following = self.reviews.clear()
        for n in self.neighbours:
            self.out_ads[n], self.out_subs[n] = self.new_outgoing(), self.new_outgoing()
            effort = self._telling_effort()
            for source in (source for source in self.in_subs if source != n):
                for id, filter in self.in_ads[source].items():
                    self.out_ads[n].add((source, id), id, filter, effort)
                for id, filter in self.in_subs[source].items():
                    if self.concerns(filter, n, effort):
                        self.out_subs[n].add((source, id), id, filter, effort)
        again = [answer for n in self.neighbours for answer in self.on_peer_forgot(n, undelivered.get(n, ()), now)]
        return again + following

    def _known_from(self, peer: NodeId) -> list[tuple[str, EntryId]]:
        """All that `peer` has told us."""
        subscriptions = [(SUBSCRIPTIONS, id) for id in self.in_subs[peer]]
        advertisements = [(ADVERTISEMENTS, id) for id in self.in_ads[peer]]
        return [*subscriptions, *advertisements, *((self.further.kind, id) for id in self.further.known_from(peer))]

    def _told_to(self, peer: NodeId) -> list[Answer]:
        """All that we have told `peer`, to be told again."""
        answers: list[Answer] = [Forward(peer, Advertise(id, ad)) for id, ad in self.out_ads[peer].told.items()]
        answers += [Forward(peer, Subscribe(id, filter)) for id, filter in self.out_subs[peer].told.items()]
        return answers + self.further.told_to(peer)

    def on_link_dead(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """On a tree there is no way around: whatever waits for `peer` is told again when it returns."""
        return [Forward(peer, message) for message in undelivered]

    def on_synced(self, what: str, peer: NodeId, now: float) -> list[Answer]:
        """`peer` has told all of `what`: drop what else we knew of it, and go on when all neighbours are through."""
        answers: list[Answer] = []
        stale = self.stale.get(peer, {})
        if what == SUBSCRIPTIONS:  # with these, all entries of another kind are told
            for id in _struck(stale, self.further.kind):
                answers += self.further.remove(id, peer)
        common = Effort(REPLACING_EFFORT_MAX)
        for id in _struck(stale, what):
            is_wish = what == SUBSCRIPTIONS
            answers += self.on_unsubscribe(id, peer, common) if is_wish else self.on_unadvertise(id, peer, now, common)
        answers += self.reviews.begin(peer, now)
        if not stale:
            self.stale.pop(peer, None)
        if peer in self.awaiting[what]:
            del self.awaiting[what][peer]
            answers += self._sync_others()
            if not self.awaiting[SUBSCRIPTIONS]:
                answers += [StopTimer(HOLD_TIMER), *self._release(now)]
        return answers

    def _sync_others(self) -> list[Answer]:
        """Tell each neighbour that we have told it all, once all others have told us."""
        answers: list[Answer] = []
        ads, subs = self.awaiting[ADVERTISEMENTS], self.awaiting[SUBSCRIPTIONS]
        for n in self.neighbours:
            if self.advertised and n not in self.told_all[ADVERTISEMENTS] and not ads.keys() - {n}:
                self.told_all[ADVERTISEMENTS][n] = None
                answers.append(Forward(n, Synced(ADVERTISEMENTS)))
            is_told = n not in ads and n not in self.reviews and not subs.keys() - {n}
            if is_told and n not in self.told_all[SUBSCRIPTIONS]:
                self.told_all[SUBSCRIPTIONS][n] = None
                answers.append(Forward(n, Synced(SUBSCRIPTIONS)))
        return answers

    def _hold(self, event: Event, source: NodeId, now: float) -> list[Answer]:
        """Keep an event until the tables are whole."""
        if not self.held.has_room_for(event):
            detail = "too many events before the routing tables are complete"
            return [Trace(Record("lost", source, "Publish", event.publisher, event.sequence, detail=detail))]
        self.held.add(source, event)
        return [StartTimer(HOLD_TIMER, now + HOLD_S)] if len(self.held) == 1 else []

    def _release(self, now: float) -> list[Answer]:
        """The tables are whole: hand on what was held back, and the rest of it when others had their turn."""
        answers = self._released(RELEASED_AT_ONCE)
        return [*answers, StartTimer(RELEASE_TIMER, now)] if self.held else answers

    def _released(self, count: int) -> list[Answer]:
        released = self.held.take(count)
        return [answer for source, event in released for answer in self._handed_on(Publish(event), source)]

    def on_timer_due(self, key: TimerKey, now: float) -> list[Answer]:
        """It is time to hand on more of what was held back; or a neighbour stays away: go on without its entries."""
        if key == RELEASE_TIMER and self.awaiting[SUBSCRIPTIONS]:  # the tables must be told again
            return [StartTimer(HOLD_TIMER, now + HOLD_S)]
        if key == RELEASE_TIMER:
            return self._release(now)
        if key[0] == REVIEW:
            peer = str(key[1])
            answers = self.reviews.go_on(peer, now)
            return answers if peer in self.reviews else answers + self._sync_others()
        assert key == HOLD_TIMER
        answers = self._count_on_all(now) if self.had_past_life else []
        for awaited in self.awaiting.values():
            awaited.clear()
        return [*answers, *self._sync_others(), *self._release(now), Demand()]

    def on_restarted(self, now: float) -> None: ...

    def note_past_life(self) -> None:
        self.had_past_life = True

    def _count_on_all(self, now: float) -> list[Answer]:
        """Neighbours that stay away may advertise and want anything, until they have told us. (rule 3)"""
        answers: list[Answer] = []
        for what, neighbours in self.awaiting.items():
            for n in neighbours:
                id = (self.maker, f"all of {n}")
                self.stale.setdefault(n, {})[what, id] = None
                if what == ADVERTISEMENTS:
                    answers += self.on_advertise(id, TRUE, n, now)
                else:
                    answers += self.on_subscribe(id, TRUE, n)
        return answers

    def refresh(self, peer: NodeId, kind: str, id: EntryId) -> None:
        """A neighbour that has lost its memory has told this entry again."""
        if peer in self.stale:
            self.stale[peer].pop((kind, id), None)

    # ------------------------------------------------------------ looking at it

    def local_filter(self, id: EntryId) -> Filter | None:
        return self.in_subs[HERE].get(id)

    def hops_max(self) -> int | None:
        return None

    def wanted(self) -> list[Filter]:
        if any(self.awaiting.values()) or (self.floods and self.neighbours):  # somebody may want what we do not know of
            return [TRUE]
        wanted = dict.fromkeys(filter for entries in self.in_subs.values() for filter in entries.values())
        if list(wanted) != [TRUE]:  # who wants everything wants the rest, too
            wanted |= dict.fromkeys(self.further.wanted())
        return list(wanted)

    def held_back(self) -> list[Message]:
        """Messages that wait here for this broker's tables to be whole, or for what a neighbour must hear first."""
        return [*(Publish(event) for _, event in self.held), *self.reviews.following()]

    def is_whole(self) -> bool:
        return not self.held and not any(self.awaiting.values())

    def is_settled(self) -> bool:
        """Whether no neighbour has still to tell us anything that we know of."""
        return not any(self.awaiting.values()) and not self.stale and not self.reviews

    def sizes(self) -> dict[str, int]:
        """How many entries each table holds."""
        return {
            "in_subs": sum(map(len, self.in_subs.values())),
            "in_ads": sum(map(len, self.in_ads.values())),
            "out_subs": sum(len(out.told) for out in self.out_subs.values()),
            "out_ads": sum(len(out.told) for out in self.out_ads.values()),
            "matcher": len(self.matcher),
            **self.further.sizes(),
        }

    def remote_bytes(self) -> int:
        return self._remote_sizes.bytes + self.further.remote_bytes() + self.held.bytes

    def _resize(self, source: NodeId, before: Filter | None, after: Filter | None) -> None:
        """An entry has come, changed or gone: those of clients here are counted by their sessions."""
        if source != HERE:
            self._remote_sizes.change(before, after)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> TreeState:
        """The tables as they are now."""
        return TreeState(
            {source: dict(entries) for source, entries in self.in_subs.items()},
            {source: dict(entries) for source, entries in self.in_ads.items()},
            {n: out.snapshot() for n, out in self.out_subs.items()},
            {n: out.snapshot() for n, out in self.out_ads.items()},
            {n: tuple(entries) for n, entries in self.stale.items()},
            {what: tuple(names) for what, names in self.awaiting.items()},
            {what: tuple(names) for what, names in self.told_all.items()},
            tuple(self.held),
            self.further.snapshot(),
            self.maker,
            self.had_past_life,
            self.reviews.snapshot(),
        )

    def restore(self, state: TreeState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.neighbours = tuple(source for source in state.in_subs if source != HERE)
        self.maker, self.had_past_life = state.maker or self.maker, state.had_past_life
        self.in_subs = {source: dict(entries) for source, entries in state.in_subs.items()}
        self.in_ads = {source: dict(entries) for source, entries in state.in_ads.items()}
        self.out_subs, self.out_ads = ({n: self.new_outgoing() for n in self.neighbours} for _ in range(2))
        for told, states in ((self.out_subs, state.out_subs), (self.out_ads, state.out_ads)):
            for n, out in told.items():
                out.restore(states[n])
        self.stale = {n: dict.fromkeys(entries) for n, entries in state.stale.items()}
        self.awaiting = {what: dict.fromkeys(names) for what, names in state.awaiting.items()}
        self.told_all = {what: dict.fromkeys(names) for what, names in state.told_all.items()}
        self.held = HeldEvents(state.held)
        self.reviews.restore(state.reviews)
        each = ((source, id, filter) for source, entries in self.in_subs.items() for id, filter in entries.items())
        self.matcher.add_many((matcher_key(source, id), filter) for source, id, filter in each)
        both = ((n, entries) for tables in (self.in_subs, self.in_ads) for n, entries in tables.items())
        self._remote_sizes = EntrySizes(each for n, entries in both if n != HERE for each in entries.values())
        self.further.restore(state.further)
        self.matcher.prepare()


def matcher_key(source: NodeId, id: EntryId) -> tuple[Any, ...]:
    """Under which key the matcher has a subscription: its own id for a client here, which then needs no other tuple."""
    return id if source == HERE else (source, id)


def _struck(stale: dict[tuple[str, EntryId], None], kind: str) -> list[EntryId]:
    """Take all of one kind out of what a neighbour has not told again; their ids."""
    ids = [id for of, id in stale if of == kind]
    for id in ids:
        del stale[kind, id]
    return ids

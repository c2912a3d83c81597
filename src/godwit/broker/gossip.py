"""Gossip: small tables with a copy at every broker. The copies agree when no update is in transit.

*Theory.* A table maps keys to values. A broker that changes an entry stamps it, higher than what it knew of the key,
and of two versions the higher (stamp, name of the broker) is true everywhere. So it makes no difference in which order
versions come, how often, or on which way. A broker tells its neighbours what is news to it, and they theirs; it does
not tell a neighbour what came from there. Entries are numbered here in the order in which they were learned, and for
each neighbour it is known up to which number it was told. Links keep what they were given until it has come; so a
neighbour that was out of reach is told the rest, and only one that has lost its memory is told everything.

*Rules.*
1. Nothing is sent while nothing is known: a network that does not use these tables does not pay for them.
2. No stamp is used twice for a key, as long as a broker that loses its disk is away for a microsecond. An entry never
   goes back to an older version. What was removed leaves a tombstone, which is told as any version.
3. When every link has been open for long enough and nobody changes anything, all brokers hold the same.
4. Each table has a bound of entries and one of bytes. Local entries beyond them are refused. What others say is
   taken up to twice the bound (they may have said it before they heard of each other), then dropped on record.
5. `TOMBSTONES_MAX` tombstones are kept of all tables, the latest. A broker that was cut off while more than so many
   entries were removed may bring an old one back.
6. A neighbour that says what no broker says is a `PeerFault`, before anything is changed.

*Paper.* None. [rebeca §4] lets clients say where they were; clients that cannot (MQTT) need somebody who knows.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, Trace
from godwit.broker.gossip_messages import Fact, GossipUpdate, GroupMember, LostInputs, RetainedEvent, SessionLocation
from godwit.broker.host import Host
from godwit.broker.links import Link
from godwit.broker.message_checks import check_event, is_number, is_whole, shown
from godwit.broker.messages import NodeId
from godwit.broker.queues import event_size
from godwit.errors import PeerFault
from godwit.trace import Record

__all__ = [
    "GROUPS",
    "LOSSES",
    "RETAINED",
    "WHEREABOUTS",
    "Gossip",
    "GossipEntryState",
    "GossipState",
    "TableLimit",
    "Value",
    "check_known",
    "stamp_of",
]

WHEREABOUTS, RETAINED, GROUPS, LOSSES = "whereabouts", "retained", "groups", "losses"
TABLES: dict[str, tuple[type, int]] = {
    WHEREABOUTS: (SessionLocation, 1),
    RETAINED: (RetainedEvent, 1),
    GROUPS: (GroupMember, 5),
    LOSSES: (LostInputs, 1),
}
"""By table, what its values are and of how many parts its keys."""

Value = SessionLocation | RetainedEvent | GroupMember | LostInputs
Key = tuple[str, tuple[str, ...]]
"""A table, and the key in it."""

FACTS_AT_ONCE = 64  # in one message,
BYTES_AT_ONCE = 2**18  # and about so many bytes, if it is more than one
TOMBSTONES_MAX = 10_000
STAMP_MAX = 2**62
KEY_CHARS_MAX = 2**16
OVERHEAD = 100  # bytes of an entry, about


class TableLimit(msgspec.Struct, frozen=True):
    """How much a table may hold."""

    entries: int
    bytes: int


class GossipEntryState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fact, when it was learned, and from which neighbour."""

    fact: Fact
    serial: int
    via: NodeId = ""


class GossipState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """All facts, the latest change last, and what neighbours have been told. Sizes follow from it."""

    version: ClassVar[int] = 1
    serial: int = 0
    entries: tuple[GossipEntryState, ...] = ()
    told: dict[NodeId, tuple[int, int]] = {}


class _Entry(msgspec.Struct):
    fact: Fact
    via: NodeId  # the neighbour that told us, or ""
    serial: int
    size: int


class Gossip:
    """All tables of a broker."""

    label = "gossip"
    host: Host

    def __init__(self, name: NodeId, bounds: dict[str, TableLimit]) -> None:
        self.name = name
        self.bounds = bounds
        self.serial = 0
        self.sizes = {table: [0, 0] for table in TABLES}  # entries that are not tombstones, and their bytes
        self._entries: dict[Key, _Entry] = {}  # the latest change last
        self._tombstones: dict[Key, None] = {}  # likewise
        self._told: dict[NodeId, tuple[int, int]] = {}  # by neighbour: its life, and up to which serial it was told

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            messages={GossipUpdate: self.on_gossip_update},
            on_link_open=lambda peer, effects, now: self._tell(host.links[peer], effects, now),
            on_link_dead=self.forget_told,
            on_sessions_settled=self.spread,
        )

    def __len__(self) -> int:
        """How many entries there are, tombstones among them."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Fact]:
        return (entry.fact for entry in self._entries.values())

    def fact(self, table: str, *key: str) -> Fact | None:
        """What is known of a key, be it that there is nothing any more."""
        entry = self._entries.get((table, key))
        return None if entry is None else entry.fact

    def value(self, table: str, *key: str) -> Any:
        """The value of a key, or None."""
        entry = self._entries.get((table, key))
        return None if entry is None else entry.fact.value

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> GossipState:
        """All that is known, and who has been told."""
        entries = tuple(GossipEntryState(entry.fact, entry.serial, entry.via) for entry in self._entries.values())
        return GossipState(self.serial, entries, dict(self._told))

    def restore(self, state: GossipState) -> None:
        """Know this, and nothing besides."""
        for entry in state.entries:
            self.serial = entry.serial - 1
            self._store(entry.fact, entry.via)
        self.serial, self._told = state.serial, dict(state.told)

    # ------------------------------------------------------------ changes

    def why_not(self, table: str, key: tuple[str, ...], value: Value | None) -> str | None:
        """Why there is no room for this; None: there is. (rule 4)"""
        return self._why_not(table, key, value, 1)

    def put(self, table: str, key: tuple[str, ...], value: Value | None, now: float, stamp: int = 0) -> str | None:
        """Say what is true of a key from now on; None: nothing. Why not, if there is no room.

        A `stamp` of the caller's own counts only if it is higher than what is known.
        """
        reason = self.why_not(table, key, value)
        if reason is not None:
            return reason
        known = self.fact(table, *key)
        latest = -1 if known is None else known.stamp
        if stamp and stamp <= latest:
            return "a later value is known"
        self._store(Fact(table, key, stamp or max(stamp_of(now), latest + 1), self.name, value), "")
        return None

    def learn(self, peer: NodeId, fact: Fact) -> tuple[bool, str | None]:
        """A neighbour says this: whether it is news, and why it is not kept though it is."""
        known = self.fact(fact.table, *fact.key)
        if known is not None and (known.stamp, known.by) >= (fact.stamp, fact.by):
            return False, None
        reason = self._why_not(fact.table, fact.key, fact.value, 2)
        if reason is not None:
            return False, reason
        self._store(fact, peer)
        return True, None

    def _why_not(self, table: str, key: tuple[str, ...], value: Value | None, factor: int) -> str | None:
        if value is None:
            return None
        before = self._entries.get((table, key))
        is_there = before is not None and before.fact.value is not None
        entries, size = self.sizes[table]
        bound = self.bounds[table]
        if not is_there and entries >= factor * bound.entries:
            return f"the table of {table} has room for {bound.entries}"
        if size - (before.size if before is not None else 0) + _size(key, value) > factor * bound.bytes:
            return f"the table of {table} has room for {bound.bytes} bytes"
        return None

    def _store(self, fact: Fact, via: NodeId) -> None:
        key = (fact.table, fact.key)
        before = self._entries.pop(key, None)
        self._tombstones.pop(key, None)
        sums = self.sizes[fact.table]
        if before is not None and before.fact.value is not None:
            sums[0] -= 1
            sums[1] -= before.size
        self.serial += 1
        size = 0
        if fact.value is None:
            self._tombstones[key] = None
        else:
            size = _size(fact.key, fact.value)
            sums[0] += 1
            sums[1] += size
        self._entries[key] = _Entry(fact, via, self.serial, size)
        if len(self._tombstones) > TOMBSTONES_MAX:  # rule 5
            oldest = next(iter(self._tombstones))
            del self._tombstones[oldest], self._entries[oldest]

    def expire(self, table: str, key: tuple[str, ...]) -> None:
        """The time of an entry is over, as all brokers see by themselves: keep its stamp, and tell nobody."""
        entry = self._entries.get((table, key))
        if entry is not None and entry.fact.value is not None:
            self._store(structs.replace(entry.fact, value=None), entry.via)

    # ------------------------------------------------------------ between brokers

    def on_gossip_update(self, peer: NodeId, message: GossipUpdate, now: float) -> list[Effect]:
        """A neighbour tells what it knows: keep what is news, and pass it on."""
        check_known(message)
        effects: list[Effect] = []
        news: list[Fact] = []
        for fact in message.facts:
            is_new, reason = self.learn(peer, fact)
            if is_new:
                news.append(fact)
            elif reason is not None:
                effects.append(Trace(Record("lost", peer, "GossipUpdate", detail=reason)))
        for fact in news:
            if (on_fact := self.host.facts.get(fact.table)) is not None:
                on_fact(fact, effects, now)
        if news:
            self.spread(effects, now)
        return effects

    def spread(self, effects: list[Effect], now: float) -> None:
        """Tell every neighbour that can be reached what it has not been told."""
        for link in self.host.links.values():
            if link.open:
                self._tell(link, effects, now)

    def _tell(self, link: Link, effects: list[Effect], now: float) -> None:
        for known in self.untold(link.peer, link.peer_incarnation):
            link.send(known, effects, now)  # type: ignore[arg-type]

    # ------------------------------------------------------------ telling

    def untold(self, peer: NodeId, life: int) -> list[GossipUpdate]:
        """What that life of a neighbour must be told; from now on it counts as told."""
        known_life, upto = self._told.get(peer, (0, 0))
        has_forgotten = known_life not in (0, life)  # then it needs what it told us itself, too
        if has_forgotten:
            upto = 0
        self._told[peer] = (life, self.serial)
        if upto == self.serial:
            return []
        news: list[_Entry] = []
        for entry in reversed(self._entries.values()):
            if entry.serial <= upto:
                break
            if entry.via != peer or has_forgotten:
                news.append(entry)
        return list(_in_parts(reversed(news)))

    def forget_told(self, peer: NodeId) -> None:
        """What was on its way to a neighbour is given up: tell it everything the next time."""
        if peer in self._told:
            self._told[peer] = (self._told[peer][0], 0)


def stamp_of(now: float) -> int:
    """A stamp for this moment."""
    return max(int(now * 1e6), 0)


def _in_parts(news: Any) -> Iterator[GossipUpdate]:
    """Messages of some facts each."""
    part: list[Fact] = []
    size = 0
    for entry in news:
        if part and (len(part) >= FACTS_AT_ONCE or size + entry.size > BYTES_AT_ONCE):
            yield GossipUpdate(tuple(part))
            part, size = [], 0
        part.append(entry.fact)
        size += entry.size
    if part:
        yield GossipUpdate(tuple(part))


def _size(key: tuple[str, ...], value: Value) -> int:
    size = OVERHEAD + sum(map(len, key))
    return size + event_size(value.event) if isinstance(value, RetainedEvent) else size


# ------------------------------------------------------------ checking


def check_known(message: GossipUpdate) -> None:
    """`PeerFault` unless brokers say such things. (rule 6)"""
    if len(message.facts) > FACTS_AT_ONCE:
        raise PeerFault(f"GossipUpdate.facts has more than {FACTS_AT_ONCE} facts")
    for fact in message.facts:
        if fact.table not in TABLES:
            raise PeerFault(f"{shown(fact)} is in none of the tables {', '.join(TABLES)}")
        kind, parts = TABLES[fact.table]
        if len(fact.key) != parts:
            raise PeerFault(f"a key in the table of {fact.table} is {shown(fact.key)}: it must be {parts} texts")
        if sum(map(len, fact.key)) > KEY_CHARS_MAX:
            raise PeerFault(f"a key in the table of {fact.table} is longer than {KEY_CHARS_MAX} characters")
        if not 0 <= fact.stamp <= STAMP_MAX or not fact.by:
            raise PeerFault(f"{shown(fact)} has an invalid stamp")
        if fact.value is not None:
            if type(fact.value) is not kind:
                raise PeerFault(f"{shown(fact.value)} is not a value of the table of {fact.table}")
            if (check := CHECKS.get(kind)) is not None:
                check(fact.value)


def _check_dwelling(value: SessionLocation) -> None:
    if not value.home or not is_whole(value.attempt):
        raise PeerFault(f"{shown(value)}: a session is at a broker, and has a name and an attempt")


def _check_kept(value: RetainedEvent) -> None:
    check_event(value.event)


def _check_lost_inputs(value: LostInputs) -> None:
    if not is_number(value.since) or value.since < 0:
        raise PeerFault(f"{shown(value)}: inputs are lost since a time, or since 0")


CHECKS: dict[type, Callable[[Any], None]] = {
    SessionLocation: _check_dwelling,
    RetainedEvent: _check_kept,
    LostInputs: _check_lost_inputs,
}

"""Peers as machines, and a bus that delivers each event once, in order, and keeps it while a session is kept."""

import heapq
from collections import Counter
from random import Random
from typing import Any

import msgspec

from godwit.errors import FilterError
from godwit.filters.events import Event
from godwit.filters.language import parse as parse_filter
from godwit.teamwork.machine import exchange
from godwit.teamwork.machine.bus import Changes, KeyGiven, attributes_of, context_of
from godwit.teamwork.machine.changes import Change, Vector
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    Detached,
    EventCame,
    Follow,
    GiveKey,
    Invited,
    KeyMade,
    KeyMissing,
    MakeKey,
    PresenceChanged,
    Publish,
    Rejected,
    SearchAnswered,
    StartTimer,
    StopTimer,
    TakeKey,
    TimerDue,
)
from godwit.teamwork.machine.presence import MemoryPresence
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.search import Progress
from godwit.teamwork.machine.store import MemoryStore
from godwit.teamwork.sealing import KeyRing, Sealed
from tests.unit.teamwork.machine.team_of_peers import Keys, PlainIndex

__all__ = ["SCOPE", "TEAM", "Bus"]

TEAM = "team/ann.0"
SCOPE = "community/ann.1"


def has_words(language: str, query: str, record: Record) -> bool:
    """A rule of a community: the fields of a profile have these words."""
    if query.startswith("?"):
        raise FilterError("a query does not begin with ?")
    return query in str(record.fields)


class MemorySecrets:
    """Keys in memory."""

    def __init__(self) -> None:
        self._keys: dict[str, bytes] = {}

    def get(self, name: str, default: bytes | None = None) -> bytes | None:
        return self._keys.get(name, default)

    def put(self, name: str, value: bytes) -> None:
        self._keys[name] = value


class Bus:
    """Peers and a bus that delivers each event once, in order, and keeps it for peers whose session it has."""

    def __init__(self, seed: int, peers: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.due: list[tuple[float, int, int, Any]] = []
        self.timers: dict[tuple[int, Any], float] = {}
        self.peers: list[Peer] = []
        self.stores: list[MemoryStore] = []
        self.heard: list[MemoryPresence] = []
        self.queues: list[list[bytes]] = []
        self.outboxes: list[list[Publish]] = []
        self.rings: list[KeyRing] = []
        self.unreadable: list[list[bytes]] = []
        self.attached: list[bool] = []
        self.published: Counter[str] = Counter()
        self.travelled: list[bytes] = []
        self.progress: list[Progress] = []
        self.rejected: list[Rejected] = []
        self.invited: list[tuple[int, str]] = []
        self.presence: list[tuple[int, PresenceChanged]] = []
        self.count = 0
        for place in range(peers):
            self.join("ann" if place % 2 == 0 else "bob", f"d{place}")

    def join(self, user: str, device: str) -> None:
        """A new device, not attached yet."""
        self.stores.append(MemoryStore())
        self.heard.append(MemoryPresence())
        self.rings.append(KeyRing(MemorySecrets()))
        self.unreadable.append([])
        self.peers.append(self._made(len(self.peers), user, device))
        self.queues.append([])
        self.outboxes.append([])
        self.attached.append(False)
        self.tell(len(self.peers) - 1, Follow(SCOPE))

    def _made(self, place: int, user: str, device: str) -> Peer:
        store = self.stores[place]
        index = PlainIndex(device, store)
        return Peer(
            *(Identity(TEAM, user, device), store, Keys(device), index),
            *(self.rings[place].has, has_words, self.heard[place]),
        )

    def end(self, place: int) -> None:
        """The process of a peer ends, without a word to others."""
        self.attached[place] = False
        for key in [key for key in self.timers if key[0] == place]:
            del self.timers[key]

    def start_again(self, place: int) -> None:
        """A peer starts with what it has kept, and attaches."""
        peer = self.peers[place]
        self.peers[place] = self._made(place, peer.user, peer.device)
        self.tell(place, Follow(SCOPE))
        self.attach(place)

    def tell(self, place: int, input: Any) -> None:
        """Give an input to a peer and carry out what it asks for."""
        inputs: list[Any] = []
        for effect in self.peers[place].handle(input, self.now):
            match effect:
                case Publish():
                    self.outboxes[place].append(effect)
                case SearchAnswered(progress=progress):
                    self.progress.append(progress)
                case Rejected():
                    self.rejected.append(effect)
                case PresenceChanged():
                    self.presence.append((place, effect))
                case Invited(invite=invite):
                    self.invited.append((place, invite.scope))
                    if invite.scope not in self.peers[place].followed:
                        inputs.append(Follow(invite.scope))
                case MakeKey(scope=scope):
                    inputs.append(KeyMade(scope, self.rings[place].made(scope)))
                case GiveKey(scope=scope, name=name, device=device):
                    key = self.rings[place].key(scope, name)
                    assert key is not None
                    given = KeyGiven(self.peers[place].device, scope, name, device, key)
                    attributes = attributes_of(TEAM, given)
                    self.outboxes[place].append(Publish(attributes, msgspec.msgpack.encode(given)))
                case TakeKey(scope=scope, name=name, box=box):
                    assert self.rings[place].keep(scope, name, box)
                    self.queues[place][:0] = self.unreadable[place]
                    self.unreadable[place].clear()
                case StartTimer(key=key, after_s=after_s):
                    self.timers[place, key] = self.now + after_s
                    self.count += 1
                    heapq.heappush(self.due, (self.now + after_s, self.count, place, key))
                case StopTimer(key=key):
                    self.timers.pop((place, key), None)
        self.flush(place)
        for further in inputs:
            self.tell(place, further)

    def take(self, place: int, change: Change) -> None:
        """Let a peer have made a change, right or not, and send it."""
        payload = msgspec.msgpack.encode(Changes(self.peers[place].device, change.scope, (change,), {}))
        assert self.peers[place].take(change)
        attributes = {"team": TEAM, "message": "changes", "scope": change.scope}
        self.outboxes[place].append(Publish(attributes, payload))
        self.flush(place)

    def flush(self, place: int) -> None:
        """What a peer has published goes to all others."""
        if self.attached[place]:
            events, self.outboxes[place] = self.outboxes[place], []
            for event in events:
                payload = self.sealed(place, event)
                self.travelled.append(payload)
                self.published[event.attributes["message"]] += 1
                for other, queue in enumerate(self.queues):
                    peer, attributes = self.peers[other], event.attributes
                    is_for_it = attributes.get("for_device", peer.device) == peer.device
                    context = context_of(TEAM, peer.user, peer.device)
                    is_for_it &= not event.to or parse_filter(event.to).matches(Event(context))
                    if is_for_it and attributes.get("for_user", peer.user) == peer.user:
                        queue.append(payload)

    def sealed(self, place: int, event: Publish) -> bytes:
        """The payload as it travels: changes of a sealed scope with the key in use."""
        scope = event.attributes.get("scope", "")
        name = self.peers[place].keys.in_use(scope) if event.attributes["message"] == "changes" else None
        if name is None or not self.rings[place].has(scope, name):
            return event.payload
        return self.rings[place].sealed(scope, name, event.payload)

    def read(self, place: int) -> None:
        """The first event in the queue of a peer."""
        payload = self.queues[place].pop(0)
        opened = self.rings[place].opened(payload)
        if isinstance(opened, Sealed):
            self.unreadable[place].append(payload)
            self.tell(place, KeyMissing(opened.scope, opened.name))
        else:
            self.tell(place, EventCame(payload if opened is None else opened))

    def attach(self, place: int) -> None:
        self.attached[place] = True
        self.flush(place)
        self.tell(place, Attached())

    def detach(self, place: int) -> None:
        self.attached[place] = False
        self.tell(place, Detached())

    def deliver(self) -> None:
        """Until all that are attached have read their queues."""
        while any(queue and self.attached[place] for place, queue in enumerate(self.queues)):
            for place, queue in enumerate(self.queues):
                if queue and self.attached[place]:
                    self.read(place)

    def pass_time(self, seconds: float) -> None:
        """Carry out what is due in that time."""
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now, _, place, key = heapq.heappop(self.due)
            if self.timers.get((place, key)) == self.now:
                del self.timers[place, key]
                self.tell(place, TimerDue(key))
                self.deliver()
        self.now = end

    def act(self) -> None:
        """One thing that happens, drawn."""
        place = self.random.randrange(len(self.peers))
        match self.random.choice(["change", "change", "change", "attach", "detach", "expire", "time", "deliver"]):
            case "change":
                fields = {"title": str(self.random.randrange(100))}
                self.tell(place, ChangeRecord(SCOPE, f"artefact/{self.random.randrange(3)}", fields))
            case "attach":
                self.attach(place)
            case "detach":
                self.detach(place)
            case "expire" if not self.attached[place]:
                self.queues[place].clear()
            case "time":
                self.pass_time(self.random.random() * 3)
            case "deliver":
                self.deliver()

    def vectors(self) -> list[Vector]:
        return [store.vector(SCOPE) for store in self.stores]

    def come_together(self) -> None:
        for place in range(len(self.peers)):
            self.attach(place)
        self.deliver()
        self.pass_time(3 * exchange.ASK_MAX_S)

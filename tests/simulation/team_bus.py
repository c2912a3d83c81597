"""Peers as machines, and a bus that delivers each event once, in order, and keeps it while a session is kept."""

import heapq
from collections import Counter
from random import Random
from typing import Any

from godwit.teamwork.machine import exchange
from godwit.teamwork.machine.changes import Vector
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    Detached,
    EventCame,
    Follow,
    Publish,
    Rejected,
    SearchAnswered,
    StartTimer,
    StopTimer,
    TimerDue,
)
from godwit.teamwork.machine.search import Progress
from godwit.teamwork.machine.store import MemoryStore
from tests.unit.teamwork.machine.team_of_peers import Keys, PlainIndex

__all__ = ["SCOPE", "Bus"]

SCOPE = "community/ann.1"


class Bus:
    """Peers and a bus that delivers each event once, in order, and keeps it for peers whose session it has."""

    def __init__(self, seed: int, peers: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.due: list[tuple[float, int, int, Any]] = []
        self.timers: dict[tuple[int, Any], float] = {}
        self.peers: list[Peer] = []
        self.stores: list[MemoryStore] = []
        self.queues: list[list[bytes]] = []
        self.outboxes: list[list[Publish]] = []
        self.attached: list[bool] = []
        self.published: Counter[str] = Counter()
        self.progress: list[Progress] = []
        self.rejected: list[Rejected] = []
        self.count = 0
        for place in range(peers):
            self.join("ann" if place % 2 == 0 else "bob", f"d{place}")

    def join(self, user: str, device: str) -> None:
        """A new device, not attached yet."""
        store = MemoryStore()
        self.stores.append(store)
        self.peers.append(Peer(Identity("t", user, device), store, Keys(device), PlainIndex(device, store)))
        self.queues.append([])
        self.outboxes.append([])
        self.attached.append(False)
        self.tell(len(self.peers) - 1, Follow(SCOPE))

    def tell(self, place: int, input: Any) -> None:
        """Give an input to a peer and carry out what it asks for."""
        for effect in self.peers[place].handle(input, self.now):
            match effect:
                case Publish():
                    self.outboxes[place].append(effect)
                case SearchAnswered(progress=progress):
                    self.progress.append(progress)
                case Rejected():
                    self.rejected.append(effect)
                case StartTimer(key=key, after_s=after_s):
                    self.timers[place, key] = self.now + after_s
                    self.count += 1
                    heapq.heappush(self.due, (self.now + after_s, self.count, place, key))
                case StopTimer(key=key):
                    self.timers.pop((place, key), None)
        self.flush(place)

    def flush(self, place: int) -> None:
        """What a peer has published goes to all others."""
        if self.attached[place]:
            events, self.outboxes[place] = self.outboxes[place], []
            for event in events:
                self.published[event.attributes["message"]] += 1
                for other, queue in enumerate(self.queues):
                    if event.attributes.get("for_device", self.peers[other].device) == self.peers[other].device:
                        queue.append(event.payload)

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
                    self.tell(place, EventCame(queue.pop(0)))

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

"""Peers that come and go, lose their sessions and their disks, and converge whenever they have met."""

import heapq
from random import Random
from typing import Any

import pytest

from godwit.teamwork.machine import exchange
from godwit.teamwork.machine.changes import Vector
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    EventCame,
    Follow,
    Publish,
    StartTimer,
    StopTimer,
    TimerDue,
)
from godwit.teamwork.machine.store import MemoryStore
from tests.unit.teamwork.machine.team_of_peers import Keys

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
        self.outboxes: list[list[bytes]] = []
        self.attached: list[bool] = []
        self.published = 0
        self.count = 0
        for place in range(peers):
            self.join("ann" if place % 2 == 0 else "bob", f"d{place}")

    def join(self, user: str, device: str) -> None:
        """A new device, not attached yet."""
        store = MemoryStore()
        self.stores.append(store)
        self.peers.append(Peer(Identity("t", user, device), store, Keys(device)))
        self.queues.append([])
        self.outboxes.append([])
        self.attached.append(False)
        self.tell(len(self.peers) - 1, Follow(SCOPE))

    def tell(self, place: int, input: Any) -> None:
        """Give an input to a peer and carry out what it asks for."""
        for effect in self.peers[place].handle(input, self.now):
            match effect:
                case Publish(payload=payload):
                    self.outboxes[place].append(payload)
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
            payloads, self.outboxes[place] = self.outboxes[place], []
            for payload in payloads:
                self.published += 1
                for other, queue in enumerate(self.queues):
                    if other != place:
                        queue.append(payload)

    def attach(self, place: int) -> None:
        self.attached[place] = True
        self.flush(place)
        self.tell(place, Attached())

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
                self.attached[place] = False
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


def played(seed: int) -> Bus:
    bus = Bus(seed, peers=4)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
    for _ in range(60):
        bus.act()
    bus.join("ann", "late")
    bus.come_together()
    return bus


@pytest.mark.parametrize("seed", range(30))
def test_peers_that_are_together_have_the_same_changes_and_records(seed: int) -> None:
    bus = played(seed)
    first, *others = bus.vectors()
    assert all(other == first for other in others)
    records = [{record.name: record for record in store.records(SCOPE, "artefact")} for store in bus.stores]
    assert all(other == records[0] for other in records)


def test_peers_that_lack_nothing_are_silent() -> None:
    bus = played(1)
    published = bus.published
    bus.pass_time(10 * exchange.ASK_MAX_S)
    assert bus.published == published


def test_one_of_many_peers_answers() -> None:
    bus = Bus(1, peers=20)
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "a"}))
    bus.come_together()
    bus.join("ann", "late")
    published = bus.published
    bus.attach(20)
    bus.deliver()
    bus.pass_time(60)
    assert bus.stores[20].vector(SCOPE) == bus.stores[0].vector(SCOPE)
    assert bus.published - published <= 2 + 20 / exchange.SLOTS * 2  # its question, and an answer or a few


def test_peers_that_do_not_answer_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange.Exchange, "_answer", lambda self, scope, least: None)
    with pytest.raises(AssertionError):
        test_peers_that_are_together_have_the_same_changes_and_records(2)

"""Ad hoc networks on virtual time: devices, which of them are in range, and their laws.

*Theory.* The world of `world.py` runs the devices' machines; this module sets which pairs are in range, makes the
requests of applications, and checks. Devices that reach each other over any number of hops form an *island*. An island
is *stable* since its nodes or the pairs in range within it last changed.

| law | it says |
|---|---|
| nothing twice | no client gets an event twice, whatever happens |
| order | a client gets the events of one publisher in the order they were published, whatever happens |
| nothing held is lost | what an event broker took for a client, there or behind trunks, comes, unless a lease ended \
or order forbids it |
| all of an island | events published in a stable island arrive in time at all its subscribers |
| one event broker | an island of two or more that has been stable has one leader, whom all follow; or, where event \
brokers coordinate, several, all joined to the one of the highest rank |
| everything in force | its event broker has exactly the subscriptions of its members, which are all connected |
| leases end | an event broker has no state of a device that has left its island for the time of a lease |
| sessions follow | in an island that has been stable only the event broker that a client follows has a session of it, \
unless the client wants nothing |

*Rules.*
1. Nothing here uses random numbers or changes a machine.
2. Exceptions to a law are recorded: `lost` for a lease that ended, `suppressed` at a client for an event that arrived
   after a later one of its publisher, which happens only if an event broker accepted the later one and the other did
   not wait there for this client. A broker that accepted an event before the client had a session there did not accept
   it for this client. With coordinating event brokers, an event may also still wait at one that its client cannot
   reach.
3. A device that crashes takes with it what its client knew: in its next life it may get an event again, and each life
   is held to the laws on its own. What its event broker held for others goes with it, too, unless devices have disks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig
from godwit.adhoc.holdings import Holdings, resume
from godwit.broker.effects import Effect, Notify
from godwit.broker.limits import Limits
from godwit.client.client import Client, ClientConfig
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.simulator.broker_inspection import (
    clients_wanting,
    clients_with_sessions,
    held_subscriptions,
    is_connected,
    is_queued,
    queued_events,
)
from godwit.simulator.summary import Violation
from godwit.simulator.world import World
from godwit.trace import Record, TraceSink

__all__ = ["AdHocWorld", "EventId", "Pair", "converge_s", "deliver_s"]

EventId = tuple[str, int]
SEEN_WINDOW = Limits().seen_window
EVENTS_PER_LIFE, ATTEMPTS_PER_LIFE = 1_000_000, 1_000_000
Pair = tuple[str, str]
"""Two devices in range of each other, in the order of their names."""


def converge_s(config: AdHocConfig) -> float:
    """The time after which an unchanged island has one leader that all follow: the sum of all timeouts."""
    settled_s = (
        config.lost_s
        + config.search_s
        + config.spread_s
        + 5 * config.beacon_s
        + config.gather_s
        + config.poll_s
        + config.merge_s
    )
    return settled_s if config.meeting == "merge" else settled_s + _follow_s(config)


def _follow_s(config: AdHocConfig) -> float:
    """The time within which clients have moved to nearer event brokers, and their sessions have followed."""
    return config.lost_s + 2 * config.fetch_s


def deliver_s(config: AdHocConfig) -> float:
    """The time within which an event arrives in an unchanged island."""
    return config.poll_s + 2 * config.beacon_s


class AdHocWorld:
    """Devices that move in and out of range. `configs` has their names."""

    def __init__(
        self,
        seed: int,
        configs: Mapping[str, AdHocConfig],
        trace: TraceSink | None = None,
        latency_ms: float = 5.0,
        *,
        has_disks: bool = False,
        **client_settings: Any,
    ) -> None:
        self.world = World(seed)
        self.disks = {name: Holdings() for name in configs} if has_disks else {}
        self.configs = dict(configs)
        self.trace = trace
        self.counts: dict[str, int] = {}  # records by kind
        self.wanted: dict[str, dict[str, Filter]] = {name: {} for name in configs}
        self.said: dict[EventId, tuple[Event, float]] = {}
        self.delivered: dict[str, dict[EventId, float]] = {name: {} for name in configs}
        self.down: dict[str, None] = {}  # devices that have crashed and are not back
        self._earlier: dict[str, dict[EventId, float]] = {name: {} for name in configs}  # delivered in lives before
        self.held: dict[
            tuple[str, EventId], dict[str, float]
        ] = {}  # client and event: the broker that accepted it, and the time
        self._behind: dict[
            tuple[str, EventId], list[set[EventId]]
        ] = {}  # client and event: what waited for it where an event broker accepted the event
        self._over_trunks: dict[
            tuple[str, EventId], None
        ] = {}  # client and event: accepted elsewhere than its session is
        self._lost_on_trunks: dict[EventId, str] = {}  # which were kept for an island, and why they are no longer
        self.excused: dict[tuple[str, EventId], str] = {}
        self.due: dict[tuple[str, EventId], float] = {}  # client and event: the latest time of its delivery
        self.violations: list[Violation] = []
        self.duplicated = self.out_of_order = 0
        self.latencies: list[float] = []
        self.links: dict[Pair, None] = {}
        self.islands: dict[str, tuple[str, ...]] = {name: (name,) for name in configs}
        self.stable_since: dict[str, float] = dict.fromkeys(configs, 0.0)
        self.left_at: dict[
            Pair, float
        ] = {}  # (a, b): the last time that b was in the island of a, or of a leader that a has taken over
        self.world.on_notify = self._on_notify
        self.world.on_record = self._on_record
        if has_disks:
            self.world.on_effects = lambda name, input, effects: self._write(name)
        for name, config in self.configs.items():
            self.world.add_broker(name, self._maker(name, config, client_settings), journaled=False)
        for at, name in enumerate(self.configs):
            for other in list(self.configs)[:at]:
                self.world.wire(name, other, latency_ms / 1_000, None)

    @staticmethod
    def _maker(name: str, config: AdHocConfig, client_settings: dict[str, Any]) -> Any:
        def make(incarnation: int) -> AdHocNode:
            life = incarnation - 1
            client = Client(name, ClientConfig(**client_settings, sequence_start=life * EVENTS_PER_LIFE))
            client.attempt = life * ATTEMPTS_PER_LIFE
            return AdHocNode(name, client, config, incarnation)

        return make

    def node(self, name: str) -> AdHocNode:
        """The machine of a device."""
        machine = self.world.nodes[name].machine
        assert isinstance(machine, AdHocNode)
        return machine

    def client(self, name: str) -> Client:
        """The machine of its client."""
        client = self.node(name).client
        assert isinstance(client, Client)
        return client

    def set_loss(self, rate: float) -> None:
        """Set the shares of lost, duplicate and late messages over the air."""
        for node in self.world.nodes.values():
            for wire in node.wires.values():
                wire.set_faults(loss=rate, duplicate=rate / 2, delay=rate, delay_s=0.1)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(self.world.now + seconds)

    # ------------------------------------------------------------ what applications do

    def subscribe(self, name: str, subscription: str, filter: Filter) -> None:
        """Subscribe to `filter`."""
        self.wanted[name][subscription] = filter
        self._ask(name, lambda client, now: client.subscribe(subscription, filter, now))

    def unsubscribe(self, name: str, subscription: str) -> None:
        """End a subscription."""
        del self.wanted[name][subscription]
        self._forgive(name)
        self._ask(name, lambda client, now: client.unsubscribe(subscription, now))

    def publish(self, name: str, attributes: Mapping[str, Any]) -> EventId:
        """Publish an event, and record the devices of a stable island that must receive it."""
        now = self.world.now
        number = self.client(name).sequence + 1
        event = Event(dict(attributes), publisher=name, sequence=number)
        self.said[event.id] = (event, now)
        if now - self.stable_since[name] >= converge_s(self.configs[name]) and len(self.islands[name]) > 1:
            for other in self.islands[name]:
                if any(filter.matches(event) for filter in self.wanted[other].values()):
                    self.due[other, event.id] = now + deliver_s(self.configs[name])
        self._ask(name, lambda client, now: client.publish(attributes, now))
        return event.id

    def _ask(self, name: str, do: Callable[[Client, float], list[Effect]]) -> None:
        def asked(node: AdHocNode, now: float) -> list[Effect]:
            effects = node.ask(lambda client: do(client, now), now)
            self._write(name)
            return effects

        self.world.command(name, asked)

    def _write(self, name: str) -> None:
        """What a device holds goes to its disk, before its effects leave."""
        if name in self.disks:
            self.disks[name].changes(self.node(name), self.client(name))

    # ------------------------------------------------------------ crashes

    def crash(self, name: str) -> None:
        """Stop a device at once. It loses all that is not on a disk. Rule 3."""
        if name not in self.disks:
            self._excuse_what_is_held_by(name)
        self.down[name] = None
        self.set_links([pair for pair in self.links if name not in pair])
        self._forgive(name)
        self._earlier[name] |= self.delivered[name]
        self.delivered[name] = {}
        self.world.crash(name, keeps_disk=False)

    def _excuse_what_is_held_by(self, name: str) -> None:
        broker = self.node(name).broker
        for session in broker.sessions if broker is not None else ():
            for event in session.queue.events():
                self.excused[session.client, event.id] = f"{name} has crashed"
        for client, id in [key for key, takers in self.held.items() if name in takers]:
            if id not in self.delivered[client]:
                self.excused.setdefault((client, id), f"{name} has crashed")

    def restart(self, name: str) -> None:
        """Restart a crashed device. Its application subscribes again."""
        del self.down[name]
        self.world.restart(name)
        disk = copied(self.disks[name]) if name in self.disks else None
        for subscription, filter in self.wanted[name].items():
            self.subscribe(name, subscription, filter)
        if disk is not None:
            for client, held in disk.sessions.items():
                ends_at = held.queue.ends_at
                if ends_at is None and (name, client) in self.left_at:  # it gets a whole lease
                    self.left_at[name, client] = self.world.now
                elif ends_at is not None and ends_at <= self.world.now:
                    self._excuse_what_is_on_trunks(client, name)
            self.disks[name] = disk
            self.world.command(name, self._resumed)

    def _resumed(self, node: AdHocNode, now: float) -> list[Effect]:
        effects = resume(node, self.disks[node.name], now)
        self._write(node.name)
        return effects

    # ------------------------------------------------------------ who is in range

    def set_links(self, pairs: Iterable[Pair]) -> None:
        """Set the pairs in range."""
        wanted = dict.fromkeys((min(pair), max(pair)) for pair in pairs if self.down.keys().isdisjoint(pair))
        gone = [pair for pair in self.links if pair not in wanted]
        new = [pair for pair in wanted if pair not in self.links]
        self.links = wanted
        for pair in gone:
            self.world.disconnect(*pair)
        if gone or new:
            self._find_islands([*gone, *new])
        for pair in new:
            self.world.connect(*pair)

    def _find_islands(self, changed: list[Pair]) -> None:
        now = self.world.now
        before, self.islands = self.islands, islands_of(self.configs, self.links)
        touched = {end for pair in changed for end in pair}
        for name, island in self.islands.items():
            if not touched.isdisjoint(island) or island != before[name]:
                self.stable_since[name] = now
                self._forgive(name)
            for other in self.configs:
                if other in island:
                    self.left_at.pop((name, other), None)
                elif other in before[name]:
                    self.left_at[name, other] = now

    def _forgive(self, name: str) -> None:
        """Something has changed for a node: events that it must still receive may be late."""
        self.due = {key: at for key, at in self.due.items() if key[0] != name or at <= self.world.now}

    # ------------------------------------------------------------ watching

    def _on_notify(self, name: str, notify: Notify, now: float) -> None:
        id = notify.event.id
        got = self.delivered[name]
        self._count("delivered")
        if id in got:
            self.duplicated += 1
            self._violate("nothing twice", f"event {id} came again", name)
            return
        behind = [number for publisher, number in got if publisher == id[0] and number > id[1]]
        if behind:
            self.out_of_order += 1
            self._violate("order", f"event {id} came after number {max(behind)}", name)
        got[id] = now
        self.latencies.append(now - self.said[id][1])
        if self.trace is not None:
            self.trace.write(now, name, Record("delivered", "", "", *id))

    def _on_record(self, name: str, record: Record, now: float) -> None:
        self._count(record.kind)
        id = (record.publisher, record.sequence)
        if record.kind == "published":
            self._took(name, id, now)
        elif record.kind == "session_ended":
            self._ended(name, record.peer)
        elif record.kind == "merged":
            self._took_over(name, record.peer)
        elif record.kind == "lost" and (record.peer.endswith("/") or "#" in record.peer):
            self._lost_on_trunks[id] = record.detail
        elif record.kind == "lost":
            self.excused[record.peer or name, id] = record.detail
        elif record.kind == "suppressed" and not record.peer and self._may_be_overtaken(name, id):
            self.excused.setdefault((name, id), "overtaken")
        elif record.kind == "suppressed" and self._is_far_behind(name, record.peer, id):
            self.excused.setdefault((record.peer, id), "overtaken")
        if self.trace is not None:
            self.trace.write(now, name, record)

    def _took(self, name: str, id: EventId, now: float) -> None:
        """An event broker has accepted an event: all matching sessions there must receive it."""
        broker = self.node(name).broker
        event = self.said[id][0]
        if broker is None:
            return
        for client in clients_wanting(broker, event):
            if client not in self.configs:  # what is kept for an island
                continue
            self.held.setdefault((client, id), {}).setdefault(name, now)
            self._behind.setdefault((client, id), []).append(queued_events(broker, client, id[0]))
        for client, path in self._behind_trunks(name, event, ()):
            if client not in clients_wanting(broker, event):
                self._over_trunks[client, id] = None
            for leader in path:
                self.held.setdefault((client, id), {}).setdefault(leader, now)

    def _behind_trunks(self, name: str, event: Event, before: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The clients of other event brokers that must get an event, and over which event brokers."""
        device, path = self.node(name).device, (*before, name)
        assert device.broker is not None
        for trunk in device.broker.wanting(event):
            far = device.circuits[trunk].far
            broker = self.node(far).broker
            if far in path or broker is None or not broker.is_joined(trunk):
                continue
            for client in clients_wanting(broker, event):
                if client in self.configs:
                    yield client, (*path, far)
            yield from self._behind_trunks(far, event, path)

    def _ended(self, leader: str, client: str) -> None:
        """A session has ended: it must not be of a device that was in the island all the time."""
        self._excuse_what_is_on_trunks(client, leader)
        if client not in self.configs:
            return
        is_here = client in self.islands[leader] and self.node(client).leader == leader
        if is_here and self.world.now - self.stable_since[leader] >= converge_s(self.configs[leader]):
            self._violate("everything in force", f"{leader} has ended its session", client)

    def _excuse_what_is_on_trunks(self, client: str, leader: str) -> None:
        """The session has ended that a client had there: what comes over trunks from now on has nowhere to go."""
        for key in self._over_trunks:
            if key[0] == client:
                self.excused.setdefault(key, f"its session at {leader} has ended")

    def _took_over(self, leader: str, former: str) -> None:
        """A leader has taken over the sessions of another, with the rest of their leases."""
        for other in self.configs:
            since = self.left_at.get((former, other))
            if since is not None and other not in self.islands[leader]:
                self.left_at[leader, other] = max(since, self.left_at.get((leader, other), since))

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _violate(self, law: str, text: str, node: str) -> None:
        self.violations.append(Violation(law, text, self.world.now, node))

    # ------------------------------------------------------------ judging

    def leaders(self, island: Iterable[str]) -> list[str]:
        """The leaders in an island."""
        return [name for name in island if self.node(name).is_leading]

    def check_islands(self) -> int:
        """Check the laws of every stable island; returns their number."""
        checked = 0
        for island in dict.fromkeys(self.islands.values()):
            now, first = self.world.now, island[0]
            if now - self.stable_since[first] >= converge_s(self.configs[first]):
                checked += 1
                if len(island) > 1:
                    self._check_island(island)
            for leader in self.leaders(island):
                self._check_leases(leader)
        return checked

    def _check_island(self, island: tuple[str, ...]) -> None:
        leaders = self.leaders(island)
        follows = {name: self.node(name).leader for name in island}
        coordinating = self.configs[island[0]].meeting == "coordinate"
        if (len(leaders) != 1 and not (leaders and coordinating)) or not set(follows.values()) <= set(leaders):
            self._violate("one event broker", f"{leaders} lead the island, which follows {follows}", island[0])
            return
        best = max(leaders, key=lambda name: self.node(name).rank)
        for name in leaders:
            trunk = self.node(name).device.trunk
            if name != best and (trunk is None or trunk.far != best or not trunk.is_open):
                self._violate("one event broker", f"{name} does not coordinate with {best}", name)
        for name in island:
            broker = self.node(follows[name] or "").broker
            assert broker is not None
            held = held_subscriptions(broker, name)
            if not is_connected(broker, name) or held != self.wanted[name]:
                self._violate("everything in force", f"{follows[name]} holds {held} for it", name)
            for leader in leaders:
                other = self.node(leader).broker
                if not self.wanted[name]:  # its older session stays until the lease ends (decision 651)
                    continue
                if leader != follows[name] and other is not None and name in clients_with_sessions(other):
                    self._violate(
                        "sessions follow", f"{leader} has a session of it, which follows {follows[name]}", name
                    )

    def _check_leases(self, leader: str) -> None:
        broker, config = self.node(leader).broker, self.configs[leader]
        assert broker is not None
        for client in clients_with_sessions(broker) if self.world.nodes[leader].alive else ():
            since = self.left_at.get((leader, client))
            left_s = 0.0 if since is None else self.world.now - since
            if left_s > config.lease_s + converge_s(config):
                self._violate("leases end", f"it holds a session of {client}, gone for {left_s:.1f} s", leader)

    def judge(self) -> None:
        """The final check, after all devices have met: did all expected events arrive?"""
        for (name, id), at in self.due.items():
            if min(self.delivered[name].get(id, inf), self._earlier[name].get(id, inf)) > at:
                self._violate("all of an island", f"event {id} has not come by {at:.3f} s", name)
        for (name, id), takers in self.held.items():
            if id in self.delivered[name] or id in self._earlier[name]:
                continue
            if (name, id) in self._over_trunks and (id in self._lost_on_trunks or self._waits_for_island(id)):
                continue
            if not self.excused.get((name, id)) and self._waits(name, id) is None:
                at = min(takers.values())
                self._violate("nothing held is lost", f"event {id}, taken at {at:.3f} s, never came", name)

    def _waits(self, name: str, id: EventId) -> str | None:
        """Whether an event broker that its client cannot reach still has it, if several coordinate."""
        for leader in self.leaders(self.configs):
            broker = self.node(leader).broker
            if self.configs[leader].meeting == "merge" or leader in self.islands[name] or broker is None:
                continue
            if is_queued(broker, name, id):
                return f"waits at {leader}"
        return None

    def _waits_for_island(self, id: EventId) -> bool:
        """Whether an event broker keeps it for another one, or is sending it there."""
        for leader in self.leaders(self.configs):
            broker = self.node(leader).broker
            if broker is not None and id in broker.kept_for_others():
                return True
        return False

    def _is_far_behind(self, leader: str, client: str, id: EventId) -> bool:
        """Whether a session has had an event so much later that it takes this one for a duplicate. (`seen.py`)"""
        broker = self.node(leader).broker
        if broker is None or client not in self.configs or id in self.delivered[client]:
            return False
        had = [*self.delivered[client], *self._earlier[client], *queued_events(broker, client, id[0])]
        return any(publisher == id[0] and number >= id[1] + SEEN_WINDOW for publisher, number in had)

    def _may_be_overtaken(self, name: str, id: EventId) -> bool:
        """Whether a later event of the same publisher came first, from an event broker where this one did not wait.

        With coordinating event brokers, the later one may have come over another one.
        """
        if self.configs[name].meeting == "coordinate":
            return True
        later = [other for other in self.delivered[name] if other[0] == id[0] and other[1] > id[1]]
        return any(id not in waited for other in later for waited in self._behind.get((name, other), ()))


def copied(disk: Holdings) -> Holdings:
    """What is read from a disk after a crash: what a snapshot of it says."""
    read = Holdings()
    read.restore(disk.snapshot())
    return read


def islands_of(names: Iterable[str], links: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """For each node, all that it can reach, itself among them, by name."""
    reach: dict[str, list[str]] = {name: [] for name in names}
    for one, other in links:
        reach[one].append(other)
        reach[other].append(one)
    found: dict[str, tuple[str, ...]] = {}
    for name in reach:
        if name not in found:
            island, todo = {name: None}, [name]
            while todo:
                for other in reach[todo.pop()]:
                    if other not in island:
                        island[other] = None
                        todo.append(other)
            members = tuple(sorted(island))
            found |= dict.fromkeys(members, members)
    return found

"""A client with sessions at several brokers of a tree, and what befalls these brokers, drawn from a seed.

Replicas hang on a hub, so that none of them is on the way to another. One at a time (of three, sometimes two) crashes,
with or without its disk, or is out of the client's reach, for less than the client waits; then all settles.
"""

from functools import partial
from random import Random
from typing import Any

from godwit.broker import Broker, BrokerConfig, Limits
from godwit.broker.effects import Notify
from godwit.client import Client, ClientConfig, MergeBounds, ReplicaConfig, ReplicatedClient
from godwit.filters import parse
from godwit.mobility import mobile_broker
from godwit.simulator.replication_checkers import EventId, History
from godwit.simulator.world import World
from godwit.trace import Record

BOUNDS = MergeBounds(ask_after_s=1.0, give_up_s=20.0)
EVENTS = 150
INTERVAL_S = 0.2
FAULT_S_MAX = 4.0
SETTLES_S = 5.0
DRAINS_S = 120.0  # a window of two deliveries over a slow way
WANTED = parse("value < 60")
KINDS = ("crash", "crash_diskless", "partition")


class Overlay:
    """The run of one seed."""

    def __init__(
        self, seed: int, filter: str = "complete", kinds: tuple[str, ...] = KINDS, publish: str | None = None
    ) -> None:
        random = self.random = Random(f"{seed}/overlay")
        self.world = World(seed)
        self.replicas = tuple(f"r{number}" for number in range(random.choice([2, 3])))
        self.sources = ("p", "q")
        self.publish = publish  # "all" or "one": the client with the replicas is the source, and p subscribes
        self.displayed: list[EventId] = []
        self.records: list[Record] = []
        self.published: set[EventId] = set()
        self.matching: set[EventId] = set()
        self.world.on_notify = self._on_notify
        self.world.on_record = lambda node, record, now: self.records.append(record)
        self._build(random)
        config = ReplicaConfig(
            filter=filter,  # type: ignore[arg-type]
            publish=publish or "all",  # type: ignore[arg-type]
            bounds=BOUNDS,
            client=ClientConfig(confirm_every=3),
        )
        self.world.add_client("ann", ReplicatedClient("ann", self.replicas, config))
        for replica in self.replicas:
            self.world.wire("ann", replica, random.uniform(0.001, 0.3), None)
            self.world.connect("ann", replica)
        for source in self.sources:
            self.world.add_client(source, Client(source))
            self.world.wire(source, f"b{source}", 0.01, None)
            self.world.connect(source, f"b{source}")
        subscriber = "ann" if publish is None else "p"
        self.world.command(subscriber, lambda machine, now: machine.subscribe("x", WANTED, now))
        self.world.run(3.0)
        end = self._plan_events(random)
        self._plan_faults(random, end, kinds)
        self.world.run(end + FAULT_S_MAX + SETTLES_S + DRAINS_S)

    def _build(self, random: Random) -> None:
        config = BrokerConfig(
            reduction=random.choice(["simple", "identity", "covering", "merging", "flooding"]),
            advertisements=random.choice(["off", "optional"]),
            limits=Limits(window=random.choice([2, 64])),
        )
        make: Any = random.choice([Broker, mobile_broker])
        leaves = (*self.replicas, *(f"b{source}" for source in self.sources))
        for name in ("hub", *leaves):
            neighbours = dict.fromkeys(leaves, 1.0) if name == "hub" else {"hub": 1.0}
            sync_s = random.choice([0.0, 0.01])
            self.world.add_broker(name, partial(make, name, neighbours, config), journaled=True, sync_s=sync_s)
        for leaf in leaves:
            self.world.wire("hub", leaf, random.uniform(0.001, 0.2), None)
            self.world.connect("hub", leaf)

    def _plan_events(self, random: Random) -> float:
        end = 3.0
        for source in self.sources if self.publish is None else ("ann",):
            at = 3.0
            for _ in range(EVENTS):
                at += random.expovariate(1 / INTERVAL_S)
                self.world.at(at, self._publish, source, random.randrange(100))
            end = max(end, at)
        return end

    def _plan_faults(self, random: Random, end: float, kinds: tuple[str, ...]) -> None:
        at = 3.0
        while at < end:
            at += random.uniform(0.5, 2.0)
            lasts = random.uniform(0.2, FAULT_S_MAX)
            befallen = random.sample(self.replicas, random.randint(1, len(self.replicas) - 1))
            for replica in befallen:
                kind = random.choice(kinds)
                self.world.at(at, self._begin, kind, replica)
                self.world.at(at + random.uniform(0.2, lasts), self._end, kind, replica)
            at += lasts + SETTLES_S

    # ------------------------------------------------------------ what happens

    def _publish(self, source: str, value: int, _: Any) -> None:
        def publish(machine: Any, now: float) -> list[Any]:
            id = (source, machine.sequence + 1)
            self.published.add(id)
            if value < 60:
                self.matching.add(id)
            effects: list[Any] = machine.publish({"value": value}, now)
            return effects

        self.world.command(source, publish)

    def _begin(self, kind: str, replica: str, _: Any) -> None:
        if kind == "partition":
            self.world.disconnect("ann", replica)
        else:
            self.world.crash(replica, keeps_disk=kind == "crash")

    def _end(self, kind: str, replica: str, _: Any) -> None:
        self.world.restart(replica)
        self.world.connect("hub", replica)
        self.world.connect("ann", replica)

    def _on_notify(self, client: str, notify: Notify, _now: float) -> None:
        self.displayed.append(notify.event.id)

    # ------------------------------------------------------------ what came of it

    def history(self) -> History:
        """As if one of the replicas had everything at any time: one always did."""
        return History(frozenset(self.matching), {"one of them": frozenset(self.published)}, tuple(self.displayed))

    def recorded(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record.kind in kinds]

"""Clients of the workload: the first requests of publishers and subscribers, and their publications.

*Theory.* Publishers are named `p0`, `p1`, and so on, subscribers `s0`, `s1`. A subscriber makes its subscriptions when
it connects, a publisher its advertisement, if advertisements are required. Publishers then publish at the times of a
Poisson process. For the measurements of [pubmob §4.1] a publisher also publishes *probes*: a few events after each
connection, to measure when its tree is complete.

*Rules.*
1. Each subscription has a stream for its filter, each publisher one for its times and one for its events.
2. With contexts, a random filter may also have a condition on the sender, and an event may be addressed
   (`ContextGenerator`).
"""

import json
from random import Random

from godwit.filters.filters import TRUE
from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.context_generator import ContextGenerator
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import Scenario
from godwit.simulator.wires import Wire
from godwit.simulator.workloads import Workload
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["WorkloadClients"]

ADVERTISEMENT = "all"
BY_COMING = (
    "*"  # the advertisement of everything that a publisher makes when it connects, if advertisements are optional
)


class WorkloadClients:
    """The publishers and subscribers of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
        requests: ClientRequests,
        recorder: Recorder,
        workload: Workload,
        contexts: ContextGenerator | None,
    ) -> None:
        self.workload = workload
        self._scenario = scenario
        self._streams = streams
        self._world = world
        self._network = network
        self._population = population
        self._requests = requests
        self._recorder = recorder
        self._contexts = contexts
        self._subscriptions = 0  # made so far
        self._numbers = {name: k for k, name in enumerate(population.publishers)}
        population.after_connecting.append(self._ask_first)
        if scenario.clients.probes.count:
            population.on_connected.append(self._plan_probes)

    def plan(self) -> None:
        """Schedule the publications."""
        clients, ends_s = self._scenario.clients, self._scenario.publishing_ends_s
        for name in self._population.publishers if clients.publish_per_s > 0 else ():
            at, count, times = self._scenario.run.warmup_s, 0, self._streams.stream("publishing", name)
            while (at := at + times.expovariate(clients.publish_per_s)) < ends_s:
                if clients.events is not None and count >= clients.events:
                    break
                self._world.clock.call_at(at, self.publish, name, count)
                count += 1

    # ------------------------------------------------------------ requests

    def _ask_first(self, name: str) -> None:
        """The requests of a client at its first connection."""
        if name in self._numbers:
            if self._scenario.routing.advertisements == "required":
                self.advertise(name)
            elif self._scenario.routing.advertisements == "optional" and self._scenario.routing.has_advertisements:
                self._requests.note("advertisement", name, BY_COMING, TRUE)
        elif name in self._population.subscribers:
            for _ in range(self._scenario.clients.subscriptions):
                self.subscribe(name)

    def subscribe(self, name: str, subscription: str | None = None) -> None:
        """A client makes the next subscription of the workload, or replaces one by it."""
        k = self._subscriptions
        self._subscriptions += 1
        filter = self.workload.filter(k, self._streams.single_use("filter", str(k)))
        if self._contexts is not None:
            filter = self._contexts.narrowed(filter)
        self._requests.subscribe(name, subscription or f"sub{k}", filter)

    def advertise(self, name: str, variant: int = 0) -> None:
        """A publisher advertises what it publishes: exactly, or in a wider variant."""
        self._requests.advertise(name, ADVERTISEMENT, self.workload.advertisement(self._numbers[name], variant))

    def publish(self, name: str, number: int) -> None:
        """A publisher publishes its event of that number."""
        rng = self._streams.stream("content", name)
        attributes = self.workload.attributes(self._numbers[name], number, rng)
        self._requests.publish(name, attributes, None if self._contexts is None else self._contexts.meant())

    # ------------------------------------------------------------ probes

    def _plan_probes(self, name: str) -> None:
        """A publisher has connected: it publishes probes. [pubmob §4.1]"""
        probes = self._scenario.clients.probes
        if name not in self._numbers or self._world.now < probes.from_s:
            return
        wire = self._world.nodes[name].wires[self._population.homes[name]]
        for i in range(probes.count):
            at = self._world.now + (probes.first_ms + i * probes.every_ms) / 1_000
            if at < self._scenario.publishing_ends_s:
                self._world.clock.call_at(at, self._probe, name, i + 1, wire, wire.connection)

    def _probe(self, name: str, i: int, wire: Wire, connection: int) -> None:
        if wire.connection != connection:  # it has moved on
            return
        number = self._network.client(name).sequence
        content = self.workload.attributes(self._numbers[name], number, Random(0))
        detail = json.dumps(content, sort_keys=True, default=str)
        record = Record("probed", wire.target.name, "", name, number + 1, number=i, detail=detail)
        self._recorder.record(name, record)
        self.publish(name, number)

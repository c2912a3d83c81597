"""Clients that walk on a movement graph and report their place to their broker. [rebeca §5]

*Theory.* A walker starts at a random place, stays there for at least `dwell_s` and on average `linger_s` longer, and
moves to a neighbouring place. Its filter changes with each step; the ledger records each as a replaced filter.

How is this checked? With flooding, an event reaches the border broker whatever the walker's place, and is tested there.
So the same run with flooding, the *twin*, has the expected deliveries. Without faults and bandwidths both runs have the
same times and must have the same deliveries. [rebeca §3.3, Fig. 4]

*Rules.*
1. A walker takes no step while it is away, none within `dwell_s` after it has reconnected, and none that its graph does
   not allow.
2. Walks have separate random streams: other clients do not change them.
"""

from typing import Protocol

from msgspec import structs

from godwit.filters.references import LOCATION
from godwit.filters.values import Value
from godwit.mobility.movement_graphs import MovementGraph
from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.ledger import EventId, Ledger
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Churn, Faults, Roaming, Scenario, SessionsSection
from godwit.simulator.summary import Violation
from godwit.simulator.world import World

__all__ = ["WalkingClients", "as_if_flooded", "twin_of"]


class WalkingClients:
    """Subscribers that walk on a movement graph."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
        requests: ClientRequests,
        graph: MovementGraph,
    ) -> None:
        self.graph = graph
        self.steps = 0
        self._scenario = scenario
        self._walking = scenario.clients.walking
        self._streams = streams
        self._world = world
        self._network = network
        self._walkers = dict.fromkeys(population.subscribers)
        self._requests = requests
        self._returned_at: dict[str, float] = {}
        population.before_connecting.append(self._start)
        population.on_return.append(self._on_return)

    def plan(self) -> None:
        """Schedule the first step of each walker."""
        for name in self._walkers:
            dwell_s = self._streams.stream("first-step", name).uniform(0, self._walking.dwell_s)
            self._world.clock.call_at(self._scenario.run.warmup_s + dwell_s, self._walk, name)

    def stand(self, name: str, place: Value) -> None:
        """A walker declares its place."""
        self._requests.move_to(name, place, self._walking.dwell_s if self._walking.declared else None)

    def _start(self, name: str) -> None:
        if name in self._walkers:
            self.stand(name, self._streams.single_use("start", name).choice(self.graph.places))

    def _on_return(self, name: str) -> None:
        self._returned_at[name] = self._world.now

    def _walk(self, name: str) -> None:
        """A walker takes a step, and will take another."""
        walking, now = self._walking, self._world.now
        client = self._network.client(name)
        neighbours = self.graph.after(client.context[LOCATION])  # type: ignore[arg-type]
        has_just_returned = now - self._returned_at.get(name, 0.0) < walking.dwell_s
        if neighbours and client.is_attached and not has_just_returned:
            self.steps += 1
            self.stand(name, self._streams.stream("step", name).choice(neighbours))
        at = now + walking.dwell_s
        if walking.linger_s:
            at += self._streams.stream("linger", name).expovariate(1 / walking.linger_s)
        if at < self._scenario.publishing_ends_s:
            self._world.clock.call_at(at, self._walk, name)


# ---------------------------------------------------------------- the twin


def twin_of(scenario: Scenario) -> Scenario | None:
    """The twin with flooding; None if times would differ or the bounds of movement do not hold."""
    clients, overlay, routing, faults = scenario.clients, scenario.overlay, scenario.routing, scenario.faults
    is_calm = structs.replace(faults, until_s=None) == Faults() and scenario.churn == Churn()
    is_calm = is_calm and scenario.sessions == SessionsSection() and not scenario.rights.is_on
    moves = clients.roaming != Roaming() or clients.disconnections.per_s > 0
    slow = overlay.bandwidth_kbps is not None or overlay.client_bandwidth_kbps is not None or overlay.disk_sync_ms > 0
    walking = clients.walking
    if not walking.graph or walking.rule != "bound" or moves or slow or routing.quenching or not is_calm:
        return None
    if routing.family == "tree" and routing.reduction != "flooding":
        return structs.replace(scenario, routing=structs.replace(routing, reduction="flooding", excess_max=0.0))
    if routing.family == "graph":
        anywhere = structs.replace(walking, rule="anything")
        return structs.replace(scenario, clients=structs.replace(clients, walking=anywhere))
    return None


class Deliveries(Protocol):
    """The deliveries of a finished run."""

    @property
    def subscribers(self) -> list[str]:
        """The clients that subscribe."""

    @property
    def ledger(self) -> Ledger:
        """What happened."""


def as_if_flooded(run: Deliveries, twin: Deliveries) -> list[Violation]:
    """The differences between the deliveries of a run and its twin.

    An addressed event may be delivered or not while the client's context changes (`ledger.py`), so it is left out then.
    """
    violations: list[Violation] = []
    for name in run.subscribers:
        got = {id: at for at, id, _ in run.ledger.deliveries.get(name, ())}
        owed = {id: at for at, id, _ in twin.ledger.deliveries.get(name, ())}
        for more, fewer, what in ((owed, got, "with flooding only"), (got, owed, "without flooding only")):
            violations += [
                Violation("as if flooded", f"event {id[1]} of {id[0]} came {what}", at, name)
                for id, at in more.items()
                if id not in fewer and not _is_unsure(run.ledger, name, id)
            ]
    return violations


def _is_unsure(ledger: Ledger, client: str, id: EventId) -> bool:
    """Whether an event is addressed, and its address was tested while the context of the client was changing."""
    fact, context = ledger.facts[id], ledger.contexts.get(client)
    return fact.event.to is not None and context is not None and not context.is_steady(fact)

"""Clients that walk over a movement graph and tell their broker where they are. [rebeca §5]

*Theory.* A walker starts at a place by lot, stays there for `dwell_s` at least and `linger_s` longer on average, and
takes a step to a neighbouring place. What it asks for changes with each step; the ledger hears of each as of a replaced
filter.

How is it judged? With flooding, an event reaches the border broker whatever the walker's place, and is tested there.
So the same run with flooding says what must come, event by event: the *twin*. Without faults, and where size does not
matter, both runs have the same times, and must have the same deliveries. [rebeca §3.3, Fig. 4]

*Rules.*
1. A walker takes no step while it is away, none within `dwell_s` after it has turned up again, and none to a place that
   its graph does not lead to.
2. Walks are drawn from generators of their own: who else lives there does not change them.
"""

from random import Random
from typing import Any

from msgspec import structs

from godwit.broker.effects import Effect
from godwit.client.client import Client
from godwit.filters.references import LOCATION
from godwit.filters.values import Value
from godwit.simulator.population import Population
from godwit.simulator.scenario import Churn, Faults, Roaming, Scenario, Sessions
from godwit.simulator.summary import Violation

__all__ = ["Walkers", "as_if_flooded", "twin_of"]


class Walkers(Population):
    """A stage with people on it, some of whom walk."""

    def _plan_walking(self) -> None:
        walking = self.scenario.clients.walking
        if not walking.graph:
            return
        for name in self.subscribers:
            rng = self.steps_of[name] = Random(f"{self.seed}/walking/{name}")
            self.world.at(self.scenario.run.warmup_s + rng.uniform(0, walking.dwell_s), self._walk, name)

    def _come(self, name: str, _b: Any, _c: Any) -> None:
        if self.ground is not None and name.startswith("s"):
            place = Random(f"{self.seed}/start/{name}").choice(self.ground.places)
            self._stand(name, place)
        super()._come(name, None, None)

    def _stand(self, name: str, place: Value) -> None:
        """A walker says where it is."""
        walking = self.scenario.clients.walking
        dwell_s = walking.dwell_s if walking.declared else None

        def move(client: Client, now: float) -> list[Effect]:
            return client.move_to(place, now, dwell_s=dwell_s)

        self.world.command(name, move)
        self._situated(name, LOCATION, {LOCATION: place})

    def _come_back(self, name: str, _b: Any, _c: Any) -> None:
        super()._come_back(name, None, None)
        self.turned_up[name] = self.world.now

    def _walk(self, name: str, _b: Any, _c: Any) -> None:
        """A walker takes a step, and will take another."""
        walking, rng = self.scenario.clients.walking, self.steps_of[name]
        assert self.ground is not None
        client = self.client(name)
        ways = self.ground.after(client.context[LOCATION])  # type: ignore[arg-type]
        is_new = self.world.now - self.turned_up.get(name, 0.0) < walking.dwell_s
        if ways and client.is_attached and not is_new:
            self.walked += 1
            self._stand(name, rng.choice(ways))
        at = self.world.now + walking.dwell_s + (rng.expovariate(1 / walking.linger_s) if walking.linger_s else 0.0)
        if at < self.scenario.publishing_ends_s:
            self.world.at(at, self._walk, name)


# ---------------------------------------------------------------- the twin


def twin_of(scenario: Scenario) -> Scenario | None:
    """The run that floods, if what it delivers must be delivered; None where times would differ or bounds not hold."""
    clients, overlay, routing, faults = scenario.clients, scenario.overlay, scenario.routing, scenario.faults
    is_calm = structs.replace(faults, until_s=None) == Faults() and scenario.churn == Churn()
    is_calm = is_calm and scenario.sessions == Sessions()
    moves = clients.roaming != Roaming() or clients.disconnections.per_s > 0
    slow = overlay.bandwidth_kbps is not None or overlay.client_bandwidth_kbps is not None or overlay.disk_sync_ms > 0
    walking = clients.walking
    has_gaps = routing.strategy == "spcf" and routing.matching == "hops"  # a step is a change of context
    if not walking.graph or walking.rule != "bound" or moves or slow or routing.quenching or has_gaps or not is_calm:
        return None
    if routing.family == "tree" and routing.reduction != "flooding":
        return structs.replace(scenario, routing=structs.replace(routing, reduction="flooding", excess_max=0.0))
    if routing.family == "graph":
        anywhere = structs.replace(walking, rule="anything")
        return structs.replace(scenario, clients=structs.replace(clients, walking=anywhere))
    return None


def as_if_flooded(run: Walkers, twin: Walkers) -> list[Violation]:
    """Where the deliveries of a run differ from those of its twin."""
    violations: list[Violation] = []
    for name in run.subscribers:
        got = {id: at for at, id, _ in run.ledger.deliveries.get(name, ())}
        owed = {id: at for at, id, _ in twin.ledger.deliveries.get(name, ())}
        for more, fewer, what in ((owed, got, "with flooding only"), (got, owed, "without flooding only")):
            violations += [
                Violation("as if flooded", f"event {id[1]} of {id[0]} came {what}", at, name)
                for id, at in more.items()
                if id not in fewer
            ]
    return violations

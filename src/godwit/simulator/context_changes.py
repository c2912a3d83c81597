"""Changes of contexts: clients declare a random context when they connect, and new ones from time to time.

*Theory.* `context_generator.py` generates contexts; this module decides which client declares one, and when. Changes
happen in the bursts of churn.

*Rules.*
1. Only publishers and subscribers of the workload have a random context; other clients declare their own.
"""

from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.context_generator import ContextGenerator
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.request_churn import burst_times
from godwit.simulator.scenario import Scenario
from godwit.simulator.world import World

__all__ = ["ContextChanges"]


class ContextChanges:
    """Clients that declare contexts."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        population: Population,
        requests: ClientRequests,
        generator: ContextGenerator,
    ) -> None:
        self._scenario = scenario
        self._times = streams.stream("context-change-times")
        self._choices = streams.stream("context-change-clients")
        self._world = world
        self._population = population
        self._requests = requests
        self.generator = generator
        self._clients = dict.fromkeys(population.members("all"))
        population.before_connecting.append(self._declare_first)

    def plan(self) -> None:
        """When a context changes."""
        churn, per_s = self._scenario.churn, self._scenario.contexts.changes_per_s
        begins_s, ends_s = self._scenario.run.warmup_s, self._scenario.publishing_ends_s
        for at in burst_times(churn, per_s, begins_s, ends_s, self._times):
            self._world.clock.call_at(at, self._change_one)

    def _declare_first(self, name: str) -> None:
        if name in self._clients:
            self._declare(name)

    def _change_one(self) -> None:
        name = self._choices.choice(list(self._clients))
        if self._requests.has_context(name):  # otherwise it has not connected yet
            self._declare(name)

    def _declare(self, name: str) -> None:
        self._requests.set_context(name, self.generator.context(self._population.homes[name]))

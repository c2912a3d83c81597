"""Churn of requests: subscriptions and advertisements that are made, replaced and withdrawn while a run goes on.

*Theory.* Changes happen in bursts with quiet times between: a request settles only when the network is quiet, and
unsettled requests owe nothing (`ledger.py`).

*Rules.*
1. An impossible change (no active subscription, advertisements are off) is left out.
"""

from collections.abc import Callable, Iterator
from random import Random

from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.ledger import Ledger
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Churn, Scenario
from godwit.simulator.workload_clients import ADVERTISEMENT, BY_COMING, WorkloadClients
from godwit.simulator.world import World

__all__ = ["RequestChurn", "burst_times"]

ADVERTISEMENT_VARIANTS = 3


def burst_times(churn: Churn, per_s: float, begins_s: float, ends_s: float, rng: Random) -> Iterator[float]:
    """The times of changes with that rate during bursts."""
    start = begins_s
    while per_s > 0 and start < ends_s:
        at = start
        while (at := at + rng.expovariate(per_s)) < min(start + churn.burst_s, ends_s):
            yield at
        start += churn.burst_s + churn.pause_s


class RequestChurn:
    """Clients that change their requests."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        population: Population,
        requests: ClientRequests,
        clients: WorkloadClients,
        ledger: Ledger,
    ) -> None:
        self._scenario = scenario
        self._streams = streams
        self._world = world
        self._population = population
        self._requests = requests
        self._clients = clients
        self._ledger = ledger
        self._has_advertisements = scenario.routing.has_advertisements

    def plan(self) -> None:
        """When something changes."""
        churn = self._scenario.churn
        rates: dict[str, tuple[Callable[[], None], float]] = {
            "subscribe": (self._subscribe, churn.subscribe_per_s),
            "unsubscribe": (self._unsubscribe, churn.unsubscribe_per_s),
            "replace": (self._replace, churn.replace_per_s),
            "advertise": (self._readvertise, churn.advertise_per_s),
        }
        begins_s, ends_s = self._scenario.run.warmup_s, self._scenario.publishing_ends_s
        for kind, (change, per_s) in rates.items():
            for at in burst_times(churn, per_s, begins_s, ends_s, self._streams.stream("churn-times", kind)):
                self._world.clock.call_at(at, change)

    def _subscribe(self) -> None:
        if self._population.subscribers:
            self._clients.subscribe(self._streams.stream("churn-subscribers").choice(self._population.subscribers))

    def _unsubscribe(self) -> None:
        if standing := self._requests.standing_subscriptions():
            self._requests.unsubscribe(*self._streams.stream("churn-unsubscribed").choice(standing))

    def _replace(self) -> None:
        if standing := self._requests.standing_subscriptions():
            self._clients.subscribe(*self._streams.stream("churn-replaced").choice(standing))

    def _readvertise(self) -> None:
        """A publisher withdraws its advertisement, makes it, or makes it wider or narrower."""
        publishers, made = self._population.publishers, self._ledger.advertisements
        if not self._has_advertisements or not publishers:
            return
        name = self._streams.stream("churn-publishers").choice(publishers)
        if (name, ADVERTISEMENT) not in made and (name, BY_COMING) not in made:
            return  # it has not connected yet
        history = made.get((name, ADVERTISEMENT))
        if (
            history is not None
            and history.filter is not None
            and self._streams.stream("churn-withdrawals", name).random() < 0.5
        ):
            self._requests.unadvertise(name, ADVERTISEMENT)
            return
        self._clients.advertise(name, self._streams.stream("churn-variants", name).randrange(ADVERTISEMENT_VARIANTS))
        if (name, BY_COMING) in made and made[name, BY_COMING].filter is not None:  # it now has an explicit one
            self._requests.note("advertisement", name, BY_COMING, None)

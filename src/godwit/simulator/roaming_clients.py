"""Clients that disconnect and reconnect: to the same broker, or to another one.

*Theory.* Disconnections are a Poisson process over all clients together. Moves are known before the run begins
(`movement_models.py`). In some modes a client announces its move: it repeats that until its broker has answered, and
moves without an answer after some attempts.

*Rules.*
1. All clients are connected again when faults end.
"""

from collections.abc import Iterable

from godwit.simulator.itineraries import Move, MovementSpace, joined_moves
from godwit.simulator.movement_models import planned_itineraries
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Scenario, places_of
from godwit.simulator.world import World

__all__ = ["DisconnectingClients", "RoamingClients"]

ANNOUNCED = ("explicit", "naive")  # modes in which a client can announce its move
ATTEMPTS_MAX = 20
SHORTEST_S = 0.05


class DisconnectingClients:
    """Clients that disconnect without notice, and reconnect to the same broker."""

    def __init__(self, scenario: Scenario, streams: RandomStreams, world: World, population: Population) -> None:
        self._scenario = scenario
        self._streams = streams
        self._world = world
        self._population = population

    def plan(self) -> None:
        """Schedule all disconnections and reconnections."""
        disconnections, ends_s = self._scenario.clients.disconnections, self._scenario.faults_end_s
        who, clock = self._population.members(disconnections.who), self._world.clock
        times, choices, lengths = (
            self._streams.stream(f"disconnection-{each}") for each in ("times", "clients", "lengths")
        )
        at = self._scenario.run.warmup_s
        while who and (at := at + times.expovariate(disconnections.per_s)) < ends_s:
            name = choices.choice(who)
            until = min(at + max(lengths.expovariate(1 / disconnections.lasts_s), SHORTEST_S), ends_s)
            clock.call_at(at, self._population.go_away, name)
            clock.call_at(until, self._population.come_back, name)


class RoamingClients:
    """Clients that move from broker to broker."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
    ) -> None:
        self.moves = 0
        self._roaming = scenario.clients.roaming
        overlay, warmup_s = scenario.overlay, scenario.run.warmup_s
        self._answer_s = min((4 * overlay.client_latency_ms + 2 * overlay.disk_sync_ms) / 1_000, warmup_s)
        self._streams = streams
        self._world = world
        self._network = network
        self._population = population
        space = MovementSpace(
            overlay=network.overlay,
            places=places_of(scenario, network.overlay),
            positions=overlay.positions,
            seed=seed,
            begins_s=warmup_s,
            ends_s=scenario.faults_end_s,
        )
        homes = {name: population.homes[name] for name in population.members(self._roaming.who)}
        planned = planned_itineraries(self._roaming, space, homes)
        population.homes.update((name, itinerary.home) for name, itinerary in planned.items())
        self.itineraries: dict[str, tuple[Move, ...]] = {name: each.moves for name, each in planned.items()}
        self.visits: dict[str, tuple[str, ...]] = {
            name: (each.home, *(move.to for move in joined_moves(each.moves))) for name, each in planned.items()
        }
        """By moving client, its brokers."""

    def plan(self) -> None:
        """Schedule all departures and arrivals."""
        for name, move in self._moves():
            clock = self._world.clock
            can_announce = self._network.client(name).config.mode in ANNOUNCED
            if can_announce and self._streams.stream("announcements", name).random() < self._roaming.announced:
                clock.call_at(move.leaves_s - self._answer_s, self._announce, name, move, ATTEMPTS_MAX)
                continue
            clock.call_at(move.leaves_s, self._leave, name, move.to)
            clock.call_at(move.arrives_s, self._population.come_back, name)

    def _moves(self) -> Iterable[tuple[str, Move]]:
        """All moves of all clients, in the order in which they begin."""
        moves = [(name, move) for name, moves in self.itineraries.items() for move in moves]
        return sorted(moves, key=lambda each: each[1].leaves_s)

    def _announce(self, name: str, move: Move, attempts: int) -> None:
        """A client announces its move until it is answered, and then leaves; or leaves without an answer."""
        clock = self._world.clock
        if attempts == 0 or self._network.client(name).connection is None:
            self._leave(name, move.to)
            clock.call_at(max(clock.now, move.arrives_s), self._population.come_back, name)
            return
        self._world.command(name, lambda client, now: client.move_out(now))
        clock.call_at(clock.now + self._answer_s, self._announce, name, move, attempts - 1)

    def _leave(self, name: str, to: str) -> None:
        self.moves += self._population.move_away(name, to)

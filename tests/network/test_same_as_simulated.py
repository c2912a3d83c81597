"""The same scenario in the simulator and on real sockets: every client gets the same events for each subscription.

The simulator runs the scenario, and what its clients do is written down. Then brokers that are made in the same way run
on sockets, and real clients do the same things in the same order, as fast as they can. Time is another, so events of
different publishers may come in another order; those of one may not.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from godwit.broker.effects import Effect
from godwit.broker.messages import EntryId
from godwit.broker.sessions import Sessions
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.runtime.network_client import NetworkClient
from godwit.simulator.broker_inspection import is_quiet
from godwit.simulator.client_requests import DEVICE
from godwit.simulator.ledger import EventId
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from tests.network.fleet import Fleet, fleet
from tests.network.waiting import a_turn, run, until
from tests.simulation.scenarios import GRAPH, TREE

Came = dict[tuple[str, str], dict[str, list[int]]]
"""By client and subscription, by publisher: the numbers of the events, as they came."""

ROAMING = [
    "run={warmup_s=3, duration_s=6, settle_s=30, leave=false}",
    "clients.roaming={who='all', per_s=4, away_s=0.3}",
    "clients.disconnections={per_s=1, lasts_s=0.5}",
]
SCENARIOS = {
    "tree": with_changes(TREE, ROAMING),
    "tree with advertisements": with_changes(TREE, [*ROAMING, "routing.advertisements=required"]),
    "tree that merges": with_changes(TREE, [*ROAMING, "routing.reduction=merging"]),
    "tree whose tables lead to sessions": with_changes(
        TREE,
        [
            *ROAMING,
            "routing.reduction=simple",
            "routing.advertisements=required",
            "clients.roaming.subscriber_mode=junction",
            "clients.roaming.publisher_mode=junction",
        ],
    ),
    "tree with sessions that go ahead": with_changes(
        TREE,
        [
            *ROAMING,
            "clients.roaming.away_s=0.8",
            "clients.roaming.subscriber_mode=presubscribe",
            "clients.roaming.publisher_mode=presubscribe",
        ],
    ),
    "tree of quiet publishers": with_changes(TREE, [*ROAMING, "routing.quenching=true"]),
    "graph": with_changes(GRAPH, ROAMING),
    "graph with contexts": with_changes(
        GRAPH,
        [
            *ROAMING,
            "contexts={attributes=2, values=4, sender_share=0.5, to_share=0.5}",
            "contexts.sender_selectivity=0.6",
            "contexts.to_selectivity=0.6",
        ],
    ),
}


class Recorded(Simulation):
    """A simulation that writes down what its clients do."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        super().__init__(scenario, seed)
        self.script: list[tuple[str, str, Any]] = []
        self.begins = 0  # where the warm-up ends
        noted = {"subscribe": "subscribe", "advertise": "advertise", "set_context": "context", "publish": "publish"}
        for method, what in noted.items():
            setattr(self.requests, method, self._noting(what, getattr(self.requests, method)))
        go_away = self.population.go_away

        def away(name: str) -> None:
            self._note("go away", name)
            go_away(name)

        self.population.go_away = away  # type: ignore[method-assign]
        self.population.on_return.append(self._come_back)

    def _noting(self, what: str, intact: Callable[..., None]) -> Callable[..., None]:
        def noted(name: str, *details: Any) -> None:
            self._note(what, name, *details, *([None] if what == "subscribe" and len(details) == 2 else []))
            intact(name, *details)

        return noted

    def _note(self, what: str, name: str, *details: Any) -> None:
        self.script.append((what, name, details))
        if self.world.now < self.scenario.run.warmup_s:
            self.begins = len(self.script)

    def _come_back(self, name: str) -> None:
        if self.population.away[name] == 0:
            self._note("come back", name, self.homes[name])

    def came(self) -> Came:
        found: Came = {}
        for client, deliveries in self.ledger.deliveries.items():
            for _, id, subscriptions in deliveries:
                for name in subscriptions:
                    _add(found, (client, name), id)
        return found


def _add(came: Came, who: tuple[str, str], id: EventId) -> None:
    came.setdefault(who, {}).setdefault(id[0], []).append(id[1])


class Played:
    """The script of a simulation, done by real clients."""

    def __init__(self, simulation: Recorded, homes: dict[str, str], every: Fleet) -> None:
        self.simulation, self.homes, self.every = simulation, homes, every
        self.came: Came = {}
        self._reading: list[asyncio.Task[None]] = []

    async def play(self, rng: Random) -> None:
        script, begins = self.simulation.script, self.simulation.begins
        for name, home in self.homes.items():
            await self.every.come(name, home, config=self.simulation.client(name).config)
        for what, name, details in script[:begins]:
            await self._do(what, self.every.clients[name], details)
        for client in self.every.clients.values():
            await client.drain()
        await self._quiet()
        for what, name, details in script[begins:]:
            await self._do(what, self.every.clients[name], details)
            for _ in range(rng.randrange(30)):
                await a_turn()
        for client in self.every.clients.values():
            await client.drain()
        expected = _count(self.simulation.came())
        await until(lambda: _count(self.came) >= expected, f"{expected} events have come")
        await self._quiet()
        await until(lambda: not any(len(each.queue) for each in self._sessions()), "all deliveries are confirmed")
        for task in self._reading:
            task.cancel()

    def _sessions(self) -> list[Any]:
        return [session for station in self.every.stations.values() for session in station.machine.sessions]

    async def _quiet(self) -> None:
        overlay, stations = self.simulation.overlay, self.every.stations.values()
        await until(
            lambda: all(is_quiet(station.machine, overlay, lambda *_: 0) for station in stations),
            "nothing of control is under way",
        )

    async def _do(self, what: str, client: NetworkClient, details: Any) -> None:
        match what, details:
            case "subscribe", (name, content, sender):
                self._reading.append(asyncio.create_task(self._read(client, name, content, sender)))
                await a_turn()
            case "advertise", (name, filter):
                await client.advertise(filter, name=name)
            case "context", (values,):
                client.set_context(values, part=DEVICE)
            case "publish", (attributes, to):
                client.publish(attributes, to=to)
            case "go away", _:
                await client.move()
            case _, (broker,):
                await client.move(self.every.door(broker))

    async def _read(self, client: NetworkClient, name: str, content: Filter, sender: Filter | None) -> None:
        async for event in await client.subscribe(content, name=name, sender=sender):
            _add(self.came, (client.machine.name, name), event.id)


def _count(came: Came) -> int:
    return sum(len(numbers) for publishers in came.values() for numbers in publishers.values())


def both(scenario: Any, seed: int, plant: Callable[[], None] = lambda: None) -> tuple[Came, Came, Fleet]:
    """What came in the simulator, and on real sockets."""
    simulation = Recorded(scenario, seed)
    homes = dict(simulation.homes)
    summary = simulation.run()
    assert not summary.violations
    plant()
    makes = {name: (lambda make=simulation.world.nodes[name].make: make(1)) for name in simulation.overlay.brokers}
    links = [(link.a, link.b) for link in simulation.overlay.links]
    found: list[tuple[Came, Fleet]] = []

    async def scene() -> None:
        async with fleet(links, makes=makes) as every:
            played = Played(simulation, homes, every)
            await played.play(Random(seed))
            found.append((played.came, every))

    run(scene)
    return simulation.came(), *found[0]


@pytest.mark.parametrize("name", SCENARIOS)
def test_clients_get_on_real_sockets_what_they_get_in_the_simulator(name: str) -> None:
    simulated, real, every = both(SCENARIOS[name], seed=1)
    assert real == simulated
    assert _count(real) > 100
    assert every.recorded("relocated") > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("name", SCENARIOS)
def test_so_it_is_for_other_seeds(name: str, seed: int) -> None:
    simulated, real, _ = both(SCENARIOS[name], seed)
    assert real == simulated


def test_brokers_that_deliver_too_much_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Sessions.deliver

    def to_all(sessions: Sessions, event: Event, wanting: list[EntryId], now: float) -> list[Effect]:
        wanting = [(session.client, name) for session in sessions for name in session.subscriptions]
        return deliver(sessions, event, wanting, now)

    simulated, real, _ = both(SCENARIOS["tree"], 1, plant=lambda: monkeypatch.setattr(Sessions, "deliver", to_all))
    assert real != simulated

"""The demonstration: clients connect, drive and publish; a broker is killed and restarts; deliveries are checked.

*Rules.*
1. The drives are played faster than they were recorded, so that cars often change brokers. In the mode that runs until
   Ctrl-C they are played forwards and backwards.
2. Cars whose broker is down connect to the next one, and wait there for their session until the old broker is up again.
3. At the end all clients stop publishing. The deliveries are checked when all have arrived, or when none has arrived
   for a while.
"""

import asyncio
import signal
import tempfile
from collections.abc import Callable
from itertools import cycle, repeat
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter
from typing import Any

from godwit.cli.fleet.broker_processes import start_all
from godwit.cli.fleet.cars import Member, MqttMember, NativeMember
from godwit.cli.fleet.fleet_ledger import FleetLedger, FleetVerdict
from godwit.cli.fleet.town import DURATION_S, HUB, OFFICE, Drive, drives, nearest
from godwit.cli.local_brokers import LocalBroker

__all__ = ["Fleet", "run"]

TICK_S = 0.25
DIES, RETURNS = 0.40, 0.55  # shares of the time
VICTIM = "east"
PATIENCE_S = 30.0
TOW_EVERY = 5  # every fifth car is a tow truck
MARKET = "circle(8.54, 47.375, 700)"


class Fleet:
    """The state of the running demonstration, as its screen shows it."""

    def __init__(self, brokers: dict[str, LocalBroker], seed: int) -> None:
        self.brokers = brokers
        self.ledger = FleetLedger()
        self.cars: dict[str, Member] = {}
        self.desks: dict[str, Member] = {}
        self.drives = {drive.car: drive for drive in drives()}
        self.news: list[str] = []
        self.moving: dict[str, asyncio.Task[None]] = {}
        self.going: dict[str, str] = {}  # car -> the broker it is moving to
        self.waited: list[float] = []  # hand-overs that had to wait for a broker which was down
        self.time = 0.0
        self.phase = "the brokers are up"
        self._rng = Random(seed)

    @property
    def dead(self) -> frozenset[str]:
        """The brokers that are down."""
        return frozenset(name for name, process in self.brokers.items() if not process.is_up)

    @property
    def map_address(self) -> str:
        """The URL of the map."""
        return f"http://{self.brokers[HUB].listens['http']}/dashboard/map"

    # ------------------------------------------------------------ coming in

    async def gather(self) -> None:
        """All clients connect and subscribe."""
        self.phase = "clients connect"
        for number, drive in enumerate(self.drives.values()):
            context = {"role": "tow" if number % TOW_EVERY == 0 else "taxi", "car": drive.car}
            kind = MqttMember if number % 2 else NativeMember
            car = self.cars[drive.car] = kind(drive.car, self.ledger, context)
            await car.go_to(self.brokers[nearest(drive.at(0.0))])
            if kind is MqttMember:
                await car.want("town/offers?price < 12")
                await car.want("town/jobs")
            else:
                await car.want("kind = 'offer' AND price < 12")
                await car.want("kind = 'job'")
                await car.want("kind = 'hazard' AND position WITHIN circle(myloc, 900)", is_fixed=False)
        for name, at, wants in (
            ("dispatch", "centre", ["kind = 'alert' AND level >= 3"]),
            ("market", "south", [f"kind = 'position' AND position WITHIN {MARKET}"]),
            ("towing", "west", ["kind = 'position' AND sender.role = 'tow' AND speed > 30"]),
        ):
            desk = self.desks[name] = NativeMember(name, self.ledger, {"role": "desk"})
            await desk.go_to(self.brokers[at])
            desk.is_at(OFFICE)
            for text in wants:
                await desk.want(text)
        radar = self.desks["radar"] = MqttMember("radar", self.ledger, {"role": "desk"})
        await radar.go_to(self.brokers["north"])
        await radar.want("fleet/+/position?speed > 55")

    # ------------------------------------------------------------ driving

    async def drive(self, seconds: float, on_tick: Callable[[], None], until: asyncio.Event | None = None) -> None:
        """Play the drives in this number of seconds: once, or back and forth until the event is set. (rule 1)"""
        self.phase = "driving" if until is None else "driving, until Ctrl-C"
        laps = repeat(False, 1) if until is None else cycle([False, True])
        for is_back in laps:
            await self._lap(seconds, on_tick, is_back, until)
            if until is not None and until.is_set():
                return

    async def _lap(
        self, seconds: float, on_tick: Callable[[], None], is_back: bool, until: asyncio.Event | None
    ) -> None:
        began = perf_counter()
        story = [(DIES, self._kill), (RETURNS, self._return)]
        doing: list[asyncio.Task[None]] = []
        while (share := (perf_counter() - began) / seconds) < 1.0 and not (until is not None and until.is_set()):
            self.time = (1.0 - share if is_back else share) * DURATION_S
            while story and share >= story[0][0]:
                doing.append(asyncio.create_task(story.pop(0)[1]()))
            for name, car in self.cars.items():
                self._step(car, self.drives[name])
            self._talk()
            on_tick()
            await asyncio.sleep(TICK_S)
        await asyncio.gather(*doing)
        if self.dead:
            await self._return()

    def _step(self, car: Member, drive: Drive) -> None:
        place = drive.at(self.time)
        to = nearest(place, car.at, self.dead)
        if to != car.at and car.name not in self.moving:
            self.moving[car.name] = asyncio.create_task(self._move(car, to))
        car.is_at(place)
        if self._rng.random() < 0.5:
            self._publish(car, "position", place, speed=drive.speed_kmh(self.time))
        if self._rng.random() < 0.02:
            self._publish(car, "alert", place, level=self._rng.randint(1, 5))

    async def _move(self, car: Member, to: str) -> None:
        self.going[car.name] = to
        waits = bool(self.dead)
        try:
            await car.go_to(self.brokers[to])
        finally:
            del self.moving[car.name], self.going[car.name]
        if waits or self.dead:
            self.waited.append(car.hand_overs_s.pop())

    @staticmethod
    def _publish(car: Member, kind: str, place: tuple[float, float], **more: Any) -> None:
        position = {"lon": place[0], "lat": place[1]}
        car.publish({"topic": f"fleet/{car.name}/{kind}", "kind": kind, "position": position, **more})

    def _talk(self) -> None:
        """The events that desks publish."""
        dispatch, rng = self.desks["dispatch"], self._rng
        dispatch.publish({"topic": "town/offers", "kind": "offer", "price": rng.randint(5, 30)})
        if rng.random() < 0.3:
            dispatch.publish({"topic": "town/jobs", "kind": "job", "job": rng.randrange(1_000)}, to="role = 'tow'")
        if rng.random() < 0.3:
            lon, lat = rng.uniform(8.515, 8.565), rng.uniform(47.36, 47.39)
            position = {"lon": round(lon, 5), "lat": round(lat, 5)}
            dispatch.publish({"topic": "town/hazards", "kind": "hazard", "position": position})

    async def _kill(self) -> None:
        await self.brokers[VICTIM].stop(signal.SIGKILL)
        self.news.append(f"{VICTIM} was killed (SIGKILL): its cars go to the next broker and wait for their sessions")

    async def _return(self) -> None:
        await self.brokers[VICTIM].start()
        self.news.append(f"{VICTIM} is back, from its journal: sessions move on to their cars")

    # ------------------------------------------------------------ the end

    async def settle(self, on_tick: Callable[[], None]) -> FleetVerdict:
        """Wait until all deliveries have arrived, or none has for a while. (rule 3)"""
        self.phase = "publishing has stopped; waiting for the last deliveries"
        on_tick()
        everybody = [*self.cars.values(), *self.desks.values()]
        await asyncio.gather(*self.moving.values())
        await asyncio.gather(*(member.flushed() for member in everybody))
        missing, since = self.ledger.missing(), perf_counter()
        while missing and perf_counter() - since < PATIENCE_S:
            await asyncio.sleep(TICK_S)
            on_tick()
            if (now := self.ledger.missing()) != missing:
                missing, since = now, perf_counter()
        await asyncio.sleep(2 * TICK_S)  # a duplicate would arrive after the last delivery
        self.phase = "all deliveries have arrived; the brokers stop" if not missing else "the deliveries are checked"
        on_tick()
        return self.ledger.verdict()

    def hand_overs_ms(self) -> list[float]:
        """The duration of each hand-over, while every broker was up."""
        return sorted(1_000 * taken for car in self.cars.values() for taken in car.hand_overs_s)

    def receipts(self) -> dict[str, int]:
        """The reports to clients about events that arrived while they were between brokers."""
        told = {"receipts": 0, "replayed": 0, "purged": 0, "expired": 0, "lost, by receipts": 0}
        for member in self.cars.values():
            if isinstance(member, NativeMember):
                for receipt in member.receipts():
                    told["receipts"] += 1
                    told["replayed"] += receipt.replayed
                    told["purged"] += sum(receipt.purged.values())
                    told["expired"] += receipt.expired
                    told["lost, by receipts"] += len(receipt.lost) + receipt.lost_more
        return told


def percentile(values: list[float], share: int) -> float:
    """A percentile."""
    return values[0] if len(values) == 1 else quantiles(values, n=100, method="inclusive")[share - 1]


async def run(
    seconds: float,
    seed: int,
    on_tick: Callable[[Fleet], None],
    *,
    keep: bool = False,
    on_map: Callable[[str], object] | None = None,
) -> tuple[Fleet, FleetVerdict]:
    """Run the demonstration. `on_map` is called with the URL of the map, and cars then drive until Ctrl-C."""
    _end_with_brokers()
    until = None if on_map is None else _interrupted()
    with tempfile.TemporaryDirectory(prefix="godwit-demo-", ignore_cleanup_errors=True) as folder:
        brokers = await start_all(Path(folder))
        fleet = Fleet(brokers, seed)
        try:
            on_tick(fleet)
            await fleet.gather()
            if on_map is not None:
                await asyncio.to_thread(on_map, fleet.map_address)
            await fleet.drive(seconds, lambda: on_tick(fleet), until)
            verdict = await fleet.settle(lambda: on_tick(fleet))
            for member in (*fleet.cars.values(), *fleet.desks.values()):
                await member.leave()
            if keep and until is None:
                fleet.phase = "the network stays up until Ctrl-C"
                on_tick(fleet)
                await _interrupted().wait()
        finally:
            await asyncio.gather(*(process.stop() for process in brokers.values()))
    return fleet, verdict


def _end_with_brokers() -> None:
    """Stop the brokers when the demonstration is stopped: the signal does not reach their processes."""
    task = asyncio.current_task()
    assert task is not None
    for each in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)


def _interrupted() -> asyncio.Event:
    """An event that the first Ctrl-C or SIGTERM sets. A second Ctrl-C ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        loop.remove_signal_handler(signal.SIGINT)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    return stopped

"""`make screenshots`: the pictures of the dashboard in the docs, of three brokers and a fleet that moves about."""

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from tests.browser.network import Broker, network
from tests.browser.stations import browser_page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CARS = 40
STEPS = 10
CENTRE = (10.75, 59.91)


class Fleet:
    """Cars that drive about and publish where they are, each at one of the brokers."""

    def __init__(self, cars: list[NetworkClient], drawn: Random) -> None:
        self.cars = cars
        self._drawn = drawn
        self._at = [[CENTRE[0] + drawn.gauss(0, 0.25), CENTRE[1] + drawn.gauss(0, 0.12)] for _ in cars]
        self._to = [(drawn.gauss(0, 0.02), drawn.gauss(0, 0.01)) for _ in cars]

    async def step(self) -> None:
        """One step of each."""
        for car, at, to in zip(self.cars, self._at, self._to, strict=True):
            at[0] += to[0] + self._drawn.gauss(0, 0.004)
            at[1] += to[1] + self._drawn.gauss(0, 0.002)
            place = {"lon": at[0], "lat": at[1]}
            car.set_context({"location": place})
            speed = round(30 + 40 * self._drawn.random(), 1)
            car.publish({"kind": "position", "zone": self._drawn.randrange(5), "speed": speed, "position": place})
        await asyncio.gather(*(car.flushed(60) for car in self.cars))


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        brokers = await stack.enter_async_context(network(Path(folder), "oslo", "bergen", "tromso"))
        page = await stack.enter_async_context(browser_page())
        drawn = Random(7)
        cars = [
            await stack.enter_async_context(connect(str(drawn.choice(brokers).native), name=f"car-{number}"))
            for number in range(CARS)
        ]
        screen = await stack.enter_async_context(connect(str(brokers[2].native), name="screen"))
        await screen.subscribe("kind = 'position' AND zone = 3 AND speed > 50", name="fast in zone 3")
        await taken(page, brokers, Fleet(cars, drawn))


async def taken(page: Any, brokers: list[Broker], fleet: Fleet) -> None:
    """Take every picture."""
    web = brokers[0].web
    await page.set_viewport_size({"width": 1100, "height": 760})
    for _ in range(STEPS):
        await fleet.step()
    at_oslo = next(car for car in fleet.cars if car.seeds[0] == brokers[0].native)
    await at_oslo.publish({"kind": "position", "zone": 3, "speed": 42})
    event = f"{at_oslo.name}:{at_oslo.machine.sequence}"
    for name, path in {
        "why": f"why?event={event}&client=screen",
        "network": "network?broker=bergen",
        "here": "here",
        "live": "live?filter=speed%20%3E%2040&plot=speed",
    }.items():
        await page.goto(f"{web}/dashboard/{path}")
        await page.wait_for_timeout(1_000)
        for _ in range(STEPS if name == "live" else 0):
            await fleet.step()
            await page.wait_for_timeout(200)
        await page.wait_for_timeout(600)
        await page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

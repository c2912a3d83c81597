"""`make screenshots`: the pictures of the dashboard in the docs, of three brokers and a fleet that moves about."""

import asyncio
import sys
import tempfile
from base64 import b64encode
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from tests.browser.network import network
from tests.browser.stations import browser_page
from tests.network.rights_broker import secured, user
from tests.network.waiting import pause

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CARS = 40
STEP_S = 0.4
SIZE = {"width": 1_280, "height": 820}
CENTRE = (10.75, 59.91)


class Fleet:
    """Cars that drive about and publish where they are, each at one of the brokers."""

    def __init__(self, cars: list[NetworkClient], drawn: Random) -> None:
        self.cars = cars
        self._drawn = drawn
        self._at = [[CENTRE[0] + drawn.gauss(0, 0.25), CENTRE[1] + drawn.gauss(0, 0.12)] for _ in cars]
        self._to = [(drawn.gauss(0, 0.02), drawn.gauss(0, 0.01)) for _ in cars]
        self._speeds = [drawn.uniform(30, 70) for _ in cars]

    async def step(self, number: int) -> None:
        """One step of one car."""
        car, at, to, drawn = self.cars[number], self._at[number], self._to[number], self._drawn
        at[0] += to[0] + drawn.gauss(0, 0.004)
        at[1] += to[1] + drawn.gauss(0, 0.002)
        speed = self._speeds[number] = min(80.0, max(20.0, self._speeds[number] + drawn.gauss(0, 4)))
        place = {"lon": at[0], "lat": at[1]}
        car.set_context({"location": place})
        about = {"kind": "position", "car": number, "zone": drawn.randrange(5), "speed": round(speed, 1)}
        await car.publish({**about, "position": place})

    async def drive(self) -> None:
        """Step after step."""
        while True:
            for number in range(len(self.cars)):
                await self.step(number)
                await pause(STEP_S / len(self.cars))


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = await stack.enter_async_context(network(folder, "oslo", "bergen", "tromso"))
        page = await stack.enter_async_context(browser_page(viewport=SIZE))
        drawn = Random(7)
        cars = [
            await stack.enter_async_context(connect(str(drawn.choice(brokers).native), name=f"car-{number}"))
            for number in range(CARS)
        ]
        screen = await stack.enter_async_context(connect(str(brokers[2].native), name="screen"))
        await screen.subscribe("kind = 'position' AND zone = 3 AND speed > 50", name="fast in zone 3")
        await screen.subscribe("kind = 'position' AND zone < 2", name="old town")
        fleet = Fleet(cars, drawn)
        for number in range(CARS):
            await fleet.step(number)
        driven = asyncio.create_task(fleet.drive())
        slow = await stack.enter_async_context(connect(str(brokers[0].native), name="van"))
        await slow.publish({"kind": "position", "zone": 3, "speed": 42})
        await taken(page, brokers[0].web, f"van:{slow.machine.sequence}")
        driven.cancel()
        await users_taken(page, folder)


async def taken(page: Any, web: str, event: str) -> None:
    """Take every picture but that of users."""
    filter, other = quote("speed > 40 AND zone < 3"), quote("zone < 2")
    for name, (path, seconds, height) in {
        "why": (f"why?event={event}&client=screen", 2, 820),
        "network": ("network?broker=bergen", 8, 1_150),
        "live": (f"live?filter={quote('car = 7')}&plot=speed", 8, 820),
        "workbench": (f"workbench?filter={filter}&other={other}", 3, 1_000),
        "here": ("here", 3, 560),
        "sessions": ("sessions?search=screen&client=screen", 3, 640),
        "metrics": ("metrics", 30, 1_150),
    }.items():
        await page.set_viewport_size({**SIZE, "height": height})
        await page.goto(f"{web}/dashboard/{path}")
        await page.wait_for_selector("main h1")
        await page.wait_for_timeout(1_000 * seconds)
        await page.screenshot(path=IMAGES / f"{name}.png")
    await simulate_taken(page, web)
    await plan_taken(page, web)


async def simulate_taken(page: Any, web: str) -> None:
    """A short run of ferries, in its middle."""
    await page.goto(f"{web}/dashboard/simulate")
    await page.get_by_text("Change the scenario").click()
    box = page.get_by_label("TOML, as the guide")
    await page.wait_for_function("document.querySelector('textarea').value !== ''")
    await box.fill((await box.input_value()).replace("settle_s = 60", "settle_s = 10"))
    await page.get_by_text("Change the scenario").click()
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.wait_for_selector("canvas.graph")
    await page.wait_for_selector(".map .points")
    slider = page.get_by_role("slider")
    await slider.focus()
    for _ in range(5):
        await page.keyboard.press("PageUp")
    await page.set_viewport_size({**SIZE, "height": 1_400})
    await page.wait_for_timeout(2_000)
    await page.screenshot(path=IMAGES / "simulate.png")


async def plan_taken(page: Any, web: str) -> None:
    """The example, planned."""
    await page.goto(f"{web}/dashboard/plan")
    await page.get_by_role("button", name="Take the example").click()
    await page.get_by_text("ferries.csv").first.wait_for()
    await page.get_by_role("button", name="Plan", exact=True).click()
    await page.get_by_text("Mode ").first.wait_for()
    await page.get_by_text("8 brokers").first.click()  # folds the table of brokers
    await page.set_viewport_size({**SIZE, "height": 1_500})
    await page.evaluate("scrollTo(0, 0)")
    await page.wait_for_timeout(2_000)
    await page.screenshot(path=IMAGES / "plan.png")


async def users_taken(page: Any, folder: Path) -> None:
    """A right that is tried."""
    ann = user("ann", subscribe=["kind = 'parking' AND zone < 3"], publish=["kind = 'wish'"])
    root = user("root", (), ["*"], "admin = true")
    async with secured(folder, ann, root) as running:
        said = b64encode(b"root:root-password").decode()
        await page.set_viewport_size({**SIZE, "height": 420})
        await page.set_extra_http_headers({"authorization": f"Basic {said}"})
        await page.goto(f"http://{running.web}/dashboard/users")
        await page.get_by_label("Could").select_option("ann")
        await page.get_by_label("What").fill("kind = 'parking' AND cost < 3")
        await page.get_by_role("button", name="Test").click()
        await page.wait_for_selector(".verdict")
        await page.screenshot(path=IMAGES / "users.png")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

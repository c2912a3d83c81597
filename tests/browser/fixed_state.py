"""Three brokers in a fixed state, for tests that look at every page: the same clients and events each time."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from godwit.broker.messages import QueueRules
from godwit.filters.regions import circle
from godwit.filters.values import Point
from godwit.runtime.connecting import connect
from godwit.runtime.dashboard_settings import DashboardSettings
from tests.network.http_broker import Running, broker
from tests.network.waiting import until

PLACES = {"harbour": Point(10.74, 59.905), "station": Point(10.75, 59.911)}
STANDS = {"b1": Point(10.70, 59.92), "b2": Point(10.75, 59.91), "b3": Point(10.80, 59.92)}
CARS = {
    "ada": ("b1", 10.69, 59.925),
    "bo": ("b1", 10.71, 59.915),
    "cy": ("b2", 10.745, 59.912),
    "di": ("b3", 10.81, 59.922),
}
RADIUS_M = 1_500
EXAMPLES = {
    "why": [{"event": "ada:2", "client": "screen"}],
    "network": [{"broker": "b2"}],
    "map": [{"regions": "1", "client": "cy"}],
    "live": [{"filter": "speed > 40", "plot": "speed"}],
    "sessions": [{"client": "screen"}],
}
"""By page, what else its address may say."""

SHOWN = {"map": ".legend li", "live": "main form"}
"""By page that never stops asking, what is on it when it is complete."""


def settings(name: str) -> DashboardSettings:
    """What the operator of a broker has set."""
    at = STANDS[name]
    return DashboardSettings(position=at, area=circle(at.lon, at.lat, RADIUS_M), places=PLACES)


@asynccontextmanager
async def fixed_network() -> AsyncIterator[dict[str, Running]]:
    """Brokers in a row, with cars that stand still, a screen that is away, and events that it has and has not got."""
    async with AsyncExitStack() as stack:
        b1, _ = await stack.enter_async_context(broker("b1", {"b2": None}, dashboard=settings("b1")))
        b2, _ = await stack.enter_async_context(broker("b2", {"b1": b1.native, "b3": None}, dashboard=settings("b2")))
        b3, _ = await stack.enter_async_context(broker("b3", {"b2": b2.native}, dashboard=settings("b3")))
        brokers = {"b1": b1, "b2": b2, "b3": b3}
        for each in brokers.values():
            await each.ready()
        async with connect(b3.native, name="screen") as screen:
            await screen.subscribe("kind = 'position' AND speed > 50", name="fast", queue=QueueRules(count_max=2))
            await screen.subscribe("position WITHIN circle(10.75, 59.91, 800)", name="near the station")
        await until(lambda: not b3.is_attached("screen"))
        for name, (at, lon, lat) in CARS.items():
            car: Any = await stack.enter_async_context(connect(brokers[at].native, name=name))
            await car.set_context({"location": {"lon": lon, "lat": lat}, "role": "taxi"})
            for speed in (35, 48, 63):
                place = {"lon": lon, "lat": lat}
                await car.publish({"kind": "position", "zone": 3, "speed": speed, "position": place})
        await until(lambda: b3.http.activity.counts.get("purged", 0) > 0)
        yield brokers


async def page_names(page: Any) -> list[str]:
    """The pages of the dashboard, by the menu."""
    links = await page.locator("nav[aria-label=Pages] a").evaluate_all("links => links.map((link) => link.pathname)")
    return [path.removeprefix("/dashboard/") for path in links]


async def complete(page: Any, name: str) -> None:
    """Until a page shows all that it asks for."""
    if name in SHOWN:
        await page.wait_for_selector(SHOWN[name])
    else:
        await page.wait_for_load_state("networkidle")

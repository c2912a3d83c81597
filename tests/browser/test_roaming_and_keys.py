"""All pages while cars roam over a network of three brokers, and pages that are used with the keyboard alone."""

import asyncio
from typing import Any

from godwit.runtime.connecting import connect
from tests.browser.fixed_state import complete, fixed_network
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import PAGES, chain, dashboard, show, shows
from tests.network.http_broker import Running
from tests.network.waiting import pause, until

PACE_S = 0.1  # between two moves of a car: pages need a part of the processor, too
TABS_MAX = 80


async def roam(car: Any, brokers: list[Running], number: int) -> None:
    """From broker to broker, and everywhere an event."""
    at = number
    while True:
        await pause(PACE_S)
        at += 1
        await car.move(brokers[at % len(brokers)].native)
        await car.attached(60)
        place = {"lon": 10.7 + at % 7 / 100, "lat": 59.9}
        await car.set_context({"location": place})
        await car.publish({"kind": "position", "car": number, "zone": at % 5, "position": place})


def test_every_page_is_shown_while_cars_roam_over_three_brokers() -> None:
    async def scene() -> None:
        async with (
            chain() as brokers,
            connect(brokers[0].native, name="car-0") as a,
            connect(brokers[1].native, name="car-1") as b,
            connect(brokers[2].native, name="car-2") as c,
            dashboard(brokers[0].url) as page,
        ):
            for car in (a, b, c):
                await car.subscribe("kind = 'position'", name="all")
            roaming = [asyncio.create_task(roam(car, list(brokers), at)) for at, car in enumerate((a, b, c))]
            try:
                for name in PAGES:
                    await shown_while_they_move(page, name, brokers)
                    assert not any(task.done() for task in roaming)
                    assert await page.locator(".problem").count() == 0, name
                    if name in SHOWN:
                        await page.wait_for_selector(SHOWN[name])
            finally:
                for task in roaming:
                    task.cancel()
                await asyncio.gather(*roaming, return_exceptions=True)

    run(scene())


async def shown_while_they_move(page: Any, name: str, brokers: tuple[Running, ...]) -> None:
    """Show a page, until a car has come to another broker since."""
    moved = relocated(brokers)
    await show(page, name)
    await until(lambda: relocated(brokers) > moved)


SHOWN = {
    "why": "[aria-label=Events] a",
    "network": "[aria-label=Brokers] a",
    "map": ".legend li",
    "here": "text=position",
    "sessions": "[aria-label=Sessions] tbody tr",
    "metrics": ".plot canvas",
}
"""By page, what is on it only when brokers have answered."""


def relocated(brokers: tuple[Running, ...]) -> int:
    """How often a client has come to one of these from another."""
    return sum(each.http.activity.counts.get("relocated", 0) for each in brokers)


FOCUSED = """
    (([at]) => at.matches("a, button, input, select") ? (at.labels?.[0] ?? at).innerText.split("\\n")[0].trim() : "")(
        [document.activeElement])
"""


async def tab_to(page: Any, text: str) -> None:
    """Press Tab until the link, button or field of that name has the focus."""
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        if await page.evaluate(FOCUSED) == text:
            return
    raise AssertionError(f"{text!r} cannot be reached with Tab")


def test_an_event_and_a_client_are_picked_and_explained_with_the_keyboard_alone() -> None:
    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            await show(page, "why")
            await complete(page, "why")
            event = await page.locator(".events a").first.inner_text()
            await tab_to(page, event)
            await page.keyboard.press("Enter")
            await page.wait_for_selector("[aria-label=Who] a")
            await tab_to(page, "screen")
            await page.keyboard.press("Enter")
            await page.wait_for_selector(".verdict")
            await tab_to(page, "The session of screen")
            await page.keyboard.press("Enter")
            await shows(page, "Why did screen not get an event?")

    run(scene())


def test_the_tables_of_a_broker_and_a_session_are_reached_with_the_keyboard_alone() -> None:
    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            await show(page, "network")
            await page.wait_for_selector("[aria-label=Brokers] a")
            await tab_to(page, "b2")
            await page.keyboard.press("Enter")
            await shows(page, "Tables of b2")
            await page.wait_for_selector("[aria-label='Routing table'] a")
            await tab_to(page, "Entries that lead to")
            await page.keyboard.type("clients")  # of a list that has the focus, this picks an entry
            await page.wait_for_url("**local=yes**")
            await page.wait_for_selector("text=client here")
            await tab_to(page, "client here")
            await page.keyboard.press("Enter")
            await page.get_by_role("heading", name="Sessions").wait_for()
            await page.wait_for_selector("[aria-label=Sessions] a")
            await tab_to(page, "screen")
            await page.keyboard.press("Enter")
            await shows(page, "near the station")

    run(scene())


NUMBER = """() => {
    const all = "main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])";
    const found = [...document.querySelectorAll(all)].filter((each) => each.checkVisibility() && !each.disabled);
    found.forEach((each, at) => (each.dataset.number = at));
    return found.map((each) => `${each.tagName} ${(each.textContent || each.ariaLabel || each.name).trim()}`);
}"""
FOCUSED_NUMBER = """() => {
    const { outlineStyle } = getComputedStyle(document.activeElement);
    return [Number(document.activeElement.dataset.number ?? -1), outlineStyle];
}"""


def test_all_that_can_be_used_on_a_page_is_reached_with_the_tab_key_and_shows_that_it_is() -> None:
    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            for name in PAGES:
                await show(page, name)
                await complete(page, name)
                wanted = await page.evaluate(NUMBER)
                assert wanted or name == "users", name  # a broker without users has nothing to choose from
                reached = set()
                for _ in range(len(wanted) + len(PAGES) + 10):  # the menu comes first
                    await page.keyboard.press("Tab")
                    number, outline = await page.evaluate(FOCUSED_NUMBER)
                    assert number < 0 or outline != "none", f"{name}: the focus on {wanted[number]} is not seen"
                    reached.add(number)
                assert [each for at, each in enumerate(wanted) if at not in reached] == [], name

    run(scene())

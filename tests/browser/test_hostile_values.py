"""Values that are meant to harm: every page that shows events shows them as text, cut where they are long."""

from typing import Any

import pytest

from godwit.errors import GodwitError
from godwit.filters.values import TEXT_LENGTH_MAX
from godwit.runtime.connecting import connect
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import HOSTILE, PAGES, PHONE, dashboard, fits, show, shows, verdict
from tests.browser.test_live_page import is_wanted
from tests.network.http_broker import broker
from tests.network.waiting import until

MEGABYTE = 2**20
LONG = [f"{n:02}{'x' * (TEXT_LENGTH_MAX - 2)}" for n in range(MEGABYTE // TEXT_LENGTH_MAX)]  # no value may be longer
PAGE_BYTES_MAX = 100_000  # of what is shown; the event has ten times as much


async def is_small(page: Any) -> bool:
    return len(await page.inner_text("main")) < PAGE_BYTES_MAX


def test_an_attribute_of_a_megabyte_is_cut_on_every_page_that_shows_events() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            await page.set_viewport_size(PHONE)
            await van.subscribe("long = 'short'", name="never")
            await show(page, "live", filter="long IS NOT NULL")
            await until(lambda: is_wanted(running.machine, "long IS NOT NULL"))
            await van.publish({"long": LONG, "which": "the last"})
            event = f"van:{van.machine.sequence}"
            await shows(page, "the last")
            assert await is_small(page)
            assert await fits(page)
            for name, parameters in (("why", {}), ("here", {}), ("workbench", {"filter": "long IS NOT NULL"})):
                await show(page, name, **parameters)
                await shows(page, "the last")
                assert await is_small(page), name
                assert await fits(page), name
            assert "does not hold" in await verdict(page, event, "van")
            assert "the last" in await page.locator(".hop").first.inner_text()
            assert await is_small(page)

    run(scene())


def test_a_text_of_a_megabyte_is_refused_and_the_page_says_why() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "live")
            await page.get_by_text("Publish an event").click()
            await page.get_by_label("Attributes").fill('{"long": "' + MEGABYTE * "x" + '"}')
            await page.get_by_role("button", name="Publish").click()
            await shows(page, f"a text of {MEGABYTE} characters: at most {TEXT_LENGTH_MAX} are allowed")

    run(scene())


def test_nan_is_a_text_or_nothing() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            with pytest.raises(GodwitError, match="not a finite number"):
                await van.publish({"n": float("nan")})
            assert (await client.post("/events", content=b'{"n": NaN}')).status_code == 400
            await show(page, "live")
            await until(lambda: is_wanted(running.machine, "TRUE"))
            await van.publish({"speed": "NaN", "limit": 50, "Infinity": "-Infinity"})
            row = page.locator("tbody tr")
            await row.wait_for()
            assert await row.locator(".pair").all_inner_texts() == ["speed NaN", "limit 50", "Infinity -Infinity"]
            assert await page.get_by_label("Plot").locator("option").all_inner_texts() == ["nothing", "limit"]
            await page.get_by_text("Publish an event").click()
            await page.get_by_label("Attributes").fill('{"n": NaN}')
            await page.get_by_role("button", name="Publish").click()
            await page.locator("form .fails").get_by_text("NaN").wait_for()
            for name in ("why", "here", "workbench"):
                await show(page, name, filter="speed = 'NaN'")
                await shows(page, "NaN")

    run(scene())


NAME = "<img src=x onerror=\"document.title='taken'\"><b onclick=alert(1)>\u202evan</b>"
FILTER = "driver = '<script>document.title = 1</script>'"
MADE = "main :is(script, b[onclick], img, i.made)"
"""Elements that only a value which was read as HTML could make: no page has any of its own."""


def test_no_page_makes_elements_of_what_clients_say() -> None:
    addresses = {"network": {"broker": "b1"}, "map": {"client": NAME, "regions": "1"}, "sessions": {"client": NAME}}
    addresses["live"] = addresses["workbench"] = {"filter": "kind IS NOT NULL"}
    seen = {
        "why": NAME,
        "network": FILTER,
        "live": "<script>document.title",
        "workbench": "<i class=made>",
        "here": "<i class=made>",
        "sessions": FILTER,
    }

    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name=NAME) as van,
            dashboard(running.url) as page,
        ):
            await page.set_viewport_size(PHONE)
            await van.subscribe(FILTER, name="<i class=made>all</i>")
            await van.set_context({"location": {"lon": 8.5, "lat": 47.3}, "<i class=made>": "<i class=made>"})
            event = {**HOSTILE, "kind": "<i class=made>", "<i class=made>name</i>": 1}
            await van.publish(event)
            for name in PAGES:
                await show(page, name, **addresses.get(name, {}))
                if name == "live":
                    await until(lambda: is_wanted(running.machine, "kind IS NOT NULL"))
                    await van.publish(event)
                if name == "map":
                    await page.get_by_text("Clients as a table").click()
                    await page.get_by_role("cell", name=NAME).wait_for()
                elif name in seen:
                    await page.get_by_text(seen[name]).locator("visible=true").first.wait_for()
                assert await page.locator(MADE).count() == 0, name
                assert (await page.title()).endswith(" · Godwit"), name
                assert await fits(page), name

    run(scene())


def test_an_element_that_a_value_makes_is_noticed() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "users")
            await page.evaluate("document.querySelector('main').innerHTML += '<i class=made>taken</i>'")
            assert await page.locator(MADE).count() == 1

    run(scene())

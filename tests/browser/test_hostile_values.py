"""Values that are meant to harm: every page that shows events shows them as text, cut where they are long."""

from typing import Any

import pytest

from godwit.errors import GodwitError
from godwit.filters.values import TEXT_LENGTH_MAX
from godwit.runtime.connecting import connect
from tests.browser.test_dashboard import PHONE, dashboard, fits, show, shows, verdict
from tests.browser.test_live_page import is_wanted
from tests.network.http_broker import broker
from tests.network.waiting import run, until

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

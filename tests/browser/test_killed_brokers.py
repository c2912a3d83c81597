"""Brokers that are killed while a page is open: every page of the dashboard says so, and recovers without a reload."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.browser.fixed_state import page_names
from tests.browser.kept_browser import run
from tests.browser.network import network
from tests.browser.test_dashboard import dashboard, show, shows

UNREACHABLE = "cannot be reached"
MISSING = "1 of 2 brokers did not answer: b2."


class Opened(NamedTuple):
    """A page of the dashboard that is open while brokers are killed."""

    parameters: dict[str, str] = {}  # noqa: RUF012 (nobody changes it)
    asks_all: bool = True  # else it is about its own broker alone
    keeps_asking: bool = True  # else the head of the page alone says that the broker is gone


PAGES = {
    "why": Opened(),
    "network": Opened(),
    "map": Opened(),
    "live": Opened({"filter": "n > 1"}),
    "workbench": Opened({"filter": "n > 1"}),
    "here": Opened(),
    "sessions": Opened(),
    "metrics": Opened(),
    "users": Opened(asks_all=False, keeps_asking=False),
    "simulate": Opened(asks_all=False),
    "plan": Opened(asks_all=False),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_that_brokers_were_killed_and_recovers(name: str, tmp_path: Path) -> None:
    opened = PAGES[name]

    async def scene() -> None:
        async with network(tmp_path, "b1", "b2") as (b1, b2), dashboard(b1.web) as page:
            await show(page, name, **opened.parameters)
            await shows(page, "b1 ·")
            assert set(await page_names(page)) == set(PAGES)
            if opened.asks_all:
                await is_well(page)
                await b2.kill()
                await page.locator("main").get_by_text(MISSING).first.wait_for()
                await b2.start()
                await is_well(page)
            await b1.kill()
            await shows(page, "broker unreachable")
            if opened.keeps_asking:
                await page.locator("main [role=alert]", has_text=UNREACHABLE).first.wait_for()
            heading = await page.text_content("main h1")
            await b1.start()
            await shows(page, "b1 ·")
            await is_well(page)
            assert await page.text_content("main h1") == heading
            page.complaints.clear()  # the browser logs every request that failed

    run(scene())


async def is_well(page: Any) -> None:
    """Until a page says neither that its broker is gone nor that another does not answer."""
    for trouble in (UNREACHABLE, "did not answer"):
        await page.locator("main").get_by_text(trouble).first.wait_for(state="detached")


def test_a_question_that_is_asked_once_is_asked_again_until_it_is_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1") as (b1,), dashboard(b1.web) as page:
            await show(page, "plan")
            await shows(page, "b1 ·")
            await b1.kill()
            await page.get_by_role("link", name="Users").click()
            await page.locator("main [role=alert]", has_text=UNREACHABLE).wait_for()
            await b1.start()
            await is_well(page)
            await shows(page, "This broker has no user file")
            page.complaints.clear()

    run(scene())

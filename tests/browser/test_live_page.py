"""The Live page, a client of its broker: what it does when too many events match, as a user, and without its broker."""

from pathlib import Path
from typing import Any

from godwit.filters.language import parse
from godwit.runtime.connecting import connect
from tests.browser.kept_browser import run
from tests.browser.network import network
from tests.browser.stations import browser_page
from tests.browser.test_dashboard import dashboard, show, shows
from tests.network.http_broker import broker
from tests.network.rights_broker import secured, user
from tests.network.waiting import until

SAMPLING = "These are samples"
FULL_PER_S = 100  # as in live_feed.js
ONE_SECOND = "performance.now = () => 0"  # all that comes, comes in one second, however slow the machine is

MANY = """() => {
    const ask = window.fetch;
    window.fetch = async (address, options) => {
        const response = await ask(address, options);
        if (!String(address).includes("/everywhere/latest")) return response;
        const found = await response.json();
        for (const each of Object.values(found.answers)) each.per_s = 5000;
        return new Response(JSON.stringify(found));
    };
}"""
"""Brokers say that very many events match."""


def is_wanted(machine: Any, filter: str) -> bool:
    """Whether a session has a subscription with this filter."""
    wanted = (each.filter for session in machine.sessions for each in session.subscriptions.values())
    return parse(filter) in wanted


def test_samples_are_shown_and_said_to_be_samples_while_too_many_events_match() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            await page.add_init_script(ONE_SECOND)
            await show(page, "live", filter="n >= 0")
            await until(lambda: is_wanted(running.machine, "n >= 0"))
            for n in range(FULL_PER_S + 1):
                van.publish({"n": n})
            await shows(page, SAMPLING)
            await until(lambda: not is_wanted(running.machine, "n >= 0"))
            await van.publish({"n": 0, "which": "a sample"})
            await shows(page, "a sample")
            await page.get_by_text(SAMPLING).wait_for(state="detached")
            await until(lambda: is_wanted(running.machine, "n >= 0"))
            await van.publish({"n": 0, "which": "each one"})
            await shows(page, "each one")
            assert running.http.activity.observers == {}

    run(scene())


def test_a_page_that_is_opened_while_too_many_events_match_never_subscribes() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            await show(page, "users")
            await page.evaluate(MANY)
            await page.get_by_role("link", name="Live").click()
            await shows(page, SAMPLING)
            await van.publish({"n": 1, "which": "a sample"})
            await shows(page, "a sample")
            assert not any(session.subscriptions for session in running.machine.sessions)

    run(scene())


def test_the_page_is_a_client_of_the_user_who_has_logged_in_and_goes_with_its_page(tmp_path: Path) -> None:
    async def scene() -> None:
        root = user("root", ["*"], ["*"], "admin = true")
        login = {"username": "root", "password": "root-password"}
        async with secured(tmp_path, root) as running, browser_page(http_credentials=login) as page:
            sessions: Any = running.node.machine.sessions  # type: ignore[attr-defined]
            page.web = f"http://{running.web}"
            await show(page, "live", filter="n > 0")
            await until(lambda: is_wanted(running.node.machine, "n > 0"))
            [own] = sessions
            assert own.client.startswith("root/dashboard-")
            await page.get_by_text("Publish an event").click()
            await page.get_by_role("button", name="Publish").click()
            await shows(page, f"published as {own.client}:")
            await page.wait_for_selector("tbody tr")
            await page.get_by_role("link", name="Users").click()
            await until(lambda: not list(sessions))

    run(scene())


def test_a_broker_that_is_away_is_said_to_be_and_events_go_on_when_it_is_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1") as (b1,), dashboard(b1.web) as page:
            await show(page, "live", filter="kind = 'test'")
            await shows(page, "0 events")
            await page.get_by_text("Publish an event").click()
            for number in (1, 2):
                if number == 2:
                    await b1.kill()
                    await shows(page, "the broker cannot be reached")
                    await b1.start()
                    await page.get_by_role("alert").wait_for(state="detached")
                await page.get_by_role("button", name="Publish").click()
                await shows(page, f"{number} events")
                assert await page.locator("tbody tr").count() == number
            page.complaints.clear()  # the browser logs every request that failed

    run(scene())

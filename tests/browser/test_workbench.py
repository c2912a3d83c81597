"""The filter workbench in a real browser: what is wrong is marked, what is said is so, and it leads to Live."""

from typing import Any

from godwit.runtime.connecting import connect
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import PHONE, chain, dashboard, fits, show, shows
from tests.network.http_broker import broker
from tests.network.waiting import until

LANGUAGES = {  # a text, the filter that it is routed by, and whether an exact test remains
    "": ("speed > 80", "speed > 80", False),
    "xpath": ("/car[number(speed) > number(limit)]", "car IS NOT NULL", True),
    "xql": ("car[speed > 80]", "car/speed > 80", True),
    "cesql": ("speed > 80", "speed > 80 OR '+' <= speed < ':'", True),
    "cql2-text": ("speed > 80", "speed > 80", False),
}


async def status(page: Any) -> str:
    """What is said of the last events."""
    await page.get_by_role("status").filter(has_text="of the last").wait_for()
    return " ".join(str(await page.get_by_role("status").filter(has_text="of the last").text_content()).split())


def test_errors_are_marked_in_the_text_with_what_is_allowed() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "live")
            await page.get_by_role("link", name="Filter workbench").click()
            await page.wait_for_url("**/dashboard/workbench")
            await page.get_by_label("Filter", exact=True).fill("speed > 80 AND\nzone >")
            alert = page.get_by_role("alert")
            await alert.wait_for()
            said = " ".join(str(await alert.text_content()).split())
            assert "Line 2, column 7" in said
            assert "Allowed here:" in said
            assert await alert.locator("mark").count() == 1
            assert str(await alert.locator("pre").text_content()).strip() == "zone >"
            await page.get_by_role("button", name="Go to the place").click()
            assert await page.evaluate("document.activeElement.selectionStart") == len("speed > 80 AND\nzone >")
            await page.get_by_label("Filter", exact=True).fill("speed > 80 AND zone > 3")
            await shows(page, "none: the filter decides by itself")
            assert await alert.count() == 0
            await page.set_viewport_size(PHONE)
            assert await fits(page)

    run(scene())


def test_a_filter_of_any_language_is_shown_as_brokers_see_it_and_compared_with_another() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            for language, (text, routable, is_tested) in LANGUAGES.items():
                await show(page, "workbench", filter=text, language=language)
                await shows(page, "routed by")
                assert await page.locator(".says dd code").nth(1).text_content() == routable
                assert bool(await page.get_by_text("is tested once, at the edge").count()) is is_tested
            await show(page, "workbench", filter="speed > 50", other="speed > 80")
            await shows(page, "The filter covers the other")
            await page.get_by_label("Other filter", exact=True).fill("speed < 10")
            await shows(page, "They intersect")
            await shows(page, "an attribute may have several values")
            await page.get_by_label("Other filter", exact=True).fill("speed IS NULL")
            await shows(page, "They are disjoint")
            await show(page, "workbench", filter="zone = 3", other="zone = 4")
            await shows(page, "zone IN (3, 4)")

    run(scene())


def test_the_last_events_are_those_of_the_network_and_are_kept_while_the_page_is_open() -> None:
    async def scene() -> None:
        async with (
            chain() as (b1, b2, b3),
            connect(b1.native, name="van") as van,
            connect(b3.native, name="bus") as bus,
        ):
            for n in range(4):
                await van.publish({"n": n})
                await bus.publish({"n": 10 + n})
            assert not b1.http.activity.observers
            async with dashboard(b2.url) as page:
                await show(page, "workbench", filter="n > 1")
                assert (await status(page)).startswith("6 of the last 8 events would have been matched; they are kept")
                assert b1.http.activity.observers
                assert len(b3.http.inspection.workbench.recent) == 4
                await bus.publish({"n": 99, "driver": "<script>document.title = 'taken'</script>"})
                await shows(page, "driver <script>")
                assert await page.get_by_role("link", name=f"bus:{bus.machine.sequence}").count() == 1
                assert await page.title() == "Workbench · Godwit"

    run(scene())


def test_a_filter_is_compared_with_subscriptions_everywhere_and_subscribed_to_from_here() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b3.native, name="screen") as screen:
            await screen.subscribe("speed > 80", name="fast")
            await screen.subscribe("speed IS NULL", name="parked")
            async with dashboard(b1.url) as page:
                await show(page, "workbench", filter="speed > 50")
                await page.get_by_role("button", name="Subscriptions").click()
                await shows(page, "covers 1 · disjoint 1")
                await shows(page, "speed > 80")
                await page.get_by_role("link", name="Subscribe from here").click()
                assert await page.get_by_label("Filter").input_value() == "speed > 50"
                await until(lambda: any("speed" in str(each.subscriptions) for each in b1.machine.sessions))

    run(scene())


def test_a_subscription_from_here_keeps_its_language() -> None:
    async def scene() -> None:
        async with broker() as (running, client), dashboard(running.url) as page:
            await show(page, "workbench", filter="speed > limit", language="")
            await page.get_by_label("Language of the filter").select_option("cesql")
            await shows(page, "is tested once, at the edge")
            await page.get_by_role("link", name="Subscribe from here").click()
            assert await page.get_by_label("Language").input_value() == "cesql"
            await until(lambda: any(each.notes for each in running.machine.sessions))
            for speed in (40, 60):
                said = {"specversion": "1.0", "id": "1", "source": "/van", "type": "t", "speed": speed, "limit": 50}
                kind = {"content-type": "application/cloudevents+json"}
                assert (await client.post("/events", json=said, headers=kind)).status_code == 202
            await page.wait_for_selector("tbody tr")
            assert await page.locator("tbody tr").count() == 1
            await shows(page, "60")

    run(scene())


def test_a_filter_on_the_own_context_asks_for_one() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            for floor in (1, 2, 2):
                await van.publish({"floor": floor})
            await show(page, "workbench", filter="floor = my.floor")
            await shows(page, "my.floor of the subscriber's own context")
            await page.get_by_label("Context of the subscriber").fill('{"floor": 2}')
            assert "2 of the last 3 events" in await status(page)
            page.complaints.clear()  # the browser logs that the question without a context was refused

    run(scene())

"""The page Why? in a real browser: what is written by hand, what rests on record, and reasons a stranger finds."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.messages import QueueRules
from godwit.errors import Refused
from godwit.runtime.connecting import connect
from tests.browser.kept_browser import run
from tests.browser.stations import browser_page
from tests.browser.test_dashboard import PHONE, chain, dashboard, fits, show, shows, verdict
from tests.network.http_broker import broker
from tests.network.rights_broker import secured, user
from tests.network.waiting import until

STEPS_MAX = 2
RECORDED, RECOMPUTED = "recorded when it happened", "recomputed from the present tables"


class Stranger:
    """Somebody who starts on the first page and counts what it takes: clicks."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.steps = 0

    async def clicks(self, role: str, name: str) -> None:
        self.steps += 1
        await self._page.get_by_role(role, name=name, exact=True).click()

    async def finds_why(self, web: str, event: str, client: str) -> str:
        """The verdict, in at most two steps from the root: the event, and the client."""
        self.steps = 0
        await self._page.goto(web)
        await self.clicks("link", event)
        await self.clicks("link", client)
        await self._page.wait_for_selector(".verdict")
        assert self.steps <= STEPS_MAX
        return " ".join(str(await self._page.text_content(".verdict")).split())


def test_a_stranger_finds_a_missing_right_a_context_and_a_queue_rule(tmp_path: Path) -> None:
    async def scene() -> None:
        users = [
            user("van", ["*"], []),
            user("ann", [], ["kind = 'parking'"]),
            user("bob", [], ["*"]),
            user("cid", [], ["*"]),
            user("root", [], ["*"], "admin = true"),
        ]
        async with secured(tmp_path, *users) as running, dashboard(f"http://{running.web}") as page:
            said = b64encode(b"root:root-password").decode()
            await page.set_extra_http_headers({"authorization": f"Basic {said}"})
            async with running.client("van") as van, running.client("ann") as ann, running.client("bob") as bob:
                with pytest.raises(Refused):
                    await ann.subscribe("kind = 'alarm'", name="mine")
                bob.set_context({"floor": 2})
                await bob.subscribe("floor = my.floor", name="here")
                async with running.client("cid") as cid:
                    await cid.subscribe("kind = 'alarm'", name="few", queue=QueueRules(count_max=1))
                await until(lambda: running.machine.sessions.session("cid").connection is None)
                await van.publish({"kind": "alarm", "floor": 7})
                event = f"van:{van.machine.sequence}"
                await van.publish({"kind": "alarm", "floor": 8})
                await until(lambda: running.http.activity.counts.get("purged", 0) > 0)
                stranger, web = Stranger(page), f"http://{running.web}"
                right = await stranger.finds_why(web, event, "ann")
                assert "the right is missing: user ann may subscribe to only what matches kind = 'parking', " in right
                assert "and the event has kind = alarm" in right
                assert RECOMPUTED in right
                context = await stranger.finds_why(web, event, "bob")
                assert "the event has floor = 7" in context
                assert "in its present context, floor = my.floor is floor = 2" in context
                rule = await stranger.finds_why(web, event, "cid")
                assert (
                    "it was removed from the client's queue by a rule of the subscription: 'few' has count_max = 1"
                    in rule
                )
                assert RECORDED in rule
                waiting = await stranger.finds_why(web, f"van:{van.machine.sequence}", "cid")
                assert waiting.startswith("Not yet. ")

    run(scene())


def test_an_event_without_a_record_is_not_denied() -> None:
    async def scene() -> None:
        async with broker() as (b1, _), dashboard(b1.url) as page:
            said = await verdict(page, "van:1", "ann")
            assert said.strip().startswith("Not known.")
            assert "No broker that answered has recorded the event" in said
            assert "not recorded any more" in said

    run(scene())


def test_a_user_who_is_asked_for_a_password_sees_the_page(tmp_path: Path) -> None:
    async def scene() -> None:
        said = {"username": "root", "password": "root-password"}  # given only when the broker asks for it
        async with (
            secured(tmp_path, user("root", [], ["*"], "admin = true")) as running,
            browser_page(http_credentials=said) as page,
        ):
            await page.goto(f"http://{running.web}")
            await shows(page, "No event has been published since the brokers started.")

    run(scene())


def test_an_event_is_found_by_text_and_by_filter_when_many_came_after_it() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b3.native, name="van") as van, dashboard(b1.url) as page:
            await van.publish({"driver": "Ann Lee", "zone": 3})
            planted = f"van:{van.machine.sequence}"
            await asyncio.gather(*(van.publish({"zone": 4}) for _ in range(500)))
            last = f"van:{van.machine.sequence}"
            await show(page, "why")
            await page.get_by_role("link", name=last, exact=True).wait_for()
            await shows(page, "200 events: the last 200 of each broker")
            found = page.get_by_role("link", name=planted, exact=True)
            assert await found.count() == 0
            await page.get_by_label("Search").fill("ann lee")
            await found.wait_for()
            await shows(page, "1 found, of the last 501 that were searched")
            await page.get_by_label("Search").fill("")
            await page.get_by_label("Filter").fill("zone <")
            await page.keyboard.press("Enter")
            await shows(page, "Line 1, column 7: the filter ends too early")
            await page.get_by_label("Filter").fill("zone < 4")
            await page.keyboard.press("Enter")
            await found.click()
            await page.wait_for_url(f"**event={planted.replace(':', '%3A')}**")

    run(scene())


def test_an_event_that_is_written_is_followed_from_broker_to_broker() -> None:
    async def scene() -> None:
        async with (
            chain() as (b1, _, b3),
            connect(b1.native, name="van") as van,
            connect(b3.native, name="screen") as screen,
        ):
            await van.publish({"zone": 0})
            await screen.subscribe("kind = 'position' AND zone = 3", name="zone 3")
            await screen.set_context({"floor": 2})
            await until(lambda: b1.machine.routing.in_subs["b2"])
            async with dashboard(b1.url) as page:
                await show(page, "why")
                await page.get_by_text("Write an event: would a client get it?").click()
                await page.get_by_label("Attribute").nth(0).fill("kind")
                await page.get_by_label("Value").nth(0).fill("position")
                await page.get_by_label("Attribute").nth(1).fill("zone")
                await page.get_by_label("Value").nth(1).fill("4")
                await page.get_by_label("Receiver").fill("screen")
                await page.get_by_label("Publisher").fill("van")
                await page.get_by_role("button", name="Explain it").click()
                await shows(page, "No, it would not.")
                said = str(await page.text_content(".verdict"))
                assert "zone = 3 does not hold" in said
                assert RECOMPUTED in said
                await page.get_by_label("Value").nth(1).fill("3")
                await page.get_by_role("button", name="Explain it").click()
                await shows(page, "Yes, it would.")
                assert "b3: it would be delivered for zone 3" in str(await page.text_content(".verdict"))
                assert [hop.strip()[:2] for hop in await page.locator(".hop h2").all_text_contents()] == [
                    "b1",
                    "b2",
                    "b3",
                ]
                await shows(page, "the event would be forwarded to b2")
                assert b1.http.activity.counts.get("published") == 1  # nothing was published for this
                await page.get_by_role("button", name="Write it as JSON").click()
                written = '{"attributes": {"kind": "position", "zone": 3}, "to": "floor = 7"}'
                await page.get_by_label("Event, as JSON").fill(written)
                await page.get_by_role("button", name="Explain it").click()
                await shows(page, "floor = 7 does not hold of its context")
                await page.set_viewport_size(PHONE)
                assert await fits(page)

    run(scene())


def test_an_exact_test_that_fails_and_drops_over_time_are_shown() -> None:
    async def scene() -> None:
        async with broker() as (running, client), dashboard(running.url) as page:
            query = {"filter": "a + b > 10", "client": "curl"}
            async with client.stream("GET", "/events", params=query) as response:
                assert response.status_code == 200
                posted = await client.post("/events", json={"a": 3, "b": 4})
                event = posted.json()["ids"][0]
                await until(lambda: running.http.activity.counts.get("residue", 0) > 0)
                said = await verdict(page, event, "curl")
                assert "failed the exact test filter: a + b > 10" in said
                assert RECORDED in said
                await show(page, "why", written='{"a": 3, "b": 4}', client="curl")
                await page.wait_for_selector(".verdict")
                assert "a + b > 10 does not hold" in str(await page.text_content(".verdict"))
                await shows(page, "it failed the exact test")
                await show(page, "why")
                await page.wait_for_selector(".plot canvas")
                await page.get_by_role("rowheader", name="failed the exact test").wait_for()

    run(scene())

"""The dashboard in a real browser, against brokers that run: what it shows is so, and it asks nobody else."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import QueueRules
from godwit.runtime.authentication import Principal
from godwit.runtime.connecting import connect
from godwit.runtime.samples import COARSE_STEP_S, DAY_S, FINE_S, SAMPLES_MAX
from tests.browser.kept_browser import run
from tests.browser.network import network
from tests.browser.stations import browser_page
from tests.network.http_broker import Running, broker
from tests.network.rights_broker import secured, user
from tests.network.waiting import until

PAGES = ("why", "network", "map", "live", "workbench", "here", "sessions", "metrics", "users", "simulate", "plan")
PHONE = {"width": 360, "height": 740}
HOSTILE = {
    "script": "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">",
    "backwards": "\u202egnol oot si siht",
    "long": "x" * 60_000,
    "quotes": "'\"`${1+1}",
}


@asynccontextmanager
async def chain(config: BrokerConfig = BrokerConfig()) -> AsyncIterator[tuple[Running, Running, Running]]:  # noqa: B008
    """Three brokers in a row."""
    async with (
        broker("b1", {"b2": None}, config=config) as (b1, _),
        broker("b2", {"b1": b1.native, "b3": None}, config=config) as (b2, _),
        broker("b3", {"b2": b2.native}, config=config) as (b3, _),
    ):
        for each in (b1, b2, b3):
            await each.ready()
        yield b1, b2, b3


@asynccontextmanager
async def dashboard(web: str) -> AsyncIterator[Any]:
    """A page that may ask one broker alone, and must not complain."""
    async with browser_page() as page:
        page.strangers, page.complaints = [], []
        page.on("request", lambda asked: note(page.strangers, asked.url, urlsplit(asked.url).netloc not in web))
        page.on("console", lambda said: note(page.complaints, said.text, said.type == "error"))
        page.web = web
        yield page
        assert page.strangers == []
        assert page.complaints == []


def note(found: list[str], what: str, is_bad: bool) -> None:
    if is_bad:
        found.append(what)


async def show(page: Any, name: str, **parameters: str) -> None:
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items())
    await page.goto(f"{page.web}/dashboard/{name}?{query}")
    await page.wait_for_selector("main h1")


async def shows(page: Any, text: str) -> None:
    """Until the page has that text in it."""
    await page.get_by_text(text).first.wait_for()


async def verdict(page: Any, event: str, client: str) -> str:
    await show(page, "why", event=event, client=client)
    await page.wait_for_selector(".verdict")
    return str(await page.text_content(".verdict"))


async def fits(page: Any) -> bool:
    """Whether nothing is wider than the screen."""
    return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_every_page_is_found_from_the_root_by_keyboard_and_fits_on_a_phone() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, _), dashboard(b1.url) as page:
            await page.goto(b1.url)
            await shows(page, "No event has been published since the brokers started.")
            await page.keyboard.press("Tab")  # the link that skips the menu
            for name in PAGES:
                await page.keyboard.press("Tab")
                await page.keyboard.press("Enter")
                await page.wait_for_url(f"**/dashboard/{name}")
                assert await page.locator("nav[aria-label=Pages] a[aria-current=page]").count() == 1
            await page.go_back()
            assert urlsplit(page.url).path == f"/dashboard/{PAGES[-2]}"
            await page.set_viewport_size(PHONE)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                for name in PAGES:
                    await show(page, name)
                    assert await fits(page), name

    run(scene())


def test_an_address_without_a_page_says_so_with_links_to_all_pages() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "nosuch")
            await page.get_by_role("heading", name="There is no such page").wait_for()
            assert await page.locator("nav[aria-label=Pages] a[aria-current]").count() == 0
            assert await page.locator("main li a").count() == len(PAGES)
            await page.locator("main").get_by_role("link", name="Metrics").click()
            await page.get_by_role("heading", name="Metrics").wait_for()

    run(scene())


MENU = "nav[aria-label=Pages]"
MIDDLING = {"width": 900, "height": 800}


def test_the_menu_fits_a_narrow_window_and_is_behind_a_button_on_a_phone() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await page.set_viewport_size(MIDDLING)
            await show(page, "users")
            links = await page.locator(f"{MENU} a").evaluate_all(
                "all => all.map((each) => each.getBoundingClientRect())"
            )
            assert len({link["top"] for link in links}) == 1  # all of them in one row
            assert max(link["right"] for link in links) <= MIDDLING["width"]
            await page.set_viewport_size(PHONE)
            await page.locator(MENU).wait_for(state="hidden")
            await page.get_by_role("button", name="Users").press("Enter")
            await page.get_by_role("link", name="Sessions").click()
            await shows(page, "No client has a session here.")
            await page.locator(MENU).wait_for(state="hidden")
            assert await fits(page)

    run(scene())


def test_a_stranger_sees_why_an_event_did_not_come() -> None:
    async def scene() -> None:
        async with (
            chain(BrokerConfig(reduction="flooding")) as (b1, _, b3),
            connect(b1.native, name="van") as van,
            connect(b3.native, name="screen") as screen,
            dashboard(b1.url) as page,
        ):
            await screen.subscribe("kind = 'position' AND zone = 3", name="zone 3")
            await screen.set_context({"floor": 2})
            await van.publish({"kind": "position", "zone": 4})
            content = f"van:{van.machine.sequence}"
            await van.publish({"kind": "position", "zone": 3}, to="floor = 7")
            other_floor = f"van:{van.machine.sequence}"
            await van.publish({"kind": "position", "zone": 3})
            good = f"van:{van.machine.sequence}"
            said = await verdict(page, content, "screen")
            assert "No." in said
            assert "zone = 3 does not hold" in said
            assert "floor = 7" in await verdict(page, other_floor, "screen")
            assert "Yes." in await verdict(page, good, "screen")
            hops = await page.locator(".hop h2").all_text_contents()
            assert [hop.strip()[:2] for hop in hops] == ["b1", "b2", "b3"]

    run(scene())


def test_a_queue_rule_and_a_client_that_is_nowhere_are_named() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b1.native, name="van") as van, dashboard(b1.url) as page:
            async with connect(b3.native, name="screen") as screen:
                await screen.subscribe("n > 0", name="few", queue=QueueRules(count_max=1))
            await until(lambda: not b3.is_attached("screen"))
            await van.publish({"n": 1})
            first = f"van:{van.machine.sequence}"
            await van.publish({"n": 2})
            await until(lambda: b3.http.activity.counts.get("purged", 0) > 0)
            assert "by a rule of the subscription" in await verdict(page, first, "screen")
            assert "no session at any broker" in await verdict(page, first, "nobody")
            await show(page, "why")
            await shows(page, "removed by a queue rule")
            await page.get_by_role("link", name=first).click()
            await page.get_by_label("Client").fill("screen")
            await page.get_by_role("button", name="Explain").click()
            await shows(page, "by a rule of the subscription")

    run(scene())


def test_what_clients_say_is_shown_as_text() -> None:
    async def scene() -> None:
        name = "<b onclick=alert(1)>van</b>"
        async with (
            broker() as (running, _),
            connect(running.native, name=name) as van,
            dashboard(running.url) as page,
        ):
            await van.subscribe("driver = '<script>alert(1)</script>'", name="<i>all</i>")
            await van.publish(HOSTILE)
            event = f"{name}:{van.machine.sequence}"
            await show(page, "why")
            await shows(page, "<script>document.title")
            assert "does not hold" in await verdict(page, event, name)
            await show(page, "sessions", client=name)
            await shows(page, "<i>all</i>")
            await show(page, "network", broker="b1")
            await shows(page, "driver = '<script>alert(1)</script>'")
            assert await page.title() == "Network · Godwit"
            await page.set_viewport_size(PHONE)
            await verdict(page, event, name)
            assert await fits(page)

    run(scene())


def test_live_events_follow_the_filter_and_wrong_filters_are_explained() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            await show(page, "live", filter="n > 1")
            await until(lambda: any(each.subscriptions for each in running.machine.sessions))
            for n in (1, 2, 3):
                await van.publish({"n": n, "zone": f"z{n}"})
            await shows(page, "z3")
            assert await page.locator("tbody tr").count() == 2
            await page.get_by_label("Plot").select_option("n")
            await page.wait_for_selector(".plot canvas")
            await page.get_by_label("Filter").fill("n >")
            await page.get_by_role("button", name="Listen").click()
            await page.get_by_role("alert").wait_for()
            assert "column" in str(await page.get_by_role("alert").text_content())
            page.complaints.clear()  # the browser logs every answer of status 400
            await page.get_by_label("Filter").fill("kind = 'test'")
            await page.get_by_role("button", name="Listen").click()
            await until(lambda: any("test" in str(each.subscriptions) for each in running.machine.sessions))
            await page.get_by_text("Publish an event").click()
            await page.get_by_role("button", name="Publish").click()
            await shows(page, "published as")
            await page.wait_for_selector("tbody tr")
            await page.get_by_role("button", name="Pause").click()
            await shows(page, "paused")

    run(scene())


def test_clients_are_on_the_map_where_they_say_they_are_and_move() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b3.native, name="tram") as tram, dashboard(b1.url) as page:
            await show(page, "map", client="tram")
            await shows(page, "0 clients have said where they are")
            await tram.set_context({"location": {"lon": 8.54, "lat": 47.37}})
            await shows(page, "1 client has said where it is")
            await page.get_by_text("Clients as a table").click()
            await shows(page, "47.3700, 8.5400")
            await tram.set_context({"location": {"lon": 8.6, "lat": 47.37}})
            await shows(page, "47.3700, 8.6000")
            await page.wait_for_selector(".map .points")

    run(scene())


HAS = "text => document.querySelector('main input').value === text"


def test_clicks_on_what_is_here_build_a_filter_that_is_listened_to() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="van") as van,
            dashboard(running.url) as page,
        ):
            for n in range(3):
                await van.publish({"zone": f"z{n % 2}", "speed": 50 + n, "and": "it's"})
            await show(page, "here")
            await shows(page, "50 to 52")
            await shows(page, "The last 3 events")
            await page.get_by_role("link", name="z0 ×2").click()
            await shows(page, "2 of the last 3 events match")
            await shows(page, "50 to 52")  # of the two that match
            await page.get_by_role("link", name="it's ×2").focus()
            await page.keyboard.press("Enter")
            built = "zone = 'z0' AND \"and\" = 'it''s'"
            await page.wait_for_url(f"**filter={quote(built, safe='').replace('%20', '+')}")
            await page.wait_for_function(HAS, arg=built)
            focused = await page.evaluate("document.activeElement.textContent")
            assert focused == "it's ×2"  # one goes on from there
            await page.get_by_label("Filter").fill("zone = ")
            await page.keyboard.press("Enter")
            await shows(page, "the filter ends too early")
            await page.go_back()
            await page.wait_for_function(HAS, arg=built)
            await page.get_by_role("link", name="Listen").click()
            await page.get_by_role("heading", name="Live").wait_for()
            assert await page.get_by_label("Filter").input_value() == built
            await until(lambda: any("it's" in str(each.subscriptions) for each in running.machine.sessions))
            await page.go_back()
            await page.get_by_role("link", name="Clear").click()
            await shows(page, "The last 3 events")

    run(scene())


def test_a_sender_that_has_moved_is_counted_once() -> None:
    async def scene() -> None:
        async with chain() as (b1, b2, _), connect(b1.native, name="van") as van, dashboard(b1.url) as page:
            await van.publish({"speed": 50})
            await van.move(str(b2.native))
            await van.publish({"speed": 60})
            await show(page, "here")
            await shows(page, "The last 2 events")
            assert "1: van" in str(await page.get_by_role("row", name="speed").text_content())

    run(scene())


def test_on_a_phone_rows_are_cards_with_the_names_of_their_cells() -> None:
    async def scene() -> None:
        async with broker() as (running, _), connect(running.native, name="van"), dashboard(running.url) as page:
            await page.set_viewport_size(PHONE)
            await show(page, "sessions")
            cell = page.get_by_role("cell", name="attached")
            await cell.wait_for()
            box = await cell.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
            label = "(cell) => getComputedStyle(cell, '::before').content"
            assert "state" in await cell.evaluate(label)
            await page.set_viewport_size(MIDDLING)
            assert "state" not in await cell.evaluate(label)

    run(scene())


def test_metrics_are_sampled_while_somebody_looks_and_at_no_other_time() -> None:
    async def scene() -> None:
        async with chain() as (b1, b2, _):
            assert not b2.http.inspection.has_samples
            async with dashboard(b1.url) as page:
                await show(page, "metrics")
                await page.wait_for_selector(".plot canvas")
                for name in ("b1", "b2", "b3"):
                    await page.get_by_role("rowheader", name=name, exact=True).wait_for()
                assert b2.http.inspection.has_samples

    run(scene())


async def metrics_shown(page: Any, *names: str) -> dict[str, dict[str, str]]:
    """What the Metrics page shows of these, by column: all of one moment."""
    for name in names:
        await page.get_by_role("rowheader", name=name, exact=True).wait_for()
    head, *rows = await page.evaluate("""
        [...document.querySelectorAll("[aria-label=Now] tr")].map((row) => [...row.cells].map((cell) => cell.innerText))
    """)
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def test_metrics_show_what_happened_at_each_broker_and_in_the_network() -> None:
    async def scene() -> None:
        async with (
            chain() as (b1, b2, b3),
            connect(b1.native, name="van") as van,
            connect(b2.native, name="screen") as screen,
            dashboard(b1.url) as page,
        ):
            await screen.subscribe("n > 0")
            for n in (1, 2, 3):
                await van.publish({"n": n})
            await until(lambda: b2.http.activity.deliveries == 3)
            await screen.move(b3.native)
            await until(lambda: b3.is_attached("screen"))
            await show(page, "metrics")
            names = ("b1", "b2", "b3", "all brokers")
            rows = await metrics_shown(page, *names)
            assert [rows[name]["sessions"] for name in names] == ["1", "0", "1", "2"]
            assert [rows[name]["relocations"] for name in names] == ["0", "0", "1", "1"]
            deliveries = [int(rows[name]["deliveries"]) for name in names]
            assert deliveries[1] == 3
            assert deliveries[-1] == sum(deliveries[:-1])
            memory = [int(rows[name]["memory, MiB"].replace(",", "")) for name in names]
            assert min(memory) > 10
            assert memory[-1] == sum(memory[:-1])
            assert [rows[name]["gap p50, ms"] for name in ("b1", "b2")] == ["–", "–"]
            assert 0 < float(rows["b3"]["gap p50, ms"]) <= float(rows["b3"]["gap p99, ms"])
            assert rows["all brokers"]["gap p99, ms"] == rows["b3"]["gap p99, ms"]
            assert [rows[name]["latency p99, ms"] for name in ("b1", "b3")] == ["–", "–"]
            assert 0 < float(rows["b2"]["latency p50, ms"]) <= float(rows["b2"]["latency p99, ms"])
            assert 0 < float(rows["b2"]["match p50, ms"]) <= float(rows["b2"]["match p99, ms"])
            await page.set_viewport_size({"width": 1280, "height": 900})
            assert await page.locator("[aria-label=Now]").evaluate("(each) => each.scrollWidth <= each.clientWidth")
            titles = await page.locator(".plot figcaption").all_text_contents()
            assert "Gap of a relocation, ms, p50 and p99" in titles
            assert "Memory of the process, MiB" in titles

    run(scene())


def test_plots_have_rates_and_quantiles_of_each_broker_and_of_all_together() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "metrics")
            found = await page.evaluate(PLOTS)
            assert found["Deliveries a second"] == [["a", None, 5], ["b", None, 10], ["all brokers", None, 15]]
            assert found["Queued events"] == [["a", 1, 1], ["b", 2, 2], ["all brokers", 3, 3]]
            assert found["Time to match an event, ms, p50 and p99"] == [
                ["a p50", None, 1],  # 98 of 1 ms, 2 of 10 ms
                ["b p50", None, None],  # nothing was matched
                ["all brokers p50", None, 1],
                ["a p99", None, 10],
                ["b p99", None, None],
                ["all brokers p99", None, 10],
            ]

    run(scene())


PLOTS = """async () => {
    const { plotsOf } = await import("/dashboard/pages/metrics.js");
    const row = (at, deliveries, queued, match_s) => ({
        at, deliveries, queued, match_s, inputs: 0, received_bytes: 0, records: {}, held_bytes: 0, attached: 0,
        process_bytes: null, write_s: [0, 0, 0], lag_s: [0, 0, 0], gap_s: [0, 0, 0], delivery_s: [0, 0, 0],
    });
    const kept = {
        a: [row(10.1, 0, 1, [7, 0, 0]), row(12.1, 10, 1, [105, 2, 0])],
        b: [row(10.2, 100, 2, [0, 9, 0]), row(12.2, 120, 2, [0, 9, 0])],
    };
    const plots = plotsOf(["a", "b"], kept, [0.001, 0.01]);
    const told = (value) => typeof value === "number" ? Math.round(value * 1e6) / 1e6 : value;
    return Object.fromEntries(plots.map(({ title, names, data }) =>
        [title, names.map((name, at) => [name, ...data[at + 1].map(told)])]));
}"""


def test_no_line_is_drawn_through_a_time_when_nobody_has_looked() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "metrics")
            found = await page.evaluate(PAUSE)
            assert found["times"] == [10, 12, 13, 100, 102]
            assert found["Deliveries a second"] == [
                ["a", None, 5, None, None, 3],
                ["b", None, 1, None, None, None],  # it was asked later than the other
                ["all brokers", None, 6, None, None, None],
            ]
            assert found["Queued events"] == [
                ["a", 1, 2, None, 3, 4],
                ["b", 5, 6, None, None, 7],
                ["all brokers", 6, 8, None, None, 11],
            ]
            assert found["Time to match an event, ms, p50 and p99"][0] == ["a p50", None, 1, None, None, 1]
            assert found["drops"] == [[10, 12, 13, 100, 102], [None, 6, None, None, 3]]
            # of older samples a page may have only one in 90 s, and of several brokers at different times
            assert found["old"] == [[0, 45, 90, 91, 200, 201, 5_000], [1, 2, 3, None, 4, None, 5]]

    run(scene())


PAUSE = """async () => {
    const { plotsOf } = await import("/dashboard/pages/metrics.js");
    const { perSecond } = await import("/dashboard/pages/why_drops.js");
    const { withPauses } = await import("/dashboard/series.js");
    const row = (at, deliveries, queued) => ({
        at, deliveries, queued, match_s: [deliveries, 0], inputs: 0, received_bytes: 0, records: {}, held_bytes: 0,
        attached: 0, process_bytes: null, write_s: [0, 0], lag_s: [0, 0], gap_s: [0, 0], delivery_s: [0, 0],
        counts: { lost: deliveries },
    });
    const kept = {
        a: [row(10, 0, 1), row(12, 10, 2), row(100, 50, 3), row(102, 56, 4)],
        b: [row(10, 0, 5), row(12, 2, 6), row(102, 90, 7)],
    };
    const plots = plotsOf(["a", "b"], kept, [0.001]);
    return {
        times: plots[0].data[0],
        drops: perSecond([kept.a, kept.b], ["lost"]),
        old: withPauses([[0, 45, 90, 200, 5_000], [1, 2, 3, 4, 5]]),
        ...Object.fromEntries(plots.map(({ title, names, data }) =>
            [title, names.map((name, at) => [name, ...data[at + 1]])])),
    };
}"""


def test_the_page_keeps_samples_of_a_day_and_thins_older_ones() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "metrics")
            times = await page.evaluate("""async () => {
                const { ofADay } = await import("/dashboard/series.js");
                let rows = [];
                for (let at = 0; at <= 100_000; at += 200) {
                    for (let part = 0; part < 200; part += 2) rows.push({ at: at + part });
                    rows = ofADay(rows);
                }
                return rows.map(({ at }) => at);
            }""")
            assert len(times) <= SAMPLES_MAX
            assert times[0] <= times[-1] - DAY_S + COARSE_STEP_S
            recent = [at for at in times if at >= times[-1] - FINE_S]
            assert recent == list(range(recent[0], recent[-1] + 2, 2))

    run(scene())


def test_a_right_can_be_tried_without_trying_it(tmp_path: Path) -> None:
    async def scene() -> None:
        ann, root = user("ann", subscribe=["kind = 'parking'"]), user("root", (), ["*"], "admin = true")
        async with secured(tmp_path, ann, root) as running, dashboard(f"http://{running.web}") as page:
            said = b64encode(b"root:root-password").decode()
            await page.set_extra_http_headers({"authorization": f"Basic {said}"})
            await show(page, "users")
            await page.get_by_label("Could").select_option("ann")
            await page.get_by_label("What").fill("kind = 'alarm'")
            await page.get_by_role("button", name="Test").click()
            await shows(page, "only what matches: kind = 'parking'")
            await page.get_by_label("What").fill("kind = 'parking' AND cost < 3")
            await page.get_by_role("button", name="Test").click()
            await shows(page, "Yes.")

    run(scene())


def test_sessions_come_page_by_page_and_can_be_searched_for() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            for number in range(120):
                async with connect(running.native, name=f"van-{number:03}") as van:
                    await van.attached(30)
            await show(page, "sessions")
            await shows(page, "120 sessions.")
            assert await page.locator("tbody tr").count() == 100
            await page.get_by_role("link", name="More rows").click()
            await page.wait_for_url("**first=100")
            await page.get_by_role("link", name="van-119").wait_for()
            await page.get_by_label("Client").fill("van-01")
            await page.get_by_role("button", name="Search").click()
            await shows(page, "10 sessions")
            await page.get_by_role("link", name="van-015").click()
            await shows(page, "It has no subscription.")
            await shows(page, "number 1, ")  # its receipt

    run(scene())


def test_a_broker_that_is_killed_is_seen_to_be_down_and_to_come_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1", "b2") as (b1, b2), dashboard(b1.web) as page:
            await show(page, "network")
            await page.get_by_text("up", exact=True).wait_for()
            await b2.kill()
            await page.get_by_text("does not answer").wait_for()
            await page.get_by_text("down", exact=True).wait_for()
            await b2.start()
            await page.get_by_text("up", exact=True).wait_for()
            await b1.kill()
            await shows(page, "broker unreachable")
            await b1.start()
            await page.get_by_text("b1 ·").wait_for()
            page.complaints.clear()  # the browser logs every request that failed

    run(scene())


def test_nobody_but_administrators_sees_anything() -> None:
    async def scene() -> None:
        async with broker(authenticator=Nobody()) as (running, client):
            page = await client.get("/dashboard/why")
            assert page.status_code == 200
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            for path in ("/why?event=a:1&client=b", "/everywhere/sessions", "/everywhere/events", "/filter?filter=n"):
                assert (await client.get(path)).status_code == 403
            for path in ("../../errors.py", "%2e%2e/vendored_files.py", "vendor/vendored.toml", "none.js"):
                assert (await client.get(f"/dashboard/{path}")).status_code == 404
            assert running.http.activity.inputs == 0

    run(scene())


class Nobody:
    """Lets everybody in, without rights to look."""

    async def admit(self, credentials: Any) -> Principal:
        return Principal("ann")

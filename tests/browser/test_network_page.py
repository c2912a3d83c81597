"""The page Network in a real browser: rates on links, sizes of tables, and which filter covers which."""

from pathlib import Path
from typing import Any

from godwit.runtime.connecting import connect
from tests.browser.kept_browser import run
from tests.browser.network import network
from tests.browser.test_dashboard import PHONE, chain, dashboard, fits, show, shows
from tests.network.http_broker import Running
from tests.network.waiting import until


def wanted(running: Running, source: str) -> list[str]:
    return [str(filter) for filter in running.machine.routing.in_subs[source].values()]


CELLS = """([table, texts]) => {
    const rows = [...document.querySelectorAll(`[role=region][aria-label="${table}"] tbody tr`)];
    const row = rows.find((each) => texts.every((text) => each.textContent.includes(text)));
    return row && [...row.cells].map((cell) => cell.textContent.trim().replace(/\\s+/g, " "));
}"""


async def cells(page: Any, table: str, *texts: str) -> list[str]:
    """The cells of the first row of a table that has these texts in it, once there is one."""
    found = await page.wait_for_function(CELLS, arg=[table, list(texts)])
    return list(await found.json_value())


def test_a_brokers_tables_show_which_filter_leads_where_and_which_covers_it() -> None:
    async def scene() -> None:
        async with (
            chain() as (b1, _, b3),
            connect(b1.native, name="van") as van,
            connect(b3.native, name="ann") as ann,
            connect(b3.native, name="bob") as bob,
        ):
            await van.publish({"speed": 1})
            await ann.subscribe("speed > 50", name="fast")
            await bob.subscribe("speed > 80", name="faster")
            await until(lambda: wanted(b1, "b2") != [])
            async with dashboard(b1.url) as page:
                await show(page, "network")
                assert (await cells(page, "Brokers", "b3", "2 subscriptions ·"))[1] == "answers"
                await page.get_by_role("link", name="b3", exact=True).click()
                await shows(page, "Tables of b3")
                fast, faster = [await cells(page, "Routing table", each) for each in ("ann fast", "bob faster")]
                assert (fast[0], fast[2], fast[4]) == ("client here", "speed > 50", "to b2: unchanged")
                assert (faster[2], faster[4]) == ("speed > 80", "to b2: covered by speed > 50")
                await page.get_by_label("Entries that lead to").select_option("neighbour b2")
                await page.wait_for_url("**from=b2")
                assert (await cells(page, "Routing table", "neighbour b2"))[1] == "advertisements"
                await page.get_by_label("Entries that lead to").select_option("clients here")
                await shows(page, "bob faster")
                await page.set_viewport_size(PHONE)
                assert await fits(page)

    run(scene())


def test_brokers_behind_one_that_is_down_stay_on_the_graph(tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1", "b2", "b3") as (b1, b2, _), dashboard(b1.web) as page:
            await show(page, "network")
            await page.get_by_role("row", name="b2 – b3 up").wait_for()
            await b2.kill()
            await shows(page, "2 of 3 brokers did not answer: b2, b3.")
            await page.get_by_role("row", name="b2 – b3 down").wait_for()
            await page.get_by_role("row", name="b3 does not answer").wait_for()
            await b2.start()
            await page.get_by_role("row", name="b2 – b3 up").wait_for()

    run(scene())


def test_events_on_links_are_counted_while_somebody_looks_and_shown_in_both_directions() -> None:
    async def scene() -> None:
        async with (
            chain() as (b1, b2, b3),
            connect(b1.native, name="van") as van,
            connect(b3.native, name="ann") as ann,
        ):
            await van.publish({"n": 0})
            mine = await ann.subscribe("n >= 0", name="all")
            await until(lambda: wanted(b1, "b2") != [])
            assert not b2.http.inspection.traffic.is_counted
            async with dashboard(b1.url) as page:
                await show(page, "network")
                await until(lambda: b2.http.inspection.traffic.is_counted)
                at = 0

                async def is_seen() -> bool:
                    nonlocal at
                    at += 1
                    await van.publish({"n": at})
                    await mine.next()
                    return not (await cells(page, "Links", "b1 – b2"))[2].startswith(("…", "0/s"))

                while not await is_seen():
                    pass
                said = (await cells(page, "Links", "b1 – b2"))[2]
                assert " to b2, 0/s to b1" in said
                await b3.stop()
                await shows(page, "1 of 3 brokers did not answer: b3")
                assert (await cells(page, "Links", "b2 – b3", "down"))[1] == "down"

    run(scene())

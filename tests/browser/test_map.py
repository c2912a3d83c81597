"""The map in a real browser: brokers and areas, hand-overs as they happen, places, regions, tiles; and its cost."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from godwit.filters.regions import circle
from godwit.filters.values import Point
from godwit.runtime.connecting import connect
from godwit.runtime.dashboard_settings import DashboardSettings
from godwit.runtime.tile_file import TileFile
from tests.browser.fixed_state import fixed_network
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import Nobody, chain, dashboard, show, shows
from tests.network.http_broker import broker
from tests.network.waiting import until
from tests.unit.runtime.tile_files import write_tiles

PAINTED = """() => {
    const canvas = document.querySelector(".map .points");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.reduce((sum, value, at) => sum + (at % 4 === 3 && value > 0), 0);
}"""
"""How many pixels of the canvas bear something."""


def picture(colour: str) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (256, 256), colour).save(written, "PNG")
    return written.getvalue()


async def asked_for(page: Any, what: str) -> list[str]:
    """A list that gets every address from now on in whose path that is."""
    found: list[str] = []
    page.on("request", lambda asked: found.append(asked.url) if what in urlsplit(asked.url).path else None)
    return found


def test_a_client_that_goes_to_another_broker_is_handed_over_before_your_eyes() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b1.native, name="tram") as tram, dashboard(b1.url) as page:
            await tram.set_context({"location": {"lon": 8.54, "lat": 47.37}})
            await tram.subscribe("n > 0")
            await show(page, "map")
            await shows(page, "1 client has said where it is")
            await shows(page, "No client has gone to another broker since this page was opened.")
            await tram.move(str(b3.native))
            await shows(page, "b1 → b3")
            assert await page.text_content(".hand-overs") == "1"
            await page.get_by_text("Clients as a table").click()
            await page.get_by_role("row", name="tram b3").wait_for()
            await tram.move(str(b1.native))
            await shows(page, "b3 → b1")
            assert await page.text_content(".hand-overs") == "2"  # each is told several times, and counted once

    run(scene())


def test_brokers_and_places_are_drawn_and_regions_only_if_somebody_asks() -> None:
    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            regions = await asked_for(page, "/everywhere/regions")
            await show(page, "map")
            await shows(page, "4 clients have said where they are")
            await page.get_by_text("Brokers, places and regions as tables").click()
            await shows(page, "circle(10.75, 59.91, 1500)")
            await page.get_by_role("row", name="harbour 59.9050, 10.7400").wait_for()
            before = await page.evaluate(PAINTED)
            assert before > 0
            assert regions == []
            await page.get_by_label("Regions of subscriptions").check()
            await page.get_by_role("row", name="circle(10.75, 59.91, 800)").wait_for()
            assert "regions=1" in page.url
            for label in ("Brokers and areas", "Trails", "Hand-overs", "Events", "Named places"):
                await page.get_by_role("checkbox", name=label).uncheck()
            assert "hide=areas" in page.url
            await page.wait_for_function(f"() => ({PAINTED})() < {before}")

    run(scene())


WATCH = """() => {
    globalThis.inTheMiddle = globalThis.watched = 0;
    const look = () => {
        const canvas = document.querySelector(".map .points");
        const { data } = canvas.getContext("2d").getImageData(canvas.width / 4, 0, canvas.width / 2, canvas.height);
        if (data.some((value) => value > 0)) inTheMiddle += 1;
        watched += 1;
        requestAnimationFrame(look);
    };
    look();
}"""
"""Counts the frames, and those of them in which something is drawn in the middle half of the map."""


def test_a_client_that_crosses_the_antimeridian_does_not_go_around_the_world() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect(running.native, name="ferry") as ferry,
            connect(running.native, name="buoy") as buoy,
            dashboard(running.url) as page,
        ):
            await ferry.set_context({"location": {"lon": 179.9, "lat": -17}})
            for place in ((180, -90), (0, 90), (-179, -17)):
                await buoy.publish({"place": {"lon": place[0], "lat": place[1]}})
            await show(page, "map", hide="events")
            await shows(page, "2 clients have said where they are")  # so all of the world is shown
            await page.get_by_text("Clients as a table").click()
            await page.evaluate(WATCH)
            for lon in (-179.9, 179.8, -179.8):
                await ferry.set_context({"location": {"lon": lon, "lat": -17}})
                await shows(page, f"-17.0000, {lon:.4f}")
                await page.wait_for_function("n => watched > n", arg=await page.evaluate("watched") + 20)
            assert await page.evaluate("inTheMiddle") == 0

    run(scene())


HOSTILE_REGIONS = (
    "at WITHIN circle(0, 90, 9000000)",
    "at WITHIN circle(180, -89.999, 1)",
    "at WITHIN box(170, -90, -170, 90)",
    "at WITHIN polygon(179 1, -179 1, -179 -1, 179 -1)",
)


def test_regions_at_poles_and_the_antimeridian_are_drawn_without_a_fault() -> None:
    async def scene() -> None:
        async with broker() as (running, _), connect(running.native, name="ann") as ann, dashboard(running.url) as page:
            for number, filter in enumerate(HOSTILE_REGIONS):
                await ann.subscribe(filter, name=f"r{number}")
            await show(page, "map", regions="1")
            await page.get_by_text("Brokers, places and regions as tables").click()
            await page.get_by_role("row", name="circle(0, 90, 9000000)").wait_for()
            assert await page.get_by_role("region", name="Regions").get_by_role("row").count() == 1 + len(
                HOSTILE_REGIONS
            )
            await page.get_by_role("button", name="Zoom in").click(click_count=3)
            await page.get_by_role("button", name="Zoom out").click()
            await shows(page, "updates a second")

    run(scene())


def test_a_click_on_a_client_chooses_it() -> None:
    async def scene() -> None:
        async with broker() as (running, _), connect(running.native, name="van") as van, dashboard(running.url) as page:
            await van.set_context({"location": {"lon": 8.54, "lat": 47.37}})
            await show(page, "map")
            await shows(page, "1 client has said where it is")
            await page.locator(".map").click()  # its middle, where the only client is
            await page.wait_for_url("**client=van")

    run(scene())


def test_the_map_goes_on_while_a_broker_does_not_answer() -> None:
    async def scene() -> None:
        async with chain() as (b1, _, b3), connect(b1.native, name="tram") as tram, dashboard(b1.url) as page:
            await show(page, "map")
            await page.get_by_text("Clients as a table").click()
            await b3.stop()
            await shows(page, "1 of 3 brokers did not answer: b3.")
            await tram.set_context({"location": {"lon": 8.6, "lat": 47.37}})
            await shows(page, "47.3700, 8.6000")

    run(scene())


def told(mark: str, rows: list[list[Any]], **more: Any) -> dict[str, Any]:
    """An answer of a broker; `rows`: number, name or None, lon, lat, attached, at."""
    names = [(number, name) for number, name, *_ in rows if name is not None]
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return {
        "mark": mark,
        "is_whole": False,
        "names": {"numbers": [number for number, _ in names], "names": [name for _, name in names]},
        "moved": dict(zip(("numbers", "lon", "lat", "attached", "at"), [columns[0], *columns[2:]], strict=True)),
        "gone": [],
        "hand_overs": [],
        "events": {"lon": [], "lat": [], "is_cut": False},
        "took_ms": 1.0,
        **more,
    }


READ = """async (answers) => {
    const { makeReader } = await import("/dashboard/map_feed.js");
    const reader = makeReader();
    const step = ([now, answer]) => ({ ...reader.read(answer, now), clients: null, marks: reader.marks() });
    return answers.map((each) => structuredClone(step(each)));
}"""
"""What a page makes of answers: each with when it came."""


def test_a_client_that_two_brokers_tell_of_is_where_it_is_attached() -> None:
    old = told(
        "o.1",
        [[0, "van", 1.0, 2.0, False, 9.0], [1, "bus", 5.0, 6.0, False, 2.0]],
        hand_overs=[{"at": 8.0, "client": "van", "to": "new", "events": 2}],
        events={"lon": [1.0], "lat": [2.0], "is_cut": True},
        took_ms=3.0,
    )
    new = told("n.1", [[0, "bus", 7.0, 8.0, False, 3.0], [7, "van", 3.0, 4.0, True, 7.0]])
    strange = {"error": "this broker has no HTTP"}
    answer = {"answers": {"old": old, "new": new, "strange": strange}, "unanswered": ["gone"]}

    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "users")
            [first] = await page.evaluate(READ, [[0, answer]])
            assert [(each["client"], each["broker"]) for each in first["changed"]] == [("van", "new"), ("bus", "new")]
            assert first["handOvers"] == [{"at": 8.0, "client": "van", "from": "old", "to": "new", "waiting": 2}]
            assert first["events"] == [{"lon": 1.0, "lat": 2.0, "broker": "old"}]
            assert (first["isCut"], first["spentMs"], first["unanswered"]) == (True, 3.0, ["gone"])
            assert first["brokers"] == ["gone", "new", "old", "strange"]
            assert json.loads(first["marks"]) == {"old": "o.1", "new": "n.1"}

    run(scene())


def test_answers_add_up_and_the_clients_of_a_broker_that_is_silent_for_long_are_gone() -> None:
    first = {"b1": told("a.1", [[0, "van", 1.0, 2.0, True, None], [1, "bus", 5.0, 6.0, True, None]])}
    second = {"b1": told("a.2", [[0, None, 1.5, 2.0, True, None]], gone=[1])}
    whole = {"b1": told("b.1", [[0, "tram", 3.0, 2.0, True, None]], is_whole=True)}
    answers = [
        [0, {"answers": first, "unanswered": []}],
        [100, {"answers": second, "unanswered": []}],
        [200, {"answers": {}, "unanswered": ["b1"]}],
        [300, {"answers": whole, "unanswered": []}],
        [5_299, {"answers": {}, "unanswered": ["b1"]}],
        [5_300, {"answers": {}, "unanswered": ["b1"]}],
    ]

    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "users")
            found = await page.evaluate(READ, answers)
            changed = [[(each["client"], each["lon"]) for each in answer["changed"]] for answer in found]
            assert changed == [[("van", 1.0), ("bus", 5.0)], [("van", 1.5)], [], [("tram", 3.0)], [], []]
            assert [answer["gone"] for answer in found] == [[], ["bus"], [], ["van"], [], ["tram"]]
            assert [answer["marks"] for answer in found][-2:] == ['{"b1":"b.1"}', ""]

    run(scene())


PACE = """async (answers) => {
    const { makePace } = await import("/dashboard/map_feed.js");
    const pace = makePace();
    return answers.map((each) => pace.next(...each));
}"""
"""When a page asks again: after questions, each with when it was asked and answered, its cost, and who is missing."""


def test_the_map_asks_ten_times_a_second_unless_its_answers_take_a_broker_more_than_a_fortieth_of_its_time() -> None:
    late = [[1000, 1004, 1, False], [1103, 1108, 1, False], [1500, 1508, 1, False]]
    slow = [[1000, 1095, 1, False], [1105, 1110, 1, True]]
    dear = [[1000 + 400 * n, 1005 + 400 * n, 10, False] for n in range(3)]
    tenth = [[1000 * n, 1000 * n + 5, 6 if n % 10 == 0 else 1, False] for n in range(1, 41)]

    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "users")
            assert await page.evaluate(PACE, late) == [
                1100,
                1200,
                1600,
            ]  # a timer that is 3 ms late delays one question
            assert await page.evaluate(PACE, slow) == [1105, 1210]
            assert await page.evaluate(PACE, dear) == [1400, 1800, 2200]
            waits = [due - row[0] for due, row in zip(await page.evaluate(PACE, tenth), tenth, strict=True)]
            assert set(waits) == {100}  # one answer of ten takes 6 ms: on average that is not too much

    run(scene())


OUTLINES = """async () => {
    const { loaded } = await import("/dashboard/map_library.js");
    const { features } = (await loaded()).countries;
    const lines = features.flatMap(({ geometry: { type, coordinates } }) => coordinates.map((line) => [type, line]));
    const longest = (line) => Math.max(...line.slice(1).map(([lon], at) => Math.abs(lon - line[at][0])));
    const pole = ([type, line]) => type === "Polygon" && line.some(([, lat]) => lat < -80);
    return {
        count: lines.length,
        beyond: lines.filter(([, line]) => line.some(([lon]) => Math.abs(lon) > 180.001)).length,
        across: lines.filter((each) => !pole(each) && longest(each[1]) > 180).length,
        chukotka: lines.some(([type, line]) => type !== "Point" && line.every(([lon, lat]) => lon < -169 && lat > 60)),
    };
}"""


def test_no_outline_of_a_country_crosses_the_map() -> None:
    async def scene() -> None:
        async with broker() as (running, _), dashboard(running.url) as page:
            await show(page, "users")
            found = await page.evaluate(OUTLINES)
            assert found["count"] > 300
            assert (found["beyond"], found["across"], found["chukotka"]) == (0, 0, True)

    run(scene())


def test_tiles_of_a_file_are_served_to_administrators_and_shown(tmp_path: Path) -> None:
    tiles = {
        (level, x, y): picture("#336699") for level in range(3) for x in range(1 << level) for y in range(1 << level)
    }
    file = write_tiles(tmp_path / "world.pmtiles", tiles, level_max=2)

    async def scene() -> None:
        told = DashboardSettings(tiles=TileFile(file), tiles_attribution="Tiles by <b>nobody</b>")
        async with broker(dashboard=told) as (running, client), dashboard(running.url) as page:
            answer = await client.get("/tiles/1/0/1")
            assert (answer.headers["content-type"], answer.content) == ("image/png", tiles[1, 0, 1])
            assert (await client.get("/tiles/9/0/0")).status_code == 404
            await show(page, "map")
            await shows(page, "Tiles by <b>nobody</b>")
            await page.wait_for_selector(".leaflet-tile-loaded")
        async with broker(dashboard=DashboardSettings(tiles=TileFile(file)), authenticator=Nobody()) as (_, client):
            assert (await client.get("/tiles/0/0/0")).status_code == 403
        async with broker() as (_, client):
            assert (await client.get("/tiles/0/0/0")).status_code == 404

    run(scene())


def test_tiles_of_a_server_may_come_from_its_origin_and_from_no_other() -> None:
    other = "https://tiles.example"
    told = DashboardSettings(tiles_url=f"{other}/{{z}}/{{x}}/{{y}}.png")
    load = """(address) => new Promise((resolve) => {
        const image = new Image();
        [image.onload, image.onerror] = [() => resolve("loaded"), () => resolve("refused")];
        image.src = address;
    })"""

    async def scene() -> None:
        async with broker(dashboard=told) as (running, _), dashboard(running.url) as page:
            blue = {"body": picture("#336699"), "content_type": "image/png"}
            await page.route(re.compile("^https://"), lambda route: route.fulfill(**blue))
            await show(page, "map")
            await page.wait_for_selector(".leaflet-tile-loaded")
            assert await page.evaluate(load, f"{other}/0/0/0.png") == "loaded"
            assert {urlsplit(url).netloc for url in page.strangers} == {"tiles.example"}
            assert await page.evaluate(load, "https://elsewhere.example/0/0/0.png") == "refused"
            page.strangers.clear()
            page.complaints.clear()  # the browser logs what it has refused

    run(scene())


def test_a_broker_is_asked_nothing_while_no_dashboard_is_open() -> None:
    async def scene() -> None:
        place = DashboardSettings(position=Point(8.5, 47.3), area=circle(8.5, 47.3, 900))
        async with broker(dashboard=place) as (running, client), connect(running.native, name="van") as van:
            asked: list[str] = []
            answer = running.http.inspection.answer

            def noted(subject: str, parameters: Mapping[str, str]) -> Any:
                asked.append(subject)
                return answer(subject, parameters)

            running.server.questions.answer = noted
            await van.set_context({"location": {"lon": 8.54, "lat": 47.37}})
            assert asked == []
            async with dashboard(running.url) as page:
                await show(page, "map")
                await until(lambda: asked.count("map") > 3)
                await page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
                await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
                await page.wait_for_load_state("networkidle")  # half a second without a request: it has ended asking
                before = asked.count("map")
                await page.evaluate("Object.defineProperty(document, 'hidden', { value: false, configurable: true })")
                await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
                await until(lambda: asked.count("map") > before)
            await until(lambda: not running.http.connections)  # the last question of the page has come, too
            assert (await client.get("/healthz")).status_code == 200
            seen = len(asked)
            for n in range(20):
                await van.publish({"n": n})
                assert (await client.get("/healthz")).status_code == 200
            assert len(asked) == seen
            assert not running.http.activity.listeners
            assert not running.http.inspection.has_samples

    run(scene())

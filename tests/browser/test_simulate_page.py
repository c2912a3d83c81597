"""The page Simulate in a real browser: a run at the broker, a trace read in the page, another file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from godwit import trace
from godwit.cli.trace_viewer import viewer
from godwit.simulator.run import run as simulate
from godwit.simulator.run_map import map_of
from godwit.simulator.scenario import named, with_changes
from godwit.trace import Record, TraceWriter
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import PHONE, dashboard, fits, show, shows
from tests.network.http_broker import broker
from tests.network.waiting import until

HOSTILE = "<img src=x onerror=alert(1)>"
SHORT = ("run.duration_s=30", "run.settle_s=10", "clients.publish_per_s=1", "run.judge=false", "run.leave=false")


def recorded(folder: Path) -> Path:
    """A short run of ferries on a lake."""
    scenario = with_changes(named("ferries"), SHORT)
    about = {"scenario": {"name": scenario.name}, "seed": 3, "map": map_of(scenario, 3)}
    with TraceWriter(folder, about) as sink:
        simulate(scenario, 3, None, sink)
    return folder / "trace.parquet"


@asynccontextmanager
async def simulate_page() -> AsyncIterator[Any]:
    async with broker() as (running, _), dashboard(running.url) as page:
        page.posted = []
        page.on("request", lambda asked: page.posted.append(asked.url) if asked.method == "POST" else None)
        await show(page, "simulate")
        yield page


async def drop(page: Any, file: Path) -> None:
    await page.get_by_label("Trace:").set_input_files(file)


async def seek(page: Any, at: float) -> None:
    """Move the slider, as a hand does."""
    await page.get_by_role("slider").evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input', {bubbles: true}));"
        " slider.dispatchEvent(new Event('change', {bubbles: true})); }",
        at,
    )


def test_a_scenario_is_run_and_watched() -> None:
    async def scene() -> None:
        async with simulate_page() as page:
            await page.get_by_text("Change the scenario").click()
            box = page.get_by_label("TOML, as the guide")
            await until_filled(box)
            text = await box.input_value()
            assert 'model = "trace"' in text
            await box.fill(
                text.replace("duration_s = 120", "duration_s = 20").replace("settle_s = 60", "settle_s = 10")
            )
            await page.get_by_role("button", name="Run", exact=True).click()
            await page.get_by_role("heading", name="ferries-changed, seed 1").wait_for()
            await shows(page, "9 brokers, 10 other nodes")
            await page.wait_for_selector(".map .points")
            await page.wait_for_selector("canvas.graph")

    run(scene())


async def until_filled(box: Any) -> None:
    await box.page.wait_for_function("document.querySelector('textarea').value !== ''")


def test_a_trace_is_read_in_the_page_alone_and_can_be_scrubbed_through(tmp_path: Path) -> None:
    file = recorded(tmp_path)
    rows = trace.read(file).to_pylist()

    async def scene() -> None:
        async with simulate_page() as page:
            await drop(page, file)
            await page.get_by_role("heading", name="ferries, seed 3").wait_for()
            await shows(page, f"{len(rows):,} rows")
            await shows(page, "0 clients attached, 0 moves so far")
            at = 20.0
            await seek(page, at)
            expected = attached(rows, at)
            await page.get_by_text(f"{expected} clients attached").wait_for()
            await page.wait_for_url("**at=19.99*")  # the slider has steps
            await page.get_by_text("Rows of the trace").click()
            first = next(row for row in rows if row["at"] >= at - 0.1)
            await page.get_by_label("Rows", exact=True).get_by_text(first["node"]).first.wait_for()
            await seek(page, 0.0)
            await shows(page, "0 clients attached, 0 moves so far")
            await page.get_by_label("Speed").select_option("60")
            await page.get_by_role("button", name="Play").click()
            await page.get_by_role("button", name="Pause").wait_for()
            await page.get_by_role("button", name="Play").wait_for()  # it has come to its end
            moves = sum(row["kind"] == "relocated" for row in rows)
            await shows(page, f"{moves} moves so far")
            assert page.posted == []
            await page.set_viewport_size(PHONE)
            assert await fits(page)

    run(scene())


def attached(rows: list[dict[str, Any]], at: float) -> int:
    """How many clients have a connection at that time."""
    here: dict[str, bool] = {}
    for row in rows:
        if row["at"] <= at and row["kind"] in ("link_up", "link_down") and row["node"][0] in "ps":
            here[row["node"]] = row["kind"] == "link_up"
    return sum(here.values())


def test_many_row_groups_and_hostile_names_are_shown(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(trace, "GROUP_ROWS", 50)
    with TraceWriter(tmp_path, {"seed": 1}) as sink:
        for number in range(500):
            sink.write(number / 10, "b1", Record("handled", "b2", "Publish", size=9))
            if number % 100 == 0:
                sink.write(number / 10, HOSTILE, Record("link_up", f"b{1 + number // 100 % 2}", detail=HOSTILE))
    plain = tmp_path / "plain.parquet"
    pq.write_table(trace.read(tmp_path), plain, compression="none", use_dictionary=False, row_group_size=70)

    async def scene() -> None:
        async with simulate_page() as page:
            for file in (tmp_path / "trace.parquet", plain):
                await drop(page, file)
                await shows(page, "505 rows")
                await shows(page, "This scenario knows no positions on the globe")
                await seek(page, 45.0)
                await shows(page, "1 clients attached, 4 moves so far")
                await page.get_by_text("Who is where").click()
                await page.get_by_label("Clients by broker").get_by_text(HOSTILE).wait_for()

    run(scene())


def test_what_is_no_trace_is_told(tmp_path: Path) -> None:
    good = recorded(tmp_path / "good")
    content = good.read_bytes()
    files = {
        "empty.parquet": (b"", "the file is empty"),
        "text.parquet": (b"time,id,lon,lat\n" * 20, "this is not a Parquet file"),
        "cut.parquet": (content[: len(content) // 2], "this is not a Parquet file"),
        "damaged.parquet": (content[:4] + b"\0" * 3_000 + content[3_004:], "damaged"),
    }
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
    told = {name: text for name, (_, text) in files.items()}
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    told["other.parquet"] = "its columns are not those of a trace"
    schema = pa.schema([pa.field("at", pa.float64(), nullable=False), pa.field("host", pa.string(), nullable=False)])
    pq.write_table(pa.table({"at": [1.0], "host": ["x"]}, schema=schema), tmp_path / "columns.parquet")
    told["columns.parquet"] = "this is not a trace: its columns are at, host"
    table = pq.read_table(good).replace_schema_metadata({"godwit": '{"format": 7, "version": "9.0"}'})
    pq.write_table(table, tmp_path / "newer.parquet")
    told["newer.parquet"] = "this trace has the format 7, of Godwit 9.0, and this page reads format 1"
    with TraceWriter(tmp_path / "none", {}):
        pass
    (tmp_path / "none" / "trace.parquet").rename(tmp_path / "rowless.parquet")
    told["rowless.parquet"] = "there is no row in this trace"

    async def scene() -> None:
        async with simulate_page() as page:
            for name, text in told.items():
                await drop(page, tmp_path / name)
                await page.get_by_role("alert").get_by_text(text).wait_for()
                assert name in str(await page.get_by_role("alert").text_content())
            await drop(page, good)
            await page.get_by_role("heading", name="ferries").wait_for()
            assert await page.get_by_role("alert").count() == 0

    run(scene())


def test_a_scenario_with_an_error_is_told_with_its_line_and_files_elsewhere_are_refused() -> None:
    async def scene() -> None:
        async with simulate_page() as page:
            await page.get_by_text("Change the scenario").click()
            box = page.get_by_label("TOML, as the guide")
            await until_filled(box)
            await box.fill('[overlay]\nkind = "lime"\n')
            await page.get_by_role("button", name="Run", exact=True).click()
            await shows(page, "ferries-changed.toml:2: overlay.kind is 'lime'")
            await box.fill('[overlay]\nkind = "file"\nfile = "/etc/passwd"\n')
            await page.get_by_role("button", name="Run", exact=True).click()
            await shows(page, "file is '/etc/passwd': in the dashboard, allowed are")
            page.complaints.clear()  # the browser logs every answer of status 400

    run(scene())


def test_simulate_open_shows_the_run_and_nothing_else(tmp_path: Path) -> None:
    recorded(tmp_path)

    async def scene() -> None:
        import asyncio
        import socket

        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = uvicorn.Server(uvicorn.Config(viewer(tmp_path), log_level="warning", lifespan="off"))
            serving = asyncio.create_task(server.serve(sockets=[taken]))
            await until(lambda: server.started)
            async with dashboard(f"http://127.0.0.1:{taken.getsockname()[1]}") as page:
                await page.goto(page.web)
                await page.get_by_role("heading", name="ferries, seed 3").wait_for()
                await shows(page, "a recorded run")
                assert await page.get_by_role("button", name="Run", exact=True).count() == 0
            server.should_exit = True
            await serving

    run(scene())

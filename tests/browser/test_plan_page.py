"""The page Plan in a real browser: a trace and brokers in, settings and files out; what is wrong is said."""

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.browser.kept_browser import run
from tests.browser.test_dashboard import PHONE, Nobody, dashboard, fits, show, shows
from tests.network.http_broker import Running, broker

HOSTILE = "<b onclick=alert(1)>van</b>"
HEAD = "time,id,lon,lat\n"


def trace(folder: Path) -> Path:
    """Three clients that go to and fro between two places, an hour long."""
    file = folder / "vans.csv"
    rows = [
        f"{60 * minute},{client},{8.5 + 0.05 * abs((minute + number) % 40 - 20) / 20:.5f},47.0\n"
        for number, client in enumerate((HOSTILE, "v2", "v3"))
        for minute in range(60)
    ]
    file.write_text(HEAD + "".join(rows))
    return file


def positions(folder: Path, text: str = f"west,8.5,47.0,2500\n{HOSTILE},8.55,47.0,2500\n") -> Path:
    file = folder / "brokers.csv"
    file.write_text("broker,lon,lat,radius_m\n" + text)
    return file


@asynccontextmanager
async def plan_page() -> AsyncIterator[tuple[Any, Running]]:
    async with broker() as (running, _), dashboard(running.url) as page:
        await show(page, "plan")
        yield page, running


async def choose(page: Any, label: str, file: Path) -> None:
    await page.get_by_label(label).set_input_files(file)


def test_a_plan_is_made_shown_and_downloaded(tmp_path: Path) -> None:
    async def scene() -> None:
        async with plan_page() as (page, running):
            await choose(page, "Trace:", trace(tmp_path))
            await shows(page, "vans.csv")
            await choose(page, "Positions:", positions(tmp_path))
            await shows(page, "2 brokers")
            await page.get_by_label("Name of broker 2").fill("east")
            await page.get_by_role("button", name="Plan", exact=True).click()
            await shows(page, "Mode relocate, reduction")
            await shows(page, "of 180 positions of 3 clients")
            assert await page.get_by_label("Evidence").locator("tbody tr").count() == 16
            assert await page.get_by_label("Evidence").get_by_text("chosen").count() == 1
            matrix = await page.get_by_label("Moves from broker to broker").inner_text()
            assert "west" in matrix
            async with page.expect_download() as download:
                await page.get_by_role("link", name="east.toml").click()
            saved = tmp_path / "east.toml"
            await (await download.value).save_as(saved)
            assert tomllib.loads(saved.read_text())["neighbours"] == {"west": "127.0.0.1:7100"}
            await page.set_viewport_size(PHONE)
            await show(page, "plan")  # the last plan is still there
            await shows(page, "Mode relocate, reduction")
            assert await fits(page)
            assert running.http.jobs.jobs.job is not None

    run(scene())


def test_brokers_are_put_on_the_map_and_into_the_table() -> None:
    async def scene() -> None:
        async with plan_page() as (page, _):
            await page.wait_for_selector(".map canvas")
            await page.locator(".map").click(position={"x": 200, "y": 150})
            await shows(page, "1 brokers")
            assert await page.get_by_label("Name of broker 1").input_value() == "b1"
            assert abs(float(await page.get_by_label("Latitude of broker 1").input_value())) <= 90
            await page.get_by_role("button", name="Add a broker").click()
            await shows(page, "2 brokers")
            await page.get_by_role("button", name="Remove broker 1").click()
            assert await page.get_by_label("Name of broker 1").input_value() == "b2"
            await page.get_by_role("button", name="Take the example").click()
            await shows(page, "ferries.csv")
            await shows(page, "8 brokers")

    run(scene())


def test_wrong_files_are_told_with_their_line(tmp_path: Path) -> None:
    async def scene() -> None:
        async with plan_page() as (page, _):
            empty = tmp_path / "empty.csv"
            empty.write_text("")
            await choose(page, "Trace:", empty)
            await shows(page, "empty.csv is empty")
            other = tmp_path / "notes.txt"
            other.write_text("hello")
            await choose(page, "Trace:", other)
            await shows(page, "a trace is a file that ends in .csv or .parquet")
            await choose(page, "Positions:", trace(tmp_path))
            await shows(page, "no column broker")
            broken = tmp_path / "broken.csv"
            broken.write_text(f"{HEAD}0,van,8.5,47\nsoon,{HOSTILE},8.5,47\n")
            await choose(page, "Trace:", broken)
            await choose(page, "Positions:", positions(tmp_path))
            await page.get_by_role("button", name="Plan", exact=True).click()
            await shows(page, "trace.csv:3: time is 'soon': allowed are seconds, or a date")
            await choose(page, "Trace:", trace(tmp_path))
            await choose(page, "Positions:", positions(tmp_path, "a/b,8.5,47.0,2500\nc,8.55,47.0,2500\n"))
            await page.get_by_role("button", name="Plan", exact=True).click()
            await shows(page, "broker.name is 'a/b': it is the name of a folder, too")
            not_parquet = tmp_path / "vans.parquet"
            not_parquet.write_text("PAR")
            await choose(page, "Trace:", not_parquet)
            await page.get_by_role("button", name="Plan", exact=True).click()
            await shows(page, "trace.parquet: ")

    run(scene())


def test_a_job_is_stopped_runs_alone_and_is_for_administrators(tmp_path: Path) -> None:
    async def scene() -> None:
        async with plan_page() as (page, running), broker("b2", authenticator=Nobody()) as (_, stranger):
            await page.get_by_role("button", name="Take the example").click()
            await shows(page, "8 brokers")
            await page.get_by_role("button", name="Plan", exact=True).click()
            await page.get_by_role("button", name="Stop").wait_for()
            said = await page.evaluate(
                "fetch('/jobs/simulate', {method: 'POST', body: '{\"scenario\": \"\"}'}).then((a) => a.status)"
            )
            assert said == 409
            page.complaints.clear()  # the browser logs every answer of status 409
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_text("stopped", exact=True).wait_for()
            job = running.http.jobs.jobs.job
            assert job is not None
            assert job.task is not None
            await job.task
            assert job.process is not None
            assert job.process.returncode is not None
            folder = job.folder
            await running.http.jobs.jobs.close()
            assert not folder.exists()
            for path in ("/jobs", "/jobs/scenarios", "/jobs/files/plan/plan.json"):
                assert (await stranger.get(path)).status_code == 403
            assert (await stranger.post("/jobs/plan", content=b"{}")).status_code == 403

    run(scene())

"""The page and the examples of docs/guides/browser.md run, in Chromium."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import time
from typing import Any

import jwt

from tests.browser.kept_browser import run
from tests.browser.stations import browser_page
from tests.conventions.repository import ROOT
from tests.network.http_broker import broker
from tests.network.proxy import Proxy
from tests.network.rights_broker import SECRET, secured, user
from tests.network.waiting import until

GUIDE = (ROOT / "docs" / "guides" / "browser.md").read_text(encoding="utf-8")
BROKER = "http://127.0.0.1:7080"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCK.findall(GUIDE) if found == kind]


@asynccontextmanager
async def site() -> AsyncIterator["Site"]:
    """A web server with one page, on this machine: browsers let only pages from here ask others here."""
    made = Site()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = "http://{}:{}".format(*server.sockets[0].getsockname())
    async with server:
        yield made


class Site:
    """One page, whatever is asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.text = "<!doctype html><title>Examples</title>"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            body = self.text.encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        writer.close()


def test_the_page_shows_what_is_published_and_goes_on_after_an_interruption() -> None:
    async def scene() -> None:
        [text] = blocks("html")
        async with site() as here, broker(origins=[here.url]) as (running, http), browser_page() as page:
            proxy = Proxy(running.web)
            here.text = text.replace(BROKER, f"http://{await proxy.start()}")
            await page.goto(here.url)
            await page.get_by_text("attached").wait_for()
            await page.click("button")
            await page.locator("li").wait_for()
            assert (await page.inner_text("li")).startswith("2 from web-")
            proxy.close()
            await page.get_by_text("away").wait_for()
            for cost in (1, 9):
                await http.post("/events", json={"kind": "parking", "cost": cost})
            await page.click("button")
            proxy.open()
            await page.locator("li").nth(2).wait_for()
            assert [line[0] for line in await page.locator("li").all_inner_texts()] == ["2", "1", "2"]
            await proxy.stop()

    run(scene)


def test_every_example_runs_to_its_end() -> None:
    async def scene() -> None:
        examples = [example for example in blocks("js") if "token" not in example]
        assert len(examples) == 6
        async with site() as here, broker(origins=[here.url]) as (running, _), browser_page() as page:
            said: list[str] = []
            page.on("console", lambda message: said.append(message.text))
            await page.goto(here.url)
            await page.evaluate(
                """async (url) => {
                    Object.assign(window, await import(`${url}/client.js`), { url });
                    window.client = connect(url);
                }""",
                running.url,
            )
            for example in examples:
                under_way = page.evaluate(f"async () => {{ {example} }}")
                if "receipts: true" in example:  # it waits for an interruption
                    under_way = asyncio.gather(
                        under_way, page.evaluate("client.drained().then(() => client.moveTo(url))")
                    )
                await under_way
            assert said[0] == "b1"
            assert "12 8.54 at the station" in said
            assert "3" in said
            assert said[-1].startswith("back ")  # an event that was not confirmed when it moved comes again

    run(scene)


@asynccontextmanager
async def example_page(folder: Path, mark: str) -> AsyncIterator[tuple[Any, Proxy, Any, list[str]]]:
    """The example with this mark in a page of a broker with users: the broker, the way to it, the page, its log."""
    [example] = [found for found in blocks("js") if mark in found]
    token = jwt.encode({"sub": "ann", "exp": time() + 3_600}, SECRET, "HS256")
    async with secured(folder, user("ann", ["*"], ["*"])) as broker, browser_page() as page:
        proxy, said = Proxy(broker.web), list[str]()
        url = f"http://{await proxy.start()}"
        page.on("console", lambda message: said.append(message.text) if message.type == "log" else None)
        await page.goto(f"{url}/healthz")
        await page.evaluate("(given) => { Object.assign(window, given); }", {"url": url, "token": token})
        await page.evaluate(f"async () => {{ {example} }}")
        yield broker, proxy, page, said
        await page.close()
        await proxy.stop()


def test_an_event_source_listens_by_tickets_and_goes_on_after_an_interruption(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            example_page(tmp_path, "new EventSource") as (broker, proxy, _, said),
            broker.web_client("ann") as http,
        ):

            async def publish(*lines: int) -> None:
                for line in lines:
                    event = {"kind": "bus", "line": line, "late": 5}
                    assert (await http.post("/events", json=event)).status_code == 202

            def buses() -> list[str]:
                return [line for line in said if line.startswith("bus ")]

            await until(lambda: any(session.subscriptions for session in broker.machine.sessions))
            await publish(31, 32)
            await until(lambda: len(buses()) == 2)
            proxy.close()
            await publish(33)
            proxy.open()
            await until(lambda: len(buses()) == 3)
            await publish(34)
            await until(lambda: len(buses()) == 4)
            assert buses() == ["bus 31", "bus 32", "bus 33", "bus 34"]
            assert not broker.http.audit.logins  # no ticket was shown twice

    run(scene)


def test_a_program_of_ones_own_speaks_to_the_web_socket(tmp_path: Path) -> None:
    async def scene() -> None:
        async with example_page(tmp_path, "new WebSocket") as (broker, _, _, said):
            await until(lambda: "tram 4" in said)
            await until(lambda: broker.machine.sessions.session("ann/sign").queue.confirmed == 1)
            assert said == ["tram 4"]

    run(scene)

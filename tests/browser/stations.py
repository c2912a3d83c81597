"""Where the browser client runs in tests: a page in Chromium, or Node. Each takes the same calls (`station.mjs`)."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pytest

from tests.browser.kept_browser import chromium, chromium_here
from tests.conventions.repository import PACKAGE

HERE = Path(__file__).parent
CLIENT = PACKAGE / "runtime" / "web" / "client.js"
NODE_MIN = (20, 10)  # with a WebSocket, behind a flag
NODE_WITH_SOCKETS = (22, 0)
MESSAGE_BYTES_MAX = 64 * 2**20
PATIENCE_MS = 120_000  # four times Playwright's own: a busy machine is no fault of a page


class ClientError(Exception):
    """What the client has thrown."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Station(Protocol):
    """Where clients run."""

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the station. ClientError: it has thrown that."""


def need(found: object, what: str) -> None:
    """Skip a test for which something is missing; where it was to be installed (`make test APT=1`), fail."""
    if found:
        return
    if os.environ.get("APT"):
        pytest.fail(f"{what} is missing, although `make tools` installs it")
    pytest.skip(f"{what} is missing: `make tools` installs it with apt")


@cache
def node_version() -> tuple[int, ...] | None:
    """The version of Node, if there is one."""
    program = shutil.which("node")
    if program is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


class NodeStation:
    """Clients in a process of Node."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    async def call(self, method: str, *args: Any) -> Any:
        self._number += 1
        answer = self._calls[self._number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"number": self._number, "method": method, "args": args})
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await answer

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            answer = self._calls.pop(said["number"])
            if answer.done():
                continue
            if error := said.get("error"):
                answer.set_exception(ClientError(error["name"], error["message"]))
            else:
                answer.set_result(said.get("result"))
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(AssertionError("Node has ended"))

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def in_node() -> AsyncIterator[NodeStation]:
    version = node_version()
    need(version, "Node")
    assert version is not None
    if version < NODE_MIN:
        pytest.skip(f"Node {version} is too old: {NODE_MIN} or newer is needed")
    flags = [] if version >= NODE_WITH_SOCKETS else ["--experimental-websocket", "--no-warnings"]
    process = await asyncio.create_subprocess_exec(
        "node",
        *flags,
        str(HERE / "node_station.mjs"),
        str(CLIENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MESSAGE_BYTES_MAX,
    )
    station = NodeStation(process)
    try:
        yield station
    finally:
        await station.close()


class PageStation:
    """Clients in a page."""

    def __init__(self, page: Any) -> None:
        self.page = page

    async def call(self, method: str, *args: Any) -> Any:
        said = await self.page.evaluate(
            """async ([method, args]) => {
                try { return { result: await station[method](...args) }; }
                catch (error) { return { error: { name: error.name, message: error.message } }; }
            }""",
            [method, list(args)],
        )
        if error := said.get("error"):
            raise ClientError(error["name"], error["message"])
        return said.get("result")


@asynccontextmanager
async def browser_page(**options: Any) -> AsyncIterator[Any]:
    """A page in Chromium, which shares nothing with those of other tests; `options` are those of `new_page`.

    What it logs as an error, and any exception of its own, fails the test in the end.
    """
    need(chromium(), "Chromium")
    async with chromium_here() as browser:
        page = await browser.new_page(**options)  # in a context of its own, which is closed with it
        try:
            page.set_default_timeout(PATIENCE_MS)
            page.faults = []
            page.on("pageerror", lambda error: page.faults.append(str(error)))
            yield page
            assert page.faults == [], page.faults
        finally:
            await page.close()


@asynccontextmanager
async def in_page(web: str) -> AsyncIterator[PageStation]:
    """A page of the broker that answers HTTP at `web`."""
    async with browser_page() as page:
        await page.goto(f"{web}/client.js")
        await page.evaluate(
            "async (station) => { window.station = (await import(station)).makeStation(await import('/client.js')); }",
            "data:text/javascript," + quote((HERE / "station.mjs").read_text(encoding="utf-8")),
        )
        yield PageStation(page)


@asynccontextmanager
async def station(place: str, web: str) -> AsyncIterator[Station]:
    """`node`, or `chromium`, with a page of the broker at `web`."""
    if place == "node":
        async with in_node() as made:
            yield made
    else:
        async with in_page(web) as made:
            yield made

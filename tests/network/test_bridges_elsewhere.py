"""Bridges to webhooks and to the real NATS server."""

import asyncio
import hmac
import json
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.network.test_bridges import broker, configured, counted, devices, port_of
from tests.network.waiting import run, until

NATS = shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
needs_nats = pytest.mark.skipif(NATS is None, reason="nats-server is not installed (make tools APT=1)")
WEBHOOK = """
[[bridge]]
name = "plant"
kind = "webhook"
address = "{url}"
secret = "secret"
retry_s_max = 0.1
[[bridge.topics]]
pattern = "alarms/#"
direction = "out"
where = "level > 2"
"""


class Receiver(ThreadingHTTPServer):
    """A webhook: what it got, and what it answers next."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.got.append((dict(self.headers), body))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *said: Any) -> None:
        """Nothing is printed."""


@contextmanager
def receiver() -> Iterator[tuple[Receiver, str]]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/events"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_events_are_posted_signed_in_order_and_again_until_they_are_taken(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "secret").write_text("s3cret\n")
        with receiver() as (hook, url):
            hook.answers = [200, 503, 429, 200, 410]
            async with broker(configured(tmp_path, WEBHOOK, url=url)) as server:
                await until(lambda: server.bridges.bridges["plant"].is_up)
                async with devices(port_of(server)) as (here,):
                    for number in range(1, 6):
                        await here.publish(f"alarms/{number}", b'{"level": %d}' % number, 1)
                    bridge = server.bridges.bridges["plant"]
                    await until(lambda: bridge.tally.counts["out", "carried"] == 2)
                    await until(lambda: bridge.tally.counts["out", "refused"] == 1)
                    await until(lambda: bridge.waiting == 0)
        topics = [json.loads(body)["data"]["attributes"]["topic"] for _, body in hook.got]
        assert topics == ["alarms/3", "alarms/4", "alarms/4", "alarms/4", "alarms/5"]
        names = [headers["X-Godwit-Delivery"] for headers, _ in hook.got]
        assert names[1] == names[2] == names[3]
        assert len(set(names)) == 3
        for headers, body in hook.got:
            assert headers["X-Godwit-Signature"] == f"sha256={hmac.new(b's3cret', body, sha256).hexdigest()}"
            assert headers["Content-Type"] == "application/cloudevents+json"

    run(scene)


class NatsServer:
    """One NATS server, which may be stopped and started."""

    def __init__(self) -> None:
        self.port = -1
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        assert NATS is not None
        self._process = await asyncio.create_subprocess_exec(
            *(NATS, "-a", "127.0.0.1", "-p", str(self.port)), stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        said = b""
        while line := await self._process.stderr.readline():
            said += line
            if found := re.search(rb"client connections on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
            if b"Server is ready" in line:
                self._reading = asyncio.create_task(_read_on(self._process.stderr))
                return
        raise AssertionError(f"nats-server did not start: {said.decode()}")

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()
            assert self._reading is not None
            await self._reading


async def _read_on(stream: asyncio.StreamReader) -> None:
    while await stream.read(65_536):
        pass


@asynccontextmanager
async def nats_server() -> AsyncIterator[NatsServer]:
    made = NatsServer()
    await made.start()
    try:
        yield made
    finally:
        await made.kill()


@asynccontextmanager
async def listening(server: NatsServer) -> AsyncIterator[tuple[Any, asyncio.Queue[Any]]]:
    """A client of NATS that hears everything."""
    nats = pytest.importorskip("nats")
    came: asyncio.Queue[Any] = asyncio.Queue()
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    await client.subscribe(">", cb=came.put)
    await client.flush()
    try:
        yield client, came
    finally:
        await client.close()


NATS_BRIDGE = """
[[bridge]]
name = "plant"
kind = "nats"
address = "127.0.0.1:{port}"
retry_s_max = 0.1
[[bridge.topics]]
pattern = "#"
local_prefix = "fleet/"
remote_prefix = "site7/"
"""


@needs_nats
def test_a_bridge_to_nats_carries_both_ways_and_neither_doubles_nor_loops(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            nats_server() as other,
            listening(other) as (client, came),
            broker(configured(tmp_path, NATS_BRIDGE, port=other.port)) as server,
        ):
            await until(lambda: server.bridges.bridges["plant"].is_up)
            async with devices(port_of(server)) as (here,):
                await here.publish("fleet/a/speed", b"60", 2, UserProperty=[("unit", "kmh")])
                message = await came.get()
                assert (message.subject, message.data) == ("site7.a.speed", b"60")
                assert (message.headers["unit"], message.headers["Godwit-Path"]) == ("kmh", "b1")
                await here.publish("fleet/a.b", b"", 2)
                await until(lambda: counted(server, "out", "refused") == 1)
                await client.publish("site7.orders.1", b'{"urgent": true}')
                topics = [(await here.next()).topic for _ in range(3)]
                assert topics == ["fleet/a/speed", "fleet/a.b", "fleet/orders/1"]
                assert (await came.get()).subject == "site7.orders.1"
                await client.publish("site7.orders.2", b"", headers={"Godwit-Path": "x > b1"})
                await until(lambda: counted(server, "in", "looped") == 1)
                await until(lambda: counted(server, "out", "looped") == 1)
                assert (await came.get()).subject == "site7.orders.2"
                assert came.empty()
                assert here.came.empty()

    run(scene)


@needs_nats
def test_what_is_published_while_nats_is_away_waits_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with nats_server() as other:
            file = configured(tmp_path, NATS_BRIDGE, port=other.port)
            async with broker(file) as server:
                bridge = server.bridges.bridges["plant"]
                await until(lambda: bridge.is_up)
                await other.kill()
                await until(lambda: not bridge.is_up)
                async with devices(port_of(server)) as (here,):
                    for number in range(20):
                        await here.publish("fleet/x", b"%d" % number, 1)
                await until(lambda: bridge.waiting == 20)
                await server.bridges.stop()
                await other.start()
                async with listening(other) as (_, came):
                    await server.bridges.put(server.configuration.settled.bridge)
                    assert [int((await came.get()).data) for _ in range(20)] == list(range(20))

    run(scene)

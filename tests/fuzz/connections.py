"""Targets that are the other end of a connection: HTTP, WebSocket, devices of an ad hoc network, peers of a team."""

import asyncio
import atexit
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import msgspec
import uvicorn
from uvicorn.server import ServerState

from godwit.adhoc.radio_messages import Beacon, Carried, Hangup, Poll, Relayed
from godwit.broker.messages import Ack
from godwit.errors import BadEvent, NotAdmitted, PeerFault
from godwit.languages.cloud_events import BATCH, HTTP, STRUCTURED
from godwit.languages.event_documents import mode_of, read_document
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_wire import WIRE, MessageSeals, announced, check_announcement, greeting, proof_of
from godwit.runtime.http_protocols import CLOSINGS, HOSTS, MEMORY, PLACES, SLICES, HttpProtocol, Places, SocketProtocol
from godwit.runtime.memory_account import MemoryAccount
from godwit.runtime.rate_limits import HostConnections
from godwit.runtime.read_slices import ReadSlices
from godwit.runtime.socket_messages import message_of
from godwit.teamwork.machine.peer_effects import ChangeRecord, EventCame
from tests.fuzz.spoiling import Case, spoilt
from tests.simulation.team_bus import SCOPE, Bus

__all__ = ["CONNECTIONS"]

TURNS = 6  # of the loop, in which an application answers
LIFE = 300  # cases before a machine is made again

EVENT = b'{"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "data": {"cost": 2}}'
BATCH_BODY = b"[" + EVENT + b"]"
STRUCTURED_HEAD = b"POST /events HTTP/1.1\r\nHost: here\r\nContent-Type: " + STRUCTURED.encode() + b"\r\n"
BATCH_HEAD = b"POST /events HTTP/1.1\r\nHost: here\r\nContent-Type: " + BATCH.encode() + b"\r\n"
BINARY_HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nce-id: 1\r\nce-source: /a\r\nce-type: t\r\nce-specversion: 1.0\r\n"
REQUESTS = (
    STRUCTURED_HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(EVENT), EVENT),
    BATCH_HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BATCH_BODY), BATCH_BODY),
    BINARY_HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\nhi",
    b"GET /events?filter=x%20%3C%203 HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n\r\n",
    b"HEAD /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
)
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXTS = (
    b'{"type":"Attach","client":"ann"}',
    b'{"type":"Request","number":1,"wish":{"type":"Subscribe","id":["ann","s"],"filter":"x < 5"}}',
    b'{"type":"Received","number":1}',
    b"\xff\xfe",
)


class FakeTransport(asyncio.Transport):
    """A transport that keeps nothing."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)})
        self._is_closing = False
        self._protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def write(self, data: Any) -> None:
        assert type(data) in (bytes, bytearray)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing is read."""

    resume_reading = pause_reading


class Closings:
    """Carries out at once what follows the end of a connection."""

    @staticmethod
    def call(do: Callable[[], None]) -> None:
        do()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads what comes as the broker does, and answers."""
    if scope["type"] == "websocket":
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (said := await receive())["type"] == "websocket.receive":
            with suppress(PeerFault):
                message_of((said.get("text") or "").encode() if said.get("bytes") is None else said["bytes"])
        return
    body, more = b"", True
    while more:
        said = await receive()
        if said["type"] != "http.request":
            return
        body, more = body + said["body"], said["more_body"]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    content_type = headers.get("content-type")
    status = 202
    try:
        if mode := mode_of(content_type, headers, HTTP):
            read_document(mode, body, content_type, headers, HTTP)
    except BadEvent:
        status = 400
    await send({"type": "http.response.start", "status": status, "headers": []})
    if scope["path"] == "/events" and scope["method"] == "GET":  # a stream, which lasts as long as the connection
        await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            continue
    await send({"type": "http.response.body", "body": b""})


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of all connections in this process."""
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


async def _turns() -> None:
    """Let the application go on."""
    loop = asyncio.get_running_loop()
    for _ in range(TURNS):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


class HttpServer:
    """Connections of HTTP, each with spoilt bytes on it; no task and no callback may fail."""

    def __init__(self, *, is_socket: bool) -> None:
        self._is_socket = is_socket
        self._loop = _loop()
        self._loop.set_exception_handler(self._on_exception)
        self._failed: list[BaseException | str] = []
        self._config = uvicorn.Config(
            application, http=HttpProtocol, ws=SocketProtocol, loop="none", lifespan="off", log_config=None,
            access_log=False, ws_max_size=2**16, ws_per_message_deflate=False,
        )  # fmt: skip
        self._config.load()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports each bad request

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._failed.append(context.get("exception") or context["message"])

    def case(self, draw: Random) -> None:
        """One connection."""
        self._loop.run_until_complete(self._connection(draw))
        if self._failed:
            error = self._failed.pop()
            raise error if isinstance(error, BaseException) else AssertionError(error)

    async def _connection(self, draw: Random) -> None:
        state = {HOSTS: HostConnections(9), PLACES: Places(9), MEMORY: MemoryAccount(2**20, 10.0), CLOSINGS: Closings()}
        state[SLICES] = ReadSlices()
        tasks = ServerState()
        transport = FakeTransport()
        protocol = HttpProtocol(config=self._config, server_state=tasks, app_state=state)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._sent(draw):
            if not transport.is_closing():
                transport.get_protocol().data_received(data)
            await _turns()
        transport.get_protocol().connection_lost(None)
        await _turns()
        for task in list(tasks.tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _sent(self, draw: Random) -> list[bytes]:
        if not self._is_socket:
            data = spoilt(b"".join(draw.choice(REQUESTS) for _ in range(draw.randint(1, 3))), draw)
        else:
            frames = b"".join(_frame(draw.choice(TEXTS), draw) for _ in range(draw.randint(1, 4)))
            if draw.random() < 0.8:
                return [UPGRADE, *_cut(spoilt(frames, draw), draw)]
            data = spoilt(UPGRADE, draw) + frames
        return _cut(data, draw)


def _cut(data: bytes, draw: Random) -> list[bytes]:
    at = draw.randrange(len(data) + 1)
    return [part for part in (data[:at], data[at:]) if part]


def _frame(data: bytes, draw: Random) -> bytes:
    """A frame of a WebSocket from a client, of any kind."""
    mask = draw.randbytes(4)
    kind = draw.choice((0x81, 0x81, 0x82, 0x01, 0x80, 0x88, 0x89, 0x8A))
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return bytes((kind, 0x80 | len(data))) + mask + masked if len(data) < 126 else b""


# ---------------------------------------------------------------- devices and peers


@cache
def _key() -> DeviceKey:
    return DeviceKey.made()


def ad_hoc_datagram(draw: Random) -> None:
    """An announcement, spoilt after it was signed; and frames of a connection between devices."""
    if draw.random() < 0.3:
        with suppress(PeerFault, NotAdmitted):
            check_announcement(spoilt(_announcement(), draw), "net")
        return
    with suppress(PeerFault):
        WIRE.decode(spoilt(draw.choice(_device_frames()), draw))


@cache
def _announcement() -> bytes:
    return announced(_key(), "net", "x", 4_000, 1.0)


RADIO = (
    Beacon("x", 1.0, 1, 1, 0),
    Relayed("x", "here", 2, 0, Poll(("x", 1))),
    Relayed("x", "here", 3, 0, Hangup(("x", 1), "gone")),
    Relayed("x", "here", 4, 0, Carried(("x", 1), Ack(3))),
)


@cache
def _device_frames() -> tuple[bytes, ...]:
    ours, theirs = greeting("net", "x", _key()), greeting("net", "here", DeviceKey.made())
    sealed = MessageSeals("x", "net", _key(), KnownKeys(), 0).sealed(RADIO, 1.0)
    return tuple(WIRE.encode(each) for each in (ours, proof_of(_key(), ours, theirs, is_dialler=True), *sealed))


class HostileDevice:
    """A device that signs whatever it likes."""

    def __init__(self) -> None:
        self._seals = MessageSeals("x", "net", _key(), KnownKeys(), 0)
        self._here = MessageSeals("here", "net", DeviceKey.made(), KnownKeys(), 0)

    def case(self, draw: Random) -> None:
        """A bundle with a right signature over spoilt messages, or over what is no bundle."""
        bodies = [msgspec.msgpack.encode(draw.choice(RADIO)) for _ in range(draw.randint(1, 3))]
        at = draw.randrange(len(bodies))
        bodies[at] = spoilt(bodies[at], draw)
        signed = self._seals._signed(bodies, 1.0)
        with suppress(PeerFault):
            self._here.opened(signed, 1.0)


class HostileTeammate:
    """Peers of a team, one of which makes changes of any kind with right signatures."""

    def __init__(self) -> None:
        self._cases = 0
        self._bus = self._made()
        self._right = [payload for payload in self._bus.travelled if payload]

    @staticmethod
    def _made() -> Bus:
        bus = Bus(1, peers=3)
        bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"title": "a team"}))
        bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
        bus.come_together()
        bus.tell(1, ChangeRecord(SCOPE, "artefact/1", {"title": "plan", "tags": ["a", "b"]}))
        bus.deliver()
        return bus

    def case(self, draw: Random) -> None:
        """A message of another peer."""
        self._cases += 1
        if self._cases % LIFE == 0:
            self._bus = self._made()
        self._bus.tell(0, EventCame(spoilt(draw.choice(self._right), draw)))


CONNECTIONS: dict[str, Callable[[], Case]] = {
    "HTTP requests": lambda: HttpServer(is_socket=False).case,
    "WebSocket": lambda: HttpServer(is_socket=True).case,
    "ad hoc datagrams": lambda: ad_hoc_datagram,
    "ad hoc bundles": lambda: HostileDevice().case,
    "team changes": lambda: HostileTeammate().case,
}

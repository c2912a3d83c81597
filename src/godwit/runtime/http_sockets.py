"""WebSockets: the JSON form of the native protocol for browsers (`/ws`), and MQTT (`/mqtt`).

*Theory.* A message of the JSON form is one text frame; the first one is `Intro`, and then all is as over TCP: a client
in a browser sends `Attach`, requests and `Received`. MQTT's bytes arrive in binary frames, split anywhere; the gateway
joins them.

*Rules.*
1. An invalid message closes the connection with a reason, and affects no other client.
2. Data for a peer that does not read is bounded: beyond `UNREAD_BYTES_MAX` its connection is closed.
3. While the node accepts no inputs, nothing is read; reading from a peer above its rate pauses.
4. A connection without `Intro` after `INTRO_S`, or with too much data before that, is closed; also one whose token has
   expired or whose user was removed.
5. Links between brokers use the native protocol only.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from godwit.broker.messages import Attach, Bye
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.runtime.authentication import Principal
from godwit.runtime.client_rates import ClientRate
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.http_peer import HttpPeer
from godwit.runtime.in_process_client import connection_name
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.message_items import SMALL_BYTES
from godwit.runtime.node import Node
from godwit.runtime.rate_limits import work_of
from godwit.runtime.slow_messages import granting
from godwit.runtime.socket_queries import SocketQueries
from godwit.runtime.tcp import INTRO_S, UNREAD_BYTES_MAX, NativeServer
from godwit.runtime.wire import JSON, VERSION, Intro

__all__ = [
    "NORMAL",
    "REFUSED",
    "WRONG_DATA",
    "Socket",
    "SocketHost",
    "StreamGateway",
    "close_reason",
    "serve_mqtt",
    "serve_native",
]

MQTT = "mqtt"
NORMAL, WRONG_DATA, REFUSED, STOPS = 1000, 1003, 1008, 1001
REASON_BYTES_MAX = 120  # a close frame takes 123
FULL_BYTES = 256 * 2**10  # unsent bytes, beyond which a peer counts as not reading


class GatewayStream(Protocol):
    """The gateway's end of one connection."""

    @property
    def user(self) -> str | None:
        """Its principal; None before authentication."""

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""

    def connection_lost(self) -> None:
        """The connection has closed."""

    def pause_writing(self) -> None:
        """The peer does not read what is sent to it."""

    def resume_writing(self) -> None:
        """It does again."""


class StreamGateway(Protocol):
    """Accepts MQTT over a stream of any kind."""

    def open(
        self,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        host: str,
        *,
        pause: Callable[[bool], None],
        certificate: str,
    ) -> GatewayStream:
        """A new connection from `host`; `pause` stops and resumes reading from it."""


class SocketHost(Protocol):
    """The interface of the HTTP server for WebSockets."""

    node: Node
    server: NativeServer
    tests: EdgeTests

    async def admit_socket(self, socket: WebSocket, intro: Intro) -> Principal:
        """Authenticate a WebSocket. PeerFault: access is refused."""

    def keep(self, stream: Any) -> None:
        """Register a connection to end when the broker stops."""

    def drop(self, stream: Any) -> None:
        """This is over."""

    async def room(self) -> None:
        """Wait until the node accepts inputs."""

    async def publish(self, principal: Principal, events: list[Event]) -> list[str]:
        """Publish events of a client; why some were refused."""


class Socket:
    """A WebSocket with non-blocking writes."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self._unsent: deque[str | bytes] = deque()
        self.unsent_bytes = 0  # that wait to be written
        self._is_full = False
        self.on_full: Callable[[bool], None] = lambda is_full: None  # called when the peer stops or resumes reading
        self._came = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._writing: asyncio.Task[None] | None = None
        self.reading: asyncio.Task[None] | None = None

    def write(self, data: str | bytes) -> None:
        """Write one frame. (rule 2)"""
        if self._closing is None:
            self._unsent.append(data)
            self.unsent_bytes += len(data)
            self._came.set()
            if self.unsent_bytes > UNREAD_BYTES_MAX:
                self._unsent.clear()
                self.close(REFUSED, "it does not read what it is sent")
            elif not self._is_full and self.unsent_bytes > FULL_BYTES:
                self._is_full = True
                self.on_full(True)

    def discard(self) -> None:
        """Drop what is not written yet: the peer has no right to it any more."""
        self._unsent.clear()
        self.unsent_bytes = 0

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Close, after the written data."""
        if self._closing is None:
            self._closing = (code, close_reason(reason))
            self._came.set()

    def end(self) -> None:
        """The broker stops."""
        self.close(STOPS, "the broker stops")

    async def run(self, read: Callable[[], Any]) -> None:
        """Read and write, until one of both ends."""
        self.reading = asyncio.create_task(read())
        self._writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait((self.reading, self._writing), return_when=asyncio.FIRST_COMPLETED)
            self.close()
            await asyncio.wait((self._writing,), timeout=INTRO_S)
        finally:
            for task in (self.reading, self._writing):
                task.cancel()
            await asyncio.gather(self.reading, self._writing, return_exceptions=True)

    async def _write(self) -> None:
        socket = self.socket
        try:
            while self._closing is None or self._unsent:
                while self._unsent:
                    data = self._unsent.popleft()
                    self.unsent_bytes -= len(data)
                    await (socket.send_text(data) if isinstance(data, str) else socket.send_bytes(data))
                    if self._is_full and self.unsent_bytes <= FULL_BYTES // 4:
                        self._is_full = False
                        self.on_full(False)
                if self._closing is None:
                    self._came.clear()
                    await self._came.wait()
            await socket.close(*self._closing)
        except (RuntimeError, WebSocketDisconnect, OSError):
            return  # the peer has disconnected


def close_reason(reason: str) -> str:
    """The reason, cut to the size of a close frame."""
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")


async def serve_native(host: SocketHost, websocket: WebSocket, peer: HttpPeer) -> None:
    """A client that uses the JSON form."""
    await websocket.accept()
    socket = Socket(websocket)
    peer.unsent_of = lambda: socket.unsent_bytes
    inner: InProcessConnection | None = None
    rate: ClientRate | None = None

    def write(message: Any) -> None:
        socket.write(JSON.encode(message).decode())

    def say(message: Any) -> None:
        if inner is not None:
            inner.say(message)

    def may_have(event: Event) -> bool:
        return inner is None or inner.principal.may_have(event)

    queries = SocketQueries(host.tests, say, write, may_have, lambda: "" if inner is None else inner.principal.user)

    def refuse(reason: str) -> None:
        if inner is not None and inner.principal.ended_because:
            socket.discard()
        write(Bye(reason))
        socket.close(REFUSED, reason)

    async def read() -> None:
        nonlocal inner, rate
        try:
            async with asyncio.timeout(INTRO_S):
                intro = _introduced(await _text(websocket), host.server.traffic.intro_bytes_max)
                principal = await host.admit_socket(websocket, intro)
            inner = InProcessConnection(
                host.node,
                connection_name(),
                principal,
                queries.tell,
                lambda reason: socket.close(NORMAL, reason),
                on_end=refuse,
            )
            now = asyncio.get_running_loop().time
            rate = host.server.rates.enter(principal.user, now())
            while True:
                await host.room()  # rule 3
                await inner.room()
                data = (await _text(websocket)).encode()
                message, packed = await queries.read(data), None
                if type(message) is Attach and len(data) > SMALL_BYTES:
                    work, party = host.tests.helper.long_work, principal.user or message.client
                    message, packed = await work.all_of(party, granting(message, principal))
                if type(message) is Intro:  # a sign of life, answered by another
                    write(Intro(broker=host.server.name))
                    continue
                inner.say(message, packed=packed)
                if (wait_s := rate.take(1, len(data), work_of(message), now())) > 0:
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            socket.close(REFUSED, "no Intro came")
        except PeerFault as fault:  # rule 1
            refuse(str(fault))
        except (WebSocketDisconnect, RuntimeError):
            pass

    host.keep(socket)
    try:
        await socket.run(read)
    finally:
        host.drop(socket)
        queries.close()
        if inner is not None:
            inner.hang_up()
        if rate is not None:
            rate.leave(asyncio.get_running_loop().time())


def _introduced(text: str, bytes_max: int) -> Intro:
    if len(text) > bytes_max:
        raise PeerFault(f"an Intro of {len(text)} characters: at most {bytes_max} are allowed (limits.intro_bytes_max)")
    intro = JSON.decode(text.encode())
    if type(intro) is not Intro:
        raise PeerFault(f"a {type(intro).__name__} before Intro")
    if intro.version != VERSION:
        raise PeerFault(f"version {intro.version} of the protocol: this broker speaks {VERSION}")
    if intro.broker:
        raise PeerFault("brokers link over the native protocol")  # rule 5
    return intro


async def _text(websocket: WebSocket) -> str:
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", NORMAL))
    text = message.get("text")
    if text is None:
        raise PeerFault("a binary frame: messages are texts")
    return str(text)


async def serve_mqtt(
    host: SocketHost, websocket: WebSocket, gateway: StreamGateway, name: str, certificate: str, peer: HttpPeer
) -> None:
    """A client that uses MQTT. CONNECT has its credentials, which the gateway passes to the authenticator."""
    if MQTT not in websocket.scope.get("subprotocols", ()):
        await websocket.close(REFUSED, "the subprotocol must be mqtt")
        return
    await websocket.accept(MQTT)
    socket = Socket(websocket)
    may_read = asyncio.Event()
    may_read.set()
    stream = gateway.open(
        socket.write,
        socket.close,
        name,
        pause=lambda is_paused: may_read.clear() if is_paused else may_read.set(),
        certificate=certificate,
    )

    peer.user_of, peer.unsent_of = lambda: stream.user, lambda: socket.unsent_bytes
    socket.on_full = lambda is_full: stream.pause_writing() if is_full else stream.resume_writing()

    async def read() -> None:
        try:
            while True:
                await host.room()
                await may_read.wait()
                message = await websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                data = message.get("bytes")
                if data is None:
                    socket.close(WRONG_DATA, "a text frame: MQTT is bytes")
                    return
                stream.data_received(data)
        except (WebSocketDisconnect, RuntimeError):
            pass

    host.keep(socket)
    try:
        await socket.run(read)
    finally:
        host.drop(socket)
        stream.connection_lost()

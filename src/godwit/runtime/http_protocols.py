"""uvicorn's protocols with limits: idle and excess connections are closed, and client certificates are read.

*Rules.*
1. A connection has `HEAD_S` for its first request, and at most twice that from the answer to one request to the end of
   the next: so a slow sender cannot keep it open. A peer that is not authenticated must
   read an answer (a file, health) within `HEAD_S` times `ANSWER_CHECKS`: so a slow reader cannot, either.
2. The connections of one host are limited by `HostConnections`, WebSockets included.
3. When all places are in use (`Places`), some more are reserved for health and administration: a connection gets one of
   these, and clients' requests over it are answered by 503. When those are in use, too, the longest idle one is closed,
   or else the oldest one that is not an administrator's: it takes long to read a file.
4. Invalid bytes after a request close the connection without a traceback: h11 cannot answer them any more.
5. The name in a trusted certificate is passed to the application, as `certificate` in the request's state.
6. Incomplete requests and messages are limited in bytes and time, as for all listeners (`memory_account.py`). A request
   begins with the first byte of its head. Each fragment of a WebSocket message counts `FRAGMENT_BYTES` more, its
   overhead in memory.
7. Of many connections that close at once a few are handled in each turn of the loop (`pacing.py`).
8. Bytes are parsed a few at a time, and connections take turns (`read_slices.py`).
"""

import asyncio
from contextlib import suppress
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from godwit.runtime.http_peer import HttpPeer
from godwit.runtime.memory_account import TOO_SLOW, MemoryAccount
from godwit.runtime.peer_identity import certificate_names, host_of
from godwit.runtime.rate_limits import HostConnections
from godwit.runtime.read_slices import LONG_SLICE_BYTES, SLICE_BYTES, ReadSlices
from godwit.runtime.security_log import SecurityLog

__all__ = [
    "AUDIT",
    "CERTIFICATE",
    "CLOSINGS",
    "HOSTS",
    "MEMORY",
    "PEER",
    "PLACE",
    "PLACES",
    "SLICES",
    "HttpProtocol",
    "Place",
    "Places",
    "SocketProtocol",
]

HEAD_S = 10.0
ANSWER_CHECKS = 3
RESERVED = 64
CLOSE_S = 5.0
REFUSED = 1008  # the code that closes a WebSocket
NO_TEXT = 1007  # the same, for a text that is not UTF-8
REASON_BYTES_MAX = 120  # a close frame takes 123
FRAGMENT_BYTES = 64
LINES_MAX = 64  # in bytes that are parsed at once: each head and each chunk has an end of line
CERTIFICATE, HOSTS, ENTERED, PLACES, PLACE = "certificate", "hosts", "entered", "places", "place"
MEMORY, PEER, CLOSINGS, AUDIT, SLICES = "memory", "peer", "closings", "audit", "slices"
LISTENER = "http"
CLOSE = "websocket.close"


class Place:
    """The place of one connection: for anything, or reserved for health and administration."""

    def __init__(self, places: "Places", protocol: "HttpProtocol") -> None:
        self._places = places
        self.protocol = protocol

    @property
    def is_reserved(self) -> bool:
        """Whether it is reserved."""
        return self._places.is_reserved(self)

    def leave(self) -> None:
        """The connection has closed."""
        self._places.leave(self)


class Places:
    """The places of connections. (rule 3)"""

    def __init__(self, count: int, reserved: int = RESERVED) -> None:
        self.count, self.reserved = count, reserved
        self._taken: set[Place] = set()
        self._reserved: dict[Place, None] = {}  # the oldest first

    def enter(self, protocol: "HttpProtocol") -> Place | None:
        """A place for a connection, or None."""
        place = Place(self, protocol)
        if len(self._taken) < self.count:
            self._taken.add(place)
            return place
        if len(self._reserved) >= self.reserved:
            others = [each for each in self._reserved if not each.protocol.is_administrators]
            given_up = next((each for each in self._reserved if each.protocol.is_idle), next(iter(others), None))
            if given_up is None:
                return None
            del self._reserved[given_up]
            given_up.protocol.transport.abort()
        self._reserved[place] = None
        return place

    def is_reserved(self, place: Place) -> bool:
        """Whether a place is reserved. If an ordinary one is free, it is used instead."""
        if place in self._reserved and len(self._taken) < self.count:
            del self._reserved[place]
            self._taken.add(place)
        return place not in self._taken

    def leave(self, place: Place) -> None:
        """A place is free again."""
        self._taken.discard(place)
        self._reserved.pop(place, None)


class HttpProtocol(H11Protocol):
    """A connection with a separate state (`app_state`), which has `HOSTS`, `PLACES`, `MEMORY`, `CLOSINGS`, `SLICES`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._slices: ReadSlices = self.app_state[SLICES]
        self.flow = FlowControl(_Reading(self, transport))  # type: ignore[arg-type]
        self._answered: Any = None  # the last answered request at the last check
        self._unread: tuple[Any, int] = (None, 0)  # a request that was not answered then, and at how many checks
        self._held = 0  # bytes of a request that is not complete
        asyncio.get_running_loop().call_later(HEAD_S, self._check)
        host, names = host_of(transport), certificate_names(transport)
        hosts: HostConnections = self.app_state[HOSTS]
        self.app_state[CERTIFICATE] = names[0] if names else ""
        self._peer = self.app_state[PEER] = HttpPeer(host)
        self._memory: MemoryAccount = self.app_state[MEMORY]
        if not hosts.enter(host):
            self._refuse(f"this broker accepts no more connections from {host}", "limit")
            transport.abort()  # rule 2
            return
        self.app_state[ENTERED] = host
        place = self.app_state[PLACES].enter(self)
        if place is None:
            self._refuse("this broker accepts no more connections", "limit")
            transport.abort()  # rule 3
        else:
            self.app_state[PLACE] = place
            if (audit := self.app_state.get(AUDIT)) is not None:
                audit.accepted[LISTENER] += 1

    def _refuse(self, reason: str, cause: str) -> None:
        """Report that the connection is closed, and why."""
        audit: SecurityLog | None = self.app_state.get(AUDIT)
        if audit is not None:
            audit.connection(LISTENER, self._peer.host, reason, cause, self._peer.user_of() or "")

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def is_administrators(self) -> bool:
        """Whether an administrator has asked something."""
        return self._peer.is_administrator

    def connection_lost(self, exc: Exception | None) -> None:
        self.app_state[CLOSINGS].call(lambda: self._lost(exc))

    def _lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._slices.forget(self)
        self._memory.forget(self)
        _leave(self.app_state)

    @property
    def is_held(self) -> bool:
        """Whether the application has not taken yet what was parsed."""
        return bool(self.flow.read_paused)

    def data_received(self, data: bytes) -> None:
        self._slices.feed(self, data)

    def slice_of(self, data: bytes) -> int:
        """How many of these bytes to parse at once: most of a body, in which there is little to parse."""
        return min(len(data), LONG_SLICE_BYTES) if data.count(b"\n") <= LINES_MAX else SLICE_BYTES

    def parse(self, data: bytes) -> None:
        """Parse received bytes. (rule 8)"""
        if self.transport.get_protocol() is not self:  # it has become a WebSocket, whose client did not wait for that
            return
        super().data_received(data)
        held = self._held + len(data) if self._is_incomplete else 0
        if held or self._held:
            is_new, self._held = not self._held, held
            self._memory.on_partial(self, held, is_new=is_new)

    @property
    def _is_incomplete(self) -> bool:
        """Whether a request has begun and is incomplete. Bytes after a final answer are discarded."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it has become a WebSocket
            return False
        if self.is_idle:
            return self.conn.their_state is h11.IDLE
        cycle: Any = self.cycle
        return bool(cycle.more_body)

    # ------------------------------------------------------------ what it holds

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""
        return self._peer.party

    @property
    def is_admitted(self) -> bool:
        """Whether the client is authenticated."""
        return self._peer.is_admitted

    @property
    def unread(self) -> int:
        """Written bytes that the client has not read."""
        return self.transport.get_write_buffer_size()

    def let_go(self, reason: str) -> None:
        """Close the connection because of its memory use; a waiting request is answered."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = msgspec.json.encode({"error": reason})
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            headers.append((b"content-length", b"%d" % len(answer)))
            status = 408 if reason.startswith(TOO_SLOW) else 503
            with suppress(h11.LocalProtocolError):
                for event in (h11.Response(status_code=status, headers=headers), h11.Data(answer), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
        self._drop()
        asyncio.get_running_loop().call_later(CLOSE_S, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        self._refuse(msg, "protocol")
        if self.is_idle and self.conn.our_state is h11.IDLE:
            super().send_400_response(msg)
        else:  # another answer is being sent, or was sent (rule 4)
            self._drop()

    def timeout_keep_alive_handler(self) -> None:
        if self.conn.our_state in (h11.ERROR, h11.CLOSED):
            self._drop()
        else:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        if self.conn.our_state in (h11.ERROR, h11.CLOSED):
            self._drop()
        else:
            super().shutdown()

    def _drop(self) -> None:
        """Close the connection; a running answer is dropped."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if not self.transport.is_closing():
            self.transport.close()

    def _check(self) -> None:
        """Close idle connections, and those of strangers who do not read. (rule 1)"""
        transport = self.transport
        cycle: Any = self.cycle  # None before the first request, against its annotation
        if transport.is_closing() or transport.get_protocol() is not self:  # it has become a WebSocket
            return
        is_answered = cycle is None or cycle.response_complete
        checks = self._unread[1] + 1 if cycle is self._unread[0] else 1
        self._unread = (None, 0) if is_answered or self.is_admitted else (cycle, checks)
        if (is_answered and cycle is self._answered) or self._unread[1] >= ANSWER_CHECKS:
            transport.abort()
            return
        self._answered = cycle if is_answered else None
        asyncio.get_running_loop().call_later(HEAD_S, self._check)


class _Reading:
    """What uvicorn's flow control pauses and resumes: reading from a connection."""

    def __init__(self, protocol: HttpProtocol, transport: asyncio.Transport) -> None:
        self._protocol, self._transport = protocol, transport

    def pause_reading(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, after what waits to be parsed."""
        self._transport.resume_reading()
        slices: ReadSlices = self._protocol.app_state[SLICES]
        slices.wake(self._protocol)


class SocketProtocol(WebSocketsSansIOProtocol):
    """The same connection after it has become a WebSocket."""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._state = app_state
        self._peer: HttpPeer = app_state[PEER]
        self._memory: MemoryAccount = app_state[MEMORY]
        self._slices: ReadSlices = app_state[SLICES]
        self._held = 0  # bytes of a message that is not complete
        self._fragments = 0  # of these, in fragments
        self._is_new = True  # a message is complete since that was counted

    def connection_lost(self, exc: Exception | None) -> None:
        self._state[CLOSINGS].call(lambda: self._lost(exc))

    def _lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._slices.forget(self)
        self._memory.forget(self)
        _leave(self._state)

    @property
    def is_held(self) -> bool:
        """Whether the application has not taken yet what was parsed."""
        return self.read_paused

    async def receive(self) -> Any:
        """The next message, for the application."""
        message = await super().receive()
        if not self.read_paused:
            self._slices.wake(self)
        return message

    async def send(self, message: Any) -> None:
        """Send a message of the application. After a close it takes no more, but the client's answer must be parsed."""
        await super().send(message)
        if message["type"] == CLOSE:
            self._slices.wake(self)

    def slice_of(self, data: bytes) -> int:
        """How many of these bytes to parse at once: all could be empty frames."""
        return SLICE_BYTES

    def data_received(self, data: bytes) -> None:
        self._slices.feed(self, data)

    def parse(self, data: bytes) -> None:
        """Parse received bytes. (rule 8)"""
        super().data_received(data)
        held = 0 if self.transport.is_closing() else self._fragments + len(self.conn.reader.buffer)
        if held or self._held:
            is_new, self._held, self._is_new = self._is_new, held, False
            self._memory.on_partial(self, held, is_new=is_new)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # a frame that is not valid, before the handshake is answered (rule 4)
            self.transport.abort()
        else:
            super().handle_parser_exception()

    def handle_text(self, event: Any) -> None:
        self._fragments = len(event.data) + FRAGMENT_BYTES
        super().handle_text(event)

    def handle_bytes(self, event: Any) -> None:
        self._fragments = len(event.data) + FRAGMENT_BYTES
        super().handle_bytes(event)

    def handle_cont(self, event: Any) -> None:
        self._fragments += len(event.data) + FRAGMENT_BYTES
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        self._fragments, self._is_new = 0, True
        if self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        data, self.frames = b"".join(self.frames), []
        try:
            text = data.decode()
        except UnicodeDecodeError:  # for which the library would log a traceback
            self.conn.send_close(NO_TEXT)
            self.handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    # ------------------------------------------------------------ what it holds

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""
        return self._peer.party

    @property
    def is_admitted(self) -> bool:
        """Whether the client is authenticated."""
        return self._peer.is_admitted

    @property
    def unread(self) -> int:
        """Written bytes that the client has not read."""
        return self.transport.get_write_buffer_size() + self._peer.unsent_of()

    def let_go(self, reason: str) -> None:
        """Close the connection because of its memory use."""
        self.queue.put_nowait({"type": "websocket.disconnect", "code": REFUSED})
        with suppress(InvalidState):
            self.conn.send_close(REFUSED, reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore"))
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S, self.transport.abort)


def _leave(state: dict[str, Any]) -> None:
    host = state.pop(ENTERED, None)
    if host is not None:
        state[HOSTS].leave(host)
    place = state.pop(PLACE, None)
    if place is not None:
        place.leave()

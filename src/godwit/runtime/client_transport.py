"""A client's transport: parsing of addresses, a connection that detects silence, readable errors."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast

from godwit.broker.effects import Effect, Heard
from godwit.errors import GodwitError, PeerFault
from godwit.runtime.addresses import Address
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.wire import Frames, Intro

__all__ = [
    "BEAT_S",
    "DIAL_S",
    "PORT",
    "SILENCE_S",
    "Dial",
    "Environment",
    "RetryPause",
    "TcpTransport",
    "Transport",
    "TransportOwner",
    "address",
    "dial",
    "why_unreachable",
]

PORT = 7077
NOT_NATIVE = f"not Godwit's native protocol (is this the HTTP or MQTT port? native default: {PORT})"
DIAL_S = 5.0
BEAT_S = 5.0
SILENCE_S = 30.0


class Transport(Protocol):
    """The client's end of a connection, as its owner sees it."""

    name: str
    lost: asyncio.Event

    def write(self, messages: list[Any]) -> None:
        """Send these messages at once."""

    def close(self) -> None:
        """Close it after the written data is sent."""

    def abort(self) -> None:
        """Close it at once."""

    def pause(self) -> None:
        """Pause reading."""

    def read_on(self) -> None:
        """Read again."""


class TransportOwner(Protocol):
    """The owner of a connection."""

    intro: Intro
    closed_because: str
    is_unchecked: bool  # a broker without users has let us in, and has not looked at our credentials

    def handle(self, input: Any) -> None:
        """Something has happened."""


class TcpTransport(asyncio.Protocol):
    """The client's end of a connection.

    A connection without data for `SILENCE_S` is closed: the client sends Intro every `BEAT_S`, and a live broker
    answers. So a broker that has vanished without closing the connection is detected.

    A connection that is being closed is not used any more, not even for a sign of life: with TLS closing takes a while,
    and an asyncio transport that was closed twice fails at every other call.
    """

    def __init__(self, owner: TransportOwner, name: str) -> None:
        self.owner = owner
        self.name = name
        self.lost = asyncio.Event()
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._heard_at = 0.0
        self._beating: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._has_heard = False  # a message of the native protocol

    # ------------------------------------------------------------ from the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is one without saying so
        self._heard_at = asyncio.get_running_loop().time()
        self._beat(self.owner.intro)

    def _beat(self, intro: Intro) -> None:
        """Send a sign of life, and check that of the broker."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            return
        if loop.time() - self._heard_at > SILENCE_S and not self._is_paused:
            self.owner.closed_because = "no data was received for too long"
            self._transport.abort()
            return
        self._transport.write(Frames.packed([intro]))
        self._beating = loop.call_later(BEAT_S, self._beat, Intro())

    def data_received(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        try:
            for message, _ in self._frames.feed(data):
                self._has_heard = True
                if type(message) is not Intro:
                    self.owner.handle(Heard(self.name, message))
                elif message.unchecked:
                    self.owner.is_unchecked = True
        except PeerFault as fault:
            self.owner.closed_because = str(fault) if self._has_heard else NOT_NATIVE
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_beating()
        if error is not None:
            is_cut = self._has_heard and isinstance(error, ConnectionResetError)  # so it is the right port
            self.owner.closed_because = self.owner.closed_because or (
                "connection reset" if is_cut else why_unreachable(error)
            )
        self.lost.set()

    # ------------------------------------------------------------ for its owner

    def write(self, messages: list[Any]) -> None:
        """Send these messages at once."""
        if (transport := self._open_transport()) is not None:
            transport.write(Frames.packed(messages))

    def close(self) -> None:
        """Close it after the written data is sent."""
        self._stop_beating()
        if (transport := self._open_transport()) is not None:
            transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self._stop_beating()
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Pause reading."""
        self._is_paused = True
        if (transport := self._open_transport()) is not None:
            transport.pause_reading()

    def read_on(self) -> None:
        """Read again."""
        self._is_paused = False
        self._heard_at = asyncio.get_running_loop().time()
        if (transport := self._open_transport()) is not None:
            transport.resume_reading()

    def _open_transport(self) -> asyncio.Transport | None:
        """The transport, unless there is none yet or it is being closed."""
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None


Dial = Callable[[TransportOwner, str, Address, ssl.SSLContext | None], Awaitable[Transport]]
"""Opens a connection to a broker: owner, name, address, TLS context. OSError if it fails."""


async def dial(owner: TransportOwner, name: str, seed: Address, tls: ssl.SSLContext | None) -> Transport:
    """Open a connection over TCP."""
    wire = TcpTransport(owner, name)
    async with asyncio.timeout(DIAL_S):
        await asyncio.get_running_loop().create_connection(lambda: wire, seed.host, seed.port, ssl=tls)
    return wire


class Environment(NamedTuple):
    """The environment of a client: its clock, its connections, and an observer of its machine's effects."""

    clock: Clock = SYSTEM
    dial: Dial = dial
    watch: Callable[[list[Effect]], None] = lambda effects: None


class RetryPause:
    """The pause of a client between connection attempts, which a move ends."""

    def __init__(self, clock: Clock, moved: asyncio.Event, on_begin: Callable[[], None]) -> None:
        self.is_on = False
        self._clock = clock
        self._moved = moved
        self._on_begin = on_begin
        self._over = asyncio.Event()

    async def take(self, wait_s: float | None) -> None:
        """Wait for this time; None: without end."""
        if self._moved.is_set():
            return
        self.is_on = True
        self._over.clear()
        self._on_begin()
        timer = None if wait_s is None else self._clock.call_later(wait_s, self.end)
        try:
            await self._over.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def end(self) -> None:
        """End the pause."""
        self.is_on = False
        self._over.set()


def address(seed: Address | str) -> Address:
    """The address of a broker: `host:port`, `[host]:port` or `host` alone, with the default port."""
    if isinstance(seed, Address):
        return seed
    text = seed.strip()
    bare = text.endswith("]") or ":" not in text
    host, port = (text, str(PORT)) if bare else text.rsplit(":", 1)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise GodwitError(f"{seed!r} is not an address of a broker: it must be host:port, such as 127.0.0.1:{PORT}")
    return Address(host, int(port))


def why_unreachable(error: Exception) -> str:
    """Why a broker cannot be reached, in a few words."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset (does this port use TLS?)"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, TimeoutError):
        return f"no answer in {DIAL_S:g} s"
    if isinstance(error, ssl.SSLError):
        return f"no safe connection: {getattr(error, 'verify_message', '') or error.reason or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

"""Links between devices of an ad hoc network: TCP connections whose ends have authenticated each other.

*Theory.* A device connects to another that it knows from a list of peers or from an announcement
(`adhoc_discovery.py`). Both send a greeting and prove that they have the key of their name (`adhoc_wire.py`). From then
on they are neighbours: the machine gets `LinkUp`, and the signature of each message is checked before the machine gets
it. A silent neighbour is considered gone: a radio that is out of range sends no end of the connection.

*Rules.*
1. An invalid message of a neighbour closes its link with a reason, and affects nothing else.
2. Of two connections between two devices, the one opened by the device whose name sorts first is kept; of two opened by
   the same side, the newer one.
3. A connection that has not authenticated after `HANDSHAKE_S`, or has sent more than `EARLY_BYTES_MAX` before, is
   closed. There are at most `strangers_max` of them, and `STRANGERS_PER_HOST` from one host.
4. There are at most `neighbours_max` links. Each is read at a bounded rate of messages and bytes: beyond it, reading
   pauses. A neighbour that does not read is disconnected when more than `UNSENT_BYTES_MAX` wait for it.
5. A neighbour that has sent nothing for `silence_s` is disconnected. A device with nothing to send sends `Alive` every
   `beat_s`.
6. Connection attempts to a peer of the list are repeated without end, with growing pauses. There is one attempt for
   each announcement, and only while there is no link to that device.
"""

import asyncio
from collections.abc import Callable
from time import time
from typing import Any, cast

import msgspec

from godwit.broker.effects import Arrived, LinkDown, LinkUp
from godwit.errors import PeerFault
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_wire import (
    WIRE,
    Alive,
    Greeting,
    MessageSeals,
    Proof,
    Signed,
    check_greeting,
    check_proof,
    greeting,
    proof_of,
)
from godwit.runtime.dialler import Dialler
from godwit.runtime.node import Node
from godwit.runtime.peer_identity import host_of, keep_alive
from godwit.runtime.rate_limits import TokenBucket
from godwit.runtime.wire import Frames

__all__ = ["DeviceConnection", "DeviceLinks", "LinkLimits"]

HANDSHAKE_S = 10.0
EARLY_BYTES_MAX = 2_048
STRANGERS_PER_HOST = 8
UNSENT_BYTES_MAX = 8 * 2**20
FRAMES_AT_ONCE = 64
LENGTH_BYTES = 4
REDIAL_FIRST_S, REDIAL_MAX_S = 0.2, 5.0
REASON_CHARS_MAX = 200


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for neighbours and for connections that have not authenticated."""

    neighbours_max: int = 64
    strangers_max: int = 32
    frame_bytes_max: int = 4 * 2**20
    frames_per_s: float = 500.0  # of one neighbour: the signature of each is checked
    frames_burst: int = 2_000
    messages_per_s: float = 5_000.0  # of one neighbour, in these frames
    messages_burst: int = 20_000
    bytes_per_s: float = 4.0 * 2**20  # of one neighbour
    bytes_burst: int = 16 * 2**20
    beat_s: float = 1.0
    silence_s: float = 5.0
    skew_s: float = 300.0  # by which clocks of devices may differ; 0: they are not compared


class DeviceConnection(asyncio.Protocol):
    """One connection to another device, outgoing or incoming. A `Port` of the node once it is a link."""

    def __init__(self, links: "DeviceLinks", dialled: str = "") -> None:
        self.links = links
        self.dialled = dialled  # the remote address; "" for an incoming connection
        self.peer = ""  # its name, once it is proved
        self.closed_because = ""
        self.host = ""
        self.heard_at = self.sent_at = 0.0
        self._ours = greeting(links.network, links.name, links.key)
        self._theirs: Greeting | None = None
        self._came = 0  # bytes
        self._transport: asyncio.Transport | None = None
        self._frames = Frames(links.limits.frame_bytes_max, WIRE.decode)
        self._out: list[Any] = []  # messages of the machine
        self._timer: asyncio.TimerHandle | None = None
        limits, now = links.limits, links.now()
        self._frame_rate = TokenBucket(limits.frames_per_s, limits.frames_burst, now)
        self._messages = TokenBucket(limits.messages_per_s, limits.messages_burst, now)
        self._bytes = TokenBucket(limits.bytes_per_s, limits.bytes_burst, now)

    # ------------------------------------------------------------ from the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.heard_at = host_of(transport), self.links.now()
        keep_alive(transport)
        reason = self.links.enter(self)
        if reason:
            self.close(reason)
            return
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.close, "it has not authenticated in time")
        self._write(self._ours)

    def data_received(self, data: bytes) -> None:
        if not self.peer and self._came > EARLY_BYTES_MAX:
            self._at_fault(PeerFault("too much data before authentication"))
            return
        self._came += len(data)
        self.heard_at = self.links.now()
        wait_s = self._bytes.take(len(data), self.heard_at)
        self._read(data, wait_s)

    def _read(self, data: bytes, wait_s: float = 0.0) -> None:
        """Handle received data, some messages at a time."""
        if self.closed_because:
            return
        try:
            found, came = self._frames.feed(data, FRAMES_AT_ONCE), 0
            for message, packed in found:
                came += self._on_message(message, packed)
        except PeerFault as fault:
            self._at_fault(fault)
            return
        now = self.heard_at
        wait_s = max(wait_s, self._frame_rate.take(len(found), now), self._messages.take(came, now))
        if wait_s > 0 or self._frames.has_more or (self.peer and self.links.node.is_long(self.peer)):
            self._pause(wait_s)

    def _pause(self, wait_s: float) -> None:
        """Pause reading: the rate is too high, or the machine is busy. (rule 4)"""
        assert self._transport is not None
        self._transport.pause_reading()
        if wait_s > 0 or not self.peer:
            asyncio.get_running_loop().call_later(wait_s, self._read_on)
        else:
            self.links.node.when_short(self.peer, self._read_on)

    def _read_on(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._frames.has_more:
            self._read(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error is not None else "the connection was closed")

    # ------------------------------------------------------------ what comes

    def _on_message(self, message: Any, packed: bytes) -> int:
        """Handle a frame; returns how many messages for the machine it had."""
        if self.closed_because:
            return 0
        if self.peer:
            if type(message) is Signed:
                said = self.links.seals.opened(message, self.links.now())
                for each in said:
                    self.links.node.tell(Arrived(self.peer, cast(Any, each)), packed[: len(packed) // len(said)])
                return len(said)
            if type(message) is not Alive:
                raise PeerFault(f"a {type(message).__name__} after the handshake")
        elif self._theirs is None:
            if type(message) is not Greeting:
                raise PeerFault(f"a {type(message).__name__} instead of a Greeting")
            if message.key == self._ours.key:
                self.links.note_own(self.dialled)
            check_greeting(self._ours, message)
            self._theirs = message
            self._write(proof_of(self.links.key, self._ours, message, is_dialler=bool(self.dialled)))
        else:
            if type(message) is not Proof:
                raise PeerFault(f"a {type(message).__name__} instead of a Proof")
            check_proof(self._ours, self._theirs, message, is_dialler=bool(self.dialled))
            self.links.known.check(self._theirs.name, self._theirs.key, self.links.now())
            self.links.link(self, self._theirs.name)
        return 0

    def proved(self, peer: str) -> None:
        """The connection has become a link."""
        self.peer = peer
        if self._timer is not None:
            self._timer.cancel()

    def _at_fault(self, fault: PeerFault) -> None:
        self.links.faults += 1
        self.close(str(fault))

    # ------------------------------------------------------------ what goes

    def send(self, message: Any) -> None:
        """Queue a message of the machine for the next `flush`."""
        self._out.append(message)

    def flush(self) -> None:
        """Write the queued messages at once."""
        out, self._out = self._out, []
        if out:
            self._write(*self.links.seals.sealed(out, self.links.now()))

    def _write(self, *messages: Any) -> None:
        if messages and self._transport is not None and not self._transport.is_closing():
            self.sent_at = self.links.now()
            self._transport.write(b"".join(map(_framed, messages)))
            if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
                self._at_fault(PeerFault("it reads too slowly"))

    def beat(self, now: float) -> None:
        """Send a sign of life if nothing else was sent recently, and check that the neighbour is alive. (rule 5)"""
        limits = self.links.limits
        if now - self.heard_at > limits.silence_s:
            self.close(f"silent for {limits.silence_s:g} s")
        elif now - self.sent_at >= limits.beat_s / 2:
            self._write(Alive())

    def close(self, reason: str) -> None:
        """Close the connection."""
        self.flush()
        self._end(reason)
        if self._transport is not None:
            if self._transport.get_write_buffer_size():  # a peer that is out of range will never read it
                asyncio.get_running_loop().call_later(1.0, self._transport.abort)
            self._transport.close()

    def _end(self, reason: str) -> None:
        if not self.closed_because:
            self.closed_because = reason[:REASON_CHARS_MAX] or "closed"
            if self._timer is not None:
                self._timer.cancel()
            self.links.leave(self)


def _framed(message: Any) -> bytes:
    data = WIRE.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class DeviceLinks:
    """All connections of a device."""

    def __init__(
        self,
        name: str,
        network: str,
        key: DeviceKey,
        known: KnownKeys,
        node: Node,
        limits: LinkLimits,
        *,
        on_link: Callable[[str, str], None] = lambda peer, reason: None,
        now: Callable[[], float] = time,
    ) -> None:
        self.name, self.network, self.key, self.known, self.node, self.limits = name, network, key, known, node, limits
        self.now = now
        self.seals = MessageSeals(name, network, key, known, limits.skew_s)
        self.neighbours: dict[str, DeviceConnection] = {}
        self.address: Address | None = None
        self.faults = 0  # of peers
        self._on_link = on_link  # called when a link is up ("") or down, with the reason
        self._strangers: dict[DeviceConnection, None] = {}
        self._all: dict[DeviceConnection, None] = {}
        self._listed: dict[str, Address] = {}  # peers of the list, by address
        self._own: dict[str, None] = {}  # addresses of this device itself
        self._dialling: set[asyncio.Task[None]] = set()
        self._dialled: dict[str, None] = {}  # announced devices with a connection attempt under way
        self._server: asyncio.Server | None = None
        self._beating: asyncio.Task[None] | None = None
        self._dialler = Dialler(self._connect, first_s=REDIAL_FIRST_S, max_s=REDIAL_MAX_S)

    async def listen(self, host: str, port: int) -> Address:
        """Listen at an address. With port 0, the system chooses one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: DeviceConnection(self), host, port)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        self._beating = asyncio.create_task(self._beat())
        return self.address

    # ------------------------------------------------------------ dialling

    def dial_peers(self, peers: list[Address]) -> None:
        """Keep links to the devices at these addresses."""
        for peer in peers:
            self._listed[str(peer)] = peer
            self._dialler.dial(str(peer))

    async def _connect(self, where: str) -> None:
        """Connect to a peer of the list, unless there is a link over this address. OSError if it cannot be reached."""
        if where in self._own or any(where == each.dialled for each in self._all):
            return
        address = self._listed[where]
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HANDSHAKE_S):
            await loop.create_connection(lambda: DeviceConnection(self, where), address.host, address.port)

    def dial_announced(self, name: str, address: Address) -> None:
        """Connect to an announced device, unless there is a link, or no room for one. (rules 4, 6)"""
        is_full = len(self.neighbours) >= self.limits.neighbours_max
        if (
            name in self.neighbours
            or name in self._dialled
            or is_full
            or len(self._dialled) >= self.limits.strangers_max
        ):
            return
        self._dialled[name] = None
        task = asyncio.create_task(self._dial_once(name, address))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial_once(self, name: str, address: Address) -> None:
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(HANDSHAKE_S):
                await loop.create_connection(lambda: DeviceConnection(self, name), address.host, address.port)
        except OSError:  # it is out of range again; a `TimeoutError` is one, too
            pass
        finally:
            self._dialled.pop(name, None)

    # ------------------------------------------------------------ coming and going

    def enter(self, connection: DeviceConnection) -> str:
        """Register a connection; returns why it must be closed, or ""."""
        self._all[connection] = None
        if len(self._strangers) >= self.limits.strangers_max:
            return "too many connections that have not authenticated"
        if sum(each.host == connection.host for each in self._strangers) >= STRANGERS_PER_HOST:
            return f"too many connections from {connection.host} that have not authenticated"
        self._strangers[connection] = None
        return ""

    def link(self, connection: DeviceConnection, peer: str) -> None:
        """A device has authenticated and becomes a neighbour. `PeerFault`: there is a better link, or no room."""
        older = self.neighbours.get(peer)
        if older is None and len(self.neighbours) >= self.limits.neighbours_max:
            raise PeerFault(f"no room for more than {self.limits.neighbours_max} neighbours")
        if older is not None:
            is_other_way = bool(older.dialled) != bool(connection.dialled)
            if is_other_way and (self.name < peer) is bool(older.dialled):  # rule 2
                raise PeerFault(f"there is a link between {self.name} and {peer} already")
            older.close("there is a newer connection")
        self._strangers.pop(connection, None)
        connection.proved(peer)
        self.neighbours[peer] = connection
        self.node.ports[peer] = connection
        self.node.tell(LinkUp(peer))
        self._on_link(peer, "")

    def leave(self, connection: DeviceConnection) -> None:
        """A connection has closed."""
        self._all.pop(connection, None)
        self._strangers.pop(connection, None)
        peer = connection.peer
        if peer and self.neighbours.get(peer) is connection:
            del self.neighbours[peer]
            if self.node.ports.get(peer) is connection:
                del self.node.ports[peer]
                self.node.tell(LinkDown(peer))
            self._on_link(peer, connection.closed_because)
        if connection.dialled in self._listed and connection.dialled not in self._own:
            self._dialler.redial(connection.dialled, was_accepted=bool(peer))

    def note_own(self, where: str) -> None:
        """An address of the list is that of this device: it is removed."""
        if where in self._listed:
            self._own[where] = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.limits.beat_s)
            now = self.now()
            for connection in list(self.neighbours.values()):
                connection.beat(now)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._dialler.close()
        for task in list(self._dialling):
            task.cancel()
        if self._beating is not None:
            self._beating.cancel()
        if self._server is not None:
            self._server.close()
        self._listed.clear()
        for connection in list(self._all):
            connection.close("the device stops")

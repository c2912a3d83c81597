"""Native connections: brokers and clients over TCP, one joined write for each peer and turn.

*Theory.* A connection starts with an `Intro` from whoever dialled; a broker that is dialled by a broker answers with
its own. After that, frames of a link or messages of a client follow, and become inputs of the node.

*Rules.*
1. What a peer sends wrong closes its connection, with a reason, and costs nobody else anything.
2. Who has the address of a neighbour dials it, and again after a while when that fails or ends. Of two connections of
   one link the one stays that was dialled by the broker whose name comes first; a newer one takes the place of an older
   one that the same side has dialled, for that one must be dead.
3. A connection that has not introduced itself after `INTRO_S` is closed. There are at most `connections_max`.
4. What cannot be written because a peer does not read is bounded: past `UNREAD_BYTES_MAX` its connection is closed. (A
   session keeps what its client has not confirmed, and a link what its peer has not.)
5. A link on which nothing has come for `SILENCE_S` is closed: a peer that is there answers our frames, or says Intro
   again as a sign of life.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any, cast

import msgspec

from godwit.broker.effects import Arrived, Closed, Heard, LinkDown, LinkUp, Opened
from godwit.broker.messages import Bye
from godwit.errors import PeerFault
from godwit.filters.events import Attributes
from godwit.runtime.node import Node
from godwit.runtime.wire import FRAME_BYTES_MAX, VERSION, Frames, Intro

__all__ = ["Address", "Connection", "Server"]

INTRO_S = 10.0
UNREAD_BYTES_MAX = 64 * 2**20
BEAT_S = 5.0
SILENCE_S = 30.0
REDIAL_FIRST_S = 0.05
REDIAL_MAX_S = 5.0


class Address(msgspec.Struct, frozen=True):
    """Where a broker can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connection(asyncio.Protocol):
    """One native connection, dialled or taken. A `Port` of the node."""

    def __init__(self, server: "Server", dialled: str = "") -> None:
        self.server = server
        self.dialled = dialled  # the neighbour that we dialled; "" when it was taken
        self.name = ""  # of the neighbour, or of the client's connection, once it is known
        self.is_link = False
        self.closed_because = ""
        self._transport: asyncio.Transport | None = None
        self._frames = Frames(server.frame_bytes_max)
        self._unsent: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self.heard_at = 0.0

    # ------------------------------------------------------------ from the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        loop = asyncio.get_running_loop()
        self.heard_at = loop.time()
        self.server.connections[self] = None
        if len(self.server.connections) > self.server.connections_max:
            self.close("this broker takes no more connections")
            return
        self._timer = loop.call_later(INTRO_S, self.close, "no Intro came")
        if self.dialled:
            self._say(Intro(broker=self.server.name, token=self.server.token))

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        try:
            came = self._frames.feed(data)
            if not self.name and came:
                self._introduce(came.pop(0)[0])
            tell, name = self.server.node.tell, self.name
            if self.is_link:
                for message, packed in came:
                    if type(message) is not Intro:
                        tell(Arrived(name, message), packed)
            else:
                for message, packed in came:
                    tell(Heard(name, message), packed)
        except PeerFault as fault:
            self.server.refused += 1
            self.close(str(fault))
        if self.server.node.holds() and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._gone()

    def _introduce(self, intro: Any) -> None:
        if type(intro) is not Intro:
            raise PeerFault(f"a {type(intro).__name__} before Intro")
        if intro.version != VERSION:
            raise PeerFault(f"version {intro.version} of the protocol: this broker speaks {VERSION}")
        if self._timer is not None:
            self._timer.cancel()
        if self.dialled and intro.broker != self.dialled:
            raise PeerFault(f"this is {intro.broker or 'no broker'}, and not {self.dialled}")
        if intro.broker:
            self.server.link(self, intro)
        else:
            self.server.welcome(self, intro)

    # ------------------------------------------------------------ a port of the node

    def send(self, message: Any) -> None:
        """Have a message written at the next `flush`."""
        self._unsent.append(message)

    def flush(self) -> None:
        """Write what was sent, in one go."""
        transport, unsent = self._transport, self._unsent
        if transport is None or transport.is_closing() or not unsent:
            return
        self._unsent = []
        transport.write(Frames.packed(unsent))
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            transport.abort()
            self.closed_because = "it does not read what is sent to it"

    def read_on(self) -> None:
        """Read again, if nothing was taken in for a while."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _say(self, message: Any) -> None:
        self.send(message)
        self.flush()

    def close(self, reason: str) -> None:
        """Write what was sent, and close."""
        if self._transport is not None and not self._transport.is_closing():
            self.closed_because = self.closed_because or reason
            self.flush()
            self._transport.close()
        self._gone()

    def beat(self, now: float) -> None:
        """Show a neighbour that we are there; close a link on which nothing comes. (rule 5)"""
        if now - self.heard_at > SILENCE_S:
            self.close("nothing has come for too long")
        else:
            self._say(Intro(broker=self.server.name))

    def _gone(self) -> None:
        server = self.server
        if self not in server.connections:
            return
        del server.connections[self]
        if self._timer is not None:
            self._timer.cancel()
        if self.name and server.node.ports.get(self.name) is self:
            del server.node.ports[self.name]
            server.node.tell(LinkDown(self.name) if self.is_link else Closed(self.name))
        if self.dialled:
            server.redial(self.dialled)


class Server:
    """The native side of a broker: it listens, dials its neighbours and knows who may come in."""

    def __init__(
        self,
        name: str,
        node: Node,
        neighbours: Mapping[str, Address | None],
        *,
        admit: Callable[[Intro], Attributes] = lambda intro: {},
        token: str = "",
        frame_bytes_max: int = FRAME_BYTES_MAX,
        connections_max: int = 10_000,
        on_closed: Callable[[str, str], None] = lambda name, reason: None,
    ) -> None:
        self.name = name
        self.node = node
        self.neighbours = dict(neighbours)
        self.admit = admit  # what we vouch for of a client's context; PeerFault: it may not come in
        self.token = token
        self.frame_bytes_max = frame_bytes_max
        self.connections_max = connections_max
        self.connections: dict[Connection, None] = {}
        self.refused = 0  # connections that were closed for what came over them
        self.listening: list[Address] = []
        self._servers: list[asyncio.Server] = []
        self._made = 0
        self._life = token_hex(4)  # names of connections must not come again after a restart
        self._waits: dict[str, float] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._beating: asyncio.Task[None] | None = None
        self._is_closed = False
        node.on_relief = self._read_on

    def _read_on(self) -> None:
        for connection in self.connections:
            connection.read_on()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Take connections there. With port 0, the system chooses one."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self), host, port, ssl=tls)
        self._servers.append(server)
        taken = Address(*server.sockets[0].getsockname()[:2])
        self.listening.append(taken)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        return taken

    def dial_all(self) -> None:
        """Dial every neighbour whose address is known."""
        for peer in self.neighbours:
            self._dial(peer, 0.0)

    # ------------------------------------------------------------ neighbours

    def _dial(self, peer: str, wait_s: float) -> None:
        if self.neighbours.get(peer) is not None and not self._is_closed and peer not in self._dialling:
            self._dialling[peer] = asyncio.create_task(self._dialled(peer, wait_s))

    async def _dialled(self, peer: str, wait_s: float) -> None:
        try:
            await asyncio.sleep(wait_s)
            address = self.neighbours[peer]
            if address is None or peer in self.node.ports:
                return
            loop = asyncio.get_running_loop()
            try:
                await loop.create_connection(lambda: Connection(self, peer), address.host, address.port)
                return
            except OSError:
                pass
        finally:
            del self._dialling[peer]
        self.redial(peer)

    def redial(self, peer: str) -> None:
        """Try again after a while, unless there is a link."""
        if peer in self.node.ports or self._is_closed:
            return
        wait_s = self._waits.get(peer, REDIAL_FIRST_S)
        self._waits[peer] = min(2 * wait_s, REDIAL_MAX_S)
        self._dial(peer, wait_s)

    def link(self, connection: Connection, intro: Intro) -> None:
        """A neighbour is at the other end of a connection."""
        peer = intro.broker
        if peer not in self.neighbours:
            raise PeerFault(f"{peer} is no neighbour of {self.name}")
        older = self.node.ports.get(peer)
        if isinstance(older, Connection):
            if bool(older.dialled) != bool(connection.dialled) and (self.name < peer) is bool(older.dialled):
                raise PeerFault(f"there is a link between {self.name} and {peer} already")  # rule 2
            del self.node.ports[peer]
            self.node.tell(LinkDown(peer))
            older.close("there is a newer connection")
        connection.name, connection.is_link = peer, True
        self._waits.pop(peer, None)
        if not connection.dialled:
            connection._say(Intro(broker=self.name))
        self.node.ports[peer] = connection
        self.node.tell(LinkUp(peer))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            now = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                if connection.is_link:
                    connection.beat(now)

    # ------------------------------------------------------------ clients

    def welcome(self, connection: Connection, intro: Intro) -> None:
        """A client is at the other end of a connection."""
        try:
            asserted = self.admit(intro)
        except PeerFault as fault:
            connection.send(Bye(str(fault)))
            raise
        self._made += 1
        connection.name = f"{self._life}/{self._made}"
        self.node.ports[connection.name] = connection
        self.node.tell(Opened(connection.name, asserted))

    # ------------------------------------------------------------ the end

    async def close(self) -> None:
        """Stop listening and let everybody go."""
        self._is_closed = True
        if self._beating is not None:
            self._beating.cancel()
        for task in list(self._dialling.values()):
            task.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.close("the broker stops")

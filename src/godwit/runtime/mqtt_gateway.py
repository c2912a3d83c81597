"""The MQTT gateway of a broker: MQTT clients have all features of native clients.

*Theory.* Each connection (`mqtt_connection.py`) uses MQTT on one side and, through an `InProcessConnection`, Godwit's
messages on the other. The gateway listens, and has the shared data of connections: clients by name, settings, and a
cache of events in MQTT form. It stores nothing permanently.

*Rules.*
1. An event is translated once for all clients that receive it. The cache of translations is bounded in number and
   bytes, because of large events.
2. Connections are limited, in all and per host (`TrafficLimits`); more are closed at once.
3. Unread data of a client is bounded. Deliveries wait for it (`mqtt_connection.py`, rule 4); beyond `UNREAD_BYTES_MAX`
   of answers to its own packets its connection is closed.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from secrets import token_hex
from time import time
from typing import cast

from godwit.broker.messages import Attach
from godwit.errors import NotAdmitted, PeerFault
from godwit.filters.contexts import checked_context_filter
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX, ParsedTexts
from godwit.mqtt import MqttSettings, ReasonCode
from godwit.runtime.authentication import Authenticator, Credentials, LocalAuthenticator, Principal
from godwit.runtime.client_rates import ClientRates
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.memory_account import MemoryAccount, memory_account
from godwit.runtime.mqtt_connection import MqttConnection
from godwit.runtime.mqtt_events import Message, message_of
from godwit.runtime.node import Node
from godwit.runtime.pacing import Pacer
from godwit.runtime.packet_slices import Backlog
from godwit.runtime.party_turns import PartyTurns
from godwit.runtime.peer_identity import certificate_names, host_of, keep_alive
from godwit.runtime.rate_limits import HostConnections, TrafficLimits, UserConnections
from godwit.runtime.security_log import AuditedAuthenticator, SecurityLog
from godwit.runtime.sys_topics import SysTopics
from godwit.runtime.tcp import Address

__all__ = ["MqttGateway"]

LISTENER = "mqtt"
FULL = "this broker accepts no more connections"
MODE = "named"  # an MQTT client sends only its name
MESSAGES_KEPT = 4_096
MESSAGE_BYTES_KEPT = 8 * 2**20  # bytes of payloads: each is also in the packets made of it
UNREAD_BYTES_MAX = 16 * 2**20
TEXTS_BYTES_MAX = 2**20  # of all cached filters
HANDLED_S, LOOK_S = 2.0, 0.01  # how long a connection waits for an earlier one of its client; how often it looks


class MqttGateway:
    """The MQTT side of a broker."""

    def __init__(
        self,
        node: Node,
        authenticator: Authenticator | None = None,
        broker_name: str = "",
        settings: MqttSettings | None = None,
        *,
        traffic: TrafficLimits | None = None,
        memory: MemoryAccount | None = None,
        rates: ClientRates | None = None,
        tests: EdgeTests | None = None,
        audit: SecurityLog | None = None,
    ) -> None:
        self.node = node
        self.tests = EdgeTests(node) if tests is None else tests
        self.audit = SecurityLog() if audit is None else audit
        authenticator = LocalAuthenticator() if authenticator is None else authenticator
        self.authenticator: Authenticator = AuditedAuthenticator(authenticator, LISTENER, self.audit)
        self.broker_name = broker_name
        self.settings = MqttSettings() if settings is None else settings
        self.traffic = TrafficLimits() if traffic is None else traffic
        self.memory = memory_account(self.traffic) if memory is None else memory
        self.rates = ClientRates(self.traffic) if rates is None else rates
        self.hosts = HostConnections(self.traffic.connections_per_host_max)
        self.users = UserConnections(self.traffic.connections_per_user_max)
        self.closings = Pacer()
        self.turns = PartyTurns(urgency=node.urgency)  # of connections, to decode and handle packets
        self.backlog = Backlog()
        self.memory.undecoded.append(lambda: self.backlog.size)
        self.connections: dict[MqttConnection, None] = {}
        self.clients: dict[str, MqttConnection] = {}  # by names in Godwit: connected, or with a pending will
        self.counts: Counter[str] = Counter()  # published, delivered, refused, given up, bytes received, bytes sent
        self.sys = SysTopics(self)
        self.listening: list[Address] = []
        self.is_closing = False
        self._servers: list[asyncio.Server] = []
        self._made = 0
        self._life = token_hex(4)  # names of connections must not come again after a restart
        self._now = 0.0
        self._messages: dict[int, tuple[Event, Message]] = {}
        self._message_bytes = 0  # of the payloads in it
        node.on_relief.append(self._read_on)
        self._parsed = ParsedTexts(CLIENT_TEXT_BYTES_MAX, TEXTS_BYTES_MAX)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Listen for MQTT connections at an address. With port 0, the system chooses one."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Wire(self), host, port, ssl=tls)
        self.sys.start()
        self._servers.append(server)
        taken = Address(*server.sockets[0].getsockname()[:2])
        self.listening.append(taken)
        return taken

    def open(
        self,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        host: str,
        *,
        pause: Callable[[bool], None] = lambda is_paused: None,
        certificate: str = "",
    ) -> MqttConnection:
        """A connection over another transport: call its `data_received(bytes)` and `connection_lost()`."""
        connection = MqttConnection(self, write, close, pause, host, certificate)
        is_full = len(self.connections) >= self.traffic.connections_max or self.memory.is_full
        if is_full or self.is_closing or not self.hosts.enter(host):
            self.audit.connection(LISTENER, host, FULL, "limit")
            connection.stop(ReasonCode.SERVER_BUSY, FULL)
        else:
            self.connections[connection] = None
            self.audit.accepted[LISTENER] += 1
        return connection

    async def admit(self, connection: MqttConnection, credentials: Credentials) -> Principal:
        """The principal of a client. PeerFault: its login is refused."""
        try:
            return await self.authenticator.admit(credentials)
        except PeerFault as fault:
            self.audit.connection(LISTENER, connection.host, str(fault), "login", credentials.user)
            raise

    async def _until_handled(self, client: str) -> None:
        """Wait until what a client has sent over an earlier connection is handled, for a while at most.

        Else one that disconnects and connects again at once would lose it, and its DISCONNECT, and so its will would be
        published.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + HANDLED_S
        while (older := self.clients.get(client)) is not None and older.is_handling and loop.time() < ends_at:
            await asyncio.sleep(LOOK_S)

    async def enter(self, connection: MqttConnection, principal: Principal, client_id: str) -> str:
        """A user has logged in over a connection; its name. NotAdmitted if it has too many."""
        user = principal.user
        await self._until_handled(principal.name_of(client_id))
        if connection in self.connections:
            try:
                self.users.enter(user)
            except NotAdmitted as fault:
                self.audit.connection(LISTENER, connection.host, str(fault), fault.cause, user)
                raise
        return user

    def on_fault(self, connection: MqttConnection, reason: str) -> None:
        """A connection is closed because of invalid data."""
        self.audit.connection(LISTENER, connection.host, reason, "protocol", connection.user or "")

    def leave(self, connection: MqttConnection) -> None:
        """A connection has closed."""
        self.memory.forget(connection)
        if connection in self.connections:
            del self.connections[connection]
            self.hosts.leave(connection.host)
            if connection.user is not None:
                self.users.leave(connection.user)
            if connection.rate is not None:
                connection.rate.leave(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """Stop listening, and tell all clients."""
        self.is_closing = True
        await self.sys.stop()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.stop(ReasonCode.SERVER_SHUTTING_DOWN, "the broker stops")

    # ------------------------------------------------------------ what connections share

    def _read_on(self) -> None:
        for connection in list(self.connections):
            connection.read_on()

    def new_name(self) -> str:
        """A name for a connection."""
        self._made += 1
        return f"mqtt-{self._life}/{self._made}"

    def new_client_id(self) -> str:
        """A name for a client that has none."""
        return f"mqtt-{token_hex(8)}"

    def now(self) -> float:
        """The monotonic time."""
        self._now = max(self._now, time())
        return self._now

    def attach(self, client: str, *, is_clean: bool, mode: str = MODE) -> Attach:
        """The greeting for a client's session. A publisher with another mode does not count its greetings: the time of
        each is its number.
        """
        if mode != MODE:
            return Attach(client, mode=mode, attempt=int(self.now() * 1_000))
        return Attach(client, mode=MODE, fresh_start=is_clean)

    def message(self, event: Event) -> Message:
        """An event as MQTT clients get it."""
        known = self._messages.get(id(event))
        if known is not None and known[0] is event:
            return known[1]
        message = message_of(event)
        self._message_bytes += len(message.payload)
        if len(self._messages) >= MESSAGES_KEPT or self._message_bytes > MESSAGE_BYTES_KEPT:
            self._messages.clear()
            self._message_bytes = len(message.payload)
        self._messages[id(event)] = (event, message)
        return message

    def filter_on_context(self, text: str) -> Filter:
        """Parse the filter on receivers' contexts that a client has sent."""
        return checked_context_filter(self._parsed.filter(text))


class _Wire(asyncio.Protocol):
    """A TCP connection that carries MQTT."""

    def __init__(self, gateway: MqttGateway) -> None:
        self._gateway = gateway
        self._transport: asyncio.Transport | None = None
        self._connection: MqttConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is one without saying so
        keep_alive(transport)
        names = certificate_names(transport)
        self._connection = self._gateway.open(
            self._write,
            transport.close,
            host_of(transport),
            pause=self._pause,
            certificate=names[0] if names else "",
        )

    def data_received(self, data: bytes) -> None:
        assert self._connection is not None
        self._connection.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        connection, self._connection = self._connection, None  # which refers to this carrier
        if connection is not None:
            self._gateway.closings.call(connection.connection_lost)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    def _write(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        transport.write(data)
        unread, connection = transport.get_write_buffer_size(), self._connection
        if unread > UNREAD_BYTES_MAX and connection is not None and unread - connection.unread > UNREAD_BYTES_MAX:
            connection.closed_because = "it does not read the answers to what it sends"
            transport.abort()

    def _pause(self, is_paused: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

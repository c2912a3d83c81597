"""Native connections: brokers and clients over TCP, with one write for each peer and turn.

*Theory.* A connection starts with an `Intro` from the side that opened it; a broker answers a broker with its own
`Intro`. After that, frames of a link or messages of a client follow, and become inputs of the node.

*Rules.*
1. An invalid message closes the connection with a reason, and affects no other peer.
2. A broker that has the address of a neighbour connects to it, and reconnects after a pause when that fails or ends. Of
   two connections of one link, that of the broker whose name sorts first is kept; of two by one side, the newer one.
3. A connection without `Intro` after `INTRO_S`, or whose client then sends nothing, is closed. Their number is limited,
   in all and per host. (`TrafficLimits`)
4. Data is written as fast as a peer reads: `PIECE_BYTES` at a time, and nothing more before it has read nearly all of
   that. The rest waits as messages, which are bounded by the windows of sessions and links. A client for which more
   than `UNSENT_MAX` wait is not read either; a neighbour for which more than `UNSENT_LINK_MAX` wait is disconnected.
5. A link without data for `SILENCE_S` is closed: a live peer answers frames, or sends Intro again. A client that sends
   Intro again is answered, and checked in the same way. While this broker does not read, no peer counts as silent.
6. Clients are authenticated by the `Authenticator`, brokers by the `LinkGuard`; before that one `Intro` of a bounded
   size is read, and no more from the socket. When a principal ends, its client is told why, and disconnected.
7. Reading from a client pauses while it, or its user, is above the rate limits (`client_rates.py`).
8. Incomplete messages are bounded in bytes and time (`memory_account.py`).
9. Few frames of a peer are decoded at a time, a long filter alone, of `READINGS_PER_TURN` peers in a turn of the loop.
10. A closing connection is aborted after `CLOSE_S`, even if its peer has not read the last messages.
11. What takes long to encode is encoded a part at a time, for neighbours. (`slow_writes.py`)
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from secrets import token_hex
from time import monotonic, time
from typing import Any, cast

from godwit.broker.authorisation import RightsGranted
from godwit.broker.effects import Arrived, Closed, Heard, LinkDown, LinkUp, Opened
from godwit.broker.member_tree import CHOICE
from godwit.broker.messages import Attach, Bye, Publish, Received, Request
from godwit.errors import PeerFault
from godwit.runtime.addresses import Address
from godwit.runtime.authentication import Authenticator, Credentials, LocalAuthenticator, Principal
from godwit.runtime.client_rates import ClientRate, ClientRates
from godwit.runtime.dialler import Dialler
from godwit.runtime.link_authentication import LinkGuard
from godwit.runtime.long_work import LongWork
from godwit.runtime.memory_account import MemoryAccount, memory_account
from godwit.runtime.network_questions import NetworkQuestions
from godwit.runtime.node import Node, client_line
from godwit.runtime.pacing import Pacer
from godwit.runtime.peer_identity import certificate_names, host_of, keep_alive
from godwit.runtime.rate_limits import HostConnections, TrafficLimits, UserConnections, work_of
from godwit.runtime.security_log import AuditedAuthenticator, SecurityLog
from godwit.runtime.slow_messages import SlowFrames
from godwit.runtime.slow_writes import SlowWrites
from godwit.runtime.wire import FRAME_BYTES_MAX, NATIVE, VERSION, Answer, Frames, Intro, Question, first_intro

__all__ = ["Address", "NativeConnection", "NativeServer"]

EARLY_BYTES_MAX = 2 * 2**20  # read from the socket before authentication
FRAMES_AT_ONCE_MAX = 128  # messages decoded of one peer before the machine has handled most of them: 3 to 5 ms
FILTERS_AT_ONCE_MAX = 8  # the same while a client sends filters, which take much memory, or has sent little so far
PIECE_BYTES = 2**20  # written at once
UNSENT_MAX, UNSENT_LINK_MAX = 4_096, 2**18  # messages that wait until a client, or a neighbour, is read no more
UNREAD_BYTES_MAX = 64 * 2**20  # of a WebSocket
INTRO_S, BEAT_S, SILENCE_S, CLOSE_S = 10.0, 5.0, 30.0, 5.0
REDIAL_FIRST_S, REDIAL_MAX_S, URL_MAX = 0.05, 5.0, 512
ASIDE = (Intro, Question, Answer)  # messages between brokers that bypass the machine


class NativeConnection(asyncio.Protocol):
    """One native connection, outgoing or incoming. A `Port` of the node."""

    def __init__(self, server: "NativeServer", dialled: str = "") -> None:
        self.server = server
        self.dialled = dialled  # the neighbour of an outgoing connection; "" for an incoming one
        self.name = ""  # of the neighbour, or of the client's connection, once it is known
        self.is_link = self.is_watched = False  # whether it is one; whether signs of life are expected
        self.closed_because = self.host = ""
        self.principal: Principal | None = None  # of a client, once it is authenticated
        self._early: bytearray | None = None  # data received before authentication
        self._admission: asyncio.Task[None] | None = None
        self._said, self.heard_at = "", 0.0  # greeting to the broker of an outgoing connection; when data came last
        self._rate: ClientRate | None = None  # of a client, once it is authenticated
        self._came, self._line = 0, ""  # messages of a neighbour; the client's queue at the node, after its first one
        self._is_crowded = False  # that line is long
        self._pause: asyncio.TimerHandle | None = None  # while it rests
        self._end: asyncio.TimerHandle | None = None
        self._is_counted = self._is_full = False  # by host; the peer does not read
        self._is_stuffed = False  # nor does it read the answers to its messages
        self._transport: asyncio.Transport | None = None
        callbacks = self.read_no_more, self._go_on, lambda: self.party, lambda: self.principal
        self._frames = SlowFrames(Frames(server.frame_bytes_max, in_steps=True), server.slow_work, *callbacks)
        self._writes = SlowWrites(server.slow_work, self.flush, lambda: self.party)
        self._frames_max, self._has_partial = FILTERS_AT_ONCE_MAX, False  # to be decoded next; a frame is incomplete
        self._unsent: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ from the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, loop = cast(asyncio.Transport, transport), asyncio.get_running_loop()
        self.heard_at, self.host = loop.time(), host_of(transport)
        self.server.connections[self] = None
        self.server.audit.accepted["native"] += not self.dialled
        keep_alive(transport)
        reason = self.server.why_full()
        if not reason and not self.dialled:
            self._is_counted = self.server.hosts.enter(self.host)
            reason = "" if self._is_counted else f"this broker accepts no more connections from {self.host}"
        if reason:
            self.send(Bye(reason))
            self._refuse(reason, "limit")
            return
        self._timer = loop.call_later(INTRO_S, self.close, "no peer has authenticated in time")
        if self.dialled:
            try:
                self._said = self.server.links.said_to(self.dialled, certificate_names(transport), time())
                self.say(Intro(broker=self.server.name, token=self._said, http=self.server.http, choice=CHOICE))
            except PeerFault as fault:
                self._refuse(str(fault), getattr(fault, "cause", "protocol"))

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        try:
            if self.name:
                self._take(data)
            else:
                self._take_early(data)
        except PeerFault as fault:
            self._refuse(str(fault), getattr(fault, "cause", "protocol"))
        if self.server.node.holds() and self._transport is not None:
            self._transport.pause_reading()

    def _take(self, data: bytes) -> None:
        """Messages of an authenticated peer."""
        frames = self._frames
        came = frames.feed(data, self._frames_max, counts_items=not self.is_link)
        partial = frames.pending
        if partial or self._has_partial:
            self._has_partial = partial > 0
            self.server.memory.on_partial(self, partial, is_new=bool(came))
            if self not in self.server.connections:
                return
        name, line, tell, is_long = self.name, self._line, self.server.node.tell, False
        if self.is_link:
            self._came += len(came)
            self._frames_max = FRAMES_AT_ONCE_MAX
            for message, packed in came:
                if type(message) not in ASIDE:
                    is_long = tell(Arrived(name, message), packed, name)
                else:
                    self.server.hear_aside(self, message)
            if is_long or frames.has_more:
                self._wait_until_short(name)
            return
        assert self.principal is not None
        assert self._rate is not None
        principal, work = self.principal, 0
        for message, packed in came:
            kind = type(message)
            if kind is Intro:
                self.is_watched = True
                self.say(Intro(broker=self.server.name))
                continue
            granted = message if kind is Received else principal.checked(message)  # which needs no right
            line = line or self._begin(granted)
            if kind is Attach and principal.rights is not None:
                tell(RightsGranted(granted.client, principal.rights), line=line)
            is_long = tell(Heard(name, granted), packed if granted is message else NATIVE.encode(granted), line)
            if (kind is Request and type(granted.wish) is not Publish) or kind is Attach:
                work += work_of(granted)
        if self._timer is not None and came:
            self._timer.cancel()
            self._timer = None
        if work or len(came) >= FILTERS_AT_ONCE_MAX:
            self._frames_max = FILTERS_AT_ONCE_MAX if work else FRAMES_AT_ONCE_MAX
        if (wait_s := self._rate.take(len(came), len(data), work, self.heard_at)) > 0:
            self._rest(wait_s)
        if is_long or frames.has_more:
            self._wait_until_short(line or name)

    def _begin(self, first: Any) -> str:
        """The first message of a client: the machine is told of its connection, and its inputs wait in this line."""
        assert self.principal is not None
        self._line = client_line(first.client) if type(first) is Attach else self.name
        self.server.node.tell(Opened(self.name, self.principal.asserted), line=self._line)
        return self._line

    def _wait_until_short(self, line: str) -> None:
        """Pause reading while many inputs of this peer wait for the machine. (`Node`, rule 6)"""
        if self._transport is not None and not self._is_crowded:
            self._is_crowded = True
            self._transport.pause_reading()
            self.server.node.when_short(line, partial(self.server.readings.soon, self._on_short))

    def _on_short(self) -> None:
        self._is_crowded = False
        self._go_on()

    def _go_on(self) -> None:
        """Decode received data, unless the client pauses. (rules 7, 9)"""
        if self._frames.has_more and self._pause is None and self in self.server.connections:
            self.data_received(b"")
        if not self.server.node.holds():
            self.read_on()

    def _take_early(self, data: bytes) -> None:
        """Data of a peer before authentication. (rule 6)"""
        self._early = self._early or bytearray()
        self._early += data
        self._has_partial = True
        self.server.memory.on_partial(self, len(self._early), is_new=False)
        if self not in self.server.connections:
            return
        if self._admission is not None:
            if len(self._early) > EARLY_BYTES_MAX:
                raise PeerFault("too many bytes came before the client was attached")
            return
        if (found := first_intro(self._early, self.server.traffic.intro_bytes_max)) is not None:
            intro, length = found
            del self._early[:length]
            self._introduce(intro)

    def _take_rest(self) -> None:
        """Data received after the Intro."""
        early, self._early = bytes(self._early or b""), None
        self.server.memory.forget(self)
        if early:
            self.data_received(early)

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""
        return self.host if self.principal is None else self.principal.user

    @property
    def is_admitted(self) -> bool:
        """Whether the peer is authenticated."""
        return self.principal is not None or self.is_link

    @property
    def unread(self) -> int:
        """Written bytes that the peer has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def let_go(self, reason: str) -> None:
        """Close the connection because of its memory use."""
        self._refuse(reason, "limit")

    def _refuse(self, reason: str, cause: str = "ended") -> None:
        """Close because of invalid data or failed authentication; a client is told."""
        user = "" if self.principal is None else self.principal.user
        self.server.audit.connection("native", self.host, reason, cause, user)
        if self.principal is not None or self._admission is not None:
            self.send(Bye(reason))
        self.close(reason)

    def _rest(self, wait_s: float) -> None:
        """Pause reading. (rule 7)"""
        if self._transport is not None and self._pause is None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._pause = asyncio.get_running_loop().call_later(wait_s, self._rested)

    def _rested(self) -> None:
        self._pause = None
        if not self._is_crowded:
            self._go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.server.closings.call(self._gone)

    def _introduce(self, intro: Any) -> None:
        if type(intro) is not Intro:
            raise PeerFault(f"a {type(intro).__name__} before Intro")
        if intro.version != VERSION:
            raise PeerFault(f"version {intro.version} of the protocol: this broker speaks {VERSION}")
        if self.dialled and intro.broker != self.dialled:
            raise PeerFault(f"this is {intro.broker or 'no broker'}, and not {self.dialled}")
        assert self._transport is not None
        names = certificate_names(self._transport)
        if intro.broker:
            if self._timer is not None:
                self._timer.cancel()
            guard = self.server.links
            if self.dialled:
                guard.check_answer(self.dialled, self._said, intro.token)
            else:
                self._said = guard.check_dialler(intro.broker, intro.token, self.host, names, time())
            guard.check_choice(intro.broker, intro.choice)
            self.server.link(self, intro, self._said)
            self._take_rest()
            return
        who = Credentials(self.host, "", intro.user, intro.password, intro.token, names[0] if names else "")
        self._transport.pause_reading()
        self._admission = asyncio.create_task(self._admit(who))

    async def _admit(self, who: Credentials) -> None:
        """Ask the authenticator about a client."""
        try:
            principal = await self.server.authenticator.admit(who)
            if self in self.server.connections:
                self.server.users.enter(principal.user)
        except PeerFault as fault:
            self._refuse(str(fault), "limit" if getattr(fault, "cause", "") == "limit" else "login")
            return
        except Exception:
            self._refuse("authentication is not possible at present")
            raise
        if self not in self.server.connections:  # it has disconnected meanwhile
            return
        if principal.ended_because:  # likewise
            self._refuse(principal.ended_because)
            return
        self.principal = principal
        principal.on_end += (self._refuse,)
        self._rate = self.server.rates.enter(principal.user, asyncio.get_running_loop().time())
        self._end = principal.end_with_token()
        self.server.welcome(self)
        if not principal.user and (who.user or who.token):
            self.say(Intro(broker=self.server.name, unchecked=True))
        self._admission = None
        self._take_rest()
        if self._pause is None and not self.server.node.holds():
            self.read_on()

    # ------------------------------------------------------------ a port of the node

    def send(self, message: Any) -> None:
        """Queue a message for the next `flush`."""
        self._unsent.append(message)

    def flush(self) -> None:
        """Write the queued messages at once."""
        transport, unsent = self._transport, self._unsent
        if transport is None or transport.is_closing() or not unsent:
            return
        if self._is_full or self._writes.is_busy:
            self._hold_unread()
            return
        unsent, later = self._writes.split(unsent, transport) if self.is_link else (unsent, [])  # rule 11
        if len(unsent) == 1 and not self._is_stuffed:  # at low rates
            self._unsent = later
            transport.write(Frames.packed_one(unsent[0]))
            return
        at = 0
        while at < len(unsent) and not self._is_full:
            data, at = Frames.packed_part(unsent, at, PIECE_BYTES)
            transport.write(data)
        self._unsent = unsent[at:] + later
        if self._is_stuffed and not self._unsent:
            self._is_stuffed = False
            if not self.server.node.holds():
                self.read_on()

    def _hold_unread(self) -> None:
        """Limit the unsent messages of a peer that does not read. (rule 4)"""
        transport, count = self._transport, len(self._unsent)
        assert transport is not None
        if self.is_link:
            if count > UNSENT_LINK_MAX:
                self.closed_because = "it does not read what it is sent"
                transport.abort()
        elif count > UNSENT_MAX and not self._is_stuffed:
            self._is_stuffed = True
            transport.pause_reading()

    def pause_writing(self) -> None:
        """The peer does not read what is sent to it."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The peer reads again: that is a sign of life."""
        self._is_full = False
        self.heard_at = asyncio.get_running_loop().time()
        self.flush()

    def read_on(self) -> None:
        """Resume reading after the node had paused it."""
        self.heard_at = asyncio.get_running_loop().time()
        waits = self._is_stuffed or self._is_crowded or self._frames.is_busy
        may_read = self._admission is None and self._pause is None and not waits
        if may_read and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def read_no_more(self) -> None:
        """Pause reading until `read_on`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def say(self, message: Any) -> None:
        """Send a message at once."""
        self.send(message)
        self.flush()

    def close(self, reason: str) -> None:
        """Write the queued messages, and close."""
        if self._transport is not None and not self._transport.is_closing():
            self.closed_because = self.closed_because or reason
            if self._is_full:  # other messages are kept by its session or link
                self._is_full, self._unsent = False, [message for message in self._unsent[-1:] if type(message) is Bye]
            self.flush()
            self._transport.close()
            asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)
        self._gone()

    def beat(self, now: float) -> None:
        """Send a sign of life to a neighbour; close a silent connection. (rule 5)"""
        is_read = not (self.server.node.is_held or self._pause or self._is_crowded or self._frames.is_busy)
        if now - self.heard_at > SILENCE_S and is_read:
            self.close("no data was received for too long")
        elif self.is_link:
            self.say(Intro(broker=self.server.name, http=self.server.http))

    def _gone(self) -> None:
        server = self.server
        if self not in server.connections:
            return
        del server.connections[self]
        server.memory.forget(self)
        self._frames.stop()
        self._writes.stop()
        for handle in (self._timer, self._pause, self._end):
            if handle is not None:
                handle.cancel()
        self._timer = self._pause = self._end = None
        if self._admission is not None and self._admission is not asyncio.current_task():
            self._admission.cancel()
        if self._is_counted:
            server.hosts.leave(self.host)
        if self.principal is not None:
            server.users.leave(self.principal.user)
            if self._rate is not None:
                self._rate.leave(asyncio.get_running_loop().time())
            self.principal.on_end = ()  # breaks the reference cycle with the principal
        if self.name and server.node.ports.get(self.name) is self:
            del server.node.ports[self.name]
            if self.is_link:
                server.node.tell(LinkDown(self.name))
            elif self._line:
                server.node.tell(Closed(self.name), line=self._line)
        server.on_closed(self.name or self.host, self.closed_because)
        if self.dialled:
            server.redial(self.dialled, self._came)


class NativeServer:
    """The native listener of a broker: it accepts and authenticates peers, and connects to neighbours."""

    def __init__(
        self,
        name: str,
        node: Node,
        neighbours: Mapping[str, Address | None],
        *,
        authenticator: Authenticator | None = None,
        links: LinkGuard | None = None,
        traffic: TrafficLimits | None = None,
        memory: MemoryAccount | None = None,
        audit: SecurityLog | None = None,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        on_closed: Callable[[str, str], None] = lambda name, reason: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name, self.node, self.neighbours = name, node, dict(neighbours)
        self.audit = SecurityLog() if audit is None else audit
        authenticator = LocalAuthenticator() if authenticator is None else authenticator
        self.authenticator: Authenticator = AuditedAuthenticator(authenticator, "native", self.audit)
        self.links = LinkGuard(name) if links is None else links
        self.traffic = TrafficLimits() if traffic is None else traffic
        self.memory = memory_account(self.traffic) if memory is None else memory
        self.rates = ClientRates(self.traffic)
        self.hosts = HostConnections(self.traffic.connections_per_host_max)
        self.users = UserConnections(self.traffic.connections_per_user_max)
        self.on_closed, self.frame_bytes_max = on_closed, frame_bytes_max
        self.on_linked: Callable[[str], None] = lambda peer: None
        self.connections: dict[NativeConnection, None] = {}
        self.http = ""  # where this broker answers HTTP
        self.http_of: dict[str, str] = {}  # where neighbours do
        self.listening: list[Address] = []
        self._servers: list[asyncio.Server] = []
        self.slow_work, self.closings = LongWork(urgency=node.urgency), Pacer()
        self.readings = Pacer(2)  # of frames that wait: never within the machine's turn
        self._made, self._life = 0, token_hex(4)  # names of connections must not repeat after a restart
        self._dialler = Dialler(self._connect, first_s=REDIAL_FIRST_S, max_s=REDIAL_MAX_S, sleep=sleep)
        self._beating: asyncio.Task[None] | None = None
        self.questions = NetworkQuestions(name, self._open_links, lambda: tuple(self.neighbours), monotonic)
        node.on_relief.append(self._read_on)

    def _read_on(self) -> None:
        for connection in self.connections:
            connection.read_on()

    def why_full(self) -> str:
        """Why connections are not accepted now; "" if they are."""
        if len(self.connections) > self.traffic.connections_max:
            return "this broker accepts no more connections"
        return "memory limit reached (limits.memory_bytes_max): try again later" if self.memory.is_full else ""

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Listen at an address. With port 0, the system chooses one."""
        loop, make, patience_s = asyncio.get_running_loop(), partial(NativeConnection, self), INTRO_S if tls else None
        server = await loop.create_server(make, host, port, ssl=tls, ssl_handshake_timeout=patience_s)
        self._servers.append(server)
        taken = Address(*server.sockets[0].getsockname()[:2])
        self.listening.append(taken)
        self._beating = self._beating or asyncio.create_task(self._beat())
        return taken

    def dial_all(self) -> None:
        """Connect to every neighbour whose address is known."""
        for peer, address in self.neighbours.items():
            if address is not None:
                self._dialler.dial(peer)

    # ------------------------------------------------------------ neighbours

    async def _connect(self, peer: str) -> None:
        """Connect to a neighbour, if it has an address and no link. OSError if it cannot be reached."""
        address = self.neighbours[peer]
        if address is not None and peer not in self.node.ports:
            try:
                await asyncio.get_running_loop().create_connection(
                    lambda: NativeConnection(self, peer), address.host, address.port, ssl=self.links.tls
                )
            except ssl.SSLError as error:
                self.on_closed(peer, f"no TLS with {peer}: {error.reason or error}")
                raise

    def redial(self, peer: str, came: int) -> None:
        """Reconnect after a pause, unless there is a link. If only one message came, the peer may have refused us."""
        links = getattr(self.node.machine, "links", {})
        if peer not in self.node.ports:
            self._dialler.redial(peer, was_accepted=came > 1 and peer in links and bool(links[peer].open))

    def link(self, connection: NativeConnection, intro: Intro, answer: str = "") -> None:
        """A connection is a link to a neighbour; `answer` authenticates this broker."""
        peer = intro.broker
        if peer not in self.neighbours:
            raise PeerFault(f"{peer} is not a neighbour of {self.name}")
        older = self.node.ports.get(peer)
        if isinstance(older, NativeConnection):
            if bool(older.dialled) != bool(connection.dialled) and (self.name < peer) is bool(older.dialled):
                raise PeerFault(f"there is a link between {self.name} and {peer} already")  # rule 2
            del self.node.ports[peer]
            self.node.tell(LinkDown(peer))
            older.close("there is a newer connection")
        connection.name, connection.is_link, connection.is_watched = peer, True, True
        self.hear_aside(connection, intro)
        if not connection.dialled:
            connection.say(Intro(broker=self.name, token=answer, http=self.http, choice=CHOICE))
        self.node.ports[peer] = connection
        self.node.tell(LinkUp(peer))
        self.on_linked(peer)

    def hear_aside(self, connection: NativeConnection, message: Intro | Question | Answer) -> None:
        """A message of a neighbour that bypasses the machine: its HTTP address, a question, an answer."""
        if isinstance(message, Question):
            self.questions.on_question(connection.name, message)
        elif isinstance(message, Answer):
            self.questions.on_answer(connection.name, message)
        else:
            host = f"[{connection.host}]" if ":" in connection.host else connection.host
            self.http_of[connection.name] = message.http.replace("://:", f"://{host}:")[:URL_MAX]

    def _open_links(self) -> dict[str, NativeConnection]:
        ports = self.node.ports
        return {peer: port for peer in self.neighbours if isinstance(port := ports.get(peer), NativeConnection)}

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            now = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                if connection.is_watched:
                    connection.beat(now)

    # ------------------------------------------------------------ clients

    def welcome(self, connection: NativeConnection) -> None:
        """A connection belongs to an authenticated client."""
        self._made += 1
        connection.name = f"{self._life}/{self._made}"
        self.node.ports[connection.name] = connection

    # ------------------------------------------------------------ the end

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._dialler.close()
        if self._beating is not None:
            self._beating.cancel()
        for server in self._servers:
            server.close()
        for connection in self.connections:
            connection.read_no_more()
        if not self.node.trouble:
            await self.node.quiet()  # so that received messages are answered
        for connection in list(self.connections):
            if connection.name and not connection.is_link:
                connection.send(Bye("the broker stops"))
            connection.close("the broker stops")

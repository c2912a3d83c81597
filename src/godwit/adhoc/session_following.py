"""Session following: where event brokers coordinate, a session goes to the event broker that its client follows.

*Theory.* Trunks between event brokers form a tree (`adhoc_node.py`). A client that greets another event broker than its
`home` waits there. The new event broker asks over all trunks who has an older session of this client. The *holder*
sends its state first, and goes on. With the state the client's subscriptions are in force at the new one; the next
question follows them over the same trunks, in order. So when that one reaches the holder, every event that was routed
before is in the holder's queue, and every later one is routed to the new event broker, too: the holder sends the whole
session, the new one puts behind it what has come meanwhile, lets the client in, and the holder is told to forget.

    greeted ── WantSession state ──> state taken ── WantSession queue ──> whole ── WantSession done ──> let in
       └────────────── no holder, or no answer for `fetch_s` ──────────────────────────────────────────> let in

A holder whose client came to another island finds the new event broker later, when the two coordinate: it offers the
sessions of clients that it has not heard of lately, and a holder of a newer one takes them, and merges the two. In the
same way it offers what it keeps for the island of another event broker (`parted_islands.py`), which fetches it and
hands it on to its clients and neighbours.

*Rules.*
1. A holder keeps a session until the one that it was handed to last says `done`. If another session has been joined to
   it since, or a trunk was lost, over which later events may have gone, it keeps it nevertheless. What is kept, or lost
   on the way, is offered again until the lease ends.
2. Of two sessions of a client the one with the higher attempt is the newer. Only an older one is handed out.
3. A client that waits, waits for `fetch_s` at most. Nothing it says is handled before its session is there.
4. Of several holders the one that answers first is listened to. The others offer theirs later.
5. All tables are bounded by the members of an event broker and by the leaders that it knows of.
6. An offered session is taken when its client has subscribed here, so that later events are routed here. In the same
   way, a client that was attached without its session before, and has not subscribed yet, is so again.
   What is kept for this island is fetched at once: the question follows what is wanted here over the same trunks.

*Paper.* [mobile §3.1] "both could operate in a coordinated fashion as discussed in Section 4"; [mobile §4.3] hand-off
between brokers. The barrier is that of [rebeca §4]: subscribe, then fetch along the same way.
"""

from collections.abc import Callable
from typing import Any, Literal

from godwit.adhoc.circuits import Circuit
from godwit.adhoc.device import Device
from godwit.adhoc.event_broker import EventBroker, check_part
from godwit.adhoc.parted_islands import island_of
from godwit.adhoc.radio_messages import HandSession, OfferSessions, WantSession, check_following
from godwit.broker.effects import StartTimer, StopTimer
from godwit.broker.messages import Attach, NodeId
from godwit.mobility.move_messages import Replay

__all__ = ["FOLLOWING_MESSAGES", "Fetch", "SessionFollowing"]

FOLLOWING_MESSAGES = frozenset((WantSession, HandSession, OfferSessions))
OFFERED_MAX = 256  # sessions in one offer


class Fetch:
    """A session that is wanted here."""

    def __init__(
        self, attempt: int, part: Literal["state", "queue"], circuit: Circuit | None, holder: NodeId = ""
    ) -> None:
        self.attempt = attempt
        self.part = part
        self.circuit = circuit  # of the client that waits for it; None: it is served already
        self.holder = holder  # the one that has offered it, or has answered first
        self.is_new = True  # this event broker had no session of its own
        self.parts: list[Replay] = []


class SessionFollowing:
    """Sessions that an event broker fetches from others, and those that others fetch from it."""

    def __init__(self, device: Device, let_in: Callable[[Circuit, float], None]) -> None:
        self._device = device
        self._config = device.config
        self._let_in = let_in
        self._fetches: dict[NodeId, Fetch] = {}  # by client
        self._ways: dict[NodeId, str] = {}  # by event broker: the trunk over which it was heard of last
        self._handed: dict[NodeId, tuple[str, NodeId]] = {}  # by client: the session handed out last, and to whom

    def __len__(self) -> int:
        return len(self._fetches)

    def awaits(self, circuit: Circuit) -> bool:
        """Whether the client of a circuit waits for its session."""
        fetch = self._fetches.get(circuit.id[0])
        return fetch is not None and fetch.circuit is circuit

    def clear(self) -> None:
        """There is no event broker here any more."""
        for client in list(self._fetches):
            self._end(client)
        self._ways.clear()
        self._handed.clear()

    # ------------------------------------------------------------ at the event broker that the client follows

    def on_attach(self, circuit: Circuit, message: Attach, now: float) -> bool:
        """A client greets: whether it has to wait for a session that another event broker may have."""
        broker, client = self._device.broker, message.client
        assert broker is not None
        self._end(client)
        if not broker.neighbours or message.home in ("", self._device.name) or not message.session:
            return False
        self._begin(client, Fetch(message.attempt, "state", circuit), now)
        return True

    def on_closed(self, circuit: Circuit) -> None:
        """A circuit is over: if its client waits for its session, it does so no longer. Of a trunk: rule 1."""
        if self.awaits(circuit):
            self._end(circuit.id[0])
        if self._device.broker is not None and self._device.broker.is_joined(circuit.name):
            self._handed.clear()

    def on_timer_due(self, client: NodeId, now: float) -> None:
        """Nobody has answered, or not all has come: go on without. Rule 3."""
        self._finish(client, now)

    def _begin(self, client: NodeId, fetch: Fetch, now: float) -> None:
        self._fetches[client] = fetch
        self._device.emit(StartTimer(("fetch", client), now + self._config.fetch_s))
        self._ask(client, fetch, fetch.part, now)

    def _ask(self, client: NodeId, fetch: Fetch, part: Literal["state", "queue", "done"], now: float) -> None:
        self._flood(WantSession(client, fetch.attempt, self._device.name, part, fetch.holder), "", now)

    def _end(self, client: NodeId) -> Fetch | None:
        fetch = self._fetches.pop(client, None)
        if fetch is not None:
            self._device.emit(StopTimer(("fetch", client)))
        return fetch

    def _finish(self, client: NodeId, now: float) -> None:
        fetch = self._end(client)
        if fetch is not None and fetch.circuit is not None:
            self._let_in(fetch.circuit, now)

    def _on_part(self, message: HandSession, now: float) -> None:
        """A part of a session that is wanted here; or that was: then its holder keeps it. Rule 1."""
        broker, replay = self._device.broker, message.replay
        assert broker is not None
        fetch = self._fetches.get(replay.client)
        if fetch is None or message.of != fetch.part or fetch.holder not in ("", message.holder):  # rule 4
            return
        check_part(fetch.parts, replay)
        fetch.holder = message.holder
        fetch.parts.append(replay)
        if replay.is_last:
            parts, fetch.parts = fetch.parts, []
            self._on_whole(fetch, parts, min(message.lease_s, self._config.lease_s), now)

    def _on_whole(self, fetch: Fetch, parts: list[Replay], lease_s: float, now: float) -> None:
        device, client = self._device, parts[0].client
        assert device.broker is not None
        if fetch.part == "state":
            session, state = device.broker.sessions.session(client), parts[0].state
            if session is not None and not session.subscriptions and state is not None and state.subscriptions:
                self._finish(client, now)  # rule 6
                return
            fetch.part, fetch.is_new = "queue", session is None
            if fetch.is_new:
                device.let("broker", device.broker.take(parts, lease_s, now))
            self._ask(client, fetch, "queue", now)  # behind the subscriptions
            return
        is_continued = fetch.circuit is not None and fetch.is_new and device.broker.sessions.session(client) is not None
        if client == island_of(device.name):
            device.let("broker", device.broker.hand_on(parts, now))
        else:
            go_on = device.broker.go_on_with if is_continued else device.broker.take
            device.let("broker", go_on(parts, lease_s, now))
        self._ask(client, fetch, "done", now)
        self._finish(client, now)

    def _on_offer(self, message: OfferSessions, now: float) -> None:
        """Another event broker has sessions of clients that may be here: take those that are older than ours."""
        broker = self._device.broker
        assert broker is not None
        for client, attempt in message.sessions.items():
            if client == island_of(self._device.name) and client not in self._fetches:
                self._begin(client, Fetch(attempt + 1, "queue", None, message.holder), now)
                continue
            session = broker.sessions.session(client)
            if session is None or not session.subscriptions or client in self._fetches:  # rule 6
                continue
            if session.attempt > attempt:
                self._begin(client, Fetch(session.attempt, "queue", None, message.holder), now)

    # ------------------------------------------------------------ at the holder

    def offer(self, now: float) -> None:
        """Tell other event brokers of the sessions whose clients have not been heard of lately."""
        broker = self._device.broker
        assert broker is not None
        if not broker.neighbours:
            return
        offered: dict[NodeId, int] = {}
        for session in broker.sessions:
            if session.client in self._fetches or len(offered) >= OFFERED_MAX:
                continue
            circuit = self._device.circuits.get(session.connection or "")
            if circuit is None or (circuit.link is not None and self._is_silent(circuit, now)):
                offered[session.client] = session.attempt
        if offered:
            self._flood(OfferSessions(self._device.name, offered), "", now)

    def _is_silent(self, circuit: Circuit, now: float) -> bool:
        """Whether its client has missed two polls."""
        heard_at = circuit.until - self._config.lease_s
        return now - heard_at > 2 * self._config.poll_s

    def _on_wanted(self, message: WantSession, now: float) -> None:
        """Hand a session out that is older than the one who asks has."""
        device, client = self._device, message.client
        assert device.broker is not None
        session = device.broker.sessions.session(client)
        if session is None or session.attempt >= message.attempt or message.holder not in ("", device.name):  # rule 2
            return
        fetch = self._fetches.get(client)
        if fetch is not None and fetch.attempt < message.attempt:  # it has moved on
            self._end(client)
        circuit = device.circuits.get(session.connection or "")
        if circuit is not None:
            device.drop(circuit, now)
        if message.part == "done":
            if self._handed.get(client) == (session.name, message.to):  # rule 1
                device.let("broker", device.broker.forget(client, now))
            return
        of = device.broker.state_of if message.part == "state" else device.broker.all_of
        lease_s = max((session.ends_at or now) - now, 0.0)
        way = self._ways.get(message.to)
        for replay in of(session, message.to):
            self._send(way, HandSession(device.name, message.to, lease_s, message.part, replay), now)
        if message.part == "queue":
            remember(self._handed, client, (session.name, message.to), self._config.members_max)

    # ------------------------------------------------------------ over the trunks

    def on_message(self, via: str, message: WantSession | HandSession | OfferSessions, now: float) -> None:
        """Something about sessions came over a trunk: take it, or pass it on."""
        check_following(message)
        match message:
            case HandSession(to=to) if to != self._device.name:
                if (way := self._ways.get(to)) != via:
                    self._send(way, message, now)
            case HandSession():
                self._on_part(message, now)
            case WantSession(to=to):
                self._learn(to, via)
                self._flood(message, via, now)
                self._on_wanted(message, now)
            case OfferSessions(holder=holder):
                self._learn(holder, via)
                self._flood(message, via, now)
                self._on_offer(message, now)

    def _learn(self, leader: NodeId, via: str) -> None:
        remember(self._ways, leader, via, self._config.leaders_max)

    def _flood(self, message: Any, besides: str, now: float) -> None:
        """Send something over all trunks but one. They form a tree, so it comes to each event broker once."""
        broker: EventBroker | None = self._device.broker
        assert broker is not None
        for trunk in broker.neighbours:
            if trunk != besides:
                self._send(trunk, message, now)

    def _send(self, trunk: str | None, message: Any, now: float) -> None:
        circuit = None if trunk is None else self._device.circuits.get(trunk)
        if circuit is not None and circuit.link is not None:
            self._device.let("circuit", circuit.send(message, now))


def remember(table: dict[NodeId, Any], key: NodeId, value: Any, entries_max: int) -> None:
    """Set an entry of a bounded table: the one that was set the longest ago makes room."""
    table.pop(key, None)
    if len(table) >= entries_max:
        del table[next(iter(table))]
    table[key] = value

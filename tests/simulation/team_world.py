"""Peers of a team in the simulator: each is a machine on a client's machine, over brokers with disks, links and faults.

What a real peer does between its machine and its client (`live_peer.py`) is done here on virtual time. The peer's store
is its disk: a process that ends leaves it, with what is still to be sent.
"""

from functools import partial
from typing import Any

import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Notify
from godwit.client import Client, ClientConfig
from godwit.filters.events import Event
from godwit.simulator.world import World
from godwit.teamwork.live_peer import SEND_AGAIN_S
from godwit.teamwork.machine import exchange
from godwit.teamwork.machine.bus import KeyGiven, attributes_of, context_of, filter_for
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    Attached,
    Detached,
    EventCame,
    Follow,
    GiveKey,
    Input,
    Invited,
    KeyMade,
    KeyMissing,
    MakeKey,
    Publish,
    Rejected,
    SearchAnswered,
    StartTimer,
    StopTimer,
    SubscribeScope,
    TakeKey,
    TimerDue,
    TimerKey,
    UnsubscribeScope,
)
from godwit.teamwork.machine.search import Progress
from godwit.teamwork.machine.store import MemoryStore
from godwit.teamwork.sealing import KeyRing, Sealed
from godwit.testing.broker_factory import broker, neighbours
from tests.simulation.team_bus import TEAM, MemorySecrets, has_words
from tests.simulation.team_scenarios import BROKERS, LINKS, USERS, Crash, CutLink, Disturb, Kill, Leave, Move, Restart
from tests.unit.teamwork.machine.team_of_peers import Keys, PlainIndex

__all__ = ["SimulatedPeer", "TeamWorld"]

LATENCY_S = 0.02
RETRY_S = 1.0
SESSION_S = 30 * 86_400.0
BOX, INVERTED = b"for one device: ", bytes(range(255, -1, -1))
"""What is for one device travels so that the words of it cannot be read; real peers seal it (`sealing.py`)."""


class _Watched:
    """A client's machine, and somebody who is told when it is let in and when its connection ends."""

    def __init__(self, client: Client, peer: "SimulatedPeer") -> None:
        self.client, self._peer = client, peer

    def handle(self, input: Any, now: float) -> list[Any]:
        was_attached = self.client.is_attached
        effects = self.client.handle(input, now)
        if self.client.is_attached != was_attached:
            self._peer.later(Detached() if was_attached else Attached())
        if isinstance(input, Closed):
            self._peer.come_back_soon()
        return effects


class SimulatedPeer:
    """One device."""

    def __init__(self, team: "TeamWorld", user: str, device: str, at: str) -> None:
        self.team, self.user, self.device, self.home = team, user, device, at
        self.store, self.ring = MemoryStore(), KeyRing(MemorySecrets())
        self.client = Client(device, ClientConfig(mode="named", buffer_events_max=100_000))
        self.scopes: set[str] = set()
        self.is_away = False
        self.progress: list[Progress] = []
        self.rejected: list[Rejected] = []
        self._unreadable: list[bytes] = []
        self._waiting: list[Publish] = []  # for a key; on the disk, as all that is to be sent
        self._timers: dict[TimerKey, int] = {}
        team.world.add_client(device, _Watched(self.client, self))
        self._command(lambda client, now: client.set_session_expiry(SESSION_S, now))
        self.machine = self._made()

    def _made(self) -> Peer:
        identity, index = Identity(TEAM, self.user, self.device), PlainIndex(self.device, self.store)
        return Peer(identity, self.store, Keys(self.device), index, self.ring.has, has_words)

    # ------------------------------------------------------------ coming, going, ending

    def come(self, at: str = "") -> None:
        """Attach to a broker, the last one unless told."""
        world = self.team.world
        self.leave()
        self.is_away, self.home = False, at or self.home
        if self.home not in world.nodes[self.device].wires:
            world.wire(self.device, self.home, LATENCY_S, None)
        if not world.connect(self.device, self.home):
            self.come_back_soon()

    def leave(self) -> None:
        """Be out of reach."""
        self.is_away = True
        if self.home in self.team.world.nodes[self.device].wires:
            self.team.world.disconnect(self.device, self.home)

    def come_back_soon(self) -> None:
        self.team.world.clock.call_at(self.team.world.now + RETRY_S, self._try_again)

    def _try_again(self) -> None:
        wire = self.team.world.nodes[self.device].wires.get(self.home)
        if not self.is_away and (wire is None or not wire.up):
            self.come()

    def begin_again(self) -> None:
        """The process ends, and another one begins with what is on the disk."""
        self._timers.clear()
        self._unreadable.clear()
        self.machine = self._made()
        for scope in sorted(self.scopes):
            self.tell(Follow(scope))
        if self.client.is_attached:
            self.tell(Attached())

    # ------------------------------------------------------------ inputs and effects

    def later(self, input: Input) -> None:
        """Tell the machine in a moment: its client is in the middle of something."""
        self.team.world.clock.call_at(self.team.world.now, self.tell, input)

    def tell(self, input: Input) -> None:
        """Give the machine an input, and carry out what it asks for."""
        further: list[Input] = []
        for effect in self.machine.handle(input, self.team.world.now):
            match effect:
                case Publish():
                    self._publish(effect)
                case SubscribeScope(scope=scope) if scope not in self.scopes:
                    self.scopes.add(scope)
                    self._subscribe()
                case UnsubscribeScope(scope=scope) if scope in self.scopes:
                    self.scopes.remove(scope)
                    self._subscribe()
                case Invited(invite=invite) if invite.scope not in self.scopes:
                    further.append(Follow(invite.scope))
                case StartTimer(key=key, after_s=after_s):
                    at = self.team.world.now + after_s
                    self._timers[key] = number = self.team.next_number()
                    self.team.world.clock.call_at(at, self._on_timer, key, number)
                case StopTimer(key=key):
                    self._timers.pop(key, None)
                case MakeKey(scope=scope):
                    further.append(KeyMade(scope, self.ring.made(scope)))
                case GiveKey(scope=scope, name=name, device=device):
                    key_given = KeyGiven(self.device, scope, name, device, self.ring.key(scope, name) or b"")
                    self._publish(Publish(attributes_of(TEAM, key_given), msgspec.msgpack.encode(key_given)))
                case TakeKey(scope=scope, name=name, box=box):
                    assert self.ring.keep(scope, name, box)
                    waiting, self._unreadable = self._unreadable, []
                    further += [each for payload in waiting for each in self._opened(payload)]
                    self._send_again()
                case SearchAnswered(progress=progress):
                    self.progress.append(progress)
                case Rejected():
                    self.rejected.append(effect)
        for each in further:
            self.tell(each)

    def _on_timer(self, key: TimerKey, number: int) -> None:
        if self._timers.get(key) == number:
            del self._timers[key]
            self.tell(TimerDue(key))

    def on_event(self, event: Event) -> None:
        """The client has received an event."""
        for input in self._opened(event.payload or b""):
            self.later(input)

    def _opened(self, payload: bytes) -> list[Input]:
        if payload.startswith(BOX):
            return [EventCame(payload.removeprefix(BOX).translate(INVERTED))]
        opened = self.ring.opened(payload)
        if isinstance(opened, Sealed):
            self._unreadable.append(payload)
            return [KeyMissing(opened.scope, opened.name)]
        return [EventCame(payload if opened is None else opened)]

    def _publish(self, wanted: Publish) -> None:
        message, scope, payload = wanted.attributes["message"], wanted.attributes.get("scope", ""), wanted.payload
        name = self.machine.keys.in_use(scope) if message == "changes" else None
        if name is not None and not self.ring.has(scope, name):
            self._waiting.append(wanted)
            self.later(KeyMissing(scope, name))
            self.team.world.clock.call_at(self.team.world.now + SEND_AGAIN_S, self._send_again)
            return
        if name is not None:
            payload = self.ring.sealed(scope, name, payload)
        elif "for_device" in wanted.attributes:
            payload = BOX + payload.translate(INVERTED)
        self.team.payloads.append(payload)
        event = Event(wanted.attributes, payload=payload, expires_at=wanted.until)
        self._command(lambda client, now: client.publish(event, now, to=wanted.to or None))

    def _send_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._publish(each)

    def _subscribe(self) -> None:
        wanted = filter_for(TEAM, self.device, self.user, self.scopes)
        context = context_of(TEAM, self.user, self.device)
        self._command(lambda client, now: client.set_context(context, now))
        self._command(lambda client, now: client.subscribe("team", wanted, now))

    def _command(self, do: Any) -> None:
        self.team.world.command(self.device, lambda watched, now: do(watched.client, now))


class TeamWorld:
    """A team over brokers."""

    def __init__(self, seed: int, homes: tuple[str, ...], *, family: str = "tree") -> None:
        """A device for each of `USERS`, which are not attached yet."""
        self.world = World(seed)
        self.world.on_notify = self._on_notify
        self.payloads: list[bytes] = []
        """All that was published, as brokers see it."""
        self._number = 0
        config = BrokerConfig(family=family)
        for name in BROKERS:
            made = partial(broker, name, neighbours(name, LINKS), config)
            self.world.add_broker(name, made, journaled=True)
        for a, b in LINKS:
            self.world.wire(a, b, LATENCY_S, None)
            self.world.connect(a, b)
        self.peers = [
            SimulatedPeer(self, user, f"d{place}", home)
            for place, (user, home) in enumerate(zip(USERS, homes, strict=True))
        ]
        self._by_device = {peer.device: peer for peer in self.peers}

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def _on_notify(self, device: str, notify: Notify, now: float) -> None:
        self._by_device[device].on_event(notify.event)

    # ------------------------------------------------------------ what happens

    def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due by then."""
        self.world.run(self.world.now + seconds)

    def fail(self, step: Move | Leave | Kill | CutLink | Disturb | Crash | Restart) -> None:
        """One fault or move; all of them end by `mend_everything`."""
        match step:
            case Move(place=place, broker=at):
                self.peers[place].come(at)
            case Leave(place=place):
                self.peers[place].leave()
            case Kill(place=place):
                self.peers[place].begin_again()
            case CutLink(link=link):
                self.world.disconnect(*LINKS[link])
            case Disturb(loss=loss, duplicate=duplicate):
                for wire in self._wires():
                    wire.set_faults(loss=loss, duplicate=duplicate)
            case Crash(broker=name, keeps_disk=keeps_disk):
                self.world.crash(name, keeps_disk=keeps_disk)
            case Restart():
                self._restart()

    def _wires(self) -> list[Any]:
        """Those between brokers: what is lost there is sent again."""
        return [self.world.nodes[one].wires[other] for a, b in LINKS for one, other in ((a, b), (b, a))]

    def _restart(self) -> None:
        for name in BROKERS:
            self.world.restart(name)
        for a, b in LINKS:
            self.world.connect(a, b)

    def mend_everything(self) -> None:
        """Faults end, and every peer comes to its broker."""
        for wire in self._wires():
            wire.set_faults()
        self._restart()
        self.pass_time(5.0)
        for peer in self.peers:
            if peer.is_away or not peer.client.is_attached:
                peer.come()

    def come_together(self) -> None:
        """The same, and time for what peers have to say."""
        self.mend_everything()
        self.pass_time(2 * exchange.AGAIN_S)

"""A peer on a real network: its machine, its repository, and a native client of any broker. [motion §2]

*Theory.* The machine decides (`machine/peer.py`). This driver gives it events, timers and commands, one at a time, and
carries out its effects. It reaches brokers by the client library alone.

*Rules.*
1. One input is one transaction. Effects leave when it is on the disk; what is to be published is part of it, in the
   outbox, and stays there until a broker has accepted it. So nothing is lost when the process ends at any moment, and
   an event may be published twice; a change that came before is not taken again.
2. Brokers keep an event until it is in the repository (`confirm="read"`), and the session of the peer for `SESSION_S`.
3. There is one subscription. It is replaced, without a gap, when the scopes of the peer change. The context of the
   client says whose peer it is (`bus.context_of`): searches are addressed to it. Nothing is sent before a broker has
   taken the subscription: what others answer would not come.
4. A payload is sealed when it leaves and opened when it comes. One that is sealed with a key that is not here yet
   waits, at most `UNREADABLE_MAX` of them, the oldest go first: they are exchanged again when the key is here. One that
   is to be sealed with such a key stays in the outbox, and others are sent: nothing leaves a sealed scope unsealed.
5. A scope to which the user was invited is followed: members give its key only to members, so a sealed one shows
   nothing before the user has joined.
6. A listener that fails is reported, and hinders neither the peer nor other listeners.
7. What the repository cannot keep, because the disk is full, is reported. A command fails. An event is not confirmed
   to the broker, and is tried again after `RETRY_S`, then after twice as long each time, up to `RETRY_MAX_S`. An event
   that fails for another reason is reported and left out: others do not wait for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from godwit.errors import Refused, RepositoryError
from godwit.filters.events import Event
from godwit.runtime.clock import SYSTEM, Clock, Timer
from godwit.runtime.network_client import NetworkClient, Subscription
from godwit.runtime.pending_requests import State
from godwit.teamwork.device_keys import DeviceKeys, TeamDevices
from godwit.teamwork.kept_presence import KeptPresence
from godwit.teamwork.machine.bus import KeyGiven, attributes_of, context_of, filter_for
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.invitations import ProfileTest
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    Detached,
    Effect,
    EventCame,
    Follow,
    GiveKey,
    Happened,
    Input,
    Invited,
    KeyMade,
    KeyMissing,
    Leaving,
    MakeKey,
    PeerReport,
    PresenceChanged,
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
from godwit.teamwork.machine.search import Index
from godwit.teamwork.names import MissingRole
from godwit.teamwork.repository import Repository
from godwit.teamwork.sealing import KeyRing, Sealed, opened_by_device, sealed_for_device

__all__ = ["Listener", "LivePeer"]

SESSION_S = 30 * 86_400.0
LEAVE_S = 2.0  # for what is in the outbox, when the peer goes
OUTBOX_AT_ONCE = 100
UNREADABLE_MAX = 1_000
SEND_AGAIN: TimerKey = ("send", "again")
SEND_AGAIN_S = 10.0  # what waits for a key
RETRY_S, RETRY_MAX_S = 1.0, 60.0  # what the disk had no room for
SCOPES = "team.scopes"

Listener = Callable[[PeerReport], None]
"""Called with each accepted change, search answer, invitation, change of presence and refusal."""


class LivePeer:
    """A peer that runs, on a client with `confirm="read"` that somebody else opens and closes."""

    def __init__(
        self,
        identity: Identity,
        repository: Repository,
        keys: DeviceKeys,
        index: Index,
        client: NetworkClient,
        clock: Clock = SYSTEM,
        matches: ProfileTest = lambda language, query, record: False,
    ) -> None:
        """`matches`: whether a query matches the profile of a user, for communities with a rule."""
        self.identity, self.repository, self.keys = identity, repository, keys
        self.devices = TeamDevices(identity.team, repository, keys)
        self.ring = KeyRing(repository.settings)
        has_secret, heard = self.ring.has, KeptPresence(repository.settings)
        self._make_machine = partial(Peer, identity, repository, self.devices, index, has_secret, matches, heard)
        self.machine = self._make_machine()
        self.client, self._clock = client, clock
        self._listeners: list[Listener] = []
        self._timers: dict[TimerKey, Timer] = {}
        self._has_mail, self._is_sent = asyncio.Event(), asyncio.Event()
        self._scopes_changed, self._is_subscribed = asyncio.Event(), asyncio.Event()
        self._may_send = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._retry: Timer | None = None
        self._retry_s = RETRY_S
        self._unreadable: deque[bytes] = deque(maxlen=UNREADABLE_MAX)
        self._subscription: Subscription | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: deque[str] = deque(maxlen=100)
        """What went wrong with listeners, and what brokers refused."""

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        self.client.set_session_expiry(SESSION_S)
        self.client.set_context(context_of(self.identity.team, self.identity.user, self.identity.device))
        for scope in self.scopes:
            self.tell(Follow(scope))
        work = (self._follow_states, self._keep_subscription, self._send, self._read)
        self._tasks = [asyncio.create_task(each(), name=each.__name__) for each in work]
        self._has_mail.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.client.state.kind == "attached":
            self._attempt(Leaving())
            with suppress(TimeoutError):
                await self.sent(timeout=LEAVE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for handle in self._timers.values():
            handle.cancel()
        if self._retry is not None:
            self._retry.cancel()

    @property
    def team(self) -> str:
        """The scope of the team."""
        return self.identity.team

    @property
    def scopes(self) -> list[str]:
        """The scopes that this peer follows."""
        return list(self.repository.settings.get(SCOPES, []))

    def is_away(self, device: str) -> bool:
        """Whether a device cannot be expected to answer now."""
        return self.machine.presence.is_away(device)

    def time(self) -> float:
        """The time of day."""
        return self._clock.time()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener what happens, from now until the function that is returned is called. [motion §2.1]"""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def sent(self, timeout: float | None = None) -> None:
        """Until the outbox is empty."""
        async with asyncio.timeout(timeout):
            await self._is_sent.wait()

    # ------------------------------------------------------------ inputs

    def do(self, input: Input) -> list[Effect]:
        """A command of the user: what it brought about; `Refused` if it has changed nothing."""
        effects = self.tell(input)
        for effect in effects:
            if isinstance(effect, Rejected):
                raise self._error(input, effect.reason)
        return effects

    def _error(self, input: Input, reason: str) -> Refused:
        """Why a command of the user has changed nothing."""
        if not isinstance(input, ChangeRecord):
            return Refused(reason)
        role = self.machine.governance(input.scope).role(self.identity.user)
        return MissingRole(reason) if role is Role.NONE else Refused(reason)

    def tell(self, input: Input) -> list[Effect]:
        """Give the machine an input, keep what it changes, and carry out what it asks for. (rule 1)"""
        further: list[Input] = []
        try:
            with self.repository.transaction():
                effects = self.machine.handle(input, self._clock.time())
                for effect in effects:
                    further += self._kept(effect)
        except BaseException:
            self._begin_again()
            raise
        for effect in effects:
            self._carry_out(effect)
        for each in further:
            effects += self.tell(each)
        return effects

    def _begin_again(self) -> None:
        """An input was not kept, but the machine has seen it: make another machine from what is on the disk."""
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self.machine = self._make_machine()
        for scope in self.scopes:
            self.machine.handle(Follow(scope), self._clock.time())
        self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Take no event for a while. (rule 7)"""
        self._may_write.clear()
        if self._retry is None:
            self._retry = self._clock.call_later(self._retry_s, self._go_on)
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def _go_on(self) -> None:
        """Try again: first, what the machine does when it is attached, which takes some room."""
        self._retry = None
        self._may_write.set()
        if self.client.state.kind != "attached" or self._attempt(Attached()):
            self._retry_s = RETRY_S

    def _attempt(self, input: Input) -> bool:
        """Tell the machine what no user waits for; whether it was kept."""
        try:
            self.tell(input)
        except RepositoryError as error:
            self._report(str(error))
            return False
        return True

    def _report(self, fault: str) -> None:
        if not self.faults or self.faults[-1] != fault:
            self.faults.append(fault)

    def _kept(self, effect: Effect) -> list[Input]:
        """What an effect writes into the repository, and what the machine is told of it."""
        match effect:
            case Publish():
                self.repository.outbox.add(msgspec.msgpack.encode(effect))
            case SubscribeScope(scope=scope):
                self.repository.settings.put(SCOPES, sorted({*self.scopes, scope}))
            case UnsubscribeScope(scope=scope):
                self.repository.settings.put(SCOPES, sorted({*self.scopes} - {scope}))
            case Invited(invite=invite):
                return [] if invite.scope in self.scopes else [Follow(invite.scope)]
            case MakeKey(scope=scope):
                return [KeyMade(scope, self.ring.made(scope))]
            case GiveKey(scope=scope, name=name, device=device):
                self._give_key(scope, name, device)
            case TakeKey(scope=scope, name=name, box=box):
                key = opened_by_device(self.keys.sealing, self.identity.device, box)
                if key is not None and self.ring.keep(scope, name, key):
                    waiting, self._unreadable = self._unreadable, deque(maxlen=UNREADABLE_MAX)
                    return [input for payload in waiting for input in self._opened(payload)]
        return []

    def _carry_out(self, effect: Effect) -> None:
        """What an effect does outside of the repository."""
        match effect:
            case Publish() | GiveKey() | TakeKey():
                self._is_sent.clear()
                self._has_mail.set()
            case SubscribeScope() | UnsubscribeScope():
                self._may_send.clear()
                self._scopes_changed.set()
            case StartTimer(key=key, after_s=after_s):
                self._stop_timer(key)
                self._timers[key] = self._clock.call_later(after_s, self._on_timer, key)
            case StopTimer(key=key):
                self._stop_timer(key)
            case Happened() | SearchAnswered() | Invited() | Rejected() | PresenceChanged():
                for listener in list(self._listeners):
                    try:
                        listener(effect)
                    except Exception as error:  # (rule 6)
                        self.faults.append(f"a listener failed: {error!r}")

    def _on_timer(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self._attempt(TimerDue(key))

    def _stop_timer(self, key: TimerKey) -> None:
        if (handle := self._timers.pop(key, None)) is not None:
            handle.cancel()

    # ------------------------------------------------------------ the network

    async def _follow_states(self) -> None:
        async for state in self.client.states():
            self._on_state(state)

    def _on_state(self, state: State) -> None:
        if state.kind == "attached":
            self._attempt(Attached())
        elif state.kind == "away":
            self._attempt(Detached())

    async def _keep_subscription(self) -> None:
        """Subscribe to what concerns this peer, and again when its scopes change. (rule 3)"""
        wanted, identity = "", self.identity
        while True:
            self._scopes_changed.clear()  # before the filter is made: they may change while the broker answers
            if (now := filter_for(identity.team, identity.device, identity.user, self.scopes)) != wanted:
                try:
                    if self._subscription is None:
                        self._subscription = await self.client.subscribe(now, name="team")
                    else:
                        await self.client.replace(self._subscription, now)
                except Refused as error:
                    self.faults.append(f"the broker refuses the subscription of the team: {error}")
                else:
                    wanted = now
                    self._is_subscribed.set()
            if not self._scopes_changed.is_set():
                self._may_send.set()
            await self._scopes_changed.wait()

    async def _read(self) -> None:
        """Events, one after another; each is in the repository before the next is read. (rules 2 and 7)"""
        await self._is_subscribed.wait()
        assert self._subscription is not None
        while events := await self._subscription.waiting(1):
            if self._is_received(events[0].payload or b""):
                self._subscription.take(1)
            else:
                await self._may_write.wait()

    def _is_received(self, payload: bytes) -> bool:
        """Whether an event needs no further attempt. (rule 7)"""
        try:
            self.receive(payload)
        except RepositoryError as error:
            self._report(str(error))
            self._wait_for_room()
            return False
        except Exception as error:
            self._report(f"an event could not be handled: {error!r}")
        return True

    def receive(self, payload: bytes) -> None:
        """Tell the machine what another peer has sent."""
        for input in self._opened(payload):
            self.tell(input)

    async def _send(self) -> None:
        """What is in the outbox, in order, but for what waits for a key. (rules 1 and 4)"""
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            try:
                await self._send_all()
            except RepositoryError as error:  # (rule 7)
                self._report(str(error))
                self._wait_for_room()
                self._has_mail.set()
                await self._may_write.wait()
            else:
                self._is_sent.set()

    async def _send_all(self) -> None:
        last = 0
        while rows := self.repository.outbox.first(OUTBOX_AT_ONCE, last):
            for number, body in rows:
                await self._may_send.wait()  # (rule 3)
                await self._send_one(number, msgspec.msgpack.decode(body, type=Publish))
            last = rows[-1][0]

    async def _send_one(self, number: int, event: Publish) -> None:
        scope, key = event.attributes.get("scope", ""), self._key_of(event)
        if key is not None and not self.ring.has(scope, key):
            self.tell(KeyMissing(scope, key))
            self._stop_timer(SEND_AGAIN)
            self._timers[SEND_AGAIN] = self._clock.call_later(SEND_AGAIN_S, self._has_mail.set)
            return
        payload = self._closed(event)
        if payload is not None:
            try:
                made = Event(event.attributes, payload=payload, expires_at=event.until)
                await self.client.publish(made, to=event.to or None)
            except Refused as error:
                self.faults.append(f"the broker refuses {event.attributes['message']}: {error}")
        self.repository.outbox.remove([number])

    # ------------------------------------------------------------ sealing

    def _give_key(self, scope: str, name: str, device: str) -> None:
        """Put a key that is sealed for a device into the outbox, if both are known."""
        key, public = self.ring.key(scope, name), self.devices.sealing_key(device)
        if key is not None and public is not None:
            given = KeyGiven(self.identity.device, scope, name, device, sealed_for_device(public, device, key))
            event = Publish(attributes_of(self.identity.team, given), msgspec.msgpack.encode(given))
            self.repository.outbox.add(msgspec.msgpack.encode(event))

    def _closed(self, event: Publish) -> bytes | None:
        """The payload as it travels; None if there is no key to seal it for its only reader. (rule 4)"""
        if (device := event.attributes.get("for_device")) is not None:
            public = self.devices.sealing_key(device)
            return None if public is None else sealed_for_device(public, device, event.payload)
        name = self._key_of(event)
        return event.payload if name is None else self.ring.sealed(event.attributes["scope"], name, event.payload)

    def _key_of(self, event: Publish) -> str | None:
        """The name of the key that an event is sealed with; None: it is not sealed with one of a scope."""
        is_sealed = event.attributes["message"] == "changes"
        return self.machine.keys.in_use(event.attributes["scope"]) if is_sealed else None

    def _opened(self, payload: bytes) -> Sequence[Input]:
        """What the machine is told of a payload."""
        opened: Any = self.ring.opened(payload)
        if isinstance(opened, Sealed):
            self._unreadable.append(payload)
            return [KeyMissing(opened.scope, opened.name)]
        if opened is None:
            opened = opened_by_device(self.keys.sealing, self.identity.device, payload) or payload
        return [EventCame(opened)]

"""A client with sessions at several brokers, on real sockets: `connect([...], replicas=3, filter="complete")`.

*Theory.* The machine of `client/replicas.py` sends every request to all replicas and merges their deliveries. This
module gives it a clock, timers and one connection per replica (`replica_connection.py`), and returns the answers
(`replica_requests.py`). The application uses it like any other client: `subscribe`, `publish`, `set_context`,
`set_place`.

*Rules.*
1. Each replica is another broker, and its session stays there. The client is attached when one replica has accepted it.
2. The application gets each displayed event once, whatever the filter lets through. An application that does not read
   delays all its connections: past `UNREAD_MAX` unread events nothing more is read from them.
3. An event is confirmed to replicas when it is received, not when it is read. Events that were unread when the process
   ended are not delivered again.
4. Shared subscriptions, retained events, stores and modes other than `relocate` need a client with one session: using
   them here is an error.
5. A client without a given name cannot resume its sessions, and ends them when it closes.

*Paper.* [mobile §5].
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from secrets import token_hex
from types import MappingProxyType, TracebackType
from typing import Any, Self

from godwit.broker.effects import Close, Effect, Heard, Notify, StartTimer, StopTimer, Tell, TimerDue, TimerKey, Trace
from godwit.broker.messages import Accepted, Attached, Bye, QueueRules, Receipt, Revoked
from godwit.broker.messages import Refused as RefusedMessage
from godwit.client.merge_receipt import MergeReceipt
from godwit.client.replicas import ReplicaConfig, ReplicatedClient
from godwit.client.request_outbox import CONTEXT, SESSION_EXPIRY
from godwit.errors import GodwitError, NotConnected, Refused
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value
from godwit.languages.query import NATIVE, Query
from godwit.runtime.addresses import Address
from godwit.runtime.client_inbox import Inbox
from godwit.runtime.client_transport import Environment
from godwit.runtime.clock import Timer
from godwit.runtime.event_callback import Callback
from godwit.runtime.pending_requests import OnState, PendingRequest, State, States, Subscription
from godwit.runtime.replica_connection import ReplicaConnection
from godwit.runtime.replica_requests import ReplicaRequests
from godwit.runtime.wanted_queries import Operators, Wanted, wanted
from godwit.runtime.wire import Intro

__all__ = ["REPLICAS_MAX", "ReplicatedNetworkClient"]

REPLICAS_MAX = 16
LEAVE_S = 5.0  # for events that no replica has acknowledged when the client closes


class ReplicatedNetworkClient:
    """A client that is, or is about to be, connected to several brokers at once."""

    def __init__(
        self,
        seeds: Iterable[Address],
        name: str,
        config: ReplicaConfig,
        *,
        intro: Intro = Intro(),  # noqa: B008 (it is frozen)
        tls: ssl.SSLContext | None = None,
        on_state: OnState | None = None,
        stays: bool = True,
        surroundings: Environment = Environment(),  # noqa: B008
    ) -> None:
        self.seeds = list(seeds)
        self._clock, _, self._watch = surroundings
        self.machine = ReplicatedClient(name, tuple(str(seed) for seed in self.seeds), config)
        self._states = States(on_state, self._clock)
        self._stays = stays
        self._changed = asyncio.Event()
        self._timers: dict[TimerKey, Timer] = {}
        self._made = 0
        self._shown = 0  # events delivered to the application
        self._is_over = False
        self.inbox = Inbox(confirms_read=False)
        if stays:
            self.inbox.begin_session(may_be_asked=True)  # the session may have been another process's
        self.replicas = {
            str(seed): ReplicaConnection(seed, self.machine.clients[str(seed)], self, intro, tls, surroundings)
            for seed in self.seeds
        }
        self._requests = ReplicaRequests(self.machine.clients, lambda replica: self.replicas[replica].is_reachable)

    def __repr__(self) -> str:
        return f"<client {self.name!r} with {len(self.replicas)} replicas, {self.state}>"

    @property
    def name(self) -> str:
        """Client name."""
        return self.machine.name

    @property
    def is_unchecked(self) -> bool:
        """Whether a broker without users has accepted the client without checking its credentials."""
        return any(replica.is_unchecked for replica in self.replicas.values())

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        for replica in self.replicas.values():
            replica.start(self._on_run_ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._requests.untaken:
                await self.flushed(LEAVE_S)
        finally:
            await self.close(leave=not self._stays)

    async def close(self, *, leave: bool = False) -> None:
        """Close all connections. The sessions stay until they expire; `leave=True` ends them at once."""
        for replica in self.replicas.values():
            await replica.stop()
        if leave:
            self._do(self.machine.leave(self._clock.time()))
        for timer in self._timers.values():
            timer.cancel()
        await asyncio.gather(*(replica.close() for replica in self.replicas.values()))
        self._over()

    def _on_run_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._over()
            task.result()  # the loop's exception handler logs it

    def _over(self) -> None:
        self._is_over = True
        self.inbox.end()
        self._requests.end(NotConnected("the client was closed before a broker had answered"))
        self._states.become("closed", "", "")
        self._changed.set()

    # ------------------------------------------------------------ what the application asks for

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions by name."""
        return MappingProxyType(self.inbox.subscriptions)

    async def subscribe(
        self,
        filter: Filter | str | Query,
        *,
        language: str = NATIVE,
        operators: Operators | None = None,
        name: str = "",
        sender: Filter | str | None = None,
        expires: float | None = None,
        queue: QueueRules | None = None,
        callback: Callback | None = None,
        **more: Any,
    ) -> Subscription:
        """Subscribe at every replica. The arguments are those of `NetworkClient.subscribe`.

        Returns when every reachable replica has answered and at least one has accepted.
        """
        said = self._wanted(filter, language, operators, sender, expires, queue, more)
        self._made += 1
        name = name or f"s{self._made}-{token_hex(3)}"
        is_new = name not in self.inbox.subscriptions
        subscription = self.inbox.add(Subscription(name, said.source, self))
        if callback is not None:
            subscription.call(callback)
        try:
            await self._want(subscription, said)
        except GodwitError:
            if is_new:
                self.inbox.remove(subscription)
            raise
        subscription.describe(said.source, said.language)
        return subscription

    async def replace(
        self,
        subscription: Subscription,
        filter: Filter | str | Query,
        *,
        language: str = NATIVE,
        operators: Operators | None = None,
        sender: Filter | str | None = None,
        expires: float | None = None,
        queue: QueueRules | None = None,
        **more: Any,
    ) -> None:
        """Replace the filter of a subscription at every replica."""
        self.inbox.check(subscription)
        said = self._wanted(filter, language, operators, sender, expires, queue, more)
        await self._want(subscription, said)
        subscription.describe(said.source, said.language)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Its unread events are discarded."""
        effects = self.machine.unsubscribe(subscription.name, self._clock.time())
        for number in self.inbox.remove(subscription):
            self.taken(number)
        await self._ask(effects, ("subscription", subscription.name))

    def _wanted(
        self,
        filter: Filter | str | Query,
        language: str,
        operators: Operators | None,
        sender: Filter | str | None,
        expires: float | None,
        queue: QueueRules | None,
        more: Mapping[str, Any],
    ) -> Wanted:
        """Rule 4."""
        for option, value in more.items():
            if option not in ("share", "retained"):
                raise TypeError(f"subscribe() has no argument {option!r}")
            if value:
                raise GodwitError(f"{option}={value!r} cannot be used with replicas: use a client with one session")
        said = wanted(filter, language, operators, sender, expires, queue)
        said.check()
        return said

    def _want(self, subscription: Subscription, said: Wanted) -> PendingRequest:
        name = subscription.name
        options = {"sender": said.sender, "expires": said.expires, "queue": said.queue}
        effects = self.machine.subscribe(name, said.filter, self._clock.time(), **options)  # type: ignore[arg-type]
        self.inbox.claim(subscription, partial(self._wants, name))
        return self._ask(effects, ("subscription", name))

    def _wants(self, name: str, event: Event) -> bool:
        """Whether a subscription matches an event that was held for it."""
        client = next(iter(self.machine.clients.values()))
        return bool(client.queries.decide((name,), event, client.wanted)[0])

    async def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Announce to every replica that published events will match `filter`."""
        await self._ask(self.machine.advertise(name, filter, self._clock.time()), ("advertisement", name))

    async def unadvertise(self, name: str = "all") -> None:
        """Withdraw an advertisement."""
        await self._ask(self.machine.unadvertise(name, self._clock.time()), ("unadvertisement", name))

    def publish(
        self,
        event: Mapping[str, Any] | Event,
        *,
        to: Filter | str | None = None,
        retain: str | None = None,
        clear: bool = False,
        number: int | None = None,
    ) -> PendingRequest:
        """Publish an event through all replicas or one at a time. Await the result for a replica's acknowledgement."""
        if retain is not None or clear:
            raise GodwitError(f"retain={retain!r} cannot be used with replicas: use a client with one session")
        if number is not None:
            self.machine.sequence = number - 1
        effects = self.machine.publish(event, self._clock.time(), to=to)
        asked = self._requests.publish(self.machine.sequence)
        self._do(effects)
        return asked

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> PendingRequest:
        """Set the context at every replica, or one `part` of it: the meaning of `my.x`."""
        return self._ask(self.machine.set_context(values, self._clock.time(), part=part, dwell_s=dwell_s), CONTEXT)

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> PendingRequest:
        """Set the client's place at every replica: the meaning of `myloc`. [rebeca §5]"""
        return self._ask(self.machine.move_to(place, self._clock.time(), dwell_s=dwell_s), CONTEXT)

    def set_session_expiry(self, seconds: float | None) -> PendingRequest:
        """Set how long brokers keep the sessions while the client is away. None: the broker's default."""
        return self._ask(self.machine.set_session_expiry(seconds, self._clock.time()), SESSION_EXPIRY)

    def _ask(self, effects: list[Effect], topic: Any) -> PendingRequest:
        asked = self._requests.ask(topic)
        self._do(effects)
        return asked

    # ------------------------------------------------------------ waiting

    async def attached(self, timeout: float | None = None, *, replicas: int = 1) -> None:
        """Wait until so many replicas are attached (default: 1)."""
        if not 1 <= replicas <= len(self.replicas):
            raise ValueError(f"replicas is {replicas}: there are {len(self.replicas)}")

        def are_there() -> bool:
            given_up = [each.given_up_because for each in self.replicas.values() if each.given_up_because]
            if len(self.replicas) - len(given_up) < replicas:
                raise NotConnected("; ".join(given_up))
            return sum(each.is_attached for each in self.replicas.values()) >= replicas

        await self._until(are_there, timeout)

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until every request is answered and every event acknowledged by a replica."""
        await self._until(lambda: self._requests.is_answered and not self._requests.untaken, timeout)

    async def flushed(self, timeout: float | None = None) -> None:
        """Wait until every published event is acknowledged by at least one replica."""
        await self._until(lambda: not self._requests.untaken, timeout)

    async def room(self, timeout: float | None = None) -> None:
        """Wait until the buffer has room for one more event. Await this before each event when publishing many."""
        most = self.machine.config.client.buffer_events_max
        await self._until(lambda: self._requests.untaken < most, timeout)

    @property
    def is_idle(self) -> bool:
        """Whether the client only waits."""
        return self._is_over or (self.inbox.is_idle and all(each.is_idle for each in self.replicas.values()))

    async def idle(self) -> None:
        """Wait until the client is idle."""
        await self._until(lambda: self.is_idle, None)

    async def _until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    if self._is_over:
                        raise NotConnected("the client was closed")
                    self._changed.clear()
                    await self._changed.wait()
        except NotConnected:  # which is a TimeoutError, too
            raise
        except TimeoutError:
            events = self._requests.untaken
            state = f"after {timeout:g} s the client is {self.state}"
            missing = f"{state}, and no replica has {events:,} of its events" if events else state
            raise NotConnected(missing) from None

    @property
    def state(self) -> State:
        """Connection state: attached if one replica is. `reason` says what is wrong with the others."""
        return self._states.now

    def states(self) -> AsyncIterator[State]:
        """The present state and every later one, until the client is closed."""
        return self._states.watch()

    @property
    def replica_states(self) -> dict[str, State]:
        """The state of each replica, by its address."""
        return {name: replica.state for name, replica in self.replicas.items()}

    # ------------------------------------------------------------ outcomes

    @property
    def receipt(self) -> MergeReceipt:
        """Numbers of displayed and duplicate events, and the events that are missing."""
        return self.machine.receipt

    @property
    def receipts(self) -> dict[str, list[Receipt]]:
        """By replica, one receipt for each absence."""
        return self.machine.receipts

    @property
    def buffered(self) -> int:
        """Number of published events that no replica has acknowledged."""
        return self._requests.untaken

    @property
    def lost(self) -> int:
        """Number of events dropped because every buffer was full."""
        return self._requests.lost

    # ------------------------------------------------------------ the machine

    def on_input(self, replica: ReplicaConnection, input: Any) -> None:
        """Give the machine an input from a connection, and carry out its effects."""
        name = replica.replica
        message = input.message if isinstance(input, Heard) else None
        if isinstance(message, Bye):
            replica.closed_because = message.reason
        is_answer = isinstance(message, Accepted | RefusedMessage | Attached)
        before = self._requests.open_events(name) if is_answer else set()
        refusals = replica.machine.refusals
        last = refusals[-1] if refusals else None
        self._do(self.machine.handle(input, self._clock.time()))
        if is_answer:
            refusal = refusals[-1] if refusals and refusals[-1] is not last else None
            wish, reason = (None, "") if refusal is None else (refusal.wish, refusal.reason)
            self._requests.on_answer(name, before, wish, reason)
        if isinstance(message, Attached) and replica.is_attached:
            replica.become("attached", "")
            self._check_brokers(message.broker)
        elif isinstance(message, Revoked):
            self._on_revoked(message)
        self._changed.set()

    def _check_brokers(self, broker: str) -> None:
        """Rule 1: of two replicas at one broker, give up the later one."""
        same = [each for each in self.replicas.values() if each.machine.home == broker and not each.given_up_because]
        for extra in same[1:]:
            both = f"{extra.replica} and {same[0].replica} are the same broker, {broker}"
            extra.give_up(f"{both}: each replica needs another one")

    def _on_revoked(self, message: Revoked) -> None:
        clients = self.machine.clients.values()
        for name in message.ended:
            if any(("subscription", name) in client.wanted for client in clients):
                continue
            if (lost := self.inbox.subscriptions.pop(name, None)) is not None:
                lost.end(Refused(message.reason))

    def on_replica_state(self) -> None:
        """Update the client's state from the states of its replicas."""
        states = [each.state for each in self.replicas.values()]
        brokers = ", ".join(state.broker for state in states if state.kind == "attached")
        reasons = "; ".join(dict.fromkeys(state.reason for state in states if state.reason))
        was_attached = self.state.kind in ("attached", "away")
        self._states.become("attached" if brokers else "away" if was_attached else "connecting", brokers, reasons)
        self._requests.settle()
        self._changed.set()

    def _do(self, effects: list[Effect]) -> None:
        """Carry out effects."""
        self._watch(effects)
        for effect in effects:
            match effect:
                case Tell(connection=replica, message=message):
                    self.replicas[replica].tell(message)
                case Notify(event=event, subscriptions=names):
                    self._shown += 1
                    self.inbox.put(event, names, self._shown)
                case StartTimer(key=key, at=at):
                    self._stop(key)
                    self._timers[key] = self._clock.call_later(max(0.0, at - self._clock.time()), self._due, key)
                case StopTimer(key=key):
                    self._stop(key)
                case Trace(record=record) if record.kind in ("lost", "quenched"):
                    self._requests.on_discarded(record.sequence, lost=record.kind == "lost")
                case Close(peer=replica) if replica in self.replicas:
                    self.replicas[replica].hang_up()
        self._changed.set()
        if self.inbox.is_full:  # rule 2
            for each in self.replicas.values():
                each.pause()

    def taken(self, number: int) -> None:
        """The application has taken an event."""
        if self.inbox.read(number):
            for each in self.replicas.values():
                each.read_on()

    def wake(self) -> None:
        """Let waiting calls test their condition again."""
        self._changed.set()

    def _due(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self._do(self.machine.handle(TimerDue(key), self._clock.time()))

    def _stop(self, key: TimerKey) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

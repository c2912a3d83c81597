"""A client on real sockets: `async with connect(...)`, `async for` over what was subscribed to.

*Theory.* The face of the client's machine (`client/client.py`), which does all the work: it numbers requests, says
again what was not acknowledged, keeps events while there is no connection, tells doubles apart, and decides by the
exact tests of queries. This module gives it a clock and timers, and carries out what it asks for. Its parts: the way
back to a broker (`reconnecting.py`), what has come and is not read (`client_inbox.py`), and what is on the disk
(`stored_wishes.py`).

*Rules.*
1. What is asked for is asked for whether there is a connection or not. Who awaits it waits for the answer: `Refused`
   when a broker says no.
2. Events of a subscription come in order, once. An application that does not read them holds up its own connection and
   no other's: past `UNREAD_MAX` events nothing is read from the socket until it does, answers neither.
3. Events that are published wait in a buffer of `buffer` events until a broker has them. Past that the oldest is lost,
   on record, one that nobody is known to want before any other; `room` waits until there is room.
4. A client that was given no name cannot come back, and ends its session when it goes.
5. With a store, a subscription is on the disk before a broker hears of it. The next client of that name begins with it,
   and decides by its query what has come for it. [motion Fig. 2]
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType, TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from godwit.broker.effects import (
    Close,
    Effect,
    Heard,
    Notify,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Accepted, Attached, Bye, Delivery, QueueRules, Receipt, Received, Revoked
from godwit.broker.messages import Refused as RefusedMessage
from godwit.client.client import Client, ClientConfig
from godwit.client.request_outbox import CONTEXT, SESSION_EXPIRY, Topic
from godwit.errors import GodwitError, NotConnected, Refused, StoreError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value
from godwit.languages.query import NATIVE, Query
from godwit.runtime.addresses import Address
from godwit.runtime.client_inbox import Inbox
from godwit.runtime.client_transport import Environment, address
from godwit.runtime.clock import Timer
from godwit.runtime.event_callback import Callback
from godwit.runtime.pending_requests import Kind, OnState, PendingRequest, State, States, Subscription
from godwit.runtime.reconnecting import Reconnecting
from godwit.runtime.stored_wishes import StoredWishes
from godwit.runtime.subscription_store import StoredSubscription
from godwit.runtime.wanted_queries import Operators, Wanted, restored, wanted
from godwit.runtime.wire import Intro

__all__ = ["NetworkClient", "PendingRequest", "State", "Subscription"]

LEAVE_S = 5.0  # for events that no broker has yet, when the client goes


class NetworkClient:
    """A client that is, or is about to be, connected to one of its seeds."""

    def __init__(
        self,
        seeds: Iterable[Address],
        name: str,
        config: ClientConfig,
        *,
        intro: Intro = Intro(),  # noqa: B008 (it is frozen)
        tls: ssl.SSLContext | None = None,
        on_state: OnState | None = None,
        stays: bool = True,
        confirms_read: bool = False,
        store: Path | None = None,
        surroundings: Environment = Environment(),  # noqa: B008
    ) -> None:
        self._clock, _, self._watch = surroundings
        self.machine = Client(name, config)
        self.intro = intro
        self.closed_because = ""  # the last reason why there was no connection
        self.was_known = False  # the broker had a session of ours when it let us in
        self._states = States(on_state, self._clock)
        self._stays = stays
        self._asked: WeakValueDictionary[int, PendingRequest] = WeakValueDictionary()  # by the identity of a wish
        self._timers: dict[TimerKey, Timer] = {}
        self._unsent: list[Any] = []
        self._will_flush = False
        self.inbox = Inbox(confirms_read=confirms_read)
        self.machine.kept = 0 if confirms_read else None
        self._changed = asyncio.Event()
        self.connection = Reconnecting(self, seeds, tls, surroundings, self._changed.set)
        self._store_path = store
        self._store: StoredWishes | None = None
        self._running: asyncio.Task[None] | None = None
        self._made = 0

    def __repr__(self) -> str:
        return f"<client {self.name!r}, {self.state}>"

    @property
    def name(self) -> str:
        """By which brokers know it."""
        return self.machine.name

    @property
    def seeds(self) -> list[Address]:
        """The brokers that it dials, in this order."""
        return self.connection.seeds

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        if self._store_path is not None:
            self._store = StoredWishes(self._store_path, self)
            try:
                self._store.restore(self._clock.time())
            except BaseException:
                self._store.close(leave=False)
                raise
        self._running = asyncio.create_task(self.connection.run())
        self._running.add_done_callback(self._on_run_ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.machine.unanswered():
                await self.flushed(LEAVE_S)
        finally:
            await self.close(leave=not self._stays)

    async def close(self, *, leave: bool = False) -> None:
        """Go. The session stays at its broker for a while, unless we leave for good."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if leave:
            self._do(self.machine.leave(self._clock.time()))
        for handle in self._timers.values():
            handle.cancel()
        self._flush()
        await self.connection.close()
        self._over()
        if self._store is not None:
            self._store.close(leave=leave)
            self._store = None

    def _on_run_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.closed_because = f"{type(error).__name__}: {error}"
            self._over()

    def _over(self) -> None:
        self.inbox.end()
        for asked in list(self._asked.values()):
            asked.settle(NotConnected("the client went before a broker had answered"))
        self.become("closed", "")
        self._changed.set()

    async def move(self, *seeds: Address | str) -> None:
        """Go to other brokers, from now on. Without any: be away until the next move.

        It returns before one of them has let us in: `attached` waits for that."""
        self.connection.move([address(seed) for seed in seeds])

    # ------------------------------------------------------------ what the application asks for

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions by name, those from the store among them."""
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
        retained: bool = False,
        share: str = "",
        callback: Callback | None = None,
    ) -> Subscription:
        """Want what `filter` matches, from publishers whose context `sender` matches.

        `language`: of a text, such as "xql"; brokers hear of its routable filter, and the rest is decided here.
        `operators`: those that it may use; all that the program has registered, unless told. `expires`: until then, in
        seconds since 1970. `queue`: what may go while we are away. `retained`: begin with the retained events.
        `share`: of the subscriptions that say so with the same filter, one gets each event. `callback` is called with
        each event, in place of iterating.
        """
        said = wanted(filter, language, operators, sender, expires, queue, share, retained)
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
                self._forget(subscription)
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
        share: str = "",
    ) -> None:
        """Want this instead, with no gap and no double. If it is refused, all stays as it was."""
        self.inbox.check(subscription)
        said = wanted(filter, language, operators, sender, expires, queue, share)
        await self._want(subscription, said)
        subscription.describe(said.source, said.language)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Want nothing more of that. What was not read is gone."""
        name, store = subscription.name, self._store
        effects = self.machine.unsubscribe(name, self._clock.time())
        self._forget(subscription)
        asked = self._ask(effects, ("subscription", name))
        if store is not None:
            store.watch_end(name, asked)
        await asked

    def _forget(self, subscription: Subscription) -> None:
        for number in self.inbox.remove(subscription):
            self.taken(number)

    def _want(self, subscription: Subscription, said: Wanted, number: int | None = None) -> PendingRequest:
        """Store what is wanted, then say it (rule 5); `number`: of its row, if it is stored already."""
        said.check()
        name, store = subscription.name, self._store
        if store is None and self._store_path is not None:
            raise StoreError(f"{self._store_path} is open only while the client is: async with godwit.connect(…)")
        if store is not None and number is None:
            number = store.put(name, said)
        effects = self.machine.subscribe(name, said.filter, self._clock.time(), **said.options)
        subscription.count(self.machine.queries.count_of(name))
        self.inbox.claim(subscription, partial(self._wants, name))
        asked = self._ask(effects, ("subscription", name))
        if store is not None and number is not None:
            store.watch(name, number, asked)
        return asked

    def _wants(self, name: str, event: Event) -> bool:
        """Whether a subscription wants an event that was held for it."""
        names, residues = self.machine.queries.decide((name,), event, self.machine.wanted)
        self._watch([*residues])
        return bool(names)

    def want_stored(self, number: int, row: StoredSubscription) -> None:
        """Say what the store holds: the client of this name had subscribed to it. (rule 5)"""
        said = restored(row)
        subscription = self.inbox.add(Subscription(row.name, said.source, self))
        subscription.describe(said.source, said.language)
        self._want(subscription, said, number)

    def lose(self, name: str, fault: Refused) -> None:
        """A subscription that was there before is refused."""
        if (lost := self.inbox.subscriptions.pop(name, None)) is not None:
            lost.end(fault)

    async def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Say that events to be published match `filter`. The same name again replaces it."""
        await self._ask(self.machine.advertise(name, filter, self._clock.time()), ("advertisement", name))

    async def unadvertise(self, name: str = "all") -> None:
        """Say that nothing more is published under that name."""
        await self._ask(self.machine.unadvertise(name, self._clock.time()), ("unadvertisement", name))

    def publish(
        self,
        said: Mapping[str, Any] | Event,
        *,
        to: Filter | str | None = None,
        retain: str | None = None,
        clear: bool = False,
        number: int | None = None,
    ) -> PendingRequest:
        """Publish an event, for those whose context `to` matches. Await it to know that a broker has it.

        `retain`: keep it for later subscribers, by this key, in the place of the one before; `clear`: keep none.
        `number`: of an event that may have been published before; who got it then does not get it again.
        """
        if number is not None:
            self.machine.sequence = number - 1
        effects = self.machine.publish(said, self._clock.time(), to=to, retain=retain, clear=clear)
        return self._ask(effects, ("event", self.machine.sequence))

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> PendingRequest:
        """Say what the context is from now on, or the part of it that this component looks after."""
        return self._ask(self.machine.set_context(values, self._clock.time(), part=part, dwell_s=dwell_s), CONTEXT)

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> PendingRequest:
        """Say that we are at another place."""
        return self._ask(self.machine.move_to(place, self._clock.time(), dwell_s=dwell_s), CONTEXT)

    def set_session_expiry(self, seconds: float | None) -> PendingRequest:
        """Have the session kept for so long while we are away; None: as long as brokers like."""
        return self._ask(self.machine.set_session_expiry(seconds, self._clock.time()), SESSION_EXPIRY)

    def _ask(self, effects: list[Effect], topic: Topic) -> PendingRequest:
        """Carry out what the machine says, and hand out the answer to come."""
        wish = self.machine.unanswered_about(topic)
        asked = PendingRequest(getattr(wish, "event", None))
        if wish is None:  # nobody needs to be asked: it was never sent, or nobody wants it
            asked.settle()
        else:
            self._asked[id(wish)] = asked
        self._do(effects)
        return asked

    # ------------------------------------------------------------ waiting

    async def drain(self, timeout: float | None = None) -> None:
        """Until brokers have answered and taken all that was said; `NotConnected`: not in so many seconds."""
        machine = self.machine
        await self._until(lambda: not machine.has_unanswered_changes() and not machine.unanswered(), timeout)

    async def flushed(self, timeout: float | None = None) -> None:
        """Until brokers have taken all that was published."""
        await self._until(lambda: not self.machine.unanswered(), timeout)

    async def room(self, timeout: float | None = None) -> None:
        """Until the buffer has room for one more event: who publishes a lot awaits this before each."""
        await self._until(lambda: self.machine.outbox.events < self.machine.config.buffer_events_max, timeout)

    async def attached(self, timeout: float | None = None) -> None:
        """Until a broker has let us in."""
        await self._until(lambda: self.machine.is_attached, timeout)

    @property
    def is_idle(self) -> bool:
        """Whether it does nothing at present but wait: for a broker, for the application, or for its time to dial."""
        is_at_rest = not self._will_flush and self.connection.is_idle and self.inbox.is_idle
        return self.state.kind == "closed" or is_at_rest

    async def idle(self) -> None:
        """Until that is so."""
        await self._until(lambda: self.is_idle, None)

    async def _until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    if self.state.kind == "closed":
                        raise NotConnected("the client was closed")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotConnected(self._still_missing(timeout)) from None

    def _still_missing(self, timeout: float | None) -> str:
        events, because = len(self.machine.unanswered()), self.state.reason or self.closed_because
        state = f"after {timeout:g} s the client is {self.state.kind}{f': {because}' if because else ''}"
        return f"{state}, and no broker has {events:,} of its events" if events else state

    @property
    def state(self) -> State:
        """Where the client is."""
        return self._states.now

    def states(self) -> AsyncIterator[State]:
        """The state now, and each one after it, until the client is closed."""
        return self._states.watch()

    # ------------------------------------------------------------ what became of it

    @property
    def receipts(self) -> deque[Receipt]:
        """What happened to events while we were away, each time."""
        return self.machine.receipts

    @property
    def receipt(self) -> Receipt | None:
        """What happened to events while we were away the last time."""
        return self.machine.receipts[-1] if self.machine.receipts else None

    @property
    def buffered(self) -> int:
        """Events that no broker is known to have."""
        return len(self.machine.unanswered())

    @property
    def lost(self) -> int:
        """Events for which there was no room in the buffer."""
        return self.machine.outbox.lost

    @property
    def quenched(self) -> int:
        """Events that were not sent because nobody wants them."""
        return self.machine.outbox.quenched

    @property
    def residues(self) -> int:
        """Events that brokers let through and exact tests turned away, counted for each subscription they came for."""
        return self.machine.queries.total.residues

    # ------------------------------------------------------------ the machine

    def handle(self, input: Any) -> None:
        """Something has happened."""
        message = input.message if isinstance(input, Heard) else None
        if isinstance(input, Opened):
            self._unsent.clear()  # of another connection
        if isinstance(message, Bye):
            self.closed_because = message.reason
        refusals, session = self.machine.refusals, self.machine.session
        last = refusals[-1] if refusals else None
        effects = self.machine.handle(input, self._clock.time())
        if isinstance(message, RefusedMessage | Accepted | Attached):
            if refusals and refusals[-1] is not last:
                wish, reason = refusals[-1].wish, refusals[-1].reason
                if (asked := self._asked.pop(id(wish), None)) is not None:
                    asked.settle(Refused(reason))
            self._settle()
            if isinstance(message, Attached) and self.machine.is_attached:
                if self.machine.session != session:
                    self.inbox.begin_session(may_be_asked=not session and not message.fresh)
                    self.machine.kept = 0 if self.inbox.confirms_read else None
                self.inbox.begin_connection()
                self.was_known = not message.fresh
                self.become("attached", "")
        if isinstance(message, Revoked):
            for name in [name for name in message.ended if ("subscription", name) not in self.machine.wanted]:
                self.lose(name, Refused(message.reason))
                if self._store is not None:
                    self._store.end(name)
        if isinstance(message, Delivery) and self.machine.is_attached and input.connection == self.machine.connection:
            self.inbox.begin_delivery(message.number)
            self._do(effects, message.number)
            self.inbox.end_delivery(message.number)
            if self.inbox.has_read_more:
                self._flush_soon()  # it came again
        else:
            self._do(effects)

    def _settle(self) -> None:
        """Hand out the answers that have come."""
        if not self._asked:
            return
        open = self.machine.unanswered_wishes()
        for identity in [identity for identity in self._asked if identity not in open]:
            if (asked := self._asked.pop(identity, None)) is not None:
                asked.settle()

    def become(self, kind: Kind, reason: str) -> None:
        """The state is this from now on."""
        if self._states.become(kind, "" if kind in ("closed", "connecting") else self.machine.home, reason):
            self._changed.set()

    def _do(self, effects: list[Effect], number: int = 0) -> None:
        """Carry out what the machine says; `number`: of the delivery that it was told of."""
        wire = self.connection.wire
        self._watch(effects)
        for effect in effects:
            match effect:
                case Tell(message=message):
                    self._unsent.append(message)
                case Notify(event=event, subscriptions=names):
                    self.inbox.put(event, names, number)
                case StartTimer(key=key, at=at):
                    self._stop(key)
                    self._timers[key] = self._clock.call_later(max(0.0, at - self._clock.time()), self._due, key)
                case StopTimer(key=key):
                    self._stop(key)
                case Trace(record=record) if record.kind in ("lost", "quenched"):
                    self._on_discarded(record.kind, record.sequence)
                case Close() if wire is not None:
                    self._flush()
                    wire.close()
        if self._unsent:
            self._flush_soon()
        self._changed.set()
        if self.inbox.is_full and wire is not None:
            wire.pause()

    def _on_discarded(self, kind: str, sequence: int) -> None:
        """An event is sent to nobody."""
        for identity, asked in list(self._asked.items()):
            if asked.event is not None and asked.event.sequence == sequence:
                del self._asked[identity]
                lost = NotConnected("the event had to go: the buffer is full, and no broker takes events")
                asked.settle(lost if kind == "lost" else None)

    def _flush_soon(self) -> None:
        """All that is asked for in one turn is one write."""
        if not self._will_flush:
            self._will_flush = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        wire = self.connection.wire
        if self.machine.is_attached and (read_up_to := self.inbox.confirm()) is not None:
            self.machine.kept = read_up_to
            self._unsent.append(Received(read_up_to))
        if self._unsent and wire is not None:
            unsent, self._unsent = self._unsent, []
            wire.write(unsent)
        self._changed.set()

    def taken(self, number: int) -> None:
        """The application has taken an event of that delivery."""
        wire = self.connection.wire
        if self.inbox.read(number) and wire is not None:
            wire.read_on()
        if self.inbox.confirms_read and self.machine.is_attached:
            self._flush_soon()

    def wake(self) -> None:
        """Something has changed: whoever waits looks again."""
        self._changed.set()

    def _due(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self.handle(TimerDue(key))

    def _stop(self, key: TimerKey) -> None:
        if (handle := self._timers.pop(key, None)) is not None:
            handle.cancel()

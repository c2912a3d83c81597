"""A client on real sockets: `async with connect(...)`, `async for` over what was subscribed to.

*Theory.* The client's machine (`client/client.py`) does all the work: it numbers requests, resends what was not
acknowledged, buffers events while there is no connection, drops duplicates, and applies the exact tests of queries.
This module gives it a clock and timers, and carries out its effects. Its parts: reconnection (`reconnecting.py`),
unread events (`client_inbox.py`), and subscriptions on the disk (`stored_wishes.py`).

*Rules.*
1. A request may be made with or without a connection. Awaiting it waits for the broker's answer, and raises `Refused`
   if the broker refuses.
2. Events of a subscription arrive in order, once. An application that does not read them delays only its own
   connection: past `UNREAD_MAX` unread events nothing more is read from the socket, answers included.
3. Published events wait in a buffer of `buffer` events for a broker's acknowledgement. When it is full, the oldest
   event is dropped and recorded; events that nobody is known to want are dropped first. `room` waits for room.
4. A client without a given name cannot resume its session, and ends it when it closes.
5. With a store, a subscription is on the disk before it is sent to a broker. The next client of that name restores it,
   and tests by its query what has arrived for it. [motion Fig. 2]
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
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

ANNOUNCED = ("explicit", "naive")  # modes in which a client says that it goes [rebeca §1 on JEDI]
MOVE_OUT_S = 2.0  # for the broker to hear it
LEAVE_S = 5.0  # for events that no broker has acknowledged when the client closes


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
        self.is_unchecked = False
        """Whether a broker without users has accepted the client without checking its credentials."""
        self.was_known = False  # the broker had a session of this client when it attached
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
        """Client name."""
        return self.machine.name

    @property
    def seeds(self) -> list[Address]:
        """Addresses of brokers, in the order in which they are tried."""
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
        """Close the connection. The session stays at its broker until it expires; `leave=True` ends it at once."""
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
            asked.settle(NotConnected("the client was closed before a broker had answered"))
        self.become("closed", "")
        self._changed.set()

    async def move(self, *seeds: Address | str) -> None:
        """Connect to other brokers from now on. Without any address: disconnect until the next move.

        Returns at once: `attached` waits for the new connection. In the modes `explicit` and `naive` the broker is told
        first, and has `MOVE_OUT_S` to answer.
        """
        wire = self.connection.wire
        if self.machine.config.mode in ANNOUNCED and self.machine.is_attached and wire is not None:
            self._do(self.machine.move_out(self._clock.time()))
            self._flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(MOVE_OUT_S):
                    await wire.lost.wait()
        self.connection.move([address(seed) for seed in seeds])

    # ------------------------------------------------------------ what the application asks for

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions by name, including those restored from the store."""
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
        """Subscribe to events that match `filter`, from publishers whose context matches `sender`.

        `language`: language of the text, such as "xql"; brokers get its routable filter, and the client runs the exact
        test. `operators`: operators that the text may use (default: all registered ones). `name`: subscription name
        (default: generated). `expires`: end of the subscription, in seconds since 1970. `queue`: which events may be
        dropped while the client is away. `retained`: deliver retained events first. `share`: group name; each event
        goes to one subscription of the group. `callback`: called with each event, instead of iterating.
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
        """Replace the filter of a subscription, without a gap and without duplicates. If refused, nothing changes."""
        self.inbox.check(subscription)
        said = wanted(filter, language, operators, sender, expires, queue, share)
        await self._want(subscription, said)
        subscription.describe(said.source, said.language)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Its unread events are discarded."""
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
        """Store the subscription, then send it (rule 5). `number`: its row, if it is stored already."""
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
        """Whether a subscription matches an event that was held for it."""
        names, residues = self.machine.queries.decide((name,), event, self.machine.wanted)
        self._watch([*residues])
        return bool(names)

    def want_stored(self, number: int, row: StoredSubscription) -> None:
        """Restore a subscription from the store: an earlier client of this name made it. (rule 5)"""
        said = restored(row)
        subscription = self.inbox.add(Subscription(row.name, said.source, self))
        subscription.describe(said.source, said.language)
        self._want(subscription, said, number)

    def lose(self, name: str, fault: Refused) -> None:
        """End a subscription that a broker no longer accepts."""
        if (lost := self.inbox.subscriptions.pop(name, None)) is not None:
            lost.end(fault)

    async def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Announce that published events will match `filter`. The same name replaces an earlier advertisement."""
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
        """Publish an event to receivers whose context matches `to`. Await the result for the broker's acknowledgement.

        `retain`: keep the event for later subscribers under this key; it replaces the one before. `clear`: remove the
        retained event of that key. `number`: sequence number of an event that may have been published before;
        subscribers that received it do not receive it again.
        """
        if number is not None:
            self.machine.sequence = number - 1
        effects = self.machine.publish(event, self._clock.time(), to=to, retain=retain, clear=clear)
        return self._ask(effects, ("event", self.machine.sequence))

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> PendingRequest:
        """Set the client's context, or one `part` of it. `dwell_s`: expected time until the next change, in seconds."""
        return self._ask(self.machine.set_context(values, self._clock.time(), part=part, dwell_s=dwell_s), CONTEXT)

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> PendingRequest:
        """Set the client's place: the meaning of `myloc`. `dwell_s`: expected length of the stay, in seconds."""
        return self._ask(self.machine.move_to(place, self._clock.time(), dwell_s=dwell_s), CONTEXT)

    def set_session_expiry(self, seconds: float | None) -> PendingRequest:
        """Set how long brokers keep the session while the client is away. None: the broker's default."""
        return self._ask(self.machine.set_session_expiry(seconds, self._clock.time()), SESSION_EXPIRY)

    def _ask(self, effects: list[Effect], topic: Topic) -> PendingRequest:
        """Carry out the effects of a request, and return its pending answer."""
        wish = self.machine.unanswered_about(topic)
        asked = PendingRequest(getattr(wish, "event", None))
        if wish is None:  # no answer is needed: it was never sent, or no subscription matches it
            asked.settle()
        else:
            self._asked[id(wish)] = asked
        self._do(effects)
        return asked

    # ------------------------------------------------------------ waiting

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until every request is answered and every event acknowledged.

        Raises `NotConnected` after `timeout` seconds, as all calls with a timeout do.
        """
        machine = self.machine
        await self._until(lambda: not machine.has_unanswered_changes() and not machine.unanswered(), timeout)

    async def flushed(self, timeout: float | None = None) -> None:
        """Wait until every published event is acknowledged."""
        await self._until(lambda: not self.machine.unanswered(), timeout)

    async def room(self, timeout: float | None = None) -> None:
        """Wait until the buffer has room for one more event. Await this before each event when publishing many."""
        await self._until(lambda: self.machine.outbox.events < self.machine.config.buffer_events_max, timeout)

    async def attached(self, timeout: float | None = None) -> None:
        """Wait until the client is attached to a broker."""
        await self._until(lambda: self.machine.is_attached, timeout)

    @property
    def is_idle(self) -> bool:
        """Whether the client only waits: for a broker, for the application, or for its next attempt to connect."""
        is_at_rest = not self._will_flush and self.connection.is_idle and self.inbox.is_idle
        return self.state.kind == "closed" or is_at_rest

    async def idle(self) -> None:
        """Wait until the client is idle."""
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
        """Connection state."""
        return self._states.now

    def states(self) -> AsyncIterator[State]:
        """The present state and every later one, until the client is closed."""
        return self._states.watch()

    # ------------------------------------------------------------ outcomes

    @property
    def receipts(self) -> deque[Receipt]:
        """One receipt for each absence: what happened to events while the client was away."""
        return self.machine.receipts

    @property
    def receipt(self) -> Receipt | None:
        """Receipt of the last absence."""
        return self.machine.receipts[-1] if self.machine.receipts else None

    @property
    def buffered(self) -> int:
        """Number of published events that no broker has acknowledged."""
        return len(self.machine.unanswered())

    @property
    def lost(self) -> int:
        """Number of events dropped because the buffer was full."""
        return self.machine.outbox.lost

    @property
    def quenched(self) -> int:
        """Number of events not sent because no subscription matches them."""
        return self.machine.outbox.quenched

    @property
    def residues(self) -> int:
        """Number of events that passed a routable filter and failed the exact test, counted per subscription."""
        return self.machine.queries.total.residues

    # ------------------------------------------------------------ the machine

    def handle(self, input: Any) -> None:
        """Give the machine an input, and carry out its effects."""
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
                self._flush_soon()  # a repeated delivery
        else:
            self._do(effects)

    def _settle(self) -> None:
        """Settle the requests that are answered."""
        if not self._asked:
            return
        open = self.machine.unanswered_wishes()
        for identity in [identity for identity in self._asked if identity not in open]:
            if (asked := self._asked.pop(identity, None)) is not None:
                asked.settle()

    def become(self, kind: Kind, reason: str) -> None:
        """Set the connection state."""
        if self._states.become(kind, "" if kind in ("closed", "connecting") else self.machine.home, reason):
            self._changed.set()

    def _do(self, effects: list[Effect], number: int = 0) -> None:
        """Carry out effects. `number`: of the delivery that caused them."""
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
                case Close(reason=reason) if wire is not None:
                    self.closed_because = self.closed_because or reason
                    self._flush()
                    wire.close()
        if self._unsent:
            self._flush_soon()
        self._changed.set()
        if self.inbox.is_full and wire is not None:
            wire.pause()

    def _on_discarded(self, kind: str, sequence: int) -> None:
        """Settle the request of an event that was dropped or not wanted."""
        for identity, asked in list(self._asked.items()):
            if asked.event is not None and asked.event.sequence == sequence:
                del self._asked[identity]
                lost = NotConnected("the event was dropped: the buffer is full, and no broker accepts events")
                asked.settle(lost if kind == "lost" else None)

    def _flush_soon(self) -> None:
        """Write everything requested in one turn of the loop at once."""
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
        """Let waiting calls test their condition again."""
        self._changed.set()

    def _due(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self.handle(TimerDue(key))

    def _stop(self, key: TimerKey) -> None:
        if (handle := self._timers.pop(key, None)) is not None:
            handle.cancel()

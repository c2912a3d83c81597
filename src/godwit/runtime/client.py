"""A client on real sockets: `async with connect(...)`, `async for` over what was subscribed to.

*Theory.* The face of the client's machine (`client/client.py`), which does all the work: it numbers requests, says
again what was not acknowledged, keeps events while there is no connection, and tells doubles apart. This module gives
it a clock, timers and a connection, and dials the next seed when one fails or is lost.

*Rules.*
1. What is asked for is asked for whether there is a connection or not; `drain` waits until brokers have answered it.
2. Events of a subscription come in order, once. An application that does not read them holds up its own connection and
   no other's: past `UNREAD_MAX` events nothing is read from the socket until it does.
3. A request that is refused is in `machine.refusals`, with the reason.
4. Reconnecting starts at `RETRY_FIRST_S` and waits twice as long each time, up to `RETRY_MAX_S`, with some chance in
   it, so that a thousand clients of a broker that comes back do not come at once.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from random import random
from secrets import token_hex
from time import time
from types import TracebackType
from typing import Any, Self, cast

from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Notify,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
)
from godwit.broker.messages import Bye, QueueRules, Receipt
from godwit.client.client import Client, ClientConfig
from godwit.errors import GodwitError, PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value
from godwit.runtime.tcp import Address
from godwit.runtime.wire import Frames, Intro

__all__ = ["Connected", "Subscription", "connect"]

RETRY_FIRST_S = 0.05
RETRY_MAX_S = 5.0
DIAL_S = 5.0
UNREAD_MAX = 4_096


class Subscription:
    """What one subscription gives: iterate over it with `async for`."""

    def __init__(self, name: str, owner: "Connected") -> None:
        self.name = name
        self._owner = owner
        self._events: deque[Event] = deque()
        self._came = asyncio.Event()
        self._is_over = False
        self.changed = asyncio.Event()  # set whenever an event has come or was taken

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                event = self._events.popleft()
                self._owner.taken()
                yield event
                self.changed.set()
            if self._is_over:
                return
            self._came.clear()
            await self._came.wait()

    async def next(self) -> Event:
        """The next event, when there is one."""
        async for event in self:
            return event
        raise GodwitError(f"the subscription {self.name!r} is over")

    def put(self, event: Event) -> None:
        """An event has come."""
        self._events.append(event)
        self._came.set()
        self.changed.set()

    def end(self) -> None:
        """No more will come."""
        self._is_over = True
        self._came.set()


class _Wire(asyncio.Protocol):
    """The client's end of a connection."""

    def __init__(self, owner: "Connected", name: str) -> None:
        self.owner = owner
        self.name = name
        self.frames = Frames()
        self.transport: asyncio.Transport | None = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        self.transport.write(Frames.packed([Intro(token=self.owner.token)]))

    def data_received(self, data: bytes) -> None:
        try:
            for message, _ in self.frames.feed(data):
                self.owner.handle(Heard(self.name, message))
        except PeerFault as fault:
            self.owner.closed_because = str(fault)
            assert self.transport is not None
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


class Connected:
    """A client that is, or is about to be, connected to one of its seeds."""

    def __init__(
        self,
        seeds: Iterable[Address],
        name: str,
        config: ClientConfig,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.machine = Client(name, config)
        self.token = token
        self.closed_because = ""
        self._seeds = list(seeds)
        self._tls = tls
        self._subscriptions: dict[str, Subscription] = {}
        self._wire: _Wire | None = None
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._unsent: list[Any] = []
        self._unread = 0
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._made = 0

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, leave: bool = False) -> None:
        """Go. The session stays at its broker for a while, unless we leave for good."""
        self._is_leaving = True
        if leave:
            self._do(self.machine.leave(time()))
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        for handle in self._timers.values():
            handle.cancel()
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()
        for subscription in self._subscriptions.values():
            subscription.end()

    async def _run(self) -> None:
        """Dial one seed after the other, and again when a connection is lost."""
        wait_s, at = RETRY_FIRST_S, 0
        while self._seeds:
            seed = self._seeds[at % len(self._seeds)]
            try:
                await self._connect(seed)
                assert self._wire is not None
                await self._wire.lost
                was_let_in = self.machine.is_attached
                self.handle(Closed(self._wire.name))
                self._wire = None
                if was_let_in:
                    wait_s = RETRY_FIRST_S
                    continue
            except (OSError, TimeoutError) as error:
                self.closed_because = str(error) or type(error).__name__
            at += 1
            if at % len(self._seeds) == 0:
                await asyncio.sleep(wait_s * (0.5 + random()))
                wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _connect(self, seed: Address) -> None:
        loop = asyncio.get_running_loop()
        wire = _Wire(self, str(seed))
        async with asyncio.timeout(DIAL_S):
            await loop.create_connection(lambda: wire, seed.host, seed.port, ssl=self._tls)
        self._wire = wire
        self._unsent.clear()  # of another connection
        self.handle(Opened(wire.name))

    async def move(self, *seeds: Address) -> None:
        """Go to other brokers, from now on."""
        self._seeds = list(seeds)
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.abort()

    # ------------------------------------------------------------ what the application asks for

    async def subscribe(
        self,
        filter: Filter | str,
        *,
        name: str = "",
        sender: Filter | str | None = None,
        expires: float | None = None,
        queue: QueueRules | None = None,
    ) -> Subscription:
        """Want what `filter` matches, from publishers whose context `sender` matches."""
        self._made += 1
        name = name or f"s{self._made}-{token_hex(3)}"
        subscription = self._subscriptions.setdefault(name, Subscription(name, self))
        self._do(self.machine.subscribe(name, filter, time(), sender=sender, expires=expires, queue=queue))
        await self.drain()
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Want nothing more of that."""
        self._do(self.machine.unsubscribe(subscription.name, time()))
        subscription.end()
        await self.drain()

    async def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Say that events to be published match `filter`."""
        self._do(self.machine.advertise(name, filter, time()))
        await self.drain()

    def publish(self, said: Mapping[str, Any] | Event, *, to: Filter | str | None = None) -> None:
        """Publish an event, for those whose context `to` matches. `drain` waits until a broker has it."""
        self._do(self.machine.publish(said, time(), to=to))

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> None:
        """Say what the context is from now on, or the part of it that this component looks after."""
        self._do(self.machine.set_context(values, time(), part=part, dwell_s=dwell_s))

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> None:
        """Say that we are at another place."""
        self._do(self.machine.move_to(place, time(), dwell_s=dwell_s))

    async def drain(self) -> None:
        """Until brokers have answered all that was asked and taken all that was published."""
        while self.machine.has_unanswered_changes() or self.machine.unanswered():
            self._changed.clear()
            await self._changed.wait()

    async def attached(self) -> None:
        """Until a broker has let us in."""
        while not self.machine.is_attached:
            self._changed.clear()
            await self._changed.wait()

    @property
    def receipts(self) -> deque[Receipt]:
        """What became of events while we were away."""
        return self.machine.receipts

    # ------------------------------------------------------------ the machine

    def handle(self, input: Any) -> None:
        """Something has happened."""
        if isinstance(input, Heard) and isinstance(input.message, Bye):
            self.closed_because = input.message.reason
        self._do(self.machine.handle(input, time()))

    def _do(self, effects: list[Effect]) -> None:
        wire = self._wire
        for effect in effects:
            match effect:
                case Tell(message=message):
                    self._unsent.append(message)
                case Notify(event=event, subscriptions=names):
                    for name in names:
                        if (subscription := self._subscriptions.get(name)) is not None:
                            subscription.put(event)
                            self._unread += 1
                case StartTimer(key=key, at=at):
                    self._stop(key)
                    self._timers[key] = asyncio.get_running_loop().call_later(max(0.0, at - time()), self._due, key)
                case StopTimer(key=key):
                    self._stop(key)
                case Close() if wire is not None and wire.transport is not None:
                    self._flush()
                    wire.transport.close()
        self._flush()
        self._changed.set()
        if self._unread > UNREAD_MAX and wire is not None and wire.transport is not None:
            wire.transport.pause_reading()

    def _flush(self) -> None:
        wire = self._wire
        if self._unsent and wire is not None and wire.transport is not None:
            unsent, self._unsent = self._unsent, []
            wire.transport.write(Frames.packed(unsent))

    def taken(self) -> None:
        """The application has taken an event."""
        self._unread -= 1
        wire = self._wire
        if self._unread == UNREAD_MAX // 2 and wire is not None and wire.transport is not None:
            wire.transport.resume_reading()

    def _due(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self.handle(TimerDue(key))

    def _stop(self, key: TimerKey) -> None:
        if (handle := self._timers.pop(key, None)) is not None:
            handle.cancel()


def connect(
    *seeds: Address | str,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    config: ClientConfig = ClientConfig(),  # noqa: B008 (it is frozen)
) -> Connected:
    """A client of the network that these brokers belong to: `async with connect("127.0.0.1:7077") as client:`."""
    return Connected([_address(seed) for seed in seeds], name or f"client-{token_hex(6)}", config, token=token, tls=tls)


def _address(seed: Address | str) -> Address:
    if isinstance(seed, Address):
        return seed
    host, _, port = seed.rpartition(":")
    if not host or not port.isdigit():
        raise GodwitError(f"{seed!r} is no address: it must be host:port")
    return Address(host, int(port))

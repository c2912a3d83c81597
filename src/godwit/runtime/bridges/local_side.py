"""The local end of a bridge: a client with a durable session, inside the broker's process.

*Theory.* Outgoing events wait in the queue of an ordinary session: it is in the journal, has bounds, and survives a
restart of the broker. A delivery is confirmed when the remote has it. Incoming events are published by the same client.
Further state (`notes`) is written together with the event that it belongs to.

*Rules.*
1. While the remote is away the client is not attached, and the queue follows its rules. Attaching from time to time
   keeps the session from expiring.
2. Deliveries are confirmed in order: one that is done waits for those before it.
3. Numbers of events grow from session to session: they begin with the time at which a session began, in microseconds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import time

import msgspec

from godwit.broker.messages import (
    Advertise,
    Attached,
    Delivery,
    Note,
    Publish,
    QueueRules,
    Retain,
    SetSessionExpiry,
    Subscribe,
    SubscribeQuery,
    Unsubscribe,
)
from godwit.filters.events import Attributes, Event
from godwit.runtime.authentication import Principal
from godwit.runtime.bridges.routes import Route
from godwit.runtime.in_process_client import ConnectionClosed, InProcessClient
from godwit.runtime.node import Node

__all__ = ["Incoming", "LocalSide", "Wish"]

SEQUENCE = "seq"  # a note: the first number of events
ROUTE = "route/"  # note prefix, before the name of a subscription: its queue rules

Wish = Subscribe | SubscribeQuery | Unsubscribe | Advertise | Publish | Retain | Note | SetSessionExpiry


class Incoming(msgspec.Struct, frozen=True):
    """An incoming event, before it has its number. `key`: retain it as the last one of that topic."""

    attributes: Attributes
    payload: bytes
    content_type: str | None = None
    expires_at: float | None = None
    key: str = ""


class LocalSide:
    """One attachment of a bridge to its broker."""

    def __init__(self, node: Node, client: str, rules: QueueRules) -> None:
        self.client = client
        self.deliveries: asyncio.Queue[Delivery | None] = asyncio.Queue()  # None: the broker has closed it
        self.notes: dict[str, bytes] = {}
        self.attached: Attached
        self._rules = rules
        self._node = node
        self._unconfirmed: dict[int, None] = {}  # in order
        self._done: set[int] = set()
        self._base = self._asked = 0
        self._inner = InProcessClient(
            *(node, Principal(), client),
            line=client,  # a connection's requests are handled before those of the next one
            on_deliveries=self._on_deliveries,
            on_closed=lambda reason: self._wake(),
        )

    # ------------------------------------------------------------ the session

    async def attach(self, routes: Mapping[str, Route]) -> None:
        """Resume the session, or begin one, with these subscriptions by name. ConnectionClosed if that fails."""
        self.attached = await self._inner.attach()
        self.notes = dict(self.attached.notes)
        base = self.notes.get(SEQUENCE)
        self._base = int(time() * 1e6) if base is None else msgspec.msgpack.decode(base, type=int)
        self._asked = self.attached.accepted
        wishes: list[Wish] = []
        if base is None:
            wishes.append(Note(SEQUENCE, msgspec.msgpack.encode(self._base)))
            if self._node.machine.config.advertisements == "required":  # type: ignore[attr-defined]
                wishes.append(Advertise((self.client, "all"), Principal().grants.publish))
        wishes += self._subscription_changes(routes)
        refused = [reason for reason in await self.ask(wishes) if reason is not None]
        if refused:
            raise ConnectionClosed(refused[0])

    def _subscription_changes(self, routes: Mapping[str, Route]) -> list[Wish]:
        """The requests that change the subscriptions of the session to those of the configuration."""
        known = {key.removeprefix(ROUTE): value for key, value in self.notes.items() if key.startswith(ROUTE)}
        value = msgspec.msgpack.encode(self._rules)
        changes: list[Wish] = []
        for name, route in routes.items():
            if known.get(name) != value:
                is_wanted = route.retain and name not in known
                subscription = Subscribe((self.client, name), route.local.filter, queue=self._rules, retained=is_wanted)
                changes += [subscription, Note(ROUTE + name, value)]
        for name in known:
            if name not in routes:
                changes += [Unsubscribe((self.client, name)), Note(ROUTE + name, None)]
        return changes

    def hang_up(self) -> None:
        """Detach; the session is kept."""
        self._inner.hang_up()

    def leave(self) -> None:
        """End the session."""
        self._inner.leave()

    # ------------------------------------------------------------ in

    @property
    def next_request(self) -> int:
        """The number that the next request will have."""
        return self._asked + 1

    async def ask(self, wishes: Sequence[Wish]) -> list[str | None]:
        """Send requests, and wait until they are in the journal; for each, why it was refused, or None."""
        self._asked += len(wishes)
        return await self._inner.ask(wishes)

    async def bring(self, items: Sequence[Incoming | Note]) -> list[str | None]:
        """Publish events and store notes, in order, and wait until they are in the journal; for each, why it was
        refused, or None."""
        await self._inner.inner.room()
        now, first = time(), self._base + self._asked + 1  # rule 3
        return await self.ask([self._wish(each, first + place, now) for place, each in enumerate(items)])

    def _wish(self, item: Incoming | Note, number: int, now: float) -> Wish:
        if isinstance(item, Note):
            return item
        event = Event(item.attributes, self.client, number, item.payload, item.content_type, now, item.expires_at)
        return Retain(event, item.key, clear=not item.payload) if item.key else Publish(event)

    # ------------------------------------------------------------ out

    def _on_deliveries(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self._unconfirmed[delivery.number] = None
            self.deliveries.put_nowait(delivery)

    def _wake(self) -> None:
        self.deliveries.put_nowait(None)

    async def next_delivery(self) -> Delivery:
        """The next outgoing event. ConnectionClosed: the broker has closed the session."""
        delivery = await self.deliveries.get()
        if delivery is None:
            raise ConnectionClosed(self._inner.closed_because or "the broker has closed the connection")
        return delivery

    def done(self, numbers: Sequence[int]) -> list[int]:
        """The remote has these deliveries, or will never get them; returns those that are confirmed now. (rule 2)"""
        before = [number for number in numbers if number not in self._unconfirmed]  # confirmed over another connection
        self._done.update(number for number in numbers if number in self._unconfirmed)
        confirmed: list[int] = []
        while (first := next(iter(self._unconfirmed), 0)) in self._done:
            del self._unconfirmed[first]
            self._done.discard(first)
            confirmed.append(first)
        if confirmed:
            self._inner.confirm(confirmed[-1])
        return before + confirmed

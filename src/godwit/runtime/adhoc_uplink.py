"""The uplink of a device: it publishes the events of its island at a fixed broker, when that is reachable.

*Theory.* A device with an uplink subscribes to all events of its island. They are queued for it as for any subscriber,
also while it is away, and when islands merge. Each event is then published at the fixed broker by a client named after
network and publisher (`NETWORK/PUBLISHER`), with the number that it has in the island. While the broker cannot be
reached, the events are kept, and the client tries to reach it (`reconnecting.py`).

*Rules.*
1. An event has the same publisher and number at the fixed broker whichever device publishes it there. So a subscriber
   with a session there gets it once, even if two devices publish it.
2. Events of one publisher are published in order. An event that arrives after a later one is dropped.
3. There is one client at a time, for the publisher of the oldest event: it publishes all events of this publisher, and
   disconnects. Two devices that do this for the same publisher at once interrupt each other only until one has
   finished.
4. At most `EVENTS_MAX` events are kept. Beyond that the oldest is lost, and counted.
5. What waits here is in the journal of the device (`changes`): the island's event broker keeps it no longer.
6. What has come down from a fixed broker does not go up again.
7. An event whose publisher has a slash in its name is dropped: at the fixed broker, it would have the name of another.
8. The context of a publisher (`sender.x`) stays in the island: at the fixed broker, the publisher has none. An event
   that cannot be published does not keep the others waiting.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from godwit.client.client import ClientConfig
from godwit.errors import BadEvent, FilterError
from godwit.filters.contexts import stamped
from godwit.filters.events import Event
from godwit.runtime.adhoc_downlink import is_brought_down, trouble_of
from godwit.runtime.connecting import connect
from godwit.seen import Seen

__all__ = ["UPLINK", "Uplink"]

UPLINK = "uplink"  # the name of the subscription to everything
EVENTS_MAX = 10_000
PUBLISHERS_MAX = 4_096  # whose last number is remembered
SEEN_WINDOW = 1_024  # numbers of each of them
AT_ONCE_MAX = 500
RETRY_S = 5.0


class Uplink:
    """Publishes events at a fixed broker."""

    def __init__(self, network: str, brokers: list[str], *, is_journaled: bool = False, **credentials: Any) -> None:
        self._network, self._brokers, self._credentials = network, brokers, credentials
        self._events: deque[Event] = deque()
        self._last: OrderedDict[str, int] = OrderedDict()  # by publisher: the last number
        self._seen = Seen(SEEN_WINDOW, PUBLISHERS_MAX)  # events of the island, also those that rule 2 drops
        self._news, self._empty = asyncio.Event(), asyncio.Event()
        self._empty.set()
        self._working: asyncio.Task[None] | None = None
        self._is_journaled = is_journaled
        self._new: list[Event] = []  # since `changes` was asked last
        self._done: list[tuple[str, int]] = []
        self.trouble = ""  # why the last attempt has failed
        self.brought = 0
        self.left_out = 0  # events that were not published: rules 2, 4 and 7, or refused

    def start(self) -> None:
        """Begin."""
        self._working = asyncio.create_task(self._work())

    def take(self, event: Event) -> None:
        """Add an event of the island."""
        self._seen.add(event.publisher, event.sequence)
        if "/" in event.publisher or event.sequence <= self._last.get(event.publisher, 0):  # rules 2 and 7
            self.left_out += 1
            return
        self._last.pop(event.publisher, None)
        if len(self._last) >= PUBLISHERS_MAX:
            self._last.popitem(last=False)
        self._last[event.publisher] = event.sequence
        if is_brought_down(event):  # rule 6
            return
        if len(self._events) >= EVENTS_MAX:  # rule 4
            self._forget([self._events.popleft()])
            self.left_out += 1
        if self._is_journaled:
            self._new.append(event)
        self._put(event)

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._empty.clear()
        self._news.set()

    def _forget(self, events: Iterable[Event]) -> None:
        if self._is_journaled:
            self._done += [event.id for event in events]

    def restore(self, events: Iterable[Event]) -> None:
        """Go on with what the journal has."""
        here = {event.id for event in self._events}
        for event in events:
            if event.id not in here:
                self._put(event)

    def changes(self) -> tuple[list[Event], list[tuple[str, int]]]:
        """What has come since this was asked last, and what need not be kept any more."""
        new, done, self._new, self._done = self._new, self._done, [], []
        return new, done

    def has_taken(self, publisher: str, number: int) -> bool:
        """Whether an event of the island is known to have arrived here. A later one of its publisher says nothing: the
        publisher may have come from another island."""
        return self._seen.has(publisher, number)

    async def drained(self) -> None:
        """Wait until the fixed broker has all events."""
        await self._empty.wait()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            while self._events:
                try:
                    await self._bring(self._events[0].publisher)
                    self.trouble = ""
                except Exception as error:  # such as: the client was closed permanently
                    self.trouble = trouble_of(error)
                    await asyncio.sleep(RETRY_S)
            self._news.clear()
            self._empty.set()

    async def _bring(self, publisher: str) -> None:
        """Publish the first events of a publisher. (rule 3)"""
        events = [event for event in self._events if event.publisher == publisher][:AT_ONCE_MAX]
        config = ClientConfig(mode="named", buffer_events_max=AT_ONCE_MAX)
        client = connect(*self._brokers, name=f"{self._network}/{publisher}", config=config, **self._credentials)
        async with client:
            for event in events:
                said = stamped(replace(event, publisher="", sequence=0), {})  # rule 8
                try:
                    client.publish(said, number=event.sequence)
                except (BadEvent, FilterError):
                    self.left_out += 1
            await client.drain()
            self.left_out += len(client.machine.refusals)
            await client.close(leave=True)
        done = {event.sequence for event in events}
        kept = [event for event in self._events if event.publisher != publisher or event.sequence not in done]
        self.brought += len(events)
        self._forget(events)
        self._events.clear()
        self._events.extend(kept)

    async def close(self) -> None:
        """Disconnect from the fixed broker. Events that it does not have are in the journal."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

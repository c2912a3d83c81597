"""The uplink of a device: what its island publishes goes over to a fixed broker, when the device meets one again.

*Theory.* A device with an uplink subscribes to everything in its island. So what is published there waits for it like
for any subscriber, also while it is away, and follows when islands merge. Each event is then published at the fixed
broker by a client named after network and publisher (`NETWORK/PUBLISHER`), with the number that it has in the island.
While the broker cannot be reached, the events are kept, and the client tries to reach it (`reconnecting.py`).

*Rules.*
1. An event has the same publisher and number at the fixed broker whichever device brings it there. So a subscriber with
   a session there gets it once, also if two devices bring it.
2. Events of one publisher go over in order. One that comes behind a later one does not go over.
3. There is one client at a time, for the publisher of the oldest event: it brings all that is there of this publisher,
   and leaves. Two devices that bring events of one publisher at once disturb each other only until one has done so.
4. At most `EVENTS_MAX` events are kept. Past that the oldest is lost, and counted.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import replace
from typing import Any

from godwit.client.client import ClientConfig
from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.runtime.connecting import connect

__all__ = ["UPLINK", "Uplink"]

UPLINK = "uplink"  # the name of the subscription to everything
EVENTS_MAX = 10_000
PUBLISHERS_MAX = 4_096  # whose last number is remembered
AT_ONCE_MAX = 500
RETRY_S = 5.0


class Uplink:
    """Brings events to a fixed broker."""

    def __init__(self, network: str, brokers: list[str], **credentials: Any) -> None:
        self._network, self._brokers, self._credentials = network, brokers, credentials
        self._events: deque[Event] = deque()
        self._last: OrderedDict[str, int] = OrderedDict()  # by publisher: the number that was taken last
        self._news, self._empty = asyncio.Event(), asyncio.Event()
        self._empty.set()
        self._working: asyncio.Task[None] | None = None
        self.trouble = ""  # why the last attempt has failed
        self.brought = 0
        self.left_out = 0  # events that did not go over: rules 2 and 4, or the broker has refused them

    def start(self) -> None:
        """Begin."""
        self._working = asyncio.create_task(self._work())

    def take(self, event: Event) -> None:
        """An event of the island: it is to go over."""
        if event.sequence <= self._last.get(event.publisher, 0):  # rule 2
            self.left_out += 1
            return
        self._last.pop(event.publisher, None)
        if len(self._last) >= PUBLISHERS_MAX:
            self._last.popitem(last=False)
        self._last[event.publisher] = event.sequence
        if len(self._events) >= EVENTS_MAX:  # rule 4
            self._events.popleft()
            self.left_out += 1
        self._events.append(event)
        self._empty.clear()
        self._news.set()

    def has_taken(self, publisher: str, number: int) -> bool:
        """Whether an event of the island has come here."""
        return self._last.get(publisher, 0) >= number

    async def drained(self) -> None:
        """Until the fixed broker has all events that have come."""
        await self._empty.wait()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            while self._events:
                try:
                    await self._bring(self._events[0].publisher)
                except GodwitError as error:  # the client was let go for good
                    self.trouble = str(error)
                    await asyncio.sleep(RETRY_S)
            self._news.clear()
            self._empty.set()

    async def _bring(self, publisher: str) -> None:
        """Bring the first events of a publisher. (rule 3)"""
        events = [event for event in self._events if event.publisher == publisher][:AT_ONCE_MAX]
        config = ClientConfig(mode="named", buffer_events_max=AT_ONCE_MAX)
        client = connect(*self._brokers, name=f"{self._network}/{publisher}", config=config, **self._credentials)
        async with client:
            for event in events:
                client.publish(replace(event, publisher="", sequence=0), number=event.sequence)
            await client.drain()
            self.left_out += len(client.machine.refusals)
            await client.close(leave=True)
        done = {event.sequence for event in events}
        kept = [event for event in self._events if event.publisher != publisher or event.sequence not in done]
        self.brought += len(events)
        self._events.clear()
        self._events.extend(kept)

    async def close(self) -> None:
        """Let go of the fixed broker. What it does not have is lost."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

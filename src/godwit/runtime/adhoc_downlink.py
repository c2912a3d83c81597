"""The downlink of a device: events that a fixed broker holds for it are published in its island, when it reaches that
broker.

*Theory.* The device has a session at the fixed broker, with one subscription. While the device is away, its events wait
there. When the broker can be reached, the device publishes each of them in its island, under its own name, since no
device may use another's. What an event was called at the fixed broker stands in two of its attributes
(`PUBLISHER`, `NUMBER`).

*Rules.*
1. An event is confirmed to the fixed broker when the journal of the device has it. One that was not confirmed comes
   again.
2. Two devices of an island may bring the same event down, and an event that another island has brought up may come down
   here and also come from there itself. All of them have the same `fixed_id` and content, by which applications get it
   once, as far as the last `SHOWN_MAX` events tell. An event with the name of another and other content is another
   event: so no device can keep the events of others from applications.
3. What this device has brought up, or has seen in its island, is not brought down.
4. The context of the publisher at the fixed network (`sender.x`) stays there: in the island, the device is the sender.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import msgspec

from godwit.client.client import ClientConfig
from godwit.errors import GodwitError
from godwit.filters.contexts import stamped
from godwit.filters.events import ATTRIBUTES_MAX, Event
from godwit.runtime.connecting import connect

__all__ = [
    "NUMBER",
    "PUBLISHER",
    "Downlink",
    "ShownEvents",
    "brought_down",
    "downlink_name",
    "fixed_id",
    "is_brought_down",
    "trouble_of",
]

PUBLISHER, NUMBER = "fixed/publisher", "fixed/number"
SUBSCRIPTION = "down"
RETRY_S = 5.0
SHOWN_MAX = 1_024


def downlink_name(network: str, device: str) -> str:
    """What this device's session is called. It ends with a slash: no NETWORK/PUBLISHER of an uplink does."""
    return f"{network}/{device}/down/"


def brought_down(event: Event) -> Event:
    """An event of the fixed network as it is published in an island."""
    attributes = {**stamped(event, {}).attributes, PUBLISHER: event.publisher, NUMBER: event.sequence}  # rule 4
    return replace(event, attributes=attributes, publisher="", sequence=0, to=None)


def is_brought_down(event: Event) -> bool:
    """Whether an event of an island has come from a fixed broker."""
    return PUBLISHER in event.attributes and NUMBER in event.attributes


def fixed_id(network: str, event: Event) -> tuple[str, int]:
    """Publisher and number that an event of an island has at fixed brokers. (rule 2)"""
    publisher, number = event.attributes.get(PUBLISHER), event.attributes.get(NUMBER)
    if isinstance(publisher, str) and type(number) is int and number > 0:
        return publisher, number
    return f"{network}/{event.publisher}", event.sequence


def trouble_of(error: Exception) -> str:
    """Why an attempt has failed, in words; of an unexpected error, also its kind."""
    return str(error) if isinstance(error, GodwitError) else repr(error)


class ShownEvents:
    """The last events that an application has got. (rule 2)"""

    def __init__(self, network: str) -> None:
        self._network = network
        self._digests: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # of their contents, which may be large

    def add(self, event: Event) -> bool:
        """Whether the application has not had this event."""
        id = fixed_id(self._network, event)
        digest = _digest(event)
        if self._digests.get(id) == digest:
            return False
        self._digests[id] = digest
        self._digests.move_to_end(id)
        if len(self._digests) > SHOWN_MAX:
            self._digests.popitem(last=False)
        return True


def _digest(event: Event) -> bytes:
    """Equal for events that were published with the same content, at a fixed broker or in an island."""
    said = stamped(event, {}).attributes
    attributes = sorted((name, value) for name, value in said.items() if name not in (PUBLISHER, NUMBER))
    return blake2b(msgspec.msgpack.encode((attributes, event.payload)), digest_size=16).digest()


class Downlink:
    """Takes events from a fixed broker. `is_here`: whether the island has it; `bring`: until it may be confirmed, and
    whether the island takes it.
    """

    def __init__(
        self,
        name: str,
        filter: str,
        brokers: list[str],
        is_here: Callable[[Event], bool],
        bring: Callable[[Event], Awaitable[bool]],
        **credentials: Any,
    ) -> None:
        self._name, self._filter, self._brokers, self._credentials = name, filter, brokers, credentials
        self._is_here, self._bring = is_here, bring
        self._working: asyncio.Task[None] | None = None
        self.trouble = ""  # why the last attempt has failed
        self.is_listening = False  # the fixed broker has the subscription
        self.brought = 0
        self.left_out = 0  # events that have no room for two more attributes, or are refused

    def start(self) -> None:
        """Begin."""
        self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:  # such as: the session has ended, the broker refuses the subscription
                self.trouble = trouble_of(error)
            finally:
                self.is_listening = False
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        config = ClientConfig(mode="named")
        client = connect(*self._brokers, name=self._name, config=config, confirm="read", **self._credentials)
        async with client:
            events = await client.subscribe(self._filter, name=SUBSCRIPTION)
            self.trouble, self.is_listening = "", True
            async for event in events:  # rule 1: to read the next is to confirm this
                if self._is_here(event):  # rule 3
                    continue
                down = brought_down(event)
                if len(down.attributes) <= ATTRIBUTES_MAX and await self._bring(down):
                    self.brought += 1
                else:
                    self.left_out += 1

    async def close(self) -> None:
        """Disconnect from the fixed broker, which keeps the session."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

"""`$SYS/broker/…`: the state of a broker over MQTT, with the topic names of Mosquitto.

*Theory.* Every `mqtt.sys_interval_s`, and at once when a client subscribes or a loss is reported, each topic below is
matched with the broker's subscriptions. Topics with a subscriber are computed, and published as events of the client
`sys/BROKER`. So grants, filters and queues apply to them as to any event. An event names its broker (`mqtt.sys_of`),
and a subscription to `$SYS/…` selects the broker where it was made: in a network a client does not get the values of
other brokers.

*Rules.*
1. Topics without subscribers are not computed, except for the gateway's counters.
2. Values are not retained: a new subscriber gets the present ones when it subscribes.
3. `load/…` is an exponential average per minute, since the first subscription to one.
4. With an interval of 0 the topics are off, and a subscription to them is refused with that reason.

*Departures.* Clients, subscriptions and retained events are those of all listeners. `messages/…` counts PUBLISH alone.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import exp
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from godwit import __version__
from godwit.broker.messages import Advertise, Publish
from godwit.errors import GodwitError
from godwit.filters import Filter, all_of
from godwit.filters.events import Attributes, Event
from godwit.filters.shared_literals import shared_literals
from godwit.runtime.authentication import Principal
from godwit.runtime.grants import OF_BROKER
from godwit.runtime.in_process_client import InProcessClient
from godwit.runtime.matcher_lookup import match_of

if TYPE_CHECKING:
    from godwit.runtime.mqtt_gateway import MqttGateway

__all__ = ["OFF", "SYS", "TOPICS", "SysTopics", "is_sys"]

SYS = "$SYS/broker/"
OFF = "$SYS topics are off here (mqtt.sys_interval_s is 0)"
IDLE_S = 10.0
SOONEST_S = 1.0  # between two times
MINUTES = {"1min": 60.0, "5min": 300.0, "15min": 900.0}
LOADS = ("messages/received", "messages/sent", "publish/received", "publish/sent", "bytes/received", "bytes/sent")
COUNTED = {
    "messages/received": "published",
    "messages/sent": "delivered",
    "publish/received": "published",
    "publish/sent": "delivered",
    "bytes/received": "bytes received",
    "bytes/sent": "bytes sent",
}
"""By load topic, the gateway's counter that is averaged."""


def is_sys(levels: str) -> bool:
    """Whether a topic filter is for these topics."""
    return levels == "$SYS" or levels.startswith("$SYS/")


class SysTopics:
    """The topics of one gateway, from `start` to `stop`."""

    def __init__(self, gateway: "MqttGateway") -> None:
        self._gateway = gateway
        self._client = f"sys/{gateway.broker_name}"
        self._began = monotonic()
        self._most = 0  # clients at once
        self._loads: dict[str, float] = {}
        self._before: tuple[float, dict[str, int]] | None = None
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        """Whether these topics are on. (rule 4)"""
        return self._gateway.settings.sys_interval_s > 0

    def narrowed(self, filter: Filter) -> Filter:
        """The condition of a subscription to these topics: those of this broker."""
        return all_of(filter, shared_literals.some(OF_BROKER, self._gateway.broker_name))

    def start(self) -> None:
        """Start publishing."""
        self._task = self._task or asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def ask(self) -> None:
        """A client has subscribed, or something has changed: publish soon."""
        self._asked.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._gateway.settings.sys_interval_s or IDLE_S):
                    await self._asked.wait()
            self._asked.clear()
            if self.is_on and (wanted := self.wanted()):
                with suppress(GodwitError):  # the broker is busy or stopping: next time
                    await self._tell(wanted)
            await asyncio.sleep(SOONEST_S if self._asked.is_set() else 0)

    def wanted(self) -> list[str]:
        """The topics with subscribers. (rule 1)"""
        match: Any = match_of(getattr(self._gateway.node.machine, "routing", None))
        return [] if match is None else [topic for topic in TOPICS if list(match(self._event(topic, "", 1)))]

    def _event(self, topic: str, text: str, number: int) -> Event:
        attributes: Attributes = {"topic": SYS + topic, "mqtt.qos": 0, OF_BROKER: self._gateway.broker_name}
        return Event(attributes, self._client, number, text.encode(), None, time())

    async def _tell(self, topics: list[str]) -> None:
        if any(topic.startswith("load/") for topic in topics):
            self._average()
        first = int(time() * 1e6)  # numbers grow, also over restarts
        events = [self._event(topic, TOPICS[topic](self), first + place) for place, topic in enumerate(topics)]
        client = InProcessClient(self._gateway.node, Principal(), self._client)
        try:
            await client.attach()
            wishes: list[Publish | Advertise] = [Publish(event) for event in events]
            if self._gateway.node.machine.config.advertisements == "required":  # type: ignore[attr-defined]
                wishes.insert(0, Advertise((self._client, "all"), Principal().grants.publish))
            await client.ask(wishes)
        finally:
            client.leave()

    def _average(self) -> None:
        """(rule 3)"""
        now, counts = monotonic(), {load: self.count(counter) for load, counter in COUNTED.items()}
        if self._before is not None:
            then, earlier = self._before
            passed_s = max(now - then, 1e-6)
            for load, count in counts.items():
                per_minute = (count - earlier[load]) * 60.0 / passed_s
                for name, span_s in MINUTES.items():
                    kept = exp(-passed_s / span_s)
                    key = f"{load}/{name}"
                    self._loads[key] = self._loads.get(key, 0.0) * kept + per_minute * (1 - kept)
        self._before = (now, counts)

    # ------------------------------------------------------------ values

    def count(self, name: str) -> int:
        """What the gateway has counted."""
        return self._gateway.counts[name]

    def load(self, name: str) -> str:
        """An average."""
        return f"{self._loads.get(name, 0.0):.2f}"

    def uptime(self) -> str:
        """The uptime in Mosquitto's format."""
        return f"{int(monotonic() - self._began)} seconds"

    def sessions(self) -> list[Any]:
        """All sessions except that of this module."""
        sessions = self._gateway.node.machine.sessions  # type: ignore[attr-defined]
        return [session for session in sessions if session.client != self._client]

    def connected(self) -> int:
        """Sessions of connected clients."""
        count = sum(session.connection is not None for session in self.sessions())
        self._most = max(self._most, count)
        return count

    def most(self) -> int:
        """The highest number of clients."""
        self.connected()
        return self._most

    def away(self) -> int:
        """Sessions of absent clients."""
        return len(self.sessions()) - self.connected()

    def subscriptions(self) -> int:
        """Subscriptions of all sessions."""
        return sum(len(session.subscriptions) for session in self.sessions())

    def losses(self) -> Any:
        """The losses reported to the broker."""
        return self._gateway.node.machine.sessions.losses  # type: ignore[attr-defined]

    def lost_since(self) -> str:
        """The start of the last loss, as in the CONNACK of level 5; "" if there was none."""
        last = self.losses().last
        return "" if last is None else f"{last:.3f}"

    def queued(self) -> int:
        """Events in the queues of all sessions."""
        return sum(len(session.queue) for session in self.sessions())


TOPICS: dict[str, Callable[[SysTopics], str]] = {
    "version": lambda sys: f"godwit version {__version__}",
    "uptime": lambda sys: sys.uptime(),
    "clients/total": lambda sys: str(len(sys.sessions())),
    "clients/connected": lambda sys: str(sys.connected()),
    "clients/active": lambda sys: str(sys.connected()),
    "clients/disconnected": lambda sys: str(sys.away()),
    "clients/inactive": lambda sys: str(sys.away()),
    "clients/maximum": lambda sys: str(sys.most()),
    "messages/received": lambda sys: str(sys.count("published")),
    "messages/sent": lambda sys: str(sys.count("delivered")),
    "publish/messages/received": lambda sys: str(sys.count("published")),
    "publish/messages/sent": lambda sys: str(sys.count("delivered")),
    "publish/messages/dropped": lambda sys: str(sys.count("given up")),
    "bytes/received": lambda sys: str(sys.count("bytes received")),
    "bytes/sent": lambda sys: str(sys.count("bytes sent")),
    "store/messages/count": lambda sys: str(sys.queued()),
    "subscriptions/count": lambda sys: str(sys.subscriptions()),
    "losses/count": lambda sys: str(sys.losses().count),
    "losses/since": lambda sys: sys.lost_since(),
}
"""The function that computes each topic, by its name after `$SYS/broker/`."""

for _load in LOADS:
    for _span in MINUTES:
        TOPICS[f"load/{_load}/{_span}"] = lambda sys, name=f"{_load}/{_span}": sys.load(name)  # type: ignore[misc]

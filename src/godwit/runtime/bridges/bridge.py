"""One bridge: connects to another system, carries events in both directions, and reconnects when the connection ends.

*Theory.* A bridge has two ends. The local end is a client with a durable session (`local_side.py`); the remote end is a
`Remote`, one class per kind of system. The bridge connects them, and is independent of their protocols:

```text
   broker ── session, queue, journal ── LocalSide ◀── Remote.run ──▶ the other system
```

*Rules.*
1. The subscriptions of the session are made before the first connection attempt: events published while the remote is
   away wait in the queue.
2. After a failed connection the bridge waits, twice as long each time, up to `retry_s_max`, with random jitter. After a
   good connection it begins again with `RETRY_FIRST_S`.
3. Messages are counted by direction and outcome (`OUTCOMES`). Logged are: connected, disconnected, and the first
   refusal of each connection.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from random import random
from typing import Any, Protocol

from godwit.broker.messages import QueueRules
from godwit.errors import GodwitError, PeerFault
from godwit.runtime.bridges.bridge_sections import BridgeSection
from godwit.runtime.bridges.local_side import LocalSide
from godwit.runtime.bridges.routes import Networks, Route
from godwit.runtime.in_process_client import ConnectionClosed
from godwit.runtime.node import Node

__all__ = ["OUTCOMES", "Bridge", "BridgeLog", "Remote", "RemoteGone", "client_name"]

RETRY_FIRST_S = 0.5
OPEN_S = 10.0  # in which the remote must have answered
GOOD_S = 5.0  # a connection that lasted this long counts as good
OUTCOMES = {
    "carried": "the remote has it",
    "refused": "the remote, or this broker, refused it; the log has the first reason of each connection",
    "filtered": "no route was for it, or its content filter did not match",
    "looped": "a duplicate: it had arrived before",
    "expired": "it had expired",
}
"""The outcome of a message at a bridge."""


class RemoteGone(GodwitError):
    """The connection to the remote has ended, or could not be opened."""


class BridgeLog(Protocol):
    """Where lines are written."""

    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...


class Remote(Protocol):
    """The other system, over one connection."""

    async def open(self) -> None:
        """Connect. RemoteGone or OSError if that fails."""

    async def run(self, local: LocalSide) -> None:
        """Carry events in both directions until the connection ends: RemoteGone, ConnectionClosed or OSError."""

    async def close(self) -> None:
        """Close the connection."""


class Tally:
    """Counts of outcomes, and the first refusal of a connection."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()  # by direction and outcome
        self._warn = warn
        self._has_warned = False

    def add(self, direction: str, outcome: str, count: int = 1) -> None:
        """So many more."""
        self.counts[direction, outcome] += count

    def refuse(self, direction: str, reason: str) -> None:
        """A message was refused. (rule 3)"""
        self.counts[direction, "refused"] += 1
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"{direction}: {reason}")

    def on_connected(self) -> None:
        """The next refusal is logged again."""
        self._has_warned = False


class Bridge:
    """A running bridge, from `start` to `stop`."""

    def __init__(
        self, node: Node, broker: str, section: BridgeSection, log: BridgeLog, make: Callable[["Bridge"], Remote]
    ) -> None:
        self.section = section
        self.broker = broker
        self.client = client_name(broker, section.name)
        self.networks = Networks(section.network or broker, section.remote or section.address)
        routes = [(topic.direction, Route.of(topic)) for topic in section.topics]
        self.incoming = tuple(route for direction, route in routes if direction != "out")
        self.outgoing = tuple(route for direction, route in routes if direction != "in")
        self.tally = Tally(lambda reason: log.warning("bridge refusal", bridge=section.name, reason=reason))
        self.is_up = False
        self.connections = 0  # that were made
        self.purged = 0  # events that left the queue by its bounds
        self.starts_afresh = False  # the remote session is to be deleted
        self._node = node
        self._log = log
        self._make = make
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of events that the remote has not received yet."""
        session = self._node.machine.sessions.session(self.client)  # type: ignore[attr-defined]
        return 0 if session is None else len(session.queue)

    def start(self) -> None:
        """Start the bridge. It runs until `stop`."""
        self._task = asyncio.create_task(self._run(), name=f"bridge {self.section.name}")

    def warn(self, reason: str) -> None:
        """Something in the configuration does not work."""
        self._log.warning("bridge trouble", bridge=self.section.name, reason=reason)

    async def stop(self) -> None:
        """Stop the bridge; the session is kept."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        loop, wait_s, told = asyncio.get_running_loop(), RETRY_FIRST_S, ""
        while True:
            began = loop.time()
            try:
                await self._touch()  # rule 1
                await self._connection()
                reason = "the connection has ended"
            except (RemoteGone, ConnectionClosed, PeerFault) as error:
                reason = str(error)
            except TimeoutError:
                reason = f"no answer within {OPEN_S:.0f} s"
            except OSError as error:
                reason = error.strerror or str(error) or type(error).__name__
            was_up, self.is_up = self.is_up, False
            if was_up or reason != told:
                told = reason
                self._log.warning("bridge down", bridge=self.section.name, address=self.section.address, reason=reason)
            if was_up and loop.time() - began >= GOOD_S:
                wait_s = RETRY_FIRST_S
            await asyncio.sleep(min(wait_s, self.section.retry_s_max) * (0.5 + random() / 2))
            wait_s = min(wait_s * 2, self.section.retry_s_max)

    async def _connection(self) -> None:
        remote = self._make(self)
        local: LocalSide | None = None
        try:
            async with asyncio.timeout(OPEN_S):
                await remote.open()
            local = await self._attached()
            self.is_up = True
            self.connections += 1
            self.tally.on_connected()
            self._log.info("bridge up", bridge=self.section.name, address=self.section.address)
            await remote.run(local)
        finally:
            if local is not None:
                local.hang_up()
            await remote.close()

    async def _touch(self) -> None:
        """Keep the session from expiring, with its subscriptions."""
        (await self._attached()).hang_up()

    async def _attached(self) -> LocalSide:
        section = self.section
        rules = QueueRules(count_max=section.queue_events_max, bytes_max=section.queue_bytes_max)
        local = LocalSide(self._node, self.client, rules)
        try:
            await local.attach(subscription_names(self.outgoing))
        except BaseException:
            local.hang_up()
            raise
        self.purged = sum(local.attached.receipt.purged.values())
        return local


def client_name(broker: str, bridge: str = "") -> str:
    """The client name of a bridge; without a bridge, the common prefix of a broker's bridges."""
    return f"bridge/{broker}/{bridge}"


def subscription_names(routes: tuple[Route, ...]) -> Mapping[str, Route]:
    """The routes by names that depend only on what a route subscribes to."""
    return {sha256(repr(route.local).encode()).hexdigest()[:16]: route for route in routes}

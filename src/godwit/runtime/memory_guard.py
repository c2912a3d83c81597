"""The memory limit of a broker's process, and the order in which load is shed when it is reached.

*Theory.* Once in `CHECK_S` everything that grows with use is counted: incomplete messages, inputs and bytes that wait
for their turn, unread bytes, queues, notes and filters of sessions, filters that neighbours have told, events that wait
for neighbours or for arriving sessions, and retained events. An event in many queues counts in each, and filters are
estimated from above, so the sum is an upper bound. Beyond `memory_bytes_max` load is shed.

*Rules.*
1. The order is: incomplete messages of peers before authentication; those of others; connections that do not read, the
   one with the most unread bytes first (their sessions stay); sessions without a connection, oldest first; events in
   the longest queues (`broker/load_shedding.py`).
2. From then on new connections are refused, until less than the limit is used.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from godwit.broker.gossip import RETAINED, Gossip
from godwit.broker.load_shedding import ShedLoad
from godwit.broker.user_quotas import notes_size
from godwit.mobility.relocation import Relocation
from godwit.runtime.memory_account import Holder, MemoryAccount
from godwit.runtime.node import Node

__all__ = ["MemoryGuard"]

CHECK_S = 1.0
UNREAD_BYTES_MIN = 64 * 2**10  # a connection with less than this unread is not worth closing


class Reader(Holder, Protocol):
    """A connection whose peer may not read."""

    @property
    def unread(self) -> int:
        """Unread bytes."""


class Server(Protocol):
    """A listener's connections."""

    @property
    def connections(self) -> Iterable[Any]:
        """The open connections: each is a `Reader`."""


class MemoryGuard:
    """Counts the memory of a process, and sheds load beyond the limit."""

    def __init__(self, node: Node, account: MemoryAccount, bytes_max: int) -> None:
        self._node = node
        self._account = account
        account.held = self.held
        self.bytes_max = bytes_max
        self.servers: list[Server] = []
        self.shed = 0  # number of times that load was shed
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start counting."""
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._on_time)

    def stop(self) -> None:
        """Count no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self.check()
        self.start()

    def held(self) -> dict[str, int]:
        """The present bytes by kind."""
        machine: Any = self._node.machine
        queues = notes = 0
        for session in machine.sessions:
            queues += session.queue.bytes
            if session.notes:
                notes += notes_size(session)
        for arrival in machine.component(Relocation).arrivals.values():
            queues += arrival.bytes + arrival.buffer_bytes
        return {
            "partial": self._account.partial_bytes,
            "inputs": self._node.unhandled_bytes + self._account.undecoded_bytes(),
            "unread": sum(each.unread for each in self._readers()),
            "queues": queues,
            "notes": notes,
            "filters": machine.sessions.quotas.filters.bytes,
            "neighbours": machine.routing.remote_bytes() + sum(link.bytes for link in machine.links.values()),
            "retained": machine.component(Gossip).sizes[RETAINED][1],
        }

    def check(self) -> None:
        """Shed load if too much is used. (rule 1)"""
        account, excess = self._account, sum(self.held().values()) - self.bytes_max
        account.is_full = excess > 0
        if excess <= 0:
            return
        self.shed += 1
        before = account.partial_bytes
        account.shed_partial(max(0, before - excess))
        excess -= before - account.partial_bytes
        for reader in sorted(self._readers(), key=lambda each: -each.unread):
            if excess <= 0 or reader.unread < UNREAD_BYTES_MIN:
                break
            excess -= reader.unread
            account.close(reader, f"limits.memory_bytes_max: this broker holds more than {self.bytes_max} bytes")
        if excess > 0:
            self._node.tell(ShedLoad(excess))

    def _readers(self) -> list[Reader]:
        return [each for server in self.servers for each in server.connections]

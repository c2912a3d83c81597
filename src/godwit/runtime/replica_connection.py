"""The connection of a replicated client to one of its brokers, with reconnection like any client's.

*Rules.*
1. The machine knows a replica by its given address, independent of the broker's name.
2. A replica has one address. A replica whose broker is also that of another replica is given up, with the reason.
3. All messages of one turn are one write.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from godwit.broker.effects import Closed, Heard, Opened
from godwit.client.client import Client
from godwit.runtime.addresses import Address
from godwit.runtime.client_transport import Environment
from godwit.runtime.pending_requests import Kind, State, States
from godwit.runtime.reconnecting import Reconnecting
from godwit.runtime.wire import Intro

__all__ = ["ReplicaConnection", "ReplicaOwner"]


class ReplicaOwner(Protocol):
    """The client that has several connections."""

    def on_input(self, replica: "ReplicaConnection", input: Any) -> None:
        """An input from a connection."""

    def on_replica_state(self) -> None:
        """A replica has attached or detached."""

    def wake(self) -> None:
        """Something has changed."""


class ReplicaConnection:
    """One of the connections."""

    def __init__(
        self,
        seed: Address,
        machine: Client,
        owner: ReplicaOwner,
        intro: Intro,
        tls: ssl.SSLContext | None,
        surroundings: Environment,
    ) -> None:
        self.replica = str(seed)
        self.machine = machine
        self.intro = intro
        self.closed_because = ""
        self.is_unchecked = False
        self.given_up_because = ""
        self._owner = owner
        self._clock = surroundings.clock
        self._states = States(None, surroundings.clock)
        self._has_failed = False  # since it was last attached
        self._unsent: list[Any] = []
        self._will_flush = False
        self._way = Reconnecting(self, [seed], tls, surroundings, owner.wake)
        self._running: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ as `Reconnecting` sees it

    @property
    def state(self) -> State:
        """Where it is."""
        return self._states.now

    def become(self, kind: Kind, reason: str) -> None:
        """Set the state."""
        self._has_failed = kind != "attached" and (self._has_failed or bool(reason))
        reason = self.given_up_because or reason
        if self._states.become(kind, "" if kind in ("closed", "connecting") else self.machine.home, reason):
            self._owner.on_replica_state()

    def handle(self, input: Any) -> None:
        """Pass an input to the machine, which names the connection by the replica's address. (rule 1)"""
        if isinstance(input, Heard):
            self._owner.on_input(self, Heard(self.replica, input.message))
        elif isinstance(input, Opened):
            self._unsent.clear()  # of another connection
            self._owner.on_input(self, Opened(self.replica))
        elif isinstance(input, Closed):
            self._owner.on_input(self, Closed(self.replica))

    # ------------------------------------------------------------ for the client

    @property
    def is_attached(self) -> bool:
        """Whether it is attached."""
        return self.machine.is_attached

    @property
    def is_reachable(self) -> bool:
        """Whether it is attached, or no attempt has failed yet."""
        return not self.given_up_because and (self.is_attached or not self._has_failed)

    @property
    def is_idle(self) -> bool:
        """Whether it only waits."""
        return not self._will_flush and self._way.is_idle

    def start(self, on_ended: Callable[["asyncio.Task[None]"], None]) -> None:
        """Begin to dial."""
        self._running = asyncio.create_task(self._way.run())
        self._running.add_done_callback(on_ended)

    async def stop(self) -> None:
        """Stop reconnecting. An open connection stays."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def close(self) -> None:
        """Send queued messages, and close the connection."""
        self.flush()
        await self._way.close()
        self._states.become("closed", "", "")

    def give_up(self, reason: str) -> None:
        """Give up this replica. (rule 2)"""
        self.given_up_because = reason
        self._way.move([])
        self.become("away", reason)

    def hang_up(self) -> None:
        """Close the connection, after queued messages are sent."""
        self.flush()
        if self._way.wire is not None:
            self._way.wire.close()

    def tell(self, message: Any) -> None:
        """Queue a message, to be sent with all others of this turn."""
        self._unsent.append(message)
        if not self._will_flush:
            self._will_flush = True
            self._clock.call_soon(self.flush)

    def flush(self) -> None:
        """Send queued messages. (rule 3)"""
        self._will_flush = False
        if self._unsent and self._way.wire is not None:
            unsent, self._unsent = self._unsent, []
            self._way.wire.write(unsent)
        self._owner.wake()

    def pause(self) -> None:
        """Pause reading."""
        if self._way.wire is not None:
            self._way.wire.pause()

    def read_on(self) -> None:
        """Read again."""
        if self._way.wire is not None:
            self._way.wire.read_on()

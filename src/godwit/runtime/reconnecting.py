"""Reconnection of a client: it tries one seed after the other, and reconnects when a connection is lost.

*Rules.*
1. After a good connection it reconnects at once; after a failed one it tries another seed. When all have failed it
   waits for `RETRY_FIRST_S`, then twice as long each time, up to `RETRY_MAX_S`, with random jitter, so that a thousand
   clients of a restarted broker do not reconnect at once.
2. `move` takes effect at once: a connection that is just being opened to the old address is not used.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import random
from typing import Protocol

from godwit.broker.effects import Closed, Opened
from godwit.client.client import Client
from godwit.runtime.addresses import Address
from godwit.runtime.client_transport import (
    DIAL_S,
    Environment,
    RetryPause,
    Transport,
    TransportOwner,
    why_unreachable,
)
from godwit.runtime.pending_requests import Kind, State

__all__ = ["ConnectingClient", "Reconnecting"]

RETRY_FIRST_S = 0.05
RETRY_MAX_S = 5.0
GOOD_S = 1.0  # a connection that lasted this long counts as good


class ConnectingClient(TransportOwner, Protocol):
    """The client to connect."""

    machine: Client

    @property
    def state(self) -> State:
        """Where it is."""

    def become(self, kind: Kind, reason: str) -> None:
        """The client has moved."""


class Reconnecting:
    """Keeps a client connected to one of its seeds."""

    def __init__(
        self,
        owner: ConnectingClient,
        seeds: Iterable[Address],
        tls: ssl.SSLContext | None,
        surroundings: Environment,
        on_pause: Callable[[], None],
    ) -> None:
        self.seeds = list(seeds)  # the addresses, in order
        self.wire: Transport | None = None
        self._owner = owner
        self._tls = tls
        self._clock, self._dial, _ = surroundings
        self._moved = asyncio.Event()  # since the start of the last attempt
        self._pause = RetryPause(self._clock, self._moved, on_pause)
        self._names: dict[Address, str] = {}  # of the brokers that it was connected to

    @property
    def is_idle(self) -> bool:
        """Whether it is connected, or waits for the next attempt."""
        is_connected = self.wire is not None and not self.wire.lost.is_set() and not self._moved.is_set()
        return is_connected or self._pause.is_on

    async def run(self) -> None:
        """Try one seed after the other, and reconnect when a connection is lost. (rule 1)"""
        wait_s, at = RETRY_FIRST_S, 0
        while True:
            if self._moved.is_set():
                wait_s, at = RETRY_FIRST_S, 0
                self._moved.clear()
            if not self.seeds:
                await self._pause.take(None)
                continue
            lasted_s = await self._visit(self.seeds[at % len(self.seeds)])
            if lasted_s >= GOOD_S:
                wait_s = RETRY_FIRST_S
            else:
                at += 1
                if at % max(len(self.seeds), 1) == 0:
                    await self._pause.take(wait_s * (0.5 + random()))
                    wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _visit(self, seed: Address) -> float:
        """Connect to one broker, and wait until the connection ends; returns the seconds that the client was
        attached, or 0."""
        owner = self._owner
        owner.closed_because = ""
        try:
            wire = await self._dial(owner, self._names.get(seed, str(seed)), seed, self._tls)
        except (OSError, ValueError, TimeoutError) as error:
            owner.closed_because = f"{seed}: {why_unreachable(error)}"
            owner.become("away" if owner.state.broker else "connecting", owner.closed_because)
            return 0.0
        if self._moved.is_set():  # rule 2
            wire.abort()
            return 0.0
        self.wire = wire
        owner.handle(Opened(wire.name))
        await wire.lost.wait()
        was_let_in = owner.machine.is_attached
        if was_let_in:
            self._names[seed] = owner.machine.home
        owner.handle(Closed(wire.name))
        self.wire = None
        lasted_s = self._clock.time() - owner.state.since if was_let_in else 0.0
        reason = "it goes elsewhere" if self._moved.is_set() else owner.closed_because or "the connection was lost"
        owner.become("away" if owner.state.broker else "connecting", reason)
        return lasted_s

    def move(self, seeds: Iterable[Address]) -> None:
        """Connect to other brokers from now on. (rule 2)"""
        self.seeds = list(seeds)
        self._moved.set()
        self._pause.end()
        if self.wire is not None:
            self.wire.abort()
            self._owner.handle(Closed(self.wire.name))  # at once: a following `attached` means the next broker

    async def close(self) -> None:
        """Close the connection, and wait for that, up to a timeout."""
        if self.wire is not None:
            self.wire.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(DIAL_S):
                    await self.wire.lost.wait()

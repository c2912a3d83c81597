"""A neighbour that refuses a link is dialled ever more rarely; one whose link was accepted, quickly again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from godwit.broker.member_tree import CHOICE
from godwit.broker.messages import Hello
from godwit.runtime.tcp import Address
from godwit.runtime.wire import Frames, Intro
from tests.network.guarded import Guarded, guarded, heard
from tests.network.waiting import run, until

INTRO = Intro(broker="b2", choice=CHOICE)

GROWING = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
Neighbour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Waits:
    """Takes the place of sleeping, for so many times: what was asked for."""

    def __init__(self, count: int) -> None:
        self.asked: list[float] = []
        self.count = count
        self.more = asyncio.Event()

    async def take(self, seconds: float) -> None:
        if len(self.asked) >= self.count:
            await self.more.wait()
        self.asked.append(seconds)


@asynccontextmanager
async def dialling(neighbour: Neighbour, count: int) -> AsyncIterator[tuple[Guarded, Waits]]:
    """A broker that dials such a neighbour, with so many waits that take no time."""
    listener = await asyncio.start_server(neighbour, "127.0.0.1", 0)
    address = Address(*listener.sockets[0].getsockname()[:2])
    waits = Waits(count)
    async with listener, guarded("b1", {"b2": address}, sleep=waits.take) as broker:
        yield broker, waits
        waits.count = 0


async def closes_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def greets_and_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says who it is, opens the link, and refuses what it is answered."""
    await heard(reader, 1)
    writer.write(Frames.packed([INTRO, Hello(1, 0, 0, 1, False)]))
    await heard(reader, 1)
    writer.close()


@pytest.mark.parametrize("neighbour", [closes_at_once, greets_and_closes])
def test_a_neighbour_that_refuses_is_dialled_ever_more_rarely(neighbour: Neighbour) -> None:
    async def scene() -> None:
        async with dialling(neighbour, len(GROWING)) as (_, waits):
            await until(lambda: len(waits.asked) == len(GROWING))
            assert waits.asked == GROWING

    run(scene)


def test_after_a_link_that_was_accepted_a_neighbour_is_dialled_quickly_again() -> None:
    async def scene() -> None:
        connections = 0

        async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            if connections == 5:
                await heard(reader, 1)
                writer.write(Frames.packed([INTRO, Hello(1, 0, 0, 1, False), INTRO]))
                await until(lambda: broker.node.machine.links["b2"].open)  # type: ignore[attr-defined]
            writer.close()

        async with dialling(neighbour, 8) as (broker, waits):
            await until(lambda: len(waits.asked) == 8)
            assert waits.asked == [0.0, 0.05, 0.1, 0.2, 0.4, 0.05, 0.1, 0.2]

    run(scene)


def test_a_broker_that_takes_no_connection_for_a_while_dials_again() -> None:
    async def scene() -> None:
        async with dialling(closes_at_once, 4) as (broker, waits):
            broker.server.memory.is_full = True  # it closes its own connection before it is made
            await until(lambda: len(waits.asked) == 4)
            assert waits.asked == GROWING[:4]

    run(scene)

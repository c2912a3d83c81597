"""Dialling neighbours again: ever more rarely while it is in vain, quickly after a link that was accepted."""

import asyncio
from collections.abc import Awaitable, Callable

from godwit.runtime.dialler import Dialler

FIRST_S, MAX_S = 0.05, 5.0
GROWING = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


class Waits:
    """Takes the place of sleeping: what was asked for, until there was enough of it."""

    def __init__(self, count: int) -> None:
        self.asked: list[float] = []
        self.is_over = asyncio.Event()
        self._count = count

    async def take(self, seconds: float) -> None:
        if len(self.asked) == self._count:
            self.is_over.set()
            await asyncio.get_running_loop().create_future()
        self.asked.append(seconds)


def waits_of(connect: Callable[[Dialler, str], Awaitable[None]], count: int) -> list[float]:
    """The waits that are asked for when dialling does this."""

    async def scene() -> list[float]:
        waits = Waits(count)
        dialler = Dialler(lambda peer: connect(dialler, peer), first_s=FIRST_S, max_s=MAX_S, sleep=waits.take)
        dialler.dial("b2")
        await waits.is_over.wait()
        dialler.close()
        return waits.asked

    return asyncio.run(scene())


def test_a_neighbour_that_is_not_there_is_dialled_ever_more_rarely() -> None:
    async def connect(dialler: Dialler, peer: str) -> None:
        raise ConnectionRefusedError

    assert waits_of(connect, 10) == GROWING


def test_a_neighbour_that_takes_a_connection_and_refuses_is_dialled_ever_more_rarely() -> None:
    async def connect(dialler: Dialler, peer: str) -> None:
        asyncio.get_running_loop().call_soon(lambda: dialler.redial(peer, was_accepted=False))

    assert waits_of(connect, 10) == GROWING


def test_a_connection_that_ends_while_it_is_made_is_followed_by_another() -> None:
    async def connect(dialler: Dialler, peer: str) -> None:
        dialler.redial(peer, was_accepted=False)

    assert waits_of(connect, 10) == GROWING


def test_after_a_link_that_was_accepted_a_neighbour_is_dialled_quickly_again() -> None:
    made = 0

    async def connect(dialler: Dialler, peer: str) -> None:
        nonlocal made
        made += 1
        if made == 6:
            asyncio.get_running_loop().call_soon(lambda: dialler.redial(peer, was_accepted=True))
        else:
            raise ConnectionRefusedError

    assert waits_of(connect, 9) == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 0.05, 0.1, 0.2]


def test_neighbours_are_dialled_apart_and_nobody_after_the_end() -> None:
    async def scene() -> None:
        dialled: list[str] = []

        async def connect(peer: str) -> None:
            dialled.append(peer)
            raise ConnectionRefusedError

        async def wait(seconds: float) -> None:
            if seconds:
                await asyncio.get_running_loop().create_future()

        dialler = Dialler(connect, first_s=FIRST_S, max_s=MAX_S, sleep=wait)
        for peer in ("b2", "b3", "b2"):
            dialler.dial(peer)
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0, turned.set_result, None)
        await turned
        assert sorted(dialled) == ["b2", "b3"]
        dialler.close()
        dialler.redial("b2", was_accepted=True)
        dialler.dial("b4")
        assert sorted(dialled) == ["b2", "b3"]

    asyncio.run(scene())

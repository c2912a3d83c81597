"""In a turn of the loop a bounded number of calls is made, in order."""

import asyncio
from collections import Counter

from godwit.runtime.pacing import Pacer
from tests.network.waiting import a_turn, run, until


class Calls:
    """Calls that were made, each with the turn of the loop that it was made in; so many are expected."""

    def __init__(self, expected: int) -> None:
        self.made: list[int] = []
        self._expected = expected
        self._turns: list[int] = []
        self._turn = 0
        self._tick()

    def _tick(self) -> None:
        self._turn += 1
        if len(self.made) < self._expected:
            asyncio.get_running_loop().call_soon(self._tick)

    def note(self, number: int) -> None:
        self.made.append(number)
        self._turns.append(self._turn)

    async def all(self) -> None:
        await until(lambda: len(self.made) >= self._expected, "all calls are made")

    @property
    def most(self) -> int:
        """Calls in one turn, at most."""
        return max(Counter(self._turns).values())


def test_calls_are_made_in_order_and_a_few_in_each_turn() -> None:
    async def scene() -> None:
        pacer, calls = Pacer(3), Calls(10)
        for number in range(10):
            pacer.call(lambda number=number: calls.note(number))  # type: ignore[misc]
        assert calls.made == [0, 1, 2]  # at once
        await calls.all()
        assert calls.made == list(range(10))
        assert calls.most == 3

    run(scene)


def test_who_comes_in_a_later_turn_does_not_wait() -> None:
    async def scene() -> None:
        pacer, calls = Pacer(2), Calls(6)
        for number in range(6):
            pacer.call(lambda number=number: calls.note(number))  # type: ignore[misc]
            assert calls.made == list(range(number + 1))
            await a_turn()
        assert len(pacer) == 0

    run(scene)


def test_tasks_that_wait_for_their_turn_go_on_a_few_in_each() -> None:
    async def scene() -> None:
        pacer, calls = Pacer(2), Calls(6)

        async def go(number: int) -> None:
            await pacer.turn()
            calls.note(number)

        tasks = [asyncio.create_task(go(number)) for number in range(7)]
        tasks[3].cancel()
        await calls.all()
        assert calls.made == [0, 1, 2, 4, 5, 6]
        assert calls.most == 2

    run(scene)


def test_a_call_that_raises_does_not_hold_up_the_next_ones() -> None:
    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: None)
        pacer, calls = Pacer(1), Calls(2)

        def fail() -> None:
            raise ValueError

        pacer.call(lambda: calls.note(1))
        pacer.call(fail)
        pacer.call(lambda: calls.note(2))
        await calls.all()
        assert calls.made == [1, 2]

    run(scene)


def test_what_is_to_be_called_soon_is_not_called_now() -> None:
    async def scene() -> None:
        pacer, calls = Pacer(2), Calls(3)
        for number in range(3):
            pacer.soon(lambda number=number: calls.note(number))  # type: ignore[misc]
        assert calls.made == []
        await calls.all()
        assert (calls.made, calls.most) == ([0, 1, 2], 2)

    run(scene)

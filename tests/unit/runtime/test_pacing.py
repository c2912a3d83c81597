"""In a turn of the loop a bounded number of calls is made, in order."""

import asyncio

from godwit.runtime.pacing import Pacer


def test_calls_are_made_in_order_and_a_few_in_each_turn() -> None:
    async def scene() -> None:
        pacer, made, in_turns = Pacer(3), list[int](), list[int]()
        for number in range(10):
            pacer.call(lambda number=number: made.append(number))  # type: ignore[misc]
        assert made == [0, 1, 2]  # at once
        while len(made) < 10:
            before = len(made)
            await asyncio.sleep(0)
            in_turns.append(len(made) - before)
        assert made == list(range(10))
        assert max(in_turns) <= 3

    asyncio.run(scene())


def test_who_comes_in_a_later_turn_does_not_wait() -> None:
    async def scene() -> None:
        pacer, made = Pacer(2), list[int]()
        for number in range(6):
            pacer.call(lambda number=number: made.append(number))  # type: ignore[misc]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert made == list(range(number + 1))
            assert len(pacer) == 0

    asyncio.run(scene())


def test_tasks_that_wait_for_their_turn_go_on_a_few_in_each() -> None:
    async def scene() -> None:
        pacer, gone, in_turns = Pacer(2), list[int](), list[int]()

        async def go(number: int) -> None:
            await pacer.turn()
            gone.append(number)

        tasks = [asyncio.create_task(go(number)) for number in range(7)]
        tasks[3].cancel()
        while len(gone) < 6:
            before = len(gone)
            await asyncio.sleep(0)
            in_turns.append(len(gone) - before)
        assert gone == [0, 1, 2, 4, 5, 6]
        assert max(in_turns) <= 2

    asyncio.run(scene())


def test_a_call_that_raises_does_not_hold_up_the_next_ones() -> None:
    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: None)
        pacer, made = Pacer(1), list[int]()

        def fail() -> None:
            raise ValueError

        pacer.call(lambda: made.append(1))
        pacer.call(fail)
        pacer.call(lambda: made.append(2))
        for _ in range(5):
            await asyncio.sleep(0)
        assert made == [1, 2]

    asyncio.run(scene())


def test_what_is_to_be_called_soon_is_not_called_now() -> None:
    async def scene() -> None:
        pacer, made = Pacer(2), list[int]()
        for number in range(3):
            pacer.soon(lambda number=number: made.append(number))  # type: ignore[misc]
        assert made == []
        await asyncio.sleep(0)
        assert made == [0, 1]
        await asyncio.sleep(0)
        assert made == [0, 1, 2]

    asyncio.run(scene())

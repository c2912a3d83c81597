"""Long work is done in slices, and one task at a time."""

import asyncio
from collections.abc import Generator

import pytest

from godwit.runtime.long_work import SLICE_S, LongWork


class Turn:
    """One turn of the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Clock:
    """Goes on by a slice and a bit with each step of work."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def work(name: str, steps: int, long_work: LongWork, clock: Clock, done: list[str], party: str = "ann") -> None:
    """Steps that take a slice each."""
    async with long_work.task(party) as step:
        for _ in range(steps):
            clock.now += SLICE_S
            done.append(name)
            await step()


@pytest.mark.anyio
async def test_others_are_served_between_two_slices() -> None:
    clock, done = Clock(), list[str]()
    long_work = LongWork(clock)

    async def other() -> None:
        for _ in range(5):
            done.append("other")
            await Turn()

    await asyncio.gather(work("long", 5, long_work, clock, done), other())
    assert done == ["long", "other"] * 5


@pytest.mark.anyio
async def test_many_long_tasks_take_turns_and_others_wait_for_one_slice() -> None:
    clock, done = Clock(), list[str]()
    long_work = LongWork(clock)
    tasks = [asyncio.create_task(work(str(number), 3, long_work, clock, done)) for number in range(20)]
    await Turn()
    assert len(done) == 20  # the first slice of each
    while not all(task.done() for task in tasks):
        before = len(done)
        await Turn()
        assert len(done) <= before + 1
    assert done[20:40] == [str(number) for number in range(20)]


@pytest.mark.anyio
async def test_a_party_with_many_tasks_waits_for_itself() -> None:
    clock, done = Clock(), list[str]()
    long_work = LongWork(clock)
    tasks = [asyncio.create_task(work("mallory", 9, long_work, clock, done, "mallory")) for _ in range(30)]
    tasks.append(asyncio.create_task(work("ann", 9, long_work, clock, done)))
    await tasks[-1]
    assert done[:31] == ["mallory"] * 30 + ["ann"]
    assert done[31:].count("ann") == 8
    assert len(done) <= 31 + 2 * 9
    await asyncio.gather(*tasks)


@pytest.mark.anyio
async def test_tasks_that_are_cancelled_while_they_wait_or_as_they_get_the_turn_do_not_keep_it() -> None:
    clock, done = Clock(), list[str]()
    long_work = LongWork(clock)
    tasks = [asyncio.create_task(work(str(number), 3, long_work, clock, [])) for number in range(6)]
    await Turn()
    tasks[2].cancel()  # it waits
    for _ in range(9):
        await Turn()
        for task in tasks[:2]:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await work("next", 3, long_work, clock, done)
    assert done == ["next"] * 3


@pytest.mark.anyio
async def test_short_work_is_not_interrupted() -> None:
    async with LongWork(Clock()).task("ann") as step:
        awaited = step()
        with pytest.raises(StopIteration):
            awaited.send(None)  # type: ignore[attr-defined]


async def fail(long_work: LongWork, clock: Clock) -> None:
    async with long_work.task("ann") as step:
        clock.now += SLICE_S
        await step()
        raise RuntimeError


@pytest.mark.anyio
async def test_a_task_that_fails_or_is_cancelled_gives_its_turn_back() -> None:
    clock, done = Clock(), list[str]()
    long_work = LongWork(clock)
    with pytest.raises(RuntimeError):
        await fail(long_work, clock)
    cancelled = asyncio.create_task(work("cancelled", 9, long_work, clock, []))
    await Turn()  # it pauses with its turn
    cancelled.cancel()
    await work("next", 3, long_work, clock, done)
    assert done == ["next"] * 3

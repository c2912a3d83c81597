"""Bytes of HTTP connections are parsed a few at a time, and connections take turns."""

import asyncio
from collections.abc import Callable

import pytest

from godwit.runtime.read_slices import LONG_SLICE_BYTES, SLICE_BYTES, ReadSlices
from tests.network.waiting import a_turn


class Parsing:
    """Which connections were parsed, in order. A slice takes all the time of a turn."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.now = 0.0
        self.slices = ReadSlices(lambda: self.now)
        self.third: Callable[[], None] = lambda: None  # called with the third slice

    def parse(self, name: str) -> None:
        self.parsed.append(name)
        self.now += 1.0
        if len(self.parsed) == 3:
            self.third()


class Connection:
    """A connection and its transport."""

    def __init__(self, name: str, parsing: Parsing, party: str = "mallory", slice_bytes: int = SLICE_BYTES) -> None:
        self.name, self._parsing, self.party, self._slice_bytes = name, parsing, party, slice_bytes
        self.error: Exception | None = None
        self.bytes = b""
        self.is_held = self.is_paused = self.is_over = False
        self.transport = self

    def parse(self, data: bytes) -> None:
        assert len(data) <= self._slice_bytes
        if self.error is not None:
            raise self.error
        self.bytes += data
        self._parsing.parse(self.name)

    def slice_of(self, data: bytes) -> int:
        return min(len(data), self._slice_bytes)

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


async def turns(count: int) -> None:
    for _ in range(count):
        await a_turn()


def test_one_slice_is_parsed_in_a_turn_of_the_loop_if_it_takes_all_its_time() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one = Connection("one", parsing)
        data = bytes(range(250)) * 64  # four slices
        parsing.slices.feed(one, data)
        assert parsing.parsed == ["one"]
        assert one in parsing.slices
        await turns(3)
        assert parsing.parsed == ["one"] * 4
        assert one.bytes == data
        assert not one.is_paused

    asyncio.run(scene())


def test_little_bytes_are_parsed_at_once() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one = Connection("one", parsing)
        parsing.slices.feed(one, b"GET")
        assert one.bytes == b"GET"
        assert not one.is_paused

    asyncio.run(scene())


def test_connections_take_turns_and_a_new_one_goes_first() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one, two, late = (Connection(name, parsing) for name in ("one", "two", "late"))
        parsing.third = lambda: parsing.slices.feed(late, b"GET")
        parsing.slices.feed(one, bytes(3 * SLICE_BYTES))
        parsing.slices.feed(two, bytes(3 * SLICE_BYTES))
        await turns(6)
        assert parsing.parsed == ["one", "two", "one", "late", "two", "one", "two"]

    asyncio.run(scene())


def test_parties_take_turns_however_many_connections_one_has() -> None:
    async def scene() -> None:
        parsing = Parsing()
        many = [Connection(f"m{number}", parsing) for number in range(20)]
        for each in many:
            parsing.slices.feed(each, b"GET")
        parsing.slices.feed(Connection("ann", parsing, "ann"), b"GET")
        await turns(2)
        assert parsing.parsed[:3] == ["m0", "m1", "ann"]
        await turns(18)
        assert parsing.parsed[3:] == [f"m{number}" for number in range(2, 20)]

    asyncio.run(scene())


def test_a_connection_may_have_longer_slices() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one = Connection("one", parsing, slice_bytes=LONG_SLICE_BYTES)
        data = bytes(range(250)) * 600
        parsing.slices.feed(one, data)
        await turns(2)
        assert len(parsing.parsed) == 3
        assert one.bytes == data
        assert parsing.slices.size == 0

    asyncio.run(scene())


def test_a_connection_whose_bytes_cannot_be_parsed_is_closed_and_others_go_on() -> None:
    async def scene() -> None:
        parsing, errors = Parsing(), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: errors.append(str(told["exception"])))
        bad, good = Connection("bad", parsing), Connection("good", parsing)
        parsing.slices.feed(good, bytes(3 * SLICE_BYTES))
        parsing.slices.feed(bad, bytes(3 * SLICE_BYTES))
        bad.error = ValueError("planted")
        await turns(6)
        assert errors == ["planted"]
        assert bad.is_over
        assert bad not in parsing.slices
        assert parsing.parsed == ["good"] * 3
        bad.is_over = False
        with pytest.raises(ValueError, match="planted"):  # which closes the connection, too
            parsing.slices.feed(bad, b"GET")

    asyncio.run(scene())


def test_bytes_that_come_in_spite_of_the_pause_stay_in_order() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one = Connection("one", parsing)
        parsing.slices.feed(one, b"a" * SLICE_BYTES + b"b")
        parsing.slices.feed(one, b"c")
        await turns(3)
        assert one.bytes == b"a" * SLICE_BYTES + b"bc"

    asyncio.run(scene())


def test_nothing_is_parsed_while_the_application_does_not_take_it() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one = Connection("one", parsing)
        parsing.slices.feed(one, bytes(2 * SLICE_BYTES))
        one.is_held = True
        await turns(5)
        assert parsing.parsed == ["one"]
        assert one.is_paused
        one.is_held = False
        one.resume_reading()  # as uvicorn does
        parsing.slices.wake(one)
        assert one.is_paused
        await turns(3)
        assert parsing.parsed == ["one"] * 2
        assert not one.is_paused

    asyncio.run(scene())


def test_nothing_is_parsed_of_a_closed_connection() -> None:
    async def scene() -> None:
        parsing = Parsing()
        one, two = Connection("one", parsing), Connection("two", parsing)
        for each in (one, two):
            parsing.slices.feed(each, bytes(3 * SLICE_BYTES))
        parsing.slices.forget(one)
        two.is_over = True
        await turns(6)
        assert parsing.parsed == ["one", "two"]

    asyncio.run(scene())

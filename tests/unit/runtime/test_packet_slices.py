"""Packets of one read are handled a few at a time, in order, and others have their turn between."""

import asyncio
import gc
from functools import partial
from typing import Any

import pytest

from godwit.errors import MqttFault
from godwit.mqtt import encode
from godwit.mqtt.packets import Connect, Pingreq, Publish
from godwit.runtime.packet_slices import PACKETS_AT_ONCE_MAX, Backlog, PacketSlices
from godwit.runtime.party_turns import TURN_S, PartyTurns
from tests.network.waiting import a_turn, run, until

SIZE_MAX = 2**20
MANY = 9 * PACKETS_AT_ONCE_MAX + 7


class Taken:
    """What was handled, in each turn."""

    def __init__(self) -> None:
        self.turns: list[list[Any]] = []
        self.faults: list[MqttFault | None] = []
        self.others = 0
        self.others_at: list[int] = []  # how often others had had their turn
        self.slices = PacketSlices(SIZE_MAX, SIZE_MAX, self.take)

    def take(self, packets: list[Any], fault: MqttFault | None, size: int) -> None:
        self.turns.append(packets)
        self.faults.append(fault)
        self.others_at.append(self.others)

    async def until_all(self) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def turn() -> None:
            self.others += 1
            if self.slices.has_more:
                loop.call_soon(turn)
            else:
                done.set()

        loop.call_soon(turn)
        await done.wait()

    @property
    def topics(self) -> list[str]:
        return [packet.topic for turn in self.turns for packet in turn if isinstance(packet, Publish)]


def stream(first: int, last: int) -> bytes:
    return b"".join(encode(Publish(f"t/{number}", b""), 5) for number in range(first, last))


def test_a_long_read_is_handled_in_turns_of_a_few_packets_and_in_order() -> None:
    async def scene() -> None:
        taken = Taken()
        taken.slices.feed(encode(Connect("c", 5), 5))
        taken.slices.feed(stream(0, MANY))
        assert taken.slices.has_more
        turns = len(taken.turns)
        taken.slices.feed(stream(MANY, MANY + 3))  # came before all was handled
        assert len(taken.turns) == turns
        await taken.until_all()
        assert taken.topics == [f"t/{number}" for number in range(MANY + 3)]
        assert max(map(len, taken.turns)) == PACKETS_AT_ONCE_MAX
        assert len(set(taken.others_at)) >= 4
        assert taken.slices.pending == 0

    asyncio.run(scene())


def test_what_is_not_decoded_yet_does_not_count_as_an_incomplete_packet() -> None:
    async def scene() -> None:
        taken = Taken()
        taken.slices.feed(encode(Connect("c", 5), 5) + encode(Pingreq(), 5) * MANY + b"\x30")
        assert taken.slices.pending == 0
        await taken.until_all()
        assert taken.slices.pending == 1
        assert sum(map(len, taken.turns)) == MANY + 1

    asyncio.run(scene())


@pytest.mark.parametrize("count", [3, MANY])
def test_a_fault_comes_after_the_packets_before_it_and_ends_them(count: int) -> None:
    async def scene() -> None:
        taken = Taken()
        taken.slices.feed(encode(Connect("c", 5), 5) + stream(0, count) + b"\xff\xff" + stream(count, 2 * count))
        await taken.until_all()
        assert taken.topics == [f"t/{number}" for number in range(count)]
        assert [fault is not None for fault in taken.faults] == [False] * (len(taken.faults) - 1) + [True]

    asyncio.run(scene())


def test_a_closed_decoder_takes_nothing_more_and_releases_its_connection() -> None:
    async def scene() -> None:
        taken = Taken()
        taken.slices.feed(encode(Connect("c", 5), 5) + encode(Pingreq(), 5) * MANY)
        turns = len(taken.turns)
        taken.slices.close()
        await taken.until_all()
        taken.slices.feed(encode(Pingreq(), 5))
        assert len(taken.turns) == turns
        assert taken not in [getattr(each, "__self__", None) for each in gc.get_referents(taken.slices)]

    asyncio.run(scene())


def test_nothing_is_decoded_while_the_connection_is_busy_with_what_came_before() -> None:
    async def scene() -> None:
        sizes, backlog = list[int](), Backlog()
        slices = PacketSlices(
            SIZE_MAX,
            SIZE_MAX,
            lambda packets, *_: sizes.append(len(packets)),
            backlog=backlog,
        )
        slices.feed(encode(Connect("c", 5), 5) + stream(0, MANY))
        slices.hold()
        for _ in range(5):
            await a_turn()
        assert sum(sizes) == PACKETS_AT_ONCE_MAX
        assert slices.has_more
        assert backlog.size == len(stream(PACKETS_AT_ONCE_MAX - 1, MANY))
        slices.feed(encode(Pingreq(), 5))
        assert backlog.size == len(stream(PACKETS_AT_ONCE_MAX - 1, MANY)) + 2
        slices.wake()
        slices.hold()
        await a_turn()
        await a_turn()
        assert sum(sizes) == PACKETS_AT_ONCE_MAX  # it was held again
        slices.wake()
        slices.wake()
        await until(lambda: not slices.has_more)
        assert sum(sizes) == MANY + 2
        assert max(sizes) == PACKETS_AT_ONCE_MAX
        assert backlog.size == 0
        slices.hold()
        slices.feed(stream(0, 3))
        assert backlog.size == len(stream(0, 3))
        slices.close()
        assert backlog.size == 0

    run(scene)


def test_a_connection_that_was_closed_while_it_was_held_stays_closed() -> None:
    async def scene() -> None:
        sizes, backlog = list[int](), Backlog()
        slices = PacketSlices(SIZE_MAX, SIZE_MAX, lambda packets, *_: sizes.append(len(packets)), backlog=backlog)
        slices.feed(encode(Connect("c", 5), 5))
        slices.hold()
        assert slices.feed(stream(0, 3))
        slices.close()
        slices.wake()
        assert not slices.feed(stream(0, 3) + b"\x30")
        assert slices.pending == 0
        await a_turn()
        await a_turn()
        assert (sizes, slices.has_more, backlog.size) == ([1], False, 0)

    run(scene)


def test_packets_that_need_not_wait_take_from_the_time_of_the_turn() -> None:
    async def scene() -> None:
        now, handled = 0.0, list[int]()

        def take(packets: list[Any], fault: MqttFault | None, size: int) -> None:
            nonlocal now
            now += TURN_S / 4
            handled.append(len(packets))

        slices = PacketSlices(SIZE_MAX, SIZE_MAX, take, PartyTurns(lambda: now))
        has_more = [slices.feed(data) for data in [encode(Connect("c", 5), 5), *[encode(Pingreq(), 5)] * 5]]
        assert has_more == [False] * 4 + [True] * 2
        assert handled == [1] * 4
        await until(lambda: not slices.has_more)
        assert handled == [1] * 4 + [2]

    run(scene)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_an_error_of_the_program_closes_the_connection_whether_its_packets_waited_or_not(is_waiting: bool) -> None:
    async def scene() -> None:
        errors, failed = list[str](), list[bool]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: errors.append(str(told["exception"])))

        def take(packets: list[Any], fault: MqttFault | None, size: int) -> None:
            raise ValueError("planted")

        slices = PacketSlices(SIZE_MAX, SIZE_MAX, take, fail=lambda: failed.append(True))
        if is_waiting:
            slices.hold()
            slices.feed(encode(Connect("c", 5), 5))
            slices.wake()
            await until(lambda: bool(errors))
        else:
            with pytest.raises(ValueError, match="planted"):
                slices.feed(encode(Connect("c", 5), 5))
        assert failed == [True]
        assert not slices.feed(encode(Pingreq(), 5))

    run(scene)


def test_connections_of_one_user_have_the_time_of_one_together() -> None:
    async def scene() -> None:
        now, handled = 0.0, list[str]()

        def take(name: str, packets: list[Any], fault: MqttFault | None, size: int) -> None:
            nonlocal now
            now += 1.0  # all the time of a turn
            handled.append(name)

        turns = PartyTurns(lambda: now)
        users = {"mallory/1": "mallory", "mallory/2": "mallory", "mallory/3": "mallory", "ann": "ann"}
        made = {
            name: PacketSlices(SIZE_MAX, SIZE_MAX, partial(take, name), turns, partial(str, user))
            for name, user in users.items()
        }
        for slices in made.values():
            slices.feed(encode(Connect("c", 5), 5))
        assert handled == ["mallory/1"]
        assert [slices.has_more for slices in made.values()] == [False, True, True, True]
        made["ann"].feed(encode(Pingreq(), 5))
        await until(lambda: not any(slices.has_more for slices in made.values()))
        assert handled == ["mallory/1", "mallory/2", "ann", "mallory/3"]

    run(scene)

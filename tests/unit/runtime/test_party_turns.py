"""Calls of parties have a bounded time in each turn of the loop, and parties take turns."""

import asyncio
from collections.abc import Callable
from functools import partial

from godwit.runtime.party_turns import TURN_S, PartyTurns
from tests.network.waiting import a_turn, run, until


class Made:
    """Which calls were made in each turn of the loop, in order. Each takes all the time of a turn."""

    def __init__(self) -> None:
        self.made: list[list[str]] = [[]]
        self.now = 0.0
        self.turns = PartyTurns(lambda: self.now)
        turn = self.turns._turn

        def noted() -> None:
            self.made.append([])
            turn()

        self.turns._turn = noted  # type: ignore[method-assign]

    def call(self, party: str, name: str) -> None:
        self.turns.call(party, partial(self._make, name))

    def _make(self, name: str) -> None:
        self.made[-1].append(name)
        self.now += 1.0


def played(play: Callable[[Made], None]) -> list[list[str]]:
    """The calls made at once, and in each of the next turns, until none is left."""
    made = Made()

    async def scene() -> None:
        play(made)
        await until(lambda: not made.made[-1])

    run(scene)
    return made.made


def test_one_call_is_made_in_a_turn_if_it_takes_all_its_time() -> None:
    def play(made: Made) -> None:
        for name in "abc":
            made.call("mallory", name)

    assert played(play) == [["a"], ["b"], ["c"], []]


def test_parties_take_turns_and_calls_of_one_stay_in_order() -> None:
    def play(made: Made) -> None:
        for name in ("m1", "m2", "m3", "m4"):
            made.call("mallory", name)
        made.call("ann", "a1")
        made.call("ann", "a2")

    assert played(play) == [["m1"], ["m2"], ["a1"], ["m3"], ["a2"], ["m4"], []]


def test_a_call_for_soon_is_not_made_in_this_turn() -> None:
    async def scene() -> None:
        made: list[str] = []
        turns = PartyTurns(lambda: 0.0)  # there is always time
        turns.call("mallory", lambda: turns.soon("mallory", partial(made.append, "soon")))
        turns.call("mallory", partial(made.append, "now"))
        assert made == ["now"]
        await a_turn()
        assert made == ["now", "soon"]

    asyncio.run(scene())


def test_calls_that_are_made_elsewhere_while_there_is_time_take_from_it() -> None:
    async def scene() -> None:
        now, made = 0.0, list[str]()
        turns = PartyTurns(lambda: now)
        began, is_free = turns.clock(), [turns.is_free]
        now += TURN_S
        turns.spend(began)
        is_free.append(turns.is_free)
        turns.call("ann", partial(made.append, "a1"))
        assert made == []
        await a_turn()
        assert made == ["a1"]
        assert [*is_free, turns.is_free] == [True, False, True]

    asyncio.run(scene())


def test_a_call_comes_behind_those_that_were_left_by_the_turn() -> None:
    async def scene() -> None:
        made, names = Made(), [f"m{number}" for number in range(9)]
        for name in names[:8]:
            made.call("mallory", name)
        await a_turn()
        turns = len(made.made)
        made.call("mallory", names[8])
        assert made.made == [[name] for name in names[:turns]]
        await until(lambda: not made.made[-1])
        assert made.made == [*([name] for name in names), []]

    run(scene)


def test_a_call_made_by_one_that_waited_comes_behind_all_that_wait() -> None:
    async def scene() -> None:
        made = list[str]()
        turns = PartyTurns(lambda: 0.0)

        def outer() -> None:
            made.append("outer")
            assert not turns.is_free
            turns.call("ann", partial(made.append, "inner"))

        turns.soon("ann", outer)
        turns.soon("bob", partial(made.append, "bob"))
        await a_turn()
        assert made == ["outer", "bob", "inner"]
        assert turns.is_free

    asyncio.run(scene())


def test_many_short_calls_are_made_in_one_turn() -> None:
    async def scene() -> None:
        made: list[int] = []
        turns = PartyTurns(lambda: 0.0)
        for number in range(100):
            turns.call("ann", partial(made.append, number))
        assert made == list(range(100))
        await a_turn()

    asyncio.run(scene())


def test_calls_that_take_little_share_the_time_of_a_turn_and_a_call_that_fails_delays_no_other() -> None:
    async def scene() -> None:
        now, made, errors = 0.0, list[int](), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: errors.append(str(told["exception"])))

        def take(number: int) -> None:
            nonlocal now
            now += TURN_S / 8
            made.append(number)

        def fail() -> None:
            raise ValueError("planted")

        turns = PartyTurns(lambda: now)
        for number in range(40):
            turns.call("ann", partial(take, number))
        assert 8 <= len(made) <= 9
        turns.call("ann", fail)
        turns.call("ann", partial(take, 40))
        for _ in range(9):
            await a_turn()
        assert made == list(range(41))
        assert errors == ["planted"]

    asyncio.run(scene())

"""Calls of parties have a bounded time in each turn of the loop, and parties take turns."""

import asyncio
from collections.abc import Callable
from functools import partial

from godwit.runtime.party_turns import PartyTurns


class Made:
    """Which calls were made, in order. Each takes all the time of a turn."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.now = 0.0
        self.turns = PartyTurns(lambda: self.now)

    def call(self, party: str, name: str, again: int = 0) -> None:
        self.turns.call(party, partial(self._make, party, name, again))

    def _make(self, party: str, name: str, again: int) -> None:
        self.made.append(name)
        self.now += 1.0
        if again:
            self.turns.soon(party, partial(self._make, party, name, again - 1))


def played(play: Callable[[Made], None], turns: int) -> list[list[str]]:
    """The calls made at once, and in each of the next turns."""
    found: list[list[str]] = []

    async def scene() -> None:
        made = Made()
        play(made)
        for _ in range(turns + 1):
            found.append(list(made.made))
            made.made.clear()
            await asyncio.sleep(0)

    asyncio.run(scene())
    return found


def test_one_call_is_made_in_a_turn_if_it_takes_all_its_time() -> None:
    def play(made: Made) -> None:
        for name in "abc":
            made.call("mallory", name)

    assert played(play, 3) == [["a"], ["b"], ["c"], []]


def test_parties_take_turns_and_calls_of_one_stay_in_order() -> None:
    def play(made: Made) -> None:
        for name in ("m1", "m2", "m3", "m4"):
            made.call("mallory", name)
        made.call("ann", "a1")
        made.call("ann", "a2")

    assert played(play, 5) == [["m1"], ["m2"], ["a1"], ["m3"], ["a2"], ["m4"]]


def test_a_call_for_soon_is_not_made_in_this_turn() -> None:
    async def scene() -> None:
        made: list[str] = []
        turns = PartyTurns(lambda: 0.0)  # there is always time
        turns.call("mallory", lambda: turns.soon("mallory", partial(made.append, "soon")))
        turns.call("mallory", partial(made.append, "now"))
        assert made == ["now"]
        await asyncio.sleep(0)
        assert made == ["now", "soon"]

    asyncio.run(scene())


def test_many_short_calls_are_made_in_one_turn() -> None:
    async def scene() -> None:
        made: list[int] = []
        turns = PartyTurns(lambda: 0.0)
        for number in range(100):
            turns.call("ann", partial(made.append, number))
        assert made == list(range(100))
        await asyncio.sleep(0)

    asyncio.run(scene())

"""An index is made again in pieces while it serves: labels get room, the dead are forgotten, bitmaps grow."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.language import parse
from godwit.filters.sets import at_most, holds_text, interval, one_of
from godwit.matching import bitmaps, index_matcher, labels, layout, rebuilding, rewriting
from godwit.matching.bitmaps import GrowingMaps
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.layout import Layout
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.matching.rebuilding import Rebuilding
from tests.unit.filters.random_filters import random_attributes, random_filter

SMALL = {
    layout: {
        "AT_ONCE_MAX": 40,
        "PIECE_ROWS": 40,
        "PIECE_RECORDS": 60,
        "PIECE_SLOTS": 2,
        "PLAIN_FACTOR": 1,
        "GROWTH": 2,
        "SPARE_ROWS": 4,
    },
    index_matcher: {"WAITING_ROWS": 7, "DEAD_SPARE": 3, "NEWCOMERS_PER_PIECE": 2, "TAKEN": 3},
    labels: {"PIECE_KEYS": 5},
    rebuilding: {"PIECE_ENTRIES": 3},
    bitmaps: {"SPARE_WORDS": 1, "PIECE_BYTES": 4_096},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that a few hundred filters have many."""
    for module, constants in SMALL.items():
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)


def between(draw: Random) -> Iterator[Filter]:
    """Filters whose constants lie each between the two before, so that labels run out of room."""
    while True:
        low, high = float(draw.randrange(100)), float(draw.randrange(100, 200))
        for _ in range(40):
            middle = (low + high) / 2
            yield all_of(some("price", at_most(middle)), some("symbol", one_of([f"s{draw.randrange(9)}", "a"])))
            low, high = (middle, high) if draw.random() < 0.8 else (low, middle)


def wide(draw: Random) -> Filter:
    names = draw.sample(["price", "volume", "x1", "x2", "x3"], 3)
    return all_of(*(some(name, interval(draw.uniform(0, 20), draw.uniform(60, 200))) for name in names))


def aspects(draw: Random) -> Filter:
    return all_of(some("symbol", holds_text(f"t{draw.randrange(40)}")), some(f"y{draw.randrange(50)}", at_most(3)))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("small")
def test_whatever_happens_while_an_index_is_made_anew_it_finds_what_the_naive_matcher_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    go_on = GrowingMaps.go_on
    monkeypatch.setattr(GrowingMaps, "go_on", lambda *rest: copied.append(go_on(*rest)))
    draw = Random(f"again {seed}")
    kinds: list[Callable[[], Filter]] = [
        between(draw).__next__,
        lambda: wide(draw),
        lambda: aspects(draw),
        lambda: random_filter(draw),
    ]
    index, naive = IndexMatcher(), NaiveMatcher()
    alive: list[int] = []
    begun = apart = under_way = 0
    for number in range(1_500):
        grows = number // 250 % 2 == 0
        if draw.random() < (0.8 if grows else 0.3):
            filter = draw.choice(kinds)()
            for each in (index, naive):
                each.add(number, filter)
            alive.append(number)
        before = index._renewal
        while alive and draw.random() < (0.15 if grows else 0.6):
            gone = alive.pop(draw.randrange(len(alive)))
            for each in (index, naive):
                each.remove(gone)
        if alive and draw.random() < 0.1:
            changed, filter = draw.choice(alive), draw.choice(kinds)()
            for each in (index, naive):
                each.replace(changed, filter)
        if draw.random() < 0.5:
            more = {"price": draw.uniform(0, 200), "x1": draw.uniform(0, 200), "y1": 2, "symbol": f"at{number % 40}b"}
            one = event(random_attributes(draw) | (more if draw.random() < 0.7 else {}))
            found = index.match(one)
            assert (len(found), set(found)) == (len(set(found)), set(naive.match(one))), number
        begun += isinstance(index._renewal, Rebuilding) and index._renewal is not before
        under_way += isinstance(index._renewal, Rebuilding)
        apart += index._newcomers is not None
        assert len(index) == len(naive)
        assert all(id in index for id in alive)
    assert begun >= 2
    assert under_way >= 100
    assert apart >= 20
    assert sum(copied) > 0
    index.prepare()
    assert index._newcomers is None
    events = [event(random_attributes(draw) | {"x1": 70, "price": 100.0}) for _ in range(50)]
    assert [set(index.match(one)) for one in events] == [set(naive.match(one)) for one in events]


class Work:
    """How many rows and nodes any kernel went through since this was last asked: the most that one of them did."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._done: dict[str, int] = {}
        for name in ("keep_rows", "keep_nodes", "note_uses", "copy_kept", "move_labels"):
            self._watch(patch, rewriting, name, 0)
        for name in ("_count_uses", "_weigh", "_choose_access", "_fill"):
            self._watch(patch, Layout, name, 1)

    def _watch(self, patch: pytest.MonkeyPatch, owner: Any, name: str, at: int) -> None:
        function = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            self._done[name] = self._done.get(name, 0) + arguments[at + 1] - arguments[at]
            return function(*arguments)

        patch.setattr(owner, name, watched)

    def most(self) -> int:
        found, self._done = max(self._done.values(), default=0), {}
        return found


@pytest.mark.parametrize("cause", ["no room", "the dead"])
def test_no_step_goes_through_more_rows_than_make_a_piece(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLAIN_FACTOR": 1, "PIECE_ROWS": 300, "PIECE_RECORDS": 300, "AT_ONCE_MAX": 300}.items():
        monkeypatch.setattr(layout, name, value)
    work, count = Work(monkeypatch), 6_000
    index = IndexMatcher()
    index.add_many((n, parse(f"kind = 'k{n % 50}' AND n > {n} AND n < {n + 3}")) for n in range(count))
    index.prepare()
    one = event({"kind": "k7", "n": 1_008})
    before, steps = index._layout, []
    work.most()
    if cause == "no room":
        numbers = iter(range(count, count + 40))
        for place, number in enumerate(numbers):
            index.add(number, parse(f"n < {3_000 + 2.0**-place!r} AND kind = 'k7'"))
            steps.append(work.most())
    else:
        for number in range(1_100, count):
            index.remove(number)
            steps.append(work.most())
    for _ in range(500):
        assert 1_007 in index.match(one)
        steps.append(work.most())
    assert index._layout is not before
    assert index._renewal is None
    words_of_row = 9
    assert max(steps) <= 300 * rebuilding.WORDS_OF_ROW / words_of_row + 64


def test_a_subscription_that_lacks_room_is_matched_at_once_and_may_end_or_change_before_there_is_some(
    small: None,
) -> None:
    index, naive = IndexMatcher(), NaiveMatcher()
    for each in (index, naive):
        each.add_many((n, parse(f"n > {n}")) for n in range(300))
    index.prepare()
    one = event({"n": 100.000001})
    for place in range(200):
        filter = parse(f"n < {100 + 2.0 ** -(place % 45)!r} AND n > 5")
        for each in (index, naive):
            each.add(f"new {place}", filter)
            if place % 3 == 0:
                each.match(one)
            if place % 5 == 4:
                each.remove(f"new {place - 3}")
            if place % 7 == 6:
                each.replace(f"new {place}", parse("n > 3"))
            if place % 11 == 10:
                each.add(f"new {place - place % 5 + 1 if place % 5 == 4 else ('again', place)}", filter)
        assert len(index) == len(naive)
        assert set(index.match(one)) == set(naive.match(one))
    index.prepare()
    assert set(index.match(one)) == set(naive.match(one))


def test_numbers_of_subscriptions_and_slots_are_given_again(small: None) -> None:
    index = IndexMatcher()
    for number in range(3_000):
        index.add(number, parse(f"a{number} > 1 AND kind = 'k{number}'"))
        if number >= 20:
            index.remove(number - 20)
        if number % 3 == 0:
            index.match(event({"kind": f"k{number}", f"a{number}": 2}))
    assert len(index._ids) < 600
    assert len(index._compiler.slots) < 600
    assert index.match(event({"kind": "k2999", "a2999": 2})) == [2999]


def test_many_that_have_no_room_wait_although_room_is_made_between_two_of_them(small: None) -> None:
    index, naive = IndexMatcher(), NaiveMatcher()
    for first in range(0, 300, 5):
        some_more = [(n, parse(f"n > {1 - 2.0**-n!r} AND n < {2 + 2.0**-n!r}")) for n in range(first, first + 5)]
        for each in (index, naive):
            each.add_many(some_more)
        one = event({"n": 1.5})
        assert set(index.match(one)) == set(naive.match(one))

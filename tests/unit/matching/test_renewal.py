"""The index is brought up to date in pieces: what one event or one subscription pays for is bounded."""

from random import Random
from typing import Any

import pytest

from godwit.broker.graph import GraphRouting
from godwit.broker.tree import TreeRouting
from godwit.filters.events import Event, event
from godwit.filters.language import parse
from godwit.matching import index_matcher, layout
from godwit.matching.index_matcher import SAMPLE, WAITING_ROWS, IndexMatcher
from godwit.matching.layout import AT_ONCE_MAX, PIECE_RECORDS, PIECE_ROWS, Layout
from godwit.matching.naive_matcher import NaiveMatcher
from tests.snapshots import restored
from tests.unit.filters.random_filters import random_attributes, random_filter

CAR = event({"kind": "parking", "n": 7})
MANY = 10_000


class Work:
    """How many rows were weighed and how many were placed since this was last asked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.weighed = self.placed = 0
        weigh, fill = Layout._weigh, Layout._fill

        def weighing(self_: Layout, first: int, last: int, *rest: Any) -> None:
            self.weighed += last - first
            weigh(self_, first, last, *rest)

        def filling(self_: Layout, first: int, last: int, *rest: Any) -> None:
            self.placed += last - first
            fill(self_, first, last, *rest)

        patch.setattr(Layout, "_weigh", weighing)
        patch.setattr(Layout, "_fill", filling)

    def done(self) -> tuple[int, int]:
        found, self.weighed, self.placed = (self.weighed, self.placed), 0, 0
        return found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_the_first_event_after_many_subscriptions_places_few_of_them(work: Work) -> None:
    index = IndexMatcher()
    for number in range(MANY):
        index.add(number, parse(f"kind = 'parking' AND n = {number * 7 % MANY}"))
        weighed, placed = work.done()
        assert weighed <= max(AT_ONCE_MAX, PIECE_ROWS) + WAITING_ROWS + 1
        assert placed <= max(AT_ONCE_MAX, PIECE_RECORDS) + WAITING_ROWS + 1
    assert index.match(CAR) == [1]
    assert max(work.done()) <= WAITING_ROWS + PIECE_ROWS < MANY


def test_a_large_index_learns_from_events_in_pieces(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PLAIN_FACTOR", 1)
    monkeypatch.setattr(layout, "PIECE_ROWS", 500)
    monkeypatch.setattr(layout, "PIECE_RECORDS", 500)
    index = IndexMatcher()
    index.add_many((number, parse(f"kind = 'parking' AND n = {number}")) for number in range(MANY))
    index.prepare()
    assert work.done() == (MANY, MANY)
    before = index._layout
    each = []
    while index._layout is before:
        assert index.match(CAR) == [7]
        each.append(work.done())
        assert len(each) < SAMPLE + 10 * MANY // 500
    assert max(map(max, each)) <= 500
    assert [sum(done) for done in zip(*each, strict=True)] == [MANY, MANY]
    assert len(index._layout.sample[0]) == SAMPLE + 1
    for _ in range(200):
        assert index.match(CAR) == [7]
    assert work.done() == (0, 0)


def test_many_subscriptions_that_are_prepared_leave_nothing_to_the_first_event(work: Work) -> None:
    index = IndexMatcher()
    index.add_many((number, parse(f"kind = 'parking' AND n = {number}")) for number in range(MANY))
    index.prepare()
    work.done()
    assert index.match(CAR) == [7]
    assert work.done() == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_events_between_two_pieces_find_what_the_naive_matcher_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = {
        "AT_ONCE_MAX": 40,
        "PIECE_ROWS": 60,
        "PIECE_RECORDS": 11,
        "PIECE_SLOTS": 2,
        "PLAIN_FACTOR": 1,
        "GROWTH": 2,
        "SPARE_ROWS": 4,
    }
    for name, few in fewer.items():
        monkeypatch.setattr(layout, name, few)
    monkeypatch.setattr(index_matcher, "WAITING_ROWS", 7)
    draw = Random(f"pieces {seed}")
    index, naive = IndexMatcher(), NaiveMatcher()
    alive: list[int] = []
    renewals = between = 0
    for number in range(700):
        choice = draw.random()
        if choice < 0.75:
            filter = random_filter(draw)
            for each in (index, naive):
                each.add(number, filter)
            alive.append(number)
        elif alive and choice < 0.85:
            gone = alive.pop(draw.randrange(len(alive)))
            for each in (index, naive):
                each.remove(gone)
        before = index._renewal
        if draw.random() < 0.4:
            one = event(random_attributes(draw))
            assert set(index.match(one)) == set(naive.match(one)), number
        between += before is not None
        renewals += before is not None and index._renewal is not before
    assert renewals >= 1
    assert between >= 20


@pytest.mark.parametrize("family", [TreeRouting, GraphRouting])
def test_a_broker_that_was_restored_has_placed_its_subscriptions_before_the_first_event(
    family: Any, work: Work
) -> None:
    routing = family("b", ()) if family is TreeRouting else family("b")
    for number in range(300):
        routing.subscribe(("c", f"{number}"), parse(f"n = {number}"), 0.0)
    work.done()
    again = restored(routing, family("b", ()) if family is TreeRouting else family("b"))
    assert work.done() == (300, 300)
    again.publish(Event({"n": 7}, "p", 1), 0.0)
    assert work.done() == (0, 0)

"""A table of buckets that grows in pieces holds what one that grew at once holds, and no placing pays for all of it."""

from random import Random

import numpy as np
import pytest

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.matching.growing_table import EMPTY_BUCKET, GrowingTable
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.kernels import bucket_made, bucket_of
from godwit.matching.naive_matcher import NaiveMatcher

NO_TESTS = np.zeros(0, dtype=np.int32)
NO_BOUNDS = np.zeros((0, 255), dtype=np.int32)
RANGE_WORD = 1  # a range on slot 1


def empty(length: int) -> np.ndarray:
    table = np.zeros((length + 1, 4), dtype=np.int64)
    table[:] = EMPTY_BUCKET
    return table


def equalities(labels: list[int]) -> np.ndarray:
    """Equalities of slot 1, one test of three words each."""
    return np.array([word for label in labels for word in (RANGE_WORD, label, label)], dtype=np.int32)


@pytest.mark.parametrize("seed", range(6))
def test_a_table_that_grows_in_pieces_holds_every_bucket_as_it_is_at_the_end(seed: int) -> None:
    draw = Random(f"table {seed}")
    length = draw.choice([256, 1_024])
    table, uses, counts = empty(length), np.zeros(length + 1, dtype=np.int32), np.zeros(8, dtype=np.int64)
    bin_rows = np.full(2, -1, dtype=np.int32)

    def place(labels: list[int]) -> int:
        before = int(counts[0])
        for label in labels:
            at = bucket_made(1 << 32 | label, table, counts)
            table[at, 1:] += draw.randrange(1, 9)
            uses[at] += 1
        table[-1, 1:] += 1
        return int(counts[0]) - before

    while not GrowingTable.is_time(table, int(counts[0])):
        place([draw.randrange(10_000)])
    growing = GrowingTable(table, uses, int(counts[0]))
    steps, room = [], length // 2 - int(counts[0])
    while not growing.is_ready and counts[0] < length // 2 - 8:
        labels = [draw.randrange(10_000) for _ in range(draw.randrange(1, 8))]
        came = place(labels)
        tests = equalities(labels)
        rows = np.array([[0, len(labels), 0, 0]], dtype=np.int32)
        growing.follow(0, 1, rows, tests, bin_rows, NO_BOUNDS)
        steps.append((growing.go_on(came), came))
    new, new_uses = growing.finish()
    known = [int(code) for code in table[:-1, 0] if code >= 0]
    assert len(known) == counts[0]
    assert np.count_nonzero(new[:-1, 0] >= 0) == len(known)
    for code in known:
        old_at, at = bucket_of(code, table), bucket_of(code, new)
        assert new[at].tolist() == table[old_at].tolist()
        assert new_uses[at] == uses[old_at]
    assert new[-1].tolist() == table[-1].tolist()
    assert all(took <= max(256, 4 * length * came // room + 1) for took, came in steps)


@pytest.mark.parametrize("seed", range(3))
def test_an_index_whose_table_grows_finds_what_the_naive_matcher_finds(seed: int) -> None:
    draw = Random(f"growing {seed}")
    index, naive = IndexMatcher(), NaiveMatcher()
    lengths, seen_growing = set(), 0
    for number in range(900):
        kind = draw.randrange(4)
        low = draw.randrange(500)
        text = (
            f"x = {number} AND y = {low}",
            f"x IN ({number}, {low}, {low + 1}) AND z > {low}",
            f"z BETWEEN {low} AND {low + draw.choice([1, 3, 40])} AND y = {number}",
            f"y = {number % 50}",
        )[kind]
        for each in (index, naive):
            each.add(number, parse(text))
        if number % 9 == 0:
            x, y, z = draw.randrange(number + 1), draw.randrange(500), draw.randrange(540)
            said = event({"x": x, "y": draw.choice([x, y]), "z": z})
            assert set(index.match(said)) == set(naive.match(said))
            lengths.add(len(index._layout.table))
            seen_growing += index._layout._growing_table is not None
    assert len(lengths) > 2
    assert seen_growing > 5


def test_no_placing_grows_a_table_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index, steps = IndexMatcher(), [0]
    work = GrowingTable._work

    def counting(self: GrowingTable, most: int) -> int:
        took = work(self, most)
        steps.append(took)
        return took

    monkeypatch.setattr(GrowingTable, "_work", counting)
    lengths = {len(index._layout.table)}
    for number in range(3_000):
        index.add(number, parse(f"x = {number} AND y = {-number}"))
        index.match(event({"x": number}))
        lengths.add(len(index._layout.table))
    assert max(lengths) > 4_096
    assert 8 * max(steps) <= max(lengths)

"""Calls every kernel of the index, and holds what comes of it against the naive matcher.

`python -m tests.unit.matching.every_kernel`: with Numba, all kernels are compiled and on the disk after it. The parts
`single` (events one by one), `batches` and `texts` can be run beside each other.
"""

import sys
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import parse
from godwit.matching import counting, kernels, masks
from godwit.matching.index_matcher import TALLIED_FROM, IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.matching.substrings import FRESH_PATTERNS_MAX
from godwit.matching.warm_up import warm_up
from tests.unit.filters.random_filters import columns_of, literal, random_attributes, random_filter

ROWS = masks.EVENTS // 2 + 9


def pair(filters: Iterable[Filter]) -> tuple[IndexMatcher, NaiveMatcher]:
    index, naive, filters = IndexMatcher(), NaiveMatcher(), list(filters)
    index.add_many(enumerate(filters))
    naive.add_many(enumerate(filters))
    return index, naive


def check_single(index: IndexMatcher, naive: NaiveMatcher, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert set(index.match(event(row))) == set(naive.match(event(row)))


def check_batch(index: IndexMatcher, naive: NaiveMatcher, rows: list[dict[str, Any]], by_masks: bool) -> None:
    found = index.match_batch(columns_of(rows))
    assert [set(ids) for ids in found] == [set(naive.match(event(row))) for row in rows]
    assert index._turns_round(len(rows)) == (by_masks and kernels.COMPILED)


def changed_index(draw: Random, rows: list[dict[str, Any]]) -> tuple[IndexMatcher, NaiveMatcher]:
    """An index that was laid out by a sample of events, and then changed."""
    index, naive = pair(random_filter(draw) for _ in range(250))
    check_single(index, naive, rows[:70])  # past the sample, by which it is laid out again
    for n in range(0, 250, 5):
        index.remove(n)
        naive.remove(n)
    for n in range(60):
        filter = random_filter(draw)
        for each in (index, naive):
            each.replace(5 * n + 1, filter) if 5 * n + 1 < 250 else each.add(("new", n), filter)
        index.match(event(rows[n]))
    return index, naive


def single() -> None:
    """Events one by one."""
    warm_up()
    draw = Random(1)
    rows = [random_attributes(draw) for _ in range(ROWS)]
    index, naive = changed_index(draw, rows)
    index._compact()
    check_single(index, naive, rows[:20])


def batches() -> None:
    """Many events at once, matched by rows and by masks, and counted."""
    draw = Random(1)
    rows = [random_attributes(draw) for _ in range(ROWS)]
    check_batch(*changed_index(draw, rows), rows, by_masks=False)
    shared = [literal(draw) for _ in range(20)]
    check_batch(*pair(all_of(*draw.sample(shared, 2)) for _ in range(200)), rows, by_masks=True)
    index, naive = pair(parse(f"a = 'x{n % 3}' AND b = 'y{n % 2}' AND c IS NULL AND d > {n}") for n in range(30))
    rows = [{"a": f"x{n % 4}", "b": f"y{n % 3}", "d": n} for n in range(TALLIED_FROM)]
    few = index.count_batch(columns_of(rows[: TALLIED_FROM // 2])).tolist()
    counts = index.count_batch(columns_of(rows))
    assert few == counts[: len(few)].tolist()
    assert (index._tallies is not None and index._tallies.worth) == kernels.COMPILED
    assert counts.tolist() == [len(naive.match(event(row))) for row in rows]
    expand_all()


def texts() -> None:
    """Texts that are searched for many patterns, one by one and in a batch."""
    index, naive = pair(parse(f"note LIKE '%w{n}x%'") for n in range(2 * FRESH_PATTERNS_MAX))
    rows = [{"note": f"w{n}x w{n + 1}x"} for n in range(9)]
    check_single(index, naive, rows)
    check_batch(index, naive, rows, by_masks=False)


def expand_all() -> None:
    """Numbers that stand for several subscriptions."""
    numbers, starts, weights = np.array([1, 0], np.int32), np.array([0, 2]), np.array([2, 1])
    offsets, members = np.zeros(2, np.int64), np.empty(3, np.int32)
    counting.count_expanded(numbers, starts, weights, offsets)
    counting.expand(numbers, np.array([0, 2, 3]), members)
    assert (offsets.tolist(), members.tolist()) == ([0, 3], [2, 0, 1])


PARTS = {"single": single, "batches": batches, "texts": texts}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    print("agreed, compiled" if kernels.COMPILED else "agreed, with NumPy")

"""The keys of rows that are tallied: each slot in a row has one test."""

import numpy as np
import pytest

from godwit.matching.match_counter import EQUALITIES_MAX, NO_SLOT, read_keys, up_to


@pytest.mark.parametrize(
    ("tests", "is_good"),
    [
        ([(1, 5, 5), (2, 6, 6)], True),
        ([(1, 5, 5), (1, 6, 6)], False),  # x = 5 AND x = 6: an event with both values matches it
        ([(2, 5, 5), (1, 4, 4), (2, 6, 6)], False),
        ([(1, 5, 5), (1, 4, 9)], False),
        ([(2, 5, 5), (1, 4, 9)], True),
    ],
)
def test_a_row_with_two_tests_of_one_slot_is_not_tallied(tests: list[tuple[int, int, int]], is_good: bool) -> None:
    rows = np.array([[0, len(tests), 0, 0]], dtype=np.int32)
    keys = np.full((1, 2 * EQUALITIES_MAX + 1), NO_SLOT, dtype=np.int64)
    bounds, good = np.zeros((1, 2), dtype=np.int32), np.zeros(1, dtype=np.bool_)
    flat = np.array(tests, dtype=np.int32).ravel()
    stamps, often = np.ones(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    read_keys(rows, flat, stamps, often, keys, bounds, good)
    assert bool(good[0]) == is_good


@pytest.mark.parametrize(
    ("label", "strictly", "place"),
    [(9, False, 3), (9, True, 3), (3, False, 2), (3, True, 1), (4, False, 2), (0, False, 1)],
)
def test_bounds_up_to_a_label_are_counted_within_their_part(label: int, strictly: bool, place: int) -> None:
    bounds = np.array([7, 3, 5, 8], dtype=np.int32)  # of which 3 and 5 are asked for
    assert up_to(bounds, 1, 3, label, strictly) == place

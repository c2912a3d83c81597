"""Masks over batches of events: equal tests of rows and nodes are numbered once."""

import numpy as np

from godwit.matching.kernels import KIND_SHIFT, MEMBER
from godwit.matching.masks import number_tests

SLOT = 3


def numbered(tests: list[int], room: int) -> tuple[int, list[int]]:
    """How many different tests three-word tests have, and the number of each; they are in one row and one node."""
    count = 6
    rows = np.array([[0, 4]], dtype=np.int32)
    nodes = np.array([[12, count - 4]], dtype=np.int32)
    numbers = np.full(count, -1, dtype=np.int32)
    distinct = np.zeros((room, 3), dtype=np.int32)
    table = np.full(16, -1, dtype=np.int32)
    return int(number_tests(rows, nodes, np.array(tests, dtype=np.int32), numbers, distinct, table)), numbers.tolist()


RANGE = [SLOT, 1, 9]
OTHER = [SLOT, 1, 8]
FIRST, SECOND = 18, 21  # where lists of labels lie, behind six tests
LIST = [SLOT | MEMBER << KIND_SHIFT, FIRST, 3]
SAME_LIST = [SLOT | MEMBER << KIND_SHIFT, SECOND, 3]
TESTS = [*RANGE, *OTHER, *RANGE, *LIST, *RANGE, *SAME_LIST, *(4, 5, 6), *(4, 5, 6)]


def test_equal_tests_have_one_number_the_first_of_them_too() -> None:
    assert numbered(TESTS, 6) == (3, [0, 1, 0, 2, 0, 2])


def test_as_many_tests_as_there_is_room_for_are_numbered_and_no_more() -> None:
    assert numbered(TESTS, 3)[0] == 3
    assert numbered(TESTS, 2)[0] == -1


def test_lists_of_other_labels_are_other_tests() -> None:
    assert numbered([*TESTS[:-3], 4, 5, 7], 6) == (4, [0, 1, 0, 2, 0, 3])

"""Masks over batches of events: equal tests are numbered once, labels are spread by slot, each test has its mask."""

import numpy as np

from godwit.matching.kernels import ABSENT, FIRST_MULTI, KIND_SHIFT, MEMBER, NODE, OP_OR
from godwit.matching.masks import EVENTS, WORDS, evaluate, number_tests, spread

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


def test_labels_of_a_block_are_spread_by_slot_and_events_with_several_values_are_marked() -> None:
    codes = np.array([0 << 32 | 5, 0 << 32 | 6, 2 << 32 | 7, 1 << 32 | 8], dtype=np.int64)
    x, several = np.zeros((3, EVENTS), dtype=np.int32), np.ones(WORDS, dtype=np.uint64)
    starts = np.array([0, 1, 3, 4], dtype=np.int64)  # of three events; the last two are the block
    multi_starts, multi_slots = np.array([0, 0, 2, 3], dtype=np.int64), np.array([1, 1, 0], dtype=np.int64)
    spread(1, 3, starts, codes, multi_starts, multi_slots, x, several)
    assert x[:, 0].tolist() == [6, -FIRST_MULTI - 1, 7]
    assert x[:, 1].tolist() == [-FIRST_MULTI - 2, 8, ABSENT]
    assert (x[:, 2:] == ABSENT).all()
    assert several.tolist() == [0b11, *[0] * (WORDS - 1)]


def test_the_masks_of_ranges_make_the_mask_of_a_node_over_them() -> None:
    node = [0 | NODE << KIND_SHIFT, 0, 0]
    distinct = np.array([[SLOT, 1, 5], [SLOT, 4, 9], node], dtype=np.int32)
    nodes, node_starts = np.array([[0, 2, OP_OR]], dtype=np.int32), np.array([0, 2], dtype=np.int32)
    x = np.full((SLOT + 1, EVENTS), ABSENT, dtype=np.int32)
    x[SLOT, :4] = 0, 4, 9, 3
    masks, node_masks = np.zeros((3, WORDS), dtype=np.uint64), np.zeros((1, WORDS), dtype=np.uint64)
    numbers, none = np.array([0, 1], dtype=np.int32), np.zeros(0, dtype=np.int32)
    several = np.zeros(WORDS, dtype=np.uint64)
    evaluate(4, distinct, nodes, node_starts, numbers, none, x, several, none, none, masks, node_masks)
    assert masks[:, 0].tolist() == [0b1010, 0b0110, 0b1110]

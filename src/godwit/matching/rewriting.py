"""Kernels that go through all tests of a layout: labels move, and the dead are left out. Compiled like `kernels.py`.

Constants are numbered through all slots: those of slot s are `starts[s]` to `starts[s + 1]`, their labels in `old`,
sorted. A test has the label of a constant, or one above or below it (`labels.py`). Functions that take `source` work on
rows and on nodes: both begin with where their tests start and how many they are.
"""

import numpy as np

from godwit.matching.kernels import KIND_MASK, KIND_SHIFT, MEMBER, NO_MEMBER, NODE, SLOT_MASK, compiled


@compiled
def constant_of(label, slot, starts, old):
    """The number of the last constant of a slot that is not above a label, or -1."""
    low, high = starts[slot], starts[slot + 1]
    while low < high:
        middle = (low + high) >> 1
        if old[middle] <= label:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > starts[slot] else np.int64(-1)


@compiled
def constant_near(label, slot, starts, old):
    """The number of the constant whose label a test has, or one above or below it; -1 when it is none's."""
    found = constant_of(np.int64(label) + 1, slot, starts, old)
    return found if found >= 0 and np.int64(label) - 1 <= old[found] else np.int64(-1)


@compiled
def move_labels(first, last, source, tests, starts, old, new):
    """Rewrite the labels in the tests of first..last after some slots gave their constants new ones."""
    for number in range(first, last):
        start = source[number, 0]
        for at in range(start, start + 3 * source[number, 1], 3):
            kind, slot = (tests[at] & KIND_MASK) >> KIND_SHIFT, tests[at] & SLOT_MASK
            if kind == NODE or starts[slot] == starts[slot + 1]:
                continue
            begin, end = at + 1, at + 3
            if kind == MEMBER or kind == NO_MEMBER:
                begin, end = tests[at + 1], tests[at + 1] + tests[at + 2]
            for place in range(begin, end):
                found = constant_near(tests[place], slot, starts, old)
                if found >= 0:
                    tests[place] = new[found] + (tests[place] - old[found])


@compiled
def keep_rows(first, last, rows, stamps, dead, tests, kept, nodes_kept):
    """Note which of the rows first..last are kept: those of living subscriptions. Mark the nodes that they ask for."""
    for number in range(first, last):
        kept[number] = stamps[rows[number, 2]] != dead
        if kept[number]:
            _mark_nodes(rows[number, 0], rows[number, 1], tests, nodes_kept)


@compiled
def keep_nodes(first, last, nodes, tests, nodes_kept):
    """Mark the nodes that kept ones of first..last ask for, the last first: a node comes after its children."""
    for node in range(last - 1, first - 1, -1):
        if nodes_kept[node]:
            _mark_nodes(nodes[node, 0], nodes[node, 1], tests, nodes_kept)


@compiled
def _mark_nodes(start, count, tests, nodes_kept):
    for at in range(start, start + 3 * count, 3):
        if (tests[at] & KIND_MASK) >> KIND_SHIFT == NODE:
            nodes_kept[tests[at] & SLOT_MASK] = True


@compiled
def note_uses(first, last, source, kept, tests, starts, old, wanted, slots_used):
    """Mark the constants and slots that kept rows or nodes of first..last ask for."""
    for number in range(first, last):
        if not kept[number]:
            continue
        start = source[number, 0]
        for at in range(start, start + 3 * source[number, 1], 3):
            kind, slot = (tests[at] & KIND_MASK) >> KIND_SHIFT, tests[at] & SLOT_MASK
            if kind == NODE:
                continue
            slots_used[slot] = True
            if starts[slot] == starts[slot + 1]:
                continue
            begin, end = at + 1, at + 3
            if kind == MEMBER or kind == NO_MEMBER:
                begin, end = tests[at + 1], tests[at + 1] + tests[at + 2]
            for place in range(begin, end):
                found = constant_near(tests[place], slot, starts, old)
                if found >= 0:
                    wanted[found] = True


@compiled
def copy_kept(first, last, source, kept, numbers, nodes_numbers, tests, starts, old, new, target, to, ends):
    """Copy kept rows or nodes of first..last with their tests and lists, and give labels and nodes their new numbers.

    `numbers` has the new number of each, or -1. ends: 0 words of tests, 1 rows or nodes.
    """
    for number in range(first, last):
        numbers[number] = -1
        if not kept[number]:
            continue
        start, count, begin, end = source[number, 0], source[number, 1], ends[0], ends[0] + 3 * source[number, 1]
        for column in range(source.shape[1]):
            target[ends[1], column] = source[number, column]
        target[ends[1], 0] = begin
        numbers[number] = ends[1]
        ends[1] += 1
        for place in range(count):
            at, word = begin + 3 * place, tests[start + 3 * place]
            a, b = tests[start + 3 * place + 1], tests[start + 3 * place + 2]
            kind, slot = (word & KIND_MASK) >> KIND_SHIFT, word & SLOT_MASK
            to[at], to[at + 1], to[at + 2] = word, a, b
            if kind == NODE:
                to[at] = (word & ~SLOT_MASK) | nodes_numbers[slot]
            elif kind == MEMBER or kind == NO_MEMBER:
                for member in range(b):
                    to[end + member] = moved(tests[a + member], slot, starts, old, new)
                to[at + 1] = end
                end += b
            elif starts[slot] < starts[slot + 1]:
                to[at + 1], to[at + 2] = moved(a, slot, starts, old, new), moved(b, slot, starts, old, new)
        ends[0] = end


@compiled
def moved(label, slot, starts, old, new):
    """What the label in a test becomes."""
    found = constant_near(label, slot, starts, old)
    return np.int64(label) if found < 0 else np.int64(new[found]) + label - old[found]


@compiled
def move_codes(codes, starts, old, new, lows):
    """Rewrite the labels of values: beside a constant, or at the beginning of a stretch, of which all are in `lows`."""
    for place in range(len(codes)):
        slot, label = codes[place] >> 32, codes[place] & 0xFFFFFFFF
        found = constant_of(label, slot, starts, old)
        is_low = False
        for low in lows:
            is_low |= label == low
        if found >= 0 and not is_low:
            codes[place] = slot << 32 | (np.int64(new[found]) + min(1, label - old[found]))

"""What the kernels of the index share: its words, tests and buckets, compiled by Numba or run as plain Python.

*Theory.* An event is an array of codes `slot << 32 | label`. They are written into `x`, one int32 per slot, and every
test of every subscription is then a look into `x`: a range, its outside, or a short sorted list of labels. `x` holds
`ABSENT` for an attribute the event has not, and `-FIRST_MULTI - k` for one that has several values, which are row k of
the multi table.

A conjunction's tests lie in one row. A bucket is found by an equality (a code) or by a bin of a range, so an event
touches only candidates; it holds a *record* for each of them, half a line of memory or a whole one, with the row's
number and sketches of its lightest tests. A sketch is decided by one subtraction from the slot's *hull*, the lowest and
the highest label of the event there, and for a range and a single value it is exact. So a bucket is read as one stream,
without a branch that depends on what is read; only of what survives are the row's other tests looked at, and of events
with several values all. What has no selective test is kept in bitmaps: for each bin of each attribute the set of
conjunctions that this bin does not rule out, and beside it the set of those that it is sure to let pass; an event ANDs
one row of either per attribute. What is left of the first is verified, unless it is left of the second too.
"""

import os
from typing import Any

import numpy as np

from godwit.matching import kernel_cache
from godwit.matching.kernel_cache import CACHE

COMPILED = kernel_cache.COMPILED and not kernel_cache.is_postponed()
POSTPONED: list[tuple[Any, dict[str, Any]]] = []
"""Functions that are to be compiled later, each with Numba's options."""


def compiler(**options: Any) -> Any:
    """Numba's decorator, or one that leaves a function as it is, and notes it if it is to be compiled later."""

    def leave(function: Any) -> Any:
        if kernel_cache.is_postponed():
            POSTPONED.append((function, options))
        return function

    return numba_decorator(**options) if COMPILED else leave


def numba_decorator(**options: Any) -> Any:
    """Numba's decorator, with the folder for what it compiles."""
    if CACHE is not None and CACHE.name != "__pycache__":
        os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHE))  # Numba reads it when it is imported
    from numba import njit

    return njit(**options)


compiled: Any = compiler(cache=True, nogil=True, boundscheck=False)
inlined: Any = compiler(inline="always", boundscheck=False)  # for what the loops do for every single test

ABSENT = -1
FIRST_MULTI = 16

# A test is (word, a, b); word = slot | kind << KIND_SHIFT | ONLY.
KIND_SHIFT = 24
SLOT_MASK = (1 << KIND_SHIFT) - 1
RANGE, OUTSIDE, MEMBER, NO_MEMBER, NODE = 0, 1, 2, 3, 4
KIND_MASK = 7 << KIND_SHIFT
ONLY = 8 << KIND_SHIFT

MARK_SHIFT = 24
COUNT_MASK = (1 << MARK_SHIFT) - 1
RESIDUAL_ALWAYS = 1 << 24  # in an entry's second word: what passes here must still pass an exact test
RESIDUAL_MULTI = 1 << 25  # the same, but only for an event with an attribute of several values

NODE_UNKNOWN, NODE_FALSE, NODE_TRUE = 0, 1, 2
OP_OR, OP_AND = 0, 1

DEAD = np.int32((1 << 31) - 1)  # the stamp of a subscription that is gone: always "seen already"

BINS = 256
LEVELS = 3  # of bins for range access: single bins, four of them, sixteen of them
# A column of the bitmaps has a row per group of bins, then one for an absent attribute, then one for several values.
CHUNK = 256  # words of a bitmap done at a time: they stay in the nearest cache
SCAN = 1_024  # records of a bucket looked at before what is left of them is verified
BIN_LABEL = 16  # labels from here to 16 + LEVELS * BINS never belong to a value: they name bins in the table

# A record is one line of memory or half of one: word 0 is row | what to verify << 31 | three slots of 10 bits << 34,
# words 1 to 3 are sketches of tests on those slots; a wide record has such a half more, whose row means nothing.
# What to verify: so many of the row's first tests, or VERIFY_ALL; all others are implied by bucket and sketches.
SKETCHES = 3  # in half a record
NARROW, WIDE = 4, 8
ROW_MASK = np.uint64((1 << 31) - 1)
VERIFY_SHIFT, VERIFY_ALL = 31, 7
KEPT_MASK = np.uint64((1 << 34) - 1)
SKETCH_SLOTS = 1 << 10  # tests on slots beyond are not sketched
SLOT_BITS = np.uint64(SKETCH_SLOTS - 1)
SLOT_1, SLOT_2, SLOT_3 = np.uint64(34), np.uint64(44), np.uint64(54)
# A sketch is a << 32 | LABEL_LAST - b. Subtracted from what `hulls` holds for the slot, guard | highest label << 32 |
# guard | LABEL_LAST - lowest label, it leaves both guards if, and only if, the values reach into a..b.
LABEL_LAST = (1 << 31) - 1
GUARDS = np.uint64(1 << 63 | 1 << 31)
HULL_ABSENT = np.uint64(LABEL_LAST << 32 | 1 << 31 | LABEL_LAST)
HULL_ANYTHING = np.uint64((1 << 64) - 1)  # of slot 0: passes every sketch

ACCESS_ALWAYS, ACCESS_BITMAP = -1, -2
ACCESS_MEMBERS_MAX = 16
ACCESS_BINS_MAX = 6

# ---------------------------------------------------------------- the table from code to bucket: open addressing
#
# A row of the table is one bucket, 32 bytes, so that finding one costs one look into memory: its code, where its
# entries start, how many words they are, and how many there is room for. The row after the last is the bucket of what
# is always a candidate.

CODE, START, LENGTH, ROOM = 0, 1, 2, 3
NO_CODE = -1


@compiled
def hash_of(code):
    """Where to start looking for a code."""
    return np.int64((np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20))


def hash_plain(code):
    """The same without Numba, where an overflow would be worth a warning."""
    return np.int64((int(code) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 20)


if not COMPILED:
    hash_of = hash_plain


@compiled
def bucket_of(code, table):
    """The place of a code in the table, or -1."""
    mask = len(table) - 2
    at = hash_of(code) & mask
    while True:
        found = table[at, CODE]
        if found == code:
            return at
        if found == NO_CODE:
            return np.int64(-1)
        at = (at + 1) & mask


@compiled
def bucket_made(code, table, counts):
    """The place of a code in the table, put in if it is not there. The caller sees to it that there is room."""
    mask = len(table) - 2
    at = hash_of(code) & mask
    while table[at, CODE] != NO_CODE:
        if table[at, CODE] == code:
            return at
        at = (at + 1) & mask
    table[at, CODE] = code
    counts[0] += 1
    return at


@compiled
def bin_of(bounds, row, label):
    """The bin of a label: how many of the row's bounds are at or below it."""
    low, high = 0, bounds.shape[1]
    while low < high:
        middle = (low + high) >> 1
        if bounds[row, middle] <= label:
            low = middle + 1
        else:
            high = middle
    return low


# ---------------------------------------------------------------- tests


@compiled
def member(label, start, count, tests):
    """Whether a label is in the sorted list tests[start:start + count]."""
    low, high = start, start + count
    while high - low > 8:
        middle = (low + high) >> 1
        if tests[middle] <= label:
            low = middle
        else:
            high = middle
    for at in range(low, high):
        if tests[at] == label:
            return True
    return False


@inlined
def label_passes(kind, a, b, label, tests):
    """Whether one label passes a test other than a node."""
    if kind == RANGE:
        good = a <= label <= b
    elif kind == OUTSIDE:
        good = label >= 0 and (label < a or label > b)
    else:
        good = label >= 0 and member(label, a, b, tests) == (kind == MEMBER)
    return good


@compiled
def several_pass(word, a, b, label, tests, multi_starts, multi_labels):
    """Whether an attribute with several values passes a test: some of them must, or with ONLY all."""
    kind, row = word >> KIND_SHIFT & 7, -FIRST_MULTI - label
    only = word & ONLY != 0
    for at in range(multi_starts[row], multi_starts[row + 1]):
        if label_passes(kind, a, b, multi_labels[at], tests) != only:
            return not only
    return only


@compiled
def node_holds(node, x, tests, multi_starts, multi_labels, nodes, known, touched, counts):
    """The truth of a shared sub-formula: worked out when first asked for and remembered for this event.

    `touched` is both the list of nodes to forget afterwards (from its start) and the stack of nodes under way (from its
    end downwards), each with the place of the test it has come to: at a child that is not known yet the child goes
    first, and then the node goes on where it was.
    """
    bottom = len(touched)
    top = bottom - 2
    touched[top], touched[top + 1] = node, nodes[node, 0]
    while top < bottom:
        current, at = touched[top], touched[top + 1]
        last, is_or = nodes[current, 0] + 3 * nodes[current, 1], nodes[current, 2] == OP_OR
        holds, pending = not is_or, -1
        while at < last:
            word = tests[at]
            kind = word >> KIND_SHIFT & 7
            if kind == NODE:
                child = word & SLOT_MASK
                if known[child] == NODE_UNKNOWN:
                    pending = child
                    break
                good = known[child] == NODE_TRUE
            else:
                label = x[word & SLOT_MASK]
                if label <= -FIRST_MULTI:
                    good = several_pass(word, tests[at + 1], tests[at + 2], label, tests, multi_starts, multi_labels)
                else:
                    good = label_passes(kind, tests[at + 1], tests[at + 2], label, tests)
            if good == is_or:
                holds = is_or
                break
            at += 3
        if pending >= 0:
            touched[top + 1] = at
            top -= 2
            touched[top], touched[top + 1] = pending, nodes[pending, 0]
        else:
            known[current] = NODE_TRUE if holds else NODE_FALSE
            touched[counts[1]] = current
            counts[1] += 1
            top += 2
    return known[node] == NODE_TRUE


# ---------------------------------------------------------------- candidates


@compiled
def hull_of(low, high):
    """What `hulls` holds for values with the labels low..high."""
    return np.uint64(high) << np.uint64(32) | np.uint64(LABEL_LAST - low) | GUARDS


@compiled
def write_hulls(codes, hulls):
    """Write the labels of an event to `hulls`: of a slot with several values the lowest and the highest."""
    for code in codes:
        slot, label = code >> 32, code & 0xFFFFFFFF
        if 0 < slot < SKETCH_SLOTS:
            low, high = label, label
            if hulls[slot] != HULL_ABSENT:
                low = min(low, LABEL_LAST - np.int64(hulls[slot] & np.uint64(LABEL_LAST)))
                high = max(high, np.int64(hulls[slot] >> np.uint64(32) & np.uint64(LABEL_LAST)))
            hulls[slot] = hull_of(low, high)


@compiled
def candidates_in_buckets(codes, ranges, found, table, records, bin_rows, bounds, levels, counts):
    """Write to `ranges` the buckets that the codes lead to: by equality, and by bin.

    First all places to look at are worked out and touched, then they are looked at: so the processor fetches many lines
    of memory at once instead of waiting for each. What is read in touching is folded up and thrown away.
    """
    mask, asked, touch = len(table) - 2, found, 0
    for code in codes:
        slot = code >> 32
        if slot == 0:
            continue
        ranges[asked, 0] = code
        asked += 1
        touch ^= table[hash_of(code) & mask, CODE]
        used = levels[slot]
        if used:
            bin_number = bin_of(bounds, bin_rows[slot], code & 0xFFFFFFFF)
            for level in range(LEVELS):
                if used >> level & 1:
                    bin_code = (code & ~0xFFFFFFFF) | (BIN_LABEL + level * BINS + (bin_number >> 2 * level))
                    ranges[asked, 0] = bin_code
                    asked += 1
                    touch ^= table[hash_of(bin_code) & mask, CODE]
    for number in range(found, asked):
        at = bucket_of(ranges[number, 0], table)
        if at >= 0 and table[at, LENGTH] > 0:
            start, end = table[at, START], table[at, START] + table[at, LENGTH]
            ranges[found, 0] = start
            ranges[found, 1] = end
            touch ^= np.int64(records[start, 0] ^ records[end - 1, 0])
            found += 1
    counts[7] = touch
    return found


@compiled
def choose_rows(x, shift, map_slots, map_rows, bin_rows, bounds):
    """Which row of each column of the bitmaps an event selects."""
    for column in range(len(map_slots)):
        label = x[map_slots[column]]
        if label == ABSENT:
            map_rows[column] = BINS >> shift
        elif label < 0:
            map_rows[column] = (BINS >> shift) + 1
        else:
            map_rows[column] = bin_of(bounds, bin_rows[map_slots[column]], label) >> shift


@compiled
def forget(slot, x, hulls):
    """A slot without a value again."""
    x[slot] = ABSENT
    if 0 < slot < SKETCH_SLOTS:
        hulls[slot] = HULL_ABSENT


@compiled
def bit_number(bit):
    """Which bit of 64 is set.

    A binary search with masks, which LLVM turns into a count of trailing zeros or nearly so.
    """
    number = 0
    if bit & np.uint64(0xFFFFFFFF00000000):
        number += 32
    if bit & np.uint64(0xFFFF0000FFFF0000):
        number += 16
    if bit & np.uint64(0xFF00FF00FF00FF00):
        number += 8
    if bit & np.uint64(0xF0F0F0F0F0F0F0F0):
        number += 4
    if bit & np.uint64(0xCCCCCCCCCCCCCCCC):
        number += 2
    if bit & np.uint64(0xAAAAAAAAAAAAAAAA):
        number += 1
    return number

"""Matching in masks: 512 events are the bits of a mask, and every distinct test is evaluated once for all of them.

*Theory.* Where many subscriptions share few tests, as in SPEAR's workload [motion §3], going event by event asks the
same thing again and again. Here each distinct test gets a number and, for a block of events, a mask of those that pass
it; a conjunction is the AND of its tests' masks, a subscription the OR of its conjunctions, and what is left are the
matches. It pays when there are far fewer distinct tests than conjunctions: `Numbering.worth` says so.

*Profile.* Writing the matches down takes longer than finding them: they are counted per event first and then written to
their final place at once, as ids where ids are ints. Where a block has more than `MATCHES_MAX` they are written for
some of its events at a time: 160,000 filters that all match 512 events take 74 MiB and not 261, and no longer.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.matching.event_encoder import Batch
from godwit.matching.kernels import (
    ABSENT,
    DEAD,
    FIRST_MULTI,
    KIND_SHIFT,
    MEMBER,
    NO_MEMBER,
    NODE,
    OP_OR,
    RANGE,
    RESIDUAL_ALWAYS,
    SLOT_MASK,
    bit_number,
    compiled,
    label_passes,
    several_pass,
)
from godwit.matching.layout import Layout

WORDS = 8
EVENTS = 64 * WORDS
MATCHES_MAX = 1 << 24  # that are written at a time, unless a single event has more: those of a block may be 2 GB
SLOTS_MAX = 16_384  # of which the labels of a block, 2 KiB each, still fit somewhere
SHARED_AT_LEAST = 4  # conjunctions for each distinct test, on average


class Numbering:
    """The distinct tests of a layout, and the rows and nodes written with their numbers."""

    def __init__(self, layout: Layout) -> None:
        rows, nodes, tests = layout.rows[: layout.row_count], layout.nodes[: layout.node_count], layout.tests
        total = int(rows[:, 1].sum(dtype=np.int64) + nodes[:, 1].sum(dtype=np.int64))
        self.row_starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(rows[:, 1], out=self.row_starts[1:])
        self.node_starts = np.full(len(nodes) + 1, self.row_starts[-1])
        self.node_starts[1:] += np.cumsum(nodes[:, 1])
        self.numbers = np.zeros(total, dtype=np.int32)
        limit = max(1, len(rows) // SHARED_AT_LEAST)
        self.distinct = np.zeros((limit, 3), dtype=np.int32)
        table = np.full(1 << (4 * limit).bit_length(), -1, dtype=np.int32)
        count = number_tests(rows, nodes, tests, self.numbers, self.distinct, table)
        self.worth = bool(count >= 0)
        self.distinct = self.distinct[: max(0, count)]
        self.sorted = False


@compiled
def number_tests(rows, nodes, tests, numbers, distinct, table):
    """Give equal tests one number, in the order of rows and then nodes.

    Returns how many there are, or -1 when more than `distinct` holds.
    """
    count, position, mask = 0, 0, len(table) - 1
    for number in range(len(rows) + len(nodes)):
        if number < len(rows):
            start, length = rows[number, 0], rows[number, 1]
        else:
            start, length = nodes[number - len(rows), 0], nodes[number - len(rows), 1]
        for at in range(start, start + 3 * length, 3):
            word, a, b = tests[at], tests[at + 1], tests[at + 2]
            folded = np.int64(a)
            if word >> KIND_SHIFT & 7 in (MEMBER, NO_MEMBER):  # lists are equal if their labels are, wherever they lie
                folded = np.int64(0)
                for place in range(a, a + b):
                    folded = (folded * 31 + tests[place]) & 0xFFFFFFFF
            slot = (np.int64(word) * 0x1000193 ^ folded * 0x85EBCA ^ np.int64(b) * 0x27D4EB) & mask
            while table[slot] >= 0:
                known = table[slot]
                if distinct[known, 0] == word and distinct[known, 2] == b:
                    same = distinct[known, 1] == a
                    if not same and word >> KIND_SHIFT & 7 in (MEMBER, NO_MEMBER):
                        same = True
                        for place in range(b):
                            same &= tests[a + place] == tests[distinct[known, 1] + place]
                    if same:
                        break
                slot = (slot + 1) & mask
            if table[slot] < 0:
                if count == len(distinct):
                    return -1
                distinct[count, 0] = word
                distinct[count, 1] = a
                distinct[count, 2] = b
                table[slot] = count
                count += 1
            numbers[position] = table[slot]
            position += 1
    return count


@compiled
def spread(first, last, event_starts, codes, multi_event_starts, multi_slots, x, several):
    """Write the labels of events first..last into x[slot, event].

    `several` becomes the mask of events with several values.
    """
    x[:] = ABSENT
    several[:] = 0
    for event in range(first, last):
        place = event - first
        for at in range(event_starts[event], event_starts[event + 1]):
            x[codes[at] >> 32, place] = np.int32(codes[at] & 0xFFFFFFFF)
        for row in range(multi_event_starts[event], multi_event_starts[event + 1]):
            x[multi_slots[row], place] = np.int32(-FIRST_MULTI - row)
            several[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@compiled
def evaluate(
    count, distinct, nodes, node_starts, numbers, tests, x, several, multi_starts, multi_labels, masks, node_masks
):
    """The mask of every distinct test for `count` events. A node comes after its children."""
    for number in range(len(distinct)):
        word, a, b = distinct[number, 0], distinct[number, 1], distinct[number, 2]
        kind, slot = word >> KIND_SHIFT & 7, word & SLOT_MASK
        if kind == NODE:
            continue
        labels = x[slot]
        for i in range(WORDS):
            bits, last = np.uint64(0), min(64, count - 64 * i)
            if several[i] == 0 and kind == RANGE:
                for event in range(last):
                    label = labels[64 * i + event]
                    bits |= np.uint64((label >= a) & (label <= b)) << np.uint64(event)
            else:
                for event in range(last):
                    label = labels[64 * i + event]
                    if label <= -FIRST_MULTI:
                        good = several_pass(word, a, b, label, tests, multi_starts, multi_labels)
                    else:
                        good = label_passes(kind, a, b, label, tests)
                    bits |= np.uint64(good) << np.uint64(event)
            masks[number, i] = bits
    for node in range(len(nodes)):
        is_or = nodes[node, 2] == OP_OR
        node_masks[node] = np.uint64(0) if is_or else ~np.uint64(0)
        for position in range(node_starts[node], node_starts[node + 1]):
            word = distinct[numbers[position], 0]
            child = node_masks[word & SLOT_MASK] if word >> KIND_SHIFT & 7 == NODE else masks[numbers[position]]
            for i in range(WORDS):
                if is_or:
                    node_masks[node, i] |= child[i]
                else:
                    node_masks[node, i] &= child[i]
    for number in range(len(distinct)):
        if distinct[number, 0] >> KIND_SHIFT & 7 == NODE:
            masks[number] = node_masks[distinct[number, 0] & SLOT_MASK]


@compiled
def sort_numbers(row_starts, numbers, masks):
    """Put the tests of each row into the order of how few events of this block pass them."""
    passed = np.zeros(len(masks), dtype=np.int32)
    for number in range(len(masks)):
        for i in range(WORDS):
            bits = masks[number, i]
            while bits != 0:
                bits &= bits - np.uint64(1)
                passed[number] += 1
    for row in range(len(row_starts) - 1):
        for position in range(row_starts[row] + 1, row_starts[row + 1]):
            number, place = numbers[position], position
            while place > row_starts[row] and passed[numbers[place - 1]] > passed[number]:
                numbers[place] = numbers[place - 1]
                place -= 1
            numbers[place] = number


@compiled
def conjoin(
    count, rows, row_starts, numbers, masks, stamps, several, hits, hit_masks, per_event, doubt_rows, doubt_masks
):
    """AND the tests of every row and OR the rows of every subscription.

    Returns how many subscriptions and doubtful rows have events left.
    """
    found, doubted = 0, 0
    left, mine, everyone = np.zeros(WORDS, np.uint64), np.zeros(WORDS, np.uint64), np.zeros(WORDS, np.uint64)
    for event in range(count):
        everyone[event >> 6] |= np.uint64(1) << np.uint64(event & 63)
    for row in range(len(rows)):
        subscription = rows[row, 2]
        if stamps[subscription] == DEAD:
            continue
        some = np.uint64(1)
        for i in range(WORDS):
            left[i] = everyone[i]
        for position in range(row_starts[row], row_starts[row + 1]):
            mask = masks[numbers[position]]
            some = np.uint64(0)
            for i in range(WORDS):
                left[i] &= mask[i]
                some |= left[i]
            if some == 0:
                break
        if some != 0:
            if rows[row, 3]:
                some = np.uint64(0)
                for i in range(WORDS):
                    doubt_masks[doubted, i] = left[i] if rows[row, 3] & RESIDUAL_ALWAYS else left[i] & several[i]
                    some |= doubt_masks[doubted, i]
                    left[i] &= ~doubt_masks[doubted, i]
                if some != 0:
                    doubt_rows[doubted] = row
                    doubted += 1
            for i in range(WORDS):
                mine[i] |= left[i]
        if row + 1 < len(rows) and rows[row + 1, 2] == subscription:
            continue
        some = np.uint64(0)
        for i in range(WORDS):
            some |= mine[i]
        if some != 0:
            hits[found] = subscription
            for i in range(WORDS):
                hit_masks[found, i] = mine[i]
                bits = mine[i]
                while bits != 0:
                    low = bits & (~bits + np.uint64(1))
                    per_event[i * 64 + bit_number(low)] += 1
                    bits ^= low
                mine[i] = 0
            found += 1
    return found, doubted


@compiled
def write_down(hits, hit_masks, found, within, ids, places, out):
    """Write each match of the events in the mask `within` to its event's next place in `out`."""
    for hit in range(found):
        id = ids[hits[hit]]
        for i in range(WORDS):
            bits = hit_masks[hit, i] & within[i]
            while bits != 0:
                low = bits & (~bits + np.uint64(1))
                event = i * 64 + bit_number(low)
                out[places[event]] = id
                places[event] += 1
                bits ^= low


class Masks:
    """Matches a batch block by block. `block` yields the events, offsets, ids or numbers, and doubts of a block."""

    def __init__(self, layout: Layout, numbering: Numbering, slots: int) -> None:
        self.layout, self.numbering = layout, numbering
        self.x = np.zeros((slots, EVENTS), dtype=np.int32)
        self.several = np.zeros(WORDS, dtype=np.uint64)
        self.masks = np.zeros((len(numbering.distinct), WORDS), dtype=np.uint64)
        self.node_masks = np.zeros((layout.node_count, WORDS), dtype=np.uint64)
        self.hits = np.zeros(len(layout.stamps), dtype=np.int32)
        self.hit_masks = np.zeros((len(layout.stamps), WORDS), dtype=np.uint64)
        residual = int(layout.counts[5])
        self.doubt_rows = np.zeros(residual, dtype=np.int32)
        self.doubt_masks = np.zeros((residual, WORDS), dtype=np.uint64)

    def block(
        self, batch: Batch, first: int, last: int, ids: npt.NDArray[Any]
    ) -> Iterator[tuple[int, int, Any, Any, Any, Any]]:
        """The matches of events first..last: at once, or where they are very many, those of some events at a time.

        From which event of the block up to which; where each event's start, their ids, and the rows in doubt with their
        masks, which are those of the block.
        """
        lay, numbering = self.layout, self.numbering
        rows, nodes = lay.rows[: lay.row_count], lay.nodes[: lay.node_count]
        count = last - first
        spread(
            first,
            last,
            batch.event_starts,
            batch.codes,
            batch.multi_event_starts,
            batch.multi_slots,
            self.x,
            self.several,
        )
        evaluate(
            count, numbering.distinct, nodes, numbering.node_starts, numbering.numbers, lay.tests, self.x, self.several,
            batch.multi_starts, batch.multi_labels, self.masks, self.node_masks,
        )  # fmt: skip
        if not numbering.sorted:
            sort_numbers(numbering.row_starts, numbering.numbers, self.masks)
            numbering.sorted = True
        per_event = np.zeros(EVENTS, dtype=np.int64)
        found, doubted = conjoin(
            count, rows, numbering.row_starts, numbering.numbers, self.masks, lay.stamps, self.several, self.hits,
            self.hit_masks,
            per_event, self.doubt_rows, self.doubt_masks,
        )  # fmt: skip
        starts = np.zeros(EVENTS + 1, dtype=np.int64)
        np.cumsum(per_event, out=starts[1:])
        low = 0
        while low < count:
            high = max(low + 1, int(np.searchsorted(starts[: count + 1], starts[low] + MATCHES_MAX, side="right")) - 1)
            here = starts[low : high + 1] - starts[low]
            out = np.empty(int(here[-1]), dtype=ids.dtype)
            within = np.zeros(EVENTS, dtype=np.bool_)
            within[low:high] = True
            words = np.packbits(within, bitorder="little").view(np.uint64)
            write_down(self.hits, self.hit_masks, found, words, ids, starts[:-1] - starts[low], out)
            yield low, high, here, out, self.doubt_rows[:doubted], self.doubt_masks[:doubted]
            low = high

"""One event against the index, compiled by Numba. `numpy_kernels.py` does the same without it.

*Profile.* What costs is memory that is not near, and branches that cannot be foretold. A record takes 2 to 6 ns; a row
to verify takes 60, most of it to fetch it, so what will be read is touched ahead, many lines at once. Sketches by bins
(four bytes, three to a record) were no gain: too many rows had to be verified. Functions that take a dozen arrays cost
50 ns a call, so the loop over tests stands inline. A node worked out for every event costs 40 ns: only nodes that many
conjunctions ask for are worth that.
"""

import numpy as np

from godwit.matching.kernels import (
    CHUNK,
    FIRST_MULTI,
    GUARDS,
    KEPT_MASK,
    KIND_MASK,
    KIND_SHIFT,
    LABEL_LAST,
    LENGTH,
    NODE,
    NODE_FALSE,
    NODE_TRUE,
    NODE_UNKNOWN,
    RANGE,
    RESIDUAL_ALWAYS,
    RESIDUAL_MULTI,
    SCAN,
    SLOT_1,
    SLOT_2,
    SLOT_3,
    SLOT_BITS,
    SLOT_MASK,
    START,
    VERIFY_ALL,
    VERIFY_SHIFT,
    WIDE,
    bit_number,
    candidates_in_buckets,
    choose_rows,
    compiled,
    forget,
    label_passes,
    node_holds,
    several_pass,
    write_hulls,
)

__all__ = ["match_one"]


@compiled
def and_chunk(first, last, alive, sure, maps, sure_maps, node_maps, map_rows, node_false):
    """AND the words first..last of the selected rows into `alive` (not ruled out) and `sure` (needs no test).

    Whether any is left.
    """
    count = last - first
    start, start_sure = maps[maps.shape[0] - 1, 0, first:last], sure_maps[maps.shape[0] - 1, 0, first:last]
    for word in range(count):
        alive[word] = start[word]
        sure[word] = start_sure[word]
    left = np.uint64(0)
    for column in range(maps.shape[0] - 1):
        row = maps[column, map_rows[column], first:last]
        left = np.uint64(0)
        for word in range(count):
            word_left = alive[word] & row[word]
            alive[word] = word_left
            left |= word_left
        if left == 0:
            return False
    for column in range(len(node_false)):
        if node_false[column]:
            row = node_maps[column, first:last]
            for word in range(count):
                alive[word] &= ~row[word]
    for column in range(maps.shape[0] - 1):
        row = sure_maps[column, map_rows[column], first:last]
        for word in range(count):
            sure[word] &= row[word]
    return True


@compiled
def match_one(codes, multi_slots, multi_starts, multi_codes, multi_labels,
              x, hulls, tests, rows, records, table,
              bin_rows, bounds, levels, nodes, known, touched,
              maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
              node_false, alive, sure, ranges, survivors,
              stamps, row_stamps, stamp, out, doubts, counts):  # fmt: skip
    """Match one event. Writes subscription numbers to `out` and the rows still in doubt to `doubts`.

    Returns how many of each.

    counts: 0 buckets, 1 nodes touched, 2 conjunctions in bitmaps, 6 how many bins share a row of those, as a shift.
    """
    several = len(multi_slots) > 0
    counts[1] = 0
    for code in codes:
        x[code >> 32] = np.int32(code & 0xFFFFFFFF)
    for row in range(len(multi_slots)):
        x[multi_slots[row]] = np.int32(-FIRST_MULTI - row)
    write_hulls(codes, hulls)
    write_hulls(multi_codes, hulls)
    found, doubted = 0, 0
    always = table[len(table) - 1]
    ranges[0, 0], ranges[0, 1] = always[START], always[START] + always[LENGTH]
    last = candidates_in_buckets(codes, ranges, 1, table, records, bin_rows, bounds, levels, counts)
    if several:
        last = candidates_in_buckets(multi_codes, ranges, last, table, records, bin_rows, bounds, levels, counts)

    left, in_maps = 0, counts[2]
    if in_maps > 0:
        choose_rows(x, counts[6], map_slots, map_rows, bin_rows, bounds)
        for column in range(len(map_nodes)):
            if known[map_nodes[column]] == NODE_UNKNOWN:
                node_holds(map_nodes[column], x, tests, multi_starts, multi_labels, nodes, known, touched, counts)
            node_false[column] = known[map_nodes[column]] == NODE_FALSE
        words = (in_maps + 63) // 64
        for first in range(0, words, CHUNK):
            end = min(words, first + CHUNK)
            if not and_chunk(first, end, alive, sure, maps, sure_maps, node_maps, map_rows, node_false):
                continue
            for word in range(end - first):
                bits = alive[word]
                certain = sure[word]
                while bits != 0:
                    low_bit = bits & (~bits + np.uint64(1))
                    bits ^= low_bit
                    position = (first + word) * 64 + bit_number(low_bit)
                    if certain & low_bit:
                        subscription = map_subscriptions[position]
                        if stamps[subscription] < stamp:
                            stamps[subscription] = stamp
                            out[found] = subscription
                            found += 1
                    else:
                        survivors[left] = np.int64(map_conjunctions[position]) | VERIFY_ALL << VERIFY_SHIFT
                        left += 1

    number, touch, room, wide = 0, 0, len(survivors) - SCAN, records.shape[1] == WIDE
    while True:
        while number < last and left <= room:
            at, end = ranges[number, 0], ranges[number, 1]
            stop = min(end, at + SCAN)
            while at < stop:
                head = records[at, 0]
                passed = (
                    (hulls[head >> SLOT_1 & SLOT_BITS] - records[at, 1])
                    & (hulls[head >> SLOT_2 & SLOT_BITS] - records[at, 2])
                    & (hulls[head >> SLOT_3] - records[at, 3])
                )
                if wide:
                    more = records[at, 4]
                    passed &= (
                        (hulls[more >> SLOT_1 & SLOT_BITS] - records[at, 5])
                        & (hulls[more >> SLOT_2 & SLOT_BITS] - records[at, 6])
                        & (hulls[more >> SLOT_3] - records[at, 7])
                    )
                survivors[left] = np.int64(head & KEPT_MASK)
                left += (passed & GUARDS) == GUARDS
                at += 1
            ranges[number, 0] = stop
            number += stop == end
        for place in range(left):
            row = survivors[place] & LABEL_LAST
            if survivors[place] > LABEL_LAST and rows[row, 1] > 0:
                touch ^= tests[rows[row, 0]] ^ tests[rows[row, 0] + 3 * rows[row, 1] - 1]
            else:
                touch ^= rows[row, 0]
        for place in range(left):
            row, count = survivors[place] & LABEL_LAST, survivors[place] >> VERIFY_SHIFT
            if several or count == VERIFY_ALL:
                count = np.int64(rows[row, 1])
            test = np.int64(rows[row, 0])
            after = test + 3 * count
            good = True
            while (
                test < after and tests[test] & KIND_MASK == RANGE << KIND_SHIFT and not several
            ):  # most, and all at once
                label = x[tests[test] & SLOT_MASK]
                good &= (tests[test + 1] <= label) & (label <= tests[test + 2])
                test += 3
            while good and test < after:
                word, a, b = tests[test], tests[test + 1], tests[test + 2]
                kind = word >> KIND_SHIFT & 7
                if kind == NODE:
                    truth = known[word & SLOT_MASK]
                    good = truth == NODE_TRUE
                    if truth == NODE_UNKNOWN:
                        good = node_holds(
                            word & SLOT_MASK, x, tests, multi_starts, multi_labels, nodes, known, touched, counts
                        )
                else:
                    label = x[word & SLOT_MASK]
                    if label <= -FIRST_MULTI:
                        good = several_pass(word, a, b, label, tests, multi_starts, multi_labels)
                    else:
                        good = label_passes(kind, a, b, label, tests)
                test += 3
            if good:
                subscription, mark = rows[row, 2], rows[row, 3]
                if stamps[subscription] < stamp:
                    if mark & RESIDUAL_ALWAYS or (several and mark & RESIDUAL_MULTI):
                        if row_stamps[row] < stamp:
                            row_stamps[row] = stamp
                            doubts[doubted] = row
                            doubted += 1
                    else:
                        stamps[subscription] = stamp
                        out[found] = subscription
                        found += 1
        if number == last:
            break
        left = 0
    counts[7] ^= touch

    for code in codes:
        forget(code >> 32, x, hulls)
    for row in range(len(multi_slots)):
        forget(multi_slots[row], x, hulls)
    for number in range(counts[1]):
        known[touched[number]] = NODE_UNKNOWN
    return found, doubted

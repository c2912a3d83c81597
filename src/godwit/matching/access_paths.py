"""Access paths: whether a conjunction is found by a bucket, and by which, or by the bitmaps. Compiled like
`kernels.py`, and run when subscriptions change.

*Theory.* Each test gets a *weight*, a guess at how many events pass it: an equality by how common its constant is among
the subscriptions and how many constants the slot has, a range by the share of bins it touches. The lightest test that
can be looked up (an equality, a short list, a narrow range) becomes the access test if it is light enough; otherwise
the conjunction goes into the bitmaps. A record in a bucket holds sketches of the lightest other tests, so that most
candidates fail at once and near; the tests themselves lie in the row, lightest first.
"""

import numpy as np

from godwit.matching.kernels import (
    ABSENT,
    ACCESS_ALWAYS,
    ACCESS_BINS_MAX,
    ACCESS_BITMAP,
    ACCESS_MEMBERS_MAX,
    BIN_LABEL,
    BINS,
    CODE,
    KIND_MASK,
    KIND_SHIFT,
    LABEL_LAST,
    LENGTH,
    LEVELS,
    MEMBER,
    NO_CODE,
    NO_MEMBER,
    NODE,
    NODE_TRUE,
    NODE_UNKNOWN,
    OUTSIDE,
    RANGE,
    ROOM,
    SKETCH_SLOTS,
    SKETCHES,
    SLOT_MASK,
    START,
    VERIFY_ALL,
    VERIFY_SHIFT,
    bin_of,
    bucket_made,
    bucket_of,
    compiled,
    hash_of,
    label_passes,
    node_holds,
)

WEIGHT_LOOSE = 0.9  # outside of a range, not in a list, present
WEIGHT_NODE = 0.5
GUESS_COUNTS = 8  # how many events of the sample a guess weighs as much as
TESTS_SORTED_MAX = 64
BUCKET_ROOM = 4
EVERY_BIT = np.uint64((1 << 64) - 1)


@compiled
def has_room(table, counts, more):
    """Whether so many more buckets leave the table at most half full."""
    return 2 * (counts[0] + more) < len(table)


@compiled
def count_uses(first, last, rows, tests, table, uses, slot_uses, counts):
    """Count how often each constant is asked for by equality, and make its bucket.

    Returns the first row for which there was no room.
    """
    for conjunction in range(first, last):
        start = rows[conjunction, 0]
        if not has_room(table, counts, rows[conjunction, 1] * ACCESS_MEMBERS_MAX):
            return conjunction
        for at in range(start, start + 3 * rows[conjunction, 1], 3):
            word, a, b = tests[at], tests[at + 1], tests[at + 2]
            kind, slot = (word & KIND_MASK) >> KIND_SHIFT, np.int64(word & SLOT_MASK)
            if kind == RANGE and a == b and a >= 0:
                uses[bucket_made(slot << 32 | a, table, counts)] += 1
                slot_uses[slot] += 1
            elif kind == MEMBER and b <= ACCESS_MEMBERS_MAX:
                for member in range(a, a + b):
                    uses[bucket_made(slot << 32 | tests[member], table, counts)] += 1
                slot_uses[slot] += 1
    return last


@compiled
def _weight_of_label(slot, label, table, uses, slot_uses, slot_constants):
    bucket = bucket_of(np.int64(slot) << 32 | label, table)
    share = uses[bucket] / max(1, slot_uses[slot]) if bucket >= 0 else 1.0
    return np.sqrt(share / max(2, slot_constants[slot]))


@compiled
def _guess(word, a, b, tests, table, uses, slot_uses, slot_constants, bin_rows, bounds):
    """The share of events that pass a test, guessed from the subscriptions alone."""
    kind, slot = (word & KIND_MASK) >> KIND_SHIFT, word & SLOT_MASK
    if kind == RANGE:
        if b < 0:
            return 0.5
        if a == b:
            return _weight_of_label(slot, a, table, uses, slot_uses, slot_constants)
        if bin_rows[slot] < 0:
            return 0.02 if 0 < a < BIN_LABEL else WEIGHT_LOOSE  # a substring, or any value
        width = bin_of(bounds, bin_rows[slot], b) - bin_of(bounds, bin_rows[slot], a) + 1
        return min(WEIGHT_LOOSE, width / BINS)
    if kind == MEMBER:
        if b > ACCESS_MEMBERS_MAX:
            return 0.5
        total = 0.0
        for member in range(a, a + b):
            total += _weight_of_label(slot, tests[member], table, uses, slot_uses, slot_constants)
        return min(WEIGHT_LOOSE, total)
    if kind == NODE:
        return WEIGHT_NODE
    return WEIGHT_LOOSE


@compiled
def weigh(first, last, base, weights, rows, tests, table, uses, slot_uses, slot_constants, bin_rows, bounds,
          sample_starts, sample_codes, x, nodes, known, touched, counts, multi_starts, multi_labels):  # fmt: skip
    """Write the weight of each test of rows first..last at its place in `tests` less `base`.

    A guess, corrected by a sample of events.
    """
    for conjunction in range(first, last):
        start = rows[conjunction, 0]
        for at in range(start, start + 3 * rows[conjunction, 1], 3):
            weights[at - base] = GUESS_COUNTS * _guess(
                tests[at], tests[at + 1], tests[at + 2], tests, table, uses, slot_uses, slot_constants, bin_rows, bounds
            )
    events = len(sample_starts) - 1
    for event in range(events):
        for code in sample_codes[sample_starts[event] : sample_starts[event + 1]]:
            x[code >> 32] = np.int32(code & 0xFFFFFFFF)
        counts[1] = 0
        for conjunction in range(first, last):
            start = rows[conjunction, 0]
            for at in range(start, start + 3 * rows[conjunction, 1], 3):
                word, a, b = tests[at], tests[at + 1], tests[at + 2]
                kind, slot = word >> KIND_SHIFT & 7, word & SLOT_MASK
                if kind != NODE:
                    good = label_passes(kind, a, b, x[slot], tests)
                elif known[slot] != NODE_UNKNOWN:
                    good = known[slot] == NODE_TRUE
                else:
                    good = node_holds(slot, x, tests, multi_starts, multi_labels, nodes, known, touched, counts)
                if good:
                    weights[at - base] += 1
        for code in sample_codes[sample_starts[event] : sample_starts[event + 1]]:
            x[code >> 32] = ABSENT
        for number in range(counts[1]):
            known[touched[number]] = NODE_UNKNOWN
    for at in range(len(weights)):
        weights[at] /= GUESS_COUNTS + events


@compiled
def _level_of(low, high):
    """The finest level at which the bins low..high are few enough bins, or -1."""
    for level in range(LEVELS):
        if (high >> 2 * level) - (low >> 2 * level) < ACCESS_BINS_MAX:
            return level
    return -1


@compiled
def _buckets_of_test(word, a, b, tests, table, bin_rows, bounds, levels, counts, found):
    """Write to `found` the buckets through which a test is reached; returns how many, 0 when it cannot be looked up."""
    kind, slot = (word & KIND_MASK) >> KIND_SHIFT, np.int64(word & SLOT_MASK)
    if kind == MEMBER and b <= ACCESS_MEMBERS_MAX:
        for number in range(b):
            found[number] = bucket_made(slot << 32 | tests[a + number], table, counts)
        return b
    if kind != RANGE or a < 0:
        return 0
    if bin_rows[slot] < 0 or a == b:
        for label in range(a, b + 1):
            found[label - a] = bucket_made(slot << 32 | label, table, counts)
        return b - a + 1
    low, high = bin_of(bounds, bin_rows[slot], a), bin_of(bounds, bin_rows[slot], b)
    level = _level_of(low, high)
    levels[slot] |= 1 << level
    low, high = low >> 2 * level, high >> 2 * level
    for number in range(high - low + 1):
        found[number] = bucket_made(slot << 32 | (BIN_LABEL + level * BINS + low + number), table, counts)
    return high - low + 1


@compiled
def choose(first, last, base, weights, rows, access, tests, bin_rows, bounds, weight_max):
    """Choose the access test of each conjunction: the lightest, or the bitmaps if it is heavier than `weight_max`.

    Access[c] is its place in `tests`, or ACCESS_BITMAP or ACCESS_ALWAYS.
    """
    for conjunction in range(first, last):
        start = rows[conjunction, 0]
        best, best_weight, in_bins = ACCESS_ALWAYS, 1.0, False
        for at in range(start, start + 3 * rows[conjunction, 1], 3):
            word, a, b = tests[at], tests[at + 1], tests[at + 2]
            kind, slot = (word & KIND_MASK) >> KIND_SHIFT, word & SLOT_MASK
            if kind != NODE and bin_rows[slot] >= 0:
                in_bins = True
            usable = False
            if kind == MEMBER:
                usable = b <= ACCESS_MEMBERS_MAX
            elif kind == RANGE and a >= 0:
                if a == b or bin_rows[slot] < 0:
                    usable = b - a < ACCESS_MEMBERS_MAX
                else:
                    usable = _level_of(bin_of(bounds, bin_rows[slot], a), bin_of(bounds, bin_rows[slot], b)) >= 0
            if usable and weights[at - base] < best_weight:
                best, best_weight = at, weights[at - base]
        if best_weight > weight_max and in_bins:
            best = ACCESS_BITMAP
        access[conjunction - first] = best


@compiled
def bucket_sizes(first, last, rows, access, tests, table, bin_rows, bounds, levels, counts, found, sizes):
    """Add up the records that each bucket will hold. Returns the first row for which there was no room in the table."""
    for conjunction in range(first, last):
        if not has_room(table, counts, ACCESS_MEMBERS_MAX):
            return conjunction
        at = access[conjunction]
        if at == ACCESS_ALWAYS:
            sizes[len(table) - 1] += 1
        elif at != ACCESS_BITMAP:
            n = _buckets_of_test(
                tests[at], tests[at + 1], tests[at + 2], tests, table, bin_rows, bounds, levels, counts, found
            )
            for number in range(n):
                sizes[found[number]] += 1
    return last


@compiled
def _sketched(word, a, b, tests):
    """The ends of the labels a test lets pass, all of them or more; -1 when it has none."""
    kind, slot = (word & KIND_MASK) >> KIND_SHIFT, word & SLOT_MASK
    if kind == NODE or slot >= SKETCH_SLOTS or (kind == RANGE and a < 0):
        return -1, -1
    if kind == RANGE:
        return np.int64(a), np.int64(b)
    if kind == MEMBER and b > 0:
        return np.int64(tests[a]), np.int64(tests[a + b - 1])
    return 0, LABEL_LAST


@compiled
def write_record(conjunction, implied, base, weights, rows, tests, order, record):
    """Put a conjunction's tests into order and write its record.

    Those that the record does not decide come first, the lightest before the others; last the one at `implied`, which
    is known of all that is found. In a record of length 0 nothing is decided.
    """
    start, count = rows[conjunction, 0], rows[conjunction, 1]
    record[:] = 0
    if count > TESTS_SORTED_MAX:
        if len(record):
            record[0] = conjunction | VERIFY_ALL << VERIFY_SHIFT
        return
    for number in range(count):
        heavy = weights[start + 3 * number - base]
        place = number
        while place > 0 and weights[start + 3 * order[place - 1, 0] - base] > heavy:
            order[place, 0] = order[place - 1, 0]
            place -= 1
        order[place, 0] = number
    sketched, room = 0, len(record) * SKETCHES // (SKETCHES + 1)
    for number in range(count):
        at = start + 3 * order[number, 0]
        word, a, b = tests[at], tests[at + 1], tests[at + 2]
        order[number, 1], order[number, 2], order[number, 3], order[number, 4] = word, a, b, at == implied
        low, high = _sketched(word, a, b, tests)
        if low >= 0 and at != implied and sketched < room:
            half, place = sketched // SKETCHES * (SKETCHES + 1), sketched % SKETCHES
            record[half] |= np.uint64(word & SLOT_MASK) << np.uint64(VERIFY_SHIFT + 3 + 10 * place)
            record[half + 1 + place] = np.uint64(low) << np.uint64(32) | np.uint64(LABEL_LAST - high)
            sketched += 1
            order[number, 4] = (word & KIND_MASK) >> KIND_SHIFT == RANGE
    at, undecided = start, 0
    for decided in range(2):
        for number in range(count):
            if order[number, 4] == decided:
                tests[at], tests[at + 1], tests[at + 2] = order[number, 1], order[number, 2], order[number, 3]
                at += 3
        if not decided:
            undecided = (at - start) // 3
    if len(record):
        record[0] |= np.uint64(conjunction) | np.uint64(min(undecided, VERIFY_ALL)) << np.uint64(VERIFY_SHIFT)


@compiled
def fill(first, last, origin, base, weights, rows, access, tests, records, table, bin_rows, bounds, levels, maps,
         sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, counts, found,
         order):  # fmt: skip
    """Write the records of conjunctions first..last into their buckets, and put their tests into order.

    Returns the first one for which there was no room.

    counts: 0 buckets, 2 conjunctions in bitmaps, 3 records in use, 4 those left behind by moved buckets.
    """
    for conjunction in range(first, last):
        at = access[conjunction - origin]
        if not has_room(table, counts, ACCESS_MEMBERS_MAX):
            return conjunction
        if at == ACCESS_BITMAP:
            if counts[2] >= len(map_conjunctions):
                return conjunction
            map_conjunctions[counts[2]] = conjunction
            map_subscriptions[counts[2]] = rows[conjunction, 2]
            write_record(conjunction, -1, base, weights, rows, tests, order, records[0, :0])
            _write_maps(
                counts[2], counts[6], conjunction, rows, tests, maps, sure_maps, node_maps, map_slots, map_nodes,
                bin_rows, bounds,
            )  # fmt: skip
            counts[2] += 1
            continue
        n, implied = 1, -1
        if at == ACCESS_ALWAYS:
            found[0] = len(table) - 1
        else:
            word, a, b = tests[at], tests[at + 1], tests[at + 2]
            n = _buckets_of_test(word, a, b, tests, table, bin_rows, bounds, levels, counts, found)
            kind, bin_row = (word & KIND_MASK) >> KIND_SHIFT, bin_rows[word & SLOT_MASK]
            if kind == MEMBER or a == b or bin_row < 0:
                implied = at
        needed, first_record = 0, 0
        for number in range(n):
            bucket = table[found[number]]
            if bucket[LENGTH] == bucket[ROOM]:
                needed += 2 * bucket[LENGTH] + BUCKET_ROOM
        if counts[3] + needed > len(records):
            return conjunction
        for number in range(n):
            bucket = table[found[number]]
            length = bucket[LENGTH]
            if length == bucket[ROOM]:
                old, new = bucket[START], counts[3]
                for place in range(length):
                    records[new + place] = records[old + place]
                counts[4] += length
                bucket[START] = new
                bucket[ROOM] = 2 * length + BUCKET_ROOM if length else 1
                counts[3] = new + bucket[ROOM]
            if number == 0:
                first_record = bucket[START] + length
                write_record(conjunction, implied, base, weights, rows, tests, order, records[first_record])
            else:
                records[bucket[START] + length] = records[first_record]
            bucket[LENGTH] = length + 1
    return last


@compiled
def _write_maps(
    position, shift, conjunction, rows, tests, maps, sure_maps, node_maps, map_slots, map_nodes, bin_rows, bounds
):
    """Set the bits of a conjunction in every row of every column that does not rule it out, or that is sure to pass.

    Most columns are of attributes that it does not ask about. So all bits of a word are set before its first
    conjunction, and cleared where a test of a conjunction says so.
    """
    word, bit = position // 64, np.uint64(1) << np.uint64(position % 64)
    columns = len(map_slots)
    if position % 64 == 0:
        maps[:columns, :, word] = EVERY_BIT
        sure_maps[:columns, :, word] = EVERY_BIT
    row_count = maps.shape[1]
    allowed, certain = np.empty(row_count, dtype=np.bool_), np.empty(row_count, dtype=np.bool_)
    start, count = rows[conjunction, 0], rows[conjunction, 1]
    decided = 0
    for column in range(columns):
        slot, is_tested = map_slots[column], False
        for at in range(start, start + 3 * count, 3):
            test = tests[at]
            if (test & KIND_MASK) >> KIND_SHIFT != NODE and test & SLOT_MASK == slot:
                if not is_tested:
                    is_tested = True
                    allowed[:] = True
                    certain[:] = True
                    certain[row_count - 1] = False
                decided += 1
                kind = (test & KIND_MASK) >> KIND_SHIFT
                _rule_out(shift, kind, tests[at + 1], tests[at + 2], tests, bounds, bin_rows[slot], allowed, certain)
        if is_tested:
            for row in range(row_count):
                if not allowed[row]:
                    maps[column, row, word] &= ~bit
                if not certain[row]:
                    sure_maps[column, row, word] &= ~bit
    for column in range(len(map_nodes)):
        for at in range(start, start + 3 * count, 3):
            if (tests[at] & KIND_MASK) >> KIND_SHIFT == NODE and tests[at] & SLOT_MASK == map_nodes[column]:
                node_maps[column, word] |= bit
                decided += 1
    maps[columns, 0, word] |= bit
    if decided == count and rows[conjunction, 3] == 0:
        sure_maps[columns, 0, word] |= bit


@compiled
def _rule_out(shift, kind, a, b, tests, bounds, bin_row, allowed, certain):
    """Clear the rows that a test rules out from `allowed`, and those it does not surely let pass from `certain`."""
    groups = BINS >> shift
    absent, several = groups, groups + 1
    if kind == RANGE and b == ABSENT:
        allowed[:groups] = False
        allowed[several] = False
        certain[:groups] = False
        return
    allowed[absent] = False
    certain[absent] = False
    named = np.zeros(groups, dtype=np.bool_)
    if kind == MEMBER or kind == NO_MEMBER:
        for at in range(a, a + b):
            named[bin_of(bounds, bin_row, tests[at]) >> shift] = True
    first, last = np.zeros(groups, dtype=np.int64), np.full(groups, np.iinfo(np.int32).max, dtype=np.int64)
    first[1:] = bounds[bin_row, (1 << shift) - 1 :: 1 << shift]  # the labels of a row are first..last
    last[:-1] = first[1:] - 1
    if kind == RANGE:
        allowed[:groups] &= (first <= b) & (a <= last)
        certain[:groups] &= (a <= first) & (last <= b)
    elif kind == OUTSIDE:
        allowed[:groups] &= (first < a) | (b < last)
        certain[:groups] &= (last < a) | (b < first)
    elif kind == MEMBER:
        allowed[:groups] &= named
        certain[:groups] &= named & (first == last)
    else:
        certain[:groups] &= ~named


# ---------------------------------------------------------------- the table, the columns


@compiled
def _copy_bucket(old, table, uses, new_table, new_uses):
    """Put a bucket of one table into another, or let it be there as it is now."""
    mask, code = len(new_table) - 2, table[old, CODE]
    at = hash_of(code) & mask
    while new_table[at, CODE] != NO_CODE and new_table[at, CODE] != code:
        at = (at + 1) & mask
    new_table[at] = table[old]
    new_uses[at] = uses[old]


@compiled
def rehash(first, last, table, uses, new_table, new_uses):
    """Put the buckets first..last of one table into a larger one."""
    for old in range(first, min(last, len(table) - 1)):
        if table[old, CODE] != NO_CODE:
            _copy_bucket(old, table, uses, new_table, new_uses)
    if last == len(table):
        new_table[len(new_table) - 1] = table[len(table) - 1]


@compiled
def follow(first, last, rows, tests, bin_rows, bounds, table, uses, new_table, new_uses):
    """Put all buckets into a larger table that conjunctions first..last may be reached through, or count for."""
    for conjunction in range(first, last):
        start = rows[conjunction, 0]
        for at in range(start, start + 3 * rows[conjunction, 1], 3):
            word, a, b = tests[at], tests[at + 1], tests[at + 2]
            kind, slot = (word & KIND_MASK) >> KIND_SHIFT, np.int64(word & SLOT_MASK)
            low, high, base = np.int64(0), np.int64(-1), slot << 32
            if kind == MEMBER and b <= ACCESS_MEMBERS_MAX:
                high = np.int64(b - 1)
            elif kind == RANGE and a >= 0:
                if a == b or (bin_rows[slot] < 0 and b - a < ACCESS_MEMBERS_MAX):
                    low, high = np.int64(a), np.int64(b)
                elif bin_rows[slot] >= 0:
                    low, high = bin_of(bounds, bin_rows[slot], a), bin_of(bounds, bin_rows[slot], b)
                    level = _level_of(low, high)
                    if level < 0:
                        continue
                    low, high = low >> 2 * level, high >> 2 * level
                    base |= BIN_LABEL + level * BINS
            for number in range(low, high + 1):
                old = bucket_of(base + (tests[a + number] if kind == MEMBER else number), table)
                if old >= 0:
                    _copy_bucket(old, table, uses, new_table, new_uses)


@compiled
def count_columns(conjunctions, rows, tests, slot_use, node_use):
    """Count for each slot and node how many tests of these conjunctions are on it."""
    for conjunction in conjunctions:
        start = rows[conjunction, 0]
        for at in range(start, start + 3 * rows[conjunction, 1], 3):
            if (tests[at] & KIND_MASK) >> KIND_SHIFT == NODE:
                node_use[tests[at] & SLOT_MASK] += 1
            else:
                slot_use[tests[at] & SLOT_MASK] += 1

"""Matching of one event with the index by NumPy, for installations without Numba.

*Theory.* The steps are those of `compiled_kernels.py`, each done for all candidates at once: the records of all buckets
that the event leads to are gathered and their sketches decided by three subtractions of arrays; of the rows that are
left the first tests are decided together, then the second ones, and so on. Tests of nodes, lists and attributes with
several values are decided one by one, by the functions that both kernels share.

*Profile.* An event costs about a hundred microseconds, most of it in some fifty calls of NumPy of one or two
microseconds each, and then 30 ns for each record. As plain Python the compiled kernel takes three microseconds for a
record.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.matching.kernels import (
    ABSENT,
    FIRST_MULTI,
    GUARDS,
    KEPT_MASK,
    KIND_SHIFT,
    LABEL_LAST,
    LENGTH,
    NODE,
    NODE_TRUE,
    NODE_UNKNOWN,
    OUTSIDE,
    RANGE,
    RESIDUAL_ALWAYS,
    RESIDUAL_MULTI,
    SLOT_1,
    SLOT_2,
    SLOT_3,
    SLOT_BITS,
    SLOT_MASK,
    START,
    VERIFY_ALL,
    VERIFY_SHIFT,
    WIDE,
    candidates_in_buckets,
    choose_rows,
    forget,
    label_passes,
    node_holds,
    several_pass,
    write_hulls,
)

__all__ = ["DEMAND", "match_one"]

Array = npt.NDArray[Any]


class Demand:
    """How much was asked of this kernel. `late_kernels.py` decides by it whether to load Numba."""

    def __init__(self) -> None:
        self.matched = 0  # events so far
        self.rows = 0  # of the largest index
        self.may_not_wait = False  # for Numba: others wait for the thread that matches


DEMAND = Demand()


def match_one(codes, multi_slots, multi_starts, multi_codes, multi_labels,
              x, hulls, tests, rows, records, table,
              bin_rows, bounds, levels, nodes, known, touched,
              maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
              node_false, alive, sure, ranges, survivors,
              stamps, row_stamps, stamp, out, doubts, counts):  # fmt: skip
    """Match one event. Writes subscription numbers to `out` and the rows still in doubt to `doubts`.

    Returns how many of each. The arguments are those of the compiled kernel; it needs no `alive`, `sure`, `survivors`.
    """
    DEMAND.matched += 1
    several = len(multi_slots) > 0
    counts[1] = 0
    x[codes >> 32] = codes & 0xFFFFFFFF
    x[multi_slots] = -FIRST_MULTI - np.arange(len(multi_slots))
    write_hulls(codes, hulls)
    write_hulls(multi_codes, hulls)

    def node_is_true(node: int) -> bool:
        if known[node] == NODE_UNKNOWN:
            node_holds(node, x, tests, multi_starts, multi_labels, nodes, known, touched, counts)
        return bool(known[node] == NODE_TRUE)

    def passes(word: int, a: int, b: int) -> bool:
        if word >> KIND_SHIFT & 7 == NODE:
            return node_is_true(word & SLOT_MASK)
        label = int(x[word & SLOT_MASK])
        if label <= -FIRST_MULTI:
            return bool(several_pass(word, a, b, label, tests, multi_starts, multi_labels))
        return bool(label_passes(word >> KIND_SHIFT & 7, a, b, label, tests))

    found = 0
    left = _records_left(codes, multi_codes, hulls, ranges, table, records, bin_rows, bounds, levels, counts)
    if counts[2] > 0:
        choose_rows(x, counts[6], map_slots, map_rows, bin_rows, bounds)
        for column, node in enumerate(map_nodes.tolist()):
            node_false[column] = not node_is_true(node)
        places, certain = _bits_left(int(counts[2]), maps, sure_maps, node_maps, map_rows, node_false)
        found = _write_found(map_subscriptions[places[certain]], stamps, stamp, out, 0)
        in_maps = map_conjunctions[places[~certain]].astype(np.int64) | VERIFY_ALL << VERIFY_SHIFT
        left = np.concatenate((in_maps, left))
    good = _verified(left, several, rows, tests, x, passes)
    marks = rows[good, 3]
    in_doubt = marks & (RESIDUAL_ALWAYS | RESIDUAL_MULTI if several else RESIDUAL_ALWAYS) != 0
    found = _write_found(rows[good[~in_doubt], 2], stamps, stamp, out, found)
    doubtful = good[in_doubt]
    doubtful = doubtful[stamps[rows[doubtful, 2]] < stamp]
    doubted = _write_found(doubtful, row_stamps, stamp, doubts, 0)

    for slot in (codes >> 32).tolist() + multi_slots.tolist():
        forget(slot, x, hulls)
    known[touched[: counts[1]]] = NODE_UNKNOWN
    return found, doubted


def _records_left(
    codes: Array,
    multi_codes: Array,
    hulls: Array,
    ranges: Array,
    table: Array,
    records: Array,
    bin_rows: Array,
    bounds: Array,
    levels: Array,
    counts: Array,
) -> Array:
    """The records that an event leads to and whose sketches let it pass: row, and how many tests to verify."""
    always = table[len(table) - 1]
    ranges[0, 0], ranges[0, 1] = always[START], always[START] + always[LENGTH]
    last = candidates_in_buckets(codes, ranges, 1, table, records, bin_rows, bounds, levels, counts)
    last = candidates_in_buckets(multi_codes, ranges, last, table, records, bin_rows, bounds, levels, counts)
    candidates = np.concatenate([records[first:end] for first, end in ranges[:last].tolist()])
    passed = _sketches_passed(candidates[:, : WIDE // 2], hulls)
    if records.shape[1] == WIDE:
        passed &= _sketches_passed(candidates[:, WIDE // 2 :], hulls)
    kept: Array = (candidates[passed & GUARDS == GUARDS, 0] & KEPT_MASK).astype(np.int64)
    return kept


def _sketches_passed(half: Array, hulls: Array) -> Array:
    """The guards that the sketches of half a record leave."""
    head = half[:, 0]
    left: Array = hulls[head >> SLOT_1 & SLOT_BITS] - half[:, 1]
    left &= hulls[head >> SLOT_2 & SLOT_BITS] - half[:, 2]
    left &= hulls[head >> SLOT_3] - half[:, 3]
    return left


def _bits_left(
    count: int, maps: Array, sure_maps: Array, node_maps: Array, map_rows: Array, node_false: Array
) -> tuple[Array, Array]:
    """The conjunctions in the bitmaps that an event does not rule out, and of each whether it needs no test."""
    words, last = (count + 63) // 64, maps.shape[0] - 1
    alive, sure = maps[last, 0, :words].copy(), sure_maps[last, 0, :words].copy()
    for column, row in enumerate(map_rows[:last].tolist()):
        alive &= maps[column, row, :words]
        sure &= sure_maps[column, row, :words]
    for column in np.flatnonzero(node_false[: len(node_maps)]).tolist():
        alive &= ~node_maps[column, :words]
    places = np.flatnonzero(_bits(alive))
    return places, _bits(sure)[places]


def _bits(words: Array) -> Array:
    return np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), bitorder="little").view(np.bool_)


def _verified(left: Array, several: bool, rows: Array, tests: Array, x: Array, passes: Any) -> Array:
    """Of the rows that are left those whose tests all hold."""
    kept = left & LABEL_LAST
    to_do = left >> VERIFY_SHIFT
    whole = to_do == VERIFY_ALL
    counts = np.where(whole | several, rows[kept, 1], to_do)
    done, at = [], rows[kept, 0].astype(np.int64)
    while len(kept):
        ended = counts == 0
        if ended.any():
            done.append(kept[ended])
            going = ~ended
            kept, counts, at = kept[going], counts[going], at[going]
            continue
        word, a, b = tests[at], tests[at + 1], tests[at + 2]
        kind = word >> KIND_SHIFT & 7
        label = x[np.where(kind == NODE, 0, word & SLOT_MASK)]  # a node is no slot
        good = np.where(kind == RANGE, (a <= label) & (label <= b), (label > ABSENT) & ((label < a) | (label > b)))
        slow = (kind > OUTSIDE) | (label <= -FIRST_MULTI)
        for place in np.flatnonzero(slow).tolist():
            good[place] = passes(int(word[place]), int(a[place]), int(b[place]))
        kept, counts, at = kept[good], counts[good] - 1, at[good] + 3
    return np.concatenate(done) if done else kept


def _write_found(numbers: Array, stamps: Array, stamp: int, out: Array, found: int) -> int:
    """Write the numbers that do not bear the stamp of this event, each once, and stamp them. How many there are now."""
    fresh = list(dict.fromkeys(numbers[stamps[numbers] < stamp].tolist()))
    stamps[fresh] = stamp
    out[found : found + len(fresh)] = fresh
    return found + len(fresh)

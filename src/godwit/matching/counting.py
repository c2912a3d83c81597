"""Counting the matches of a batch without a list of them, and sharing by subscriptions with equal filters.

*Theory.* A count of matches does not need their list: the kernel writes the matches to one small piece of memory again
and again, and adds up their weights. A row of the index has a weight above one if several subscriptions share its
filter: it is found once, and `expand` writes all of them.
"""

import numpy as np

from godwit.matching.batch_kernels import match_one
from godwit.matching.kernels import compiled

__all__ = ["count_expanded", "count_many", "expand"]


@compiled
def count_many(order, event_starts, codes, multi_event_starts, multi_slots, multi_starts, multi_codes,
               multi_labels,
               x, hulls, tests, rows, records, table,
               bin_rows, bounds, levels, nodes, known, touched,
               maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
               node_false, alive, sure, ranges, survivors,
               stamps, row_stamps, stamp, out, doubts, counts, weights, totals):  # fmt: skip
    """What the subscriptions that each event matches weigh together. Nothing may be in doubt."""
    for number in range(len(order)):
        event = order[number]
        low, high = multi_event_starts[event], multi_event_starts[event + 1]
        found, _ = match_one(
            codes[event_starts[event] : event_starts[event + 1]],
            multi_slots[low:high], multi_starts[low : high + 1], multi_codes[multi_starts[low] : multi_starts[high]],
            multi_labels,
            x, hulls, tests, rows, records, table,
            bin_rows, bounds, levels, nodes, known, touched,
            maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
            node_false, alive, sure, ranges, survivors,
            stamps, row_stamps, stamp + np.int32(number), out, doubts, counts,
        )  # fmt: skip
        total = np.int64(0)
        for at in range(found):
            total += weights[out[at]]
        totals[event] = total


@compiled
def count_expanded(numbers, starts, weights, offsets):
    """Where each event's members start, when each number found stands for as many members as it weighs."""
    total = offsets[0]
    for event in range(len(starts) - 1):
        for number in numbers[starts[event] : starts[event + 1]]:
            total += weights[number]
        offsets[event + 1] = total


@compiled
def expand(numbers, member_starts, out):
    """Write the members of each number, one after the other: they are numbered so that each has a run of them."""
    to = 0
    for number in numbers:
        for member in range(member_starts[number], member_starts[number + 1]):
            out[to] = member
            to += 1

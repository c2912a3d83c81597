"""Matching of a batch of events with the index, and the kernel for one event: compiled by Numba, or with NumPy."""

import numpy as np

from godwit.matching.kernels import COMPILED, LENGTH, bucket_of, compiled

if COMPILED:
    from godwit.matching.compiled_kernels import match_one
else:
    from godwit.matching.numpy_kernels import match_one

__all__ = ["busiest_codes", "match_many", "match_one", "put_in_order"]


@compiled
def busiest_codes(event_starts, codes, table, busiest):
    """For each event the code that leads to its longest bucket."""
    for event in range(len(event_starts) - 1):
        longest = np.int64(0)
        for at in range(event_starts[event], event_starts[event + 1]):
            bucket = bucket_of(codes[at], table)
            if bucket >= 0 and table[bucket, LENGTH] > longest:
                longest = table[bucket, LENGTH]
                busiest[event] = codes[at]


@compiled
def match_many(first, order, event_starts, codes, multi_event_starts, multi_slots, multi_starts, multi_codes,
               multi_labels,
               x, hulls, tests, rows, records, table,
               bin_rows, bounds, levels, nodes, known, touched,
               maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
               node_false, alive, sure, ranges, survivors,
               stamps, row_stamps, stamp, out, out_starts, doubts, doubt_starts, counts):  # fmt: skip
    """Match the events order[first:], until all are done or the room in `out` or `doubts` could run out.

    Returns how far it came.
    """
    number = first
    found, doubted = 0, 0
    subscriptions, residuals = len(stamps), counts[5]
    while number < len(order):
        if found + subscriptions > len(out) or doubted + residuals > len(doubts):
            break
        event = order[number]
        low, high = multi_event_starts[event], multi_event_starts[event + 1]
        more, doubtful = match_one(
            codes[event_starts[event] : event_starts[event + 1]],
            multi_slots[low:high], multi_starts[low : high + 1], multi_codes[multi_starts[low] : multi_starts[high]],
            multi_labels,
            x, hulls, tests, rows, records, table,
            bin_rows, bounds, levels, nodes, known, touched,
            maps, sure_maps, node_maps, map_slots, map_nodes, map_conjunctions, map_subscriptions, map_rows,
            node_false, alive, sure, ranges, survivors,
            stamps, row_stamps, stamp + np.int32(number - first), out[found:], doubts[doubted:], counts,
        )  # fmt: skip
        found += more
        doubted += doubtful
        number += 1
        out_starts[number - first] = found
        doubt_starts[number - first] = doubted
    return number


@compiled
def put_in_order(order, numbers, starts, offsets, out):
    """Copy what was found for the events `order` one after the other to where each event's matches belong."""
    for position in range(len(order)):
        to, first, last = offsets[order[position]], starts[position], starts[position + 1]
        out[to : to + last - first] = numbers[first:last]

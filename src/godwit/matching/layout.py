"""The layout of the index: all its arrays, how they grow, and when they are laid out again.

*Theory.* `tests`, `rows` and `nodes` say what is subscribed; everything else (buckets, bitmaps, bins) is derived from
them by `lay_out`. New rows are put into the derived arrays in place, a microsecond each. Laying out again is worth its
while only when the rows have quadrupled, when half of them are dead, when labels had to move, and once when enough
events have been seen to learn from; so its cost per change stays small. A large layout is not laid out again at once:
a `twin` is laid out in pieces (`pieces`) while this one serves, and then takes its place.

*Rules.*
1. A removed subscription is stamped `DEAD` and forgotten at the next `Rebuilding`; until then it costs only its place.
2. `counts`: 0 buckets, 1 nodes touched (scratch), 2 rows in bitmaps, 3 records in use, 4 records left behind, 5
   residual rows, 6 the shift from a bin to its row in the bitmaps, 7 what touching ahead folded up (scratch).
3. A twin has its own `tests`, because laying out puts the tests of a row into another order, and records tell how many
   of them are to be verified. Rows that come while it is laid out are appended to both.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from godwit.matching import access_paths, kernels, rewriting
from godwit.matching.bitmaps import GrowingMaps, Maps, cleared, new_maps
from godwit.matching.growing_table import EMPTY_BUCKET, GrowingTable
from godwit.matching.kernels import (
    ACCESS_BITMAP,
    ACCESS_MEMBERS_MAX,
    BINS,
    CHUNK,
    HULL_ABSENT,
    HULL_ANYTHING,
    LEVELS,
    NARROW,
    ROOM,
    SCAN,
    SKETCH_SLOTS,
    START,
    WIDE,
)
from godwit.matching.labels import LABEL_FALSE, LABEL_TRUE, Slot

BOUNDS = BINS - 1
COLUMNS_MAX = 48
# A node is worth a column, which means working it out for every event, if one in NODE_COLUMN_SHARE conjunctions asks
# for it, and NODE_COLUMN_USES at least.
NODE_COLUMN_SHARE = 1_000
NODE_COLUMN_USES = 32
NODE_COLUMNS_MAX = 512
SHIFT_MAX = 2  # at most four bins share a row of the bitmaps
MAP_BYTES_EACH = 128  # what finer bitmaps may take for each conjunction in them,
MAP_BYTES = 32 << 20  # and besides if there are many
GROWTH = 4
TABLE_LENGTH = 256
# The weight of an access test from which on ANDing bitmaps is cheaper than visiting its bucket: usually, and when fewer
# than one in MAPS_SHARE conjunctions would be in the bitmaps, whose rows are far apart in memory.
PERCENT_MAX, PERCENT_FEW = 6, 40
MAPS_SHARE = 8
TESTS_WIDE = 4.5  # tests of a row, on average, from which on records are wide
SPARE_ROWS = 64
AT_ONCE_MAX = 1_024  # rows; more are laid out again in pieces: 1 ms, or 25 ms if all are in the bitmaps
PIECE_ROWS = 4_096  # of which one piece counts or weighs the tests, about 3 ms
PIECE_SLOTS = 256  # of which one piece makes the bins
PIECE_BUCKETS = 1 << 16  # that one piece clears or gives their room, about 1 ms
PIECE_REHASHED = 1 << 15  # that one piece puts into a larger table, about 2 ms
PIECE_RECORDS = 4_096  # that one piece writes, about 3 ms
GROWING_FACTOR = 4  # while bitmaps grow, so many times fewer rows are placed at a time
COSTED = 1 << 16  # rows divided at a time
RECORDS_OF_BITMAP = 8  # a row in the bitmaps takes as long to write as so many records
PLAIN_FACTOR = 32  # without Numba, pieces are so many times smaller
RANGES_PER_CODE = 1 + LEVELS
CODES_USUAL = 256  # that an event has; for one that has more the scratch arrays grow

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

BOOLS: Ints = np.array([LABEL_FALSE, LABEL_TRUE], dtype=np.int32)
NO_STARTS: Longs = np.zeros(1, dtype=np.int64)
NO_LABELS: Ints = np.zeros(0, dtype=np.int32)
NO_SAMPLE: tuple[Longs, Longs] = (NO_STARTS, np.zeros(0, dtype=np.int64))


def grown(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """The array itself if it holds `length` rows, or a copy with room for at least half as many again."""
    if len(array) >= length:
        return array
    bigger = np.zeros((max(length, len(array) * 3 // 2 + 64), *array.shape[1:]), dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


def empty_table(length: int) -> Longs:
    """A table of buckets with `length` rows, a power of two, and the one for what is always a candidate."""
    table = np.zeros((length + 1, 4), dtype=np.int64)
    table[:] = EMPTY_BUCKET
    return table


def at_once(pieces: Iterator[None]) -> None:
    """Do all pieces of some work."""
    for _ in pieces:
        pass


def _most_used(use: Longs, least: int, most: int) -> Ints:
    """The numbers of those used at least `least` times, the most used first, `most` of them at most."""
    order = np.argsort(-use, kind="stable")[:most]
    return order[use[order] >= least].astype(np.int32)


def times_slower() -> int:
    """How many times as long a kernel takes as when it is compiled."""
    return 1 if kernels.COMPILED else PLAIN_FACTOR


class Choice(NamedTuple):
    """How rows are to be reached: the access of each, and the weights of their tests, which begin with test `base`."""

    access: Ints
    base: int
    weights: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, rows: Ints, count: int, tests_end: int) -> "Choice":
        """Room for the first `count` of these rows, whose tests end there."""
        base = int(rows[0, 0]) if count else tests_end
        return cls(np.empty(count, dtype=np.int32), base, np.zeros(tests_end - base, dtype=np.float32))


def _spans_by_cost(access: Ints, cost_max: int | None) -> Iterator[tuple[int, int]]:
    """Rows divided so that writing their records costs about `cost_max` each time, or not divided."""
    if cost_max is None:
        yield 0, len(access)
        return
    for start in range(0, len(access), COSTED):
        costs = np.cumsum(np.where(access[start : start + COSTED] == ACCESS_BITMAP, RECORDS_OF_BITMAP, 1))
        ends = [*(start + np.flatnonzero(np.diff(costs // cost_max)) + 1).tolist(), start + len(costs)]
        yield from zip([start, *ends[:-1]], ends, strict=True)


class Layout:
    """The arrays of an index. `IndexMatcher` appends rows and asks to place them; the kernels read."""

    def __init__(self) -> None:
        self.tests: Ints = np.zeros(0, dtype=np.int32)
        self.tests_count = 0
        self.rows: Ints = np.zeros((0, 4), dtype=np.int32)
        self.row_count = 0
        self.nodes: Ints = np.zeros((0, 3), dtype=np.int32)
        self.node_count = 0
        self.stamps: Ints = np.zeros(0, dtype=np.int32)
        self.counts: Longs = np.zeros(8, dtype=np.int64)
        self.take_sample: Callable[[], tuple[Longs, Longs]] = lambda: NO_SAMPLE
        self.sample = NO_SAMPLE  # codes of some events: where each event starts, and all codes
        self.codes_max = CODES_USUAL
        self._placing_to = 0  # rows that are placed, or being placed now
        self.laid_out = 0  # rows when the layout was last made again
        self.placed = 0
        self._clear(1)

    def _clear(self, slots: int) -> None:
        """Forget all that is derived."""
        self.counts[:] = 0
        self.table: Longs = empty_table(TABLE_LENGTH)
        self.uses: Ints = np.zeros(len(self.table), dtype=np.int32)
        self._growing_table: GrowingTable | None = None
        self.slot_uses: Ints = np.zeros(slots, dtype=np.int32)
        self.slot_constants: Ints = np.zeros(slots, dtype=np.int32)
        self.bin_rows: Ints = np.full(slots, -1, dtype=np.int32)
        self.bounds: Ints = np.zeros((0, BOUNDS), dtype=np.int32)
        self.records: npt.NDArray[np.uint64] = np.zeros((16, NARROW), dtype=np.uint64)
        self.bucket_percent = PERCENT_MAX
        self.levels = np.zeros(slots, dtype=np.uint8)  # which levels of bins lead to buckets, by slot
        self._make_empty_maps(0)
        self._scratch(slots)

    def _scratch(self, slots: int) -> None:
        """Room the kernels write to while they match."""
        self.x: Ints = np.full(slots, kernels.ABSENT, dtype=np.int32)
        self.known = np.zeros(len(self.nodes), dtype=np.int8)
        self.touched: Ints = np.zeros(3 * len(self.nodes) + 8, dtype=np.int32)
        self.map_rows: Ints = np.zeros(max(1, len(self.map_slots)), dtype=np.int32)
        self.node_false = np.zeros(len(self.map_nodes), dtype=np.bool_)
        self.alive = np.zeros(CHUNK, dtype=np.uint64)
        self.sure = np.zeros(CHUNK, dtype=np.uint64)
        self.hulls = np.full(SKETCH_SLOTS, HULL_ABSENT, dtype=np.uint64)
        self.hulls[0] = HULL_ANYTHING
        self.ranges: Longs = np.zeros((RANGES_PER_CODE * self.codes_max + 1, 2), dtype=np.int64)
        self.survivors: Longs = np.zeros(len(self.map_conjunctions) + 4 * SCAN, dtype=np.int64)
        self.out: Ints = np.zeros(len(self.stamps), dtype=np.int32)
        self.row_stamps: Ints = np.zeros(len(self.rows) if self.counts[5] else 0, dtype=np.int32)
        self.doubts: Ints = np.zeros(max(1, int(self.counts[5])), dtype=np.int32)
        self.found_buckets: Longs = np.zeros(64, dtype=np.int64)
        self.order: Ints = np.zeros((access_paths.TESTS_SORTED_MAX, 5), dtype=np.int32)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernels read, in their order."""
        return (
            self.x, self.hulls, self.tests, self.rows, self.records, self.table, self.bin_rows, self.bounds,
            self.levels, self.nodes, self.known, self.touched,
            self.maps, self.sure_maps, self.node_maps, self.map_slots, self.map_nodes, self.map_conjunctions,
            self.map_subscriptions, self.map_rows, self.node_false, self.alive, self.sure, self.ranges, self.survivors,
        )  # fmt: skip

    def make_ready(self, slots: int, codes: int = 0) -> None:
        """See to it that the scratch arrays are as large as the rest, and an event of so many codes, demand."""
        self.codes_max = max(self.codes_max, codes)
        if (
            len(self.x) < slots
            or len(self.known) < len(self.nodes)
            or len(self.out) < len(self.stamps)
            or len(self.doubts) < self.counts[5]
            or (self.counts[5] and len(self.row_stamps) < self.row_count)
            or len(self.ranges) <= RANGES_PER_CODE * self.codes_max
            or len(self.survivors) < len(self.map_conjunctions) + SCAN
        ):
            self._scratch(max(slots, len(self.bin_rows)))

    # ------------------------------------------------------------ taking in what was compiled

    def append(self, tests: Ints, rows: Ints, nodes: Ints) -> None:
        """Add newly compiled tests, rows and nodes."""
        self.tests = grown(self.tests, self.tests_count + len(tests))
        self.tests[self.tests_count : self.tests_count + len(tests)] = tests
        self.tests_count += len(tests)
        self.rows = grown(self.rows, self.row_count + len(rows))
        self.rows[self.row_count : self.row_count + len(rows)] = rows
        self.row_count += len(rows)
        self.nodes = grown(self.nodes, self.node_count + len(nodes))
        self.nodes[self.node_count : self.node_count + len(nodes)] = nodes
        self.node_count += len(nodes)

    def place(
        self, slots: list[Slot], moves: dict[int, list[tuple[Ints, Ints]]], rows_before: int, nodes_before: int
    ) -> None:
        """Put the rows that are not placed yet where the kernels find them."""
        if moves:
            self._move(slots, moves, rows_before, nodes_before)
        is_mostly_new = self.row_count > 2 * self.placed
        if moves or (self.is_outgrown and (is_mostly_new or self.is_small)):
            self.lay_out(slots)
        else:
            self._place_rows(slots, self.row_count)

    @property
    def is_outgrown(self) -> bool:
        """Whether so many rows have come that laying out again is worth its while."""
        return self.row_count > GROWTH * self.laid_out + SPARE_ROWS

    @property
    def is_small(self) -> bool:
        """Whether laying out again takes no longer than a few pieces."""
        return times_slower() * self.row_count <= AT_ONCE_MAX

    def _place_rows(self, slots: list[Slot], last: int) -> None:
        """Place the rows before `last` that are not placed yet."""
        if len(slots) > len(self.bin_rows):
            more = len(slots)
            self.slot_uses, self.slot_constants = grown(self.slot_uses, more), grown(self.slot_constants, more)
            added = np.full(len(self.slot_uses) - len(self.bin_rows), -1, dtype=np.int32)
            self.bin_rows = np.concatenate((self.bin_rows, added))
            self.levels = grown(self.levels, more)
        self.make_ready(len(slots))
        self._placing_to = last
        in_table, in_maps = int(self.counts[0]), int(self.counts[2])
        at_once(self._count_uses(self.placed, last))
        chosen = self._choose(self.placed, last)
        self._fill(self.placed, last, self.placed, chosen)
        self._grow_table_ahead(int(self.counts[0]) - in_table)
        self._grow_maps_ahead(int(self.counts[2]) - in_maps)
        self.placed = last

    @property
    def rows_at_a_time(self) -> int:
        """How many rows can be placed in a piece, about, for what was placed until now."""
        in_maps = int(self.counts[2])
        is_growing = in_maps > 0 and GrowingMaps.is_time(self._all_maps, in_maps)
        each = PIECE_ROWS // GROWING_FACTOR if is_growing else PIECE_ROWS
        return max(1, each * max(1, self.placed) // max(1, self.placed + (RECORDS_OF_BITMAP - 1) * in_maps))

    def _move(
        self, slots: list[Slot], moves: dict[int, list[tuple[Ints, Ints]]], rows_before: int, nodes_before: int
    ) -> None:
        starts = np.zeros(len(slots) + 1, dtype=np.int64)
        old, new = [], []
        for slot in range(len(slots)):
            pairs = sorted(moves.get(slot, []), key=lambda pair: int(pair[0][0]))
            old += [pair[0] for pair in pairs]
            new += [pair[1] for pair in pairs]
            starts[slot + 1] = starts[slot] + sum(len(pair[0]) for pair in pairs)
        for source, count in ((self.rows, rows_before), (self.nodes, nodes_before)):
            rewriting.move_labels(0, count, source, self.tests, starts, np.concatenate(old), np.concatenate(new))

    # ------------------------------------------------------------ laying out

    def lay_out(self, slots: list[Slot]) -> None:
        """Derive everything again from tests, rows and nodes."""
        at_once(self.pieces(slots, max(1, self.row_count)))

    def twin(self) -> "Layout":
        """Another layout of the same rows, still to be laid out. It takes over the stamps when it is. (rule 3)"""
        other = Layout()
        other.tests, other.tests_count = self.tests[: self.tests_count].copy(), self.tests_count
        other.rows, other.row_count = self.rows, self.row_count
        other.nodes, other.node_count = self.nodes, self.node_count
        other.take_sample, other.codes_max = self.take_sample, self.codes_max
        return other

    def pieces(self, slots: list[Slot], rows: int | None = None) -> Iterator[None]:
        """Derive everything again, a piece of the work for each step: at most `rows` rows, or as many as take 4 ms.

        Rows may be appended between two steps, and slots be added. They are placed at the end.
        """
        each = PIECE_ROWS // times_slower() if rows is None else rows
        last = self.row_count
        self._clear(len(slots))
        self.sample = self.take_sample()
        yield from self._make_bins(slots)
        spans = [(first, min(first + each, last)) for first in range(0, last, each)]
        for span in spans:
            yield from self._count_uses(*span)
            yield
        chosen = Choice.empty(self.rows, last, self.tests_count)
        for span in spans:
            self._weigh(*span, chosen)
            self._choose_access(*span, chosen)
            yield
        if self._prefers_buckets(chosen.access):
            for span in spans:
                self._choose_access(*span, chosen)
                yield
        yield from self._make_maps(chosen.access, is_serving=rows is None)
        yield from self._make_buckets(spans, chosen.access)
        for first, end in _spans_by_cost(chosen.access, PIECE_RECORDS // times_slower() if rows is None else None):
            self._fill(first, end, 0, chosen)
            yield
        self.placed = self.laid_out = last
        self._scratch(len(slots))
        while self.placed < self.row_count:
            self._place_rows(slots, min(self.placed + min(each, self.rows_at_a_time), self.row_count))
            yield

    def _make_bins(self, slots: list[Slot]) -> Iterator[None]:
        rows: list[Ints] = []
        for slot in slots[: len(self.bin_rows)]:
            if slot.number % PIECE_SLOTS == PIECE_SLOTS - 1:
                yield
            if slot.of_pattern:
                self.slot_constants[slot.number] = len(BOOLS)
                continue
            kinds = sorted(slot.constants.values(), key=lambda each: each.low)
            labels = np.concatenate([BOOLS] + [np.array(each.labels, dtype=np.int32) for each in kinds])
            self.slot_constants[slot.number] = len(labels)
            if len(labels) <= BOUNDS // 2:
                edges = np.unique(np.concatenate((labels, labels + 1)))
                edges = np.repeat(
                    edges, min(1 << SHIFT_MAX, BOUNDS // len(edges))
                )  # spread, so that bins grouped in a row hold fewer
            else:
                edges = labels[np.linspace(0, len(labels) - 1, BOUNDS).astype(np.int64)]
            row = np.full(BOUNDS, np.iinfo(np.int32).max, dtype=np.int32)
            row[: len(edges)] = edges
            self.bin_rows[slot.number] = len(rows)
            rows.append(row)
        if rows:
            self.bounds = np.array(rows, dtype=np.int32)

    def _count_uses(self, first: int, last: int) -> Iterator[None]:
        """Count the equalities of rows first..last. A step for each piece of a table that must grow for that."""
        self.counts[5] += np.count_nonzero(self.rows[first:last, 3])
        while first < last:
            first = access_paths.count_uses(
                first, last, self.rows, self.tests, self.table, self.uses, self.slot_uses, self.counts
            )
            if first < last:
                yield from self._grow_table(int(self.rows[first, 1]) * ACCESS_MEMBERS_MAX)

    def _grow_table_ahead(self, came: int) -> None:
        """Copy a part of a nearly full table into a larger one, after so many buckets came."""
        growing = self._growing_table
        if growing is not None:
            growing.follow(self.placed, self._placing_to, self.rows, self.tests, self.bin_rows, self.bounds)
        elif came and GrowingTable.is_time(self.table, int(self.counts[0])):
            growing = self._growing_table = GrowingTable(self.table, self.uses, int(self.counts[0]))
        if growing is not None and came:
            growing.go_on(came)
            if growing.is_ready:
                self._finish_table(growing)

    def _finish_table(self, growing: GrowingTable) -> None:
        self.table, self.uses = growing.finish()
        self._growing_table = None

    def _grow_table(self, more: int = ACCESS_MEMBERS_MAX) -> Iterator[None]:
        if (growing := self._growing_table) is not None:  # its time was too short
            growing.follow(self.placed, self._placing_to, self.rows, self.tests, self.bin_rows, self.bounds)
            self._finish_table(growing)
            return
        length = 2 * len(self.table) - 2
        while 2 * (self.counts[0] + more) >= length:
            length *= 2
        table: Longs = np.empty((length + 1, 4), dtype=np.int64)
        uses: Ints = np.empty(length + 1, dtype=np.int32)
        for first in range(0, length + 1, PIECE_BUCKETS):
            uses[first : first + PIECE_BUCKETS], table[first : first + PIECE_BUCKETS] = 0, EMPTY_BUCKET
            yield
        for first in range(0, len(self.table), PIECE_REHASHED):
            last = min(first + PIECE_REHASHED, len(self.table))
            access_paths.rehash(first, last, self.table, self.uses, table, uses)
            yield
        self.table, self.uses = table, uses

    def _choose(self, first: int, last: int) -> "Choice":
        """Weigh the tests of rows first..last and choose their access."""
        chosen = Choice.empty(self.rows[first:], last - first, self.tests_count)
        self._weigh(first, last, chosen, first)
        self._choose_access(first, last, chosen, first)
        if first == 0 and self._prefers_buckets(chosen.access):
            self._choose_access(first, last, chosen)
        return chosen

    def _prefers_buckets(self, access: Ints) -> bool:
        """Whether so few rows would be in the bitmaps that these are not worth it: then choose again."""
        if MAPS_SHARE * np.count_nonzero(access == ACCESS_BITMAP) >= len(access):
            return False
        self.bucket_percent = PERCENT_FEW
        return True

    def _weigh(self, first: int, last: int, chosen: "Choice", origin: int = 0) -> None:
        """Weigh the tests of rows first..last; the first row that was chosen for is `origin`."""
        if first == last:
            return
        base = int(self.rows[first, 0])
        is_end = last - origin == len(chosen.access)
        end = len(chosen.weights) if is_end else int(self.rows[last, 0]) - chosen.base
        access_paths.weigh(
            first, last, base, chosen.weights[base - chosen.base : end], self.rows, self.tests, self.table, self.uses,
            self.slot_uses, self.slot_constants, self.bin_rows, self.bounds, *self.sample, self.x, self.nodes,
            self.known,
            self.touched, self.counts, NO_STARTS, NO_LABELS,
        )  # fmt: skip

    def _choose_access(self, first: int, last: int, chosen: "Choice", origin: int = 0) -> None:
        access_paths.choose(
            first, last, chosen.base, chosen.weights, self.rows, chosen.access[first - origin : last - origin],
            self.tests, self.bin_rows, self.bounds, self.bucket_percent / 100,
        )  # fmt: skip

    def _make_maps(self, access: Ints, is_serving: bool) -> Iterator[None]:
        in_maps = np.flatnonzero(access == ACCESS_BITMAP)
        slot_use, node_use = np.zeros(len(self.bin_rows), dtype=np.int64), np.zeros(len(self.nodes), dtype=np.int64)
        access_paths.count_columns(in_maps, self.rows, self.tests, slot_use, node_use)
        slot_use[self.bin_rows < 0] = 0
        self.map_slots = _most_used(slot_use, 1, COLUMNS_MAX)
        self.map_nodes = _most_used(node_use, NODE_COLUMN_USES + len(in_maps) // NODE_COLUMN_SHARE, NODE_COLUMNS_MAX)
        self._make_empty_maps(len(in_maps) * 5 // 4 if is_serving else len(in_maps))
        yield from cleared(self._all_maps)

    @property
    def _all_maps(self) -> Maps:
        return self.maps, self.sure_maps, self.node_maps

    def _make_empty_maps(self, rows: int) -> None:
        if not rows:
            self.map_slots, self.map_nodes = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
        words = (rows + 63) // 64
        shift, budget = 0, MAP_BYTES_EACH * rows + (MAP_BYTES if rows > self.row_count // 8 else 0)
        while shift < SHIFT_MAX and 16 * (BINS >> shift) * words * len(self.map_slots) > budget:
            shift += 1
        self.counts[6] = shift
        self.maps, self.sure_maps, self.node_maps = new_maps(
            rows, len(self.map_slots), len(self.map_nodes), BINS >> shift
        )
        self.growing_maps: GrowingMaps | None = None
        self.map_conjunctions: Ints = np.zeros(words * 64, dtype=np.int32)
        self.map_subscriptions: Ints = np.zeros(words * 64, dtype=np.int32)

    def _grow_maps(self) -> None:
        growing = self.growing_maps or GrowingMaps(self._all_maps, int(self.counts[2]))
        self.maps, self.sure_maps, self.node_maps = growing.finish()
        self.growing_maps = None
        more = 64 * self.maps.shape[2] - len(self.map_conjunctions)
        self.map_conjunctions = np.pad(self.map_conjunctions, (0, more))
        self.map_subscriptions = np.pad(self.map_subscriptions, (0, more))

    def _grow_maps_ahead(self, placed: int) -> None:
        """Copy a part of nearly full bitmaps into larger ones, after so many rows were placed in them."""
        used = int(self.counts[2])
        if self.growing_maps is None and placed and GrowingMaps.is_time(self._all_maps, used):
            self.growing_maps = GrowingMaps(self._all_maps, used)
        if self.growing_maps is not None and placed:
            self.growing_maps.go_on(used, placed)

    def _make_buckets(self, spans: list[tuple[int, int]], access: Ints) -> Iterator[None]:
        """Give every bucket exactly the room it needs now, side by side."""
        while True:
            sizes = np.zeros(len(self.table), dtype=np.int64)
            done = 0
            for first, last in spans:
                done = access_paths.bucket_sizes(
                    first, last, self.rows, access, self.tests, self.table, self.bin_rows, self.bounds, self.levels,
                    self.counts, self.found_buckets, sizes,
                )  # fmt: skip
                yield
                if done < last:
                    break
            if done == len(access):
                break
            yield from self._grow_table()
        for start in range(0, len(sizes), PIECE_BUCKETS):
            some = slice(start, start + PIECE_BUCKETS)
            ends = np.cumsum(sizes[some]) + self.counts[3]
            self.table[some, START], self.table[some, ROOM] = ends - sizes[some], sizes[some]
            self.counts[3] = ends[-1]
            yield
        wide = self.rows[: len(access), 1].mean() > TESTS_WIDE if len(access) else False
        length = int(self.counts[3]) * 17 // 16 + 64
        self.records = np.empty((length, WIDE if wide else NARROW), dtype=np.uint64)
        yield from cleared((self.records,))

    def _fill(self, first: int, last: int, origin: int, chosen: "Choice") -> None:
        """Write the records of rows first..last, making room as needed; the first one chosen for is `origin`."""
        while True:
            first = access_paths.fill(
                first, last, origin, chosen.base, chosen.weights, self.rows, chosen.access, self.tests,
                self.records, self.table,
                self.bin_rows, self.bounds, self.levels, self.maps, self.sure_maps, self.node_maps, self.map_slots,
                self.map_nodes, self.map_conjunctions,
                self.map_subscriptions, self.counts, self.found_buckets, self.order,
            )  # fmt: skip
            if first >= last:
                return
            if not access_paths.has_room(self.table, self.counts, ACCESS_MEMBERS_MAX):
                at_once(self._grow_table())
            elif self.counts[2] >= len(self.map_conjunctions) and chosen.access[first - origin] == ACCESS_BITMAP:
                self._grow_maps()
            else:
                self.records = grown(self.records, len(self.records) + 1)

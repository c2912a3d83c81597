"""The index: the fast matcher. An event touches only subscriptions that one of its values leads to.

*Theory.* Filters are compiled into rows of integer tests (`filter_compiler.py`) on labels (`labels.py`); rows are
placed into buckets and bitmaps (`access_paths.py`, `layout.py`); an event is turned into codes (`event_encoder.py`) and
one kernel does the rest (`compiled_kernels.py`, or `numpy_kernels.py` without Numba).

Many subscriptions that are added at once are placed at the next match, so that a million are one step; `prepare` takes
it earlier. Those that are added one by one are placed at the next match, too, but no more than `WAITING_ROWS` or one in
`WAITING_SHARE` of all rows wait for it: the one that is too many places them. A large index is laid out again in
pieces, one with each match and one with each placing: no event and no subscription pays for much that others caused.

*Rules.*
1. What the kernels find is exact but for rows marked residual, which are asked again here with the filter's own
   `holds`.
2. A subscription's number never changes; ids come back in the order the kernel finds them, newcomers last.
3. While a layout is renewed, the one before serves, and whatever is appended is appended to both. While the index is
   made again (`rebuilding.py`), nothing is appended: what comes meanwhile is in an index of its own (`newcomers.py`).
4. What has no room between constants is withdrawn after it was compiled, and put there, too. Room is made when enough
   events and newcomers have come since it was last made.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.matching import batch_kernels, counting, kernel_cache, late_kernels, masks
from godwit.matching.event_encoder import Batch, Encoder, multi_arrays
from godwit.matching.filter_compiler import Compiler
from godwit.matching.kernels import COMPILED, DEAD
from godwit.matching.layout import CODES_USUAL, PLAIN_FACTOR, Layout, grown, times_slower
from godwit.matching.match_counter import MatchCounter
from godwit.matching.matcher import Columns, Matcher, Matches, SubscriptionId, array_of, events_of, one_row
from godwit.matching.newcomers import Newcomers
from godwit.matching.rebuilding import Rebuilding
from godwit.matching.renewal import Renewal

STAMP_MAX, DEAD_SPARE = 1 << 30, 1_024
LONG, OUT_LENGTH = 1 << 63, 1 << 20
TALLIED_FROM = 64  # events in a batch; below, making tallies costs more than they save
SAMPLE = 64  # of the last events are kept to learn from
TUNED_FROM = 256  # rows; below, any layout is good enough
WAITING_ROWS, WAITING_SHARE = 2_048, 128
WAITING_TESTS = 16_384
WAITING_SLOTS, WAITING_EACH = 256, 2  # of so many attributes no more constants each: 900 of 18 would take 40 ms
NEWCOMERS_PER_PIECE = 16
TAKEN, TAKEN_TESTS = 64, 3 * 1_024  # newcomers that are let in at a time, and words of their tests, more or less
CALM_SHARE, CALM_MAX = 64, 1 << 40  # room is made again when so many have come as one in 64 rows, not all the time
NO_MULTI = multi_arrays([])

Longs = npt.NDArray[np.int64]
Found = tuple[Any, Any, dict[int, list[int]]]
"""Where each event's matches start, the numbers of the subscriptions, and by event the rows still in doubt."""
Piece = tuple[Any, Any, Any, dict[int, list[int]]]
"""The same of some events: which they are, and the rows in doubt by place among them."""


class IndexMatcher(Matcher):
    """The matcher to use: shared tests, access tests, bitmaps, compiled kernels."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[SubscriptionId, int] = {}
        # Of objects as soon as one id is no int; ints need not be fetched from all over memory.
        self._ids = np.zeros(0, dtype=np.int64)
        self._given = 0  # numbers given since the last compaction, the dead included
        self._compiler = Compiler()
        self._encoder = Encoder(self._compiler.columns)
        self._layout = Layout()
        self._layout.take_sample = self._take_sample
        self._renewal: Renewal | Rebuilding | None = None
        self._newcomers: Newcomers | None = None
        self._free: Longs = np.zeros(0, dtype=np.int64)  # numbers to be given again, taken from the end
        self._placeable: list[tuple[SubscriptionId, Filter, int]] | None = []  # those that wait; None: too many at once
        self._lacks_room = False  # between constants, for some of the newcomers
        self._made_at = -CALM_MAX  # the stamp when the index was last made again, less the newcomers since then
        self._numbering: masks.Numbering | None = None
        self._sample: deque[Attributes] = deque(maxlen=SAMPLE)
        self._stamp = 0
        self._changed = False
        self._tallies: MatchCounter | None = None
        self._tallies_weights: Longs | None = None
        self._rest: IndexMatcher | None = None
        self._rest_weights: Longs | None = None

    # ------------------------------------------------------------ subscriptions

    def __len__(self) -> int:
        return len(self._numbers) + (0 if self._newcomers is None else len(self._newcomers))

    def _known(self, id: SubscriptionId) -> bool:
        return id in self._numbers or (self._newcomers is not None and id in self._newcomers)

    def _insert(self, id: SubscriptionId, filter: Filter) -> None:
        self._insert_many([(id, filter)])

    def _prepare(self) -> None:
        self._ready(0)

    def _insert_many(self, subscriptions: list[tuple[SubscriptionId, Filter]]) -> None:
        are_many = len(subscriptions) > WAITING_ROWS
        self._forget_tallies()
        if isinstance(self._renewal, Rebuilding):
            if not are_many:
                self._put_apart(subscriptions)
                return
            self._ready(0)
        self._put(subscriptions, are_many)
        if not are_many and self._too_many_wait():
            self._settle()
            if self._layout.growing_maps is None:
                self._go_on()

    def _put(self, subscriptions: list[tuple[SubscriptionId, Filter]], are_many: bool = False) -> None:
        """Compile some, to be placed later."""
        given_again = min(len(subscriptions), len(self._free))
        last = self._given + len(subscriptions) - given_again
        listed: Sequence[int] = range(self._given, last)
        numbers: Any = slice(self._given, last)
        if given_again:
            listed = numbers = [*self._free[len(self._free) - given_again :].tolist(), *listed]
            self._free = self._free[: len(self._free) - given_again]
        for number, (_, filter) in zip(listed, subscriptions, strict=True):
            self._compiler.compile(number, filter)
        if last > len(self._ids):
            self._ids = grown(self._ids, last)
            self._layout.stamps = grown(self._layout.stamps, len(self._ids))
        ids = [id for id, _ in subscriptions]
        if self._ids.dtype != object and not all(type(id) is int and -LONG <= id < LONG for id in ids):
            self._ids = self._ids.astype(object)
        self._ids[numbers] = array_of(ids, self._ids.dtype)
        self._layout.stamps[numbers] = 0
        own = self._ids[numbers].tolist()  # ints of our own lie together; the caller's would hold on to more memory
        self._numbers.update(zip(own, listed, strict=True))
        self._given = last
        self._changed = True
        if are_many:
            self._placeable = None
        elif self._placeable is not None:
            self._placeable += [
                (id, filter, number) for number, (id, filter) in zip(listed, subscriptions, strict=True)
            ]

    def _put_apart(self, subscriptions: list[tuple[SubscriptionId, Filter]]) -> None:
        """Let some wait until the index can take them."""
        for each in subscriptions:
            if self._newcomers is None:  # also if those before were taken in just now
                index = IndexMatcher()
                self._newcomers = Newcomers(index, index._compiler)
            self._newcomers.add([each])
            self._made_at -= 1
            if len(self._newcomers) % NEWCOMERS_PER_PIECE == 0:
                self._go_on()

    def _too_many_wait(self) -> bool:
        """Whether to place now what was compiled: the next event would otherwise wait for all of it."""
        rows, words = len(self._compiler.rows) // 4, len(self._compiler.tests)
        if rows < WAITING_ROWS // PLAIN_FACTOR and words < WAITING_TESTS // PLAIN_FACTOR:
            return False
        enough = self._layout.row_count // WAITING_SHARE
        if (slots := len(self._compiler.waiting)) > WAITING_SLOTS and words > 3 * WAITING_EACH * slots:
            return True
        rows_max = min(WAITING_ROWS, self._layout.rows_at_a_time // 2) // times_slower()
        return rows > max(rows_max, enough) or words > 3 * max(WAITING_TESTS // times_slower(), enough)

    def _delete(self, id: SubscriptionId) -> None:
        if self._newcomers is not None and id in self._newcomers:
            self._newcomers.remove(id)
            return
        number = self._numbers.pop(id)
        self._ids[number] = 0
        self._layout.stamps[number] = DEAD
        self._forget_tallies()

    # ------------------------------------------------------------ bringing the layout up to date

    def _settle(self) -> None:
        """Place what was compiled since the last match."""
        compiler, layout = self._compiler, self._layout
        rows_before, nodes_before = layout.row_count, layout.node_count
        may_move = layout.is_small or self._placeable is None
        moves = {}
        for slot in compiler.waiting:
            moved = slot.settle(may_move)
            if moved is None:
                self._withdraw()
                return
            if moved:
                moves[slot.number] = moved
        rows = np.array(compiler.rows, dtype=np.int32).reshape(-1, 4)
        nodes = np.array(compiler.node_rows, dtype=np.int32).reshape(-1, 3)
        tests_before = layout.tests_count
        layout.append(np.array(compiler.tests, dtype=np.int32), rows, nodes)
        for slot in compiler.waiting:
            slot.write_labels(layout.tests)
        for place, count in compiler.members:
            layout.tests[place : place + count].sort()
        if moves:
            self._renewal = None  # what it has laid out has the labels of before
        elif self._renewal is not None:
            self._renewal.layout.append(layout.tests[tests_before : layout.tests_count], rows, nodes)
        compiler.taken()
        self._encoder.changed()
        if kernel_cache.is_postponed():
            late_kernels.note_rows(layout.row_count)
        layout.place(compiler.slots, moves, rows_before, nodes_before)
        layout.make_ready(len(compiler.slots))
        if layout.is_outgrown:
            self._renew()
        self._numbering = None
        self._changed = False
        self._placeable = []

    def _withdraw(self) -> None:
        """What waits to be placed has no room between the constants there are: let it wait elsewhere."""
        waiting, self._placeable = self._placeable or [], []
        self._compiler.withdraw()
        numbers = [number for _, _, number in waiting]
        self._free = np.concatenate((self._free, np.array(numbers, dtype=np.int64)))
        self._layout.stamps[numbers] = DEAD
        self._ids[numbers] = 0
        alive = [(id, filter) for id, filter, number in waiting if self._numbers.get(id) == number]
        for id, _ in alive:
            del self._numbers[id]
        self._changed, self._lacks_room = False, True
        self._encoder.changed()
        self._put_apart(alive)

    def _renew(self) -> None:
        """Begin to lay out again, or do it, if that takes no longer than a piece."""
        if self._layout.is_small:
            self._layout.lay_out(self._compiler.slots)
        elif self._renewal is None:
            self._renewal = Renewal(self._layout, self._compiler.slots)

    def _go_on(self) -> None:
        """Do one more piece of what makes the next layout, and put it in place when it is ready; or begin with that."""
        has_few_alive = self._given - len(self._free) > 2 * len(self._numbers) + DEAD_SPARE
        if self._renewal is None and self._newcomers is None and not has_few_alive:
            return
        if not self._changed and not isinstance(self._renewal, Rebuilding) and (has_few_alive or self._room_is_due()):
            self._rebuild()
        if self._renewal is None:
            if self._newcomers is not None and not self._lacks_room:
                self._take_in(self._newcomers)
        elif self._renewal.go_on():
            before, made, self._renewal = self._layout, self._renewal, None
            self._layout = made.layout
            self._layout.stamps = before.stamps
            if isinstance(made, Rebuilding):
                self._rebuilt(made)
            self._layout.make_ready(len(self._compiler.slots))

    def _take_in(self, newcomers: Newcomers) -> None:
        """Let some newcomers in, to be placed before the next event."""
        words, last = len(self._compiler.tests) + TAKEN_TESTS, max(0, len(newcomers) - TAKEN)
        while len(newcomers) > last and len(self._compiler.tests) < words:
            self._put([newcomers.pop()])
        self._newcomers = newcomers or None

    def _room_is_due(self) -> bool:
        """Whether some newcomers lack room, and not all time goes into making room."""
        return self._lacks_room and self._stamp - self._made_at > self._layout.row_count // CALM_SHARE

    def _rebuild(self) -> None:
        """Begin to make the index again. Nothing may wait to be placed."""
        compiler = self._compiler
        waiting = (lambda slot: {}) if self._newcomers is None else self._newcomers.constants(compiler)
        self._renewal = Rebuilding(
            self._layout, compiler.slots, compiler.nodes, compiler.residuals, compiler.keep_slots, waiting
        )
        self._lacks_room = False
        if self._layout.is_small:
            while self._renewal is not None:
                self._go_on()

    def _rebuilt(self, made: Rebuilding) -> None:
        """Use what was made again."""
        used = made.numbered | (self._layout.stamps != DEAD)
        self._given = int(np.flatnonzero(used[: self._given])[-1]) + 1 if used[: self._given].any() else 0
        if 2 * self._given < len(self._ids):
            self._ids = self._ids[: self._given].copy()
            self._layout.stamps = self._layout.stamps[: self._given].copy()
        self._free = np.flatnonzero(~used[: self._given])[::-1]
        self._compiler.rebuilt(made)
        self._encoder.substrings.clear()
        self._encoder.changed()
        self._numbering = None
        self._made_at = self._stamp

    def _compact(self) -> None:
        """Forget what is dead, at once."""
        self._forget_tallies()
        self._ready(0)
        self._rebuild()
        self._ready(0)

    def _take_sample(self) -> tuple[Any, Any]:
        """The codes of the last events, for weighing tests by how many events pass them."""
        return self._encoder.sample(self._sample)

    def _ready(self, events: int, in_pieces: bool = False) -> None:
        """See to it that all is in place before the next events. In pieces, laying out again may take a while."""
        is_enough = False  # for one event
        if self._changed:
            buckets = len(self._layout.table)
            self._settle()
            is_enough = in_pieces and (len(self._layout.table) != buckets or self._layout.growing_maps is not None)
        if (
            self._renewal is None
            and len(self._sample) == SAMPLE
            and len(self._layout.sample[0]) <= SAMPLE
            and self._layout.row_count > TUNED_FROM
        ):
            self._renew()  # for the first time it can be weighed what events really pass
        if not is_enough:
            self._go_on()
        while not in_pieces and (self._renewal is not None or self._newcomers is not None):
            self._made_at = -CALM_MAX
            self._go_on()
            if self._changed:
                self._settle()
        if self._changed:
            self._settle()
        if self._stamp + events >= STAMP_MAX:
            stamps = self._layout.stamps
            stamps[stamps != DEAD] = 0
            self._layout.row_stamps[:] = 0
            self._made_at -= self._stamp
            self._stamp = 0

    # ------------------------------------------------------------ matching

    def _match(self, event: Event) -> list[SubscriptionId]:
        self._ready(1, in_pieces=True)
        several: list[tuple[int, list[int]]] = []
        codes = self._encoder.encode_numbers(event.attributes)
        if codes is None:
            found_codes, several = self._encoder.encode(event.attributes)
            codes = np.array(found_codes, dtype=np.int64)
        self._sample.append(event.attributes)
        self._stamp += 1
        lay = self._layout
        if len(codes) > CODES_USUAL or several:
            lay.make_ready(len(self._compiler.slots), len(codes) + sum(len(labels) for _, labels in several))
        found, doubted = batch_kernels.match_one(
            codes, *(multi_arrays(several) if several else NO_MULTI), *lay.arrays,
            lay.stamps, lay.row_stamps, self._stamp, lay.out, lay.doubts, lay.counts,
        )  # fmt: skip
        numbers = lay.out[:found]
        more = [] if self._newcomers is None else self._newcomers.match(event)
        if doubted:
            numbers = np.concatenate(
                (numbers, self._undoubted(lay.doubts[:doubted].tolist(), event, set(numbers.tolist())))
            )
        return self._ids.take(numbers).tolist() + more  # type: ignore[no-any-return]

    def _undoubted(self, rows: list[int], event: Event, found: set[int]) -> "np.ndarray[Any, Any]":
        """Of rows in doubt the subscriptions that the exact filter confirms and that were not found otherwise."""
        answers: dict[Filter, bool] = {}
        confirmed: list[int] = []
        for row in rows:
            subscription = int(self._layout.rows[row, 2])
            if subscription in found:
                continue
            for part in self._compiler.residuals[row]:
                if part not in answers:
                    answers[part] = part.holds(event.attributes)
                if not answers[part]:
                    break
            else:
                found.add(subscription)
                confirmed.append(subscription)
        return np.array(confirmed, dtype=np.int32)

    def _match_batch(self, columns: Columns, length: int) -> Matches:
        batch = self._encoded(columns, length)
        starts, numbers, doubts = (
            self._match_by_masks(batch) if self._turns_round(length) else self._match_one_by_one(batch)
        )
        if numbers.dtype == np.int64:  # ids already
            return Matches(starts, numbers)
        if doubts:
            starts, numbers = self._settle_doubts(columns, np.arange(length), starts, numbers, doubts)
        return Matches(starts, self._ids[numbers])

    def _count_batch(self, columns: Columns, length: int) -> Longs:
        return self.count_weighted(columns, length, None)

    def _encoded(self, columns: Columns, length: int) -> Batch:
        self._ready(length)
        batch = self._encoder.encode_batch(columns, length)  # which refuses what is not a value, and names its row
        for row in range(0, length, max(1, length // SAMPLE)):
            self._sample.append(next(events_of(one_row(columns, row), 1)).attributes)
        return batch

    def learn(self, columns: Columns, length: int) -> None:
        """Take samples of a batch, so that the next layout is for events like these. Nothing is matched."""
        self._encoded(columns, length)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that filters name: no other column of a batch is ever looked at but to check it."""
        return frozenset(self._compiler.columns)

    @property
    def numbered(self) -> npt.NDArray[Any]:
        """The id of each number that `parts` speaks of; true until subscriptions change."""
        self._ready(0)
        return self._ids[: self._given]

    def parts(self, columns: Columns, length: int) -> Iterator[tuple[Longs, Longs, Any]]:
        """The matches of a batch piece by piece, so that memory for all is never needed.

        A piece is some events, where each one's matches start, and the matches as numbers, which `numbered` turns into
        ids. Events may come in any order; the arrays are valid until the next piece.
        """
        return self._parts_of(self._encoded(columns, length), columns)

    def _parts_of(self, batch: Batch, columns: Columns) -> Iterator[tuple[Longs, Longs, Any]]:
        pieces = self._pieces_by_masks if self._turns_round(batch.length) else self._pieces_one_by_one
        for events, starts, numbers, doubts in pieces(batch):
            if doubts:
                yield events, *self._settle_doubts(columns, events, starts, numbers, doubts)
            else:
                yield events, starts, numbers

    def count_weighted(self, columns: Columns, length: int, weights: Longs | None) -> Longs:
        """What the subscriptions that each event matches weigh; `weights` are by number, all 1 by default."""
        batch, lay = self._encoded(columns, length), self._layout
        totals = np.zeros(length, dtype=np.int64)
        tallies = self._tallied(weights, length)
        if tallies is not None and not batch.multi_event_starts[-1]:
            tallies.add(batch.event_starts, batch.codes, len(self._compiler.slots), totals)
            if self._rest is not None:
                known = {name: column for name, column in columns.items() if name in self._rest.attributes}
                totals += self._rest.count_weighted(known, length, self._rest_weights)
            return totals
        if lay.counts[5] or self._turns_round(length):
            for events, starts, numbers in self._parts_of(batch, columns):
                if weights is not None:
                    starts = np.concatenate(([0], np.cumsum(weights[numbers])))[starts]
                totals[events] = np.diff(starts)
            return totals
        lay.make_ready(len(self._compiler.slots), batch.codes_max)
        if weights is None:
            weights = np.ones(self._given, dtype=np.int64)
        counting.count_many(
            self._busiest_first(batch), batch.event_starts, batch.codes, batch.multi_event_starts, batch.multi_slots,
            batch.multi_starts, batch.multi_codes, batch.multi_labels, *lay.arrays,
            lay.stamps, lay.row_stamps, self._stamp + 1, lay.out, lay.doubts, lay.counts, weights, totals,
        )  # fmt: skip
        self._stamp += length
        return totals

    def _tallied(self, weights: Longs | None, length: int) -> MatchCounter | None:
        """The tallies of what can be tallied, when that is most of it; `_rest` is then an index of all else."""
        if self._tallies is None or self._tallies_weights is not weights:
            if not COMPILED or length < TALLIED_FROM:
                return None
            lay = self._layout
            each = np.ones(self._given, dtype=np.int64) if weights is None else weights
            found = MatchCounter(lay.rows[: lay.row_count], lay.tests, lay.stamps, each)
            self._tallies, self._tallies_weights, self._rest = found, weights, None
            found.worth &= 2 * len(found.subscriptions) >= len(self)
            if found.worth and not found.is_whole:
                self._rest, self._tallies = deepcopy(self), found
                for id in self._ids[found.subscriptions].tolist():
                    self._rest.remove(id)
                self._rest_weights = each
                self._rest._compact()
        return self._tallies if self._tallies.worth else None

    def _forget_tallies(self) -> None:
        self._tallies = self._rest = None

    def _turns_round(self, length: int) -> bool:
        """Whether tests are shared by so many rows that a batch of this length is better matched by masks."""
        if not COMPILED or length < masks.EVENTS // 2 or len(self._compiler.slots) > masks.SLOTS_MAX:
            return False
        if self._numbering is None:
            self._numbering = masks.Numbering(self._layout)
        return self._numbering.worth

    def _match_by_masks(self, batch: Batch) -> Found:
        """By masks; gives ids at once, as int64, where ids are ints and nothing can be in doubt."""
        as_ids = self._ids.dtype == np.int64 and not self._layout.counts[5]
        offsets, parts = np.zeros(batch.length + 1, dtype=np.int64), []
        doubts: dict[int, list[int]] = {}
        for events, starts, numbers, found in self._pieces_by_masks(batch, self._ids if as_ids else None):
            offsets[events + 1] = offsets[events[0]] + starts[1:]
            parts.append(numbers)
            doubts.update({int(events[place]): rows for place, rows in found.items()})
        return offsets, np.concatenate(parts), doubts

    def _pieces_by_masks(self, batch: Batch, own: npt.NDArray[Any] | None = None) -> Iterator[Piece]:
        """Block by block; numbers, or what `own` has for them."""
        assert self._numbering is not None
        turned = masks.Masks(self._layout, self._numbering, len(self._compiler.slots))
        if own is None:
            own = np.arange(self._given, dtype=np.int32)
        for first in range(0, batch.length, masks.EVENTS):
            last = min(batch.length, first + masks.EVENTS)
            for low, high, starts, numbers, rows, row_masks in turned.block(batch, first, last, own):
                bits = np.unpackbits(row_masks.view(np.uint8), axis=1, bitorder="little") if len(rows) else row_masks
                doubts: dict[int, list[int]] = {}
                for place, event in zip(*np.nonzero(bits[:, low:high]), strict=True):
                    doubts.setdefault(int(event), []).append(int(rows[place]))
                yield np.arange(first + low, first + high), starts, numbers, doubts

    def _busiest_first(self, batch: Batch) -> Longs:
        """Events that visit the same bucket one after the other, so that it is still near."""
        busiest = np.zeros(batch.length, dtype=np.int64)
        batch_kernels.busiest_codes(batch.event_starts, batch.codes, self._layout.table, busiest)
        return np.argsort(busiest, kind="stable")

    def _match_one_by_one(self, batch: Batch) -> Found:
        length = batch.length
        order, starts = np.zeros(length, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
        parts, first = [np.zeros(0, dtype=np.int32)], 0
        doubts: dict[int, list[int]] = {}
        for events, piece_starts, numbers, found in self._pieces_one_by_one(batch):
            last = first + len(events)
            order[first:last] = events
            starts[first + 1 : last + 1] = starts[first] + piece_starts[1:]
            parts.append(numbers.copy())
            doubts.update({int(events[place]): rows for place, rows in found.items()})
            first = last
        numbers, offsets = np.concatenate(parts), np.zeros(length + 1, dtype=np.int64)
        offsets[order + 1] = np.diff(starts)
        np.cumsum(offsets, out=offsets)
        in_order = np.empty_like(numbers)
        batch_kernels.put_in_order(order, numbers, starts, offsets, in_order)
        return offsets, in_order, doubts

    def _pieces_one_by_one(self, batch: Batch) -> Iterator[Piece]:
        """As many events at a time as there is room for."""
        lay, length = self._layout, batch.length
        lay.make_ready(len(self._compiler.slots), batch.codes_max)
        order = self._busiest_first(batch)
        out = np.empty(max(OUT_LENGTH, 2 * len(lay.stamps)), dtype=np.int32)
        doubtful = np.empty(max(1, min(16, length) * int(lay.counts[5])), dtype=np.int32)
        out_starts, doubt_starts = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
        first = 0
        while first < length:
            last = batch_kernels.match_many(
                first, order, batch.event_starts, batch.codes, batch.multi_event_starts, batch.multi_slots,
                batch.multi_starts,
                batch.multi_codes, batch.multi_labels, *lay.arrays,
                lay.stamps, lay.row_stamps, self._stamp + 1, out, out_starts, doubtful, doubt_starts, lay.counts,
            )  # fmt: skip
            count = last - first
            self._stamp += count
            doubts = {
                at: doubtful[doubt_starts[at] : doubt_starts[at + 1]].tolist()
                for at in np.flatnonzero(np.diff(doubt_starts[: count + 1])).tolist()
            }
            yield order[first:last], out_starts[: count + 1], out[: out_starts[count]], doubts
            first = last

    def _settle_doubts(
        self, columns: Columns, events: Any, starts: Any, numbers: Any, doubts: dict[int, list[int]]
    ) -> tuple[Any, Any]:
        """Ask exactly for the rows in doubt, which are by place among `events`.

        Returns where each event's numbers start, and the numbers with those confirmed.
        """
        confirmed, where = [], []
        for place, rows in sorted(doubts.items()):
            event = next(events_of(one_row(columns, int(events[place])), 1))
            more = self._undoubted(rows, event, set(numbers[starts[place] : starts[place + 1]].tolist()))
            confirmed.append(more)
            where.append(np.full(len(more), place))
        places = np.concatenate(where).astype(np.int64)
        grown_starts = starts + np.concatenate(([0], np.cumsum(np.bincount(places, minlength=len(starts) - 1))))
        return grown_starts, np.insert(numbers, starts[places + 1], np.concatenate(confirmed))

    # ------------------------------------------------------------ in a file

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the index to a file that `load` maps. Ids must be ints, texts, or tuples of those."""
        from godwit.matching import index_file

        index_file.save(self, path)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", verify: bool = False) -> "IndexMatcher":
        """The index in a file, its pages shared by all processes that load it.

        With `verify` every byte is checked, not only the metadata.
        """
        from godwit.matching import index_file

        return index_file.load(path, verify)

"""Makes an index again in pieces, without the dead, and with room between its constants, while the old one serves.

*Theory.* All that is derived from labels is made again: first it is noted which rows, nodes, constants and slots are
still asked for; then the constants that stay get labels evenly spread over their stretch, together with those that wait
for room; then rows are copied with their new labels; then a layout is made of them. Nothing that serves is changed
until `go_on` says that all is ready.

*Rules.*
1. While this is under way nothing may be added to the layout and the compiler that serve. Subscriptions may be removed:
   they are stamped `DEAD` in what both share.
2. Numbers of subscriptions and slots stay; those without a use are named, to be given again. Rows and nodes are
   numbered again.
3. A piece is bounded in rows, words of tests, constants and slots, whatever there is in all.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.filters import Filter
from godwit.filters.values import Kind
from godwit.matching import layout, rewriting
from godwit.matching.kernels import DEAD
from godwit.matching.labels import STRETCH, Constants, Slot
from godwit.matching.layout import Ints, Layout, Longs, times_slower

__all__ = ["Rebuilding"]

WORDS_OF_ROW = 12  # of tests, in a row that takes as long as `PIECE_ROWS` are meant for
PIECE_ENTRIES = 8_192  # of dicts, about 2 ms

LOWS = np.array([low for low, _ in STRETCH.values() if low], dtype=np.int64)
Waiting = Callable[[Slot], Mapping[Kind, Any]]
"""The keys that wait for room in a slot."""


class Rebuilding:
    """The index that is made, and what is left to do."""

    def __init__(
        self,
        serving: Layout,
        slots: list[Slot],
        nodes: Mapping[Filter, int],
        residuals: Mapping[int, tuple[Filter, ...]],
        keep_slots: Callable[[npt.NDArray[np.bool_]], None],
        waiting: Waiting,
    ) -> None:
        self._old, self._slots, self._waiting, self._keep_slots = serving, slots, waiting, keep_slots
        self._old_nodes, self._old_residuals = nodes, residuals
        self.layout = Layout()
        self.slots: list[Slot] = []  # with the new constants; those without a use are empty
        self.slots_used = np.zeros(len(slots), dtype=np.bool_)
        self.nodes: dict[Filter, int] = {}
        self.residuals: dict[int, tuple[Filter, ...]] = {}
        self.numbered = np.zeros(len(serving.stamps), dtype=np.bool_)  # which subscriptions have rows
        self._pieces = self._work()

    def go_on(self) -> bool:
        """Do one piece of the work; whether that was the last one."""
        return next(self._pieces, self) is self

    def _work(self) -> Iterator[None]:
        old, new = self._old, self.layout
        rows, nodes = old.rows[: old.row_count], old.nodes[: old.node_count]
        kept, nodes_kept = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
        row_spans, node_spans = list(_spans(rows)), list(_spans(nodes))
        yield
        for span in row_spans:
            rewriting.keep_rows(*span, rows, old.stamps, DEAD, old.tests, kept, nodes_kept)
            yield
        for span in reversed(node_spans):
            rewriting.keep_nodes(*span, nodes, old.tests, nodes_kept)
            yield
        starts, labels = yield from self._constants()
        wanted = np.zeros(len(labels), dtype=np.bool_)
        for source, good, spans in ((nodes, nodes_kept, node_spans), (rows, kept, row_spans)):
            for span in spans:
                rewriting.note_uses(*span, source, good, old.tests, starts, labels, wanted, self.slots_used)
                yield
        self._keep_slots(self.slots_used)
        given = yield from self._give_labels(starts, wanted)
        ends = np.zeros(2, dtype=np.int64)
        new.tests = np.empty(old.tests_count, dtype=np.int32)
        new.nodes, new.rows = (
            np.empty((int(np.count_nonzero(good)), each.shape[1]), dtype=np.int32)
            for good, each in ((nodes_kept, nodes), (kept, rows))
        )
        node_numbers, row_numbers = np.empty(len(nodes), dtype=np.int32), np.empty(len(rows), dtype=np.int32)
        for source, good, spans, numbers, target in (
            (nodes, nodes_kept, node_spans, node_numbers, new.nodes),
            (rows, kept, row_spans, row_numbers, new.rows),
        ):
            ends[1] = 0
            for span in spans:
                rewriting.copy_kept(
                    *span, source, good, numbers, node_numbers, old.tests, starts, labels, given, target, new.tests,
                    ends,
                )  # fmt: skip
                yield
        new.tests_count, new.row_count, new.node_count = int(ends[0]), len(new.rows), len(new.nodes)
        self.numbered[new.rows[:, 2]] = True
        yield
        for some in _parts(self._old_nodes):
            alive = ((filter, int(node_numbers[node >> 2]), node & 3) for filter, node in some)
            self.nodes.update((filter, number << 2 | mark) for filter, number, mark in alive if number >= 0)
            yield
        for more in _parts(self._old_residuals):
            numbered = ((int(row_numbers[row]), parts) for row, parts in more)
            self.residuals.update((row, parts) for row, parts in numbered if row >= 0)
            yield
        codes_starts, codes = old.take_sample()
        rewriting.move_codes(codes, starts, labels, given, LOWS)
        new.take_sample, new.codes_max = lambda: (codes_starts, codes), old.codes_max
        yield from new.pieces(self.slots)
        new.take_sample = old.take_sample

    def _constants(self) -> Generator[None, None, tuple[Longs, Ints]]:
        """Where the constants of each slot start, and the labels of all."""
        starts = np.zeros(len(self._slots) + 1, dtype=np.int64)
        parts = [np.zeros(0, dtype=np.int32)]
        for number, slot in enumerate(self._slots):
            for kind in _in_order(slot.constants):
                parts.append(np.array(slot.constants[kind].labels, dtype=np.int32))
                starts[number + 1] += len(parts[-1])
            if (number + 1) % layout.PIECE_SLOTS == 0:
                yield
        np.cumsum(starts, out=starts)
        labels = np.concatenate(parts)
        yield
        return starts, labels

    def _give_labels(self, starts: Longs, wanted: Any) -> Generator[None, None, Ints]:
        """Make the new constants of each slot. Returns what the label of each old one becomes."""
        given = np.zeros(len(wanted), dtype=np.int32)
        for number, slot in enumerate(self._slots):
            is_used = bool(self.slots_used[number])
            made = Slot(number, slot.queue, slot.of_pattern or not is_used)
            self.slots.append(made)
            first, waiting = int(starts[number]), self._waiting(slot) if is_used else {}
            for kind in _in_order(slot.constants) if is_used else ():
                before = slot.constants[kind]
                last = first + len(before.labels)
                made.constants[kind], given[first:last] = yield from before.renewed(
                    wanted[first:last], waiting.get(kind, ())
                )
                first = last
            if slot.constants and is_used:
                made.constants = {kind: each for kind, each in made.constants.items() if len(each.labels)}
            if (number + 1) % layout.PIECE_SLOTS == 0:
                yield
        return given


def _in_order(constants: Mapping[Kind, Constants]) -> list[Kind]:
    """Kinds in the order of their stretches."""
    return sorted(constants, key=lambda kind: STRETCH[kind])


def _spans(source: Any) -> Iterator[tuple[int, int]]:
    """Rows or nodes divided so that each part has about as many words of tests as make a piece."""
    if len(source):
        words = WORDS_OF_ROW * layout.PIECE_ROWS // times_slower()
        ends = (np.flatnonzero(np.diff((source[:, 0] - source[0, 0]) // words)) + 1).tolist()
        yield from zip([0, *ends], [*ends, len(source)], strict=True)


def _parts(entries: Mapping[Any, Any]) -> Iterator[list[tuple[Any, Any]]]:
    """The entries of a dict, some at a time."""
    each = iter(entries.items())
    while some := list(islice(each, PIECE_ENTRIES)):
        yield some

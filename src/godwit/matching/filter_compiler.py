"""From filters to tests: the preparation of a filter, once, when it is added.

*Theory.* A filter in negation normal form becomes a few conjunctions, each a row of tests `(word, a, b)` on slots. A
literal is one test, or two (a box asks for longitude and latitude). A formula inside a conjunction becomes a *node*, a
row of tests of its own, shared by all filters that contain the same formula. Nothing is multiplied out beyond
`CONJUNCTIONS_MAX`.

Some sets have no exact test: circles, polygons and LIKE patterns with holes. They are tested for what surrounds them (a
box, a prefix) and the conjunction is marked *residual*: what passes is asked once more, exactly. A box that one of
several points must lie in is residual only for events with several.

*Rules.*
1. Tests pass at least what the filter matches; without a residual mark, exactly that.
2. Labels are not known here: a test waits for its labels (`labels.py`) until the next match.
3. `withdraw` undoes all that was compiled since `taken`, but for slots and columns, which may stay without a use.
"""

from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from godwit.filters import relations
from godwit.filters.filters import And, Filter, Literal, Missing, Only, Or, Some, any_of
from godwit.filters.regions import Box, Circle, Polygon, Region
from godwit.filters.sets import (
    Complement,
    Everything,
    Interval,
    Like,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    one_of,
)
from godwit.filters.values import Kind, Value
from godwit.matching.kernels import (
    KIND_SHIFT,
    MARK_SHIFT,
    MEMBER,
    NO_MEMBER,
    NODE,
    ONLY,
    OP_AND,
    OP_OR,
    OUTSIDE,
    RANGE,
    RESIDUAL_ALWAYS,
    RESIDUAL_MULTI,
)
from godwit.matching.labels import (
    ABOVE,
    BELOW,
    EVERY_VALUE_HOLDS,
    EXACTLY,
    LABEL_FALSE,
    LABEL_MAX,
    LABEL_TRUE,
    SOME_VALUE_HOLDS,
    STRETCH,
    TWICE,
    Slot,
)
from godwit.matching.rebuilding import Rebuilding
from godwit.matching.topic_shapes import TopicShapes

CONJUNCTIONS_MAX = 8
PRESENT = (0, LABEL_MAX)
NEVER = -1


class IndexedAttribute:
    """What the index knows of one attribute.

    A slot for its value, and slots for other aspects when a filter asks for them.
    """

    __slots__ = ("backwards", "latitude", "longitude", "patterns", "plain", "slot", "topics")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.plain = True  # nothing but the slot: an event's value is one code
        self.backwards: Slot | None = None
        self.longitude: Slot | None = None
        self.latitude: Slot | None = None
        self.patterns: dict[str, int] = {}  # substring -> number of the slot that says whether it is there
        self.topics: TopicShapes | None = None  # the same for topic patterns

    @property
    def has_aspects(self) -> bool:
        """Whether a text has further codes than that of its value."""
        return bool(self.patterns) or any(
            aspect is not None for aspect in (self.backwards, self.longitude, self.topics)
        )


class Compiler:
    """Turns filters into rows of tests. The arrays hold what was compiled since `taken`."""

    def __init__(self) -> None:
        self.columns: dict[str, IndexedAttribute] = {}
        self.waiting: list[Slot] = []  # slots in which constants wait for labels
        self.slots: list[Slot] = [Slot(0, self.waiting)]  # slot 0 is for attributes that no filter asks for
        self.free_slots: list[int] = []  # numbers to be given again
        self.nodes: dict[Filter, int] = {}
        self.residuals: dict[int, tuple[Filter, ...]] = {}  # conjunction -> what must be asked exactly
        self.tests = array("i")
        self.tests_before = 0  # tests taken earlier: places are counted from the very first
        self.rows = array("i")  # start, number of tests, subscription, residual mark
        self.rows_before = 0
        self.node_rows = array("i")  # start, number of tests, operation
        self.nodes_before = 0
        self.members: list[tuple[int, int]] = []  # lists of labels still to be sorted

    def taken(self) -> None:
        """The arrays were taken into the layout: begin new ones."""
        self.tests_before += len(self.tests)
        self.rows_before += len(self.rows) // 4
        self.nodes_before += len(self.node_rows) // 3
        self.tests, self.rows, self.node_rows = array("i"), array("i"), array("i")
        self.members.clear()
        self.waiting.clear()

    def withdraw(self) -> None:
        """Forget what was compiled since `taken`. Slots and columns that it brought stay, without a use."""
        for _ in range(len(self.node_rows) // 3):
            self.nodes.popitem()  # the last ones: each row of a node brought one
        for row in range(self.rows_before, self.rows_before + len(self.rows) // 4):
            if row in self.residuals:
                del self.residuals[row]
        for slot in self.waiting:
            slot.waiting.clear()
        self.tests, self.rows, self.node_rows = array("i"), array("i"), array("i")
        self.members.clear()
        self.waiting.clear()

    def rebuilt(self, made: Rebuilding) -> None:
        """Take over what was made again, and forget slots without a use, and columns that have no other."""
        self.nodes, self.residuals = made.nodes, made.residuals
        layout = made.layout
        self.tests_before, self.rows_before, self.nodes_before = layout.tests_count, layout.row_count, layout.node_count
        used = made.slots_used
        for name, column in list(self.columns.items()):
            if not used[column.slot.number]:
                del self.columns[name]
                continue
            if not all(used[slot] for slot in column.patterns.values()):
                column.patterns = {text: slot for text, slot in column.patterns.items() if used[slot]}
            if column.topics is not None and not all(used[slot] for _, slot in column.topics.items()):
                column.topics = TopicShapes.of({text: slot for text, slot in column.topics.items() if used[slot]})
            if column.backwards is not None and not used[column.backwards.number]:
                column.backwards = None
            if column.longitude is not None and not used[column.longitude.number]:
                column.longitude = column.latitude = None
            column.plain = not column.has_aspects
        last = int(np.flatnonzero(used)[-1])
        self.slots = [
            new if not is_used else old
            for old, new, is_used in zip(self.slots[: last + 1], made.slots, used.tolist(), strict=False)
        ]
        for slot, new in zip(self.slots, made.slots, strict=False):
            if slot is not new and not slot.of_pattern:
                slot.constants = new.constants
        self.free_slots = np.flatnonzero(~used[: last + 1]).tolist()

    def keep_slots(self, used: npt.NDArray[np.bool_]) -> None:
        """Mark the slots that stay although no test is on them: of columns, where another slot is used."""
        used[0] = True
        for column in self.columns.values():
            if column.longitude is not None and column.latitude is not None:
                is_asked = used[column.longitude.number] or used[column.latitude.number]
                used[column.longitude.number] = used[column.latitude.number] = is_asked
            aspects = [slot.number for slot in (column.backwards, column.longitude) if slot is not None]
            topics = () if column.topics is None else (slot for _, slot in column.topics.items())
            if any(used[slot] for slot in chain(aspects, column.patterns.values(), topics)):
                used[column.slot.number] = True

    # ------------------------------------------------------------ conjunctions and nodes

    def compile(self, subscription: int, filter: Filter) -> None:
        """Append the conjunctions of `filter` for the subscription with this number."""
        for parts in conjunctions(filter):
            self._conjunction(subscription, parts)

    def _conjunction(self, subscription: int, parts: tuple[Filter, ...]) -> None:
        prepared = [self._prepared(part) for part in parts]
        start = self._here()
        mark, residual = 0, []
        for part, place in zip(parts, prepared, strict=True):
            doubt = self._write(part, place)
            if doubt:
                if doubt == NEVER:
                    return  # the conjunction can be left out; its tests are forgotten at the next compaction
                mark |= doubt
                residual.append(part)
        if residual:
            self.residuals[self.rows_before + len(self.rows) // 4] = tuple(residual)
        self.rows.extend((start, (self._here() - start) // 3, subscription, mark))

    def _here(self) -> int:
        return self.tests_before + len(self.tests)

    def _prepared(self, part: Filter) -> int:
        """Write what must stand outside the row: the labels of a list, or a node.

        Returns its place or number, or -1.
        """
        if isinstance(part, And | Or):
            return self._node(part)[0]
        if isinstance(part, Missing):
            return -1
        values = part.values
        if type(values) is Complement:
            values = values.inner
        if type(values) is OneOf:
            return self._members(part.attribute, values.values) if len(values.values) > 1 else -1
        return self._members(part.attribute, values.names) if type(values) is Places else -1

    def _members(self, attribute: str, values: tuple[Value, ...]) -> int:
        """Write a list of labels; returns its place."""
        slot, place = self._column(attribute).slot, self._here()
        for number, value in enumerate(values):
            if type(value) is bool:
                self.tests.append(LABEL_TRUE if value else LABEL_FALSE)
            else:
                self.tests.append(0)
                slot.await_label(value, place + number, EXACTLY)
        self.members.append((place, len(values)))
        return place

    def _node(self, filter: And | Or) -> tuple[int, int]:
        """The number of the node for a formula, and its residual mark."""
        key: Any = filter
        known = self.nodes.get(key)
        if known is not None:
            return known >> 2, (known & 3) << MARK_SHIFT
        alone = isinstance(filter, Or)  # within an AND the two tests of a literal can stand in the same row
        prepared = [(part, self._prepared(part)) for part in filter.parts if not (alone and self._splits(part))]
        split = [self._node(And((part,))) for part in filter.parts if alone and self._splits(part)]
        start, mark = self._here(), 0
        for part, place in prepared:
            doubt = self._write(part, place)
            if doubt != NEVER:
                mark |= doubt
            elif isinstance(filter, And):
                self.tests.extend((0, -2, -2))  # a label there never is
        for node, doubt in split:
            self.tests.extend((node | NODE << KIND_SHIFT, 0, 0))
            mark |= doubt
        number = self.nodes_before + len(self.node_rows) // 3
        self.node_rows.extend((start, (self._here() - start) // 3, OP_AND if isinstance(filter, And) else OP_OR))
        self.nodes[key] = number << 2 | mark >> MARK_SHIFT
        return number, mark

    @staticmethod
    def _splits(part: Filter) -> bool:
        """Whether a literal needs two tests, and so a node of its own inside another node."""
        if isinstance(part, And | Or | Missing):
            return False
        values = part.values
        return isinstance(values, Region) or (
            isinstance(values, Complement) and isinstance(values.inner, Substring | TopicPattern)
        )

    # ------------------------------------------------------------ literals

    def _write(self, part: Filter, place: int) -> int:
        """Append the tests of one part of a row. Returns its residual mark, or NEVER when it can never hold."""
        if isinstance(part, And | Or):
            number, mark = self._node(part)
            self.tests.extend((number | NODE << KIND_SHIFT, 0, 0))
            return mark
        column = self.columns.get(part.attribute) or self._column(part.attribute)
        if isinstance(part, Missing):
            self.tests.extend((column.slot.number, -1, -1))
            return 0
        only = ONLY if type(part) is Only else 0
        values = part.values
        inverse = type(values) is Complement
        if inverse:
            values = values.inner  # type: ignore[attr-defined]
        return self._writers.get(type(values), Compiler._inexact)(self, column, values, inverse, only, place)

    def _range(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        self._range_on(column.slot, values, inverse, only)
        return 0

    def _range_on(self, slot: Slot, values: Interval, inverse: bool, only: int) -> None:
        tests = self.tests
        place = self.tests_before + len(tests)
        tests.extend((slot.number | (OUTSIDE if inverse else RANGE) << KIND_SHIFT | only, *STRETCH[values.kind]))
        if values.kind is Kind.TEXT and (values.low is not None or values.high is not None):
            slot.orders_texts = True
        if values.low is not None:
            slot.await_label(values.low, place + 1, ABOVE if values.low_open else EXACTLY)
        if values.high is not None:
            slot.await_label(values.high, place + 2, BELOW if values.high_open else EXACTLY)

    def _list(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        slot, tests = column.slot, self.tests
        if place >= 0:
            kind = NO_MEMBER if inverse else MEMBER
            tests.extend((slot.number | kind << KIND_SHIFT | only, place, len(values.members)))
            return 0
        value = values.values[0]
        label = LABEL_TRUE if value is True else LABEL_FALSE
        tests.extend((slot.number | (OUTSIDE if inverse else RANGE) << KIND_SHIFT | only, label, label))
        if type(value) is not bool:
            slot.await_label(value, self.tests_before + len(tests) - 2, TWICE)
        return 0

    def _prefix(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        self._range_on(column.slot, relations.range_of(values), inverse, only)
        return 0

    def _suffix(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        if column.backwards is None:
            column.plain = False
            column.backwards = self._new_slot()
        self._range_on(column.backwards, relations.range_of(Prefix(values.text[::-1])), inverse, only)
        return 0

    def _nothing(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        return NEVER

    def _everything(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        self.tests.extend((column.slot.number, *PRESENT))
        return 0

    def _substring(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        number = column.patterns.get(values.text)
        if number is None:
            column.plain = False
            number = column.patterns[values.text] = self._new_slot(of_pattern=True).number
        return self._on_pattern(column, number, inverse, only)

    def _topic(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        if column.topics is None:
            column.plain, column.topics = False, TopicShapes()
        number = column.topics.get(values.pattern)
        if number is None:
            if not column.topics.has_room_for(values.pattern):
                return self._inexact(column, values, inverse, only, place)
            number = self._new_slot(of_pattern=True).number
            column.topics.add(values.pattern, number)
        return self._on_pattern(column, number, inverse, only)

    def _on_pattern(self, column: IndexedAttribute, number: int, inverse: bool, only: int) -> int:
        """The tests on the slot of a substring or topic pattern."""
        if inverse:
            self.tests.extend((column.slot.number, *PRESENT))
            self.tests.extend((number, -1, -1 if only else SOME_VALUE_HOLDS))
        else:
            self.tests.extend((number, EVERY_VALUE_HOLDS if only else SOME_VALUE_HOLDS, EVERY_VALUE_HOLDS))
        return 0

    def _region(self, column: IndexedAttribute, region: Any, inverse: bool, only: int, place: int) -> int:
        if inverse:
            self.tests.extend((column.slot.number, *PRESENT))
            return RESIDUAL_ALWAYS
        if column.longitude is None or column.latitude is None:
            column.plain = False
            column.longitude, column.latitude = self._new_slot(), self._new_slot()
        west, south, east, north = region.bounds
        if west <= east:
            self._range_on(column.longitude, Interval(Kind.NUMBER, west, east), False, only)
        else:
            self._range_on(column.longitude, Interval(Kind.NUMBER, east, west, True, True), True, only)
        self._range_on(column.latitude, Interval(Kind.NUMBER, south, north), False, only)
        if type(region) is not Box:
            return RESIDUAL_ALWAYS
        return 0 if only and west <= east else RESIDUAL_MULTI

    def _inexact(self, column: IndexedAttribute, values: Any, inverse: bool, only: int, place: int) -> int:
        """A set without a test of its own: for a pattern its prefix, for any other that there is a value."""
        if type(values) in (Like, TopicPattern) and not inverse:
            self._range_on(column.slot, relations.range_of(values), False, only)
        else:
            self.tests.extend((column.slot.number, *PRESENT))
        return RESIDUAL_ALWAYS

    _writers: ClassVar[dict[type, Callable[["Compiler", IndexedAttribute, Any, bool, int, int], int]]] = {
        Interval: _range,
        OneOf: _list,
        Places: _list,
        Prefix: _prefix,
        Suffix: _suffix,
        Substring: _substring,
        TopicPattern: _topic,
        Nothing: _nothing,
        Everything: _everything,
        Box: _region,
        Circle: _region,
        Polygon: _region,
    }

    # ------------------------------------------------------------ columns and slots

    def _column(self, attribute: str) -> IndexedAttribute:
        column = self.columns.get(attribute)
        if column is None:
            column = self.columns[attribute] = IndexedAttribute(self._new_slot())
        return column

    def _new_slot(self, of_pattern: bool = False) -> Slot:
        if self.free_slots:
            number = self.free_slots.pop()
            slot = self.slots[number] = Slot(number, self.waiting, of_pattern)
            return slot
        slot = Slot(len(self.slots), self.waiting, of_pattern)
        self.slots.append(slot)
        return slot


def conjunctions(filter: Filter) -> list[tuple[Filter, ...]]:
    """The filter as at most `CONJUNCTIONS_MAX` conjunctions of literals and formulas."""
    if not isinstance(filter, Or):
        return _distributed(filter.parts if isinstance(filter, And) else (filter,), CONJUNCTIONS_MAX)
    alternatives = filter.parts
    if len(alternatives) > CONJUNCTIONS_MAX:
        alternatives = _joined(alternatives)
        if len(alternatives) > CONJUNCTIONS_MAX:
            return [(any_of(*alternatives),)]
    room = CONJUNCTIONS_MAX // max(1, len(alternatives))
    return list(
        chain.from_iterable(
            _distributed(part.parts if isinstance(part, And) else (part,), room) for part in alternatives
        )
    )


def _distributed(parts: tuple[Filter, ...], room: int) -> list[tuple[Filter, ...]]:
    """A conjunction of nothing but formulas, which no access test leads to, is multiplied out by its shortest one."""
    if any(not isinstance(part, And | Or) for part in parts):
        return [parts]
    shortest = min((part for part in parts if isinstance(part, Or)), key=lambda part: len(part.parts), default=None)
    if shortest is None or len(shortest.parts) > room:
        return [parts]
    others = tuple(part for part in parts if part is not shortest)
    return [(part.parts if isinstance(part, And) else (part,)) + others for part in shortest.parts]


def _joined(alternatives: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """`a = 1 OR a = 2 OR ...` with its equalities on one attribute made one list."""
    lists: dict[str, list[Value]] = {}
    others: list[Filter] = []
    for part in alternatives:
        if isinstance(part, Some) and isinstance(part.values, OneOf):
            lists.setdefault(part.attribute, []).extend(part.values.values)
        else:
            others.append(part)
    joined: list[Literal] = [Some(attribute, one_of(values)) for attribute, values in lists.items()]
    return (*joined, *others)
